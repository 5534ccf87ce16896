//! Sends the contents of many small files by one request.
//!
//! The body has a line of JSON for each file, `{"path": "a/b", "bytes": 4}`: the file is sent if it has at most
//! `bytes` bytes. The answer has, in the same order, a line of JSON for each file,
//! `{"status": 200, "bytes": 4, "etag": TAG}`, then the content. A file is read before its line is sent: a file that
//! changes meanwhile has a status of its own.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use deltic_store::{Snapshot, Tree};
use deltic_store_local::LocalStore;
use serde::Deserialize;
use serde_json::json;

use super::conditions::tag;
use super::incoming::collect;
use super::pieces::{BrokenOff, PIECE, Pieces, Reader, body_of};
use super::request::{Address, no_store, path};
use crate::server::problem::Problem;
use crate::server::shared::{Known, Server};
use crate::server::volume::Right;

/// Longest body of a request, in bytes.
const MAX_BODY: u64 = 1 << 20;
/// Most files of a request.
const MAX_FILES: usize = 1_000;
/// Most files that are read in one turn at the disk.
const TURN_FILES: usize = 64;

/// Sends the contents of the files that the body names.
pub(super) async fn read(
    State(server): State<Arc<Server>>,
    known: Known,
    Address(volume): Address<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    // A token without the right is refused before its body is read.
    server.volume_for(Right::Read, &known, &volume, &known.grant.part())?;
    let files = parse(&collect(&headers, body, MAX_BODY).await?)?;
    let reader = Reader::for_grant(&server, &known, volume.clone());
    let (mut client, mut left) = (Client { server, known, volume }, files.into_iter());
    let mut step = move || {
        let store = client.enter()?;
        let mut piece = Vec::new();
        for file in left.by_ref().take(TURN_FILES) {
            client.add(&store, &file, &mut piece);
            if piece.len() >= PIECE {
                break;
            }
        }
        Ok::<_, Problem>((!piece.is_empty()).then_some(piece))
    };
    let step = move || step().map_err(|problem| BrokenOff::from(problem.detail));
    let response = Response::builder()
        .header(header::CONTENT_TYPE, "application/octet-stream")
        .header(header::CONTENT_DISPOSITION, "attachment")
        .header(header::CONTENT_SECURITY_POLICY, "sandbox")
        .header(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    Ok(no_store(response.body(body_of(reader, step)).expect("headers are plain text")))
}

/// A file that a request asks for.
#[derive(Debug, PartialEq, Eq, Deserialize)]
struct WantedFile {
    path: String,
    /// Greatest length of the file.
    bytes: u64,
}

/// Parses the lines of a request.
fn parse(body: &[u8]) -> Result<Vec<WantedFile>, Problem> {
    let lines = body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let bad = |why: String| Problem::new(StatusCode::BAD_REQUEST, why);
    let parsed = lines.take(MAX_FILES + 1).enumerate().map(|(nth, line)| {
        let no = |error| bad(format!("line {}: no path or number of bytes: {error}", nth + 1));
        serde_json::from_slice(line).map_err(no)
    });
    let files: Vec<_> = parsed.collect::<Result<_, _>>()?;
    if files.len() > MAX_FILES {
        return Err(bad(format!("more than {MAX_FILES} files")));
    }
    Ok(files)
}

/// The client of a request.
struct Client {
    server: Arc<Server>,
    known: Known,
    volume: String,
}

impl Client {
    /// Looks up the present rights of the token, and opens the volume.
    fn enter(&mut self) -> Result<LocalStore, Problem> {
        self.known = self.server.known_begun(self.known.token)?;
        let part = self.known.grant.part();
        let volume = self.server.volume_for(Right::Read, &self.known, &self.volume, &part)?;
        Ok(volume.store()?)
    }

    /// Adds the line of a file to the answer, and its content. Blocks on the disk.
    fn add(&self, store: &LocalStore, file: &WantedFile, answer: &mut Vec<u8>) {
        let (line, content) = match self.content(store, file) {
            Ok(SentFile { tag, content }) => {
                (json!({ "status": 200, "bytes": content.len(), "etag": tag }), content)
            }
            Err(Problem { status, detail, .. }) => {
                let line = json!({ "status": status.as_u16(), "bytes": 0, "detail": detail });
                (line, Vec::new())
            }
        };
        answer.extend_from_slice(format!("{line}\n").as_bytes());
        answer.extend_from_slice(&content);
    }

    fn content(&self, store: &LocalStore, file: &WantedFile) -> Result<SentFile, Problem> {
        let path = path(&file.path)?;
        self.server.volume_for(Right::Read, &self.known, &self.volume, &path)?;
        let snapshot = Arc::new(store.open(&path)?);
        let (len, most) = (snapshot.meta().len, file.bytes.min(PIECE as u64));
        if len > most {
            let why = format!("{path}: {len} bytes, more than the {most} that this request takes");
            return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, why));
        }
        let content = Pieces::whole(Arc::clone(&snapshot)).next()?.unwrap_or_default();
        // While a program writes to the file, the bytes may be of two versions.
        let tag = (!snapshot.has_writer()).then(|| tag(&self.server, &snapshot));
        Ok(SentFile { tag, content })
    }
}

/// A file with its content.
struct SentFile {
    /// Entity tag of the version; `None` while a program has the file open for writing.
    tag: Option<String>,
    content: Vec<u8>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_names_a_bounded_number_of_files_with_their_lengths() {
        let line = "{\"path\":\"a\",\"bytes\":3}\n";
        let wanted = WantedFile { path: "a".into(), bytes: 3 };
        assert_eq!(parse(line.as_bytes()).unwrap(), [wanted]);
        assert_eq!(parse(line.trim_end().as_bytes()).unwrap().len(), 1);
        assert_eq!(parse(b"").unwrap(), []);
        for bad in ["{}", "x", "{\"path\":\"a\"}", "{\"path\":\"a\",\"bytes\":-1}", "[]"] {
            assert_eq!(parse(bad.as_bytes()).unwrap_err().status, StatusCode::BAD_REQUEST, "{bad}");
        }
        assert_eq!(parse(line.repeat(MAX_FILES).as_bytes()).unwrap().len(), MAX_FILES);
        assert!(parse(line.repeat(MAX_FILES + 1).as_bytes()).is_err());
    }
}
