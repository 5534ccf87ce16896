//! A program on another machine, started through the remote shell. Its standard input and output are pipes.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use deltic_net::plan::Remote;
use deltic_net::{SyncError, withhold_secrets};
use deltic_tree::path::printable;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::report::exit::Exit;

/// A running remote program.
pub(super) struct RemoteProgram {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    /// Longest time without output, or without reading input.
    timeout: Duration,
    is_given_up: bool,
}

impl RemoteProgram {
    /// Starts `command` on `host` through the remote shell.
    pub(super) fn start(
        remote: &Remote,
        host: &str,
        command: &[OsString],
    ) -> Result<Self, SyncError> {
        let mut child = spawn(remote, host, command)?;
        let input = child.stdin.take();
        let output = child.stdout.take().expect("it is piped");
        let (sender, lines) = channel();
        // A thread reads output during writes; otherwise both ends could wait for each other.
        thread::spawn(move || read(BufReader::new(output), sender));
        Ok(Self { child, input, lines, timeout: TIMEOUT, is_given_up: false })
    }

    /// Writes `bytes` to the program's standard input.
    ///
    /// # Errors
    /// `TimedOut` if the program does not read for too long.
    pub(super) fn say(&mut self, bytes: &[u8]) -> io::Result<()> {
        let input = self.input.as_mut().expect("it is open until the end is waited for");
        let written = write_within(input, bytes, self.timeout);
        if written.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::TimedOut) {
            self.give_up();
        }
        written
    }

    /// Returns the next line of output, with unprintable characters escaped. `None` at the end, after too long a
    /// silence, or after too much output.
    pub(super) fn line(&mut self) -> Option<String> {
        let line = self.lines.recv_timeout(self.timeout);
        if line == Err(RecvTimeoutError::Timeout) {
            self.give_up();
        }
        line.ok()
    }

    fn give_up(&mut self) {
        self.is_given_up = true;
        self.child.kill().ok();
    }

    /// Closes the input and waits for the program to end.
    ///
    /// # Errors
    /// `Timeout` for a killed program, `NoRemoteProgram` for code 127, `RemoteShell` for code 255, otherwise
    /// `Stream`.
    pub(super) fn finish(mut self) -> Result<(), Exit> {
        drop(self.input.take());
        let status = self.wait();
        match status.and_then(|status| status.code()) {
            _ if self.is_given_up => Err(Exit::Timeout),
            Some(0) => Ok(()),
            Some(127) => Err(Exit::NoRemoteProgram),
            Some(255) => Err(Exit::RemoteShell),
            _ => Err(Exit::Stream),
        }
    }

    fn wait(&mut self) -> Option<ExitStatus> {
        if !self.is_given_up {
            let status = wait_at_most(&mut self.child, self.timeout);
            self.is_given_up = status.is_none();
            return status;
        }
        self.child.wait().ok()
    }
}

/// Starts `command` on `host` through the remote shell, with pipes for input and output.
pub(super) fn spawn(remote: &Remote, host: &str, command: &[OsString]) -> Result<Child, SyncError> {
    let words = remote.command_line(host, command)?;
    let Some((program, args)) = words.split_first() else {
        return Err(SyncError::Usage("the remote shell (-e) is empty".into()));
    };
    let mut shell = Command::new(program);
    shell.args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
    let program = program.to_string_lossy().into_owned();
    withhold_secrets(&mut shell).spawn().map_err(|source| SyncError::Start { program, source })
}

/// Writes `bytes` to the input of a program.
///
/// # Errors
/// `TimedOut` if the program does not read for `timeout`.
pub(super) fn write_within(
    input: &mut ChildStdin,
    bytes: &[u8],
    timeout: Duration,
) -> io::Result<()> {
    for piece in bytes.chunks(PIECE_BYTES) {
        wait_until_ready(input, PollFlags::OUT, timeout)?;
        input.write_all(piece)?;
    }
    Ok(())
}

/// Waits until a pipe is ready.
///
/// # Errors
/// `TimedOut` after `timeout`.
pub(super) fn wait_until_ready(
    pipe: &impl AsFd,
    flags: PollFlags,
    timeout: Duration,
) -> io::Result<()> {
    let timeout = Timespec::try_from(timeout).map_err(io::Error::other)?;
    match poll(&mut [PollFd::new(pipe, flags)], Some(&timeout))? {
        0 => Err(io::ErrorKind::TimedOut.into()),
        _ => Ok(()),
    }
}

/// Waits for a process to end. After `timeout`, kills the process and returns `None`.
pub(super) fn wait_at_most(child: &mut Child, timeout: Duration) -> Option<ExitStatus> {
    let start = Instant::now();
    while start.elapsed() <= timeout {
        match child.try_wait() {
            Ok(None) => thread::sleep(LOOKING),
            status => return status.ok()?,
        }
    }
    child.kill().ok();
    child.wait().ok();
    None
}

/// Sends the first lines of `output` to `lines`. Then reads and discards the rest, so that the program does not
/// block.
fn read(mut output: BufReader<ChildStdout>, lines: Sender<String>) {
    for _ in 0..MAX_LINES {
        let mut line = Vec::new();
        let read = output.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line);
        let Some(line) = read.ok().and_then(|_| line.strip_suffix(b"\n")) else { break };
        if lines.send(printable(line)).is_err() {
            break;
        }
    }
    drop(lines);
    io::copy(&mut output, &mut io::sink()).ok();
}

/// Longest silence of the other machine. The user may have to type a passphrase meanwhile.
pub(super) const TIMEOUT: Duration = Duration::from_secs(300);
/// Interval of checks whether the remote shell has ended.
const LOOKING: Duration = Duration::from_millis(10);
/// Bytes that fit into a pipe that is ready for writing.
const PIECE_BYTES: usize = 4096;
/// Most lines returned to the caller.
const MAX_LINES: usize = 64;
/// Longest line, in bytes.
pub(super) const MAX_LINE_BYTES: u64 = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn far(script: &str) -> RemoteProgram {
        let shell = ["sh", "-c", script].map(OsString::from).into();
        let remote = Remote::with_shell(shell);
        let far = RemoteProgram::start(&remote, "h", &["true".into()]).unwrap();
        RemoteProgram { timeout: Duration::from_millis(200), ..far }
    }

    #[test]
    fn who_says_nothing_or_reads_nothing_or_does_not_end_is_given_up() {
        let mut silent = far("exec sleep 600");
        assert_eq!(silent.line(), None);
        assert_eq!(silent.finish(), Err(Exit::Timeout));
        let mut deaf = far("exec sleep 600");
        assert_eq!(deaf.say(&[0; 1 << 20]).unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(deaf.finish(), Err(Exit::Timeout));
        assert_eq!(far("exec sleep 600 >/dev/null").finish(), Err(Exit::Timeout));
    }

    #[test]
    fn it_is_read_while_it_is_written_to_and_only_the_first_lines_are_kept() {
        let mut talker = far("yes | head -c 4000000; cat >/dev/null");
        talker.timeout = TIMEOUT;
        talker.say(&[b'x'; 1 << 20]).unwrap();
        let mut lines = 0;
        while talker.line().is_some() {
            lines += 1;
        }
        assert_eq!(lines, MAX_LINES);
        assert_eq!(talker.finish(), Ok(()));
    }

    #[test]
    fn what_it_says_drives_no_terminal() {
        let mut far = far(r"printf '\033]0;x\007\n'");
        far.timeout = TIMEOUT;
        assert_eq!(far.line().as_deref(), Some(r"\u{1b}]0;x\u{7}"));
    }
}
