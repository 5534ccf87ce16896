//! The system's limits for this process: the number of open files, and the length of a file.

use crate::executor::Budget;
use deltic_protocol::limits::MAX_ACTIVE_FILES;
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

/// Raises the limit of open files as far as useful. Makes a write beyond the longest allowed file fail. Such a failure
/// ends one file; the system's signal would end the process.
pub(crate) fn raise_open_file_limit(runtime: &Runtime) {
    let _entered = runtime.enter();
    // A signal with a handler never ends the process. If the handler cannot be installed, nothing changes.
    let _ = signal(SignalKind::from_raw(Signal::XFSZ.as_raw()));
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_some_and(|now| now < ENOUGH_FILES) {
        let most = maximum.map_or(ENOUGH_FILES, |most| most.min(ENOUGH_FILES));
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum });
    }
}

/// Returns the most files to sync at once, if the process or the budget may open fewer files than a session needs.
pub(crate) fn files_at_once(budget: &Budget) -> Option<usize> {
    let limit = getrlimit(Resource::Nofile).current.and_then(|limit| usize::try_from(limit).ok());
    let at_once = |handles: usize| handles.saturating_sub(HANDLES_BESIDES) / HANDLES_A_FILE;
    // A session always syncs at least one file, even with a smaller budget.
    let own = budget.open_files.map(|handles| at_once(handles).max(1));
    let files = [limit.map(at_once), own].into_iter().flatten().min()?;
    (files < MAX_ACTIVE_FILES).then_some(files)
}

/// Number of open files that is enough for a session.
const ENOUGH_FILES: u64 = 4096;
/// File descriptors reserved for streams and directories.
const HANDLES_BESIDES: usize = 40;
/// Most open files for each file being synced: the old version, a similar file, the staged file, and the new version
/// if the sender is in this process too.
const HANDLES_A_FILE: usize = 4;
