//! Workers that sync two files in memory: a small model of a browser's workers.

use std::collections::HashMap;
use std::convert::Infallible;

use deltic_core::recipe::digest_of;
use deltic_core::strategy::CompressionChoice;
use deltic_core::{Fingerprinter, Key, Span};
use deltic_engine::assemble::{self, BlockPieces, WriteBlock, WriteBuffer};
use deltic_engine::check::{all_proven, chunks, small_digest};
use deltic_engine::gap::{GapBlockSums, GapDeltas, GapRebuild};
use deltic_engine::pack::{PayloadPacker, unpacked};
use deltic_engine::sums::WholeDigest;
use deltic_engine::{Task, run, scan};
use deltic_protocol::message::Payload;
use deltic_protocol::options::Options;
use deltic_protocol::receiver::{self, Charted, CopyRun, OldLens, Piece, Unlisted, Unseen};
use deltic_protocol::report::{Trouble, TroubleKind};
use deltic_protocol::sender::{self, Listed, Opened, Sealed, Sealing, Sums};
use deltic_protocol::work::{Handle, Setback, Then};
use deltic_protocol::{Hello, Terms, negotiate};
use deltic_tree::{Entry, Kind, Meta, Name, RelPath, Timestamp};

/// Terms that both ends agreed on.
#[derive(Clone)]
pub(crate) struct SharedTerms {
    names: Fingerprinter,
    gap_seed: u64,
    packing: PayloadPacker,
}

impl SharedTerms {
    /// Negotiates the terms of two equal ends.
    pub(crate) fn new(options: &Options) -> Self {
        let hello = Hello::ours(Key::from_bytes([7; 32]));
        let terms: Terms = negotiate(&hello, &hello).expect("equal ends agree");
        Self {
            names: terms.fingerprinter(&options.strategy),
            gap_seed: terms.gap_seed(),
            packing: PayloadPacker::new(CompressionChoice::AsAsked, terms.zeros(&options.strategy)),
        }
    }
}

/// Returns the metadata of a file. The time is derived from the content, so that equal times mean equal content.
pub(crate) fn meta(bytes: &[u8]) -> Meta {
    let secs = bytes.iter().fold(1_i64, |sum, byte| (31 * sum + i64::from(*byte)) % 1_000_003);
    Meta::plain(Kind::File, bytes.len() as u64, Timestamp { secs, nanos: 0 }, 0o644)
}

fn dir() -> Meta {
    Meta::plain(Kind::Dir, 0, Timestamp::default(), 0o755)
}

/// Runs a task on bytes in memory. Spans are positions in `bytes`.
fn perform<T: Task>(bytes: &[u8], task: T) -> Result<T::Output, T::Error> {
    let mut buffer = vec![0; task.most_read()];
    let read = |spans: &[Span], into: &mut [u8]| {
        let mut got = 0;
        for span in spans {
            let end = bytes.len().min(span.end() as usize);
            let part = &bytes[end.min(span.start as usize)..end];
            into[got..got + part.len()].copy_from_slice(part);
            got += part.len();
        }
        Ok::<_, Infallible>(got)
    };
    let Ok(done) = run(task, &mut buffer, read);
    done
}

fn part(bytes: &[u8], span: Span) -> &[u8] {
    &bytes[span.start as usize..span.end() as usize]
}

/// The sender's file with a worker.
pub(crate) struct MemorySource {
    pub(crate) agreed: SharedTerms,
    pub(crate) bytes: Vec<u8>,
}

impl MemorySource {
    pub(crate) fn perform(&mut self, work: sender::Work) -> sender::Answer {
        use sender::{Answer, Work};
        let Self { agreed, bytes } = self;
        match work {
            Work::List { .. } => {
                let name = Name::new(b"file").expect("it is a name");
                let entries = vec![Entry { name, meta: meta(bytes) }];
                Answer::Listed(Ok(Listed { own: Some(dir()), entries, ..Listed::default() }))
            }
            Work::Open { .. } => Answer::Opened(Ok(Opened {
                meta: meta(bytes),
                body: None,
                known: deltic_protocol::known::Known::default(),
            })),
            Work::Scan { spec, segment, .. } => {
                let read = &bytes[segment.own.start as usize..segment.read_end as usize];
                Answer::Scanned(Ok(scan::cut(&spec, &agreed.names, &segment, read)))
            }
            Work::Seal { proof, .. } => Answer::Sealed(Ok(Sealed::from(match proof {
                Sealing::Chunks(chunks) => digest_of(chunks.iter()),
                Sealing::Bytes(digest) => digest,
                Sealing::Changes(..) => unreachable!("no base was known"),
            }))),
            Work::Read { spans, sums, .. } => {
                let read: Vec<u8> =
                    spans.iter().flat_map(|span| part(bytes, *span)).copied().collect();
                let named = match sums {
                    Sums::Take => chunks(&agreed.names, &spans, &read),
                    Sums::Known => Vec::new(),
                };
                Answer::Read(Ok((agreed.packing.pack_as_asked(read, None), named)))
            }
            Work::Mend { gaps, .. } => {
                let told = perform(bytes, GapDeltas::new(&gaps, agreed.gap_seed));
                let (deltas, compared) = told.expect("memory does not shrink");
                let len = deltas.len() as u32;
                let payload = agreed.packing.pack_as_asked(deltas, None);
                Answer::Mended(Ok(sender::Deltas { payload, bytes: len, compared }))
            }
            Work::Close { .. } => Answer::Closed,
            other => unreachable!("no case asks for {other:?}"),
        }
    }
}

