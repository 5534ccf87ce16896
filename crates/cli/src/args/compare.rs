//! What counts as changed, and what else there is to compare with.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use anyhow::{Result, bail, ensure};
use clap::ArgAction;
use deltic_protocol::limits::MAX_ALTERNATES;
use deltic_protocol::options::{AlternateUse, Alternates, Compare, Fuzzy, Window};

use crate::age::Age;
use crate::size::{BadSize, Bound};

/// The words of it.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "What counts as changed")]
pub(crate) struct CompareArgs {
    /// Take files of one length as equal
    #[arg(long)]
    size_only: bool,
    /// Bring over files though size and time agree
    #[arg(short = 'I', long)]
    ignore_times: bool,
    /// Take times as equal that are up to N seconds apart; -1: only what is equal to the nanosecond [default: as near to
    /// that as the destination's file system keeps them]
    #[arg(short = '@', long, value_name = "N")]
    modify_window: Option<i64>,
    /// Believe nothing that is known of files from earlier runs (digests for -c, how large files are cut), and keep nothing
    #[arg(long, overrides_with = "cache")]
    no_cache: bool,
    /// Believe what is known of files that did not change since: the default
    #[arg(long, overrides_with = "no_cache")]
    cache: bool,
    /// With -c, read a file again that was last read longer ago than AGE: 12h, 30d, 8w, 0 (always), forever
    #[arg(long, value_name = "AGE", default_value = "30d")]
    checksum_max_age: Age,
    /// Leave files alone that are newer at the destination
    #[arg(short = 'u', long)]
    update: bool,
    /// Change what is there, make nothing new
    #[arg(long, visible_alias = "ignore-non-existing")]
    existing: bool,
    /// Make what is new, change nothing that is there
    #[arg(long)]
    ignore_existing: bool,
    /// Leave out files longer than SIZE: 100, 1.5K, 2MB, 1G-1
    #[arg(long, value_name = "SIZE", value_parser = bound)]
    max_size: Option<Bound>,
    /// Leave out files shorter than SIZE
    #[arg(long, value_name = "SIZE", value_parser = bound)]
    min_size: Option<Bound>,
    /// Leave out what DIR has as it is; from the destination's directory, may be repeated
    #[arg(long, value_name = "DIR")]
    compare_dest: Vec<OsString>,
    /// Copy what DIR has from there
    #[arg(long, value_name = "DIR")]
    copy_dest: Vec<OsString>,
    /// Make hard links to what DIR has as it is
    #[arg(long, value_name = "DIR")]
    link_dest: Vec<OsString>,
    /// Look for an old version of another name where there is none; twice: also in the DIRs above
    #[arg(short = 'y', long, action = ArgAction::Count, overrides_with = "no_fuzzy")]
    fuzzy: u8,
    /// Take back --fuzzy
    #[arg(long, alias = "no-y", overrides_with = "fuzzy", hide = true)]
    no_fuzzy: bool,
}

fn bound(word: &str) -> Result<Bound, BadSize> {
    word.parse()
}

impl CompareArgs {
    /// What the words mean, or why they make no sense together.
    pub(crate) fn compare(&self) -> Result<Compare> {
        Ok(Compare {
            size_only: self.size_only,
            ignore_times: self.ignore_times,
            update: self.update,
            existing: self.existing,
            ignore_existing: self.ignore_existing,
            cached: !self.no_cache,
            max_age_secs: self.checksum_max_age.0,
            window: self.window()?,
            min_bytes: self.min_size.map_or(0, Bound::bytes),
            max_bytes: self.max_size.map(Bound::bytes),
            alternates: self.alternates()?,
            fuzzy: match self.fuzzy {
                0 => Fuzzy::Never,
                1 => Fuzzy::Here,
                _ => Fuzzy::Everywhere,
            },
        })
    }

    fn window(&self) -> Result<Window> {
        match self.modify_window {
            None => Ok(Window::Kept),
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
