//! The server under load, as a process of its own.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use deltic_serve::client::{Address, Credentials};
use tempfile::TempDir;

/// A server of one volume, which ends with this value.
pub(super) struct Server {
    child: Child,
    pub(super) address: Address,
    pub(super) credentials: Credentials,
    _dir: TempDir,
}

impl Server {
    /// Starts one whose volume is a directory in `parent`.
    pub(super) fn start(deltic: Option<&Path>, parent: &Path, plain: bool) -> Result<Self> {
        let dir = tempfile::tempdir_in(parent).context("make a directory")?;
        fs::create_dir(dir.path().join("volume"))?;
        let program = deltic.map_or_else(beside, Path::to_owned);
        let mut command = Command::new(&program);
        command.arg("serve").arg(dir.path().join("volume"));
        command.arg("--state").arg(dir.path().join("state"));
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
        let pin = address.in_fragment("pin").map(str::to_owned);
        Ok(Self { child, address, credentials: Credentials { token, pin }, _dir: dir })
    }

    /// Processor time that it took so far.
    pub(super) fn cpu(&self) -> Result<Duration> {
        cpu_of(self.child.id())
    }

    pub(super) fn resident_kib(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.split_whitespace().next());
        kib.and_then(|kib| kib.parse().ok()).context("the system does not tell VmRSS")
    }
}

/// The `deltic` beside this program, or in the PATH.
fn beside() -> PathBuf {
    let beside = std::env::current_exe().ok().map(|program| program.with_file_name("deltic"));
    beside.filter(|program| program.exists()).unwrap_or_else(|| "deltic".into())
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Processor time of a process, with all its threads.
pub(super) fn cpu_of(process: u32) -> Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The name may have blanks, and ends with the last parenthesis.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ticks = fields.split_whitespace().skip(11).take(2).map(str::parse::<u64>);
    let ticks = ticks.sum::<Result<u64, _>>().context("the system does not tell times")?;
    Ok(Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
}