/// The receiver's file, if any, with a worker.
pub(crate) struct MemoryDestination {
    pub(crate) agreed: SharedTerms,
    pub(crate) file: Option<Vec<u8>>,
    growing: HashMap<Handle, NewVersion>,
    /// Literal bytes received.
    pub(crate) literal: u64,
}

/// A new version that is being written.
struct NewVersion {
    buffer: WriteBuffer,
    bytes: Vec<u8>,
}

type Done<T> = Result<T, Setback>;

fn unproven() -> Setback {
    let trouble =
        Trouble::new(TroubleKind::Failed, "content does not match the announced fingerprints");
    Setback { trouble, then: Then::Retry }
}

impl MemoryDestination {
    pub(crate) fn new(agreed: SharedTerms, file: Option<Vec<u8>>) -> Self {
        Self { agreed, file, growing: HashMap::new(), literal: 0 }
    }

    pub(crate) fn perform(&mut self, work: receiver::Work) -> receiver::Answer {
        use receiver::{Answer, Work};
        let old = self.file.as_deref().unwrap_or_default();
        match work {
            Work::Look { paths, .. } => {
                let found = paths.iter().map(|path| Ok(self.look(path)));
                Answer::Looked(found.collect(), (Vec::new(), Vec::new()))
            }
            Work::Extra { .. } => Answer::Extra(Ok(Unlisted::default())),
            Work::Chart { .. } => {
                Answer::Charted(Charted { names: 0, unseen: Unseen::Nothing, has_files: false })
            }
            Work::OpenOld { .. } => {
                let in_place = self.file.as_ref().map(|file| file.len() as u64);
                Answer::Opened(Ok(Box::new(OldLens { in_place, ..OldLens::default() })))
            }
            Work::Index { segment, spec, .. } => {
                let read = &old[segment.own.start as usize..segment.read_end as usize];
                Answer::Indexed(Ok(scan::cut(&spec, &self.agreed.names, &segment, read)))
            }
            Work::Survey { gaps, .. } => {
                let Ok(sums) = perform(old, GapBlockSums::new(&gaps, self.agreed.gap_seed));
                Answer::Surveyed(Ok(sums))
            }
            Work::Copy { handle, new, runs, .. } => {
                self.place((handle, new.len), copies(&runs));
                Answer::Copied(Ok(()))
            }
            Work::Repeat { handle, runs, .. } => {
                self.repeat(handle, &runs);
                Answer::Copied(Ok(()))
            }
            Work::Write { handle, new, pieces, payload, between, .. } => {
                Answer::Written(self.write((handle, new.len), &pieces, &payload, &between))
            }
            Work::Mend { handle, new, gaps, bytes, payload, .. } => {
                Answer::Mended(self.rebuild((handle, new.len), &gaps, (bytes, &payload)))
            }
            Work::Commit { handle, proof, .. } => Answer::Done(self.commit(handle, &proof)),
            Work::Confirm { proof, .. } => Answer::Done(proven(old, &proof)),
            Work::Replace(small) => Answer::Done(self.replace(&small)),
            Work::Abandon { handle } => {
                self.growing.remove(&handle);
                Answer::Done(Ok(()))
            }
            Work::SetDirs { .. } => Answer::SetDirs(Vec::new()),
            Work::MakeDir { .. } | Work::SetMeta { .. } | Work::Sweep | Work::Flush => {
                Answer::Done(Ok(()))
            }
            other => unreachable!("no case asks for {other:?}"),
        }
    }

    fn look(&self, path: &RelPath) -> Option<Meta> {
        if path.is_root() { Some(dir()) } else { self.file.as_deref().map(meta) }
    }

    /// Writes pieces to the new version, in whole blocks.
    fn place(&mut self, (handle, len): (Handle, u64), pieces: Vec<assemble::WritePiece<'_>>) {
        let old = self.file.as_deref().unwrap_or_default();
        let growing = self.growing.entry(handle).or_insert_with(|| NewVersion {
            buffer: WriteBuffer::new(len, 1 << 20),
            bytes: vec![0; len as usize],
        });
        for block in growing.buffer.take(BlockPieces::new(pieces), &[]) {
            write(&mut growing.bytes, old, &block);
        }
    }

