//! Owner, mode bits and inherited metadata of entries that a store creates.

use std::sync::Mutex;

use deltic_tree::PathMap;
use rustix::io::Errno;
use rustix::process;

use super::attrs::{EntryOwner, umask};
use super::heritage::{Heritage, Heritages};
use crate::handles::place::Place;
use crate::kernel::lock;

/// Owner and mode inputs of new entries, and the unfinished directories.
#[derive(Debug)]
pub(crate) struct NewEntries {
    pub(crate) umask: u32,
    /// User and group of entries that this process creates.
    pub(crate) owner: EntryOwner,
    pub(crate) heritages: Heritages,
    /// Directories that do not have their final mode yet.
    pub(crate) unfinished: Mutex<PathMap<UnfinishedDir>>,
    /// Mode bits to leave out of a directory's mode, because its ACLs could not be set.
    pub(crate) withheld: Mutex<PathMap<u32>>,
}

impl NewEntries {
    pub(crate) fn of_process() -> Self {
        Self {
            umask: umask(),
            owner: EntryOwner {
                user: process::geteuid().as_raw(),
                group: process::getegid().as_raw(),
            },
            heritages: Heritages::default(),
            unfinished: Mutex::default(),
            withheld: Mutex::default(),
        }
    }

    /// Returns the metadata that entries inherit from the directory of `place`.
    pub(crate) fn heritage(&self, place: &Place) -> Result<Heritage, Errno> {
        let known = lock(&self.unfinished).get(&place.dir_path).copied();
        match known {
            // This directory is new, and entries inherit nothing from it yet.
            Some(UnfinishedDir::Plain) => Ok(Heritage::default()),
            _ => self.heritages.heritage_of_dir(place),
        }
    }
}

/// A directory that does not have its final mode yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnfinishedDir {
    /// Created by this run in a directory with inherited metadata. Entries of the new directory may inherit the same.
    Heir,
    /// Created by this run.
    Plain,
    /// Opened to the owner by this run. Holds the former mode.
    Opened(u32),
}

impl UnfinishedDir {
    /// Returns the mode of a directory that this run did not create.
    pub(crate) const fn old_mode(self) -> Option<u32> {
        match self {
            Self::Heir | Self::Plain => None,
            Self::Opened(mode) => Some(mode),
        }
    }
}
