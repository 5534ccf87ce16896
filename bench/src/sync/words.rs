//! Argument types of `deltic bench sync`: amounts and kinds of change, links, and other programs.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use deltic_core::strategy::LinkModel;

use crate::size::{BadByteSize, ByteSize};

/// An amount of change: a number of bytes or a percentage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ChangeAmount {
    Bytes(ByteSize),
    Percent(f64),
}

impl ChangeAmount {
    /// Returns the number of changed bytes in a file of `len` bytes.
    pub(crate) fn of(self, len: u64) -> u64 {
        match self {
            Self::Bytes(size) => size.bytes(),
            Self::Percent(percent) => (len as f64 * percent / 100.0).round() as u64,
        }
    }
}

impl FromStr for ChangeAmount {
    type Err = BadWord;

    fn from_str(word: &str) -> Result<Self, BadWord> {
        let Some(number) = word.strip_suffix('%') else {
            return word.parse().map(Self::Bytes).map_err(BadWord::Size);
        };
        match number.parse() {
            Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(Self::Percent(percent)),
            _ => Err(BadWord::Percent),
        }
    }
}

impl fmt::Display for ChangeAmount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(size) => size.fmt(f),
            Self::Percent(percent) => write!(f, "{percent} %"),
        }
    }
}

/// Content of the old version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DataKind {
    /// Random bytes.
    Random,
    /// Words of a natural distribution, which compress as text does.
    Text,
    /// Zeros.
    Zeros,
    /// Random bytes of this length, repeated.
    Repeated(u32),
    /// Different blocks of [`DataKind::FORGED_BYTES`] with equal CRC-32C.
    Forged,
}

impl DataKind {
    /// Block size of rsync, SkySync-F and WebR2sync in the papers.
    pub(crate) const FORGED_BYTES: usize = 8 << 10;

    /// Returns the name in tables for `size` bytes of this data.
    pub(crate) fn describe(self, size: ByteSize) -> String {
        let length_of = size.to_string();
        match self {
            Self::Random => length_of,
            Self::Text => format!("{length_of} of text"),
            Self::Zeros => format!("{length_of} of zeros"),
            Self::Repeated(bytes) => {
                format!("{length_of} of equal {}", ByteSize::from(u64::from(bytes)))
            }
            Self::Forged => format!("{length_of} of forged sums"),
        }
    }
}

impl FromStr for DataKind {
    type Err = BadWord;

    fn from_str(word: &str) -> Result<Self, BadWord> {
        let bytes =
            || word.parse::<ByteSize>().ok().and_then(|size| u32::try_from(size.bytes()).ok());
        match word {
            "random" => Ok(Self::Random),
            "text" => Ok(Self::Text),
            "zeros" => Ok(Self::Zeros),
            "forged" => Ok(Self::Forged),
            _ => match bytes() {
                Some(bytes @ 1..=MAX_REPEATED_BYTES) => Ok(Self::Repeated(bytes)),
                _ => Err(BadWord::Data),
            },
        }
    }
}

/// The kind of change of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ChangeKind {
    /// New bytes are inserted.
    Insert,
    /// Bytes are deleted.
    Cut,
    /// All bits are inverted.
    Inverse,
    /// Bytes move to another place of the file.
    Move,
}

impl ChangeKind {
    /// Returns the name in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::Cut => "cut",
            Self::Inverse => "inverse",
            Self::Move => "move",
        }
    }
}

/// Places of the pieces of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum EditPlaces {
    /// Random places of the whole file.
    Even,
    /// 70 % of the bytes in the first third of the file, 10 % in the middle, 20 % in the last third (NetSync §5.1).
    Netsync,
}

/// The proof of each file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ProofChoice {
    /// The proof of each strategy.
    Own,
    /// No proof of whole files.
    #[value(name = "none")]
    Nothing,
}

/// The link between the two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkSpec {
    Nothing,
    Link(LinkModel),
}

impl LinkSpec {
    /// Returns the word that parses as this link.
    pub(crate) fn word(self) -> String {
        let Self::Link(LinkModel { bits_per_second, round_trip }) = self else {
            return "none".into();
        };
        let (kilobits, seconds) = (bits_per_second as f64 / 1e3, round_trip.as_secs_f64());
        format!("{kilobits}kbit,{seconds}s")
    }

    /// Returns the link, if any.
    pub(crate) fn link(self) -> Option<LinkModel> {
        match self {
            Self::Nothing => None,
            Self::Link(link) => Some(link),
        }
    }
}

/// Parses `none`, or a rate in bits per second and a round trip time: `500Mbit,50ms`.
impl FromStr for LinkSpec {
    type Err = BadWord;

    fn from_str(word: &str) -> Result<Self, BadWord> {
        if word == "none" {
            return Ok(Self::Nothing);
        }
        let (rate, round_trip) = word.split_once(',').ok_or(BadWord::Link)?;
        let units = [("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9)];
        let bits_per_second = number(rate, &units).filter(|bits| *bits >= 1000.0);
        let bits_per_second = bits_per_second.ok_or(BadWord::Link)? as u64;
        let seconds = number(round_trip, &[("ms", 1e-3), ("s", 1.0)]).ok_or(BadWord::Link)?;
        let round_trip = Duration::try_from_secs_f64(seconds).map_err(|_| BadWord::Link)?;
        if bits_per_second > MAX_BITS_PER_SECOND || round_trip > MAX_ROUND_TRIP {
            return Err(BadWord::Link);
        }
        Ok(Self::Link(LinkModel { bits_per_second, round_trip }))
    }
}

impl fmt::Display for LinkSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Link(LinkModel { bits_per_second, round_trip }) = self else {
            return f.write_str("none");
        };
        let rate = *bits_per_second as f64 / 1e6;
        write!(f, "{rate} Mbit/s {} ms", round_trip.as_secs_f64() * 1e3)
    }
}

