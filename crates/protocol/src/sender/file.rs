//! One attempt at one file: scan it into a recipe, spell out the groups that are lacked, send the chunks that are needed.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use deltic_core::chunk::{ChunkerSpec, FixedLen, SegmentChunks};
use deltic_core::recipe::{Chunk, Group, Grouper};
use deltic_core::{Key, PrefixLen, Span, Strategy};
use deltic_tree::RelPath;

use crate::cutting::{Cutting, Part};
use crate::error::PeerError;
use crate::limits::{
    FILL_BYTES, GROUP_WINDOW, MAX_ATTEMPTS, MAX_BATCH, MAX_GROUPS, OFFERED_GROUPS,
    TOLD_BY_CHUNK_BYTES, WHOLE_BLOCK_BYTES,
};
use crate::message::{ChunkLine, ChunkLines, FileNo, GroupLine, How, Payload, ToReceiver};
use crate::report::{Trouble, TroubleKind};
use crate::work::{Handle, Turn};

use super::telling::Talk;
use super::{Bears, Body, Opened, Place, Sealed, Sealing, Sender, Sums, Work};

/// Reads under way for one file that is sent whole.
const WHOLE_READS: usize = 4;
/// Groups that are told together, at least, while more are to come: they fill a packet. A connection begins with a few
/// packets, however little they hold, and is as fast later as it was first.
const TOLD_TOGETHER: usize = 128;

pub(super) const CHANGED: &str = "it changed while it was read";
const SHORTER: &str = "it is shorter than what is to be added to";
const TOO_LONG: &str = "it is too long";
/// It is tried again, whole.
const TOO_MANY_GROUPS: &str = "its recipe has too many groups";

/// An attempt at a file.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) handle: Handle,
    how: How,
    pub(super) len: u64,
    pub(super) spec: ChunkerSpec,
    /// What a resumed transfer is cut by.
    agreed: Option<ChunkerSpec>,
    /// The recipe so far; shared with the sealing work at the end.
    pub(super) chunks: Arc<Vec<Chunk>>,
    /// Where each group starts.
    pub(super) groups: Vec<GroupStart>,
    pub(super) next_group: GroupStart,
    /// Up to where it was cut or searched, if it goes by a strategy of the papers.
    pub(super) scanned: u64,
    /// Present from when the file is open, if it goes by recipe. Most do not, and need no room for it.
    cutting: Option<Box<(Cutting, Grouper)>>,
    /// Groups that wait for the window to be told.
    untold: VecDeque<Group>,
    /// Whether all chunks are known and the proof was asked for.
    sealing: bool,
    /// The end of the recipe, as soon as it is known; it is said behind the last group.
    sealed: Option<Sealed>,
    /// Groups told and not answered, a range for each frame.
    told: VecDeque<Range<u32>>,
    /// Chunks spelled out and not answered, ranges for each frame.
    spelled: VecDeque<Vec<Range<u32>>>,
    pub(super) needs: VecDeque<Range<u32>>,
    pub(super) need_bytes: u64,
    pub(super) complete: bool,
    /// Bytes of all gaps that were asked for.
    pub(super) mended: u64,
    /// How many sums of old the receiver told.
    pub(super) old_sums: usize,
    whole: Whole,
    /// Bytes that the receiver has or that were sent.
    pub(super) settled: u64,
    /// All of it was read when it was opened: its handle holds nothing.
    pub(super) at_once: bool,
    /// Where it goes by a strategy of the papers.
    pub(super) talk: Option<Box<Talk>>,
}

/// How the transfer of a file began that goes on in this session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Resumed {
    pub(super) key: Key,
    pub(super) spec: ChunkerSpec,
}

impl Resumed {
    /// Whether a file of `len` bytes may have been cut so: as this program cuts it, whole or by recipe. A peer that could
    /// ask for smaller chunks could make us hold a longer recipe.
    pub(super) fn fits(&self, strategy: &Strategy, len: u64) -> bool {
        self.spec == whole_spec() || self.spec == strategy.chunker(len, None)
    }
}

