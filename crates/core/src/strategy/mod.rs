//! Strategies: how two ends bring a file up to date, as plain data. Deltic's own way, and each system of the papers
//! as a preset (docs/papers.md).
//!
//! A strategy chooses among stages that all strategies share; no preset has code of its own. What no strategy can
//! choose is safety: none commits a file on the word of a weak sum, or of a hash that can be forged
//! ([`Strategy::proof`]).

mod cost;

pub use cost::{Codec, Link, netsync_avg_bytes};

use std::str::FromStr;

use crate::chunk::{Algorithm, ChunkerSpec, FixedLen, MAX_CHUNK_BYTES, Sizes};
use crate::strong::Strong;
use crate::weak::Weak;

/// Roles in a conversation: who sends sums of what, and who searches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Conversation {
    /// The sender tells fingerprints of the chunks of new; the receiver says what it needs. Nothing is confirmed: equal
    /// fingerprints mean equal bytes.
    Recipe,
    /// The sender sends weak sums of the chunks of new. The receiver answers those that it finds among the chunks of
    /// old with strong sums. The sender confirms or refutes (dsync, NetSync, ParaSync, SkySync-C).
    RecipeConfirm,
    /// The receiver tells the sums of the blocks of old; the sender rolls over new (rsync, SkySync-F).
    Signature,
    /// The sender tells weak and strong sums of the blocks of new; the receiver rolls over old (WebR2sync).
    RecipeRolled,
}

/// Lengths of chunks, and who says where they end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Chunking {
    /// [`ChunkerSpec::for_len`].
    ByLen,
    /// The same for all files.
    Always(ChunkerSpec),
    /// FastCDC, with a mean that grows with the bandwidth ([`netsync_avg_bytes`]).
    ByBandwidth,
}

/// Source of the sums of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sums {
    /// Computed from the bytes.
    Computed,
    /// Kept by the storage layer, used where it keeps any, and joined (SkySync §3.1, §3.2.1).
    Stored,
}

/// Filter that rules weak sums out before they are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Filter {
    /// A table of 16-bit tags (rsync; WebR2sync §5.2).
    Tags,
    /// None: the sum itself is the place (SkySync §3.2.2), or it is a fingerprint.
    Nothing,
}

/// Order of look-ups: what lies right behind the last match is tried first, or not (WebR2sync §5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Locality {
    /// The block behind the last match is tried first.
    First,
    /// Each chunk is looked up.
    Ignored,
}

/// Form of matches that follow each other: joined, or one by one (NetSync §4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Merge {
    /// A token for each run ([`Runs`](crate::Runs)).
    Runs,
    /// A token for each chunk.
    Never,
}

/// Use of threads for one file. The chunks are the same in any case (law 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Parallel {
    /// No threads: each end does one thing after the other.
    No,
    /// Candidates in parallel; when all are known, chunks and their sums by one thread (SS-CDC; ParaSync §2.3).
    /// Strong sums of what may match in parallel.
    SsCdc,
    /// Sums of what lies between candidates in parallel, joined as they come (ParaSync §3.1). Strong sums as well.
    SubChunks,
    /// Segments chunked apart and stitched, sums and all.
    Stitch,
    /// Regions of the file apart: chunks and their sums as by [`Stitch`](Self::Stitch), searches as by
    /// [`Blocks`](crate::search::Blocks) (SkySync §4.3).
    Regions,
}

/// Order of the steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Delivery {
    /// Each step waits for all of the one before: all literals are written in the order of the file, then all copies
    /// are made in that order, one at a time. Papers assemble from start to end when all is there; literals would
    /// wait in memory for that.
    Phased,
    /// Each list of sums is complete before it is used. Then new is written from its start to its end, copies and
    /// literals as they lie in it, one at a time, while later literals are on their way.
    InOrder,
    /// All steps overlap: batches flow in all of them, and what arrives is written where it belongs (ParaSync §3.2,
    /// §3.3).
    Pipelined,
}

/// When literals are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compression {
    /// Compression where the user asks for it.
    AsAsked,
    /// Compression where it makes the transfer shorter ([`Link::fastest`]; NetSync §4.4).
    ByCost,
}

/// Proof that the receiver's file is the sender's, before anything becomes visible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Proof {
    /// The digest over the fingerprints of all chunks: each byte is hashed once.
    Recipe,
    /// BLAKE3 of the whole file, besides the sums that found its parts.
    WholeFile,
}

