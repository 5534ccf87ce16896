//! The greeting: who we are, what we share, and what this session is for.
//!
//! Both ends send [`MAGIC`] and a [`Hello`] at once; [`negotiate`] turns the two into [`Terms`], which nothing else can
//! make. Then the dialling end sends one [`Request`] and the other answers with one [`Reply`].

mod abort;
mod capability;
mod introduce;
mod request;
mod terms;

pub use abort::{Abort, AbortCause, Alive};
pub use introduce::{Hello, MAGIC, check_magic};
pub use request::{Names, NamesFrom, Reply, Request};
pub use terms::{Common, Terms, negotiate};