/// Parses a number with one of these units, and multiplies by the factor of the unit.
fn number(word: &str, units: &[(&str, f64)]) -> Option<f64> {
    let word = word.trim().to_ascii_lowercase();
    let found = units.iter().find_map(|(unit, worth)| Some((word.strip_suffix(unit)?, worth)));
    let (digits, worth) = found?;
    let plain = digits.chars().all(|c| c.is_ascii_digit() || c == '.');
    plain.then(|| digits.parse::<f64>().ok()).flatten().map(|number| number * worth)
}

/// A program to compare with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OtherProgram {
    pub(crate) kind: PeerKind,
    /// Path of the program.
    pub(crate) program: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PeerKind {
    Rsync,
    Rdiff,
}

impl FromStr for OtherProgram {
    type Err = BadWord;

    fn from_str(word: &str) -> Result<Self, BadWord> {
        let (name, program) = word.split_once('=').unwrap_or((word, word));
        let kind = match name {
            "rsync" => PeerKind::Rsync,
            "rdiff" => PeerKind::Rdiff,
            _ => return Err(BadWord::Peer),
        };
        if program.is_empty() {
            Err(BadWord::Peer)
        } else {
            Ok(Self { kind, program: program.into() })
        }
    }
}

/// Error: an invalid argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadWord {
    Size(BadByteSize),
    Data,
    Percent,
    Link,
    Peer,
    Codec,
}

impl std::error::Error for BadWord {}

impl fmt::Display for BadWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Size(bad) => bad.fmt(f),
            Self::Data => f.write_str(
                "not a kind of data; use random, text, zeros, forged, or the length of a repeated part (up to 16MiB)",
            ),
            Self::Percent => f.write_str("not a share; write 0 % to 100 %, such as 0.1%"),
            Self::Link => f.write_str(
                "not a link; write `none`, or bits a second (1kbit to 100Gbit) and a round trip (up to 10s), \
                 such as 500Mbit,50ms",
            ),
            Self::Codec => f.write_str("not a compressor; there are own, none, and zstd:1 to zstd:19"),
            Self::Peer => f.write_str("not a program to compare with; there are rsync and rdiff, and NAME=PATH"),
        }
    }
}

/// Longest repeated part, which is held in memory.
const MAX_REPEATED_BYTES: u32 = 16 << 20;
/// Limits that catch typing errors in link speeds and round trip times.
const MAX_BITS_PER_SECOND: u64 = 100_000_000_000;
const MAX_ROUND_TRIP: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_is_bytes_or_a_share() {
        for (word, bytes) in [("0", 0), ("4KiB", 4096), ("0.1%", 10_000), ("100%", 10_000_000)] {
            assert_eq!(
                word.parse::<ChangeAmount>().map(|amount| amount.of(10_000_000)),
                Ok(bytes),
                "{word}"
            );
        }
        for word in ["101%", "-1%", "%", "x%", "4x", "nan%"] {
            assert!(word.parse::<ChangeAmount>().is_err(), "{word}");
        }
    }

    #[test]
    fn data_is_a_name_or_the_length_of_a_repeated_part() {
        for (word, data, said) in [
            ("random", DataKind::Random, "10 MB"),
            ("zeros", DataKind::Zeros, "10 MB of zeros"),
            ("100B", DataKind::Repeated(100), "10 MB of equal 100 B"),
            ("4KiB", DataKind::Repeated(4096), "10 MB of equal 4 KiB"),
            ("forged", DataKind::Forged, "10 MB of forged sums"),
        ] {
            assert_eq!(word.parse(), Ok(data), "{word}");
            assert_eq!(data.describe(ByteSize::from(10_000_000)), said);
        }
        for word in ["", "0", "1GiB", "noise"] {
            assert_eq!(word.parse::<DataKind>(), Err(BadWord::Data), "{word}");
        }
    }

    #[test]
    fn a_link_is_a_rate_and_a_round_trip() {
        for (word, bits_per_second, millis) in [
            ("500Mbit,50ms", 500_000_000, 50.0),
            ("1.5kbit,1s", 1500, 1000.0),
            ("10Gbit,0.4ms", 10_000_000_000, 0.4),
        ] {
            let round_trip = Duration::from_secs_f64(millis / 1e3);
            assert_eq!(
                word.parse(),
                Ok(LinkSpec::Link(LinkModel { bits_per_second, round_trip })),
                "{word}"
            );
        }
        assert_eq!("none".parse(), Ok(LinkSpec::Nothing));
        for word in ["none", "500Mbit,50ms", "1.5kbit,1s", "100Gbit,0.1ms"] {
            let between = word.parse::<LinkSpec>().unwrap();
            assert_eq!(between.word().parse(), Ok(between), "{word}");
        }
        for word in [
            "",
            "500",
            "500Mbit",
            "0Mbit,1ms",
            "1Mbit,11s",
            "101Gbit,1ms",
            "1MB,1ms",
            "-1Mbit,1ms",
            "1e3Mbit,1ms",
        ] {
            assert_eq!(word.parse::<LinkSpec>(), Err(BadWord::Link), "{word}");
        }
    }

    #[test]
    fn a_peer_has_a_program() {
        let peer = |word: &str| word.parse::<OtherProgram>().map(|peer| (peer.kind, peer.program));
        assert_eq!(peer("rsync"), Ok((PeerKind::Rsync, "rsync".into())));
        assert_eq!(peer("rdiff=/opt/rdiff"), Ok((PeerKind::Rdiff, "/opt/rdiff".into())));
        assert_eq!((peer("scp"), peer("rsync=")), (Err(BadWord::Peer), Err(BadWord::Peer)));
    }
}
