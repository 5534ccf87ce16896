//! HDFS: names and content by WebHDFS, checksums by the protocol of its datanodes.
//!
//! A file version is identified by file id, length and modification time. Checksums are CRCs of units of each block.
//! The datanode combines them from the CRCs that it stores, without reading the block.

mod datanode;

use std::net::ToSocketAddrs as _;
use std::ops::Range;
use std::time::Duration;

use http::{Request, StatusCode};
use serde_json::Value;

use crate::http::{
    ExpectedVersion, HttpAnswer, HttpClient, RangeRequest, RedirectPolicy, escaped, is_near,
};
use crate::parallel::map_parallel;
use crate::sums::{ObjectSums, unit_bytes};
use crate::system::{ObjectVersion, PageGuard, StorageSystem, SystemEntry};
use crate::{Environment, RemoteError, timestamps};

use datanode::HdfsBlock;

/// Default port of WebHDFS.
const PORT: u16 = 9870;
/// Usual ports of the namenode's RPC, which is not HTTP.
const RPC_PORTS: [u16; 2] = [8020, 9000];
/// Suffix of the version token of an encrypted or erasure-coded file: the datanodes' bytes are not the content.
const CODED: &str = ":coded";
/// Timeout of a datanode, for each step.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A cluster, reached through the namenode.
#[derive(Debug)]
pub(crate) struct HdfsCluster {
    client: HttpClient,
    authority: String,
    user: String,
}

impl HdfsCluster {
    pub(crate) fn open(authority: &str, env: &dyn Environment) -> Result<Self, RemoteError> {
        let bad = |why: String| RemoteError::Address(format!("hdfs://{authority}: {why}"));
        let parsed: http::uri::Authority =
            authority.parse().map_err(|_| bad("write hdfs://NAMENODE:PORT/PATH".into()))?;
        let port = parsed.port_u16();
        if let Some(port) = port.filter(|port| RPC_PORTS.contains(port)) {
            return Err(bad(format!("{port} is the namenode's RPC port; WebHDFS has {PORT}")));
        }
        if parsed.as_str().contains('@') {
            return Err(bad("HADOOP_USER_NAME names the user".into()));
        }
        let authority = format!("{}:{}", parsed.host(), port.unwrap_or(PORT));
        let user = ["HADOOP_USER_NAME", "USER", "LOGNAME"].iter().find_map(|name| env.var(name));
        let user = user.unwrap_or_else(|| "root".into());
        Ok(Self { client: HttpClient::new(RedirectPolicy::Follow), authority, user })
    }

    fn request(&self, path: &str, query: &str) -> Result<Request<()>, RemoteError> {
        let Self { authority, user, .. } = self;
        let (path, user) = (escaped(path, true), escaped(user, false));
        let url = format!("http://{authority}/webhdfs/v1/{path}?op={query}&user.name={user}");
        Request::get(url)
            .body(())
            .map_err(|error| RemoteError::Address(format!("{}: {error}", self.url(&path))))
    }

    /// The JSON answer to the operation `query` on a path.
    fn ask(&self, path: &str, query: &str) -> Result<Value, RemoteError> {
        let answer = self.client.ask(&|| self.request(path, query))?;
        match answer.status {
            StatusCode::OK => json(&answer),
            _ => Err(self.refused(&answer)),
        }
    }

    fn refused(&self, answer: &HttpAnswer) -> RemoteError {
        let told: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let told = &told["RemoteException"];
        let words = told["message"].as_str().unwrap_or_default();
        let words = words.lines().next().unwrap_or_default();
        let why = match (answer.status.as_u16(), told["exception"].as_str().unwrap_or_default()) {
            (_, "FileNotFoundException") => return RemoteError::NotFound,
            (401, _) => {
                "the cluster requires authentication, and Deltic does not support Kerberos; \
                         mount HDFS, or copy from a machine of the cluster"
                    .to_owned()
            }
            (_, "StandbyException") => {
                "this namenode is on standby; name the active namenode".into()
            }
            (status, exception) => format!("{status} {exception} {words}").trim_end().to_owned(),
        };
        RemoteError::Refused { server: self.authority.clone(), why }
    }

    /// True if the namenode has a loopback or link-local address. Only then may a datanode have such an address.
    fn is_near(&self) -> bool {
        let all = self.authority.to_socket_addrs();
        all.is_ok_and(|mut all| all.any(|address| is_near(address.ip())))
    }

