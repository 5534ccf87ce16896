//! An entry in an alternate (`--compare-dest`, `--copy-dest`, `--link-dest`), and how far it agrees with the listed
//! entry.

use deltic_tree::meta::HardLink;
use deltic_tree::{Kind, Meta};

use crate::options::Options;
use crate::report::{Differs, EntryType};

use super::compare::{QuickCheck, differing_attributes, quick_check};

/// An entry in an alternate.
#[derive(Clone, Debug)]
pub(crate) struct AlternateEntry {
    /// Index of the alternate.
    pub(crate) alternate: usize,
    pub(crate) is: Meta,
    pub(super) likeness: EntryLikeness,
}

/// The parts of an entry that agree with the listed entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum EntryLikeness {
    /// The kind.
    Kind,
    /// The kind and attributes, and perhaps the content.
    Unproven,
    /// The content.
    Content,
    /// The content and the attributes.
    All,
}

impl AlternateEntry {
    /// True if the whole entry agrees.
    pub(super) fn is_equal(&self) -> bool {
        self.likeness == EntryLikeness::All
    }

    /// True if only the content is still to be proved.
    pub(crate) fn needs_content_check(&self) -> bool {
        self.likeness == EntryLikeness::Unproven
    }

    /// Marks the content as proved to be equal, and the attributes as different.
    pub(crate) const fn mark_content_equal(&mut self) {
        self.likeness = EntryLikeness::Content;
    }

    /// True if the file may have the content of the new version, and the contents are to be compared.
    pub(crate) fn may_have_content(&self, checksum: bool, meta: &Meta) -> bool {
        checksum && self.is.len == meta.len && meta.len > 0
    }
}

/// True if the entry seen at the path is known to be a hard link of the file in the alternate.
pub(super) fn is_same(seen: &Option<Meta>, is: &Meta) -> bool {
    let inode = |meta: &Meta| meta.hard_link().and_then(HardLink::inode);
    seen.as_ref().and_then(inode).is_some_and(|seen| inode(is) == Some(seen))
}

/// Returns the entry of the alternates that agrees most; of several such entries, the first.
pub(super) fn best_match(
    options: &Options,
    meta: &Meta,
    found: Vec<Option<Meta>>,
) -> Option<AlternateEntry> {
    let mut best: Option<AlternateEntry> = None;
    for (alternate, is) in found.into_iter().enumerate() {
        let Some(is) = is else { continue };
        let same_attributes = differing_attributes(options, meta, &is) == Differs::default();
        let likeness = match (&meta.kind, &is.kind) {
            (Kind::File, Kind::File) => match quick_check(options, meta, &is) {
                QuickCheck::Same if same_attributes => EntryLikeness::All,
                QuickCheck::Same => EntryLikeness::Content,
                QuickCheck::Unknown if same_attributes => EntryLikeness::Unproven,
                QuickCheck::Unknown | QuickCheck::Differs => EntryLikeness::Kind,
            },
            (new, old) if new == old && same_attributes => EntryLikeness::All,
            (new, old) if new == old => EntryLikeness::Content,
            // The kinds are equal, but for the target of a link or the number of a device.
            (new, old) if EntryType::of(new) == EntryType::of(old) => EntryLikeness::Kind,
            _ => continue,
        };
        if best.as_ref().is_none_or(|best| best.likeness < likeness) {
            best = Some(AlternateEntry { alternate, is, likeness });
        }
    }
    best
}
