#![doc = include_str!("../README.md")]

mod delta;
mod path;
pub mod streams;
mod sync;
mod watch;

pub use delta::{Delta, DeltaError, DeltaOp, apply, delta};
pub use deltic_core::format::FormatError;
pub use deltic_net::embed::{Cancel, Embedding, Outcome};
pub use deltic_net::executor::{Budget, Executor, Limits};
pub use deltic_net::{SyncError, User};
pub use deltic_protocol::options;
pub use deltic_protocol::report::{self, Notice as Event};
pub use path::{ServerPath, SyncPath};
pub use sync::{TreeSync, Verification, serve};
