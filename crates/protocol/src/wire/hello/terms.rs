//! The terms: capabilities that two ends have in common.

use std::ops::Deref;

use deltic_core::strategy::Conversation;
use deltic_core::{Digest, Fingerprinter, Key, Strategy, SumKey};

use crate::error::PeerError;
use crate::options::{Delete, Guard, Options};
use crate::wire::limits::{Limits, MAX_CREDIT_BYTES, MAX_FRAME_BYTES};

use super::capability::{
    ANSWERS, BASES, CANDIDATES, CHECKS, CREDIT, CUT_TALLIES, DELETE_SHARE, ECHO, GENTLE, HOLES,
    KEPT_SUMS, KEYED, MOVED, OPEN_FILES, PASSED_OVER, REASONS, RECIPE, REMOVED, RESUMED,
    SHORT_DIGESTS, SHORT_LISTS, SHORT_PROOFS, SIEVE, SINGLE_FRAMES, STREAMS, SUMMED_BLOCKS,
    TROUBLES, WIDE_TALLIES, X86_SPLIT, ZEROS, ZSTD, ZSTD_STREAM, capability_of,
};
use super::introduce::{Hello, fingerprinter};
use super::summed::SummedBlocks;

/// Terms of a session. Only [`negotiate`] makes terms, and nothing changes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms(Common);

impl Deref for Terms {
    type Target = Common;

    fn deref(&self) -> &Common {
        &self.0
    }
}

/// Common capabilities and keys of two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Common {
    /// Literals may travel as zstd frames.
    pub zstd: bool,
    without_zeros: WithoutZeros,
    /// Use of the connection.
    pub link: LinkTerms,
    /// Optional information for people.
    pub reports: Reports,
    /// The receiver may name the base of its old version.
    pub bases: bool,
    /// The ends may agree on sums that their storage keeps, where a strategy uses stored sums.
    pub kept_sums: bool,
    /// The sender may tell which blocks the base has at other positions.
    pub moved: bool,
    /// Frames that the sender may use in place of longer ones.
    pub short_forms: ShortForms,
    /// Chunks have fingerprints by the keyed sum; else by keyed BLAKE3.
    pub keyed: bool,
    /// The sender's [`Hello::early_fingerprinter`] are the fingerprints of the session, so offers made before the receiver is heard
    /// are valid.
    pub offers: bool,
    admitted: AdmittedOptions,
    /// Largest number of files that the sender can hold open at once; `None` means no limit.
    pub most_files: Option<usize>,
    /// Limits that the two ends agree on.
    pub limits: Limits,
    /// The session's key.
    pub key: Key,
    /// The sender's part of the key, from which the session key is derived.
    pub part: Key,
}

/// Use of the connection between the ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkTerms {
    /// The session may have further streams.
    pub streams: bool,
    /// The sender may ask for echoes.
    pub echoes: bool,
    /// The sender keeps its rate so low that echoes stay short. Only with echoes.
    pub gentle: bool,
    /// Rate of the link in an earlier session, in bits a second, as the receiver tells the rate; 0 if unknown. `None`
    /// without echoes, and for a receiver that does not ask for measurements in echoes.
    pub earlier_rate: Option<u64>,
}

/// Short forms of frames that the ends may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShortForms {
    /// Listings may have the short form of entries, and listings and tallies the short form of paths.
    pub lists: bool,
    /// A short file sent whole may come in a single frame.
    pub files: bool,
    /// Tallies may be sent with options that earlier versions sent none with.
    pub wide_tallies: bool,
    /// Tallies may have the compared parts of their sums alone.
    pub cut_tallies: bool,
    /// A short file sent whole and as listed may come with the first bytes of its proof.
    pub proofs: bool,
    /// The receiver may send several answers in one frame.
    pub answers: bool,
    /// Digests of compared contents may be cut to their first bytes.
    pub digests: bool,
    /// Frames of literals may be parts of one zstd stream.
    pub compressed: bool,
    /// Gaps of code may be compared and sent without their address fields, which are sent separately.
    pub split_code: bool,
}

/// Options that only some versions support.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AdmittedOptions {
    /// A guarded deletion may have a share.
    delete_share: bool,
    /// A bit for each strategy of [`Strategy::ALL`].
    strategies: u32,
    /// The receiver may propose several old chunks for a chunk, where the strategy has several candidates.
    candidates: bool,
    /// Blocks may have fingerprints made of the sums that storage keeps.
    uses_stored_sums: bool,
}

