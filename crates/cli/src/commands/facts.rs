//! `deltic facts`: queries file systems on behalf of other users' syncs.

use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use anyhow::{Context, Result, bail};
use deltic_net::{NamedDir, facts};
use deltic_tree::path::printable;
use listenfd::ListenFd;
use rustix::fs::Mode;
use rustix::process::umask;

use crate::args::tools::FactsArgs;

/// Serves until the process is killed.
pub(crate) fn run(args: &FactsArgs) -> Result<()> {
    deltic_net::walls::hide_memory();
    let path = args.socket.clone().unwrap_or_else(facts::socket);
    let mut opened = ListenFd::from_env();
    let listener =
        match opened.take_unix_listener(0).context("cannot take the socket of LISTEN_FDS")? {
            Some(listener) => listener,
            None => listen(&path).with_context(|| {
                format!("cannot listen at {}", printable(path.as_os_str().as_encoded_bytes()))
            })?,
        };
    facts::keep_one_right().context("CAP_SYS_ADMIN is needed: start this as root")?;
    match facts::serve(&listener).context("cannot wait for connections")? {}
}

fn listen(path: &Path) -> Result<UnixListener> {
    let name = path.file_name().context("the path has no file name")?;
    let above = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    let dir =
        NamedDir::of_operator(above.unwrap_or_else(|| Path::new("."))).open_or_create(0o755)?;
    let path = Path::new("/proc/self/fd").join(dir.as_raw_fd().to_string()).join(name);
    // A socket without a listener is left over from a killed service.
    match UnixStream::connect(&path) {
        Ok(_) => bail!("a service listens there already"),
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
            fs::remove_file(&path)?;
        }
        Err(_) => {}
    }
    // Let all users connect from the start. A later `chmod` by name would be unsafe: another user might replace the
    // file.
    let before = umask(Mode::from_raw_mode(0o111));
    let listener = UnixListener::bind(&path);
    umask(before);
    Ok(listener?)
}
