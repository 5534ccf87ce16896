//! The sender's hands: reads a tree that may change while it is read.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use deltic_core::chunk::{ChunkerSpec, SsCdc, TwoStage, cut_all};
use deltic_core::moved::MovedRun;
use deltic_core::recipe::{Chunk, FileDigest, digest_of, digest_of_changes, digest_of_data};
use deltic_core::search::SearchedRegion;
use deltic_core::zeros::remove_zero_runs;
use deltic_core::{
    AtEnd, BlockSumSpec, Chunker, Crc32c, DataMap, DeltaOp, Digest, GapDelta, Isa, Key, Searcher,
    Span, StrongSum,
};
use deltic_protocol::known::{Changed, Known, KnownRecipe};
use deltic_protocol::limits::{CHANGED_BLOCK_BYTES, Limits};
use deltic_protocol::message::{Payload, Sparse, TransferKind};
use deltic_protocol::report::{ReadReason, Trouble, TroubleKind};
use deltic_protocol::sender::{
    Body, Deltas, FileAnswer, FileSeal, FileWork, Gap, Listed, Opened, Sealing, Searched,
    SenderAnswer, SenderWork, Sums,
};
use deltic_protocol::summing::{Portion, Summed};
use deltic_protocol::sums::{PatchStep, Sum, Summing};
use deltic_protocol::work::Handle;
use deltic_tree::names::SortedNames;
use deltic_tree::{
    ComparedAttributes, DirDigest, DirDigestKey, DirHasher, Entry, Meta, Name, Names, RelPath,
};

use super::tree::{Node, Tree};
use super::{Dice, GAP_SEED};

/// Chances in percent that a piece of work goes wrong.
#[derive(Clone, Copy, Debug, Default)]
pub struct SourceFaults {
    /// Blocks that did not change are said to have, which is no fault.
    pub overstate: u64,
    pub list: u64,
    pub open: u64,
    pub scan: u64,
    pub seal: u64,
    pub read: u64,
    /// A read gives other bytes than are there.
    pub corrupt: u64,
    /// A file changes between two steps.
    pub change: u64,
}

pub struct Source {
    pub tree: Tree,
    pub own: Option<Meta>,
    /// The names at the root that are sent; all of them if `None`.
    pub roots: Option<HashSet<Name>>,
    pub faults: SourceFaults,
    /// What tallies are taken of.
    pub compared: ComparedAttributes,
    pub dice: Dice,
    /// Every content that a name ever had.
    pub versions: BTreeMap<RelPath, Vec<Arc<Vec<u8>>>>,
    pub changes: usize,
    /// Recipes are known without reading.
    pub knows: bool,
    /// The bounds that both ends agreed on.
    pub limits: Limits,
    /// Bytes read to be cut, and to be sent.
    pub scanned: u64,
    pub read: u64,
    /// Holes of files are told, and only data is transferred.
    pub tells_holes: bool,
    /// Files whose data alone is transferred.
    maps: BTreeMap<Handle, DataMap>,
    open: BTreeMap<Handle, (RelPath, Node)>,
    closed: BTreeSet<Handle>,
    pub opens: usize,
    /// Contents by the digests that both ends call them by.
    pub bases: BTreeMap<[u8; 32], Arc<Vec<u8>>>,
    /// The sums that storage is said to keep.
    pub keeps: Option<BlockSumSpec>,
    /// Regions that a search went through.
    pub joined: usize,
    /// Runs of blocks that were told as moved.
    pub moved: usize,
}

/// What one piece of work reads: now more, now less.
pub fn segment(dice: &mut Dice) -> usize {
    1 << dice.between(15, 19)
}

