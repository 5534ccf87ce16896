//! Owners and other metadata of entries: checked, and mapped to the owners and rights of this end.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use deltic_tree::Meta;
use deltic_tree::meta::IdKind;

use crate::error::PeerError;
use crate::limits::MAX_OWNER_NAMES;
use crate::message::NameLine;

use crate::receiver::ask::{LocalOwner, MappedOwners};
use crate::receiver::context::Context;

use super::sections::DirSection;

/// Names of users and groups at the sender.
#[derive(Debug, Default)]
pub(super) struct OwnerNames {
    pub(super) users: HashMap<u32, Box<[u8]>>,
    pub(super) groups: HashMap<u32, Box<[u8]>>,
}

impl OwnerNames {
    /// Number of known names.
    pub(super) fn len(&self) -> usize {
        self.users.len() + self.groups.len()
    }

    /// Returns all users and all groups, in no order.
    pub(super) fn all_names(&self) -> [Vec<NameLine>; 2] {
        let lines = |names: &HashMap<u32, Box<[u8]>>| {
            names.iter().map(|(id, name)| NameLine { id: *id, name: name.clone() }).collect()
        };
        [lines(&self.users), lines(&self.groups)]
    }

    /// Returns the users and groups that a section refers to, with the names that the sender sent.
    pub(super) fn unknown_owners(&self, section: &DirSection) -> (Vec<NameLine>, Vec<NameLine>) {
        let mut asked = OwnerIds::default();
        section.metas().for_each(|meta| asked.add_ids(meta));
        let lines = |ids: BTreeSet<u32>, names: &HashMap<u32, Box<[u8]>>| {
            let line = |id| NameLine { id, name: names.get(&id).cloned().unwrap_or_default() };
            ids.into_iter().map(line).collect()
        };
        (lines(asked.users, &self.users), lines(asked.groups, &self.groups))
    }
}

/// User and group numbers of the sender, each once.
#[derive(Debug, Default)]
pub(super) struct OwnerIds {
    users: BTreeSet<u32>,
    groups: BTreeSet<u32>,
}

/// Local users and groups, by the sender's numbers.
#[derive(Debug, Default)]
pub(super) struct LocalOwners {
    users: BTreeMap<u32, LocalOwner>,
    groups: BTreeMap<u32, LocalOwner>,
}

/// Checks that an entry has no metadata that was not asked for. Errors: `Unexpected`.
pub(super) fn check_meta(cx: &Context, meta: &Meta) -> Result<(), PeerError> {
    let asked = &cx.setting.options.metadata;
    let more = meta.more.as_deref();
    let has_acls = more.is_some_and(|m| m.access_acl.is_some() || m.default_acl.is_some());
    let fits = (asked.users || meta.user.is_none())
        && (asked.groups || meta.group.is_none())
        && (asked.accessed || meta.accessed().is_none())
        && (asked.hard_links && !meta.is_dir() || meta.hard_link().is_none())
        && (asked.acls || !has_acls)
        && (asked.xattrs || meta.xattrs().is_empty())
        && (asked.acls || asked.xattrs || !meta.has_unread_attributes())
        && (!meta.is_implied_dir()
            || meta.is_dir() && cx.setting.options.select.plain_implied_dirs)
        && (meta.access_acl().is_none() || !meta.is_symlink())
        && (meta.default_acl().is_none() || meta.is_dir())
        && (meta.accessed().is_none() || !meta.is_dir());
    if fits { Ok(()) } else { Err(PeerError::Unexpected("metadata that was not requested")) }
}

/// Adapts an entry's metadata to this end, as far as no look-up is needed.
pub(super) fn adapt_meta(cx: &Context, meta: &mut Meta) {
    if cx.setting.options.tells_owners {
        meta.save_sender_owner();
    }
    meta.mode = cx.setting.options.metadata.chmod.apply_to(meta.mode, &meta.kind);
    if cx.setting.is_privileged {
        return;
    }
    meta.user = None;
    if let Some(mut more) = meta.more.take() {
        more.xattrs.retain(|xattr| xattr.name.starts_with(b"user."));
        meta.more = more.into_box();
    }
}

pub(super) fn insert_names(
    names: &mut HashMap<u32, Box<[u8]>>,
    lines: Vec<NameLine>,
) -> Result<(), PeerError> {
    for NameLine { id, name } in lines {
        if names.insert(id, name).is_some() {
            return Err(PeerError::Unexpected("a second name of a user or group"));
        }
        if names.len() > MAX_OWNER_NAMES {
            return Err(PeerError::Limit("names of users or groups"));
        }
    }
    Ok(())
}

impl OwnerIds {
    fn add_ids(&mut self, meta: &Meta) {
        self.users.extend(meta.user);
        self.groups.extend(meta.group);
        let acls = meta.access_acl().into_iter().chain(meta.default_acl());
        for named in acls.flat_map(|acl| &acl.named) {
            match named.who {
                IdKind::User => self.users.insert(named.id),
                IdKind::Group => self.groups.insert(named.id),
            };
        }
    }
}

impl LocalOwners {
    /// Takes the local users and groups for the numbers of a section, in order.
    pub(super) fn with_mapped(section: &DirSection, mapped: MappedOwners) -> Self {
        let mut asked = OwnerIds::default();
        section.metas().for_each(|meta| asked.add_ids(meta));
        Self {
            users: asked.users.into_iter().zip(mapped.users).collect(),
            groups: asked.groups.into_iter().zip(mapped.groups).collect(),
        }
    }

    /// Maps an entry's owners to local numbers; owners that may not be given here are dropped.
    pub(super) fn translate(&self, meta: &mut Meta) {
        let ours = |ids: &BTreeMap<u32, LocalOwner>, id: u32| {
            ids.get(&id).filter(|ours| ours.may_give).map(|ours| ours.id)
        };
        meta.user = meta.user.and_then(|id| ours(&self.users, id));
        meta.group = meta.group.and_then(|id| ours(&self.groups, id));
        let Some(more) = &mut meta.more else { return };
        for acl in more.access_acl.iter_mut().chain(&mut more.default_acl) {
            for named in &mut acl.named {
                let ids = if named.who == IdKind::User { &self.users } else { &self.groups };
                named.id = ids.get(&named.id).map_or(named.id, |ours| ours.id);
            }
            acl.sort_and_deduplicate();
        }
    }
}
