//! Changes a file in place (`--inplace`): the file keeps its inode and its hard links, and stays open in other
//! programs.
//!
//! Bytes that stay in place, or equal the bytes in place, are not written. All other bytes are staged, and written into
//! the file once the whole new version is verified. So every copied byte is read before it is overwritten, in any
//! order, and an interrupted transfer leaves the old version. The end of a session waits for files that are
//! [changing](UnderWay). Only a kill while the staged bytes are written leaves a mix of both versions. The time of such
//! a file is the present, which `--update` takes for newer. After an error, the file gets a [time](is_torn) that no
//! source has, so that the next run repairs the file (docs/decisions/0020).

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};

use deltic_tree::RelPath;
use deltic_tree::meta::Inode;
use deltic_tree::meta::LENDING_BITS;
use rustix::fs::{self, OFlags, Stat, Timespec, Timestamps};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::writing::CommitOptions;
use crate::attributes::attrs::{AT_ANY_TIME, set_mode};
use crate::bytes::copy::{BLOCK_BYTES, Copier, End, read_in_parts};
use crate::bytes::holes::{Under, for_each_data, punch_zero_blocks, write_sparse, zero_range};
use crate::bytes::room::reserve_all;
use crate::handles::place::Place;
use crate::handles::stat::{Stamp, file_type, inode_of};
use crate::kernel::errno::At;
use crate::kernel::lock;
use crate::kernel::read_write::read_at;
use crate::read::snapshot::LocalSnapshot;
use deltic_store::StoreError;

/// A file to change in place.
#[derive(Debug)]
pub(crate) struct Changing {
    file: OwnedFd,
    /// True if the mode denies writing even to this user, the owner: the file is then open read-only.
    is_closed: bool,
    version: Stamp,
    /// Staged ranges, as end by start; separate and not adjacent.
    staged: Mutex<BTreeMap<u64, u64>>,
}

impl Changing {
    /// Opens the regular file at `place`. `None` if there is no file, or the file must be replaced instead.
    pub(crate) fn open_changing(place: &Place) -> Result<Option<Self>, StoreError> {
        let found = place.dir.stat_if_exists(&place.name).at(OPEN, &place.path)?;
        let Some(found) = found.filter(|stat| file_type(stat).is_file()) else { return Ok(None) };
        let is_ours = found.st_uid == geteuid().as_raw();
        let open = |how| place.dir.open(&place.name, how);
        let (file, is_closed) = match open(OFlags::RDWR) {
            Err(Errno::ACCESS) if is_ours => match open(OFlags::RDONLY) {
                // No snapshot of an unreadable file is open, so a change of the mode invalidates none.
                Err(Errno::ACCESS) => (open_to_owner(place), false),
                file => (file, true),
            },
            file => (file, false),
        };
        let file = file.at(OPEN, &place.path)?;
        let stat = fs::fstat(&file).at(OPEN, &place.path)?;
        let version = Stamp::of(&stat);
        // Content from a client never gets setuid or setgid, so such a file is replaced.
        let lends = place.dir.bounds().are_volumes() && stat.st_mode & LENDING_BITS != 0;
        let is_file = file_type(&stat).is_file() && !lends;
        Ok(is_file.then_some(Self { file, is_closed, version, staged: Mutex::default() }))
    }

