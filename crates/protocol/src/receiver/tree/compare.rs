//! Comparisons of listed entries with local entries, without IO.

use deltic_tree::Meta;

use crate::options::{Compare, Metadata, Options};
use crate::report::{Differs, PassedOver};

/// The result of comparing two files by size and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QuickCheck {
    /// Equal, as far as the options ask.
    Same,
    /// Different.
    Differs,
    /// Only the contents can tell (`-c`).
    Unknown,
}

/// Compares two regular files without reading them.
pub(super) fn quick_check(options: &Options, new: &Meta, old: &Meta) -> QuickCheck {
    let Compare { size_only, ignore_times, window, .. } = options.compare;
    match () {
        () if new.len != old.len => QuickCheck::Differs,
        () if options.checksum && new.len == 0 => QuickCheck::Same,
        () if options.checksum => QuickCheck::Unknown,
        () if size_only => QuickCheck::Same,
        () if ignore_times => QuickCheck::Differs,
        () if window.counts_as_equal(new.modified, old.modified) => QuickCheck::Same,
        () => QuickCheck::Differs,
    }
}

/// True if both are known and different.
fn differ(new: Option<u32>, old: Option<u32>) -> bool {
    new.zip(old).is_some_and(|(new, old)| new != old)
}

/// Returns the carried attributes in which two entries of one kind differ.
pub(super) fn differing_attributes(options: &Options, new: &Meta, old: &Meta) -> Differs {
    let asked = &options.metadata;
    let (is_dir, is_link) = (new.is_dir(), new.is_symlink());
    let omitted = is_dir && asked.omit_dir_times || is_link && asked.omit_link_times;
    let turned =
        asked.executability && new.is_file() && new.mode_with_execute(old.mode) != old.mode;
    // Like rsync, compare access times in whole seconds.
    let read = |meta: &Meta| meta.accessed().map(|time| time.secs);
    let is_read = !new.has_unread_attributes();
    let acls_differ = !match (new.access_acl(), old.access_acl()) {
        (Some(new), Some(old)) => new.is_equal_except_mode(old),
        (new, old) => new == old,
    } || new.default_acl() != old.default_acl();
    Differs {
        time: options.times
            && !omitted
            && !options.compare.window.counts_as_equal(new.modified, old.modified),
        mode: !is_link && if options.modes { modes_differ(asked, new, old) } else { turned },
        user: differ(new.user, old.user),
        group: differ(new.group, old.group),
        accessed: asked.accessed && !is_dir && !is_link && read(new) != read(old),
        acl: asked.acls && !is_link && is_read && acls_differ,
        xattrs: asked.xattrs && is_read && new.xattrs() != old.xattrs(),
        ..Differs::default()
    }
}

/// True if modes differ in bits that this end sets.
fn modes_differ(asked: &Metadata, new: &Meta, old: &Meta) -> bool {
    (new.mode ^ old.mode) & !asked.withheld_mode_bits(new.mode, old.mode) != 0
}

/// Returns the attributes in which a listed entry differs from the entry `is` of the same kind, in its place or in an
/// alternate.
pub(crate) fn differs_from(options: &Options, meta: &Meta, is: &Meta) -> Differs {
    let size = meta.is_file() && is.len != meta.len;
    Differs { size, ..differing_attributes(options, meta, is) }
}

/// True if the entry `is` agrees with the listed entry `new`, as far as a comparison without reading shows. Another
/// run may have created the entry.
#[must_use]
pub fn agrees_with(options: &Options, new: &Meta, is: &Meta) -> bool {
    let is_same = if new.is_file() {
        is.is_file() && options.times && quick_check(options, new, is) == QuickCheck::Same
    } else {
        new.kind == is.kind
    };
    is_same && differing_attributes(options, new, is) == Differs::default()
}

impl Compare {
    /// Returns the reason to pass an entry over because of the entry in place, or because there is no such entry.
    pub(super) fn reason_to_pass_over(&self, new: &Meta, old: Option<&Meta>) -> Option<PassedOver> {
        match old {
            None => self.existing.then_some(PassedOver::New),
            Some(old) if new.is_dir() && old.is_dir() => None,
            Some(_) => self.ignore_existing.then_some(PassedOver::Exists),
        }
    }

    /// Returns the reason to pass a file over: the length of the file, or a newer old file.
    pub(super) fn reason_to_pass_over_file(
        &self,
        new: &Meta,
        old: Option<&Meta>,
    ) -> Option<PassedOver> {
        let newer = |old: &Meta| old.is_file() && self.window.is_newer(old.modified, new.modified);
        match () {
            () if self.max_bytes.is_some_and(|most| new.len > most) => Some(PassedOver::Large),
            () if new.len < self.min_bytes => Some(PassedOver::Small),
            () if self.update && old.is_some_and(newer) => Some(PassedOver::Newer),
            () => None,
        }
    }
}
