//! The server under load, as a process of its own.

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

/// A server of one volume, which ends with this value.
pub(crate) struct Server {
    child: Child,
    /// Address of its volume, and the token and pin to reach it.
    pub(crate) to: Arc<(Address, Credentials)>,
    program: PathBuf,
    plain: bool,
    dir: TempDir,
    /// Processor time of those that were ended.
    spent: Duration,
}

impl Server {
    /// Starts one whose volume is a directory in `parent`.
    pub(crate) fn start(deltic: Option<&Path>, parent: &Path, plain: bool) -> Result<Self> {
        let dir = tempfile::tempdir_in(parent).context("make a directory")?;
        fs::create_dir(dir.path().join(VOLUME))?;
        let program = deltic_program(deltic);
        let (child, to) = start(&program, dir.path(), plain)?;
        Ok(Self { child, to, program, plain, dir, spent: Duration::ZERO })
    }

    /// Ends it by a signal, and waits for that; what it served stays as it was at that moment.
    pub(super) async fn end(&mut self, by: Signal) -> Result<()> {
        self.spent = self.cpu()?;
        kill_process(Pid::from_child(&self.child), by)?;
        let begun = Instant::now();
        while self.child.try_wait()?.is_none() {
            ensure!(begun.elapsed() < ENDS_WITHIN, "the server does not end");
            sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }

    /// Starts it again after it was ended, at another port and with another token.
    pub(super) fn start_again(&mut self) -> Result<()> {
        (self.child, self.to) = start(&self.program, self.dir.path(), self.plain)?;
        Ok(())
    }

    /// The directory that it serves.
    pub(crate) fn volume(&self) -> PathBuf {
        self.dir.path().join(VOLUME)
    }

    /// Processor time that it took so far.
    pub(crate) fn cpu(&self) -> Result<Duration> {
        Ok(self.spent + cpu_of(self.child.id())?)
    }

    /// Its number as a process.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// The program that it runs.
    pub(super) fn program(&self) -> &Path {
        &self.program
    }

    /// Address of a file in its volume.
    pub(crate) fn url(&self, name: &str) -> OsString {
        format!("{}/{name}", self.to.0.host()).into()
    }

    /// Times that its threads slept and were woken so far.
    pub(super) fn switches(&self) -> Result<u64> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id()))?;
        tasks.map(|task| field(&task?.path().join("status"), "voluntary_ctxt_switches:")).sum()
    }

    /// Bytes that it wrote to files so far.
    pub(super) fn written_bytes(&self) -> Result<u64> {
        field(&PathBuf::from(format!("/proc/{}/io", self.child.id())), "wchar:")
    }

    pub(super) fn resident_kib(&self) -> Result<u64> {
        machine::resident_kib(&self.child.id().to_string())
    }
}

/// Longest time for a server to end whose clients are connected.
const ENDS_WITHIN: Duration = Duration::from_secs(60);
/// Name of the volume.
const VOLUME: &str = "volume";

/// Starts a server of the volume in `dir`; where it is, and how it is reached.
fn start(program: &Path, dir: &Path, plain: bool) -> Result<(Child, Arc<(Address, Credentials)>)> {
    let mut command = Command::new(program);
    command.arg("serve").arg(dir.join(VOLUME)).arg("--state").arg(dir.join("state"));
    if !plain {
        command.arg("--lan");
    }
    command.args(["--listen", "127.0.0.1:0"]).stdout(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("start {}", program.display()))?;
    let said = BufReader::new(child.stdout.take().context("it has an output")?).lines();
    let line = said.map_while(Result::ok).find(|line| line.contains("#t="));
    let line = line.context("the server did not say where it is")?;
    let address: Address = line.trim().parse()?;
    let token = address.in_fragment("t").context("the address has no token")?.parse()?;
    let pin = address.in_fragment("pin").map(str::parse).transpose()?;
    Ok((child, Arc::new((address, Credentials { token, pin }))))
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A number that the system tells of a process.
fn field(file: &Path, name: &str) -> Result<u64> {
    let text = fs::read_to_string(file)?;
    let value = text.lines().find_map(|line| line.strip_prefix(name));
    value
        .with_context(|| format!("{} has no {name}", file.display()))?
        .trim()
        .parse()
        .map_err(Into::into)
}

/// Processor time of a process, with all its threads.
pub(super) fn cpu_of(process: u32) -> Result<Duration> {
    times(process, 11)
}

/// Processor time of all children of this process that have ended, and of theirs.
pub(super) fn ended_cpu() -> Result<Duration> {
    times(std::process::id(), 13)
}

/// The sum of two times of a process, which are so many fields behind its name.
fn times(process: u32, at: usize) -> Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The name may have blanks, and ends with the last parenthesis.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ticks = fields.split_whitespace().skip(at).take(2).map(str::parse::<u64>);
    let ticks = ticks.sum::<Result<u64, _>>().context("the system does not tell times")?;
    Ok(Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
}
