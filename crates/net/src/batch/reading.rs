//! Reads a batch, as the tree of a sender.

#![expect(clippy::disallowed_types, reason = "a batch is a file that users name, open already")]

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::sync::{Arc, Mutex};

use deltic_core::{ChunkerSpec, Digest};
use deltic_protocol::ToReceiver;
use deltic_protocol::batch::{Frame, Old, Part, combined_options};
use deltic_protocol::limits::{MAX_LINKED, MAX_NAMES, MAX_OWNER_NAMES, MAX_SOURCES};
use deltic_protocol::message::{Extent, NameLine, Payload};
use deltic_protocol::options::Options;
use deltic_store::{Listing, Snapshot, StoreError, Tree};
use deltic_store_local::LocalSnapshot;
use deltic_tree::meta::{HardLink, Inode};
use deltic_tree::{Entry, Meta, Name, RelPath};

use super::frames::{Bad, Frames, OffsetReader, check_magic};
use super::standing::{Standing, only_entry_path, open_destination};
use super::{MAX_HELD_BYTES, MAX_IDLE, MAX_STEPS, NAME_BYTES, cut_chunks, io_error};
use crate::error::SyncError;
use crate::plan::Plan;
use deltic_worker::lock::lock;

/// A batch as a source tree: directories, and the files with content in the batch.
#[derive(Clone, Debug)]
pub(crate) struct Batch(Arc<Held>);

/// The parts of a batch in memory; the rest stays in the file.
#[derive(Debug)]
pub(super) struct Held {
    file: Arc<File>,
    single: Option<Name>,
    options: Options,
    list: List,
    contents: HashMap<RelPath, u64>,
    /// Offsets of the contents of hard-linked files, by the number of the first link. A session may request any of the
    /// links.
    of_linked: HashMap<u64, u64>,
    /// The destination before the run, and the new name of the only entry there, if given.
    there: Option<(Standing, Option<Name>)>,
}

/// The list of a batch: directories and their entries.
#[derive(Debug, Default)]
struct List {
    own: Option<Meta>,
    missing: Vec<RelPath>,
    owners: [Vec<NameLine>; 2],
    dirs: HashMap<RelPath, Section>,
    entries: u64,
    /// Number and total bytes of the files in the list. The contents must exceed neither.
    files: u64,
    bytes: u64,
    /// Number of frames so far that added no entry to the list.
    idle: usize,
    /// Memory in bytes that the names of the batch use.
    held: usize,
    /// Metadata of the first link of each hard-linked file.
    firsts: HashMap<u64, Meta>,
    /// Each hard link, with the number of the first link to its file.
    linked: HashMap<RelPath, u64>,
    intact: Option<bool>,
}

/// The entries of one directory in the list.
#[derive(Debug)]
struct Section {
    /// Offset of each frame with entries, and the number of its first entry.
    frames: Vec<(u64, u64)>,
    last: Option<Name>,
    extent: Extent,
}

impl Batch {
    /// Reads and checks the whole batch in `file`, for the destination of `plan`. Messages call the file `name`.
    pub(crate) fn open(file: Arc<File>, name: &str, plan: &Plan) -> Result<Self, SyncError> {
        if plan.destination.local_path().is_none() {
            let why =
                "--read-batch: the destination is on another machine; run it there, with the batch";
            return Err(SyncError::Options(why.into()));
        }
        let mut held = Held::read(file).map_err(|bad| bad.of_file(name))?;
        // A destination that cannot be opened is reported when the run uses it.
        held.there = open_destination(plan, held.single.as_ref()).ok().flatten();
        Ok(Self(Arc::new(held)))
    }

    /// Returns `plan` with the options of the batch.
    pub(crate) fn plan(&self, plan: Plan) -> Plan {
        let options = combined_options(self.0.options.clone(), plan.options);
        Plan { options, ..plan }
    }

    pub(crate) fn single(&self) -> Option<&Name> {
        self.0.single.as_ref()
    }

