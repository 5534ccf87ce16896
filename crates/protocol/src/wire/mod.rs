//! The bytes: frames and their fields, the greeting, checks, further streams, and every bound on them.

pub mod check;
pub(crate) mod codec;
pub mod frame;
pub mod hello;
pub mod limits;
pub mod message;
mod meta;
mod options;
mod report;
mod rules;
pub mod streams;

pub(crate) use codec::{Bad, Wire};
