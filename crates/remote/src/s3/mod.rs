//! Amazon S3, and servers with the same interface.
//!
//! Checksums come from `GetObjectAttributes`: one for each part of a multipart upload with checksums, and one of the
//! whole object if it is a checksum of all bytes.

mod attributes;
mod credentials;
mod sign;

use std::ops::Range;

use http::{Request, StatusCode, Uri};
use jiff::Timestamp as Instant;
use roxmltree::Node;

use crate::http::{
    ExpectedVersion, HttpAnswer, HttpClient, RangeRequest, RedirectPolicy, RequestFields, bare_tag,
    escaped, range_header, xml,
};
use crate::sums::{ObjectSums, SumAlgorithm};
use crate::system::{
    ObjectVersion, PageSummary, StorageSystem, SystemEntry, list_pages, prefix_of,
};
use crate::tree::UNTIMED;
use crate::{Environment, RemoteError, timestamps};

use attributes::{ObjectAttributes, SUMS, is_composite, sum_of};
use credentials::S3Account;
use sign::UnsignedRequest;

/// Parts of an object, or names of a list, per request; and most parts of an object, which is S3's own limit.
const PARTS: usize = 1000;
const MAX_PARTS: usize = 10_000;

/// A bucket.
#[derive(Debug)]
pub(crate) struct S3Bucket {
    client: HttpClient,
    bucket: String,
    account: S3Account,
    /// Scheme, and host with port.
    base: (String, String),
    /// Path before the key in a URL: the name of the bucket, unless the host name contains the bucket.
    above: String,
}

impl S3Bucket {
    pub(crate) fn open(bucket: &str, env: &dyn Environment) -> Result<Self, RemoteError> {
        let bad = |why: &str| RemoteError::Address(format!("s3://{bucket}: {why}"));
        let is_plain =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
        if bucket.len() < 3 || !bucket.bytes().all(is_plain) {
            return Err(bad("not the name of a bucket; write s3://BUCKET/PATH"));
        }
        let account = S3Account::find(env)?;
        let (base, above) = match &account.endpoint {
            Some(endpoint) => {
                let not_url = || bad("AWS_ENDPOINT_URL is not a URL: write http://HOST:PORT");
                let uri: Uri = endpoint.parse().map_err(|_| not_url())?;
                let (Some(scheme), Some(host)) = (uri.scheme_str(), uri.authority()) else {
                    return Err(not_url());
                };
                let above = uri.path().trim_end_matches('/');
                ((scheme.to_owned(), host.to_string()), format!("{above}/{bucket}"))
            }
            None => {
                let host = format!("s3.{}.amazonaws.com", account.region);
                // A wildcard certificate covers one label, so a bucket name with a dot goes into the path.
                let in_path =
                    bucket.bytes().any(|byte| !matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'));
                match in_path {
                    true => (("https".to_owned(), host), format!("/{bucket}")),
                    false => (("https".to_owned(), format!("{bucket}.{host}")), String::new()),
                }
            }
        };
        let client = HttpClient::new(RedirectPolicy::Tell);
        Ok(Self { client, bucket: bucket.into(), account, base, above })
    }

    fn request(
        &self,
        method: &str,
        key: &str,
        RequestFields { query, headers }: RequestFields<'_>,
    ) -> Result<Request<()>, RemoteError> {
        let (scheme, host) = &self.base;
        let path = format!("{}/{}", self.above, escaped(key, true));
        let to_sign = UnsignedRequest { host, path: &path, query, headers };
        let S3Account { keys, region, .. } = &self.account;
        let headers = to_sign.signed(method, keys.as_ref(), region, Instant::now());
        let query = to_sign.query();
        let mark = if query.is_empty() { "" } else { "?" };
        let url = format!("{scheme}://{host}{path}{mark}{query}");
        sign::request(method, &url, headers)
            .map_err(|error| RemoteError::Address(format!("{}: {error}", self.url(key))))
    }

    fn ask(
        &self,
        method: &str,
        key: &str,
        fields: RequestFields<'_>,
    ) -> Result<HttpAnswer, RemoteError> {
        self.client.ask(&|| self.request(method, key, fields))
    }

    /// The error for an answer with an error status.
    fn refused(&self, answer: &HttpAnswer) -> RemoteError {
        let text = answer.text();
        let document = xml(&text, "an error").ok();
        let word = |name: &str| {
            let document = document.as_ref()?;
            let node = document.descendants().find(|node| node.has_tag_name(name))?;
            node.text().map(str::to_owned)
        };
        let code = word("Code").unwrap_or_default();
        let what = word("Message").unwrap_or_else(|| answer.status.to_string());
        let hint = match (answer.status.as_u16(), code.as_str()) {
            (404, "NoSuchBucket") => format!("; there is no bucket {}", self.bucket),
            (404, _) => return RemoteError::NotFound,
            (412, _) => return RemoteError::Changed,
            (301 | 307 | 400, _) if answer.header("x-amz-bucket-region").is_some() => {
                let region = answer.header("x-amz-bucket-region").unwrap_or_default();
                format!("; the bucket is in another region: set AWS_REGION={region}")
            }
            (401 | 403, _) if self.account.keys.is_none() => {
                "; no keys were found: AWS_ACCESS_KEY_ID, AWS_PROFILE, ~/.aws/credentials".into()
            }
            _ => String::new(),
        };
        let (code, colon) = if code.is_empty() { ("", "") } else { (code.as_str(), ": ") };
        RemoteError::Refused {
            server: self.base.1.clone(),
            why: format!("{code}{colon}{what}{hint}"),
        }
    }

    fn page(
        &self,
        prefix: &str,
        limit: usize,
        token: Option<&str>,
    ) -> Result<ListPage, RemoteError> {
        let mut query = vec![
            ("delimiter", "/".to_owned()),
            ("encoding-type", "url".to_owned()),
            ("list-type", "2".to_owned()),
            ("max-keys", limit.to_string()),
            ("prefix", prefix.to_owned()),
        ];
        if let Some(token) = token {
            query.insert(0, ("continuation-token", token.to_owned()));
        }
        let answer = self.ask("GET", "", RequestFields { query: &query, headers: &[] })?;
        if answer.status != StatusCode::OK {
            return Err(self.refused(&answer));
        }
        ListPage::parse(&answer.text(), prefix)
    }
}

impl StorageSystem for S3Bucket {
    fn url(&self, path: &str) -> String {
        format!("s3://{}/{path}", self.bucket)
    }

