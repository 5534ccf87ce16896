//! The terms: what two ends can do together.

use deltic_core::strategy::Conversation;
use deltic_core::{Fingerprinter, Key, Strategy, SumKey};

use crate::error::PeerError;
use crate::options::{Delete, Guard};
use crate::wire::limits::{Limits, MAX_CREDIT_BYTES, MAX_FRAME_BYTES};

use super::capability::{
    CHECKS, CREDIT, DELETE_SHARE, KEYED, PASSED_OVER, RECIPE, REMOVED, RESUMED, SIEVE, STREAMS,
    TROUBLES, ZEROS, ZSTD, capability,
};
use super::introduce::{Hello, fingerprinter};

/// Terms of a session. Only [`negotiate`] makes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    zstd: bool,
    zeros: bool,
    streams: bool,
    delete_share: bool,
    resumed: bool,
    troubles: bool,
    passed_over: bool,
    removed: bool,
    keyed: bool,
    /// The sender may name chunks before it knows the receiver: it guesses [`Terms::is_keyed`] right.
    offers: bool,
    /// A bit for each of [`Strategy::ALL`].
    strategies: u32,
    /// Most files that the sender can hold open at once, if few.
    most_files: Option<usize>,
    limits: Limits,
    key: Key,
    /// The sender's, which the key was made of.
    part: Key,
}

impl Terms {
    /// True where literals may travel as zstd frames.
    #[must_use]
    pub const fn zstd(self) -> bool {
        self.zstd
    }

    /// True where literals may travel without their long runs of zeros. Strategies of the papers send what they would.
    #[must_use]
    pub fn zeros(self, strategy: &Strategy) -> bool {
        self.zeros && strategy.conversation == Conversation::Recipe
    }

    /// True where troubles may say where they happened.
    #[must_use]
    pub const fn troubles(self) -> bool {
        self.troubles
    }

    /// True where the session may have more streams than one.
    #[must_use]
    pub const fn streams(self) -> bool {
        self.streams
    }

    /// True where totals may say how much was resumed.
    #[must_use]
    pub const fn resumed(self) -> bool {
        self.resumed
    }

    /// True where changes may say why a name is passed over.
    #[must_use]
    pub const fn passed_over(self) -> bool {
        self.passed_over
    }

    /// True where the sender may say which sources it removed.
    #[must_use]
    pub const fn removed(self) -> bool {
        self.removed
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
        SumKey::from_bytes(*self.key.as_bytes())
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

    /// True where chunks are named by the keyed sum; else by BLAKE3 with a key.
    #[must_use]
    pub const fn is_keyed(self) -> bool {
        self.keyed
    }

    /// The session's key.
    #[must_use]
    pub const fn key(self) -> Key {
        self.key
    }

    /// The sender's part, which the key is made of.
    #[must_use]
    pub const fn part(self) -> Key {
        self.part
    }

    /// True if [`Hello::names`] of the sender are the session's: what it offers before it has heard the receiver is
    /// good.
    #[must_use]
    pub const fn offers(self) -> bool {
        self.offers
    }

    /// Most files that the sender can hold open at once, if few.
    #[must_use]
    pub const fn most_files(self) -> Option<usize> {
        self.most_files
    }

    /// The bounds that the two ends agree on.
    #[must_use]
    pub const fn limits(self) -> Limits {
        self.limits
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
    let (zstd, zeros) = (both(ZSTD), both(ZEROS));
    let (streams, keyed) = (both(STREAMS), both(KEYED));
    let (delete_share, resumed) = (both(DELETE_SHARE), both(RESUMED));
    let (troubles, passed_over) = (both(TROUBLES), both(PASSED_OVER));
    let removed = both(REMOVED);
    let offers = keyed == sender.capabilities.contains(KEYED);
    let (part, key) = (sender.part, sender.part.for_session());
    let most_files = sender.most_files();
    let credit = receiver.credit().filter(|_| sender.capabilities.contains(CREDIT));
    let frames = sender.frame_bytes()?.zip(receiver.frame_bytes()?);
    let limits = Limits {
        frame_bytes: frames.map_or(MAX_FRAME_BYTES, |(one, other)| one.min(other)),
        credit: credit.map(|bytes| bytes.min(MAX_CREDIT_BYTES)),
    };
    Ok(Terms {
        zstd,
        zeros,
        streams,
        delete_share,
        resumed,
        troubles,
        passed_over,
        removed,
        keyed,
        offers,
        strategies,
        most_files,
        limits,
        key,
        part,
    })
}
