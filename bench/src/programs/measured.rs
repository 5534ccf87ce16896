//! `bench measured FILE -- CMD…`: runs a command and writes what it cost to FILE.
//!
//! A wrapper starts the near end, another (through the fake remote shell) the far end. The near one adopts
//! orphans, so its count holds both ends whether or not the client waits for its remote shell; the far one tells the
//! far end's part.

use std::ffi::OsString;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};

/// Cost of a command and all it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    /// From start to the exit of the command itself.
    pub(crate) wall: Duration,
    /// User and system time of it and its descendants.
    pub(crate) cpu: Duration,
    /// The largest resident set among it and its descendants, in bytes.
    pub(crate) peak_any: u64,
    /// The largest resident set of the command's own process, as last seen alive, in bytes.
    pub(crate) peak_own: u64,
    /// Bytes that it and its descendants read: of files, of pipes, and by the wrapper itself.
    pub(crate) read: u64,
    /// Bytes of these that the wrapper read to look at it.
    pub(crate) watched: u64,
}

impl Cost {
    /// Reads what a wrapper wrote.
    pub(crate) fn read(file: &Path) -> Result<Self> {
        let text = fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
        let mut numbers = text.split_whitespace().map(str::parse::<u64>);
        let mut next = || numbers.next().context("a cost has six numbers")?.context("a number");
        Ok(Self {
            wall: Duration::from_micros(next()?),
            cpu: Duration::from_micros(next()?),
            peak_any: next()?,
            peak_own: next()?,
            read: next()?,
            watched: next()?,
        })
    }

    fn write(&self, file: &Path) -> Result<()> {
        let (wall, cpu) = (self.wall.as_micros(), self.cpu.as_micros());
        let Self { peak_any, peak_own, read, watched, .. } = self;
        fs::write(file, format!("{wall} {cpu} {peak_any} {peak_own} {read} {watched}\n"))
            .with_context(|| format!("write {}", file.display()))
    }
}

/// Runs `command`, writes its cost to `file` and returns its exit code.
pub(crate) fn measured(file: &Path, command: &[OsString]) -> Result<u8> {
    adopt_orphans()?;
    let (program, args) = command.split_first().context("measured needs a command")?;
    let before = read_bytes()?;
    let start = Instant::now();
    let mut child = Command::new(program)
        .args(args)
        .spawn()
        .with_context(|| format!("start {}", program.display()))?;
    let (stop, stopped) = mpsc::channel::<()>();
    let pid = child.id();
    let watcher = std::thread::spawn(move || peak_until(pid, &stopped));
    let status = child.wait()?;
    let wall = start.elapsed();
    drop(stop);
    let (peak_own, watched) = watcher.join().unwrap_or_default();
    while reap(Patience::UntilGone) {}
    let used = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let cpu = duration(used.user_time()) + duration(used.system_time());
    let peak_any = u64::try_from(used.max_rss()).unwrap_or(0) * KIB;
    let read = read_bytes()? - before;
    Cost { wall, cpu, peak_any, peak_own, read, watched }.write(file)?;
    Ok(code(status))
}

/// Makes this process the parent of descendants that lose theirs.
pub(crate) fn adopt_orphans() -> Result<()> {
    #[cfg(target_os = "linux")]
    nix::sys::prctl::set_child_subreaper(true)?;
    Ok(())
}

/// Waiting for a child to end, or not.
#[derive(Clone, Copy)]
pub(crate) enum Patience {
    /// Wait until one ends.
    UntilGone,
    /// Take one that has ended already.
    Now,
}

/// Reaps one child; false when there is none (to reap).
pub(crate) fn reap(patience: Patience) -> bool {
    let flags = match patience {
        Patience::UntilGone => None,
        Patience::Now => Some(WaitPidFlag::WNOHANG),
    };
    !matches!(waitpid(None, flags), Err(_) | Ok(WaitStatus::StillAlive))
}

/// An exit code as a shell would tell it.
pub(crate) fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

/// Bytes that this process and its descendants that have ended read so far. A system that does not tell has read none.
fn read_bytes() -> Result<u64> {
    let Ok(told) = fs::read_to_string("/proc/self/io") else { return Ok(0) };
    let bytes = told.lines().find_map(|line| line.strip_prefix("rchar:"));
    bytes.unwrap_or("0").trim().parse().context("/proc/self/io has no number of bytes")
}

/// The largest resident set until then, and the bytes that were read to see it. The kernel keeps the high-water mark,
/// so only the last moments before the exit can be missed.
fn peak_until(pid: u32, stopped: &mpsc::Receiver<()>) -> (u64, u64) {
    let (mut peak, mut watched) = (0, 0);
    while stopped.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
        let Some(status) = status(pid) else { continue };
        watched += status.len() as u64;
        peak = high_water(&status).unwrap_or(0).max(peak);
    }
    (peak, watched)
}

/// Status of a process, as the system tells it.
pub(super) fn status(pid: u32) -> Option<String> {
    fs::read_to_string(format!("/proc/{pid}/status")).ok()
}

/// The largest resident set that the status of a process tells, in bytes.
pub(super) fn high_water(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * KIB)
}

fn duration(time: TimeVal) -> Duration {
    let micros = time.tv_sec() * 1_000_000 + time.tv_usec();
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

const LOOK: Duration = Duration::from_millis(5);
const KIB: u64 = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_reads_back_as_written() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let cost = Cost {
            wall: Duration::from_micros(17),
            cpu: Duration::from_micros(23),
            peak_any: 4096,
            peak_own: 2048,
            read: 5,
            watched: 3,
        };
        cost.write(file.path()).unwrap();
        assert_eq!(Cost::read(file.path()).unwrap(), cost);
    }

    #[test]
    fn an_own_high_water_mark_is_known() {
        assert!(high_water(&status(std::process::id()).unwrap()).unwrap() > 0);
    }
}
