//! Strategies: how two ends synchronise a file, as plain data. There is Deltic's own strategy, and a preset for
//! each system of the papers (docs/papers.md).
//!
//! A strategy combines stages that all strategies share; no preset has code of its own. Safety is not a choice:
//! no strategy commits a file on the evidence of a weak sum or of a forgeable hash ([`Strategy::proof`]).

mod adapting;
mod cost;

pub use adapting::{AdaptiveCodec, CompressionReason, FrameCodec, PackingTotals};
pub use cost::{CodecModel, LinkModel, netsync_avg_bytes};

use std::str::FromStr;

use crate::chunk::{Algorithm, ChunkerSpec, FixedLen, MAX_CHUNK_BYTES, Sizes};
use crate::strong::StrongKind;
use crate::weak::WeakKind;

/// Roles of the two ends: which end sends which sums, and which end searches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Conversation {
    /// The sender sends fingerprints of the new chunks; the receiver requests missing chunks. No confirmation:
    /// equal fingerprints mean equal bytes.
    Recipe,
    /// The sender sends weak sums of the new chunks. For matches among the old chunks the receiver answers with
    /// strong sums. The sender confirms or refutes the matches (dsync, NetSync, ParaSync, SkySync-C).
    RecipeConfirm,
    /// The receiver sends sums of the old blocks; the sender rolls over the new version (rsync, SkySync-F).
    Signature,
    /// The sender sends weak and strong sums of the new blocks; the receiver rolls over the old version
    /// (WebR2sync).
    RecipeRolled,
}

/// Rule that chooses the chunker of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChunkerChoice {
    /// The chunker of [`ChunkerSpec::for_len`].
    ByLen,
    /// The same chunker for all files.
    Always(ChunkerSpec),
    /// FastCDC with an average that depends on the bandwidth ([`netsync_avg_bytes`]).
    ByBandwidth,
}

/// Source of block sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SumSource {
    /// Computed from the file.
    Computed,
    /// Kept by the storage layer where available, and combined (SkySync §3.1, §3.2.1).
    Stored,
}

/// Table of weak sums, or a filter in front of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WeakFilter {
    /// Tags of 16 bits (rsync; WebR2sync §5.2): in front of a rolling search, and in a conversation with
    /// confirmation as [`TagTable`](crate::index::TagTable) (dsync, NetSync).
    Tags,
    /// No filter: the sum itself selects the slot (SkySync §3.2.2), or the sum is a fingerprint.
    Nothing,
}

/// Order of look-ups: first the chunk that follows the last match, or no preference (WebR2sync+ §5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LookupOrder {
    /// Right behind a match, tries the next chunk first.
    First,
    /// Looks up every chunk in the same way, wherever the last match was.
    Ignored,
}

/// Confirmation of adjacent matches: together or one by one (NetSync §4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MatchMerging {
    /// One strong sum confirms each run of adjacent matches ([`RunMerger`](crate::RunMerger)).
    Runs,
    /// One strong sum confirms each matching chunk.
    Never,
}

/// Number of old chunks that the receiver proposes for a chunk of the new version with the same weak sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CandidateChoice {
    /// One old chunk: the old chunk after the last match, if its weak sum is the same.
    One,
    /// All old chunks with other strong sums. The sender looks its own sum up in a table of each batch
    /// (ParaSync §3.2).
    All,
}

/// Use of threads for one file. The chunks are the same for all variants (law 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ParallelMode {
    /// No threads: each end works sequentially.
    No,
    /// A bit for each possible end of a chunk, in parallel; then one thread computes chunks and their sums
    /// ([`SsCdc`](crate::chunk::SsCdc); ParaSync §2.3). Strong sums of possible matches in parallel.
    SsCdc,
    /// As [`SsCdc`](Self::SsCdc), with Deltic's first stage: lists of possible ends, and minima skipped once the
    /// boundaries are those of the file ([`JudgeScope::AsCut`](crate::chunk::JudgeScope)).
    SkippedMinima,
    /// Candidates and sums between them in parallel, combined as they arrive (ParaSync §3.1). Strong sums in
    /// parallel.
    SubChunks,
    /// Segments chunked and summed in parallel, then joined.
    Stitch,
    /// Regions of the file in parallel: chunks and sums as in [`Stitch`](Self::Stitch), searches as in
    /// [`SharedBlocks`](crate::search::SharedBlocks) (SkySync §4.3).
    Regions,
}

