//! A file that is changed where it is (`--inplace`): it keeps its inode, its other names and whoever has it open.
//!
//! What lies where it lay, or equals what lies there, is not touched. All else is staged, and written into the file
//! once the whole new version is proven: so what is copied is read before anything is written over it, in whatever
//! order, and an interrupted transfer leaves the old version. Whoever ends a session waits for the files that are
//! [changing](UnderWay). Only a kill while the staged bytes are written leaves neither version; the file's time is the
//! present then, which `--update` takes for newer. After an error it is a [time](is_torn) that no source has, so that
//! the next run sees to it (docs/decisions/0020).

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};

use deltic_tree::RelPath;
use deltic_tree::meta::LENDING_BITS;
use rustix::fs::{self, OFlags, Stat, Timespec, Timestamps};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::attrs::{AT_ANY_TIME, set_mode};
use super::copy::{BLOCK_BYTES, Copier, End, read_through};
use super::holes::{Under, clear, dig, each_data, write_sparse};
use super::place::Place;
use super::room::reserve_all;
use super::snapshot::{LocalSnapshot, Stamp, file_type, inode_of};
use super::writing::Writing;
use crate::copy::read_at;
use crate::dir::keeps_to_volumes;
use crate::errno::At;
use crate::lock;
use deltic_store::StoreError;

/// A file that is about to change.
#[derive(Debug)]
pub(super) struct Changing {
    file: OwnedFd,
    /// True if its mode keeps its owner, who we are, from writing to it: then it is open to be read only.
    is_closed: bool,
    version: Stamp,
    /// Where bytes are staged: ends by starts, of runs that neither touch nor overlap.
    staged: Mutex<BTreeMap<u64, u64>>,
}

impl Changing {
    /// The regular file at `place`, if there is one.
    pub(super) fn of(place: &Place) -> Result<Option<Self>, StoreError> {
        let found = place.dir.find(&place.name).at(OPEN, &place.path)?;
        let Some(found) = found.filter(|stat| file_type(stat).is_file()) else { return Ok(None) };
        let is_ours = found.st_uid == geteuid().as_raw();
        let open = |how| place.dir.open(&place.name, how);
        let (file, is_closed) = match open(OFlags::RDWR) {
            Err(Errno::ACCESS) if is_ours => match open(OFlags::RDONLY) {
                // Nobody holds it as an old version, who would see that it is touched.
                Err(Errno::ACCESS) => (open_to_owner(place), false),
                file => (file, true),
            },
            file => (file, false),
        };
        let file = file.at(OPEN, &place.path)?;
        let stat = fs::fstat(&file).at(OPEN, &place.path)?;
        let version = Stamp::of(&stat);
        // Bytes of a client never stand under a mode that lends rights: the file is replaced.
        let lends = keeps_to_volumes() && stat.st_mode & LENDING_BITS != 0;
        let is_file = file_type(&stat).is_file() && !lends;
        Ok(is_file.then_some(Self { file, is_closed, version, staged: Mutex::default() }))
    }

