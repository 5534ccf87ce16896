//! New files that come by recipe, though nothing is there to match them against: what they share with others of the run
//! travels once (docs/decisions/0036).

use crate::message::How;
use crate::receiver::ask::Work;
use crate::receiver::context::Context;
use crate::receiver::pending::FilePending;
use crate::work::Handle;

use super::Files;
use super::incoming::Incoming;
use super::repeats::may_share;

/// True where a new file comes by recipe for what it may share with others, of which `count` are known so far: then it
/// is a source as well. A file that is alone is none, nor one that a killed run left a part of.
pub(super) fn begins_shared(cx: &mut Context, incoming: &mut Incoming, count: u64) -> bool {
    let (options, candidate) = (&cx.setting.options, &incoming.candidate);
    let is_left = incoming.old.lens.len() > usize::from(incoming.similar.is_some());
    let shares = count > 1
        && incoming.how == How::Recipe
        && !is_left
        && may_share(options, candidate)
        && cx.sources.have_room(candidate.meta.len, options.compress);
    if shares {
        cx.sources.begin(candidate.file, candidate.meta.len);
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
        incoming.old.lens.extend(len);
        let Some((transfer, mut fx)) = incoming.running(cx, file) else { return };
        transfer.index_more(&mut fx);
        let outcome = fx.take_outcome();
        self.go_on(cx, handle, outcome);
    }
}
