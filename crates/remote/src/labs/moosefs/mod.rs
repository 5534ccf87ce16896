//! MooseFS: names and content by a mount on this machine, checksums by the protocol of its servers.
//!
//! A chunk server stores the CRC-32 of each 64 KiB block. A write in place keeps the chunk's id and version, and times
//! are whole seconds. So before a file counts as unchanged, the checksums are requested again, as one number per chunk
//! (the combined checksum of the chunk).

mod master;
mod table;

use std::collections::HashMap;
use std::fs::{self, File, Metadata};
use std::io::Read as _;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::ops::Range;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use deltic_tree::Timestamp;
use rustix::fs::OFlags;

use crate::labs::mark_not_utf8;
use crate::sums::{ObjectSums, SummedUnit};
use crate::system::{ObjectVersion, PageGuard, StorageSystem, SystemEntry};
use crate::{RemoteError, lock};

use master::{ChunkLocation, MasterServer};
pub(crate) use table::{BLOCK_BYTES, CHUNK_BYTES};
use table::{ChunkServers, combined_checksum};

/// Inode number of the file of a mount that names its master.
const MASTER_INO: u64 = 0x7fff_ffff;
const MASTER_INFO: &str = ".masterinfo";
/// Most files whose combined checksums are remembered.
const MAX_KNOWN: usize = 1 << 12;
/// Time that a write may take to reach a chunk server after the master has set the file's modification time.
const WRITE_DELAY: Duration = Duration::from_millis(250);
/// Longest wait for the end of a second. Bounds the effect of a master clock that is ahead of ours.
const MAX_WAIT: Duration = Duration::from_secs(2);
/// Most chunks of a file whose checksums are requested: 4 TiB. A longer file is read.
const MAX_CHUNKS: u64 = 1 << 16;

/// The MooseFS mounts of this machine.
#[derive(Debug, Default)]
pub(crate) struct MooseFsMounts {
    /// Masters by the device number of their mount.
    masters: Mutex<HashMap<u64, Arc<MasterServer>>>,
    servers: ChunkServers,
    /// By path of the file: the combined checksum of each chunk, when the block checksums were returned.
    known: Mutex<HashMap<String, Vec<u32>>>,
    received: AtomicU64,
}

/// The units of a chunk and the chunk's combined checksum.
type ChunkSums = (Vec<SummedUnit>, u32);

impl MooseFsMounts {
    pub(crate) fn open(host: &str) -> Result<Self, RemoteError> {
        if host.is_empty() {
            return Ok(Self::default());
        }
        let why = "MooseFS is read where it is mounted; write moosefs:///MOUNT/PATH";
        Err(RemoteError::Address(format!("moosefs://{host}: {why}")))
    }

    /// The master of the mount that `path` is on.
    fn master(&self, path: &Path, device: u64) -> Result<Arc<MasterServer>, RemoteError> {
        if let Some(master) = lock(&self.masters).get(&device) {
            return Ok(Arc::clone(master));
        }
        let master = Arc::new(find_master(path, device)?);
        lock(&self.masters).insert(device, Arc::clone(&master));
        Ok(master)
    }

    /// Opens the file at `path`.
    ///
    /// # Errors
    /// [`RemoteError::Changed`] if the file is not the version `object`.
    fn file(&self, path: &str, object: &ObjectVersion) -> Result<(File, Metadata), RemoteError> {
        // A symlink or FIFO may have replaced the file.
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let mut options = File::options();
        let file = options.read(true).custom_flags(flags.bits() as i32).open(at(path));
        let file = file.map_err(io_failed)?;
        let meta = file.metadata().map_err(io_failed)?;
        if !meta.is_file() || object_of(&meta) != *object {
            return Err(RemoteError::Changed);
        }
        Ok((file, meta))
    }

    /// Calls `ask` with each chunk of a file and the chunk's index. `None` if the file has too many chunks, or if the
    /// master does not list the chunks, or if `ask` returns `None`.
    fn map_chunks<T>(
        &self,
        path: &str,
        object: &ObjectVersion,
        ask: impl Fn(&ChunkLocation, u32) -> Result<Option<T>, RemoteError>,
    ) -> Result<Option<Vec<T>>, RemoteError> {
        let count = object.len.div_ceil(CHUNK_BYTES);
        if count > MAX_CHUNKS {
            return Ok(None);
        }
        let (file, meta) = self.file(path, object)?;
        // Flush, so that checksums cover writes of this machine.
        file.sync_data().map_err(io_failed)?;
        let master = self.master(&at(path), meta.dev())?;
        let inode = u32::try_from(meta.ino()).map_err(|_| RemoteError::Changed)?;
        let Some(chunks) = master.chunks(inode, count as u32)? else { return Ok(None) };
        chunks.iter().zip(0..).map(|(chunk, no)| ask(chunk, no)).collect()
    }

