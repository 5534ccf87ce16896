//! Records the list of a session for a batch.

#![expect(clippy::disallowed_types, reason = "a batch is a file that users name, open already")]

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::sync::{Arc, Mutex, OnceLock};

use deltic_core::Digest;
use deltic_protocol::batch::{BatchList, MAGIC, Part, encode_request};
use deltic_protocol::options::Options;
use deltic_store_local::{SourceTree, reason};
use deltic_tree::Name;

use crate::error::SyncError;
use deltic_worker::lock::lock;
use deltic_worker::source::SourceWorker;

/// Writes the list of a sender to a batch, at either end of the session.
pub(crate) struct Tap {
    to: Mutex<BatchWriter>,
    list: Mutex<BatchList>,
    pub(super) single: OnceLock<Option<Name>>,
    /// The worker that reads local sources.
    pub(crate) sources: OnceLock<Arc<SourceWorker<SourceTree>>>,
}

struct BatchWriter {
    to: BufWriter<Arc<File>>,
    sum: blake3::Hasher,
    result: io::Result<()>,
}

impl Tap {
    pub(super) fn new(file: Arc<File>) -> Self {
        let to = BufWriter::new(file);
        let to = Mutex::new(BatchWriter { to, sum: blake3::Hasher::new(), result: Ok(()) });
        Self { to, list: Mutex::default(), single: OnceLock::new(), sources: OnceLock::new() }
    }

    /// Begins the batch with the magic and the request.
    pub(crate) fn begin(&self, single: Option<Name>, options: &Options) {
        self.write_bytes(&MAGIC);
        self.write_bytes(&encode_request(single.clone(), options.clone()));
        self.single.set(single).ok();
    }

    /// Records a frame of the session, if it belongs to the list.
    pub(crate) fn record_frame(&self, kind: u8, payload: &[u8]) {
        let frame = lock(&self.list).list_frame(kind, payload);
        if let Some(frame) = frame {
            self.write_bytes(&frame);
        }
    }

    /// Writes `bytes`, unless an earlier write failed.
    pub(super) fn write_bytes(&self, bytes: &[u8]) {
        let BatchWriter { to, sum, result } = &mut *lock(&self.to);
        sum.update(bytes);
        if result.is_ok() {
            *result = to.write_all(bytes);
        }
    }

    /// Ends the batch.
    ///
    /// # Errors
    /// [`SyncError`] if the batch could not be written completely.
    pub(super) fn finish(&self, files: u64) -> Result<(), SyncError> {
        let digest = Digest::from_bytes(*lock(&self.to).sum.finalize().as_bytes());
        self.write_bytes(&Part::Over { files, digest }.encode());
        let BatchWriter { to, result, .. } = &mut *lock(&self.to);
        let written = std::mem::replace(result, Ok(())).and_then(|()| to.flush());
        written.map_err(|error| {
            SyncError::Files(format!("cannot write the batch: {}", reason(&error)))
        })
    }
}
