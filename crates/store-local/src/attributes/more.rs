//! Reads and sets extended attributes and ACLs by paths that start at held handles. Before Linux 6.13, no call for
//! extended attributes takes a directory handle and a name.

use std::collections::BTreeMap;

use deltic_tree::meta::{
    Acl, ExtraMeta, MAX_XATTR_VALUE_BYTES, MAX_XATTRS, MAX_XATTRS_BYTES, Meta, MetaMask,
    UnreadReason, Xattr, XattrScope,
};
use deltic_tree::path::printable;
use rustix::fs::{self, XattrFlags};
use rustix::io::Errno;

use deltic_store::{Filter, Unset};

/// A path to an entry.
#[derive(Debug)]
pub(crate) enum Reach {
    /// A name in a held directory; symlinks are not followed.
    Name(Vec<u8>),
    /// A path whose last symlink is followed: the link in `/proc` to the entry's open handle, which cannot lead
    /// elsewhere, or a symlink that the run follows.
    Followed(Vec<u8>),
}

impl Reach {
    fn list(&self, list: &mut [u8]) -> Result<usize, Errno> {
        match self {
            Self::Name(path) => fs::llistxattr(&**path, list),
            Self::Followed(path) => fs::listxattr(&**path, list),
        }
    }

    pub(crate) fn get(&self, name: &[u8], value: &mut [u8]) -> Result<usize, Errno> {
        match self {
            Self::Name(path) => fs::lgetxattr(&**path, name, value),
            Self::Followed(path) => fs::getxattr(&**path, name, value),
        }
    }

    pub(crate) fn set(&self, name: &[u8], value: &[u8]) -> Result<(), Errno> {
        match self {
            Self::Name(path) => fs::lsetxattr(&**path, name, value, XattrFlags::empty()),
            Self::Followed(path) => fs::setxattr(&**path, name, value, XattrFlags::empty()),
        }
    }

    pub(crate) fn remove(&self, name: &[u8]) -> Result<(), Errno> {
        let removed = match self {
            Self::Name(path) => fs::lremovexattr(&**path, name),
            Self::Followed(path) => fs::removexattr(&**path, name),
        };
        match removed {
            Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(()),
            removed => removed,
        }
    }
}

/// True if the rules admit an extended attribute of this name.
pub(crate) type Admits<'a> = &'a dyn Fn(&[u8]) -> bool;

/// Adds the attributes and ACLs of the entry at `at` that `see` asks for.
pub(crate) fn add_attributes(at: &Reach, meta: &mut Meta, see: MetaMask) {
    add_admitted(at, meta, see, &|_| true);
}

/// Reads the attributes again if there were too many, or some were unreadable. `admits` may exclude the attributes that
/// caused this.
pub(crate) fn read_again(
    at: impl FnOnce() -> Reach,
    meta: &mut Meta,
    see: MetaMask,
    admits: Admits<'_>,
) {
    if meta.has_unread_attributes() && see.xattrs != XattrScope::Nothing {
        add_admitted(&at(), meta, see, admits);
    }
}

fn add_admitted(at: &Reach, meta: &mut Meta, see: MetaMask, admits: Admits<'_>) {
    let mut more = meta.more.take().map(|more| *more).unwrap_or_default();
    more.unread = None;
    if let Err(why) = read_attributes(at, meta, see, admits, &mut more) {
        more.xattrs.clear();
        if !see.fake_super {
            (more.access_acl, more.default_acl) = (None, None);
        }
        more.unread = Some(why);
    }
    meta.more = more.into_box();
}

fn read_attributes(
    at: &Reach,
    meta: &Meta,
    see: MetaMask,
    admits: Admits<'_>,
    more: &mut ExtraMeta,
) -> Result<(), UnreadReason> {
    if see.acls && !see.fake_super && !meta.is_symlink() {
        more.access_acl = read_acl(at, ACCESS)?.filter(|acl| acl.mask.is_some());
        more.default_acl = if meta.is_dir() { read_acl(at, DEFAULT)? } else { None };
    }
    let mut total = 0;
    // Names that stand for other names come first in reverse order. So the duplicates removed below are the plain
    // names.
    for name in xattr_names(at, see.xattrs).map_err(unread_reason)?.into_iter().rev() {
        if !admits(see.xattrs.sent_name(&name)) {
            continue;
        }
        let Some(value) = xattr_value(at, &name).map_err(unread_reason)? else { continue };
        let name = see.xattrs.sent_name(&name);
        total += name.len() + value.len();
        if total > MAX_XATTRS_BYTES || more.xattrs.len() == MAX_XATTRS {
            return Err(UnreadReason::TooMuch);
        }
        more.xattrs.push(Xattr { name: name.into(), value: value.into() });
    }
    more.xattrs.sort_by(|one, other| one.name.cmp(&other.name));
    more.xattrs.dedup_by(|later, first| later.name == first.name);
    Ok(())
}

fn unread_reason(errno: Errno) -> UnreadReason {
    match errno {
        Errno::ACCESS | Errno::PERM => UnreadReason::Denied,
        Errno::RANGE | Errno::TOOBIG => UnreadReason::TooMuch,
        _ => UnreadReason::Other,
    }
}

