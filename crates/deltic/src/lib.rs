#![doc = include_str!("../README.md")]

mod delta;
mod sync;

pub use delta::{Delta, DeltaError, DeltaOp, apply, delta};
pub use deltic_core::format::FormatError;
pub use deltic_net::embed::{Cancel, Embedding, Outcome};
pub use deltic_net::executor::{Budget, Executor, Limits};
pub use deltic_net::{SyncError, User};
pub use deltic_protocol::options;
pub use deltic_protocol::report::{self, Notice as Event};
pub use sync::{Sync, SyncPath, serve};
