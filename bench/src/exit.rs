//! Exit codes and error messages.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use deltic_net::{SyncError, reason};
use deltic_tree::path::printable;

/// An exit code, as `deltic` defines the codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    Success = 0,
    /// Invalid command line.
    Usage = 1,
    /// Inputs that cannot be measured.
    Selection = 3,
    /// Reading or writing files failed.
    Files = 11,
    /// A sync or the program at the far end failed.
    Stream = 12,
    Interrupted = 20,
    /// Some inputs or programs were skipped.
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

/// Prints an error message and a hint.
pub(crate) fn complain(what: &str, hint: Option<&str>) {
    eprintln!("deltic-bench: {what}");
    if let Some(hint) = hint {
        eprintln!("  hint: {hint}");
    }
}

/// Prints why a comparison ended early. Returns the exit code.
pub(crate) fn give_up(error: &anyhow::Error) -> Exit {
    let exit = error.into();
    complain(&if exit == Exit::Interrupted { "interrupted".into() } else { words(error) }, None);
    exit
}

/// Prints that an output file is an input. Returns the exit code.
pub(crate) fn refuse_input(file: &Path) -> Exit {
    let message = format!("write {}: it is one of the inputs", shown(file));
    complain(&message, Some("choose another output path"));
    Exit::Usage
}

/// Formats a path for a terminal, with control characters escaped.
pub(crate) fn shown(path: &Path) -> String {
    printable(path.as_os_str().as_bytes())
}

/// Formats the chain of causes of an error, the outermost first. System errors appear without their numbers.
pub(crate) fn words(error: &anyhow::Error) -> String {
    let word = |cause: &(dyn std::error::Error + 'static)| {
        cause.downcast_ref().map_or_else(|| cause.to_string(), reason)
    };
    error.chain().map(word).collect::<Vec<_>>().join(": ")
}

/// Writes lines to standard output. A closed pipe (`
///  head`) is not an error.
pub(crate) fn print(lines: &[String]) -> Result<()> {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    match io::Write::write_all(&mut io::stdout().lock(), text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("write standard output")
        }
        _ => Ok(()),
    }
}
