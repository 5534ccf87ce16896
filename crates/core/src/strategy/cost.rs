//! Cost model of a network link: NetSync's choice of chunk size and compressor (NetSync §4.4).

use std::time::Duration;

/// The best average chunk length in bytes for a bandwidth, as measured by NetSync (§4.4, figure 16). Shorter
/// chunks find more to copy, which pays on slow links. An unknown bandwidth counts as medium.
#[must_use]
pub const fn netsync_avg_bytes(bits_per_second: Option<u64>) -> u32 {
    match bits_per_second {
        Some(0..10_000_000) => 512,
        None | Some(10_000_000..40_000_000) => 1 << 10,
        Some(40_000_000..) => 2 << 10,
    }
}

/// Threads that reading, hashing and sending take beside compression.
const OTHER_WORK: f64 = 0.5;

/// Bandwidth and delay of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkModel {
    /// Bandwidth in one direction; not 0.
    pub bits_per_second: u64,
    /// Round-trip time.
    pub round_trip: Duration,
}

/// Measured ratio and speed of a compressor on data like the data to be sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CodecModel {
    /// Compressed length divided by original length; 1 without compression.
    pub ratio: f64,
    /// Compression speed in original bytes per second; infinite without compression.
    pub compressed_per_second: f64,
    /// Decompression speed in original bytes per second; infinite without compression.
    pub decompressed_per_second: f64,
}

impl CodecModel {
    /// No compression.
    pub const NONE: Self = Self {
        ratio: 1.0,
        compressed_per_second: f64::INFINITY,
        decompressed_per_second: f64::INFINITY,
    };
}

impl LinkModel {
    /// Assumed link of a session over a network, until the session has measured its link. Text is then compressed at a
    /// light level, which costs little on a faster link and sends little more on a slower one.
    pub const PRIOR: Self = Self { bits_per_second: 400_000_000, round_trip: Duration::ZERO };

    /// Seconds per original byte in a long transfer on a machine of `threads` threads. Compression, the wire and
    /// decompression overlap, so the slowest of the three counts. Of several threads, half a thread reads, hashes and
    /// sends, and the others compress. (NetSync's equation 5 adds the three: its steps do not overlap.)
    #[must_use]
    pub fn seconds_per_byte(&self, codec: &CodecModel, threads: u32) -> f64 {
        let on_the_wire = codec.ratio * 8.0 / self.bits_per_second as f64;
        let compressors = (f64::from(threads) - OTHER_WORK).max(1.0);
        let compressing = 1.0 / codec.compressed_per_second / compressors;
        on_the_wire.max(compressing).max(1.0 / codec.decompressed_per_second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NetSync §4.4: (0, 10), [10, 40) and [40, ∞) Mbit/s.
    #[test]
    fn chunk_lengths_follow_the_table_of_the_paper() {
        let table = [
            (1, 512),
            (9_999_999, 512),
            (10_000_000, 1024),
            (39_999_999, 1024),
            (40_000_000, 2048),
            (u64::MAX, 2048),
        ];
        for (bits_per_second, avg) in table {
            assert_eq!(netsync_avg_bytes(Some(bits_per_second)), avg, "{bits_per_second}");
        }
        assert_eq!(netsync_avg_bytes(None), 1024, "the paper begins with 1 KB");
    }

    #[test]
    fn the_slowest_of_the_overlapping_steps_counts() {
        let codec =
            CodecModel { ratio: 0.5, compressed_per_second: 10e6, decompressed_per_second: 40e6 };
        let seconds = |mbit: u64, threads| {
            let link =
                LinkModel { bits_per_second: mbit * 1_000_000, round_trip: Duration::from_secs(1) };
            (link.seconds_per_byte(&codec, threads) * 1e9).round()
        };
        assert_eq!(seconds(8, 1), 500.0, "the wire: half of a microsecond");
        assert_eq!(seconds(800, 1), 100.0, "compression");
        assert_eq!(seconds(800, 2), 67.0, "one and a half of two threads compress");
        assert_eq!(seconds(800, 8), 25.0, "decompression");
        assert_eq!(seconds(800, 0), 100.0);
    }
}
