//! Google Cloud Storage, and servers with the same JSON interface.
//!
//! An object has the CRC-32C of all its bytes, and often their MD5. An object with equal checksums is not read; any
//! other object is read as a whole and checked.

mod credentials;

use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use http::{Request, StatusCode};
use serde_json::Value;

use crate::http::{
    ExpectedVersion, HttpAnswer, HttpClient, RangeRequest, RedirectPolicy, escaped, range_header,
};
use crate::sums::{ContentSum, ObjectSums, SumAlgorithm};
use crate::system::{
    ObjectVersion, PageSummary, StorageSystem, SystemEntry, list_pages, prefix_of,
};
use crate::tree::UNTIMED;
use crate::{Environment, RemoteError, timestamps};

use credentials::GoogleCredentials;

/// Names requested in a page of a list.
const NAMES: usize = 1000;

/// A bucket.
#[derive(Debug)]
pub(crate) struct GcsBucket {
    client: HttpClient,
    bucket: String,
    /// URL of the server, without a trailing slash.
    base: String,
    credentials: GoogleCredentials,
}

impl GcsBucket {
    pub(crate) fn open(bucket: &str, env: &dyn Environment) -> Result<Self, RemoteError> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        if !bucket.bytes().all(is_plain) {
            let why = "not the name of a bucket; write gs://BUCKET/PATH";
            return Err(RemoteError::Address(format!("gs://{bucket}: {why}")));
        }
        let emulator = env.var("STORAGE_EMULATOR_HOST").filter(|host| !host.is_empty());
        let (base, credentials) = match emulator {
            Some(host) if host.contains("://") => (host, GoogleCredentials::Anonymous),
            Some(host) => (format!("http://{host}"), GoogleCredentials::Anonymous),
            None => ("https://storage.googleapis.com".to_owned(), GoogleCredentials::find(env)?),
        };
        let base = base.trim_end_matches('/').to_owned();
        Ok(Self {
            client: HttpClient::new(RedirectPolicy::Tell),
            bucket: bucket.into(),
            base,
            credentials,
        })
    }

    fn request(
        &self,
        object: Option<&str>,
        query: &str,
        headers: &[(&str, String)],
    ) -> Result<Request<()>, RemoteError> {
        let object = object.map(|name| format!("/{}", escaped(name, false))).unwrap_or_default();
        let url = format!("{}/storage/v1/b/{}/o{object}?{query}", self.base, self.bucket);
        let mut request = Request::get(url);
        if let Some(token) = self.credentials.token(&self.client)? {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let request = headers.iter().fold(request, |it, (name, value)| it.header(*name, value));
        request.body(()).map_err(|error| RemoteError::Address(error.to_string()))
    }

    fn ask(&self, object: Option<&str>, query: &str) -> Result<Value, RemoteError> {
        let answer = self.client.ask(&|| self.request(object, query, &[]))?;
        if answer.status != StatusCode::OK {
            return Err(self.refused(&answer));
        }
        serde_json::from_slice(&answer.body)
            .map_err(|_| RemoteError::Wrong("the answer is not JSON; check the endpoint".into()))
    }

    fn refused(&self, answer: &HttpAnswer) -> RemoteError {
        let told: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let words = told["error"]["message"].as_str().unwrap_or_default();
        let why = match answer.status.as_u16() {
            404 => return RemoteError::NotFound,
            412 => return RemoteError::Changed,
            401 | 403 if matches!(self.credentials, GoogleCredentials::Anonymous) => format!(
                "{words}; no credentials were found: GOOGLE_APPLICATION_CREDENTIALS, \
                 `gcloud auth application-default login`, GOOGLE_OAUTH_ACCESS_TOKEN"
            ),
            _ => format!("{} {words}", answer.status),
        };
        RemoteError::Refused { server: self.base.clone(), why }
    }

    fn page(
        &self,
        prefix: &str,
        limit: usize,
        token: Option<&str>,
        each: &mut dyn FnMut(String, SystemEntry),
    ) -> Result<(Option<String>, Option<String>), RemoteError> {
        let mut query =
            format!("delimiter=%2F&maxResults={limit}&prefix={}", escaped(prefix, false));
        if let Some(token) = token {
            query.push_str(&format!("&pageToken={}", escaped(token, false)));
        }
        let told = match self.ask(None, &query) {
            Err(RemoteError::NotFound) => {
                let (server, bucket) = (self.base.clone(), &self.bucket);
                let why = format!("there is no bucket {bucket}");
                return Err(RemoteError::Refused { server, why });
            }
            told => told?,
        };
        if told["kind"] != "storage#objects" {
            // An answer of another kind must not pass for an empty list: `--delete` would remove files.
            return Err(RemoteError::Wrong(
                "expected a list of objects; check the endpoint".into(),
            ));
        }
        let mut last = None;
        for item in told["items"].as_array().into_iter().flatten() {
            let Some(key) = item["name"].as_str() else { continue };
            let Some(name) = key.strip_prefix(prefix) else { continue };
            last = last.max(Some(key));
            if !name.is_empty() {
                each(name.to_owned(), SystemEntry::Object(object_of(item)?));
            }
        }
        for key in told["prefixes"].as_array().into_iter().flatten() {
            let Some(key) = key.as_str() else { continue };
            let Some(name) = key.strip_prefix(prefix) else { continue };
            last = last.max(Some(key));
            let name = name.strip_suffix('/').unwrap_or(name);
            each(name.to_owned(), SystemEntry::Dir { modified: UNTIMED });
        }
        let last = last.map(str::to_owned);
        Ok((last, told["nextPageToken"].as_str().map(str::to_owned)))
    }
}

