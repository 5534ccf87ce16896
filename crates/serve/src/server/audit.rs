//! The audit log: a chain of lines, each a JSON object about an action of a client.
//!
//! Each line has the BLAKE3 hash of the previous line, without the line end (`b3sum` computes the same hash). A line
//! that is changed or removed later breaks the chain. Tokens are named by the first digits of their hashes.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use deltic_store_local::NamedFile;
use rustix::fs::{Access, AtFlags, FileType, accessat};
use serde_json::{Map, Value};

use super::file_lock::wait_for;
use crate::lock;
use crate::token::TokenHash;

/// Longest line of the log, in bytes. Values chosen by clients are shortened earlier.
const LINE: u64 = 64 << 10;
/// Longest wait for another server that still writes to the log.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);
/// Hex digits of a token's hash in the log.
const NAME_LETTERS: usize = 12;

/// An audit log that is open for appending.
#[derive(Debug)]
pub(crate) struct Audit(Mutex<Chain>);

#[derive(Debug)]
struct Chain {
    file: File,
    /// Hash of the last line.
    before: blake3::Hash,
}

impl Audit {
    /// Opens a log, and continues its chain.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let mut file = File::from(NamedFile::of_operator(path)?.open_log()?);
        // Lines of two servers would break each other's chain.
        if !wait_for(&file, LOCK_PATIENCE)? {
            return Err(io::Error::other("another server writes to this log"));
        }
        let len = file.metadata()?.len();
        file.seek(SeekFrom::Start(len.saturating_sub(LINE)))?;
        let mut end = Vec::new();
        file.read_to_end(&mut end)?;
        if end.last().is_some_and(|byte| *byte != b'\n') {
            // The machine stopped in the middle of a line. The torn line stays as it is.
            file.write_all(b"\n")?;
            end.push(b'\n');
        }
        let last = end.rsplit(|byte| *byte == b'\n').nth(1).unwrap_or_default();
        Ok(Self(Mutex::new(Chain { file, before: blake3::hash(last) })))
    }

    /// Checks that a log could be opened, without creating a file.
    pub(crate) fn check(path: &Path) -> io::Result<()> {
        let file = NamedFile::of_operator(path)?;
        match file.stat() {
            Ok(stat) if !FileType::from_raw_mode(stat.st_mode).is_file() => {
                Err(io::Error::other("not a file"))
            }
            Ok(_) => file.open_log().map(drop),
            Err(error) if error.kind() == io::ErrorKind::NotFound && path.file_name().is_some() => {
                let rights = Access::WRITE_OK | Access::EXEC_OK;
                Ok(accessat(&file, ".", rights, AtFlags::empty())?)
            }
            Err(error) => Err(error),
        }
    }

    /// Appends a line.
    pub(crate) fn write(&self, mut fields: Map<String, Value>) -> io::Result<()> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        fields.insert("time".into(), now.as_secs().into());
        let mut chain = lock(&self.0);
        fields.insert("before".into(), chain.before.to_hex().as_str().into());
        let mut line = serde_json::to_vec(&fields)?;
        chain.before = blake3::hash(&line);
        line.push(b'\n');
        chain.file.write_all(&line)
    }
}

/// Returns the name of a token in the log.
pub(crate) fn name(token: &TokenHash) -> String {
    token.to_string()[..NAME_LETTERS].into()
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;

    use super::*;

    fn lines(path: &Path) -> Vec<String> {
        std::fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn each_line_has_the_hash_of_the_one_before_over_starts_and_torn_lines() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let note = |text: &str| {
            let audit = Audit::open(&path).unwrap();
            for _ in 0..2 {
                audit.write(Map::from_iter([("event".into(), text.into())])).unwrap();
            }
        };
        note("first");
        note("second\n");
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"torn").unwrap();
        note("third");
        let lines = lines(&path);
        assert_eq!(lines.len(), 7);
        for (before, line) in [String::new()].iter().chain(&lines).zip(&lines) {
            let hash = blake3::hash(before.as_bytes()).to_hex();
            assert!(line.contains(hash.as_str()) || line.starts_with("{\"torn"), "{line}");
        }
    }
}
