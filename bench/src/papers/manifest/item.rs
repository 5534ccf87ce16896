//! A row of the manifest: a figure or table of a paper, and the runs that redraw the figure, or the reason why no run
//! does.

use anyhow::Result;

use super::super::bench::PaperBench;
use super::super::chunkers::ChunkView;
use super::super::outcome::Outcome;
use super::super::view::SyncView;

/// Number of a figure or table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Label {
    Figure(u8),
    Table(u8),
}

impl Label {
    /// Returns the word on the command line and in file names.
    pub(crate) fn word(self) -> String {
        match self {
            Self::Figure(no) => format!("f{no}"),
            Self::Table(no) => format!("t{no}"),
        }
    }

    /// Returns the name in pages.
    pub(crate) fn title(self) -> String {
        match self {
            Self::Figure(no) => format!("Figure {no}"),
            Self::Table(no) => format!("Table {no}"),
        }
    }
}

/// A figure or table of a paper.
pub(crate) struct PaperItem {
    pub(crate) label: Label,
    /// One line that describes the figure of the paper.
    pub(crate) shows: &'static str,
    pub(crate) redraw: Redraw,
}

/// The runs that redraw a figure or table, or the reason why no run does.
pub(crate) enum Redraw {
    /// From whole syncs.
    Sync(Box<SyncView>),
    /// From chunkers.
    Chunk(ChunkView),
    /// By a measurement of its own.
    Own(fn(&mut PaperBench) -> Result<Outcome>),
    /// By another command.
    Elsewhere(&'static str),
    /// No run can redraw the figure on this machine, for this reason.
    NotHere(&'static str),
    /// The figure has no measurement: a sketch of a design, or a list.
    Sketch,
}

impl Redraw {
    /// Redraws the row.
    pub(crate) fn outcome(&self, bench: &mut PaperBench) -> Result<Outcome> {
        Ok(match self {
            Self::Sync(view) => view.outcome(bench),
            Self::Chunk(view) => view.outcome(bench),
            Self::Own(measure) => measure(bench)?,
            Self::Elsewhere(command) => Outcome::Elsewhere(command),
            Self::NotHere(why) => Outcome::NotHere(why),
            Self::Sketch => Outcome::Sketch,
        })
    }

    /// Returns how the row is redrawn, for the index.
    pub(crate) fn how(&self) -> String {
        match self {
            Self::Sync(view) => format!("bench sync: {}", view.runs.join(", ")),
            Self::Chunk(view) => format!("bench chunk: {}", view.run),
            Self::Own(_) => "bench papers".into(),
            Self::Elsewhere(command) => (*command).into(),
            Self::NotHere(why) => format!("no: {why}"),
            Self::Sketch => "no: a sketch or a list, without measurements".into(),
        }
    }
}

/// Makes the row of a figure.
pub(super) fn figure(no: u8, shows: &'static str, redraw: Redraw) -> PaperItem {
    PaperItem { label: Label::Figure(no), shows, redraw }
}

/// Makes the row of a table.
pub(super) fn table(no: u8, shows: &'static str, redraw: Redraw) -> PaperItem {
    PaperItem { label: Label::Table(no), shows, redraw }
}
