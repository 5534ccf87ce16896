//! Everything that a user or a program reads of a run: names, events, progress, summaries, errors and the exit code.

pub(crate) mod asides;
pub(crate) mod complaints;
pub(crate) mod escape;
pub(crate) mod events;
pub(crate) mod exit;
pub(crate) mod explain;
pub(crate) mod format;
pub(crate) mod held;
pub(crate) mod hint;
pub(crate) mod itemize;
pub(crate) mod listing;
pub(crate) mod meter;
pub(crate) mod numbers;
pub(crate) mod ordered;
pub(crate) mod output;
pub(crate) mod progress;
pub(crate) mod question;
pub(crate) mod summary;
pub(crate) mod tell;
pub(crate) mod view;
