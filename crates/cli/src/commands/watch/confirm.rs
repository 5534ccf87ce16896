//! `deltic watch --confirm`: the user's confirmation for watches that hold deletions back.
//!
//! Each watch listens on a socket, in a directory that only its user can enter. A connection confirms; the answer is
//! the number of names confirmed.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process;
use std::thread;
use std::time::Duration;

use deltic_net::open_own_dir;
use deltic_net::watch::Confirming;

use crate::plan::cache;

/// The socket of a watch that waits for a confirmation; removed when dropped.
#[derive(Debug)]
pub(super) struct ConfirmSocket {
    dir: SocketDir,
    name: String,
}

impl Drop for ConfirmSocket {
    fn drop(&mut self) {
        fs::remove_file(self.dir.path(&self.name)).ok();
    }
}

/// The user's own directory of sockets, held open, so that no other directory can take its place.
#[derive(Debug)]
struct SocketDir(OwnedFd);

impl SocketDir {
    fn open() -> io::Result<Self> {
        let dir = Self(open_own_dir(&path()?)?);
        fs::set_permissions(dir.path(""), fs::Permissions::from_mode(0o700))?;
        Ok(dir)
    }

    /// Returns a path of `name` in this directory. The path is short, as a socket's path must be.
    fn path(&self, name: impl AsRef<OsStr>) -> PathBuf {
        Path::new("/proc/self/fd").join(self.0.as_raw_fd().to_string()).join(name.as_ref())
    }
}

fn path() -> io::Result<PathBuf> {
    let dir = cache::dir().ok_or_else(|| io::Error::other("HOME is not set"))?;
    Ok(dir.join("watch"))
}

/// Longest wait for the other side: a stopped watch does not answer.
const TIMEOUT: Duration = Duration::from_secs(5);
const ENDING: &str = "sock";
/// Most watches of one process number: containers that share a directory may use the same number.
const MOST: u32 = 100;
/// Most bytes read of an answer.
const MAX_ANSWER_BYTES: u64 = 1 << 20;

/// Starts a thread that takes confirmations for the watch of these `operands`.
pub(super) fn listen(confirming: Confirming, operands: String) -> io::Result<ConfirmSocket> {
    let dir = SocketDir::open()?;
    let (listener, name) = bind(&dir)?;
    let answer = move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else {
                // There may be too many open files, for example. Try again later.
                thread::sleep(Duration::from_secs(1));
                continue;
            };
            let names = confirming.confirm();
            stream.set_write_timeout(Some(TIMEOUT)).ok();
            stream.write_all(format!("{names} {operands}").as_bytes()).ok();
        }
    };
    thread::Builder::new().spawn(answer)?;
    Ok(ConfirmSocket { dir, name })
}

/// Binds to the first free name of this process number.
fn bind(dir: &SocketDir) -> io::Result<(UnixListener, String)> {
    for n in 0..MOST {
        let name = format!("{}-{n}.{ENDING}", process::id());
        let path = dir.path(&name);
        if is_stale_socket(&path) {
            fs::remove_file(&path)?;
        }
        match UnixListener::bind(&path) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            bound => return Ok((bound?, name)),
        }
    }
    Err(io::ErrorKind::AddrInUse.into())
}

/// True if no process listens at `path` any more. A datagram socket cannot connect to a watch, so this check is not a
/// confirmation.
fn is_stale_socket(path: &Path) -> bool {
    let asked = UnixDatagram::unbound().and_then(|socket| socket.connect(path));
    asked.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

/// Returns the command that confirms here. A service may have another cache directory than its user.
pub(super) fn command() -> String {
    let command = "deltic watch --confirm";
    let dir = std::env::var(cache::VARIABLE).ok().filter(|dir| !dir.is_empty());
    let word = dir.and_then(|dir| Some(shlex::try_quote(&dir).ok()?.into_owned()));
    word.map_or_else(|| command.into(), |dir| format!("{}={dir} {command}", cache::VARIABLE))
}

/// Confirms to every watch of this user. Returns the number of names and the operands of each watch that held names
/// back.
///
/// Calls `remark` for each watch that cannot be reached.
pub(super) fn confirm(mut remark: impl FnMut(&Path, &io::Error)) -> io::Result<Vec<(u64, String)>> {
    if !path()?.try_exists()? {
        return Ok(Vec::new());
    }
    let dir = SocketDir::open()?;
    let mut confirmed = Vec::new();
    for entry in fs::read_dir(dir.path(""))? {
        let name = PathBuf::from(entry?.file_name());
        if name.extension().is_some_and(|ending| ending == ENDING) {
            match confirm_at(&dir.path(&name)) {
                Ok(answer) => confirmed.extend(answer.filter(|(names, _)| *names > 0)),
                Err(error) => remark(&name, &error),
            }
        }
    }
    Ok(confirmed)
}

fn confirm_at(path: &Path) -> io::Result<Option<(u64, String)>> {
    let stream = match UnixStream::connect(path) {
        // The watch was killed, or has just ended.
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).ok();
            return Ok(None);
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        stream => stream?,
    };
    stream.set_read_timeout(Some(TIMEOUT))?;
    let mut answer = Vec::new();
    match stream.take(MAX_ANSWER_BYTES).read_to_end(&mut answer) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            return Err(io::Error::other("no answer"));
        }
        read => read?,
    };
    let answer = String::from_utf8_lossy(&answer);
    let parts = answer.split_once(' ');
    Ok(parts.and_then(|(names, operands)| Some((names.parse().ok()?, operands.into()))))
}
