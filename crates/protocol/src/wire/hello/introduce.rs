//! The hello: the program and the capabilities of an end.

use std::collections::BTreeSet;

use deltic_core::codec::Put;
use deltic_core::{Fingerprint, Fingerprinter, Key, KeyedSum, Strategy};
use deltic_tree::meta::Inode;
use deltic_tree::path::printable;

use crate::error::PeerError;
use crate::wire::codec::{BadPayload, WireEncoding, read_whole};
use crate::wire::frame::frame_bytes;
use crate::wire::limits::{MAX_CAPABILITIES, MAX_FRAME_BYTES, MIN_FRAME_BYTES};

use super::capability::{
    ANSWERS, BASES, CANDIDATES, CHECKS, CREDIT, CUT_TALLIES, DELETE_SHARE, ECHO, FILES, FRAME,
    GENTLE, HELLO, HOLES, KEPT_SUMS, KEYED, MOVED, OPEN_FILES, PASSED_OVER, PLACE, RATE, REASONS,
    RECIPE, REMOVED, RESUMED, SHORT_DIGESTS, SHORT_LISTS, SHORT_PROOFS, SIEVE, SINGLE_FRAMES,
    STRATEGY, STREAMS, SUMMED_BLOCKS, TROUBLES, WIDE_TALLIES, X86_SPLIT, ZEROS, ZSTD, ZSTD_STREAM,
    capability_of, check_kind, credit_capability,
};

/// First bytes of either direction.
pub const MAGIC: [u8; 8] = *b"deltic/1";

/// Name and capabilities of an end. Unknown capabilities are ignored, so that new ones can be added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Program and version, for people.
    pub program: String,
    /// Names of capabilities.
    pub capabilities: BTreeSet<String>,
    /// This end's part of the session key, drawn at random.
    pub part: Key,
}

impl Hello {
    /// Type of the frame.
    pub const KIND: u8 = HELLO;

    /// Most inodes that an end announces as its sources or destination, each as a capability.
    pub const MAX_PLACES: usize = 12;

    /// Returns the hello of this version; `part` must be random.
    #[must_use]
    pub fn of_this_version(part: Key) -> Self {
        let names = [RECIPE, SIEVE, CHECKS, ZSTD, ZEROS, STREAMS, DELETE_SHARE, RESUMED]
            .into_iter()
            .chain([
                TROUBLES,
                PASSED_OVER,
                REMOVED,
                CREDIT,
                BASES,
                MOVED,
                KEPT_SUMS,
                SUMMED_BLOCKS,
                CANDIDATES,
                OPEN_FILES,
                HOLES,
                SHORT_LISTS,
                SINGLE_FRAMES,
                WIDE_TALLIES,
                CUT_TALLIES,
                SHORT_PROOFS,
                ANSWERS,
                SHORT_DIGESTS,
                ZSTD_STREAM,
                X86_SPLIT,
            ])
            .chain(KeyedSum::is_fast().then_some(KEYED));
        let strategies = Strategy::ALL.iter().map(capability_of);
        let ours = Self {
            program: concat!("deltic ", env!("CARGO_PKG_VERSION")).into(),
            capabilities: names.map(String::from).chain(strategies).collect(),
            part,
        };
        ours.with_frame_limit(MAX_FRAME_BYTES)
    }

    /// Drops the fast fingerprints of chunks from the hello: both ends then use BLAKE3.
    #[must_use]
    pub fn without_fast_fingerprints(mut self) -> Self {
        self.capabilities.remove(KEYED);
        self
    }

    /// Drops the filter for code from the hello: both ends then compare gaps of code with their address fields.
    #[must_use]
    pub fn without_code_filter(mut self) -> Self {
        self.capabilities.remove(X86_SPLIT);
        self
    }

    /// Drops zstd from the hello, for an end that cannot decompress: literals then travel plain.
    #[must_use]
    pub fn without_zstd(mut self) -> Self {
        self.capabilities.retain(|name| name != ZSTD && name != ZSTD_STREAM);
        self
    }

    /// Drops all capabilities that a transfer of one file by `strategy` does not use. For an end that greets for each
    /// file. The end keeps no facts about files, deletes nothing, and shows no details of troubles.
    #[must_use]
    pub fn for_one_file(mut self, strategy: &Strategy) -> Self {
        let is_deltic = strategy.name == Strategy::DELTIC.name;
        let own = capability_of(strategy);
        self.capabilities.retain(|name| match name.as_str() {
            KEPT_SUMS | CANDIDATES => !is_deltic,
            name if name.starts_with(STRATEGY) => !is_deltic && name == own,
            name => !UNUSED_FOR_ONE_FILE.contains(&name),
        });
        self
    }