    /// The file, which is at `place`, to be written to.
    pub(super) fn writer(&self, place: &Place) -> Result<Writer<'_>, StoreError> {
        if !self.is_closed {
            return Ok(Writer { of: self, opened: None });
        }
        let opened = open_to_owner(place).at(OPEN, &place.path)?;
        // What got its name meanwhile is another file.
        if inode_of(&fs::fstat(&opened).at(OPEN, &place.path)?) == self.version.inode {
            Ok(Writer { of: self, opened: Some(opened) })
        } else {
            Err(StoreError::Conflict { path: place.path.clone() })
        }
    }

    pub(super) const fn version(&self) -> Stamp {
        self.version
    }

    pub(super) const fn file(&self) -> &OwnedFd {
        &self.file
    }

    /// True if this span of `from` is in its place already.
    pub(super) fn has(&self, from: &LocalSnapshot, old: &Range<u64>, new_start: u64) -> bool {
        old.start == new_start && from.stamp() == self.version
    }

    /// Bytes were staged.
    pub(super) fn stage(&self, range: Range<u64>) {
        let (mut start, mut end) = (range.start, range.end);
        let mut staged = lock(&self.staged);
        while let Some((&other, &other_end)) = staged.range(..=end).next_back() {
            if other_end < start {
                break;
            }
            staged.remove(&other);
            (start, end) = (start.min(other), end.max(other_end));
        }
        if start < end {
            staged.insert(start, end);
        }
    }

    /// What was staged there is of no use: the bytes lie where they lay.
    pub(super) fn unstage(&self, range: &Range<u64>) {
        let mut staged = lock(&self.staged);
        while let Some((&start, &end)) = staged.range(..range.end).next_back() {
            if end <= range.start {
                break;
            }
            staged.remove(&start);
            if range.end < end {
                staged.insert(range.end, end);
            }
            if start < range.start {
                staged.insert(start, range.start);
            }
        }
    }

    /// Which of `bytes`, which are for `start` on, the file does not have there: runs of whole blocks, but for the
    /// ends. What it has is not written over, and a hole that is to hold zeros stays one.
    pub(super) fn lacks(&self, start: u64, bytes: &[u8]) -> Result<Vec<Range<u64>>, Errno> {
        let mut here = vec![0; bytes.len()];
        let has = read_at(&self.file, start, &mut here)?;
        let (mut runs, mut done) = (Vec::new(), 0);
        while done < bytes.len() {
            let at = start + done as u64;
            let end = bytes.len().min(done + (BLOCK_BYTES - at % BLOCK_BYTES) as usize);
            if end > has || bytes[done..end] != here[done..end] {
                join(&mut runs, at..start + end as u64);
            }
            done = end;
        }
        Ok(runs)
    }

    /// The same of the bytes `old` of `from`; `None` where that ends before.
    pub(super) fn lacks_of(
        &self,
        from: BorrowedFd<'_>,
        old: Range<u64>,
        new_start: u64,
    ) -> Result<Option<Vec<Range<u64>>>, Errno> {
        let (start, mut runs) = (old.start, Vec::new());
        let whole = read_through(from, old, |at, bytes| {
            let more = self.lacks(new_start + (at - start), bytes)?;
            more.into_iter().for_each(|run| join(&mut runs, run));
            Ok(())
        })?;
        Ok(whole.then_some(runs))
    }

    /// True if all of these bytes are staged.
    pub(super) fn has_staged(&self, range: &Range<u64>) -> bool {
        let staged = lock(&self.staged);
        let before = staged.range(..=range.start).next_back();
        range.is_empty() || before.is_some_and(|(_, end)| *end >= range.end)
    }

    /// True if all of a new version of `len` bytes is staged.
    pub(super) fn is_all_staged(&self, len: u64) -> bool {
        self.has_staged(&(0..len))
    }

    /// Reads the new version, of which `staged` has what is to change.
    pub(super) fn read_at(
        &self,
        staged: &OwnedFd,
        start: u64,
        buf: &mut [u8],
    ) -> Result<usize, Errno> {
        let want = start + buf.len() as u64;
        let mut filled = read_at(self.file.as_fd(), start, buf)?;
        for (&from, &to) in lock(&self.staged).range(..want) {
            let (from, to) = (from.max(start), to.min(want));
            if from < to {
                let room = &mut buf[(from - start) as usize..(to - start) as usize];
                filled = filled.max((from - start) as usize + read_at(staged.as_fd(), from, room)?);
            }
        }
        Ok(filled)
    }

    /// The file is neither old nor new: it gets a time that no source has, and that `--update` does not take for newer.
    pub(super) fn mark_torn(&self) {
        // Else it has the present.
        let _ = fs::futimens(&self.file, &modified_at(0, TORN_NANOS));
    }
}

/// A file that is about to change, open to be written to.
#[derive(Debug)]
pub(super) struct Writer<'a> {
    of: &'a Changing,
    opened: Option<OwnedFd>,
}

impl Writer<'_> {
    fn file(&self) -> &OwnedFd {
        self.opened.as_ref().unwrap_or(&self.of.file)
    }

    /// Gives blocks to what the file grows by to `len` bytes; where there are none, it stays as it was.
    pub(super) fn reserve(&self, len: u64, old: &Stat) -> Result<(), Errno> {
        let own_len = self.of.version.len();
        reserve_all(self.file(), own_len, len).inspect_err(|_| {
            // What it was given of them goes, which touches its time.
            if fs::fstat(self.file()).is_ok_and(|now| now.st_size as u64 == own_len) {
                let _ = fs::ftruncate(self.file(), own_len);
                let _ =
                    fs::futimens(self.file(), &modified_at(old.st_mtime, old.st_mtime_nsec as _));
            }
        })
    }

    /// Makes the file the new version of `len` bytes, of which `staged` has what is to change.
    pub(super) fn change(
        &self,
        (staged, device): (&OwnedFd, u64),
        len: u64,
        (writing, copier): (&Writing, &Copier),
    ) -> Result<(), Errno> {
        let from = End { file: staged.as_fd(), device };
        let to = End { file: self.file().as_fd(), device: self.of.version.device() };
        let is = fs::fstat(self.file())?;
        // Zeros that were sent would fill them.
        let has_holes = (is.st_blocks as u64).saturating_mul(512) < is.st_size as u64;
        let put = |staged: Range<u64>| {
            let runs = if has_holes {
                self.of.lacks_of(from.file, staged.clone(), staged.start)?.ok_or(Errno::IO)?
            } else {
                std::iter::once(staged).collect()
            };
            for run in runs {
                let start = run.start;
                let whole = if writing.sparse {
                    let write = |at, bytes: &[u8]| write_sparse(to.file, at, bytes, Under::Blocks);
                    read_through(from.file, run, write)?
                } else {
                    copier.copy(from, run, to, start)?
                };
                if !whole {
                    return Err(Errno::IO);
                }
            }
            Ok(())
        };
        for (&start, &end) in lock(&self.of.staged).iter() {
            let mut at = start;
            let put_data = |run: Range<u64>| {
                clear(to.file, at..run.start)?;
                at = run.end;
                put(run)
            };
            // A staged hole, of any length, may be a hole in the file in place as well.
            if writing.sparse && each_data(from.file, start..end, put_data)? {
                clear(to.file, at..end)?;
            } else {
                put(start..end)?;
            }
        }
        if fs::fstat(self.file())?.st_size as u64 != len {
            fs::ftruncate(self.file(), len)?;
        }
        if writing.sparse { dig(to.file, len) } else { Ok(()) }
    }
}

