//! Compression of the payloads of a session, shared by its threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use deltic_core::strategy::{
    AdaptiveCodec, CompressionChoice, CompressionReason, FrameCodec, LinkModel, PackingTotals,
};
use deltic_engine::compression::{FrameCompressor, HIGHEST_LEVEL};
use deltic_engine::pack::{PayloadPacker, compressed, level, may_shrink};
use deltic_protocol::Terms;
use deltic_protocol::message::Payload;
use deltic_protocol::options::{CompressionRequest, Options};

use crate::Clock;
use crate::lock::lock;
use crate::stage::{Stage, within};

/// Shortest frame in the session's zstd stream, in bytes. The wrapping of a shorter frame costs more than its history
/// saves.
const LEAST_FRAME_BYTES: usize = 64;
/// Level of a frame whose payloads were left to [`Packer::compress`] before the link became fast.
const LIGHTEST_LEVEL: i32 = 1;
/// Bytes of a frame that a trial of another level compresses.
const TRIED_BYTES: usize = 64 << 10;

/// Means by which a sender adapts compression to its link.
#[derive(Clone, Debug)]
pub struct Adapting {
    /// Clock that measures the processor time of this thread for compression.
    pub clock: Clock,
    /// Threads that compress for the session at once.
    pub threads: u32,
    /// Highest level of frames that the session's own thread compresses.
    pub highest: i32,
    /// Counts what was compressed, and how.
    pub report: PackingReport,
}

impl Adapting {
    /// Runs `compress`. Returns its output, and the seconds that it took.
    fn timed<T>(&self, compress: impl FnOnce() -> T) -> (T, f64) {
        let begun = (self.clock)();
        let output = compress();
        (output, (self.clock)().saturating_sub(begun).as_secs_f64())
    }
}

/// Counts of the literals of a session by their compression. Clones share the same counts.
#[derive(Clone, Debug, Default)]
pub struct PackingReport(Arc<Mutex<PackingTotals>>);

impl PackingReport {
    /// Returns the counts so far.
    #[must_use]
    pub fn totals(&self) -> PackingTotals {
        *lock(&self.0)
    }
}

/// Compresses payloads, or the frames that hold them. Recent measurements tell if compression pays.
#[derive(Debug)]
pub(super) struct Packer {
    packing: PayloadPacker,
    /// Level that the user asked for, or the usual level for `-z`.
    asked: Option<i32>,
    /// True if the speed of the link decides about compression, once the link is known.
    adapts: bool,
    adapting: Option<Adapting>,
    codec: Mutex<AdaptiveCodec>,
    /// Compresses frames in the order of the wire; `None` if each payload is compressed separately.
    frames: Option<Mutex<FrameCompressor>>,
    /// Number of payloads that [`pack`](Self::pack) left to [`compress`](Self::compress), and whose frames are not sent
    /// yet.
    left: AtomicUsize,
    /// Longest payload of a frame.
    frame_bytes: usize,
}

impl Packer {
    /// Makes a packer for a session with these options and terms. Without `adapting`, payloads are compressed only on
    /// request.
    pub(super) fn new(options: &Options, terms: Terms, adapting: Option<Adapting>) -> Self {
        let request = options.compression();
        let asked = match request {
            _ if !terms.zstd => None,
            CompressionRequest::Level(_) | CompressionRequest::ForLinkOrUsual => {
                Some(level(options.compress_level))
            }
            CompressionRequest::ForLink | CompressionRequest::Never => None,
        };
        let may_adapt =
            matches!(request, CompressionRequest::ForLink | CompressionRequest::ForLinkOrUsual);
        let by_cost = options.strategy.compression == CompressionChoice::ByCost;
        // On several streams, frames arrive in any order.
        let has_order = terms.short_forms.compressed && options.streams <= 1;
        Self {
            packing: PayloadPacker::new(terms.may_skip_zeros(&options.strategy)),
            asked,
            adapts: terms.zstd && may_adapt && by_cost,
            adapting,
            codec: Mutex::default(),
            frames: has_order.then(Mutex::default),
            left: AtomicUsize::new(0),
            frame_bytes: terms.limits.frame_bytes,
        }
    }

