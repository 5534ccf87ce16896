//! `deltic patch`: the old version and a delta make the new version, or nothing.
//!
//! Also what commands that make files share about writing: [`Output`].

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufWriter, IsTerminal, Read, Seek, SeekFrom, Write};
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use deltic_core::format::delta::{Delta, Header, Record};
use deltic_core::format::recipe::Summary;
use deltic_core::format::{FormatError, Parser};
use deltic_core::{Cutter, Digest, Span};
#[cfg(target_os = "linux")]
use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat};

use super::signature::{Input, READ_BYTES};

/// Make a new version from OLD and what `deltic delta` wrote
///
/// The result is checked against the delta's digest and only then takes its
/// name, in one step; NEW may be OLD itself. With the wrong OLD or a damaged
/// delta nothing changes.
///
///   deltic patch disk.img disk.delta -o disk.img
///   zstd -dc disk.delta.zst | deltic patch disk.img - -o disk-new.img
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The old version, that the signature was made of
    pub(super) old: PathBuf,
    /// What `deltic delta` wrote; - is standard input
    pub(super) delta: PathBuf,
    /// Where to write the new version
    #[arg(short, long, value_name = "NEW")]
    pub(super) output: PathBuf,
}

/// Reads DELTA once, and OLD where it says.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut delta = Input::open(&args.delta)?;
    let mut old = Old::open(&args.old)?;
    let (mut parser, mut buffer) = (Parser::<Delta>::new(), vec![0; READ_BYTES]);
    let mut new = None;
    let mut verdict = None;
    loop {
        let n = delta.read(&mut buffer)?;
        parser.feed(&buffer[..n]);
        while let Some(record) = parser.record().with_context(|| delta.name().to_string())? {
            match record {
                Record::Header(header) => new = Some(New::create(&args.output, &old, header)?),
                Record::End { digest, .. } => verdict = Some(digest),
                step => new.as_mut().ok_or(FormatError::Order)?.step(step, &mut old)?,
            }
        }
        if n == 0 {
            break;
        }
    }
    parser.finish().with_context(|| delta.name().to_string())?;
    let (new, digest) = new.zip(verdict).ok_or(FormatError::Truncated)?;
    new.commit(digest, &old)
}

/// The old version, open once: what was checked is what is read.
struct Old {
    path: PathBuf,
    file: File,
    len: u64,
    permissions: Permissions,
}

impl Old {
    fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).with_context(|| format!("open {}", path.display()))?;
        let meta = file.metadata().with_context(|| format!("look at {}", path.display()))?;
        ensure!(meta.is_file(), "{} is not a regular file", path.display());
        Ok(Self { path: path.into(), file, len: meta.len(), permissions: meta.permissions() })
    }

    /// Reads `span` in pieces.
    fn read(&mut self, span: Span, each: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let place = || format!("read {} at byte {}", self.path.display(), span.start);
        (&self.file).seek(SeekFrom::Start(span.start)).with_context(place)?;
        copy_exactly(&self.file, span.len as usize, each).with_context(place)
    }

    /// Whether this is the file that `header` describes: the second look, after something went wrong.
    fn is(&self, header: &Header) -> Result<bool> {
        let mut input = Input::open(&self.path)?;
        let mut sum = Summary::new();
        input.each_chunk(&header.spec, |_, chunk| Ok(sum.push(&chunk)?))?;
        Ok(sum.finish().digest == header.old_digest)
    }
}

fn copy_exactly(
    mut from: impl Read,
    mut len: usize,
    mut each: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let mut buffer = vec![0; len.min(READ_BYTES)];
    while len > 0 {
        let piece = &mut buffer[..len.min(READ_BYTES)];
        from.read_exact(piece)?;
        each(piece)?;
        len -= piece.len();
    }
    Ok(())
}

/// The new version while it grows, and the digest of what was written of it.
struct New {
    output: Output,
    header: Header,
    cutter: Cutter,
    sum: Summary,
}

impl New {
    fn create(path: &Path, old: &Old, header: Header) -> Result<Self> {
        let (len, wanted) = (old.len, header.old_len);
        let name = old.path.display();
        ensure!(
            len == wanted,
            "{name} is not the file that the delta starts from: {len} bytes, not {wanted}"
        );
        let output = Output::create(path, Some(&old.permissions))?;
        Ok(Self { output, header, cutter: Cutter::new(&header.spec), sum: Summary::new() })
    }

