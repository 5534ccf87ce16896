//! Uploads of an earlier process, and uploads that this process leaves to the next one.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use tokio::sync::{Mutex as Turns, watch};

use super::records::{RecordFile, UploadRecord};
use super::{KEPT_FOR, StagedUpload, Upload, Uploads};
use crate::lock;
use crate::server::problem::Problem;
use crate::server::rest::replacement::{Replacement, ReplacementRecord, ResumedReplacement};
use crate::server::shared::Server;
use crate::token::TokenHash;

impl Uploads {
    /// Goes on with uploads of an earlier process. After an error of the server, which may pass, an upload waits for the
    /// next call. Blocks on the disk.
    pub(super) fn resume(&self, server: &Arc<Server>) {
        let mut waiting = lock(&self.waiting);
        for (name, record, file) in std::mem::take(&mut *waiting) {
            let resumed = match lock(&self.all).len() < self.most {
                true => Replacement::resume(server, &record.replacement),
                false => Err(Problem::busy("too many unfinished uploads")),
            };
            let why = match resumed {
                Ok(resumed) => {
                    let upload = Upload::resumed(resumed, &record, file);
                    lock(&self.all).insert(name, Arc::new(upload));
                    continue;
                }
                Err(why) => why,
            };
            let may_pass = why.status.is_server_error() && self.began.elapsed() < KEPT_FOR;
            if may_pass || record.replacement.discard(server).is_err() {
                waiting.push((name, record, file));
            }
            // Dropping the file removes the record.
        }
    }

    /// True if an upload of an earlier process may be resumed later.
    pub(super) fn is_waiting(&self, name: Option<TokenHash>) -> bool {
        match self.waiting.try_lock() {
            Ok(waiting) => waiting.iter().any(|(waits, ..)| Some(*waits) == name),
            Err(_) => true,
        }
    }

    /// Leaves all uploads to the next process.
    pub(crate) async fn leave(&self) {
        lock(&self.waiting).iter_mut().for_each(|(_, _, file)| file.keep());
        let all = std::mem::take(&mut *lock(&self.all));
        for upload in all.into_values() {
            let Ok(mut turn) = upload.take().await else { continue };
            if let (Some(staged), Some(record)) = (&mut *turn.staged, &mut *lock(&upload.record)) {
                staged.replacement.keep_when_dropped(true);
                record.keep();
            }
        }
    }
}

impl Upload {
    /// Returns an upload of an earlier process.
    fn resumed(resumed: ResumedReplacement, record: &UploadRecord, file: RecordFile) -> Self {
        let ResumedReplacement { known, replacement, at, age } = resumed;
        let UploadRecord { replacement: ReplacementRecord { volume, len, .. }, wanted } = record;
        let now = Instant::now();
        let staged = StagedUpload { replacement, hash: None, is_recorded: true, at };
        Self {
            token: known.token,
            first: known.first,
            volume: volume.clone(),
            len: *len,
            wanted: *wanted,
            touched: Mutex::new(now.checked_sub(age).unwrap_or(now)),
            record: Mutex::new(Some(file)),
            newest: watch::Sender::new(0),
            staged: Arc::new(Turns::new(Some(staged))),
        }
    }
}
