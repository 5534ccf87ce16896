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
    /// Seconds until the last of `bytes` arrives, without overlap of the steps (NetSync, equation 5).
    #[must_use]
    pub(crate) fn seconds(&self, bytes: u64, codec: &CodecModel) -> f64 {
        let bytes = bytes as f64;
        let on_the_wire = bytes * codec.ratio * 8.0 / self.bits_per_second as f64;
        let computing = bytes / codec.compressed_per_second + bytes / codec.decompressed_per_second;
        on_the_wire + computing + self.round_trip.as_secs_f64() / 2.0
    }

    /// The codec with the shortest transfer of `bytes`; the earlier of two equal codecs. `None` if `codecs` is empty.
    #[must_use]
    pub fn fastest<'a>(&self, bytes: u64, codecs: &'a [CodecModel]) -> Option<&'a CodecModel> {
        codecs.iter().min_by(|a, b| self.seconds(bytes, a).total_cmp(&self.seconds(bytes, b)))
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
    fn transfer_times_follow_equation_5() {
        let link = LinkModel { bits_per_second: 8_000_000, round_trip: Duration::from_millis(30) };
        let codec = CodecModel {
            ratio: 0.5,
            compressed_per_second: 10_000_000.0,
            decompressed_per_second: 40_000_000.0,
        };
        let seconds = link.seconds(2_000_000, &codec);
        assert!((seconds - (1.0 + 0.2 + 0.05 + 0.015)).abs() < 1e-9, "{seconds}");
        let plain = link.seconds(2_000_000, &CodecModel::NONE);
        assert!((plain - 2.015).abs() < 1e-9, "{plain}");
    }

    /// Figure 15: deflate at 10 Mbit/s, lz4 at 50 Mbit/s, no compression on faster links. The paper gives no
    /// coefficients; these are rough figures of a browser's deflate and lz4.
    #[test]
    fn faster_links_use_lighter_compressors() {
        let deflate =
            CodecModel { ratio: 0.35, compressed_per_second: 15e6, decompressed_per_second: 150e6 };
        let lz4 = CodecModel {
            ratio: 0.55,
            compressed_per_second: 150e6,
            decompressed_per_second: 600e6,
        };
        let choose = |mbit: u64| {
            let link = LinkModel {
                bits_per_second: mbit * 1_000_000,
                round_trip: Duration::from_millis(30),
            };
            *link.fastest(1 << 20, &[CodecModel::NONE, lz4, deflate]).unwrap()
        };
        assert_eq!([10, 50, 1000].map(choose), [deflate, lz4, CodecModel::NONE]);
    }

    #[test]
    fn the_first_of_equal_codecs_is_chosen() {
        let link = LinkModel { bits_per_second: 1, round_trip: Duration::ZERO };
        assert_eq!(link.fastest(1, &[]), None);
        let same = [CodecModel::NONE, CodecModel::NONE];
        assert!(std::ptr::eq(link.fastest(1, &same).unwrap(), &raw const same[0]));
    }
}
