//! Creates and replaces many small files by one request. The answer has a status for each file.
//!
//! The body has the files one after another: a line of JSON, `{"path": "a/b", "bytes": 4}`, then the content of the
//! file, which has this many bytes. Such a file replaces nothing; new files are flushed together. A line with
//! `"replaces": TAG` is a new version in place of the version with this entity tag, as by `PUT` with `If-Match`.

use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use deltic_store::{Snapshot, Store, StoreError, Tree, Version, Whole};
use deltic_store_local::{LocalSnapshot, LocalStore};
use deltic_tree::RelPath;
use serde::Deserialize;
use serde_json::{Value, json};

use super::conditions::{tag, tag_of_new};
use super::incoming::collect;
use super::replacement::{NewAttributes, ReplaceTarget};
use super::request::{Above, Address, no_store, on_disk, path};
use crate::server::problem::Problem;
use crate::server::shared::{Known, Server};
use crate::server::volume::{Right, Volume};

/// Longest body, in bytes.
const MAX_BODY: u64 = 8 << 20;
/// Most files in a body.
const MAX_FILES: usize = 1_000;
/// Most threads that replace the files of a body: a commit mostly waits for the disk.
const MAX_THREADS: usize = 8;
/// Longest line before a file, in bytes: a path has at most 4,096 bytes, each of which JSON may write as six.
const MAX_LINE: usize = 32 << 10;

/// Creates and replaces the files of the body.
pub(super) async fn create(
    State(server): State<Arc<Server>>,
    known: Known,
    Address(volume): Address<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let client = Client { server: Arc::clone(&server), known, volume };
    // A token without the right is refused before its body is read.
    client.volume()?;
    let body = collect(&headers, body, MAX_BODY).await?;
    let files = parse(&body)?;
    let results = on_disk(&server, move || {
        // The token may have been revoked while the body arrived.
        let known = client.server.known_begun(client.known.token)?;
        Client { known, ..client }.put_all(&files, &body)
    })
    .await?;
    let shown: Vec<_> = results.into_iter().map(status).collect();
    Ok(no_store(Json(json!({ "files": shown }))))
}

/// A file in the body of a request.
#[derive(Debug, PartialEq, Eq)]
struct SentFile {
    path: String,
    /// The place of the content in the body.
    content: Range<usize>,
    /// Entity tag of the version that the file replaces; `None` for a new file.
    replaces: Option<String>,
}

/// The line before a file.
#[derive(Debug, Deserialize)]
struct Line {
    path: String,
    bytes: usize,
    replaces: Option<String>,
}

/// Finds the files in a body.
fn parse(body: &[u8]) -> Result<Vec<SentFile>, Problem> {
    let (mut files, mut at) = (Vec::new(), 0);
    while at < body.len() {
        let bad = |why: &str| {
            let why = format!("file {} of the body: {why}; nothing was changed", files.len() + 1);
            Problem::new(StatusCode::BAD_REQUEST, why)
        };
        if files.len() == MAX_FILES {
            return Err(bad("more files than a request may have"));
        }
        let end = body[at..].iter().take(MAX_LINE).position(|byte| *byte == b'\n');
        let end = at + end.ok_or_else(|| bad("no line with a path and a number of bytes"))?;
        let Line { path, bytes, replaces } = serde_json::from_slice(&body[at..end])
            .map_err(|error| bad(&format!("its line has no path or number of bytes: {error}")))?;
        let start = end + 1;
        let end = start.checked_add(bytes).filter(|end| *end <= body.len());
        at = end.ok_or_else(|| bad("the content ends early"))?;
        files.push(SentFile { path, content: start..at, replaces });
    }
    Ok(files)
}

/// A file of the body that is in place.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CreatedFile {
    /// False if the file has replaced a version, or if a file with the same content is there, and stays.
    is_new: bool,
    /// Entity tag of the file.
    tag: String,
}

/// Returns the status of a file, as the answer to a request for this file alone would have it.
fn status(result: Result<CreatedFile, Problem>) -> Value {
    match result {
        Ok(CreatedFile { is_new, tag }) => {
            let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
            json!({ "status": status.as_u16(), "etag": tag })
        }
        Err(Problem { status, detail, .. }) => {
            json!({ "status": status.as_u16(), "detail": detail })
        }
    }
}

