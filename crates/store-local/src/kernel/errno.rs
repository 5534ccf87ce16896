//! Converts the system's errors to a store's errors.

use std::io;

use deltic_tree::RelPath;
use rustix::io::Errno;

use deltic_store::{Cause, StoreError};

/// Converts the system's error `errno` of `action` on `path`.
pub(crate) fn store_error(action: &'static str, path: &RelPath, errno: Errno) -> StoreError {
    StoreError::new(action, path, cause_of(errno), io_error(errno))
}

fn cause_of(errno: Errno) -> Cause {
    match errno {
        Errno::NOENT => Cause::NotFound,
        Errno::ACCESS | Errno::PERM | Errno::ROFS => Cause::Denied,
        Errno::NOSPC | Errno::DQUOT => Cause::Full,
        // `open` returns `NXIO` for a socket and `NODEV` for a device without a driver.
        Errno::ISDIR | Errno::NXIO | Errno::NODEV => Cause::NotAFile,
        Errno::NOTDIR => Cause::NotADir,
        Errno::NOTEMPTY => Cause::NotEmpty,
        Errno::LOOP => Cause::OutsideRoot,
        Errno::NAMETOOLONG => Cause::TooLong,
        Errno::ILSEQ => Cause::BadName,
        _ => Cause::Other(io::ErrorKind::Other),
    }
}

/// Returns the system's error. A path that leaves the directories of its context gets a special text.
pub(crate) fn io_error(errno: Errno) -> io::Error {
    if errno == LEADS_OUT {
        let why = "it leads out of the directory that this end is restricted to";
        return io::Error::new(io::ErrorKind::CrossesDevices, why);
    }
    errno.into()
}

/// Returns the text of [`deltic_store::reason`], or the text for a path that leaves the directories of its context.
#[must_use]
pub fn reason(error: &io::Error) -> String {
    match Errno::from_io_error(error) {
        Some(errno) => deltic_store::reason(&io_error(errno)),
        None => deltic_store::reason(error),
    }
}

/// Adds the action and the path to a system's error.
pub(crate) trait At<T> {
    fn at(self, action: &'static str, path: &RelPath) -> Result<T, StoreError>;
}

impl<T> At<T> for Result<T, Errno> {
    fn at(self, action: &'static str, path: &RelPath) -> Result<T, StoreError> {
        self.map_err(|errno| store_error(action, path, errno))
    }
}

/// Error of a path that leads out of the directories of its context. No call that resolves paths returns this number.
pub(crate) const LEADS_OUT: Errno = Errno::REMOTE;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_answer_is_sorted_and_worded() {
        let path = RelPath::parse(b"notes.img").unwrap();
        let denied = store_error("open", &path, Errno::ACCESS);
        assert_eq!(denied.to_string(), "cannot read notes.img: permission denied");
        assert!(matches!(denied, StoreError::Denied { .. }));
        let full = store_error("write", &path, Errno::NOSPC);
        assert_eq!(full.to_string(), "cannot write notes.img: no space left on device");
        for errno in [Errno::NOTDIR, Errno::NOTEMPTY, Errno::LOOP, Errno::NAMETOOLONG, Errno::XDEV]
        {
            let error = store_error("open", &path, errno);
            assert_eq!(error.errno(), Some(errno.raw_os_error()), "{error}");
        }
    }
}
