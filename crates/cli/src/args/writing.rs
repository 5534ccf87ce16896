//! Options for how files are written.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use anyhow::{Result, bail, ensure};
use deltic_protocol::options::{Append, Writing};

use crate::words::ways::OptionBehaviour;

/// Options for writing files.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Writing files")]
pub(crate) struct WritingArgs {
    /// Update files in place
    ///
    /// Files keep their inode and hard links. Readers see partial updates.
    #[arg(long, overrides_with = "no_inplace")]
    inplace: bool,
    /// Take back --inplace
    #[arg(long, overrides_with = "inplace", hide = true)]
    no_inplace: bool,
    /// Append to shorter files, trust the existing data
    ///
    /// Files that are not shorter than the source are skipped.
    #[arg(long, overrides_with_all = ["append_verify", "no_append"])]
    append: bool,
    /// Append to shorter files, verify the existing data
    ///
    /// Data that differs is corrected.
    #[arg(long, overrides_with_all = ["append", "no_append"])]
    append_verify: bool,
    /// Take back --append and --append-verify
    #[arg(long, aliases = ["no-append-verify"], overrides_with_all = ["append", "append_verify"])]
    #[arg(hide = true)]
    no_append: bool,
    /// Turn runs of zeros into holes
    #[arg(short = 'S', long)]
    sparse: bool,
    /// Allocate space for files before writing them
    #[arg(long)]
    preallocate: bool,
    /// Create temporary files in DIR, relative to DEST
    #[arg(short = 'T', long, value_name = "DIR")]
    temp_dir: Option<OsString>,
    /// Accepted: interrupted transfers always resume
    #[arg(long, overrides_with = "no_partial")]
    partial: bool,
    /// Take back --partial and --partial-dir
    #[arg(long, overrides_with = "partial", hide = true)]
    no_partial: bool,
    /// Keep partially transferred files in DIR, beside each file
    #[arg(long, value_name = "DIR")]
    partial_dir: Option<OsString>,
    /// Put all new files in place at the end
    #[arg(long)]
    pub(crate) delay_updates: bool,
}

impl WritingArgs {
    /// Returns the options for writing files; `keeps` implies `--partial`.
    ///
    /// # Errors
    /// If arguments contradict each other.
    pub(crate) fn writing(
        &self,
        whole_file: bool,
        keeps: bool,
        ways: OptionBehaviour,
    ) -> Result<Writing> {
        let append = match (self.append, self.append_verify) {
            (true, _) => Append::Blindly,
            (false, true) => Append::Verified,
            (false, false) => Append::Never,
        };
        let inplace = self.inplace || self.appends();
        let word = if self.appends() { "--append" } else { "--inplace" };
        ensure!(!(self.appends() && whole_file), "--append cannot be used with --whole-file");
        if inplace && self.delay_updates {
            bail!("{word} cannot be used with --delay-updates");
        }
        let partial_dir = self.partial_dir(keeps, ways);
        if inplace && self.partial_dir.is_some() {
            bail!("{word} cannot be used with --partial-dir");
        }
        for (word, dir) in [("--temp-dir", &self.temp_dir), ("--partial-dir", &partial_dir)] {
            let is_empty = dir.as_ref().is_some_and(|dir| dir.is_empty());
            ensure!(!is_empty, "{word}: the directory's name is empty");
        }
        let bytes = |dir: OsString| dir.into_vec().into();
        Ok(Writing {
            sparse: self.sparse,
            preallocate: self.preallocate,
            inplace,
            delay: self.delay_updates,
            append,
            temp_dir: self.temp_dir.clone().map(bytes),
            partial_dir: partial_dir.filter(|_| !inplace).map(bytes),
        })
    }

    /// True with `--append` or `--append-verify`.
    pub(crate) const fn appends(&self) -> bool {
        self.append || self.append_verify
    }

    /// Returns the directory for incomplete files. As in rsync, RSYNC_PARTIAL_DIR counts only with `--partial`.
    pub(crate) fn partial_dir(&self, keeps: bool, ways: OptionBehaviour) -> Option<OsString> {
        let waiting = ways.delay_updates_dir().filter(|_| self.delay_updates);
        if self.no_partial {
            return waiting;
        }
        let asks = (self.partial || keeps) && !self.delay_updates && !self.inplace;
        let told = || std::env::var_os("RSYNC_PARTIAL_DIR").filter(|dir| asks && !dir.is_empty());
        self.partial_dir.clone().or_else(told).or(waiting)
    }
}
