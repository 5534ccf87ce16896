//! A file of several names, as far as they were told.

use std::collections::VecDeque;
use std::sync::Arc;

use deltic_tree::meta::{ExtraMeta, Inode};
use deltic_tree::{Meta, RelPath};

use crate::message::FileNo;

/// A file of several names.
#[derive(Debug)]
pub(super) struct Shared {
    /// The metadata that was said of it, but for what its first name brings to all of them.
    pub(super) meta: Meta,
    /// The metadata that its first name brings to all of them: a name that comes by itself brings it too.
    pub(super) more: Option<Arc<ExtraMeta>>,
    /// The name that leads.
    pub(super) path: RelPath,
    /// Bytes of the first name, and of what it points at.
    pub(super) path_bytes: usize,
    /// Names that are still to be told, and names that were told and are to be decided.
    pub(super) untold: u32,
    pub(super) undecided: u32,
    pub(super) state: State,
    /// The inode that its leader was a name of here before, if it stays that.
    pub(super) inode: Option<Inode>,
    /// True where its leader comes from a reference directory.
    pub(super) is_beside: bool,
    pub(super) waiting: VecDeque<FileNo>,
}

/// The fate of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// No name of it is here or on its way.
    Nowhere,
    /// Its leader is on its way.
    Coming,
    /// Its leader is here.
    Here,
}
