//! Chunking algorithms, one per file, and [`ChunkerSpec`], the choice of algorithm and sizes (docs/laws.md, 1
//! and 4).

mod ae;
mod chunker;
mod crc;
mod fastcdc;
mod fixed;
#[cfg(target_arch = "x86_64")]
mod gathered;
mod gear;
mod maxp;
mod parallel;
mod published;
mod rabin;
mod ram;
mod rolling;
mod seq;
mod sieve;
mod sizes;
mod ss_cdc;
mod sub_chunks;
mod summing;
mod tttd;
mod two_stage;

pub use chunker::{AtEnd, Chunker, cut_all};
pub(crate) use crc::ENTERS as CRC_ENTERS;
pub use fixed::FixedLen;
pub use parallel::{FileSegments, Segment, SegmentChunks, SegmentStitcher};
pub use published::PublishedForm;
pub use sizes::{BadSizes, MAX_CHUNK_BYTES, MIN_CHUNK_BYTES, Sizes};
pub use ss_cdc::{BoundaryBits, BoundaryWalk, SsCdc};
pub use sub_chunks::{MergeRequest, MergedChunk, SubChunkMerge, SubChunks};
pub use summing::SummingChunker;
pub use two_stage::{JudgeScope, TwoStage};

use ae::{AeChunker, Extreme};
use crc::CrcChunker;
use fastcdc::FastCdcChunker;
use fixed::FixedChunker;
use gear::{GearChunker, NormalisationLevel};
use maxp::MaxpChunker;
use published::{PublishedAlgorithm, PublishedChunker};
use rabin::RabinChunker;
use ram::RamChunker;
use seq::SeqChunker;
use sieve::SieveChunker;
use tttd::TttdChunker;

use crate::codec::{CodecError, Put, Reader};
use crate::named::named;
use crate::simd::Isa;

/// Algorithm of a content-defined chunker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// A CRC of a sliding window (SS-CDC, Ni et al. 2019; VectorCDC §5, ParaSync §2.2).
    Crc,
    /// A Rabin fingerprint of a sliding window (LBFS, Muthitacharoen et al. 2001; VectorCDC §5).
    Rabin,
    /// Two thresholds, two divisors, with Rabin fingerprints (Eshghi and Tang 2005; VectorCDC §5).
    Tttd,
    /// Gear with a warmed-up window (Ddelta, Xia et al. 2014; VectorCDC §5).
    Gear,
    /// Gear with a warmed-up window and normalised sizes (Ddelta, with the levels of FastCDC, Xia et al. 2020).
    GearNc,
    /// FastCDC without normalised sizes (Xia et al. 2016; VectorCDC §5).
    FastCdc,
    /// FastCDC with normalised sizes (Xia et al. 2016; VectorCDC §5).
    FastCdcNc,
    /// Asymmetric Extremum of maxima (Zhang et al. 2015; VectorCDC §4.3).
    AeMax,
    /// Asymmetric Extremum of minima (Zhang et al. 2015; VectorCDC §4.3).
    AeMin,
    /// Rapid Asymmetric Maximum (Widodo et al. 2017; VectorCDC §4.3).
    Ram,
    /// MAXP, local maxima (Bjørner et al. 2010; VectorCDC §4.3).
    Maxp,
    /// SeqCDC, sequences of rising bytes (Udayashankar et al. 2024; also in the VectorCDC artifact).
    Seq,
    /// A sieve of 16-byte sums, then a hash at the few remaining positions. Our own algorithm.
    Sieve,
}

impl Algorithm {
    /// The list of all algorithms.
    pub const ALL: [Self; 13] = [
        Self::Crc,
        Self::Rabin,
        Self::Tttd,
        Self::Gear,
        Self::GearNc,
        Self::FastCdc,
        Self::FastCdcNc,
        Self::AeMax,
        Self::AeMin,
        Self::Ram,
        Self::Maxp,
        Self::Seq,
        Self::Sieve,
    ];

    /// True if the algorithm has vector code for each instruction set. Other algorithms have portable code only.
    #[must_use]
    pub const fn has_vector_form(self) -> bool {
        match self {
            Self::Ram | Self::AeMax | Self::AeMin | Self::Maxp | Self::Seq | Self::Sieve => true,
            Self::Crc
            | Self::Rabin
            | Self::Tttd
            | Self::Gear
            | Self::GearNc
            | Self::FastCdc
            | Self::FastCdcNc => false,
        }
    }

