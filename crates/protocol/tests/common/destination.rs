//! The receiver's hands: changes a tree, and checks the laws of each piece of work on the way.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, Range};
use std::sync::Arc;

use deltic_core::gap::apply;
use deltic_core::recipe::{Chunk, Digest, FileDigest, digest_of, scan};
use deltic_core::strategy::Conversation;
use deltic_core::zeros::insert_zero_runs;
use deltic_core::{
    AtEnd, BlockLen, BlockSumSpec, ChunkerSpec, DataMap, Fingerprint, GapDelta, GapSums, Key,
    Reader, Span, WriteCover,
};
use deltic_protocol::limits::Limits;
use deltic_protocol::message::{NameLine, Payload, Sparse};
use deltic_protocol::options::Options;
use deltic_protocol::receiver::{
    CopyRun, EntryWork, EqualDir, FileRelation, FileStamp, GapPatch, GapSurvey, KeptChunk,
    KnownChunks, LocalOwner, LookupAnswer, LookupWork, MAX_BORROWED, MappedOwners, Mended,
    MoveIndexExtent, NewVersion, NewVersionAnswer, NewVersionWork, NotListed, OldGap, OldLens,
    OldMatches, OldVersionAnswer, OldVersionWork, OtherPaths, PayloadChunk, ReceiverAnswer,
    ReceiverWork, RemovedNames, SettleWork, SimilarFile, SmallFile, UnlistedNames,
};
use deltic_protocol::report::{EntryType, Trouble, TroubleKind};
use deltic_protocol::work::{ErrorAction, Handle, WorkError};
use deltic_tree::meta::{HardLink, Inode};
use deltic_tree::{DirDigest, Kind, Meta, Name, RelPath};

use super::source::{bytes_digest, packed, segment, sum, tally_of};
use super::tree::{NOW, Node, Tree};
use super::{Dice, GAP_SEED};

/// Chances in percent that a piece of work goes wrong.
#[derive(Clone, Copy, Debug, Default)]
pub struct DestinationFaults {
    pub look: u64,
    pub make: u64,
    pub open: u64,
    /// The recipe of what is in place is known, which is no fault.
    pub known: u64,
    /// The base of what is in place is known; the sender may know it or not.
    pub based: u64,
    /// A file that is nothing like it is taken for one that moved.
    pub guess: u64,
    pub index: u64,
    pub survey: u64,
    /// Sums of blocks are equal by chance.
    pub deceive: u64,
    pub copy: u64,
    pub write: u64,
    pub commit: u64,
    /// Strong sums are equal by ill will: only the proof sees it.
    pub unproven: u64,
}

pub struct Destination {
    pub tree: Tree,
    pub options: Options,
    pub faults: DestinationFaults,
    pub dice: Dice,
    /// The sums that storage is said to keep.
    pub keeps: Option<BlockSumSpec>,
    /// The bytes that those of old versions are of, where they are wrong.
    pub sums_of: Option<Arc<Vec<u8>>>,
    /// What killed runs left.
    pub leftovers: BTreeMap<RelPath, Vec<Arc<Vec<u8>>>>,
    /// The same, where the journal can be read.
    pub interrupted: BTreeMap<RelPath, Stage>,
    /// How many transfers went on.
    pub resumed: usize,
    /// Names that were charted: no more are found elsewhere.
    charted: BTreeSet<RelPath>,
    /// What was matched against files of other names, and by what right.
    pub similar: Vec<(RelPath, SimilarFile)>,
    /// Files of the run that others were matched against.
    pub borrowed: usize,
    slots: BTreeMap<Handle, Slot>,
    ended: BTreeSet<Handle>,
    pub commits: usize,
    /// Directories that were as their tallies said.
    pub alike: u64,
    /// Literal bytes written.
    pub written: u64,
    /// What was put into new versions by copies and by literals, one after the other.
    pub placed: Vec<(By, Span)>,
    /// How often all bytes of a version were hashed for its proof.
    pub whole_passes: usize,
    /// Contents that files had when their recipes were kept, and which have rotted since.
    pub believed: BTreeMap<RelPath, Arc<Vec<u8>>>,
    /// Files that were given other names.
    inodes: u64,
    /// So many names came into each directory since they were counted.
    pub uncounted: u64,
}

/// How bytes came to their place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    Copy,
    Literal,
}

#[derive(Default)]
struct Slot {
    in_place: Option<Node>,
    /// What is read of another name.
    lent: Option<(RelPath, Node)>,
    old: Vec<Arc<Vec<u8>>>,
    /// True if the recipe of the first was known.
    is_known: bool,
    /// The old versions, end to end.
    joined: Arc<Vec<u8>>,
    stage: Option<Stage>,
}

impl Slot {
    /// Reads the old versions as they face data in `map` from now on; their lengths.
    fn view_as(&mut self, map: &DataMap) -> Vec<u64> {
        for old in &mut self.old {
            let whole = 0..old.len() as u64;
            let (mut runs, rest) = map.split_old(whole.end, std::slice::from_ref(&whole));
            let is_data = |run: &Range<u64>| {
                packed(old, std::slice::from_ref(run)).iter().any(|byte| *byte != 0)
            };
            runs.extend(rest.into_iter().filter(is_data));
            *old = Arc::new(packed(old, &runs));
        }
        self.joined = Arc::new(self.old.iter().flat_map(|old| old.iter().copied()).collect());
        self.is_known = false;
        self.old.iter().map(|old| old.len() as u64).collect()
    }
}

#[derive(Clone, Debug)]
pub struct Stage {
    path: RelPath,
    new: NewVersion,
    bytes: Vec<u8>,
    cover: WriteCover,
    has_literals: bool,
    /// The journal: what is in place.
    pub kept: Vec<KeptChunk>,
    /// It began in another session.
    goes_on: bool,
}

