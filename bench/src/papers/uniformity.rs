//! Chunks, and the uniformity of their weak sums. `crates/core/examples/weak.rs` has this file as a module too.

use deltic_core::chunk::cut_all;
use deltic_core::{Algorithm, AtEnd, ChunkerSpec, Sizes, WeakKind};

/// Returns the chunker of this mean length in bytes. FastCDC has the bounds of NetSync, CRC those of ParaSync.
pub(crate) fn spec(algorithm: Algorithm, avg: u32) -> ChunkerSpec {
    let sizes = match algorithm {
        Algorithm::Crc => Sizes::new(avg / 2, avg, avg / 2 * 3),
        _ => Sizes::new((avg / 4).max(512), avg, avg * 4),
    };
    ChunkerSpec::ByContent(algorithm, sizes.expect("sizes rise"))
}

/// Cuts `data` with this mean length in bytes.
pub(crate) fn chunks(data: &[u8], algorithm: Algorithm, avg: u32) -> Vec<&[u8]> {
    let chunker = spec(algorithm, avg).build();
    let (mut rest, mut chunks) = (data, Vec::new());
    cut_all(&chunker, data, AtEnd::Yes, |chunk| {
        let (chunk, after) = rest.split_at(chunk.len());
        chunks.push(chunk);
        rest = after;
    });
    chunks
}

/// Returns the chi-square statistic of 1,024 bins of the range of the sums.
pub(crate) fn chi_square(sums: &[u32]) -> f64 {
    let mut bins = vec![0u32; BINS];
    for sum in sums {
        bins[(sum >> (WeakKind::BITS - BINS.ilog2())) as usize] += 1;
    }
    let mean = sums.len() as f64 / BINS as f64;
    bins.iter().map(|count| (f64::from(*count) - mean).powi(2) / mean).sum()
}

/// Returns the strictest level at which a chi-square test accepts a uniform distribution.
pub(crate) fn verdict(statistic: f64) -> &'static str {
    let levels =
        [("10 %", 1.281_552), ("5 %", 1.644_854), ("2.5 %", 1.959_964), ("1 %", 2.326_348)];
    let accepts = |(_, quantile): &&(&str, f64)| statistic < critical(*quantile);
    levels.iter().find(accepts).map_or("rejected", |(name, _)| name)
}

/// The Wilson-Hilferty approximation of the critical value, from a quantile of the normal distribution.
fn critical(quantile: f64) -> f64 {
    let freedom = (BINS - 1) as f64;
    let part = 2.0 / (9.0 * freedom);
    freedom * (1.0 - part + quantile * part.sqrt()).powi(3)
}

const BINS: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_bins_are_uniform_and_one_bin_is_not() {
        let even: Vec<u32> = (0..4096u32).map(|n| n << 20).collect();
        assert_eq!((chi_square(&even), verdict(chi_square(&even))), (0.0, "10 %"));
        assert_eq!(verdict(chi_square(&[7; 4096])), "rejected");
        assert!((critical(2.326_348) - 1131.2).abs() < 1.0, "{}", critical(2.326_348));
    }
}
