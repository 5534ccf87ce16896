//! The WebSocket request of a client.
//!
//! The request is made with hyper, because the WebSocket library panics on an answer with an overlong
//! `Sec-WebSocket-Accept`.

use std::error::Error as _;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use deltic_carrier::{SOCKET_PATH, SUBPROTOCOL};
use deltic_net::plan::Stream;
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;

use super::Address;
use super::refusal::{detail, retry_after};
use crate::token::Token;
use crate::upgrade::{accept, new_key};

/// Longest error body that is read, in bytes.
const MAX_REASON: usize = 4 << 10;

/// Reason why there is no WebSocket.
#[derive(Debug)]
pub(super) enum NoSocket {
    /// The server answered with this status.
    Answered(StatusCode),
    /// The rate of requests was exceeded (429), with the server's reason and the time to wait.
    Busy(String, Duration),
    /// The connection ended before a complete answer.
    Ended(String),
    /// The answer is not HTTP.
    NotHttp(String),
    /// The answer is invalid.
    Garbled(String),
}

impl Address {
    /// Requests a WebSocket over a stream to the server. Returns the upgraded stream.
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
            return Err(NoSocket::said_by(answer).await);
        }
        let said = answer.headers().get(header::SEC_WEBSOCKET_ACCEPT);
        if said.is_none_or(|said| said.as_bytes() != accept(&key).as_bytes()) {
            return Err(NoSocket::Garbled("the server accepted another WebSocket key".into()));
        }
        Ok(TokioIo::new(hyper::upgrade::on(answer).await?))
    }
}

impl NoSocket {
    /// Reads the reason of a refusal. The body is read up to a limit, because other servers may send endless bodies.
    async fn said_by(answer: Response<Incoming>) -> Self {
        let status = answer.status();
        let wait =
            retry_after(answer.headers()).filter(|_| status == StatusCode::TOO_MANY_REQUESTS);
        let Some(wait) = wait else { return Self::Answered(status) };
        let body = Limited::new(answer.into_body(), MAX_REASON).collect().await;
        let why = body.ok().and_then(|body| detail(&body.to_bytes()));
        Self::Busy(why.unwrap_or_else(|| "too many requests".into()), wait)
    }
}

impl From<hyper::Error> for NoSocket {
    fn from(error: hyper::Error) -> Self {
        let io = error.source().and_then(|source| source.downcast_ref::<io::Error>());
        let has_ended = error.is_incomplete_message() || error.is_closed() || io.is_some();
        match has_ended {
            true => Self::Ended(error.to_string()),
            false if is_not_http(&error) => Self::NotHttp(error.to_string()),
            false => Self::Garbled(error.to_string()),
        }
    }
}

/// True if the answer did not begin as an answer of HTTP does.
pub(super) fn is_not_http(error: &hyper::Error) -> bool {
    error.is_parse() && !error.is_parse_status()
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;
    use crate::token::new_token;

    /// Returns the bytes after the answer to a request. `ACCEPT` in the answer stands for the right value.
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
            let mut socket = address.upgrade(Box::pin(near), &new_token()).await?;
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
        for answer in ["HTTP/1.1 101 x\r\n\r\n", "HTTP/1.1 101 x\r\nUpgrade: a\r\n\r\n"] {
            let met = asked(answer).await.unwrap_err();
            assert!(matches!(met, NoSocket::Garbled(_)), "{answer}: {met:?}");
        }
        // The second one is an alert of TLS.
        for answer in ["x\r\n\r\n", "\x15\x03\x03\0\x02\x02\x46"] {
            let met = asked(answer).await.unwrap_err();
            assert!(matches!(met, NoSocket::NotHttp(_)), "{answer}: {met:?}");
        }
        for answer in ["", "HTTP/1.1 10"] {
            let met = asked(answer).await.unwrap_err();
            assert!(matches!(met, NoSocket::Ended(_)), "{answer}: {met:?}");
        }
        let met = asked("HTTP/1.1 503 x\r\nContent-Length: 0\r\n\r\n").await.unwrap_err();
        assert!(matches!(met, NoSocket::Answered(StatusCode::SERVICE_UNAVAILABLE)), "{met:?}");
    }

    #[tokio::test]
    async fn a_server_that_has_had_too_much_says_when_to_ask_again() {
        let problem = r#"{"detail":"too much"}"#;
        let long = "x".repeat(2 * MAX_REASON);
        for (said, body, told) in [
            ("7", problem, Some((7, "too much"))),
            ("4294967295", "", Some((4_294_967_295, "too many requests"))),
            ("1", &long, Some((1, "too many requests"))),
            ("4294967296", problem, None),
            ("-1", problem, None),
            ("Fri, 31 Dec 1999 23:59:59 GMT", problem, None),
        ] {
            let len = body.len();
            let head = format!("HTTP/1.1 429 x\r\nRetry-After: {said}\r\nContent-Length: {len}");
            let met = asked(&format!("{head}\r\n\r\n{body}")).await.unwrap_err();
            let is_so = match (&met, told) {
                (NoSocket::Busy(why, wait), Some((secs, words))) => {
                    why == words && wait.as_secs() == secs
                }
                (NoSocket::Answered(StatusCode::TOO_MANY_REQUESTS), None) => true,
                _ => false,
            };
            assert!(is_so, "{said}: {met:?}");
        }
    }
}
