//! Choice of a zstd level for each frame, by the link, and by ratios and speeds measured on earlier frames of the
//! session (NetSync §4.4).
//!
//! ```text
//! for each frame:
//!   cost(level) = max(wire × ratio, compression ÷ (threads − ½), decompression)      LinkModel::seconds_per_byte
//!   best        = the lightest level whose cost is within NEAR of the lowest cost
//!   level       = the present level, unless best costs less than KEPT of the cost of the present level
//!   every TRIED_EVERY frames, a neighbour of the present level compresses the frame, and is measured
//! ```
//!
//! A level without a measurement is predicted from the nearest measured level, in the proportions of [`USUAL`]. A trial
//! compresses a frame that is sent, so a trial costs only the difference between two levels.

use super::cost::{CodecModel, LinkModel};

/// Levels to choose from, with typical ratios and speeds for source code in frames of 256 KiB.
const USUAL: [(i32, CodecModel); 4] = [
    (1, usual_model(0.32, 300e6)),
    (3, usual_model(0.29, 180e6)),
    (6, usual_model(0.26, 60e6)),
    (9, usual_model(0.25, 30e6)),
];
/// Decompression is this many times as fast as compression at the lightest level.
const DECOMPRESSION_SPEED: f64 = 2.5;
/// Costs up to this factor of the lowest cost count as equal to the lowest cost.
const NEAR: f64 = 1.05;
/// The present level stays if the best cost is above this factor of the cost of the present level.
const KEPT: f64 = 0.9;
/// The same part for a stream whose history is short.
const KEPT_IN_YOUNG_STREAM: f64 = 0.82;
/// Compressed frames between two trials of a neighbouring level.
const TRIED_EVERY: u32 = 32;
/// Uncompressed frames between two trials of the lightest level, which shows whether the processor became faster.
const TRIED_EVERY_PLAIN: u32 = 256;
/// Share of the usual length that a payload has with a history (docs/decisions/0077), and the share for short payloads,
/// which have little to refer to in themselves.
const WITH_HISTORY: f64 = 0.85;
const SHORT_WITH_HISTORY: f64 = 0.75;
/// Length of the longest short payload in bytes.
const SHORT_BYTES: usize = 16 << 10;
/// Length in bytes of a frame whose measurement counts as much as all measurements before.
const WEIGHTY_BYTES: f64 = (64 << 10) as f64;

const fn usual_model(ratio: f64, compressed_per_second: f64) -> CodecModel {
    CodecModel { ratio, compressed_per_second, decompressed_per_second: 0.0 }
}

/// Reason for the compressor of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CompressionReason {
    /// The level makes the transfer over the link shorter.
    ForLink,
    /// A trial of another level, to measure the level.
    Trial,
    /// The link is faster than any compressor.
    FastLink,
}

/// The compressor of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameCodec {
    /// zstd level; `None` without compression.
    pub level: Option<i32>,
    /// Reason for the choice.
    pub reason: CompressionReason,
}

/// Bytes of literals that an end sent, by their compression.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PackingTotals {
    /// zstd level of the latest compressed frame.
    pub level: Option<i32>,
    /// Bytes of compressed frames before compression.
    pub original: u64,
    /// Bytes of compressed frames on the wire.
    pub compressed: u64,
    /// Bytes sent uncompressed because a sample, or all of the frame, did not shrink.
    pub incompressible: u64,
    /// Bytes sent uncompressed because the link is faster than any compressor.
    pub for_fast_link: u64,
}

/// Ratios and speeds that a session measured, and the present choice.
#[derive(Clone, Debug, Default)]
pub struct AdaptiveCodec {
    measured: [Option<CodecModel>; USUAL.len()],
    /// Present level, as an index of `USUAL`; `None` without compression.
    present: Option<usize>,
    /// Frames since the last trial.
    frames: u32,
    trials: u32,
}

impl AdaptiveCodec {
    /// Chooses the compressor of the next frame for `link`, if `threads` threads compress.
    pub fn choose(&mut self, link: &LinkModel, threads: u32) -> FrameCodec {
        self.choose_below(KEPT, link, threads)
    }

