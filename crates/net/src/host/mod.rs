//! What the names of a request mean on this machine, and what is allowed there.

pub(crate) mod destination;
pub(crate) mod place;
pub mod restrict;
pub(crate) mod sources;
pub(crate) mod user;
