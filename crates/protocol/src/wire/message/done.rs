//! Ends of files: the outcome of each file at the receiver.

use deltic_core::codec::{CodecError, Put, Reader};
use deltic_tree::RelPath;

use crate::report::{Action, Differs, Trouble};
use crate::wire::codec::{BadPayload, WireEncoding};

/// Outcome of a file.
#[expect(missing_docs, reason = "each variant's line names its fields")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// The content was up to date; `touched` if attributes were set.
    Same { touched: bool, differs: Differs },
    /// The new version is in place (in a dry run: would be). `from` is the other name that the content was matched
    /// against, if any.
    Replaced { action: Action, differs: Differs, literal: u64, matched: u64, from: Option<RelPath> },
    /// The file failed for good.
    Failed(Trouble),
}

impl Done {
    /// Returns the outcome of a new file of which all bytes came as literals.
    pub(crate) fn created(literal: u64) -> Self {
        let (action, differs) = (Action::Created, Differs::default());
        Self::Replaced { action, differs, literal, matched: 0, from: None }
    }

    /// True if a file that the receiver wanted `wants` times can end like this. Only a wanted file can be up to date
    /// or replaced.
    pub(crate) fn is_possible_after(&self, wants: u32) -> bool {
        match self {
            Self::Same { touched, differs } => {
                wants > 0 && *touched == (*differs != Differs::default())
            }
            Self::Replaced { action, .. } => {
                wants > 0 && matches!(action, Action::Created | Action::Updated | Action::Copied)
            }
            Self::Failed(_) => true,
        }
    }

    /// Returns the matched bytes of a file that was replaced.
    pub(crate) const fn matched_bytes(&self) -> Option<u64> {
        match self {
            Self::Replaced { matched, .. } => Some(*matched),
            Self::Same { .. } | Self::Failed(_) => None,
        }
    }

    /// Returns the bytes of the file that were sent as literals, as the receiver reports.
    pub(crate) const fn literal_bytes(&self) -> u64 {
        match self {
            Self::Replaced { literal, .. } => *literal,
            Self::Same { .. } | Self::Failed(_) => 0,
        }
    }
}

impl WireEncoding for Done {
    fn write_to(&self, to: &mut Vec<u8>) {
        match self {
            Self::Same { touched, differs } => {
                to.put_u8(0);
                touched.write_to(to);
                differs.write_to(to);
            }
            Self::Replaced { action, differs, literal, matched, from } => {
                to.put_u8(1);
                action.write_to(to);
                differs.write_to(to);
                literal.write_to(to);
                matched.write_to(to);
                from.write_to(to);
            }
            Self::Failed(trouble) => {
                to.put_u8(2);
                trouble.write_to(to);
            }
        }
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        match from.u8()? {
            0 => Ok(Self::Same {
                touched: WireEncoding::read_from(from)?,
                differs: WireEncoding::read_from(from)?,
            }),
            1 => Ok(Self::Replaced {
                action: WireEncoding::read_from(from)?,
                differs: WireEncoding::read_from(from)?,
                literal: WireEncoding::read_from(from)?,
                matched: WireEncoding::read_from(from)?,
                from: WireEncoding::read_from(from)?,
            }),
            2 => Ok(Self::Failed(WireEncoding::read_from(from)?)),
            _ => Err(CodecError::OutOfRange.into()),
        }
    }
}
