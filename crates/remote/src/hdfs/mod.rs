//! HDFS: names and content by WebHDFS, sums by the protocol of its datanodes.
//!
//! A file's identity is its number, its length and its time of change. Sums are CRCs of units of each block, which a
//! datanode joins from those that it stores: nothing is read there either.

mod datanode;

use std::net::ToSocketAddrs as _;
use std::ops::Range;
use std::time::Duration;

use http::{Request, StatusCode};
use serde_json::Value;

use crate::at_once::at_once;
use crate::http::{Answer, Client, Redirects, Version, Wanted, escaped, is_near};
use crate::sums::{Sums, unit_bytes};
use crate::system::{Found, Object, Pages, System};
use crate::{Env, RemoteError, instant};

use datanode::Block;

/// Port of WebHDFS unless the URL says another.
const PORT: u16 = 9870;
/// Ports of namenodes that speak no HTTP.
const RPC_PORTS: [u16; 2] = [8020, 9000];
/// End of the identity of a file that is not stored as it is read.
const CODED: &str = ":coded";
/// Longest wait for a datanode.
const PATIENCE: Duration = Duration::from_secs(20);

/// A cluster.
#[derive(Debug)]
pub(crate) struct Hdfs {
    client: Client,
    authority: String,
    user: String,
}

impl Hdfs {
    pub(crate) fn open(authority: &str, env: &dyn Env) -> Result<Self, RemoteError> {
        let bad = |why: String| RemoteError::Address(format!("hdfs://{authority}: {why}"));
        let parsed: http::uri::Authority =
            authority.parse().map_err(|_| bad("write hdfs://NAMENODE:PORT/PATH".into()))?;
        let port = parsed.port_u16();
        if let Some(port) = port.filter(|port| RPC_PORTS.contains(port)) {
            return Err(bad(format!("{port} is the port of programs in Java; WebHDFS has {PORT}")));
        }
        if parsed.as_str().contains('@') {
            return Err(bad("HADOOP_USER_NAME names the user".into()));
        }
        let authority = format!("{}:{}", parsed.host(), port.unwrap_or(PORT));
        let user = ["HADOOP_USER_NAME", "USER", "LOGNAME"].iter().find_map(|name| env.var(name));
        let user = user.unwrap_or_else(|| "root".into());
        Ok(Self { client: Client::new(Redirects::Follow), authority, user })
    }

    fn request(&self, path: &str, query: &str) -> Result<Request<()>, RemoteError> {
        let Self { authority, user, .. } = self;
        let (path, user) = (escaped(path, true), escaped(user, false));
        let url = format!("http://{authority}/webhdfs/v1/{path}?op={query}&user.name={user}");
        Request::get(url)
            .body(())
            .map_err(|error| RemoteError::Address(format!("{}: {error}", self.url(&path))))
    }

    /// The answer to `op` about a path.
    fn ask(&self, path: &str, query: &str) -> Result<Value, RemoteError> {
        let answer = self.client.ask(&|| self.request(path, query))?;
        match answer.status {
            StatusCode::OK => json(&answer),
            _ => Err(self.refused(&answer)),
        }
    }

    fn refused(&self, answer: &Answer) -> RemoteError {
        let told: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let told = &told["RemoteException"];
        let words = told["message"].as_str().unwrap_or_default();
        let words = words.lines().next().unwrap_or_default();
        let why = match (answer.status.as_u16(), told["exception"].as_str().unwrap_or_default()) {
            (_, "FileNotFoundException") => return RemoteError::NotFound,
            (401, _) => "it asks who we are: clusters with Kerberos are not supported; \
                         mount it, or copy from a machine of the cluster"
                .to_owned(),
            (_, "StandbyException") => "it is the standby namenode; name the active one".into(),
            (status, exception) => format!("{status} {exception} {words}").trim_end().to_owned(),
        };
        RemoteError::Refused { server: self.authority.clone(), why }
    }

    /// True if the namenode is on this machine or its wire: then its datanodes may be, too.
    fn is_near(&self) -> bool {
        let all = self.authority.to_socket_addrs();
        all.is_ok_and(|mut all| all.any(|address| is_near(address.ip())))
    }

