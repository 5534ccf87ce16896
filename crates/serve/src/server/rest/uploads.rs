//! Uploads in several requests, after the IETF's draft for resumable uploads (draft-ietf-httpbis-resumable-upload): for
//! clients behind proxies that refuse long bodies, or that lose connections.
//!
//! `PUT` with `Upload-Complete: ?0` begins an upload, under the conditions of the request. `PATCH` adds bytes at an
//! offset, and the last one commits. The next process of the server goes on with the uploads, by their records.

mod listed;
mod records;
mod restart;

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Extension;
use axum::body::{Body, BodyDataStream};
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use deltic_store::Rebuild;
use deltic_tree::path::printable;
use sha2::{Digest, Sha256};
use tokio::sync::{Mutex as Turns, OwnedMutexGuard, watch};
use tokio::time::{sleep, timeout};

pub(super) use self::listed::list;
use self::records::{RecordFile, UploadRecord, UploadRecords, WaitingUpload};
use super::files::{check_digest, wanted_digest};
use super::incoming::next;
use super::pieces::PIECE;
use super::replacement::{NewAttributes, ReplaceTarget, Replacement, ResumedReplacement};
use super::request::{Address, At, no_store, on_disk};
use crate::lock;
use crate::server::access::Access;
use crate::server::problem::Problem;
use crate::server::shared::{Known, Server};
use crate::token::{Token, TokenHash, new_token};

/// Header that tells whether a request has the last bytes of an upload.
const UPLOAD_COMPLETE: &str = "upload-complete";
/// Header with the length of the whole upload, in bytes.
const UPLOAD_LENGTH: &str = "upload-length";
/// Header with the offset of a request's first byte, or of the next byte that the server expects.
const UPLOAD_OFFSET: &str = "upload-offset";
/// Time after the last byte for which an unfinished upload is kept.
const KEPT_FOR: Duration = Duration::from_hours(7 * 24);
/// Time after the last byte from which an unfinished upload gives way to a new one at the limits.
const GIVES_WAY_AFTER: Duration = Duration::from_hours(1);
/// Longest pause between two checks for uploads that have expired, or whose tokens were revoked.
const SWEEP_EVERY: Duration = Duration::from_secs(60);
/// Longest wait for an older request to end.
const TURN_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest time for which a start waits for the uploads of an earlier process.
const RESUME_TIMEOUT: Duration = Duration::from_secs(10);
/// Most unfinished uploads at once, of all tokens and of one chain of tokens.
const MAX_UPLOADS: usize = 1_000;
const MAX_OF_TOKEN: usize = 50;
/// Files that may be open in this process for each unfinished upload, which has some four open.
const FILES_FOR_UPLOAD: usize = 16;

/// The unfinished uploads, by the hashes of their names.
pub(crate) struct Uploads {
    all: Mutex<HashMap<TokenHash, Arc<Upload>>>,
    /// Uploads of an earlier process that are not resumed yet.
    waiting: Mutex<Vec<WaitingUpload>>,
    records: UploadRecords,
    /// Most unfinished uploads at once.
    most: usize,
    /// Time of the start.
    began: Instant,
    /// True once all uploads are left to the next process.
    is_leaving: AtomicBool,
}

/// An upload in several requests.
struct Upload {
    token: TokenHash,
    /// The first token in the chain of makers.
    first: TokenHash,
    volume: String,
    /// Path of the file in the volume, as printed.
    file: String,
    /// Length of the whole file in bytes.
    len: u64,
    /// SHA-256 of the whole file that the first request announced.
    wanted: Option<[u8; 32]>,
    /// Number of bytes that have arrived.
    arrived: AtomicU64,
    /// Time of the last byte.
    touched: Mutex<Instant>,
    /// The record of the upload, if the next process can go on with the upload.
    record: Mutex<Option<RecordFile>>,
    /// True if the upload is left to the next process.
    is_left: Arc<AtomicBool>,
    /// Number of the newest request, which ends all older ones.
    newest: watch::Sender<u64>,
    /// The arrived bytes; `None` after the end of the upload.
    staged: Arc<Turns<Option<StagedUpload>>>,
}

