//! Plan of the calls that fail, and of their errors.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex};

use deltic_tree::RelPath;

use crate::{Cause, StoreError, lock};

/// The faults of a run, and its number of calls. Clones share the same plan.
#[derive(Clone, Debug, Default)]
pub struct Plan(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    faults: Vec<(Nth, Fault)>,
    counts: HashMap<Call, u64>,
    total: u64,
}

/// A call of a store, of a snapshot or of a rebuild.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is the method of that name")]
pub enum Call {
    List,
    Open,
    Read,
    Check,
    Look,
    Create,
    Leftovers,
    Resume,
    MakeDir,
    MakeSymlink,
    MakeSpecial,
    Link,
    SetMeta,
    Remove,
    Flush,
    Sweep,
    Copy,
    Write,
    Note,
    Commit,
    Discard,
}

/// Number of the call that fails. The first call has number 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nth {
    /// The call with this number among all calls.
    Of(u64),
    /// The call with this number among calls of one kind.
    OfCall(Call, u64),
    /// Every call of one kind from this number on, as with a full disk.
    From(Call, u64),
}

/// Error of a failed call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// [`StoreError::NotFound`].
    NotFound,
    /// [`StoreError::Denied`].
    Denied,
    /// [`StoreError::Full`].
    Full,
    /// [`StoreError::Changed`].
    Changed,
    /// [`StoreError::Conflict`].
    Conflict,
    /// [`StoreError::Io`], as from a broken disk.
    Broken,
}

impl Plan {
    /// Adds a fault.
    pub fn fail(&self, nth: Nth, fault: Fault) {
        lock(&self.0).faults.push((nth, fault));
    }

    /// Returns the number of calls.
    #[must_use]
    pub fn total(&self) -> u64 {
        lock(&self.0).total
    }

    /// Returns the number of calls of one kind.
    #[must_use]
    pub fn count(&self, call: Call) -> u64 {
        lock(&self.0).counts.get(&call).copied().unwrap_or_default()
    }

    /// Counts a call for the entry at `path`. Returns the planned error, if there is one.
    pub(super) fn count_call(&self, call: Call, path: &RelPath) -> Result<(), StoreError> {
        let mut state = lock(&self.0);
        let count = state.counts.entry(call).or_default();
        let (of_call, of_all) = (*count, state.total);
        *state.counts.entry(call).or_default() += 1;
        state.total += 1;
        let is_meant = |(nth, _): &&(Nth, Fault)| match *nth {
            Nth::Of(at) => at == of_all,
            Nth::OfCall(kind, at) => kind == call && at == of_call,
            Nth::From(kind, at) => kind == call && at <= of_call,
        };
        let fault = state.faults.iter().find(is_meant).map(|(_, fault)| *fault);
        fault.map_or(Ok(()), |fault| Err(fault.error(call, path)))
    }
}

impl Fault {
    fn error(self, call: Call, path: &RelPath) -> StoreError {
        let action = call.action();
        match self {
            Self::NotFound => Cause::NotFound.at(action, path),
            Self::Denied => Cause::Denied.at(action, path),
            Self::Full => Cause::Full.at(action, path),
            Self::Broken => {
                let source = io::Error::other("input/output error");
                StoreError::new(action, path, Cause::Other(source.kind()), source)
            }
            Self::Changed => StoreError::Changed { path: path.clone() },
            Self::Conflict => StoreError::Conflict { path: path.clone() },
        }
    }
}

impl Call {
    fn action(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Open => "open",
            Self::Read | Self::Check => "read",
            Self::Look => "look at",
            Self::Create => "create",
            Self::Leftovers | Self::Resume => "resume",
            Self::MakeDir => "make directory",
            Self::Link => "link",
            Self::MakeSymlink => "make symlink",
            Self::MakeSpecial => "make special file",
            Self::SetMeta => "set metadata of",
            Self::Remove => "remove",
            Self::Flush => "flush",
            Self::Sweep => "sweep",
            Self::Copy => "copy to",
            Self::Write => "write",
            Self::Note => "note what is written of",
            Self::Commit => "commit",
            Self::Discard => "discard",
        }
    }
}
