//! The request for a WebSocket.
//!
//! hyper makes it, and not the library of WebSockets: that panics where the accept of an answer is too long.

use std::pin::Pin;

use bytes::Bytes;
use deltic_net::plan::Stream;
use http::{Request, StatusCode, header};
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;

use super::Address;
use crate::token::Token;
use crate::upgrade::{accept, new_key};
use crate::{SOCKET_PATH, SUBPROTOCOL};

/// Why there is no WebSocket.
#[derive(Debug)]
pub(super) enum NoSocket {
    /// The server has another answer.
    Answered(StatusCode),
    /// No answer came, or one that makes no sense.
    Garbled(String),
}

impl Address {
    /// Asks for a WebSocket over a stream to the server, and hands the stream over once the server agrees.
    pub(super) async fn upgrade(
        &self,
        stream: Pin<Box<dyn Stream>>,
        token: &Token,
    ) -> Result<TokioIo<Upgraded>, NoSocket> {
        let key = new_key();
        let request = Request::builder()
            .uri(self.at(SOCKET_PATH))
            .header(header::HOST, &self.authority)
            .header(header::CONNECTION, "Upgrade")
            .header(header::UPGRADE, "websocket")
            .header(header::SEC_WEBSOCKET_VERSION, "13")
            .header(header::SEC_WEBSOCKET_KEY, &key)
            .header(header::SEC_WEBSOCKET_PROTOCOL, SUBPROTOCOL)
            .header(header::AUTHORIZATION, format!("Bearer {}", token.reveal()))
            .body(Empty::<Bytes>::new());
        let request = request.map_err(|error| NoSocket::Garbled(error.to_string()))?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection.with_upgrades());
        let answer = sender.send_request(request).await?;
        if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Err(NoSocket::Answered(answer.status()));
        }
        let said = answer.headers().get(header::SEC_WEBSOCKET_ACCEPT);
        if said.is_none_or(|said| said.as_bytes() != accept(&key).as_bytes()) {
            return Err(NoSocket::Garbled("what it accepts is another request".into()));
        }
        Ok(TokioIo::new(hyper::upgrade::on(answer).await?))
    }
}

impl From<hyper::Error> for NoSocket {
    fn from(error: hyper::Error) -> Self {
        Self::Garbled(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    /// What comes behind an answer to a request, which has the right accept where `ACCEPT` stands.
    async fn asked(answer: &str) -> Result<String, NoSocket> {
        let (near, mut far) = duplex(8192);
        let answering = async {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(far.read_u8().await.unwrap());
            }
            let head = String::from_utf8(head).unwrap();
            assert!(head.starts_with("GET /v1/ws HTTP/1.1\r\n"), "{head}");
            let key = head.lines().find_map(|line| line.strip_prefix("sec-websocket-key: "));
            let answer = answer.replace("ACCEPT", &accept(key.expect("it has one")));
            far.write_all(answer.as_bytes()).await.unwrap();
            drop(far);
        };
        let asking = async {
            let address: Address = "http://127.0.0.1:1/v/".parse().unwrap();
            let mut socket = address.upgrade(Box::pin(near), &Token::random()).await?;
            let mut rest = String::new();
            socket.read_to_string(&mut rest).await.unwrap();
            Ok(rest)
        };
        tokio::join!(asking, answering).0
    }

    #[tokio::test]
    async fn an_answer_that_makes_no_sense_is_none() {
        let switch = |accept: &str| {
            format!(
                "HTTP/1.1 101 x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                 Sec-WebSocket-Accept: {accept}\r\n\r\nbytes behind it"
            )
        };
        assert_eq!(asked(&switch("ACCEPT")).await.unwrap(), "bytes behind it");
        for accept in [
            "",
            "x",
            "AAAA",
            "AAAAAAAAAAAAAAAAAAAAAAAAAAA=",
            &"A".repeat(28),
            &"A".repeat(4000),
            "ACCEPTx",
        ] {
            let met = asked(&switch(accept)).await.unwrap_err();
            assert!(matches!(met, NoSocket::Garbled(_)), "{accept}: {met:?}");
        }
        for answer in
            ["x\r\n\r\n", "HTTP/1.1 101 x\r\n\r\n", "HTTP/1.1 101 x\r\nUpgrade: a\r\n\r\n"]
        {
            let met = asked(answer).await.unwrap_err();
            assert!(matches!(met, NoSocket::Garbled(_)), "{answer}: {met:?}");
        }
        let met = asked("HTTP/1.1 503 x\r\nContent-Length: 0\r\n\r\n").await.unwrap_err();
        assert!(matches!(met, NoSocket::Answered(StatusCode::SERVICE_UNAVAILABLE)), "{met:?}");
    }
}