/// The bytes of an upload that have arrived.
struct StagedUpload {
    replacement: Replacement,
    /// SHA-256 of these bytes. `None` for an upload that was resumed.
    hash: Option<Sha256>,
    /// True if the upload has a record.
    is_recorded: bool,
    /// Offset of the next byte.
    at: u64,
    /// True if the upload is left to the next process.
    is_left: Arc<AtomicBool>,
}

/// A request that adds bytes.
struct Addition {
    body: Body,
    is_last: bool,
    /// SHA-256 of the whole file that this request announces.
    wanted: Option<[u8; 32]>,
}

/// A kept upload whose name the client does not know yet. Dropping the value ends the upload.
struct Unnamed {
    uploads: Arc<Uploads>,
    name: Token,
    is_told: bool,
}

impl Drop for Unnamed {
    fn drop(&mut self) {
        if !self.is_told {
            self.uploads.forget(&self.name.hash());
        }
    }
}

impl Uploads {
    /// Reads the records of uploads in the state directory `state`, for a process that may have `open` files open.
    pub(crate) fn of(state: &Path, open: usize) -> Self {
        let records = UploadRecords::of(state);
        let waiting = Mutex::new(records.read_all());
        Self {
            all: Mutex::default(),
            waiting,
            records,
            most: MAX_UPLOADS.min(open / FILES_FOR_UPLOAD),
            began: Instant::now(),
            is_leaving: AtomicBool::new(false),
        }
    }

    /// Keeps a new upload with this name. At the limits, the longest silent upload gives way.
    fn keep(&self, name: &Token, upload: Arc<Upload>) -> Result<(), Problem> {
        let mut all = lock(&self.all);
        let is_its = |other: &Upload| other.first == upload.first;
        let has_many = all.values().filter(|other| is_its(other)).count() >= MAX_OF_TOKEN;
        let mut ended = None;
        if has_many || all.len() >= self.most {
            let others = all.iter().filter(|(_, other)| !has_many || is_its(other));
            let silent = others.map(|(name, other)| (other.silence(), *name));
            let longest = silent.max_by_key(|(silence, _)| *silence);
            let gives_way = longest.filter(|(silence, _)| *silence >= GIVES_WAY_AFTER);
            let many = || Problem::busy("too many unfinished uploads; finish or delete some");
            ended = all.remove(&gives_way.ok_or_else(many)?.1);
        }
        all.insert(name.hash(), upload);
        drop(all);
        // Dropped without the lock, since this removes the staged file.
        drop(ended);
        Ok(())
    }

    /// Writes the record of a new upload. `None` if the upload is to end with this process.
    fn record(&self, name: &TokenHash, record: Option<UploadRecord>) -> Option<RecordFile> {
        self.records.write(name, &record?).ok()
    }

    /// Finds an upload by its name, if the token began it in this volume.
    fn find(&self, known: &Known, volume: &str, name: &str) -> Result<Arc<Upload>, Problem> {
        let name = name.parse::<Token>().ok().map(|name| name.hash());
        let found = name.and_then(|name| lock(&self.all).get(&name).cloned());
        if found.is_none() && self.is_waiting(name) {
            return Err(Problem::busy(
                "the server goes on with its uploads; try again in a moment",
            ));
        }
        let is_its = |upload: &Arc<Upload>| upload.token == known.token && upload.volume == volume;
        found.filter(is_its).ok_or_else(unknown)
    }

    fn forget(&self, name: &TokenHash) {
        let ended = lock(&self.all).remove(name);
        // Dropped without the lock, since this removes the staged file.
        drop(ended);
    }

