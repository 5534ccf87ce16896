//! Store errors, in the words of people and for a machine.

use std::os::unix::ffi::OsStrExt;

use deltic_protocol::report::{Trouble, TroubleKind};
use deltic_protocol::work::{Setback, Then};
use deltic_store::StoreError;

/// The trouble that a store error is for a run.
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
pub(super) fn told(
    kind: TroubleKind,
    error: &StoreError,
    words: impl FnOnce(&str) -> String,
) -> Trouble {
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
pub(super) fn failed(error: &StoreError) -> Trouble {
    told(TroubleKind::Failed, error, |path| error.words(path))
}

/// A warning, which keeps nothing from going on.
pub(super) fn warned(message: &str) -> Trouble {
    Trouble::new(TroubleKind::Warned, message)
}

/// The setback that a store error at the destination is for an attempt.
pub(super) fn setback(error: &StoreError) -> Setback {
    let then = match error {
        StoreError::Changed { .. } | StoreError::Short { .. } => Then::Retry,
        StoreError::Unset { .. } => Then::GoOn,
        error if error.wants_room() => Then::WaitForRoom,
        _ => Then::GiveUp,
    };
    Setback { trouble: failed(error), then }
}
