//! Azure Blob Storage, and servers with the same interface.
//!
//! A blob uploaded in blocks has a list of blocks with ids that the writer chose. An id of 64 hexadecimal digits is
//! taken for the block's SHA-256. An id of decimal digits alone may be a counter, and is not taken. A blob may also
//! have the MD5 of all its bytes.

use std::fmt::Write as _;
use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use http::{Request, StatusCode, Uri};
use jiff::Timestamp as Instant;
use roxmltree::Node;

use crate::http::{
    ExpectedVersion, HttpAnswer, HttpClient, RangeRequest, RedirectPolicy, RequestFields, bare_tag,
    escaped, range_header, xml,
};
use crate::sums::{ContentSum, ObjectSums, SumAlgorithm, SummedUnit};
use crate::system::{
    ObjectVersion, PageSummary, StorageSystem, SystemEntry, list_pages, prefix_of,
};
use crate::tree::UNTIMED;
use crate::{Environment, RemoteError, timestamps};

/// Version of the REST interface, for `x-ms-version`.
const VERSION: &str = "2021-12-02";
/// Names requested in a page of a list.
const NAMES: usize = 2500;

/// A container of blobs.
#[derive(Debug)]
pub(crate) struct AzureContainer {
    client: HttpClient,
    container: String,
    account: AzureAccount,
}

/// A storage account: URL and credentials.
struct AzureAccount {
    name: String,
    /// URL of the account, without a trailing slash.
    base: String,
    auth: AzureAuth,
}

enum AzureAuth {
    Key(Vec<u8>),
    /// The query parameters of a shared access signature.
    Shared(String),
    Anonymous,
}

impl std::fmt::Debug for AzureAccount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Account({})", self.name)
    }
}

impl AzureAccount {
    fn find(env: &dyn Environment) -> Result<Self, RemoteError> {
        let bad = |why: &str| RemoteError::Address(why.into());
        let var = |names: &[&str]| {
            names.iter().find_map(|name| env.var(name).filter(|value| !value.is_empty()))
        };
        let text = var(&["AZURE_STORAGE_CONNECTION_STRING"]).unwrap_or_default();
        let part = |name: &str| {
            let mut parts = text.split(';').filter_map(|part| part.split_once('='));
            parts.find(|(key, _)| *key == name).map(|(_, value)| value.to_owned())
        };
        let name = var(&["AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_ACCOUNT_NAME"]);
        let name = name.or_else(|| part("AccountName"));
        let name = name.ok_or_else(|| {
            bad("no account: set AZURE_STORAGE_ACCOUNT or AZURE_STORAGE_CONNECTION_STRING")
        })?;
        let scheme = part("DefaultEndpointsProtocol").unwrap_or_else(|| "https".into());
        let suffix = part("EndpointSuffix").unwrap_or_else(|| "core.windows.net".into());
        let base = var(&["AZURE_STORAGE_BLOB_ENDPOINT"]).or_else(|| part("BlobEndpoint"));
        let base = base.unwrap_or_else(|| format!("{scheme}://{name}.blob.{suffix}"));
        let key = var(&["AZURE_STORAGE_KEY", "AZURE_STORAGE_ACCOUNT_KEY"]);
        let shared = var(&["AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_SAS"]);
        let auth = match (key.or_else(|| part("AccountKey")), shared) {
            (Some(key), _) => {
                let key = BASE64.decode(key.trim());
                AzureAuth::Key(key.map_err(|_| {
                    bad("the account key is not base 64; copy it whole to AZURE_STORAGE_KEY")
                })?)
            }
            (None, shared) => match shared.or_else(|| part("SharedAccessSignature")) {
                Some(shared) => AzureAuth::Shared(shared.trim_start_matches('?').to_owned()),
                None => AzureAuth::Anonymous,
            },
        };
        Ok(Self { name, base: base.trim_end_matches('/').to_owned(), auth })
    }