    /// The blocks of a file. `None` if the checksums cannot be requested: the file is being written, or blocks need
    /// an access token.
    fn blocks(
        &self,
        path: &str,
        object: &ObjectVersion,
    ) -> Result<Option<Vec<HdfsBlock>>, RemoteError> {
        let told = match self.ask(path, "GET_BLOCK_LOCATIONS") {
            Ok(told) => told,
            // The namenode does not know the operation, or the list is too long. The file can still be read.
            Err(RemoteError::Refused { .. } | RemoteError::Wrong(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        let located = &told["LocatedBlocks"];
        if located["fileLength"].as_u64() != Some(object.len) {
            return Err(RemoteError::Changed);
        }
        if located["isUnderConstruction"].as_bool() != Some(false) {
            return Ok(None);
        }
        let Some(blocks) = located["locatedBlocks"].as_array() else { return Ok(None) };
        let blocks: Option<Vec<HdfsBlock>> = blocks.iter().map(HdfsBlock::parse).collect();
        let len = |blocks: &Vec<HdfsBlock>| {
            blocks.iter().try_fold(0_u64, |all, block| all.checked_add(block.len()))
        };
        Ok(blocks.filter(|blocks| len(blocks) == Some(object.len)))
    }
}

impl StorageSystem for HdfsCluster {
    fn url(&self, path: &str) -> String {
        format!("hdfs://{}/{path}", self.authority)
    }

    fn look(&self, path: &str) -> Result<Option<SystemEntry>, RemoteError> {
        match self.ask(path, "GETFILESTATUS") {
            Ok(told) => parse_status(&told["FileStatus"]).map(Some),
            Err(RemoteError::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn list(
        &self,
        path: &str,
        each: &mut dyn FnMut(String, SystemEntry),
    ) -> Result<(), RemoteError> {
        let (mut after, mut pages) = (String::new(), PageGuard::default());
        loop {
            let query = match after.is_empty() {
                true => "LISTSTATUS_BATCH".to_owned(),
                false => format!("LISTSTATUS_BATCH&startAfter={}", escaped(&after, false)),
            };
            let told = self.ask(path, &query)?;
            let listing = &told["DirectoryListing"];
            let entries = &listing["partialListing"]["FileStatuses"]["FileStatus"];
            let entries = entries.as_array().ok_or_else(|| malformed("a list"))?;
            for entry in entries {
                let name = entry["pathSuffix"].as_str().ok_or_else(|| malformed("a name"))?;
                if name.is_empty() {
                    // The path is a file, not a directory.
                    return Err(RemoteError::NotFound);
                }
                if !is_after(name, &after) {
                    return Err(PageGuard::no_progress_error());
                }
                name.clone_into(&mut after);
                if entry["type"] != "SYMLINK" {
                    each(name.to_owned(), parse_status(entry)?);
                }
            }
            pages.take(entries.len())?;
            if entries.is_empty() || listing["remainingEntries"].as_u64().unwrap_or(0) == 0 {
                return Ok(());
            }
        }
    }

    fn sums(&self, path: &str, object: &ObjectVersion) -> Result<ObjectSums, RemoteError> {
        // Checksums of an encrypted or erasure-coded file cover the stored bytes. `check` verifies the version.
        if object.len == 0 || object.token.ends_with(CODED) {
            return Ok(ObjectSums::default());
        }
        let Some(blocks) = self.blocks(path, object)? else { return Ok(ObjectSums::default()) };
        let near = self.is_near();
        let unit = unit_bytes(object.len);
        let asked = map_parallel(&blocks, |block| {
            let units = block.sums(unit, TIMEOUT, near).map_err(Some)?.ok_or(None)?;
            self.client.count(units.len() as u64 * 4);
            Ok(units)
        });
        match asked {
            Ok(units) => Ok(ObjectSums { units: units.concat(), whole: None }),
            // The datanode does not know composite CRCs.
            Err(None) => Ok(ObjectSums::default()),
            Err(Some(error)) => Err(error),
        }
    }

    fn read(
        &self,
        path: &str,
        object: &ObjectVersion,
        range: Range<u64>,
        buf: &mut [u8],
    ) -> Result<(), RemoteError> {
        let query = format!("OPEN&offset={}&length={}", range.start, range.end - range.start);
        let make = || self.request(path, &query);
        let wanted = RangeRequest { range, of: object.len, version: ExpectedVersion::NotSent };
        let read = self.client.range(&make, &wanted, buf)?;
        read.map_err(|answer| self.refused(&answer))
    }

    fn check(&self, path: &str, object: &ObjectVersion) -> Result<(), RemoteError> {
        match self.look(path)? {
            Some(SystemEntry::Object(now)) if now == *object => Ok(()),
            _ => Err(RemoteError::Changed),
        }
    }

    fn received(&self) -> u64 {
        self.client.received()
    }

    fn has_dir_times(&self) -> bool {
        true
    }
}

/// True if `name` comes after `after` in the order of a namenode, which compares bytes as signed numbers.
fn is_after(name: &str, after: &str) -> bool {
    let signed = |text: &str| text.bytes().map(u8::cast_signed).collect::<Vec<_>>();
    signed(name) > signed(after)
}

fn json(answer: &HttpAnswer) -> Result<Value, RemoteError> {
    serde_json::from_slice(&answer.body).map_err(|_| malformed("JSON"))
}

fn malformed(what: &str) -> RemoteError {
    RemoteError::Wrong(format!("the answer of WebHDFS lacks {what}"))
}

fn parse_status(status: &Value) -> Result<SystemEntry, RemoteError> {
    let millis = status["modificationTime"].as_i64().ok_or_else(|| malformed("a time"))?;
    let modified = timestamps::from_millis(millis);
    match status["type"].as_str() {
        Some("DIRECTORY") => Ok(SystemEntry::Dir { modified }),
        Some("FILE") => {
            let len = status["length"].as_u64().ok_or_else(|| malformed("a length"))?;
            // The file is encrypted or erasure-coded.
            let is = |name: &str| status[name].as_bool() == Some(true);
            let coded = if is("encBit") || is("ecBit") { CODED } else { "" };
            let token = format!("{}:{len}:{millis}{coded}", status["fileId"]);
            Ok(SystemEntry::Object(ObjectVersion { len, modified, token }))
        }
        _ => Err(malformed("the type of an entry")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sums::SumAlgorithm;
    use crate::testing::TestEnvironment;
    use crate::testing::conformance::{self, SumHonesty};
    use crate::testing::fake::{
        FakeServer, PART, ServedSystem, StoredObject, TestAnswer, TestRequest,
    };

    #[test]
    fn no_checksums_are_requested_of_an_encrypted_or_erasure_coded_file() {
        let cluster =
            HdfsCluster::open("127.0.0.1:1", &crate::testing::TestEnvironment::default()).unwrap();
        for coded in ["encBit", "ecBit"] {
            let told = serde_json::json!({
                "type": "FILE", "length": 5, "modificationTime": 1, "fileId": 7, coded: true,
            });
            let Ok(SystemEntry::Object(object)) = parse_status(&told) else { panic!("no file") };
            assert_eq!(cluster.sums("img", &object).unwrap(), ObjectSums::default());
        }
    }

    #[test]
    fn names_of_a_list_ascend_in_the_order_of_signed_bytes() {
        assert!(is_after("a", "") && is_after("b", "a") && is_after("ab", "a"));
        // The namenode compares bytes as signed numbers.
        assert!(is_after("z", "\u{e4}") && is_after("\u{e4}", ""));
        assert!(!is_after("a", "a") && !is_after("a", "b") && !is_after("", ""));
    }

    fn status(name: &str, kept: &StoredObject) -> Value {
        serde_json::json!({
            "type": "FILE", "pathSuffix": name, "length": kept.bytes.len(), "fileId": 7,
            "modificationTime": kept.secs() * 1000,
        })
    }

    fn located(kept: &StoredObject, port: u16) -> Value {
        let block = |(at, part): (usize, &[u8])| {
            let id = kept.no * 1000 + at as u64;
            serde_json::json!({
                "block": {"blockPoolId": "BP-1", "blockId": id, "generationStamp": 1, "numBytes": part.len()},
                "locations": [{"ipAddr": "127.0.0.1", "xferPort": port}],
            })
        };
        let blocks: Vec<_> = kept.bytes.chunks(PART).enumerate().map(block).collect();
        serde_json::json!({"LocatedBlocks": {
            "fileLength": kept.bytes.len(), "isUnderConstruction": false, "locatedBlocks": blocks,
        }})
    }

    fn respond(fake: &FakeServer, asked: &TestRequest) -> TestAnswer {
        let name = asked.path.strip_prefix("/webhdfs/v1/").unwrap();
        let refused = |status, exception: &str| {
            let told = serde_json::json!({"RemoteException": {"exception": exception}});
            TestAnswer::of(status, told.to_string())
        };
        let all =
            || -> Vec<_> { fake.all().iter().map(|(name, kept)| status(name, kept)).collect() };
        let kept = match (asked.query("op").unwrap(), fake.get(name)) {
            ("LISTSTATUS_BATCH", _) => {
                let list = serde_json::json!({"DirectoryListing": {
                    "partialListing": {"FileStatuses": {"FileStatus": all()}}, "remainingEntries": 0,
                }});
                return TestAnswer::of(200, list.to_string());
            }
            (_, None) => return refused(404, "FileNotFoundException"),
            (_, Some(kept)) => kept,
        };
        let number = |name: &str| asked.query(name).map(|text| text.parse::<usize>().unwrap());
        match (asked.query("op").unwrap(), number("offset"), number("length")) {
            ("OPEN", Some(start), Some(len)) if start + len <= kept.bytes.len() => {
                TestAnswer::of(200, fake.content(&kept, start..start + len))
            }
            // A range past the end is cut at the end.
            ("OPEN", Some(start), _) if start < kept.bytes.len() => {
                TestAnswer::of(200, fake.content(&kept, start..kept.bytes.len()))
            }
            ("OPEN", ..) => refused(403, "IOException"),
            ("GET_BLOCK_LOCATIONS", ..) => {
                TestAnswer::of(200, located(&kept, fake.port()).to_string())
            }
            _ => TestAnswer::of(
                200,
                serde_json::json!({"FileStatus": status("", &kept)}).to_string(),
            ),
        }
    }

    #[test]
    fn a_cluster_passes_the_conformance_suite() {
        conformance::run(&[SumAlgorithm::Crc32c], |says| {
            let fake = FakeServer::new(says == SumHonesty::Lies);
            fake.serve_second_port(datanode::tests::respond);
            let system = HdfsCluster::open(&fake.serve(respond), &TestEnvironment::default())
                .unwrap()
                .into();
            ServedSystem { fake, system }
        });
    }
}
