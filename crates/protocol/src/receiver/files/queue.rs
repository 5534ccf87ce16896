//! The queue of wanted files that are not under way yet.

use std::collections::{BTreeMap, BTreeSet};

use crate::limits::{MAX_ACTIVE_FILES, MAX_ACTIVE_LARGE, WHOLE_BLOCK_BYTES};
use crate::message::FileNo;

use super::candidate::FileCandidate;

/// Most bytes of small files under way at once. This bounds the memory for indexes.
const MAX_SMALL_BYTES: u64 = 128 << 20;

/// Files that wait for their turn, in listed order. Large files wait apart, so that small files need not wait for
/// them.
#[derive(Debug)]
pub(super) struct FileQueue {
    most_small: usize,
    small: BTreeMap<FileNo, FileCandidate>,
    large: BTreeMap<FileNo, FileCandidate>,
    active: ActiveCounts,
    /// Files under way that did not fit on the disk, and wait until no other file is under way. First all files of
    /// one block are retried together; then each other file alone, the shortest first.
    crowded: BTreeSet<(bool, u64, FileNo)>,
    alone: Option<FileNo>,
    /// Files that did not fit on the disk even alone, and wait until names have been deleted.
    parked: Vec<FileNo>,
}

/// Counts of files under way.
#[derive(Debug, Default)]
struct ActiveCounts {
    small: usize,
    small_bytes: u64,
    large: usize,
}

impl ActiveCounts {
    fn add(&mut self, candidate: &FileCandidate) {
        if candidate.is_large() {
            self.large += 1;
        } else {
            self.small += 1;
            self.small_bytes += candidate.longer_len();
        }
    }
}

impl FileQueue {
    /// Creates an empty queue; at most `most` small files may be under way at once.
    pub(super) fn new(most: Option<usize>) -> Self {
        let most_small = most.map_or(MAX_ACTIVE_FILES, |most| most.clamp(1, MAX_ACTIVE_FILES));
        let (small, large, active) = (BTreeMap::new(), BTreeMap::new(), ActiveCounts::default());
        let (crowded, parked) = (BTreeSet::new(), Vec::new());
        Self { most_small, small, large, active, crowded, alone: None, parked }
    }

    pub(super) fn push(&mut self, candidate: FileCandidate) {
        let large = candidate.is_large();
        let queue = if large { &mut self.large } else { &mut self.small };
        queue.insert(candidate.file, candidate);
    }

    /// Returns the lowest number of a waiting file.
    pub(super) fn first_waiting(&self) -> Option<FileNo> {
        self.small.keys().next().into_iter().chain(self.large.keys().next()).min().copied()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.first_waiting().is_none() && self.active.small == 0 && self.active.large == 0
    }

    /// Returns the next file, if another file may be under way.
    pub(super) fn pop(&mut self) -> Option<FileCandidate> {
        if self.alone.is_some() {
            return None;
        }
        let active = &mut self.active;
        if active.large < MAX_ACTIVE_LARGE
            && let Some((_, candidate)) = self.large.pop_first()
        {
            active.add(&candidate);
            return Some(candidate);
        }
        let weight = self.small.first_key_value()?.1.longer_len();
        let fits = active.small_bytes + weight <= MAX_SMALL_BYTES;
        if active.small >= self.most_small || !fits {
            return None;
        }
        let (_, candidate) = self.small.pop_first()?;
        active.add(&candidate);
        Some(candidate)
    }

    /// True if the files under way have at most this length in the mean, and none is large.
    pub(super) const fn has_mean_len(&self, most: u64) -> bool {
        let ActiveCounts { small, small_bytes, large } = &self.active;
        *large == 0 && *small_bytes <= most * *small as u64
    }

    /// Number of files under way that do not wait for disk space.
    fn working_count(&self) -> usize {
        self.active.small + self.active.large - self.crowded.len()
    }

    /// Makes a file that did not fit on the disk wait until no other file is under way. Returns false if no other
    /// file is under way.
    pub(super) fn wait_for_room(&mut self, candidate: &FileCandidate) -> bool {
        let waits = self.working_count() > 1 || !self.crowded.is_empty();
        if waits {
            self.note_no_space(candidate);
        }
        waits
    }

    fn note_no_space(&mut self, FileCandidate { file, meta, .. }: &FileCandidate) {
        let goes_alone = meta.len > u64::from(WHOLE_BLOCK_BYTES);
        self.crowded.insert((goes_alone, meta.len, *file));
    }

    /// Makes a file that did not fit on the disk, although no other file was under way, wait until names have been
    /// deleted. Returns false if `MAX_ACTIVE_FILES` files wait already.
    pub(super) fn wait_for_deletions(&mut self, candidate: &FileCandidate) -> bool {
        let has_room = self.parked.len() < MAX_ACTIVE_FILES;
        if has_room {
            self.note_settled(candidate);
            self.parked.push(candidate.file);
        }
        has_room
    }

    /// Takes the files that wait for deletions.
    pub(super) fn take_parked(&mut self) -> Vec<FileNo> {
        std::mem::take(&mut self.parked)
    }

    /// Counts a parked file as under way again. If `has_more`, because names were deleted, the file may wait for disk
    /// space once more.
    pub(super) fn restart_parked(&mut self, candidate: &FileCandidate, has_more: bool) {
        self.active.add(candidate);
        if has_more {
            self.note_no_space(candidate);
        }
    }

    /// Returns the files that waited for disk space and are to be retried now.
    pub(super) fn take_with_room(&mut self) -> Vec<FileNo> {
        if self.working_count() > 0 {
            return Vec::new();
        }
        let alone = self.crowded.split_off(&(true, 0, FileNo(0)));
        let small = std::mem::replace(&mut self.crowded, alone);
        if small.is_empty() {
            self.alone = self.crowded.pop_first().map(|(.., file)| file);
            return self.alone.into_iter().collect();
        }
        small.into_iter().map(|(.., file)| file).collect()
    }

