//! Whose entries are, and what they bring besides content: checked, and turned into what this end may make of it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use deltic_core::meta::Who;
use deltic_core::{Kind, Meta};

use crate::error::PeerError;
use crate::limits::MAX_NAMES;
use crate::message::NameLine;
use crate::options::Options;
use crate::report::Differs;

use super::deciding::Section;
use super::{Ours, Receiver};

/// What users and groups are called at the sender.
#[derive(Debug, Default)]
pub(super) struct Names {
    users: HashMap<u32, Box<[u8]>>,
    groups: HashMap<u32, Box<[u8]>>,
}

/// Numbers of the sender's, each once.
#[derive(Debug, Default)]
pub(super) struct Asked {
    users: BTreeSet<u32>,
    groups: BTreeSet<u32>,
}

/// What becomes of them here.
#[derive(Debug, Default)]
pub(super) struct Known {
    users: BTreeMap<u32, Ours>,
    groups: BTreeMap<u32, Ours>,
}

impl Receiver {
    pub(super) fn names(
        &mut self,
        users: Vec<NameLine>,
        groups: Vec<NameLine>,
    ) -> Result<(), PeerError> {
        let metadata = &self.setting.options.metadata;
        let asked = (metadata.names_users() || users.is_empty())
            && (metadata.names_groups() || groups.is_empty());
        if !asked || users.is_empty() && groups.is_empty() {
            return Err(PeerError::Unexpected("names of users or groups"));
        }
        learn(&mut self.names.users, users)?;
        learn(&mut self.names.groups, groups)
    }

    /// Refuses what was not asked for.
    pub(super) fn check_meta(&self, meta: &Meta) -> Result<(), PeerError> {
        let asked = &self.setting.options.metadata;
        let more = meta.more.as_deref();
        let has_acls = more.is_some_and(|m| m.access_acl.is_some() || m.default_acl.is_some());
        let fits = (asked.users || meta.user.is_none())
            && (asked.groups || meta.group.is_none())
            && (asked.accessed || meta.accessed().is_none())
            && more.is_none_or(|more| more.linked.is_none())
            && (asked.acls || !has_acls)
            && (asked.xattrs || meta.xattrs().is_empty())
            && (asked.acls || asked.xattrs || !meta.is_partly_unread())
            && (meta.access_acl().is_none() || !meta.is_symlink())
            && (meta.default_acl().is_none() || meta.is_dir())
            && (meta.accessed().is_none() || !meta.is_dir());
        if fits { Ok(()) } else { Err(PeerError::Unexpected("metadata that was not asked for")) }
    }

    /// What this end makes of an entry's metadata, as far as it needs to look nothing up.
    pub(super) fn adopt(&self, meta: &mut Meta) {
        meta.mode = self.setting.options.metadata.chmod.applied(meta.mode, &meta.kind);
        if self.setting.is_privileged {
            return;
        }
        meta.user = None;
        if let Some(mut more) = meta.more.take() {
            more.xattrs.retain(|xattr| xattr.name.starts_with(b"user."));
            meta.more = more.boxed();
        }
    }

    /// The version that was opened, with what only the list tells of the file.
    pub(super) fn renewed(&self, listed: &Meta, opened: Meta) -> Meta {
        let Meta { user, group, more, .. } = listed.clone();
        let mode = self.setting.options.metadata.chmod.applied(opened.mode, &opened.kind);
        Meta { mode, user, group, more, ..opened }
    }

    /// What the sender calls those that a section names.
    pub(super) fn strangers(&self, section: &Section) -> (Vec<NameLine>, Vec<NameLine>) {
        let mut asked = Asked::default();
        section.metas().for_each(|meta| asked.add(meta));
        let lines = |ids: BTreeSet<u32>, names: &HashMap<u32, Box<[u8]>>| {
            let line = |id| NameLine { id, name: names.get(&id).cloned().unwrap_or_default() };
            ids.into_iter().map(line).collect()
        };
        (lines(asked.users, &self.names.users), lines(asked.groups, &self.names.groups))
    }
}

