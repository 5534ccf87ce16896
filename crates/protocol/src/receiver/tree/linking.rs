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
use super::compare::attributes;
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
        match self.links.decide(first, placed) {
            NameStep::Wait => {}
            NameStep::Link(name) => self.link_name(tx, file, first, name),
            NameStep::Lead(name) => self.lead(tx, file, first, name),
        }
        self.links.forget(first);
    }

    fn lead(&mut self, tx: &mut TreeContext<'_>, file: FileNo, first: FileNo, mut name: LaterName) {
        self.links.lead(file, first, &mut name);
        let is_not_beside = name.is_not_beside;
        let placed = name.placed(file);
        match is_not_beside {
            true => self.decide_here(tx, placed, None),
            false => self.decide_alone(tx, placed),
        }
    }

    /// Decides about an entry that the alternates do not have. If other names of its file wait, these are looked for
    /// there before anything is sent.
    pub(super) fn decide_not_beside(&mut self, tx: &mut TreeContext<'_>, placed: PlacedEntry) {
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
                    self.links.forget(first);
                }
                LinkStep::Lead { file, first, name } => self.lead(tx, file, first, name),
            }
        }
    }

    /// Returns the report of a linked name, with `action` if the name is new.
    fn change_of(
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
            ..Differs { acl, xattrs, ..attributes(&tx.cx.setting.options, &name.alone(), old) }
        });
        Change {
            path: path.clone(),
            item: EntryType::of(&meta.kind),
            action: if old.is_some() { Action::Updated } else { action },
            differs,
            facts: Facts { linked: Some(leader), ..Facts::of(meta) },
        }
    }

    pub(super) fn make_link(
        &mut self,
        tx: &mut TreeContext<'_>,
        file: FileNo,
        name: LaterName,
        change: Change,
    ) {
        if tx.cx.setting.options.dry_run {
            tx.cx.report_settled(name.meta.len);
            self.arrive(tx.cx, file);
            return tx.cx.changed(change);
        }
        let Some(leader) = change.facts.linked.clone() else { return };
        let LaterName { path, meta, seen, .. } = &name;
        let (path, kind, seen) = (path.clone(), meta.kind.clone(), seen.clone());
        tx.cx.ask(
            ReceiverWork::Entry(EntryWork::Link { path, leader, kind, seen }),
            TreePending::Link { file, change },
        );
        self.links.link(file, name);
    }

    /// Takes the result of a link; a name that could not be linked is transferred by itself.
    pub(super) fn linked_name(
        &mut self,
        tx: &mut TreeContext<'_>,
        file: FileNo,
        change: Change,
        done: Result<(), WorkError>,
    ) {
        let Some(name) = self.links.linked(file) else { return };
        match done {
            Ok(()) => {
                tx.cx.report_settled(name.meta.len);
                self.arrive(tx.cx, file);
                self.arrivals.note_uncommitted(tx.cx, file, &name.path);
                tx.cx.changed(change);
            }
            Err(WorkError { trouble, then }) => {
                if then != ErrorAction::Retry {
                    let message = format!("{}; it comes by itself", trouble.message);
                    let kind = TroubleKind::Warned;
                    tx.cx.tell_trouble(Trouble { kind, message, ..trouble });
                }
                self.decide_alone(tx, name.placed(file));
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
        let shared = self.links.leader(first);
        let seen = name.seen.as_ref();
        let is = seen.and_then(Meta::linked).and_then(HardLink::inode);
        if is.is_some() && is == shared.inode {
            let leader = shared.path.clone();
            tx.cx.unchanged(&name.path, &name.meta, Some(leader));
            tx.cx.report_settled(name.meta.len);
            return self.arrive(tx.cx, file);
        }
        let action = match (shared.is_beside, tx.cx.setting.options.compare.alternates.usage) {
            _ if name.is_not_beside => Action::Created,
            // The name is reported as linked here, as in rsync.
            (true, AlternateUse::Copy) => Action::Updated,
            (true, _) => Action::Copied,
            (false, _) => Action::Created,
        };
        let change = self.change_of(tx, &name, shared.path.clone(), action);
        if self.clears(tx, seen) {
            let path = name.path.clone();
            self.clear(tx, file, path, BlockedEntry::Name { name, change });
        } else {
            self.make_link(tx, file, name, change);
        }
    }
}
