//! The remote shell: how it is started, and what its end means.

use std::process::Stdio;
use std::time::Duration;

use tokio::process::{Child, Command};

use crate::error::SyncError;
use crate::plan::Remote;

use super::{Link, widen};

/// How long a child may take to exit once its streams are closed.
const CHILD_PATIENCE: Duration = Duration::from_secs(10);

/// What a remote shell is started for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The session, and its first stream.
    First,
    /// One more stream of it; nothing is lost where it is stopped.
    Further,
}

/// Starts `program agent options…` on `host` by the remote shell. The words go to it as they are: no command line is
/// ever put together.
pub(crate) fn spawn(remote: &Remote, host: &str, part: Part) -> Result<Link, SyncError> {
    let mut agent = vec![remote.program.clone(), "agent".into()];
    agent.extend_from_slice(&remote.options);
    if part == Part::Further {
        agent.push("--join".into());
    }
    let words = remote.words(host, &agent)?;
    let (shell, args) = (words.split_first())
        .ok_or_else(|| SyncError::Usage("the remote shell (-e) is empty".into()))?;
    let mut command = Command::new(shell);
    command.args(args).kill_on_drop(part == Part::Further);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let failed =
        |source| SyncError::Start { program: shell.to_string_lossy().into_owned(), source };
    let mut child = command.spawn().map_err(failed)?;
    let (reader, writer) = (child.stdout.take(), child.stdin.take());
    let reader = Box::new(reader.expect("standard output is piped"));
    let writer = Box::new(writer.expect("standard input is piped"));
    widen(&*reader);
    widen(&*writer);
    Ok(Link { reader, writer, child: Some(child) })
}

/// Whether the other end ever said that it is a Deltic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    Nothing,
    Hello,
}

/// Waits for the child to exit; what its end means, if it did not end well.
pub(crate) async fn farewell(child: Option<Child>, heard: Heard) -> Option<SyncError> {
    let mut child = child?;
    let Ok(status) = tokio::time::timeout(CHILD_PATIENCE, child.wait()).await else {
        // It was told to end by its closed streams; it is ours to stop.
        child.kill().await.ok();
        return Some(SyncError::Disconnected(
            "the remote shell did not end and was stopped".into(),
        ));
    };
    match status {
        Ok(status) if status.code() == Some(127) => Some(SyncError::NoRemoteProgram),
        Ok(status) if heard == Heard::Nothing => Some(SyncError::NoAnswer(status)),
        Ok(status) if status.success() => None,
        Ok(status) => Some(SyncError::ShellEnded(status)),
        Err(source) => Some(SyncError::Transport { action: "wait for the remote shell", source }),
    }
}
