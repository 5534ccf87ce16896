//! Purposes of frames. Traffic is counted by purpose. A new frame does not compile until its purpose is given here.

use crate::message::{ToReceiver, ToSender};

/// Purpose of a frame, by which tables of traffic split the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Greeting, lists, starts and ends of files, results.
    Control,
    /// Sums of chunks or blocks of a version, from either end.
    Recipe,
    /// Requests for groups, chunks or blocks.
    Need,
    /// Confirmations of suspected matches.
    Confirm,
    /// Bytes of the new version, and their positions.
    Literal,
}

impl Purpose {
    /// Every purpose, in the order of tables.
    pub const ALL: [Self; 5] =
        [Self::Control, Self::Recipe, Self::Need, Self::Confirm, Self::Literal];

    /// Returns the name used in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Control => "control",
            Self::Recipe => "recipe",
            Self::Need => "need",
            Self::Confirm => "confirm",
            Self::Literal => "literal",
        }
    }
}

impl ToReceiver {
    /// Returns the purpose of the frame.
    #[must_use]
    pub const fn purpose(&self) -> Purpose {
        match self {
            Self::Listing { .. }
            | Self::ShortListing { .. }
            | Self::Tally { .. }
            | Self::ShortTally { .. }
            | Self::CutTally { .. }
            | Self::Owners { .. }
            | Self::Missing(_)
            | Self::Removed(_)
            | Self::Gone(_)
            | Self::Allow(_)
            | Self::Listed { .. }
            | Self::Holes { .. }
            | Self::ReadReason { .. }
            | Self::Start { .. }
            | Self::Offer { .. }
            | Self::Keeps { .. }
            | Self::Moved { .. }
            | Self::Restless { .. }
            | Self::End { .. }
            | Self::Failed { .. }
            | Self::Trouble(_) => Purpose::Control,
            Self::Groups { .. } | Self::Chunks { .. } | Self::Recipe { .. } | Self::Sums { .. } => {
                Purpose::Recipe
            }
            Self::Deny { .. } | Self::Digests(_) | Self::ShortDigests(_) => Purpose::Confirm,
            Self::Fill { .. }
            | Self::Single { .. }
            | Self::ShortSingle { .. }
            | Self::Mended { .. }
            | Self::Patch { .. } => Purpose::Literal,
        }
    }
}

impl ToSender {
    /// Returns the purpose of the frame.
    #[must_use]
    pub const fn purpose(&self) -> Purpose {
        match self {
            Self::Want { .. }
            | Self::Base { .. }
            | Self::Signs { .. }
            | Self::Resume { .. }
            | Self::Append { .. }
            | Self::Settled { .. }
            | Self::Tallied { .. }
            | Self::Done { .. }
            | Self::Answers(_)
            | Self::MadeRoot(_)
            | Self::Changed(_)
            | Self::Arrived { .. }
            | Self::Credit { .. }
            | Self::Ask(_)
            | Self::Trouble(_)
            | Self::Finished(_) => Purpose::Control,
            Self::Lack { .. } | Self::Need { .. } => Purpose::Need,
            // Sums of blocks of the old version: the blocks in the gaps, or every block.
            Self::Mend { .. } | Self::Sums { .. } => Purpose::Recipe,
            // A `Match` also carries needs: one answer holds both.
            Self::Match { .. } | Self::Digest(_) => Purpose::Confirm,
        }
    }
}