    /// Returns the metadata of the root, if the root is part of the transfer.
    pub(crate) fn root_meta(&self) -> Option<Meta> {
        self.0.list.own.clone()
    }

    /// Returns the sources that were missing.
    pub(crate) fn missing(&self) -> Vec<RelPath> {
        self.0.list.missing.clone()
    }

    pub(crate) fn owners(&self) -> [&[NameLine]; 2] {
        self.0.list.owners.each_ref().map(Vec::as_slice)
    }
}

impl Tree for Batch {
    type Snapshot = Version;

    fn list(&self, dir: &RelPath) -> Result<Listing, StoreError> {
        let failed = |why| refusal_error("list", dir, why);
        let list = &self.0.list;
        let section = list.dirs.get(dir).filter(|section| section.extent != Extent::More);
        let section = section.ok_or_else(|| failed("the batch has no list of this directory"))?;
        let (partial, is_empty_source) =
            (section.extent == Extent::Part, section.extent == Extent::Empty);
        let mut listing = Listing { partial, is_empty_source, ..Listing::default() };
        for (at, mut number) in section.frames.iter().copied() {
            let frame = Frames::from(&self.0.file, at).next();
            let Ok(Some((_, Frame::Told(ToReceiver::Listing { entries, .. })))) = frame else {
                return Err(failed("the batch has changed"));
            };
            for mut entry in entries {
                list.link_to_first(number, &mut entry.meta);
                listing.entries.push(entry);
                number += 1;
            }
        }
        if dir.is_root() && list.intact != Some(true) {
            let why = "a part of the source could not be read when the batch was written";
            listing.errors.push(failed(why));
        }
        Ok(listing)
    }

    fn open(&self, path: &RelPath) -> Result<Version, StoreError> {
        self.0.open(path)
    }

    fn remove_source(&self, path: &RelPath, _: &Meta) -> Result<(), StoreError> {
        Err(refusal_error("remove", path, "it is in a batch"))
    }
}

impl List {
    /// Counts the memory for a stored name, and `more` bytes.
    fn count_memory(&mut self, path: &RelPath, more: usize) -> Result<(), Bad> {
        self.held += NAME_BYTES + path.as_bytes().len() + more;
        if self.held > MAX_HELD_BYTES { Err(Bad::TooMany) } else { Ok(()) }
    }

    /// Adds a frame to the list. The frame is at offset `at` of the file.
    fn add_frame(&mut self, at: u64, told: ToReceiver) -> Result<(), Bad> {
        match told {
            ToReceiver::Listing { dir, own, entries, extent } => {
                let tells = extent != Extent::More || own.is_some() || !entries.is_empty();
                self.idle += usize::from(!tells);
                self.own = self.own.take().or_else(|| own.filter(|_| dir.is_root()));
                self.add_section(at, dir, &entries, extent)?;
            }
            ToReceiver::Owners { users, groups } => {
                self.idle += usize::from(users.is_empty() && groups.is_empty());
                for (known, more) in self.owners.iter_mut().zip([users, groups]) {
                    known.extend(more);
                    if known.len() > MAX_OWNER_NAMES {
                        return Err(Bad::Malformed);
                    }
                }
            }
            ToReceiver::Missing(paths) => {
                self.idle += usize::from(paths.is_empty());
                paths.iter().try_for_each(|path| self.count_memory(path, 0))?;
                self.missing.extend(paths);
            }
            ToReceiver::Listed { intact } => self.intact = Some(intact),
            _ => return Err(Bad::Malformed),
        }
        let is_endless = self.idle > MAX_IDLE || self.missing.len() > MAX_NAMES + MAX_SOURCES;
        if is_endless { Err(Bad::Malformed) } else { Ok(()) }
    }