/// What is made of a portion of `bytes`, about a segment where it says no more, and which bytes that settled; nothing,
/// where there are fewer.
pub fn sum(
    summing: Summing,
    bytes: &[u8],
    portion: &Portion,
    segment: usize,
) -> Option<(Summed, Range<usize>)> {
    let sum = |chunk: &[u8]| {
        let strong = summing.strong.map_or(StrongSum::NONE, |strong| strong.sum_of(None, chunk));
        Sum { len: chunk.len() as u32, weak: summing.weak.of(chunk), strong }
    };
    let part = |range: &Range<u64>| bytes.get(range.start as usize..range.end as usize);
    let stages = || TwoStage::new(&summing.chunker).expect("it has two stages");
    Some(match portion {
        Portion::From(start) => {
            let chunker = summing.chunker.build();
            let from = bytes.len().min(*start as usize);
            let to = bytes.len().min(from + segment.max(chunker.max_len() + 1));
            let place = if to == bytes.len() { AtEnd::Yes } else { AtEnd::No };
            let mut sums = Vec::new();
            let consumed =
                cut_all(&chunker, &bytes[from..to], place, |chunk| sums.push(sum(chunk)));
            (Summed::Chunks(sums, place == AtEnd::Yes), from..from + consumed)
        }
        Portion::Chunks(start, lens) => {
            let end = start + lens.iter().map(|len| u64::from(*len)).sum::<u64>();
            let mut rest = part(&(*start..end))?;
            let sums =
                lens.iter().map(|len| sum(rest.split_off(..*len as usize).expect("a chunk")));
            (Summed::Chunks(sums.collect(), false), 0..0)
        }
        Portion::Segment(segment) => {
            let bytes = part(&(segment.own.start..segment.read_end))?;
            (Summed::Segment(segment.cut(&summing.chunker.build(), bytes, sum)), 0..0)
        }
        Portion::Digest(range) => {
            part(range)?;
            (Summed::Chunks(Vec::new(), false), range.start as usize..range.end as usize)
        }
        Portion::Boundaries(range) => {
            let stages = SsCdc::new(&summing.chunker, Isa::best()).expect("it has two stages");
            let bytes = part(&TwoStage::read(range))?;
            (Summed::Boundaries(stages.boundaries(range, bytes)), 0..0)
        }
        Portion::Ends(range, judge) => {
            let sums = (|_: &[u8]| Crc32c::EMPTY, |_: &[u8]| None);
            let bytes = part(&TwoStage::read(range))?;
            (Summed::SubChunks(stages().sub_chunks(range, bytes, *judge, sums)), 0..0)
        }
        Portion::SubChunks(range, judge) => {
            let sums = (Crc32c::of, |chunk: &[u8]| Some(summing.strong?.sum_of(None, chunk)));
            let bytes = part(&TwoStage::read(range))?;
            (Summed::SubChunks(stages().sub_chunks(range, bytes, *judge, sums)), 0..0)
        }
    })
}

/// As both ends take it.
pub fn tally_of(
    entries: &[Entry],
    compared: ComparedAttributes,
    content: impl Fn(&Name) -> Option<Digest>,
) -> DirDigest {
    let key = DirDigestKey::of(&Key::from_bytes([9; 32]));
    let mut hasher = DirHasher::new(&key, compared);
    for Entry { name, meta } in entries {
        let content = content(name).filter(|_| meta.is_file() && meta.len > 0);
        hasher.add(name.as_bytes(), meta, content.as_ref());
    }
    hasher.digest()
}

/// The digest that contents are compared by.
pub fn bytes_digest(bytes: &[u8]) -> Digest {
    let mut digest = FileDigest::new();
    digest.push(bytes);
    digest.finish()
}

/// These parts of a file, one behind the other, as far as the file goes.
pub fn packed(bytes: &[u8], runs: &[Range<u64>]) -> Vec<u8> {
    let part = |run: &Range<u64>| {
        let end = bytes.len().min(run.end as usize);
        &bytes[end.min(run.start as usize)..end]
    };
    runs.iter().flat_map(part).copied().collect()
}

fn trouble(kind: TroubleKind, message: &str) -> Trouble {
    Trouble::new(kind, message)
}

