//! Spellings: questions to a store on a file system that takes several spellings for one name.

use deltic_tree::fold::SampleNames;
use deltic_tree::{Name, Names};

/// Names of a directory whose entries [`Store::respell`](crate::Store::respell) renames to the listed spelling.
#[derive(Clone, Copy, Debug)]
pub struct Respell<'a> {
    /// All listed names of the directory.
    pub listed: &'a Names,
    /// Samples of the names in the directory that are not listed.
    pub samples: &'a SampleNames,
    /// True if entries are only found: a dry run renames no entry.
    pub dry_run: bool,
}

/// Two names of one directory that are one name to some file systems.
#[derive(Clone, Copy, Debug)]
pub struct NamePair<'a> {
    /// The name that was listed later.
    pub name: &'a Name,
    /// The name that was listed first.
    pub earlier: &'a Name,
    /// True if no file may be made for the answer.
    pub dry_run: bool,
}

/// Answer to the question if two names are one name at a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OneName {
    /// The names are two.
    No,
    /// The names are one.
    Yes,
    /// The file system does not tell before a file is made there.
    Maybe,
}