    /// Drops the capabilities that only count if `theirs` has them too. For an end that has received the other end's
    /// hello before it sends its own.
    #[must_use]
    pub fn in_common_with(mut self, theirs: &Self) -> Self {
        self.capabilities.retain(|name| {
            let is_own =
                [FILES, CREDIT, FRAME, PLACE, RATE].iter().any(|own| name.starts_with(own));
            is_own
                || [GENTLE, REASONS].contains(&name.as_str())
                || theirs.capabilities.contains(name)
        });
        self
    }

    /// Adds the answers to echoes, which measure the round trip. The caller must answer each `Echo` at once.
    #[must_use]
    pub fn with_echoes(mut self) -> Self {
        self.capabilities.insert(ECHO.into());
        self
    }

    /// Adds the request that the sender leaves room for other traffic. Frames are then short, so that echoes pass
    /// between them on a slow link too.
    #[must_use]
    pub fn with_gentle_sender(mut self) -> Self {
        self.capabilities.insert(GENTLE.into());
        self.with_frame_limit(MIN_FRAME_BYTES)
    }

    /// Adds the question why the sender reads large files whole or in part. Counts for a receiver.
    #[must_use]
    pub fn with_reasons(mut self) -> Self {
        self.capabilities.insert(REASONS.into());
        self
    }

    /// Adds the rate of the link in an earlier session, in bits a second; `None` if unknown. A sender then starts with
    /// this rate, and tells this end in each echo what the sender measured.
    #[must_use]
    pub fn with_link_rate(mut self, rate: Option<u64>) -> Self {
        self.capabilities.insert(format!("{RATE}{}", rate.unwrap_or(0)));
        self
    }

    /// Adds the places of this machine that the end reads or writes, as returned by [`place_fingerprint`](Self::place_fingerprint).
    #[must_use]
    pub fn with_places(mut self, places: &[Fingerprint]) -> Self {
        self.capabilities.extend(places.iter().map(place_capability));
        self
    }

    /// Adds the largest number of files of a session that the end can hold open at once.
    #[must_use]
    pub fn with_max_files(mut self, files: Option<usize>) -> Self {
        self.capabilities.extend(files.map(|files| format!("{FILES}{files}")));
        self
    }

    /// Adds the bytes of literals that a receiver accepts before it grants more credit.
    #[must_use]
    pub fn with_credit(mut self, bytes: Option<u64>) -> Self {
        self.capabilities.extend(bytes.map(credit_capability));
        self
    }

    /// Adds the longest frame payload that the end accepts, clamped to [`MIN_FRAME_BYTES`] and [`MAX_FRAME_BYTES`].
    #[must_use]
    pub fn with_frame_limit(mut self, bytes: usize) -> Self {
        self.capabilities.retain(|name| !name.starts_with(FRAME));
        let bytes = bytes.clamp(MIN_FRAME_BYTES, MAX_FRAME_BYTES);
        self.capabilities.insert(format!("{FRAME}{bytes}"));
        self
    }

    /// Returns the longest frame payload that the end accepts, in bytes; `None` if the end does not support limits.
    ///
    /// # Errors
    /// [`PeerError::Limit`] where the value is below [`MIN_FRAME_BYTES`], or not a number.
    pub(super) fn frame_bytes(&self) -> Result<Option<usize>, PeerError> {
        let said = self.capabilities.iter().filter_map(|name| name.strip_prefix(FRAME));
        said.map(|number| match number.parse::<u64>() {
            Ok(bytes) if bytes >= MIN_FRAME_BYTES as u64 && is_canonical(number) => {
                Ok(bytes.min(MAX_FRAME_BYTES as u64) as usize)
            }
            _ => Err(PeerError::Limit("limit:frame is a number of bytes, 65536 or more")),
        })
        .reduce(|one, other| Ok(one?.min(other?)))
        .transpose()
    }

    /// Returns the bytes of literals that the end grants at first; `None` if unlimited.
    pub(super) fn initial_credit(&self) -> Option<u64> {
        self.number_after(&format!("{CREDIT}:"))
    }

    /// Returns the rate of the link in an earlier session, in bits a second; 0 if unknown. `None` if the end does not ask
    /// for measurements in echoes.
    pub(super) fn link_rate(&self) -> Option<u64> {
        self.number_after(RATE)
    }

    /// Returns the least number that follows `prefix` in a capability.
    fn number_after(&self, prefix: &str) -> Option<u64> {
        let numbers = self.capabilities.iter().filter_map(|name| name.strip_prefix(prefix));
        numbers.filter_map(|number| number.parse().ok()).min()
    }

    /// Returns Deltic's version, or the whole program text of another program.
    #[must_use]
    pub fn version(&self) -> &str {
        self.program.strip_prefix("deltic ").unwrap_or(&self.program)
    }

