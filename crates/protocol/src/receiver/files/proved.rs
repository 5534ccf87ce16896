//! Files with an old version that proved to equal the new version, either in place or in an alternate.

use crate::message::Done;
use crate::options::AlternateUse;
use crate::receiver::ask::{EntryWork, ReceiverWork};
use crate::receiver::context::Context;
use crate::receiver::pending::FilePending;
use crate::receiver::tree::beside::AlternateEntry;
use crate::receiver::tree::compare::differs_from;
use crate::report::{Action, Differs};
use crate::work::{ErrorAction, Handle, WorkError};

use super::WantedFiles;

impl WantedFiles {
    /// Settles a file that is up to date in place. The attributes of the file may still differ.
    pub(super) fn settle_equal(&mut self, cx: &mut Context, handle: Handle) {
        let Some((file, incoming)) = self.under_way.by_handle_mut(handle) else { return };
        if incoming.old.is_beside {
            return self.use_equal_alternate(cx, handle);
        }
        let is_restless =
            incoming.running_transfer().is_some_and(|transfer| transfer.is_restless());
        incoming.candidate.differs.time |= is_restless && cx.setting.options.times;
        let differs = incoming.candidate.differs;
        if differs == Differs::default() || cx.setting.options.dry_run {
            let touched = differs != Differs::default();
            return self.settle_for_good(cx, file, Done::Same { touched, differs });
        }
        let Some(transfer) = incoming.running_transfer() else { return };
        let (path, meta) = (incoming.candidate.path.clone(), transfer.meta().clone());
        cx.request_work(
            ReceiverWork::Entry(EntryWork::SetMeta { path, meta }),
            FilePending::TouchFile(handle),
        );
    }

    pub(super) fn take_attributes_result(
        &mut self,
        cx: &mut Context,
        handle: Handle,
        done: Result<(), WorkError>,
    ) {
        if let Err(error) = done {
            return self.fail_attempt(cx, handle, error);
        }
        let Some((file, incoming)) = self.under_way.by_handle_mut(handle) else { return };
        let differs = incoming.candidate.differs;
        self.settle_for_good(cx, file, Done::Same { touched: true, differs });
    }

    /// Links or copies the file of an alternate, once its bytes proved to equal the new version. The look-up alone
    /// could not show that.
    fn use_equal_alternate(&mut self, cx: &mut Context, handle: Handle) {
        let options = &cx.setting.options;
        let usage = options.compare.alternates.usage;
        let Some((_, incoming)) = self.under_way.by_handle_mut(handle) else { return };
        let candidate = &incoming.candidate;
        let Some(beside) = candidate.beside.clone() else { return };
        let is_restless =
            incoming.running_transfer().is_some_and(|transfer| transfer.is_restless());
        let links = beside.needs_content_check() && usage != AlternateUse::Copy && !is_restless;
        if links && usage == AlternateUse::Compare || options.dry_run {
            return self.take_alternate_result(cx, handle, links, Ok(()));
        }
        let AlternateEntry { alternate, is, .. } = beside;
        let (path, seen) = (candidate.path.clone(), candidate.seen.clone());
        let work = if links {
            ReceiverWork::Entry(EntryWork::LinkFromAlternate { path, alternate, is, seen })
        } else {
            let meta =
                incoming.running_transfer().map_or(&candidate.meta, |transfer| transfer.meta());
            ReceiverWork::Entry(EntryWork::CopyFromAlternate {
                path,
                alternate,
                is,
                meta: meta.clone(),
                seen,
            })
        };
        cx.request_work(work, FilePending::TakeBeside { handle, links });
    }

    pub(super) fn take_alternate_result(
        &mut self,
        cx: &mut Context,
        handle: Handle,
        links: bool,
        done: Result<(), WorkError>,
    ) {
        let Some((file, incoming)) = self.under_way.by_handle_mut(handle) else { return };
        let candidate = &mut incoming.candidate;
        match done {
            Ok(()) if links => {
                self.settle_for_good(
                    cx,
                    file,
                    Done::Same { touched: false, differs: Differs::default() },
                );
            }
            Ok(()) => {
                let (matched, was) = (candidate.meta.len, candidate.beside.as_ref());
                let options = &cx.setting.options;
                let differs = was.map(|was| differs_from(options, &candidate.meta, &was.is));
                let (action, differs) = (Action::Copied, differs.unwrap_or_default());
                let done = Done::Replaced { action, differs, literal: 0, matched, from: None };
                self.settle_for_good(cx, file, done);
            }
            Err(_) if links => {
                if let Some(beside) = &mut candidate.beside {
                    beside.mark_content_equal();
                }
                self.use_equal_alternate(cx, handle);
            }
            Err(error) => {
                candidate.beside = None;
                self.fail_attempt(cx, handle, WorkError { then: ErrorAction::Retry, ..error });
            }
        }
    }
}
