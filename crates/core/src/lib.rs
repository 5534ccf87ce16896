//! Pure computing on bytes: no IO, no threads, no clock (docs/ARCHITECTURE.md).

pub mod meta;
pub mod path;
pub mod span;

pub use meta::{Entry, Kind, Meta, Timestamp};
pub use path::{Name, RelPath};
pub use span::Span;
