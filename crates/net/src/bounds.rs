//! What the system lets this process have: how many open files, and how long a file.

use crate::executor::Budget;
use deltic_protocol::limits::MAX_ACTIVE_FILES;
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

/// Takes as many open files as are of use, and lets a write beyond the longest file fail: that ends one file, where the
/// system's signal would end the process.
pub(crate) fn meet(runtime: &Runtime) {
    let _entered = runtime.enter();
    // Once heard, a signal is never deadly again. Where it cannot be, all is as it was.
    let _ = signal(SignalKind::from_raw(Signal::XFSZ.as_raw()));
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_some_and(|now| now < ENOUGH_FILES) {
        let most = maximum.map_or(ENOUGH_FILES, |most| most.min(ENOUGH_FILES));
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum });
    }
}

/// Most files that may be under way at once, if the process or the budget may have fewer open than a session needs.
pub(crate) fn files_at_once(budget: &Budget) -> Option<usize> {
    let limit = getrlimit(Resource::Nofile).current.and_then(|limit| usize::try_from(limit).ok());
    let at_once = |handles: usize| handles.saturating_sub(HANDLES_BESIDES) / HANDLES_A_FILE;
    // A session whose budget is less than one file needs waits for that one file.
    let own = budget.open_files.map(|handles| at_once(handles).max(1));
    let files = [limit.map(at_once), own].into_iter().flatten().min()?;
    (files < MAX_ACTIVE_FILES).then_some(files)
}

/// Open files with which nothing has to wait.
const ENOUGH_FILES: u64 = 4096;
/// Open files that are no file under way: streams, and directories that are held.
const HANDLES_BESIDES: usize = 40;
/// As many files as one that is under way holds open here: its old version, what is like it, the staged one, and the
/// new version, where the sender is here too.
const HANDLES_A_FILE: usize = 4;
