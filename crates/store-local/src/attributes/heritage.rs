//! Metadata that new entries inherit from their directory: the group, if setgid is set, and the default ACL.
//!
//! The system applies inherited metadata when an entry is created. This store creates entries in a staging directory,
//! from which entries inherit nothing, and then sets the metadata that the final directory would have given.

use deltic_tree::meta::{Acl, SETGID};
use rustix::fs::{self, Mode};
use rustix::io::Errno;

use super::more::{Reach, default_acl, remove_default_acl};
use super::recent::Recent;
use crate::handles::dir::{Dir, set_mode_of_open};
use crate::handles::place::Place;

/// The metadata that entries inherit from one directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Heritage {
    /// The group, if it is not the group of this process.
    pub(crate) group: Option<u32>,
    pub(crate) acl: Option<Acl>,
}

/// Remembers the metadata that entries inherit from recently used directories.
#[derive(Debug, Default)]
pub(crate) struct Heritages(Recent<Heritage>);

impl Heritages {
    pub(crate) fn heritage_of_dir(&self, place: &Place) -> Result<Heritage, Errno> {
        if let Some(heritage) = self.0.fact_about(&place.dir_path) {
            return Ok(heritage);
        }
        let stat = fs::fstat(&place.dir)?;
        let own = rustix::process::getegid().as_raw();
        let hands_down = stat.st_mode & SETGID != 0 && stat.st_gid != own;
        let heritage = Heritage {
            group: hands_down.then_some(stat.st_gid),
            acl: default_acl(&Reach::Followed(place.dir.own_path())),
        };
        self.0.store_fact(&place.dir_path, heritage.clone());
        Ok(heritage)
    }

    /// Forgets all directories, since a default ACL may have changed.
    pub(crate) fn clear(&self) {
        self.0.clear();
    }
}

impl Heritage {
    /// True if a new directory would deny its owner read, write or search permission.
    pub(crate) fn denies_owner(&self) -> bool {
        self.acl.as_ref().is_some_and(|acl| acl.owner != 7)
    }

    /// Returns the mode bits that new entries lack: by the default ACL, or `umask` without one.
    pub(crate) fn umask(&self, umask: u32) -> u32 {
        let Some(acl) = &self.acl else { return umask };
        let [owner, group, other] =
            [acl.owner, acl.mask.unwrap_or(acl.group), acl.other].map(u32::from);
        0o777 & !(owner << 6 | group << 3 | other)
    }
}

/// Removes the inheritance of the new directory `dir`, which is open for reading.
pub(crate) fn remove_inheritance(dir: &Dir) -> Result<(), Errno> {
    remove_default_acl(&Reach::Followed(dir.own_path()));
    match set_mode_of_open(dir, Mode::RWXU, dir.bounds()) {
        // File systems with made-up owners refuse the call.
        Err(Errno::PERM) => Ok(()),
        set => set,
    }
}
