//! Bytes of attributes and ACLs of entries that are listed and not yet settled, as both ends count them.

use std::collections::VecDeque;

use deltic_tree::Entry;

use crate::limits::LISTED_BYTES;

/// Attribute bytes of each listing that has any, until all entries of the listing are settled.
#[derive(Debug, Default)]
pub(crate) struct ListedBytes {
    /// Each listing as the number after the last entry, and the attribute bytes.
    listings: VecDeque<(u64, usize)>,
    sum: usize,
}

impl ListedBytes {
    /// Adds a listing that ends before entry `upto`. Returns false if the listing has attribute bytes and the limit
    /// was reached before.
    pub(crate) fn add_listing(&mut self, entries: &[Entry], upto: u64) -> bool {
        let bytes = entries.iter().map(|entry| entry.meta.extra_metadata_bytes()).sum();
        let had_room = self.has_room();
        if bytes > 0 {
            self.listings.push_back((upto, bytes));
            self.sum += bytes;
        }
        bytes == 0 || had_room
    }

    /// Removes the listings that end at or before `upto`: their entries are settled.
    pub(crate) fn remove_settled(&mut self, upto: u64) {
        while let Some((_, bytes)) = self.listings.pop_front_if(|(last, _)| *last <= upto) {
            self.sum -= bytes;
        }
    }

    /// True if there is room for one more listing.
    pub(crate) const fn has_room(&self) -> bool {
        self.sum < LISTED_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use deltic_tree::meta::ExtraMeta;
    use deltic_tree::{Kind, Meta, Name, Timestamp, Xattr};

    fn entry(value_bytes: usize) -> Entry {
        let value = vec![0; value_bytes].into();
        let xattr = Xattr { name: (*b"user.a").into(), value };
        let more = ExtraMeta { xattrs: vec![xattr], ..ExtraMeta::default() };
        let plain = Meta::without_owner(Kind::Dir, 0, Timestamp::default(), 0o755);
        Entry { name: Name::new(b"dir").unwrap(), meta: Meta { more: more.into_box(), ..plain } }
    }

    #[test]
    fn listings_with_attributes_wait_until_earlier_ones_are_settled() {
        let mut listed = ListedBytes::default();
        let plain = Entry {
            name: Name::new(b"file").unwrap(),
            meta: Meta::without_owner(Kind::File, 0, Timestamp::default(), 0o644),
        };
        assert!(listed.add_listing(&[entry(LISTED_BYTES / 2)], 1) && listed.has_room());
        assert!(listed.add_listing(&[entry(LISTED_BYTES / 2)], 2) && !listed.has_room());
        // Entries without attributes add no bytes.
        assert!(listed.add_listing(&[plain], 3));
        assert!(!listed.add_listing(&[entry(0)], 4));
        listed.remove_settled(1);
        assert!(listed.has_room());
        listed.remove_settled(4);
        assert_eq!(listed.sum, 0);
    }
}