    fn step(&mut self, step: Record, old: &mut Old) -> Result<()> {
        match step {
            Record::Copy(span) => old.read(span, |bytes| self.write(bytes)),
            Record::Literal(bytes) => self.write(&bytes),
            Record::Header(_) | Record::End { .. } => Ok(()),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.output.write(bytes)?;
        Ok(self.cutter.push(bytes, |_, chunk| self.sum.push(&chunk))?)
    }

    fn commit(mut self, promised: Digest, old: &Old) -> Result<()> {
        self.cutter.finish(|_, chunk| self.sum.push(&chunk))?;
        if self.sum.finish().digest == promised {
            return self.output.commit();
        }
        let name = old.path.display();
        if old.is(&self.header)? {
            bail!(FormatError::Damaged);
        }
        bail!("{name} is not the file that the delta starts from: same length, other content");
    }
}

/// Where a result goes: standard output, or a file that appears under its name when it is complete.
pub(super) struct Output {
    sink: BufWriter<Box<dyn Write>>,
    file: Option<NewFile>,
}

impl Output {
    /// `path`, or else standard output unless somebody would have to look at the bytes.
    pub(super) fn open(path: Option<&Path>) -> Result<Self> {
        if let Some(path) = path {
            return Self::create(path, None);
        }
        if io::stdout().is_terminal() {
            bail!("standard output is a terminal: name a file with -o, or redirect");
        }
        Ok(Self { sink: BufWriter::new(Box::new(io::stdout())), file: None })
    }

    /// The file `path`, with `permissions` from its first byte on.
    pub(super) fn create(path: &Path, permissions: Option<&Permissions>) -> Result<Self> {
        let (new, file) = NewFile::create(path, permissions)?;
        Ok(Self { sink: BufWriter::with_capacity(READ_BYTES, Box::new(file)), file: Some(new) })
    }

    /// Appends what `encode` writes.
    pub(super) fn put(&mut self, encode: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        let mut bytes = Vec::new();
        encode(&mut bytes);
        self.write(&bytes)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let written = self.sink.write_all(bytes);
        written.with_context(|| format!("write {}", self.name()))
    }

    /// Makes the result visible; without this it never was.
    pub(super) fn commit(mut self) -> Result<()> {
        let flushed = self.sink.flush();
        flushed.with_context(|| format!("write {}", self.name()))?;
        self.file.take().map_or(Ok(()), NewFile::commit)
    }

    fn name(&self) -> String {
        let file = self.file.as_ref().map(|file| file.target.display().to_string());
        file.unwrap_or_else(|| "standard output".into())
    }
}

/// A file that has no name yet, or where that cannot be another one, beside the one that it will take. Dropped, it is gone.
pub(super) struct NewFile {
    target: PathBuf,
    temp: PathBuf,
    file: File,
    has_name: bool,
}

impl NewFile {
    pub(super) fn create(path: &Path, permissions: Option<&Permissions>) -> Result<(Self, File)> {
        let target = target(path)?;
        let name = target.file_name().with_context(|| format!("{} has no name", path.display()))?;
        let mut temp_name = std::ffi::OsString::from(".");
        temp_name.push(name);
        temp_name.push(format!(".{}.deltic-tmp", std::process::id()));
        let temp = target.with_file_name(temp_name);
        let place = || format!("create {}", temp.display());
        let (file, has_name) = match nameless(dir_of(&target), permissions) {
            Some(file) => (file, false),
            None => (private(permissions).open(&temp).with_context(place)?, true),
        };
        let sink = file.try_clone();
        let new = Self { target, temp: temp.clone(), file, has_name };
        if let Some(permissions) = permissions {
            new.file.set_permissions(permissions.clone()).with_context(place)?;
        }
        Ok((new, sink.with_context(place)?))
    }

    pub(super) fn commit(mut self) -> Result<()> {
        let place = || format!("write {}", self.target.display());
        // On btrfs, a flush before it has a name is lost.
        if !self.has_name {
            name(&self.file, &self.temp).with_context(place)?;
            self.has_name = true;
        }
        self.file.sync_all().with_context(place)?;
        fs::rename(&self.temp, &self.target).with_context(place)?;
        sync_dir(&self.target).with_context(place)
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        // After a commit there is nothing under this name; after a failure the failure is what gets reported.
        if self.has_name {
            let _ = fs::remove_file(&self.temp);
        }
    }
}

/// A new file in `dir` that nobody meets, and no kill leaves behind; `None` where that cannot be.
#[cfg(target_os = "linux")]
fn nameless(dir: &Path, permissions: Option<&Permissions>) -> Option<File> {
    let mode = if permissions.is_some() { 0o600 } else { 0o666 };
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = rustix::fs::open(dir, flags, Mode::from_raw_mode(mode)).ok()?;
    // It gets its name by this.
    path_of(&file).exists().then(|| file.into())
}

/// Gives a file that has none this name, which only one killed earlier can have.
#[cfg(target_os = "linux")]
fn name(file: &File, name: &Path) -> io::Result<()> {
    let _ = fs::remove_file(name);
    Ok(linkat(CWD, path_of(file), CWD, name, AtFlags::SYMLINK_FOLLOW)?)
}

#[cfg(target_os = "linux")]
fn path_of(file: &impl AsRawFd) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

#[cfg(not(target_os = "linux"))]
fn nameless(_: &Path, _: Option<&Permissions>) -> Option<File> {
    None
}

#[cfg(not(target_os = "linux"))]
fn name(_: &File, _: &Path) -> io::Result<()> {
    Ok(())
}

/// The file that `path` means: through symbolic links, and nothing that a rename would destroy.
fn target(path: &Path) -> Result<PathBuf> {
    match fs::metadata(path) {
        Ok(meta) if meta.is_file() => {
            fs::canonicalize(path).with_context(|| format!("open {}", path.display()))
        }
        Ok(_) => Err(io::Error::other("it exists and is not a regular file"))
            .with_context(|| format!("write {}", path.display())),
        Err(error) if error.kind() == io::ErrorKind::NotFound && !names_dir(path) => {
            Ok(path.into())
        }
        Err(error) => Err(error).with_context(|| format!("open {}", path.display())),
    }
}

/// Whether only a directory can have this name.
fn names_dir(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().ends_with(b"/")
}

/// Creates a new file; where it gets permissions later, nobody else can open it before.
fn private(permissions: Option<&Permissions>) -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true);
    #[cfg(unix)]
    if permissions.is_some() {
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    }
    #[cfg(not(unix))]
    let _ = permissions;
    options
}