    fn look(&self, path: &str) -> Result<Option<SystemEntry>, RemoteError> {
        if !path.is_empty() {
            let answer = self.ask("HEAD", path, RequestFields::default())?;
            match answer.status {
                StatusCode::OK => return object_of(&answer).map(SystemEntry::Object).map(Some),
                StatusCode::NOT_FOUND => {}
                _ => return Err(self.refused(&answer)),
            }
        }
        let page = self.page(&prefix_of(path), 1, None)?;
        let is_there = path.is_empty() || page.is_marked || !page.found.is_empty();
        Ok(is_there.then_some(SystemEntry::Dir { modified: UNTIMED }))
    }

    fn list(
        &self,
        path: &str,
        each: &mut dyn FnMut(String, SystemEntry),
    ) -> Result<(), RemoteError> {
        list_pages(path, |prefix, token| {
            let ListPage { found, next, last, is_marked } = self.page(prefix, PARTS, token)?;
            let (names, is_there) = (found.len(), is_marked || !found.is_empty());
            found.into_iter().for_each(|(name, found)| each(name, found));
            Ok(PageSummary { names, is_there, last, next })
        })
    }

    fn sums(&self, path: &str, object: &ObjectVersion) -> Result<ObjectSums, RemoteError> {
        let (mut sums, mut marker) = (ObjectSums::default(), 0);
        loop {
            let headers = [
                ("x-amz-max-parts", PARTS.to_string()),
                ("x-amz-object-attributes", "Checksum,ETag,ObjectParts,ObjectSize".to_owned()),
                ("x-amz-part-number-marker", marker.to_string()),
            ];
            let query = [("attributes", String::new())];
            let fields = RequestFields { query: &query, headers: &headers };
            let answer = self.ask("GET", path, fields)?;
            match answer.status.as_u16() {
                200 => {}
                // The server lacks this call, or refuses it to these keys.
                400 | 403 | 405 | 501 => return self.sums_of_whole(path, object),
                _ => return Err(self.refused(&answer)),
            }
            let text = answer.text();
            let Ok(attributes) = ObjectAttributes::parse(&text) else {
                return self.sums_of_whole(path, object);
            };
            match attributes.etag {
                Some(etag) if etag == bare_tag(&object.token) => {}
                Some(_) => return Err(RemoteError::Changed),
                // The answer does not say which version it describes.
                None => return self.sums_of_whole(path, object),
            }
            // `HEAD` would return the same checksum of checksums, perhaps without its mark.
            if attributes.is_composite && attributes.parts.is_empty() && sums.units.is_empty() {
                return Ok(ObjectSums::default());
            }
            sums.whole = attributes.whole;
            let has_parts = !attributes.parts.is_empty();
            sums.units.extend(attributes.parts);
            match attributes.next {
                Some(next) if has_parts && next > marker && sums.units.len() < MAX_PARTS => {
                    marker = next
                }
                _ => break,
            }
        }
        let has_all = sums.units.iter().map(|unit| unit.len).sum::<u64>() == object.len;
        if !has_all || !sums.is_known() {
            return match sums.whole {
                Some(whole) => Ok(ObjectSums::of_whole(object.len, whole)),
                None => self.sums_of_whole(path, object),
            };
        }
        Ok(sums)
    }

