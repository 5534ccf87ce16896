//! The terms: what two ends can do together.

use std::ops::Deref;

use deltic_core::strategy::Conversation;
use deltic_core::{Fingerprinter, Key, Strategy, SumKey};

use crate::error::PeerError;
use crate::options::{Delete, Guard, Options};
use crate::wire::limits::{Limits, MAX_CREDIT_BYTES, MAX_FRAME_BYTES};

use super::capability::{
    BASES, CHECKS, CREDIT, DELETE_SHARE, HOLES, KEPT_SUMS, KEYED, MOVED, OPEN_FILES, PASSED_OVER,
    RECIPE, REMOVED, RESUMED, SIEVE, STREAMS, TROUBLES, ZEROS, ZSTD, capability,
};
use super::introduce::{Hello, fingerprinter};

/// Terms of a session. Only [`negotiate`] makes them, and nothing changes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms(Common);

impl Deref for Terms {
    type Target = Common;

    fn deref(&self) -> &Common {
        &self.0
    }
}

/// The abilities that two ends have in common, and their keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Common {
    /// Literals may travel as zstd frames.
    pub zstd: bool,
    without_zeros: WithoutZeros,
    /// The session may have more streams than one.
    pub streams: bool,
    delete_share: bool,
    /// Facts for people.
    pub reports: Reports,
    /// The receiver may say which base its old version is.
    pub bases: bool,
    /// The ends may agree on sums that their storage keeps, where a strategy uses these.
    pub kept_sums: bool,
    /// The sender may say which blocks the base has elsewhere.
    pub moved: bool,
    /// Chunks are named by the keyed sum; else by BLAKE3 with a key.
    pub keyed: bool,
    /// [`Hello::names`] of the sender are the session's: what it offers before it has heard the receiver is good.
    pub offers: bool,
    /// A bit for each of [`Strategy::ALL`].
    strategies: u32,
    /// Most files that the sender can hold open at once, if few.
    pub most_files: Option<usize>,
    /// The bounds that the two ends agree on.
    pub limits: Limits,
    /// The session's key.
    pub key: Key,
    /// The sender's part, which the key is made of.
    pub part: Key,
}

/// Ways to transfer zeros without sending them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct WithoutZeros {
    /// Literals may leave out their long runs of zeros.
    literals: bool,
    /// The sender may tell where files have holes.
    holes: bool,
}

/// Facts for people that ends may tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reports {
    /// Totals may say how much was resumed.
    pub resumed: bool,
    /// Troubles may say where they happened.
    pub troubles: bool,
    /// Changes may say why a name is passed over.
    pub passed_over: bool,
    /// The sender may say which sources it removed.
    pub removed: bool,
    /// `Restless` may be sent for a file that a program has open for writing.
    pub open_files: bool,
}

impl Terms {
    /// True where literals may travel without their long runs of zeros. Strategies of the papers send what they would.
    #[must_use]
    pub fn zeros(self, strategy: &Strategy) -> bool {
        self.without_zeros.literals && strategy.conversation == Conversation::Recipe
    }

    /// True if the sender may tell the holes of files, and transfer the data alone. New versions then have holes, so
    /// the options must ask for holes.
    #[must_use]
    pub fn holes(self, options: &Options) -> bool {
        let leaves_holes = options.writing.sparse && !options.writing.preallocate;
        self.without_zeros.holes
            && leaves_holes
            && options.strategy.conversation == Conversation::Recipe
    }

    /// Checks that both ends know a strategy, and this way to delete.
    ///
    /// # Errors
    /// [`PeerError::NothingInCommon`].
    pub fn admits(self, strategy: &Strategy, delete: Delete) -> Result<(), PeerError> {
        if matches!(delete, Delete::Guarded(Guard { percent: Some(_), .. })) && !self.delete_share {
            return Err(PeerError::NothingInCommon("--max-delete in percent"));
        }
        let place = Strategy::ALL.iter().position(|known| known == strategy);
        let admitted = *strategy == Strategy::DELTIC
            || place.is_some_and(|place| self.strategies >> place & 1 == 1);
        if admitted { Ok(()) } else { Err(PeerError::NothingInCommon("strategy of this name")) }
    }

    /// The key of strong sums in this session.
    #[must_use]
    pub const fn sum_key(self) -> SumKey {
        SumKey::from_bytes(*self.0.key.as_bytes())
    }

    /// Names of chunks in this session. Strategies of the papers prove what they found by BLAKE3.
    #[must_use]
    pub fn fingerprinter(self, strategy: &Strategy) -> Fingerprinter {
        if strategy.conversation == Conversation::Recipe {
            self.fingerprinter_with(&self.key)
        } else {
            Fingerprinter::blake3(&self.key)
        }
    }

    /// Names of the chunks of a file whose transfer began in another session, under that session's `key`.
    #[must_use]
    pub fn fingerprinter_with(self, key: &Key) -> Fingerprinter {
        fingerprinter(self.keyed, key)
    }

    /// Seed of the sums of blocks in gaps.
    #[must_use]
    pub fn gap_seed(self) -> u64 {
        self.key.seed()
    }
}

/// Computes the terms of two ends; they are the same whichever end computes them.
///
/// # Errors
/// [`PeerError::NothingInCommon`] where a session needs what one of them lacks.
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
    let known = Strategy::ALL.iter().enumerate().filter(|(_, known)| both(&capability(known)));
    let strategies = known.fold(0, |bits, (place, _)| bits | 1 << place);
    let zstd = both(ZSTD);
    let without_zeros = WithoutZeros { literals: both(ZEROS), holes: both(HOLES) };
    let (streams, keyed) = (both(STREAMS), both(KEYED));
    let (delete_share, bases, moved) = (both(DELETE_SHARE), both(BASES), both(MOVED));
    let kept_sums = both(KEPT_SUMS);
    let reports = Reports {
        resumed: both(RESUMED),
        troubles: both(TROUBLES),
        passed_over: both(PASSED_OVER),
        removed: both(REMOVED),
        open_files: both(OPEN_FILES),
    };
    let offers = keyed == sender.capabilities.contains(KEYED);
    let (part, key) = (sender.part, sender.part.for_session());
    let most_files = sender.most_files();
    let credit = receiver.credit().filter(|_| sender.capabilities.contains(CREDIT));
    let frames = sender.frame_bytes()?.zip(receiver.frame_bytes()?);
    let limits = Limits {
        frame_bytes: frames.map_or(MAX_FRAME_BYTES, |(one, other)| one.min(other)),
        credit: credit.map(|bytes| bytes.min(MAX_CREDIT_BYTES)),
    };
    Ok(Terms(Common {
        zstd,
        without_zeros,
        streams,
        delete_share,
        reports,
        bases,
        kept_sums,
        moved,
        keyed,
        offers,
        strategies,
        most_files,
        limits,
        key,
        part,
    }))
}
