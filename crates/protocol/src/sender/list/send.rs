//! Sends listed entries: one frame of a directory at a time.

use std::collections::HashSet;

use deltic_tree::links::MUNGED;
use deltic_tree::meta::{HardLink, UnreadReason};
use deltic_tree::path::BadPath;
use deltic_tree::{Entry, Follow, Kind, Meta, RelPath, Xattr};

use crate::limits::{MAX_OWNER_NAMES, UNHEARD_ENTRIES};
use crate::message::{Extent, FileNo, NameLine, ShortEntries, ToReceiver};
use crate::report::{Notice, Trouble, TroubleKind};

use super::super::context::Context;
use super::super::leaving::SourceRemoval;
use super::super::listed_file::ListedFile;
use super::linking::{NameRelation, omit_linked_meta};
use super::ready::{ReadyDir, is_left_out};
use super::{Lister, UnlistedDir};

/// Most bytes that a path takes in a frame.
const PATH_BYTES: usize = 8 << 10;
/// Most bytes that a user and a group name take in a frame.
const NAME_BYTES: usize = 1 << 10;

impl Lister {
    /// Sends names of users and groups, each once; names above the limit are not sent.
    pub(super) fn send_owners(
        &mut self,
        cx: &mut Context,
        mut users: Vec<NameLine>,
        mut groups: Vec<NameLine>,
    ) {
        let is_new = |known: &mut HashSet<u32>, line: &NameLine| {
            known.len() < MAX_OWNER_NAMES && known.insert(line.id)
        };
        users.retain(|line| is_new(&mut self.named.0, line));
        groups.retain(|line| is_new(&mut self.named.1, line));
        let at_once = cx.limits.frame_bytes / NAME_BYTES;
        while !(users.is_empty() && groups.is_empty()) {
            cx.send(ToReceiver::Owners {
                users: users.drain(..users.len().min(at_once)).collect(),
                groups: groups.drain(..groups.len().min(at_once)).collect(),
            });
        }
    }

    /// Sends one frame of the first ready directory. Returns false if nothing could be sent.
    pub(super) fn send_listing_frame(
        &mut self,
        cx: &mut Context,
        leaving: &mut SourceRemoval,
    ) -> bool {
        let may_go =
            |ready: &mut ReadyDir| !ready.waits_for_listing() && !waits_for_hello(cx, ready);
        let Some(mut ready) = self.ready.pop_front_if(may_go) else { return false };
        if let Some(own) = &mut ready.own
            && drop_oversized_attributes(cx, meta_weight(own), own)
        {
            cx.report_trouble(unread_attributes_trouble(&ready.dir, UnreadReason::TooMuch));
        }
        let mut entries = self.take_frame(cx, leaving, &mut ready);
        let (dir, own, tallied) = (ready.dir.clone(), ready.own.take(), ready.tallied);
        if cx.options.select.list_only {
            cx.notices.extend(entry_notices(&dir, own.as_ref(), &entries));
        }
        Self::request_more(cx, &mut ready);
        let extent = ready.extent();
        if extent == Extent::More {
            (ready.has_begun, ready.tally) = (true, None);
            self.ready.push_front(ready);
        }
        // A batch without remaining entries is not sent, unless the batch is the last of its directory.
        if extent != Extent::More || own.is_some() || !entries.is_empty() {
            self.counts.names += u64::from(own.is_some());
            entries.iter_mut().for_each(|entry| omit_linked_meta(&mut entry.meta));
            self.bytes.add_listing(&entries, self.next);
            cx.send(if cx.abilities.short_forms.lists {
                let (dir, entries) = (self.path_before.shorten(&dir), ShortEntries(entries));
                ToReceiver::ShortListing { dir, own, entries, extent }
            } else {
                ToReceiver::Listing { dir, own, entries, extent }
            });
            self.report_listed(cx);
        }
        if let Some(no) = tallied.filter(|_| extent != Extent::More) {
            let parked = self.tallies.close(no);
            self.ready.extend(parked);
        }
        true
    }

