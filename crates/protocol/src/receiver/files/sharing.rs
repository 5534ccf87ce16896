//! Parts that files of a run share travel once: new files come by recipe for that, though nothing is there to match
//! them against (docs/decisions/0036).

use crate::message::How;
use crate::receiver::ask::Work;
use crate::receiver::context::Context;
use crate::receiver::pending::FilePending;
use crate::work::Handle;

use super::Files;
use super::incoming::Incoming;
use super::repeats::may_share;

/// Length in bytes from which on a new file comes by recipe though it is alone: for what it has more than once. For a
/// shorter one two round trips more are much, and it has little. None does where checksums are compared: of a file that
/// goes whole the sender keeps the digest, and does not read it for the next run.
const ALONE_FROM_BYTES: u64 = 4 << 20;

/// Begins to share what a file has with others of the run, of which `count` are known to be new; false where it does
/// not. A new one comes by recipe then, for that or for what it has more than once. One that a killed run left a part
/// of shares nothing.
pub(super) fn begins_shared(cx: &mut Context, incoming: &mut Incoming, count: u64) -> bool {
    let (options, candidate) = (&cx.setting.options, &incoming.candidate);
    // One whose old version is empty, or cannot be read, would come whole as well.
    let is_empty = incoming.old.len_of(incoming.old.first_part()) == 0;
    let (len, is_new) = (candidate.meta.len, candidate.old.is_none() || is_empty);
    let known = usize::from(incoming.old.in_place) + usize::from(incoming.similar.is_some());
    let is_left = incoming.old.lens.len() > known;
    let is_worth_it = !is_new || count > 1 || len >= ALONE_FROM_BYTES && !options.checksum;
    let shares = incoming.how == How::Recipe
        && !is_left
        && is_worth_it
        && may_share(options, candidate)
        && cx.sources.have_room((len, is_new), options.compress);
    if shares {
        cx.sources.begin(candidate.file, (len, is_new));
        // Whatever else it is matched against came in this run.
        incoming.old.left_at = u64::MAX;
    }
    shares
}

impl Files {
    /// Opens what files wait for and what is in place by now.
    pub(crate) fn open_sources(&mut self, cx: &mut Context) {
        while let Some((file, source)) = cx.sources.next_ready() {
            let Some(handle) = self.under_way.get(&file).map(|incoming| incoming.handle) else {
                continue;
            };
            match source {
                Some(other) => {
                    let work = Work::OpenMore { handle, other };
                    cx.ask(work, FilePending::OpenMore(handle));
                }
                None => self.opened_more(cx, handle, None),
            }
        }
    }

    /// Goes on with one more old version, or without it.
    pub(super) fn opened_more(&mut self, cx: &mut Context, handle: Handle, len: Option<u64>) {
        let Some((file, incoming)) = self.under_way.of_mut(handle) else { return };
        // As it is, it does not face the data of a file with holes.
        incoming.old.lens.extend(len.filter(|_| !incoming.old.is_viewed));
        let Some((transfer, mut fx)) = incoming.running(cx, file) else { return };
        transfer.index_more(&mut fx);
        let outcome = fx.take_outcome();
        self.go_on(cx, handle, outcome);
    }
}
