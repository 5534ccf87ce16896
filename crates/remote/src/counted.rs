//! Counts the bytes that sockets receive: headers, TLS and repeated requests included.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ureq::Error;
use ureq::unversioned::transport::{
    Buffers, ConnectProxyConnector, ConnectionDetails, Connector, Either, NextTimeout,
    RustlsConnector, TcpConnector, Transport,
};

/// Returns a connector for `http` and `https` that adds the bytes received by each socket to `received`.
pub(crate) fn connector(received: &Arc<AtomicU64>) -> impl Connector {
    let counting = CountingConnector(Arc::clone(received));
    let tcp = ConnectProxyConnector::default().chain(TcpConnector::default());
    tcp.chain(counting).chain(RustlsConnector::default())
}

/// Wraps new sockets. A tunnel through a proxy runs over a socket that is counted already.
#[derive(Debug)]
struct CountingConnector(Arc<AtomicU64>);

impl<In: Transport, Socket: Transport> Connector<Either<In, Socket>> for CountingConnector {
    type Out = Either<In, CountedSocket<Socket>>;

    fn connect(
        &self,
        _: &ConnectionDetails<'_>,
        chained: Option<Either<In, Socket>>,
    ) -> Result<Option<Self::Out>, Error> {
        Ok(chained.map(|chained| match chained {
            Either::A(tunnel) => Either::A(tunnel),
            Either::B(socket) => Either::B(CountedSocket { socket, received: Arc::clone(&self.0) }),
        }))
    }
}

/// A socket whose received bytes are counted.
struct CountedSocket<Socket> {
    socket: Socket,
    received: Arc<AtomicU64>,
}

impl<Socket: Transport> fmt::Debug for CountedSocket<Socket> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.socket.fmt(f)
    }
}

impl<Socket: Transport> Transport for CountedSocket<Socket> {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.socket.buffers()
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.socket.transmit_output(amount, timeout)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        let before = self.socket.buffers().input().len();
        let answered = self.socket.await_input(timeout);
        let arrived = self.socket.buffers().input().len().saturating_sub(before);
        self.received.fetch_add(arrived as u64, Ordering::Relaxed);
        answered
    }

    fn is_open(&mut self) -> bool {
        self.socket.is_open()
    }
}
