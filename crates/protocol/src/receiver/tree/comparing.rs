//! Files of one length whose contents both ends take the digest of (`-c`): equal ones are settled, others are wanted.

use std::collections::BTreeMap;

use deltic_core::Digest;

use crate::digests::Digesting;
use crate::error::PeerError;
use crate::limits::MAX_BATCH;
use crate::message::{DigestLine, FileNo, ToSender};

use crate::receiver::ask::Work;
use crate::receiver::context::Context;
use crate::receiver::files::candidate::Candidate;
use crate::receiver::pending::TreePending;

/// Files that are being compared.
#[derive(Debug, Default)]
pub(super) struct Comparing {
    pairs: BTreeMap<FileNo, Pair>,
    digesting: Digesting,
    /// Files that the sender is to be asked for.
    unasked: Vec<FileNo>,
}

/// Two contents.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) candidate: Candidate,
    pub(super) ours: Side,
    pub(super) theirs: Side,
    /// True if ours was asked for twice.
    is_again: bool,
}

impl Pair {
    /// True if only ours could not be read, and may be another time.
    pub(super) fn lacks_ours(&self) -> bool {
        !self.is_again && self.ours == Side::Unreadable && self.theirs != Side::Unreadable
    }
}

/// The knowledge of a content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Unsaid,
    Unreadable,
    Is(Digest),
}

impl Side {
    fn said(digest: Option<Digest>) -> Self {
        digest.map_or(Self::Unreadable, Self::Is)
    }
}

impl Comparing {
    /// The lowest number of a file that may be wanted yet.
    pub(super) fn first(&self) -> Option<FileNo> {
        self.pairs.keys().next().copied()
    }

    /// Takes what is said of a file.
    fn say(&mut self, file: FileNo, ours: Option<Side>, theirs: Option<Side>) -> Option<Pair> {
        let pair = self.pairs.get_mut(&file)?;
        pair.ours = ours.unwrap_or(pair.ours);
        pair.theirs = theirs.unwrap_or(pair.theirs);
        let both = pair.ours != Side::Unsaid && pair.theirs != Side::Unsaid;
        if both { self.pairs.remove(&file) } else { None }
    }

    /// Only the contents can tell whether this file is what it should be.
    pub(super) fn compare(&mut self, candidate: Candidate) {
        let Candidate { file, path, meta, .. } = &candidate;
        let file = *file;
        self.digesting.push(file, path.clone(), meta.len);
        self.unasked.push(file);
        let pair = Pair { candidate, ours: Side::Unsaid, theirs: Side::Unsaid, is_again: false };
        self.pairs.insert(file, pair);
    }

    /// Takes the digest of our content once more.
    pub(super) fn compare_again(&mut self, pair: Pair) {
        let Candidate { file, path, meta, .. } = &pair.candidate;
        let file = *file;
        self.digesting.push(file, path.clone(), meta.len);
        self.pairs.insert(file, Pair { ours: Side::Unsaid, is_again: true, ..pair });
    }

    /// Asks the sender, and the driver as far as not enough is under way.
    pub(super) fn compare_more(&mut self, cx: &mut Context) {
        for files in std::mem::take(&mut self.unasked).chunks(MAX_BATCH) {
            cx.frames.push_back(ToSender::Digest(files.to_vec()));
        }
        while let Some((files, paths)) = self.digesting.next() {
            cx.ask(Work::Digest { paths }, TreePending::Digest(files));
        }
    }

    /// Takes the digests of the sender's contents; the pairs of which both are known.
    pub(super) fn told_digests(&mut self, lines: Vec<DigestLine>) -> Result<Vec<Pair>, PeerError> {
        let mut both = Vec::new();
        for DigestLine { file, digest } in lines {
            let asked = self.pairs.get(&file);
            if asked.is_none_or(|pair| pair.theirs != Side::Unsaid) {
                return Err(PeerError::Unexpected("a digest that was not asked for"));
            }
            both.extend(self.say(file, None, Some(Side::said(digest))));
        }
        Ok(both)
    }

    /// Takes the digests of contents here; the pairs of which both are known.
    pub(super) fn digested(
        &mut self,
        files: Vec<FileNo>,
        digests: Vec<Option<Digest>>,
    ) -> Vec<Pair> {
        self.digesting.answered();
        let both = files.into_iter().zip(digests);
        both.filter_map(|(file, digest)| self.say(file, Some(Side::said(digest)), None)).collect()
    }
}