type Done = Result<(), WorkError>;

/// The whole recipe of a version.
fn recipe_of(bytes: &[u8], spec: ChunkerSpec) -> KnownChunks {
    let mut end = 0;
    let place = |chunk: Chunk| {
        let start = end;
        end += u64::from(chunk.len);
        (start, chunk)
    };
    let chunks = scan(&spec.build(), bytes, AtEnd::Yes).chunks.into_iter().map(place).collect();
    KnownChunks { key: Key::from_bytes([9; 32]), spec, map: None, chunks }
}

fn work_error(message: &str, retry: bool) -> WorkError {
    let kind = TroubleKind::Failed;
    let then = if retry { ErrorAction::Retry } else { ErrorAction::GiveUp };
    WorkError { trouble: Trouble::new(kind, message), then }
}

impl Destination {
    pub fn new(tree: Tree, options: Options, dice: Dice) -> Self {
        Self {
            tree,
            options,
            faults: DestinationFaults::default(),
            dice,
            keeps: None,
            sums_of: None,
            leftovers: BTreeMap::new(),
            interrupted: BTreeMap::new(),
            resumed: 0,
            charted: BTreeSet::new(),
            similar: Vec::new(),
            borrowed: 0,
            slots: BTreeMap::new(),
            ended: BTreeSet::new(),
            commits: 0,
            alike: 0,
            written: 0,
            placed: Vec::new(),
            whole_passes: 0,
            believed: BTreeMap::new(),
            inodes: 0,
            uncounted: 0,
        }
    }

    pub fn is_idle(&self) -> bool {
        self.slots.is_empty()
    }

    /// The process dies: what was written stays behind, what was held open goes.
    pub fn kill(&mut self) {
        for slot in std::mem::take(&mut self.slots).into_values() {
            if let Some(stage) = slot.stage.filter(|stage| stage.has_literals) {
                self.interrupted.insert(stage.path.clone(), stage);
            }
        }
        self.ended.clear();
    }

    /// The machine was started anew: nobody knows what of the staged files reached the disk.
    pub fn reboot(&mut self) {
        for (path, stage) in std::mem::take(&mut self.interrupted) {
            self.leftovers.entry(path).or_default().push(Arc::new(stage.bytes));
        }
    }

    fn fails(&mut self, chance: u64) -> Done {
        if self.dice.percent(chance) {
            Err(work_error("bad luck", self.dice.percent(50)))
        } else {
            Ok(())
        }
    }

    pub fn perform(&mut self, work: ReceiverWork) -> ReceiverAnswer {
        match work {
            ReceiverWork::Lookup(work) => ReceiverAnswer::Lookup(self.look_up(work)),
            ReceiverWork::Entry(work) => ReceiverAnswer::Done(self.change_entry(work)),
            ReceiverWork::Old(work) => ReceiverAnswer::Old(self.read_old(work)),
            ReceiverWork::New(work) => ReceiverAnswer::New(self.write_new(work)),
            ReceiverWork::Settle(work) => ReceiverAnswer::Done(self.settle(work)),
            ReceiverWork::Ask(_) => ReceiverAnswer::Asked(false),
            // The cases let no commit wait.
            ReceiverWork::Land => unreachable!("{work:?}"),
            ReceiverWork::Sweep => {
                self.visible();
                self.leftovers.clear();
                self.interrupted.clear();
                ReceiverAnswer::Done(Ok(()))
            }
            ReceiverWork::Flush => {
                self.visible();
                ReceiverAnswer::Done(Ok(()))
            }
            ReceiverWork::Remove { path, gives_way, dry_run, most } => {
                if dry_run {
                    let below = self.tree.0.iter().filter(|(at, _)| at.starts_with(&path));
                    let gone = below.map(|(at, node)| (at.clone(), EntryType::of(&node.meta.kind)));
                    let gone = gone.collect();
                    return ReceiverAnswer::Removed(RemovedNames {
                        gone,
                        ..RemovedNames::default()
                    });
                }
                self.visible();
                if let Err(error) = self.fails(self.faults.make) {
                    let troubles = vec![error.trouble];
                    return ReceiverAnswer::Removed(RemovedNames {
                        troubles,
                        ..RemovedNames::default()
                    });
                }
                // A step is one name, and what gives way goes with the last one in it.
                let mut gone = Vec::new();
                if most > 0 && !(gives_way && self.tree.count(&path) == 1) {
                    gone.extend(self.tree.remove_one(&path));
                }
                if gives_way && self.tree.count(&path) == 1 {
                    gone.extend(self.tree.remove_one(&path));
                }
                self.bump(&path);
                let item = |(path, node): (RelPath, Node)| (path, EntryType::of(&node.meta.kind));
                let gone = gone.into_iter().map(item).collect();
                let goes_on = self.tree.count(&path) > 0;
                ReceiverAnswer::Removed(RemovedNames { gone, troubles: Vec::new(), goes_on })
            }
            ReceiverWork::SetDirs { dirs, .. } => {
                self.visible();
                let below = |one: &RelPath, other: &RelPath| other.starts_with(one);
                for (n, (dir, _)) in dirs.iter().enumerate() {
                    let later = dirs[n + 1..].iter();
                    assert!(!later.clone().any(|(other, _)| below(dir, other)), "{dir} too early");
                }
                dirs.iter().for_each(|(path, meta)| self.set_meta(path, meta));
                ReceiverAnswer::SetDirs(Vec::new())
            }
        }
    }

