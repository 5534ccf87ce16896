//! Questions to a store whose file system takes several spellings for one name.

use deltic_tree::fold::SampleNames;
use deltic_tree::{Name, Names};

/// Names of a directory that [`Store::respell`](crate::Store::respell) gives entries the spelling of.
#[derive(Clone, Copy, Debug)]
pub struct Respell<'a> {
    /// All names that are listed of the directory.
    pub listed: &'a Names,
    /// Some names that stand in the directory and are not listed.
    pub samples: &'a SampleNames,
    /// True where entries are found only, and renamed by another run.
    pub dry_run: bool,
}

/// Two names of one directory that some file systems take for one.
#[derive(Clone, Copy, Debug)]
pub struct NamePair<'a> {
    /// The name that was listed later.
    pub name: &'a Name,
    /// The name that was listed first.
    pub earlier: &'a Name,
    /// True where nothing may be made to find out.
    pub dry_run: bool,
}

/// Whether two names are one at a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OneName {
    /// The names are two.
    No,
    /// The names are one.
    Yes,
    /// The file system does not tell before something is made there.
    Maybe,
}