/// All choices for one sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Strategy {
    /// Name, as [`Strategy::named`] and the greeting have it.
    pub name: &'static str,
    /// Roles of the ends.
    pub conversation: Conversation,
    /// Chunk boundaries.
    pub chunking: Chunking,
    /// Weak sum, which suggests a match; none where fingerprints travel.
    pub weak: Option<Weak>,
    /// Strong sum, which confirms it. Fingerprints need no confirmation; they are the session's
    /// which may name chunks by something faster.
    pub strong: Strong,
    /// Source of both sums.
    pub sums: Sums,
    /// Filter that is asked before the index of weak sums ([`Cuckoo`](crate::index::Cuckoo)). A search at any place
    /// ([`Searcher`](crate::Searcher)) asks tags in any case.
    pub filter: Filter,
    /// Place where it is looked for first.
    pub locality: Locality,
    /// Form of matches.
    pub merge: Merge,
    /// Threads that share the chunking.
    pub parallel: Parallel,
    /// Order of the steps.
    pub delivery: Delivery,
    /// Compression of literals.
    pub compression: Compression,
    /// A stronger sum for one more try where the proof did not hold, before all of the file is sent (WebR2sync §5.2).
    pub stronger: Option<Strong>,
    /// Longest chunk in bytes, where the ends agree on less than chunks may have.
    pub longest: u32,
}

impl Strategy {
    /// Deltic's own, and one for each system of the papers.
    pub const ALL: [Self; 10] = [
        Self::DELTIC,
        RSYNC,
        DSYNC,
        PDSYNC,
        NETSYNC,
        PARASYNC,
        SKYSYNC_F,
        SKYSYNC_C,
        WEBR2SYNC,
        WEBR2SYNC_PLUS,
    ];

    /// The default.
    pub const DELTIC: Self = Self {
        name: "deltic",
        conversation: Conversation::Recipe,
        chunking: Chunking::ByLen,
        weak: None,
        strong: Strong::Blake3,
        sums: Sums::Computed,
        filter: Filter::Nothing,
        locality: Locality::First,
        merge: Merge::Never,
        parallel: Parallel::Stitch,
        delivery: Delivery::Pipelined,
        compression: Compression::AsAsked,
        stronger: None,
        longest: MAX_CHUNK_BYTES,
    };

    /// The preset called `name`.
    ///
    /// # Errors
    /// [`UnknownStrategy`], which says what there is.
    pub fn named(name: &str) -> Result<Self, UnknownStrategy> {
        let found = Self::ALL.into_iter().find(|strategy| strategy.name == name);
        found.ok_or_else(|| UnknownStrategy(name.into()))
    }

    /// The chunker for `new_len` bytes of new that cross a link of `bits_per_second`, if that is known. Both ends use
    /// the sender's answer, and in [`Conversation::Signature`] the receiver's, with the length of old.
    #[must_use]
    pub fn chunker(&self, new_len: u64, bits_per_second: Option<u64>) -> ChunkerSpec {
        let spec = match self.chunking {
            Chunking::ByLen => ChunkerSpec::for_len(new_len),
            Chunking::Always(spec) => spec,
            Chunking::ByBandwidth => fastcdc(netsync_avg_bytes(bits_per_second)),
        };
        spec.within(self.longest)
    }

    /// The same with chunks, or blocks, of about `bytes`, whatever the file's length or the link (`--block-size`).
    #[must_use]
    pub fn with_mean(self, bytes: u32) -> Self {
        let spec = self.chunker(0, None).with_mean(bytes);
        Self { chunking: Chunking::Always(spec), ..self }
    }

