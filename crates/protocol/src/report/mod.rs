//! Reports of a run: changes, troubles and totals. Both ends send them.

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
