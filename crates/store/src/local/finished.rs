//! A new version that is complete and has all attributes: what is left is to give it its name, at once or with all others
//! of a run (`--delay-updates`).

use std::collections::HashMap;

use deltic_core::{Meta, Name, RelPath, See};
use rustix::fs::Stat;
use rustix::io::Errno;

use super::backup::Goes;
use super::log::remove_log;
use super::place::Place;
use super::snapshot::{LocalSnapshot, Version, file_type, inode_of, look_at};
use super::stage::{Whose, new_name, staging_path};
use super::store::Inner;
use crate::error::At;
use crate::{Replaces, StoreError, lock};

/// A staged file, and where it is to go.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) path: RelPath,
    /// The directory whose staging directory it is in, and its name there.
    pub(super) home: RelPath,
    pub(super) whose: Whose,
    pub(super) name: Name,
    pub(super) inode: (u64, u64),
    /// Whether something was noted of it.
    pub(super) is_noted: bool,
    pub(super) expected: Expected,
}

/// All that wait for their names.
#[derive(Debug, Default)]
pub(super) struct Delayed {
    all: Vec<Finished>,
    /// Of those that others become names of, which each is.
    leaders: HashMap<RelPath, usize>,
}

impl Delayed {
    pub(super) fn push(&mut self, finished: Finished, leads: bool) {
        if leads {
            self.leaders.insert(finished.path.clone(), self.all.len());
        }
        self.all.push(finished);
    }

    /// Takes all, in order.
    pub(super) fn take(&mut self) -> Vec<Finished> {
        self.leaders.clear();
        std::mem::take(&mut self.all)
    }

    fn leader(&self, path: &RelPath) -> Option<&Finished> {
        self.leaders.get(path).map(|at| &self.all[*at])
    }
}

/// Has `path` wait as another name of what waits at `leader`; whether something does.
pub(super) fn link_waiting(
    store: &Inner,
    path: &RelPath,
    (leader, seen): (&RelPath, Option<&Meta>),
) -> Result<bool, StoreError> {
    const LINK: &str = "link";
    let waiting = lock(&store.delayed)
        .leader(leader)
        .map(|is| (is.home.clone(), is.whose, is.name.clone(), is.inode));
    let Some((home, whose, name, inode)) = waiting else { return Ok(false) };
    let place = Place::of(&store.root, LINK, path)?;
    let replaces = seen.map_or(Expected::Nothing, |seen| Expected::Seen(Box::new(seen.clone())));
    replaces.check_way(&place)?;
    let from = store.stages(whose).dir(&home).at(LINK, path)?;
    let (home, own) = store.stages(Whose::Own).home_for(&place)?;
    let own_name = new_name(path);
    from.link(&name, &own, &own_name).at(LINK, path)?;
    let finished = Finished {
        path: path.clone(),
        home,
        whose: Whose::Own,
        name: own_name,
        inode,
        is_noted: false,
        expected: replaces,
    };
    lock(&store.delayed).push(finished, false);
    Ok(true)
}

/// What a commit expects to find at its path.
#[derive(Clone, Debug)]
pub(super) enum Expected {
    Nothing,
    Version(Version),
    Seen(Box<Meta>),
}

impl Expected {
    pub(super) fn of(replaces: &Replaces<'_, LocalSnapshot>) -> Self {
        match replaces {
            Replaces::Nothing => Self::Nothing,
            Replaces::Version(old) => Self::Version(old.version()),
            Replaces::Seen(meta) => Self::Seen(Box::new((*meta).clone())),
        }
    }

    /// Fails where what is to wait could not land: nobody is to count on it.
    pub(super) fn check_way(&self, place: &Place) -> Result<(), StoreError> {
        let is_dir = matches!(self, Self::Seen(meta) if meta.is_dir());
        if is_dir && place.is_barred().at("commit", &place.path)? {
            return Err(StoreError::new("commit", &place.path, Errno::NOTEMPTY));
        }
        Ok(())
    }

    /// Checks that `place` holds what is to be replaced, and says what that is.
    pub(super) fn check(&self, place: &Place, see: See) -> Result<Option<Stat>, StoreError> {
        let found = place.dir.find(&place.name).at("commit", &place.path)?;
        let expected = match (self, found) {
            (Self::Nothing, found) => found.is_none(),
            (Self::Version(old), Some(stat)) => Version::of(&stat).is_but_for_names(*old),
            (Self::Seen(meta), Some(stat)) if meta.is_dir() => file_type(&stat).is_dir(),
            (Self::Seen(meta), Some(_)) => {
                let now = look_at(&place.dir, &place.name, see.plain());
                now.at("commit", &place.path)?.is_like(meta)
            }
            (Self::Version(_) | Self::Seen(_), None) => false,
        };
        if expected { Ok(found) } else { Err(StoreError::Conflict { path: place.path.clone() }) }
    }
}

impl Finished {
    /// Moves it into place, having checked that it is still ours and replaces what it is to replace.
    pub(super) fn land(&self, store: &Inner, place: &Place) -> Result<(), StoreError> {
        self.expected.check(place, store.see)?;
        store.back_up(place, Goes::Replaced)?;
        let stages = store.stages(self.whose);
        let dir = stages.dir(&self.home).at("commit", &self.path)?;
        let staged = dir.stat(&self.name).at("commit", &self.path)?;
        if inode_of(&staged) != self.inode {
            return Err(StoreError::Conflict { path: self.path.clone() });
        }
        place.land(&dir, &self.name).at("commit", &self.path)?;
        if self.is_noted {
            remove_log(&dir, &self.name);
        }
        store.touched.add(&place.dir_path);
        if let (Whose::Own, Ok(staging)) = (self.whose, staging_path(&self.home)) {
            store.touched.add(&staging);
        }
        store.settle(place, (self.whose, &self.home));
        Ok(())
    }
}