    /// Returns the level for payloads that go by the user's request alone.
    pub(super) const fn asked(&self) -> Option<i32> {
        self.asked
    }

    /// Compresses bytes at the requested level, or at a level chosen for the speed of the `link`. Leaves the bytes to
    /// [`compress`](Self::compress) if one thread is fast enough.
    pub(super) fn pack(&self, bytes: Vec<u8>, link: Option<LinkModel>) -> Payload {
        within(Stage::Pack, || match self.adapting().zip(link) {
            known if self.is_for_one_thread(link, bytes.len()) => {
                self.packing.pack_by(bytes, |rest| {
                    self.left.fetch_add(1, Ordering::Relaxed);
                    if let Some((adapting, _)) = known {
                        let shrinks = rest.len() >= LEAST_FRAME_BYTES && may_shrink(rest);
                        let mut totals = lock(&adapting.report.0);
                        let PackingTotals { original, incompressible, .. } = &mut *totals;
                        *(if shrinks { original } else { incompressible }) += rest.len() as u64;
                    }
                    None
                })
            }
            Some((adapting, link)) => {
                self.packing.pack_by(bytes, |rest| self.compressed_for(&link, adapting, rest))
            }
            None => self.packing.pack_as_asked(bytes, self.asked),
        })
    }

    /// Compresses a frame of literals that is about to be sent, with the history of the frames before. Returns the
    /// compressed frame, or `None` if the frame is sent uncompressed.
    pub(super) fn compress(&self, frame: &[u8], link: Option<LinkModel>) -> Option<Vec<u8>> {
        let compressor = self.frames.as_ref()?;
        // Payloads that were left and payloads that were compressed apart leave in any order, so the count of the former
        // may be used up by the latter. Without the count, a frame is compressed if the link asks for a history.
        let is_left = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
            .is_ok();
        let has_history = || self.is_for_one_thread(link, frame.len());
        if frame.len() < LEAST_FRAME_BYTES || !is_left && !has_history() {
            return None;
        }
        let compress = |level| lock(compressor).compress(frame, level, self.frame_bytes);
        within(Stage::Pack, || {
            if !may_shrink(frame) {
                return None;
            }
            let Some((adapting, link)) = self.adapting().zip(link) else {
                return compress(self.asked?);
            };
            let is_settled = || lock(compressor).is_settled();
            let choice = match is_settled() {
                true => lock(&self.codec).choose(&link, 1),
                false => lock(&self.codec).choose_in_young_stream(&link),
            };
            let level = self.level_in_stream(choice, adapting, frame).unwrap_or(LIGHTEST_LEVEL);
            let (compressed, seconds) = adapting.timed(|| compress(level));
            let len = compressed.as_ref().map_or(frame.len(), Vec::len);
            let len = is_settled().then_some(len);
            lock(&self.codec).record_measurement(level, frame.len(), len, seconds);
            let mut totals = lock(&adapting.report.0);
            if is_left {
                totals.compressed += compressed.as_deref().map_or(frame.len(), <[u8]>::len) as u64;
            }
            totals.level = Some(level);
            compressed
        })
    }

    /// Returns the means to adapt to a link, if the link decides about compression.
    fn adapting(&self) -> Option<&Adapting> {
        self.adapting.as_ref().filter(|_| self.adapts)
    }

    /// True if whole frames are compressed in place of payloads of `bytes` bytes, because one thread is fast enough.
    fn is_for_one_thread(&self, link: Option<LinkModel>, bytes: usize) -> bool {
        self.frames.is_some()
            && match self.adapting().zip(link) {
                Some((adapting, link)) => {
                    let (threads, highest) = (adapting.threads, adapting.highest);
                    lock(&self.codec).is_worth_one_thread(&link, threads, highest, bytes)
                }
                None => self.asked.is_some_and(|level| level <= self.highest()),
            }
    }

    /// Returns the highest level of frames that the session's own thread compresses.
    fn highest(&self) -> i32 {
        self.adapting.as_ref().map_or(HIGHEST_LEVEL, |adapting| adapting.highest)
    }

