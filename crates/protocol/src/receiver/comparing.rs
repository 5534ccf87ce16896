//! Files of one length whose contents both ends take the digest of (`-c`): equal ones are settled, others are wanted.

use std::collections::BTreeMap;

use deltic_core::Digest;

use crate::digests::Digesting;
use crate::error::PeerError;
use crate::limits::MAX_BATCH;
use crate::message::{DigestLine, FileNo, ToSender};

use super::file::Candidate;
use super::{Place, Receiver, Work};

/// What is being compared.
#[derive(Debug, Default)]
pub(super) struct Comparing {
    pairs: BTreeMap<FileNo, Pair>,
    digesting: Digesting,
    /// What the sender is to be asked for.
    unasked: Vec<FileNo>,
}

/// Two contents.
#[derive(Debug)]
struct Pair {
    candidate: Candidate,
    ours: Side,
    theirs: Side,
}

/// What is known of a content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
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
}

impl Receiver {
    /// Only the contents can tell whether this file is what it should be.
    pub(super) fn compare(&mut self, candidate: Candidate) {
        let Candidate { file, path, meta, .. } = &candidate;
        let file = *file;
        self.comparing.digesting.push(file, path.clone(), meta.len);
        self.comparing.unasked.push(file);
        let pair = Pair { candidate, ours: Side::Unsaid, theirs: Side::Unsaid };
        self.comparing.pairs.insert(file, pair);
    }

    /// Asks the sender, and the driver as far as not enough is under way.
    pub(super) fn compare_more(&mut self) {
        for files in std::mem::take(&mut self.comparing.unasked).chunks(MAX_BATCH) {
            self.cx.frames.push_back(ToSender::Digest(files.to_vec()));
        }
        while let Some((files, paths)) = self.comparing.digesting.next() {
            self.cx.jobs.ask(Work::Digest { paths }, Place::Digest(files));
        }
    }

    /// What the sender has.
    pub(super) fn told_digests(&mut self, lines: Vec<DigestLine>) -> Result<(), PeerError> {
        for DigestLine { file, digest } in lines {
            let asked = self.comparing.pairs.get(&file);
            if asked.is_none_or(|pair| pair.theirs != Side::Unsaid) {
                return Err(PeerError::Unexpected("a digest that was not asked for"));
            }
            let pair = self.comparing.say(file, None, Some(Side::said(digest)));
            pair.into_iter().for_each(|pair| self.compared(pair));
        }
        Ok(())
    }

    /// What is here.
    pub(super) fn digested(&mut self, files: Vec<FileNo>, digests: Vec<Option<Digest>>) {
        self.comparing.digesting.answered();
        for (file, digest) in files.into_iter().zip(digests) {
            let pair = self.comparing.say(file, Some(Side::said(digest)), None);
            pair.into_iter().for_each(|pair| self.compared(pair));
        }
    }

    fn compared(&mut self, Pair { candidate, ours, theirs }: Pair) {
        let known = matches!((ours, theirs), (Side::Is(_), Side::Is(_)));
        self.cx.counts.add(0, u64::from(known));
        if known && ours == theirs {
            let Candidate { file, path, meta, old, differs, .. } = candidate;
            let old = old.expect("there are two contents");
            self.keep_file((file, path), (meta, &old), differs);
        } else if known && self.cx.setting.options.dry_run {
            self.would_replace(candidate);
        } else {
            // What cannot be read says so when it is wanted.
            self.queue.push(Candidate { compared: known, ..candidate });
        }
    }
}