impl Source {
    pub fn new(tree: Tree, own: Option<Meta>, dice: Dice) -> Self {
        let versions = tree.0.iter().map(|(path, node)| (path.clone(), vec![node.bytes.clone()]));
        Self {
            versions: versions.collect(),
            tree,
            own,
            roots: None,
            faults: SourceFaults::default(),
            compared: ComparedAttributes::default(),
            dice,
            changes: 0,
            tells_holes: false,
            maps: BTreeMap::new(),
            open: BTreeMap::new(),
            closed: BTreeSet::new(),
            knows: false,
            limits: Limits::default(),
            scanned: 0,
            read: 0,
            opens: 0,
            bases: BTreeMap::new(),
            keeps: None,
            joined: 0,
            moved: 0,
        }
    }

    pub fn is_idle(&self) -> bool {
        self.open.is_empty()
    }

    pub fn perform(&mut self, work: SenderWork) -> SenderAnswer {
        match work {
            SenderWork::Digest { paths } => {
                SenderAnswer::Digested(paths.iter().map(|path| self.digest(path)).collect())
            }
            // No case asks for it.
            SenderWork::RemoveSource { .. } => unreachable!("{work:?}"),
            SenderWork::Ask(_) => SenderAnswer::Asked(false),
            SenderWork::List { dir, tally, rest } => {
                SenderAnswer::Listed(self.list(&dir, tally, rest))
            }
            SenderWork::Open { handle, path, how, base, .. } => {
                assert!(!self.closed.contains(&handle), "opened after its end");
                self.opens += 1;
                let opened = self.open(handle, &path);
                SenderAnswer::Opened(opened.and_then(|meta| {
                    let at_once = how == TransferKind::Whole
                        && meta.len <= u64::from(self.limits.block_bytes());
                    let body = (at_once && self.dice.percent(80)).then(|| self.body(&path));
                    let body = body.transpose()?;
                    if body.is_some() {
                        self.open.remove(&handle);
                        self.closed.insert(handle);
                    }
                    let changed = base.and_then(|base| self.changed(&handle, &base));
                    let reason = Some(ReadReason::NoBase);
                    let mut known = Known { changed, reason, ..self.known(&handle) };
                    let may_tell =
                        how == TransferKind::Recipe || how == TransferKind::Whole && !at_once;
                    if self.tells_holes && may_tell && known.changed.is_none() {
                        known.map = self.map(handle);
                        known.recipe = known.recipe.filter(|_| known.map.is_none());
                    }
                    Ok(Opened { meta, body, known })
                }))
            }
            SenderWork::File(FileWork::Scan { handle, spec, segment }) => {
                let bytes = self.bytes(handle, self.faults.scan);
                SenderAnswer::File(FileAnswer::Scanned(bytes.and_then(|bytes| {
                    let read = bytes.get(segment.own.start as usize..segment.read_end as usize);
                    let read = read.ok_or_else(|| trouble(TroubleKind::Vanished, "shrunk"))?;
                    self.scanned += read.len() as u64;
                    Ok(segment.cut(&spec.build(), read, Chunk::of))
                })))
            }
            SenderWork::File(FileWork::Sum { handle, summing, portion, mut digest }) => {
                let read = self.bytes(handle, self.faults.scan);
                SenderAnswer::File(FileAnswer::Summed(read.and_then(|bytes| {
                    let summed = sum(summing, &bytes, &portion, segment(&mut self.dice));
                    let gone = || trouble(TroubleKind::Vanished, "shrunk");
                    let (summed, settled) = summed.ok_or_else(gone)?;
                    digest.iter_mut().for_each(|digest| digest.push(&bytes[settled.clone()]));
                    Ok((summed, digest))
                })))
            }
            SenderWork::File(FileWork::Hash { handle, strong, spans }) => {
                let read = self.bytes(handle, self.faults.read);
                SenderAnswer::File(FileAnswer::Hashed(read.and_then(|bytes| {
                    let sum = |span: &Span| {
                        let piece = bytes.get(span.start as usize..span.end() as usize);
                        let piece =
                            piece.ok_or_else(|| trouble(TroubleKind::Vanished, "read: shrunk"))?;
                        Ok(strong.sum_of(None, piece))
                    };
                    spans.iter().map(sum).collect()
                })))
            }
            SenderWork::File(FileWork::Search { handle, start, search, digest }) => {
                let read = self.bytes(handle, self.faults.scan);
                let by = (search.searcher(None), None);
                let searched = read.map(|bytes| self.search(&bytes, (start, by), digest));
                SenderAnswer::File(FileAnswer::Searched(searched))
            }
            SenderWork::File(FileWork::Join { handle, start, searcher, region, digest }) => {
                self.joined += 1;
                let read = self.bytes(handle, self.faults.scan);
                let by = (searcher, Some(region));
                let searched = read.map(|bytes| self.search(&bytes, (start, by), digest));
                SenderAnswer::File(FileAnswer::Searched(searched))
            }
            SenderWork::File(FileWork::Find { handle, region, blocks }) => {
                let read = self.bytes(handle, self.faults.scan);
                SenderAnswer::File(FileAnswer::Found(read.map(|bytes| {
                    let read = blocks.bytes_to_read(&region, bytes.len() as u64);
                    let from = bytes.len().min(read.start as usize);
                    let to = bytes.len().min(read.end as usize).max(from);
                    blocks.find(region, &bytes[from..to], None)
                })))
            }
            SenderWork::File(FileWork::Seal { handle, proof, .. }) => {
                let sealed = self.bytes(handle, self.faults.seal).and_then(|_| {
                    let (path, opened) = &self.open[&handle];
                    let same = self.tree.0.get(path).is_some_and(|node| node == opened);
                    let changed = || trouble(TroubleKind::Vanished, "changed");
                    let digest = match &proof {
                        Sealing::Chunks(chunks) => {
                            let (digest, map) = (digest_of(chunks.iter()), self.maps.get(&handle));
                            map.map_or(digest, |map| digest_of_data(&digest, map))
                        }
                        Sealing::Bytes(digest) => *digest,
                        Sealing::Nothing => FileSeal::UNPROVEN.digest,
                        Sealing::Changes(base, moved, blocks) => {
                            self.moved += moved.len();
                            digest_of_changes(base, opened.meta.len, moved, &**blocks)
                        }
                    };
                    if same { Ok(digest.into()) } else { Err(changed()) }
                });
                SenderAnswer::File(FileAnswer::Sealed(sealed))
            }
            SenderWork::File(FileWork::Read { handle, spans, sums }) => {
                let read = self.bytes(handle, self.faults.read);
                self.read += spans.iter().map(|span| u64::from(span.len)).sum::<u64>();
                SenderAnswer::File(FileAnswer::Read(
                    read.and_then(|bytes| self.read(&bytes, &spans, sums)),
                ))
            }
            SenderWork::File(FileWork::Mend { handle, gaps }) => {
                let read = self.bytes(handle, self.faults.read);
                self.read += gaps.iter().map(|gap| u64::from(gap.span.len)).sum::<u64>();
                SenderAnswer::File(FileAnswer::Mended(
                    read.and_then(|bytes| self.mend(&bytes, &gaps)),
                ))
            }
            SenderWork::Close { handle } => {
                self.open.remove(&handle);
                self.maps.remove(&handle);
                assert!(self.closed.insert(handle), "closed twice");
                SenderAnswer::Closed
            }
        }
    }

