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
    pub(super) fn has_changed(&self, old: &Meta) -> bool {
        old.hard_link().and_then(HardLink::inode).is_some_and(|inode| self.0.contains_key(&inode))
    }

    /// Notes that the file that was looked up as `old` gets the attributes in `meta`. Returns true if it got the same
    /// attributes under another name already.
    pub(super) fn note_new_attributes(&mut self, old: &Meta, meta: &Meta) -> bool {
        let Some(inode) = old.hard_link().and_then(HardLink::inode) else { return false };
        let mut meta = meta.clone();
        meta.set_hard_link(None);
        if self.0.get(&inode) == Some(&meta) {
            return true;
        }
        // Older entries are no longer needed: the names of these files were looked at again. Long attributes are not
        // kept.
        if self.0.len() == MOST {
            self.0.clear();
        }
        match meta.extra_metadata_bytes() {
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
        let file = |secs| Meta::without_owner(Kind::File, 5, Timestamp { secs, nanos: 0 }, 0o644);
        let named = |number, secs| {
            let mut meta = file(secs);
            meta.set_hard_link(Some(HardLink::Inode(Inode { device: 1, number }, 2)));
            meta
        };
        let mut touched = TouchedFiles::default();
        assert!(!touched.note_new_attributes(&named(1, 1), &file(2)));
        assert!(touched.note_new_attributes(&named(1, 1), &file(2)));
        assert!(touched.has_changed(&named(1, 9)) && !touched.has_changed(&named(2, 9)));
        assert!(!touched.note_new_attributes(&named(2, 1), &file(2)), "another file");
        assert!(!touched.note_new_attributes(&named(1, 2), &file(3)), "other attributes");
        assert!(
            !touched.note_new_attributes(&file(1), &file(2))
                && !touched.note_new_attributes(&file(1), &file(2))
        );
        (3..3 + MOST as u64)
            .for_each(|number| _ = touched.note_new_attributes(&named(number, 1), &file(2)));
        assert!(touched.0.len() <= MOST);
    }
}
