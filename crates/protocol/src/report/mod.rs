//! Reports of a run: changes, troubles and totals. Both ends send them.

mod change;
mod notice;
mod progress;
mod reason;
mod trouble;

pub use change::{Action, Change, Differs, Facts, PassedOver};
pub use deltic_tree::EntryType;
pub use notice::{AgreedSums, MadeRoot, Notice, PeerSums, Question, Totals};
pub(crate) use progress::ByteProgress;
pub use progress::Counts;
pub use reason::ReadReason;
pub use trouble::{Side, Spot, Trouble, TroubleKind};
