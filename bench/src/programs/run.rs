//! Measures a sync: time, processor time and memory of both ends, and bytes in each direction.
//!
//! ```text
//! bench ─► measured NEAR ─► client ─► shell script ─► measured FAR ─► server
//! ```
//!
//! The script replaces ssh: it drops the host name and runs the rest, so both programs talk through plain pipes.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::{Rc, Weak};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use tempfile::TempDir;

use super::measured::{ProcessCost, high_water, status};
use super::peer::{ByteStats, PeerProgram, ProgramPaths, SyncTask};
use crate::serve::server::TestServer;
use crate::sync::LinkSpec;
use crate::sync::line::SharedLine;

/// Cost of a sync.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TransferCost {
    pub(crate) wall: Duration,
    /// Processor time of both ends.
    pub(crate) cpu: Duration,
    pub(crate) near_peak: u64,
    pub(crate) far_peak: u64,
    /// Bytes that the near end read from files and pipes; in a local run, bytes that both ends read.
    pub(crate) read: u64,
    pub(crate) stats: ByteStats,
}

/// Directories of a benchmark.
#[derive(Clone, Debug, Args)]
pub(crate) struct BenchDirs {
    /// Directory for the data
    #[arg(long, default_value_os_t = std::env::temp_dir())]
    pub(crate) dir: PathBuf,
    /// Directory for the tables
    #[arg(long, default_value = "bench/out")]
    pub(crate) out: PathBuf,
}

/// A private directory with the fake remote shell and the output of the wrappers.
pub(crate) struct BenchRig {
    programs: ProgramPaths,
    dir: TempDir,
    /// Server for the peers that need one. The caller of [`serve`](Self::serve) owns the server.
    server: Weak<TestServer>,
}

impl BenchRig {
    /// Makes a rig below `parent`, where all data of the benchmark lives.
    pub(crate) fn new(programs: &ProgramPaths, parent: &Path) -> Result<Self> {
        let dir = tempfile::Builder::new()
            .prefix("deltic-bench-")
            .tempdir_in(parent)
            .with_context(|| format!("make a directory in {}", parent.display()))?;
        let rig = Self { programs: programs.clone(), dir, server: Weak::new() };
        rig.write_shell("measured", &rig.path("far"))?;
        Ok(rig)
    }

    /// Starts a server with a volume in `parent`. The server ends when the returned value is dropped.
    pub(super) fn serve(&mut self, parent: &Path) -> Result<Rc<TestServer>> {
        let server = Rc::new(TestServer::start(Some(&self.programs.deltic()), parent, true)?);
        self.server = Rc::downgrade(&server);
        Ok(server)
    }

    /// Returns the destination of a peer for the directory `dir`.
    pub(super) fn dest(&self, peer: PeerProgram, dir: &Path) -> PathBuf {
        match (self.server.upgrade(), dir.file_name()) {
            (Some(server), Some(name)) if peer.is_served() => server.volume().join(name),
            // rsync escapes spaces for a shell, but no shell reads the name here.
            _ => dir.join(peer.name().replace(' ', "-")),
        }
    }

    /// Returns the compared programs.
    pub(crate) fn programs(&self) -> &ProgramPaths {
        &self.programs
    }

    /// Returns a path in the rig's directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes the fake remote shell, which runs the far end through `bench WRAPPER FILE`.
    pub(crate) fn write_shell(&self, wrapper: &str, file: &Path) -> Result<()> {
        let bench = std::env::current_exe()?;
        self.write_script(&format!("'{}' {wrapper} '{}' --", bench.display(), file.display()))
    }

    /// Writes the fake remote shell, which runs the far end behind a simulated link and measures the far end. All far
    /// ends share one line. Bytes wait in front of the line for `queue` at most. Returns the file of the line.
    pub(super) fn write_linked_shell(&self, link: LinkSpec, queue: Duration) -> Result<PathBuf> {
        let bench = std::env::current_exe()?;
        let (bench, link, queue) = (bench.display(), link.word(), queue.as_millis());
        let [costs, far, line] = ["link-costs", "far", "line"].map(|name| self.path(name));
        SharedLine::create(&line)?;
        let shared = format!("--line '{}' --queue-ms {queue}", line.display());
        let [costs, far] = [costs.display(), far.display()];
        self.write_script(&format!(
            "'{bench}' far-end {shared} '{link}' '{costs}' host '{bench}' measured '{far}' --"
        ))?;
        Ok(line)
    }

