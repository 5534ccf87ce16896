//! `deltic patch`: the old version and a delta make the new version, or nothing.
//!
//! Also what commands that make files share about writing: [`Output`].

use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::io::{self, BufWriter, IsTerminal, Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use deltic_core::format::delta::{Delta, Header, Record};
use deltic_core::format::recipe::Summary;
use deltic_core::format::{FormatError, Parser};
use deltic_core::{Cutter, Digest, Span};
use deltic_net::{NamedFile, Trust};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, fsync, linkat, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;

use super::holes::{WithHoles, has_holes};
use super::signature::{Input, READ_BYTES};

/// Make a new version from OLD and what `deltic delta` wrote
///
/// The result is checked against the delta's digest and only then takes its
/// name, in one step; NEW may be OLD itself. With the wrong OLD or a damaged
/// delta nothing changes. If OLD has holes, NEW has holes where it is zeros.
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
        let meta = file.metadata().with_context(|| format!("cannot read {}", path.display()))?;
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
        let output = Output::like(path, old)?;
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
            return Self::create(path, None, Trust::Anyone);
        }
        if io::stdout().is_terminal() {
            bail!("standard output is a terminal: name a file with -o, or redirect");
        }
        Ok(Self { sink: BufWriter::new(Box::new(io::stdout())), file: None })
    }

    /// The file `path`, with `permissions` from its first byte on.
    pub(super) fn create(
        path: &Path,
        permissions: Option<&Permissions>,
        trust: Trust,
    ) -> Result<Self> {
        let (new, file) = NewFile::create(path, permissions, trust)?;
        Ok(Self { sink: BufWriter::with_capacity(READ_BYTES, Box::new(file)), file: Some(new) })
    }

    /// The same with the permissions of `old`, and with holes if that has some.
    fn like(path: &Path, old: &Old) -> Result<Self> {
        let mut output = Self::create(path, Some(&old.permissions), Trust::Anyone)?;
        if let Some(new) = output.file.as_ref().filter(|_| has_holes(&old.file)) {
            let file = new.file.try_clone().with_context(|| format!("write {}", path.display()))?;
            let sink = Box::new(WithHoles::new(file));
            output.sink = BufWriter::with_capacity(READ_BYTES, sink);
        }
        Ok(output)
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
        let file = self.file.as_ref().map(|file| file.path.display().to_string());
        file.unwrap_or_else(|| "standard output".into())
    }
}

/// A file that has no name yet, or where that cannot be another one, beside the one that it will take. Dropped, it is gone.
pub(super) struct NewFile {
    /// As it was called.
    path: PathBuf,
    target: NamedFile,
    temp: OsString,
    file: File,
    has_name: bool,
}

impl NewFile {
    /// For what `path` means, through symlinks of whom `trust` says.
    pub(super) fn create(
        path: &Path,
        permissions: Option<&Permissions>,
        trust: Trust,
    ) -> Result<(Self, File)> {
        let place = || format!("create {}", path.display());
        let target = target(path, trust)?;
        let mut temp = OsString::from(".");
        temp.push(target.name());
        temp.push(format!(".{}.deltic-tmp", std::process::id()));
        let (file, has_name) = match nameless(&target, permissions) {
            Some(file) => (file, false),
            None => {
                let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
                (opened(&target, &temp, flags, permissions).with_context(place)?, true)
            }
        };
        let sink = file.try_clone();
        let new = Self { path: path.into(), target, temp, file, has_name };
        if let Some(permissions) = permissions {
            new.file.set_permissions(permissions.clone()).with_context(place)?;
        }
        Ok((new, sink.with_context(place)?))
    }

    pub(super) fn commit(mut self) -> Result<()> {
        let place = format!("write {}", self.path.display());
        // On btrfs, a flush before it has a name is lost.
        if !self.has_name {
            self.name().with_context(|| place.clone())?;
            self.has_name = true;
        }
        self.file.sync_all().with_context(|| place.clone())?;
        let Self { target, temp, .. } = &self;
        let renamed = renameat(target, temp, target, target.name()).map_err(io::Error::from);
        renamed.and_then(|()| sync_dir(target)).with_context(|| place)
    }

    /// Gives a file that has none its first name, which only one killed earlier can have.
    fn name(&self) -> io::Result<()> {
        let Self { target, temp, file, .. } = self;
        let _ = unlinkat(target, temp, AtFlags::empty());
        Ok(linkat(CWD, path_of(file), target, temp, AtFlags::SYMLINK_FOLLOW)?)
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        // After a commit there is nothing under this name; after a failure the failure is what gets reported.
        if self.has_name {
            let _ = unlinkat(&self.target, &self.temp, AtFlags::empty());
        }
    }
}

/// A new file in the directory of `target` that nobody meets, and no kill leaves behind; `None` where that cannot be.
fn nameless(target: &NamedFile, permissions: Option<&Permissions>) -> Option<File> {
    let file = opened(target, OsStr::new("."), OFlags::TMPFILE, permissions).ok()?;
    // It gets its name by this.
    path_of(&file).exists().then_some(file)
}

/// Opens `name` beside `target` to read and write; what gets permissions later, nobody else can open before.
fn opened(
    target: &NamedFile,
    name: &OsStr,
    flags: OFlags,
    permissions: Option<&Permissions>,
) -> io::Result<File> {
    let mode = Mode::from_raw_mode(if permissions.is_some() { 0o600 } else { 0o666 });
    Ok(openat(target, name, flags | OFlags::RDWR | OFlags::CLOEXEC, mode)?.into())
}

fn path_of(file: &impl AsRawFd) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

/// The file that `path` means: through symbolic links, and nothing that a rename would destroy.
fn target(path: &Path, trust: Trust) -> Result<NamedFile> {
    let place = || format!("open {}", path.display());
    let target = NamedFile::find(path, trust).with_context(place)?;
    let refuse = |why: io::Error| Err(why).with_context(|| format!("write {}", path.display()));
    match statat(&target, target.name(), AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) if FileType::from_raw_mode(stat.st_mode).is_file() => Ok(target),
        Ok(_) => refuse(io::Error::other("it exists and is not a regular file")),
        Err(Errno::NOENT) if !names_dir(path) => Ok(target),
        Err(errno) => Err(io::Error::from(errno)).with_context(place),
    }
}

/// Whether only a directory can have this name.
fn names_dir(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().ends_with(b"/")
}

/// Makes the new name last.
fn sync_dir(target: &NamedFile) -> io::Result<()> {
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(fsync(openat(target, ".", flags, Mode::empty())?)?)
}

#[cfg(test)]
mod tests {
    use std::fs;

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
