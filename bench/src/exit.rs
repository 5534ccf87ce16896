//! Exit codes, and the words for errors.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use deltic_net::{SyncError, reason};
use deltic_tree::path::printable;

/// An exit code, with the meaning that it has for `deltic`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    Success = 0,
    /// The words make no sense.
    Usage = 1,
    /// The inputs cannot be measured.
    Selection = 3,
    /// Reading or writing files failed.
    Files = 11,
    /// A sync or its far end failed.
    Stream = 12,
    Interrupted = 20,
    /// Some inputs or programs were left out.
    Partial = 23,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        (exit as u8).into()
    }
}

impl From<&anyhow::Error> for Exit {
    fn from(error: &anyhow::Error) -> Self {
        if let Some(SyncError::Interrupted) = error.downcast_ref() {
            Self::Interrupted
        } else if error.chain().any(|cause| cause.is::<io::Error>()) {
            Self::Files
        } else if error.is::<SyncError>() {
            Self::Stream
        } else {
            Self::Selection
        }
    }
}

/// Says what went wrong, and what to do about it.
pub(crate) fn complain(what: &str, hint: Option<&str>) {
    eprintln!("deltic-bench: {what}");
    if let Some(hint) = hint {
        eprintln!("  hint: {hint}");
    }
}

/// Says why a comparison ended early.
pub(crate) fn give_up(error: &anyhow::Error) -> Exit {
    let exit = error.into();
    complain(&if exit == Exit::Interrupted { "interrupted".into() } else { words(error) }, None);
    exit
}

/// Refuses to write over an input.
pub(crate) fn refuse_input(file: &Path) -> Exit {
    let message = format!("write {}: it is one of the inputs", shown(file));
    complain(&message, Some("name another place for the figures"));
    Exit::Usage
}

/// A path for people: no name drives the terminal.
pub(crate) fn shown(path: &Path) -> String {
    printable(path.as_os_str().as_bytes())
}

/// The causes of an error, from the outside in; the system's own words without their numbers.
pub(crate) fn words(error: &anyhow::Error) -> String {
    let word = |cause: &(dyn std::error::Error + 'static)| {
        cause.downcast_ref().map_or_else(|| cause.to_string(), reason)
    };
    error.chain().map(word).collect::<Vec<_>>().join(": ")
}

/// Writes lines to standard output. A reader that leaves early (`| head`) is no fault.
pub(crate) fn print(lines: &[String]) -> Result<()> {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    match io::Write::write_all(&mut io::stdout().lock(), text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("write standard output")
        }
        _ => Ok(()),
    }
}
