//! Troubles on standard error. A trouble shared by many names is reported with the first of them, and at the end with
//! the number of names: a full disk is one fault. Logs and events have every name.

use std::io;

use deltic_net::reason;
use deltic_protocol::report::{Side, Trouble, TroubleKind};
use rustix::io::Errno;

use crate::report::hint;
use crate::report::numbers::counted;
use crate::report::output::{self, behaves_like_rsync};
use crate::report::view::OutputView;

/// Troubles of a run that were reported so far.
#[derive(Debug, Default)]
pub(crate) struct Complaints {
    /// True once the hint for files in use was given.
    in_use: bool,
    shared: Vec<SharedComplaint>,
}

/// A cause that many names may share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SharedCause {
    /// The file system on this side refuses with this error number.
    Refused(Option<Side>, Errno),
    /// Names that vanish under a watch.
    Vanished,
}

#[derive(Debug)]
struct SharedComplaint {
    cause: SharedCause,
    first: String,
    hint: Option<String>,
    names: u64,
}

impl Complaints {
    /// Reports a trouble, unless its cause was reported before.
    pub(crate) fn report(&mut self, trouble: &Trouble, view: &OutputView) {
        let cause = SharedCause::of(trouble, view.watches);
        if let Some(shared) = self.shared.iter_mut().find(|shared| Some(shared.cause) == cause) {
            shared.names += 1;
            return;
        }
        let message = view.far.message(trouble);
        let hint = match cause {
            Some(SharedCause::Refused(_, errno)) => {
                hint::for_errno(errno, &view.far, view.next_run).filter(|_| !behaves_like_rsync())
            }
            _ => hint::for_trouble(trouble, view.watches, &mut self.in_use)
                .or_else(|| hint::for_missing(trouble, &view.far))
                .or_else(|| hint::for_blocked(trouble))
                .map(Into::into),
        };
        let Some(cause) = cause else {
            // The message may contain words of the user's operands.
            let hint = hint.or_else(|| view.applied.origin_of_error(&message));
            return output::complain(&message, hint.as_deref());
        };
        if cause != SharedCause::Vanished {
            output::complain(&message, None);
        }
        self.shared.push(SharedComplaint { cause, first: message.into_owned(), hint, names: 1 });
    }

    /// Reports the number of names for each shared cause, with a hint.
    pub(crate) fn finish(&mut self) {
        for SharedComplaint { cause, first, hint, names } in self.shared.drain(..) {
            let counted = counted(names, "name");
            match (cause, hint) {
                (SharedCause::Vanished, hint) if names == 1 => {
                    output::complain(&first, hint.as_deref())
                }
                (SharedCause::Vanished, hint) => {
                    let what = format!("{counted} vanished or changed while they were read");
                    output::complain(&what, hint.as_deref());
                }
                (SharedCause::Refused(..), hint) if names == 1 => {
                    let hint = hint.map(|hint| format!("  hint: {hint}\n"));
                    hint.iter().for_each(|hint| output::note(hint));
                }
                (SharedCause::Refused(_, errno), hint) => {
                    let why = reason(&io::Error::from(errno));
                    // The reason itself says in rsync's wording that the names failed.
                    let so = if behaves_like_rsync() { "" } else { " failed" };
                    output::complain(&format!("{counted}{so}: {why}"), hint.as_deref());
                }
            }
        }
    }
}

impl SharedCause {
    fn of(trouble: &Trouble, watches: bool) -> Option<Self> {
        if trouble.kind == TroubleKind::Vanished && watches {
            return Some(Self::Vanished);
        }
        let spot = trouble.spot.as_ref().filter(|_| trouble.kind == TroubleKind::Failed)?;
        let errno = Errno::from_raw_os_error(i32::try_from(spot.errno?).ok()?);
        let makes = ["write", "create", "make"]
            .iter()
            .any(|verb| trouble.message.starts_with(&format!("cannot {verb} ")));
        let in_root = || spot.path.as_ref().is_some_and(|path| !path.as_bytes().contains(&b'/'));
        let is_shared = match errno {
            Errno::ROFS => true,
            Errno::NOSPC | Errno::DQUOT => makes,
            // Permission in other directories is a matter of each directory.
            Errno::ACCESS => makes && spot.side == Some(Side::Receiver) && in_root(),
            _ => false,
        };
        is_shared.then_some(Self::Refused(spot.side, errno))
    }
}

#[cfg(test)]
mod tests {
    use deltic_tree::RelPath;

    use super::*;

    #[test]
    fn what_is_a_name_s_own_fault_is_told_of_each() {
        let cause = |words: &str, path: &[u8], errno: Errno, side| {
            let path = RelPath::parse(path).unwrap();
            let mut trouble =
                Trouble::at(TroubleKind::Failed, &path, |path| format!("{words} {path}: why"));
            trouble.locate(side, |_| None);
            let errno_number = errno.raw_os_error() as u32;
            trouble.spot.as_mut().unwrap().errno = Some(errno_number);
            SharedCause::of(&trouble, false)
        };
        let (create, there) = ("cannot create", Side::Receiver);
        let refused = |errno| Some(SharedCause::Refused(Some(there), errno));
        for errno in [Errno::NOSPC, Errno::DQUOT, Errno::ROFS] {
            assert_eq!(cause(create, b"a/b", errno, there), refused(errno));
        }
        assert_eq!(cause(create, b"b", Errno::ACCESS, there), refused(Errno::ACCESS));
        assert_eq!(cause(create, b"a/b", Errno::ACCESS, there), None);
        assert_eq!(cause("cannot read", b"b", Errno::ACCESS, there), None);
        assert_eq!(cause("cannot set metadata of", b"b", Errno::NOSPC, there), None);
    }
}
