//! A bucket of Google's in memory, which keeps CRC-32C of objects: it lists, and tells what it keeps. It gives no
//! bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use deltic_core::Crc32c;
use serde_json::{Value, json};

/// A bucket that is called `bucket`.
pub struct Bucket {
    /// Value for `STORAGE_EMULATOR_HOST`.
    pub address: String,
    held: Arc<Held>,
}

#[derive(Default)]
struct Held {
    objects: Mutex<BTreeMap<String, Vec<u8>>>,
    /// True once somebody wanted to read an object.
    was_read: AtomicBool,
}

impl Bucket {
    /// An empty one.
    pub fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it is bound").to_string();
        let held = Arc::<Held>::default();
        let of_thread = Arc::clone(&held);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let held = Arc::clone(&of_thread);
                std::thread::spawn(move || held.answer(&stream));
            }
        });
        Self { address, held }
    }

    pub fn put(&self, name: &str, bytes: &[u8]) {
        self.held.objects.lock().expect("no test panics here").insert(name.into(), bytes.into());
    }

    pub fn was_read(&self) -> bool {
        self.held.was_read.load(Ordering::Relaxed)
    }
}

impl Held {
    /// Answers requests until there are no more of them.
    fn answer(&self, mut stream: &TcpStream) {
        let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
        while let Some(request) = lines.next() {
            lines.by_ref().take_while(|line| !line.is_empty()).for_each(drop);
            let url = request.split(' ').nth(1).expect("a URL");
            let (status, body) = match self.told(url) {
                Some(told) => ("200 OK", told.to_string()),
                None => ("404 Not Found", "{}".to_owned()),
            };
            let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n", body.len());
            if stream.write_all(format!("{head}{body}").as_bytes()).is_err() {
                return;
            }
        }
    }

    fn told(&self, url: &str) -> Option<Value> {
        let (path, query) = url.split_once('?').unwrap_or((url, ""));
        let objects = self.objects.lock().expect("no test panics here");
        let rest = path.strip_prefix("/storage/v1/b/bucket/o")?;
        if query.contains("alt=media") {
            self.was_read.store(true, Ordering::Relaxed);
            return None;
        }
        if let Some(name) = rest.strip_prefix('/') {
            let name = name.replace("%2F", "/");
            return objects.get(&name).map(|bytes| object(&name, bytes));
        }
        let prefix = query.split('&').find_map(|pair| pair.strip_prefix("prefix="))?;
        let prefix = prefix.replace("%2F", "/");
        let (mut items, mut prefixes) = (Vec::new(), BTreeSet::new());
        for (name, bytes) in objects.iter() {
            match name.strip_prefix(&prefix).map(|rest| rest.split_once('/')) {
                Some(None) => items.push(object(name, bytes)),
                Some(Some((dir, _))) => drop(prefixes.insert(format!("{prefix}{dir}/"))),
                None => {}
            }
        }
        Some(json!({"kind": "storage#objects", "items": items, "prefixes": prefixes}))
    }
}

fn object(name: &str, bytes: &[u8]) -> Value {
    let crc32c = base64(Crc32c::of(bytes).get().to_be_bytes());
    json!({
        "name": name, "size": bytes.len().to_string(), "generation": "1", "crc32c": crc32c,
        "updated": "2026-11-26T12:00:00Z",
    })
}

fn base64(bytes: [u8; 4]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let number = u64::from(u32::from_be_bytes(bytes)) << 16;
    let digit = |at: u32| char::from(DIGITS[(number >> (42 - 6 * at)) as usize & 63]);
    (0..6).map(digit).chain("==".chars()).collect()
}
