//! WebR2sync+, table 2: speed of strong sums, and collisions.

use std::collections::HashSet;
use std::hash::Hasher as _;
use std::hint::black_box;

use anyhow::Result;
use cityhash_rs::cityhash_110_128;
use deltic_core::StrongKind;
use fnv::FnvHasher;
use murmur3::murmur3_x64_128;

use super::bench::PaperBench;
use super::claims::{self, Claim};
use super::hashes::{HOT_BYTES, figures_of, seconds};
use super::outcome::Outcome;
use super::runs::RunMode;
use super::series::SeriesTable;
use crate::random::Random;
use crate::table::TextTable;

/// A sum of the table: one of Deltic's, or a sum of another crate.
#[derive(Clone, Copy, Debug)]
enum TableSum {
    Strong(StrongKind),
    /// FNV-1a with 64 bits.
    Fnv,
    /// MurmurHash3, the variant with 128 bits for 64-bit machines.
    Murmur3,
    /// CityHash 1.1 with 128 bits.
    City,
}

impl TableSum {
    fn all() -> impl Iterator<Item = Self> {
        StrongKind::ALL.map(Self::Strong).into_iter().chain([Self::Fnv, Self::Murmur3, Self::City])
    }

    fn name(self) -> &'static str {
        match self {
            Self::Strong(kind) => kind.name(),
            Self::Fnv => "fnv-1a",
            Self::Murmur3 => "murmur3",
            Self::City => "cityhash",
        }
    }

    /// Returns the first 64 bits of the sum, which table 2 compares.
    fn of(self, bytes: &[u8]) -> u64 {
        match self {
            Self::Strong(kind) => {
                let sum = kind.sum_of(None, bytes);
                sum.as_bytes().first_chunk().map_or(0, |first| u64::from_le_bytes(*first))
            }
            Self::Fnv => {
                let mut hasher = FnvHasher::default();
                hasher.write(bytes);
                hasher.finish()
            }
            Self::Murmur3 => {
                let mut bytes = bytes;
                murmur3_x64_128(&mut bytes, 0).expect("a slice is always readable") as u64
            }
            Self::City => cityhash_110_128(bytes) as u64,
        }
    }
}

/// Measures speed and collisions of each sum.
pub(crate) fn strong_sums(bench: &mut PaperBench) -> Result<Outcome> {
    let mut figures = SeriesTable::new(" MB/s");
    let data = Random::new(1).bytes(HOT_BYTES);
    for sum in TableSum::all() {
        let time = seconds(bench, || {
            for chunk in data.chunks(8192) {
                black_box(sum.of(black_box(chunk)));
            }
        });
        figures.put("8 KiB", sum.name(), data.len() as f64 / time / 1e6);
    }
    let claims = [
        Claim::times("SipHash to MD5", "4.9×", "md5", "siphash-2-4"),
        Claim::times("FNV to MD5", "3.2×", "md5", "fnv-1a"),
        Claim::times("Murmur3 to MD5", "16.9×", "md5", "murmur3"),
        Claim::times("CityHash to MD5", "24.3×", "md5", "cityhash"),
    ];
    let what = "MB a second of a strong sum, from the cache (no crate of SpookyHash is maintained)";
    let mut drawn = figures_of(what, "block", &figures);
    drawn.claims = claims::table(&claims, &figures);
    let count = match bench.mode() {
        RunMode::Smoke => 1 << 12,
        RunMode::Quick => 1 << 20,
        RunMode::Full => 1 << 22,
    };
    drawn.tables.push((collision_title(count), collisions(count)));
    Ok(Outcome::Drawn(Box::new(drawn)))
}

fn collision_title(count: u32) -> String {
    let expected = f64::from(count).powi(2) / 2f64.powi(33);
    format!(
        "Blocks with the sum of an earlier block, of {count} different blocks of 64 bytes. A random function of 32 bits \
         has {expected:.1}; the paper counts \"high\" as 1 in 10,000 of 64 bits, on blocks that it does not name."
    )
}

/// Counts collisions of each sum, in blocks of random bytes and in blocks that differ in their last bytes alone.
fn collisions(count: u32) -> TextTable {
    let columns = ["random, 64 bits", "random, 32 bits", "near, 64 bits", "near, 32 bits"];
    let mut table = TextTable::new(1, ["sum"].into_iter().chain(columns));
    let random = Random::new(2).bytes(count as usize * BLOCK_BYTES);
    let mut near = [7; BLOCK_BYTES];
    for sum in TableSum::all() {
        let of_random: Vec<u64> = random.chunks(BLOCK_BYTES).map(|block| sum.of(block)).collect();
        let numbered = |no: u32| {
            near[BLOCK_BYTES - 4..].copy_from_slice(&no.to_le_bytes());
            sum.of(&near)
        };
        let of_near: Vec<u64> = (0..count).map(numbered).collect();
        let cells = [&of_random, &of_near].into_iter().flat_map(|sums| {
            let low = sums.iter().map(|sum| *sum & u64::from(u32::MAX)).collect::<HashSet<_>>();
            let whole: HashSet<_> = sums.iter().collect();
            [sums.len() - whole.len(), sums.len() - low.len()]
        });
        table.row([sum.name().to_owned()].into_iter().chain(cells.map(|cell| cell.to_string())));
    }
    table
}

/// Length of a block whose collisions are counted.
const BLOCK_BYTES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    /// Published values: FNV-1a of "a" and "foobar"; the others of the reference code.
    #[test]
    fn sums_of_crates_are_those_of_their_definitions() {
        assert_eq!(TableSum::Fnv.of(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(TableSum::Fnv.of(b"foobar"), 0x8594_4171_f739_67e8);
        assert_eq!(TableSum::Murmur3.of(b""), 0);
        assert_eq!(TableSum::Murmur3.of(b"hello"), 0xcbd8_a7b3_41bd_9b02);
    }

    #[test]
    fn different_blocks_have_different_sums() {
        let csv = collisions(1 << 10).csv();
        for line in csv.lines().skip(1) {
            let cells: Vec<_> = line.split(',').skip(1).collect();
            assert_eq!(cells, ["0"; 4], "{line}");
        }
        assert_eq!(csv.lines().count(), 1 + TableSum::all().count());
    }
}