    /// Opens the file at `place` for writing.
    pub(crate) fn writer(&self, place: &Place) -> Result<Writer<'_>, StoreError> {
        if !self.is_closed {
            return Ok(Writer { of: self, opened: None });
        }
        let opened = open_to_owner(place).at(OPEN, &place.path)?;
        // Another file may have this name by now.
        if inode_of(&fs::fstat(&opened).at(OPEN, &place.path)?) == self.version.inode {
            Ok(Writer { of: self, opened: Some(opened) })
        } else {
            Err(StoreError::Conflict { path: place.path.clone() })
        }
    }

    pub(crate) const fn version(&self) -> Stamp {
        self.version
    }

    pub(crate) const fn file(&self) -> &OwnedFd {
        &self.file
    }

    /// True if this span of `from` is already at its place in the file.
    pub(crate) fn is_in_place(
        &self,
        from: &LocalSnapshot,
        old: &Range<u64>,
        new_start: u64,
    ) -> bool {
        old.start == new_start && from.stamp() == self.version
    }

    /// Notes a range as staged.
    pub(crate) fn note_staged(&self, range: Range<u64>) {
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

    /// Removes a range from the staged ranges, since the file has the right bytes there.
    pub(crate) fn remove_staged(&self, range: &Range<u64>) {
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

    /// Returns the ranges of `bytes`, for offset `start`, that differ from the file's bytes there. The ranges consist
    /// of whole blocks, except at the ends. Equal bytes are not overwritten, and a hole that should hold zeros stays a
    /// hole.
    pub(crate) fn differing_ranges(
        &self,
        start: u64,
        bytes: &[u8],
    ) -> Result<Vec<Range<u64>>, Errno> {
        let mut here = vec![0; bytes.len()];
        let has = read_at(&self.file, start, &mut here)?;
        let (mut runs, mut done) = (Vec::new(), 0);
        while done < bytes.len() {
            let at = start + done as u64;
            let end = bytes.len().min(done + (BLOCK_BYTES - at % BLOCK_BYTES) as usize);
            if end > has || bytes[done..end] != here[done..end] {
                append_run(&mut runs, at..start + end as u64);
            }
            done = end;
        }
        Ok(runs)
    }

    /// Returns the ranges of the new version that differ from the file, for the bytes `old` of `from` at `new_start`.
    /// `None` if `from` ends before `old` does.
    pub(crate) fn differing_ranges_of_file(
        &self,
        from: BorrowedFd<'_>,
        old: Range<u64>,
        new_start: u64,
    ) -> Result<Option<Vec<Range<u64>>>, Errno> {
        let (start, mut runs) = (old.start, Vec::new());
        let whole = read_in_parts(from, old, |at, bytes| {
            let more = self.differing_ranges(new_start + (at - start), bytes)?;
            more.into_iter().for_each(|run| append_run(&mut runs, run));
            Ok(())
        })?;
        Ok(whole.then_some(runs))
    }

    /// True if the whole range is staged.
    pub(crate) fn has_staged(&self, range: &Range<u64>) -> bool {
        let staged = lock(&self.staged);
        let before = staged.range(..=range.start).next_back();
        range.is_empty() || before.is_some_and(|(_, end)| *end >= range.end)
    }

    /// True if a whole new version of `len` bytes is staged.
    pub(crate) fn is_all_staged(&self, len: u64) -> bool {
        self.has_staged(&(0..len))
    }

    /// Reads the new version: staged ranges from `staged`, all other bytes from the file.
    pub(crate) fn read_at(
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

    /// Marks the file as a mix of two versions. The mark is a time that no source has, and that `--update` does not
    /// take for newer.
    pub(crate) fn mark_half_changed(&self) {
        // Without the mark, the file has the present time.
        let _ = fs::futimens(&self.file, &modified_at(0, TORN_NANOS));
    }
}

/// A file to change in place, open for writing.
#[derive(Debug)]
pub(crate) struct Writer<'a> {
    of: &'a Changing,
    opened: Option<OwnedFd>,
}

impl Writer<'_> {
    fn file(&self) -> &OwnedFd {
        self.opened.as_ref().unwrap_or(&self.of.file)
    }

    /// Allocates blocks for growth of the file to `len` bytes. After a failure the file is unchanged.
    pub(crate) fn reserve(&self, len: u64, old: &Stat) -> Result<(), Errno> {
        let own_len = self.of.version.len();
        reserve_all(self.file(), own_len, len).inspect_err(|_| {
            // Truncating frees the allocated blocks, but changes the file's time, which is set back.
            if fs::fstat(self.file()).is_ok_and(|now| now.st_size as u64 == own_len) {
                let _ = fs::ftruncate(self.file(), own_len);
                let _ =
                    fs::futimens(self.file(), &modified_at(old.st_mtime, old.st_mtime_nsec as _));
            }
        })
    }

    /// Writes the changed ranges from the staged file `from` into the file, which becomes the new version of `len`
    /// bytes.
    pub(crate) fn write_changes(
        &self,
        from: End<'_>,
        len: u64,
        writing: &CommitOptions,
        copier: &Copier,
    ) -> Result<(), Errno> {
        let to = End { file: self.file().as_fd(), device: self.of.version.device() };
        let is = fs::fstat(self.file())?;
        // Zeros that were sent would fill the holes of the file.
        let has_holes = (is.st_blocks as u64).saturating_mul(512) < is.st_size as u64;
        let put = |staged: Range<u64>| {
            let runs = if has_holes {
                self.of
                    .differing_ranges_of_file(from.file, staged.clone(), staged.start)?
                    .ok_or(Errno::IO)?
            } else {
                std::iter::once(staged).collect()
            };
            for run in runs {
                let start = run.start;
                let whole = if writing.sparse {
                    let write = |at, bytes: &[u8]| write_sparse(to.file, at, bytes, Under::Blocks);
                    read_in_parts(from.file, run, write)?
                } else {
                    copier.copy_range(from, run, to, start)?
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
                zero_range(to.file, at..run.start)?;
                at = run.end;
                put(run)
            };
            // A hole of the staged file may become a hole of the file.
            if writing.sparse && for_each_data(from.file, start..end, put_data)? {
                zero_range(to.file, at..end)?;
            } else {
                put(start..end)?;
            }
        }
        if fs::fstat(self.file())?.st_size as u64 != len {
            fs::ftruncate(self.file(), len)?;
        }
        if writing.sparse { punch_zero_blocks(to.file, len) } else { Ok(()) }
    }
}

/// Appends a run, joined to the last run if adjacent.
fn append_run(runs: &mut Vec<Range<u64>>, run: Range<u64>) {
    match runs.last_mut() {
        Some(last) if last.end == run.start => last.end = run.end,
        _ => runs.push(run),
    }
}

/// The files that a session is changing in place at this moment.
#[derive(Clone, Debug, Default)]
pub struct UnderWay(Arc<Mutex<Midst>>);

#[derive(Debug, Default)]
struct Midst {
    paths: Vec<RelPath>,
    is_over: bool,
}

impl UnderWay {
    /// Stops further changes in place. Returns the path of a file that is still being changed.
    pub fn stop_changes(&self) -> Option<RelPath> {
        let mut midst = lock(&self.0);
        midst.is_over = true;
        midst.paths.first().cloned()
    }

    /// Records that the file `path` is being changed, until the returned value is dropped. `None` after
    /// [`stop_changes`](Self::stop_changes).
    pub(crate) fn begin_change(&self, path: &RelPath) -> Option<BegunChange<'_>> {
        let mut midst = lock(&self.0);
        if midst.is_over {
            return None;
        }
        midst.paths.push(path.clone());
        Some(BegunChange { under_way: self, path: path.clone() })
    }
}

