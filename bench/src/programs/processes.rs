//! The processes of a running sync: found in /proc, killed singly or together.

use std::fs;
use std::process::{Child, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use super::measured::{WaitMode, reap};
use crate::random::Random;

/// The process to kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KillTarget {
    /// The process that was started.
    Client,
    /// A process at the far end.
    Agent,
    /// The relay between the ends.
    Link,
    /// The whole process group.
    Group,
}

/// A sync that leads its own process group.
pub(crate) struct RunningSync {
    child: Child,
    seen: Vec<ProcessInfo>,
}

#[derive(Clone, Debug)]
struct ProcessInfo {
    pid: Pid,
    parent: Pid,
    group: Pid,
    gone: bool,
    name: String,
}

impl RunningSync {
    /// Watches a child that was started with `process_group(0)`.
    pub(crate) fn new(child: Child) -> Self {
        Self { child, seen: Vec::new() }
    }

    /// Kills a random process of the sync. Returns `None` if the sync is already over.
    pub(crate) fn kill_one(&mut self, random: &mut Random) -> Result<Option<KillTarget>> {
        if self.child.try_wait()?.is_some() {
            return Ok(None);
        }
        self.seen = self.members()?;
        let client = self.pid()?;
        let is_link = |process: &&ProcessInfo| process.name == LINK;
        let is_agent = |process: &&ProcessInfo| process.name != LINK && process.pid != client;
        let link = self.seen.iter().find(is_link).map(|process| process.pid);
        let agents: Vec<Pid> =
            self.seen.iter().filter(is_agent).map(|process| process.pid).collect();
        let agent = agents.get(random.place(agents.len()));
        // Before the far end starts, the client is the only process.
        let (victim, pid) = match (random.below(4), agent, link) {
            (0, Some(agent), _) => (KillTarget::Agent, *agent),
            (1, _, Some(link)) => (KillTarget::Link, link),
            (2, _, _) => (KillTarget::Group, client),
            _ => (KillTarget::Client, client),
        };
        if victim == KillTarget::Group {
            self.kill_all();
        } else {
            kill(pid, Signal::SIGKILL).ok();
        }
        Ok(Some(victim))
    }

    /// Waits until every process is gone. After `patience`, kills the rest and returns false.
    pub(crate) fn all_gone(&mut self, patience: Duration) -> Result<bool> {
        let deadline = Instant::now() + patience;
        loop {
            let client_gone = self.child.try_wait()?.is_some();
            if client_gone {
                while reap(WaitMode::Now) {}
            }
            let alive = self.members()?.iter().any(|process| !process.gone);
            if client_gone && !alive {
                return Ok(true);
            }
            if Instant::now() > deadline {
                self.kill_all();
                self.child.wait()?;
                return Ok(false);
            }
            thread::sleep(LOOK);
        }
    }

    /// Waits until the client exits.
    pub(crate) fn wait(mut self) -> Result<ExitStatus> {
        let status = self.child.wait()?;
        while reap(WaitMode::UntilGone) {}
        Ok(status)
    }

    fn kill_all(&self) {
        if let Ok(group) = self.pid() {
            killpg(group, Signal::SIGKILL).ok();
        }
        for process in &self.seen {
            kill(process.pid, Signal::SIGKILL).ok();
        }
    }

    fn pid(&self) -> Result<Pid> {
        Ok(Pid::from_raw(i32::try_from(self.child.id()).context("a process id")?))
    }

    /// Returns the client's process group and descendants, and the processes seen before.
    fn members(&self) -> Result<Vec<ProcessInfo>> {
        let client = self.pid()?;
        let all = processes()?;
        let mut members: Vec<ProcessInfo> = all
            .iter()
            .filter(|process| {
                process.group == client || self.seen.iter().any(|seen| seen.pid == process.pid)
            })
            .cloned()
            .collect();
        loop {
            let more = all.iter().find(|process| {
                let is = |pid: Pid| members.iter().any(|member| member.pid == pid);
                is(process.parent) && !is(process.pid)
            });
            let Some(more) = more else { return Ok(members) };
            members.push(more.clone());
        }
    }
}

fn processes() -> Result<Vec<ProcessInfo>> {
    let mut all = Vec::new();
    for entry in fs::read_dir("/proc").context("list /proc")? {
        // Processes may start and end during the loop.
        all.extend(fs::read_to_string(entry?.path().join("stat")).ok().as_deref().and_then(parse));
    }
    Ok(all)
}

/// Parses a line of `/proc/PID/stat`: `PID (NAME) STATE PARENT GROUP …`.
fn parse(stat: &str) -> Option<ProcessInfo> {
    let (pid, rest) = stat.split_once(" (")?;
    let (name, rest) = rest.rsplit_once(") ")?;
    let mut words = rest.split(' ');
    let gone = matches!(words.next()?, "Z" | "X");
    let mut next = || words.next()?.parse().ok().map(Pid::from_raw);
    let (parent, group) = (next()?, next()?);
    Some(ProcessInfo {
        pid: Pid::from_raw(pid.parse().ok()?),
        parent,
        group,
        gone,
        name: name.into(),
    })
}

/// Process name of the relay, which is this program.
const LINK: &str = "deltic-bench";
const LOOK: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_blanks_and_brackets() {
        let process = parse("17 (a) b (c) S 3 9 9 0 -1").unwrap();
        assert_eq!(process.name, "a) b (c");
        assert_eq!(
            (process.pid, process.parent, process.group),
            (Pid::from_raw(17), Pid::from_raw(3), Pid::from_raw(9))
        );
        assert!(!process.gone);
    }

    #[test]
    fn this_process_is_listed() {
        let own = Pid::this();
        assert!(processes().unwrap().iter().any(|process| process.pid == own && !process.gone));
    }
}
