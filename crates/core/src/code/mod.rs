//! Address fields of x86-64 code, split off from the code (docs/decisions/0080).
//!
//! A call holds the distance to its target, and an operand relative to the instruction pointer the distance to its
//! datum. If a program grows anywhere, nearly all of these distances change, so that two releases of a program share
//! few runs of bytes. Split code has zeros in these fields and is alike in both releases:
//!
//! ```text
//! code      e8 1a 02 00 00   48 8b 05 c4 0f 01 00      mask     e8 00 00 00 00   48 8b 05 00 00 00 00
//!                                                      columns  the targets, in the order of the fields
//! ```
//!
//! The columns have the targets, not the distances: all calls of a function have the same target, so most fields
//! take one byte (`columns.rs`). A field is found by the bytes before it alone, so that the masked bytes have the same
//! fields as the code ([`fields`]). Nothing here needs bytes that are really code: other bytes are split and joined
//! without loss, and [`is_code`] tells whether splitting pays.

mod columns;
mod fields;

pub use columns::{BadColumns, FieldReader, FieldWriter};
pub use fields::{Field, FieldKind, fields, is_code, mask};
