//! Options that select names, besides filter rules.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use clap::ArgAction;
use deltic_net::plan::{Destination, Names, Sources};
use deltic_net::{ListForm, NamedFile, Trust, read_names};
use deltic_protocol::options::{Missing, Select};
use deltic_tree::Mounts;
use deltic_tree::path::printable;

use super::headings::COMPATIBLE;
use crate::words::place::{ParsedOperand, SyncOperands};
use crate::words::shell;

/// Options that select names.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Sources and traversal")]
pub(crate) struct SelectArgs {
    /// Copy directories without their contents
    ///
    /// The contents of a source with a trailing slash are copied, without recursion.
    #[arg(short = 'd', long, visible_aliases = ["old-dirs", "old-d"], overrides_with = "no_dirs")]
    dirs: bool,
    /// Skip directories, even with --files-from or --list-only
    #[arg(long, alias = "no-d", overrides_with = "dirs", hide = true)]
    no_dirs: bool,
    /// Keep the full path of each source below DEST
    ///
    /// `/./` in a source marks the start of the path to keep.
    #[arg(short = 'R', long, overrides_with = "no_relative")]
    relative: bool,
    /// Keep only the last name of each source, even with --files-from
    #[arg(long, alias = "no-R", overrides_with = "relative", hide = true)]
    no_relative: bool,
    /// Do not copy attributes of implied directories (-R)
    #[arg(long, alias = "no-i-d", overrides_with = "implied_dirs")]
    no_implied_dirs: bool,
    /// Take back --no-implied-dirs
    #[arg(long, alias = "i-d", overrides_with = "no_implied_dirs", hide = true)]
    implied_dirs: bool,
    /// Do not cross file systems; -xx: skip mount points
    #[arg(short = 'x', long, action = ArgAction::Count, overrides_with = "no_one_file_system")]
    one_file_system: u8,
    /// Take back --one-file-system
    #[arg(long, alias = "no-x", overrides_with = "one_file_system", hide = true)]
    no_one_file_system: bool,
    /// Skip directories that contain no files
    #[arg(short = 'm', long, overrides_with = "no_prune_empty_dirs")]
    prune_empty_dirs: bool,
    /// Take back --prune-empty-dirs
    #[arg(long, alias = "no-m", overrides_with = "prune_empty_dirs", hide = true)]
    no_prune_empty_dirs: bool,
    /// Create missing parent directories of DEST
    #[arg(long, overrides_with = "no_mkpath")]
    mkpath: bool,
    /// Take back --mkpath
    #[arg(long, overrides_with = "mkpath", hide = true)]
    no_mkpath: bool,
    /// Read names to copy from FILE
    ///
    /// Names are relative to the single source. `-` is standard input, `:FILE` a file on the remote machine.
    #[arg(long, value_name = "FILE")]
    files_from: Option<OsString>,
    /// Separate names and rules in files by NUL, not newline
    #[arg(short = '0', long, overrides_with = "no_from0")]
    pub(crate) from0: bool,
    /// Take back --from0
    #[arg(long, overrides_with = "from0", hide = true)]
    no_from0: bool,
    /// List the sources, without copying
    ///
    /// A single operand implies --list-only.
    #[arg(long)]
    list_only: bool,
    /// Ignore sources that do not exist
    #[arg(long)]
    ignore_missing_args: bool,
    /// Delete missing sources from DEST
    #[arg(long)]
    delete_missing_args: bool,
    /// Split remote paths at spaces, as a shell does
    ///
    /// No shell is run: other shell syntax is refused.
    #[arg(long, action = ArgAction::Count, overrides_with = "no_old_args", help_heading = COMPATIBLE)]
    old_args: u8,
    /// Take back --old-args, also of RSYNC_OLD_ARGS
    #[arg(long, overrides_with = "old_args", hide = true)]
    no_old_args: bool,
    /// Accepted: remote paths are never on a command line
    #[arg(short = 's', long, action = ArgAction::Count, help_heading = COMPATIBLE)]
    #[arg(alias = "protect-args", overrides_with = "no_secluded_args")]
    secluded_args: u8,
    /// Take back --secluded-args
    #[arg(long, aliases = ["no-s", "no-protect-args"], overrides_with = "secluded_args", hide = true)]
    no_secluded_args: bool,
}