    fn look_up(&mut self, work: LookupWork) -> LookupAnswer {
        match work {
            LookupWork::Look { paths, dirs, users, groups, .. } => {
                assert!(dirs.is_empty(), "no case keeps links");
                // Every number stays what it is.
                let ours = |line: &NameLine| LocalOwner { id: line.id, may_give: true };
                let all = |lines: Vec<NameLine>| lines.iter().map(ours).collect();
                let found = paths.iter().map(|path| self.look(path)).collect();
                let owners = MappedOwners { users: all(users), groups: all(groups) };
                LookupAnswer::Looked(found, owners)
            }
            LookupWork::LookMissing { paths, .. } => {
                let found = paths.iter().map(|path| self.look(path)).collect();
                LookupAnswer::Looked(found, Default::default())
            }
            LookupWork::Digest { paths } => {
                let digest = |path: &RelPath| {
                    let unread = self.fails(self.faults.index).is_err();
                    let node =
                        self.tree.0.get(path).filter(|node| node.meta.is_file() && !unread)?;
                    Some(bytes_digest(&node.bytes))
                };
                LookupAnswer::Digested(paths.iter().map(digest).collect())
            }
            LookupWork::Compare { dir, tally, .. } => {
                LookupAnswer::Compared(self.compare(&dir, &tally))
            }
            LookupWork::Extra { dir, keep, .. } => {
                let dir_is_real = self.tree.is_dir(&dir);
                let mut found = UnlistedNames::default();
                for entry in self.tree.children(&dir) {
                    if dir_is_real && !keep.as_ref().is_some_and(|keep| keep.contains(&entry.name))
                    {
                        let path = dir.join(&entry.name).unwrap();
                        let names = self.count(&path);
                        found
                            .extras
                            .push(deltic_protocol::receiver::Extra { name: entry.name, names });
                    }
                }
                LookupAnswer::Extra(Ok(found))
            }
            LookupWork::Count { path, .. } => LookupAnswer::Counted(self.count(&path)),
            LookupWork::CountMoved { paths, mut new } => {
                let goes = |path: &RelPath| paths.iter().any(|going| path.starts_with(going));
                let going = self.tree.0.iter().filter(|(path, _)| goes(path));
                let files = going.filter(|(_, node)| new.take_match(&node.meta)).count() as u64;
                LookupAnswer::CountedMoved { files, new }
            }
            LookupWork::ExtendMoveIndex { names, .. } => {
                LookupAnswer::MoveIndexExtended(self.chart(names))
            }
            // The cases have no alternates.
            LookupWork::LookUpAlternates { .. } => unreachable!("{work:?}"),
        }
    }

    fn change_entry(&mut self, work: EntryWork) -> Done {
        self.visible();
        self.fails(self.faults.make)?;
        match work {
            // The cases have no alternates.
            EntryWork::LinkFromAlternate { .. } | EntryWork::CopyFromAlternate { .. } => {
                unreachable!("{work:?}")
            }
            EntryWork::Link { path, leader, kind, seen } => {
                return self.link(&path, (&leader, &kind), seen.as_ref());
            }
            EntryWork::MakeDir { path, .. } => {
                if !self.tree.is_dir(&path) {
                    self.put(&path, Node::other(Kind::Dir, NOW, 0o700));
                }
            }
            EntryWork::MakeSymlink { path, target, meta } => {
                if self.tree.is_dir(&path) && self.tree.count(&path) > 1 {
                    return Err(work_error("directory not empty", false));
                }
                let time = if self.options.times { meta.modified } else { NOW };
                self.put(&path, Node::other(Kind::Symlink(target), time, 0o777));
            }
            EntryWork::MakeSpecial { path, meta } => {
                if self.tree.is_dir(&path) && self.tree.count(&path) > 1 {
                    return Err(work_error("directory not empty", false));
                }
                let mode = if self.options.modes { meta.mode } else { meta.mode & !0o022 };
                let time = if self.options.times { meta.modified } else { NOW };
                let mut meta = Meta { modified: time, mode, ..meta };
                meta.set_hard_link(None);
                self.put(&path, Node { meta, bytes: Arc::default() });
            }
            EntryWork::SetMeta { path, meta } => self.set_meta(&path, &meta),
        }
        Ok(())
    }

    fn compare(&mut self, dir: &RelPath, tally: &DirDigest) -> Option<Box<EqualDir>> {
        if self.dice.percent(self.faults.look) || !self.tree.is_dir(dir) {
            return None;
        }
        let (entries, mut alike) = (self.tree.children(dir), EqualDir::default());
        entries.iter().for_each(|entry| alike.add(&entry.name, &entry.meta));
        let compared = self.options.tallied_attributes().expect("tallies are told");
        let content = |name: &Name| self.tree.content(&dir.join(name).ok()?);
        let is_covered = entries.iter().all(|entry| compared.cover(&entry.meta));
        let is_alike = is_covered
            && tally_of(&entries, compared, content).compared_part() == tally.compared_part();
        self.alike += u64::from(is_alike);
        is_alike.then(|| Box::new(alike))
    }

    /// A dry run never comes here.
    fn visible(&self) {
        assert!(!self.options.dry_run, "a dry run changes nothing");
    }

    fn look(&mut self, path: &RelPath) -> Result<Option<Meta>, Trouble> {
        self.fails(self.faults.look).map_err(|error| error.trouble)?;
        if path.is_root() {
            let modified = NOW;
            return Ok(Some(Meta::without_owner(Kind::Dir, 0, modified, 0o755)));
        }
        Ok(self.tree.0.get(path).map(|node| node.meta.clone()))
    }

