//! Locks of a server: on its state directory, and on each writable volume.
//!
//! Two servers with one state directory would count quotas separately, and would each append to the chain of the
//! audit log. Two servers with different state directories would count the quota of a shared volume separately.
//!
//! The kernel releases a lock when the process ends, even after a crash. The lock of a volume is on the directory
//! itself, so no file is created there. NFS cannot lock directories: a volume on NFS is served without a lock.

use std::collections::BTreeSet;
use std::fs::{File, read_to_string};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use deltic_store_local::NamedDir;
use rustix::fs::{Mode, OFlags, major, minor, openat};

use super::config::{AccessConfig, Config, ConfigError};
use super::file_lock::{open_lock, wait_for};
use super::state_dir::SERVER_LOCK;

/// Longest wait for another server that is about to end, as in a restart.
const PATIENCE: Duration = Duration::from_secs(5);

/// The locks of a server's directories, held until this value is dropped.
#[derive(Debug)]
pub(super) struct Locks {
    _state: File,
    _volumes: Vec<File>,
}

impl Locks {
    /// Locks the state directory and the writable volumes. Waits a few seconds for another server to end.
    pub(super) fn take(config: &Config) -> Result<Self, ConfigError> {
        let state = lock_state(&config.state)?;
        let (mut seen, mut volumes) = (BTreeSet::new(), Vec::new());
        let changed =
            config.volumes.iter().filter(|(_, volume)| volume.access != AccessConfig::Read);
        for (name, volume) in changed {
            let failed = |what: &str| ConfigError::io(format!("{what} volume {name}"));
            let dir = open_dir(&volume.path).map_err(failed("open"))?;
            let is = dir.metadata().map_err(failed("open"))?;
            // Two volumes may be the same directory.
            if !seen.insert((is.dev(), is.ino())) {
                continue;
            }
            // An error means that the file system has no locks, as on NFS. A second server then goes unnoticed.
            if wait_for(&dir, PATIENCE).is_ok_and(|is_ours| !is_ours) {
                return Err(ConfigError::Taken(served(name, &volume.path, holder(&dir))));
            }
            volumes.push(dir);
        }
        Ok(Self { _state: state, _volumes: volumes })
    }
}

/// Locks the state directory, and writes the process id to the lock file.
fn lock_state(state: &Path) -> Result<File, ConfigError> {
    let failed =
        |what: &str| ConfigError::io(format!("{what} {}", state.join(SERVER_LOCK).display()));
    let file = open_lock(state, SERVER_LOCK).map_err(failed("open"))?;
    match wait_for(&file, PATIENCE) {
        Ok(true) => {}
        Ok(false) => return Err(ConfigError::Taken(in_use(state, &file))),
        Err(error) => return Err(failed("lock")(error)),
    }
    write_pid(&file).map_err(failed("write"))?;
    Ok(file)
}

fn open_dir(path: &Path) -> io::Result<File> {
    let dir = NamedDir::of_operator(path).open_held()?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(File::from(openat(&dir, ".", flags, Mode::empty())?))
}

fn write_pid(mut file: &File) -> io::Result<()> {
    file.set_len(0)?;
    writeln!(file, "{}", std::process::id())
}

/// Error text that names the process with the lock on the state directory.
fn in_use(state: &Path, file: &File) -> String {
    let mut text = String::new();
    let read = file.take(32).read_to_string(&mut text);
    let who = named(read.ok().and_then(|_| text.trim().parse().ok()));
    format!(
        "{}: {who} has this state directory; end that server, or name another directory by --state",
        state.display()
    )
}

/// Error text that names the process with the lock on a volume.
fn served(name: &str, path: &Path, pid: Option<u32>) -> String {
    let who = named(pid);
    format!(
        "volume {name}: {} is already served by {who} with another state directory; end that server, or serve all \
         volumes by one server",
        path.display()
    )
}

fn named(pid: Option<u32>) -> String {
    pid.map_or_else(|| "another server".into(), |pid| format!("the server of process {pid}"))
}

/// Returns the process that holds the lock on `file`, if the kernel lists the process.
fn holder(file: &File) -> Option<u32> {
    let is = file.metadata().ok()?;
    let id = format!("{:02x}:{:02x}:{}", major(is.dev()), minor(is.dev()), is.ino());
    let locks = read_to_string("/proc/locks").ok()?;
    let mut lines = locks.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let held = lines.find(|words| words.get(1) == Some(&"FLOCK") && words.get(5) == Some(&&*id))?;
    held.get(4)?.parse().ok().filter(|pid| *pid > 0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{lchown, symlink};
    use std::thread::sleep;
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_state_directory_has_one_server() {
        let dir = tempfile::tempdir().unwrap();
        let held = lock_state(dir.path()).unwrap();
        let begun = Instant::now();
        let refused = lock_state(dir.path()).unwrap_err().to_string();
        assert!(begun.elapsed() >= PATIENCE);
        assert!(refused.contains(&format!("process {} has", std::process::id())), "{refused}");
        // The second server waits for a server that ends meanwhile.
        let ending = std::thread::spawn(move || {
            sleep(Duration::from_millis(200));
            drop(held);
        });
        drop(lock_state(dir.path()).unwrap());
        ending.join().unwrap();
    }

    #[test]
    fn a_lock_behind_a_symlink_of_another_user_is_not_opened() {
        const SOMEBODY: u32 = 12_345;
        let state = tempfile::tempdir().unwrap();
        std::fs::write(state.path().join("target"), "precious").unwrap();
        symlink("target", state.path().join("lock")).unwrap();
        if lchown(state.path().join("lock"), Some(SOMEBODY), None).is_err() {
            return println!("SKIPPED: only root can make a symlink of another user");
        }
        let refused = lock_state(state.path()).unwrap_err().to_string();
        assert!(refused.contains("symlink of another user"), "{refused}");
        assert_eq!(std::fs::read(state.path().join("target")).unwrap(), b"precious");
    }
}