impl AdmittedOptions {
    /// Returns the options whose capabilities `both` ends have.
    fn of(both: impl Fn(&str) -> bool) -> Self {
        let all = Strategy::ALL.iter().enumerate();
        let known = all.filter(|(_, strategy)| both(&capability_of(strategy)));
        Self {
            delete_share: both(DELETE_SHARE),
            strategies: known.fold(0, |bits, (place, _)| bits | 1 << place),
            candidates: both(CANDIDATES),
            uses_stored_sums: both(SUMMED_BLOCKS),
        }
    }
}

/// Ways to avoid sending zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct WithoutZeros {
    /// Literals may leave out long runs of zeros.
    literals: bool,
    /// The sender may tell the holes of files.
    holes: bool,
}

/// Optional information for people that the ends may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reports {
    /// Totals may include the number of resumed bytes.
    pub resumed: bool,
    /// Troubles may include the place of the error.
    pub troubles: bool,
    /// Changes may include why a name is passed over.
    pub passed_over: bool,
    /// The sender may report the sources that it removed.
    pub removed: bool,
    /// `Restless` may be sent for a file that a program has open for writing.
    pub open_files: bool,
    /// The receiver asks why the sender reads large files whole or in part.
    pub reasons: bool,
}

impl Terms {
    /// True if literals may be sent without the long runs of zeros. Strategies of the papers always send all bytes.
    #[must_use]
    pub fn may_skip_zeros(self, strategy: &Strategy) -> bool {
        self.without_zeros.literals && strategy.conversation == Conversation::Recipe
    }

    /// True if the sender may send the holes of files as positions and transfer the data alone. New versions then
    /// have holes, so the options must request holes.
    #[must_use]
    pub fn may_send_holes(self, options: &Options) -> bool {
        let leaves_holes = options.writing.sparse && !options.writing.preallocate;
        self.without_zeros.holes
            && leaves_holes
            && options.strategy.conversation == Conversation::Recipe
    }

    /// Checks that both ends support the strategy and this kind of deletion.
    ///
    /// # Errors
    /// [`PeerError::NothingInCommon`] where one end does not.
    pub fn check_support(self, strategy: &Strategy, delete: Delete) -> Result<(), PeerError> {
        let AdmittedOptions { delete_share, strategies, .. } = self.admitted;
        if matches!(delete, Delete::Guarded(Guard { percent: Some(_), .. })) && !delete_share {
            return Err(PeerError::NothingInCommon("support for --max-delete in percent"));
        }
        let place = Strategy::ALL.iter().position(|known| known.name == strategy.name);
        let admitted = strategy.name == Strategy::DELTIC.name
            || place.is_some_and(|place| strategies >> place & 1 == 1);
        if admitted { Ok(()) } else { Err(PeerError::NothingInCommon("strategy of this name")) }
    }

    /// True if the receiver may propose several old chunks for a chunk, where the strategy has several candidates.
    #[must_use]
    pub fn may_propose_candidates(self) -> bool {
        self.admitted.candidates
    }

    /// Returns the key for strong sums in this session.
    #[must_use]
    pub const fn sum_key(self) -> SumKey {
        SumKey::from_bytes(*self.0.key.as_bytes())
    }

    /// Returns the digest that is compared in this session for the content with this BLAKE3 `digest`.
    #[must_use]
    pub fn compared_digest(self, digest: Digest) -> Digest {
        match self.short_forms.digests {
            true => Digest::from_bytes(self.key.content_name(digest.as_bytes())),
            false => digest,
        }
    }

    /// Returns the fingerprinter for chunks in this session. Strategies of the papers prove their matches by BLAKE3.
    #[must_use]
    pub fn fingerprinter(self, strategy: &Strategy) -> Fingerprinter {
        if strategy.conversation == Conversation::Recipe {
            self.fingerprinter_with(&self.key)
        } else {
            Fingerprinter::blake3(&self.key)
        }
    }

    /// Returns the fingerprinter for a file with a transfer that began in another session; `key` is that session's
    /// key.
    #[must_use]
    pub fn fingerprinter_with(self, key: &Key) -> Fingerprinter {
        fingerprinter(self.keyed, key)
    }

