//! Wrappers between a program and the system (`LD_PRELOAD`): fakeroot and pseudo keep owners, modes and devices of their own.
//! A run whose calls such a wrapper does not see would set the system's instead, and say nothing; so it does not begin.

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;

use crate::report::exit::Exit;
use crate::report::output;

const FAKEROOT: &str = "fakeroot";
const PSEUDO: &str = "pseudo";

/// Refuses to work under a wrapper that does not see what we do.
pub(crate) fn refuse() -> Option<Exit> {
    let preloaded = std::env::var_os("LD_PRELOAD")?.into_string().ok()?;
    let wrapper = [FAKEROOT, PSEUDO].into_iter().find(|name| names(&preloaded, name))?;
    let hint = match wrapper {
        wrapper if !is_loaded(wrapper) => {
            "use a deltic that is dynamically linked, on the architecture of the wrapper's library"
        }
        PSEUDO if sees_nothing_of_openat2() => "this version lets openat2 pass; use fakeroot",
        _ => return None,
    };
    output::complain(&format!("{wrapper} would not see what is done here"), Some(hint));
    Some(Exit::Unsupported)
}

/// Returns true where one of the libraries is the wrapper's, whatever its directory is called.
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

/// Returns true where pseudo lets `openat2` pass: it must see how directories are opened. Where it hides the call, the store
/// does without.
fn sees_nothing_of_openat2() -> bool {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat2(CWD, ".", flags, Mode::empty(), ResolveFlags::BENEATH).err() != Some(Errno::NOSYS)
}