    /// True if an entry may be sent. Before the receiver's hello arrives, only the first [`UNHEARD_ENTRIES`] entries
    /// may be sent.
    pub(super) const fn may_list(&self, cx: &Context) -> bool {
        cx.is_greeted || self.next < UNHEARD_ENTRIES
    }

    /// Takes the entries of one frame, without entries that are left out.
    fn take_frame(
        &mut self,
        cx: &mut Context,
        leaving: &mut SourceRemoval,
        ready: &mut ReadyDir,
    ) -> Vec<Entry> {
        let (mut entries, mut taken) = (Vec::new(), 0);
        let mut bytes = ready.own.as_ref().map_or(0, meta_weight);
        while bytes < cx.limits.listing_bytes()
            && entries.len() < cx.limits.max_items()
            && self.may_list(cx)
            && !waits_for_hello(cx, ready)
        {
            let Some(mut entry) = ready.entries.pop_front() else { break };
            bytes += entry_weight(&entry);
            taken += 1;
            if self.should_send(cx, leaving, ready, &mut entry) {
                entries.push(entry);
            }
        }
        if ready.tallied.is_some() {
            self.tallies.count_sent_entries(taken);
        }
        entries
    }

    /// Decides whether an entry is sent. Registers the entry if so; otherwise reports the reason. Returns true if the
    /// entry is sent.
    fn should_send(
        &mut self,
        cx: &mut Context,
        leaving: &mut SourceRemoval,
        ready: &ReadyDir,
        entry: &mut Entry,
    ) -> bool {
        let path = match ready.dir.join(&entry.name) {
            Ok(path) => path,
            Err(bad) => {
                self.intact = false;
                cx.report_trouble(unsendable_trouble(&ready.dir, entry, &bad));
                return false;
            }
        };
        if is_left_out(&entry.meta.kind, &cx.options) {
            if !cx.options.select.list_only {
                cx.report_trouble(Trouble::skipped_entry(&entry.meta.kind, &path));
            }
            if entry.meta.is_dir() {
                return false;
            }
            // The other end does not create this entry, so no later name may refer to it.
            entry.meta.set_hard_link(None);
        }
        drop_oversized_attributes(cx, entry_weight(entry), &mut entry.meta);
        self.counts.names += 1;
        let inode = entry.meta.hard_link();
        self.refer_to_first_name(cx, &path, &mut entry.meta);
        if cx.options.remove.sources && !entry.meta.is_dir() {
            let mut source = entry.meta.clone();
            // Entry numbers mean nothing in another list, which may hold the source again.
            source.set_hard_link(inode);
            leaving.push(FileNo(self.next), path.clone(), source);
        }
        if cx.options.follow.unmunge {
            restore_munged_target(&mut entry.meta);
        }
        if let Some(unread) = entry.meta.unread_reason() {
            cx.report_trouble(unread_attributes_trouble(&path, unread));
        }
        match entry.meta.kind {
            Kind::Dir if ready.tallied.is_none() => {
                let (parent, name) = (ready.dir.clone(), Some(entry.name.clone()));
                self.dirs.push(UnlistedDir { parent, name, above: None });
            }
            Kind::File => {
                self.counts.files += 1;
                cx.progress.list(entry.meta.len);
                cx.entries.insert(FileNo(self.next), ListedFile::new(path, &entry.meta));
            }
            _ => {}
        }
        self.next += 1;
        true
    }

