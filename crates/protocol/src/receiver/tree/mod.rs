//! The tree: listed entries, the entries in their places, the decision about each, and deletions.
//!
//! ```text
//! Listing ──► Dirs: a section waits for its directory ──► Look ──► Entries: keep, make, link, clear, or want content
//! Tally   ──► Dirs: compare with the directory here: Tallied
//! the list is complete, every entry settled ──► Deleting ──► directories get their times, flush, sources go
//! ```
//!
//! The tree does not handle the content of files: it returns wanted files, and is told when each is settled.

mod arrivals;
pub(super) mod beside;
mod clearing;
mod closing;
pub(super) mod compare;
mod comparing;
mod deciding;
mod deleting;
mod digests;
mod dirs;
mod entries;
mod extras;
mod final_dirs;
mod hard_links;
mod linking;
mod list;
mod listing;
mod looked;
mod missing;
pub(super) mod new_files;
mod owners;
mod references;
pub(super) mod removal;
mod resting;
mod sections;
mod tallied;
#[cfg(test)]
mod tests;
mod touched;

use std::ops::Range;

use deltic_tree::{Meta, RelPath};

use crate::error::PeerError;
use crate::message::{
    CutDigest, Extent, FileNo, PathBefore, ShortDigestLines, ShortEntries, ToReceiver, ToSender,
};
use crate::report::{Notice, Trouble, TroubleKind};
use crate::work::UnknownAnswer;

use super::ask::{LookupAnswer, MappedOwners, ReceiverAnswer, UnlistedNames};
use super::context::Context;
use super::files::candidate::{FileCandidate, SettledFile};
use super::pending::TreePending;
use super::setting::Setting;
use closing::ClosingStep;
use comparing::ContentDigest;
use deleting::PendingDeletions;
use dirs::ListedDirs;
use entries::{TreeContext, UnsettledEntries};
use missing::MissingSources;
use sections::DirSection;

/// The tree of a session.
#[derive(Debug)]
pub(super) struct ReceiverTree {
    dirs: ListedDirs,
    /// Path of the last frame with the short form of a path.
    path_before: PathBefore,
    entries: UnsettledEntries,
    deleting: PendingDeletions,
    /// Missing sources.
    missing: MissingSources,
    closing: Option<ClosingStep>,
}

impl ReceiverTree {
    /// Creates a tree without listed entries.
    pub(super) fn new(setting: &Setting) -> Self {
        Self {
            dirs: ListedDirs::new(setting),
            path_before: PathBefore::default(),
            entries: UnsettledEntries::default(),
            deleting: PendingDeletions::default(),
            missing: MissingSources::default(),
            closing: None,
        }
    }

