//! Puts small new files in place as a whole, with few system calls. A first copy mostly consists of such files. A small
//! file is staged, gets its metadata and is renamed like any other version.
//!
//! A [`LocalRebuild`](super::rebuild::LocalRebuild) takes further steps for versions that grow for a while: it sets the
//! file's length in advance, checks that the staged file is still its own, and leaves the file to the next run.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use deltic_tree::Name;
use rustix::fs;
use rustix::io::Errno;

use super::state::StoreState;
use crate::attributes::attrs::{Attrs, NewMode, On};
use crate::handles::dir::Dir;
use crate::handles::place::{COMMIT, Landed, Place};
use crate::kernel::errno::At;
use crate::kernel::read_write::write_at;
use crate::roots::quota::Reserved;
use crate::staging::stage::{StageOwner, Staged};
use deltic_store::{Keep, StoreError, Unset, Version, Whole};

/// A new file that is in place, or that is complete and only lacks its name.
pub(crate) enum BegunFile {
    /// The file is in place, or has failed.
    Ended(Result<Option<Version>, StoreError>),
    Staged(NewFile),
}

impl BegunFile {
    fn staged(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Ended(_) => None,
            Self::Staged(new) => Some(new.staged.file.as_fd()),
        }
    }
}

/// A new file with content and metadata.
pub(crate) struct NewFile {
    place: Place,
    staged: Staged,
    reserved: Reserved,
    unset: Unset,
}

/// Creates a file for `place`, where no entry exists.
pub(crate) fn begin_file(
    store: &StoreState,
    place: Place,
    file: &Whole<'_>,
    keep: Keep,
) -> Result<BegunFile, StoreError> {
    let heritage = store.makes.heritage(&place).at(COMMIT, &place.path)?;
    let attrs = Attrs::of_new(
        file.meta,
        store.attribute_rules(keep),
        NewMode::for_new_entry(heritage, store.makes.umask),
    );
    let reserved = store.reserve(&place.path, file.bytes.len() as u64)?;
    if let Some(put) = put_nameless(store, &place, file.bytes, &attrs) {
        reserved.convert_if_put(&put);
        store.report_if_put(&place.path, &put);
        return Ok(BegunFile::Ended(put));
    }
    let staged =
        store.stages.create_staged_with_mode(&place, attrs.birth_mode(store.makes.owner))?;
    match write_content(&place, &staged.file, file.bytes, &attrs) {
        Ok(unset) => Ok(BegunFile::Staged(NewFile { place, staged, reserved, unset })),
        Err(error) => {
            remove_staged(store, &staged);
            Err(error)
        }
    }
}

/// Puts new files in place. A durable store flushes the files together before.
pub(crate) fn finish_all(
    store: &StoreState,
    begun: Vec<Result<BegunFile, StoreError>>,
) -> Vec<Result<Option<Version>, StoreError>> {
    let files: Vec<_> = begun.iter().flatten().filter_map(BegunFile::staged).collect();
    let mut flushed = store.touched.flush_files(&files).into_iter();
    let finish = |begun: Result<_, _>| match begun? {
        BegunFile::Ended(put) => put,
        BegunFile::Staged(new) => {
            new.finish_file(store, flushed.next().expect("each file has an answer"))
        }
    };
    begun.into_iter().map(finish).collect()
}

impl NewFile {
    fn finish_file(
        self,
        store: &StoreState,
        flushed: Result<(), Errno>,
    ) -> Result<Option<Version>, StoreError> {
        let Self { place, staged, reserved, unset } = self;
        let put =
            flushed.at("flush", &place.path).and_then(|()| place_staged(store, &place, &staged));
        if put.is_err() {
            remove_staged(store, &staged);
        }
        reserved.convert_if_put(&put);
        store.report_if_put(&place.path, &put);
        let landed = put?;
        unset.of(&place.path)?;
        Ok(store.version_in_place(landed, &staged.file))
    }
}

/// Removes a staged file. No later run needs to resume the file, since the caller has its whole content.
fn remove_staged(store: &StoreState, Staged { home, name, .. }: &Staged) {
    store.stages.discard_in(home, name);
}

/// Puts a nameless file in place by a hard link. `None` if the file must have a name first: to be flushed, or because
/// the file system or the kernel requires a name.
fn put_nameless(
    store: &StoreState,
    place: &Place,
    bytes: &[u8],
    attrs: &Attrs<'_>,
) -> Option<Result<Option<Version>, StoreError>> {
    if store.touched.is_durable() {
        return None;
    }
    let (file, home) = store.stages.create_nameless(place, attrs.birth_mode(store.makes.owner))?;
    let unset = match write_content(place, &file, bytes, attrs) {
        Ok(unset) => unset,
        Err(error) => return Some(Err(error)),
    };
    match place.dir.link_nameless(&file, &place.name) {
        Ok(()) => {
            store.remove_remains(place, StageOwner::Own, &home);
            Some(unset.of(&place.path).map(|()| None))
        }
        Err(Errno::EXIST) => Some(Err(StoreError::Conflict { path: place.path.clone() })),
        // The file is created again in a staging directory beside the place.
        Err(Errno::XDEV) if home != place.dir_path && store.stages.open_beside(place).is_ok() => {
            put_nameless(store, place, bytes, attrs)
        }
        // The file system may lack nameless files. If not, the rename of a named file will report the error.
        Err(_) => {
            store.stages.need_names();
            None
        }
    }
}

/// Writes the content of a new file and sets the metadata; returns the metadata that could not be set.
fn write_content(
    Place { path, .. }: &Place,
    file: &OwnedFd,
    bytes: &[u8],
    attrs: &Attrs<'_>,
) -> Result<Unset, StoreError> {
    let born = fs::fstat(file).at("create", path)?;
    if !bytes.is_empty() {
        write_at(file.as_fd(), 0, bytes).at("write", path)?;
    }
    Ok(attrs.set_on_new(On::Open(file.as_fd()), &born))
}

/// Moves a staged file into place, where no other entry may be.
fn place_staged(
    store: &StoreState,
    place: &Place,
    Staged { home, name, .. }: &Staged,
) -> Result<Landed, StoreError> {
    let path = &place.path;
    let dir = store.stages.open_dir_of(home).at(COMMIT, path)?;
    let rename = |dir: &Dir, name: &Name| dir.rename_new(name, &place.dir, &place.name);
    let landed = match store.place_entry(place, &dir, name, rename) {
        Err(Errno::EXIST) => return Err(StoreError::Conflict { path: path.clone() }),
        landed => landed.at(COMMIT, path)?,
    };
    store.touched.add(&place.dir_path);
    if let Ok(staging) = store.stages.path_of_dir(home) {
        store.touched.add(&staging);
    }
    store.remove_remains(place, StageOwner::Own, home);
    Ok(landed)
}
