//! `deltic facts`: asks file systems on behalf of other users' syncs.

use std::fs::{self, DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use anyhow::{Context, Result, bail};
use deltic_net::facts;
use deltic_tree::path::printable;
use listenfd::ListenFd;

use crate::args::tools::FactsArgs;

/// Answers until the process is ended.
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
    if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
        DirBuilder::new().recursive(true).mode(0o755).create(dir)?;
    }
    // One that nobody listens at is left by a service that was killed.
    match UnixStream::connect(path) {
        Ok(_) => bail!("a service listens there already"),
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path)?;
        }
        Err(_) => {}
    }
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o666))?;
    Ok(listener)
}