    /// The value of the `Authorization` header for a request; headers and parameters are sorted by name.
    fn signed(
        &self,
        key: &[u8],
        method: &str,
        path: &str,
        RequestFields { query, headers }: RequestFields<'_>,
    ) -> String {
        // The text to sign has eleven standard headers, of which `If-Match` alone is ever set; ranges use `x-ms-range`.
        let tag = headers.iter().find(|(name, _)| *name == "if-match");
        let tag = tag.map(|(_, value)| value.as_str()).unwrap_or_default();
        let mut text = format!("{method}{}{tag}{}", "\n".repeat(8), "\n".repeat(4));
        for (name, value) in headers.iter().filter(|(name, _)| name.starts_with("x-ms-")) {
            let _ = writeln!(text, "{name}:{value}");
        }
        let _ = write!(text, "/{}{path}", self.name);
        for (name, value) in query {
            let _ = write!(text, "\n{name}:{value}");
        }
        let mut mac =
            Hmac::<sha2::Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
        mac.update(text.as_bytes());
        let mac = BASE64.encode(mac.finalize().into_bytes());
        format!("SharedKey {}:{mac}", self.name)
    }
}

impl AzureContainer {
    pub(crate) fn open(container: &str, env: &dyn Environment) -> Result<Self, RemoteError> {
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        if !container.bytes().all(|byte| is_plain(byte) || matches!(byte, b'-' | b'$')) {
            let why = "not the name of a container; write azure://CONTAINER/PATH";
            return Err(RemoteError::Address(format!("azure://{container}: {why}")));
        }
        let (client, container) = (HttpClient::new(RedirectPolicy::Tell), container.to_owned());
        Ok(Self { client, container, account: AzureAccount::find(env)? })
    }

    /// Builds a request for a blob, or for the container if `path` is empty. Parameters and headers are sorted by name.
    fn request(
        &self,
        method: &str,
        path: &str,
        RequestFields { query, headers }: RequestFields<'_>,
    ) -> Result<Request<()>, RemoteError> {
        let bad = |why: String| RemoteError::Address(format!("{}: {why}", self.url(path)));
        let AzureAccount { base, auth, .. } = &self.account;
        let slash = if path.is_empty() { "" } else { "/" };
        let url = format!("{base}/{}{slash}{}", self.container, escaped(path, true));
        let uri: Uri = url.parse().map_err(|_| {
            bad("the endpoint is not a URL; AZURE_STORAGE_BLOB_ENDPOINT names another".into())
        })?;
        let now = Instant::now().strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
        let mut headers = headers.to_vec();
        headers.push(("x-ms-date", now));
        headers.push(("x-ms-version", VERSION.into()));
        headers.sort();
        let mut pairs: Vec<String> =
            query.iter().map(|(name, value)| format!("{name}={}", escaped(value, false))).collect();
        match auth {
            AzureAuth::Key(key) => {
                let signed = self.account.signed(
                    key,
                    method,
                    uri.path(),
                    RequestFields { query, headers: &headers },
                );
                headers.push(("authorization", signed));
            }
            AzureAuth::Shared(shared) => pairs.push(shared.clone()),
            AzureAuth::Anonymous => {}
        }
        let mark = if pairs.is_empty() { "" } else { "?" };
        let request =
            Request::builder().method(method).uri(format!("{url}{mark}{}", pairs.join("&")));
        let request = headers.into_iter().fold(request, |it, (name, value)| it.header(name, value));
        request.body(()).map_err(|error| bad(error.to_string()))
    }

    fn ask(
        &self,
        method: &str,
        path: &str,
        fields: RequestFields<'_>,
    ) -> Result<HttpAnswer, RemoteError> {
        self.client.ask(&|| self.request(method, path, fields))
    }

    fn refused(&self, answer: &HttpAnswer) -> RemoteError {
        let code = answer.header("x-ms-error-code").unwrap_or_default().to_owned();
        let why = match (answer.status.as_u16(), code.as_str()) {
            (404, "ContainerNotFound") => {
                format!("there is no container {}", self.container)
            }
            (404, _) => return RemoteError::NotFound,
            (412, _) => return RemoteError::Changed,
            (401 | 403, _) if matches!(self.account.auth, AzureAuth::Anonymous) => format!(
                "{code}; no key was found: AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN, \
                 AZURE_STORAGE_CONNECTION_STRING"
            ),
            (_, code) => format!("{} {code}", answer.status),
        };
        RemoteError::Refused { server: self.account.base.clone(), why }
    }

