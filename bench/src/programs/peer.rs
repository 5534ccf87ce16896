//! The compared programs and their command lines.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};

/// A program with certain options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PeerProgram {
    /// Deltic with default options: flushes files before exit.
    Deltic,
    /// Deltic without flushing, like rsync by default.
    DelticNoFsync,
    /// Deltic without its cache of earlier runs.
    DelticNoCache,
    /// Deltic that keeps partial files.
    DelticPartial,
    /// Deltic that syncs to a local `deltic serve`.
    DelticServed,
    /// The build of `--before` with default options.
    Before,
    /// The build of `--before` without flushing.
    BeforeNoFsync,
    /// rsync with default options.
    Rsync,
    /// rsync that flushes files, but not directories.
    RsyncFsync,
    /// rsync that keeps partial files.
    RsyncPartial,
    /// cp: copies the whole new version without comparison, as a lower bound of time.
    Cp,
    /// Two `find` at a time, each listing the source with lengths and times: a lower bound of a sync without changes,
    /// in which each end walks a tree.
    Walks,
}

/// A shell script: two walks of the directory `$1` at a time.
const TWO_WALKS: &str =
    r#"find "$1" -printf '%s%T@' >/dev/null & find "$1" -printf '%s%T@' >/dev/null; wait"#;

/// Options of a sync besides source and destination.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SyncTask<'a> {
    /// Options that both programs have.
    pub(crate) flags: &'a [&'a str],
    /// Compress with zstd.
    pub(crate) compress: bool,
    /// Run without a remote shell.
    pub(crate) local: bool,
}

/// Returns peers or choices with their indices in the order of a round. Each round starts with another one, because the
/// first one pays for the state that the previous round left.
pub(crate) fn turns<T>(all: &[T], round: u32) -> impl Iterator<Item = (usize, &T)> {
    let first = round as usize % all.len().max(1);
    let numbered = all.iter().enumerate();
    numbered.clone().skip(first).chain(numbered.take(first))
}

impl PeerProgram {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Deltic => "deltic",
            Self::DelticNoFsync => "deltic --no-fsync",
            Self::DelticNoCache => "deltic --no-cache",
            Self::DelticPartial => "deltic --partial-dir",
            Self::DelticServed => "deltic to a server",
            Self::Before => "before",
            Self::BeforeNoFsync => "before --no-fsync",
            Self::Rsync => "rsync",
            Self::RsyncFsync => "rsync --fsync",
            Self::RsyncPartial => "rsync --partial",
            Self::Cp => "cp",
            Self::Walks => "two walks",
        }
    }

    pub(crate) fn is_deltic(self) -> bool {
        self.talks() && !self.is_rsync()
    }

    /// True if the far end is a running server.
    pub(crate) fn is_served(self) -> bool {
        self == Self::DelticServed
    }

    fn is_rsync(self) -> bool {
        matches!(self, Self::Rsync | Self::RsyncFsync | Self::RsyncPartial)
    }

    fn is_before(self) -> bool {
        matches!(self, Self::Before | Self::BeforeNoFsync)
    }

    /// True if the program has two ends and reports their traffic.
    pub(crate) fn talks(self) -> bool {
        !matches!(self, Self::Cp | Self::Walks)
    }

    /// Returns the command line without source and destination. `shell` replaces ssh.
    pub(crate) fn command(
        self,
        programs: &ProgramPaths,
        shell: &Path,
        task: SyncTask<'_>,
    ) -> Vec<OsString> {
        let mut line: Vec<OsString> = Vec::new();
        match self {
            Self::Cp => {
                return ["cp", "-aT", "--remove-destination", "--reflink=never"]
                    .map(Into::into)
                    .to_vec();
            }
            Self::Walks => return ["sh", "-c", TWO_WALKS, "walks"].map(Into::into).to_vec(),
            _ => {}
        }
        if self.is_deltic() {
            let program =
                if self.is_before() { programs.before_program() } else { programs.deltic() };
            line.extend([program.clone().into(), "sync".into()]);
            if !task.local {
                line.extend(["--deltic-path".into(), program.into()]);
            }
            line.extend(task.compress.then(|| "-z".into()));
        } else {
            line.push(programs.rsync.clone().into());
            line.extend(
                task.compress.then_some(["-z", "--zc=zstd"]).into_iter().flatten().map(Into::into),
            );
        }
        line.extend(self.own_flag().map(Into::into));
        line.extend(task.flags.iter().map(Into::into));
        if !task.local {
            line.extend(["-e".into(), shell.into()]);
        }
        line.push("--stats".into());
        line
    }

    fn own_flag(self) -> Option<&'static str> {
        match self {
            Self::Deltic
            | Self::DelticServed
            | Self::Before
            | Self::Rsync
            | Self::Cp
            | Self::Walks => None,
            Self::DelticNoFsync | Self::BeforeNoFsync => Some("--no-fsync"),
            Self::DelticNoCache => Some("--no-cache"),
            Self::DelticPartial => Some("--partial-dir=.part"),
            Self::RsyncFsync => Some("--fsync"),
            Self::RsyncPartial => Some("--partial"),
        }
    }
}