    /// Writes a remote shell that drops the host name and gives the rest to `command`.
    fn write_script(&self, command: &str) -> Result<()> {
        let script = format!("#!/bin/sh\nshift; exec {command} \"$@\"\n");
        let path = self.shell();
        fs::write(&path, script)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        Ok(())
    }

    /// Returns the command line that syncs `from` to `to` at the far end.
    pub(crate) fn line(
        &self,
        peer: PeerProgram,
        task: SyncTask<'_>,
        from: &Path,
        to: &Path,
    ) -> Vec<OsString> {
        let mut line = peer.command(&self.programs, &self.shell(), task);
        line.extend([from.into(), if has_far_end(peer, task) { far(to) } else { to.into() }]);
        line
    }

    /// Measures a sync, which must succeed.
    pub(crate) fn transfer(
        &self,
        peer: PeerProgram,
        task: SyncTask<'_>,
        from: &Path,
        to: &Path,
    ) -> Result<TransferCost> {
        if peer.is_served() {
            let server =
                self.server.upgrade().context("the server for the peer deltic-served has ended")?;
            return self.transfer_to(&server, (peer, task), (from, to));
        }
        let far = self.path("far");
        fs::remove_file(&far).ok();
        let line = self.line(peer, task, from, to);
        let both = self.run(peer, &line, None)?;
        if !has_far_end(peer, task) {
            return Ok(both);
        }
        let near = ProcessCost::read(&self.path("near"))?;
        let far = ProcessCost::read(&far)?;
        if near.cpu < far.cpu {
            bail!(
                "{}: the processor time of both ends is less than that of the far end",
                shown(&line)
            );
        }
        // The near wrapper also counts the far end. Its peak belongs to the near end only if it is the larger peak.
        let near_peak = if near.peak_any > far.peak_any { near.peak_any } else { near.peak_own };
        let read = both.read.saturating_sub(far.read);
        Ok(TransferCost { near_peak, far_peak: far.peak_any, read, ..both })
    }

    /// Measures a sync to a file in the volume of a server.
    fn transfer_to(
        &self,
        server: &TestServer,
        (peer, task): (PeerProgram, SyncTask<'_>),
        (from, to): (&Path, &Path),
    ) -> Result<TransferCost> {
        let url = server.url(&to.strip_prefix(server.volume())?.to_string_lossy());
        let line = self.line(peer, SyncTask { local: true, ..task }, from, Path::new(&url));
        let token = OsString::from(server.to.1.token.reveal());
        let before = server.cpu()?;
        let near = self.run(peer, &line, Some(("DELTIC_TOKEN", &token)))?;
        let cpu = near.cpu + server.cpu()?.saturating_sub(before);
        let far_peak = status(server.process()).as_deref().and_then(high_water).unwrap_or(0);
        Ok(TransferCost { cpu, far_peak, ..near })
    }

    /// Measures a command line with its descendants. The command must succeed.
    fn run(
        &self,
        peer: PeerProgram,
        line: &[OsString],
        env: Option<(&str, &OsStr)>,
    ) -> Result<TransferCost> {
        let near = self.path("near");
        let output = Command::new(std::env::current_exe()?)
            .args([OsStr::new("measured"), near.as_os_str(), OsStr::new("--")])
            .args(line)
            .env("XDG_CACHE_HOME", self.path("cache"))
            .envs(env)
            .stdin(Stdio::null())
            .output()?;
        let said = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            let complaint = String::from_utf8_lossy(&output.stderr);
            bail!("{}: {}\n{said}{complaint}", shown(line), output.status);
        }
        let ProcessCost { wall, cpu, peak_any, read, watched, .. } = ProcessCost::read(&near)?;
        let stats = if peer.talks() { ByteStats::parse(&said)? } else { ByteStats::default() };
        let read = read.saturating_sub(watched);
        Ok(TransferCost { wall, cpu, near_peak: peak_any, far_peak: 0, read, stats })
    }

    fn shell(&self) -> PathBuf {
        self.path("shell")
    }
}

fn has_far_end(peer: PeerProgram, task: SyncTask<'_>) -> bool {
    peer.talks() && !task.local
}

/// Formats a command line.
pub(crate) fn shown(line: &[OsString]) -> String {
    line.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

fn far(path: &Path) -> OsString {
    let mut word = OsString::from("far:");
    word.push(path);
    word
}

/// Runs a helper program, which must succeed. Returns its output.
pub(crate) fn helper(program: &str, args: &[&OsStr]) -> Result<String> {
    let output = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("start {program}"))?;
    if !output.status.success() {
        bail!("{program} {args:?}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
