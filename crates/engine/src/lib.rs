//! Computes what a sync asks for, without IO: no files, clock, threads or async.
//!
//! A worker reads, the engine computes, the worker writes. [`Task`] is the seam: it names the spans that it reads next
//! and takes their bytes, so a worker may block, await or hold all bytes in memory.
//!
//! | room | computes |
//! |---|---|
//! | [`scan`] | chunks of a segment, cut and named |
//! | [`sums`] | the papers' sums of portions, strong sums of spans, digests of whole files |
//! | [`in_order`] | the digest of a file whose blocks pass |
//! | [`search`] | block sums found in a file by rolling |
//! | [`gap`] | block sums of old, deltas against them, and gaps rebuilt from these |
//! | [`pack`] | payloads as they travel: zeros left out, compressed, and back |
//! | [`check`] | fingerprints of what arrived against what was announced |
//! | [`assemble`] | written runs from copies and literals, in whole blocks |
//! | [`journal`], [`recipe`] | what outlives a session: which chunks are in place, and the recipes of large files |
//! | [`moves`], [`similar`] | files under other names that may be old versions |
//!
//! [`session`] is the loop that runs either [`machine`], as steps: the same in a browser and on an executor.

pub mod assemble;
pub mod check;
mod events;
pub mod gap;
pub mod in_order;
pub mod journal;
pub mod machine;
pub mod moves;
pub mod pack;
pub mod recipe;
pub mod scan;
pub mod search;
pub mod session;
pub mod similar;
pub mod sums;
mod task;

pub use task::{Short, Task, Unproven, run};