    /// Makes a later name of a file refer to its first name.
    fn refer_to_first_name(&mut self, cx: &mut Context, path: &RelPath, meta: &mut Meta) {
        if let Some(HardLink::Inode(inode, _)) = meta.hard_link()
            && cx.options.follow.follow != Follow::Never
        {
            // Through a symlink to a directory, a file is met under more names than it has.
            meta.set_hard_link(Some(HardLink::Inode(inode, u32::MAX)));
        }
        if self.linking.set_hard_link(self.next, path, meta) == NameRelation::Crowded {
            let words = |path: &str| {
                format!(
                    "cannot link {path}: too many files of several names; each name of such is sent by itself"
                )
            };
            cx.report_trouble(Trouble::at(TroubleKind::Failed, path, words));
        }
    }
}

/// Sends the missing source arguments.
pub(super) fn send_missing(cx: &mut Context, mut missing: Vec<RelPath>) {
    let at_once = cx.limits.frame_bytes / PATH_BYTES;
    while !missing.is_empty() {
        let rest = missing.split_off(missing.len().min(at_once));
        cx.send(ToReceiver::Missing(std::mem::replace(&mut missing, rest)));
    }
}

/// Restores the target of a symlink that was munged on receipt.
fn restore_munged_target(meta: &mut Meta) {
    if let Kind::Symlink(target) = &mut meta.kind
        && let Some(own) = target.strip_prefix(MUNGED).filter(|own| !own.is_empty())
    {
        *target = own.into();
    }
}

/// Returns notices for the entries of a listing, in runs that transfer nothing.
fn entry_notices(dir: &RelPath, own: Option<&Meta>, entries: &[Entry]) -> Vec<Notice> {
    let own = own.map(|meta| Notice::Entry { path: dir.clone(), meta: meta.clone() });
    let entry = |entry: &Entry| {
        Some(Notice::Entry { path: dir.join(&entry.name).ok()?, meta: entry.meta.clone() })
    };
    own.into_iter().chain(entries.iter().filter_map(entry)).collect()
}

fn unsendable_trouble(dir: &RelPath, entry: &Entry, bad: &BadPath) -> Trouble {
    let words = |dir: &str| format!("cannot send {} in {dir}: {bad}", entry.name);
    Trouble::at(TroubleKind::Failed, dir, words)
}

fn unread_attributes_trouble(path: &RelPath, unread: UnreadReason) -> Trouble {
    let why = match unread {
        UnreadReason::Denied => "permission denied",
        UnreadReason::TooMuch => "more attributes than a list entry of this session can have",
        UnreadReason::Other => "the system did not return the attributes",
    };
    let words = |path: &str| format!("cannot read attributes of {path}: {why}");
    Trouble::at(TroubleKind::Failed, path, words)
}

/// True if the next entry must wait for the receiver's hello, because it is longer than the frames that every end
/// accepts.
fn waits_for_hello(cx: &Context, ready: &ReadyDir) -> bool {
    let own = ready.own.as_ref().map_or(0, meta_weight);
    let first = ready.entries.front().map_or(0, entry_weight);
    !cx.is_greeted && own.max(first) > cx.limits.entry_bytes()
}

/// Drops the attributes of an entry that would not fit a frame. Returns true if attributes were dropped.
fn drop_oversized_attributes(cx: &Context, weight: usize, meta: &mut Meta) -> bool {
    let is_long = weight > cx.limits.entry_bytes();
    if is_long {
        meta.clear_unread_attributes(UnreadReason::TooMuch);
    }
    is_long
}

/// Estimates the bytes of an entry in a frame.
fn entry_weight(entry: &Entry) -> usize {
    entry.name.as_bytes().len() + meta_weight(&entry.meta)
}

/// Estimates the bytes of metadata in a frame.
fn meta_weight(meta: &Meta) -> usize {
    let target = if let Kind::Symlink(target) = &meta.kind { target.len() } else { 0 };
    let acls = meta.access_acl().into_iter().chain(meta.default_acl());
    let named: usize = acls.map(|acl| acl.named.len()).sum();
    let xattr = |xattr: &Xattr| xattr.name.len() + xattr.value.len() + 4;
    let xattrs: usize = meta.xattrs().iter().map(xattr).sum();
    target + 7 * named + xattrs + 48
}
