//! Batch files of a sync: `--write-batch`, `--only-write-batch` and `--read-batch`.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions, Permissions, remove_file};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use deltic_net::plan::{self, Destination};
use deltic_net::{NamedFile, Spool, Trust, spool_batch};
use deltic_tree::path::printable;

use super::files::{PendingFile, ResultFile};
use super::run::{FinishedRun, sync};
use crate::args::options_again;
use crate::args::travel::BatchUse;
use crate::plan::SyncRequest;
use crate::report::exit::Exit;
use crate::words::is_rsync;
use crate::words::shell::quoted;

/// Runs one sync that writes or reads a batch.
///
/// # Errors
/// The exit code and the error, if the batch file or its script cannot be opened or written.
pub(super) fn run(
    batch: &BatchUse,
    mut request: SyncRequest,
) -> Result<Exit, (Exit, anyhow::Error)> {
    let trust = Trust::new(request.plan.options.follow.insecure);
    let (path, only) = match batch {
        BatchUse::Write(path) => (path, false),
        BatchUse::OnlyWrite(path) => (path, true),
        BatchUse::Read(path) => {
            let name = printable(path.as_os_str().as_bytes());
            let file = open(path, trust).with_context(|| format!("cannot open {}", path.display()));
            let file = match file.map_err(|error| (Exit::Files, error))? {
                BatchInput::Whole(file) => Arc::new(file),
                BatchInput::Stream(..)
                    if path != Path::new("-") && !request.ways.reads_streams() =>
                {
                    let error = anyhow!("batch file {name} is not a regular file");
                    return Err((Exit::Files, error));
                }
                BatchInput::Stream(stream, spool) => spooled(stream, &name, spool)?,
            };
            request.plan.batch = Some(plan::Batch::Read { file, name });
            return Ok(sync(request).exit);
        }
    };
    // The script is created first, and its errors have a separate exit code, as in rsync.
    let beside: OsString = [path.as_os_str(), OsStr::new(".sh")].into_iter().collect();
    let beside =
        ResultFile::create(Path::new(&beside), Some(&Permissions::from_mode(0o700)), trust);
    let beside = beside.map_err(|error| (Exit::Selection, error))?;
    let created = PendingFile::create(path, Some(&Permissions::from_mode(0o600)), trust);
    let (new, file) = created.map_err(|error| (Exit::Files, error))?;
    let keep = if only { plan::Batch::OnlyWrite } else { plan::Batch::Write };
    request.plan.batch = Some(keep(Arc::new(file)));
    let script = script(path, &request.plan.destination);
    let FinishedRun { result, exit } = sync(request);
    if result.is_ok() {
        put_in_place(new, beside, &script).map_err(|error| (Exit::Files, error))?;
    }
    Ok(exit)
}

/// Commits the batch file, then its script.
fn put_in_place(new: PendingFile, mut beside: ResultFile, script: &[u8]) -> Result<()> {
    new.commit()?;
    beside.write(script)?;
    beside.commit()
}

/// An opened batch file to read.
enum BatchInput {
    /// A regular file, readable at any offset.
    Whole(File),
    /// A pipe or a device, and a nameless file for a copy of its bytes.
    Stream(File, Spool),
}

fn open(path: &Path, trust: Trust) -> io::Result<BatchInput> {
    let file = match path == Path::new("-") {
        true => File::from(io::stdin().as_fd().try_clone_to_owned()?),
        false => File::from(NamedFile::find_file(path, trust)?.open_to_read()?),
    };
    if file.metadata()?.is_file() {
        return Ok(BatchInput::Whole(file));
    }
    let dir = std::env::temp_dir();
    let spool = dir.join(format!(".{}.deltic-batch", std::process::id()));
    let mut options = OpenOptions::new();
    let whole = options.read(true).write(true).create_new(true).mode(0o600).open(&spool)?;
    remove_file(&spool)?;
    Ok(BatchInput::Stream(file, Spool { file: Arc::new(whole), dir }))
}

/// Copies `stream` to `spool`, up to the first byte that is invalid in a batch. Messages call the batch `name`.
fn spooled(stream: File, name: &str, spool: Spool) -> Result<Arc<File>, (Exit, anyhow::Error)> {
    let copied = spool_batch(stream, name, &spool);
    copied.map_err(|error| (Exit::from(&error), error.into()))?;
    Ok(spool.file)
}

/// Returns a script that reads the batch into the same destination, or into the destination in its first argument.
fn script(batch: &Path, destination: &Destination) -> Vec<u8> {
    let to = match destination {
        Destination::Local(path) => path.as_os_str(),
        Destination::Remote { path, .. } => path,
    };
    let program = std::env::args_os().next().unwrap_or_else(|| "deltic".into());
    let command = Some("sync").filter(|_| !is_rsync(&program));
    let read = [OsStr::new("--read-batch="), batch.as_os_str()].into_iter().collect();
    let words = [program].into_iter().chain(command.map(Into::into)).chain([read]);
    let words: Vec<_> = words.chain(options_again(LEFT_OUT)).map(|word| quoted(&word)).collect();
    let (to, words) = (quoted(to), words.join(&b' '));
    [b"#!/bin/sh\nto=", &to[..], b"\nexec ", &words, b" -- \"${1:-$to}\"\n"].concat()
}

/// Options left out of the script: the batch replaces or holds sources, rules, and the way to the other machine.
const LEFT_OUT: &[&str] = &[
    "write_batch",
    "only_write_batch",
    "remove_source_files",
    "files_from",
    "from0",
    "filter",
    "exclude",
    "include",
    "exclude-from",
    "include-from",
    "F",
    "cvs-exclude",
    "gitignore",
    "rsh",
    "deltic_path",
    "remote_option",
];
