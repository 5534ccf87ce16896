//! Files whose contents the receiver compares by their digests, before it wants any of them.

use deltic_core::Digest;

use crate::error::PeerError;
use crate::message::{DigestLine, FileNo, ToReceiver};

use super::{Inquiry, Place, Sender, Work};

impl Sender {
    /// The receiver asks what is in these files.
    pub(super) fn asked(&mut self, files: &[FileNo]) -> Result<(), PeerError> {
        if !self.options.checksum || files.is_empty() {
            return Err(PeerError::Unexpected("a question for digests that nobody compares"));
        }
        for file in files {
            let listing = self.entries.get_mut(file);
            let listing = listing.ok_or(PeerError::Unexpected("a file that was not listed"))?;
            if listing.attempts > 0 || listing.inquiry != Inquiry::Unasked {
                return Err(PeerError::Unexpected("a question for a digest that was asked for"));
            }
            listing.inquiry = Inquiry::Open;
            self.digesting.push(*file, listing.path.clone(), listing.len);
        }
        Ok(())
    }

    /// Asks for digests, as far as not enough are under way.
    pub(super) fn digest_more(&mut self) {
        while let Some((files, paths)) = self.digesting.next() {
            self.jobs.ask(Work::Digest { paths }, Place::Digest(files));
        }
    }

    pub(super) fn digested(&mut self, files: Vec<FileNo>, digests: Vec<Option<Digest>>) {
        self.digesting.answered();
        for file in &files {
            if let Some(listing) = self.entries.get_mut(file) {
                listing.inquiry = Inquiry::Answered;
            }
        }
        let lines = files.into_iter().zip(digests);
        let lines = lines.map(|(file, digest)| DigestLine { file, digest }).collect();
        self.frames.push_back(ToReceiver::Digests(lines));
    }
}
