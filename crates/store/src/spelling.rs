//! Spellings of names on file systems where several spellings of a name find the same entry.

use deltic_tree::fold::SampleNames;
use deltic_tree::{Name, Names};

/// Names of a directory, for [`Store::respell`](crate::Store::respell): entries get the listed spelling.
#[derive(Clone, Copy, Debug)]
pub struct Respell<'a> {
    /// The listed names of the directory, complete.
    pub listed: &'a Names,
    /// Samples of the unlisted names in the directory.
    pub samples: &'a SampleNames,
    /// True for a dry run, which finds entries and renames none.
    pub dry_run: bool,
}

/// Two names of one directory that may be the same name on some file systems.
#[derive(Clone, Copy, Debug)]
pub struct NamePair<'a> {
    /// The name that was listed later.
    pub name: &'a Name,
    /// The name that was listed first.
    pub earlier: &'a Name,
    /// True if no test file may be created to find the answer.
    pub dry_run: bool,
}

/// Answer to the question whether two names find the same entry at a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OneName {
    /// The names find two entries.
    No,
    /// The names find the same entry.
    Yes,
    /// Unknown, unless a file is created in the directory.
    Maybe,
}
