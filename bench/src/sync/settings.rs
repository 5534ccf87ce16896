//! Settings that a fair comparison holds equal: hash, proof, compressor and threads.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use deltic_core::Strategy;
use deltic_core::strategy::{Conversation, FileProof, ParallelMode};

use super::words::BadWord;
use crate::size::ByteSize;

/// Compressor of literals, the same for all strategies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LiteralCodec {
    /// Each strategy compresses as it does by itself.
    Own,
    /// No strategy compresses.
    Nothing,
    /// zstd for all strategies (`-z`), at a level that the link decides.
    Usual,
    /// zstd at this level for all strategies.
    Zstd(u32),
}

impl LiteralCodec {
    /// Returns the values of the options `compress` and `compress_level`.
    pub(crate) fn options(self) -> (bool, u32) {
        match self {
            Self::Own => (false, 0),
            // A level without `compress` excludes compression.
            Self::Nothing => (false, 1),
            Self::Usual => (true, 0),
            Self::Zstd(level) => (true, level),
        }
    }

    /// True if every strategy compresses.
    pub(crate) fn is_zstd(self) -> bool {
        matches!(self, Self::Usual | Self::Zstd(_))
    }
}

impl FromStr for LiteralCodec {
    type Err = BadWord;

    fn from_str(word: &str) -> Result<Self, BadWord> {
        match word {
            "own" => Ok(Self::Own),
            "none" => Ok(Self::Nothing),
            _ => {
                let level = word.strip_prefix("zstd:").and_then(|level| level.parse().ok());
                let level = level.filter(|level| (1..=MAX_LEVEL).contains(level));
                level.map(Self::Zstd).ok_or(BadWord::Codec)
            }
        }
    }
}

impl fmt::Display for LiteralCodec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own => f.write_str("the system's own"),
            Self::Nothing => f.write_str("none"),
            Self::Usual => f.write_str("zstd, level by the link"),
            Self::Zstd(level) => write!(f, "zstd {level}"),
        }
    }
}

/// A setting that a table holds equal, or studies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Factor {
    /// The strong sum that confirms a match.
    Hash,
    /// The proof of the whole file.
    Proof,
    /// The compressor of literals.
    Codec,
    /// Threads that compute at each end.
    Threads,
    /// The requested mean length of chunks.
    Chunks,
}

impl Factor {
    /// All settings of `deltic bench sync`.
    pub(crate) const ALL: [Self; 5] =
        [Self::Hash, Self::Proof, Self::Codec, Self::Threads, Self::Chunks];

    /// Returns the name in captions.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Hash => "strong hash",
            Self::Proof => "proof",
            Self::Codec => "compressor",
            Self::Threads => "threads",
            Self::Chunks => "mean chunk",
        }
    }
}

/// The settings of a way to sync.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SyncSettings {
    hash: String,
    proof: &'static str,
    codec: LiteralCodec,
    /// Threads that were allowed.
    allowed: NonZeroU32,
    /// Threads that one file of this strategy uses.
    used: u32,
    chunks: Option<u32>,
}

impl SyncSettings {
    /// Returns the settings of a strategy with these options.
    pub(crate) fn new(
        strategy: Strategy,
        allowed: NonZeroU32,
        codec: LiteralCodec,
        chunks: Option<u32>,
    ) -> Self {
        let proof = match strategy.proof() {
            FileProof::Recipe => "digest of the recipe",
            FileProof::WholeFile => "BLAKE3 of the file",
            FileProof::Nothing => "none",
        };
        let hash = match strategy.conversation {
            Conversation::Recipe => "keyed fingerprints".into(),
            _ => strategy.strong.name().to_owned(),
        };
        let used = if strategy.parallel == ParallelMode::No { 1 } else { allowed.get() };
        Self { hash, proof, codec, allowed, used, chunks }
    }

    /// Returns the number of threads that were allowed.
    pub(crate) fn threads(&self) -> u32 {
        self.allowed.get()
    }

    /// Returns the value of a setting in captions.
    pub(crate) fn value(&self, factor: Factor) -> String {
        match factor {
            Factor::Hash => self.hash.clone(),
            Factor::Proof => self.proof.into(),
            Factor::Codec => self.codec.to_string(),
            Factor::Threads => self.used.to_string(),
            Factor::Chunks => self.chunks.map_or_else(
                || "the system's own".into(),
                |bytes| ByteSize::from(u64::from(bytes)).to_string(),
            ),
        }
    }
}

/// Highest level of zstd.
const MAX_LEVEL: u32 = 19;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_codec_is_a_name_or_a_level() {
        for (word, codec) in [
            ("own", LiteralCodec::Own),
            ("none", LiteralCodec::Nothing),
            ("zstd:3", LiteralCodec::Zstd(3)),
        ] {
            assert_eq!(word.parse(), Ok(codec), "{word}");
        }
        for word in ["", "zstd", "zstd:0", "zstd:20", "lz4"] {
            assert_eq!(word.parse::<LiteralCodec>(), Err(BadWord::Codec), "{word}");
        }
    }

    #[test]
    fn a_strategy_without_threads_uses_one() {
        let two = NonZeroU32::new(2).unwrap();
        let threads = |name| {
            let strategy = Strategy::by_name(name).unwrap();
            SyncSettings::new(strategy, two, LiteralCodec::Nothing, None).value(Factor::Threads)
        };
        assert_eq!(["dsync", "parasync", "deltic"].map(threads), ["1", "2", "2"]);
    }
}
