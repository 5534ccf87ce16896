//! Other programs that do the same, through pipes and files: rsync with a remote shell that stays here, and rdiff.
//!
//! Their processor time is that of all children which have been waited for; there is no telling how rsync's two ends share
//! it. rdiff's two ends are three commands, one after the other, and its bytes are the lengths of its two files.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

use super::super::inputs::shown;
use super::trial::{Files, Sample};
use super::words::{Peer, PeerKind};

impl Peer {
    /// What it calls itself, if it is there.
    pub(super) fn version(&self) -> Result<String> {
        let told = Command::new(&self.program).arg("--version").stdin(Stdio::null()).output();
        let told = told.with_context(|| format!("start {}", shown(&self.program)))?;
        let text = String::from_utf8_lossy(&told.stdout);
        let line = text.lines().next().unwrap_or_default();
        if !told.status.success() {
            bail!("{} --version: {}", shown(&self.program), told.status);
        }
        Ok(line.split_whitespace().collect::<Vec<_>>().join(" "))
    }

    /// What tables call it.
    pub(super) fn name(&self) -> &'static str {
        match self.kind {
            PeerKind::Rsync => "rsync (program)",
            PeerKind::Rdiff => "rdiff (program)",
        }
    }

    /// Syncs `files`, which are in place; what it needs besides goes into `dir`.
    pub(super) fn run(&self, files: &Files, dir: &Path, compress: bool) -> Result<Sample> {
        match self.kind {
            PeerKind::Rsync => self.rsync(files, dir, compress),
            PeerKind::Rdiff => self.rdiff(files, dir),
        }
    }

    fn rsync(&self, files: &Files, dir: &Path, compress: bool) -> Result<Sample> {
        let shell = dir.join("shell");
        write_shell(&shell)?;
        let mut far = OsString::from("far:");
        far.push(&files.dest);
        let mut rsync_path = OsString::from("--rsync-path=");
        rsync_path.push(&self.program);
        let mut args: Vec<OsString> = ["-ts", "--no-whole-file", "--stats"].map(Into::into).into();
        args.extend(compress.then_some(["-z", "--zc=zstd"]).into_iter().flatten().map(Into::into));
        args.extend([rsync_path, "-e".into(), shell.into(), files.new.clone().into(), far]);
        let Cost { wall, cpu, said } = self.spend(&args)?;
        let (up, down) = (count(&said, "Total bytes sent")?, count(&said, "Total bytes received")?);
        let literal = Some(count(&said, "Literal data")?);
        Ok(Sample { wall, cpu, ends: None, split: None, up, down, literal })
    }

    fn rdiff(&self, files: &Files, dir: &Path) -> Result<Sample> {
        let [signature, delta, made] =
            ["rdiff.sig", "rdiff.delta", "rdiff.new"].map(|name| dir.join(name));
        let told = self.spend(&words(["signature".as_ref(), &files.dest, &signature]))?;
        let delta_of: [&Path; 4] = ["delta".as_ref(), &signature, &files.new, &delta];
        let searched = self.spend(&words(delta_of))?;
        let patched = self.spend(&words(["patch".as_ref(), &files.dest, &delta, &made]))?;
        fs::rename(&made, &files.dest).with_context(|| format!("rename {}", shown(&made)))?;
        let len = |path: &PathBuf| -> Result<u64> { Ok(path.metadata()?.len()) };
        Ok(Sample {
            wall: told.wall + searched.wall + patched.wall,
            cpu: told.cpu + searched.cpu + patched.cpu,
            ends: None,
            split: Some([searched.cpu, told.cpu + patched.cpu]),
            up: len(&delta)?,
            down: len(&signature)?,
            literal: None,
        })
    }

    /// Runs the program to success.
    fn spend(&self, args: &[OsString]) -> Result<Cost> {
        let (start, before) = (Instant::now(), children_cpu()?);
        let mut command = Command::new(&self.program);
        let ended = command.args(args).env("LC_ALL", "C").stdin(Stdio::null()).output();
        let ended = ended.with_context(|| format!("start {}", shown(&self.program)))?;
        let (wall, cpu) = (start.elapsed(), children_cpu()?.saturating_sub(before));
        if !ended.status.success() {
            let why = String::from_utf8_lossy(&ended.stderr).trim().to_owned();
            bail!("{}: {}: {why}", shown(&self.program), ended.status);
        }
        Ok(Cost { wall, cpu, said: String::from_utf8_lossy(&ended.stdout).into_owned() })
    }
}

/// What one command cost, and what it printed.
struct Cost {
    wall: Duration,
    cpu: Duration,
    said: String,
}

/// A command of rdiff's; it may replace what an earlier run left.
fn words<const N: usize>(words: [&Path; N]) -> Vec<OsString> {
    let all = [Path::new("-f")].into_iter().chain(words);
    all.map(|word| word.as_os_str().to_owned()).collect()
}

/// Writes what stands for ssh: it drops the host's name and runs the rest here.
fn write_shell(path: &Path) -> Result<()> {
    let write = || {
        fs::write(path, "#!/bin/sh\nshift; exec \"$@\"\n")?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o755))
    };
    write().with_context(|| format!("write {}", shown(path)))
}

/// The number behind `label` in what rsync printed with `--stats`.
fn count(said: &str, label: &str) -> Result<u64> {
    let rest = said.lines().find_map(|line| line.strip_prefix(label)?.strip_prefix(": "));
    let digits = rest.map(|rest| {
        let number = rest.split(' ').next().unwrap_or_default();
        number.chars().filter(char::is_ascii_digit).collect::<String>()
    });
    let number = digits.and_then(|digits| digits.parse().ok());
    number.with_context(|| format!("rsync printed no \"{label}\""))
}

/// Processor time of all children that have ended, and of theirs.
fn children_cpu() -> Result<Duration> {
    let used = getrusage(UsageWho::RUSAGE_CHILDREN).context("ask for the time of children")?;
    let time = |time: TimeVal| {
        let micros = time.tv_sec() * 1_000_000 + time.tv_usec();
        Duration::from_micros(u64::try_from(micros).unwrap_or(0))
    };
    Ok(time(used.user_time()) + time(used.system_time()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_may_hold_commas_and_units() {
        let said = "Literal data: 1,234 bytes\nTotal bytes sent: 7,000,001\n";
        assert_eq!(count(said, "Literal data").unwrap(), 1234);
        assert_eq!(count(said, "Total bytes sent").unwrap(), 7_000_001);
        assert!(count(said, "Total bytes received").is_err());
    }
}
