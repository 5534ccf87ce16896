//! `bench measured FILE -- CMD…`: runs a command and writes its cost to FILE.
//!
//! One wrapper starts the near end; another wrapper, run by the fake remote shell, starts the far end. The near wrapper
//! adopts orphans, so its figures include both ends even if the client does not wait for its remote shell. The far
//! wrapper reports only the far end.

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

/// Cost of a command and its descendants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProcessCost {
    /// Time from the start to the exit of the command.
    pub(crate) wall: Duration,
    /// User and system time of the command and its descendants.
    pub(crate) cpu: Duration,
    /// Largest resident set among the command and its descendants, in bytes.
    pub(crate) peak_any: u64,
    /// Largest resident set of the command's own process in bytes, as last seen.
    pub(crate) peak_own: u64,
    /// Bytes read by the command, its descendants and the wrapper, from files and pipes.
    pub(crate) read: u64,
    /// The part of `read` that the wrapper read to watch the command.
    pub(crate) watched: u64,
}

impl ProcessCost {
    /// Reads the file that a wrapper wrote.
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

/// Runs `command` and writes its cost to `file`. Returns the exit code.
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
    while reap(WaitMode::UntilGone) {}
    let used = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let cpu = duration(used.user_time()) + duration(used.system_time());
    let peak_any = u64::try_from(used.max_rss()).unwrap_or(0) * KIB;
    let read = read_bytes()? - before;
    ProcessCost { wall, cpu, peak_any, peak_own, read, watched }.write(file)?;
    Ok(code(status))
}

/// Makes this process the parent of orphaned descendants.
pub(crate) fn adopt_orphans() -> Result<()> {
    #[cfg(target_os = "linux")]
    nix::sys::prctl::set_child_subreaper(true)?;
    Ok(())
}

/// Choice between waiting for a child and reaping an exited child.
#[derive(Clone, Copy)]
pub(crate) enum WaitMode {
    /// Wait until a child exits.
    UntilGone,
    /// Only reap a child that has already exited.
    Now,
}

/// Reaps a child. Returns false if there is no child to reap.
pub(crate) fn reap(patience: WaitMode) -> bool {
    let flags = match patience {
        WaitMode::UntilGone => None,
        WaitMode::Now => Some(WaitPidFlag::WNOHANG),
    };
    !matches!(waitpid(None, flags), Err(_) | Ok(WaitStatus::StillAlive))
}

/// Returns the exit code as a shell reports it.
pub(crate) fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

/// Returns the bytes read so far by this process and its exited descendants, or 0 if the system does not report them.
fn read_bytes() -> Result<u64> {
    let Ok(told) = fs::read_to_string("/proc/self/io") else { return Ok(0) };
    let bytes = told.lines().find_map(|line| line.strip_prefix("rchar:"));
    bytes.unwrap_or("0").trim().parse().context("/proc/self/io has no number of bytes")
}

/// Watches a process until `stopped`. Returns the largest resident set and the bytes read to watch. The kernel keeps
/// the high-water mark, so only the moments before the exit are missed.
fn peak_until(pid: u32, stopped: &mpsc::Receiver<()>) -> (u64, u64) {
    let (mut peak, mut watched) = (0, 0);
    while stopped.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
        let Some(status) = status(pid) else { continue };
        watched += status.len() as u64;
        peak = high_water(&status).unwrap_or(0).max(peak);
    }
    (peak, watched)
}

/// Returns the content of `/proc/PID/status`.
pub(super) fn status(pid: u32) -> Option<String> {
    fs::read_to_string(format!("/proc/{pid}/status")).ok()
}

/// Returns the high-water mark of the resident set in bytes, from the content of `/proc/PID/status`.
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
        let cost = ProcessCost {
            wall: Duration::from_micros(17),
            cpu: Duration::from_micros(23),
            peak_any: 4096,
            peak_own: 2048,
            read: 5,
            watched: 3,
        };
        cost.write(file.path()).unwrap();
        assert_eq!(ProcessCost::read(file.path()).unwrap(), cost);
    }

    #[test]
    fn an_own_high_water_mark_is_known() {
        assert!(high_water(&status(std::process::id()).unwrap()).unwrap() > 0);
    }
}