    /// Counts a file that is no longer under way.
    pub(super) fn note_settled(&mut self, candidate: &FileCandidate) {
        self.alone.take_if(|file| *file == candidate.file);
        if candidate.is_large() {
            self.active.large -= 1;
        } else {
            self.active.small -= 1;
            self.active.small_bytes -= candidate.longer_len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Differs;
    use deltic_tree::{Kind, Meta, RelPath, Timestamp};

    fn candidate(file: u64, len: u64) -> FileCandidate {
        FileCandidate {
            file: FileNo(file),
            path: RelPath::root(),
            meta: Meta::without_owner(Kind::File, len, Timestamp::default(), 0o644),
            old: None,
            seen: None,
            differs: Differs::default(),
            compared: false,
            beside: None,
            may_have_moved: false,
            repeats: None,
        }
    }

    fn pop_all(queue: &mut FileQueue) -> Vec<FileCandidate> {
        std::iter::from_fn(|| queue.pop()).collect()
    }

    #[test]
    fn files_come_in_order_and_so_many_at_once() {
        let mut queue = FileQueue::new(None);
        let count = MAX_ACTIVE_FILES as u64 + 1;
        (0..count).rev().for_each(|file| queue.push(candidate(file, 1)));
        let first = pop_all(&mut queue);
        assert!(first.iter().map(|one| one.file.0).eq(0..count - 1));
        assert_eq!(queue.first_waiting(), Some(FileNo(count - 1)));
        queue.note_settled(&first[0]);
        assert_eq!(pop_all(&mut queue).len(), 1);
        assert!(!queue.is_idle());
        (0..MAX_ACTIVE_FILES).for_each(|_| queue.note_settled(&first[0]));
        assert!(queue.is_idle());
    }

    #[test]
    fn who_may_hold_few_files_open_has_few_under_way_and_one_at_least() {
        for (most, under_way) in [(3, 3), (0, 1), (usize::MAX, MAX_ACTIVE_FILES)] {
            let mut queue = FileQueue::new(Some(most));
            (0..=MAX_ACTIVE_FILES as u64).for_each(|file| queue.push(candidate(file, 1)));
            assert_eq!(pop_all(&mut queue).len(), under_way);
        }
    }

    #[test]
    fn what_found_no_room_is_tried_again_when_nothing_else_is_under_way() {
        let mut queue = FileQueue::new(None);
        let long = |file| candidate(file, u64::MAX - file);
        let all = || [candidate(0, 1), candidate(1, 1), long(2), long(3)];
        let files = all();
        all().into_iter().for_each(|file| queue.push(file));
        assert_eq!(pop_all(&mut queue).len(), 4);
        assert!([2, 0, 1].iter().all(|file: &usize| queue.wait_for_room(&files[*file])));
        assert_eq!(queue.take_with_room(), [], "one is at work");
        assert!(queue.wait_for_room(&files[3]), "others may leave room");
        assert_eq!(queue.take_with_room(), [FileNo(0), FileNo(1)]);
        assert_eq!(queue.take_with_room(), []);
        files[..2].iter().for_each(|file| queue.note_settled(file));
        // The shorter file comes first, and alone.
        assert_eq!(queue.take_with_room(), [FileNo(3)]);
        queue.push(candidate(4, 1));
        assert!(queue.pop().is_none());
        queue.note_settled(&files[3]);
        assert_eq!(queue.pop().map(|it| it.file), Some(FileNo(4)));
        assert_eq!(queue.take_with_room(), []);
        queue.note_settled(&candidate(4, 1));
        assert_eq!(queue.take_with_room(), [FileNo(2)]);
        assert!(!queue.wait_for_room(&files[2]), "it was alone");
        queue.note_settled(&files[2]);
        assert!(queue.is_idle());
    }

    #[test]
    fn what_is_parked_leaves_its_place_to_others_until_it_is_under_way_again() {
        let mut queue = FileQueue::new(Some(1));
        let files = [candidate(0, 1), candidate(1, 1)];
        [candidate(0, 1), candidate(1, 1)].into_iter().for_each(|file| queue.push(file));
        assert_eq!(pop_all(&mut queue).len(), 1);
        assert!(queue.wait_for_deletions(&files[0]));
        assert_eq!(pop_all(&mut queue).len(), 1);
        queue.note_settled(&files[1]);
        assert!(queue.is_idle());
        assert_eq!((queue.take_parked(), queue.take_parked()), (vec![FileNo(0)], vec![]));
        queue.restart_parked(&files[0], true);
        assert!(!queue.is_idle());
        assert_eq!(queue.take_with_room(), [FileNo(0)]);
        queue.note_settled(&files[0]);
        assert!(queue.is_idle());
    }

    #[test]
    fn large_files_hold_nobody_up_and_small_ones_are_few_if_they_are_long() {
        let mut queue = FileQueue::new(None);
        let large = MAX_ACTIVE_LARGE as u64 + 1;
        (0..large).for_each(|file| queue.push(candidate(file, u64::MAX)));
        let long = crate::limits::LARGE_FILE_BYTES;
        let most = MAX_SMALL_BYTES / long;
        (large..large + most + 1).for_each(|file| queue.push(candidate(file, long)));
        let popped = pop_all(&mut queue);
        assert_eq!(popped.iter().filter(|one| one.is_large()).count(), MAX_ACTIVE_LARGE);
        assert_eq!(popped.len() - MAX_ACTIVE_LARGE, MAX_ACTIVE_FILES.min(most as usize));
    }
}