    fn read(
        &self,
        path: &str,
        object: &ObjectVersion,
        range: Range<u64>,
        buf: &mut [u8],
    ) -> Result<(), RemoteError> {
        let headers = [("if-match", object.token.clone()), ("range", range_header(&range))];
        let make = || self.request("GET", path, RequestFields { query: &[], headers: &headers });
        let version = ExpectedVersion::Tag(&object.token);
        let wanted = RangeRequest { range: range.clone(), of: object.len, version };
        self.client.range(&make, &wanted, buf)?.map_err(|answer| self.refused(&answer))
    }

    fn received(&self) -> u64 {
        self.client.received()
    }
}

impl S3Bucket {
    /// The checksum of the whole object, by `HEAD`.
    fn sums_of_whole(&self, path: &str, object: &ObjectVersion) -> Result<ObjectSums, RemoteError> {
        let headers =
            [("if-match", object.token.clone()), ("x-amz-checksum-mode", "ENABLED".to_owned())];
        let answer = self.ask("HEAD", path, RequestFields { query: &[], headers: &headers })?;
        if answer.status != StatusCode::OK {
            return Err(self.refused(&answer));
        }
        if answer.header("etag").map(bare_tag) != Some(bare_tag(&object.token)) {
            return Err(RemoteError::Changed);
        }
        let of = |(name, algorithm): &(&str, SumAlgorithm)| {
            let header = format!("x-amz-checksum-{}", name.to_ascii_lowercase());
            sum_of(answer.header(&header)?, *algorithm)
        };
        let is_composite = is_composite(answer.header("x-amz-checksum-type"), &object.token);
        match SUMS.iter().find_map(of).filter(|_| !is_composite) {
            Some(sum) => Ok(ObjectSums::of_whole(object.len, sum)),
            None => Ok(ObjectSums::default()),
        }
    }
}

fn object_of(answer: &HttpAnswer) -> Result<ObjectVersion, RemoteError> {
    let wrong = |what: &str| RemoteError::Wrong(format!("the answer to HEAD lacks {what}"));
    let len = answer.content_length().ok_or_else(|| wrong("a length"))?;
    let token = answer.header("etag").ok_or_else(|| wrong("an entity tag"))?.to_owned();
    let modified =
        answer.header("last-modified").and_then(timestamps::from_http).unwrap_or(UNTIMED);
    Ok(ObjectVersion { len, modified, token })
}

/// A page of a list.
struct ListPage {
    found: Vec<(String, SystemEntry)>,
    next: Option<String>,
    /// The last key or common prefix of the page.
    last: Option<String>,
    /// True if the prefix itself is an object, which stands for an empty directory.
    is_marked: bool,
}

impl ListPage {
    fn parse(text: &str, prefix: &str) -> Result<Self, RemoteError> {
        let wrong = |what: &str| RemoteError::Wrong(format!("the list lacks {what}"));
        let document = xml(text, "a list")?;
        let root = document.root_element();
        let is_cut = match (root.tag_name().name(), child(root, "IsTruncated")) {
            ("ListBucketResult", Some("true")) => true,
            ("ListBucketResult", Some("false")) => false,
            // An answer of another kind must not pass for an empty list: `--delete` would remove files.
            ("ListBucketResult", _) => return Err(wrong("its end")),
            (other, _) => {
                return Err(RemoteError::Wrong(format!(
                    "expected a list of objects, got {other}; check the endpoint"
                )));
            }
        };
        let is_escaped = child(root, "EncodingType") == Some("url");
        let named = |text: &str| if is_escaped { unescaped(text) } else { text.to_owned() };
        let mut page = Self { found: Vec::new(), next: None, last: None, is_marked: false };
        for node in root.children() {
            match node.tag_name().name() {
                "Contents" => {
                    let key = named(child(node, "Key").ok_or_else(|| wrong("a key"))?);
                    page.last = page.last.max(Some(key.clone()));
                    let Some(name) = key.strip_prefix(prefix) else { continue };
                    if name.is_empty() {
                        page.is_marked = true;
                        continue;
                    }
                    let len = child(node, "Size").and_then(|size| size.parse().ok());
                    let object = ObjectVersion {
                        len: len.ok_or_else(|| wrong("a size"))?,
                        modified: child(node, "LastModified")
                            .and_then(timestamps::from_iso)
                            .unwrap_or(UNTIMED),
                        token: child(node, "ETag").ok_or_else(|| wrong("an entity tag"))?.into(),
                    };
                    page.found.push((name.to_owned(), SystemEntry::Object(object)));
                }
                "CommonPrefixes" => {
                    let key = named(child(node, "Prefix").ok_or_else(|| wrong("a prefix"))?);
                    page.last = page.last.max(Some(key.clone()));
                    let Some(name) = key.strip_prefix(prefix) else { continue };
                    let name = name.strip_suffix('/').unwrap_or(name);
                    page.found.push((name.to_owned(), SystemEntry::Dir { modified: UNTIMED }));
                }
                _ => {}
            }
        }
        if is_cut {
            let next =
                child(root, "NextContinuationToken").ok_or_else(|| wrong("its next token"))?;
            page.next = Some(next.to_owned());
        }
        Ok(page)
    }
}

/// The text of a child element, in any namespace.
fn child<'a>(node: Node<'a, '_>, name: &str) -> Option<&'a str> {
    node.children().find(|child| child.tag_name().name() == name)?.text()
}

/// Decodes `%XX`, and `+` as a space: the encoding of names in lists.
fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        let digits = behind.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let value = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match (byte, value) {
            (b'%', Some(value)) => {
                bytes.push(value);
                rest = &behind[2..];
            }
            (b'+', _) => {
                bytes.push(b' ');
                rest = behind;
            }
            _ => {
                bytes.push(byte);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD as BASE64;

    use super::*;
    use crate::testing::TestEnvironment;
    use crate::testing::conformance::{self, SumHonesty};
    use crate::testing::fake::{FakeServer, ServedSystem, StoredObject, TestAnswer, TestRequest};

    #[test]
    fn an_answer_of_another_kind_is_not_an_empty_list() {
        let list = "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>";
        assert!(ListPage::parse(list, "").unwrap().found.is_empty());
        for (other, why) in [
            ("<ListBucketResult/>", "the list lacks its end"),
            ("<html><IsTruncated>false</IsTruncated></html>", "got html"),
            (&list.replace("false", "true"), "its next token"),
        ] {
            let told = ListPage::parse(other, "").err().unwrap().to_string();
            assert!(told.contains(why), "{other}: {told}");
        }
    }

    fn crc(fake: &FakeServer, bytes: &[u8]) -> String {
        let sum = BASE64.encode(crc32c::crc32c(&fake.summed(bytes)).to_be_bytes());
        format!("<ChecksumCRC32C>{sum}</ChecksumCRC32C>")
    }

    fn attributes(fake: &FakeServer, kept: &StoredObject) -> String {
        let part =
            |part: &[u8]| format!("<Part><Size>{}</Size>{}</Part>", part.len(), crc(fake, part));
        let parts: String = kept.parts().map(part).collect();
        let kind = if parts.is_empty() { "FULL_OBJECT" } else { "COMPOSITE" };
        let whole = crc(fake, &kept.bytes);
        format!(
            "<GetObjectAttributesResponse><ETag>{}</ETag><Checksum>{whole}<ChecksumType>{kind}</ChecksumType></Checksum>\
             <ObjectParts><IsTruncated>false</IsTruncated>{parts}</ObjectParts></GetObjectAttributesResponse>",
            bare_tag(&kept.tag())
        )
    }

    fn list(fake: &FakeServer) -> String {
        let entry = |(key, kept): (String, StoredObject)| {
            let time = instant_of(&kept);
            let (len, tag) = (kept.bytes.len(), kept.tag());
            format!(
                "<Contents><Key>{key}</Key><LastModified>{time}</LastModified><ETag>{tag}</ETag>\
                 <Size>{len}</Size></Contents>"
            )
        };
        let all: String = fake.all().into_iter().map(entry).collect();
        format!("<ListBucketResult><IsTruncated>false</IsTruncated>{all}</ListBucketResult>")
    }

    fn instant_of(kept: &StoredObject) -> Instant {
        Instant::from_second(kept.secs().cast_signed()).unwrap()
    }

    fn respond(fake: &FakeServer, asked: &TestRequest) -> TestAnswer {
        let key = asked.path.strip_prefix("/bucket/").unwrap();
        if key.is_empty() {
            return TestAnswer::of(200, list(fake));
        }
        let Some(kept) = fake.get(key) else { return TestAnswer::of(404, "") };
        if asked.header("if-match").is_some_and(|tag| tag != kept.tag()) {
            return TestAnswer::of(412, "");
        }
        let told = match asked.header("range") {
            _ if asked.query("attributes").is_some() => {
                TestAnswer::of(200, attributes(fake, &kept))
            }
            Some(range) => fake.ranged(&kept, range),
            None => TestAnswer::of(200, kept.bytes.clone()),
        };
        told.with("etag", kept.tag()).with("last-modified", kept.date())
    }

    #[test]
    fn a_bucket_passes_the_conformance_suite() {
        conformance::run(&[SumAlgorithm::Crc32c], |says| {
            let fake = FakeServer::new(says == SumHonesty::Lies);
            let vars = TestEnvironment::of(&[(
                "AWS_ENDPOINT_URL",
                &format!("http://{}", fake.serve(respond)),
            )]);
            let system = S3Bucket::open("bucket", &vars).unwrap().into();
            ServedSystem { fake, system }
        });
    }

    /// Answers as moto (`old`: as a server without `GetObjectAttributes`) about an object uploaded in parts.
    fn composite(fake: &FakeServer, asked: &TestRequest) -> TestAnswer {
        let sum = BASE64.encode([1, 2, 3, 4]);
        match (asked.query("attributes"), asked.path.ends_with("old")) {
            (Some(_), true) => TestAnswer::of(501, ""),
            (Some(_), false) => TestAnswer::of(
                200,
                format!(
                    "<GetObjectAttributesResponse><ETag>aa-13</ETag><Checksum><ChecksumCRC32>{sum}</ChecksumCRC32>\
                     <ChecksumType>COMPOSITE</ChecksumType></Checksum></GetObjectAttributesResponse>"
                ),
            ),
            (None, _) => TestAnswer::of(200, fake.summed(b"").into_owned())
                .with("etag", "\"aa-13\"")
                .with("x-amz-checksum-crc32", sum),
        }
    }

    #[test]
    fn a_checksum_of_checksums_without_the_number_of_parts_is_unknown() {
        let address = format!("http://{}", FakeServer::new(false).serve(composite));
        let vars = TestEnvironment::of(&[("AWS_ENDPOINT_URL", &address)]);
        let bucket = S3Bucket::open("bucket", &vars).unwrap();
        let object = ObjectVersion { len: 73, token: "\"aa-13\"".into(), ..Default::default() };
        for key in ["new", "old"] {
            assert_eq!(bucket.sums(key, &object).unwrap(), ObjectSums::default(), "{key}");
        }
        let whole = ObjectVersion { token: "\"aa\"".into(), ..object };
        assert!(matches!(bucket.sums("new", &whole), Err(RemoteError::Changed)));
    }
}
