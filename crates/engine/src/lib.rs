//! The computations of a sync, without IO: no files, clock, threads or async.
//!
//! A worker reads, the engine computes, the worker writes. A [`Task`] names the spans to read next and takes the bytes
//! of these spans. So a worker may block, await or hold all bytes in memory.
//!
//! | module | computes |
//! |---|---|
//! | [`scan`] | chunks of a segment with their fingerprints |
//! | [`sums`] | weak and strong sums of chunks, strong sums of spans, digests of whole files |
//! | [`in_order`] | the digest of a file while its blocks are read or written |
//! | [`search`] | blocks found in a file by a rolling search |
//! | [`gap`] | block sums of the old file, deltas against these sums, gaps rebuilt from deltas |
//! | [`pack`] | literal payloads: zero runs removed, compressed, and unpacked |
//! | [`compression`] | frames compressed in one zstd stream, with the history of the frames before |
//! | [`check`] | fingerprints of received chunks, compared with the announced ones |
//! | [`assemble`] | large writes from copies and literals, in whole blocks |
//! | [`journal`], [`recipe`] | state between sessions: chunks in place, and recipes of large files |
//! | [`moves`], [`similar`] | candidates for old versions under other names |
//!
//! [`session`] runs the sender's or the receiver's [`machine`] step by step, in a browser as on an async executor.
//! [`greeting`] is the dialling end's part before a session, [`stream`] the bytes of the wire around its frames.

pub mod assemble;
pub mod check;
pub mod compression;
mod events;
pub mod gap;
pub mod greeting;
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
pub mod stream;
pub mod sums;
mod task;

pub use task::{ContentMismatch, FileShrank, Task, run};
