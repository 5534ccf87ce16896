//! Entries of a directory as bytes, for a process that remembers millions of entries.
//!
//! An entry takes as many bytes as on the wire. The bytes never leave the process.

use deltic_core::codec::{Put, Reader};
use deltic_tree::meta::{HardLink, Inode};
use deltic_tree::{Entry, Meta, Name};

use crate::wire::{BadPayload, WireEncoding};

/// Entries in the order in which they were pushed.
#[derive(Clone, Debug, Default)]
pub struct PackedEntries(Vec<u8>);

impl PackedEntries {
    /// Adds an entry.
    pub fn push(&mut self, name: &Name, meta: &Meta) {
        let to = &mut self.0;
        name.write_to(to);
        // The wire has no inodes.
        match meta.hard_link() {
            Some(HardLink::Inode(Inode { device, number }, names)) => {
                let mut alone = meta.clone();
                alone.set_hard_link(None);
                alone.write_to(to);
                to.put_varint(u64::from(names));
                to.put_varint(device);
                to.put_varint(number);
            }
            _ => {
                meta.write_to(to);
                to.put_varint(0);
            }
        }
    }

    /// Returns the entries by name, each name once, with the metadata that was pushed last.
    #[must_use]
    pub fn sorted_by_name(&self) -> Vec<Entry> {
        let (mut from, mut entries) = (Reader::new(&self.0), Vec::new());
        while !from.is_empty() {
            entries.push(take(&mut from).expect("the bytes were put by push"));
        }
        entries.reverse();
        entries.sort_by(|a: &Entry, b| a.name.cmp(&b.name));
        entries.dedup_by(|later, first| later.name == first.name);
        entries
    }
}

fn take(from: &mut Reader<'_>) -> Result<Entry, BadPayload> {
    let (name, mut meta) = (Name::read_from(from)?, Meta::read_from(from)?);
    let names = from.varint_u32()?;
    if names > 0 {
        let inode = Inode { device: from.varint()?, number: from.varint()? };
        meta.set_hard_link(Some(HardLink::Inode(inode, names)));
    }
    Ok(Entry { name, meta })
}

#[cfg(test)]
mod tests {
    use deltic_tree::{Kind, Timestamp};

    use super::*;

    #[test]
    fn entries_come_back_by_name_and_whole() {
        let name = |text: &str| Name::new(text.as_bytes()).unwrap();
        let modified = Timestamp { secs: -5, nanos: 999_999_999 };
        let plain =
            Meta { user: Some(7), ..Meta::without_owner(Kind::File, 1 << 40, modified, 0o4755) };
        let mut linked = plain.clone();
        linked.set_hard_link(Some(HardLink::Inode(Inode { device: u64::MAX, number: 3 }, 1)));
        let link = Meta::without_owner(Kind::Symlink((*b"to").into()), 0, modified, 0o777);
        let mut packed = PackedEntries::default();
        for (at, meta) in [("c", &plain), ("b", &link), ("a", &plain), ("a", &linked)] {
            packed.push(&name(at), meta);
        }
        let entry = |at, meta| Entry { name: name(at), meta };
        assert_eq!(
            packed.sorted_by_name(),
            [entry("a", linked), entry("b", link), entry("c", plain)]
        );
    }

    #[test]
    fn an_entry_takes_few_bytes() {
        let modified = Timestamp { secs: 1_800_000_000, nanos: 123_456_789 };
        let meta = Meta::without_owner(Kind::File, 100_000, modified, 0o644);
        let meta = Meta { user: Some(1000), group: Some(1000), ..meta };
        let mut packed = PackedEntries::default();
        (0..10_000).for_each(|n| {
            packed.push(&Name::new(format!("photo-{n:06}.jpg").as_bytes()).unwrap(), &meta);
        });
        let bytes = packed.0.capacity();
        assert!(bytes / 10_000 < 80, "{bytes} bytes");
    }
}
