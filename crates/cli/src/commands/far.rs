//! A program on another machine, started through the remote shell, and talked to over its standard input and output.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use deltic_net::SyncError;
use deltic_net::plan::Remote;

use crate::exit::Exit;

/// A program that runs.
pub(super) struct Far {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Far {
    /// Starts `command` on `host`.
    pub(super) fn start(
        remote: &Remote,
        host: &str,
        command: &[OsString],
    ) -> Result<Self, SyncError> {
        let words = remote.words(host, command)?;
        let Some((program, args)) = words.split_first() else {
            return Err(SyncError::Usage("the remote shell (-e) is empty".into()));
        };
        let mut shell = Command::new(program);
        shell.args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
        let program = program.to_string_lossy().into_owned();
        let mut child = shell.spawn().map_err(|source| SyncError::Start { program, source })?;
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        Ok(Self { child, input, output })
    }

    /// Sends it these bytes.
    pub(super) fn say(&mut self, bytes: &[u8]) -> io::Result<()> {
        let input = self.input.as_mut().expect("it is open until the end is waited for");
        input.write_all(bytes).and_then(|()| input.flush())
    }

    /// The next line that it says, without its end; nothing at the end, or where a line has none for long.
    pub(super) fn line(&mut self) -> Option<String> {
        let mut line = Vec::new();
        let mut limited = io::Read::take(&mut self.output, MAX_LINE_BYTES);
        limited.read_until(b'\n', &mut line).ok()?;
        let line = line.strip_suffix(b"\n")?;
        Some(String::from_utf8_lossy(line).into_owned())
    }

    /// Waits for its end, and says what that means where it was no good one.
    pub(super) fn finish(mut self) -> Result<(), Exit> {
        drop(self.input.take());
        // What it still says is nobody's, but it may say it.
        io::copy(&mut self.output, &mut io::sink()).ok();
        match self.child.wait().ok().and_then(|status| status.code()) {
            Some(0) => Ok(()),
            Some(127) => Err(Exit::NoRemoteProgram),
            Some(255) => Err(Exit::RemoteShell),
            _ => Err(Exit::Stream),
        }
    }
}

/// Longest line that is read.
const MAX_LINE_BYTES: u64 = 64 << 10;
