//! Digests of files that the receiver compares before it requests any content.

use deltic_core::Digest;

use crate::digests::DigestQueue;
use crate::error::PeerError;
use crate::message::{
    DigestLine, FileNo, ShortDigestLine, ShortDigestLines, ToReceiver, shortened,
};

use super::ask::SenderWork;
use super::context::Context;
use super::listed_file::DigestInquiry;
use super::pending::SenderPending;

/// Takes the receiver's request for the digests of these files.
pub(super) fn receive_digest_request(
    digesting: &mut DigestQueue,
    cx: &mut Context,
    files: &[FileNo],
) -> Result<(), PeerError> {
    if !cx.options.checksum || files.is_empty() {
        return Err(PeerError::Unexpected(
            "a request for digests, without the option that compares digests",
        ));
    }
    for file in files {
        let listed = cx.entries.get_mut(file);
        let listed = listed.ok_or(PeerError::Unexpected("a file that was not listed"))?;
        if listed.attempts > 0 || listed.inquiry != DigestInquiry::Unasked {
            return Err(PeerError::Unexpected("a second request for a digest"));
        }
        listed.inquiry = DigestInquiry::Open;
        digesting.push(*file, listed.path.clone(), listed.len);
    }
    Ok(())
}

/// Requests digests from the driver, until enough batches are under way.
pub(super) fn request_digests(digesting: &mut DigestQueue, cx: &mut Context) {
    while let Some((files, paths)) = digesting.next() {
        cx.jobs.request(SenderWork::Digest { paths }, SenderPending::Digest(files));
    }
}

/// Sends computed digests to the receiver.
pub(super) fn send_digests(
    digesting: &mut DigestQueue,
    cx: &mut Context,
    files: Vec<FileNo>,
    digests: Vec<Option<Digest>>,
) {
    digesting.note_answer();
    for file in &files {
        if let Some(listed) = cx.entries.get_mut(file) {
            listed.inquiry = DigestInquiry::Answered;
        }
    }
    let lines = files.into_iter().zip(digests);
    cx.send(if cx.abilities.short_forms.digests {
        let short = |(file, digest): (FileNo, Option<Digest>)| ShortDigestLine {
            file,
            digest: digest.as_ref().map(shortened),
        };
        ToReceiver::ShortDigests(ShortDigestLines(lines.map(short).collect()))
    } else {
        ToReceiver::Digests(lines.map(|(file, digest)| DigestLine { file, digest }).collect())
    });
}