    /// Ends uploads without a byte for a long time, and uploads of revoked tokens. Blocks on the disk.
    pub(crate) fn sweep(&self, access: &Access) {
        let tokens: HashSet<_> = lock(&self.all).values().map(|upload| upload.token).collect();
        let revoked: HashSet<_> =
            tokens.into_iter().filter(|token| !access.stands(token)).collect();
        let is_over = |_: &TokenHash, upload: &mut Arc<Upload>| {
            revoked.contains(&upload.token) || upload.silence() >= KEPT_FOR
        };
        let ended: Vec<_> = lock(&self.all).extract_if(is_over).collect();
        drop(ended);
    }
}

impl Upload {
    /// Returns the time since the last byte.
    fn silence(&self) -> Duration {
        lock(&self.touched).elapsed()
    }

    /// Takes the upload for one request. An older request ends: its connection may be lost. Errors: 503 while the disk
    /// is slow, 404 once the upload has ended.
    async fn take(&self) -> Result<UploadTurn, Problem> {
        let mut number = 0;
        self.newest.send_modify(|newest| {
            *newest += 1;
            number = *newest;
        });
        let turn = timeout(TURN_TIMEOUT, Arc::clone(&self.staged).lock_owned()).await;
        let busy = |_| Problem::busy("another request adds to this upload; try again in a moment");
        let staged = turn.map_err(busy)?;
        if staged.is_none() {
            return Err(unknown());
        }
        Ok(UploadTurn { staged, number, newest: self.newest.subscribe() })
    }
}

/// The turn of a request to read or change an upload.
struct UploadTurn {
    staged: OwnedMutexGuard<Option<StagedUpload>>,
    number: u64,
    newest: watch::Receiver<u64>,
}

impl UploadTurn {
    /// Returns the next bytes of the body, or `None` at its end. Errors: a newer request wants the upload.
    async fn next(&mut self, body: &mut BodyDataStream) -> Result<Option<Bytes>, Problem> {
        let why = "a newer request goes on with this upload";
        let number = self.number;
        tokio::select! {
            _ = self.newest.wait_for(|newest| *newest != number) => {
                Err(Problem::new(StatusCode::CONFLICT, why))
            }
            bytes = next(body) => bytes,
        }
    }
}

/// Goes on with the uploads of an earlier process.
pub(crate) async fn resume_uploads(server: &Arc<Server>, uploads: &Arc<Uploads>) {
    let (again, uploads) = (Arc::clone(server), Arc::clone(uploads));
    let resumed = on_disk(server, move || {
        uploads.resume(&again);
        Ok(())
    });
    // A disk that does not answer does not block the start.
    timeout(RESUME_TIMEOUT, resumed).await.ok();
}

/// Ends uploads that have expired, or whose tokens were revoked, for ever.
pub(crate) async fn keep_uploads(server: &Arc<Server>, uploads: &Arc<Uploads>) -> Infallible {
    let (_, mut tokens) = server.access.tokens();
    loop {
        let (again, uploads) = (Arc::clone(server), Arc::clone(uploads));
        let swept = on_disk(server, move || {
            uploads.resume(&again);
            uploads.sweep(&again.access);
            Ok(())
        });
        swept.await.ok();
        tokio::select! {
            _ = tokens.changed() => {}
            () = sleep(SWEEP_EVERY) => {}
        }
    }
}

fn unknown() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "no such upload, or it has ended")
}

/// True if the request begins an upload in several requests.
pub(super) fn is_part(headers: &HeaderMap) -> bool {
    headers.contains_key(UPLOAD_COMPLETE)
}

