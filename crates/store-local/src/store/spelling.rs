//! File systems that accept several spellings of one name: exFAT, NTFS, FAT, SMB, HFS+, ext4 with `casefold`.
//!
//! Inode numbers do not identify an entry: behind `exfat-fuse` each spelling of a name has its own number. So an entry
//! is found by the form that its spellings share ([`folded`]), and a lookup shows whether a name exists.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use deltic_tree::fold::{SampleNames, folded, other_spellings};
use deltic_tree::{Name, Names, RelPath};
use rustix::fs::Mode;
use rustix::io::Errno;

use crate::commit::changes::Became;
use crate::commit::state::StoreState;
use crate::handles::dir::{Dir, Use};
use crate::handles::stat::inode_of;
use crate::kernel::errno::{At, store_error};
use crate::kernel::system::System;
use deltic_store::{NamePair, OneName, Respell, StoreError};

/// Renames entries of `dir` to the listed spelling. A dry run renames nothing. Returns the former names of these
/// entries.
pub(crate) fn respell(
    store: &StoreState,
    dir: &RelPath,
    &Respell { listed, samples, dry_run }: &Respell<'_>,
) -> Result<Vec<Name>, StoreError> {
    let held = store.root.open_dir(dir, Use::Read).at(LIST, dir)?;
    // A sample that does not exist proves nothing.
    let may_fold = |name: &Name| held.stat(name).is_err() || has_other_spelling(&held, name);
    if !samples.names().any(may_fold) {
        return Ok(Vec::new());
    }
    let found = entries_of_listed(&held, listed).at(LIST, dir)?;
    let mut former = HashSet::new();
    for (name, entries) in found {
        if entries.is_empty() {
            // The entry of this name is not known, so any entry that is removed could be this entry.
            let path = dir.join(&name).unwrap_or_else(|_| dir.clone());
            return Err(store_error(
                "find the entry with another spelling of",
                &path,
                Errno::NOTUNIQ,
            ));
        }
        if let ([entry], false) = (entries.as_slice(), dry_run)
            && !former.contains(entry)
        {
            rename(store, dir, &held, [entry, &name]);
        }
        former.extend(entries);
    }
    Ok(former.into_iter().collect())
}

/// Renames `entry` to another spelling. If the file system keeps the old spelling, the entry keeps its name.
fn rename(store: &StoreState, dir: &RelPath, held: &Dir, [entry, name]: [&Name; 2]) {
    if held.rename(entry, held, name).is_err() {
        return;
    }
    store.touched.add(dir);
    for (name, became) in [(entry, Became::Gone), (name, Became::Put)] {
        if let Ok(path) = dir.join(name) {
            store.commits.changes.report(&path, became);
        }
    }
}

/// True if a lookup in `dir` finds the entry `name` by another spelling.
fn has_other_spelling(dir: &Dir, name: &Name) -> bool {
    other_spellings(name).any(|other| dir.stat(&other).is_ok())
}

/// Looks up listed names in `dir`. Returns each listed name that finds an entry of another spelling, with the entries
/// that the name may mean.
fn entries_of_listed(dir: &Dir, listed: &Names) -> Result<Vec<(Name, Vec<Name>)>, Errno> {
    let (mut spelled, mut unlisted) = (HashSet::new(), HashMap::<_, Vec<Name>>::new());
    for_each_name(dir, |name| {
        if listed.contains(&name) {
            spelled.insert(name);
        } else {
            unlisted.entry(folded(&name)).or_default().push(name);
        }
    })?;
    let is_found = |name: &Name| !spelled.contains(name) && dir.stat(name).is_ok();
    let mut found: Vec<Name> = listed.clone().into_iter().filter(is_found).collect();
    if !found.is_empty() {
        // New entries may have appeared since the first listing.
        let mut now = HashSet::new();
        for_each_name(dir, |name| {
            now.insert(name);
        })?;
        found.retain(|name| !now.contains(name));
    }
    // An entry of another listed name is not a candidate.
    let forms: HashSet<_> = spelled.iter().map(folded).collect();
    let entries = |name: Name| {
        let form = folded(&name);
        let alike = unlisted.get(&form).cloned().unwrap_or_default();
        match (alike.is_empty(), forms.contains(&form)) {
            (true, true) => None,
            (true, false) => Some((same_inode(dir, &name, &unlisted), name)),
            (false, _) => Some((alike, name)),
        }
    };
    Ok(found.into_iter().filter_map(entries).map(|(entries, name)| (name, entries)).collect())
}

