//! The users and groups of this machine.

use nix::unistd::{Gid, Group, Uid, User, getegid, geteuid, getgroups};

use deltic_worker::owners::Accounts;

/// Functions that ask the system of this machine.
pub(crate) const SYSTEM: Accounts = Accounts {
    user_name: |id| Some(User::from_uid(Uid::from_raw(id)).ok()??.name),
    group_name: |id| Some(Group::from_gid(Gid::from_raw(id)).ok()??.name),
    user_id: |name| Some(User::from_name(name).ok()??.uid.as_raw()),
    group_id: |name| Some(Group::from_name(name).ok()??.gid.as_raw()),
    own_groups: || {
        let groups = getgroups().unwrap_or_default();
        groups.into_iter().chain([getegid()]).map(Gid::as_raw).collect()
    },
    is_superuser: || geteuid().is_root(),
};