/// Order and overlap of the steps of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Delivery {
    /// Each step waits for the step before. All literals are written in file order, then all copies are made in
    /// file order, one at a time. The papers assemble the file from start to end once everything has arrived,
    /// which would keep all literals in memory.
    Phased,
    /// Each list of sums is complete before its use. Then the new version is written from start to end, one
    /// copy or literal at a time, while later literals arrive.
    InOrder,
    /// Overlapping steps: each step works on batches, and received data is written at its offset at once
    /// (ParaSync §3.2, §3.3).
    Pipelined,
}

/// When literals are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CompressionChoice {
    /// Literals are compressed only on the user's request.
    AsAsked,
    /// The measured link decides whether and at which level each frame is compressed, unless the user asked for a
    /// level ([`AdaptiveCodec`]; NetSync §4.4).
    ByCost,
}

/// Proof that the received file equals the sender's file, checked before the file becomes visible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileProof {
    /// The digest over the fingerprints of all chunks; each byte is hashed once.
    Recipe,
    /// BLAKE3 of the whole file, in addition to the sums that matched its parts.
    WholeFile,
    /// No proof, as in the papers ([`Proving::Never`]).
    Nothing,
}

/// Says if the strategy proves a file before the file becomes visible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Proving {
    /// Each file is proven.
    Always,
    /// Files are not proven. Only `deltic-bench` uses this value, to measure the cost of the proof.
    Never,
}

/// The choices for the synchronisation of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Strategy {
    /// Name, as in [`Strategy::by_name`] and in the greeting.
    pub name: &'static str,
    /// Roles of the two ends.
    pub conversation: Conversation,
    /// Chunker.
    pub chunking: ChunkerChoice,
    /// Weak sum, which suggests a match; `None` if fingerprints are sent.
    pub weak: Option<WeakKind>,
    /// Strong sum, which confirms a match. Fingerprints need no confirmation; the session chooses their hash
    /// and may choose a faster one.
    pub strong: StrongKind,
    /// Source of weak and strong sums.
    pub sums: SumSource,
    /// Tags, or the [`CuckooIndex`](crate::index::CuckooIndex) of weak sums alone. A rolling search
    /// ([`Searcher`](crate::Searcher)) always uses tags.
    pub filter: WeakFilter,
    /// Order of look-ups.
    pub locality: LookupOrder,
    /// Merging of adjacent matches.
    pub merge: MatchMerging,
    /// Old chunks that are proposed for a chunk of the new version.
    pub candidates: CandidateChoice,
    /// Use of threads.
    pub parallel: ParallelMode,
    /// Order and overlap of the steps.
    pub delivery: Delivery,
    /// Compression of literals.
    pub compression: CompressionChoice,
    /// Strong sum for a second attempt if the proof fails (WebR2sync §5.2). If that proof fails too, the whole file is
    /// sent.
    pub stronger: Option<StrongKind>,
    /// Use of the proof.
    pub proving: Proving,
    /// Maximum chunk length in bytes: [`MAX_CHUNK_BYTES`], or a lower limit that both ends agreed on.
    pub longest: u32,
}

impl Strategy {
    /// All strategies: Deltic's own, and one preset for each published system (docs/papers.md).
    pub const ALL: [Self; 16] = [
        Self::DELTIC,
        RSYNC,
        DSYNC,
        PDSYNC,
        PDSYNC_SKIP,
        NETSYNC,
        NETSYNC_STRIDE,
        NETSYNC_LAST,
        PARASYNC,
        SKYSYNC_F,
        SKYSYNC_C,
        WEBRSYNC,
        WEBRSYNC_PLUS,
        WEBR2SYNC,
        WEBR2SYNC_SIPHASH,
        WEBR2SYNC_PLUS,
    ];

    /// The default strategy.
    pub const DELTIC: Self = Self {
        name: "deltic",
        conversation: Conversation::Recipe,
        chunking: ChunkerChoice::ByLen,
        weak: None,
        strong: StrongKind::Blake3,
        sums: SumSource::Computed,
        filter: WeakFilter::Nothing,
        locality: LookupOrder::First,
        merge: MatchMerging::Never,
        candidates: CandidateChoice::One,
        parallel: ParallelMode::Stitch,
        delivery: Delivery::Pipelined,
        compression: CompressionChoice::ByCost,
        stronger: None,
        proving: Proving::Always,
        longest: MAX_CHUNK_BYTES,
    };

