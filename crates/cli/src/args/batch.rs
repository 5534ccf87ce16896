//! Runs that are kept in a file, as rsync's batch mode has them.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Result, bail};

use super::headings::TRAVEL;

/// The file that keeps a run.
#[derive(Debug, clap::Args)]
pub(crate) struct BatchArgs {
    /// Record the run in FILE too; FILE.sh applies it elsewhere
    ///
    /// Other destinations must be like this one.
    #[arg(long, value_name = "FILE", help_heading = TRAVEL)]
    write_batch: Option<OsString>,
    /// Record the run in FILE, leave DEST as it is
    #[arg(long, value_name = "FILE", help_heading = TRAVEL)]
    only_write_batch: Option<OsString>,
    /// Apply the run that FILE holds; - is standard input
    #[arg(long, value_name = "FILE", help_heading = TRAVEL)]
    read_batch: Option<OsString>,
}

/// Use of the file that keeps a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Batch {
    Write(PathBuf),
    OnlyWrite(PathBuf),
    Read(PathBuf),
}

impl BatchArgs {
    /// True if nothing comes to a destination in this run.
    pub(crate) const fn only_writes(&self) -> bool {
        self.only_write_batch.is_some()
    }

    /// The batch that is asked for, or why it makes no sense with the other words.
    pub(crate) fn batch(&self, removes_sources: bool, compares: bool) -> Result<Option<Batch>> {
        let words = [
            ("--write-batch", self.write_batch.clone().map(|path| Batch::Write(path.into()))),
            (
                "--only-write-batch",
                self.only_write_batch.clone().map(|path| Batch::OnlyWrite(path.into())),
            ),
            ("--read-batch", self.read_batch.clone().map(|path| Batch::Read(path.into()))),
        ];
        let mut asked = words.into_iter().filter_map(|(word, batch)| Some((word, batch?)));
        let Some((word, batch)) = asked.next() else { return Ok(None) };
        if let Some((other, _)) = asked.next() {
            bail!("{word} and {other}: a run has one batch file");
        }
        // Nothing is at a destination then, so the sources stay.
        if removes_sources && !matches!(batch, Batch::OnlyWrite(_)) {
            bail!("{word}: a batch keeps no word that sources go (--remove-source-files)");
        }
        if compares && !matches!(batch, Batch::Read(_)) {
            bail!(
                "{word}: what -c compares is at the destination alone, and a batch is for others; -I takes all files"
            );
        }
        Ok(Some(batch))
    }
}
