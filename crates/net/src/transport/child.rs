//! Starts the remote shell, and explains the exit status of the shell.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

use crate::error::SyncError;
use crate::plan::Remote;
use deltic_worker::lock::lock;

use super::{Link, enlarge_pipe_buffer};

/// Longest time for a child to exit after its streams are closed.
const CHILD_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest time for a child to exit after a failed run, and again after each signal.
const ENDING_TIMEOUT: Duration = Duration::from_secs(1);
/// Pause between two checks of the child's exit status.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Purpose of a remote shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The remote shell that carries the first stream of the session.
    First,
    /// A further stream of the session. Nothing is lost if this shell is killed.
    Further,
}

/// Starts `program agent options…` on `host` by the remote shell. The words are passed as separate arguments: no
/// command line is ever composed.
pub(crate) fn spawn(remote: &Remote, host: &str, part: Part) -> Result<Link, SyncError> {
    let mut agent = vec![remote.program.clone(), "agent".into()];
    agent.extend_from_slice(&remote.options);
    if part == Part::Further {
        agent.push("--join".into());
    }
    let words = remote.command_line(host, &agent)?;
    let (shell, args) = (words.split_first())
        .ok_or_else(|| SyncError::Usage("the remote shell (-e) is empty".into()))?;
    let mut command = Command::new(shell);
    command.args(args).kill_on_drop(part == Part::Further);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let failed =
        |source| SyncError::Start { program: shell.to_string_lossy().into_owned(), source };
    withhold_secrets(command.as_std_mut());
    let mut child = command.spawn().map_err(failed)?;
    let (reader, writer) = (child.stdout.take(), child.stdin.take());
    let reader = Box::new(reader.expect("standard output is piped"));
    let writer = Box::new(writer.expect("standard input is piped"));
    enlarge_pipe_buffer(&*reader);
    enlarge_pipe_buffer(&*writer);
    Ok(Link { reader, writer, child: Some(child) })
}

/// Removes tokens from the environment of a program that this process starts. A remote shell passes its environment to
/// commands of its configuration, and may send its environment to the other machine.
pub fn withhold_secrets(command: &mut std::process::Command) -> &mut std::process::Command {
    command.env_remove(TOKEN_VARIABLE)
}

/// The environment variable that holds the token for a server.
pub const TOKEN_VARIABLE: &str = "DELTIC_TOKEN";

/// The remote shell of a session, if there is one. After a successful run, the shell is left to exit by itself.
#[derive(Clone, Default)]
pub(crate) struct Shell(Arc<Mutex<Option<Child>>>);

impl From<Option<Child>> for Shell {
    fn from(child: Option<Child>) -> Self {
        Self(Arc::new(Mutex::new(child)))
    }
}

impl Shell {
    /// Takes over a child process that was started.
    pub(crate) fn hold_child(&self, child: Option<Child>) {
        *lock(&self.0) = child;
    }

    /// Leaves the shell to exit by itself.
    pub(crate) fn let_exit(&self) {
        lock(&self.0).take();
    }

    fn is_held(&self) -> bool {
        lock(&self.0).is_some()
    }

    /// Returns the exit status, if the shell has exited.
    fn status(&self) -> Option<io::Result<ExitStatus>> {
        lock(&self.0).as_mut()?.try_wait().transpose()
    }

    /// Ends the shell of a failed run. The streams of the shell are closed by now. A shell that does not exit gets
    /// signals.
    pub(crate) fn end_shell(&self) {
        for signal in [None, Some(Signal::TERM), Some(Signal::KILL)] {
            let Some(pid) = lock(&self.0).as_ref().and_then(Child::id) else { return };
            let pid = Pid::from_raw(pid as i32);
            if let Some((pid, signal)) = pid.zip(signal) {
                kill_process(pid, signal).ok();
            }
            let told_at = Instant::now();
            while told_at.elapsed() < ENDING_TIMEOUT {
                match self.status() {
                    None => thread::sleep(LOOK_EVERY),
                    Some(Ok(_)) => return,
                    // Another part of the process reaped this child. Its process number may belong to another process
                    // now.
                    Some(Err(_)) => return drop(lock(&self.0).take()),
                }
            }
        }
    }
}

/// Tells if the other end has identified itself as Deltic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    Nothing,
    Hello,
}

/// Waits for the shell to exit. Returns an error if the exit status means an error.
pub(crate) async fn exit_error(shell: &Shell, heard: Heard) -> Option<SyncError> {
    let ended = async {
        loop {
            match shell.status() {
                None if shell.is_held() => tokio::time::sleep(LOOK_EVERY).await,
                status => return status,
            }
        }
    };
    let Ok(status) = tokio::time::timeout(CHILD_TIMEOUT, ended).await else {
        let why = "the remote shell did not end and was stopped";
        return Some(SyncError::Disconnected(why.into()));
    };
    match status? {
        Ok(status) if status.code() == Some(127) => Some(SyncError::NoRemoteProgram),
        Ok(status) if heard == Heard::Nothing => Some(SyncError::NoAnswer(status)),
        Ok(status) if status.success() => None,
        Ok(status) => Some(SyncError::ShellEnded(status)),
        Err(source) => Some(SyncError::Transport { action: "wait for the remote shell", source }),
    }
}