    /// Copies ranges within the new version.
    fn repeat(&mut self, handle: Handle, runs: &[CopyRun]) {
        let old = self.file.as_deref().unwrap_or_default();
        let Some(NewVersion { buffer, bytes }) = self.growing.get_mut(&handle) else { return };
        for block in buffer.take_known() {
            write(bytes, old, &block);
        }
        for CopyRun { old, new_start } in runs {
            bytes.copy_within(old.start as usize..old.end() as usize, *new_start as usize);
            let from = assemble::PieceSource::Written(old.len.into());
            buffer.take(BlockPieces::new([assemble::WritePiece { start: *new_start, from }]), &[]);
        }
    }

    fn write(
        &mut self,
        at: (Handle, u64),
        pieces: &[Piece],
        payload: &Payload,
        between: &[CopyRun],
    ) -> Done<Vec<deltic_core::Fingerprint>> {
        let len = pieces.iter().map(|piece| piece.span.len as usize).sum();
        let bytes = unpacked(payload, len).ok_or_else(unproven)?;
        let names = all_proven(&self.agreed.names, pieces, &bytes).ok_or_else(unproven)?;
        self.literal += len as u64;
        self.place(at, sent(pieces.iter(), &bytes).chain(copies(between)).collect());
        Ok(names)
    }

    fn rebuild(
        &mut self,
        at: (Handle, u64),
        gaps: &[receiver::Patch],
        (len, payload): (u32, &Payload),
    ) -> Done<Vec<receiver::Mended>> {
        let old = self.file.as_deref().unwrap_or_default();
        let deltas = unpacked(payload, len as usize).ok_or_else(unproven)?;
        let rebuilt = perform(old, GapRebuild::new(&self.agreed.names, gaps, &deltas));
        let (patched, new) = rebuilt.map_err(|_| unproven())?;
        let each = gaps.iter().zip(&patched);
        let each = each.flat_map(|(gap, patched)| gap.pieces.iter().zip(&patched.fingerprints));
        let right = each.filter_map(|(piece, name)| name.is_some().then_some(piece));
        self.literal += patched.iter().map(|patched| patched.literal).sum::<u64>();
        self.place(at, sent(right, &new).collect());
        Ok(patched)
    }

    fn commit(&mut self, handle: Handle, proof: &receiver::Proof) -> Done<()> {
        // An empty file was never written.
        let growing = self.growing.remove(&handle);
        let is_done = growing.as_ref().is_none_or(|growing| growing.buffer.is_done());
        let new = growing.map(|growing| growing.bytes).unwrap_or_default();
        proven(&new, proof)?;
        self.file = Some(new);
        if is_done { Ok(()) } else { Err(unproven()) }
    }

    fn replace(&mut self, small: &receiver::Small) -> Done<()> {
        let bytes = unpacked(&small.payload, small.meta.len as usize).ok_or_else(unproven)?;
        if small_digest(&self.agreed.names, &bytes) != small.digest {
            return Err(unproven());
        }
        self.literal += bytes.len() as u64;
        self.file = Some(bytes.into_owned());
        Ok(())
    }
}

fn proven(bytes: &[u8], proof: &receiver::Proof) -> Done<()> {
    let of_bytes = || perform(bytes, WholeDigest::new(bytes.len() as u64));
    let Ok(holds) = proof.holds(of_bytes);
    if holds { Ok(()) } else { Err(unproven()) }
}

fn copies(runs: &[CopyRun]) -> Vec<assemble::WritePiece<'static>> {
    let copy = |run: &CopyRun| assemble::WritePiece {
        start: run.new_start,
        from: assemble::PieceSource::Old(run.old),
    };
    runs.iter().map(copy).collect()
}

/// Returns a piece for each received chunk in the concatenated `bytes`.
fn sent<'a>(
    pieces: impl Iterator<Item = &'a Piece>,
    mut bytes: &'a [u8],
) -> impl Iterator<Item = assemble::WritePiece<'a>> {
    pieces.map(move |piece| {
        let (chunk, behind) = bytes.split_at(piece.span.len as usize);
        bytes = behind;
        assemble::WritePiece {
            start: piece.span.start,
            from: assemble::PieceSource::Sent(chunk.into()),
        }
    })
}

fn write(new: &mut [u8], old: &[u8], block: &WriteBlock<'_>) {
    for run in block.runs() {
        let start = run.start() as usize;
        let room = &mut new[start..start + run.byte_len()];
        run.put_sent(room);
        for (span, place) in run.old() {
            room[place].copy_from_slice(part(old, span));
        }
    }
}