    fn add_section(
        &mut self,
        at: u64,
        dir: RelPath,
        entries: &[Entry],
        extent: Extent,
    ) -> Result<(), Bad> {
        self.count_memory(&dir, 0)?;
        let new = || Section { frames: Vec::new(), last: None, extent: Extent::More };
        let section = self.dirs.entry(dir.clone()).or_insert_with(new);
        if section.extent != Extent::More {
            return Err(Bad::Malformed);
        }
        section.frames.push((at, self.entries));
        section.extent = extent;
        let mut held = 0;
        for Entry { name, meta } in entries {
            if section.last.as_ref().is_some_and(|last| last >= name) {
                return Err(Bad::Malformed);
            }
            section.last = Some(name.clone());
            if meta.is_file() {
                self.files += 1;
                self.bytes = self.bytes.saturating_add(meta.len);
            }
            let first = match meta.hard_link() {
                Some(HardLink::Back(back)) => {
                    self.entries.checked_sub(back).ok_or(Bad::Malformed)?
                }
                _ => self.entries,
            };
            if meta.hard_link().is_some() {
                let path = dir.join(name).map_err(|_| Bad::Malformed)?;
                held += NAME_BYTES + path.as_bytes().len() + meta.extra_metadata_bytes();
                if first == self.entries {
                    self.firsts.insert(first, meta.clone());
                }
                self.linked.insert(path, first);
                if !self.firsts.contains_key(&first) || self.firsts.len() > MAX_LINKED {
                    return Err(Bad::Malformed);
                }
            }
            self.entries += 1;
        }
        self.count_memory(&RelPath::root(), held)
    }

    /// Gives the hard links of a file the metadata of its first link, and an inode number in the place of the back
    /// reference.
    fn link_to_first(&self, number: u64, meta: &mut Meta) {
        let first = match meta.hard_link() {
            None => return,
            Some(HardLink::Back(back)) => number.saturating_sub(back),
            Some(_) => number,
        };
        let Some(of) = self.firsts.get(&first) else { return };
        let Some(HardLink::First(names)) = of.hard_link() else { return };
        *meta = of.clone();
        meta.set_hard_link(Some(HardLink::Inode(Inode { device: 0, number: first }, names)));
    }
}

impl Held {
    fn read(file: Arc<File>) -> Result<Self, Bad> {
        Self::read_from(OffsetReader::after_magic(&file), file)
    }

    /// Reads the batch from `from`. `file` has the same bytes by the time a content is requested.
    pub(super) fn read_from(mut from: impl Read, file: Arc<File>) -> Result<Self, Bad> {
        check_magic(&mut from)?;
        let mut frames = Frames::with_sums(from);
        let Some((_, Frame::Asked(single, options))) = frames.next()? else {
            return Err(Bad::Short);
        };
        let mut list = List::default();
        while list.intact.is_none() {
            match frames.next()? {
                Some((at, Frame::Told(told))) => list.add_frame(at, told)?,
                Some(_) => return Err(Bad::Malformed),
                None => return Err(Bad::Short),
            }
        }
        let (mut contents, mut of_linked) = (HashMap::new(), HashMap::new());
        let (mut files, mut bytes) = (0, 0u64);
        loop {
            match frames.next()? {
                Some((at, Frame::Part(Part::Content { path, meta, old, .. }))) => {
                    (files, bytes) = (files + 1, bytes.saturating_add(meta.len));
                    if files > list.files || bytes > list.bytes {
                        return Err(Bad::Malformed);
                    }
                    if Steps::read(&mut frames, meta.len, old)?.digest.is_some() {
                        list.count_memory(&path, 0)?;
                        if let Some(first) = list.linked.get(&path) {
                            of_linked.insert(*first, at);
                        }
                        contents.insert(path, at);
                    }
                }
                Some((_, Frame::Part(Part::Over { files: all, digest })))
                    if all == files && Some(digest) == frames.before =>
                {
                    break;
                }
                Some(_) => return Err(Bad::Malformed),
                None => return Err(Bad::Short),
            }
        }
        if frames.next()?.is_some() {
            return Err(Bad::Malformed);
        }
        Ok(Self { file, single, options: *options, list, contents, of_linked, there: None })
    }