    /// Number of the algorithm in files and frames, and its name on the command line.
    const fn number_and_name(self) -> (u8, &'static str) {
        match self {
            Self::GearNc => (2, "gear-nc"),
            Self::Ram => (3, "ram"),
            Self::Crc => (4, "crc"),
            Self::Rabin => (5, "rabin"),
            Self::Tttd => (6, "tttd"),
            Self::Gear => (7, "gear"),
            Self::FastCdc => (8, "fastcdc"),
            Self::FastCdcNc => (9, "fastcdc-nc"),
            Self::AeMax => (10, "ae-max"),
            Self::AeMin => (11, "ae-min"),
            Self::Maxp => (12, "maxp"),
            Self::Seq => (13, "seqcdc"),
            Self::Sieve => (14, "sieve"),
        }
    }
}

/// Error for an unknown name of an algorithm.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a chunker; there are fixed, {names}", names = Algorithm::ALL.map(Algorithm::name).join(", "))]
pub struct UnknownAlgorithm(String);

named!(Algorithm, UnknownAlgorithm);

/// Choice of a chunker, agreed on by both ends of a session and named in a stored recipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChunkerSpec {
    /// Chunks of one length.
    Fixed(FixedLen),
    /// Content-defined chunks.
    ByContent(Algorithm, Sizes),
}

impl ChunkerSpec {
    /// The default for a file of `file_len` bytes: sieve chunks, with an average that grows with the file.
    ///
    /// The average grows with the square root of the length, so that the size of the recipe and the cost of an
    /// edit grow alike. Above the number of chunks that an index should hold, the average grows in proportion
    /// to the length.
    #[must_use]
    pub fn for_len(file_len: u64) -> Self {
        let root = (file_len / LEN_PER_SQUARED_AVG).isqrt();
        let wanted = root.max(file_len.div_ceil(DEFAULT_CHUNKS)).min(DEFAULT_AVG_BYTES.1.into());
        let avg = (wanted as u32).next_power_of_two().max(DEFAULT_AVG_BYTES.0);
        let sizes = Sizes { min: avg / DEFAULT_SPREAD, avg, max: avg * DEFAULT_SPREAD };
        Self::ByContent(Algorithm::Sieve, sizes)
    }

    /// The same algorithm with an average of about `bytes`. Content-defined chunks get the next power of two
    /// and keep their ratios of minimum and maximum to the average, within the limits of [`Sizes`].
    #[must_use]
    pub(crate) fn with_mean(self, bytes: u32) -> Self {
        match self {
            Self::Fixed(_) => {
                let len = FixedLen::new(bytes.clamp(MIN_CHUNK_BYTES, MAX_CHUNK_BYTES));
                Self::Fixed(len.expect("a clamped length is in range"))
            }
            Self::ByContent(algorithm, Sizes { min, avg, max }) => {
                let (below, above) = (avg / min, max / avg);
                let least = (MIN_CHUNK_BYTES * below).next_power_of_two();
                let most = (MAX_CHUNK_BYTES / above + 1).next_power_of_two() / 2;
                let wanted = bytes.clamp(1, MAX_CHUNK_BYTES).next_power_of_two();
                let avg = wanted.clamp(least, most);
                Self::ByContent(algorithm, Sizes { min: avg / below, avg, max: avg * above })
            }
        }
    }

    /// The same algorithm with a smaller average if necessary, so that no chunk is longer than `longest`.
    /// `longest` must be at least [`MIN_CHUNK_BYTES`] times the ratio of maximum and average.
    #[must_use]
    pub fn within(self, longest: u32) -> Self {
        if self.max_len() <= longest {
            return self;
        }
        let spread = self.max_len() / self.mean_len();
        let mean = longest / spread;
        match self {
            Self::Fixed(_) => self.with_mean(mean),
            // The average of content-defined chunks is a power of two.
            Self::ByContent(..) => self.with_mean((mean / 2 + 1).next_power_of_two()),
        }
    }

    /// Builds the chunker in its fastest form for this machine.
    #[must_use]
    pub fn build(&self) -> AnyChunker {
        self.build_for(Isa::best())
    }