/// A file that is being changed, until this value is dropped.
#[derive(Debug)]
pub(crate) struct BegunChange<'a> {
    under_way: &'a UnderWay,
    path: RelPath,
}

impl Drop for BegunChange<'_> {
    fn drop(&mut self) {
        let paths = &mut lock(&self.under_way.0).paths;
        if let Some(at) = paths.iter().position(|path| *path == self.path) {
            paths.swap_remove(at);
        }
    }
}

/// True if an earlier run left the file as a mix of two versions, and no program has written to the file since.
pub(crate) fn is_marked_half_changed(stat: &Stat) -> bool {
    let (secs, nanos) = (i128::from(stat.st_mtime), i128::from(stat.st_mtime_nsec));
    file_type(stat).is_file() && (secs, nanos) == (0, TORN_NANOS.into())
}

fn modified_at(tv_sec: i64, tv_nsec: i64) -> Timestamps {
    Timestamps { last_access: AT_ANY_TIME, last_modification: Timespec { tv_sec, tv_nsec } }
}

/// Opens the file at `place` for reading and writing. Changes the mode for the open, if the mode denies this to the
/// owner.
fn open_to_owner(place: &Place) -> Result<OwnedFd, Errno> {
    let held = place.dir.open(&place.name, OFlags::PATH)?;
    let stat = fs::fstat(&held)?;
    if !file_type(&stat).is_file() {
        return Err(Errno::ACCESS);
    }
    set_mode(&held, stat.st_mode | READ_AND_WRITE, place.dir.bounds())?;
    let opened = place.dir.open(&place.name, OFlags::RDWR);
    set_mode(&held, stat.st_mode, place.dir.bounds())?;
    opened
}

/// Files with several hard links that a run changes in place. The run may change such a file under several of its
/// names, and may replace the file under other names.
#[derive(Debug, Default)]
pub(crate) struct LeftFiles(Mutex<HashMap<Inode, Turn>>);

/// State of a file, locked while the file changes.
type Turn = Arc<Mutex<LeftFile>>;

/// State of a file after the run's last change. The lock makes names of the file wait for each other.
#[derive(Debug, Default)]
pub(crate) struct LeftFile {
    pub(crate) version: Option<Stamp>,
    /// The first name under which the run wrote new content to the file.
    pub(crate) rewritten_as: Option<RelPath>,
}

impl LeftFiles {
    /// Returns the state of the file with this inode, which is about to be changed. `None` if too many files have a
    /// state.
    pub(crate) fn turn_of(&self, inode: Inode) -> Option<Turn> {
        let mut known = lock(&self.0);
        if known.len() >= MAX_LEFT && !known.contains_key(&inode) {
            return None;
        }
        Some(Arc::clone(known.entry(inode).or_default()))
    }

    /// Returns the state of the file with this inode, if the run has changed the file.
    pub(crate) fn turn_if_changed(&self, inode: Inode) -> Option<Turn> {
        lock(&self.0).get(&inode).cloned()
    }
}

/// Most files with several hard links that a run changes in place, at about 200 bytes each. Further files are replaced,
/// which leaves their other names alone.
const MAX_LEFT: usize = 1 << 16;

/// Nanoseconds of the time that [marks](Changing::mark_half_changed) a file. Not 0, because files without a time have the
/// time 0.
const TORN_NANOS: i64 = 1;

/// Mode bits that an owner needs to change a file in place.
const READ_AND_WRITE: u32 = 0o600;

const OPEN: &str = "open to change";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_files_of_several_names_are_known_than_there_is_room_for() {
        let left = LeftFiles::default();
        let inode = |device, number| Inode { device, number };
        assert!((0..MAX_LEFT as u64).all(|number| left.turn_of(inode(1, number)).is_some()));
        assert!(left.turn_of(inode(2, 0)).is_none());
        let again = [left.turn_of(inode(1, 7)), left.turn_of(inode(1, 7))].map(Option::unwrap);
        assert!(Arc::ptr_eq(&again[0], &again[1]));
        assert_eq!(lock(&left.0).len(), MAX_LEFT);
    }
}
