//! Uploads of an earlier process, and uploads that this process leaves to the next one.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use deltic_tree::path::printable;
use tokio::sync::{Mutex as Turns, watch};
use tokio::task::spawn_blocking;

use super::records::{RecordFile, UploadRecord};
use super::{KEPT_FOR, StagedUpload, Upload, Uploads};
use crate::lock;
use crate::server::problem::Problem;
use crate::server::rest::replacement::{Replacement, ReplacementRecord, ResumedReplacement};
use crate::server::shared::Server;
use crate::token::TokenHash;

impl Uploads {
    /// Goes on with uploads of an earlier process. After an error of the server, which may pass, an upload waits for
    /// the next call. Blocks on the disk.
    pub(super) fn resume(&self, server: &Arc<Server>) {
        let mut waiting = lock(&self.waiting);
        for (name, record, mut file) in std::mem::take(&mut *waiting) {
            let resumed = match lock(&self.all).len() < self.most {
                true => Replacement::resume(server, &record.replacement),
                false => Err(Problem::busy("too many unfinished uploads")),
            };
            let why = match resumed {
                Ok(resumed) => {
                    self.go_on(name, Upload::resumed(resumed, &record, file));
                    continue;
                }
                Err(why) => why,
            };
            let may_pass = why.status.is_server_error() && self.began.elapsed() < KEPT_FOR;
            if may_pass || record.replacement.discard(server).is_err() {
                waiting.push((name, record, file));
            } else {
                file.keep_when_dropped(false);
            }
        }
    }

    /// Adds an upload of an earlier process, or leaves the upload to the next process if this process ends.
    fn go_on(&self, name: TokenHash, upload: Upload) {
        let upload = Arc::new(upload);
        let mut all = lock(&self.all);
        if self.is_leaving.load(Ordering::Relaxed) {
            upload.leave();
        } else {
            all.insert(name, Arc::clone(&upload));
        }
    }

    /// True if an upload of an earlier process may be resumed later.
    pub(super) fn is_waiting(&self, name: Option<TokenHash>) -> bool {
        match self.waiting.try_lock() {
            Ok(waiting) => waiting.iter().any(|(waits, ..)| Some(*waits) == name),
            Err(_) => true,
        }
    }

    /// Leaves all uploads to the next process. Waits for the disk only after all uploads are marked, so a slow disk
    /// ends no upload.
    pub(crate) async fn leave(&self) {
        let left = {
            let mut all = lock(&self.all);
            self.is_leaving.store(true, Ordering::Relaxed);
            std::mem::take(&mut *all)
        };
        left.values().for_each(|upload| upload.leave());
        // Closing the files blocks on the disk.
        spawn_blocking(move || drop(left)).await.ok();
    }
}

impl Upload {
    /// Marks the upload as left to the next process, also while a request uses the upload.
    fn leave(&self) {
        if let Some(record) = &mut *lock(&self.record) {
            record.keep_when_dropped(true);
            self.is_left.store(true, Ordering::Relaxed);
        }
    }

    /// Returns an upload of an earlier process.
    fn resumed(
        resumed: ResumedReplacement,
        record: &UploadRecord,
        mut record_file: RecordFile,
    ) -> Self {
        record_file.keep_when_dropped(false);
        let ResumedReplacement { known, replacement, at, age } = resumed;
        let UploadRecord { replacement: ReplacementRecord { volume, file, len, .. }, wanted } =
            record;
        let now = Instant::now();
        let is_left = Arc::new(AtomicBool::new(false));
        let staged = StagedUpload {
            replacement,
            hash: None,
            is_recorded: true,
            at,
            is_left: Arc::clone(&is_left),
        };
        Self {
            token: known.token,
            first: known.first,
            volume: volume.clone(),
            file: printable(file.as_bytes()),
            len: *len,
            wanted: *wanted,
            arrived: AtomicU64::new(at),
            touched: Mutex::new(now.checked_sub(age).unwrap_or(now)),
            record: Mutex::new(Some(record_file)),
            is_left,
            newest: watch::Sender::new(0),
            staged: Arc::new(Turns::new(Some(staged))),
        }
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if self.is_left.load(Ordering::Relaxed)
            && let Ok(mut staged) = self.staged.try_lock()
            && let Some(staged) = &mut *staged
        {
            staged.replacement.keep_when_dropped(true);
        }
    }
}