    /// Chooses the compressor of the next frame of a stream whose history is short. Another level would end the history,
    /// so another level must save more than usual.
    pub fn choose_in_young_stream(&mut self, link: &LinkModel) -> FrameCodec {
        self.choose_below(KEPT_IN_YOUNG_STREAM, link, 1)
    }

    /// Chooses a compressor. The present level stays unless the cost of the best level is at most `kept` times the cost of
    /// the present level.
    fn choose_below(&mut self, kept: f64, link: &LinkModel, threads: u32) -> FrameCodec {
        let best = self.best_level(link, threads);
        let cost = |at| self.seconds_per_byte_at(at, link, threads);
        if cost(best) <= cost(self.present) * kept {
            self.present = best;
        }
        self.frames += 1;
        let present = self.present;
        let every = if present.is_some() { TRIED_EVERY } else { TRIED_EVERY_PLAIN };
        if self.frames >= every {
            self.frames = 0;
            self.trials += 1;
            let level = Some(USUAL[self.next_to_try(present)].0);
            return FrameCodec { level, reason: CompressionReason::Trial };
        }
        let reason = match present {
            Some(_) => CompressionReason::ForLink,
            None => CompressionReason::FastLink,
        };
        FrameCodec { level: present.map(|at| USUAL[at].0), reason }
    }

    /// True if one thread that compresses payloads of `bytes` bytes with a history costs no more than `threads` threads
    /// that compress payloads apart. False if the one thread would compress at a level above `highest`.
    #[must_use]
    pub fn is_worth_one_thread(
        &self,
        link: &LinkModel,
        threads: u32,
        highest: i32,
        bytes: usize,
    ) -> bool {
        let (one, several) = (self.best_level(link, 1), self.best_level(link, threads));
        let share = if bytes <= SHORT_BYTES { SHORT_WITH_HISTORY } else { WITH_HISTORY };
        let with_history = self.seconds_per_byte_at(one, link, 1) * share;
        one.is_some_and(|at| USUAL[at].0 <= highest)
            && with_history <= self.seconds_per_byte_at(several, link, threads)
    }

    /// Returns the present level and its ratio; `None` without compression.
    #[must_use]
    pub fn present_level(&self) -> Option<(i32, f64)> {
        self.present.map(|at| (USUAL[at].0, self.model(at).ratio))
    }

    /// Returns the lightest level, as an index of `USUAL`, whose cost is near the lowest cost.
    fn best_level(&self, link: &LinkModel, threads: u32) -> Option<usize> {
        let cost = |at| self.seconds_per_byte_at(at, link, threads);
        let all = || std::iter::once(None).chain((0..USUAL.len()).map(Some));
        let lowest = all().map(cost).fold(f64::INFINITY, f64::min);
        all().find(|at| cost(*at) <= lowest * NEAR).flatten()
    }

    /// Returns the seconds per byte at the level at this index of `USUAL`, or without compression.
    fn seconds_per_byte_at(&self, at: Option<usize>, link: &LinkModel, threads: u32) -> f64 {
        link.seconds_per_byte(&at.map_or(CodecModel::NONE, |at| self.model(at)), threads)
    }

    /// Notes that compression of `original` bytes at `level` gave `compressed` bytes in `seconds`; `None` if the number
    /// of bytes is no measure of the level. Empty frames and levels outside the choice are ignored.
    pub fn record_measurement(
        &mut self,
        level: i32,
        original: usize,
        compressed: Option<usize>,
        seconds: f64,
    ) {
        let Some(at) = USUAL.iter().position(|(of, _)| *of == level).filter(|_| original > 0)
        else {
            return;
        };
        let bytes = original as f64;
        let before = self.model(at);
        let ratio = compressed.map_or(before.ratio, |compressed| compressed as f64 / bytes);
        let now = usual_model(ratio, bytes / seconds.max(1e-9));
        let share = (bytes / WEIGHTY_BYTES / 2.0).clamp(1.0 / 64.0, 0.5);
        let mixed = |before: f64, now: f64| before + (now - before) * share;
        // A first short frame, which also pays for a new context, must not replace the prediction: `before` counts too.
        // Times are averaged, not speeds: one fast frame must not outweigh slow ones.
        let time = mixed(1.0 / before.compressed_per_second, 1.0 / now.compressed_per_second);
        self.measured[at] = Some(usual_model(mixed(before.ratio, now.ratio), 1.0 / time));
    }