    /// Requests a page of the list below `prefix`. Returns the number of names and the marker of the next page.
    fn page(
        &self,
        prefix: &str,
        limit: usize,
        marker: Option<&str>,
        each: &mut dyn FnMut(String, SystemEntry),
    ) -> Result<(usize, Option<String>), RemoteError> {
        let mut query = vec![
            ("comp", "list".to_owned()),
            ("delimiter", "/".to_owned()),
            ("maxresults", limit.to_string()),
            ("prefix", prefix.to_owned()),
            ("restype", "container".to_owned()),
        ];
        if let Some(marker) = marker {
            query.insert(2, ("marker", marker.to_owned()));
        }
        let answer = self.ask("GET", "", RequestFields { query: &query, headers: &[] })?;
        if answer.status != StatusCode::OK {
            return Err(self.refused(&answer));
        }
        page_of(&answer.text(), prefix, each)
    }
}

/// Parses a page of a list. Returns the number of names and the marker of the next page.
fn page_of(
    text: &str,
    prefix: &str,
    each: &mut dyn FnMut(String, SystemEntry),
) -> Result<(usize, Option<String>), RemoteError> {
    let document = xml(text, "a list")?;
    let root = document.root_element();
    let blobs = child(root, "Blobs").filter(|_| root.has_tag_name("EnumerationResults"));
    let blobs = blobs.ok_or_else(|| {
        // An answer of another kind must not pass for an empty list: `--delete` would remove files.
        let name = root.tag_name().name();
        RemoteError::Wrong(format!("expected a list of blobs, got {name}; check the endpoint"))
    })?;
    let mut names = 0;
    for node in blobs.children().filter(Node::is_element) {
        let name = child(node, "Name").and_then(|node| node.text()).unwrap_or_default();
        let Some(name) = name.strip_prefix(prefix) else { continue };
        names += 1;
        let found = match node.tag_name().name() {
            "BlobPrefix" => SystemEntry::Dir { modified: UNTIMED },
            _ if name.is_empty() => continue,
            _ => SystemEntry::Object(object_in(node)?),
        };
        let name = match found {
            SystemEntry::Dir { .. } => name.strip_suffix('/').unwrap_or(name),
            SystemEntry::Object(_) | SystemEntry::Other => name,
        };
        each(name.to_owned(), found);
    }
    let next = child(root, "NextMarker").and_then(|node| node.text());
    Ok((names, next.filter(|next| !next.is_empty()).map(str::to_owned)))
}

impl StorageSystem for AzureContainer {
    fn url(&self, path: &str) -> String {
        format!("azure://{}/{path}", self.container)
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
        let (names, _) = self.page(&prefix_of(path), 1, None, &mut |_, _| ())?;
        Ok((names > 0 || path.is_empty()).then_some(SystemEntry::Dir { modified: UNTIMED }))
    }

    fn list(
        &self,
        path: &str,
        each: &mut dyn FnMut(String, SystemEntry),
    ) -> Result<(), RemoteError> {
        list_pages(path, |prefix, marker| {
            let (names, next) = self.page(prefix, NAMES, marker, each)?;
            // Accounts with a hierarchical namespace sort in another order, so the order is not checked.
            Ok(PageSummary { names, is_there: names > 0, last: None, next })
        })
    }