    /// Returns the level of a frame in the session's zstd stream. A new level would end the history, so a trial of
    /// another level compresses a piece of the frame separately. Because this piece has no history, only the ratio
    /// between the lengths at both levels counts.
    fn level_in_stream(
        &self,
        choice: FrameCodec,
        adapting: &Adapting,
        frame: &[u8],
    ) -> Option<i32> {
        let mut codec = lock(&self.codec);
        let (level, (present, ratio)) = choice.level.zip(codec.present_level())?;
        let piece = &frame[..frame.len().min(TRIED_BYTES)];
        if choice.reason == CompressionReason::Trial
            && let Some(usual) = compressed(piece, present)
        {
            let (tried, seconds) = adapting.timed(|| compressed(piece, level));
            let tried = tried.map_or(piece.len(), |frame| frame.len());
            let len = ratio * (piece.len() * tried / usual.len()) as f64;
            codec.record_measurement(level, piece.len(), Some(len as usize), seconds);
        }
        Some(present.min(adapting.highest))
    }

    /// Compresses bytes if compression makes the transfer over `link` shorter.
    fn compressed_for(
        &self,
        link: &LinkModel,
        adapting: &Adapting,
        bytes: &[u8],
    ) -> Option<Vec<u8>> {
        let (len, count) = (bytes.len() as u64, |to: fn(&mut PackingTotals) -> &mut u64| {
            *to(&mut lock(&adapting.report.0)) += bytes.len() as u64;
        });
        let choice = lock(&self.codec).choose(link, adapting.threads);
        let Some(level) = choice.level else {
            count(|totals| &mut totals.for_fast_link);
            return None;
        };
        if !may_shrink(bytes) {
            count(|totals| &mut totals.incompressible);
            return None;
        }
        let (frame, seconds) = adapting.timed(|| compressed(bytes, level));
        let frame_len = frame.as_ref().map_or(bytes.len(), Vec::len);
        lock(&self.codec).record_measurement(level, bytes.len(), Some(frame_len), seconds);
        let Some(frame) = frame else {
            count(|totals| &mut totals.incompressible);
            return None;
        };
        let mut totals = lock(&adapting.report.0);
        totals.original += len;
        totals.compressed += frame.len() as u64;
        if choice.reason != CompressionReason::Trial {
            totals.level = Some(level);
        }
        Some(frame)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use deltic_core::{Key, Strategy};
    use deltic_protocol::{Hello, negotiate};

    use super::*;

    /// A clock on which no time passes: every level is infinitely fast.
    const fn clock() -> Duration {
        Duration::ZERO
    }

    /// Returns a packer for an other end of the version before, and its counts.
    fn packer(options: Options) -> (Packer, PackingReport) {
        let mut hello = Hello::of_this_version(Key::from_bytes([1; 32]));
        hello.capabilities.remove("compress:zstd-stream");
        packer_with(&hello, &options)
    }

    fn packer_with(hello: &Hello, options: &Options) -> (Packer, PackingReport) {
        let terms = negotiate(hello, hello).unwrap();
        let report = PackingReport::default();
        let adapting =
            Adapting { clock, threads: 1, highest: HIGHEST_LEVEL, report: report.clone() };
        (Packer::new(options, terms, Some(adapting)), report)
    }

    fn options(compress: bool, compress_level: u32) -> Options {
        Options { compress, compress_level, ..Options::default() }
    }

    fn link(bits_per_second: u64) -> Option<LinkModel> {
        Some(LinkModel { bits_per_second, round_trip: Duration::ZERO })
    }

    fn is_packed(packer: &Packer, bytes: &[u8], link: Option<LinkModel>) -> bool {
        match packer.pack(bytes.to_vec(), link) {
            Payload::Plain(_) => false,
            Payload::Zstd(_) => true,
            Payload::Sparse(sparse) => sparse.zstd,
        }
    }

    #[test]
    fn text_is_compressed_for_a_slow_link_alone() {
        let (text, noise) = (b"new from old, ".repeat(2000), noise());
        let (slow, fast) = (link(8000), link(u64::MAX));
        let (packer, report) = packer(options(false, 0));
        let packed = [slow, fast, slow].map(|link| is_packed(&packer, &text, link));
        assert_eq!(packed, [true, false, true], "each payload goes by the link of its time");
        assert!(!is_packed(&packer, &noise, slow));
        assert!(!is_packed(&packer, &text, None), "nothing is known");
        let totals = report.totals();
        let bytes = (totals.original, totals.for_fast_link, totals.incompressible);
        assert_eq!(bytes, (2 * text.len() as u64, text.len() as u64, noise.len() as u64));
        assert!(totals.compressed < 1000 && totals.level.is_some(), "{totals:?}");
    }

    #[test]
    fn frames_have_a_history_where_one_thread_is_fast_enough() {
        let hello = Hello::of_this_version(Key::from_bytes([1; 32]));
        let text: Vec<u8> = (0..3000u32).flat_map(|n| (n * n).to_string().into_bytes()).collect();
        let frame = [&[21, 0, 0, 0], &text[..]].concat();
        let (slow, fast) = (link(8000), link(u64::MAX));
        let (packer, report) = packer_with(&hello, &options(false, 0));
        let next = |frame: &[u8], link| {
            assert!(!is_packed(&packer, &frame[4..], slow), "left to the frame");
            packer.compress(frame, link).map(|frame| frame.len())
        };
        let lens: Vec<_> = (0..40).map(|_| next(&frame, slow)).collect();
        let are_short = lens[1..].iter().all(|len| len.map(|len| len * 10) < lens[0]);
        assert!(are_short, "trials end no history: {lens:?}");
        assert_eq!(next(&[&[21, 0, 0, 0], &noise()[..]].concat(), slow), None);
        let last = next(&frame, fast);
        assert!(last.is_some_and(|len| len < text.len()), "left before the link became fast");
        assert!(!is_packed(&packer, &text, fast) && packer.compress(&frame, fast).is_none());
        let totals = report.totals();
        let bytes = (totals.original, totals.for_fast_link, totals.incompressible);
        assert_eq!(bytes, (41 * text.len() as u64, text.len() as u64, noise().len() as u64));
        assert_eq!(totals.compressed, lens.iter().flatten().chain(&last).sum::<usize>() as u64);
        // A payload that was left plain for a fast link leaves after the link became slow.
        assert!(!is_packed(&packer, &text, fast));
        assert!(packer.compress(&frame, slow).is_some());
        for (level, streams, has_history) in [(3, 0, true), (3, 2, false), (19, 1, false)] {
            let options = Options { streams, ..options(true, level) };
            let (packer, _) = packer_with(&hello, &options);
            assert_eq!(is_packed(&packer, &text, None), !has_history, "{level} {streams}");
            assert_eq!(packer.compress(&frame, None).is_some(), has_history, "{level} {streams}");
        }
    }

    #[test]
    fn a_requested_level_overrules_the_link() {
        let text = b"new from old, ".repeat(2000);
        for (compress, level, on_links) in [
            (false, 0, [true, false, false]),
            (true, 0, [true, false, true]),
            (true, 3, [true, true, true]),
            (false, 1, [false, false, false]),
        ] {
            let (packer, _) = packer(options(compress, level));
            let packed =
                [link(8000), link(u64::MAX), None].map(|link| is_packed(&packer, &text, link));
            assert_eq!(packed, on_links, "{compress} {level}");
        }
        let strategy = Strategy::by_name("rsync").unwrap();
        let (packer, _) = packer(Options { strategy, ..options(false, 0) });
        assert!(!is_packed(&packer, &text, link(8000)), "this preset compresses on request");
    }

    #[test]
    fn zeros_are_removed_before_the_rest_is_compressed() {
        let (packer, _) = packer(options(false, 0));
        let bytes = [b"new from old, ".repeat(2000), vec![0; 70_000]].concat();
        let Payload::Sparse(sparse) = packer.pack(bytes, link(8000)) else { panic!("no run") };
        assert!(sparse.zstd && sparse.runs.len() == 1);
    }

    fn noise() -> Vec<u8> {
        let mut state = 1u64;
        let next = |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        };
        (0..20_000).map(next).collect()
    }
}
