//! Groups of processes that may only have so much memory: more is a kill.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use super::skip;

/// A group below the one of this test, gone with this value.
pub struct Limited(PathBuf);

impl Limited {
    /// A group of at most so many bytes, what the system keeps for its processes included; says that without one this
    /// test is skipped.
    pub fn new(name: &str, bytes: u64) -> Option<Self> {
        // Tests of one process run at the same time.
        static GROUPS: AtomicU32 = AtomicU32::new(0);
        let number = GROUPS.fetch_add(1, Ordering::Relaxed);
        let made = make(&format!("deltic-{}-{number}-{name}", std::process::id()), bytes);
        if made.is_none() {
            skip(
                "no memory limit can be set here: that takes root and a group of our own (cgroup)",
            );
        }
        made.map(Self)
    }

    /// Words that run those behind them in the group.
    pub fn words(&self) -> [String; 4] {
        let script = format!(r#"echo $$ >'{}/cgroup.procs' && exec "$@""#, self.0.display());
        ["sh".into(), "-c".into(), script, "limited".into()]
    }

    /// A remote shell that stays on this machine, and in the group.
    pub fn shell(&self) -> String {
        let script = format!(r#"echo $$ >"{}/cgroup.procs"; shift; exec "$@""#, self.0.display());
        format!("sh -c '{script}' rsh")
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        // A process that has ended may count for a moment.
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

fn make(name: &str, bytes: u64) -> Option<PathBuf> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let (parent, limit) = own.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (kinds, path) = (parts.next()?, parts.next()?.trim_start_matches('/'));
        let first = Path::new("/sys/fs/cgroup/memory").join(path);
        let second = Path::new("/sys/fs/cgroup").join(path);
        match kinds {
            "memory" => Some((first, "memory.limit_in_bytes")),
            "" if second.join("memory.max").exists() => Some((second, "memory.max")),
            _ => None,
        }
    })?;
    let group = parent.join(name);
    fs::create_dir(&group).ok()?;
    if fs::write(group.join(limit), bytes.to_string()).is_err() {
        let _ = fs::remove_dir(&group);
        return None;
    }
    Some(group)
}