/// Adds a run behind others.
fn join(runs: &mut Vec<Range<u64>>, run: Range<u64>) {
    match runs.last_mut() {
        Some(last) if last.end == run.start => last.end = run.end,
        _ => runs.push(run),
    }
}

/// Files of a session that are changing where they are at this moment.
#[derive(Clone, Debug, Default)]
pub struct UnderWay(Arc<Mutex<Midst>>);

#[derive(Debug, Default)]
struct Midst {
    paths: Vec<RelPath>,
    is_over: bool,
}

impl UnderWay {
    /// Lets no other file begin to change, and says which one still does.
    pub fn end(&self) -> Option<RelPath> {
        let mut midst = lock(&self.0);
        midst.is_over = true;
        midst.paths.first().cloned()
    }

    /// The file `path` is about to change, until what is given back is dropped; `None` where that is over.
    pub(super) fn begin(&self, path: &RelPath) -> Option<Begun<'_>> {
        let mut midst = lock(&self.0);
        if midst.is_over {
            return None;
        }
        midst.paths.push(path.clone());
        Some(Begun { under_way: self, path: path.clone() })
    }
}

/// A file is changing until this is dropped.
#[derive(Debug)]
pub(super) struct Begun<'a> {
    under_way: &'a UnderWay,
    path: RelPath,
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        let paths = &mut lock(&self.under_way.0).paths;
        if let Some(at) = paths.iter().position(|path| *path == self.path) {
            paths.swap_remove(at);
        }
    }
}

/// True if an earlier run left it neither old nor new, and nobody wrote to it since.
pub(super) fn is_torn(stat: &Stat) -> bool {
    let (secs, nanos) = (i128::from(stat.st_mtime), i128::from(stat.st_mtime_nsec));
    file_type(stat).is_file() && (secs, nanos) == (0, TORN_NANOS.into())
}

fn modified_at(tv_sec: i64, tv_nsec: i64) -> Timestamps {
    Timestamps { last_access: AT_ANY_TIME, last_modification: Timespec { tv_sec, tv_nsec } }
}

/// Opens the file at `place` to be read and written while its mode lets its owner do so, who we are.
fn open_to_owner(place: &Place) -> Result<OwnedFd, Errno> {
    let held = place.dir.open(&place.name, OFlags::PATH)?;
    let stat = fs::fstat(&held)?;
    if !file_type(&stat).is_file() {
        return Err(Errno::ACCESS);
    }
    set_mode(&held, stat.st_mode | READ_AND_WRITE)?;
    let opened = place.dir.open(&place.name, OFlags::RDWR);
    set_mode(&held, stat.st_mode)?;
    opened
}

/// Files of several names that a run changes where they are, if only their attributes: it may do so under more than one
/// of them, and replace another.
#[derive(Debug, Default)]
pub(super) struct LeftFiles(Mutex<HashMap<(u64, u64), Turn>>);

/// Whose turn it is to change a file.
type Turn = Arc<Mutex<Left>>;

/// How one of them was left. It is held while the file changes: one name waits for the other.
#[derive(Debug, Default)]
pub(super) struct Left {
    pub(super) version: Option<Stamp>,
    /// The first of its names whose content it got in place of the old one.
    pub(super) rewritten_as: Option<RelPath>,
}

impl LeftFiles {
    /// The file of this device and inode; none where there are too many to know another.
    pub(super) fn of(&self, inode: (u64, u64)) -> Option<Turn> {
        let mut known = lock(&self.0);
        if known.len() >= MAX_LEFT && !known.contains_key(&inode) {
            return None;
        }
        Some(Arc::clone(known.entry(inode).or_default()))
    }

    /// The same, if it is known already.
    pub(super) fn known(&self, inode: (u64, u64)) -> Option<Turn> {
        lock(&self.0).get(&inode).cloned()
    }
}

/// Files of several names that a run changes where they are; another is replaced, and leaves its other names alone.
/// About 200 bytes each.
const MAX_LEFT: usize = 1 << 16;

/// There are files without a time, which have 0.
const TORN_NANOS: i64 = 1;

/// What an owner needs to change a file where it is.
const READ_AND_WRITE: u32 = 0o600;

const OPEN: &str = "open to change";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_files_of_several_names_are_known_than_there_is_room_for() {
        let left = LeftFiles::default();
        assert!((0..MAX_LEFT as u64).all(|inode| left.of((1, inode)).is_some()));
        assert!(left.of((2, 0)).is_none());
        let again = [left.of((1, 7)), left.of((1, 7))].map(Option::unwrap);
        assert!(Arc::ptr_eq(&again[0], &again[1]));
        assert_eq!(lock(&left.0).len(), MAX_LEFT);
    }
}
