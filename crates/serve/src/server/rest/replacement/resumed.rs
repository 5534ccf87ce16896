//! Replacements that another process goes on with, from a record in the state directory.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use deltic_store::{Resumable, Resumed, Snapshot};
use deltic_store_local::StagedPlace;
use deltic_tree::{Meta, Name, RelPath};
use serde::{Deserialize, Serialize};

use super::{Above, ReplaceTarget, ReplacedEntry, Replacement};
use crate::server::problem::Problem;
use crate::server::rest::conditions::{CHANGE_CONDITIONS, check_conditions, failed};
use crate::server::shared::{Known, Server};
use crate::token::TokenHash;

/// Record of a replacement, for another process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ReplacementRecord {
    token: String,
    pub(crate) volume: String,
    pub(crate) file: String,
    /// Length of the new version in bytes.
    pub(crate) len: u64,
    /// Headers with conditions.
    conditions: Vec<(String, String)>,
    /// The file that was there, if there was one.
    replaced: Option<SeenFile>,
    /// Directory that holds the staging directory, and the name there.
    home: String,
    name: String,
}

/// Length and modification time of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SeenFile {
    len: u64,
    secs: i64,
    nanos: u32,
}

impl SeenFile {
    const fn of(meta: &Meta) -> Self {
        Self { len: meta.len, secs: meta.modified.secs, nanos: meta.modified.nanos }
    }
}

/// A replacement of an earlier process.
pub(crate) struct ResumedReplacement {
    pub(crate) known: Known,
    pub(crate) replacement: Replacement,
    /// Number of bytes that have arrived.
    pub(crate) at: u64,
    /// Time since the last byte.
    pub(crate) age: Duration,
}

impl Replacement {
    /// Notes that the first `at` bytes have arrived, for another process. Without a note, no other process goes on with
    /// the replacement; an error of writing a note is ignored.
    pub(crate) fn note(&self, at: u64) {
        self.new.note([at, now().as_secs()].map(u64::to_le_bytes).as_flattened()).ok();
    }

    /// If `is_kept` is true, keeps the staged file when the replacement is dropped.
    pub(crate) const fn keep_when_dropped(&mut self, is_kept: bool) {
        self.new.keep_when_dropped(is_kept);
    }

    /// Reads the new version from offset `start` on.
    pub(crate) fn read_at(&self, start: u64, bytes: &mut [u8]) -> Result<usize, Problem> {
        Ok(self.new.read_at(start, bytes)?)
    }

    /// Returns a record of a replacement by a file of `len` bytes. `None` if the record would not be text.
    pub(crate) fn record(&self, len: u64) -> Option<ReplacementRecord> {
        let ReplaceTarget { token, volume, file, headers, .. } = &self.target;
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
        let mut conditions = Vec::new();
        for name in CHANGE_CONDITIONS {
            for value in headers.get_all(&name) {
                conditions.push((name.as_str().to_owned(), text(value.as_bytes())?));
            }
        }
        let replaced = match &self.replaced {
            ReplacedEntry::Nothing => None,
            ReplacedEntry::Seen(meta) => Some(SeenFile::of(meta)),
            ReplacedEntry::Version(old) => Some(SeenFile::of(old.meta())),
        };
        let StagedPlace { home, name } = self.new.staged_place();
        Some(ReplacementRecord {
            token: token.to_string(),
            volume: volume.name.to_string(),
            file: text(file.as_bytes())?,
            len,
            conditions,
            replaced,
            home: text(home.as_bytes())?,
            name: text(name.as_bytes())?,
        })
    }

    /// Goes on with a replacement of another process, or with a replacement whose commit failed. Rights and conditions
    /// are checked again. Blocks on the disk. Errors: the staged file is gone, or another version is in place. After an
    /// error the staged file stays, until [`ReplacementRecord::discard`].
    pub(crate) fn resume(
        server: &Arc<Server>,
        record: &ReplacementRecord,
    ) -> Result<ResumedReplacement, Problem> {
        let token: TokenHash = record.token.parse().map_err(|_| damaged())?;
        let known = server.known_begun(token)?;
        let target = ReplaceTarget::new(server, &known, &record.volume, record.file()?, false)?;
        let target = ReplaceTarget { headers: record.headers()?, ..target };
        let store = target.volume.store()?;
        let Some(Resumed { rebuild: mut new, notes }) =
            store.resume_staged(&target.file, record.len, &record.staged()?)?
        else {
            return Err(Problem::new(StatusCode::NOT_FOUND, "the staged file is gone"));
        };
        new.keep_when_dropped(true);
        let (at, age) = notes.last().and_then(|note| read_note(note)).ok_or_else(damaged)?;
        if at > record.len {
            return Err(damaged());
        }
        let present = check_conditions(server, &store, &target.file, &target.headers)?;
        if present.as_ref().map(|it| SeenFile::of(it.meta())) != record.replaced {
            return Err(failed("the file has changed meanwhile"));
        }
        new.reserve_written(at)?;
        let mut above = Above::new(&store);
        above.make_for(&target.file)?;
        new.keep_when_dropped(false);
        let replaced = ReplacedEntry::of(present, &target.headers);
        let replacement = Self { target, store, above, new, replaced };
        Ok(ResumedReplacement { known, replacement, at, age })
    }
}

impl ReplacementRecord {
    /// Removes the staged file of a replacement that no process goes on with. Blocks on the disk.
    pub(crate) fn discard(&self, server: &Server) -> Result<(), Problem> {
        let Some(volume) = server.volumes.get(&self.volume) else { return Ok(()) };
        // A damaged record names no file.
        let Ok(staged) = self.staged() else { return Ok(()) };
        Ok(volume.store()?.discard_staged(&staged)?)
    }

    fn file(&self) -> Result<RelPath, Problem> {
        RelPath::parse(self.file.as_bytes()).map_err(|_| damaged())
    }

    fn staged(&self) -> Result<StagedPlace, Problem> {
        let home = RelPath::parse(self.home.as_bytes()).map_err(|_| damaged())?;
        let name = Name::new(self.name.as_bytes()).map_err(|_| damaged())?;
        Ok(StagedPlace { home, name })
    }

    fn headers(&self) -> Result<HeaderMap, Problem> {
        let mut headers = HeaderMap::new();
        for (name, value) in &self.conditions {
            let name: HeaderName = name.parse().map_err(|_| damaged())?;
            headers.append(name, HeaderValue::from_str(value).map_err(|_| damaged())?);
        }
        Ok(headers)
    }
}

/// Returns the offset in a note, and the age of the note.
fn read_note(note: &[u8]) -> Option<(u64, Duration)> {
    let [at, secs] = note.as_chunks::<8>().0 else { return None };
    let then = Duration::from_secs(u64::from_le_bytes(*secs));
    Some((u64::from_le_bytes(*at), now().saturating_sub(then)))
}

/// Returns the time since 1970.
fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn damaged() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "the record of the upload is damaged")
}