    /// The facts about a file that was opened.
    fn known(&self, handle: &Handle) -> Known {
        let Some((_, node)) = self.open.get(handle).filter(|_| self.knows) else {
            return Known { keeps: self.keeps, ..Known::default() };
        };
        let (spec, mut chunks) = (ChunkerSpec::for_len(node.meta.len), Vec::new());
        cut_all(&spec.build(), &node.bytes, AtEnd::Yes, |chunk| chunks.push(Chunk::of(chunk)));
        let recipe = Some(KnownRecipe { spec, chunks: Arc::new(chunks) });
        Known { recipe, keeps: self.keeps, ..Known::default() }
    }

    /// Its differences from a base; some of what changed may be all the same, and some of it may have moved.
    fn changed(&mut self, handle: &Handle, base: &Digest) -> Option<Changed> {
        let old = Arc::clone(self.bases.get(base.as_bytes())?);
        let (_, node) = self.open.get(handle)?;
        let new = Arc::clone(&node.bytes);
        let block = self.dice.between(64, 3 * CHANGED_BLOCK_BYTES as usize);
        let mut changed = Vec::<Range<u64>>::new();
        for (at, bytes) in new.chunks(block).enumerate().map(|(no, bytes)| (no * block, bytes)) {
            let is_same = old.get(at..at + bytes.len()) == Some(bytes);
            let range = at as u64..(at + bytes.len()) as u64;
            match changed.last_mut() {
                _ if is_same && !self.dice.percent(self.faults.overstate) => {}
                Some(last) if last.end == range.start => last.end = range.end,
                _ => changed.push(range),
            }
        }
        let all = Changed { ranges: changed, moved: Vec::new() };
        Some(if self.dice.percent(70) { moved(all, &old, &new) } else { all })
    }

