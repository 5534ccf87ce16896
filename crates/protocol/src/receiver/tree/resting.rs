//! Files with one hard link in place and others still to be listed, stored in few bytes: a tree that is hard-linked
//! to another tree may have half a million of these files.

use std::collections::{BTreeMap, VecDeque};

use deltic_core::packed::StringSlot;
use deltic_core::{Put, Reader, StringSlab};
use deltic_tree::meta::Inode;
use deltic_tree::{Meta, RelPath};

use crate::message::FileNo;
use crate::wire::{BadPayload, WireEncoding};

use super::hard_links::{LeaderState, LinkedFile};

/// Files that need no step until another name is listed.
#[derive(Debug, Default)]
pub(super) struct RestingFiles {
    places: BTreeMap<FileNo, StringSlot>,
    shelf: StringSlab,
}

impl RestingFiles {
    /// Stores a file that needs no step; returns true if the file was stored.
    pub(super) fn store_if_idle(&mut self, file: FileNo, shared: &LinkedFile) -> bool {
        let is_idle = shared.state == LeaderState::Here
            && (shared.undecided_names, shared.more.is_none()) == (0, true)
            && shared.waiting.is_empty();
        let kept = is_idle.then(|| self.shelf.store(&put(shared)).ok()).flatten();
        kept.is_some_and(|at| self.places.insert(file, at).is_none())
    }

    pub(super) fn take_stored(&mut self, file: FileNo) -> Option<LinkedFile> {
        let bytes = self.shelf.remove(self.places.remove(&file)?);
        Some(take(&mut Reader::new(&bytes)).expect("it was put there"))
    }
}

fn put(shared: &LinkedFile) -> Vec<u8> {
    let mut to = Vec::new();
    shared.meta.write_to(&mut to);
    to.put_varint(shared.path_bytes as u64);
    to.put_varint(shared.unlisted_names.into());
    to.put_u8(u8::from(shared.is_beside) << 1 | u8::from(shared.inode.is_some()));
    if let Some(Inode { device, number }) = shared.inode {
        to.put_varint(device);
        to.put_varint(number);
    }
    to.put_bytes(shared.path.as_bytes());
    to
}

fn take(from: &mut Reader<'_>) -> Result<LinkedFile, BadPayload> {
    let meta = Meta::read_from(from)?;
    let (path_bytes, unlisted_names) = (from.varint()? as usize, from.varint_u32()?);
    let flags = from.u8()?;
    let inode = match flags & 1 {
        0 => None,
        _ => Some(Inode { device: from.varint()?, number: from.varint()? }),
    };
    Ok(LinkedFile {
        meta,
        more: None,
        path: RelPath::parse(from.rest())?,
        path_bytes,
        unlisted_names,
        undecided_names: 0,
        state: LeaderState::Here,
        inode,
        is_beside: flags & 2 != 0,
        waiting: VecDeque::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use deltic_tree::{Kind, Timestamp};

    fn shared(kind: Kind) -> LinkedFile {
        let modified = Timestamp { secs: -1, nanos: 999_999_999 };
        LinkedFile {
            meta: Meta { user: Some(7), ..Meta::without_owner(kind, 0, modified, 0o7777) },
            more: None,
            path: RelPath::parse(b"dir/first").unwrap(),
            path_bytes: 300,
            unlisted_names: u32::MAX,
            undecided_names: 0,
            state: LeaderState::Here,
            inode: Some(Inode { device: 1, number: u64::MAX }),
            is_beside: true,
            waiting: VecDeque::new(),
        }
    }

    #[test]
    fn what_rested_is_as_it_was() {
        let mut resting = RestingFiles::default();
        let kinds = [Kind::File, Kind::Fifo, Kind::Symlink(b"/to"[..].into())];
        for (no, kind) in kinds.iter().enumerate() {
            assert!(resting.store_if_idle(FileNo(no as u64), &shared(kind.clone())));
        }
        let plain = LinkedFile { inode: None, is_beside: false, ..shared(Kind::File) };
        assert!(resting.store_if_idle(FileNo(9), &plain));
        for (no, kind) in kinds.into_iter().enumerate() {
            let taken = resting.take_stored(FileNo(no as u64)).unwrap();
            assert_eq!(format!("{taken:?}"), format!("{:?}", shared(kind)));
        }
        assert_eq!(format!("{:?}", resting.take_stored(FileNo(9)).unwrap()), format!("{plain:?}"));
        assert!(resting.take_stored(FileNo(9)).is_none());
    }

    #[test]
    fn a_file_whose_names_wait_does_not_rest() {
        let mut resting = RestingFiles::default();
        let busy = [
            LinkedFile { state: LeaderState::Coming, ..shared(Kind::File) },
            LinkedFile { undecided_names: 1, ..shared(Kind::File) },
            LinkedFile { waiting: [FileNo(3)].into(), ..shared(Kind::File) },
        ];
        assert!(busy.iter().all(|shared| !resting.store_if_idle(FileNo(1), shared)));
        assert!(resting.take_stored(FileNo(1)).is_none());
    }
}