fn read_acl(at: &Reach, name: &[u8]) -> Result<Option<Acl>, UnreadReason> {
    let bytes = xattr_value(at, name).map_err(unread_reason)?;
    bytes.map(|bytes| Acl::parse(&bytes).ok_or(UnreadReason::Other)).transpose()
}

/// Returns the attribute names that `scope` admits, sorted.
fn xattr_names(at: &Reach, scope: XattrScope) -> Result<Vec<Vec<u8>>, Errno> {
    if scope == XattrScope::Nothing {
        return Ok(Vec::new());
    }
    let mut list = vec![0; FEW_NAMES_BYTES];
    let read = match at.list(&mut list) {
        Err(Errno::RANGE) => {
            list.resize(MAX_LIST_BYTES, 0);
            at.list(&mut list)
        }
        read => read,
    };
    let len = match read {
        Err(Errno::OPNOTSUPP) => 0,
        read => read?,
    };
    let all = list[..len].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let mut names: Vec<_> = all.filter(|name| scope.admits(name)).map(<[u8]>::to_vec).collect();
    names.sort_unstable();
    Ok(names)
}

/// Returns the value of the attribute `name`, if the entry has that attribute.
fn xattr_value(at: &Reach, name: &[u8]) -> Result<Option<Vec<u8>>, Errno> {
    let mut value = vec![0; MAX_XATTR_VALUE_BYTES];
    match at.get(name, &mut value) {
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(None),
        Err(errno) => Err(errno),
        Ok(len) => {
            value.truncate(len);
            value.shrink_to_fit();
            Ok(Some(value))
        }
    }
}

/// Sets the attributes of `meta`, and removes all other attributes, as far as `scope` and the rules admit. Returns the
/// attributes that could not be set.
pub(crate) fn set_xattrs(at: &Reach, meta: &Meta, scope: XattrScope, rules: &Filter) -> Unset {
    let told = meta.xattrs().iter().filter(|xattr| rules.admits_xattr(&xattr.name));
    let kept = told.map(|xattr| (scope.local_name(&xattr.name), &*xattr.value));
    let wanted: BTreeMap<_, _> = kept.filter(|(name, _)| scope.admits(name)).collect();
    let mut unset = Unset::default();
    let called = |name: &[u8]| format!("xattr {}", printable(name));
    let is = xattr_names(at, scope).unwrap_or_else(|errno| {
        unset.note("xattrs", Err(errno));
        Vec::new()
    });
    for name in is {
        if !wanted.contains_key(&name)
            && rules.admits_xattr(scope.sent_name(&name))
            && let removed @ Err(_) = at.remove(&name)
        {
            unset.note(called(&name), removed);
        }
    }
    for (name, wanted) in wanted {
        let is_so = xattr_value(at, &name).is_ok_and(|is| is.as_deref() == Some(wanted));
        if !is_so && let set @ Err(_) = at.set(&name, wanted) {
            unset.note(called(&name), set);
        }
    }
    unset
}

/// Sets the ACLs of `meta`, with the permissions of `mode`.
pub(crate) fn set_acls(at: &Reach, meta: &Meta, mode: u32, unset: &mut Unset) {
    let access = meta.access_acl().map(|acl| acl.with_mode(mode).to_bytes());
    unset.note(ACL, set_acl(at, ACCESS, access));
    if meta.is_dir() {
        unset.note(DEFAULT_ACL, set_acl(at, DEFAULT, meta.default_acl().map(Acl::to_bytes)));
    }
}

/// Sets an inherited ACL on an entry that was not created in the directory with that ACL.
pub(crate) fn set_inherited_acl(at: &Reach, acl: &Acl, mode: u32) -> Result<(), Errno> {
    match acl.mask {
        Some(_) => at.set(ACCESS, &acl.with_mode(mode).to_bytes()),
        None => Ok(()),
    }
}

/// Returns the access ACL of the entry, if the mode bits do not express the same.
pub(crate) fn access_acl(at: &Reach) -> Option<Acl> {
    read_acl(at, ACCESS).ok().flatten().filter(|acl| acl.mask.is_some())
}

/// Returns the default ACL of a directory.
pub(crate) fn default_acl(at: &Reach) -> Option<Acl> {
    read_acl(at, DEFAULT).ok().flatten()
}

/// Removes the default ACL of a directory. An error is ignored.
pub(crate) fn remove_default_acl(at: &Reach) {
    let _ = at.remove(DEFAULT);
}

fn set_acl(at: &Reach, name: &[u8], acl: Option<Vec<u8>>) -> Result<(), Errno> {
    match acl {
        Some(acl) => at.set(name, &acl),
        None => at.remove(name),
    }
}

/// Names of ACLs in reports.
pub(crate) const ACL: &str = "ACL";
pub(crate) const DEFAULT_ACL: &str = "default ACL";
const ACCESS: &[u8] = b"system.posix_acl_access";
const DEFAULT: &[u8] = b"system.posix_acl_default";
/// Buffer for attribute names in bytes; enough for most entries.
const FEW_NAMES_BYTES: usize = 1 << 10;
/// Greatest length in bytes of an entry's attribute names, as on Linux.
const MAX_LIST_BYTES: usize = 64 << 10;
