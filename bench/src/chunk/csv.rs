//! The files of figures of `deltic bench chunk`.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::report::Report;
use crate::exit::shown;
use crate::files::write;

/// The three files of figures.
pub(crate) struct Csv {
    figures: PathBuf,
    lengths: PathBuf,
    edits: PathBuf,
}

impl Csv {
    /// `path` and the files beside it.
    pub(crate) fn new(path: &Path) -> Self {
        let [lengths, edits] = ["lengths", "edits"].map(|what| beside(path, what));
        Self { figures: path.into(), lengths, edits }
    }

    /// All that a run may write or remove.
    pub(crate) fn all(&self) -> [&Path; 3] {
        [&self.figures, &self.lengths, &self.edits]
    }

    /// Writes them. Where no edits were counted, those of an earlier run go.
    pub(crate) fn write(&self, report: &Report) -> Result<()> {
        write(&self.figures, report.figures().csv().as_bytes())?;
        write(&self.lengths, report.lengths().csv().as_bytes())?;
        match report.edits() {
            Some(edits) => write(&self.edits, edits.csv().as_bytes()),
            None => self.remove_edits(),
        }
    }

    /// Removes what an earlier run left, and nothing else that has its name.
    fn remove_edits(&self) -> Result<()> {
        let removed = match fs::read(&self.edits) {
            Ok(text) if Report::is_edits(&text) => fs::remove_file(&self.edits),
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
        removed.with_context(|| format!("remove {}", shown(&self.edits)))
    }
}

/// `figures.csv` becomes `figures-what.csv`.
fn beside(path: &Path, what: &str) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(format!("-{what}"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}
