//! Checks with a read lease that no program has a file open for writing. The kernel refuses the lease as long as a
//! program has the file open for writing, or has a writable mapping of the file.
#![allow(unsafe_code, reason = "F_SETLEASE and sigaction: see docs/ARCHITECTURE.md, walls")]

use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;
use std::sync::Once;

use libc::{F_RDLCK, F_SETLEASE, F_UNLCK, SA_RESTART, SIG_DFL, SIGIO, c_int};
use nix::errno::Errno;

/// Programs that have a file open for writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writers {
    /// No program of this machine.
    Nobody,
    Somebody,
    /// Unknown: another user owns the file, or the file system has no leases.
    Unknown,
}

/// Takes a read lease of `file`, which is open read-only, and gives the lease back at once.
///
/// A program that opens the file for writing in this instant waits until the lease is given back.
pub(crate) fn writers(file: BorrowedFd<'_>) -> Writers {
    ignore_lease_signals();
    match set_lease(file, F_RDLCK) {
        Ok(()) => {
            // The lease belongs to this descriptor, so this call can give the lease back.
            let _ = set_lease(file, F_UNLCK);
            Writers::Nobody
        }
        Err(Errno::EAGAIN) => Writers::Somebody,
        Err(_) => Writers::Unknown,
    }
}

fn set_lease(file: BorrowedFd<'_>, lease: c_int) -> Result<(), Errno> {
    // SAFETY: the descriptor is open as long as `file` is borrowed, and the call accesses no memory of this process.
    Errno::result(unsafe { libc::fcntl(file.as_raw_fd(), F_SETLEASE, lease) }).map(drop)
}

/// Installs an empty handler of SIGIO, unless the program handles SIGIO. The kernel sends SIGIO to the holder of a
/// lease when another program wants to write, and SIGIO ends a process by default.
fn ignore_lease_signals() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let mut old = MaybeUninit::<libc::sigaction>::uninit();
        // SAFETY: the null pointer changes nothing, and `old` has room for the result.
        if unsafe { libc::sigaction(SIGIO, ptr::null(), old.as_mut_ptr()) } != 0 {
            return;
        }
        // SAFETY: the call succeeded, so `old` is initialized.
        let mut action = unsafe { old.assume_init() };
        if action.sa_sigaction != SIG_DFL {
            return;
        }
        action.sa_sigaction = do_nothing as extern "C" fn(c_int) as usize;
        action.sa_flags = SA_RESTART;
        // SAFETY: the handler does nothing, so the handler may run at any point of any thread.
        unsafe { libc::sigaction(SIGIO, &raw const action, ptr::null_mut()) };
    });
}

extern "C" fn do_nothing(_signal: c_int) {}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests look at files from outside"
)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn only_a_file_that_is_open_for_writing_has_writers() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let writer = File::create(&path).unwrap();
        let reader = File::open(&path).unwrap();
        let is = || writers(reader.as_fd());
        if is() == Writers::Unknown {
            return eprintln!("SKIPPED: there are no leases here");
        }
        assert_eq!(is(), Writers::Somebody);
        drop(writer);
        assert_eq!(is(), Writers::Nobody);
        let second = File::open(&path).unwrap();
        assert_eq!((is(), writers(second.as_fd())), (Writers::Nobody, Writers::Nobody));
    }

    /// A program that opens a file for writing during the check is let through, and no process is killed by SIGIO.
    #[test]
    fn a_writer_that_comes_while_a_lease_is_held_harms_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        File::create(&path).unwrap();
        let reader = File::open(&path).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..20_000 {
                    drop(File::options().write(true).open(&path).unwrap());
                }
            });
            for _ in 0..20_000 {
                writers(reader.as_fd());
            }
        });
    }
}
