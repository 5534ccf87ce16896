//! The recipe conversation as two state machines without IO, and its wire format.
//!
//! docs/protocol.md is normative: bytes, states, limits, threat model. Here:
//! [`frame`] and [`message`] are the bytes, [`hello`] the greeting, [`sender`] and [`receiver`] the machines, [`work`]
//! what they ask of whoever drives them, [`streams`] what literals may travel on besides, [`batch`] what of a session a file may keep, [`limits`]
//! every bound.
//!
//! A driver moves frames between two machines and does the work they ask for, in any order:
//!
//! ```text
//!            frame in                       frame in
//!               │                              │
//!   answers ─► Sender ─► work       answers ─► Receiver ─► work
//!               │                              │
//!            frame out                      frame out
//! ```

pub mod batch;
pub mod check;
mod cutting;
mod digests;
pub mod error;
pub mod frame;
pub mod hello;
pub mod limits;
mod listed;
pub mod message;
pub mod options;
pub mod purpose;
pub mod receiver;
pub mod report;
pub mod sender;
pub mod streams;
pub mod summing;
pub mod sums;
mod wire;
pub mod work;

pub use digests::DigestLine;
pub use error::PeerError;
pub use hello::{Hello, Terms, negotiate};
pub use message::{FileNo, ToReceiver, ToSender};
pub use purpose::Purpose;
pub use work::WorkId;