/// Where an attempt begins.
#[derive(Clone, Copy, Debug)]
pub(super) enum Beginning {
    /// At the file's first byte.
    Anew,
    /// Where another session was interrupted.
    Resumed(Resumed),
    /// At this byte: the receiver has what is before.
    Behind(u64),
}

impl Beginning {
    pub(super) const fn resumed(self) -> Option<Resumed> {
        match self {
            Self::Resumed(resumed) => Some(resumed),
            Self::Anew | Self::Behind(_) => None,
        }
    }

    const fn start(self) -> u64 {
        match self {
            Self::Behind(start) => start,
            Self::Anew | Self::Resumed(_) => 0,
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct GroupStart {
    pub(super) start: u64,
    pub(super) chunk: u32,
}

/// How far the blocks of a file that is sent whole have been read.
#[derive(Debug, Default)]
struct Whole {
    /// Where the first of them begins.
    start: u64,
    next: u32,
    count: u32,
    /// Whether the receiver asked for them: then it has had `Start`, and they may overtake what follows.
    asked: bool,
    reading: usize,
    /// As far as blocks were asked for: nothing is reserved for the length of a file that may be all holes.
    blocks: Vec<Option<Chunk>>,
}

impl Outgoing {
    pub(super) fn new(handle: Handle, (how, begins): (How, Beginning), strategy: Strategy) -> Self {
        Self {
            agreed: begins.resumed().map(|resumed| resumed.spec),
            handle,
            how,
            len: 0,
            spec: whole_spec(),
            chunks: Arc::default(),
            groups: Vec::new(),
            next_group: GroupStart::default(),
            scanned: 0,
            cutting: None,
            untold: VecDeque::new(),
            sealing: false,
            sealed: None,
            told: VecDeque::new(),
            spelled: VecDeque::new(),
            needs: VecDeque::new(),
            need_bytes: 0,
            complete: false,
            mended: 0,
            old_sums: 0,
            whole: Whole { start: begins.start(), ..Whole::default() },
            settled: begins.start(),
            at_once: false,
            talk: Talk::new(strategy, how),
        }
    }

    pub(super) fn groups_unanswered(&self) -> u64 {
        self.told.iter().map(|range| u64::from(range.end - range.start)).sum()
    }

    /// How much of a chunk's fingerprint is told: of blocks, which all have one length, as much as may be.
    fn brief(&self) -> PrefixLen {
        match self.spec {
            ChunkerSpec::Fixed(_) => PrefixLen::MAX,
            ChunkerSpec::ByContent(..) => {
                PrefixLen::for_chunks(self.len / u64::from(self.spec.mean_len()))
            }
        }
    }

    /// The chunks of a range of groups.
    fn chunks_of(&self, groups: &Range<u32>) -> Range<u32> {
        let first = |group: u32| match self.groups.get(group as usize) {
            Some(start) => start.chunk,
            None => self.next_group.chunk,
        };
        first(groups.start)..first(groups.end)
    }

    pub(super) const fn how(&self) -> How {
        self.how
    }

    /// Whether what is sent of it answers a question, so that it may come in any order.
    pub(super) const fn answers(&self) -> bool {
        matches!(self.how, How::Recipe) || self.whole.asked
    }

    const fn comes_in_blocks(&self) -> bool {
        matches!(self.how, How::Whole | How::Tail)
    }

    /// The receiver asks for all blocks of a file that has several, once.
    fn need_all(&mut self, needed: &[Range<u32>]) -> Result<(), PeerError> {
        let Whole { count, asked, .. } = &mut self.whole;
        let is_all = *count > 1 && needed == std::slice::from_ref(&(0..*count));
        if !is_all || std::mem::replace(asked, true) {
            return Err(PeerError::Unexpected("need"));
        }
        Ok(())
    }

    /// Whether there are groups that are worth a frame, or the last ones.
    fn has_to_tell(&self) -> bool {
        self.untold.len() >= TOLD_TOGETHER || self.sealing && !self.untold.is_empty()
    }

    /// Whether all of a range of chunks have been told in groups.
    pub(super) fn offers(&self, chunks: &Range<u32>) -> bool {
        chunks.end <= self.next_group.chunk
    }

    /// The spans of a range of chunks.
    pub(super) fn spans(&self, chunks: &Range<u32>) -> impl Iterator<Item = Span> + '_ {
        let group = self.groups.partition_point(|start| start.chunk <= chunks.start) - 1;
        let GroupStart { start, chunk } = self.groups[group];
        let skipped = &self.chunks[chunk as usize..chunks.start as usize];
        let mut at = start + skipped.iter().map(|chunk| u64::from(chunk.len)).sum::<u64>();
        self.chunks[chunks.start as usize..chunks.end as usize].iter().map(move |chunk| {
            let span = Span::new(at, chunk.len);
            at = span.end();
            span
        })
    }

    pub(super) fn bytes_of(&self, chunks: &Range<u32>) -> u64 {
        let chunks = &self.chunks[chunks.start as usize..chunks.end as usize];
        chunks.iter().map(|chunk| u64::from(chunk.len)).sum()
    }

    /// Takes up to a fill's worth of chunks off what is needed.
    fn take_needs(&mut self) -> (Vec<Range<u32>>, u64) {
        let (mut taken, mut bytes) = (Vec::new(), 0);
        while let Some(mut range) = self.needs.pop_front() {
            let mut end = range.start;
            while end < range.end && (bytes == 0 || bytes < FILL_BYTES) {
                bytes += u64::from(self.chunks[end as usize].len);
                end += 1;
            }
            taken.push(range.start..end);
            range.start = end;
            if !range.is_empty() {
                self.needs.push_front(range);
            }
            if bytes >= FILL_BYTES || taken.len() == MAX_BATCH {
                break;
            }
        }
        self.need_bytes -= bytes;
        (taken, bytes)
    }
}

impl Sender {
    pub(super) fn opened(&mut self, handle: Handle, opened: Result<Opened, Trouble>) {
        let Opened { meta, body } = match opened {
            Ok(opened) => opened,
            Err(trouble) => return self.fail(handle, trouble),
        };
        let (rate, way) = (self.bits_per_second, self.options.way());
        let Some((file, outgoing)) = self.outgoing(handle) else { return };
        outgoing.len = meta.len;
        let how = outgoing.how;
        if how == How::Recipe {
            outgoing.spec = outgoing.agreed.unwrap_or_else(|| way.chunker(meta.len, None));
            let cutting = Cutting::new(&outgoing.spec, meta.len);
            outgoing.cutting = Some(Box::new((cutting, Grouper::new())));
        } else if let Some(talk) = &outgoing.talk {
            outgoing.spec = talk.ways.strategy.chunker(meta.len, rate);
        } else {
            let Some(rest) = meta.len.checked_sub(outgoing.whole.start) else {
                return self.fail_for(handle, SHORTER);
            };
            let blocks = u32::try_from(rest.div_ceil(u64::from(WHOLE_BLOCK_BYTES)));
            let Ok(count) = blocks else { return self.fail_for(handle, TOO_LONG) };
            outgoing.whole.count = count;
        }
        let (spec, len) = (outgoing.spec, meta.len);
        let is_offer = self.offering.is_told(file);
        self.frames.push_back(match is_offer {
            true => ToReceiver::Offer { file, meta, spec },
            false => ToReceiver::Start { file, meta, how, spec },
        });
        match (how, body) {
            (How::Whole, Some(body)) => self.send_body(file, len, body),
            (How::Whole, None) | (How::Tail, _) => self.read_blocks(handle),
            (How::Recipe, _) => self.cut(handle, Vec::new()),
            (How::Strategy | How::Stronger, _) => self.begin(file),
        }
    }

    /// Sends all of a file that is one block, or empty.
    fn send_body(&mut self, file: FileNo, len: u64, Body { payload, sealed }: Body) {
        let outgoing = self.files.get_mut(&file).expect("the caller has the attempt");
        (outgoing.complete, outgoing.at_once, outgoing.settled) = (true, true, len);
        if len > 0 {
            let chunks = std::iter::once(0..1).collect();
            self.frames.push_back(ToReceiver::Fill { file, chunks, payload });
        }
        self.frames.extend(ends(file, sealed));
        self.advance(file, len);
    }

    /// Goes on telling and scanning wherever the window of unanswered groups allows.
    pub(super) fn scan_more(&mut self) {
        for _ in 0..self.scanners.len() {
            let Some(file) = self.scanners.pop_front() else { return };
            self.tell(file);
            let Some(outgoing) = self.files.get_mut(&file) else { continue };
            if outgoing.has_to_tell() {
                self.scanners.push_back(file);
                continue;
            }
            let (handle, spec) = (outgoing.handle, outgoing.spec);
            let Some((cutting, _)) = outgoing.cutting.as_deref_mut() else { continue };
            while let Some((part, segment)) = cutting.next() {
                self.jobs.ask(Work::Scan { handle, spec, segment }, Place::Scan(handle, part));
            }
        }
    }

    pub(super) fn scanned(
        &mut self,
        handle: Handle,
        part: Part,
        run: Result<SegmentChunks<Chunk>, Trouble>,
    ) {
        let run = match run {
            Ok(run) => run,
            Err(trouble) => return self.fail(handle, trouble),
        };
        let Some((_, outgoing)) = self.outgoing(handle) else { return };
        let Some((cutting, _)) = outgoing.cutting.as_deref_mut() else { return };
        let certain = cutting.take(part, run);
        self.cut(handle, certain);
    }

    /// Takes the next chunks of the recipe; at its end asks for the proof.
    fn cut(&mut self, handle: Handle, certain: Vec<Chunk>) {
        let Some((file, outgoing)) = self.outgoing(handle) else { return };
        if outgoing.sealing {
            // A segment that was not needed: the one before reached over it.
            return;
        }
        let Some((cutting, grouper)) = outgoing.cutting.as_deref_mut() else { return };
        outgoing.untold.extend(certain.iter().filter_map(|chunk| grouper.push(chunk)));
        let complete = cutting.is_complete();
        if complete {
            outgoing.untold.extend(grouper.finish());
        }
        let chunks = Arc::get_mut(&mut outgoing.chunks).expect("only sealing shares the chunks");
        chunks.extend(certain);
        if outgoing.groups.len() + outgoing.untold.len() > MAX_GROUPS {
            return self.fail_for(handle, TOO_MANY_GROUPS);
        }
        outgoing.sealing = complete;
        let seal = complete.then(|| Arc::clone(&outgoing.chunks));
        self.scanners.push_back(file);
        if let Some(chunks) = seal {
            self.seal(handle, Sealing::Chunks(chunks));
        }
    }

    /// How the file may change in the last attempts.
    pub(super) fn bears(&self, file: FileNo) -> Bears {
        let attempts = self.entries.get(&file).map_or(0, |listing| listing.attempts);
        if attempts + 1 < MAX_ATTEMPTS { Bears::Nothing } else { Bears::Growth }
    }

    /// Asks for the proof of what was read.
    pub(super) fn seal(&mut self, handle: Handle, proof: Sealing) {
        let Some(file) = self.handles.get(&handle) else { return };
        let bears = self.bears(*file);
        self.jobs.ask(Work::Seal { handle, proof, bears }, Place::Seal(handle));
    }

    /// Tells groups as the window allows, and behind the last the end.
    fn tell(&mut self, file: FileNo) {
        let window = if self.offering.is_told(file) { OFFERED_GROUPS } else { GROUP_WINDOW };
        let Some(outgoing) = self.files.get_mut(&file) else { return };
        while outgoing.has_to_tell() && self.groups_out < window {
            let room = (window - self.groups_out).min(MAX_BATCH as u64) as usize;
            let batch: Vec<_> = outgoing.untold.drain(..room.min(outgoing.untold.len())).collect();
            if outgoing.len <= TOLD_BY_CHUNK_BYTES && outgoing.agreed.is_none() {
                self.frames.push_back(tell_chunks(file, outgoing, &batch));
            } else {
                self.groups_out += batch.len() as u64;
                self.frames.push_back(tell_groups(file, outgoing, &batch));
            }
        }
        if outgoing.untold.is_empty()
            && let Some(sealed) = outgoing.sealed.take()
        {
            outgoing.complete = true;
            self.frames.extend(ends(file, sealed));
            self.read_needs(file);
        }
    }

    pub(super) fn sealed(&mut self, handle: Handle, sealed: Result<Sealed, Trouble>) {
        let sealed = match sealed {
            Ok(sealed) => sealed,
            Err(trouble) => return self.fail(handle, trouble),
        };
        let Some((file, outgoing)) = self.outgoing(handle) else { return };
        outgoing.sealed = Some(sealed);
        self.tell(file);
    }

    /// The receiver lacks these of the groups that one frame told.
    pub(super) fn lack(&mut self, file: FileNo, lacked: &[Range<u32>]) -> Result<(), PeerError> {
        let outgoing = self.files.get_mut(&file).expect("the caller found the attempt");
        let told = outgoing.told.pop_front().ok_or(PeerError::Unexpected("lack"))?;
        within(lacked, std::slice::from_ref(&told))?;
        let lacked_bytes: u64 =
            lacked.iter().map(|groups| outgoing.bytes_of(&outgoing.chunks_of(groups))).sum();
        let told_bytes = outgoing.bytes_of(&outgoing.chunks_of(&told));
        outgoing.settled += told_bytes - lacked_bytes;
        let settled = outgoing.settled;
        let spelled = spell(file, outgoing, lacked);
        self.groups_out -= u64::from(told.end - told.start);
        self.frames.extend(spelled);
        self.advance(file, settled);
        self.read_needs(file);
        Ok(())
    }

    /// The receiver needs these of the chunks that one frame spelled out.
    pub(super) fn need(&mut self, file: FileNo, needed: Vec<Range<u32>>) -> Result<(), PeerError> {
        let outgoing = self.files.get_mut(&file).expect("the caller found the attempt");
        if outgoing.rolls() {
            outgoing.need_blocks(&needed)?;
            self.read_needs(file);
            return Ok(());
        }
        if outgoing.comes_in_blocks() {
            return outgoing.need_all(&needed);
        }
        let spelled = outgoing.spelled.pop_front().ok_or(PeerError::Unexpected("need"))?;
        within(&needed, &spelled)?;
        let spelled_bytes: u64 = spelled.iter().map(|chunks| outgoing.bytes_of(chunks)).sum();
        let needed_bytes: u64 = needed.iter().map(|chunks| outgoing.bytes_of(chunks)).sum();
        outgoing.settled += spelled_bytes - needed_bytes;
        outgoing.need_bytes += needed_bytes;
        outgoing.needs.extend(needed);
        let settled = outgoing.settled;
        self.advance(file, settled);
        self.read_needs(file);
        Ok(())
    }

    /// Reads what is needed: full fills at once, a last small one when nothing more can be asked for.
    pub(super) fn read_needs(&mut self, file: FileNo) {
        let (sums, zstd) = (Sums::Known, self.options.compress);
        let Some(outgoing) = self.files.get_mut(&file) else { return };
        if outgoing.holds_back() {
            return;
        }
        let answered = outgoing.told.is_empty() && outgoing.spelled.is_empty();
        let settled = outgoing.complete && answered && outgoing.is_named() || outgoing.rolls();
        let turn = outgoing.talk.as_ref().map_or(Turn::Any, |talk| talk.ways.delivery_turn());
        if turn == Turn::Own && !outgoing.needs.iter().is_sorted_by_key(|range| range.start) {
            outgoing.needs.make_contiguous().sort_unstable_by_key(|range| range.start);
        }
        while outgoing.need_bytes >= FILL_BYTES || settled && outgoing.need_bytes > 0 {
            let (chunks, bytes) = outgoing.take_needs();
            let spans = chunks.iter().flat_map(|chunks| outgoing.spans(chunks)).collect();
            let handle = outgoing.handle;
            let work = Work::Read { handle, spans, sums, zstd };
            self.jobs.ask_as(turn, work, Place::Read { handle, chunks, bytes });
        }
    }

    /// Reads the next blocks of a file that is sent whole, or seals it after the last.
    fn read_blocks(&mut self, handle: Handle) {
        let zstd = self.options.compress;
        let Some(file) = self.handles.get(&handle) else { return };
        let outgoing = self.files.get_mut(file).expect("handles name attempts");
        let whole = &mut outgoing.whole;
        while whole.reading < WHOLE_READS && whole.next < whole.count {
            let start = whole.start + u64::from(whole.next) * u64::from(WHOLE_BLOCK_BYTES);
            let len = (outgoing.len - start).min(u64::from(WHOLE_BLOCK_BYTES)) as u32;
            let work =
                Work::Read { handle, spans: vec![Span::new(start, len)], sums: Sums::Take, zstd };
            let chunks = std::iter::once(whole.next..whole.next + 1).collect();
            self.jobs.ask(work, Place::Read { handle, chunks, bytes: u64::from(len) });
            whole.blocks.push(None);
            whole.next += 1;
            whole.reading += 1;
        }
        if whole.reading == 0 && whole.next == whole.count {
            let chunks: Option<Vec<_>> = whole.blocks.iter().copied().collect();
            let proof = Sealing::Chunks(Arc::new(chunks.expect("every block was read")));
            self.seal(handle, proof);
        }
    }

    pub(super) fn read(
        &mut self,
        handle: Handle,
        (chunks, bytes): (Vec<Range<u32>>, u64),
        read: Result<(Payload, Vec<Chunk>), Trouble>,
    ) {
        let (payload, sums) = match read {
            Ok(read) => read,
            Err(trouble) => return self.fail(handle, trouble),
        };
        let Some((file, outgoing)) = self.outgoing(handle) else { return };
        outgoing.settled += bytes;
        let settled = outgoing.settled;
        let whole = outgoing.comes_in_blocks();
        if whole {
            outgoing.whole.reading -= 1;
            outgoing.whole.blocks[chunks[0].start as usize] = sums.first().copied();
        }
        self.frames.push_back(ToReceiver::Fill { file, chunks, payload });
        self.advance(file, settled);
        if whole {
            self.read_blocks(handle);
        }
    }

    /// Ends an attempt that may do better as another.
    pub(super) fn fail_for(&mut self, handle: Handle, why: &str) {
        let listing = self.handles.get(&handle).and_then(|file| self.entries.get(file));
        let Some(listing) = listing else { return };
        let words = |path: &str| format!("cannot send {path}: {why}");
        let trouble = Trouble::at(TroubleKind::Vanished, &listing.path, words);
        self.fail(handle, trouble);
    }

    /// The attempt that holds this handle, unless it has ended.
    pub(super) fn outgoing(&mut self, handle: Handle) -> Option<(FileNo, &mut Outgoing)> {
        let file = *self.handles.get(&handle)?;
        Some((file, self.files.get_mut(&file).expect("handles name attempts")))
    }
}

/// An interrupted transfer that this program would not have begun as it was.
pub(super) fn cut_otherwise(path: &RelPath) -> Trouble {
    Trouble::at(TroubleKind::Vanished, path, |path| {
        format!("cannot send {path}: it would not be cut as it was when it was interrupted")
    })
}

fn whole_spec() -> ChunkerSpec {
    ChunkerSpec::Fixed(FixedLen::new(WHOLE_BLOCK_BYTES).expect("a constant within the limits"))
}

/// What is said behind the last of a file.
fn ends(file: FileNo, Sealed { digest, restless }: Sealed) -> impl Iterator<Item = ToReceiver> {
    let restless = restless.then_some(ToReceiver::Restless { file });
    restless.into_iter().chain([ToReceiver::End { file, digest }])
}

/// The frame that tells new groups; notes which await an answer.
fn tell_groups(file: FileNo, outgoing: &mut Outgoing, groups: &[Group]) -> ToReceiver {
    let new = note_groups(outgoing, groups);
    outgoing.told.push_back(new);
    let line = |group: &Group| {
        let Group { len, chunks, fingerprint } = group;
        GroupLine { len: *len, chunks: *chunks, short: fingerprint.group_prefix() }
    };
    ToReceiver::Groups { file, groups: groups.iter().map(line).collect() }
}

/// The frame that tells the chunks of new groups; notes that they await an answer.
fn tell_chunks(file: FileNo, outgoing: &mut Outgoing, groups: &[Group]) -> ToReceiver {
    let new = note_groups(outgoing, groups);
    let chunks = outgoing.chunks_of(&new);
    outgoing.spelled.push_back(vec![chunks.clone()]);
    ToReceiver::Recipe { file, chunks: ChunkLines(lines(outgoing, chunks).collect()) }
}

/// Notes where new groups start; their numbers.
fn note_groups(outgoing: &mut Outgoing, groups: &[Group]) -> Range<u32> {
    let first = outgoing.groups.len() as u32;
    for group in groups {
        outgoing.groups.push(outgoing.next_group);
        outgoing.next_group.start += group.len;
        outgoing.next_group.chunk += group.chunks;
    }
    first..outgoing.groups.len() as u32
}

/// These chunks as they are told.
fn lines(outgoing: &Outgoing, chunks: Range<u32>) -> impl Iterator<Item = ChunkLine> + '_ {
    let brief = outgoing.brief();
    let chunks = &outgoing.chunks[chunks.start as usize..chunks.end as usize];
    chunks.iter().map(move |chunk| ChunkLine {
        len: chunk.len,
        brief: chunk.fingerprint.chunk_prefix(brief),
    })
}

/// Frames that spell out these groups; notes which chunks each awaits an answer for.
fn spell(file: FileNo, outgoing: &mut Outgoing, lacked: &[Range<u32>]) -> Vec<ToReceiver> {
    let mut frames = Vec::new();
    let mut groups: Vec<Range<u32>> = Vec::new();
    let mut spelled = Vec::new();
    let mut flush = |groups: &mut Vec<Range<u32>>, lines: &mut Vec<ChunkLine>| {
        if !groups.is_empty() {
            let (groups, chunks) = (std::mem::take(groups), std::mem::take(lines));
            frames.push(ToReceiver::Chunks { file, groups, chunks: ChunkLines(chunks) });
        }
    };
    for group in lacked.iter().flat_map(Clone::clone) {
        let chunks = outgoing.chunks_of(&(group..group + 1));
        if spelled.len() + chunks.len() > MAX_BATCH {
            flush(&mut groups, &mut spelled);
        }
        match groups.last_mut() {
            Some(last) if last.end == group => last.end += 1,
            _ => groups.push(group..group + 1),
        }
        spelled.extend(lines(outgoing, chunks));
    }
    flush(&mut groups, &mut spelled);
    for frame in &frames {
        let ToReceiver::Chunks { groups, .. } = frame else { continue };
        let awaited = groups.iter().map(|groups| outgoing.chunks_of(groups)).collect();
        outgoing.spelled.push_back(awaited);
    }
    frames
}

/// Checks that `asked` ascend and that each lies within one of `offered`, which ascend too.
fn within(asked: &[Range<u32>], offered: &[Range<u32>]) -> Result<(), PeerError> {
    let mut offers = offered.iter();
    let mut offer = offers.next();
    let mut floor = 0;
    for range in asked {
        while offer.is_some_and(|offer| offer.end < range.end) {
            offer = offers.next();
        }
        let fits = offer.is_some_and(|offer| offer.start <= range.start) && range.start >= floor;
        if !fits {
            return Err(PeerError::Unexpected("ranges that were not offered"));
        }
        floor = range.end;
    }
    Ok(())
}