    /// Returns the measured or predicted figures of the level at this index of `USUAL`.
    fn model(&self, at: usize) -> CodecModel {
        let near = (0..USUAL.len()).filter(|near| self.measured[*near].is_some());
        let near = near.min_by_key(|near| near.abs_diff(at));
        let measured = |at: usize| self.measured[at].unwrap_or(USUAL[at].1);
        let near = near.unwrap_or(at);
        let (of_near, usual_near, own) = (measured(near), USUAL[near].1, USUAL[at].1);
        let scale = |near: f64, usual_near: f64, own: f64| near / usual_near * own;
        let speed = |own: &CodecModel| {
            scale(
                of_near.compressed_per_second,
                usual_near.compressed_per_second,
                own.compressed_per_second,
            )
        };
        CodecModel {
            ratio: scale(of_near.ratio, usual_near.ratio, own.ratio).min(1.0),
            compressed_per_second: speed(&own),
            decompressed_per_second: speed(&USUAL[0].1) * DECOMPRESSION_SPEED,
        }
    }

    /// Returns the level to try next: a heavier and a lighter neighbour of the present level in turn.
    fn next_to_try(&self, present: Option<usize>) -> usize {
        match present {
            None => 0,
            Some(at) if self.trials % 2 == 1 && at + 1 < USUAL.len() || at == 0 => at + 1,
            Some(at) => at - 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Bytes of a frame.
    const FRAME: usize = 256 << 10;

    fn link(mbit: u64) -> LinkModel {
        LinkModel { bits_per_second: mbit * 1_000_000, round_trip: Duration::ZERO }
    }

    /// Measures each level on frames with `ratio` times the usual ratio, at `speed` times the usual speed.
    fn measured(ratio: f64, speed: f64) -> AdaptiveCodec {
        let mut codec = AdaptiveCodec::default();
        (0..8).for_each(|_| measure(&mut codec, ratio, speed));
        codec
    }

    fn measure(codec: &mut AdaptiveCodec, ratio: f64, speed: f64) {
        for (level, usual) in USUAL {
            let seconds = FRAME as f64 / (usual.compressed_per_second * speed);
            let compressed = (FRAME as f64 * usual.ratio * ratio) as usize;
            codec.record_measurement(level, FRAME, Some(compressed), seconds);
        }
    }

    #[test]
    fn each_link_has_its_level() {
        use CompressionReason::{FastLink, ForLink};
        // Mbit/s, ratio and speed beside the usual ones, threads: level, reason.
        let table = [
            (1, 1.0, 1.0, 1, Some(6), ForLink),
            (10, 1.0, 1.0, 1, Some(6), ForLink),
            (100, 1.0, 1.0, 1, Some(6), ForLink),
            (100, 1.0, 0.25, 1, Some(3), ForLink),
            (100, 2.0, 1.0, 1, Some(6), ForLink),
            (1000, 1.0, 1.0, 1, Some(1), ForLink),
            (1000, 1.0, 1.0, 2, Some(1), ForLink),
            (1000, 1.0, 1.0, 8, Some(3), ForLink),
            (1000, 1.0, 0.25, 1, None, FastLink),
            (10_000, 1.0, 1.0, 2, None, FastLink),
            (100, 3.95, 1.0, 2, None, FastLink),
        ];
        for (mbit, ratio, speed, threads, level, reason) in table {
            let case = format!("{mbit} Mbit/s, {ratio}, {speed}, {threads}");
            let choice = measured(ratio, speed).choose(&link(mbit), threads);
            assert_eq!(choice, FrameCodec { level, reason }, "{case}");
        }
    }

    #[test]
    fn text_is_compressed_before_anything_is_measured() {
        let choice = AdaptiveCodec::default().choose(&LinkModel::PRIOR, 1);
        assert_eq!(choice, FrameCodec { level: Some(3), reason: CompressionReason::ForLink });
    }

    #[test]
    fn a_slow_first_frame_that_is_short_changes_little() {
        let mut codec = AdaptiveCodec::default();
        codec.record_measurement(3, 1500, Some(900), 100e-6);
        assert_eq!(codec.choose(&LinkModel::PRIOR, 3).level, Some(3));
    }

    #[test]
    fn the_choice_follows_the_link_and_stays_for_small_changes() {
        let mut codec = measured(1.0, 1.0);
        let choices =
            [1000, 950, 1050, 10, 100_000, 1000].map(|mbit| codec.choose(&link(mbit), 1).level);
        assert_eq!(choices, [Some(1), Some(1), Some(1), Some(6), None, Some(1)]);
    }

    #[test]
    fn one_measured_level_predicts_the_others() {
        let mut codec = AdaptiveCodec::default();
        // A machine a tenth as fast as usual.
        (0..8)
            .for_each(|_| codec.record_measurement(6, FRAME, Some(FRAME / 4), FRAME as f64 / 6e6));
        assert_eq!(codec.choose(&link(10), 1).level, Some(6));
        assert_eq!(codec.choose(&link(1000), 1).level, None);
        assert_eq!(codec.choose(&link(100), 1).level, Some(1));
    }

    #[test]
    fn one_thread_compresses_for_a_slow_link() {
        let codec = measured(1.0, 1.0);
        let pays = |mbit, threads, bytes| codec.is_worth_one_thread(&link(mbit), threads, 9, bytes);
        assert!(pays(1, 8, FRAME) && pays(400, 8, FRAME) && pays(1000, 1, FRAME));
        assert!(!pays(1000, 8, FRAME), "eight threads reach a higher level, which saves more");
        assert!(!pays(100_000, 8, FRAME), "nothing is compressed");
        assert!(pays(1000, 2, 4096) && !pays(1000, 2, FRAME), "short files need their history");
    }

    #[test]
    fn both_neighbours_are_tried_in_turn() {
        let mut codec = measured(1.0, 1.0);
        let tried = (0..4 * TRIED_EVERY).map(|_| codec.choose(&link(10), 1));
        let tried: Vec<_> =
            tried.filter(|choice| choice.reason == CompressionReason::Trial).collect();
        let levels: Vec<_> = tried.iter().map(|choice| choice.level).collect();
        assert_eq!(levels, [Some(9), Some(3), Some(9), Some(3)]);
        let mut fast = measured(1.0, 1.0);
        let tried = (0..TRIED_EVERY_PLAIN).map(|_| fast.choose(&link(100_000), 1).level);
        assert_eq!(tried.flatten().collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn measurements_follow_a_processor_that_becomes_slower_and_faster() {
        let mut codec = measured(1.0, 1.0);
        assert_eq!(codec.choose(&link(1000), 1).level, Some(1));
        (0..8).for_each(|_| measure(&mut codec, 1.0, 0.2));
        assert_eq!(codec.choose(&link(1000), 1).level, None);
        (0..8).for_each(|_| measure(&mut codec, 1.0, 1.0));
        assert_eq!(codec.choose(&link(1000), 1).level, Some(1));
    }

    #[test]
    fn short_frames_move_the_figures_slowly_and_empty_ones_not_at_all() {
        let mut codec = measured(1.0, 1.0);
        codec.record_measurement(6, 0, Some(0), 1.0);
        codec.record_measurement(5, FRAME, Some(FRAME), 1.0);
        codec.record_measurement(6, 100, Some(100), 0.0);
        codec.record_measurement(6, FRAME, None, 1.0);
        let ratio = codec.measured[2].map(|measured| measured.ratio).unwrap_or_default();
        assert!((0.26..0.28).contains(&ratio), "{ratio}");
    }
}
