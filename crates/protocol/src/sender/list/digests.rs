//! Sends tallies in place of listings, and takes the answers.

use std::ops::Range;

use deltic_tree::{DirDigest, Name};

use crate::error::PeerError;
use crate::message::{CutDigest, ToReceiver};
use crate::options::Options;

use super::super::context::Context;
use super::super::leaving::SourceRemoval;
use super::ready::ReadyDir;
use super::{Lister, UnlistedDir};

impl Lister {
    /// True if a tally may replace the listing of a directory.
    pub(super) fn may_tally(&self, ready: &ReadyDir, options: &Options) -> bool {
        self.tallies.can_tally(ready) && ready.is_plain(options)
    }

    /// True if tallies may be sent by now: after the first entries, and with these options.
    pub(super) fn may_send_tally(&self, cx: &Context) -> bool {
        let is_agreed = cx.abilities.short_forms.wide_tallies || !cx.options.needs_wide_tallies();
        is_agreed && self.tallies.may_begin(self.next)
    }

    /// Sends the tally of the first ready directory, if there is room, and continues the walk below it.
    pub(super) fn send_tally(&mut self, cx: &mut Context, tally: DirDigest) -> bool {
        let Some(ready) = self.ready.pop_front() else { return false };
        let entries = ready.entries.len() as u64;
        let bytes = ready.attribute_bytes();
        if !self.tallies.has_room(entries, bytes, self.unsettled_count()) {
            self.ready.push_front(ready);
            return false;
        }
        let dir = ready.dir.clone();
        let dirs = ready.entries.iter().filter(|entry| entry.meta.is_dir());
        let names: Vec<Name> = dirs.map(|entry| entry.name.clone()).collect();
        let above = ready.above.filter(|above| self.tallies.awaits_answer(*above));
        let no = self.tallies.register(ready, above);
        let ahead = |name| UnlistedDir { parent: dir.clone(), name: Some(name), above: Some(no) };
        self.dirs.extend(names.into_iter().map(ahead));
        let forms = cx.abilities.short_forms;
        cx.send(if forms.cut_tallies {
            let tally = CutDigest(tally.compared_part());
            ToReceiver::CutTally { dir: self.path_before.shorten(&dir), tally }
        } else if forms.lists {
            ToReceiver::ShortTally { dir: self.path_before.shorten(&dir), tally }
        } else {
            ToReceiver::Tally { dir, tally }
        });
        true
    }

    /// Notes that the destination did not exist, so that no directory in it will match its tally.
    pub(crate) const fn note_new_root(&mut self) {
        self.tallies.expect_no_match();
    }

    /// Takes answers to tallies.
    pub(crate) fn receive_tally_answers(
        &mut self,
        cx: &mut Context,
        leaving: &mut SourceRemoval,
        alike: Vec<Range<u32>>,
        unlike: Vec<Range<u32>>,
    ) -> Result<(), PeerError> {
        for no in alike.into_iter().flatten() {
            self.note_equal_dir(cx, no)?;
        }
        for no in unlike.into_iter().flatten() {
            self.tallies.note_different(no)?;
        }
        self.continue_listing(cx, leaving);
        Ok(())
    }

    /// Counts the entries of a directory that matches its tally as listed and settled.
    fn note_equal_dir(&mut self, cx: &mut Context, no: u32) -> Result<(), PeerError> {
        let (ready, parked) = self.tallies.note_equal(no)?;
        self.ready.extend(parked);
        self.counts.names += ready.entries.len() as u64;
        let mut bytes = 0_u64;
        for entry in ready.entries.iter().filter(|entry| entry.meta.is_file()) {
            self.counts.files += 1;
            cx.progress.list(entry.meta.len);
            bytes = bytes.saturating_add(entry.meta.len);
        }
        self.report_listed(cx);
        cx.report_settled(bytes);
        Ok(())
    }
}
