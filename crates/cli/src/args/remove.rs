//! Options for deletions and backups.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path};
use std::str::FromStr;

use anyhow::{Result, bail};
use deltic_protocol::options::{Backup, Delete, Guard, Remove};

use crate::words::ways::OptionBehaviour;

/// Options for deletions and backups.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Deletion and backups")]
pub(crate) struct RemoveArgs {
    /// Delete names from DEST that are not in the sources
    ///
    /// Deletions follow the transfer. Nothing is deleted if the deletions exceed a limit: see --max-delete.
    #[arg(long, visible_aliases = ["del", "delete-during"])]
    delete: bool,
    /// Same as --delete: deletions follow the transfer
    #[arg(long)]
    pub(crate) delete_before: bool,
    /// Same as --delete; lists deletions last
    #[arg(long)]
    pub(crate) delete_after: bool,
    /// Same as --delete-after
    #[arg(long)]
    pub(crate) delete_delay: bool,
    /// Delete at most N names; nothing if over N%
    ///
    /// The names over N stay, and the exit code is 25. By default, nothing is deleted if the deletions exceed both
    /// 1,000 names and a quarter of all names.
    #[arg(long, value_name = "N[%]", overrides_with = "force_delete")]
    max_delete: Option<MaxDelete>,
    /// Delete without a limit
    #[arg(long, overrides_with = "max_delete")]
    force_delete: bool,
    /// Replace non-empty directories by files, without --delete
    #[arg(long, overrides_with = "no_force")]
    force: bool,
    /// Take back --force
    #[arg(long, overrides_with = "force", hide = true)]
    no_force: bool,
    /// Delete even after errors in reading the sources
    #[arg(long, overrides_with = "no_ignore_errors")]
    ignore_errors: bool,
    /// Take back --ignore-errors
    #[arg(long, overrides_with = "ignore_errors", hide = true)]
    no_ignore_errors: bool,
    /// Remove source files after they are stored at DEST
    #[arg(long, alias = "remove-sent-files")]
    pub(crate) remove_source_files: bool,
    /// Keep old versions of replaced and deleted files
    #[arg(short = 'b', long, overrides_with = "no_backup")]
    backup: bool,
    /// Take back --backup
    #[arg(long, overrides_with = "backup", hide = true)]
    no_backup: bool,
    /// Keep backups in DIR, relative to DEST (implies -b)
    #[arg(long, value_name = "DIR")]
    backup_dir: Option<OsString>,
    /// Add SUFFIX to the names of backups (-b)
    ///
    /// The default is ~, or nothing with --backup-dir.
    #[arg(long, value_name = "SUFFIX")]
    suffix: Option<OsString>,
}

/// The value of `--max-delete`: a number of names, or a percentage of all names.
#[derive(Clone, Copy, Debug)]
struct MaxDelete(Delete);

impl FromStr for MaxDelete {
    type Err = &'static str;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        if let Some(percent) = word.strip_suffix('%') {
            let percent = percent.parse().ok().filter(|percent| *percent <= 100);
            let percent = Some(percent.ok_or("a share is 0% to 100%")?);
            return Ok(Self(Delete::Guarded(Guard { percent, names: None })));
        }
        let names: i64 = word.parse().map_err(|_| "neither a number nor a share such as 10%")?;
        // A negative number counts as 0, as in rsync.
        Ok(Self(Delete::AtMost(names.try_into().unwrap_or(0))))
    }
}

impl RemoveArgs {
    /// Returns the deletions that the options ask for; `excluded` implies `--delete`.
    ///
    /// # Errors
    /// Without directories (`takes_dirs` is false), `--delete` would have no effect.
    pub(crate) fn deletion_option(
        &self,
        excluded: bool,
        takes_dirs: bool,
        ways: OptionBehaviour,
    ) -> Result<Delete> {
        let asked = [self.delete, self.delete_before, self.delete_after, self.delete_delay];
        if !(asked.contains(&true) || excluded) {
            return Ok(Delete::Never);
        }
        if !takes_dirs {
            bail!("--delete removes nothing without -r, -a or -d");
        }
        Ok(match self.max_delete {
            _ if self.force_delete => Delete::AtMost(u64::MAX),
            Some(MaxDelete(delete)) => delete,
            None => ways.deletions(),
        })
    }

    /// Returns the other options for deletions and backups. With `asks`, the user is asked before a run that the
    /// limit of deletions would stop.
    pub(crate) fn remove(&self, asks: bool, ways: OptionBehaviour) -> Result<Remove> {
        Ok(Remove {
            force: self.force,
            ignore_errors: self.ignore_errors,
            sources: self.remove_source_files,
            asks,
            drops_unsafe_links: ways.drops_unsafe_links(),
            backup: self.backup_options()?,
        })
    }

    fn backup_options(&self) -> Result<Option<Backup>> {
        let backs_up = self.backup || self.backup_dir.is_some() && !self.no_backup;
        if !backs_up {
            return Ok(None);
        }
        // An empty directory name means the destination itself, as in rsync.
        let dir = self.backup_dir.clone().filter(|dir| !dir.is_empty());
        let default = if self.backup_dir.is_some() { "" } else { "~" };
        let suffix = self.suffix.clone().unwrap_or_else(|| default.into());
        if suffix.as_bytes().contains(&b'/') {
            bail!("--suffix cannot contain slashes: {}", suffix.display());
        }
        let own = |dir: &OsString| Path::new(dir).components().eq([Component::CurDir]);
        if let Some(dir) = dir.as_ref().filter(|dir| suffix.is_empty() && own(dir)) {
            let dir = dir.display();
            bail!(
                "--backup-dir={dir} is the destination itself: give a --suffix, or another directory"
            );
        }
        if suffix.is_empty() && dir.is_none() {
            bail!("--suffix cannot be empty when --backup-dir is not specified");
        }
        let bytes = |word: OsString| word.into_vec().into();
        Ok(Some(Backup { dir: dir.map(bytes), suffix: bytes(suffix) }))
    }
}