    /// Makes `path` another name of what `leader` is, in place of what was `seen`.
    fn link(
        &mut self,
        path: &RelPath,
        (leader, kind): (&RelPath, &Kind),
        seen: Option<&Meta>,
    ) -> Done {
        let first = self.tree.0.get(leader).filter(|first| first.meta.kind == *kind).cloned();
        let mut first = first.ok_or_else(|| work_error("the leader changed", true))?;
        let identity = first.meta.hard_link();
        let old = self.tree.0.get(path);
        if old.is_some_and(|old| old.meta.is_dir()) && self.tree.count(path) > 1 {
            return Err(work_error("directory not empty", false));
        }
        if identity.is_some() && identity == old.and_then(|old| old.meta.hard_link()) {
            return Ok(());
        }
        let is_like = |(old, seen): (&Node, &Meta)| old.meta.kind == seen.kind;
        assert_eq!(old.is_some(), seen.is_some(), "{path}");
        assert!(old.zip(seen).is_none_or(is_like), "{path} is what was seen");
        if identity.is_none() {
            self.inodes += 1;
            let inode = Inode { device: 2, number: self.inodes };
            first.meta.set_hard_link(Some(HardLink::Inode(inode, 2)));
            self.tree.0.insert(leader.clone(), first.clone());
        }
        self.put(path, first);
        Ok(())
    }

    /// Sets what a name is, and what it shares with other names of the same file.
    fn set_meta(&mut self, path: &RelPath, meta: &Meta) {
        if path.is_root() {
            return;
        }
        let node = self.tree.0.get(path).unwrap_or_else(|| panic!("{path} is not there"));
        let linked = node.meta.hard_link();
        let shares = |(other, node): (&RelPath, &Node)| {
            let same = linked.is_some() && node.meta.hard_link() == linked;
            (other == path || same).then(|| other.clone())
        };
        for name in self.tree.0.iter().filter_map(shares).collect::<Vec<_>>() {
            self.set_meta_of(&name, meta, linked);
        }
    }

    fn set_meta_of(&mut self, path: &RelPath, meta: &Meta, linked: Option<HardLink>) {
        let node = self.tree.0.get_mut(path).unwrap_or_else(|| panic!("{path} is not there"));
        if self.options.times {
            node.meta.modified = meta.modified;
        }
        if self.options.modes && !meta.is_symlink() {
            node.meta.mode = meta.mode;
        }
        node.meta.user = meta.user.or(node.meta.user);
        node.meta.group = meta.group.or(node.meta.group);
        node.meta.more.clone_from(&meta.more);
        node.meta.set_hard_link(linked);
    }

    /// Puts an entry in place, as a rename does.
    fn put(&mut self, path: &RelPath, node: Node) {
        let (parent, _) = path.split_last().unwrap();
        assert!(self.tree.is_dir(&parent), "{path}: its directory is not there");
        self.tree.0.insert(path.clone(), node);
        self.bump(path);
    }

    fn bump(&mut self, path: &RelPath) {
        let parent = path.split_last().map(|(parent, _)| parent);
        if let Some(node) = parent.and_then(|parent| self.tree.0.get_mut(&parent)) {
            node.meta.modified = NOW;
        }
    }

    fn read_old(&mut self, work: OldVersionWork) -> OldVersionAnswer {
        match work {
            OldVersionWork::OpenOld { handle, path, goes_on, recipe, base, elsewhere, .. } => {
                let similar = self.similar(&path, &elsewhere);
                let known = (goes_on.as_ref(), recipe.as_ref());
                let opened = self.open(handle, (&path, similar.clone()), known, base);
                if let (Ok(OldLens { similar: Some(_), .. }), Some((similar, _))) =
                    (&opened, similar)
                {
                    self.similar.push((path, similar));
                }
                OldVersionAnswer::Opened(opened.map(Box::new))
            }
            OldVersionWork::OpenMore { handle, other } => {
                OldVersionAnswer::OpenedMore(self.open_arrived(handle, &other))
            }
            OldVersionWork::View { handle, map } => {
                let luck = self.fails(self.faults.index);
                OldVersionAnswer::Viewed(luck.map(|()| self.slot(handle).view_as(&map)))
            }
            OldVersionWork::Index { handle, part, segment, spec } => {
                if let Err(error) = self.fails(self.faults.index) {
                    return OldVersionAnswer::Indexed(Err(error));
                }
                let slot = self.slot(handle);
                assert!(part > 0 || !slot.is_known, "what is known is not read");
                let old = slot.old[part].clone();
                // What was asked for before the versions were viewed may lie behind their ends.
                let read = old.get(segment.own.start as usize..segment.read_end as usize);
                let cut = |read: &[u8]| segment.cut(&spec.build(), read, Chunk::of);
                OldVersionAnswer::Indexed(read.map(cut).ok_or_else(|| work_error("shorter", true)))
            }
            OldVersionWork::SumOld { handle, part, portion, summing } => {
                if let Err(error) = self.fails(self.faults.index) {
                    return OldVersionAnswer::Summed(Err(error));
                }
                let old = Arc::clone(&self.slot(handle).old[part]);
                let old = self.sums_of.clone().unwrap_or(old);
                let summed = sum(summing, &old, &portion, segment(&mut self.dice));
                OldVersionAnswer::Summed(Ok(summed.expect("old does not change").0))
            }
            OldVersionWork::HashOld { handle, strong, spans } => {
                if let Err(error) = self.fails(self.faults.survey) {
                    return OldVersionAnswer::Hashed(Err(error));
                }
                let old = Arc::clone(&self.slot(handle).joined);
                let sum = |span: &Span| {
                    strong.sum_of(None, &old[span.start as usize..span.end() as usize])
                };
                let deceived = self.dice.percent(self.faults.deceive);
                let mut sums: Vec<_> = spans.iter().map(sum).collect();
                if deceived {
                    // As if other bytes had the same weak sum.
                    let at = self.dice.below(sums.len());
                    sums[at] = strong.sum_of(None, b"other bytes");
                }
                OldVersionAnswer::Hashed(Ok(sums))
            }
            OldVersionWork::Roll { handle, part, start, search } => {
                if let Err(error) = self.fails(self.faults.index) {
                    return OldVersionAnswer::Rolled(Err(error));
                }
                let old = Arc::clone(&self.slot(handle).old[part]);
                let mut searcher = search.searcher(None);
                let end = old.len().min(start as usize + segment(&mut self.dice));
                let at_end = end == old.len();
                let place = if at_end { AtEnd::Yes } else { AtEnd::No };
                let mut found = Vec::new();
                let piece = &old[start as usize..end];
                let consumed = searcher.search(piece, place, |op| found.push(op)) as u64;
                OldVersionAnswer::Rolled(Ok(OldMatches { found, consumed, at_end, searcher }))
            }
            OldVersionWork::Survey { handle, gaps } => {
                if let Err(error) = self.fails(self.faults.survey) {
                    return OldVersionAnswer::Surveyed(Err(error));
                }
                let joined = Arc::clone(&self.slot(handle).joined);
                let sums = |gap: &GapSurvey| {
                    let old = gathered(&joined, &gap.old);
                    let len = BlockLen::for_gap(old.len() as u64, gap.edits);
                    GapSums::sums_of(&old, len, GAP_SEED)
                };
                OldVersionAnswer::Surveyed(Ok(gaps.iter().map(sums).collect()))
            }
        }
    }