    /// A segment or a region, each step of the search a patch of its own.
    fn search(
        &mut self,
        bytes: &[u8],
        (start, (mut searcher, region)): (u64, (Box<Searcher>, Option<Box<SearchedRegion>>)),
        mut digest: Option<Box<FileDigest>>,
    ) -> Searched {
        let from = bytes.len().min(start as usize);
        let to = match &region {
            Some(region) => {
                searcher.blocks().bytes_to_read(region.range(), bytes.len() as u64).end as usize
            }
            None => from + segment(&mut self.dice),
        };
        let to = bytes.len().min(to).max(from);
        let (piece, at_end) = (&bytes[from..to], to == bytes.len());
        let (place, mut ops) = (if at_end { AtEnd::Yes } else { AtEnd::No }, Vec::new());
        let each = |op| ops.push(op);
        let consumed = match &region {
            Some(region) => searcher.search_region(piece, place, (region, None), each),
            None => searcher.search(piece, place, each),
        };
        digest.iter_mut().for_each(|digest| digest.push(&piece[..consumed]));
        let mut patches = Vec::new();
        for op in ops {
            match op {
                DeltaOp::Copy { old, .. } => {
                    let block = searcher.block_len();
                    let first = (old.start / u64::from(block)) as u32;
                    let step = PatchStep::Copy(first..first + old.len.div_ceil(block));
                    patches.push((vec![step], Payload::Plain(Vec::new())));
                }
                DeltaOp::Literal { new } => {
                    let literal = &bytes[new.start as usize..new.end() as usize];
                    for piece in literal.chunks(self.limits.fill_bytes() as usize) {
                        let step = PatchStep::Literal(piece.len() as u32);
                        patches.push((vec![step], self.packed(piece.to_vec())));
                    }
                }
            }
        }
        Searched { patches, consumed: consumed as u64, at_end, searcher, digest }
    }

    /// A directory, in parts of any length.
    fn list(
        &mut self,
        dir: &RelPath,
        tally: bool,
        rest: Option<Box<SortedNames>>,
    ) -> Result<Listed, Trouble> {
        if self.dice.percent(self.faults.list) || !self.tree.is_dir(dir) {
            return Err(trouble(TroubleKind::Failed, "list: denied"));
        }
        let mut entries = self.tree.children(dir);
        if let (true, Some(roots)) = (dir.is_root(), &self.roots) {
            entries.retain(|entry| roots.contains(&entry.name));
        }
        let own = self.own.clone().filter(|_| dir.is_root() && rest.is_none());
        if let Some(rest) = rest {
            let names: HashSet<_> = rest.collect();
            entries.retain(|entry| names.contains(&entry.name));
        }
        let mut untold = Names::default();
        if self.dice.percent(20) {
            let some = self.dice.below(entries.len() + 1);
            for entry in entries.drain(some..) {
                untold.push(&entry.name).unwrap();
            }
        }
        let rest = (!untold.is_empty()).then(|| Box::new(untold.into_iter()));
        let content = |name: &Name| self.tree.content(&dir.join(name).ok()?);
        let tally = tally && rest.is_none();
        let tally = tally.then(|| tally_of(&entries, self.compared, content));
        Ok(Listed { own, entries, tally, rest, ..Listed::default() })
    }

