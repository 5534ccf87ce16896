//! Directories for which the sender sent a tally (a digest) instead of a listing. Each is compared with the directory
//! at this end. If the tallies differ, the listing is requested.
//!
//! A tally may arrive before the listing that names its directory: the sender continues its walk while the directory
//! above is compared or its listing is on the way. A comparison changes nothing, so it does not wait for that
//! listing; but the listing must arrive.

use std::sync::Arc;

use deltic_tree::meta::OWNER_BITS;
use deltic_tree::{ComparedAttributes, DirDigest, RelPath};

use crate::error::PeerError;
use crate::limits::{TALLIED_NAMES, TALLY_WINDOW};
use crate::message::NameLine;
use crate::receiver::ask::{EqualDir, LookupWork, ReceiverWork};
use crate::receiver::context::Context;
use crate::receiver::pending::TreePending;

use super::digests::{TalliedDir, TallyState};
use super::dirs::ListedDirs;
use super::final_dirs::FinalMeta;

impl ListedDirs {
    pub(super) fn receive_tally(
        &mut self,
        cx: &mut Context,
        dir: RelPath,
        tally: DirDigest,
    ) -> Result<(), PeerError> {
        let fits = |compared: ComparedAttributes| {
            (compared.users, compared.groups) == (tally.users.is_some(), tally.groups.is_some())
        };
        if !self.digests.compared.is_some_and(fits) {
            return Err(PeerError::Unexpected("a tally that was not requested"));
        }
        let begun = self.list.is_listing(&dir);
        let tallied = self.digests.open.contains_key(&dir) || self.digests.awaited.contains(&dir);
        if begun || dir.is_root() || tallied {
            return Err(PeerError::Unexpected("a second tally of a directory"));
        }
        if self.digests.open.len() >= TALLY_WINDOW {
            return Err(PeerError::Limit("tallies"));
        }
        let announced = self.list.forbid_listing(&dir);
        if announced.is_none() && !self.may_still_be_listed(&dir) {
            return Err(PeerError::Unexpected("a tally of a directory that was not listed"));
        }
        let no = self.digests.next;
        self.digests.next = no.checked_add(1).ok_or(PeerError::Limit("tallies"))?;
        let (named, meta) = (announced.is_some(), announced.flatten());
        self.digests
            .open
            .insert(dir.clone(), TalliedDir { state: TallyState::Comparing, named, meta });
        self.digests.comparing.insert(no, dir.clone());
        match self.sender_owners() {
            Some(owners) => cx.request_work(
                ReceiverWork::Lookup(LookupWork::Compare { dir, tally, owners }),
                TreePending::Compare(no),
            ),
            None => self.take_tally_comparison(cx, no, None),
        }
        Ok(())
    }

    /// True while a listing of the directory above may still name this directory.
    fn may_still_be_listed(&self, dir: &RelPath) -> bool {
        let Some((above, name)) = dir.split_last() else { return false };
        if let Some(may_come) = self.list.may_still_list(&above, &name) {
            return may_come;
        }
        self.list.may_be_listed(&above)
            || self
                .digests
                .open
                .get(&above)
                .is_some_and(|tallied| tallied.state != TallyState::Alike)
    }

    /// Returns the names of users and groups at the sender; `None` if there are too many to search.
    fn sender_owners(&mut self) -> Option<Arc<[Vec<NameLine>; 2]>> {
        if self.owners.len() > TALLIED_NAMES {
            return None;
        }
        let owners = &self.owners;
        let known = self.digests.owners.get_or_insert_with(|| Arc::new(owners.all_names()));
        Some(Arc::clone(known))
    }

    pub(super) fn take_tally_comparison(
        &mut self,
        cx: &mut Context,
        no: u32,
        alike: Option<Box<EqualDir>>,
    ) {
        let Some(dir) = self.digests.comparing.remove(&no) else { return };
        let tallied = self.digests.open.get_mut(&dir).expect("what is compared is open");
        tallied.state = if alike.is_some() { TallyState::Alike } else { TallyState::Unlike };
        if tallied.named {
            let meta = tallied.meta.take();
            self.digests.open.remove(&dir);
            if alike.is_none() {
                self.list.allow_listing(&dir, meta);
            }
        }
        match alike {
            Some(alike) => {
                self.digests.alike.push(no);
                self.count_equal_dir(cx, &dir, *alike);
            }
            None => {
                self.digests.unlike.push(no);
                self.digests.awaited.insert(dir);
            }
        }
    }

    /// Counts the entries of a directory that is up to date. The tallies or listings of its subdirectories still
    /// follow.
    fn count_equal_dir(&mut self, cx: &mut Context, dir: &RelPath, alike: EqualDir) {
        self.list.count_equal_entries(alike.entries());
        cx.totals.files += alike.files;
        cx.totals.dirs += alike.dirs.len() as u64;
        cx.totals.links += alike.links;
        cx.totals.specials += alike.specials;
        let bytes = alike.file_bytes.saturating_add(alike.link_bytes);
        cx.totals.bytes = cx.totals.bytes.saturating_add(bytes);
        cx.progress.list(alike.file_bytes);
        self.report_listed(cx);
        cx.report_settled(alike.file_bytes);
        for (name, meta) in alike.dirs {
            let Ok(path) = dir.join(&name) else { continue };
            if meta.mode & OWNER_BITS == OWNER_BITS || cx.setting.options.dry_run {
                self.note_named(&path, Some(FinalMeta::from(&meta)));
                continue;
            }
            self.note_named(&path, None);
            self.sections.wait_for_dir(path.clone());
            self.make_dir(cx, path, meta);
        }
    }
}
