//! Directories that the sender tells by their tallies: compared with what is here, and asked for where they differ.
//!
//! A tally may come before the listing that names its directory: the sender walks on while the directory above is still
//! compared, or on its way as a listing. What is compared changes nothing, so it need not wait; but the name must come.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use deltic_tree::meta::OWNER_BITS;
use deltic_tree::{Compared, DirDigest, RelPath};

use crate::error::PeerError;
use crate::limits::{MAX_BATCH, TALLIED_NAMES, TALLY_WINDOW};
use crate::message::{NameLine, ToSender};
use crate::report::{Trouble, TroubleKind};

use super::final_dirs::FinalMeta;
use super::{Alike, Place, Receiver, Work};

/// Tallies that were told.
#[derive(Debug, Default)]
pub(super) struct Tallies {
    compared: Option<Compared>,
    next: u32,
    /// Directories that are being compared, or that no listing has named yet.
    open: HashMap<RelPath, Told>,
    /// Those that are being compared.
    comparing: BTreeMap<u32, RelPath>,
    /// Those that were found to be unlike and whose listings have not begun.
    owed: HashSet<RelPath>,
    alike: Vec<u32>,
    unlike: Vec<u32>,
    /// What users and groups are called at the sender, until more of them are told.
    owners: Option<Arc<[Vec<NameLine>; 2]>>,
}

/// What came of a tally so far.
#[derive(Debug)]
struct Told {
    state: State,
    /// Whether the directory is known to be one, and what it gets at the end if it is listed.
    named: bool,
    meta: Option<FinalMeta>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Comparing,
    Alike,
    Unlike,
}

