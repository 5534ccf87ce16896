//! The lock of a state directory. Two servers on one state directory would each count quotas, and each write a chain
//! of the audit log.
//!
//! The kernel releases the lock when the process ends, also after a crash. The file stays.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Write};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use deltic_store_local::NamedFile;

use super::config::ConfigError;

/// Longest wait for a server that is about to end, as in a restart.
const PATIENCE: Duration = Duration::from_secs(5);
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(50);

/// The lock of a state directory, held until this value is dropped.
#[derive(Debug)]
pub(super) struct StateLock {
    _file: File,
}

impl StateLock {
    /// Takes the lock of the directory `state`, and waits a moment for another server to end.
    pub(super) fn take(state: &Path) -> Result<Self, ConfigError> {
        let path = state.join("lock");
        let failed = |what: &str| ConfigError::io(format!("{what} {}", path.display()));
        let file = NamedFile::of_operator(&path).and_then(|file| file.log());
        let file = File::from(file.map_err(failed("open"))?);
        match wait_for(&file, PATIENCE) {
            Ok(true) => {}
            Ok(false) => return Err(ConfigError::Taken(in_use(state, &file))),
            Err(error) => return Err(failed("lock")(error)),
        }
        write_pid(&file).map_err(failed("write"))?;
        Ok(Self { _file: file })
    }
}

/// Locks a file, if nobody else holds it for so long.
pub(super) fn wait_for(file: &File, patience: Duration) -> io::Result<bool> {
    let begun = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if begun.elapsed() >= patience => return Ok(false),
            Err(TryLockError::WouldBlock) => sleep(PAUSE),
        }
    }
}

fn write_pid(mut file: &File) -> io::Result<()> {
    file.set_len(0)?;
    writeln!(file, "{}", std::process::id())
}

/// Error text with the process that has the directory.
fn in_use(state: &Path, file: &File) -> String {
    let mut text = String::new();
    let read = file.take(32).read_to_string(&mut text);
    let pid = read.ok().and_then(|_| text.trim().parse::<u32>().ok());
    let who =
        pid.map_or_else(|| "another server".into(), |pid| format!("the server of process {pid}"));
    format!(
        "{}: {who} has this state directory; end that server, or name another directory by --state",
        state.display()
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{lchown, symlink};

    use super::*;

    #[test]
    fn a_state_directory_has_one_server() {
        let dir = tempfile::tempdir().unwrap();
        let held = StateLock::take(dir.path()).unwrap();
        let begun = Instant::now();
        let refused = StateLock::take(dir.path()).unwrap_err().to_string();
        assert!(begun.elapsed() >= PATIENCE);
        assert!(refused.contains(&format!("process {} has", std::process::id())), "{refused}");
        // A server that ends meanwhile is waited for.
        let ending = std::thread::spawn(move || {
            sleep(Duration::from_millis(200));
            drop(held);
        });
        drop(StateLock::take(dir.path()).unwrap());
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
        let refused = StateLock::take(state.path()).unwrap_err().to_string();
        assert!(refused.contains("symlink of another user"), "{refused}");
        assert_eq!(std::fs::read(state.path().join("target")).unwrap(), b"precious");
    }
}