    /// The units and the combined checksum of each chunk of a file.
    fn chunk_sums(
        &self,
        path: &str,
        object: &ObjectVersion,
    ) -> Result<Option<Vec<ChunkSums>>, RemoteError> {
        self.map_chunks(path, object, |chunk, no| {
            let table = self.servers.table(chunk)?;
            Ok(table.map(|table| (table::units(&table, no, object.len), combined_checksum(&table))))
        })
    }
}

impl StorageSystem for MooseFsMounts {
    fn url(&self, path: &str) -> String {
        format!("moosefs:///{path}")
    }

    fn look(&self, path: &str) -> Result<Option<SystemEntry>, RemoteError> {
        let meta = match fs::symlink_metadata(at(path)).map_err(io_failed) {
            Ok(meta) => meta,
            Err(RemoteError::NotFound) => return Ok(None),
            Err(error) => return Err(error),
        };
        let found = entry_of(&meta);
        if found.is_some() {
            self.master(&at(path), meta.dev())?;
        }
        Ok(found)
    }

    fn list(
        &self,
        path: &str,
        each: &mut dyn FnMut(String, SystemEntry),
    ) -> Result<(), RemoteError> {
        let dir = at(path);
        let meta = fs::symlink_metadata(&dir).map_err(io_failed)?;
        if !meta.is_dir() {
            return Err(RemoteError::Changed);
        }
        let device = meta.dev();
        self.master(&dir, device)?;
        let mut pages = PageGuard::default();
        for entry in fs::read_dir(&dir).map_err(io_failed)? {
            pages.take(1)?;
            let entry = entry.map_err(io_failed)?;
            let meta = match entry.metadata().map_err(io_failed) {
                Err(RemoteError::NotFound) => continue,
                meta => meta?,
            };
            // Another file system is mounted there.
            let found =
                entry_of(&meta).filter(|_| meta.dev() == device).unwrap_or(SystemEntry::Other);
            let name = entry.file_name().into_string();
            each(name.unwrap_or_else(|name| mark_not_utf8(&name.to_string_lossy())), found);
        }
        Ok(())
    }

    fn sums(&self, path: &str, object: &ObjectVersion) -> Result<ObjectSums, RemoteError> {
        let Some(told) = self.chunk_sums(path, object)? else { return Ok(ObjectSums::default()) };
        let (units, combined): (Vec<_>, Vec<_>) = told.into_iter().unzip();
        let mut known = lock(&self.known);
        if known.len() < MAX_KNOWN && !combined.is_empty() {
            known.insert(path.to_owned(), combined);
        }
        Ok(ObjectSums { units: units.concat(), whole: None })
    }

    fn read(
        &self,
        path: &str,
        object: &ObjectVersion,
        range: Range<u64>,
        buf: &mut [u8],
    ) -> Result<(), RemoteError> {
        let (file, _) = self.file(path, object)?;
        file.read_exact_at(buf, range.start).map_err(io_failed)?;
        self.received.fetch_add(buf.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn check(&self, path: &str, object: &ObjectVersion) -> Result<(), RemoteError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        std::thread::sleep(left_of_second(object.modified, now));
        let Some(known) = lock(&self.known).remove(path) else {
            return self.file(path, object).map(drop);
        };
        let combined =
            self.map_chunks(path, object, |chunk, _| self.servers.combined_checksum(chunk));
        if combined.is_ok_and(|combined| combined.as_ref() == Some(&known)) {
            return Ok(());
        }
        // Without combined checksums, or with other combined checksums, compare by the checksums themselves.
        let told = self.chunk_sums(path, object)?.unwrap_or_default();
        let is_same = told.iter().map(|(_, combined)| combined).eq(&known);
        if is_same { Ok(()) } else { Err(RemoteError::Changed) }
    }

    fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed) + self.servers.received()
    }

    fn has_dir_times(&self) -> bool {
        true
    }
}

