//! What frames are sent for, so that traffic can be told apart by whoever counts it. A new frame says it here, or
//! nothing builds.

use crate::message::{ToReceiver, ToSender};

/// Purpose of a frame, as tables of traffic tell bytes apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Greeting, lists, beginnings and ends of files, results.
    Control,
    /// Sums of the chunks or blocks of a version, from either end.
    Recipe,
    /// Requests to tell more.
    Need,
    /// Confirmation of suspected matches.
    Confirm,
    /// Bytes of new, and where they go.
    Literal,
}

impl Purpose {
    /// All of them, in the order of tables.
    pub const ALL: [Self; 5] =
        [Self::Control, Self::Recipe, Self::Need, Self::Confirm, Self::Literal];

    /// Its name in tables.
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
    /// The purpose of the frame.
    #[must_use]
    pub const fn purpose(&self) -> Purpose {
        match self {
            Self::Listing { .. }
            | Self::Tally { .. }
            | Self::Owners { .. }
            | Self::Missing(_)
            | Self::Removed(_)
            | Self::Gone(_)
            | Self::Allow(_)
            | Self::Listed { .. }
            | Self::Holes { .. }
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
            Self::Deny { .. } | Self::Digests(_) => Purpose::Confirm,
            Self::Fill { .. } | Self::Mended { .. } | Self::Patch { .. } => Purpose::Literal,
        }
    }
}

impl ToSender {
    /// The purpose of the frame.
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
            | Self::MadeRoot(_)
            | Self::Changed(_)
            | Self::Arrived { .. }
            | Self::Credit { .. }
            | Self::Ask(_)
            | Self::Trouble(_)
            | Self::Finished(_) => Purpose::Control,
            Self::Lack { .. } | Self::Need { .. } => Purpose::Need,
            // Sums of what old has in the gaps, or of all of its blocks.
            Self::Mend { .. } | Self::Sums { .. } => Purpose::Recipe,
            // With what is needed in any case: the two are one answer.
            Self::Match { .. } | Self::Digest(_) => Purpose::Confirm,
        }
    }
}
