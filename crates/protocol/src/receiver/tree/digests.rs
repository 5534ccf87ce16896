//! Digests of directories that the sender sent: directories that are being compared, that were found equal, or whose
//! listing must follow.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use deltic_tree::{ComparedAttributes, RelPath};

use crate::limits::{MAX_BATCH, TALLY_WINDOW};
use crate::message::{NameLine, ToSender};
use crate::report::{Trouble, TroubleKind};

use super::final_dirs::FinalMeta;

/// Digests of directories that the sender sent.
#[derive(Debug, Default)]
pub(super) struct DirDigests {
    pub(super) compared: Option<ComparedAttributes>,
    pub(super) next: u32,
    /// Directories being compared, or not named by a listing yet.
    pub(super) open: HashMap<RelPath, TalliedDir>,
    /// Directories being compared, by the number of the digest.
    pub(super) comparing: BTreeMap<u32, RelPath>,
    /// Directories found to differ, with listings that have not begun.
    pub(super) awaited: HashSet<RelPath>,
    pub(super) alike: Vec<u32>,
    pub(super) unlike: Vec<u32>,
    /// Names of users and groups at the sender, until the sender sends more names.
    pub(super) owners: Option<Arc<[Vec<NameLine>; 2]>>,
}

/// The state of a digest so far.
#[derive(Debug)]
pub(super) struct TalliedDir {
    pub(super) state: TallyState,
    /// True once a listing has named the directory, followed by the directory's final metadata in case it is listed.
    pub(super) named: bool,
    pub(super) meta: Option<FinalMeta>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TallyState {
    Comparing,
    Alike,
    Unlike,
}

impl DirDigests {
    pub(super) fn new(compared: Option<ComparedAttributes>) -> Self {
        Self { compared, ..Self::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Drops the list of owner names, because the sender sent more names.
    pub(super) fn forget_owners(&mut self) {
        self.owners = None;
    }

    /// Notes that the listing of a directory begins.
    pub(super) fn note_listing(&mut self, dir: &RelPath) {
        self.awaited.remove(dir);
    }

    /// Takes the answers that wait to be sent.
    pub(super) fn take_answers(&mut self) -> Option<ToSender> {
        const { assert!(TALLY_WINDOW <= MAX_BATCH, "all answers fit a frame") };
        let (alike, unlike) = (as_ranges(&mut self.alike), as_ranges(&mut self.unlike));
        let some = !(alike.is_empty() && unlike.is_empty());
        some.then_some(ToSender::Tallied { alike, unlike })
    }
}

/// Takes numbers as ascending ranges.
fn as_ranges(numbers: &mut Vec<u32>) -> Vec<Range<u32>> {
    numbers.sort_unstable();
    let ranges = numbers.chunk_by(|one, next| one + 1 == *next);
    let ranges = ranges.map(|run| run[0]..run[0] + run.len() as u32).collect();
    numbers.clear();
    ranges
}

/// Returns the trouble of a directory that was equal when compared, and vanished since.
pub(super) fn vanished_dir_trouble(path: &RelPath) -> Trouble {
    let words = |path: &str| format!("cannot write {path}: what was there went away meanwhile");
    Trouble::at(TroubleKind::Failed, path, words)
}
