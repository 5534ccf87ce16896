//! Later names of files with several hard links: a name is linked to the leader, or becomes the leader.

use deltic_tree::meta::HardLink;
use deltic_tree::{Meta, RelPath};

use crate::message::FileNo;
use crate::options::AlternateUse;
use crate::receiver::ask::{EntryWork, ReceiverWork};
use crate::receiver::pending::TreePending;
use crate::report::{Action, Change, Differs, EntryType, Facts, Trouble, TroubleKind};
use crate::work::{ErrorAction, WorkError};

use super::clearing::BlockedEntry;
use super::compare::differing_attributes;
use super::entries::{TreeContext, UnsettledEntries};
use super::hard_links::{LaterName, LinkStep, NameStep};
use super::looked::PlacedEntry;

impl UnsettledEntries {
    /// Makes a later name wait, links the name, or makes the name the leader.
    pub(super) fn decide_linked(
        &mut self,
        tx: &mut TreeContext<'_>,
        first: FileNo,
        placed: PlacedEntry,
    ) {
        let file = placed.file;
        match self.links.next_step_for(first, placed) {
            NameStep::Wait => {}
            NameStep::Link(name) => self.link_name(tx, file, first, name),
            NameStep::Lead(name) => self.transfer_as_leader(tx, file, first, name),
        }
        self.links.drop_or_compact(first);
    }

    fn transfer_as_leader(
        &mut self,
        tx: &mut TreeContext<'_>,
        file: FileNo,
        first: FileNo,
        mut name: LaterName,
    ) {
        self.links.make_leader(file, first, &mut name);
        let is_not_beside = name.is_not_beside;
        let placed = name.into_placed_entry(file);
        match is_not_beside {
            true => self.decide_here(tx, placed, None),
            false => self.decide_alone(tx, placed),
        }
    }

    /// Decides about an entry that the alternates do not have. If other names of its file wait, these are looked for
    /// there before anything is sent.
    pub(super) fn decide_without_alternate(
        &mut self,
        tx: &mut TreeContext<'_>,
        placed: PlacedEntry,
    ) {
        if let Some(placed) = self.links.replace_leader(placed) {
            self.decide_here(tx, placed, None);
        }
    }

    /// Continues with the names of leaders that are in place or have failed.
    pub(super) fn link_more(&mut self, tx: &mut TreeContext<'_>) {
        while let Some(step) = self.links.next_step() {
            match step {
                LinkStep::Link { first, names } => {
                    for (file, name) in names {
                        self.link_name(tx, file, first, name);
                    }
                    self.links.drop_or_compact(first);
                }
                LinkStep::Lead { file, first, name } => {
                    self.transfer_as_leader(tx, file, first, name)
                }
            }
        }
    }

    /// Returns the report of a linked name, with `action` if the name is new.
    fn link_change(
        &self,
        tx: &TreeContext<'_>,
        name: &LaterName,
        leader: RelPath,
        action: Action,
    ) -> Change {
        let LaterName { path, meta, seen, .. } = name;
        let old = seen.as_ref().filter(|old| EntryType::of(&old.kind) == EntryType::of(&meta.kind));
        // Differences of ACLs and extended attributes are reported only for the leader, as in rsync.
        let (acl, xattrs) = (false, false);
        let differs = old.map_or_else(Differs::default, |old| Differs {
            size: old.len != meta.len,
            ..Differs {
                acl,
                xattrs,
                ..differing_attributes(&tx.cx.setting.options, &name.meta_alone(), old)
            }
        });
        Change {
            path: path.clone(),
            item: EntryType::of(&meta.kind),
            action: if old.is_some() { Action::Updated } else { action },
            differs,
            facts: Facts { linked: Some(leader), ..Facts::state_at_sender(meta) },
        }
    }

    pub(super) fn request_link(
        &mut self,
        tx: &mut TreeContext<'_>,
        file: FileNo,
        name: LaterName,
        change: Change,
    ) {
        if tx.cx.setting.options.dry_run {
            tx.cx.report_settled(name.meta.len);
            self.note_in_place(tx.cx, file);
            return tx.cx.report_change(change);
        }
        let Some(leader) = change.facts.linked.clone() else { return };
        let LaterName { path, meta, seen, .. } = &name;
        let (path, kind, seen) = (path.clone(), meta.kind.clone(), seen.clone());
        tx.cx.request_work(
            ReceiverWork::Entry(EntryWork::Link { path, leader, kind, seen }),
            TreePending::Link { file, change },
        );
        self.links.keep_linking_name(file, name);
    }

    /// Takes the result of a link; a name that could not be linked is transferred by itself.
    pub(super) fn take_link_result(
        &mut self,
        tx: &mut TreeContext<'_>,
        file: FileNo,
        change: Change,
        done: Result<(), WorkError>,
    ) {
        let Some(name) = self.links.take_linking_name(file) else { return };
        match done {
            Ok(()) => {
                tx.cx.report_settled(name.meta.len);
                self.note_in_place(tx.cx, file);
                self.arrivals.note_uncommitted(tx.cx, file, &name.path);
                tx.cx.report_change(change);
            }
            Err(WorkError { trouble, then }) => {
                if then != ErrorAction::Retry {
                    let message =
                        format!("{}; the name is sent as a separate file", trouble.message);
                    let kind = TroubleKind::Warned;
                    tx.cx.send_trouble(Trouble { kind, message, ..trouble });
                }
                self.decide_alone(tx, name.into_placed_entry(file));
            }
        }
    }

    /// Links a name to the leader, which is in place.
    fn link_name(
        &mut self,
        tx: &mut TreeContext<'_>,
        file: FileNo,
        first: FileNo,
        name: LaterName,
    ) {
        let shared = self.links.placed_leader(first);
        let seen = name.seen.as_ref();
        let is = seen.and_then(Meta::hard_link).and_then(HardLink::inode);
        if is.is_some() && is == shared.inode {
            let leader = shared.path.clone();
            tx.cx.report_unchanged(&name.path, &name.meta, Some(leader));
            tx.cx.report_settled(name.meta.len);
            return self.note_in_place(tx.cx, file);
        }
        let action = match (shared.is_beside, tx.cx.setting.options.compare.alternates.usage) {
            _ if name.is_not_beside => Action::Created,
            // The name is reported as linked here, as in rsync.
            (true, AlternateUse::Copy) => Action::Updated,
            (true, _) => Action::Copied,
            (false, _) => Action::Created,
        };
        let change = self.link_change(tx, &name, shared.path.clone(), action);
        if self.must_clear(tx, seen) {
            let path = name.path.clone();
            self.clear_place(tx, file, path, BlockedEntry::Name { name, change });
        } else {
            self.request_link(tx, file, name, change);
        }
    }
}
