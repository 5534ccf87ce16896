//! The work of the machines, done with a store: blocking calls, from threads of the executor.

pub(crate) mod alternates;
pub(crate) mod destination;
pub(crate) mod digests;
mod moves;
pub(crate) mod owners;
pub(crate) mod packing;
pub(crate) mod recipes;
pub(crate) mod source;
mod steps;

use std::os::unix::ffi::OsStrExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use deltic_protocol::report::{Trouble, TroubleKind};
use deltic_protocol::work::{Setback, Then};
use deltic_store::StoreError;

/// What a store error means for a run.
pub(crate) fn trouble(error: &StoreError) -> Trouble {
    let kind = match error {
        StoreError::Changed { .. } | StoreError::NotFound { .. } => TroubleKind::Vanished,
        _ => TroubleKind::Failed,
    };
    told(kind, error, |path| match error {
        StoreError::NotFound { action: "list", .. } => {
            format!("directory has vanished: \"{path}\"")
        }
        StoreError::NotFound { .. } => format!("file has vanished: \"{path}\""),
        error => error.words(path),
    })
}

/// A trouble with the name that `error` is about, in these `words` of its path.
fn told(kind: TroubleKind, error: &StoreError, words: impl FnOnce(&str) -> String) -> Trouble {
    let trouble = match (error.path(), error) {
        (Some(path), _) => Trouble::at(kind, path, words),
        (None, StoreError::Argument { argument, .. }) => {
            let full_path = argument.as_os_str().as_bytes().into();
            Trouble::new(kind, error.to_string()).with_full_path(full_path)
        }
        (None, _) => return Trouble::new(kind, error.to_string()),
    };
    trouble.with_errno(error.errno().and_then(|errno| errno.try_into().ok()))
}

/// The same at the destination, where nothing that is missing has vanished.
fn failed(error: &StoreError) -> Trouble {
    told(TroubleKind::Failed, error, |path| error.words(path))
}

/// What is told, and keeps nothing from going on.
fn warned(message: &str) -> Trouble {
    Trouble::new(TroubleKind::Warned, message)
}

fn setback(error: &StoreError) -> Setback {
    let then = match error {
        StoreError::Changed { .. } | StoreError::Short { .. } => Then::Retry,
        StoreError::Unset { .. } => Then::GoOn,
        error if error.wants_room() => Then::WaitForRoom,
        _ => Then::GiveUp,
    };
    Setback { trouble: failed(error), then }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Buffers that outlive the work that used them, so that segments are not allocated anew each time. As many are kept
/// as were ever in use at once, which the pool bounds.
#[derive(Debug, Default)]
struct Buffers(Mutex<Vec<Vec<u8>>>);

impl Buffers {
    /// Calls `with` a buffer of `len` bytes, whose content is arbitrary. It begins where a page does: the kernel copies a
    /// third faster where both sides lie the same in their pages than where it writes a little ahead of what it reads.
    fn with<T>(&self, len: usize, with: impl FnOnce(&mut [u8]) -> T) -> T {
        let mut buffer = lock(&self.0).pop().unwrap_or_default();
        if buffer.len() < len + PAGE_BYTES {
            buffer.resize(len + PAGE_BYTES, 0);
        }
        let start = buffer.as_ptr().align_offset(PAGE_BYTES).min(PAGE_BYTES);
        let result = with(&mut buffer[start..start + len]);
        lock(&self.0).push(buffer);
        result
    }
}

/// What memory is laid out by on most machines.
const PAGE_BYTES: usize = 4096;