/// Begins an upload, with the bytes of the request's body.
pub(super) async fn begin(
    server: Arc<Server>,
    uploads: Arc<Uploads>,
    at: At,
    body: Body,
) -> Result<Response, Problem> {
    let (is_last, wanted) = (is_complete(&at.headers)?, wanted_digest(&at.headers)?);
    let target = ReplaceTarget::for_request(&server, &at, false)?;
    let file = printable(target.file.as_bytes());
    let len = number(&at.headers, UPLOAD_LENGTH)?;
    target.check_len(len)?;
    let (name, records) = (new_token(), Arc::clone(&uploads));
    let hash = name.hash();
    let (replacement, record) = on_disk(&server, move || {
        let mut replacement = target.begin(len)?;
        // An announced length takes no space from others before its bytes arrive.
        replacement.reserve_only(0)?;
        let told = replacement.record(len).filter(|_| !is_last);
        let record = told.map(|replacement| UploadRecord { replacement, wanted });
        let record = records.record(&hash, record).inspect(|_| replacement.note(0));
        Ok((replacement, record))
    })
    .await?;
    let (hash, is_recorded) = (Some(Sha256::new()), record.is_some());
    let is_left = Arc::new(AtomicBool::new(false));
    let staged =
        StagedUpload { replacement, hash, is_recorded, at: 0, is_left: Arc::clone(&is_left) };
    let upload = Arc::new(Upload {
        token: at.known.token,
        first: at.known.first,
        volume: at.volume.clone(),
        file,
        len,
        wanted,
        arrived: AtomicU64::new(0),
        touched: Mutex::new(Instant::now()),
        record: Mutex::new(record),
        is_left,
        newest: watch::Sender::new(0),
        staged: Arc::new(Turns::new(Some(staged))),
    });
    let addition = Addition { body, is_last, wanted: None };
    if is_last {
        return add(server, upload, 0, addition).await;
    }
    uploads.keep(&name, Arc::clone(&upload))?;
    let mut kept = Unnamed { uploads, name, is_told: false };
    let mut answer = add(server, upload, 0, addition).await?;
    kept.is_told = true;
    let place = format!("/v1/volumes/{}/uploads/{}", at.volume, kept.name.reveal());
    *answer.status_mut() = StatusCode::CREATED;
    if let Ok(place) = HeaderValue::from_str(&place) {
        answer.headers_mut().insert("location", place);
    }
    Ok(answer)
}

/// Answers with the number of bytes of an upload that have arrived.
pub(super) async fn look(
    Extension(uploads): Extension<Arc<Uploads>>,
    Address((volume, name)): Address<(String, String)>,
    known: Known,
) -> Result<Response, Problem> {
    let upload = uploads.find(&known, &volume, &name)?;
    let at = upload.take().await?.staged.as_ref().map_or(0, |staged| staged.at);
    Ok(told(at, upload.len))
}

/// Adds bytes to an upload. The last request commits the file, and is answered as `PUT` is.
pub(super) async fn append(
    State(server): State<Arc<Server>>,
    Extension(uploads): Extension<Arc<Uploads>>,
    Address((volume, name)): Address<(String, String)>,
    known: Known,
    request: Request,
) -> Result<Response, Problem> {
    let upload = uploads.find(&known, &volume, &name)?;
    let (Parts { headers, .. }, body) = request.into_parts();
    let (from, is_last) = (number(&headers, UPLOAD_OFFSET)?, is_complete(&headers)?);
    let staged = Arc::clone(&upload.staged);
    let addition = Addition { body, is_last, wanted: wanted_digest(&headers)? };
    // Bytes that have arrived stay, also if the client leaves in the middle of its request.
    let adding = tokio::spawn(add(server, upload, from, addition));
    let failed = |_| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the request failed here");
    let added = adding.await.map_err(failed)?;
    if let (Ok(name), true) =
        (name.parse::<Token>(), staged.try_lock().is_ok_and(|staged| staged.is_none()))
    {
        uploads.forget(&name.hash());
    }
    added
}

