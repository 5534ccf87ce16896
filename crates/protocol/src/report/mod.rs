//! What a run says about itself: changes, troubles and totals. Both ends speak of them, so they cross the wire.

mod change;
mod notice;
mod progress;
mod trouble;

pub use change::{Action, Change, Differs, Facts, PassedOver};
pub use deltic_tree::EntryType;
pub use notice::{MadeRoot, Notice, Question, Totals};
pub use progress::Counts;
pub(crate) use progress::Progress;
pub use trouble::{Side, Spot, Trouble, TroubleKind};
