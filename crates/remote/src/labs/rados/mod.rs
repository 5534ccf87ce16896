//! Ceph: objects of a pool, by librados.
//!
//! An object server computes checksums of ranges on request: it reads the object and sends checksums instead of bytes.
//! Each request names the version of the object. Slashes in object names stand for directories.

mod librados;

use std::collections::BTreeSet;
use std::io;
use std::ops::{Bound, Range};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use deltic_tree::Timestamp;

use crate::labs::{is_not_utf8, mark_not_utf8};
use crate::parallel::map_parallel;
use crate::sums::{ContentSum, ObjectSums, SumAlgorithm, SummedUnit, unit_bytes};
use crate::system::{MAX_NAMES, ObjectVersion, StorageSystem, SystemEntry, prefix_of};
use crate::tree::UNTIMED;
use crate::{RemoteError, lock};

use librados::{CephCluster, Errno, NOT_FOUND, ObjectStat, text};

/// Bytes checksummed by a step of an operation: a server holds them in memory.
const PART_BYTES: u64 = 8 << 20;
/// Most parts of an operation. Each operation adds some hundred bytes to the traffic.
const PARTS: usize = 16;
/// `EACCES`: the keyring is missing.
const NO_KEY: Errno = Errno(13);
/// Most bytes of all names of a pool.
const MAX_NAME_BYTES: usize = 512 << 20;
/// Timeouts in seconds, of monitors and of object servers.
const TIMEOUTS: [(&std::ffi::CStr, &std::ffi::CStr); 3] = [
    (c"client_mount_timeout", c"20"),
    (c"rados_mon_op_timeout", c"30"),
    (c"rados_osd_op_timeout", c"30"),
];

/// A pool of a cluster.
#[derive(Debug)]
pub(crate) struct RadosPool {
    pool: String,
    user: Option<String>,
    cluster: OnceLock<CephCluster>,
    connecting: Mutex<()>,
    /// Names of all objects, listed once: a pool can only be listed as a whole.
    names: Mutex<Option<Arc<BTreeSet<String>>>>,
    received: AtomicU64,
}

impl RadosPool {
    pub(crate) fn open(host: &str) -> Result<Self, RemoteError> {
        let (user, pool) = match host.split_once('@') {
            Some((user, pool)) => (Some(user.to_owned()), pool),
            None => (None, host),
        };
        let is_plain = |text: &str| !text.is_empty() && !text.contains(['\0', ':', '@']);
        if !is_plain(pool) || user.as_deref().is_some_and(|user| !is_plain(user)) {
            let why = "write rados://POOL/PATH, or rados://USER@POOL/PATH";
            return Err(RemoteError::Address(format!("rados://{host}: {why}")));
        }
        Ok(Self {
            pool: pool.to_owned(),
            user,
            cluster: OnceLock::new(),
            connecting: Mutex::default(),
            names: Mutex::default(),
            received: AtomicU64::new(0),
        })
    }

    fn cluster(&self) -> Result<&CephCluster, RemoteError> {
        let _connecting = lock(&self.connecting);
        if let Some(cluster) = self.cluster.get() {
            return Ok(cluster);
        }
        let bad = |why: String| RemoteError::Address(format!("rados://{}: {why}", self.pool));
        let user = self.user.as_deref().and_then(text);
        let cluster = CephCluster::new(user.as_deref(), &TIMEOUTS).map_err(|why| {
            bad(format!(
                "{} cannot be loaded ({why}); Debian has it in librados2",
                librados::LIBRARY
            ))
        })?;
        let cluster = cluster.map_err(|error| {
            let why = reason(error);
            bad(format!(
                "no configuration of Ceph: {why}; CEPH_CONF names them, /etc/ceph/ceph.conf is usual"
            ))
        })?;
        // librados returns `ENOENT` for a missing keyring too.
        let connected =
            cluster.connect().map_err(|error| if error == NOT_FOUND { NO_KEY } else { error });
        connected.map_err(|error| self.error_of(error))?;
        Ok(self.cluster.get_or_init(|| cluster))
    }