/// Paths of the programs.
#[derive(Clone, Debug, Args)]
pub(crate) struct ProgramPaths {
    /// The deltic binary [default: the one beside this program, else in PATH]
    #[arg(long = "deltic", value_name = "PATH")]
    deltic: Option<PathBuf>,
    /// Another build of deltic, for the peers `before` and `before-no-fsync`
    #[arg(long, value_name = "PATH")]
    before: Option<PathBuf>,
    /// The rsync binary
    #[arg(long, value_name = "PATH", default_value = "rsync")]
    rsync: PathBuf,
}

/// Returns the named deltic binary, or else the binary beside this program, or else `deltic` in the PATH.
pub(crate) fn deltic_program(named: Option<&Path>) -> PathBuf {
    let beside = || {
        Some(std::env::current_exe().ok()?.with_file_name("deltic")).filter(|path| path.exists())
    };
    named.map(Path::to_owned).or_else(beside).unwrap_or_else(|| "deltic".into())
}

impl ProgramPaths {
    pub(super) fn deltic(&self) -> PathBuf {
        deltic_program(self.deltic.as_deref())
    }

    /// Returns the build of `--before`. [`Self::announce`] checked that the option is set.
    fn before_program(&self) -> PathBuf {
        self.before.clone().unwrap_or_default()
    }

    /// Returns the rsync binary, which also checks that two trees are equal.
    pub(crate) fn rsync(&self) -> &Path {
        &self.rsync
    }

    /// Prints the versions of the programs. Fails if a program is missing.
    pub(crate) fn announce(&self, peers: &[PeerProgram]) -> Result<()> {
        if peers.iter().any(|peer| peer.is_deltic() && !peer.is_before()) {
            let path = self.deltic();
            eprintln!("deltic: {} ({})", version(path.as_os_str())?, path.display());
        }
        if peers.iter().any(|peer| peer.is_before()) {
            let path = self
                .before
                .as_ref()
                .context("the peers before and before-no-fsync need --before PATH")?;
            eprintln!("before: {} ({})", version(path.as_os_str())?, path.display());
        }
        if peers.iter().any(|peer| peer.is_rsync()) {
            eprintln!("rsync: {} ({})", version(self.rsync.as_os_str())?, self.rsync.display());
        }
        Ok(())
    }
}

fn version(program: &OsStr) -> Result<String> {
    let shown = program.display();
    let output = Command::new(program)
        .arg("--version")
        .output()
        .with_context(|| format!("start {shown} (see --deltic, --rsync and --peers)"))?;
    if !output.status.success() {
        bail!("{shown} --version: {}", output.status);
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().next().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Byte counts that both programs print with `--stats`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ByteStats {
    pub(crate) sent: u64,
    pub(crate) received: u64,
    pub(crate) literal: u64,
}

impl ByteStats {
    /// Parses the output of a program.
    pub(crate) fn parse(output: &str) -> Result<Self> {
        let count = |label: &str| {
            let rest = output.lines().find_map(|line| line.trim_start().strip_prefix(label));
            let digits: String = rest?
                .chars()
                .skip(1)
                .take_while(|c| *c != 'b')
                .filter(char::is_ascii_digit)
                .collect();
            digits.parse().ok()
        };
        let need =
            |label: &str| count(label).with_context(|| format!("no \"{label}\" in:\n{output}"));
        Ok(Self {
            sent: need("Total bytes sent")?,
            received: need("Total bytes received")?,
            literal: need("Literal data")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_may_hold_commas_and_units() {
        let output = "Literal data: 1,234 bytes\nMatched data: 5 bytes\nTotal bytes sent: 7,000,001\nTotal bytes received: 19\n";
        let stats = ByteStats::parse(output).unwrap();
        assert_eq!(stats, ByteStats { sent: 7_000_001, received: 19, literal: 1234 });
    }

    #[test]
    fn each_round_begins_with_another_peer() {
        let peers = [PeerProgram::Deltic, PeerProgram::Before, PeerProgram::Rsync];
        let firsts = (0..3).map(|round| {
            let turns: Vec<_> = turns(&peers, round).collect();
            assert!((0..3).all(|number| turns.contains(&(number, &peers[number]))));
            *turns[0].1
        });
        assert!(firsts.eq(peers));
        assert_eq!(turns::<PeerProgram>(&[], 1).count(), 0);
    }

    #[test]
    fn a_missing_count_is_an_error() {
        assert!(ByteStats::parse("Literal data: 1 bytes\n").is_err());
    }
}