/// Returns the entries of `among` that have the inode of `name`. Called if no entry has the folded form of `name`.
fn same_inode(dir: &Dir, name: &Name, among: &HashMap<Vec<u8>, Vec<Name>>) -> Vec<Name> {
    let inode = |name: &Name| dir.stat(name).ok().map(|stat| inode_of(&stat));
    let Some(own) = inode(name) else { return Vec::new() };
    among.values().flatten().filter(|entry| inode(entry) == Some(own)).cloned().collect()
}

fn for_each_name(dir: &Dir, mut each: impl FnMut(Name)) -> Result<(), Errno> {
    dir.for_each_name(|name| {
        if let Some(name) =
            Name::new(name).ok().filter(|name| !dir.bounds().is_private(name.as_bytes()))
        {
            each(name);
        }
    })
}

/// Checks if `name` and `earlier` find one entry in `dir`. A dry run creates no file for the check.
pub(crate) fn is_one_name(
    store: &StoreState,
    dir: &RelPath,
    &NamePair { name, earlier, dry_run }: &NamePair<'_>,
) -> Result<OneName, StoreError> {
    let (at, held) = nearest_dir(store, dir)?;
    if at != *dir {
        return guess_folding(&held).at(LIST, &at);
    }
    match (held.stat(name).is_ok(), held.stat(earlier).is_ok()) {
        (true, true) => {
            let mut spelled = 0;
            for_each_name(&held, |is| spelled += usize::from(is == *name || is == *earlier))
                .at(LIST, dir)?;
            Ok(if spelled == 2 { OneName::No } else { OneName::Yes })
        }
        (false, false) if dry_run => guess_folding(&held).at(LIST, dir),
        (false, false) => test_names(&held, name, earlier).at("try two names in", dir),
        _ => Ok(OneName::No),
    }
}

/// Opens the directory `dir`. If `dir` does not exist, as in a dry run, opens its nearest existing parent.
fn nearest_dir(store: &StoreState, dir: &RelPath) -> Result<(RelPath, Dir), StoreError> {
    let mut at = dir.clone();
    loop {
        match (store.root.open_dir(&at, Use::Read), at.split_last()) {
            (Err(Errno::NOENT | Errno::NOTDIR), Some((above, _))) => at = above,
            (held, _) => {
                let held = held.at(LIST, &at)?;
                return Ok((at, held));
            }
        }
    }
}

/// Guesses if `dir` treats several spellings as one name, from existing entries or else from the type of the file
/// system.
fn guess_folding(dir: &Dir) -> Result<OneName, Errno> {
    let mut samples = SampleNames::default();
    dir.for_each_name(|name| {
        if let Ok(name) = Name::new(name) {
            samples.keep_sample(&name);
        }
    })?;
    let mut names = samples.names().peekable();
    if names.peek().is_some() {
        return Ok(if names.any(|name| has_other_spelling(dir, name)) {
            OneName::Yes
        } else {
            OneName::No
        });
    }
    Ok(System::of(dir).folds_names())
}

/// Checks if the file system of `dir` accepts several spellings of one name, by a test in a new directory.
///
/// # Errors
/// No directory or file can be created in `dir`.
pub fn folds_names(dir: OwnedFd) -> io::Result<bool> {
    let name = |text: &[u8]| Name::new(text).map_err(|_| Errno::INVAL);
    let answer = test_names(&Dir::from_handle(dir, &Arc::default())?, &name(b"A")?, &name(b"a")?)?;
    Ok(answer == OneName::Yes)
}

/// Checks if the file system treats two names as one, by a test in a new directory in `dir`.
fn test_names(dir: &Dir, name: &Name, earlier: &Name) -> Result<OneName, Errno> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let own = format!(".deltic-names-{}-{number}", std::process::id());
    let own = Name::new(own.as_bytes()).map_err(|_| Errno::INVAL)?;
    dir.make_dir(&own, Mode::RWXU)?;
    let tried = RelPath::root().join(&own).map_err(|_| Errno::INVAL).and_then(|path| {
        let within = dir.open_dir(&path, Use::Pass)?;
        let made = within.create(earlier).map(drop);
        let is_one = within.stat(name).is_ok();
        let removed = made.and_then(|()| within.remove_file(earlier));
        removed.map(|()| if is_one { OneName::Yes } else { OneName::No })
    });
    dir.remove_dir(&own)?;
    tried
}

const LIST: &str = "list";