    fn write_new(&mut self, work: NewVersionWork) -> NewVersionAnswer {
        match work {
            NewVersionWork::Copy { handle, path, new, runs, chunks } => {
                self.visible();
                let luck = self.fails(self.faults.copy);
                if let Err(error) = luck.and_then(|()| self.check_unchanged(handle)) {
                    return NewVersionAnswer::Copied(Err(error));
                }
                let place = |run: &CopyRun| (By::Copy, Span::new(run.new_start, run.old.len));
                self.placed.extend(runs.iter().map(place));
                let old = Arc::clone(&self.slot(handle).joined);
                let by_recipe = self.options.strategy.conversation == Conversation::Recipe;
                let stage = self.stage(handle, &path, new);
                for run in &runs {
                    let bytes = &old[run.old.start as usize..run.old.end() as usize];
                    stage.write(run.new_start, bytes);
                }
                for kept in &chunks {
                    let bytes = &stage.bytes[kept.start as usize..kept.end() as usize];
                    assert_eq!(kept.chunk, Chunk::of(bytes), "a copy is not of its chunks");
                }
                let told: u64 = chunks.iter().map(|kept| u64::from(kept.chunk.len)).sum();
                let copied: u64 = runs.iter().map(|run| u64::from(run.old.len)).sum();
                let by_changes = stage.new.spec == Limits::changed_file_chunker();
                if by_recipe && !by_changes {
                    assert_eq!(told, copied, "a copy is of whole chunks");
                }
                stage.kept.extend(chunks);
                NewVersionAnswer::Copied(Ok(()))
            }
            NewVersionWork::Repeat { handle, path, new, runs } => {
                self.visible();
                if let Err(error) = self.fails(self.faults.copy) {
                    return NewVersionAnswer::Copied(Err(error));
                }
                let place = |run: &CopyRun| (By::Copy, Span::new(run.new_start, run.old.len));
                self.placed.extend(runs.iter().map(place));
                let stage = self.stage(handle, &path, new);
                for CopyRun { old, new_start } in runs {
                    let is_new = stage.cover.clone().add(old.start, old.len.into()).is_ok();
                    assert!(!is_new, "what comes again is there once");
                    let bytes = stage.bytes[old.start as usize..old.end() as usize].to_vec();
                    stage.write(new_start, &bytes);
                }
                NewVersionAnswer::Copied(Ok(()))
            }
            NewVersionWork::Write { handle, path, new, pieces, payload, between } => {
                self.visible();
                let place = |run: &CopyRun| (By::Copy, Span::new(run.new_start, run.old.len));
                let literals = pieces.iter().map(|piece| (By::Literal, piece.span));
                let first = self.placed.len();
                self.placed.extend(literals.chain(between.iter().map(place)));
                if !between.is_empty() {
                    self.placed[first..].sort_by_key(|(_, span)| span.start);
                }
                let old = Arc::clone(&self.slot(handle).joined);
                let stage = self.stage(handle, &path, new.clone());
                for run in &between {
                    let bytes = &old[run.old.start as usize..run.old.end() as usize];
                    stage.write(run.new_start, bytes);
                }
                self.written += pieces.iter().map(|piece| u64::from(piece.span.len)).sum::<u64>();
                NewVersionAnswer::Written(
                    self.fails(self.faults.write)
                        .and_then(|()| self.stage(handle, &path, new).fill(&pieces, payload)),
                )
            }
            NewVersionWork::Mend { handle, path, new, gaps, bytes, payload } => {
                self.visible();
                if let Err(error) = self.fails(self.faults.write) {
                    return NewVersionAnswer::Mended(Err(error));
                }
                let deltas = unpacked(payload);
                assert_eq!(deltas.len(), bytes as usize);
                let mut reader = Reader::new(&deltas);
                let mended = gaps
                    .iter()
                    .map(|patch| self.mend(handle, (&path, new.clone()), patch, &mut reader));
                NewVersionAnswer::Mended(mended.collect())
            }
        }
    }