/// Looks for the file that names the master, from `path` upwards within the mount.
fn find_master(path: &Path, device: u64) -> Result<MasterServer, RemoteError> {
    let shown = deltic_tree::path::printable(path.as_os_str().as_encoded_bytes());
    let other = || RemoteError::Address(format!("{shown} is not on a mount of MooseFS"));
    let path = path.canonicalize().map_err(io_failed)?;
    for dir in path.ancestors() {
        let info = dir.join(MASTER_INFO);
        let Ok(meta) = fs::symlink_metadata(&info) else { continue };
        if meta.ino() != MASTER_INO || meta.dev() != device || !matches!(meta.len(), 10 | 14) {
            continue;
        }
        let mut told = Vec::new();
        let file = File::open(&info).map_err(io_failed)?;
        file.take(14).read_to_end(&mut told).map_err(io_failed)?;
        return parse_master(&told).ok_or_else(other);
    }
    Err(other())
}

/// Parses the address, port and session id of a master.
fn parse_master(told: &[u8]) -> Option<MasterServer> {
    let ip: [u8; 4] = told.get(..4)?.try_into().ok()?;
    let port = u16::from_be_bytes(told.get(4..6)?.try_into().ok()?);
    let session = u32::from_be_bytes(told.get(6..10)?.try_into().ok()?);
    let is_set = ip != [0; 4] && port != 0 && session != 0;
    is_set.then(|| MasterServer::new(SocketAddrV4::new(Ipv4Addr::from(ip), port), session))
}

fn at(path: &str) -> PathBuf {
    Path::new("/").join(path)
}

fn entry_of(meta: &Metadata) -> Option<SystemEntry> {
    if meta.is_dir() {
        return Some(SystemEntry::Dir { modified: modified(meta) });
    }
    meta.is_file().then(|| SystemEntry::Object(object_of(meta)))
}

fn object_of(meta: &Metadata) -> ObjectVersion {
    let (dev, ino) = (meta.dev(), meta.ino());
    let changed = (meta.ctime(), meta.ctime_nsec());
    let token = format!("{dev}:{ino}:{}.{}", changed.0, changed.1);
    ObjectVersion { len: meta.len(), modified: modified(meta), token }
}

fn modified(meta: &Metadata) -> Timestamp {
    Timestamp { secs: meta.mtime(), nanos: meta.mtime_nsec().try_into().unwrap_or(0) }
}

/// Time to wait until no further write can get the modification time `modified`: the rest of that second, plus the
/// delay of writes to a chunk server. Zero if times are finer than seconds. A later write of the same second, time and
/// length would go unnoticed by every later sync.
fn left_of_second(modified: Timestamp, now: Duration) -> Duration {
    let end = u64::try_from(modified.secs).ok().and_then(|secs| secs.checked_add(1));
    let end = end
        .filter(|_| modified.nanos == 0)
        .map_or(now, |secs| Duration::from_secs(secs) + WRITE_DELAY);
    // A time far in the future was set by a program.
    Some(end.saturating_sub(now)).filter(|left| *left <= MAX_WAIT).unwrap_or_default()
}