    /// The blocks of a file, as far as their datanodes may be asked for sums.
    fn blocks(&self, path: &str, object: &Object) -> Result<Option<Vec<Block>>, RemoteError> {
        let told = match self.ask(path, "GET_BLOCK_LOCATIONS") {
            Ok(told) => told,
            // A namenode that does not know the operation, or a list that is too long; data can still be read.
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
        let blocks: Option<Vec<Block>> = blocks.iter().map(Block::parse).collect();
        let len = |blocks: &Vec<Block>| {
            blocks.iter().try_fold(0_u64, |all, block| all.checked_add(block.len()))
        };
        Ok(blocks.filter(|blocks| len(blocks) == Some(object.len)))
    }
}

impl System for Hdfs {
    fn url(&self, path: &str) -> String {
        format!("hdfs://{}/{path}", self.authority)
    }

    fn look(&self, path: &str) -> Result<Option<Found>, RemoteError> {
        match self.ask(path, "GETFILESTATUS") {
            Ok(told) => found(&told["FileStatus"]).map(Some),
            Err(RemoteError::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn list(&self, path: &str, each: &mut dyn FnMut(String, Found)) -> Result<(), RemoteError> {
        let (mut after, mut pages) = (String::new(), Pages::default());
        loop {
            let query = match after.is_empty() {
                true => "LISTSTATUS_BATCH".to_owned(),
                false => format!("LISTSTATUS_BATCH&startAfter={}", escaped(&after, false)),
            };
            let told = self.ask(path, &query)?;
            let listing = &told["DirectoryListing"];
            let entries = &listing["partialListing"]["FileStatuses"]["FileStatus"];
            let entries = entries.as_array().ok_or_else(|| odd("a list"))?;
            for entry in entries {
                let name = entry["pathSuffix"].as_str().ok_or_else(|| odd("a name"))?;
                if name.is_empty() {
                    // It is a file, of which one asked for the list.
                    return Err(RemoteError::NotFound);
                }
                if !is_behind(name, &after) {
                    return Err(Pages::endless());
                }
                name.clone_into(&mut after);
                if entry["type"] != "SYMLINK" {
                    each(name.to_owned(), found(entry)?);
                }
            }
            pages.take(entries.len())?;
            if entries.is_empty() || listing["remainingEntries"].as_u64().unwrap_or(0) == 0 {
                return Ok(());
            }
        }
    }

    fn sums(&self, path: &str, object: &Object) -> Result<Sums, RemoteError> {
        // Those are sums of what is stored. That it is still this version, the end checks.
        if object.len == 0 || object.token.ends_with(CODED) {
            return Ok(Sums::default());
        }
        let Some(blocks) = self.blocks(path, object)? else { return Ok(Sums::default()) };
        let near = self.is_near();
        let unit = unit_bytes(object.len);
        let asked = at_once(&blocks, |block| {
            let units = block.sums(unit, (PATIENCE, near)).map_err(Some)?.ok_or(None)?;
            self.client.count(units.len() as u64 * 4);
            Ok(units)
        });
        match asked {
            Ok(units) => Ok(Sums { units: units.concat(), whole: None }),
            // A datanode that knows no such sums.
            Err(None) => Ok(Sums::default()),
            Err(Some(error)) => Err(error),
        }
    }

    fn read(
        &self,
        path: &str,
        object: &Object,
        range: Range<u64>,
        buf: &mut [u8],
    ) -> Result<(), RemoteError> {
        let query = format!("OPEN&offset={}&length={}", range.start, range.end - range.start);
        let make = || self.request(path, &query);
        let wanted = Wanted { range, of: object.len, version: Version::Untold };
        let read = self.client.range(&make, &wanted, buf)?;
        read.map_err(|answer| self.refused(&answer))
    }

    fn check(&self, path: &str, object: &Object) -> Result<(), RemoteError> {
        match self.look(path)? {
            Some(Found::Object(now)) if now == *object => Ok(()),
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

/// True if a name is behind another in a list of a namenode, which compares bytes with signs.
fn is_behind(name: &str, after: &str) -> bool {
    let signed = |text: &str| text.bytes().map(u8::cast_signed).collect::<Vec<_>>();
    signed(name) > signed(after)
}

fn json(answer: &Answer) -> Result<Value, RemoteError> {
    serde_json::from_slice(&answer.body).map_err(|_| odd("JSON"))
}

fn odd(what: &str) -> RemoteError {
    RemoteError::Wrong(format!("an answer of WebHDFS without {what}"))
}

fn found(status: &Value) -> Result<Found, RemoteError> {
    let millis = status["modificationTime"].as_i64().ok_or_else(|| odd("a time"))?;
    let modified = instant::of_millis(millis);
    match status["type"].as_str() {
        Some("DIRECTORY") => Ok(Found::Dir { modified }),
        Some("FILE") => {
            let len = status["length"].as_u64().ok_or_else(|| odd("a length"))?;
            // It is encrypted, or lies in stripes.
            let is = |name: &str| status[name].as_bool() == Some(true);
            let coded = if is("encBit") || is("ecBit") { CODED } else { "" };
            let token = format!("{}:{len}:{millis}{coded}", status["fileId"]);
            Ok(Found::Object(Object { len, modified, token }))
        }
        _ => Err(odd("the type of an entry")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sums::Algorithm;
    use crate::testing::Vars;
    use crate::testing::conformance::{self, Says};
    use crate::testing::fake::{Asked, Fake, Kept, PART, Served, Told};

    #[test]
    fn a_file_that_is_stored_otherwise_is_asked_for_no_sums() {
        let cluster = Hdfs::open("127.0.0.1:1", &crate::testing::Vars::default()).unwrap();
        for coded in ["encBit", "ecBit"] {
            let told = serde_json::json!({
                "type": "FILE", "length": 5, "modificationTime": 1, "fileId": 7, coded: true,
            });
            let Ok(Found::Object(object)) = found(&told) else { panic!("no file") };
            assert_eq!(cluster.sums("img", &object).unwrap(), Sums::default());
        }
    }

    #[test]
    fn names_of_a_list_ascend_as_a_namenode_compares_them() {
        assert!(is_behind("a", "") && is_behind("b", "a") && is_behind("ab", "a"));
        // Bytes have signs there.
        assert!(is_behind("z", "\u{e4}") && is_behind("\u{e4}", ""));
        assert!(!is_behind("a", "a") && !is_behind("a", "b") && !is_behind("", ""));
    }

    fn status(name: &str, kept: &Kept) -> Value {
        serde_json::json!({
            "type": "FILE", "pathSuffix": name, "length": kept.bytes.len(), "fileId": 7,
            "modificationTime": kept.secs() * 1000,
        })
    }

    fn located(kept: &Kept, port: u16) -> Value {
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

    fn told(fake: &Fake, asked: &Asked) -> Told {
        let name = asked.path.strip_prefix("/webhdfs/v1/").unwrap();
        let refused = |status, exception: &str| {
            let told = serde_json::json!({"RemoteException": {"exception": exception}});
            Told::of(status, told.to_string())
        };
        let all =
            || -> Vec<_> { fake.all().iter().map(|(name, kept)| status(name, kept)).collect() };
        let kept = match (asked.query("op").unwrap(), fake.get(name)) {
            ("LISTSTATUS_BATCH", _) => {
                let list = serde_json::json!({"DirectoryListing": {
                    "partialListing": {"FileStatuses": {"FileStatus": all()}}, "remainingEntries": 0,
                }});
                return Told::of(200, list.to_string());
            }
            (_, None) => return refused(404, "FileNotFoundException"),
            (_, Some(kept)) => kept,
        };
        let number = |name: &str| asked.query(name).map(|text| text.parse::<usize>().unwrap());
        match (asked.query("op").unwrap(), number("offset"), number("length")) {
            ("OPEN", Some(start), Some(len)) if start + len <= kept.bytes.len() => {
                Told::of(200, fake.content(&kept, start..start + len))
            }
            // As far as there are bytes.
            ("OPEN", Some(start), _) if start < kept.bytes.len() => {
                Told::of(200, fake.content(&kept, start..kept.bytes.len()))
            }
            ("OPEN", ..) => refused(403, "IOException"),
            ("GET_BLOCK_LOCATIONS", ..) => Told::of(200, located(&kept, fake.port()).to_string()),
            _ => Told::of(200, serde_json::json!({"FileStatus": status("", &kept)}).to_string()),
        }
    }

    #[test]
    fn a_cluster_keeps_the_laws() {
        conformance::run(&[Algorithm::Crc32c], |says| {
            let fake = Fake::new(says == Says::Lies);
            fake.answer_besides(datanode::tests::told);
            let system = Hdfs::open(&fake.serve(told), &Vars::default()).unwrap().into();
            Served { fake, system }
        });
    }
}
