//! Files of equal length that both ends compare by digest (`-c`). Files with equal digests are settled; other files
//! are wanted.

use std::collections::BTreeMap;

use deltic_core::Digest;

use crate::digests::DigestQueue;
use crate::error::PeerError;
use crate::limits::MAX_BATCH;
use crate::message::{FileNo, ShortDigest, ToSender, shortened};

use crate::receiver::ask::{LookupWork, ReceiverWork};
use crate::receiver::context::Context;
use crate::receiver::files::candidate::FileCandidate;
use crate::receiver::pending::TreePending;

/// Files that are being compared.
#[derive(Debug, Default)]
pub(super) struct ComparedFiles {
    pairs: BTreeMap<FileNo, ContentPair>,
    digesting: DigestQueue,
    /// Files for which digests are still to be requested from the sender.
    unasked: Vec<FileNo>,
}

/// The digests of a file's content at both ends.
#[derive(Debug)]
pub(super) struct ContentPair {
    pub(super) candidate: FileCandidate,
    pub(super) local: ContentDigest,
    pub(super) remote: ContentDigest,
    /// True if the local digest was requested a second time.
    is_again: bool,
}

impl ContentPair {
    /// True if only the local content could not be read, and a second attempt is allowed.
    pub(super) fn may_read_local_again(&self) -> bool {
        !self.is_again
            && self.local == ContentDigest::Unreadable
            && self.remote != ContentDigest::Unreadable
    }
}

/// What is known of the digest of a content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContentDigest {
    Unknown,
    Unreadable,
    Known(Digest),
    /// The first bytes of the digest.
    Brief(ShortDigest),
}

impl ContentDigest {
    pub(super) fn of_full(digest: Option<Digest>) -> Self {
        digest.map_or(Self::Unreadable, Self::Known)
    }

    pub(super) fn of_short(digest: Option<ShortDigest>) -> Self {
        digest.map_or(Self::Unreadable, Self::Brief)
    }

    pub(super) const fn is_known(&self) -> bool {
        matches!(self, Self::Known(_) | Self::Brief(_))
    }

    /// True if both contents are known and equal.
    pub(super) fn agrees(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Known(digest), Self::Brief(part)) | (Self::Brief(part), Self::Known(digest)) => {
                shortened(digest) == *part
            }
            _ => self.is_known() && self == other,
        }
    }
}

impl ComparedFiles {
    /// Returns the lowest number of a file under comparison, which may still be wanted.
    pub(super) fn first_file(&self) -> Option<FileNo> {
        self.pairs.keys().next().copied()
    }

    /// Notes digests of a file; returns the pair once both are known.
    fn record_digests(
        &mut self,
        file: FileNo,
        local: Option<ContentDigest>,
        remote: Option<ContentDigest>,
    ) -> Option<ContentPair> {
        let pair = self.pairs.get_mut(&file)?;
        pair.local = local.unwrap_or(pair.local);
        pair.remote = remote.unwrap_or(pair.remote);
        let both = pair.local != ContentDigest::Unknown && pair.remote != ContentDigest::Unknown;
        if both { self.pairs.remove(&file) } else { None }
    }

    /// Begins to compare a file by content.
    pub(super) fn compare(&mut self, candidate: FileCandidate) {
        let FileCandidate { file, path, meta, .. } = &candidate;
        let file = *file;
        self.digesting.push(file, path.clone(), meta.len);
        self.unasked.push(file);
        let pair = ContentPair {
            candidate,
            local: ContentDigest::Unknown,
            remote: ContentDigest::Unknown,
            is_again: false,
        };
        self.pairs.insert(file, pair);
    }

    /// Asks for the digest of the local content once more.
    pub(super) fn compare_again(&mut self, pair: ContentPair) {
        let FileCandidate { file, path, meta, .. } = &pair.candidate;
        let file = *file;
        self.digesting.push(file, path.clone(), meta.len);
        self.pairs
            .insert(file, ContentPair { local: ContentDigest::Unknown, is_again: true, ..pair });
    }

    /// Requests digests from the sender, and from the driver unless enough are under way.
    pub(super) fn request_digests(&mut self, cx: &mut Context) {
        for files in std::mem::take(&mut self.unasked).chunks(MAX_BATCH) {
            cx.frames.push_back(ToSender::Digest(files.to_vec()));
        }
        while let Some((files, paths)) = self.digesting.next() {
            cx.request_work(
                ReceiverWork::Lookup(LookupWork::Digest { paths }),
                TreePending::Digest(files),
            );
        }
    }

    /// Takes the sender's digests; returns the pairs that are now complete. Errors: `Unexpected` for a digest that
    /// was not requested.
    pub(super) fn take_remote_digests(
        &mut self,
        lines: impl Iterator<Item = (FileNo, ContentDigest)>,
    ) -> Result<Vec<ContentPair>, PeerError> {
        let mut both = Vec::new();
        for (file, digest) in lines {
            let asked = self.pairs.get(&file);
            if asked.is_none_or(|pair| pair.remote != ContentDigest::Unknown) {
                return Err(PeerError::Unexpected("a digest that was not requested"));
            }
            both.extend(self.record_digests(file, None, Some(digest)));
        }
        Ok(both)
    }

    /// Takes the local digests; returns the pairs that are now complete.
    pub(super) fn take_local_digests(
        &mut self,
        files: Vec<FileNo>,
        digests: Vec<Option<Digest>>,
    ) -> Vec<ContentPair> {
        self.digesting.note_answer();
        let both = files.into_iter().zip(digests);
        both.filter_map(|(file, digest)| {
            self.record_digests(file, Some(ContentDigest::of_full(digest)), None)
        })
        .collect()
    }
}