/// The directory that a file is in.
fn dir_of(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."))
}

/// Makes the new name last; only Unix knows how.
fn sync_dir(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    File::open(dir_of(path))?.sync_all()?;
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{delta, signature};
    use super::*;

    /// A directory with `old` and `new` of 1 MB, which differ in the middle, and the delta between them.
    fn prepared() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let byte = |n: u64| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 37) as u8;
        let mut bytes: Vec<u8> = (0..1_000_000).map(|n: u64| byte(n * n)).collect();
        fs::write(dir.path().join("old"), &bytes).unwrap();
        bytes.splice(500_000..500_100, *b"not the same");
        fs::write(dir.path().join("new"), &bytes).unwrap();
        let path = |name: &str| dir.path().join(name);
        let output = Some(path("sig"));
        signature::run(&signature::Args { file: path("old"), output }).unwrap();
        let output = Some(path("delta"));
        delta::run(&delta::Args { signature: path("sig"), new: path("new"), output }).unwrap();
        dir
    }

    fn patch(dir: &Path, output: &str) -> Result<()> {
        let (old, delta, output) = (dir.join("old"), dir.join("delta"), dir.join(output));
        run(&Args { old, delta, output })
    }

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap();
        let name =
            |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
        let mut names: Vec<String> = entries.map(name).collect();
        names.sort();
        names
    }

    #[test]
    fn a_patched_old_is_new_even_in_its_own_place() {
        let dir = prepared();
        let new = fs::read(dir.path().join("new")).unwrap();
        assert!(fs::metadata(dir.path().join("delta")).unwrap().len() < 20_000);
        patch(dir.path(), "made").unwrap();
        assert!(fs::read(dir.path().join("made")).unwrap() == new);
        patch(dir.path(), "old").unwrap();
        assert!(fs::read(dir.path().join("old")).unwrap() == new);
        assert_eq!(names(dir.path()), ["delta", "made", "new", "old", "sig"]);
    }

    #[test]
    fn a_wrong_old_changes_nothing() {
        let dir = prepared();
        let mut old = fs::read(dir.path().join("old")).unwrap();
        old[10] ^= 1;
        fs::write(dir.path().join("old"), &old).unwrap();
        let error = patch(dir.path(), "made").unwrap_err();
        assert!(error.to_string().ends_with("same length, other content"), "{error}");
        old.pop();
        fs::write(dir.path().join("old"), &old).unwrap();
        let error = patch(dir.path(), "old").unwrap_err();
        assert!(error.to_string().ends_with("999999 bytes, not 1000000"), "{error}");
        assert_eq!(names(dir.path()), ["delta", "new", "old", "sig"]);
    }

    #[test]
    fn a_damaged_delta_changes_nothing() {
        let dir = prepared();
        let good = fs::read(dir.path().join("delta")).unwrap();
        for at in [0, 7, 8, 9, good.len() / 2, good.len() - 40, good.len() - 1] {
            let mut bad = good.clone();
            bad[at] ^= 1;
            fs::write(dir.path().join("delta"), &bad).unwrap();
            assert!(patch(dir.path(), "made").is_err(), "{at}");
        }
        fs::write(dir.path().join("delta"), &good[..good.len() - 1]).unwrap();
        let error = format!("{:#}", patch(dir.path(), "made").unwrap_err());
        assert!(error.ends_with("file is cut short"), "{error}");
        assert_eq!(names(dir.path()), ["delta", "new", "old", "sig"]);
    }

    #[test]
    fn a_damaged_signature_makes_no_delta() {
        let dir = prepared();
        let mut bytes = fs::read(dir.path().join("sig")).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(dir.path().join("sig"), &bytes).unwrap();
        let (signature, new) = (dir.path().join("sig"), dir.path().join("new"));
        let output = Some(dir.path().join("other"));
        assert!(delta::run(&delta::Args { signature, new, output }).is_err());
        assert_eq!(names(dir.path()), ["delta", "new", "old", "sig"]);
    }
}