    /// The strategy with this name.
    ///
    /// # Errors
    /// [`UnknownStrategy`], whose message lists all names.
    pub fn by_name(name: &str) -> Result<Self, UnknownStrategy> {
        let found = Self::ALL.into_iter().find(|strategy| strategy.name == name);
        found.ok_or_else(|| UnknownStrategy(name.into()))
    }

    /// The chunker for a new version of `new_len` bytes and a link of `bits_per_second`, if known.
    ///
    /// Both ends use the sender's choice. In [`Conversation::Signature`] both ends use the receiver's choice, made for
    /// the length of the old version.
    #[must_use]
    pub fn chunker(&self, new_len: u64, bits_per_second: Option<u64>) -> ChunkerSpec {
        let spec = match self.chunking {
            ChunkerChoice::ByLen => ChunkerSpec::for_len(new_len),
            ChunkerChoice::Always(spec) => spec,
            ChunkerChoice::ByBandwidth => fastcdc(netsync_avg_bytes(bits_per_second)),
        };
        spec.within(self.longest)
    }

    /// The same strategy with chunks or blocks of about `bytes` for all files and links (`--block-size`).
    #[must_use]
    pub fn with_chunk_len(self, bytes: u32) -> Self {
        let spec = self.chunker(0, None).with_mean(bytes);
        Self { chunking: ChunkerChoice::Always(spec), ..self }
    }

    /// The proof that is checked before a commit. If the proof fails, a transfer with a stronger sum or of the
    /// whole file follows (law 9).
    ///
    /// Whole chunks with collision-resistant fingerprints prove themselves. All other strategies end with
    /// another hash over the file: a rolling search leaves no chunks, MD5 and SHA-1 are broken, and SipHash is
    /// short. SHA-256 of the matched chunks would not prove the literals and the order.
    ///
    /// A benchmark may leave out the proof of whole files ([`Proving::Never`]).
    #[must_use]
    pub const fn proof(&self) -> FileProof {
        match (self.conversation, self.strong) {
            (Conversation::Recipe | Conversation::RecipeConfirm, StrongKind::Blake3) => {
                FileProof::Recipe
            }
            _ if matches!(self.proving, Proving::Never) => FileProof::Nothing,
            _ => FileProof::WholeFile,
        }
    }
}

impl Default for Strategy {
    fn default() -> Self {
        Self::DELTIC
    }
}

impl FromStr for Strategy {
    type Err = UnknownStrategy;

    fn from_str(name: &str) -> Result<Self, UnknownStrategy> {
        Self::by_name(name)
    }
}

/// Error for an unknown name of a strategy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a strategy; there are {names}", names = Strategy::ALL.map(|strategy| strategy.name).join(", "))]
pub struct UnknownStrategy(String);

/// The baseline of SkySync and WebR2sync, with their blocks of 8 KiB. Current rsync chooses the block length by
/// the length of the file; benchmarks run the real rsync.
const RSYNC: Strategy = Strategy {
    name: "rsync",
    conversation: Conversation::Signature,
    chunking: ChunkerChoice::Always(BLOCKS),
    weak: Some(WeakKind::Adler),
    strong: StrongKind::Md5,
    sums: SumSource::Computed,
    filter: WeakFilter::Tags,
    locality: LookupOrder::Ignored,
    merge: MatchMerging::Never,
    candidates: CandidateChoice::One,
    parallel: ParallelMode::No,
    delivery: Delivery::InOrder,
    compression: CompressionChoice::AsAsked,
    stronger: None,
    proving: Proving::Always,
    longest: MAX_CHUNK_BYTES,
};

