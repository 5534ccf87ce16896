//! The digests of directories that the sender told: which are compared, alike, or owed as listings.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use deltic_tree::{ComparedAttributes, RelPath};

use crate::limits::{MAX_BATCH, TALLY_WINDOW};
use crate::message::{NameLine, ToSender};
use crate::report::{Trouble, TroubleKind};

use super::final_dirs::FinalMeta;

/// DirDigests that were told.
#[derive(Debug, Default)]
pub(super) struct DirDigests {
    pub(super) compared: Option<ComparedAttributes>,
    pub(super) next: u32,
    /// Directories that are being compared, or that no listing has named yet.
    pub(super) open: HashMap<RelPath, Told>,
    /// Directories that are being compared.
    pub(super) comparing: BTreeMap<u32, RelPath>,
    /// Directories that were found to be unlike and whose listings have not begun.
    pub(super) owed: HashSet<RelPath>,
    pub(super) alike: Vec<u32>,
    pub(super) unlike: Vec<u32>,
    /// Names of users and groups at the sender, until more of them are told.
    pub(super) owners: Option<Arc<[Vec<NameLine>; 2]>>,
}

/// The state of a digest so far.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) state: State,
    /// True once the directory is known to be one; and the metadata that it gets at the end if it is listed.
    pub(super) named: bool,
    pub(super) meta: Option<FinalMeta>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
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

    /// Names of users or groups were told: what was told before is not all.
    pub(super) fn forget_owners(&mut self) {
        self.owners = None;
    }

    /// The listing of a directory begins.
    pub(super) fn pay(&mut self, dir: &RelPath) {
        self.owed.remove(dir);
    }

    /// The answers that wait to be said.
    pub(super) fn verdicts(&mut self) -> Option<ToSender> {
        const { assert!(TALLY_WINDOW <= MAX_BATCH, "all answers fit a frame") };
        let (alike, unlike) = (ranges(&mut self.alike), ranges(&mut self.unlike));
        let some = !(alike.is_empty() && unlike.is_empty());
        some.then_some(ToSender::Tallied { alike, unlike })
    }
}

/// Numbers as ascending ranges; takes them.
fn ranges(numbers: &mut Vec<u32>) -> Vec<Range<u32>> {
    numbers.sort_unstable();
    let ranges = numbers.chunk_by(|one, next| one + 1 == *next);
    let ranges = ranges.map(|run| run[0]..run[0] + run.len() as u32).collect();
    numbers.clear();
    ranges
}

/// The report of a directory that was alike and went away meanwhile.
pub(super) fn gone(path: &RelPath) -> Trouble {
    let words = |path: &str| format!("cannot write {path}: what was there went away meanwhile");
    Trouble::at(TroubleKind::Failed, path, words)
}
