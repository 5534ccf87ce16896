//! Runs other programs: rsync with a local remote shell, and rdiff.
//!
//! `deltic-bench far-end` ([`link`](super::link)) replaces ssh: it runs the far end, simulates the link, and reports the
//! cost of both. The near end's processor time is the time of all children minus these costs. rdiff has two commands at
//! the far end, before and after the near one; its traffic is the length of its two files.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::resource::UsageWho;

use super::link::{LinkCosts, spent};
use super::trial::{SyncFiles, SyncSample};
use super::words::{LinkSpec, OtherProgram, PeerKind};
use crate::exit::shown;

impl OtherProgram {
    /// Returns the name and version of the program. Fails if the program is missing.
    pub(crate) fn version(&self) -> Result<String> {
        let told = Command::new(&self.program).arg("--version").stdin(Stdio::null()).output();
        let told = told.with_context(|| format!("start {}", shown(&self.program)))?;
        let text = String::from_utf8_lossy(&told.stdout);
        let line = text.lines().next().unwrap_or_default();
        if !told.status.success() {
            bail!("{} --version: {}", shown(&self.program), told.status);
        }
        Ok(line.split_whitespace().collect::<Vec<_>>().join(" "))
    }

    /// Returns the name in tables.
    pub(crate) fn name(&self) -> &'static str {
        match self.kind {
            PeerKind::Rsync => "rsync (program)",
            PeerKind::Rdiff => "rdiff (program)",
        }
    }

    /// Syncs `files`, which are in place, over a link.
    pub(crate) fn run(&self, files: &SyncFiles, way: &PeerLink<'_>) -> Result<SyncSample> {
        match self.kind {
            PeerKind::Rsync => self.rsync(files, way),
            PeerKind::Rdiff => self.rdiff(files, way),
        }
    }

    fn rsync(&self, files: &SyncFiles, way: &PeerLink<'_>) -> Result<SyncSample> {
        let mut far = OsString::from("far:");
        far.push(&files.dest);
        let mut rsync_path = OsString::from("--rsync-path=");
        rsync_path.push(&self.program);
        let mut args: Vec<OsString> = ["-ts", "--no-whole-file", "--stats"].map(Into::into).into();
        let zstd = way.compress.then_some(["-z", "--zc=zstd"]);
        args.extend(zstd.into_iter().flatten().map(Into::into));
        let shell = quoted(&way.shell()?);
        args.extend([rsync_path, "-e".into(), shell, files.new.clone().into(), far]);
        let mut command = Command::new(&self.program);
        let CommandCost { wall, cpu, said } =
            spend(command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()))?;
        let LinkCosts { far, own } = LinkCosts::read(&way.costs())?;
        let (up, down) = (count(&said, "Total bytes sent")?, count(&said, "Total bytes received")?);
        let literal = Some(count(&said, "Literal data")?);
        let cpu = cpu.saturating_sub(own);
        let split = Some([cpu.saturating_sub(far), far]);
        Ok(SyncSample { wall, cpu, ends: None, split, up, down, literal, peak: None, sums: None })
    }

    fn rdiff(&self, files: &SyncFiles, way: &PeerLink<'_>) -> Result<SyncSample> {
        let [signature, delta, made] =
            ["rdiff.sig", "rdiff.delta", "rdiff.new"].map(|name| way.dir.join(name));
        let make =
            |path: &PathBuf| File::create(path).with_context(|| format!("write {}", shown(path)));
        let mut sums = self.beyond(way, ["signature".as_ref(), &files.dest])?;
        let told = way.spend_beyond(sums.stdin(Stdio::null()).stdout(make(&signature)?))?;
        let mut search = Command::new(&self.program);
        let words: [&Path; 4] = ["delta".as_ref(), &signature, &files.new, &delta];
        let searched =
            spend(search.arg("-f").args(words).stdin(Stdio::null()).stdout(Stdio::null()))?;
        let mut patch = self.beyond(way, ["patch".as_ref(), &files.dest, "-".as_ref(), &made])?;
        let opened = File::open(&delta).with_context(|| format!("open {}", shown(&delta)))?;
        let patched = way.spend_beyond(patch.stdin(opened).stdout(Stdio::null()))?;
        fs::rename(&made, &files.dest).with_context(|| format!("rename {}", shown(&made)))?;
        let len = |path: &PathBuf| -> Result<u64> { Ok(path.metadata()?.len()) };
        Ok(SyncSample {
            wall: told.wall + searched.wall + patched.wall,
            cpu: told.cpu + searched.cpu + patched.cpu,
            ends: None,
            split: Some([searched.cpu, told.cpu + patched.cpu]),
            up: len(&delta)?,
            down: len(&signature)?,
            literal: None,
            peak: None,
            sums: None,
        })
    }

    /// Returns a command that runs the program at the far end with these arguments.
    fn beyond<const N: usize>(&self, way: &PeerLink<'_>, words: [&Path; N]) -> Result<Command> {
        let shell = way.shell()?;
        let mut command = Command::new(&shell[0]);
        command.args(&shell[1..]).arg("far").arg(&self.program).arg("-f").args(words);
        Ok(command)
    }
}