    fn open(&mut self, handle: Handle, path: &RelPath) -> Result<Meta, Trouble> {
        if self.dice.percent(self.faults.open) {
            return Err(trouble(TroubleKind::Failed, "open: denied"));
        }
        let node = self.tree.0.get(path).filter(|node| node.meta.is_file());
        let node = node.ok_or_else(|| trouble(TroubleKind::Vanished, "open: gone"))?.clone();
        self.open.insert(handle, (path.clone(), node.clone()));
        let mut meta = node.meta;
        // An open file is nobody's name.
        meta.set_hard_link(None);
        Ok(meta)
    }

    /// Of all bytes that it has now.
    fn digest(&mut self, path: &RelPath) -> Option<Digest> {
        let fails = self.dice.percent(self.faults.read);
        let node = self.tree.0.get(path).filter(|node| node.meta.is_file() && !fails)?;
        Some(bytes_digest(&node.bytes))
    }

    /// All of a short file, as it was when it was opened.
    fn body(&mut self, path: &RelPath) -> Result<Body, Trouble> {
        let bytes = Arc::clone(&self.tree.0[path].bytes);
        let spans = [Span::new(0, bytes.len() as u32)];
        let chunks: Vec<_> = (!bytes.is_empty()).then(|| Chunk::of(&bytes)).into_iter().collect();
        if chunks.is_empty() {
            let payload = Payload::Plain(Vec::new());
            return Ok(Body { payload, sealed: digest_of([]).into() });
        }
        let (payload, _) = self.read(&bytes, &spans, Sums::Known)?;
        Ok(Body { payload, sealed: digest_of(&chunks).into() })
    }

    /// What a read sees now, which need not be what was opened.
    fn bytes(&mut self, handle: Handle, fault: u64) -> Result<Arc<Vec<u8>>, Trouble> {
        let (path, _) = self.open.get(&handle).expect("only open handles are worked with");
        if self.dice.percent(fault) {
            return Err(trouble(TroubleKind::Failed, "read: bad sector"));
        }
        let node = self.tree.0.get(path).filter(|node| node.meta.is_file());
        let node = node.ok_or_else(|| trouble(TroubleKind::Vanished, "read: gone"))?;
        let packed = |map: &DataMap| Arc::new(packed(&node.bytes, map.runs()));
        Ok(self.maps.get(&handle).map_or_else(|| Arc::clone(&node.bytes), packed))
    }

    /// The data of a file that was opened, as its storage may tell: what is not is zeros.
    fn map(&mut self, handle: Handle) -> Option<DataMap> {
        let (_, node) = self.open.get(&handle)?;
        let (bytes, mut runs, mut at) = (Arc::clone(&node.bytes), Vec::new(), 0);
        for run in bytes.chunk_by(|one, next| (*one == 0) == (*next == 0)) {
            let range = at..at + run.len() as u64;
            at = range.end;
            if run[0] != 0 {
                runs.push(range);
            }
        }
        let (least, most) = (self.dice.between(1, 300) as u64, self.dice.between(1, 20));
        let map = DataMap::of_large_holes(&runs, at, least, most);
        self.dice.percent(80).then(|| self.maps.insert(handle, map.clone()));
        self.maps.get(&handle).cloned()
    }

    fn read(
        &mut self,
        bytes: &[u8],
        spans: &[Span],
        sums: Sums,
    ) -> Result<(Payload, Vec<Chunk>), Trouble> {
        let (mut payload, mut chunks) = (Vec::new(), Vec::new());
        for span in spans {
            let piece = bytes.get(span.start as usize..span.end() as usize);
            let piece = piece.ok_or_else(|| trouble(TroubleKind::Vanished, "read: shrunk"))?;
            if sums == Sums::Take {
                chunks.push(Chunk::of(piece));
            }
            payload.extend_from_slice(piece);
        }
        Ok((self.packed(payload), chunks))
    }