    /// Runs `call` with a new context of the pool.
    fn with<T>(
        &self,
        call: impl FnOnce(&librados::PoolContext<'_>) -> Result<T, Errno>,
    ) -> Result<T, RemoteError> {
        let name = text(&self.pool).ok_or(RemoteError::NotFound)?;
        let pool = match self.cluster()?.pool(&name) {
            Err(NOT_FOUND) => {
                let why = format!("there is no pool {}", self.pool);
                return Err(RemoteError::Refused { server: "ceph".into(), why });
            }
            pool => pool.map_err(|error| self.error_of(error))?,
        };
        call(&pool).map_err(|error| self.error_of(error))
    }

    fn error_of(&self, Errno(errno): Errno) -> RemoteError {
        let (server, why) = ("ceph".to_owned(), reason(Errno(errno)));
        match errno {
            2 => RemoteError::NotFound,
            // `ERANGE` and `EOVERFLOW`: the version is older or newer.
            34 | 75 => RemoteError::Changed,
            1 | 13 => RemoteError::Refused {
                server,
                why: format!("{why}; a keyring of {} is needed", self.client_name()),
            },
            22 | 95 => RemoteError::Refused { server, why },
            _ => RemoteError::Unreachable { server, why },
        }
    }

    fn client_name(&self) -> String {
        format!("client.{}", self.user.as_deref().unwrap_or("admin"))
    }

    fn stat(&self, path: &str) -> Result<ObjectVersion, RemoteError> {
        let name = text(path).ok_or(RemoteError::NotFound)?;
        let ObjectStat { len, secs, version } = self.with(|pool| pool.stat(&name))?;
        let modified = Timestamp { secs, nanos: 0 };
        Ok(ObjectVersion { len, modified, token: version.to_string() })
    }

    /// The names of all objects, listed by the first call.
    fn names(&self) -> Result<Arc<BTreeSet<String>>, RemoteError> {
        let mut held = lock(&self.names);
        if let Some(names) = &*held {
            return Ok(Arc::clone(names));
        }
        let (mut names, mut bytes) = (BTreeSet::new(), 0);
        self.with(|pool| {
            pool.names(&mut |name| {
                bytes += name.count_bytes();
                let text = name.to_str().map(str::to_owned);
                names.insert(text.unwrap_or_else(|_| mark_not_utf8(&name.to_string_lossy())));
                names.len() <= MAX_NAMES && bytes <= MAX_NAME_BYTES
            })
        })?;
        if names.len() > MAX_NAMES || bytes > MAX_NAME_BYTES {
            let why = format!("a pool of more than {MAX_NAMES} objects");
            return Err(RemoteError::Wrong(why));
        }
        Ok(Arc::clone(held.insert(Arc::new(names))))
    }

    /// Requests the checksums of `parts` of an object, in units of `unit` bytes, in an operation.
    fn request_sums(
        &self,
        path: &str,
        object: &ObjectVersion,
        parts: &[Range<u64>],
        unit: u64,
    ) -> Result<Vec<SummedUnit>, RemoteError> {
        let (name, version) = (text(path).ok_or(RemoteError::NotFound)?, version_of(object)?);
        let told = self.with(|pool| pool.sums(&name, version, parts, unit as usize))?;
        let bytes = told.iter().map(Vec::len).sum::<usize>() as u64;
        self.received.fetch_add(bytes, Ordering::Relaxed);
        let mut units = Vec::new();
        for (part, told) in parts.iter().zip(told) {
            let len = part.end - part.start;
            let sums = parse_sums(&told, len.div_ceil(unit))?;
            units.extend(sums.map(|sum| SummedUnit::new(len.min(unit), Some(sum))));
        }
        Ok(units)
    }
}

/// Parses an answer: the number of checksums, then the checksums, all little-endian.
///
/// # Errors
/// [`RemoteError::Wrong`] unless there are `count` checksums.
fn parse_sums(told: &[u8], count: u64) -> Result<impl Iterator<Item = ContentSum>, RemoteError> {
    let odd = || RemoteError::Wrong(format!("expected {count} checksums from Ceph"));
    let (number, sums) = told.split_first_chunk::<4>().ok_or_else(odd)?;
    if u64::from(u32::from_le_bytes(*number)) != count || sums.len() as u64 != count * 8 {
        return Err(odd());
    }
    Ok(sums.chunks_exact(8).map(|sum| {
        let bytes: Vec<u8> = sum.iter().rev().copied().collect();
        ContentSum { algorithm: SumAlgorithm::Xxh64, bytes: bytes.into() }
    }))
}

/// Splits `len` bytes into parts for checksum requests. Every part but the last is a multiple of `unit` long.
fn parts(len: u64, unit: u64) -> Vec<Range<u64>> {
    let whole = len - len % unit;
    let each = PART_BYTES.max(unit) / unit * unit;
    let mut parts: Vec<_> =
        (0..whole).step_by(each as usize).map(|start| start..whole.min(start + each)).collect();
    parts.extend((whole < len).then_some(whole..len));
    parts
}

impl StorageSystem for RadosPool {
    fn url(&self, path: &str) -> String {
        format!("rados://{}/{path}", self.pool)
    }

