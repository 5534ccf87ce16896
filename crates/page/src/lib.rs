//! The engine of a page in a browser: syncs files of the user with a server, over one WebSocket.
//!
//! ```text
//!  page ─ push, pull, close ─►┌────────────┐─► next_event     progress and results, as JSON
//!  socket ─ message ─────────►│ Connection │─► next_message   for the socket
//!  timer ─ turn(now) ────────►└────────────┘◄► HostFiles      spans of the user's files
//! ```
//!
//! The crate has no clock, random bytes, socket or file. Time and random bytes are arguments; the user's files are
//! read and written by two functions of the host ([`HostFiles`]), which block (docs/decisions/0074). [`Connection`]
//! and [`PageStore`] run on any machine. In WebAssembly, the module `exports` offers them to JavaScript.
//!
//! A page sends more often than it fetches, and the end that fetches has twice the code. So `web/engine` builds two
//! WebAssembly modules: one with the feature `push`, one with `pull`. The module with `pull` plans synced folders too
//! (`reconcile`).

mod connection;
mod events;
#[cfg(target_family = "wasm")]
pub mod exports;
mod host;
#[cfg(feature = "pull")]
mod pull;
#[cfg(feature = "push")]
mod push;
#[cfg(feature = "pull")]
mod reconcile;
mod requests;
mod store;

pub use connection::Connection;
pub use events::{Event, PutFile};
pub use host::{HostFiles, NotRead, NotWritten};
#[cfg(feature = "pull")]
pub use reconcile::plan;
pub use requests::{Append, OldFile, Pull, Push, RequestError};
pub use store::PageStore;