impl StorageSystem for GcsBucket {
    fn url(&self, path: &str) -> String {
        format!("gs://{}/{path}", self.bucket)
    }

    fn look(&self, path: &str) -> Result<Option<SystemEntry>, RemoteError> {
        if !path.is_empty() {
            match self.ask(Some(path), "") {
                Ok(told) => return object_of(&told).map(SystemEntry::Object).map(Some),
                Err(RemoteError::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
        let (last, _) = self.page(&prefix_of(path), 1, None, &mut |_, _| ())?;
        Ok((last.is_some() || path.is_empty()).then_some(SystemEntry::Dir { modified: UNTIMED }))
    }

    fn list(
        &self,
        path: &str,
        each: &mut dyn FnMut(String, SystemEntry),
    ) -> Result<(), RemoteError> {
        list_pages(path, |prefix, token| {
            let mut names = 0;
            let mut counted = |name, found| {
                names += 1;
                each(name, found);
            };
            let (last, next) = self.page(prefix, NAMES, token, &mut counted)?;
            Ok(PageSummary { names, is_there: last.is_some(), last, next })
        })
    }

    fn sums(&self, path: &str, object: &ObjectVersion) -> Result<ObjectSums, RemoteError> {
        let told = match self.ask(Some(path), "") {
            Err(RemoteError::NotFound) => return Err(RemoteError::Changed),
            told => told?,
        };
        if object_of(&told)?.token != object.token {
            return Err(RemoteError::Changed);
        }
        let sum = |name: &str, algorithm| {
            let bytes = BASE64.decode(told[name].as_str()?).ok()?;
            ContentSum::new(algorithm, &bytes).ok()
        };
        // A composed object has no MD5. Local file systems may store CRC-32C, so it is kept as well.
        let whole = sum("crc32c", SumAlgorithm::Crc32c);
        let first = sum("md5Hash", SumAlgorithm::Md5).or_else(|| whole.clone());
        let sums =
            first.map_or_else(ObjectSums::default, |sum| ObjectSums::of_whole(object.len, sum));
        Ok(ObjectSums { whole: whole.or(sums.whole), ..sums })
    }

    fn read(
        &self,
        path: &str,
        object: &ObjectVersion,
        range: Range<u64>,
        buf: &mut [u8],
    ) -> Result<(), RemoteError> {
        let query = format!("alt=media&generation={}", object.token);
        // Without this header the server decompresses gzip objects, and the bytes do not match the checksum.
        let headers = [("accept-encoding", "gzip".to_owned()), ("range", range_header(&range))];
        let make = || self.request(Some(path), &query, &headers);
        let version = ExpectedVersion::Header("x-goog-generation", &object.token);
        let wanted = RangeRequest { range: range.clone(), of: object.len, version };
        let read = self.client.range(&make, &wanted, buf)?;
        read.map_err(|answer| match self.refused(&answer) {
            // The generation was deleted.
            RemoteError::NotFound => RemoteError::Changed,
            error => error,
        })
    }

    fn received(&self) -> u64 {
        self.client.received()
    }
}

fn object_of(told: &Value) -> Result<ObjectVersion, RemoteError> {
    let wrong = |what: &str| RemoteError::Wrong(format!("an object in the answer lacks {what}"));
    let text = |name: &str| told[name].as_str();
    let len = text("size").and_then(|size| size.parse().ok()).ok_or_else(|| wrong("a size"))?;
    let token = text("generation").filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let token = token.ok_or_else(|| wrong("a generation"))?.to_owned();
    let modified = text("updated").and_then(timestamps::from_iso).unwrap_or(UNTIMED);
    Ok(ObjectVersion { len, modified, token })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::conformance::{self, SumHonesty};
    use crate::testing::fake::{FakeServer, ServedSystem, StoredObject, TestAnswer, TestRequest};
    use crate::testing::{TestEnvironment, serve_answers};
    use md5::{Digest as _, Md5};

    #[test]
    fn an_answer_of_another_kind_is_not_an_empty_list() {
        let all = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n";
        let list = format!("{all}{{\"kind\": \"storage#objects\"}}");
        let server = serve_answers(vec![list, format!("{all}{{}}")]);
        let gcs =
            GcsBucket::open("bucket", &TestEnvironment::of(&[("STORAGE_EMULATOR_HOST", &server)]))
                .unwrap();
        gcs.list("", &mut |name, _| panic!("{name}")).unwrap();
        let told = gcs.list("", &mut |name, _| panic!("{name}")).unwrap_err().to_string();
        assert!(told.contains("expected a list"), "{told}");
    }

    #[test]
    fn a_generation_must_be_a_number() {
        let of = |it: &str| object_of(&serde_json::json!({"size": "1", "generation": it}));
        assert_eq!(of("12").unwrap().token, "12");
        assert!(of("1&x=").is_err());
    }

    fn item(fake: &FakeServer, name: &str, kept: &StoredObject) -> Value {
        let summed = fake.summed(&kept.bytes);
        serde_json::json!({
            "name": name,
            "size": kept.bytes.len().to_string(),
            "generation": kept.no.to_string(),
            "updated": jiff::Timestamp::from_second(kept.secs().cast_signed()).unwrap().to_string(),
            "crc32c": BASE64.encode(crc32c::crc32c(&summed).to_be_bytes()),
            "md5Hash": BASE64.encode(Md5::digest(&*summed)),
        })
    }

    fn respond(fake: &FakeServer, asked: &TestRequest) -> TestAnswer {
        let path = asked.path.strip_prefix("/storage/v1/b/bucket/o").unwrap();
        let Some(name) = path.strip_prefix('/') else {
            let items: Vec<_> =
                fake.all().iter().map(|(name, kept)| item(fake, name, kept)).collect();
            let list = serde_json::json!({"kind": "storage#objects", "items": items});
            return TestAnswer::of(200, list.to_string());
        };
        let Some(kept) = fake.get(name) else { return TestAnswer::of(404, "") };
        match (asked.query("generation"), asked.header("range")) {
            (Some(no), _) if no != kept.no.to_string() => TestAnswer::of(404, ""),
            (_, Some(range)) => fake.ranged(&kept, range),
            _ => TestAnswer::of(200, item(fake, name, &kept).to_string()),
        }
        .with("x-goog-generation", kept.no.to_string())
    }

    #[test]
    fn a_bucket_passes_the_conformance_suite() {
        conformance::run(&[SumAlgorithm::Crc32c, SumAlgorithm::Md5], |says| {
            let fake = FakeServer::new(says == SumHonesty::Lies);
            let vars = TestEnvironment::of(&[("STORAGE_EMULATOR_HOST", &fake.serve(respond))]);
            let system = GcsBucket::open("bucket", &vars).unwrap().into();
            ServedSystem { fake, system }
        });
    }
}
