//! Options that behave differently in Deltic and in rsync, with both behaviours (*ways*) of each.
//!
//! Under a name that ends in `rsync`, and with `DELTIC_RSYNC=1`, the options of `deltic sync` behave like rsync's. The
//! choice is made once, with the command line. The table in `docs/options.md` lists both behaviours of each option.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use anyhow::{Result, bail};
use deltic_protocol::options::{Delete, Guard, Window};
use deltic_tree::path::printable;

use super::is_rsync;
use super::size::{BadSize, Size};

/// The program that options behave like, where Deltic and rsync differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum OptionBehaviour {
    /// Deltic's behaviour, which is the safer one.
    #[default]
    Deltic,
    /// rsync's behaviour, for scripts that rely on it.
    Rsync,
}

impl OptionBehaviour {
    /// Returns the behaviour for a command line, which begins with the name of the program.
    pub(crate) fn of(words: &[OsString]) -> Self {
        let is_sync = |word: &OsString| word == "sync" || word == "rsync";
        let is_set = || std::env::var_os(VARIABLE).is_some_and(|value| value == "1");
        match words {
            [program, ..] if is_rsync(program) => Self::Rsync,
            [_, command, ..] if is_sync(command) && is_set() => Self::Rsync,
            _ => Self::Deltic,
        }
    }

    /// Returns the behaviour for this process.
    pub(crate) fn here() -> Self {
        Self::of(&std::env::args_os().take(2).collect::<Vec<_>>())
    }

    /// Returns the largest difference of times that counts as equal, without `--modify-window`. rsync compares whole
    /// seconds.
    pub(crate) const fn window(self) -> Window {
        match self {
            Self::Deltic => Window::Kept,
            Self::Rsync => Window::Secs(0),
        }
    }

    /// Returns the limit of `--delete` without `--max-delete`. rsync has none, not even for an empty source.
    pub(crate) fn deletions(self) -> Delete {
        match self {
            Self::Deltic => Delete::Guarded(Guard::default()),
            Self::Rsync => Delete::AtMost(u64::MAX),
        }
    }

    /// Returns the limit of deletions for another attempt after a lost connection. rsync makes no other attempt, so a
    /// source that has become empty deletes nothing.
    pub(crate) fn deletions_again(self, delete: Delete) -> Delete {
        match self {
            Self::Rsync if delete == self.deletions() => Self::Deltic.deletions(),
            _ => delete,
        }
    }

    /// Returns the directory in which `--delay-updates` shows files that wait, without `--partial-dir`.
    pub(crate) fn delay_updates_dir(self) -> Option<OsString> {
        match self {
            Self::Deltic => None,
            Self::Rsync => Some(".~tmp~".into()),
        }
    }

    /// True if a symlink that may lead out of the tree is replaced without a backup, with `--safe-links`.
    pub(crate) fn drops_unsafe_links(self) -> bool {
        self == Self::Rsync
    }

    /// True if `--read-batch` reads pipes and devices besides standard input.
    pub(crate) fn reads_streams(self) -> bool {
        self == Self::Deltic
    }

    /// Checks the size of `--max-alloc`, which has no effect.
    ///
    /// # Errors
    /// A word that is not a size, and a size below [`MIN_ALLOC_BYTES`], if options behave like rsync's.
    pub(crate) fn check_max_alloc(self, size: Option<&OsStr>) -> Result<()> {
        let given = size.filter(|size| !size.is_empty());
        let (Self::Rsync, Some(word)) = (self, given) else { return Ok(()) };
        let word = printable(word.as_bytes());
        let why = match word.parse().map(Size::bytes) {
            Ok(0) => bail!("max-alloc must be greater than zero"),
            Ok(bytes) if bytes < MIN_ALLOC_BYTES => "is too small (min: 1.00M)",
            Ok(_) => return Ok(()),
            Err(BadSize::TooLarge) => "is too large",
            Err(BadSize::Malformed) => "is invalid",
        };
        bail!("--max-alloc={word} {why}")
    }

    /// Returns the names in the checksum list of `-VV`.
    pub(crate) fn checksums(self) -> Vec<&'static str> {
        let rsyncs = RSYNCS_CHECKSUMS.into_iter().filter(|_| self == Self::Rsync);
        rsyncs.chain(["blake3"]).collect()
    }
}

/// Names of rsync's checksums. `--checksum-choice` accepts these names for `auto`.
pub(crate) const RSYNCS_CHECKSUMS: [&str; 6] = ["xxh128", "xxh3", "xxh64", "md5", "md4", "sha1"];

/// Least size of `--max-alloc` that rsync accepts.
const MIN_ALLOC_BYTES: u64 = 1 << 20;

/// The environment variable that selects rsync's behaviour, whatever the name of the program.
const VARIABLE: &str = "DELTIC_RSYNC";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_decides() {
        let ways = |words: &[&str]| {
            OptionBehaviour::of(&words.iter().map(OsString::from).collect::<Vec<_>>())
        };
        assert_eq!(ways(&["/usr/bin/rsync", "-a"]), OptionBehaviour::Rsync);
        assert_eq!(ways(&["deltic", "sync"]), OptionBehaviour::Deltic);
        assert_eq!(ways(&[]), OptionBehaviour::Deltic);
    }

    #[test]
    fn another_attempt_has_a_guard() {
        let guarded = Delete::Guarded(Guard::default());
        for (ways, delete, again) in [
            (OptionBehaviour::Rsync, Delete::AtMost(u64::MAX), guarded),
            (OptionBehaviour::Rsync, Delete::AtMost(7), Delete::AtMost(7)),
            (OptionBehaviour::Rsync, Delete::Never, Delete::Never),
            (OptionBehaviour::Deltic, Delete::AtMost(u64::MAX), Delete::AtMost(u64::MAX)),
        ] {
            assert_eq!(ways.deletions_again(delete), again, "{ways:?} {delete:?}");
        }
    }
}