    /// Returns the blocks that have fingerprints made of the sums that storage keeps, if the options trust sums that
    /// prove their blocks.
    #[must_use]
    pub fn summed_blocks(self, options: &Options) -> Option<SummedBlocks> {
        let is_used = self.admitted.uses_stored_sums
            && options.checksum
            && options.strategy.conversation == Conversation::Recipe;
        let spec = options.compare.trusted.filter(|_| is_used)?.proven_blocks()?;
        SummedBlocks::new(spec, &self.limits, &self.key)
    }

    /// Returns the seed for sums of blocks in gaps.
    #[must_use]
    pub fn gap_seed(self) -> u64 {
        self.key.seed()
    }
}

/// Computes the terms of two ends; the result is the same at either end.
///
/// # Errors
/// [`PeerError::NothingInCommon`] where one end lacks a capability that every session needs; [`PeerError::Limit`]
/// where an end states an invalid frame limit.
pub fn negotiate(sender: &Hello, receiver: &Hello) -> Result<Terms, PeerError> {
    let both =
        |name: &str| sender.capabilities.contains(name) && receiver.capabilities.contains(name);
    if !both(RECIPE) {
        return Err(PeerError::NothingInCommon("conversation"));
    }
    if !both(SIEVE) {
        return Err(PeerError::NothingInCommon("chunker"));
    }
    if !both(CHECKS) {
        return Err(PeerError::NothingInCommon("checks"));
    }
    let admitted = AdmittedOptions::of(both);
    let link = link_terms(sender, receiver)?;
    let (zstd, kept_sums) = (both(ZSTD), both(KEPT_SUMS));
    let without_zeros = WithoutZeros { literals: both(ZEROS), holes: both(HOLES) };
    let [keyed, bases, moved] = [KEYED, BASES, MOVED].map(both);
    let short_forms = short_forms(both);
    let reports = Reports {
        resumed: both(RESUMED),
        troubles: both(TROUBLES),
        passed_over: both(PASSED_OVER),
        removed: both(REMOVED),
        open_files: both(OPEN_FILES),
        reasons: receiver.capabilities.contains(REASONS),
    };
    let offers = keyed == sender.capabilities.contains(KEYED);
    let (part, key) = (sender.part, sender.part.for_session());
    let most_files = sender.max_files();
    let credit = receiver.initial_credit().filter(|_| sender.capabilities.contains(CREDIT));
    let frames = sender.frame_bytes()?.zip(receiver.frame_bytes()?);
    let limits = Limits {
        frame_bytes: frames.map_or(MAX_FRAME_BYTES, |(one, other)| one.min(other)),
        credit: credit.map(|bytes| bytes.min(MAX_CREDIT_BYTES)),
    };
    Ok(Terms(Common {
        zstd,
        without_zeros,
        link,
        reports,
        bases,
        kept_sums,
        moved,
        short_forms,
        keyed,
        offers,
        admitted,
        most_files,
        limits,
        key,
        part,
    }))
}

/// Returns the short forms whose capabilities `both` ends have.
fn short_forms(both: impl Fn(&str) -> bool) -> ShortForms {
    ShortForms {
        lists: both(SHORT_LISTS),
        files: both(SINGLE_FRAMES),
        wide_tallies: both(WIDE_TALLIES),
        cut_tallies: both(SHORT_LISTS) && both(CUT_TALLIES),
        proofs: both(SINGLE_FRAMES) && both(SHORT_PROOFS),
        answers: both(ANSWERS),
        digests: both(SHORT_DIGESTS),
        compressed: both(ZSTD) && both(ZSTD_STREAM),
        split_code: both(X86_SPLIT),
    }
}

fn link_terms(sender: &Hello, receiver: &Hello) -> Result<LinkTerms, PeerError> {
    let has = |name| [sender, receiver].map(|hello| hello.capabilities.contains(name));
    let [streams, echoes] = [STREAMS, ECHO].map(|name| has(name) == [true; 2]);
    let gentle = has(GENTLE) != [false; 2];
    if gentle && !echoes {
        return Err(PeerError::NothingInCommon("support for --bwlimit auto"));
    }
    let earlier_rate = receiver.link_rate().filter(|_| echoes);
    Ok(LinkTerms { streams, echoes, gentle, earlier_rate })
}
