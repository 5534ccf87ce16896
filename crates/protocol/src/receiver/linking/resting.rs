//! Files of several names of which one is here and others may come, in as few bytes as will do: of a tree that is linked to
//! another one there may be half a million.

use std::collections::{BTreeMap, VecDeque};

use deltic_core::meta::Inode;
use deltic_core::packed::At;
use deltic_core::{Meta, Put, Reader, RelPath, Shelf};

use crate::message::FileNo;
use crate::wire::{Bad, Wire};

use super::{Shared, State};

/// Files that nothing is to be done for until another name is told.
#[derive(Debug, Default)]
pub(super) struct Resting {
    places: BTreeMap<FileNo, At>,
    shelf: Shelf,
}

impl Resting {
    /// Keeps a file, if it may rest; whether it does.
    pub(super) fn keep(&mut self, file: FileNo, shared: &Shared) -> bool {
        let is_idle = shared.state == State::Here
            && (shared.undecided, shared.more.is_none()) == (0, true)
            && shared.waiting.is_empty();
        let kept = is_idle.then(|| self.shelf.put(&put(shared)).ok()).flatten();
        kept.is_some_and(|at| self.places.insert(file, at).is_none())
    }

    pub(super) fn take(&mut self, file: FileNo) -> Option<Shared> {
        let bytes = self.shelf.take(self.places.remove(&file)?);
        Some(take(&mut Reader::new(&bytes)).expect("it was put there"))
    }
}

fn put(shared: &Shared) -> Vec<u8> {
    let mut to = Vec::new();
    shared.meta.put(&mut to);
    to.put_varint(shared.path_bytes as u64);
    to.put_varint(shared.untold.into());
    to.put_u8(u8::from(shared.is_beside) << 1 | u8::from(shared.inode.is_some()));
    if let Some(Inode { device, number }) = shared.inode {
        to.put_varint(device);
        to.put_varint(number);
    }
    to.put_bytes(shared.path.as_bytes());
    to
}

fn take(from: &mut Reader<'_>) -> Result<Shared, Bad> {
    let meta = Meta::take(from)?;
    let (path_bytes, untold) = (from.varint()? as usize, from.varint_u32()?);
    let flags = from.u8()?;
    let inode = match flags & 1 {
        0 => None,
        _ => Some(Inode { device: from.varint()?, number: from.varint()? }),
    };
    Ok(Shared {
        meta,
        more: None,
        path: RelPath::parse(from.rest())?,
        path_bytes,
        untold,
        undecided: 0,
        state: State::Here,
        inode,
        is_beside: flags & 2 != 0,
        waiting: VecDeque::new(),
    })
}