    /// Builds the chunker for the instruction set `isa`, or in portable code if there is no vector form. All
    /// forms find the same chunks (law 4).
    #[must_use]
    pub fn build_for(&self, isa: Isa) -> AnyChunker {
        AnyChunker(match *self {
            Self::Fixed(len) => ChunkerForm::Fixed(FixedChunker::new(len)),
            Self::ByContent(algorithm, sizes) => match algorithm {
                Algorithm::GearNc => {
                    ChunkerForm::Gear(GearChunker::new(sizes, NormalisationLevel::Two))
                }
                Algorithm::Ram => ChunkerForm::Ram(RamChunker::new(sizes, isa)),
                Algorithm::AeMax => ChunkerForm::Ae(AeChunker::new(Extreme::Max, sizes, isa)),
                Algorithm::AeMin => ChunkerForm::Ae(AeChunker::new(Extreme::Min, sizes, isa)),
                Algorithm::Maxp => ChunkerForm::Maxp(MaxpChunker::new(sizes, isa)),
                Algorithm::Seq => ChunkerForm::Seq(SeqChunker::new(sizes, isa)),
                Algorithm::Crc => ChunkerForm::Crc(CrcChunker::new(sizes)),
                Algorithm::Rabin => ChunkerForm::Rabin(RabinChunker::new(sizes)),
                Algorithm::Tttd => ChunkerForm::Tttd(TttdChunker::new(sizes)),
                Algorithm::Gear => {
                    ChunkerForm::Gear(GearChunker::new(sizes, NormalisationLevel::Zero))
                }
                Algorithm::FastCdc => {
                    ChunkerForm::FastCdc(FastCdcChunker::new(sizes, NormalisationLevel::Zero))
                }
                Algorithm::FastCdcNc => {
                    ChunkerForm::FastCdc(FastCdcChunker::new(sizes, NormalisationLevel::Two))
                }
                Algorithm::Sieve => ChunkerForm::Sieve(SieveChunker::new(sizes, isa)),
            },
        })
    }

    /// Builds RAM or AE in a form that VectorCDC publishes. All forms find the same chunks (law 4). Returns `None`
    /// for other algorithms.
    #[must_use]
    pub fn build_as_published(&self, form: PublishedForm) -> Option<AnyChunker> {
        let Self::ByContent(algorithm, sizes) = *self else { return None };
        let algorithm = match algorithm {
            Algorithm::Ram => PublishedAlgorithm::Ram,
            Algorithm::AeMax => PublishedAlgorithm::Ae(Extreme::Max),
            Algorithm::AeMin => PublishedAlgorithm::Ae(Extreme::Min),
            _ => return None,
        };
        let chunker = PublishedChunker::new(algorithm, sizes, form);
        Some(AnyChunker(ChunkerForm::Published(chunker)))
    }

    /// Length of the shortest chunk in bytes. The last chunk of a file may be shorter.
    #[must_use]
    pub const fn min_len(&self) -> u32 {
        match self {
            Self::Fixed(len) => len.get(),
            Self::ByContent(_, sizes) => sizes.min,
        }
    }

    /// Length of the longest chunk in bytes.
    #[must_use]
    pub const fn max_len(&self) -> u32 {
        match self {
            Self::Fixed(len) => len.get(),
            Self::ByContent(_, sizes) => sizes.max,
        }
    }

    /// Approximate average length of chunks of random data, in bytes.
    #[must_use]
    pub const fn mean_len(&self) -> u32 {
        match self {
            Self::Fixed(len) => len.get(),
            Self::ByContent(_, sizes) => sizes.avg,
        }
    }

    /// Appends the number of the algorithm and the lengths.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Fixed(len) => {
                out.put_u8(TAG_FIXED);
                out.put_varint(len.get().into());
            }
            Self::ByContent(algorithm, sizes) => {
                out.put_u8(algorithm.number_and_name().0);
                sizes.encode(out);
            }
        }
    }

    /// Reads the output of [`ChunkerSpec::encode`].
    ///
    /// # Errors
    /// [`CodecError`]; [`CodecError::OutOfRange`] for an unknown algorithm, or lengths that [`Sizes::new`]
    /// refuses.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, CodecError> {
        let tag = reader.u8()?;
        if tag == TAG_FIXED {
            let len = FixedLen::new(reader.varint_u32()?);
            return len.map(Self::Fixed).map_err(|_| CodecError::OutOfRange);
        }
        let algorithm = Algorithm::numbered(tag)?;
        Ok(Self::ByContent(algorithm, Sizes::decode(reader)?))
    }
}

