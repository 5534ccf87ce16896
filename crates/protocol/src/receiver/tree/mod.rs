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
    Extent, FileNo, PathBefore, ShortDigestLines, ShortEntries, ToReceiver, ToSender,
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
    const fn split<'a>(
        &'a mut self,
        cx: &'a mut Context,
    ) -> (&'a mut UnsettledEntries, TreeContext<'a>) {
        let Self { dirs, entries, deleting, .. } = self;
        (entries, TreeContext { cx, dirs, deleting })
    }

    /// Returns the answers to digests of directories that wait to be sent.
    pub(super) fn poll_verdicts(&mut self) -> Option<ToSender> {
        self.dirs.digests.verdicts()
    }

    /// Numbers of the listed entries that are not settled.
    pub(super) const fn unsettled(&self) -> Range<u64> {
        self.dirs.list.settled()..self.dirs.list.listed_count()
    }

    /// Number of entries in the list by now.
    pub(super) const fn known(&self) -> u64 {
        self.dirs.list.known()
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
    pub(super) fn settled(&mut self, cx: &mut Context, settled: SettledFile) {
        let (entries, tx) = &mut self.split(cx);
        entries.settled(tx, settled);
    }

    /// Takes a frame about the tree. Errors: `Unexpected` for a frame that is not allowed now.
    pub(super) fn handle(&mut self, cx: &mut Context, frame: ToReceiver) -> Result<(), PeerError> {
        match frame {
            ToReceiver::Listing { dir, own, entries, extent } => {
                self.dirs.list.growing()?;
                self.listing(cx, DirSection::new(dir, own, entries), extent)?;
            }
            ToReceiver::ShortListing { dir, own, entries: ShortEntries(entries), extent } => {
                self.dirs.list.growing()?;
                let dir = self.path_before.complete("ShortListing", &dir)?;
                self.listing(cx, DirSection::new(dir, own, entries), extent)?;
            }
            ToReceiver::Tally { dir, tally } => {
                self.dirs.list.growing()?;
                self.dirs.tally(cx, dir, tally)?;
            }
            ToReceiver::ShortTally { dir, tally } => {
                self.dirs.list.growing()?;
                let dir = self.path_before.complete("ShortTally", &dir)?;
                self.dirs.tally(cx, dir, tally)?;
            }
            ToReceiver::Owners { users, groups } => {
                self.dirs.list.growing()?;
                self.dirs.learn_owners(cx, users, groups)?;
            }
            ToReceiver::Listed { intact } => {
                self.dirs.list.growing()?;
                self.dirs.end_list(cx, intact)?;
            }
            ToReceiver::Trouble(trouble) => {
                self.dirs.list.growing()?;
                // An entry that vanished before it was listed is no failure.
                let failed = !trouble.kind.is_harmless() && trouble.kind != TroubleKind::Vanished;
                cx.totals.failed += u64::from(failed);
                cx.notices.push_back(Notice::Trouble(trouble));
            }
            ToReceiver::Missing(paths) => {
                self.dirs.list.growing()?;
                self.missing.take(cx, paths)?;
            }
            ToReceiver::Digests(lines) => self.take_digests(
                cx,
                lines.into_iter().map(|line| (line.file, ContentDigest::of(line.digest))),
            )?,
            ToReceiver::ShortDigests(ShortDigestLines(lines)) => self.take_digests(
                cx,
                lines.into_iter().map(|line| (line.file, ContentDigest::from_brief(line.digest))),
            )?,
            ToReceiver::Removed(path) => self.entries.arrivals.removed_source(cx, path)?,
            ToReceiver::Gone(troubles) => self.entries.arrivals.sources_removed(cx, troubles)?,
            ToReceiver::Allow(allowed) => self.deleting.allow(cx, allowed)?,
            _ => return Err(PeerError::Unexpected("a frame that is not part of the list")),
        }
        self.entries.miss_given_up(&mut self.dirs);
        Ok(())
    }

    fn listing(
        &mut self,
        cx: &mut Context,
        mut section: DirSection,
        extent: Extent,
    ) -> Result<(), PeerError> {
        self.dirs.check(cx, &mut section, extent)?;
        self.entries.links.take(&mut section)?;
        self.dirs.adopt(cx, &mut section);
        if cx.setting.options.select.list_only {
            self.dirs.list_only(cx, section);
            return Ok(());
        }
        self.entries.arrivals.expect(cx, &section);
        self.missing.note_listed(&section);
        let dir = section.dir.clone();
        if self.dirs.take(cx, section, extent)? {
            self.deleting.note_empty(dir);
        }
        Ok(())
    }

    fn take_digests(
        &mut self,
        cx: &mut Context,
        lines: impl Iterator<Item = (FileNo, ContentDigest)>,
    ) -> Result<(), PeerError> {
        let (entries, tx) = &mut self.split(cx);
        for pair in entries.comparing.take_remote_digests(lines)? {
            entries.compared(tx, pair);
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
        let (entries, tx) = &mut self.split(cx);
        match (pending, answer) {
            (
                TreePending::Look(section),
                ReceiverAnswer::Lookup(LookupAnswer::Looked(found, owners)),
            ) => {
                self.take_looked_up_section(cx, section, found, owners);
            }
            (TreePending::Compare(no), ReceiverAnswer::Lookup(LookupAnswer::Compared(alike))) => {
                tx.dirs.compared_tally(tx.cx, no, alike);
            }
            (
                TreePending::Digest(files),
                ReceiverAnswer::Lookup(LookupAnswer::Digested(digests)),
            ) if digests.len() == files.len() => {
                for pair in entries.comparing.digested(files, digests) {
                    entries.compared(tx, pair);
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
                MissingSources::counted(tx.cx, tx.deleting, path, names);
            }
            (
                TreePending::LookBeside(file),
                ReceiverAnswer::Lookup(LookupAnswer::Beside(found)),
            ) => {
                entries.looked_beside(tx, file, found);
            }
            (
                TreePending::LookBesideRoot(meta),
                ReceiverAnswer::Lookup(LookupAnswer::Beside(found)),
            ) => {
                tx.dirs.made_root(tx.cx, &meta, found);
            }
            (TreePending::LinkBeside { file, beside }, ReceiverAnswer::Done(done)) => {
                entries.linked(tx, file, beside, done);
            }
            (TreePending::CopyBeside { file, change }, ReceiverAnswer::Done(done)) => {
                entries.copied_beside(tx, file, change, done);
            }
            (TreePending::LeaveOut, ReceiverAnswer::Removed(removed)) => {
                entries.left_out(tx, removed)
            }
            (TreePending::Link { file, change }, ReceiverAnswer::Done(done)) => {
                entries.linked_name(tx, file, change, done);
            }
            (
                TreePending::Make { change } | TreePending::Touch { change },
                ReceiverAnswer::Done(done),
            ) => {
                entries.changed_in_place(tx, change, done);
            }
            (
                TreePending::CountBelow { file, path },
                ReceiverAnswer::Lookup(LookupAnswer::Counted(names)),
            ) => {
                entries.counted(tx, file, path, names);
            }
            (TreePending::Clear { file, removal }, ReceiverAnswer::Removed(removed)) => {
                entries.cleared(tx, file, removal, removed);
            }
            (TreePending::MakeDir { path, .. }, ReceiverAnswer::Done(made)) => {
                tx.dirs.made_dir(tx.cx, &path, made);
            }
            (pending, answer) => self.answer_end(cx, pending, answer)?,
        }
        self.entries.miss_given_up(&mut self.dirs);
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
            let (entries, tx) = &mut self.split(cx);
            entries.decide_section(tx, section, found);
        }
    }

    fn extra(&mut self, cx: &mut Context, dir: RelPath, unlisted: Result<UnlistedNames, Trouble>) {
        self.dirs.enter(cx, &dir);
        self.deleting.extra(cx, dir, unlisted);
    }

    /// Starts the steps that have become possible: links to leaders, comparisons of contents.
    pub(super) fn go_on(&mut self, cx: &mut Context) {
        let (entries, tx) = &mut self.split(cx);
        entries.link_more(tx);
        entries.comparing.compare_more(tx.cx);
    }

    /// Tells the sender the number below which no more files will be requested; `files` is the lowest number of an
    /// unsettled file.
    pub(super) fn settle(&mut self, cx: &mut Context, files: Option<FileNo>) {
        let looking = self.dirs.sections.first().map(FileNo);
        let waiting = [looking, self.entries.first(), files];
        let waiting = waiting.into_iter().flatten().map(|file| file.0);
        if let Some(upto) = self.dirs.list.settle(waiting.min()) {
            cx.frames.push_back(ToSender::Settled { upto: FileNo(upto) });
        }
        self.entries.arrivals.flush_early(cx, self.dirs.list.listed_count());
        self.deleting.remove_more(cx);
    }
}
