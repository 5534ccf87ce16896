//! The greeting: capabilities of both ends, the resulting terms, and the request of the session.
//!
//! Both ends send [`MAGIC`] and a [`Hello`] at once. [`negotiate`] computes the [`Terms`] from the two hellos; there
//! is no other way to create terms. Then the dialling end sends one [`Request`], and the other end answers with one
//! [`Reply`].

mod abort;
mod capability;
mod introduce;
mod request;
mod summed;
mod terms;

pub use abort::{Abort, AbortCause, Alive};
pub(super) use capability::check_kind;
pub use introduce::{Hello, MAGIC, check_magic};
pub use request::{Names, NamesFrom, Reply, Request};
pub use summed::SummedBlocks;
pub use terms::{Common, LinkTerms, ShortForms, Terms, negotiate};
