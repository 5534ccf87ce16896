//! Copies a batch from a stream to a file, and checks the batch while reading.

#![expect(clippy::disallowed_types, reason = "a batch is a file that users name, open already")]

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use deltic_store_local::reason;
use deltic_tree::path::printable;
use rustix::fs::fstatvfs;

use super::reading::Held;
use crate::error::SyncError;

/// Largest reserve of free bytes in the file system of a copied batch: copying ends before less is free.
const MOST_FREE_BYTES: u64 = 1 << 30;
/// The reserve is the size of the file system divided by this number, at most `MOST_FREE_BYTES`.
const FREE_PARTS: u64 = 20;
/// Bytes that are copied between two checks of the free space.
const LOOK_EVERY_BYTES: usize = 1 << 20;

/// Copies a batch `from` a pipe or a device to the empty file `to`. Messages call the batch `name`. Copying ends at the
/// first byte that is invalid in a batch. So streams that are no batch, and content beyond the lengths in the list, are
/// not copied. A list can be of any length, so copying also ends when the file system of `to` is nearly full.
///
/// # Errors
/// [`SyncError::Batch`] if the stream is not a whole batch, cannot be read, or does not fit into the file.
pub fn spool_batch(from: impl Read, name: &str, to: &Spool) -> Result<(), SyncError> {
    let tee = Tee { from, to: to.clone(), unseen: LOOK_EVERY_BYTES };
    let read = Held::read_from(tee, Arc::clone(&to.file));
    read.map(drop).map_err(|bad| bad.of_file(name))
}

/// An empty file for the copy of a batch.
#[derive(Clone, Debug)]
pub struct Spool {
    /// The open file.
    pub file: Arc<File>,
    /// The directory of the file, for messages.
    pub dir: PathBuf,
}

impl Spool {
    /// Returns the directory as a message shows the directory.
    fn shown_dir(&self) -> String {
        printable(self.dir.as_os_str().as_bytes())
    }
}

/// A stream that also writes each byte it reads to a file.
struct Tee<R> {
    from: R,
    to: Spool,
    /// Bytes that were copied since the last check of the free space.
    unseen: usize,
}

impl<R> Tee<R> {
    /// Fails if the file system of the copy is nearly full.
    fn check_room(&self) -> io::Result<()> {
        let disk = fstatvfs(&self.to.file)?;
        let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
        let least = MOST_FREE_BYTES.min(bytes(disk.f_blocks) / FREE_PARTS);
        if bytes(disk.f_bavail) >= least {
            return Ok(());
        }
        Err(io::Error::other(format!(
            "cannot copy the batch to TMPDIR ({}): less than {} MiB would stay free there; \
             set TMPDIR to a larger directory, or store the batch in a file and read the file",
            self.to.shown_dir(),
            least >> 20
        )))
    }
}

