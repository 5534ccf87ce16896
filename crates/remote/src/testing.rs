//! Environment variables, files and a remote system in memory, for tests.

pub(crate) mod conformance;
pub(crate) mod fake;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use deltic_tree::Timestamp;

use conformance::TestPlace;

use crate::sums::{ContentSum, ObjectSums, SumAlgorithm, SummedUnit};
use crate::system::{ObjectVersion, StorageSystem, SystemEntry};
use crate::tree::UNTIMED;
use crate::{Environment, RemoteError};

/// Environment variables and files.
#[derive(Clone, Debug, Default)]
pub(crate) struct TestEnvironment {
    vars: HashMap<String, String>,
    files: HashMap<String, String>,
}

impl TestEnvironment {
    pub(crate) fn of(vars: &[(&str, &str)]) -> Self {
        vars.iter().fold(Self::default(), |all, (name, value)| all.with(name, value))
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.vars.insert(name.into(), value.into());
        self
    }

    pub(crate) fn file(mut self, path: &str, text: &str) -> Self {
        self.files.insert(path.into(), text.into());
        self
    }
}

impl Environment for TestEnvironment {
    fn var(&self, name: &str) -> Option<String> {
        self.vars.get(name).cloned()
    }

    fn read(&self, path: &str) -> Option<String> {
        self.files.get(path).cloned()
    }
}

/// A remote system in memory. Counts bytes read, and can return wrong checksums or replace an object during a read.
#[derive(Debug, Default)]
pub(crate) struct MemorySystem {
    pub(crate) objects: Mutex<BTreeMap<String, Vec<u8>>>,
    /// Length of checksummed units in bytes; 0 for no checksums.
    pub(crate) unit: u64,
    /// Return checksums of other bytes.
    pub(crate) lies: bool,
    /// One checksum of the whole object instead of units.
    pub(crate) whole: bool,
    pub(crate) read: AtomicU64,
    /// Number of look-ups and checksum requests.
    pub(crate) asked: AtomicU64,
    /// Path and bytes of an object to put during the next read.
    pub(crate) next: Mutex<Option<(String, Vec<u8>)>>,
}

impl MemorySystem {
    pub(crate) fn with(self, path: &str, bytes: &[u8]) -> Self {
        self.put(path, bytes);
        self
    }

    pub(crate) fn put(&self, path: &str, bytes: &[u8]) {
        self.objects.lock().unwrap().insert(path.into(), bytes.into());
    }

    fn object(bytes: &[u8]) -> ObjectVersion {
        let token = blake3::hash(bytes).to_string();
        ObjectVersion { len: bytes.len() as u64, modified: Timestamp { secs: 7, nanos: 0 }, token }
    }
}

/// Last character of names that are neither objects nor directories.
pub(crate) const LINK: char = '@';

impl TestPlace for Arc<MemorySystem> {
    type System = MemorySystem;

    fn system(&self) -> Self {
        Self::clone(self)
    }

    fn put(&self, path: &str, bytes: &[u8]) {
        MemorySystem::put(self, path, bytes);
    }

    fn put_during_read(&self, path: &str, bytes: &[u8]) -> bool {
        *self.next.lock().unwrap() = Some((path.into(), bytes.into()));
        true
    }
}

impl StorageSystem for MemorySystem {
    fn url(&self, path: &str) -> String {
        format!("shelf://{path}")
    }

    fn look(&self, path: &str) -> Result<Option<SystemEntry>, RemoteError> {
        self.asked.fetch_add(u64::from(!path.is_empty()), Ordering::Relaxed);
        let objects = self.objects.lock().unwrap();
        let object = objects.get(path).map(|bytes| SystemEntry::Object(Self::object(bytes)));
        let below = format!("{path}/");
        let is_dir = path.is_empty() || objects.keys().any(|key| key.starts_with(&below));
        Ok(object.or_else(|| is_dir.then_some(SystemEntry::Dir { modified: UNTIMED })))
    }

    fn list(
        &self,
        path: &str,
        each: &mut dyn FnMut(String, SystemEntry),
    ) -> Result<(), RemoteError> {
        let prefix = if path.is_empty() { String::new() } else { format!("{path}/") };
        let objects = self.objects.lock().unwrap();
        let mut dirs = BTreeSet::new();
        for (key, bytes) in objects.iter() {
            let Some(name) = key.strip_prefix(&prefix) else { continue };
            match name.split_once('/') {
                Some((dir, _)) => drop(dirs.insert(dir)),
                None if name.ends_with(LINK) => each(name.into(), SystemEntry::Other),
                None => each(name.into(), SystemEntry::Object(Self::object(bytes))),
            }
        }
        dirs.into_iter().for_each(|dir| each(dir.into(), SystemEntry::Dir { modified: UNTIMED }));
        Ok(())
    }

    fn sums(&self, path: &str, object: &ObjectVersion) -> Result<ObjectSums, RemoteError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let objects = self.objects.lock().unwrap();
        let bytes = objects.get(path).ok_or(RemoteError::NotFound)?;
        if Self::object(bytes) != *object {
            return Err(RemoteError::Changed);
        }
        if self.unit == 0 && !self.whole {
            return Ok(ObjectSums::default());
        }
        let sum = |bytes: &[u8]| {
            let mut summer = SumAlgorithm::Crc32c.summer().unwrap();
            summer.push(bytes);
            let mut sum = summer.finish();
            sum[0] ^= u8::from(self.lies);
            ContentSum::new(SumAlgorithm::Crc32c, &sum).ok()
        };
        if self.whole {
            return Ok(sum(bytes)
                .map_or_else(ObjectSums::default, |sum| ObjectSums::of_whole(object.len, sum)));
        }
        let unit = |bytes: &[u8]| SummedUnit::new(bytes.len() as u64, sum(bytes));
        Ok(ObjectSums { units: bytes.chunks(self.unit as usize).map(unit).collect(), whole: None })
    }

    fn read(
        &self,
        path: &str,
        object: &ObjectVersion,
        range: Range<u64>,
        buf: &mut [u8],
    ) -> Result<(), RemoteError> {
        if let Some((path, bytes)) = self.next.lock().unwrap().take() {
            self.put(&path, &bytes);
        }
        let objects = self.objects.lock().unwrap();
        let bytes = objects.get(path).ok_or(RemoteError::NotFound)?;
        if Self::object(bytes) != *object {
            return Err(RemoteError::Changed);
        }
        let read = bytes.get(range.start as usize..range.end as usize);
        buf.copy_from_slice(read.ok_or_else(|| RemoteError::Wrong("no such range".into()))?);
        self.read.fetch_add(buf.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn received(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }
}

/// Starts a server that gives one of these answers on each connection. Returns host and port.
pub(crate) fn serve_answers(answers: Vec<String>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let request = BufReader::new(stream.try_clone().unwrap()).lines();
            request.map_while(Result::ok).take_while(|line| !line.is_empty()).for_each(drop);
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    at
}
