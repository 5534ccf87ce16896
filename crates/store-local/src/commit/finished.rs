//! A new version that is complete, has all metadata, and only lacks its final name. The version gets this name at once,
//! or together with all other versions of the run (`--delay-updates`).

use std::collections::{HashMap, VecDeque};

use deltic_core::packed::StringSlot;
use deltic_core::{PackedStrings, Put, Reader};
use deltic_tree::meta::Inode;
use deltic_tree::{Kind, Meta, Name, RelPath, Timestamp};
use rustix::io::Errno;

use crate::handles::place::COMMIT;
use crate::handles::stat::Stamp;
use crate::kernel::errno::store_error;
use crate::staging::stage::StageOwner;
use deltic_store::StoreError;

/// A staged file and its destination.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) path: RelPath,
    /// The directory that holds the staging directory of the file.
    pub(crate) home: RelPath,
    pub(crate) whose: StageOwner,
    pub(crate) name: Name,
    pub(crate) inode: Inode,
    /// True if the file has a log.
    pub(crate) is_noted: bool,
    /// The intended metadata, if a packed entry can hold it: for a plain file with one hard link, without rare
    /// metadata.
    pub(crate) meta: Option<Meta>,
    pub(crate) expected: Expected,
}

/// Versions that wait for a commit. A version for every file may wait, so the versions are packed.
#[derive(Debug, Default)]
pub(crate) struct Delayed {
    all: PackedStrings,
    /// Metadata of replaced entries that were looked at before ([`Expected::Seen`]), in order.
    seen: VecDeque<Box<Meta>>,
    /// Packed versions that will get further hard links, by path.
    leaders: HashMap<RelPath, StringSlot>,
}

impl Delayed {
    pub(crate) fn add_version(
        &mut self,
        finished: Finished,
        leads: bool,
    ) -> Result<(), StoreError> {
        let at = self.all.push(&finished.encode());
        let at = at.map_err(|_| store_error(COMMIT, &finished.path, Errno::OVERFLOW))?;
        if leads {
            self.leaders.insert(finished.path, at);
        }
        if let Expected::Seen(meta) = finished.expected {
            self.seen.push_back(meta);
        }
        Ok(())
    }

    /// Takes all versions, in order.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = Finished> + use<> {
        let Self { all, mut seen, .. } = std::mem::take(self);
        all.into_iter().map(move |bytes| {
            let mut finished = decode(&bytes);
            if let Expected::Seen(meta) = &mut finished.expected {
                *meta = seen.pop_front().expect("each is kept with what it replaces");
            }
            finished
        })
    }

    pub(crate) fn leader_at(&self, path: &RelPath) -> Option<Finished> {
        self.leaders.get(path).map(|at| decode(self.all.get(*at)))
    }
}

impl Finished {
    /// Encodes all fields but the metadata of [`Expected::Seen`].
    fn encode(&self) -> Vec<u8> {
        let at_home = self.path.split_last().is_some_and(|(dir, _)| dir == self.home);
        let (kind, version) = match &self.expected {
            Expected::Nothing => (0, None),
            Expected::Version(version) => (1, Some(version)),
            Expected::Seen(_) => (2, None),
        };
        let is_own = self.whose == StageOwner::Own;
        let mut to = vec![
            kind | u8::from(at_home) << 2
                | u8::from(is_own) << 3
                | u8::from(self.is_noted) << 4
                | u8::from(self.meta.is_some()) << 5,
        ];
        if let Some(Meta { len, modified, mode, user, group, .. }) = &self.meta {
            to.put_signed(modified.secs);
            let owner = [user, group].map(|id| id.map_or(0, |id| u64::from(id) + 1));
            let [user, group] = owner;
            let numbers = [*len, modified.nanos.into(), (*mode).into(), user, group];
            numbers.into_iter().for_each(|number| to.put_varint(number));
        }
        [self.inode.device, self.inode.number].into_iter().for_each(|number| to.put_varint(number));
        if let Some(Stamp { inode, len, modified, changed, names }) = version {
            [inode.device, inode.number, *len, *names]
                .into_iter()
                .for_each(|number| to.put_varint(number));
            for time in [modified, changed] {
                to.put_signed(time.secs);
                to.put_varint(time.nanos.into());
            }
        }
        if !at_home {
            to.put_prefixed(self.home.as_bytes());
        }
        to.put_prefixed(self.name.as_bytes());
        to.put_bytes(self.path.as_bytes());
        to
    }
}