    fn mend(&mut self, bytes: &[u8], gaps: &[Gap]) -> Result<Deltas, Trouble> {
        let (mut deltas, mut compared) = (Vec::new(), 0);
        for Gap { span, sums } in gaps {
            let new = bytes.get(span.start as usize..span.end() as usize);
            let new = new.ok_or_else(|| trouble(TroubleKind::Vanished, "read: shrunk"))?;
            let (delta, count) = GapDelta::with_comparison_count(new, sums, GAP_SEED);
            delta.encode(&mut deltas);
            compared += count;
        }
        let bytes = deltas.len() as u32;
        Ok(Deltas { payload: self.packed(deltas), bytes, compared })
    }

    /// As it travels; not always what it was.
    fn packed(&mut self, mut bytes: Vec<u8>) -> Payload {
        if self.dice.percent(self.faults.corrupt) {
            let at = self.dice.below(bytes.len());
            bytes[at] ^= 1;
        }
        let (sparse, zstd) = (self.dice.percent(50), self.dice.percent(20));
        let (runs, mut bytes) = if sparse { remove_zero_runs(bytes) } else { (Vec::new(), bytes) };
        let one = usize::from(zstd).min(bytes.len());
        bytes.rotate_left(one);
        match zstd {
            _ if !runs.is_empty() => Payload::Sparse(Sparse { runs, rest: bytes, zstd }),
            true => Payload::Zstd(bytes),
            false => Payload::Plain(bytes),
        }
    }

    /// Somebody edits a file.
    pub fn change(&mut self) {
        if !self.dice.percent(self.faults.change) {
            return;
        }
        let files: Vec<_> = self.tree.0.iter().filter(|(_, node)| node.meta.is_file()).collect();
        if files.is_empty() {
            return;
        }
        let (path, node) = *self.dice.pick(&files);
        let (path, mut node) = (path.clone(), node.clone());
        self.changes += 1;
        if self.dice.percent(10) {
            self.tree.0.remove(&path);
            return;
        }
        let mut bytes = node.bytes.to_vec();
        super::case::edit(&mut self.dice, &mut bytes);
        node.meta.len = bytes.len() as u64;
        node.meta.modified.nanos = (node.meta.modified.nanos + 1) % 1_000_000_000;
        node.bytes = Arc::new(bytes);
        self.versions.entry(path.clone()).or_default().push(node.bytes.clone());
        self.tree.0.insert(path, node);
    }
}

/// The same, with blocks that the old version has elsewhere told as such.
fn moved(changed: Changed, old: &[u8], new: &[u8]) -> Changed {
    let block = CHANGED_BLOCK_BYTES as usize;
    let known: HashMap<&[u8], u32> = old.chunks_exact(block).zip(0..).collect();
    let (mut ranges, mut runs) = (Vec::<Range<u64>>::new(), Vec::<MovedRun>::new());
    for range in changed.ranges {
        let mut at = range.start as usize;
        while at < range.end as usize {
            let end = (at / block + 1) * block;
            let is_whole = at.is_multiple_of(block) && end <= range.end as usize;
            let end = end.min(range.end as usize);
            let (to, from) = ((at / block) as u32, known.get(&new[at..end]).copied());
            match from.filter(|from| is_whole && *from != to) {
                Some(from) => match runs.last_mut() {
                    Some(last) if last.end() == to.into() && last.old_end() == from.into() => {
                        last.blocks += 1;
                    }
                    _ => runs.push(MovedRun { to, from, blocks: 1 }),
                },
                None => match ranges.last_mut() {
                    Some(last) if last.end == at as u64 => last.end = end as u64,
                    _ => ranges.push(at as u64..end as u64),
                },
            }
            at = end;
        }
    }
    Changed { ranges, moved: runs }
}