/// The client of a request.
struct Client {
    server: Arc<Server>,
    known: Known,
    volume: String,
}

impl Client {
    /// Returns the volume, if the client may write at the root of its grant.
    fn volume(&self) -> Result<Volume, Problem> {
        let part = self.known.grant.part();
        self.server.volume_for(Right::Write, &self.known, &self.volume, &part)
    }

    /// Creates and replaces files. Returns the results in order. Blocks on the disk.
    fn put_all(
        &self,
        files: &[SentFile],
        body: &[u8],
    ) -> Result<Vec<Result<CreatedFile, Problem>>, Problem> {
        let (new, others): (Vec<_>, Vec<_>) =
            files.iter().partition(|file| file.replaces.is_none());
        let mut created = self.create_all(&new, body)?.into_iter();
        let mut replaced = self.replace_all(&others, body).into_iter();
        let result = |file: &SentFile| {
            let next = if file.replaces.is_none() { created.next() } else { replaced.next() };
            next.expect("each file has a result")
        };
        Ok(files.iter().map(result).collect())
    }

    /// Replaces files, several at a time.
    fn replace_all(&self, files: &[&SentFile], body: &[u8]) -> Vec<Result<CreatedFile, Problem>> {
        let each = files.len().div_ceil(MAX_THREADS).max(1);
        let replace =
            |some: &[&SentFile]| some.iter().map(|file| self.replace(file, body)).collect();
        thread::scope(|scope| {
            let begin = |some| scope.spawn(move || -> Vec<_> { replace(some) });
            let threads: Vec<_> = files.chunks(each).map(begin).collect();
            let join = |thread: thread::ScopedJoinHandle<'_, _>| match thread.join() {
                Ok(results) => results,
                Err(panic) => resume_unwind(panic),
            };
            threads.into_iter().flat_map(join).collect()
        })
    }

    /// Replaces the version that the file's line names.
    fn replace(&self, file: &SentFile, body: &[u8]) -> Result<CreatedFile, Problem> {
        let content = &body[file.content.clone()];
        let tag = file.replaces.as_deref().unwrap_or_default();
        let path = path(&file.path)?;
        let target = ReplaceTarget::if_match(&self.server, &self.known, &self.volume, path, tag)?;
        target.check_len(content.len() as u64)?;
        let replacement = target.begin(content.len() as u64)?;
        replacement.add(0, content)?;
        let committed = replacement.commit(NewAttributes::usual(content.len() as u64))?;
        Ok(CreatedFile { is_new: false, tag: committed.tag()? })
    }

    /// Creates files. Returns the results in order.
    fn create_all(
        &self,
        files: &[&SentFile],
        body: &[u8],
    ) -> Result<Vec<Result<CreatedFile, Problem>>, Problem> {
        let store = self.volume()?.store()?;
        let mut above = Above::new(&store);
        let mut prepare = |file: &SentFile| {
            let path = self.checked(file)?;
            above.make_for(&path)?;
            let content = &body[file.content.clone()];
            Ok((path, content, NewAttributes::usual(content.len() as u64)))
        };
        let prepared: Vec<Result<_, Problem>> = files.iter().map(|file| prepare(file)).collect();
        let whole = prepared.iter().flatten().map(|(path, bytes, attributes)| Whole {
            path,
            bytes,
            meta: &attributes.meta,
            seen: None,
        });
        let whole: Vec<_> = whole.collect();
        let mut put = store.replace_all(&whole, NewAttributes::usual(0).keep).into_iter();
        let result = |file: &Result<(RelPath, &[u8], _), Problem>| {
            let (path, bytes, _) = file.as_ref().map_err(Problem::clone)?;
            match put.next().expect("each file has a result") {
                Ok(version) => self.created(&store, path, version.as_ref()),
                // The file is in place, without some attribute.
                Err(StoreError::AttributesNotSet { .. }) => self.created(&store, path, None),
                Err(StoreError::Conflict { .. }) => self.compare(&store, path, bytes),
                Err(error) => Err(error.into()),
            }
        };
        let results: Vec<_> = prepared.iter().map(result).collect();
        if results.iter().flatten().any(|created| created.is_new) {
            above.keep();
        }
        store.flush()?;
        Ok(results)
    }

    /// Returns the result for a file that is in place.
    fn created(
        &self,
        store: &LocalStore,
        path: &RelPath,
        version: Option<&Version>,
    ) -> Result<CreatedFile, Problem> {
        let tag = tag_of_new(&self.server, store, path, version)?;
        Ok(CreatedFile { is_new: true, tag })
    }

    /// Returns the path of a file that the client may create.
    fn checked(&self, file: &SentFile) -> Result<RelPath, Problem> {
        let path = path(&file.path)?;
        self.server.volume_for(Right::Write, &self.known, &self.volume, &path)?;
        let most = self.server.upload_bytes;
        if file.content.len() as u64 > most {
            let why = format!("more than {most} bytes in one file");
            return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, why));
        }
        Ok(path)
    }

    /// Compares the entry that is there with the content of a file. Only a client who may read learns that both are
    /// equal.
    fn compare(
        &self,
        store: &LocalStore,
        path: &RelPath,
        bytes: &[u8],
    ) -> Result<CreatedFile, Problem> {
        if store.look(path)?.is_some_and(|there| !there.is_file()) {
            return Err(Problem::new(StatusCode::CONFLICT, format!("{path}: not a file")));
        }
        let may_read = self.server.volume_for(Right::Read, &self.known, &self.volume, path).is_ok();
        let there = store.open(path).ok().filter(|there| may_read && is_equal(there, bytes));
        if let Some(there) = there {
            return Ok(CreatedFile { is_new: false, tag: tag(&self.server, &there) });
        }
        Err(Problem::new(StatusCode::PRECONDITION_FAILED, "there is such a file"))
    }
}