fn learn(names: &mut HashMap<u32, Box<[u8]>>, lines: Vec<NameLine>) -> Result<(), PeerError> {
    for NameLine { id, name } in lines {
        if names.insert(id, name).is_some() {
            return Err(PeerError::Unexpected("a name of a user or group, again"));
        }
        if names.len() > MAX_NAMES {
            return Err(PeerError::Limit("names of users or groups"));
        }
    }
    Ok(())
}

impl Asked {
    fn add(&mut self, meta: &Meta) {
        self.users.extend(meta.user);
        self.groups.extend(meta.group);
        let acls = meta.access_acl().into_iter().chain(meta.default_acl());
        for named in acls.flat_map(|acl| &acl.named) {
            match named.who {
                Who::User => self.users.insert(named.id),
                Who::Group => self.groups.insert(named.id),
            };
        }
    }
}

impl Known {
    /// Of the numbers that a section names and that were asked about, in order.
    pub(super) fn of(section: &Section, (users, groups): (Vec<Ours>, Vec<Ours>)) -> Self {
        let mut asked = Asked::default();
        section.metas().for_each(|meta| asked.add(meta));
        Self {
            users: asked.users.into_iter().zip(users).collect(),
            groups: asked.groups.into_iter().zip(groups).collect(),
        }
    }

    /// Gives an entry the numbers of this end; one that may not be given here is left alone.
    pub(super) fn translate(&self, meta: &mut Meta) {
        let ours = |ids: &BTreeMap<u32, Ours>, id: u32| {
            ids.get(&id).filter(|ours| ours.may_give).map(|ours| ours.id)
        };
        meta.user = meta.user.and_then(|id| ours(&self.users, id));
        meta.group = meta.group.and_then(|id| ours(&self.groups, id));
        let Some(more) = &mut meta.more else { return };
        for acl in more.access_acl.iter_mut().chain(&mut more.default_acl) {
            for named in &mut acl.named {
                let ids = if named.who == Who::User { &self.users } else { &self.groups };
                named.id = ids.get(&named.id).map_or(named.id, |ours| ours.id);
            }
            acl.settle();
        }
    }
}

/// Whether both are known, and not the same.
fn differ(new: Option<u32>, old: Option<u32>) -> bool {
    new.zip(old).is_some_and(|(new, old)| new != old)
}

/// In which of the carried attributes two entries of one kind differ.
pub(super) fn attributes(options: &Options, new: &Meta, old: &Meta) -> Differs {
    let asked = &options.metadata;
    let (is_dir, is_link) = (new.is_dir(), new.is_symlink());
    let omitted = is_dir && asked.omit_dir_times || is_link && asked.omit_link_times;
    let executes = |meta: &Meta| meta.mode & deltic_core::meta::EXECUTE_BITS != 0;
    let turned = asked.executability && new.kind == Kind::File && executes(new) != executes(old);
    // As rsync, which keeps whole seconds of it.
    let read = |meta: &Meta| meta.accessed().map(|time| time.secs);
    let is_read = !new.is_partly_unread();
    let acls_differ = !match (new.access_acl(), old.access_acl()) {
        (Some(new), Some(old)) => new.is_like(old),
        (new, old) => new == old,
    } || new.default_acl() != old.default_acl();
    Differs {
        time: options.times && !omitted && new.modified != old.modified,
        mode: !is_link && if options.modes { new.mode != old.mode } else { turned },
        user: differ(new.user, old.user),
        group: differ(new.group, old.group),
        accessed: asked.accessed && !is_dir && !is_link && read(new) != read(old),
        acl: asked.acls && !is_link && is_read && acls_differ,
        xattrs: asked.xattrs && is_read && new.xattrs() != old.xattrs(),
        ..Differs::default()
    }
}
