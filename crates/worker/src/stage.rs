//! Stages, to which the time of work is charged.
//!
//! A worker names the stage of each part of its work. A [`StageMeter`] of the thread measures the time, if the caller
//! provides a meter; a worker has no clock. The meter is thread-local: otherwise each function that reads or sums would
//! need an argument for the meter.

use std::cell::RefCell;

/// Kinds of work that are measured separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Reading files.
    Read,
    /// Cutting into chunks and summing the chunks, in one pass.
    Scan,
    /// Computing sums alone: of received chunks, of chunks sent as literals, of old blocks in gaps, of recipes.
    Sum,
    /// Searching for blocks at any offset.
    Search,
    /// Compressing and decompressing literals.
    Pack,
    /// Writing, copying and committing.
    Write,
    /// The protocol's machine: frames, the index of old versions, look-ups, and all decisions.
    Decide,
    /// Moving bytes between the machine and the transport.
    Wire,
    /// Other work: listing, opening, closing.
    Other,
}

impl Stage {
    /// Every stage, in the order of tables.
    pub const ALL: [Self; 9] = [
        Self::Read,
        Self::Scan,
        Self::Sum,
        Self::Search,
        Self::Pack,
        Self::Write,
        Self::Decide,
        Self::Wire,
        Self::Other,
    ];

    /// Returns the name of the stage in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Scan => "scan",
            Self::Sum => "sum",
            Self::Search => "search",
            Self::Pack => "pack",
            Self::Write => "write",
            Self::Decide => "decide",
            Self::Wire => "wire",
            Self::Other => "other",
        }
    }
}

/// Measures the time of one piece of work on a thread. The time after the last change belongs to the last stage; the
/// meter is dropped when the piece is done.
pub trait StageMeter {
    /// Charges the time since the last change to the present stage, then changes the stage. Returns the former stage.
    fn set_stage(&mut self, stage: Stage) -> Stage;

    /// Counts bytes that were read of files.
    fn count_read(&mut self, bytes: usize);
}

thread_local! {
    /// The meter of the present work of this thread, if time is measured.
    static METER: RefCell<Option<Box<dyn StageMeter>>> = const { RefCell::new(None) };
}

/// Does `work` on this thread, and measures the time of `work` with `meter`.
pub fn metered<T>(meter: Box<dyn StageMeter>, work: impl FnOnce() -> T) -> T {
    let before = METER.replace(Some(meter));
    let done = work();
    METER.set(before);
    done
}

/// Does `part` of the present work, and charges the time of `part` to `stage`.
pub fn within<T>(stage: Stage, part: impl FnOnce() -> T) -> T {
    let change = |stage| METER.with_borrow_mut(|meter| Some(meter.as_mut()?.set_stage(stage)));
    let Some(before) = change(stage) else { return part() };
    let done = part();
    change(before);
    done
}

/// Reads a part of a file, charges the time to [`Stage::Read`], and counts the bytes that `read` returns.
pub fn reading<E>(read: impl FnOnce() -> Result<usize, E>) -> Result<usize, E> {
    let got = within(Stage::Read, read)?;
    METER.with_borrow_mut(|meter| meter.iter_mut().for_each(|meter| meter.count_read(got)));
    Ok(got)
}
