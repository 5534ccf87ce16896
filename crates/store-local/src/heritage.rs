//! What a directory hands down to what is made in it: its group, if it is setgid, and its default ACL.
//!
//! The system hands it down where an entry is made. Ours are made in a staging directory, which hands down nothing, and
//! get what they would have got in their place.

use deltic_tree::meta::{Acl, SETGID};
use rustix::fs::{self, Mode};
use rustix::io::Errno;

use super::more::{Reach, default_acl, forget_default_acl};
use super::place::Place;
use super::recent::Recent;
use crate::dir::{Dir, set_mode_of_open};

/// What one directory hands down.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Heritage {
    /// The group, where it is not that of whoever makes something.
    pub(super) group: Option<u32>,
    pub(super) acl: Option<Acl>,
}

/// Remembers what the directories handed down that something was last made in.
#[derive(Debug, Default)]
pub(super) struct Heritages(Recent<Heritage>);

impl Heritages {
    pub(super) fn of(&self, place: &Place) -> Result<Heritage, Errno> {
        if let Some(heritage) = self.0.of(&place.dir_path) {
            return Ok(heritage);
        }
        let stat = fs::fstat(&place.dir)?;
        let own = rustix::process::getegid().as_raw();
        let hands_down = stat.st_mode & SETGID != 0 && stat.st_gid != own;
        let heritage = Heritage {
            group: hands_down.then_some(stat.st_gid),
            acl: default_acl(&Reach::Followed(place.dir.own_path())),
        };
        self.0.note(&place.dir_path, heritage.clone());
        Ok(heritage)
    }

    /// Forgets it all: a default ACL may have been set.
    pub(super) fn clear(&self) {
        self.0.clear();
    }
}

impl Heritage {
    /// True if the owner of a new directory may not work in it.
    pub(super) fn closes_to_owner(&self) -> bool {
        self.acl.as_ref().is_some_and(|acl| acl.owner != 7)
    }

    /// What a default ACL keeps from new entries, in the place of the process's `umask`.
    pub(super) fn umask(&self, umask: u32) -> u32 {
        let Some(acl) = &self.acl else { return umask };
        let [owner, group, other] =
            [acl.owner, acl.mask.unwrap_or(acl.group), acl.other].map(u32::from);
        0o777 & !(owner << 6 | group << 3 | other)
    }
}

/// Makes `dir`, open to read and just made, hand down nothing.
pub(super) fn disinherit(dir: &Dir) -> Result<(), Errno> {
    forget_default_acl(&Reach::Followed(dir.own_path()));
    match set_mode_of_open(dir, Mode::RWXU) {
        // Owners are made up there.
        Err(Errno::PERM) => Ok(()),
        set => set,
    }
}