    fn settle(&mut self, work: SettleWork) -> Done {
        match work {
            SettleWork::Commit { handle, path, meta, proof, .. } => {
                self.visible();
                let luck = self.fails(self.faults.commit);
                luck.and_then(|()| {
                    let deceived = self.dice.percent(self.faults.unproven);
                    let staged = self.slot(handle).stage.as_ref();
                    // Of an empty file nothing was written.
                    let bytes = staged.map_or(&[][..], |stage| &stage.bytes);
                    let mut passes = 0;
                    let holds = proof.is_equal_to(|| {
                        passes += 1;
                        Ok::<_, WorkError>(digest_of_bytes(bytes))
                    })?;
                    self.whole_passes += passes;
                    if !holds || deceived {
                        return Err(work_error("unproven", true));
                    }
                    // What is kept of it for the next session is true.
                    let staged = self.slot(handle).stage.as_ref();
                    let mut rest = staged.map_or(&[][..], |stage| &stage.bytes);
                    for chunk in proof.chunks().into_iter().flatten() {
                        let (bytes, behind) = rest.split_at(chunk.len as usize);
                        assert_eq!(chunk, Chunk::of(bytes));
                        rest = behind;
                    }
                    self.commit(handle, &path, (&meta, proof.map()))
                })
            }
            SettleWork::Replace(SmallFile { path, meta, payload, digest, .. }) => {
                self.visible();
                let luck = self.fails(self.faults.commit);
                luck.and_then(|()| {
                    let bytes = unpacked(payload);
                    assert_eq!(bytes.len() as u64, meta.len);
                    let chunks: Vec<_> =
                        (!bytes.is_empty()).then(|| Chunk::of(&bytes)).into_iter().collect();
                    if !digest.agrees_with(&digest_of(&chunks)) {
                        return Err(work_error("unproven", true));
                    }
                    self.install(&path, &meta, bytes)
                })
            }
            SettleWork::Confirm { handle, proof, .. } => {
                let luck = self.fails(self.faults.commit);
                luck.and_then(|()| {
                    let old = Arc::clone(&self.slot(handle).old[0]);
                    if !proof.is_equal_to(|| Ok::<_, WorkError>(digest_of_bytes(&old)))? {
                        return Err(work_error("unproven", true));
                    }
                    self.slots.remove(&handle);
                    Ok(())
                })
            }
            SettleWork::Abandon { handle } => {
                self.end(handle);
                Ok(())
            }
        }
    }

    /// One gap, now and then as if short sums had been equal by chance in some of its chunks.
    fn mend(
        &mut self,
        handle: Handle,
        (path, new): (&RelPath, NewVersion),
        patch: &GapPatch,
        deltas: &mut Reader<'_>,
    ) -> Result<Mended, WorkError> {
        let old = gathered(&self.slot(handle).joined, &patch.old);
        let new_len = patch.pieces.iter().map(|piece| piece.span.len as usize).sum();
        let bad = || work_error("not a delta", true);
        let delta = GapDelta::decode(deltas).map_err(|_| bad())?;
        let mut bytes = Vec::new();
        apply(&old, &delta, new_len, &mut bytes).map_err(|_| bad())?;
        let deceives = !patch.old.is_empty() && self.dice.percent(self.faults.deceive);
        let (mut fingerprints, mut literal, mut rest) = (Vec::new(), 0, &bytes[..]);
        let lens = patch.pieces.iter().map(|piece| piece.span.len as usize);
        for (piece, len) in patch.pieces.iter().zip(delta.literal_lens(lens)) {
            let (bytes, behind) = rest.split_at(piece.span.len as usize);
            rest = behind;
            let payload = Payload::Plain(bytes.to_vec());
            let is_deceived = deceives && self.dice.percent(50);
            let filled = (!is_deceived).then(|| {
                self.stage(handle, path, new.clone()).fill(std::slice::from_ref(piece), payload)
            });
            let fingerprint = match filled {
                Some(Err(error)) if patch.old.is_empty() => return Err(error),
                Some(Ok(filled)) => Some(filled[0]),
                None | Some(Err(_)) => None,
            };
            literal += if fingerprint.is_some() { len } else { 0 };
            fingerprints.push(fingerprint);
        }
        self.written += literal;
        Ok(Mended { fingerprints, literal, packed_copies: None })
    }

    fn end(&mut self, handle: Handle) {
        self.slots.remove(&handle);
        assert!(self.ended.insert(handle), "ended twice");
    }

    fn slot(&mut self, handle: Handle) -> &mut Slot {
        assert!(!self.ended.contains(&handle), "work for a handle after its end");
        self.slots.entry(handle).or_default()
    }

    /// A portion of the tree, in the order of its names.
    fn chart(&mut self, names: u64) -> MoveIndexExtent {
        let behind = self.charted.last().map_or(Bound::Unbounded, Bound::Excluded);
        let more = self.tree.0.range((behind, Bound::Unbounded)).map(|(path, _)| path.clone());
        let most = self.dice.between(1, 8).min(names as usize);
        let more: Vec<_> = more.take(most).collect();
        let not_listed = match more.len() < most {
            true => NotListed::Nothing,
            false if self.dice.percent(70) => NotListed::Near,
            false => NotListed::Far,
        };
        let names = more.len() as u64;
        self.charted.extend(more);
        MoveIndexExtent { names, not_listed, has_files: !self.charted.is_empty() }
    }