impl Tallies {
    pub(super) fn new(compared: Option<Compared>) -> Self {
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

impl Receiver {
    pub(super) fn tally(&mut self, dir: RelPath, tally: DirDigest) -> Result<(), PeerError> {
        let fits = |compared: Compared| {
            (compared.users, compared.groups) == (tally.users.is_some(), tally.groups.is_some())
        };
        if !self.tallies.compared.is_some_and(fits) {
            return Err(PeerError::Unexpected("a tally that was not asked for"));
        }
        let begun = self.list.is_listing(&dir);
        let told = self.tallies.open.contains_key(&dir) || self.tallies.owed.contains(&dir);
        if begun || dir.is_root() || told {
            return Err(PeerError::Unexpected("a tally of a directory that was told"));
        }
        if self.tallies.open.len() >= TALLY_WINDOW {
            return Err(PeerError::Limit("tallies"));
        }
        let announced = self.list.withdraw(&dir);
        if announced.is_none() && !self.may_be_named(&dir) {
            return Err(PeerError::Unexpected("a tally of a directory that was not listed"));
        }
        let no = self.tallies.next;
        self.tallies.next = no.checked_add(1).ok_or(PeerError::Limit("tallies"))?;
        let (named, meta) = (announced.is_some(), announced.flatten());
        self.tallies.open.insert(dir.clone(), Told { state: State::Comparing, named, meta });
        self.tallies.comparing.insert(no, dir.clone());
        match self.sender_owners() {
            Some(owners) => {
                self.cx.jobs.ask(Work::Compare { dir, tally, owners }, Place::Compare(no))
            }
            None => self.compared_tally(no, None),
        }
        Ok(())
    }

    /// Whether the directory above is still to be listed.
    fn may_be_named(&self, dir: &RelPath) -> bool {
        let Some((above, name)) = dir.split_last() else { return false };
        if let Some(may_come) = self.list.may_bring(&above, &name) {
            return may_come;
        }
        self.list.is_announced(&above)
            || self.tallies.open.get(&above).is_some_and(|told| told.state != State::Alike)
    }

    /// What users and groups are called at the sender; `None`, if they are too many to look through them.
    fn sender_owners(&mut self) -> Option<Arc<[Vec<NameLine>; 2]>> {
        if self.owners.len() > TALLIED_NAMES {
            return None;
        }
        let owners = &self.owners;
        let known = self.tallies.owners.get_or_insert_with(|| Arc::new(owners.lines()));
        Some(Arc::clone(known))
    }

    pub(super) fn compared_tally(&mut self, no: u32, alike: Option<Box<Alike>>) {
        let Some(dir) = self.tallies.comparing.remove(&no) else { return };
        let told = self.tallies.open.get_mut(&dir).expect("what is compared is open");
        told.state = if alike.is_some() { State::Alike } else { State::Unlike };
        if told.named {
            let meta = told.meta.take();
            self.tallies.open.remove(&dir);
            if alike.is_none() {
                self.list.announce(dir.clone(), meta);
            }
        }
        match alike {
            Some(alike) => {
                self.tallies.alike.push(no);
                self.keep_alike(&dir, *alike);
            }
            None => {
                self.tallies.unlike.push(no);
                self.tallies.owed.insert(dir);
            }
        }
    }

    /// All in a directory is up to date; what is in the directories below is still to be told.
    fn keep_alike(&mut self, dir: &RelPath, alike: Alike) {
        self.list.know(alike.entries());
        self.cx.totals.files += alike.files;
        self.cx.totals.dirs += alike.dirs.len() as u64;
        self.cx.totals.links += alike.links;
        self.cx.totals.specials += alike.specials;
        let bytes = alike.file_bytes.saturating_add(alike.link_bytes);
        self.cx.totals.bytes = self.cx.totals.bytes.saturating_add(bytes);
        self.cx.progress.list(alike.file_bytes);
        self.report_listed();
        self.cx.report_settled(alike.file_bytes);
        for (name, meta) in alike.dirs {
            let Ok(path) = dir.join(&name) else { continue };
            if meta.mode & OWNER_BITS == OWNER_BITS || self.cx.setting.options.dry_run {
                self.name(&path, Some(FinalMeta::from(&meta)));
                continue;
            }
            self.name(&path, None);
            self.sections.wait_for(path.clone());
            self.make_dir(path, meta);
        }
    }

    /// A directory of this path is in the list. It may have been told already.
    pub(super) fn name(&mut self, path: &RelPath, meta: Option<FinalMeta>) {
        let Some(told) = self.tallies.open.get_mut(path) else {
            return self.list.announce(path.clone(), meta);
        };
        match told.state {
            State::Comparing => (told.named, told.meta) = (true, meta),
            State::Alike => drop(self.tallies.open.remove(path)),
            State::Unlike => {
                self.tallies.open.remove(path);
                self.list.announce(path.clone(), meta);
            }
        }
    }

    /// Whether a directory, as named by a listing, was found to be alike.
    pub(super) fn is_alike(&self, path: &RelPath) -> bool {
        self.tallies.compared.is_some()
            && !path.is_root()
            && !self.list.is_announced(path)
            && !self.tallies.open.contains_key(path)
            && !self.sections.has_begun(path)
    }

    /// Keeps what a directory that stands here as it should gets at the end, in case it is listed. Where it is not, nothing
    /// changes in it.
    pub(super) fn waits_for_list(&mut self, path: &RelPath, meta: FinalMeta) -> bool {
        if self.is_alike(path) {
            return true;
        }
        if self.tallies.compared.is_none() || self.sections.has_begun(path) {
            return false;
        }
        let told = self.tallies.open.get_mut(path).map(|told| &mut told.meta);
        match told.or_else(|| self.list.kept(path)) {
            Some(kept) => {
                *kept = Some(meta);
                true
            }
            None => false,
        }
    }
}

/// What was alike when it was compared is no more.
pub(super) fn gone(path: &RelPath) -> Trouble {
    let words = |path: &str| format!("cannot write {path}: what was there went away meanwhile");
    Trouble::at(TroubleKind::Failed, path, words)
}