impl SelectArgs {
    /// Returns the selection of names. A single operand asks for a list.
    pub(crate) fn select(&self, operands: usize, recursive: bool) -> Select {
        let list_only = self.lists(operands);
        let listed = self.files_from.is_some();
        Select {
            dirs: !recursive && (self.dirs || (listed || list_only) && !self.no_dirs),
            relative: self.relative || listed && !self.no_relative,
            plain_implied_dirs: self.no_implied_dirs,
            prune_empty_dirs: self.prune_empty_dirs,
            mkpath: self.mkpath,
            list_only,
            existing: false,
            mounts: match self.one_file_system {
                0 => Mounts::Enter,
                1 => Mounts::Empty,
                _ => Mounts::LeaveOut,
            },
            missing: match (self.delete_missing_args, self.ignore_missing_args) {
                (true, _) => Missing::Delete,
                (false, true) => Missing::Ignore,
                (false, false) => Missing::Fail,
            },
        }
    }

    /// Splits remote paths into words as a shell would, with `--old-args` or RSYNC_OLD_ARGS.
    pub(crate) fn split(
        &self,
        SyncOperands { sources, destination }: SyncOperands,
    ) -> Result<SyncOperands> {
        if self.old_args > 0 && self.secluded_args > 0 {
            bail!("--secluded-args cannot be used with --old-args");
        }
        let told = || std::env::var("RSYNC_OLD_ARGS").ok()?.parse::<i32>().ok();
        let is_open = self.secluded_args == 0 && !self.no_old_args;
        if self.old_args == 0 && !(is_open && told().is_some_and(|times| times != 0)) {
            return Ok(SyncOperands { sources, destination });
        }
        let sources = match sources {
            Sources::Remote { host, paths } => {
                let words = paths.iter().map(|path| shell::split(path));
                let paths = words.collect::<Result<Vec<_>>>()?.concat();
                ensure!(!paths.is_empty(), "--old-args: no source after the host");
                Sources::Remote { host, paths }
            }
            here => here,
        };
        let destination = match destination {
            Destination::Remote { host, path } => {
                Destination::Remote { host, path: shell::only(&path)? }
            }
            here => here,
        };
        Ok(SyncOperands { sources, destination })
    }

    /// True if the sources are only listed.
    pub(crate) const fn lists(&self, operands: usize) -> bool {
        self.list_only || operands == 1
    }

    /// True if names come from a file: then `-a` does not imply `-r`.
    pub(crate) const fn has_names(&self) -> bool {
        self.files_from.is_some()
    }

    /// Reads the names of `--files-from`, if given.
    pub(crate) fn names(
        &self,
        sources: &Sources,
        destination: &Destination,
        trust: Trust,
    ) -> Result<Names> {
        let Some(file) = &self.files_from else { return Ok(Names::None) };
        let count = match sources {
            Sources::Local(paths) => paths.len(),
            Sources::Remote { paths, .. } => paths.len(),
        };
        if count != 1 {
            bail!("--files-from takes one source and a destination");
        }
        // A list for remote sources is sent with all its lines: `#` and `;` start no comments.
        let form = ListForm { nul: self.from0, commented: matches!(sources, Sources::Local(_)) };
        if file == "-" {
            let names = read_names(std::io::stdin(), form);
            return Ok(Names::Here(names.context("--files-from: cannot read standard input")?));
        }
        let far = match (sources, destination) {
            (Sources::Remote { host, .. }, _) | (_, Destination::Remote { host, .. }) => Some(host),
            (Sources::Local(_), Destination::Local(_)) => None,
        };
        match (remote(file)?, far) {
            (None, _) => {
                let named = NamedFile::find_file(Path::new(file), trust)
                    .and_then(|file| file.open_to_read());
                let names = named.and_then(|file| read_names(File::from(file), form));
                let shown = printable(file.as_bytes());
                Ok(Names::Here(
                    names.with_context(|| format!("--files-from: cannot read {shown}"))?,
                ))
            }
            (Some((on, path)), Some(host)) if on.as_ref().is_none_or(|on| on == host) => {
                Ok(Names::There { path, nul: self.from0 })
            }
            (Some(_), Some(_)) => {
                bail!("--files-from: the host differs from the host of the transfer")
            }
            (Some(_), None) => {
                bail!("--files-from cannot be remote when the transfer is local")
            }
        }
    }
}

/// Parses a list on the remote side into host, if named, and path. `None` for a local file.
fn remote(file: &OsStr) -> Result<Option<(Option<String>, OsString)>> {
    match ParsedOperand::parse(file)? {
        ParsedOperand::Local(_) => Ok(None),
        ParsedOperand::Remote { host, path } => Ok(Some((host, path))),
    }
}