/// dsync (He et al. 2020), as described in SkySync (§2.2.2, §4.1).
const DSYNC: Strategy = Strategy {
    name: "dsync",
    conversation: Conversation::RecipeConfirm,
    chunking: ChunkerChoice::Always(ChunkerSpec::ByContent(Algorithm::FastCdcNc, DATA_DOMAIN)),
    weak: Some(WeakKind::FastFp),
    strong: StrongKind::Sha1,
    sums: SumSource::Computed,
    filter: WeakFilter::Tags,
    locality: LookupOrder::Ignored,
    merge: MatchMerging::Never,
    candidates: CandidateChoice::One,
    parallel: ParallelMode::No,
    delivery: Delivery::Phased,
    compression: CompressionChoice::AsAsked,
    stronger: None,
    proving: Proving::Always,
    longest: MAX_CHUNK_BYTES,
};

/// ParaSync's strong baseline (§2.5, §4.1).
const PDSYNC: Strategy = Strategy {
    name: "pdsync",
    parallel: ParallelMode::SsCdc,
    delivery: Delivery::InOrder,
    ..PARASYNC
};

/// `pdsync` with a first stage that skips minima, which SS-CDC does not.
const PDSYNC_SKIP: Strategy =
    Strategy { name: "pdsync-skip", parallel: ParallelMode::SkippedMinima, ..PDSYNC };

/// NetSync (Xia et al. 2022).
const NETSYNC: Strategy = Strategy {
    name: "netsync",
    chunking: ChunkerChoice::ByBandwidth,
    merge: MatchMerging::Runs,
    compression: CompressionChoice::ByCost,
    ..DSYNC
};

/// NetSync with FastFP(+16), which the paper compares with FastFP (§4.2, §5.2).
const NETSYNC_STRIDE: Strategy =
    Strategy { name: "netsync-16", weak: Some(WeakKind::FastFpStride), ..NETSYNC };

/// NetSync with LastFP, which the paper rejects (§4.2, §5.2).
const NETSYNC_LAST: Strategy =
    Strategy { name: "netsync-last", weak: Some(WeakKind::LastFp), ..NETSYNC };

/// ParaSync (Zhang et al. 2026).
const PARASYNC: Strategy = Strategy {
    name: "parasync",
    conversation: Conversation::RecipeConfirm,
    chunking: ChunkerChoice::Always(ChunkerSpec::ByContent(Algorithm::Crc, DATA_DOMAIN)),
    weak: Some(WeakKind::Crc32c),
    strong: StrongKind::Blake3,
    sums: SumSource::Computed,
    filter: WeakFilter::Nothing,
    locality: LookupOrder::Ignored,
    merge: MatchMerging::Never,
    candidates: CandidateChoice::All,
    parallel: ParallelMode::SubChunks,
    delivery: Delivery::Pipelined,
    compression: CompressionChoice::AsAsked,
    stronger: None,
    proving: Proving::Always,
    longest: MAX_CHUNK_BYTES,
};

/// SkySync on rsync's conversation (§3.3, §4.1).
const SKYSYNC_F: Strategy = Strategy {
    name: "skysync-f",
    weak: Some(WeakKind::Crc32c),
    strong: StrongKind::Sha256,
    sums: SumSource::Stored,
    parallel: ParallelMode::Regions,
    ..RSYNC
};

/// SkySync on dsync's conversation (§3.2, §3.3).
const SKYSYNC_C: Strategy = Strategy {
    name: "skysync-c",
    weak: Some(WeakKind::Crc32c),
    strong: StrongKind::Sha256,
    sums: SumSource::Stored,
    filter: WeakFilter::Nothing,
    parallel: ParallelMode::Regions,
    ..DSYNC
};

/// WebRsync (Xiao et al. 2018, §3.1): rsync, with its sender in a browser.
const WEBRSYNC: Strategy = Strategy { name: "webrsync", ..RSYNC };

/// WebRsync+ (Xiao et al. 2018, §4): both optimisations of WebR2sync+, at the sender.
const WEBRSYNC_PLUS: Strategy = Strategy {
    name: "webrsync+",
    strong: StrongKind::SipHash,
    locality: LookupOrder::First,
    stronger: Some(StrongKind::Md5),
    ..WEBRSYNC
};

/// WebR2sync (Xiao et al. 2018, §5.1).
const WEBR2SYNC: Strategy = Strategy {
    name: "webr2sync",
    conversation: Conversation::RecipeRolled,
    delivery: Delivery::Phased,
    ..WEBRSYNC
};