/// Ends an upload, by its name or by its id in the list. No file is changed.
pub(super) async fn cancel(
    State(server): State<Arc<Server>>,
    Extension(uploads): Extension<Arc<Uploads>>,
    Address((volume, name)): Address<(String, String)>,
    known: Known,
) -> Result<StatusCode, Problem> {
    let (name, upload) = match name.parse::<Token>() {
        Ok(token) => (token.hash(), uploads.find(&known, &volume, &name)?),
        Err(_) => {
            let (again, uploads) = (Arc::clone(&server), Arc::clone(&uploads));
            on_disk(&server, move || uploads.find_listed(&again, &known, &volume, &name)).await?
        }
    };
    let staged = upload.take().await?.staged.take();
    uploads.forget(&name);
    on_disk(&server, move || {
        drop(staged);
        Ok(StatusCode::NO_CONTENT)
    })
    .await
}

/// Writes the bytes of a body at `from`, and commits the file after the last ones.
async fn add(
    server: Arc<Server>,
    upload: Arc<Upload>,
    from: u64,
    Addition { body, is_last, wanted }: Addition,
) -> Result<Response, Problem> {
    let mut turn = upload.take().await?;
    let mut at = turn.staged.as_ref().map_or(0, |staged| staged.at);
    if from != at {
        let why = format!("{at} bytes have arrived; send from byte {at} (`Upload-Offset`)");
        let refused = Problem::new(StatusCode::CONFLICT, why);
        return Ok(with(refused.into_response(), &[(UPLOAD_OFFSET, at.to_string())]));
    }
    let (mut body, mut piece, mut ended) = (body.into_data_stream(), Vec::new(), None);
    while ended.is_none() {
        match turn.next(&mut body).await {
            Ok(Some(bytes)) => piece.extend_from_slice(&bytes),
            Ok(None) => ended = Some(Ok(())),
            // What has arrived stays.
            Err(broken) => ended = Some(Err(broken)),
        }
        if piece.is_empty() || piece.len() < PIECE && ended.is_none() {
            continue;
        }
        if at + piece.len() as u64 > upload.len {
            return Err(Problem::new(StatusCode::BAD_REQUEST, "more bytes than Upload-Length"));
        }
        let (bytes, staged) = (std::mem::take(&mut piece), turn.staged.take().ok_or_else(unknown)?);
        let (written, staged) = on_disk(&server, move || Ok(staged.add(&bytes))).await?;
        *turn.staged = staged;
        at = written?;
        upload.arrived.store(at, Ordering::Relaxed);
        *lock(&upload.touched) = Instant::now();
    }
    ended.unwrap_or(Ok(()))?;
    if !is_last {
        return Ok(told(at, upload.len));
    }
    if at < upload.len {
        let why = format!(
            "{at} of {} bytes have arrived; send `Upload-Complete: ?1` only with the last bytes",
            upload.len
        );
        return Err(Problem::new(StatusCode::BAD_REQUEST, why));
    }
    let (staged, len) = (turn.staged.take().ok_or_else(unknown)?, upload.len);
    let (again, wanted) = (Arc::clone(&server), [upload.wanted, wanted]);
    let (answer, staged) = on_disk(&server, move || {
        staged.check(len, wanted)?;
        Ok(staged.commit(&again, len))
    })
    .await?;
    *turn.staged = staged;
    Ok(with(answer?, &[(UPLOAD_COMPLETE, "?1".into()), (UPLOAD_OFFSET, len.to_string())]))
}

impl StagedUpload {
    /// Writes the next bytes, and returns the offset behind. Also returns the upload, unless its content is unknown
    /// after a failed write. Blocks on the disk.
    fn add(mut self, bytes: &[u8]) -> (Result<u64, Problem>, Option<Self>) {
        let end = self.at + bytes.len() as u64;
        if let Err(refused) = self.replacement.reserve_only(end) {
            return (Err(refused), Some(self));
        }
        if let Err(failed) = self.replacement.new.write(self.at, bytes) {
            return (Err(failed.into()), None);
        }
        if let Some(hash) = &mut self.hash {
            hash.update(bytes);
        }
        self.at = end;
        if self.is_recorded {
            self.replacement.note(end);
        }
        if self.is_left.load(Ordering::Relaxed) {
            // The end of the process may drop the upload before the request takes the upload back.
            self.replacement.keep_when_dropped(true);
        }
        (Ok(end), Some(self))
    }