    /// Proof that is checked before a commit. Law 9: where it does not hold, a stronger or a full transfer follows.
    ///
    /// Whole chunks with known fingerprints prove themselves. All other strategies end with one more hash over the
    /// file. A rolling search leaves no chunks, MD5 and SHA-1 are broken, and SipHash is short. SHA-256 of the
    /// matched chunks alone would leave the literals and the order of all unproven.
    #[must_use]
    pub const fn proof(&self) -> Proof {
        match (self.conversation, self.strong) {
            (Conversation::Recipe | Conversation::RecipeConfirm, Strong::Blake3) => Proof::Recipe,
            _ => Proof::WholeFile,
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
        Self::named(name)
    }
}

/// No strategy has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a strategy; there are {names}", names = Strategy::ALL.map(|strategy| strategy.name).join(", "))]
pub struct UnknownStrategy(String);

/// SkySync's and WebR2sync's baseline, with their blocks of 8 KiB. The rsync of today chooses blocks by the file's
/// length; it takes part in benches itself.
const RSYNC: Strategy = Strategy {
    name: "rsync",
    conversation: Conversation::Signature,
    chunking: Chunking::Always(BLOCKS),
    weak: Some(Weak::Adler),
    strong: Strong::Md5,
    sums: Sums::Computed,
    filter: Filter::Tags,
    locality: Locality::Ignored,
    merge: Merge::Never,
    parallel: Parallel::No,
    delivery: Delivery::InOrder,
    compression: Compression::AsAsked,
    stronger: None,
    longest: MAX_CHUNK_BYTES,
};

/// He et al. 2020, as SkySync (§2.2.2, §4.1) has it.
const DSYNC: Strategy = Strategy {
    name: "dsync",
    conversation: Conversation::RecipeConfirm,
    chunking: Chunking::Always(by_content(Algorithm::FastCdcNc, DATA_DOMAIN)),
    weak: Some(Weak::FastFp),
    strong: Strong::Sha1,
    sums: Sums::Computed,
    filter: Filter::Tags,
    locality: Locality::Ignored,
    merge: Merge::Never,
    parallel: Parallel::No,
    delivery: Delivery::Phased,
    compression: Compression::AsAsked,
    stronger: None,
    longest: MAX_CHUNK_BYTES,
};

/// ParaSync's strong baseline (§2.5, §4.1).
const PDSYNC: Strategy =
    Strategy { name: "pdsync", parallel: Parallel::SsCdc, delivery: Delivery::InOrder, ..PARASYNC };

/// Xia et al. 2022.
const NETSYNC: Strategy = Strategy {
    name: "netsync",
    chunking: Chunking::ByBandwidth,
    merge: Merge::Runs,
    compression: Compression::ByCost,
    ..DSYNC
};

/// Zhang et al. 2026.
const PARASYNC: Strategy = Strategy {
    name: "parasync",
    conversation: Conversation::RecipeConfirm,
    chunking: Chunking::Always(by_content(Algorithm::Crc, DATA_DOMAIN)),
    weak: Some(Weak::Crc32c),
    strong: Strong::Blake3,
    sums: Sums::Computed,
    filter: Filter::Nothing,
    locality: Locality::Ignored,
    merge: Merge::Never,
    parallel: Parallel::SubChunks,
    delivery: Delivery::Pipelined,
    compression: Compression::AsAsked,
    stronger: None,
    longest: MAX_CHUNK_BYTES,
};

/// SkySync over rsync's conversation (§3.3, §4.1).
const SKYSYNC_F: Strategy = Strategy {
    name: "skysync-f",
    weak: Some(Weak::Crc32c),
    strong: Strong::Sha256,
    sums: Sums::Stored,
    parallel: Parallel::Regions,
    ..RSYNC
};

/// SkySync over dsync's conversation (§3.2, §3.3).
const SKYSYNC_C: Strategy = Strategy {
    name: "skysync-c",
    weak: Some(Weak::Crc32c),
    strong: Strong::Sha256,
    sums: Sums::Stored,
    filter: Filter::Nothing,
    parallel: Parallel::Regions,
    ..DSYNC
};

/// Xiao et al. 2018, §5.1.
const WEBR2SYNC: Strategy = Strategy {
    name: "webr2sync",
    conversation: Conversation::RecipeRolled,
    delivery: Delivery::Phased,
    ..RSYNC
};

/// Xiao et al. 2018, §5.2 and §5.3.
const WEBR2SYNC_PLUS: Strategy = Strategy {
    name: "webr2sync+",
    strong: Strong::SipHash,
    locality: Locality::First,
    stronger: Some(Strong::Md5),
    ..WEBR2SYNC
};

/// Blocks of rsync, SkySync-F and WebR2sync in the papers.
const BLOCKS: ChunkerSpec = match FixedLen::new(8 << 10) {
    Ok(len) => ChunkerSpec::Fixed(len),
    Err(_) => panic!("the papers' blocks are within our bounds"),
};

/// Least, mean and greatest length in bytes, after the Data Domain system (ParaSync §2.2, SkySync §4.1).
const DATA_DOMAIN: (u32, u32, u32) = (4 << 10, 8 << 10, 12 << 10);

const fn by_content(algorithm: Algorithm, (min, avg, max): (u32, u32, u32)) -> ChunkerSpec {
    match Sizes::new(min, avg, max) {
        Ok(sizes) => ChunkerSpec::ByContent(algorithm, sizes),
        Err(_) => panic!("the papers' sizes rise within our bounds"),
    }
}

/// FastCDC's own spread around a mean: a quarter, and eight times as much; but no chunk is shorter than ours may be.
const fn fastcdc(avg: u32) -> ChunkerSpec {
    let min = avg / 4;
    let min = if min < crate::chunk::MIN_CHUNK_BYTES { crate::chunk::MIN_CHUNK_BYTES } else { min };
    by_content(Algorithm::FastCdcNc, (min, avg, avg * 8))
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
    fn an_unknown_name_is_told_what_there_is() {
        let error = Strategy::named("sync").unwrap_err().to_string();
        assert!(
            error.contains("\"sync\"") && error.contains("deltic, rsync, dsync, pdsync"),
            "{error}"
        );
        assert!(error.ends_with("webr2sync, webr2sync+"), "{error}");
    }

    #[test]
    fn choices_of_every_strategy_fit_each_other() {
        for strategy in Strategy::ALL {
            let name = strategy.name;
            let is_fixed = matches!(strategy.chunker(1 << 30, None), ChunkerSpec::Fixed(_));
            assert_eq!(rolls(&strategy), is_fixed, "{name}: only blocks can be rolled for");
            let is_recipe = strategy.conversation == Conversation::Recipe;
            assert_eq!(strategy.weak.is_none(), is_recipe, "{name}: fingerprints need no weak sum");
            assert!(!is_recipe || strategy.filter == Filter::Nothing, "{name}");
            assert!(!rolls(&strategy) || strategy.filter == Filter::Tags, "{name}");
            // Who searches a region knows no neighbour in the one before.
            let is_shared = strategy.parallel == Parallel::Regions;
            assert!(!is_shared || strategy.locality == Locality::Ignored, "{name}");
            if rolls(&strategy) {
                let rolls = matches!(strategy.weak, Some(Weak::Adler | Weak::Crc32c));
                assert!(rolls, "{name}: a gear hash of a window is not one of a block");
                let shares = matches!(strategy.parallel, Parallel::No | Parallel::Regions);
                assert!(shares, "{name}: blocks need no search for ends");
            }
            if matches!(strategy.parallel, Parallel::SubChunks) {
                assert_eq!(strategy.weak, Some(Weak::Crc32c), "{name}: no other sum joins");
            }
            if strategy.sums == Sums::Stored {
                assert_eq!(
                    strategy.weak,
                    Some(Weak::Crc32c),
                    "{name}: stores keep no other that joins"
                );
            }
            if strategy.merge == Merge::Runs {
                assert_eq!(strategy.conversation, Conversation::RecipeConfirm, "{name}");
            }
        }
    }

    #[test]
    fn a_mean_that_is_asked_for_is_within_the_bounds_of_every_strategy() {
        for strategy in Strategy::ALL {
            for bytes in [0, 1, 511, 512, 700, 8192, 8193, 131_072, 131_073, u32::MAX] {
                let spec = strategy.with_mean(bytes).chunker(1 << 40, Some(1));
                let (is, was) = match (spec, strategy.chunker(0, None)) {
                    (ChunkerSpec::Fixed(len), _) => {
                        assert_eq!(len.get(), bytes.clamp(512, 512 << 10), "{}", strategy.name);
                        continue;
                    }
                    (ChunkerSpec::ByContent(is, sizes), ChunkerSpec::ByContent(was, _)) => {
                        let Sizes { .. } =
                            Sizes::new(sizes.min(), sizes.avg(), sizes.max()).expect("they rise");
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
    fn a_sum_that_can_be_forged_commits_no_file() {
        for strategy in Strategy::ALL {
            let can_be_forged = strategy.strong != Strong::Blake3;
            assert!(!can_be_forged || strategy.proof() == Proof::WholeFile, "{}", strategy.name);
        }
        let proofs = ["deltic", "pdsync", "parasync", "rsync", "skysync-c"]
            .map(|name| Strategy::named(name).unwrap().proof());
        use Proof::{Recipe, WholeFile};
        assert_eq!(proofs, [Recipe, Recipe, Recipe, WholeFile, WholeFile]);
    }

    #[test]
    fn netsync_cuts_by_bandwidth_and_the_others_do_not() {
        let avg = |name: &str, mbit: u64| {
            let spec = Strategy::named(name).unwrap().chunker(1 << 20, Some(mbit * 1_000_000));
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