/// True if the file has exactly these bytes.
fn is_equal(there: &LocalSnapshot, bytes: &[u8]) -> bool {
    // While a program writes the file, its content is unknown.
    if there.meta().len != bytes.len() as u64 || there.has_writer() {
        return false;
    }
    let mut found = vec![0; bytes.len()];
    there.read_at(0, &mut found).is_ok_and(|read| read == bytes.len())
        && found == bytes
        && there.check_unchanged().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_has_its_files_one_after_another() {
        let body = b"{\"path\":\"a/b\",\"bytes\":3}\nx\nz{\"bytes\":0,\"path\":\"c\"}\n";
        let found: Vec<_> = parse(body).unwrap();
        let found: Vec<_> =
            found.iter().map(|file| (&*file.path, &body[file.content.clone()])).collect();
        assert_eq!(found, [("a/b", &b"x\nz"[..]), ("c", b"")]);
        assert_eq!(parse(b"").unwrap(), []);
    }

    #[test]
    fn a_body_that_is_cut_or_has_too_many_files_is_refused() {
        let whole = b"{\"path\":\"a\",\"bytes\":3}\nxyz".to_vec();
        for end in 1..whole.len() {
            assert_eq!(parse(&whole[..end]).unwrap_err().status, StatusCode::BAD_REQUEST, "{end}");
        }
        for line in ["{}\n", "{\"path\":\"a\",\"bytes\":-1}\n", "\n", "{\"path\":1,\"bytes\":0}\n"]
        {
            assert_eq!(
                parse(line.as_bytes()).unwrap_err().status,
                StatusCode::BAD_REQUEST,
                "{line}"
            );
        }
        let huge = format!("{{\"path\":\"a\",\"bytes\":{}}}\nx", usize::MAX);
        assert_eq!(parse(huge.as_bytes()).unwrap_err().status, StatusCode::BAD_REQUEST);
        let many = |count: usize| "{\"path\":\"a\",\"bytes\":0}\n".repeat(count).into_bytes();
        assert_eq!(parse(&many(MAX_FILES)).unwrap().len(), MAX_FILES);
        assert!(parse(&many(MAX_FILES + 1)).is_err());
    }
}