    fn look(&self, path: &str) -> Result<Option<SystemEntry>, RemoteError> {
        if path.is_empty() {
            return self.with(|_| Ok(Some(SystemEntry::Dir { modified: UNTIMED })));
        }
        match self.stat(path) {
            Ok(object) => return Ok(Some(SystemEntry::Object(object))),
            Err(RemoteError::NotFound) => {}
            Err(error) => return Err(error),
        }
        let (names, prefix) = (self.names()?, prefix_of(path));
        let first = names.range(prefix.clone()..).next();
        let is_dir = first.is_some_and(|name| name.starts_with(&prefix));
        Ok(is_dir.then_some(SystemEntry::Dir { modified: UNTIMED }))
    }

    fn list(
        &self,
        path: &str,
        each: &mut dyn FnMut(String, SystemEntry),
    ) -> Result<(), RemoteError> {
        let names = self.names()?;
        let (dirs, objects) = children(&names, &prefix_of(path));
        if dirs.is_empty() && objects.is_empty() && !path.is_empty() {
            return Err(RemoteError::NotFound);
        }
        dirs.into_iter().for_each(|name| each(name.into(), SystemEntry::Dir { modified: UNTIMED }));
        let look = |(name, full): &(&str, &str)| match self.stat(full) {
            Ok(object) => Ok(Some(((*name).to_owned(), object))),
            // A name that is not UTF-8 is passed on, and refused by the listing. Any other object was deleted since.
            Err(RemoteError::NotFound) => {
                Ok(is_not_utf8(full).then(|| ((*name).to_owned(), ObjectVersion::default())))
            }
            Err(error) => Err(error),
        };
        for (name, object) in map_parallel(&objects, look)?.into_iter().flatten() {
            each(name, SystemEntry::Object(object));
        }
        Ok(())
    }

    fn sums(&self, path: &str, object: &ObjectVersion) -> Result<ObjectSums, RemoteError> {
        let unit = unit_bytes(object.len);
        let parts = parts(object.len, unit);
        let questions: Vec<_> = parts.chunks(PARTS).collect();
        let asked = map_parallel(&questions, |parts| self.request_sums(path, object, parts, unit));
        match asked {
            Ok(units) => Ok(ObjectSums { units: units.concat(), whole: None }),
            Err(RemoteError::NotFound) => Err(RemoteError::Changed),
            // The servers do not know the operation, or XXH64.
            Err(RemoteError::Refused { .. }) => Ok(ObjectSums::default()),
            Err(error) => Err(error),
        }
    }

    fn read(
        &self,
        path: &str,
        object: &ObjectVersion,
        range: Range<u64>,
        buf: &mut [u8],
    ) -> Result<(), RemoteError> {
        let (name, version) = (text(path).ok_or(RemoteError::NotFound)?, version_of(object)?);
        let read = self.with(|pool| pool.read(&name, version, range.start, buf));
        let got = match read {
            Err(RemoteError::NotFound) => return Err(RemoteError::Changed),
            got => got?,
        };
        self.received.fetch_add(got as u64, Ordering::Relaxed);
        if got == buf.len() {
            return Ok(());
        }
        let Range { start, end } = range;
        Err(RemoteError::Wrong(format!("requested bytes {start} to {end}, got {got} bytes")))
    }

    fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }
}

/// The directories and objects directly below `prefix`: names of directories, and name and full name of objects.
fn children<'a>(
    names: &'a BTreeSet<String>,
    prefix: &str,
) -> (BTreeSet<&'a str>, Vec<(&'a str, &'a str)>) {
    let (mut dirs, mut objects) = (BTreeSet::new(), Vec::new());
    let from = (Bound::Included(prefix), Bound::Unbounded);
    for full in names.range::<str, _>(from) {
        let Some(name) = full.strip_prefix(prefix) else { break };
        match name.split_once('/') {
            Some((dir, _)) => drop(dirs.insert(dir)),
            None => objects.push((name, full.as_str())),
        }
    }
    (dirs, objects)
}

fn version_of(object: &ObjectVersion) -> Result<u64, RemoteError> {
    object.token.parse().map_err(|_| RemoteError::NotFound)
}