    fn open(&self, path: &RelPath) -> Result<Version, StoreError> {
        let failed = |why| refusal_error("read", path, why);
        let damaged = || failed("the batch is damaged");
        let linked = || self.of_linked.get(self.list.linked.get(path)?);
        let at = self.contents.get(path).or_else(linked);
        let at = *at.ok_or_else(|| {
            failed("the batch has no content for the file: the file was up to date or unreadable when the batch was written")
        })?;
        let mut frames = Frames::from(&self.file, at);
        let Ok(Some((_, Frame::Part(Part::Content { meta, old, spec, .. })))) = frames.next()
        else {
            return Err(damaged());
        };
        let steps = Steps::read(&mut frames, meta.len, old).map_err(|_| damaged())?;
        let standing = match &old {
            None => None,
            Some(old) => Some(self.open_old(path, old)?),
        };
        let version = Version {
            path: path.clone(),
            meta,
            steps: steps.steps,
            old: standing,
            file: Arc::clone(&self.file),
            literal: Mutex::default(),
        };
        if Some(digest_of(&version, &spec)?) == steps.digest {
            return Ok(version);
        }
        match (&version.old, old) {
            (Some(is), Some(old)) if digest_of(is, &spec)? != old.digest => Err(failed(ANOTHER)),
            _ => Err(damaged()),
        }
    }

    /// Opens the old version at the destination that the steps were made from.
    fn open_old(&self, path: &RelPath, old: &Old) -> Result<LocalSnapshot, StoreError> {
        let (tree, name) =
            self.there.as_ref().ok_or_else(|| refusal_error("read", path, ANOTHER))?;
        let path_there = name.as_ref().map_or_else(|| path.clone(), only_entry_path);
        let is = tree.open(&path_there).map_err(|_| refusal_error("read", path, ANOTHER))?;
        if is.meta().len == old.len { Ok(is) } else { Err(refusal_error("read", path, ANOTHER)) }
    }
}

const ANOTHER: &str =
    "the file at the destination is not the old version that the batch starts from";

fn digest_of(snapshot: &impl Snapshot, spec: &ChunkerSpec) -> Result<Digest, StoreError> {
    cut_chunks(snapshot, spec, |_, _| Ok(()))
}

fn refusal_error(action: &'static str, path: &RelPath, why: &'static str) -> StoreError {
    StoreError::Io { action, path: path.clone(), source: io_error(why) }
}

/// A new version, put together by steps from an old version and the batch.
#[derive(Debug)]
pub(crate) struct Version {
    path: RelPath,
    meta: Meta,
    steps: Vec<Step>,
    old: Option<LocalSnapshot>,
    file: Arc<File>,
    /// The literal that was read last, and its offset in the batch.
    literal: Mutex<(u64, Vec<u8>)>,
}

/// A part of the new version, and the source of its bytes.
#[derive(Debug)]
struct Step {
    start: u64,
    from: From,
}

#[derive(Debug)]
enum From {
    /// Bytes of the old version, from this offset on.
    Old(u64),
    /// Bytes of the literal in the frame at this offset of the batch.
    Batch(u64),
}

/// The steps of a content, and its digest if the content is complete.
struct Steps {
    steps: Vec<Step>,
    digest: Option<Digest>,
}

impl Steps {
    /// Reads the frames of a content up to its proof. Checks that a complete content has `len` bytes, and that all
    /// copies lie within the old version.
    fn read(frames: &mut Frames<impl Read>, len: u64, old: Option<Old>) -> Result<Self, Bad> {
        let (mut steps, mut start) = (Vec::new(), 0u64);
        let old_len = old.map_or(0, |old| old.len);
        loop {
            let (at, frame) = frames.next()?.ok_or(Bad::Short)?;
            let (from, bytes) = match frame {
                Frame::Part(Part::Copy { span }) if span.end() <= old_len => {
                    (From::Old(span.start), span.len)
                }
                Frame::Part(Part::Literal { len, payload }) if payload.is_literal_of(len) => {
                    (From::Batch(at), len)
                }
                Frame::Part(Part::Proof { digest }) if digest.is_none() || start == len => {
                    return Ok(Self { steps, digest });
                }
                _ => return Err(Bad::Malformed),
            };
            let end = start.checked_add(bytes.into()).filter(|end| *end <= len);
            if steps.len() == MAX_STEPS {
                return Err(Bad::Malformed);
            }
            steps.push(Step { start, from });
            start = end.ok_or(Bad::Malformed)?;
        }
    }
}

