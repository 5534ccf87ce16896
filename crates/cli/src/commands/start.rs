//! Steps before a command runs: explains refused arguments, checks the environment.

use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use deltic_core::Isa;
use deltic_tree::path::printable;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;

use crate::args::refusal::UsageError;
use crate::args::sync;
use crate::report::exit::Exit;
use crate::report::output;

/// Prints the reason why arguments are invalid, or the requested help.
pub(crate) fn explain(refusal: &UsageError) -> Exit {
    if !refusal.error().use_stderr() {
        let _ = refusal.error().print(); // The reader may have left.
        return Exit::Success;
    }
    if let Some((word, why)) = refusal.not_yet() {
        output::complain(&format!("'{word}' is not supported"), Some(why));
        return Exit::Usage;
    }
    let exit = if refusal.is_way_to_compress() { Exit::Unsupported } else { Exit::Usage };
    let text = refusal.text();
    let origin = refusal.origin(&text);
    if origin.is_some() || output::behaves_like_rsync() {
        let hint = origin.as_deref().or_else(|| refusal.is_helped().then_some(sync::HELP));
        output::complain(&refusal.in_rsyncs_words(&text), hint);
        return exit;
    }
    match text.strip_prefix("error: ") {
        Some(what) => output::note(&format!("deltic: {what}")),
        None => output::note(&text),
    }
    if refusal.lacks_command(&text) {
        output::note("  hint: to sync as rsync does, write `deltic sync [OPTIONS] SRC... DEST`\n");
    }
    if refusal.lacks_version(&text) {
        output::note(RESTORE_HINT);
    }
    exit
}

/// Hint for a restore without a version and a time.
const RESTORE_HINT: &str = "  hint: `deltic versions URL` lists the versions; \
     `deltic restore URL --at '2 days ago'` restores the version of that time\n";

/// Makes chunkers use the instruction set that the environment names. Returns an exit code if this machine lacks the
/// instruction set.
pub(crate) fn prefer_isa() -> Option<Exit> {
    let name = std::env::var_os(ISA_VARIABLE).filter(|name| !name.is_empty())?;
    match name.to_string_lossy().parse::<Isa>() {
        Ok(isa) => {
            isa.prefer();
            None
        }
        Err(unknown) => {
            let hint = "without the variable, the best instruction set is used";
            output::complain(&format!("{}: {unknown}", ISA_VARIABLE), Some(hint));
            Some(Exit::Usage)
        }
    }
}

/// The environment variable that names the instruction set of chunkers.
const ISA_VARIABLE: &str = "DELTIC_ISA";

/// Warns of files with aliases for rsync.
///
/// rsync reads them with its option library, popt (`rsync alias --mirror -a --delete`). Deltic does not read them.
pub(crate) fn warn_of_aliases() {
    let own = std::env::var_os("HOME").map(|home| Path::new(&home).join(".popt"));
    for file in own.into_iter().chain([PathBuf::from("/etc/popt")]) {
        let mut text = Vec::new();
        let read = File::open(&file).and_then(|file| file.take(MAX_BYTES).read_to_end(&mut text));
        if read.is_ok() && has_aliases(&text) {
            let file = printable(file.as_os_str().as_bytes());
            let what = format!("{file}: aliases of rsync are not read; write the options out");
            output::complain(&what, None);
        }
    }
}

/// True if a line defines an alias for rsync, or runs another program.
fn has_aliases(text: &[u8]) -> bool {
    String::from_utf8_lossy(text).lines().any(|line| {
        let mut words = line.split_whitespace();
        words.next() == Some("rsync") && matches!(words.next(), Some("alias" | "exec"))
    })
}

/// Most bytes read of a file.
const MAX_BYTES: u64 = 1 << 20;

const FAKEROOT: &str = "fakeroot";
const PSEUDO: &str = "pseudo";

/// Refuses to run under a wrapper (`LD_PRELOAD`) that cannot intercept this binary's system calls.
///
/// fakeroot and pseudo keep owners, modes and devices in a database of their own. A run that bypasses the wrapper
/// would silently change the real owners, modes and devices.
pub(crate) fn refuse_wrapper() -> Option<Exit> {
    let preloaded = std::env::var_os("LD_PRELOAD")?.into_string().ok()?;
    let wrapper = [FAKEROOT, PSEUDO].into_iter().find(|name| names(&preloaded, name))?;
    let hint = match wrapper {
        wrapper if !is_loaded(wrapper) => {
            "use a deltic that is dynamically linked, on the architecture of the wrapper's library"
        }
        PSEUDO if openat2_bypasses_pseudo() => {
            "this version of pseudo does not intercept openat2; use fakeroot"
        }
        _ => return None,
    };
    output::complain(
        &format!("{wrapper} cannot intercept this program's system calls"),
        Some(hint),
    );
    Some(Exit::Unsupported)
}

/// True if one of the preloaded libraries is the wrapper's. Names of directories do not count.
fn names(preloaded: &str, wrapper: &str) -> bool {
    let mut files = preloaded.split([' ', ':']).map(|path| path.rsplit('/').next().unwrap_or(path));
    files.any(|file| file.contains(wrapper))
}

fn is_loaded(wrapper: &str) -> bool {
    let library = format!("lib{wrapper}");
    match std::fs::read_to_string("/proc/self/maps") {
        Ok(maps) => maps.contains(&library),
        Err(_) => !cfg!(target_feature = "crt-static"),
    }
}

/// True if `openat2` bypasses pseudo, which must intercept every call that opens a directory. False if pseudo disables
/// `openat2`: the store then uses other calls.
fn openat2_bypasses_pseudo() -> bool {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat2(CWD, ".", flags, Mode::empty(), ResolveFlags::BENEATH).err() != Some(Errno::NOSYS)
}
