//! The recipe conversation as two state machines without IO, and its wire format.
//!
//! docs/protocol.md is normative: bytes, states, limits, threat model. The modules: [`frame`] and [`message`] define
//! the bytes of frames, [`hello`] the greeting, [`sender`] and [`receiver`] the machines, [`work`] the tasks that
//! machines give their driver, [`streams`] the extra streams for literals, [`batch`] the batch file, [`limits`] every
//! bound.
//!
//! A driver moves frames between the two machines and does the work that the machines ask for, in any order:
//!
//! ```text
//!            frame in                       frame in
//!               │                              │
//!   answers ─► Sender ─► work       answers ─► Receiver ─► work
//!               │                              │
//!            frame out                      frame out
//! ```

pub mod batch;
mod cutting;
mod digests;
pub mod error;
pub mod known;
mod listed;
pub mod options;
mod packed_entries;
pub mod purpose;
pub mod receiver;
pub mod report;
pub mod sender;
pub mod summing;
pub mod sums;
mod wire;
pub mod work;

pub use error::PeerError;
pub use hello::{Hello, Terms, negotiate};
pub use message::{DigestLine, FileNo, ToReceiver, ToSender};
pub use packed_entries::PackedEntries;
pub use purpose::Purpose;
pub use wire::{check, compressed, echo, frame, hello, limits, message, streams};
pub use work::WorkId;