    /// Splits the tree into the entries and the state that their steps may touch besides.
    const fn split_entries<'a>(
        &'a mut self,
        cx: &'a mut Context,
    ) -> (&'a mut UnsettledEntries, TreeContext<'a>) {
        let Self { dirs, entries, deleting, .. } = self;
        (entries, TreeContext { cx, dirs, deleting })
    }

    /// Returns the answers to digests of directories that wait to be sent.
    pub(super) fn poll_verdicts(&mut self) -> Option<ToSender> {
        self.dirs.digests.take_answers()
    }

    /// Numbers of the listed entries that are not settled.
    pub(super) const fn unsettled_entries(&self) -> Range<u64> {
        self.dirs.list.first_unsettled()..self.dirs.list.listed_count()
    }

    /// Number of entries in the list by now.
    pub(super) const fn listed_and_equal_count(&self) -> u64 {
        self.dirs.list.listed_and_equal_count()
    }

    /// Returns the topmost directories of the transfer.
    pub(super) fn topmost_dirs(&self, cx: &Context) -> Vec<RelPath> {
        self.dirs.topmost_dirs(cx)
    }

    /// Takes the files wanted since the last call.
    pub(super) fn take_wanted(&mut self) -> Vec<FileCandidate> {
        std::mem::take(&mut self.entries.wanted)
    }

    /// Takes a wanted file that is settled.
    pub(super) fn take_settled_file(&mut self, cx: &mut Context, settled: SettledFile) {
        let (entries, tx) = &mut self.split_entries(cx);
        entries.take_settled_file(tx, settled);
    }

    /// Takes a frame about the tree. Errors: `Unexpected` for a frame that is not allowed now.
    pub(super) fn handle(&mut self, cx: &mut Context, frame: ToReceiver) -> Result<(), PeerError> {
        match frame {
            ToReceiver::Listing { dir, own, entries, extent } => {
                self.dirs.list.check_incomplete()?;
                self.receive_listing(cx, DirSection::new(dir, own, entries), extent)?;
            }
            ToReceiver::ShortListing { dir, own, entries: ShortEntries(entries), extent } => {
                self.dirs.list.check_incomplete()?;
                let dir = self.path_before.complete("ShortListing", &dir)?;
                self.receive_listing(cx, DirSection::new(dir, own, entries), extent)?;
            }
            ToReceiver::Tally { dir, tally } => {
                self.dirs.list.check_incomplete()?;
                self.dirs.receive_tally(cx, dir, tally)?;
            }
            ToReceiver::ShortTally { dir, tally } => {
                self.dirs.list.check_incomplete()?;
                let dir = self.path_before.complete("ShortTally", &dir)?;
                self.dirs.receive_tally(cx, dir, tally)?;
            }
            ToReceiver::CutTally { dir, tally: CutDigest(tally) } => {
                self.dirs.list.check_incomplete()?;
                let dir = self.path_before.complete("CutTally", &dir)?;
                self.dirs.receive_tally(cx, dir, tally)?;
            }
            ToReceiver::Owners { users, groups } => {
                self.dirs.list.check_incomplete()?;
                self.dirs.learn_owners(cx, users, groups)?;
            }
            ToReceiver::Listed { intact } => {
                self.dirs.list.check_incomplete()?;
                self.dirs.end_list(cx, intact)?;
            }
            ToReceiver::Trouble(trouble) => {
                self.dirs.list.check_incomplete()?;
                // An entry that vanished before it was listed is no failure.
                let failed = !trouble.kind.is_harmless() && trouble.kind != TroubleKind::Vanished;
                cx.totals.failed += u64::from(failed);
                cx.notices.push_back(Notice::Trouble(trouble));
            }
            ToReceiver::Missing(paths) => {
                self.dirs.list.check_incomplete()?;
                self.missing.receive_missing(cx, paths)?;
            }
            ToReceiver::Digests(lines) => self.take_digests(
                cx,
                lines.into_iter().map(|line| (line.file, ContentDigest::of_full(line.digest))),
            )?,
            ToReceiver::ShortDigests(ShortDigestLines(lines)) => self.take_digests(
                cx,
                lines.into_iter().map(|line| (line.file, ContentDigest::of_short(line.digest))),
            )?,
            ToReceiver::Removed(path) => self.entries.arrivals.receive_removed_source(cx, path)?,
            ToReceiver::Gone(troubles) => {
                self.entries.arrivals.receive_sources_removed(cx, troubles)?
            }
            ToReceiver::Allow(allowed) => self.deleting.receive_user_answer(cx, allowed)?,
            _ => return Err(PeerError::Unexpected("a frame that is not part of the list")),
        }
        self.entries.note_given_up(&mut self.dirs);
        Ok(())
    }

    fn receive_listing(
        &mut self,
        cx: &mut Context,
        mut section: DirSection,
        extent: Extent,
    ) -> Result<(), PeerError> {
        self.dirs.check_section(cx, &mut section, extent)?;
        self.entries.links.note_section(&mut section)?;
        self.dirs.adapt_and_count(cx, &mut section);
        if cx.setting.options.select.list_only {
            self.dirs.report_only(cx, section);
            return Ok(());
        }
        self.entries.arrivals.note_expected(cx, &section);
        self.missing.note_listed(&section);
        let dir = section.dir.clone();
        if self.dirs.take_section(cx, section, extent)? {
            self.deleting.add_empty_source(dir);
        }
        Ok(())
    }

    fn take_digests(
        &mut self,
        cx: &mut Context,
        lines: impl Iterator<Item = (FileNo, ContentDigest)>,
    ) -> Result<(), PeerError> {
        let (entries, tx) = &mut self.split_entries(cx);
        for pair in entries.comparing.take_remote_digests(lines)? {
            entries.take_comparison(tx, pair);
        }
        Ok(())
    }

    /// Takes the answer to work of the tree.
    pub(super) fn answer(
        &mut self,
        cx: &mut Context,
        pending: TreePending,
        answer: ReceiverAnswer,
    ) -> Result<(), UnknownAnswer> {
        let (entries, tx) = &mut self.split_entries(cx);
        match (pending, answer) {
            (
                TreePending::Look(section),
                ReceiverAnswer::Lookup(LookupAnswer::Looked(found, owners)),
            ) => {
                self.take_looked_up_section(cx, section, found, owners);
            }
            (TreePending::Compare(no), ReceiverAnswer::Lookup(LookupAnswer::Compared(alike))) => {
                tx.dirs.take_tally_comparison(tx.cx, no, alike);
            }
            (
                TreePending::Digest(files),
                ReceiverAnswer::Lookup(LookupAnswer::Digested(digests)),
            ) if digests.len() == files.len() => {
                for pair in entries.comparing.take_local_digests(files, digests) {
                    entries.take_comparison(tx, pair);
                }
            }
            (
                TreePending::LookMissing(paths),
                ReceiverAnswer::Lookup(LookupAnswer::Looked(found, _)),
            ) => {
                MissingSources::remove_found(tx.cx, tx.deleting, paths, found);
            }
            (
                TreePending::CountMissing(path),
                ReceiverAnswer::Lookup(LookupAnswer::Counted(names)),
            ) => {
                MissingSources::take_name_count(tx.cx, tx.deleting, path, names);
            }
            (
                TreePending::LookBeside(file),
                ReceiverAnswer::Lookup(LookupAnswer::Beside(found)),
            ) => {
                entries.take_alternates(tx, file, found);
            }
            (
                TreePending::LookBesideRoot(meta),
                ReceiverAnswer::Lookup(LookupAnswer::Beside(found)),
            ) => {
                tx.dirs.take_new_root(tx.cx, &meta, found);
            }
            (TreePending::LinkBeside { file, beside }, ReceiverAnswer::Done(done)) => {
                entries.take_alternate_link(tx, file, beside, done);
            }
            (TreePending::CopyBeside { file, change }, ReceiverAnswer::Done(done)) => {
                entries.take_copy_result(tx, file, change, done);
            }
            (TreePending::LeaveOut, ReceiverAnswer::Removed(removed)) => {
                entries.take_left_out(tx, removed)
            }
            (TreePending::Link { file, change }, ReceiverAnswer::Done(done)) => {
                entries.take_link_result(tx, file, change, done);
            }
            (
                TreePending::Make { change } | TreePending::Touch { change },
                ReceiverAnswer::Done(done),
            ) => {
                entries.take_change_result(tx, change, done);
            }
            (
                TreePending::CountBelow { file, path },
                ReceiverAnswer::Lookup(LookupAnswer::Counted(names)),
            ) => {
                entries.take_name_count(tx, file, path, names);
            }
            (TreePending::Clear { file, removal }, ReceiverAnswer::Removed(removed)) => {
                entries.take_clearing_result(tx, file, removal, removed);
            }
            (TreePending::MakeDir { path, .. }, ReceiverAnswer::Done(made)) => {
                tx.dirs.take_new_dir(tx.cx, &path, made);
            }
            (pending, answer) => self.take_answer(cx, pending, answer)?,
        }
        self.entries.note_given_up(&mut self.dirs);
        Ok(())
    }

    fn take_looked_up_section(
        &mut self,
        cx: &mut Context,
        section: u64,
        found: Vec<Result<Option<Meta>, Trouble>>,
        owners: MappedOwners,
    ) {
        let mut found = found.into_iter();
        if let Some(section) = self.dirs.take_found_entries(cx, section, &mut found, owners) {
            let (entries, tx) = &mut self.split_entries(cx);
            entries.decide_section(tx, section, found);
        }
    }

    fn take_unlisted_names(
        &mut self,
        cx: &mut Context,
        dir: RelPath,
        unlisted: Result<UnlistedNames, Trouble>,
    ) {
        self.dirs.continue_below(cx, &dir);
        self.deleting.take_unlisted_names(cx, dir, unlisted);
    }

    /// Starts the steps that have become possible: links to leaders, comparisons of contents.
    pub(super) fn take_possible_steps(&mut self, cx: &mut Context) {
        let (entries, tx) = &mut self.split_entries(cx);
        entries.link_more(tx);
        entries.comparing.request_digests(tx.cx);
    }

    /// Tells the sender the number below which no more files will be requested; `files` is the lowest number of an
    /// unsettled file.
    pub(super) fn report_settled_number(&mut self, cx: &mut Context, files: Option<FileNo>) {
        let looking = self.dirs.sections.first_waiting().map(FileNo);
        let waiting = [looking, self.entries.first(), files];
        let waiting = waiting.into_iter().flatten().map(|file| file.0);
        if let Some(upto) = self.dirs.list.settle_below(waiting.min()) {
            cx.send_settled_number(FileNo(upto));
        }
        self.entries.arrivals.flush_early(cx, self.dirs.list.listed_count());
        self.deleting.remove_more(cx);
    }
}
