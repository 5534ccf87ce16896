//! The server under load, in a separate process.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use deltic_serve::client::{Address, Credentials};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::time::sleep;

use crate::machine;
use crate::programs::peer::deltic_program;

/// A server with one volume. Dropping the value ends the server.
pub(crate) struct TestServer {
    child: Child,
    /// Address of the volume, with token and certificate pin.
    pub(crate) to: Arc<(Address, Credentials)>,
    program: PathBuf,
    plain: bool,
    dir: TempDir,
    /// Processor time of ended server processes.
    spent: Duration,
}

impl TestServer {
    /// Starts a server with a volume in `parent`.
    pub(crate) fn start(deltic: Option<&Path>, parent: &Path, plain: bool) -> Result<Self> {
        let dir = tempfile::tempdir_in(parent).context("make a directory")?;
        fs::create_dir(dir.path().join(VOLUME))?;
        let program = deltic_program(deltic);
        let (child, to) = start(&program, dir.path(), plain)?;
        Ok(Self { child, to, program, plain, dir, spent: Duration::ZERO })
    }

    /// Ends the server with a signal and waits for the exit. The volume stays.
    pub(super) async fn end(&mut self, by: Signal) -> Result<()> {
        self.spent = self.cpu()?;
        kill_process(Pid::from_child(&self.child), by)?;
        let begun = Instant::now();
        while self.child.try_wait()?.is_none() {
            ensure!(begun.elapsed() < ENDS_WITHIN, "the server did not end in time");
            sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }

    /// Restarts the server after [`end`](Self::end), with a new port and token.
    pub(super) fn start_again(&mut self) -> Result<()> {
        (self.child, self.to) = start(&self.program, self.dir.path(), self.plain)?;
        Ok(())
    }

    /// Returns the directory of the volume.
    pub(crate) fn volume(&self) -> PathBuf {
        self.dir.path().join(VOLUME)
    }

    /// Returns the processor time so far.
    pub(crate) fn cpu(&self) -> Result<Duration> {
        Ok(self.spent + cpu_of(self.child.id())?)
    }

    /// Returns the process id.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Returns the path of the server program.
    pub(super) fn program(&self) -> &Path {
        &self.program
    }

    /// Returns the URL of a file in the volume.
    pub(crate) fn url(&self, name: &str) -> OsString {
        format!("{}/{name}", self.to.0.host()).into()
    }

    /// Returns the number of voluntary context switches of all threads so far.
    pub(super) fn switches(&self) -> Result<u64> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id()))?;
        tasks.map(|task| field(&task?.path().join("status"), "voluntary_ctxt_switches:")).sum()
    }

    /// Returns the bytes written to files so far.
    pub(super) fn written_bytes(&self) -> Result<u64> {
        field(&PathBuf::from(format!("/proc/{}/io", self.child.id())), "wchar:")
    }

    pub(super) fn resident_kib(&self) -> Result<u64> {
        machine::resident_kib(&self.child.id().to_string())
    }
}

/// Longest time for a server with connected clients to end.
const ENDS_WITHIN: Duration = Duration::from_secs(60);
/// Name of the volume directory.
const VOLUME: &str = "volume";

/// Starts a server of the volume in `dir`. Returns the process, and the address with credentials.
fn start(program: &Path, dir: &Path, plain: bool) -> Result<(Child, Arc<(Address, Credentials)>)> {
    let mut command = Command::new(program);
    command.arg("serve").arg(dir.join(VOLUME)).arg("--state").arg(dir.join("state"));
    if !plain {
        command.arg("--lan");
    }
    command.args(["--listen", "127.0.0.1:0"]).stdout(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("start {}", program.display()))?;
    let said = BufReader::new(child.stdout.take().context("the server has an output")?).lines();
    let line = said.map_while(Result::ok).find(|line| line.contains("#t="));
    let line = line.context("the server did not print its address")?;
    let address: Address = line.trim().parse()?;
    let token = address.in_fragment("t").context("the address has no token")?.parse()?;
    let pin = address.in_fragment("pin").map(str::parse).transpose()?;
    Ok((child, Arc::new((address, Credentials { token, pin }))))
}

impl Drop for TestServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads a numeric field of a file in `/proc`.
fn field(file: &Path, name: &str) -> Result<u64> {
    let text = fs::read_to_string(file)?;
    let value = text.lines().find_map(|line| line.strip_prefix(name));
    value
        .with_context(|| format!("{} has no {name}", file.display()))?
        .trim()
        .parse()
        .map_err(Into::into)
}

/// Returns the processor time of a process with all threads.
pub(super) fn cpu_of(process: u32) -> Result<Duration> {
    times(process, 11)
}

/// Returns the processor time of exited children and their descendants.
pub(super) fn ended_cpu() -> Result<Duration> {
    times(std::process::id(), 13)
}

/// Returns the sum of two adjacent fields of `/proc/PID/stat`. `at` counts from the field after the name.
fn times(process: u32, at: usize) -> Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The name may contain blanks and ends with the last parenthesis.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ticks = fields.split_whitespace().skip(at).take(2).map(str::parse::<u64>);
    let ticks = ticks.sum::<Result<u64, _>>().context("/proc/PID/stat has no times")?;
    Ok(Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
}