impl<R: Read> Read for Tee<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.unseen >= LOOK_EVERY_BYTES {
            self.check_room()?;
            self.unseen = 0;
        }
        let read = self.from.read(buf)?;
        self.unseen += read;
        let copied = (&*self.to.file).write_all(&buf[..read]);
        copied.map_err(|error| {
            let (dir, why) = (self.to.shown_dir(), reason(&error));
            io::Error::other(format!("cannot copy the batch to TMPDIR ({dir}): {why}"))
        })?;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use deltic_core::chunk::{ChunkerSpec, FixedLen};
    use deltic_protocol::ToReceiver;
    use deltic_protocol::batch::{MAGIC, Part, encode_request};
    use deltic_protocol::message::{Extent, Payload};
    use deltic_protocol::options::Options;
    use deltic_tree::meta::HardLink;
    use deltic_tree::{Entry, Kind, Meta, Name, RelPath, Timestamp};

    use super::*;

    /// A stream that repeats the same bytes for ever.
    struct Endless {
        bytes: Vec<u8>,
        at: usize,
    }

    impl Read for Endless {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            let len = (self.bytes.len() - self.at).min(buf.len());
            buf[..len].copy_from_slice(&self.bytes[self.at..self.at + len]);
            self.at = (self.at + len) % self.bytes.len();
            Ok(len)
        }
    }

    fn spool() -> Spool {
        Spool { file: Arc::new(tempfile::tempfile().unwrap()), dir: std::env::temp_dir() }
    }

    fn meta(len: u64) -> Meta {
        Meta::without_owner(Kind::File, len, Timestamp { secs: 1, nanos: 0 }, 0o644)
    }

    fn content(len: u64) -> Vec<u8> {
        let spec = ChunkerSpec::Fixed(FixedLen::new(4096).unwrap());
        let path = RelPath::parse(b"a").unwrap();
        Part::Content { path, meta: meta(len), old: None, spec }.encode()
    }

    fn listing(entries: Vec<Entry>, extent: Extent) -> Vec<u8> {
        ToReceiver::Listing { dir: RelPath::root(), own: None, entries, extent }.encode()
    }

    /// Copies a stream that begins with the frames `first` and then repeats `endless` for ever. Returns the error and
    /// the length of the copy.
    fn copied(first: &[Vec<u8>], endless: &[Vec<u8>]) -> (String, u64) {
        let begin =
            [MAGIC.to_vec(), encode_request(None, Options::default()), first.concat()].concat();
        let to = spool();
        let stream = io::Cursor::new(begin).chain(Endless { bytes: endless.concat(), at: 0 });
        let error = spool_batch(stream, "B", &to).unwrap_err().to_string();
        (error, to.file.metadata().unwrap().len())
    }

    /// A stream with a frame for each number, for ever.
    struct Counted<F> {
        frame: F,
        no: u64,
        left: Vec<u8>,
    }

    impl<F: Fn(u64) -> ToReceiver> Read for Counted<F> {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            if self.left.is_empty() {
                self.left = (self.frame)(self.no).encode();
                self.no += 1;
            }
            let len = self.left.len().min(buf.len());
            self.left.drain(..len).zip(buf).for_each(|(byte, to)| *to = byte);
            Ok(len)
        }
    }

    fn counted(frame: impl Fn(u64) -> ToReceiver) -> (String, u64) {
        let left = [MAGIC.to_vec(), encode_request(None, Options::default())].concat();
        let to = spool();
        let error = spool_batch(Counted { frame, no: 0, left }, "B", &to).unwrap_err().to_string();
        (error, to.file.metadata().unwrap().len())
    }

    #[test]
    fn names_that_are_held_are_no_more_than_fit_in_memory() {
        let name = |no: u64| Name::new(format!("{no:09}").as_bytes()).unwrap();
        let path = |no| RelPath::root().join(&name(no)).unwrap();
        let listing =
            |dir, entries, extent| ToReceiver::Listing { dir, own: None, entries, extent };
        let linked = |no| {
            let mut meta = meta(5);
            meta.set_hard_link(Some(HardLink::First(2)));
            vec![Entry { name: name(no), meta }]
        };
        for (why, (error, bytes)) in [
            ("directories", counted(|no| listing(path(no), vec![], Extent::Last))),
            ("hard links", counted(|no| listing(RelPath::root(), linked(no), Extent::More))),
            ("missing sources", counted(|no| ToReceiver::Missing(vec![path(no)]))),
        ] {
            assert!(error.contains("the batch has more directories"), "{why}: {error}");
            assert!(bytes < 2 << 20, "{why}: {bytes} bytes");
        }
    }

    #[test]
    fn a_stream_without_end_is_copied_no_further_than_its_list_goes() {
        let file = Entry { name: Name::new(b"a").unwrap(), meta: meta(5) };
        let listed = ToReceiver::Listed { intact: true }.encode();
        let list = || vec![listing(vec![file.clone()], Extent::Last), listed.clone()];
        let with = |more: Vec<u8>| [list(), vec![more]].concat();
        let literal = Part::Literal { len: 5, payload: Payload::Plain(vec![7; 5]) }.encode();
        let none = Part::Proof { digest: None }.encode();
        let owners = ToReceiver::Owners { users: vec![], groups: vec![] }.encode();
        for (why, first, endless) in [
            ("literals", with(content(5)), vec![literal]),
            ("a file longer than the list says", list(), vec![content(6), none.clone()]),
            ("contents of one file", list(), vec![content(0), none]),
            ("no owners", vec![], vec![owners]),
            ("no missing sources", vec![], vec![ToReceiver::Missing(vec![]).encode()]),
            ("no entries", vec![], vec![listing(vec![], Extent::More)]),
        ] {
            let (error, bytes) = copied(&first, &endless);
            assert!(error.contains("the batch file is damaged"), "{why}: {error}");
            assert!(bytes < 64 << 10, "{why}: {bytes} bytes");
        }
        let to = spool();
        let zeros = spool_batch(Endless { bytes: vec![0; 100], at: 0 }, "B", &to);
        assert!(zeros.unwrap_err().to_string().contains("--read-batch=B: not a batch of deltic"));
        assert_eq!(to.file.metadata().unwrap().len(), MAGIC.len() as u64);
    }
}
