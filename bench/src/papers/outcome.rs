//! Outcome of a row of the manifest.

use crate::figure::Figure;
use crate::table::TextTable;

/// Outcome of a figure or table of a paper.
pub(crate) enum Outcome {
    /// Measured, under equal conditions.
    Drawn(Box<Drawn>),
    /// Measured or tried, but the conditions did not hold. The reason stands in place of numbers.
    Void(String),
    /// This run measured nothing, for this reason.
    Skipped(String),
    /// Made by another command.
    Elsewhere(&'static str),
    /// Cannot be measured here, with the reason.
    NotHere(&'static str),
    /// A sketch of a design, without measurements.
    Sketch,
}

/// A redrawn figure or table.
pub(crate) struct Drawn {
    /// The measurement, and the settings that were equal for all systems.
    pub(crate) caption: String,
    /// Command lines that repeat the measurement.
    pub(crate) commands: Vec<String>,
    /// The figures, each table with a line above it, which may be empty. The first table is written as CSV.
    pub(crate) tables: Vec<(String, TextTable)>,
    /// Numbers that the paper prints, and the same numbers here.
    pub(crate) claims: Option<TextTable>,
    pub(crate) plot: Option<Figure>,
}

impl Outcome {
    /// Returns the word for this outcome in tables.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Drawn(_) => "redrawn",
            Self::Void(_) => "VOID",
            Self::Skipped(_) => "SKIPPED",
            Self::Elsewhere(_) => "other command",
            Self::NotHere(_) => "not here",
            Self::Sketch => "sketch",
        }
    }

    /// Returns the reason why a row has no figures here.
    pub(crate) fn why(&self) -> String {
        match self {
            Self::Void(why) | Self::Skipped(why) => why.clone(),
            Self::Elsewhere(why) | Self::NotHere(why) => (*why).into(),
            Self::Drawn(_) | Self::Sketch => String::new(),
        }
    }
}