    /// Checks the whole file against the SHA-256 that requests announced. Blocks on the disk.
    fn check(&self, len: u64, wanted: [Option<[u8; 32]>; 2]) -> Result<(), Problem> {
        if wanted == [None; 2] {
            return Ok(());
        }
        let mut hash = self.hash.clone().unwrap_or_default();
        let (mut at, mut piece) = (if self.hash.is_some() { len } else { 0 }, vec![0; PIECE]);
        while at < len {
            let got = self.replacement.read_at(at, &mut piece)?;
            if got == 0 {
                return Err(Problem::new(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "the upload is cut off",
                ));
            }
            hash.update(&piece[..got]);
            at += got as u64;
        }
        let digest = hash.finalize().into();
        wanted.into_iter().try_for_each(|wanted| check_digest(wanted, digest))
    }

    /// Puts the file in place. If that failed by no fault of the client, as on a full disk, also returns the upload,
    /// for another attempt. Blocks on the disk.
    fn commit(self, server: &Arc<Server>, len: u64) -> (Result<Response, Problem>, Option<Self>) {
        let Self { mut replacement, hash, is_recorded, is_left, .. } = self;
        let record = replacement.record(len);
        if record.is_some() {
            replacement.note(len);
            replacement.keep_when_dropped(true);
        }
        let committed = replacement.commit(NewAttributes::usual(len)).map_err(Problem::from);
        let answer = committed.and_then(|committed| committed.answer());
        let Err(why) = &answer else { return (answer, None) };
        let kept = record.as_ref().filter(|_| why.status.is_server_error());
        let resumed = kept.and_then(|record| Replacement::resume(server, record).ok());
        if let (None, Some(record)) = (&resumed, &record) {
            // Nothing else removes the kept file: the token may have been revoked before the file was opened again.
            record.discard(server).ok();
        }
        let staged = resumed.map(|resumed| {
            let ResumedReplacement { replacement, at, .. } = resumed;
            Self { replacement, hash, is_recorded, at, is_left }
        });
        (answer, staged)
    }
}

/// Answers with the offset of the next byte of an unfinished upload.
fn told(at: u64, len: u64) -> Response {
    let headers = [
        (UPLOAD_COMPLETE, "?0".into()),
        (UPLOAD_OFFSET, at.to_string()),
        (UPLOAD_LENGTH, len.to_string()),
    ];
    with(no_store(StatusCode::NO_CONTENT), &headers)
}

fn with(mut answer: Response, headers: &[(&'static str, String)]) -> Response {
    for (name, value) in headers {
        if let Ok(value) = HeaderValue::from_str(value) {
            answer.headers_mut().insert(*name, value);
        }
    }
    answer
}

/// Returns the value of `Upload-Complete`, a boolean of RFC 8941.
fn is_complete(headers: &HeaderMap) -> Result<bool, Problem> {
    match headers.get(UPLOAD_COMPLETE).map(HeaderValue::as_bytes) {
        Some(b"?1") => Ok(true),
        Some(b"?0") => Ok(false),
        _ => Err(Problem::new(StatusCode::BAD_REQUEST, "Upload-Complete: neither ?0 nor ?1")),
    }
}

fn number(headers: &HeaderMap, name: &'static str) -> Result<u64, Problem> {
    let value = headers.get(name).and_then(|value| value.to_str().ok()?.parse().ok());
    let missing = || Problem::new(StatusCode::BAD_REQUEST, format!("{name}: no number of bytes"));
    value.ok_or_else(missing)
}