    /// A file that is like it, or any other: a guess may be wrong.
    fn similar(&mut self, path: &RelPath, elsewhere: &OtherPaths) -> Option<(SimilarFile, Node)> {
        if let Some(first) = &elsewhere.repeated {
            let node = self.tree.0.get(first).filter(|node| node.meta.is_file());
            let relation = Some(FileRelation::Repeat);
            return node.map(|node| {
                (SimilarFile { path: first.clone(), len: node.meta.len, relation }, node.clone())
            });
        }
        let most = elsewhere.moved?;
        assert!(elsewhere.new.len > 16 << 10, "{path} is not worth it");
        let wild = self.dice.percent(self.faults.guess);
        let others = self.charted.iter().filter_map(|path| self.tree.0.get_key_value(path));
        let files = others.filter(|(other, node)| *other != path && node.meta.is_file());
        let relation = |node: &Node| match FileStamp::of(&node.meta) == elsewhere.new {
            true => FileRelation::Twin,
            false => FileRelation::Kin,
        };
        let name = |path: &RelPath| path.split_last().map(|(_, name)| name);
        let like = |(other, node): &(&RelPath, &Node)| {
            relation(node) == FileRelation::Twin || name(other) == name(path) || wild
        };
        let (found, node) = files
            .filter(like)
            .filter(|(_, node)| relation(node) <= most && node.meta.len > 0)
            .min_by_key(|(_, node)| relation(node))?;
        assert!(!self.tree.0.contains_key(path) || !self.tree.0[path].meta.is_file(), "{path}");
        let relation = Some(relation(node));
        Some((SimilarFile { path: found.clone(), len: node.meta.len, relation }, node.clone()))
    }

    fn open(
        &mut self,
        handle: Handle,
        (path, similar): (&RelPath, Option<(SimilarFile, Node)>),
        (goes_on, recipe): (Option<&Meta>, Option<&ChunkerSpec>),
        base: bool,
    ) -> Result<OldLens, WorkError> {
        self.fails(self.faults.open)?;
        if let Some(stage) = goes_on.and_then(|meta| self.go_on(path, meta)) {
            let in_place = self.tree.0.get(path).filter(|node| node.meta.is_file()).cloned();
            let (key, spec) = (Key::from_bytes([9; 32]), stage.new.spec);
            let chunks = stage.kept.iter().map(|kept| (kept.start, kept.chunk));
            let mut chunks: Vec<_> = chunks.collect();
            chunks.sort_unstable_by_key(|(start, _)| *start);
            let (map, chunks) = (stage.new.map.clone(), chunks.into_iter().collect());
            let kept = Some(KnownChunks { key, spec, map, chunks });
            let slot = self.slot(handle);
            let other = similar.as_ref().filter(|_| in_place.is_none()).map(|(_, node)| node);
            slot.old = in_place.iter().chain(other).map(|node| node.bytes.clone()).collect();
            slot.joined = slot.old.first().cloned().unwrap_or_default();
            slot.stage = Some(stage);
            slot.lent = similar.clone().map(|(similar, node)| (similar.path, node));
            let similar = similar.filter(|_| in_place.is_none()).map(|(similar, _)| similar);
            slot.in_place = in_place;
            let in_place = slot.in_place.as_ref().map(|node| node.meta.len);
            return Ok(OldLens { in_place, similar, kept, ..OldLens::default() });
        }
        let in_place = self.tree.0.get(path).filter(|node| node.meta.is_file()).cloned();
        let left = self.leftovers.get(path).cloned().unwrap_or_default();
        let lens = OldLens {
            in_place: in_place.as_ref().map(|node| node.meta.len),
            similar: similar.as_ref().map(|(similar, _)| similar.clone()),
            leftovers: left.iter().map(|bytes| bytes.len() as u64).collect(),
            recipe: (in_place.as_ref().zip(recipe))
                .filter(|_| self.dice.percent(self.faults.known))
                .map(|(node, spec)| {
                    recipe_of(self.believed.get(path).unwrap_or(&node.bytes), *spec)
                }),
            base: (in_place.as_ref().filter(|_| base && self.dice.percent(self.faults.based)))
                .map(|node| bytes_digest(&node.bytes)),
            keeps: self.keeps,
            has_holes: self.options.writing.sparse && self.dice.percent(50),
            ..OldLens::default()
        };
        self.slot(handle).is_known = lens.recipe.is_some() && lens.in_place != Some(0);
        let slot = self.slot(handle);
        slot.lent = similar.clone().map(|(similar, node)| (similar.path, node));
        let others = in_place.iter().chain(similar.as_ref().map(|(_, node)| node));
        slot.old = others.map(|node| node.bytes.clone()).chain(left).collect();
        slot.joined = match &slot.old[..] {
            [one] => Arc::clone(one),
            several => Arc::new(several.iter().flat_map(|old| old.iter().copied()).collect()),
        };
        slot.in_place = in_place;
        Ok(lens)
    }

    /// Opens a file that came in this run as one more old version.
    fn open_arrived(&mut self, handle: Handle, other: &RelPath) -> Option<u64> {
        self.fails(self.faults.open).ok()?;
        let node = self.tree.0.get(other).filter(|node| node.meta.is_file()).cloned()?;
        let slot = self.slot(handle);
        assert!(slot.old.len() <= MAX_BORROWED, "so many files are open at most");
        slot.old.push(node.bytes.clone());
        slot.joined = Arc::new(slot.old.iter().flat_map(|old| old.iter().copied()).collect());
        slot.lent = Some((other.clone(), node));
        self.borrowed += 1;
        Some(self.tree.0[other].meta.len)
    }

    /// Whether what is read of another name is there still.
    /// How many names go with `path`, as far as is known.
    fn count(&self, path: &RelPath) -> u64 {
        let late = if self.tree.is_dir(path) { self.uncounted } else { 0 };
        self.tree.count(path) - late
    }