/// A chunker of any algorithm, built from a [`ChunkerSpec`].
#[derive(Clone, Copy, Debug)]
pub struct AnyChunker(ChunkerForm);

/// Declares [`ChunkerForm`] with a variant for each type of chunker, and implements [`Chunker`] for [`AnyChunker`] by
/// dispatch.
macro_rules! any_chunker {
    ($($form:ident($chunker:ident)),+) => {
        #[derive(Clone, Copy, Debug)]
        enum ChunkerForm {
            $($form($chunker)),+
        }

        impl Chunker for AnyChunker {
            fn max_len(&self) -> usize {
                match &self.0 {
                    $(ChunkerForm::$form(chunker) => chunker.max_len()),+
                }
            }

            #[inline]
            fn cut(&self, data: &[u8]) -> usize {
                match &self.0 {
                    $(ChunkerForm::$form(chunker) => chunker.cut(data)),+
                }
            }
        }
    };
}

any_chunker!(
    Fixed(FixedChunker),
    Crc(CrcChunker),
    Rabin(RabinChunker),
    Tttd(TttdChunker),
    Gear(GearChunker),
    FastCdc(FastCdcChunker),
    Ae(AeChunker),
    Ram(RamChunker),
    Published(PublishedChunker),
    Maxp(MaxpChunker),
    Seq(SeqChunker),
    Sieve(SieveChunker)
);

const TAG_FIXED: u8 = 1;

/// Target number of chunks of a default recipe, until the largest average is reached.
const DEFAULT_CHUNKS: u64 = 1 << 19;
/// Gives 4 KiB chunks for 1 GiB. Smaller chunks cost more CPU time than they save on a fast network.
const LEN_PER_SQUARED_AVG: u64 = 64;
/// The smallest and the largest default average, in bytes.
const DEFAULT_AVG_BYTES: (u32, u32) = (2 << 10, 128 << 10);
/// Ratio of average to minimum, and of maximum to average.
const DEFAULT_SPREAD: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    /// Chunkers with a hash of a window. FastCDC has a cold hash and its own test.
    #[test]
    fn a_run_of_one_byte_is_cut_at_the_maximum() {
        let tight = Sizes::new(512, 512, 4096).unwrap();
        let loose = Sizes::new(512, 1024, 4096).unwrap();
        for (algorithm, sizes) in [
            (Algorithm::GearNc, tight),
            (Algorithm::Sieve, tight),
            (Algorithm::Gear, loose),
            (Algorithm::Crc, loose),
            (Algorithm::Rabin, loose),
            (Algorithm::Tttd, loose),
        ] {
            let chunker = ChunkerSpec::ByContent(algorithm, sizes).build();
            for byte in 0..=255 {
                assert_eq!(chunker.cut(&[byte; 5000]), 4096, "{algorithm:?} of {byte}");
            }
        }
    }

    #[test]
    fn only_ram_and_ae_have_published_forms() {
        let sizes = Sizes::new(512, 1024, 4096).unwrap();
        for algorithm in Algorithm::ALL {
            let spec = ChunkerSpec::ByContent(algorithm, sizes);
            let published = spec.build_as_published(PublishedForm::Native).is_some();
            let wanted = matches!(algorithm, Algorithm::Ram | Algorithm::AeMax | Algorithm::AeMin);
            assert_eq!(published, wanted, "{algorithm:?}");
        }
    }

    #[test]
    fn the_default_grows_with_the_file() {
        for (file_len, avg) in [
            (0, 2 << 10),
            (1 << 28, 2 << 10),
            (1 << 29, 4 << 10),
            (1 << 30, 4 << 10),
            (1 << 32, 8 << 10),
            (1 << 35, 64 << 10),
            (1 << 36, 128 << 10),
            (u64::MAX, 128 << 10),
        ] {
            let sizes = Sizes::new(avg / 4, avg, avg * 4).unwrap();
            let spec = ChunkerSpec::ByContent(Algorithm::Sieve, sizes);
            assert_eq!(ChunkerSpec::for_len(file_len), spec, "{file_len}");
        }
    }
}