/// Link and options of a run.
pub(crate) struct PeerLink<'a> {
    /// The link between the ends.
    pub(crate) link: LinkSpec,
    /// True if literals are compressed, if the program can.
    pub(crate) compress: bool,
    /// Directory for temporary files.
    pub(crate) dir: &'a Path,
}

impl PeerLink<'_> {
    /// Returns the command that replaces ssh. The host and the remote command follow.
    fn shell(&self) -> Result<Vec<OsString>> {
        let bench = std::env::current_exe().context("find this program")?;
        let link = self.link.word().into();
        Ok(vec![bench.into(), "far-end".into(), link, self.costs().into()])
    }

    /// Returns the file in which the shell writes its costs.
    fn costs(&self) -> PathBuf {
        self.dir.join("costs")
    }

    /// Runs a far end, which must succeed. The cost excludes the shell.
    fn spend_beyond(&self, command: &mut Command) -> Result<CommandCost> {
        let cost = spend(command)?;
        Ok(CommandCost { cpu: LinkCosts::read(&self.costs())?.far, ..cost })
    }
}

/// Runs a command, which must succeed.
fn spend(command: &mut Command) -> Result<CommandCost> {
    let (start, before) = (Instant::now(), spent(UsageWho::RUSAGE_CHILDREN)?);
    let program = shown(Path::new(command.get_program()));
    command.env("LC_ALL", "C");
    let child = command.stderr(Stdio::piped()).spawn();
    let ended = child.and_then(Child::wait_with_output);
    let ended = ended.with_context(|| format!("start {program}"))?;
    let wall = start.elapsed();
    let cpu = spent(UsageWho::RUSAGE_CHILDREN)?.saturating_sub(before);
    if !ended.status.success() {
        let why = String::from_utf8_lossy(&ended.stderr).trim().to_owned();
        bail!("{program}: {}: {why}", ended.status);
    }
    Ok(CommandCost { wall, cpu, said: String::from_utf8_lossy(&ended.stdout).into_owned() })
}

/// Cost and output of a command.
struct CommandCost {
    wall: Duration,
    cpu: Duration,
    said: String,
}

/// Quotes words for rsync's `-e`: single quotes around each word, doubled within.
fn quoted(words: &[OsString]) -> OsString {
    let mut line = Vec::new();
    for word in words {
        line.push(b'\'');
        for byte in word.as_bytes() {
            line.extend(std::iter::repeat_n(*byte, 1 + usize::from(*byte == b'\'')));
        }
        line.extend_from_slice(b"' ");
    }
    line.pop();
    OsString::from_vec(line)
}

/// Returns the number after `label` in the output of rsync's `--stats`.
fn count(said: &str, label: &str) -> Result<u64> {
    let rest = said.lines().find_map(|line| line.strip_prefix(label)?.strip_prefix(": "));
    let digits = rest.map(|rest| {
        let number = rest.split(' ').next().unwrap_or_default();
        number.chars().filter(char::is_ascii_digit).collect::<String>()
    });
    let number = digits.and_then(|digits| digits.parse().ok());
    number.with_context(|| format!("rsync printed no \"{label}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_shell_are_quoted_as_rsync_reads_them() {
        let words = ["/a b/deltic", "it's", ""].map(OsString::from);
        assert_eq!(quoted(&words), "'/a b/deltic' 'it''s' ''");
    }

    #[test]
    fn counts_may_hold_commas_and_units() {
        let said = "Literal data: 1,234 bytes\nTotal bytes sent: 7,000,001\n";
        assert_eq!(count(said, "Literal data").unwrap(), 1234);
        assert_eq!(count(said, "Total bytes sent").unwrap(), 7_000_001);
        assert!(count(said, "Total bytes received").is_err());
    }
}
