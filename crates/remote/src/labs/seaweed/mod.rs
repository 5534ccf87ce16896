//! SeaweedFS, by the HTTP interface of a filer.
//!
//! A filer lists the chunks of each file with their MD5. The chunk list identifies a file version: chunk ids contain a
//! random number, so other content has other ids.

mod chunks;

use std::ops::Range;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use http::uri::Authority;
use http::{Request, StatusCode};
use serde_json::Value;

use crate::http::{
    ExpectedVersion, HttpAnswer, HttpClient, RangeRequest, RedirectPolicy, escaped, range_header,
};
use crate::sums::{ContentSum, ObjectSums, SumAlgorithm};
use crate::system::{ObjectVersion, PageGuard, StorageSystem, SystemEntry};
use crate::tree::UNTIMED;
use crate::{RemoteError, timestamps};

use chunks::FileChunk;

/// Default port of a filer.
const PORT: u16 = 8888;
/// Most names of a page of a list. Reduced if a page is too long, as with files of many chunks.
const NAMES: u32 = 1024;
/// Directory bit of a file mode in Go.
const IS_DIR: u64 = 1 << 31;
/// File mode bits in Go of symlinks, devices, pipes, sockets and other irregular files.
const IS_SPECIAL: u64 = 1 << 27 | 1 << 26 | 1 << 25 | 1 << 24 | 1 << 21 | 1 << 19;

/// A filer.
#[derive(Debug)]
pub(crate) struct SeaweedFiler {
    client: HttpClient,
    authority: String,
}

impl SeaweedFiler {
    pub(crate) fn open(authority: &str) -> Result<Self, RemoteError> {
        let bad = |why: &str| RemoteError::Address(format!("seaweedfs://{authority}: {why}"));
        let parsed: Authority =
            authority.parse().map_err(|_| bad("write seaweedfs://FILER:PORT/PATH"))?;
        if parsed.as_str().contains('@') {
            return Err(bad("a filer has no users"));
        }
        let authority = format!("{}:{}", parsed.host(), parsed.port_u16().unwrap_or(PORT));
        Ok(Self { client: HttpClient::new(RedirectPolicy::Tell), authority })
    }

    fn request(
        &self,
        path: &str,
        query: &str,
        header: &str,
        value: &str,
    ) -> Result<Request<()>, RemoteError> {
        let url = format!("http://{}/{}{query}", self.authority, escaped(path, true));
        let request = Request::get(url).header(header, value).body(());
        request.map_err(|error| RemoteError::Address(format!("{}: {error}", self.url(path))))
    }

    /// The JSON answer to a query about a path.
    fn ask(&self, path: &str, query: &str) -> Result<Value, RemoteError> {
        let answer =
            self.client.ask(&|| self.request(path, query, "accept", "application/json"))?;
        match answer.status {
            StatusCode::OK => serde_json::from_slice(&answer.body).map_err(|_| malformed("JSON")),
            _ => Err(self.refused(&answer)),
        }
    }

    fn refused(&self, answer: &HttpAnswer) -> RemoteError {
        let why = match answer.status.as_u16() {
            404 => return RemoteError::NotFound,
            412 | 416 => return RemoteError::Changed,
            401 => "it requires a JWT (jwt.filer_signing.read), which is not supported; use its S3 gateway, which takes keys".into(),
            403 | 405 => "it does not list directories (disableDirListing)".into(),
            status => {
                let told: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
                format!("{status} {}", told["error"].as_str().unwrap_or_default())
            }
        };
        RemoteError::Refused { server: self.authority.clone(), why }
    }

    /// A page of a directory's list: up to `most` names after the name `after`. Reduces `most` if an answer is too
    /// long.
    fn page(&self, path: &str, after: &str, most: &mut u32) -> Result<Value, RemoteError> {
        let slash = if path.is_empty() { "" } else { "/" };
        loop {
            let query = format!("{slash}?limit={most}&lastFileName={}", escaped(after, false));
            match self.ask(path, &query) {
                // The answer may be too long.
                Err(RemoteError::Wrong(_)) if *most > 1 => *most = (*most / 8).max(1),
                page => return page,
            }
        }
    }

    /// Requests the entry of a file.
    ///
    /// # Errors
    /// [`RemoteError::Changed`] if the file is not the version `object`.
    fn entry(&self, path: &str, object: &ObjectVersion) -> Result<Value, RemoteError> {
        let entry = match self.ask(path, "?metadata=true") {
            Err(RemoteError::NotFound) => return Err(RemoteError::Changed),
            entry => entry?,
        };
        match parse_entry(&entry)? {
            Some(SystemEntry::Object(now)) if now == *object => Ok(entry),
            _ => Err(RemoteError::Changed),
        }
    }
}