impl Version {
    /// Fills `room` with bytes of a literal, without its first `skip` bytes. The literal is in the frame at offset
    /// `at`.
    fn read_literal(&self, at: u64, skip: usize, room: &mut [u8]) -> Option<()> {
        let (held, bytes) = &mut *lock(&self.literal);
        if *held != at {
            let frame = Frames::from(&self.file, at).next();
            let Ok(Some((_, Frame::Part(Part::Literal { len, payload })))) = frame else {
                return None;
            };
            *bytes = match payload {
                Payload::Plain(plain) => plain,
                Payload::Zstd(frame) => zstd::bulk::decompress(&frame, len as usize).ok()?,
                Payload::Sparse(_) => return None,
            };
            *held = at;
        }
        room.copy_from_slice(bytes.get(skip..skip.checked_add(room.len())?)?);
        Some(())
    }
}

impl Snapshot for Version {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn read_at(&self, start: u64, buf: &mut [u8]) -> Result<usize, StoreError> {
        let mut filled = 0;
        let mut no = self.steps.partition_point(|step| step.start <= start).saturating_sub(1);
        while let Some(step) = self.steps.get(no)
            && filled < buf.len()
        {
            let end = self.steps.get(no + 1).map_or(self.meta.len, |next| next.start);
            let at = start + filled as u64;
            let len = (end.saturating_sub(at)).min((buf.len() - filled) as u64) as usize;
            let (room, skip) = (&mut buf[filled..filled + len], at - step.start);
            match (&step.from, &self.old) {
                (From::Old(from), Some(old)) if old.read_at(from + skip, room)? == len => {}
                (From::Batch(frame), _)
                    if self.read_literal(*frame, skip as usize, room).is_some() => {}
                _ => return Err(refusal_error("read", &self.path, "the batch is damaged")),
            }
            filled += len;
            no += 1;
        }
        Ok(filled)
    }

    fn check_unchanged(&self) -> Result<(), StoreError> {
        self.old.as_ref().map_or(Ok(()), Snapshot::check_unchanged)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use deltic_core::Span;
    use deltic_core::chunk::FixedLen;
    use deltic_protocol::batch::{MAGIC, encode_request};
    use deltic_tree::{Kind, Timestamp};

    use super::*;

    fn path(text: &str) -> RelPath {
        RelPath::parse(text.as_bytes()).unwrap()
    }

    fn entry(name: &str, kind: Kind, linked: Option<HardLink>) -> Entry {
        let mut meta = Meta::without_owner(kind, 5, Timestamp { secs: 1, nanos: 0 }, 0o644);
        meta.set_hard_link(linked);
        Entry { name: Name::new(name.as_bytes()).unwrap(), meta }
    }

    fn listing(dir: &str, entries: Vec<Entry>, extent: Extent) -> Vec<u8> {
        ToReceiver::Listing { dir: path(dir), own: None, entries, extent }.encode()
    }

    fn listed() -> Vec<u8> {
        ToReceiver::Listed { intact: true }.encode()
    }

    /// Encodes a content of five bytes that consists of these steps.
    fn content(old: Option<Old>, steps: &[Part]) -> Vec<u8> {
        let spec = ChunkerSpec::Fixed(FixedLen::new(4096).unwrap());
        let meta = entry("a", Kind::File, None).meta;
        let first = Part::Content { path: path("a"), meta, old, spec };
        let proof = Part::Proof { digest: Some(Digest::from_bytes([1; 32])) };
        [first].iter().chain(steps).chain([&proof]).flat_map(Part::encode).collect()
    }

    /// Reads a batch of these frames, with a correct digest.
    fn read(frames: &[Vec<u8>], files: u64) -> Result<Held, Bad> {
        let whole =
            [MAGIC.to_vec(), encode_request(None, Options::default()), frames.concat()].concat();
        let digest = Digest::from_bytes(*blake3::hash(&whole).as_bytes());
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&whole).unwrap();
        file.write_all(&Part::Over { files, digest }.encode()).unwrap();
        Held::read(Arc::new(file))
    }

