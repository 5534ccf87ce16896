//! Ends of files.

use deltic_core::codec::{CodecError, Put, Reader};
use deltic_tree::RelPath;

use crate::report::{Action, Differs, Trouble};
use crate::wire::codec::{Bad, Wire};

/// The end of a file.
#[expect(missing_docs, reason = "each variant's line names its fields")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// Its content was what it should be; `touched` if attributes were set.
    Same { touched: bool, differs: Differs },
    /// Its new version is in place (in a dry run: would be), matched against what is or was at `from`, if that is
    /// another name.
    Replaced { action: Action, differs: Differs, literal: u64, matched: u64, from: Option<RelPath> },
    /// The file failed for good.
    Failed(Trouble),
}

impl Done {
    /// True if a file can end so that was wanted so many times: only of one that was can be said what became of its
    /// content.
    pub(crate) fn may_end(&self, wants: u32) -> bool {
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

    /// Bytes of the file that were matched, if it is a new one in its place.
    pub(crate) const fn matched(&self) -> Option<u64> {
        match self {
            Self::Replaced { matched, .. } => Some(*matched),
            Self::Same { .. } | Self::Failed(_) => None,
        }
    }

    /// Bytes of the file that were sent, as the receiver says.
    pub(crate) const fn literal(&self) -> u64 {
        match self {
            Self::Replaced { literal, .. } => *literal,
            Self::Same { .. } | Self::Failed(_) => 0,
        }
    }
}

impl Wire for Done {
    fn put(&self, to: &mut Vec<u8>) {
        match self {
            Self::Same { touched, differs } => {
                to.put_u8(0);
                touched.put(to);
                differs.put(to);
            }
            Self::Replaced { action, differs, literal, matched, from } => {
                to.put_u8(1);
                action.put(to);
                differs.put(to);
                literal.put(to);
                matched.put(to);
                from.put(to);
            }
            Self::Failed(trouble) => {
                to.put_u8(2);
                trouble.put(to);
            }
        }
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        match from.u8()? {
            0 => Ok(Self::Same { touched: Wire::take(from)?, differs: Wire::take(from)? }),
            1 => Ok(Self::Replaced {
                action: Wire::take(from)?,
                differs: Wire::take(from)?,
                literal: Wire::take(from)?,
                matched: Wire::take(from)?,
                from: Wire::take(from)?,
            }),
            2 => Ok(Self::Failed(Wire::take(from)?)),
            _ => Err(CodecError::OutOfRange.into()),
        }
    }
}