    fn sums(&self, path: &str, object: &ObjectVersion) -> Result<ObjectSums, RemoteError> {
        let query = [("blocklisttype", "committed".to_owned()), ("comp", "blocklist".to_owned())];
        let answer = self.ask("GET", path, RequestFields { query: &query, headers: &[] })?;
        match answer.status.as_u16() {
            200 if answer.header("etag").map(bare_tag) != Some(bare_tag(&object.token)) => {
                return Err(RemoteError::Changed);
            }
            200 => {}
            // A page blob or an append blob has no block list.
            400 | 409 => return Ok(ObjectSums::default()),
            _ => return Err(self.refused(&answer)),
        }
        let text = answer.text();
        let document = xml(&text, "a list of blocks")?;
        let blocks = document.descendants().filter(|node| node.has_tag_name("Block"));
        let units = blocks.filter_map(|node| {
            let len: u64 = child(node, "Size")?.text()?.parse().ok()?;
            let id = child(node, "Name")?.text()?;
            (len > 0).then(|| SummedUnit::new(len, named_sum(id)))
        });
        let units: Vec<SummedUnit> = units.collect();
        let is_known = units.iter().all(|unit| unit.sum.is_some()) && !units.is_empty();
        if is_known {
            return Ok(ObjectSums { units, whole: None });
        }
        let headers = [("if-match", object.token.clone())];
        let answer = self.ask("HEAD", path, RequestFields { query: &[], headers: &headers })?;
        let whole = answer
            .header("content-md5")
            .and_then(|text| ContentSum::new(SumAlgorithm::Md5, &BASE64.decode(text).ok()?).ok());
        Ok(whole.map_or_else(ObjectSums::default, |sum| ObjectSums::of_whole(object.len, sum)))
    }

    fn read(
        &self,
        path: &str,
        object: &ObjectVersion,
        range: Range<u64>,
        buf: &mut [u8],
    ) -> Result<(), RemoteError> {
        let headers = [("if-match", object.token.clone()), ("x-ms-range", range_header(&range))];
        let make = || self.request("GET", path, RequestFields { query: &[], headers: &headers });
        let version = ExpectedVersion::Tag(&object.token);
        let wanted = RangeRequest { range: range.clone(), of: object.len, version };
        let read = self.client.range(&make, &wanted, buf)?;
        read.map_err(|answer| self.refused(&answer))
    }

    fn received(&self) -> u64 {
        self.client.received()
    }
}

/// Parses a block id as a SHA-256: 64 lowercase hexadecimal digits, not all decimal.
fn named_sum(id: &str) -> Option<ContentSum> {
    let text = BASE64.decode(id).ok()?;
    let is_hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if text.len() != 64 || !text.iter().all(is_hex) || text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let byte = |pair: &[u8]| Some(digit(pair[0])? << 4 | digit(pair[1])?);
    let bytes: Vec<u8> = text.chunks_exact(2).map(byte).collect::<Option<_>>()?;
    ContentSum::new(SumAlgorithm::Sha256, &bytes).ok()
}

fn object_of(answer: &HttpAnswer) -> Result<ObjectVersion, RemoteError> {
    let wrong = |what: &str| RemoteError::Wrong(format!("the answer to HEAD lacks {what}"));
    let len = answer.content_length().ok_or_else(|| wrong("a length"))?;
    let token = quoted(answer.header("etag").ok_or_else(|| wrong("an entity tag"))?);
    let modified =
        answer.header("last-modified").and_then(timestamps::from_http).unwrap_or(UNTIMED);
    Ok(ObjectVersion { len, modified, token })
}

fn object_in(node: Node<'_, '_>) -> Result<ObjectVersion, RemoteError> {
    let wrong = |what: &str| RemoteError::Wrong(format!("the list lacks {what}"));
    let properties = child(node, "Properties").ok_or_else(|| wrong("properties"))?;
    let word = |name: &str| child(properties, name).and_then(|node| node.text());
    let len = word("Content-Length").and_then(|len| len.parse().ok());
    Ok(ObjectVersion {
        len: len.ok_or_else(|| wrong("a length"))?,
        modified: word("Last-Modified").and_then(timestamps::from_http).unwrap_or(UNTIMED),
        token: quoted(word("Etag").ok_or_else(|| wrong("an entity tag"))?),
    })
}

/// An entity tag in quotes; lists leave them out.
fn quoted(text: &str) -> String {
    format!("\"{}\"", bare_tag(text))
}

