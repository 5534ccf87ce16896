//! Requests to a real server, and what it answers.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::server::Server;

/// An answer to a request.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find_map(|(is, value)| is.eq_ignore_ascii_case(name).then_some(value))
    }

    #[track_caller]
    pub fn tag(&self) -> &str {
        self.header("etag").expect("it has a tag")
    }
}

/// Sends a request with the operator's token and a body.
pub fn ask(server: &Server<'_>, what: &str, more: &str, body: &[u8]) -> Answer {
    ask_as(server, server.token(), (what, more), body)
}

/// Sends a request with a token and a body.
pub fn ask_as(server: &Server<'_>, token: &str, (what, more): (&str, &str), body: &[u8]) -> Answer {
    let address = server.url.split("://").nth(1).expect("it has one");
    // A server that was killed says nothing.
    let none = || Answer { status: 0, head: String::new(), body: Vec::new() };
    let Ok(mut stream) = TcpStream::connect(address) else { return none() };
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("it is a socket");
    let len = body.len();
    let head = format!(
        "{what} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\
         Content-Length: {len}\r\n{more}\r\n"
    );
    // A server that has heard enough closes its side.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(answer.len());
    let head = String::from_utf8_lossy(&answer[..end]).into_owned();
    let rest = answer.get(end + 4..).unwrap_or_default();
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_default();
    let is_chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    let body = if is_chunked { unchunked(rest) } else { rest.to_vec() };
    Answer { status, head, body }
}

fn unchunked(mut rest: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let end = rest.windows(2).position(|two| two == b"\r\n").expect("a length");
        let len = std::str::from_utf8(&rest[..end]).expect("digits");
        let len = usize::from_str_radix(len, 16).expect("digits");
        if len == 0 {
            return body;
        }
        body.extend_from_slice(&rest[end + 2..end + 2 + len]);
        rest = &rest[end + 4 + len..];
    }
}
