//! Files at this end whose attributes were changed, by inode. Without `-H`, another hard link of such a file may have
//! been looked up before the change; it needs no change of its own.

use std::collections::HashMap;

use deltic_tree::Meta;
use deltic_tree::meta::{HardLink, Inode};

/// The latest files with several hard links whose attributes were changed, with the new attributes.
#[derive(Debug, Default)]
pub(super) struct TouchedFiles(HashMap<Inode, Meta>);

impl TouchedFiles {
    /// True if the attributes of the file that was looked up as `old` were changed since.
    pub(super) fn knows(&self, old: &Meta) -> bool {
        old.linked().and_then(HardLink::inode).is_some_and(|inode| self.0.contains_key(&inode))
    }

    /// Notes that the file that was looked up as `old` gets the attributes in `meta`. Returns true if it got the same
    /// attributes under another name already.
    pub(super) fn is_again(&mut self, old: &Meta, meta: &Meta) -> bool {
        let Some(inode) = old.linked().and_then(HardLink::inode) else { return false };
        let mut meta = meta.clone();
        meta.set_linked(None);
        if self.0.get(&inode) == Some(&meta) {
            return true;
        }
        // Older entries are no longer needed: the names of these files were looked at again. Long attributes are not
        // kept.
        if self.0.len() == MOST {
            self.0.clear();
        }
        match meta.more_bytes() {
            0 => _ = self.0.insert(inode, meta),
            _ => _ = self.0.remove(&inode),
        }
        false
    }
}

/// Most files to remember: as many as the names of one directory that are looked up together.
const MOST: usize = 8 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use deltic_tree::{Kind, Timestamp};

    #[test]
    fn another_name_of_a_file_gets_nothing_twice() {
        let file = |secs| Meta::plain(Kind::File, 5, Timestamp { secs, nanos: 0 }, 0o644);
        let named = |number, secs| {
            let mut meta = file(secs);
            meta.set_linked(Some(HardLink::Inode(Inode { device: 1, number }, 2)));
            meta
        };
        let mut touched = TouchedFiles::default();
        assert!(!touched.is_again(&named(1, 1), &file(2)));
        assert!(touched.is_again(&named(1, 1), &file(2)));
        assert!(touched.knows(&named(1, 9)) && !touched.knows(&named(2, 9)));
        assert!(!touched.is_again(&named(2, 1), &file(2)), "another file");
        assert!(!touched.is_again(&named(1, 2), &file(3)), "other attributes");
        assert!(!touched.is_again(&file(1), &file(2)) && !touched.is_again(&file(1), &file(2)));
        (3..3 + MOST as u64).for_each(|number| _ = touched.is_again(&named(number, 1), &file(2)));
        assert!(touched.0.len() <= MOST);
    }
}