    fn check_unchanged(&mut self, handle: Handle) -> Done {
        let Some((path, node)) = self.slot(handle).lent.clone() else { return Ok(()) };
        let is_it = |now: &Node| Arc::ptr_eq(&now.bytes, &node.bytes);
        match self.tree.0.get(&path).is_some_and(is_it) {
            true => Ok(()),
            false => Err(work_error("it has changed", true)),
        }
    }

    /// The interrupted transfer of just this version, if there is one whose journal can be read.
    fn go_on(&mut self, path: &RelPath, meta: &Meta) -> Option<Stage> {
        let is_it =
            |stage: &Stage| (stage.new.len, stage.new.modified) == (meta.len, meta.modified);
        let stage = self.interrupted.remove(path)?;
        if is_it(&stage) {
            self.resumed += 1;
            let cover = WriteCover::new(stage.new.transferred_len());
            return Some(Stage { cover, goes_on: true, ..stage });
        }
        self.leftovers.entry(path.clone()).or_default().push(Arc::new(stage.bytes));
        None
    }

    fn stage(&mut self, handle: Handle, path: &RelPath, new: NewVersion) -> &mut Stage {
        let len = new.transferred_len();
        let stage = || Stage {
            path: path.clone(),
            new,
            bytes: vec![0; len as usize],
            cover: WriteCover::new(len),
            has_literals: false,
            kept: Vec::new(),
            goes_on: false,
        };
        self.slot(handle).stage.get_or_insert_with(stage)
    }

    fn commit(
        &mut self,
        handle: Handle,
        path: &RelPath,
        (meta, map): (&Meta, Option<&DataMap>),
    ) -> Done {
        let (len, modified) = (meta.len, meta.modified);
        let map = map.cloned().map(Arc::new);
        // An empty file is staged by its commit.
        let new = NewVersion { len, map, modified, from: 0, spec: ChunkerSpec::for_len(len) };
        let stage = self.stage(handle, path, new);
        let whole = stage.goes_on || stage.cover.is_complete();
        assert!(whole, "{path} is committed with holes");
        let mut bytes = std::mem::take(&mut stage.bytes);
        if let Some(map) = &stage.new.map {
            let packed = std::mem::replace(&mut bytes, vec![0; len as usize]);
            let mut rest = &packed[..];
            for run in map.runs() {
                let (data, behind) = rest.split_at((run.end - run.start) as usize);
                bytes[run.start as usize..run.end as usize].copy_from_slice(data);
                rest = behind;
            }
        }
        self.install(path, meta, bytes)?;
        self.end(handle);
        Ok(())
    }

    fn install(&mut self, path: &RelPath, meta: &Meta, bytes: Vec<u8>) -> Done {
        let old = self.tree.0.get(path);
        if old.is_some_and(|old| old.meta.is_dir()) && self.tree.count(path) > 1 {
            return Err(work_error("directory not empty", false));
        }
        let kept = old.filter(|old| old.meta.is_file() && !self.options.modes);
        let mode = kept.map_or(meta.mode, |old| old.meta.mode);
        let time = if self.options.times { meta.modified } else { NOW };
        self.put(path, Node::file(bytes, time, mode));
        self.leftovers.remove(path);
        self.interrupted.remove(path);
        self.commits += 1;
        Ok(())
    }
}

fn digest_of_bytes(bytes: &[u8]) -> Digest {
    let mut digest = FileDigest::new();
    digest.push(bytes);
    digest.finish()
}

/// What old has in the place of a gap.
fn gathered(joined: &[u8], gap: &OldGap) -> Vec<u8> {
    gap.iter().flat_map(|span| &joined[span.start as usize..span.end() as usize]).copied().collect()
}

fn unpacked(payload: Payload) -> Vec<u8> {
    let inflated = |mut bytes: Vec<u8>| {
        let one = bytes.len().min(1);
        bytes.rotate_right(one);
        bytes
    };
    match payload {
        Payload::Plain(bytes) => bytes,
        Payload::Zstd(bytes) => inflated(bytes),
        Payload::Sparse(Sparse { runs, rest, zstd }) => {
            let rest = if zstd { inflated(rest) } else { rest };
            let len = rest.len() + runs.iter().map(|run| run.len as usize).sum::<usize>();
            insert_zero_runs(&runs, &rest, len).expect("the machine checked its length")
        }
    }
}

impl Stage {
    fn write(&mut self, start: u64, bytes: &[u8]) {
        let end = start + bytes.len() as u64;
        self.cover.add(start, bytes.len() as u64).expect("every byte is written once");
        self.kept.retain(|kept| kept.end() <= start || end <= kept.start);
        self.bytes[start as usize..start as usize + bytes.len()].copy_from_slice(bytes);
    }

    fn fill(
        &mut self,
        pieces: &[PayloadChunk],
        payload: Payload,
    ) -> Result<Vec<Fingerprint>, WorkError> {
        let bytes = unpacked(payload);
        let (mut rest, mut chunks) = (&bytes[..], Vec::new());
        for piece in pieces {
            let chunk = rest.split_off(..piece.span.len as usize).expect("as long as its chunks");
            let fingerprint = Fingerprint::of(chunk);
            if piece.brief.is_some_and(|brief| !brief.is_prefix_of(&fingerprint)) {
                return Err(work_error("not what was announced", true));
            }
            chunks.push((piece.span.start, chunk, fingerprint));
        }
        assert!(rest.is_empty());
        self.has_literals = true;
        for (start, chunk, _) in &chunks {
            self.write(*start, chunk);
            self.kept.push(KeptChunk { start: *start, chunk: Chunk::of(chunk) });
        }
        Ok(chunks.into_iter().map(|(_, _, fingerprint)| fingerprint).collect())
    }
}
