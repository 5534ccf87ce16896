//! Options that decide which files count as changed, and options for reference directories.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use anyhow::{Result, bail, ensure};
use clap::ArgAction;
use deltic_protocol::limits::MAX_ALTERNATES;
use deltic_protocol::options::{AlternateUse, Alternates, Compare, Fuzzy, Window};

use crate::words::age::Age;
use crate::words::size::{BadSize, SizeBound};
use crate::words::ways::OptionBehaviour;

/// Options that decide which files are transferred.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Change detection")]
pub(crate) struct CompareArgs {
    /// Skip files of equal size, ignoring times
    #[arg(long)]
    pub(crate) size_only: bool,
    /// Update files even if size and time match
    #[arg(short = 'I', long)]
    pub(crate) ignore_times: bool,
    /// Treat times up to N seconds apart as equal
    ///
    /// -1 compares nanoseconds. The default is the time resolution of the destination file system.
    #[arg(short = '@', long, value_name = "N")]
    pub(crate) modify_window: Option<i64>,
    /// Do not read or write the cache of earlier runs
    ///
    /// The cache holds digests for -c, and the chunks of large files.
    #[arg(long, overrides_with = "cache")]
    pub(crate) no_cache: bool,
    /// Use the cache of earlier runs (default)
    #[arg(long, overrides_with = "no_cache")]
    pub(crate) cache: bool,
    /// With -c, use cached digests up to AGE: 12h, 30d, 8w
    ///
    /// 0 reads every file; `forever` never reads an unchanged file again.
    #[arg(long, value_name = "AGE", default_value = "30d")]
    pub(crate) checksum_max_age: Age,
    /// Trust checksums that the file systems store
    ///
    /// With -c, files are compared by the checksums of btrfs (XXH64, SHA-256, BLAKE2b) or fs-verity; files without
    /// checksums are read. Without -c, XXH64 finds moved blocks of large files, as SHA-256 and BLAKE2b always do.
    #[arg(long)]
    pub(crate) trust_sums: bool,
    /// Skip files that are newer at DEST
    #[arg(short = 'u', long)]
    pub(crate) update: bool,
    /// Skip files that do not exist at DEST
    #[arg(long, visible_alias = "ignore-non-existing")]
    pub(crate) existing: bool,
    /// Skip files that exist at DEST
    #[arg(long)]
    pub(crate) ignore_existing: bool,
    /// Skip files longer than SIZE: 100, 1.5K, 2MB, 1G-1
    #[arg(long, value_name = "SIZE", value_parser = bound)]
    pub(crate) max_size: Option<SizeBound>,
    /// Skip files shorter than SIZE
    #[arg(long, value_name = "SIZE", value_parser = bound)]
    pub(crate) min_size: Option<SizeBound>,
    /// Skip files that are identical in DIR
    ///
    /// DIR is relative to DEST. May be given several times.
    #[arg(long, value_name = "DIR")]
    pub(crate) compare_dest: Vec<OsString>,
    /// Copy identical files from DIR instead of sending them
    #[arg(long, value_name = "DIR")]
    pub(crate) copy_dest: Vec<OsString>,
    /// Hard-link to identical files in DIR
    #[arg(long, value_name = "DIR")]
    pub(crate) link_dest: Vec<OsString>,
    /// Use a similar file as the basis; -yy: in each DIR too
    ///
    /// Only for files without an old version. DIR is a directory of --compare-dest, --copy-dest or --link-dest.
    #[arg(short = 'y', long, action = ArgAction::Count, overrides_with = "no_fuzzy")]
    pub(crate) fuzzy: u8,
    /// Take back --fuzzy
    #[arg(long, alias = "no-y", overrides_with = "fuzzy", hide = true)]
    pub(crate) no_fuzzy: bool,
}

fn bound(word: &str) -> Result<SizeBound, BadSize> {
    word.parse()
}

impl CompareArgs {
    /// Returns the options for comparisons.
    ///
    /// # Errors
    /// If arguments contradict each other.
    pub(crate) fn compare(&self, ways: OptionBehaviour) -> Result<Compare> {
        Ok(Compare {
            size_only: self.size_only,
            ignore_times: self.ignore_times,
            update: self.update,
            existing: self.existing,
            ignore_existing: self.ignore_existing,
            cached: !self.no_cache,
            max_age_secs: self.checksum_max_age.0,
            // Set later: the file systems are known only with the plan.
            trusted: None,
            window: self.window(ways)?,
            min_bytes: self.min_size.map_or(0, SizeBound::bytes),
            max_bytes: self.max_size.map(SizeBound::bytes),
            alternates: self.alternates()?,
            fuzzy: match self.fuzzy {
                0 => Fuzzy::Never,
                1 => Fuzzy::Here,
                _ => Fuzzy::Everywhere,
            },
        })
    }

    fn window(&self, ways: OptionBehaviour) -> Result<Window> {
        match self.modify_window {
            None => Ok(ways.window()),
            Some(..0) => Ok(Window::Exact),
            Some(secs) => match u32::try_from(secs) {
                Ok(secs) => Ok(Window::Secs(secs)),
                Err(_) => bail!("--modify-window={secs} is too large"),
            },
        }
    }

    fn alternates(&self) -> Result<Alternates> {
        let all = [
            (AlternateUse::Compare, "--compare-dest", &self.compare_dest),
            (AlternateUse::Copy, "--copy-dest", &self.copy_dest),
            (AlternateUse::Link, "--link-dest", &self.link_dest),
        ];
        let mut given = all.into_iter().filter(|(_, _, dirs)| !dirs.is_empty());
        let Some((usage, word, dirs)) = given.next() else { return Ok(Alternates::default()) };
        if let Some((_, other, _)) = given.next() {
            bail!("the {other} option conflicts with the {word} option");
        }
        ensure!(
            dirs.len() <= MAX_ALTERNATES,
            "at most {MAX_ALTERNATES} {word} args may be specified"
        );
        ensure!(dirs.iter().all(|dir| !dir.is_empty()), "{word}: the directory's name is empty");
        let dirs = dirs.iter().map(|dir| dir.clone().into_vec().into()).collect();
        Ok(Alternates { usage, dirs })
    }
}
