//! How files are written.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use anyhow::{Result, bail, ensure};
use deltic_protocol::options::{Append, Writing};

/// The words of it.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "How files are written")]
pub(crate) struct WritingArgs {
    /// Change files where they are: they keep their inode and their other names, and readers see them change
    #[arg(long, overrides_with = "no_inplace")]
    inplace: bool,
    /// Take back --inplace
    #[arg(long, overrides_with = "inplace", hide = true)]
    no_inplace: bool,
    /// Put what files lack behind what they have, whatever that is; leave alone what is not shorter than its source
    #[arg(long, overrides_with_all = ["append_verify", "no_append"])]
    append: bool,
    /// The same, with what they have compared, and corrected
    #[arg(long, overrides_with_all = ["append", "no_append"])]
    append_verify: bool,
    /// Take back both
    #[arg(long, aliases = ["no-append-verify"], overrides_with_all = ["append", "append_verify"])]
    #[arg(hide = true)]
    no_append: bool,
    /// Make holes of zeros
    #[arg(short = 'S', long)]
    sparse: bool,
    /// Give files all of their blocks before they have content
    #[arg(long)]
    preallocate: bool,
    /// Let new versions grow in DIR, from the destination's directory
    #[arg(short = 'T', long, value_name = "DIR")]
    temp_dir: Option<OsString>,
    /// Accepted: an interrupted run resumes by itself
    #[arg(long, overrides_with = "no_partial")]
    partial: bool,
    /// Take back --partial and --partial-dir
    #[arg(long, overrides_with = "partial", hide = true)]
    no_partial: bool,
    /// Show files that are not complete in DIR, from the directory of each
    #[arg(long, value_name = "DIR")]
    partial_dir: Option<OsString>,
    /// Give files their names when all are there
    #[arg(long)]
    pub(crate) delay_updates: bool,
}

impl WritingArgs {
    /// What the words mean, or why they make no sense together. `keeps` says --partial too.
    pub(crate) fn writing(&self, whole_file: bool, keeps: bool) -> Result<Writing> {
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
        let partial_dir = self.partial_dir(keeps);
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

    /// Whether files only grow.
    pub(crate) const fn appends(&self) -> bool {
        self.append || self.append_verify
    }

    /// Where files are shown that are not complete. As in rsync the environment says so for --partial alone.
    pub(crate) fn partial_dir(&self, keeps: bool) -> Option<OsString> {
        if self.no_partial {
            return None;
        }
        let asks = (self.partial || keeps) && !self.delay_updates && !self.inplace;
        let told = || std::env::var_os("RSYNC_PARTIAL_DIR").filter(|dir| asks && !dir.is_empty());
        self.partial_dir.clone().or_else(told)
    }
}
