//! `deltic watch --confirm`: the user's word to watches that hold deletions back. Each of them listens on a socket, in a
//! directory that only its user can enter; a connection is the word, and the answer says how many names it was for.

use std::fs::{self, DirBuilder};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process;
use std::thread;
use std::time::Duration;

use deltic_net::watch::Confirming;

use crate::cache;

/// A watch that takes the word, as long as this lives.
#[derive(Debug)]
pub(super) struct Listening(PathBuf);

impl Drop for Listening {
    fn drop(&mut self) {
        fs::remove_file(&self.0).ok();
    }
}

/// How long a watch may take to answer: one that is stopped does not.
const PATIENCE: Duration = Duration::from_secs(5);
const ENDING: &str = "sock";

fn dir() -> io::Result<PathBuf> {
    let dir = cache::dir().ok_or_else(|| io::Error::other("HOME is not set"))?;
    Ok(dir.join("watch"))
}

/// Takes the word for a watch of these `operands`.
pub(super) fn listen(confirming: Confirming, operands: String) -> io::Result<Listening> {
    let dir = dir()?;
    DirBuilder::new().recursive(true).mode(0o700).create(&dir)?;
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o700))?;
    let path = dir.join(format!("{}.{ENDING}", process::id()));
    // It was of another process of this number.
    fs::remove_file(&path).ok();
    let listener = UnixListener::bind(&path)?;
    let answer = move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let names = confirming.confirm();
            stream.write_all(format!("{names} {operands}").as_bytes()).ok();
        }
    };
    thread::Builder::new().spawn(answer)?;
    Ok(Listening(path))
}

/// Gives every watch of this user the word; of those that held names back how many, and the operands.
pub(super) fn confirm() -> io::Result<Vec<(u64, String)>> {
    let dir = match fs::read_dir(dir()?) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        dir => dir?,
    };
    let mut confirmed = Vec::new();
    for entry in dir {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == ENDING) {
            confirmed.extend(confirm_at(&path)?.filter(|(names, _)| *names > 0));
        }
    }
    Ok(confirmed)
}

fn confirm_at(path: &Path) -> io::Result<Option<(u64, String)>> {
    let mut stream = match UnixStream::connect(path) {
        // The watch was killed, or has ended just now.
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).ok();
            return Ok(None);
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        stream => stream?,
    };
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let parts = answer.split_once(' ');
    Ok(parts.and_then(|(names, operands)| Some((names.parse().ok()?, operands.into()))))
}
