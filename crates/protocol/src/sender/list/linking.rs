//! Hard links: the first name sent stands for the file, and later names refer to it (`-H`).
//!
//! Only files with several names take memory, and only until all their names are sent.

use std::collections::BTreeMap;

use deltic_core::packed::StringSlot;
use deltic_core::{CodecError, Put, Reader, StringSlab};
use deltic_tree::meta::{HardLink, Inode};
use deltic_tree::{Kind, Meta, RelPath, Timestamp};

use crate::limits::{MAX_LINKED, MAX_LINKED_BYTES, hard_link_bytes};

/// Files with a first name sent and further names to come.
#[derive(Debug, Default)]
pub(super) struct LinkedNames {
    open: BTreeMap<Inode, StringSlot>,
    /// First names, packed: there may be half a million.
    firsts: StringSlab,
    /// Bytes of the first names, symlink targets and attributes of all these files.
    bytes: usize,
    /// True once there were more files with hard links than either end may remember.
    crowded: bool,
}

/// The name of a file that was sent first.
#[derive(Debug)]
struct FirstName {
    /// Number of the first name's entry.
    entry: u64,
    /// Names still to be sent.
    left: u32,
    path_bytes: usize,
    /// Length, time and mode as sent: later names get the same values, even if the file has changed.
    sent: (u64, Timestamp, u32),
}

/// Relation of a name to the names already sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameRelation {
    /// A name without hard links.
    Alone,
    /// The first name that is sent as if it had no hard links, because there are too many linked files. Later such
    /// names are `Alone`.
    Crowded,
    /// A hard-linked name; the entry's metadata now says so.
    Linked,
}

impl LinkedNames {
    /// Sets the hard link in `meta`, the metadata of entry number `entry` at `path`, if the tree knows the inode.
    pub(super) fn set_hard_link(
        &mut self,
        entry: u64,
        path: &RelPath,
        meta: &mut Meta,
    ) -> NameRelation {
        let Some(HardLink::Inode(inode, names)) = meta.hard_link() else {
            return NameRelation::Alone;
        };
        if let Some(at) = self.open.remove(&inode) {
            let mut first = FirstName::decode(&self.firsts.remove(at)).expect("it was put there");
            self.bytes -= first.path_bytes;
            (meta.len, meta.modified, meta.mode) = first.sent;
            meta.set_hard_link(Some(HardLink::Back(entry - first.entry)));
            first.left -= 1;
            if first.left > 0 {
                // Without room, the next name becomes a first name.
                self.keep_first_name(inode, &first);
            }
            return NameRelation::Linked;
        }
        let path_bytes = hard_link_bytes(path, meta);
        let sent = (meta.len, meta.modified, meta.mode);
        let first = FirstName { entry, left: names - 1, path_bytes, sent };
        if !self.keep_first_name(inode, &first) {
            meta.set_hard_link(None);
            let was_crowded = std::mem::replace(&mut self.crowded, true);
            return if was_crowded { NameRelation::Alone } else { NameRelation::Crowded };
        }
        meta.set_hard_link(Some(HardLink::First(names)));
        NameRelation::Linked
    }

    /// Keeps a first name. Returns false if there is no room.
    fn keep_first_name(&mut self, inode: Inode, first: &FirstName) -> bool {
        if self.open.len() == MAX_LINKED || self.bytes + first.path_bytes > MAX_LINKED_BYTES {
            return false;
        }
        let Ok(at) = self.firsts.store(&first.encode()) else { return false };
        self.open.insert(inode, at);
        self.bytes += first.path_bytes;
        true
    }
}

impl FirstName {
    fn encode(&self) -> Vec<u8> {
        let (len, modified, mode) = self.sent;
        let mut to = Vec::new();
        let rest = [self.path_bytes as u64, len, modified.nanos.into(), mode.into()];
        [self.entry, self.left.into()].iter().chain(&rest).for_each(|field| to.put_varint(*field));
        to.put_signed(modified.secs);
        to
    }

    fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        let mut from = Reader::new(bytes);
        let (entry, left, path_bytes) =
            (from.varint()?, from.varint_u32()?, from.varint()? as usize);
        let (len, nanos, mode) = (from.varint()?, from.varint_u32()?, from.varint_u32()?);
        let sent = (len, Timestamp { secs: from.signed()?, nanos }, mode);
        Ok(Self { entry, left, path_bytes, sent })
    }
}

/// Removes the metadata of a later name that was sent with the first name.
pub(super) fn omit_linked_meta(meta: &mut Meta) {
    if let linked @ Some(HardLink::Back(_)) = meta.hard_link() {
        *meta = Meta::without_owner(Kind::File, 0, Timestamp::default(), 0);
        meta.set_hard_link(linked);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends entry number `entry` with this inode; returns the link that is sent.
    fn sent_link(
        linking: &mut LinkedNames,
        entry: u64,
        number: u64,
        names: u32,
    ) -> Option<HardLink> {
        let inode = Inode { device: 1, number };
        let mut meta = Meta::without_owner(Kind::File, entry, Timestamp::default(), 0o644);
        meta.set_hard_link(Some(HardLink::Inode(inode, names)));
        let path = RelPath::parse(format!("dir/{entry}").as_bytes()).unwrap();
        linking.set_hard_link(entry, &path, &mut meta);
        meta.hard_link()
    }

    #[test]
    fn later_names_refer_to_the_first_and_the_last_is_forgotten() {
        let mut linking = LinkedNames::default();
        assert_eq!(sent_link(&mut linking, 3, 7, 3), Some(HardLink::First(3)));
        assert_eq!(sent_link(&mut linking, 4, 8, 2), Some(HardLink::First(2)));
        assert_eq!(sent_link(&mut linking, 5, 7, 3), Some(HardLink::Back(2)));
        assert_eq!(sent_link(&mut linking, 9, 7, 3), Some(HardLink::Back(6)));
        assert_eq!((linking.open.len(), linking.bytes), (1, "dir/4".len()));
        // The file has got a further name meanwhile.
        assert_eq!(sent_link(&mut linking, 10, 7, 4), Some(HardLink::First(4)));
    }

    #[test]
    fn a_later_name_is_what_was_said_of_the_first() {
        let mut linking = LinkedNames::default();
        let linked = Some(HardLink::Inode(Inode { device: 1, number: 1 }, 2));
        let path = RelPath::parse(b"a").unwrap();
        let tell = |linking: &mut LinkedNames, entry: u64, len| {
            let mut meta = Meta::without_owner(Kind::File, len, Timestamp::default(), 0);
            meta.set_hard_link(linked);
            linking.set_hard_link(entry, &path, &mut meta);
            meta.len
        };
        assert_eq!(tell(&mut linking, 0, 1), 1);
        assert_eq!(tell(&mut linking, 1, 2), 1);
    }

    #[test]
    fn files_beyond_the_limit_stay_alone_and_that_is_said_once() {
        let mut linking = LinkedNames { bytes: MAX_LINKED_BYTES, ..LinkedNames::default() };
        let linked = Some(HardLink::Inode(Inode { device: 1, number: 1 }, 2));
        let path = RelPath::parse(b"a").unwrap();
        for (entry, expected) in [(0, NameRelation::Crowded), (1, NameRelation::Alone)] {
            let mut meta = Meta::without_owner(Kind::File, 0, Timestamp::default(), 0);
            meta.set_hard_link(linked);
            assert_eq!(linking.set_hard_link(entry, &path, &mut meta), expected);
            assert_eq!(meta.hard_link(), None);
        }
    }
}