fn io_failed(error: std::io::Error) -> RemoteError {
    use std::io::ErrorKind;
    let why = deltic_store::reason(&error);
    match error.kind() {
        ErrorKind::NotFound => RemoteError::NotFound,
        ErrorKind::UnexpectedEof => RemoteError::Changed,
        ErrorKind::PermissionDenied => RemoteError::Refused { server: "the mount".into(), why },
        _ => RemoteError::Unreachable { server: "the mount".into(), why },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sums::SumAlgorithm;
    use crate::testing::conformance::{self, TestPlace};

    #[test]
    fn a_path_outside_of_a_moosefs_mount_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("img"), b"bytes").unwrap();
        let path = dir.path().to_str().unwrap().trim_start_matches('/').to_owned();
        let system = MooseFsMounts::open("").unwrap();
        let why = system.look(&path).unwrap_err().to_string();
        assert!(why.contains("is not on a mount of MooseFS"), "{why}");
        assert!(system.list(&path, &mut |name, _| panic!("{name}")).is_err());
        assert_eq!(system.look(&format!("{path}/other")).unwrap(), None);
        assert!(MooseFsMounts::open("master:9421").is_err());
    }

    #[test]
    fn a_chunk_replaced_within_the_same_second_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("img"), b"bytes").unwrap();
        let path = dir.path().join("img").to_str().unwrap().trim_start_matches('/').to_owned();
        let meta = fs::metadata(at(&path)).unwrap();
        let object = object_of(&meta);
        // A chunk that was never written, then one without copies.
        let same = [(0, 0), (0, 0)];
        let other = [(0, 0), (9, 1), (9, 1)];
        for (chunks, is_same) in [(&same[..], true), (&other, false)] {
            let system = MooseFsMounts::default();
            let master = MasterServer::with_chunks(chunks.to_vec());
            lock(&system.masters).insert(meta.dev(), Arc::new(master));
            assert_eq!(system.sums(&path, &object).unwrap().units.len(), 1);
            let checked = system.check(&path, &object);
            assert_eq!(matches!(checked, Err(RemoteError::Changed)), !is_same, "{checked:?}");
        }
    }

    #[test]
    fn a_check_waits_until_the_second_of_the_last_change_is_over() {
        let left = |secs, nanos, now| left_of_second(Timestamp { secs, nanos }, now).as_millis();
        let now = Duration::from_millis(1_000_300);
        assert_eq!([999, 1000, 1001].map(|secs| left(secs, 0, now)), [0, 950, 1950]);
        assert_eq!([1002, i64::MAX, -1].map(|secs| left(secs, 0, now)), [0, 0, 0]);
        assert_eq!(left(999, 0, Duration::from_millis(1_000_200)), 50);
        assert_eq!(left(1000, 1, now), 0, "its times are finer");
        let dir = tempfile::tempdir().unwrap();
        let img = dir.path().join("img");
        fs::write(&img, b"bytes").unwrap();
        let since = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let second = Duration::from_secs(since().as_secs());
        File::options().write(true).open(&img).unwrap().set_modified(UNIX_EPOCH + second).unwrap();
        let path = img.to_str().unwrap().trim_start_matches('/').to_owned();
        let object = object_of(&fs::metadata(&img).unwrap());
        MooseFsMounts::default().check(&path, &object).unwrap();
        assert!(since() >= second + Duration::from_secs(1));
    }

    #[test]
    fn a_master_without_address_or_session_is_refused() {
        let told = [10, 99, 0, 1, 0x24, 0xcd, 0, 0, 0, 7, 0, 3, 0, 117];
        assert!(parse_master(&told).is_some() && parse_master(&told[..10]).is_some());
        for cut in 0..10 {
            assert!(parse_master(&told[..cut]).is_none());
        }
        assert!(parse_master(&[0; 14]).is_none());
    }

    /// A directory under test.
    struct Mount {
        dir: PathBuf,
        system: Arc<MooseFsMounts>,
        /// The temporary directory, if there is no real mount.
        _gone: Option<tempfile::TempDir>,
    }

    impl Mount {
        /// A temporary directory in place of a mount. Its chunks have no copies, so there are no checksums. Metadata
        /// shows changes.
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let system = MooseFsMounts::default();
            let device = fs::metadata(dir.path()).unwrap().dev();
            lock(&system.masters)
                .insert(device, Arc::new(MasterServer::with_chunks(vec![(9, 1); 1000])));
            Self { dir: dir.path().into(), system: Arc::new(system), _gone: Some(dir) }
        }

        /// A mount of real servers; `MOOSEFS_DIR` names the directory.
        fn served() -> Self {
            let dir = std::env::var_os("MOOSEFS_DIR").expect("it names a directory").into();
            Self { dir, system: Arc::new(MooseFsMounts::open("").unwrap()), _gone: None }
        }
    }

    impl TestPlace for Mount {
        type System = MooseFsMounts;

        fn system(&self) -> Arc<MooseFsMounts> {
            Arc::clone(&self.system)
        }

        fn put(&self, path: &str, bytes: &[u8]) {
            let beside = self.dir.join("beside");
            fs::write(&beside, bytes).unwrap();
            fs::rename(beside, at(path)).unwrap();
        }

        fn put_during_read(&self, _: &str, _: &[u8]) -> bool {
            false
        }

        fn at(&self, name: &str) -> String {
            let path = self.dir.join(name);
            path.to_str().unwrap().trim_start_matches('/').to_owned()
        }
    }

    #[test]
    fn a_directory_without_checksums_passes_the_conformance_suite() {
        conformance::run_honest(&[], Mount::new);
    }

    /// Run by `make storage-remote`. Real servers never return wrong checksums.
    #[test]
    #[ignore = "takes a mount"]
    fn a_mount_passes_the_conformance_suite() {
        conformance::run_honest(&[SumAlgorithm::Crc32], Mount::served);
    }
}
