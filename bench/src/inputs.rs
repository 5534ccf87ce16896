//! Inputs in memory: files, directories and random bytes. Measurements then do not depend on a disk.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use deltic_net::reason;

use crate::exit::{complain, shown};
use crate::random::Random;
use crate::size::ByteSize;

/// All inputs of the command line.
#[derive(Default)]
pub(crate) struct Inputs {
    /// Inputs in the order of the command line.
    pub(crate) list: Vec<Input>,
    /// True if an input could not be read. An error was printed for each.
    pub(crate) failed: bool,
    /// Device and inode of each file, even of unreadable files.
    pub(crate) ids: HashSet<(u64, u64)>,
}

/// An input of the command line.
pub(crate) struct Input {
    /// Name in tables.
    pub(crate) name: String,
    /// Regular files, sorted by name.
    pub(crate) files: Vec<InputFile>,
}

/// A file in memory, as far as the limit allows.
pub(crate) struct InputFile {
    /// Path of the file.
    pub(crate) path: PathBuf,
    /// Content of the file; if shorter than `len`, its begin.
    pub(crate) bytes: Vec<u8>,
    /// Length of the file in bytes.
    pub(crate) len: u64,
}

impl Inputs {
    /// Reads `paths`, then adds `random` random bytes. Of inputs beyond `limit` bytes in total only the lengths are kept.
    pub(crate) fn read(paths: &[PathBuf], random: Option<u64>, limit: u64) -> Self {
        let mut reader = InputReader { left: limit, ..InputReader::default() };
        let mut list: Vec<_> = paths.iter().map(|path| reader.input(path)).collect();
        list.extend(random.map(|len| reader.random(len)));
        if reader.short {
            complain(
                &format!(
                    "inputs hold more than {}; speeds are those of that much, chunks are counted in all",
                    ByteSize::from(limit)
                ),
                Some("--limit allows more memory"),
            );
        }
        list.retain(|input| input.full_len() > 0);
        Self { list, failed: reader.failed, ids: reader.ids }
    }

    /// True if `path` is a file of the inputs, even under another name.
    pub(crate) fn have(&self, path: &Path) -> bool {
        fs::metadata(path).is_ok_and(|meta| self.ids.contains(&id(&meta)))
    }

    /// Iterates over the content of all files.
    pub(crate) fn files(&self) -> impl Iterator<Item = &[u8]> {
        self.list.iter().flat_map(|input| &input.files).map(|file| &file.bytes[..])
    }

    /// Returns the total length in memory in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.list.iter().map(Input::len).sum()
    }

    /// Returns the total length of all files in bytes, also of the bytes that are not in memory.
    pub(crate) fn full_len(&self) -> u64 {
        self.list.iter().map(Input::full_len).sum()
    }

    /// Returns a short title.
    pub(crate) fn title(&self) -> String {
        let names: Vec<_> = self.list.iter().map(|input| &*input.name).collect();
        match &names[..] {
            [first, .., last] if names.len() > NAMES_IN_TITLE => format!("{first} to {last}"),
            names => names.join(", "),
        }
    }
}

impl Input {
    /// Returns the total length in memory in bytes.
    fn len(&self) -> u64 {
        self.files.iter().map(|file| file.bytes.len() as u64).sum()
    }

    /// Returns the total length of all files in bytes.
    pub(crate) fn full_len(&self) -> u64 {
        self.files.iter().map(|file| file.len).sum()
    }
}

/// Reads inputs up to a limit of memory.
#[derive(Default)]
struct InputReader {
    left: u64,
    /// True if a part of the inputs was cut off.
    short: bool,
    failed: bool,
    ids: HashSet<(u64, u64)>,
}

impl InputReader {
    fn input(&mut self, path: &Path) -> Input {
        let mut files = Vec::new();
        match fs::metadata(path) {
            Ok(meta) if meta.is_dir() => self.walk(path, &mut files),
            Ok(meta) if meta.is_file() => self.file(path, &mut files),
            Ok(_) => self.fail("read", path, "neither a regular file nor a directory"),
            Err(error) => self.fail("cannot read", path, reason(&error)),
        }
        let name = shown(path.file_name().map_or(path, Path::new));
        Input { name, files }
    }