    /// Returns the largest number of files that the end can hold open at once; `None` means no limit.
    pub(super) fn max_files(&self) -> Option<usize> {
        self.number_after(FILES).and_then(|most| most.try_into().ok())
    }

    /// True if the end reads or writes in this place.
    #[must_use]
    pub fn is_at(&self, place: &Fingerprint) -> bool {
        self.capabilities.contains(&place_capability(place))
    }

    /// Returns a name for the entry `inode` on the machine with boot id `boot`: a hash that reveals nothing to a
    /// reader on another machine.
    #[must_use]
    pub fn place_fingerprint(&self, boot: &[u8], inode: Inode) -> Fingerprint {
        let Inode { device, number } = inode;
        let numbers = [device.to_le_bytes(), number.to_le_bytes()].concat();
        Fingerprint::of(&[&self.part.as_bytes()[..], boot, &numbers].concat())
    }

    /// Returns the fingerprinter that a sender uses before the receiver's hello arrives. The sender assumes a
    /// receiver with the same capabilities.
    #[must_use]
    pub fn early_fingerprinter(&self) -> Fingerprinter {
        fingerprinter(self.capabilities.contains(KEYED), &self.part.for_session())
    }

    /// Returns the frame.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        frame_bytes(HELLO, |to| {
            self.program.write_to(to);
            self.capabilities.iter().cloned().collect::<Vec<_>>().write_to(to);
            to.put_bytes(self.part.as_bytes());
        })
    }

    /// Decodes the frame.
    ///
    /// # Errors
    /// [`PeerError`] where the frame is not a hello, or is malformed.
    pub fn decode(kind: u8, payload: &[u8]) -> Result<Self, PeerError> {
        check_kind(kind, HELLO, "anything before the hello")?;
        read_whole("Hello", payload, |from| {
            let (program, names) = (String::read_from(from)?, Vec::<String>::read_from(from)?);
            let part = Key::from_bytes(from.array()?);
            if names.len() > MAX_CAPABILITIES {
                return Err(BadPayload::Limit("capabilities"));
            }
            Ok(Self {
                program: printable(program.as_bytes()),
                capabilities: names.into_iter().collect(),
                part,
            })
        })
    }
}

/// Capabilities that a transfer of one file by an end without facts about files does not use.
const UNUSED_FOR_ONE_FILE: [&str; 17] = [
    SUMMED_BLOCKS,
    STREAMS,
    DELETE_SHARE,
    RESUMED,
    TROUBLES,
    PASSED_OVER,
    REMOVED,
    BASES,
    MOVED,
    HOLES,
    SHORT_LISTS,
    SINGLE_FRAMES,
    WIDE_TALLIES,
    CUT_TALLIES,
    SHORT_PROOFS,
    ANSWERS,
    SHORT_DIGESTS,
];

/// Checks the first bytes of the stream.
///
/// # Errors
/// [`PeerError::NotDeltic`] with the bytes before the magic; [`PeerError::OtherProtocol`]; [`PeerError::Rsync`].
pub fn check_magic(bytes: &[u8]) -> Result<(), PeerError> {
    if bytes == MAGIC {
        return Ok(());
    }
    // An rsync server begins with its protocol version, an rsync daemon with a word.
    let is_rsync = matches!(bytes, [27..=99, 0, 0, 0, ..]) || bytes.starts_with(b"@RSYNCD:");
    if is_rsync {
        return Err(PeerError::Rsync);
    }
    if let Some(protocol) = protocol_name(bytes) {
        return Err(PeerError::OtherProtocol(protocol));
    }
    let magic = bytes.windows(MAGIC.len()).position(|window| window == MAGIC);
    Err(PeerError::NotDeltic(printable(&bytes[..magic.unwrap_or(bytes.len())])))
}

/// Returns the protocol that the first bytes name, if a Deltic sent them: then a frame follows, not text.
fn protocol_name(bytes: &[u8]) -> Option<String> {
    let number = bytes.strip_prefix(&MAGIC[..MAGIC.len() - 1])?;
    let digits = number.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let is_framed = number.get(digits).is_some_and(|kind| *kind == Hello::KIND);
    (digits > 0 && is_framed).then(|| format!("deltic/{}", printable(&number[..digits])))
}

/// True for a number in plain decimal digits without leading zeros.
fn is_canonical(number: &str) -> bool {
    number.bytes().all(|digit| digit.is_ascii_digit()) && !number.starts_with('0')
}

fn place_capability(place: &Fingerprint) -> String {
    format!("{PLACE}{place}")
}

/// Returns the fingerprinter for chunks with `key`: by keyed sums, or by BLAKE3.
pub(super) fn fingerprinter(keyed: bool, key: &Key) -> Fingerprinter {
    if keyed { Fingerprinter::keyed(key) } else { Fingerprinter::blake3(key) }
}
