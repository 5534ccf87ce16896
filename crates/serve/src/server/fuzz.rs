//! A server for fuzzers, without a listener: the fuzzer passes the bytes of a connection directly (`make fuzz`).
//!
//! No input may make the server panic, answer 500, or keep a connection whose other end is gone.

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::runtime::Runtime;
use tokio::time::timeout;

use super::accept::{Door, Wire};
use super::config::Config;
use super::rest::Uploads;
use super::shared::Server;
use super::{prepare, router};
use crate::token::{Token, new_token};

/// Most bytes that a connection carries, in each direction.
const MOST: usize = 4 << 20;
/// Longest time for a conversation after the client has sent everything.
const PATIENCE: Duration = Duration::from_secs(15);

const UPGRADE: &[u8] =
    b"GET /v1/ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\
    Sec-WebSocket-Protocol: deltic.1\r\nAuthorization: Bearer TOKEN\r\n\r\n";

/// A server with the volume `photos`, which contains a file `dir/file`.
pub struct Here {
    runtime: Runtime,
    door: Arc<Door>,
    server: Arc<Server>,
    token: Token,
}

impl Here {
    /// Returns the only server of this process, in the directory `DELTIC_FUZZ`, with subdirectories `photos` and
    /// `state`.
    ///
    /// # Panics
    /// If `DELTIC_FUZZ` does not name such a directory.
    pub fn once() -> &'static Self {
        static HERE: OnceLock<Here> = OnceLock::new();
        HERE.get_or_init(|| {
            let world = std::env::var_os("DELTIC_FUZZ").expect("DELTIC_FUZZ names a directory");
            Self::new(Path::new(&world))
        })
    }

    fn new(world: &Path) -> Self {
        let photos = world.join("photos");
        std::fs::create_dir_all(photos.join("dir")).expect("it can be made");
        let old: Vec<u8> = (0..20_000_u32).map(|at| (at % 251) as u8).collect();
        std::fs::write(photos.join("dir/file"), old).expect("it can be written");
        let settings = json!({
            "state": world.join("state"),
            "listen": "127.0.0.1:0",
            "volumes": { "photos": { "path": photos, "versions": 2, "quota_bytes": 64 << 20, "free_bytes": 0 } },
            "limits": { "head_seconds": 1, "stall_seconds": 3 },
        });
        let config: Config = serde_json::from_value(settings).expect("they are settings");
        let token = new_token();
        let prepared = prepare(&config, Some(&token), None).expect("it is ours");
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime =
            runtime.worker_threads(1).enable_all().build().expect("the system has threads");
        let server = Arc::new(prepared.server);
        let router = router(Arc::clone(&server), Uploads::of(&config.state, 1_000).into());
        let door = Door::new(Arc::clone(&server), router, 8, Wire::AsConfigured);
        Self { runtime, door, server, token }
    }

    /// Replaces `TOKEN` in `bytes` by the server's token.
    #[must_use]
    pub fn with_token(&self, bytes: &[u8]) -> Vec<u8> {
        const MARK: &[u8] = b"TOKEN";
        let Some(at) = bytes.windows(MARK.len()).position(|word| word == MARK) else {
            return bytes.to_vec();
        };
        let token = self.token.reveal();
        [&bytes[..at], token.as_bytes(), &bytes[at + MARK.len()..]].concat()
    }

    /// Sends a request with a body and with `If-Match: *`.
    ///
    /// # Panics
    /// Same as [`Here::converse`].
    pub fn ask(&self, request: &str, body: &[u8]) {
        let (token, len) = (self.token.reveal(), body.len());
        let head = format!(
            "{request} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {token}\r\nIf-Match: *\r\n\
             Content-Length: {len}\r\n\r\n"
        );
        self.converse(&[head.as_bytes(), body].concat());
    }

    /// Sends bytes over a WebSocket.
    ///
    /// # Panics
    /// Same as [`Here::converse`].
    pub fn over_socket(&self, frames: &[u8]) {
        self.converse(&[&self.with_token(UPGRADE), frames].concat());
    }

    /// Sends an update of a file over a WebSocket.
    ///
    /// # Panics
    /// Same as [`Here::converse`].
    pub fn update(&self, update: &[u8]) {
        let frame = |channel: u8, bytes: &[u8]| {
            let len = (bytes.len() as u64 + 1).to_be_bytes();
            [&[0x82, 0x80 | 127], &len[..], &[0; 4], &[channel], bytes].concat()
        };
        let begins = frame(0, br#"{"update":{"channel":1,"volume":"photos"}}"#);
        let parts = update.chunks(32 << 10).flat_map(|part| frame(1, part));
        let frames: Vec<u8> = begins.into_iter().chain(parts).chain(frame(1, b"")).collect();
        self.over_socket(&frames);
    }

    /// Passes the bytes of one connection to the server, and reads the server's answers.
    ///
    /// # Panics
    /// If the server does not end the connection, answers 500, or answers something other than HTTP.
    pub fn converse(&self, bytes: &[u8]) {
        let peer = self.server.admission.connect(Ipv4Addr::LOCALHOST.into());
        let peer = Arc::new(peer);
        let conversation = async {
            let (mut client, theirs) = duplex(MOST);
            let asking = async {
                client.write_all(&bytes[..bytes.len().min(MOST)]).await.ok();
                client.shutdown().await.ok();
                let mut answer = Vec::new();
                client.take(MOST as u64).read_to_end(&mut answer).await.ok();
                answer
            };
            tokio::join!(asking, self.door.answer(theirs, peer, Arc::default())).0
        };
        let answer = self.runtime.block_on(async { timeout(PATIENCE, conversation).await });
        let answer = answer.expect("a connection ends whose other end is gone");
        let shown = String::from_utf8_lossy(&answer);
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1."), "{shown}");
        assert!(answer.get(8..12) != Some(b" 500"), "{shown}");
    }
}