    /// Reads the regular files below `dir`, sorted by name. Symbolic links are not followed.
    fn walk(&mut self, dir: &Path, files: &mut Vec<InputFile>) {
        let entries = fs::read_dir(dir).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let mut entries = match entries {
            Ok(entries) => entries,
            Err(error) => return self.fail("list", dir, reason(&error)),
        };
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => self.walk(&entry.path(), files),
                Ok(kind) if kind.is_file() => self.file(&entry.path(), files),
                Ok(_) => {}
                Err(error) => self.fail("cannot read", &entry.path(), reason(&error)),
            }
        }
    }

    fn file(&mut self, path: &Path, files: &mut Vec<InputFile>) {
        self.ids.extend(fs::metadata(path).map(|meta| id(&meta)));
        match self.bytes(path) {
            Ok((bytes, len)) => files.push(InputFile { path: path.into(), bytes, len }),
            Err(error) => self.fail("read", path, reason(&error)),
        }
    }

    /// Returns the content of a file as far as the limit allows, and the length of the file.
    fn bytes(&mut self, path: &Path) -> io::Result<(Vec<u8>, u64)> {
        let file = File::open(path)?;
        let len = file.metadata()?.len();
        let granted = self.grant(len);
        let mut bytes = Vec::with_capacity(granted);
        // A growing file counts with its length at the start.
        file.take(granted as u64).read_to_end(&mut bytes)?;
        // A file that became shorter counts with the bytes that were read.
        let len = if bytes.len() < granted { bytes.len() as u64 } else { len };
        Ok((bytes, len))
    }

    fn random(&mut self, len: u64) -> Input {
        let bytes = Random::new(SEED).bytes(self.grant(len));
        let path: PathBuf = OsStr::new("random").into();
        let len = bytes.len() as u64;
        Input { name: "random".into(), files: vec![InputFile { path, bytes, len }] }
    }

    /// Reserves up to `wanted` bytes of memory. Returns the number of reserved bytes.
    fn grant(&mut self, wanted: u64) -> usize {
        let granted = wanted.min(self.left);
        self.left -= granted;
        self.short |= granted < wanted;
        usize::try_from(granted).unwrap_or(usize::MAX)
    }

    fn fail(&mut self, action: &str, path: &Path, why: impl std::fmt::Display) {
        complain(&format!("{action} {}: {why}", shown(path)), None);
        self.failed = true;
    }
}

/// Returns device and inode of a file.
pub(crate) fn id(meta: &Metadata) -> (u64, u64) {
    (meta.dev(), meta.ino())
}

/// Longest list of names in a title.
const NAMES_IN_TITLE: usize = 3;
/// Seed of the random input: "deltic" in ASCII.
const SEED: u64 = 0x6465_6c74_6963;

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("b")).unwrap();
        for (name, len) in [("c", 300), ("b/y", 200), ("b/x", 100), ("a", 50)] {
            fs::write(dir.path().join(name), vec![1; len]).unwrap();
        }
        std::os::unix::fs::symlink("a", dir.path().join("link")).unwrap();
        dir
    }

    fn lens(inputs: &Inputs) -> Vec<usize> {
        inputs.files().map(<[u8]>::len).collect()
    }

    #[test]
    fn a_directory_has_its_regular_files_sorted_by_name() {
        let dir = tree();
        let inputs = Inputs::read(&[dir.path().into()], Some(7), 1 << 20);
        assert_eq!(lens(&inputs), [50, 100, 200, 300, 7]);
        assert_eq!((inputs.list.len(), inputs.len(), inputs.failed), (2, 657, false));
    }

    #[test]
    fn memory_ends_at_the_limit_and_lengths_do_not() {
        let dir = tree();
        let inputs = Inputs::read(&[dir.path().into()], Some(7), 200);
        assert_eq!((inputs.len(), inputs.full_len()), (200, 650));
        assert_eq!(lens(&inputs), [50, 100, 50, 0]);
    }

    #[test]
    fn unreadable_files_are_left_out() {
        let dir = tree();
        let paths = [dir.path().join("missing"), dir.path().join("a"), "/dev/null".into()];
        let inputs = Inputs::read(&paths, None, 1 << 20);
        assert_eq!((lens(&inputs), inputs.failed), (vec![50], true));
    }

    #[test]
    fn random_bytes_are_the_same_each_time() {
        let read = || Inputs::read(&[], Some(1000), 1 << 20).list[0].files[0].bytes.clone();
        assert_eq!(read(), read());
        assert_eq!(read().len(), 1000);
    }
}
