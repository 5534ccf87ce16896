//! Words to and from systemd: the socket that it opened for this process, and the state that it is told.

use std::env;
use std::io;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use listenfd::ListenFd;

/// Takes the socket that was opened for this process, if one was (`LISTEN_FDS`).
pub(super) fn opened_socket() -> io::Result<Option<TcpListener>> {
    let mut sockets = ListenFd::from_env();
    match sockets.len() {
        0 => Ok(None),
        1 => sockets.take_tcp_listener(0),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "more than one socket was opened")),
    }
}

/// Whoever wants to know the state of this process (`NOTIFY_SOCKET`), if somebody does.
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

    /// Sends a state; nobody waits for an answer.
    pub(super) fn send(&self, state: &str) {
        if let Some((socket, to)) = &self.0 {
            socket.send_to_addr(state.as_bytes(), to).ok();
        }
    }

    /// Gives a sign of life as often as it is asked for (`WATCHDOG_USEC`); else it waits for ever.
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
