//! Small files that are new here, put in place whole: staged, set and renamed as any other version is, with as few
//! system calls as that takes. A first copy is mostly these.
//!
//! What a [`LocalRebuild`](super::rebuild::LocalRebuild) does besides is for versions that grow for a while: to give
//! the file its length, to look whether the staged one is still ours, to leave it to the next run.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use deltic_tree::Name;
use rustix::fs;
use rustix::io::Errno;

use super::attrs::{Attrs, NewMode, On};
use super::copy::write_at;
use super::inner::Inner;
use super::place::{COMMIT, Landed, Place};
use super::quota::Reserved;
use super::stage::{Staged, Whose, discard};
use crate::dir::Dir;
use crate::errno::At;
use deltic_store::{Keep, StoreError, Unset, Version, Whole};

/// A new file that is in its place, or has all but its name.
pub(super) enum Begun {
    /// The file is in its place, or cannot be.
    Ended(Result<Option<Version>, StoreError>),
    Staged(NewFile),
}

impl Begun {
    fn staged(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Ended(_) => None,
            Self::Staged(new) => Some(new.staged.file.as_fd()),
        }
    }
}

/// A new file that has its content and attributes.
pub(super) struct NewFile {
    place: Place,
    staged: Staged,
    reserved: Reserved,
    unset: Unset,
}

/// Makes a file for `place`, where nothing is.
pub(super) fn begin(
    store: &Inner,
    place: Place,
    (file, keep): (&Whole<'_>, Keep),
) -> Result<Begun, StoreError> {
    let heritage = store.heritage(&place).at(COMMIT, &place.path)?;
    let attrs =
        Attrs::of_new(file.meta, (keep, store.ways()), NewMode::below(heritage, store.makes.umask));
    let what = (file.bytes, &attrs);
    let reserved = store.reserve(&place.path, file.bytes.len() as u64)?;
    if let Some(put) = put_nameless(store, &place, what) {
        reserved.keep_if(&put);
        store.tell_if_put(&place.path, &put);
        return Ok(Begun::Ended(put));
    }
    let staged = store.stages.create_as(&place, attrs.birth_mode(store.makes.owner))?;
    match fill(&place, &staged.file, what) {
        Ok(unset) => Ok(Begun::Staged(NewFile { place, staged, reserved, unset })),
        Err(error) => {
            remove(store, &staged);
            Err(error)
        }
    }
}

/// Puts new files in their places, flushed together where they are to last.
pub(super) fn finish_all(
    store: &Inner,
    begun: Vec<Result<Begun, StoreError>>,
) -> Vec<Result<Option<Version>, StoreError>> {
    let files: Vec<_> = begun.iter().flatten().filter_map(Begun::staged).collect();
    let mut flushed = store.touched.flush_files(&files).into_iter();
    let finish = |begun: Result<_, _>| match begun? {
        Begun::Ended(put) => put,
        Begun::Staged(new) => new.finish(store, flushed.next().expect("each file has an answer")),
    };
    begun.into_iter().map(finish).collect()
}

impl NewFile {
    fn finish(
        self,
        store: &Inner,
        flushed: Result<(), Errno>,
    ) -> Result<Option<Version>, StoreError> {
        let Self { place, staged, reserved, unset } = self;
        let put = flushed.at("flush", &place.path).and_then(|()| land(store, &place, &staged));
        if put.is_err() {
            remove(store, &staged);
        }
        reserved.keep_if(&put);
        store.tell_if_put(&place.path, &put);
        let landed = put?;
        unset.of(&place.path)?;
        Ok(store.version_landed(landed, &staged.file))
    }
}

/// Removes a staged file: all of it is at hand, and nobody will want to go on with a part of it.
fn remove(store: &Inner, Staged { home, name, .. }: &Staged) {
    if let Ok(dir) = store.stages.dir(home) {
        discard(&dir, name);
    }
}

/// Puts a file in its place that gets its first name there. `None`, if it must have one before: to be flushed, or
/// because this file system or kernel wants it so.
fn put_nameless(
    store: &Inner,
    place: &Place,
    what: (&[u8], &Attrs<'_>),
) -> Option<Result<Option<Version>, StoreError>> {
    if store.touched.is_durable() {
        return None;
    }
    let (file, home) = store.stages.create_nameless(place, what.1.birth_mode(store.makes.owner))?;
    let unset = match fill(place, &file, what) {
        Ok(unset) => unset,
        Err(error) => return Some(Err(error)),
    };
    match place.dir.put(&file, &place.name) {
        Ok(()) => {
            store.settle(place, (Whose::Own, &home));
            Some(unset.of(&place.path).map(|()| None))
        }
        Err(Errno::EXIST) => Some(Err(StoreError::Conflict { path: place.path.clone() })),
        // It is made there again.
        Err(Errno::XDEV) if home != place.dir_path && store.stages.part(place).is_ok() => {
            put_nameless(store, place, what)
        }
        // If it is not that, a rename will say what it is.
        Err(_) => {
            store.stages.need_names();
            None
        }
    }
}

/// Gives a file that was just made its content and all else; what of its attributes could not be set.
fn fill(
    Place { path, .. }: &Place,
    file: &OwnedFd,
    (bytes, attrs): (&[u8], &Attrs<'_>),
) -> Result<Unset, StoreError> {
    let born = fs::fstat(file).at("create", path)?;
    if !bytes.is_empty() {
        write_at(file.as_fd(), 0, bytes).at("write", path)?;
    }
    Ok(attrs.set_on_new(On::Open(file.as_fd()), &born))
}

/// Moves it to its place.
fn land(
    store: &Inner,
    place: &Place,
    Staged { home, name, .. }: &Staged,
) -> Result<Landed, StoreError> {
    let path = &place.path;
    let dir = store.stages.dir(home).at(COMMIT, path)?;
    let rename = |dir: &Dir, name: &Name| dir.rename_new(name, &place.dir, &place.name);
    let landed = match store.land(place, (&dir, name), rename) {
        Err(Errno::EXIST) => return Err(StoreError::Conflict { path: path.clone() }),
        landed => landed.at(COMMIT, path)?,
    };
    store.touched.add(&place.dir_path);
    if let Ok(staging) = store.stages.path(home) {
        store.touched.add(&staging);
    }
    store.settle(place, (Whose::Own, home));
    Ok(landed)
}
