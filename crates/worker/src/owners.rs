//! Users and groups: their names on this machine, and how the other end's users and groups are mapped to this
//! machine.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Mutex;

use deltic_protocol::message::NameLine;
use deltic_protocol::options::{Metadata, Powers};
use deltic_protocol::receiver::{LocalOwner, MappedOwners};
use deltic_tree::Entry;
use deltic_tree::meta::{IdKind, IdRules, IdTarget};
use deltic_tree::{Acl, Meta};

use crate::lock::lock;

/// Error: an option names a user or a group that does not exist on this machine.
#[derive(Debug)]
pub struct UnknownAccount(String);

impl fmt::Display for UnknownAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Functions that look up the users and groups of a machine.
#[derive(Clone, Copy, Debug)]
pub struct Accounts {
    /// Returns the name of a user.
    pub user_name: fn(u32) -> Option<String>,
    /// Returns the name of a group.
    pub group_name: fn(u32) -> Option<String>,
    /// Returns the number of a user.
    pub user_id: fn(&str) -> Option<u32>,
    /// Returns the number of a group.
    pub group_id: fn(&str) -> Option<u32>,
    /// Returns the groups of this process.
    pub own_groups: fn() -> HashSet<u32>,
    /// True if this process runs as the superuser.
    pub is_superuser: fn() -> bool,
}

impl Accounts {
    /// Accounts of a machine without users, such as a browser: no number has a name.
    pub const NONE: Self = Self {
        user_name: |_| None,
        group_name: |_| None,
        user_id: |_| None,
        group_id: |_| None,
        own_groups: HashSet::new,
        is_superuser: || false,
    };

    /// True if a receiver sets attributes that only the superuser may set, or notes such attributes.
    pub fn are_privileged(self, metadata: &Metadata) -> bool {
        match metadata.powers {
            _ if metadata.writes_notes => true,
            Powers::Own => (self.is_superuser)(),
            Powers::Tried => true,
            Powers::Waived | Powers::Confined => false,
        }
    }
}

/// Names of users and groups on this machine, for a sender.
#[derive(Debug)]
pub(crate) struct NamedOwners {
    accounts: Accounts,
    users: Option<Book<Vec<u8>>>,
    groups: Option<Book<Vec<u8>>>,
}

impl NamedOwners {
    pub(crate) fn new(metadata: &Metadata, accounts: Accounts) -> Self {
        Self {
            accounts,
            users: metadata.sends_user_names().then(Book::default),
            groups: metadata.sends_group_names().then(Book::default),
        }
    }

    /// Adds names that another machine supplied, which take precedence. All other users and groups have their names on
    /// this machine.
    pub(crate) fn knowing(self, users: &[NameLine], groups: &[NameLine]) -> Self {
        for (book, lines) in [(&self.users, users), (&self.groups, groups)] {
            for line in lines {
                book.iter().for_each(|book| drop(book.of(line.id, || line.name.to_vec())));
            }
        }
        self
    }

    /// Returns the names of all users and groups that own these entries or are in their ACLs.
    pub(crate) fn owner_names(&self, own: Option<&Meta>, all: &[Entry]) -> [Vec<NameLine>; 2] {
        if self.users.is_none() && self.groups.is_none() {
            return [Vec::new(), Vec::new()];
        }
        let [mut users, mut groups] = [HashSet::new(), HashSet::new()];
        for meta in own.into_iter().chain(all.iter().map(|entry| &entry.meta)) {
            users.extend(meta.user);
            groups.extend(meta.group);
            for named in named(meta).flat_map(|acl| &acl.named) {
                match named.who {
                    IdKind::User => users.insert(named.id),
                    IdKind::Group => groups.insert(named.id),
                };
            }
        }
        [
            lines(users, self.users.as_ref(), self.accounts.user_name),
            lines(groups, self.groups.as_ref(), self.accounts.group_name),
        ]
    }
}

fn named(meta: &Meta) -> impl Iterator<Item = &Acl> {
    meta.access_acl().into_iter().chain(meta.default_acl())
}

fn lines(
    ids: HashSet<u32>,
    book: Option<&Book<Vec<u8>>>,
    name: fn(u32) -> Option<String>,
) -> Vec<NameLine> {
    let Some(book) = book else { return Vec::new() };
    let line = |id| {
        let name = book.of(id, || name(id).unwrap_or_default().into_bytes());
        let fits = !name.is_empty() && name.len() <= deltic_tree::path::MAX_NAME_BYTES;
        fits.then(|| NameLine { id, name: name.into() })
    };
    ids.into_iter().filter_map(line).collect()
}

/// Maps the sender's users and groups to users and groups of this machine, for a receiver.
#[derive(Debug)]
pub(crate) struct Owners {
    user_map: Map,
    group_map: Map,
    is_privileged: bool,
    /// The groups of this process.
    own: HashSet<u32>,
}

impl Owners {
    /// # Errors
    /// [`UnknownAccount`] if a map names a user or group that does not exist on this machine.
    pub(crate) fn new(metadata: &Metadata, accounts: Accounts) -> Result<Self, UnknownAccount> {
        Ok(Self {
            user_map: Map::new(&metadata.user_map, accounts.user_id)
                .map_err(|name| unknown("user", &metadata.user_map, &name))?,
            group_map: Map::new(&metadata.group_map, accounts.group_id)
                .map_err(|name| unknown("group", &metadata.group_map, &name))?,
            is_privileged: accounts.are_privileged(metadata),
            own: (accounts.own_groups)(),
        })
    }

    /// True if this receiver may change the owner of entries.
    pub(crate) const fn gives_users(&self) -> bool {
        self.is_privileged
    }