/// WebR2sync with SipHash (Xiao et al. 2018, §6.3): the first of the two optimisations of WebR2sync+.
const WEBR2SYNC_SIPHASH: Strategy = Strategy {
    name: "webr2sync-siphash",
    strong: StrongKind::SipHash,
    stronger: Some(StrongKind::Md5),
    ..WEBR2SYNC
};

/// WebR2sync+ (Xiao et al. 2018, §5.2 and §5.3).
const WEBR2SYNC_PLUS: Strategy =
    Strategy { name: "webr2sync+", locality: LookupOrder::First, ..WEBR2SYNC_SIPHASH };

/// The blocks of rsync, SkySync-F and WebR2sync in the papers.
const BLOCKS: ChunkerSpec = match FixedLen::new(8 << 10) {
    Ok(len) => ChunkerSpec::Fixed(len),
    Err(_) => panic!("the block length of the papers is in range"),
};

/// Minimum, average and maximum length in bytes, after the Data Domain system (ParaSync §2.2, SkySync §4.1).
const DATA_DOMAIN: Sizes = sizes(4 << 10, 8 << 10, 12 << 10);

const fn sizes(min: u32, avg: u32, max: u32) -> Sizes {
    match Sizes::new(min, avg, max) {
        Ok(sizes) => sizes,
        Err(_) => panic!("the sizes of the papers are valid"),
    }
}