fn child<'a, 'b>(node: Node<'a, 'b>, name: &str) -> Option<Node<'a, 'b>> {
    node.children().find(|child| child.has_tag_name(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestEnvironment;
    use crate::testing::conformance::{self, SumHonesty};
    use crate::testing::fake::{FakeServer, ServedSystem, StoredObject, TestAnswer, TestRequest};
    use md5::Md5;
    use sha2::{Digest as _, Sha256};

    #[test]
    fn an_answer_of_another_kind_is_not_an_empty_list() {
        let parse = |text: &str| page_of(text, "", &mut |name, _| panic!("{name}"));
        let list = "\u{feff}<EnumerationResults><Blobs /><NextMarker /></EnumerationResults>";
        assert_eq!(parse(list).unwrap(), (0, None));
        for other in ["<EnumerationResults/>", "<html><Blobs/></html>"] {
            assert!(parse(other).unwrap_err().to_string().contains("expected a list"), "{other}");
        }
    }

    #[test]
    fn only_block_ids_of_64_hexadecimal_digits_are_checksums() {
        let id = |text: &str| named_sum(&BASE64.encode(text));
        let sum = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(id(sum).unwrap().bytes.len(), 32);
        // Counters, as the Python client uses them, and other ways to name blocks.
        for other in [&format!("{:064}", 7), &format!("{:032}", 7), &sum.to_uppercase(), "block-1"]
        {
            assert_eq!(id(other), None, "{other}");
        }
    }

    /// A block list with SHA-256 checksums as ids.
    fn blocks(fake: &FakeServer, kept: &StoredObject) -> String {
        let block = |part: &[u8]| {
            let sum = Sha256::digest(&*fake.summed(part));
            let id: String = sum.iter().map(|byte| format!("{byte:02x}")).collect();
            let (id, len) = (BASE64.encode(id), part.len());
            format!("<Block><Name>{id}</Name><Size>{len}</Size></Block>")
        };
        let all: String = kept.parts().map(block).collect();
        format!("<BlockList><CommittedBlocks>{all}</CommittedBlocks></BlockList>")
    }

    fn list(fake: &FakeServer) -> String {
        let blob = |(name, kept): (String, StoredObject)| {
            let (len, tag, date) = (kept.bytes.len(), kept.tag(), kept.date());
            format!(
                "<Blob><Name>{name}</Name><Properties><Content-Length>{len}</Content-Length>\
                 <Etag>{}</Etag><Last-Modified>{date}</Last-Modified></Properties></Blob>",
                bare_tag(&tag)
            )
        };
        let all: String = fake.all().into_iter().map(blob).collect();
        format!("<EnumerationResults><Blobs>{all}</Blobs><NextMarker /></EnumerationResults>")
    }

    fn respond(fake: &FakeServer, asked: &TestRequest) -> TestAnswer {
        let Some(name) = asked.path.strip_prefix("/container/") else {
            return TestAnswer::of(200, list(fake));
        };
        let Some(kept) = fake.get(name) else { return TestAnswer::of(404, "") };
        if asked.header("if-match").is_some_and(|tag| tag != kept.tag()) {
            return TestAnswer::of(412, "");
        }
        let told = match (asked.query("comp"), asked.header("x-ms-range")) {
            (Some("blocklist"), _) => TestAnswer::of(200, blocks(fake, &kept)),
            (_, Some(range)) => fake.ranged(&kept, range),
            _ => TestAnswer::of(200, kept.bytes.clone()),
        };
        // Azure stores no MD5 of a blob that was uploaded in blocks.
        let told = match kept.parts().next() {
            Some(_) => told,
            None => {
                told.with("content-md5", BASE64.encode(Md5::digest(&*fake.summed(&kept.bytes))))
            }
        };
        told.with("etag", kept.tag()).with("last-modified", kept.date())
    }

    #[test]
    fn a_container_passes_the_conformance_suite() {
        conformance::run(&[SumAlgorithm::Md5, SumAlgorithm::Sha256], |says| {
            let fake = FakeServer::new(says == SumHonesty::Lies);
            let endpoint = format!("http://{}", fake.serve(respond));
            let vars =
                [("AZURE_STORAGE_ACCOUNT", "me"), ("AZURE_STORAGE_BLOB_ENDPOINT", &endpoint)];
            let system =
                AzureContainer::open("container", &TestEnvironment::of(&vars)).unwrap().into();
            ServedSystem { fake, system }
        });
    }
}