    #[test]
    fn names_of_one_file_say_which_it_is_wherever_they_are_told() {
        let first = entry("a", Kind::File, Some(HardLink::First(2)));
        let dir = entry("d", Kind::Dir, None);
        let back = entry("z", Kind::File, Some(HardLink::Back(3)));
        let frames = [
            listing("", vec![first, dir], Extent::Last),
            listing("d", vec![entry("y", Kind::File, None)], Extent::More),
            listing("d", vec![back], Extent::Part),
            listed(),
        ];
        let batch = Batch(Arc::new(read(&frames, 0).unwrap()));
        let [root, below] = ["", "d"].map(|dir| batch.list(&path(dir)).unwrap());
        let linked = Some(HardLink::Inode(Inode { device: 0, number: 0 }, 2));
        assert_eq!(root.entries[0].meta.hard_link(), linked);
        assert_eq!((below.entries[1].meta.hard_link(), below.entries[1].meta.len), (linked, 5));
        assert_eq!(below.entries[0].meta.hard_link(), None);
        assert!(below.partial && !root.partial && root.errors.is_empty());
        assert!(batch.list(&path("d/y")).is_err(), "it is not told of");
    }

    #[test]
    fn a_batch_that_contradicts_itself_is_damaged_though_its_digest_is_right() {
        let file = |name: &str| entry(name, Kind::File, None);
        let root = |entries| listing("", entries, Extent::Last);
        let back = |back| entry("b", Kind::File, Some(HardLink::Back(back)));
        let literal =
            |len, bytes: usize| Part::Literal { len, payload: Payload::Plain(vec![7; bytes]) };
        let copy = |start, len| Part::Copy { span: Span { start, len } };
        let old = Some(Old { digest: Digest::from_bytes([2; 32]), len: 9 });
        let list = || vec![root(vec![file("a")]), listed()];
        let with = |content: Vec<u8>| [list(), vec![content]].concat();
        assert!(
            read(&list(), 0).is_ok() && read(&with(content(None, &[literal(5, 5)])), 1).is_ok()
        );
        assert!(read(&with(content(old, &[copy(4, 5)])), 1).is_ok());
        for (why, frames, files) in [
            ("names do not ascend", vec![root(vec![file("b"), file("a")]), listed()], 0),
            ("a directory comes twice", vec![root(vec![]), root(vec![]), listed()], 0),
            ("no such first name", vec![root(vec![file("a"), back(1)]), listed()], 0),
            ("before the first entry", vec![root(vec![file("a"), back(2)]), listed()], 0),
            ("another count", list(), 1),
            ("the list goes on", [list(), list()].concat(), 0),
            ("too few bytes", with(content(None, &[literal(4, 4)])), 1),
            ("too many bytes", with(content(None, &[literal(5, 5), literal(1, 1)])), 1),
            ("another length", with(content(None, &[literal(5, 4)])), 1),
            ("a copy of nothing", with(content(None, &[copy(0, 5)])), 1),
            ("a copy beyond the end", with(content(old, &[copy(5, 5)])), 1),
            ("a step of no file", with(literal(5, 5).encode()), 0),
        ] {
            assert!(matches!(read(&frames, files), Err(Bad::Malformed)), "{why}");
        }
        assert!(matches!(read(&[root(vec![])], 0), Err(Bad::Malformed)), "the list has no end");
    }
}