/// Decodes a [packed](Finished::encode) version; the caller adds the metadata of [`Expected::Seen`].
fn decode(bytes: &[u8]) -> Finished {
    const WHOLE: &str = "it was packed whole";
    let mut from = Reader::new(bytes);
    let bits = from.u8().expect(WHOLE);
    let number = |from: &mut Reader<'_>| from.varint().expect(WHOLE);
    let time = |from: &mut Reader<'_>| {
        let secs = from.signed().expect(WHOLE);
        Timestamp { secs, nanos: from.varint_u32().expect(WHOLE) }
    };
    let meta = (bits & 32 != 0).then(|| {
        let secs = from.signed().expect(WHOLE);
        let len = number(&mut from);
        let mut small = || from.varint_u32().expect(WHOLE);
        let (modified, mode) = (Timestamp { secs, nanos: small() }, small());
        let mut id = || number(&mut from).checked_sub(1).map(|id| id as u32);
        let (user, group) = (id(), id());
        Meta { user, group, ..Meta::without_owner(Kind::File, len, modified, mode) }
    });
    let inode = Inode { device: number(&mut from), number: number(&mut from) };
    let expected = match bits & 3 {
        0 => Expected::Nothing,
        1 => {
            let inode = Inode { device: number(&mut from), number: number(&mut from) };
            let (len, names) = (number(&mut from), number(&mut from));
            let (modified, changed) = (time(&mut from), time(&mut from));
            Expected::Version(Stamp { inode, len, modified, changed, names })
        }
        _ => Expected::Seen(Box::new(Meta::without_owner(Kind::File, 0, Timestamp::default(), 0))),
    };
    let at_home = bits & 4 != 0;
    let home = (!at_home).then(|| from.prefixed(usize::MAX).expect(WHOLE));
    let name = Name::new(from.prefixed(usize::MAX).expect(WHOLE)).expect(WHOLE);
    let path = RelPath::parse(from.rest()).expect(WHOLE);
    let home = match home {
        Some(home) => RelPath::parse(home).expect(WHOLE),
        None => path.split_last().expect(WHOLE).0,
    };
    let whose = if bits & 8 != 0 { StageOwner::Own } else { StageOwner::Temp };
    Finished { path, home, whose, name, inode, is_noted: bits & 16 != 0, meta, expected }
}

/// The entry that a commit expects at the path.
#[derive(Clone, Debug)]
pub(crate) enum Expected {
    Nothing,
    Version(Stamp),
    Seen(Box<Meta>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delayed_files_are_taken_in_order_and_unchanged() {
        let path = |text: &str| RelPath::parse(text.as_bytes()).unwrap();
        let seen = |len| Meta::without_owner(Kind::Dir, len, Timestamp::default(), 0o755);
        let (modified, changed) =
            (Timestamp { secs: -7, nanos: 999_999_999 }, Timestamp { secs: 1 << 40, nanos: 1 });
        let version = Stamp {
            inode: Inode { device: 3, number: u64::MAX },
            len: 1 << 50,
            modified,
            changed,
            names: 2,
        };
        let expected = [
            Expected::Seen(Box::new(seen(1))),
            Expected::Nothing,
            Expected::Version(version),
            Expected::Seen(Box::new(seen(2))),
        ];
        let plain = |user| Meta {
            user,
            group: Some(7),
            ..Meta::without_owner(Kind::File, 1 << 50, modified, 0o644)
        };
        let finished = |(nth, expected): (usize, &Expected)| Finished {
            path: path(["a", "dir/b", "dir/deep/c", "d"][nth]),
            home: path(["", "dir", "dir", ""][nth]),
            whose: [StageOwner::Own, StageOwner::Temp][nth % 2],
            name: Name::new(format!("staged-{nth}").as_bytes()).unwrap(),
            inode: Inode { device: nth as u64, number: u64::MAX },
            is_noted: nth > 1,
            meta: [None, Some(plain(None)), Some(plain(Some(0))), Some(plain(Some(u32::MAX)))][nth]
                .clone(),
            expected: expected.clone(),
        };
        let all = || expected.iter().enumerate().map(finished);
        let mut delayed = Delayed::default();
        all().for_each(|one| delayed.add_version(one, true).unwrap());
        let shown = |one: Finished| format!("{one:?}");
        let leader = delayed.leader_at(&path("dir/deep/c")).map(shown);
        assert_eq!(leader, all().nth(2).map(shown));
        assert!(delayed.take().map(shown).eq(all().map(shown)));
        assert!(delayed.take().next().is_none() && delayed.leader_at(&path("a")).is_none());
    }
}
