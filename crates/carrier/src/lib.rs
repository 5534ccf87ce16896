//! The connection between a client and a server, without IO: control messages, updates and tokens.

pub mod control;
pub mod token;
pub mod update;