impl StorageSystem for SeaweedFiler {
    fn url(&self, path: &str) -> String {
        format!("seaweedfs://{}/{path}", self.authority)
    }

    fn look(&self, path: &str) -> Result<Option<SystemEntry>, RemoteError> {
        if path.is_empty() {
            return Ok(Some(SystemEntry::Dir { modified: UNTIMED }));
        }
        match self.ask(path, "?metadata=true") {
            Ok(entry) => parse_entry(&entry),
            Err(RemoteError::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn list(
        &self,
        path: &str,
        each: &mut dyn FnMut(String, SystemEntry),
    ) -> Result<(), RemoteError> {
        let (mut after, mut pages, mut most) = (String::new(), PageGuard::default(), NAMES);
        loop {
            let page = self.page(path, &after, &mut most)?;
            // An answer of another kind must not pass for an empty directory. The filer's answer for an empty directory
            // has no entries.
            let entries = match &page["Entries"] {
                Value::Array(entries) => &entries[..],
                Value::Null if page["Path"].is_string() => &[],
                _ => return Err(malformed("entries of a directory")),
            };
            pages.take(entries.len())?;
            for entry in entries {
                let full =
                    entry["FullPath"].as_str().ok_or_else(|| malformed("the path of an entry"))?;
                let name = full.rsplit('/').next().unwrap_or(full);
                pages.ascend(Some(name))?;
                name.clone_into(&mut after);
                each(name.to_owned(), parse_entry(entry)?.unwrap_or(SystemEntry::Other));
            }
            match page["ShouldDisplayLoadMore"].as_bool() {
                Some(false) => return Ok(()),
                // The answer for an empty directory lacks this field.
                None if entries.is_empty() => return Ok(()),
                Some(true) if !entries.is_empty() => {}
                _ => return Err(malformed("whether there are more entries")),
            }
        }
    }

    fn sums(&self, path: &str, object: &ObjectVersion) -> Result<ObjectSums, RemoteError> {
        let entry = self.entry(path, object)?;
        // A FUSE mount changes chunks and length without updating this MD5.
        let whole = entry["Md5"].as_str().and_then(md5).filter(|_| is_within(&entry, object.len));
        let mut chunks = chunks_of(&entry)?;
        if chunks.iter().any(|chunk| chunk.is_manifest) {
            let query = "?metadata=true&resolveManifest=true";
            chunks = match self.ask(path, query).and_then(|entry| chunks_of(&entry)) {
                Ok(chunks) => chunks,
                // The filer does not know the parameter, or the list is too long. The file can still be read.
                Err(RemoteError::Refused { .. } | RemoteError::Wrong(_)) => Vec::new(),
                Err(error) => return Err(error),
            };
        }
        let units = chunks::units(&chunks, object.len, &self.authority);
        match (units, whole) {
            (Some(units), whole) if !units.is_empty() => Ok(ObjectSums { units, whole }),
            (_, Some(whole)) if object.len > 0 => Ok(ObjectSums::of_whole(object.len, whole)),
            _ => Ok(ObjectSums::default()),
        }
    }

    fn read(
        &self,
        path: &str,
        object: &ObjectVersion,
        range: Range<u64>,
        buf: &mut [u8],
    ) -> Result<(), RemoteError> {
        let header = range_header(&range);
        let make = || self.request(path, "", "range", &header);
        // Different chunk lists may have the same entity tag, so `check` verifies the version.
        let wanted = RangeRequest {
            range: range.clone(),
            of: object.len,
            version: ExpectedVersion::NotSent,
        };
        self.client.range(&make, &wanted, buf)?.map_err(|answer| self.refused(&answer))
    }

    fn check(&self, path: &str, object: &ObjectVersion) -> Result<(), RemoteError> {
        self.entry(path, object).map(drop)
    }

    fn received(&self) -> u64 {
        self.client.received()
    }

    fn has_dir_times(&self) -> bool {
        true
    }
}

fn malformed(what: &str) -> RemoteError {
    RemoteError::Wrong(format!("an answer of a filer without {what}"))
}

fn md5(text: &str) -> Option<ContentSum> {
    ContentSum::new(SumAlgorithm::Md5, &BASE64.decode(text).ok()?).ok()
}

/// True if the content of an object of `len` bytes is stored inline in the entry.
fn is_within(entry: &Value, len: u64) -> bool {
    let is_all = content_len(entry).is_some_and(|within| within > 0 && within == len);
    is_all && entry["FileSize"].as_u64() == Some(len)
}

/// Length in bytes of the content stored inline in an entry.
fn content_len(entry: &Value) -> Option<u64> {
    Some(BASE64.decode(entry["Content"].as_str()?).ok()?.len() as u64)
}

fn chunks_of(entry: &Value) -> Result<Vec<FileChunk>, RemoteError> {
    match &entry["chunks"] {
        Value::Null => Ok(Vec::new()),
        Value::Array(chunks) => chunks
            .iter()
            .map(|told| FileChunk::parse(told).ok_or_else(|| malformed("a chunk")))
            .collect(),
        _ => Err(malformed("chunks")),
    }
}

/// Parses an entry. `None` for an entry that is neither a file nor a directory.
fn parse_entry(entry: &Value) -> Result<Option<SystemEntry>, RemoteError> {
    let mode = entry["Mode"].as_u64().ok_or_else(|| malformed("a mode"))?;
    let told = entry["Mtime"].as_str().ok_or_else(|| malformed("a time"))?;
    let modified = timestamps::from_iso(told).unwrap_or(UNTIMED);
    if mode & IS_DIR != 0 {
        return Ok(Some(SystemEntry::Dir { modified }));
    }
    if mode & IS_SPECIAL != 0 {
        return Ok(None);
    }
    let chunks = chunks_of(entry)?;
    let ends = chunks.iter().map(|chunk| chunk.range.end);
    let elsewhere = entry["Remote"]["remote_size"].as_u64().unwrap_or(0);
    let lens = [entry["FileSize"].as_u64().unwrap_or(0), elsewhere];
    let len = ends.chain(lens).max().unwrap_or(0).max(content_len(entry).unwrap_or(0));
    let mut hasher = blake3::Hasher::new();
    for text in [told, entry["Md5"].as_str().unwrap_or(""), entry["Content"].as_str().unwrap_or("")]
    {
        hasher.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
    }
    chunks.iter().for_each(|chunk| chunk.feed(&mut hasher));
    let token = hasher.finalize().to_string();
    Ok(Some(SystemEntry::Object(ObjectVersion { len, modified, token })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::conformance::{self, SumHonesty};
    use crate::testing::fake::{
        FakeServer, PART, ServedSystem, StoredObject, TestAnswer, TestRequest,
    };
    use crate::testing::serve_answers;
    use ::md5::{Digest as _, Md5};

    fn entry(extra: &str) -> Value {
        let text = format!(
            r#"{{"FullPath": "/dir/img", "Mtime": "2026-11-26T16:00:00+01:00", "Mode": 432,
            "Md5": null, "FileSize": 10, "Content": null, "Remote": null, {extra}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    const CHUNKS: &str = r#""chunks": [
        {"file_id": "3,01aa", "size": 6, "modified_ts_ns": 5, "e_tag": "CY9rzUYh03PK3k6DJie09g=="},
        {"file_id": "3,01bb", "offset": 6, "size": 4, "modified_ts_ns": 6, "e_tag": "x"}]"#;

    fn object(entry: &Value) -> ObjectVersion {
        let Some(SystemEntry::Object(object)) = parse_entry(entry).unwrap() else {
            panic!("no file")
        };
        object
    }

    #[test]
    fn any_change_of_a_chunk_makes_another_version() {
        let first = object(&entry(CHUNKS));
        assert_eq!((first.len, first.modified.secs), (10, 1_795_705_200));
        assert_eq!(object(&entry(CHUNKS)), first);
        for (from, to) in
            [("01bb", "01bc"), ("\"size\": 4", "\"size\": 3"), (": 6, \"e", ": 7, \"e")]
        {
            assert_ne!(object(&entry(&CHUNKS.replace(from, to))).token, first.token, "{from}");
        }
        for mode in [IS_DIR, 1 << 27, 1 << 25] {
            let mut other = entry(CHUNKS);
            other["Mode"] = (mode + 0o777).into();
            assert!(!matches!(parse_entry(&other), Ok(Some(SystemEntry::Object(_)))), "{mode:o}");
        }
    }

    fn ok(body: &str) -> String {
        let len = body.len();
        format!("HTTP/1.1 200 OK\r\ncontent-length: {len}\r\nconnection: close\r\n\r\n{body}")
    }

    #[test]
    fn checksums_of_another_version_are_refused() {
        let now = entry(CHUNKS);
        let bodies = [now.to_string(), entry(&CHUNKS.replace("01bb", "01cc")).to_string()];
        let filer =
            SeaweedFiler::open(&serve_answers(bodies.iter().map(|body| ok(body)).collect()))
                .unwrap();
        let sums = filer.sums("dir/img", &object(&now)).unwrap();
        let algorithms = [SumAlgorithm::Md5, SumAlgorithm::Name].map(Some);
        assert!(
            sums.units.iter().map(|unit| unit.sum.as_ref().map(|sum| sum.algorithm)).eq(algorithms)
        );
        assert!(matches!(filer.sums("dir/img", &object(&now)), Err(RemoteError::Changed)));
    }

    #[test]
    fn an_answer_of_another_kind_is_not_an_empty_directory() {
        let list = |body: &str| {
            let answer = ok(body);
            // The filer is asked again with fewer names.
            let filer = SeaweedFiler::open(&serve_answers(vec![answer; 8])).unwrap();
            let mut names = Vec::new();
            filer.list("dir", &mut |name, _| names.push(name)).map(|()| names)
        };
        assert_eq!(list(r#"{"Path": "/dir", "Entries": null}"#).unwrap(), [""; 0]);
        for other in [r#"{"FullPath": "/dir"}"#, r#"{"Entries": null}"#, "[]", "<html/>"] {
            assert!(list(other).is_err(), "{other}");
        }
        let told = entry(CHUNKS);
        let twice = serde_json::json!({"Path": "/dir", "Entries": [told, told]});
        assert!(list(&twice.to_string()).is_err());
        let endless =
            serde_json::json!({"Path": "/dir", "Entries": [told], "ShouldDisplayLoadMore": true});
        assert!(list(&endless.to_string()).unwrap_err().to_string().contains("makes no progress"));
    }

    #[test]
    fn the_md5_of_a_whole_file_is_used_only_for_inline_content() {
        let within = entry(r#""chunks": null"#);
        let mut changed = within.clone();
        changed["Content"] = BASE64.encode([7; 10]).into();
        assert!(is_within(&changed, 10));
        // A mount truncated the file or wrote chunks, and left the MD5.
        assert!(!is_within(&changed, 9) && !is_within(&within, 10));
    }

    /// Most bytes of content that the fake filer stores inline.
    const WITHIN: usize = 100;

    fn entry_json(fake: &FakeServer, name: &str, kept: &StoredObject) -> Value {
        let md5 = |bytes: &[u8]| BASE64.encode(Md5::digest(&*fake.summed(bytes)));
        let chunk = |(at, part): (usize, &[u8])| {
            serde_json::json!({
                "file_id": format!("3,{:x}", kept.no * 1000 + at as u64), "offset": at * PART,
                "size": part.len(), "modified_ts_ns": kept.no, "e_tag": md5(part),
            })
        };
        let is_within = (1..=WITHIN).contains(&kept.bytes.len());
        let chunks = kept.bytes.chunks(PART).enumerate().filter(|_| !is_within).map(chunk);
        let time = jiff::Timestamp::from_second(kept.secs().cast_signed()).unwrap();
        serde_json::json!({
            "FullPath": format!("/{name}"), "Mtime": time.to_string(), "Mode": 432,
            "FileSize": kept.bytes.len(), "chunks": chunks.collect::<Vec<_>>(),
            "Md5": is_within.then(|| md5(&kept.bytes)),
            "Content": is_within.then(|| BASE64.encode(&kept.bytes)),
        })
    }

    fn respond(fake: &FakeServer, asked: &TestRequest) -> TestAnswer {
        let name = asked.path.trim_matches('/');
        if name.is_empty() {
            let entries: Vec<_> =
                fake.all().iter().map(|(name, kept)| entry_json(fake, name, kept)).collect();
            let list = serde_json::json!({
                "Path": "/", "Entries": entries, "ShouldDisplayLoadMore": false,
            });
            return TestAnswer::of(200, list.to_string());
        }
        let Some(kept) = fake.get(name) else { return TestAnswer::of(404, "") };
        match asked.header("range") {
            Some(range) => fake.ranged(&kept, range),
            None => TestAnswer::of(200, entry_json(fake, name, &kept).to_string()),
        }
    }

    #[test]
    fn a_filer_passes_the_conformance_suite() {
        conformance::run(&[SumAlgorithm::Md5], |says| {
            let fake = FakeServer::new(says == SumHonesty::Lies);
            let system = SeaweedFiler::open(&fake.serve(respond)).unwrap().into();
            ServedSystem { fake, system }
        });
    }
}