/// FastCDC's minimum and maximum: a quarter and eight times the average; but at least our minimum.
const fn fastcdc(avg: u32) -> ChunkerSpec {
    let min = avg / 4;
    let min = if min < crate::chunk::MIN_CHUNK_BYTES { crate::chunk::MIN_CHUNK_BYTES } else { min };
    ChunkerSpec::ByContent(Algorithm::FastCdcNc, sizes(min, avg, avg * 8))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// True if an end rolls over its version byte by byte.
    fn rolls(strategy: &Strategy) -> bool {
        matches!(strategy.conversation, Conversation::Signature | Conversation::RecipeRolled)
    }

    #[test]
    fn every_strategy_is_found_by_its_name() {
        for strategy in Strategy::ALL {
            assert_eq!(strategy.name.parse(), Ok(strategy));
        }
        let names = Strategy::ALL.map(|strategy| strategy.name);
        assert_eq!(names.into_iter().collect::<std::collections::HashSet<_>>().len(), names.len());
    }

    #[test]
    fn the_error_for_an_unknown_name_lists_all_strategies() {
        let error = Strategy::by_name("sync").unwrap_err().to_string();
        assert!(
            error.contains("\"sync\"")
                && error.contains("deltic, rsync, dsync, pdsync, pdsync-skip"),
            "{error}"
        );
        assert!(error.ends_with("webr2sync-siphash, webr2sync+"), "{error}");
    }

    #[test]
    fn the_choices_of_every_strategy_are_consistent() {
        for strategy in Strategy::ALL {
            let name = strategy.name;
            let is_fixed = matches!(strategy.chunker(1 << 30, None), ChunkerSpec::Fixed(_));
            assert_eq!(rolls(&strategy), is_fixed, "{name}: only blocks can be rolled for");
            let is_recipe = strategy.conversation == Conversation::Recipe;
            assert_eq!(strategy.weak.is_none(), is_recipe, "{name}: fingerprints need no weak sum");
            assert!(!is_recipe || strategy.filter == WeakFilter::Nothing, "{name}");
            assert!(!rolls(&strategy) || strategy.filter == WeakFilter::Tags, "{name}");
            // The search of a region knows no neighbour in the region before.
            let is_shared = strategy.parallel == ParallelMode::Regions;
            assert!(!is_shared || strategy.locality == LookupOrder::Ignored, "{name}");
            if rolls(&strategy) {
                let rolls = matches!(strategy.weak, Some(WeakKind::Adler | WeakKind::Crc32c));
                assert!(rolls, "{name}: a Gear hash of a window does not roll over blocks");
                let shares = matches!(strategy.parallel, ParallelMode::No | ParallelMode::Regions);
                assert!(shares, "{name}: blocks need no search for boundaries");
            }
            if matches!(strategy.parallel, ParallelMode::SubChunks) {
                assert_eq!(
                    strategy.weak,
                    Some(WeakKind::Crc32c),
                    "{name}: no other sum can be combined"
                );
            }
            if strategy.sums == SumSource::Stored {
                assert_eq!(
                    strategy.weak,
                    Some(WeakKind::Crc32c),
                    "{name}: stores keep no other sum that can be combined"
                );
            }
            if strategy.merge == MatchMerging::Runs {
                assert_eq!(strategy.conversation, Conversation::RecipeConfirm, "{name}");
            }
        }
    }

    #[test]
    fn a_requested_block_size_stays_within_the_bounds_of_every_strategy() {
        for strategy in Strategy::ALL {
            for bytes in [0, 1, 511, 512, 700, 8192, 8193, 131_072, 131_073, u32::MAX] {
                let spec = strategy.with_chunk_len(bytes).chunker(1 << 40, Some(1));
                let (is, was) = match (spec, strategy.chunker(0, None)) {
                    (ChunkerSpec::Fixed(len), _) => {
                        assert_eq!(len.get(), bytes.clamp(512, 512 << 10), "{}", strategy.name);
                        continue;
                    }
                    (ChunkerSpec::ByContent(is, sizes), ChunkerSpec::ByContent(was, _)) => {
                        let Sizes { .. } =
                            Sizes::new(sizes.min(), sizes.avg(), sizes.max()).expect("sizes rise");
                        if (2048..=32_768).contains(&bytes) {
                            assert_eq!(sizes.avg(), bytes.next_power_of_two(), "{}", strategy.name);
                        }
                        (is, was)
                    }
                    other => panic!("{other:?}"),
                };
                assert_eq!(is, was, "{}", strategy.name);
            }
        }
    }

    #[test]
    fn no_file_is_committed_by_a_forgeable_sum() {
        for strategy in Strategy::ALL {
            let can_be_forged = strategy.strong != StrongKind::Blake3;
            assert!(
                !can_be_forged || strategy.proof() == FileProof::WholeFile,
                "{}",
                strategy.name
            );
        }
        let proofs = ["deltic", "pdsync", "parasync", "rsync", "skysync-c"]
            .map(|name| Strategy::by_name(name).unwrap().proof());
        use FileProof::{Recipe, WholeFile};
        assert_eq!(proofs, [Recipe, Recipe, Recipe, WholeFile, WholeFile]);
    }

    /// The systems of the paper differ only in the fields that the paper names.
    #[test]
    fn the_family_of_webrsync_differs_in_the_direction_the_hash_and_the_locality() {
        use Conversation::{RecipeRolled, Signature};
        use LookupOrder::{First, Ignored};
        use StrongKind::{Md5, SipHash};
        let table = [
            ("webrsync", Signature, Md5, Ignored, None),
            ("webrsync+", Signature, SipHash, First, Some(Md5)),
            ("webr2sync", RecipeRolled, Md5, Ignored, None),
            ("webr2sync-siphash", RecipeRolled, SipHash, Ignored, Some(Md5)),
            ("webr2sync+", RecipeRolled, SipHash, First, Some(Md5)),
        ];
        for (name, conversation, strong, locality, stronger) in table {
            let delivery = match conversation {
                Signature => Delivery::InOrder,
                _ => Delivery::Phased,
            };
            let member = Strategy::by_name(name).unwrap();
            let differences =
                Strategy { name, conversation, strong, locality, stronger, delivery, ..RSYNC };
            assert_eq!(member, differences, "{name}");
            assert_eq!(member.chunker(1 << 40, Some(1)), BLOCKS, "{name}");
        }
    }

    #[test]
    fn netsync_cuts_by_bandwidth_and_the_others_do_not() {
        let avg = |name: &str, mbit: u64| {
            let spec = Strategy::by_name(name).unwrap().chunker(1 << 20, Some(mbit * 1_000_000));
            match spec {
                ChunkerSpec::ByContent(_, sizes) => sizes.avg(),
                ChunkerSpec::Fixed(len) => len.get(),
            }
        };
        assert_eq!([5, 20, 500].map(|mbit| avg("netsync", mbit)), [512, 1024, 2048]);
        assert_eq!([5, 20, 500].map(|mbit| avg("dsync", mbit)), [8192; 3]);
        assert_eq!([5, 20, 500].map(|mbit| avg("rsync", mbit)), [8192; 3]);
    }
}
