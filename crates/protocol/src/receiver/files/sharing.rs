//! Parts that files of a run share are sent once. For that, new files are sent by recipe although they have no old
//! version (docs/decisions/0036).

use crate::message::TransferKind;
use crate::receiver::ask::{OldVersionWork, ReceiverWork};
use crate::receiver::context::Context;
use crate::receiver::pending::FilePending;
use crate::work::Handle;

use super::WantedFiles;
use super::incoming::IncomingFile;
use super::repeats::may_share;

/// Least length in bytes of the only new file of a run that is sent by recipe, for content that repeats within the
/// file. For a shorter file, two more round trips cost much and repeats are few. With `--checksum` the only new file
/// is never sent by recipe: the sender keeps the digest of a file sent whole, and need not read that file in the next
/// run.
const ALONE_FROM_BYTES: u64 = 4 << 20;

/// Makes a file a source of content for other files of the run, and other files a source for this file. `count` is
/// the number of new files so far. Returns false if the file shares no content; a file with a leftover of a killed
/// run never does. A new file that shares content is sent by recipe, which also finds content that repeats within the
/// file.
pub(super) fn begin_sharing(cx: &mut Context, incoming: &mut IncomingFile, count: u64) -> bool {
    let (options, candidate) = (&cx.setting.options, &incoming.candidate);
    // A file with an empty or unreadable old version would be sent whole too.
    let is_empty = incoming.old.len_of(incoming.old.first_nonempty()) == 0;
    let (len, is_new) = (candidate.meta.len, candidate.old.is_none() || is_empty);
    let known = usize::from(incoming.old.in_place) + usize::from(incoming.similar.is_some());
    let is_left = incoming.old.lens.len() > known;
    let is_worth_it = !is_new || count > 1 || len >= ALONE_FROM_BYTES && !options.checksum;
    let shares = incoming.how == TransferKind::Recipe
        && !is_left
        && is_worth_it
        && may_share(options, candidate)
        && cx.sources.has_room(len, is_new, options.compress);
    if shares {
        cx.sources.begin_file(candidate.file, len, is_new);
        // Further old versions arrived in this run: none is a leftover.
        incoming.old.left_at = u64::MAX;
    }
    shares
}

impl WantedFiles {
    /// Opens the files that other files wait for as sources of content, once these sources are in place.
    pub(crate) fn open_sources(&mut self, cx: &mut Context) {
        while let Some((file, source)) = cx.sources.next_ready() {
            let Some(handle) = self.under_way.get(&file).map(|incoming| incoming.handle) else {
                continue;
            };
            match source {
                Some(other) => {
                    let work = ReceiverWork::Old(OldVersionWork::OpenMore { handle, other });
                    cx.request_work(work, FilePending::OpenMore(handle));
                }
                None => self.take_more_old(cx, handle, None),
            }
        }
    }

    /// Continues a transfer with one more old version, or without it if it could not be opened.
    pub(super) fn take_more_old(&mut self, cx: &mut Context, handle: Handle, len: Option<u64>) {
        let Some((file, incoming)) = self.under_way.by_handle_mut(handle) else { return };
        // A file opened late is in its own order, which does not correspond to the packed data of a file with holes.
        incoming.old.lens.extend(len.filter(|_| !incoming.old.is_viewed));
        let Some((transfer, mut fx)) = incoming.transfer_and_context(cx, file) else { return };
        transfer.index_more(&mut fx);
        let outcome = fx.take_outcome();
        self.apply_outcome(cx, handle, outcome);
    }
}
