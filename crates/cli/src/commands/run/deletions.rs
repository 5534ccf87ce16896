//! Limits of deletions over all attempts of a run.

use deltic_net::MovedSources;
use deltic_net::plan::Sources;
use deltic_protocol::options::{Delete, Missing, Options};
use deltic_protocol::report::{Action, Change, Notice};

use super::merging::times_show_arrival;
use crate::plan::SyncRequest;
use crate::report::exit::Exit;
use crate::report::output;
use crate::words::ways::OptionBehaviour;

/// Deletions of a run over all of its connections. Limits of deletions count for the whole run.
#[derive(Debug, Default)]
pub(super) struct RunDeletions {
    /// Names deleted over the last connection.
    deleted: u64,
    /// True if sources are removed after arrival.
    removes_sources: bool,
    /// True if another attempt lists the removed sources again. Sources at the other end are not known here, and
    /// directories that `--prune-empty-dirs` leaves out are not listed at all. An attempt that compares contents would
    /// read the removed sources.
    lists_again: bool,
    /// True once deletions are held back, because another attempt cannot list the removed sources.
    held_back: bool,
}

impl RunDeletions {
    /// Starts without deletions. If the run `may_retry`, the run notes each source removed from this machine; a later
    /// attempt lists these sources again.
    pub(super) fn of(request: &mut SyncRequest, may_retry: bool) -> Self {
        let options = &request.plan.options;
        let removes_sources = options.remove.sources;
        let are_remote = matches!(request.plan.sources, Sources::Remote { .. });
        let may_list = !are_remote && !options.select.prune_empty_dirs;
        let lists_again = may_list && times_show_arrival(options);
        if removes_sources && options.delete != Delete::Never && lists_again && may_retry {
            request.plan.moved = Some(MovedSources::default());
        }
        Self { removes_sources, lists_again, ..Self::default() }
    }

    pub(super) fn note(&mut self, notice: &Notice) {
        if let Notice::Changed(Change { action: Action::Deleted, .. }) = notice {
            self.deleted += 1;
        }
    }

    /// Limits the deletions of another attempt.
    pub(super) fn limit(&mut self, options: &mut Options, ways: OptionBehaviour) {
        options.delete = ways.deletions_again(options.delete);
        let deleted = std::mem::take(&mut self.deleted);
        if let Delete::AtMost(most) = &mut options.delete
            && *most < u64::MAX
        {
            *most = most.saturating_sub(deleted);
        }
        if self.removes_sources && !self.lists_again && options.delete != Delete::Never {
            options.delete = Delete::Never;
            self.held_back = true;
        }
        // An argument that this run removed is missing now.
        if self.removes_sources && options.select.missing == Missing::Delete {
            options.select.missing = Missing::Ignore;
            self.held_back = true;
        }
    }

    /// Returns the exit of the run, given the exit without regard to deletions that were held back.
    pub(super) fn exit(&self, exit: Exit) -> Exit {
        if self.held_back && exit == Exit::Success { Exit::DeleteLimit } else { exit }
    }

    /// Reports deletions that were held back.
    pub(super) fn report_held_back(&self) {
        if self.held_back {
            output::complain(
                "nothing deleted: the connection was lost while sources were removed that had arrived, \
                 and the remaining sources do not show which names to delete",
                None,
            );
        }
    }
}
