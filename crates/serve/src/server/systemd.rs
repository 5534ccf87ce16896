//! systemd: socket activation, and notifications about the state of the service.

use std::env;
use std::io;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use listenfd::ListenFd;

/// Returns the listening socket that systemd passed to this process (`LISTEN_FDS`), if any. Errors: `InvalidInput` if
/// several sockets were passed.
pub(super) fn opened_socket() -> io::Result<Option<TcpListener>> {
    let mut sockets = ListenFd::from_env();
    match sockets.len() {
        0 => Ok(None),
        1 => sockets.take_tcp_listener(0),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "more than one socket was opened")),
    }
}

/// The socket for notifications to systemd (`NOTIFY_SOCKET`), if there is one.
#[derive(Debug)]
pub(super) struct Notify(Option<(UnixDatagram, SocketAddr)>);

impl Notify {
    pub(super) fn from_env() -> Self {
        let address = || {
            let path = env::var_os("NOTIFY_SOCKET")?;
            match path.as_bytes().strip_prefix(b"@") {
                Some(name) => SocketAddr::from_abstract_name(name).ok(),
                None => SocketAddr::from_pathname(&path).ok(),
            }
        };
        Self(address().and_then(|to| Some((UnixDatagram::unbound().ok()?, to))))
    }

    /// Sends a state, without waiting for an answer. Errors are ignored.
    pub(super) fn send(&self, state: &str) {
        if let Some((socket, to)) = &self.0 {
            socket.send_to_addr(state.as_bytes(), to).ok();
        }
    }

    /// Sends watchdog notifications at half the interval of `WATCHDOG_USEC`, for ever. Without a watchdog, only
    /// waits.
    pub(super) async fn stay_alive(&self) {
        let micros = env::var("WATCHDOG_USEC").ok().and_then(|micros| micros.parse::<u64>().ok());
        let Some(micros) = micros.filter(|micros| *micros > 1 && self.0.is_some()) else {
            return std::future::pending().await;
        };
        let mut ticks = tokio::time::interval(Duration::from_micros(micros / 2));
        loop {
            ticks.tick().await;
            self.send("WATCHDOG=1");
        }
    }
}
