//! Records of unfinished uploads in the state directory, with which the next process of the server goes on.
//!
//! A record is JSON in a file that is named after the hash of the upload's name. The bytes are in the staged file, and
//! the number of arrived bytes is in the log of the staged file (docs/decisions/0016). The files are not flushed: as
//! the log, they hold as long as the machine runs.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use deltic_store_local::{NamedDir, NamedFile};
use serde::{Deserialize, Serialize};

use super::super::replacement::ReplacementRecord;
use crate::private;
use crate::token::TokenHash;

/// Name of the directory in the state directory.
const UPLOADS: &str = "uploads";

/// The directory with records.
#[derive(Debug)]
pub(super) struct UploadRecords(PathBuf);

/// Record of an unfinished upload.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct UploadRecord {
    pub(super) replacement: ReplacementRecord,
    /// SHA-256 of the whole file that the first request announced.
    pub(super) wanted: Option<[u8; 32]>,
}

/// The name, the record and the record's file of an upload.
pub(super) type WaitingUpload = (TokenHash, UploadRecord, RecordFile);

/// The file of a record. Dropping the value removes the file, unless the file is kept.
#[derive(Debug)]
pub(super) struct RecordFile {
    path: PathBuf,
    is_kept: bool,
}

impl RecordFile {
    /// If `is_kept` is true, keeps the file when the value is dropped, for the next process.
    pub(super) const fn keep_when_dropped(&mut self, is_kept: bool) {
        self.is_kept = is_kept;
    }
}

impl Drop for RecordFile {
    fn drop(&mut self) {
        // The next process removes a record that stays without a staged file.
        if !self.is_kept {
            private::remove(&self.path).ok();
        }
    }
}

impl UploadRecords {
    pub(super) fn of(state: &Path) -> Self {
        Self(state.join(UPLOADS))
    }

    /// Writes a record.
    pub(super) fn write(&self, name: &TokenHash, record: &UploadRecord) -> io::Result<RecordFile> {
        NamedDir::of_operator(&self.0).open_or_create(0o700)?;
        let path = self.0.join(name.to_string());
        let mut file = File::from(NamedFile::of_operator(&path)?.create_file()?);
        let written = RecordFile { path, is_kept: false };
        file.write_all(&serde_json::to_vec(record).map_err(io::Error::other)?)?;
        Ok(written)
    }

    /// Reads the records of an earlier process, by the hashes of the uploads' names. Removes damaged records.
    /// The other files are kept when dropped.
    pub(super) fn read_all(&self) -> Vec<WaitingUpload> {
        let names = NamedDir::of_operator(&self.0).list_names().unwrap_or_default();
        let read = |name: Vec<u8>| {
            let name: TokenHash = std::str::from_utf8(&name).ok()?.parse().ok()?;
            let path = self.0.join(name.to_string());
            // A record that cannot be read now stays for the next process.
            let bytes = private::read_regular(&path).ok()?;
            let mut file = RecordFile { path, is_kept: false };
            let record = serde_json::from_slice(&bytes).ok()?;
            file.keep_when_dropped(true);
            Some((name, record, file))
        };
        names.into_iter().filter_map(read).collect()
    }
}