    /// Returns a user number of the sender that maps to the local user `ours`.
    pub(crate) fn sender_user_of(&self, ours: u32, told: &[NameLine]) -> Option<u32> {
        self.user_map.sender_id(ours, told)
    }

    /// Returns a group number of the sender that maps to the local group `ours`.
    pub(crate) fn sender_group_of(&self, ours: u32, told: &[NameLine]) -> Option<u32> {
        self.group_map.sender_id(ours, told)
    }

    pub(crate) fn ours(&self, users: &[NameLine], groups: &[NameLine]) -> MappedOwners {
        let user = |line| LocalOwner { id: self.user_map.of(line), may_give: self.is_privileged };
        let group = |line| {
            let id = self.group_map.of(line);
            LocalOwner { id, may_give: self.is_privileged || self.own.contains(&id) }
        };
        MappedOwners {
            users: users.iter().map(user).collect(),
            groups: groups.iter().map(group).collect(),
        }
    }
}

fn unknown(what: &str, rules: &IdRules, name: &str) -> UnknownAccount {
    // `--chown` is a map from all users or groups to one name.
    let option = if rules.text() == format!("*:{name}") { "chown" } else { &format!("{what}map") };
    let name = deltic_tree::path::printable(name.as_bytes());
    UnknownAccount(format!("--{option}: no {what} '{name}' at the destination"))
}

/// The rules of `--usermap` or `--groupmap`, and a cache of the system's answers about names.
#[derive(Debug)]
struct Map {
    rules: IdRules,
    /// Numbers of the names that rules map to.
    targets: HashMap<String, u32>,
    find: fn(&str) -> Option<u32>,
    known: Book<u32>,
}

impl Map {
    fn new(rules: &IdRules, find: fn(&str) -> Option<u32>) -> Result<Self, String> {
        let mut targets = HashMap::new();
        for target in rules.targets() {
            if let IdTarget::Name(name) = target {
                targets.insert(name.clone(), find(name).ok_or_else(|| name.clone())?);
            }
        }
        Ok(Self { rules: rules.clone(), targets, find, known: Book::default() })
    }

    /// Returns the local number: by the first matching rule, or by the name (not for the superuser), or the same
    /// number.
    fn of(&self, line: &NameLine) -> u32 {
        self.known.of(line.id, || self.decide(line))
    }

    fn decide(&self, NameLine { id, name }: &NameLine) -> u32 {
        match self.rules.target(*id, name) {
            Some(IdTarget::Id(target)) => *target,
            Some(IdTarget::Name(target)) => self.targets[target],
            None if *id == 0 => 0,
            None => {
                let name = std::str::from_utf8(name).ok().filter(|name| !name.is_empty());
                name.and_then(self.find).unwrap_or(*id)
            }
        }
    }
}

impl Map {
    /// Returns a number of the sender that maps to `ours`: a number sent with its name, or else the same number. The
    /// mapping of the same number is not cached, because the sender may still send a name for that number.
    fn sender_id(&self, ours: u32, told: &[NameLine]) -> Option<u32> {
        let same = NameLine { id: ours, name: Box::default() };
        let is_told = told.iter().any(|line| line.id == ours);
        let untold = (!is_told && self.decide(&same) == ours).then_some(ours);
        told.iter().find(|line| self.of(line) == ours).map(|line| line.id).or(untold)
    }
}

/// Caches answers of the system, which may ask a name server for each number.
#[derive(Debug)]
struct Book<T>(Mutex<HashMap<u32, T>>);

impl<T> Default for Book<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone> Book<T> {
    fn of(&self, id: u32, ask: impl FnOnce() -> T) -> T {
        if let Some(known) = lock(&self.0).get(&id) {
            return known.clone();
        }
        let answer = ask();
        let mut known = lock(&self.0);
        // A peer can send any number, so the cache is bounded.
        if known.len() >= MAX_KNOWN {
            known.clear();
        }
        known.insert(id, answer.clone());
        answer
    }
}

const MAX_KNOWN: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn line(id: u32, name: &str) -> NameLine {
        NameLine { id, name: name.as_bytes().into() }
    }

    /// Returns a map on a machine where `a` is 10 and `b` is 20.
    fn map(rules: &str) -> Map {
        let find = |name: &str| match name {
            "a" => Some(10),
            "b" => Some(20),
            _ => None,
        };
        Map::new(&IdRules::parse(rules).unwrap(), find).unwrap()
    }

    #[test]
    fn sender_id_is_the_id_that_maps_to_the_local_id() {
        let told = [line(1, "a"), line(2, "c"), line(10, "b")];
        let map = map("");
        assert_eq!(map.sender_id(10, &told), Some(1));
        assert_eq!(map.sender_id(20, &told), Some(10));
        assert_eq!(map.sender_id(2, &told), Some(2));
        assert_eq!(map.sender_id(7, &told), Some(7));
        // Number 1 of the sender becomes 10.
        assert_eq!(map.sender_id(1, &told), None);
        // Several numbers map to 20, and each is right. If an entry has another of them, the directory digests differ.
        assert_eq!(map.sender_id(20, &[line(20, "d"), line(10, "b")]), Some(20));
    }

    #[test]
    fn a_name_that_is_told_later_counts_from_then_on() {
        let map = map("");
        assert_eq!(map.sender_id(30, &[]), Some(30));
        assert_eq!(map.of(&line(30, "a")), 10);
        assert_eq!(map.sender_id(30, &[line(30, "a")]), None);
        assert_eq!(map.sender_id(10, &[line(30, "a")]), Some(30));
    }
}