fn reason(Errno(errno): Errno) -> String {
    deltic_store::reason(&io::Error::from_raw_os_error(errno))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::sync::Arc;

    use crate::testing::conformance::{self, TestPlace};

    #[test]
    fn an_address_names_a_pool_and_perhaps_a_user() {
        let open = |host: &str| RadosPool::open(host).map(|it| (it.pool, it.user));
        assert_eq!(open("pool").unwrap(), ("pool".into(), None));
        assert_eq!(open("backup@pool").unwrap(), ("pool".into(), Some("backup".into())));
        for bad in ["", "@pool", "user@", "a@b@c", "host:6789"] {
            assert!(open(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn every_part_but_the_last_has_whole_units() {
        const U: u64 = 64 << 10;
        assert_eq!(parts(0, U), []);
        assert_eq!((parts(1, U).len(), parts(U, U).len()), (1, 1));
        assert_eq!(parts(U + 1, U), [0..U, U..U + 1]);
        let long = parts(PART_BYTES * 2 + U * 3 + 5, U);
        assert_eq!(long.len(), 4);
        assert!(long.windows(2).all(|two| two[0].end == two[1].start));
        assert_eq!(parts(PART_BYTES * 6, PART_BYTES * 2).len(), 3);
    }

    #[test]
    fn an_answer_with_another_number_of_checksums_is_refused() {
        let told = [&2_u32.to_le_bytes()[..], &[1; 8], &[2; 8]].concat();
        let sums: Vec<_> = parse_sums(&told, 2).unwrap().collect();
        assert_eq!(sums[1].bytes[..], [2; 8]);
        assert!(parse_sums(&told, 1).is_err() && parse_sums(&told, 3).is_err());
        assert!(parse_sums(&told[..19], 2).is_err() && parse_sums(&[], 0).is_err());
    }

    #[test]
    fn slashes_in_names_make_directories() {
        let names: BTreeSet<String> =
            ["a", "a/b", "a/c/d", "a/c/e", "ab", "b/"].map(String::from).into();
        let (dirs, objects) = children(&names, "");
        assert_eq!((dirs, objects), (["a", "b"].into(), vec![("a", "a"), ("ab", "ab")]));
        let (dirs, objects) = children(&names, "a/");
        assert_eq!((dirs, objects), (["c"].into(), vec![("b", "a/b")]));
        assert_eq!(children(&names, "b/"), (BTreeSet::new(), vec![("", "b/")]));
    }

    /// Recorded answers of an object server (16.2) for 150,001 bytes: the whole units, and the rest.
    const RECORDED: [&[u8]; 2] = [
        &[
            2, 0, 0, 0, 0x84, 0x25, 0xfe, 0x46, 0xdf, 0x40, 0x6c, 0x31, 0x53, 0x3d, 0xb7, 0x8c,
            0x13, 0x51, 0x93, 0xef,
        ],
        &[1, 0, 0, 0, 0x00, 0xaf, 0x24, 0x9c, 0x39, 0x37, 0x01, 0xde],
    ];

    #[test]
    fn recorded_answers_have_the_checksums_of_the_file() {
        let file: Vec<u8> = (0..150_001_u32).map(|at| (at % 251) as u8).collect();
        let sum = |bytes: &[u8]| xxhash_rust::xxh64::xxh64(bytes, 0).to_be_bytes();
        let mut units = file.chunks(64 << 10).map(sum);
        for (told, part) in RECORDED.into_iter().zip(parts(150_001, 64 << 10)) {
            let count = (part.end - part.start).div_ceil(64 << 10);
            for told in parse_sums(told, count).unwrap() {
                assert_eq!(told.bytes[..], units.next().unwrap());
            }
        }
        assert_eq!(units.next(), None);
    }

    /// The pool `pool` of the cluster that `CEPH_CONF` names.
    struct TestPool(Arc<RadosPool>);

    impl TestPlace for TestPool {
        type System = RadosPool;

        fn system(&self) -> Arc<RadosPool> {
            Arc::clone(&self.0)
        }

        fn put(&self, path: &str, bytes: &[u8]) {
            let from = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(from.path(), bytes).unwrap();
            let mut rados = Command::new("rados");
            let put = rados.args(["-p", "pool", "put", path]).arg(from.path()).output().unwrap();
            assert!(put.status.success(), "{put:?}");
        }

        fn put_during_read(&self, _: &str, _: &[u8]) -> bool {
            false
        }
    }

    /// Run by `make storage-remote`. Real servers never return wrong checksums.
    #[test]
    #[ignore = "takes a cluster"]
    fn a_pool_passes_the_conformance_suite() {
        conformance::run_honest(&[SumAlgorithm::Xxh64], || {
            TestPool(Arc::new(RadosPool::open("pool").unwrap()))
        });
    }
}
