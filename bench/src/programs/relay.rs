//! `bench relay FILE -- CMD…`: a pipe between the ends that counts bytes. The count survives a kill.
//!
//! Only `kill` and the tests of the counters use a relay, because a relay takes time.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;

use anyhow::{Context, Result};

use super::measured::code;

/// Bytes that passed a relay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RelayCounts {
    /// From the client to the far end.
    pub(crate) up: u64,
    /// From the far end to the client.
    pub(crate) down: u64,
}

impl RelayCounts {
    /// Reads the counts of a relay. Returns zeros if the relay never started.
    pub(crate) fn read(file: &Path) -> Self {
        let bytes = std::fs::read(file).unwrap_or_default();
        let word = |at: usize| {
            bytes
                .get(at..at + 8)
                .and_then(|word| word.try_into().ok())
                .map_or(0, u64::from_le_bytes)
        };
        Self { up: word(UP), down: word(DOWN) }
    }
}

/// Runs `command` between standard input and output, and counts both directions in `file`. Returns the exit code.
pub(crate) fn relay(file: &Path, command: &[OsString]) -> Result<u8> {
    let (program, args) = command.split_first().context("relay needs a command")?;
    let counts =
        Arc::new(File::create(file).with_context(|| format!("create {}", file.display()))?);
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("start {}", program.display()))?;
    let to = child.stdin.take().context("a piped input")?;
    let from = child.stdout.take().context("a piped output")?;
    let up = Arc::clone(&counts);
    // Not joined: this thread may block on a client that stays open after the far end is gone.
    thread::spawn(move || pass(io::stdin(), to, &up, UP));
    pass(from, io::stdout(), &counts, DOWN);
    Ok(code(child.wait()?))
}

/// Copies bytes until either side closes.
fn pass(mut from: impl Read, mut to: impl Write, counts: &File, place: usize) {
    let mut buffer = vec![0; BUFFER];
    let mut total = 0;
    while let Ok(len @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..len]).and_then(|()| to.flush()).is_err() {
            return;
        }
        total += len as u64;
        // A failed write of the count must not stop the transfer. The test of the counters notices a wrong figure.
        counts.write_all_at(&u64::to_le_bytes(total), place as u64).ok();
    }
}

const UP: usize = 0;
const DOWN: usize = 8;
const BUFFER: usize = 1 << 16;
