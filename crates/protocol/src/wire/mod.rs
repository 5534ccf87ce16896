//! The bytes on the wire: frames and their fields, the greeting, checks, further streams, and all limits.

pub mod check;
pub(crate) mod codec;
pub mod compressed;
pub mod echo;
pub mod frame;
pub mod hello;
pub mod limits;
pub mod message;
pub(crate) mod meta;
mod options;
mod report;
mod rules;
pub mod streams;

pub(crate) use codec::{BadPayload, WireEncoding};
