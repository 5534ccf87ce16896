//! `deltic patch`: makes the new version from the old version and a delta, or makes nothing.

use std::fs::{File, Permissions};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use deltic_core::format::delta::{DeltaFormat, DeltaHeader, DeltaRecord};
use deltic_core::format::recipe::StreamSummary;
use deltic_core::format::{FormatError, RecordParser};
use deltic_core::{Digest, Span};
use deltic_net::Trust;

use super::files::{InputStream, READ_BYTES, ResultFile, opened_to_read};
use crate::args::offline::PatchArgs;

/// Reads DELTA once, and reads OLD at the offsets that DELTA names.
pub(crate) fn run(args: &PatchArgs) -> Result<()> {
    let trust = args.links.trust();
    let mut delta = InputStream::open(&args.delta, trust)?;
    let mut old = OldFile::open(&args.old, trust)?;
    let mut parser = RecordParser::<DeltaFormat>::new();
    let (mut new, mut verdict) = (None, None);
    let name = delta.name().to_string();
    delta.each_piece(|piece| {
        parser.feed(piece);
        while let Some(record) = parser.next_record().with_context(|| name.clone())? {
            match record {
                DeltaRecord::Header(header) => {
                    new = Some(PatchedFile::create(&args.output, &old, header)?)
                }
                DeltaRecord::End { digest, .. } => verdict = Some(digest),
                step => new.as_mut().ok_or(FormatError::Order)?.step(step, &mut old)?,
            }
        }
        Ok(())
    })?;
    parser.finish().context(name)?;
    let (new, digest) = new.zip(verdict).ok_or(FormatError::Truncated)?;
    new.commit(digest, &old)
}

/// The old version, opened once, so that the checked file is the file read.
struct OldFile {
    path: PathBuf,
    file: File,
    len: u64,
    permissions: Permissions,
    /// Trust in owners of symlinks, on the way to the old version and to the new one.
    trust: Trust,
}

impl OldFile {
    fn open(path: &Path, trust: Trust) -> Result<Self> {
        let file = opened_to_read(path, trust)?;
        let meta = file.metadata().with_context(|| format!("cannot read {}", path.display()))?;
        ensure!(meta.is_file(), "{} is not a regular file", path.display());
        let permissions = meta.permissions();
        Ok(Self { path: path.into(), file, len: meta.len(), permissions, trust })
    }

    /// Reads `span`, and calls `each` for each piece.
    fn read(&mut self, span: Span, each: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let place = || format!("cannot read {} at byte {}", self.path.display(), span.start);
        (&self.file).seek(SeekFrom::Start(span.start)).with_context(place)?;
        copy_exactly(&self.file, span.len as usize, each).with_context(place)
    }

    /// True if this is the file that `header` describes. Reads the whole file; used after an error.
    fn is(&self, header: &DeltaHeader) -> Result<bool> {
        let mut input = InputStream::open(&self.path, self.trust)?;
        let mut sum = StreamSummary::new(&header.spec);
        input.each_piece(|piece| Ok(sum.push(piece)?))?;
        Ok(sum.finish()?.digest == header.old_digest)
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

/// The new version in the making, and the digest of the bytes written.
struct PatchedFile {
    output: ResultFile,
    header: DeltaHeader,
    sum: StreamSummary,
}

impl PatchedFile {
    fn create(path: &Path, old: &OldFile, header: DeltaHeader) -> Result<Self> {
        let (len, wanted) = (old.len, header.old_len);
        let name = old.path.display();
        ensure!(
            len == wanted,
            "{name} is not the file that the delta starts from: {len} bytes, not {wanted}"
        );
        let output = ResultFile::sparse(path, &old.permissions, old.trust)?;
        Ok(Self { output, header, sum: StreamSummary::new(&header.spec) })
    }

    fn step(&mut self, step: DeltaRecord, old: &mut OldFile) -> Result<()> {
        match step {
            DeltaRecord::Copy(span) => old.read(span, |bytes| self.write(bytes)),
            DeltaRecord::Literal(bytes) => self.write(&bytes),
            DeltaRecord::Header(_) | DeltaRecord::End { .. } => Ok(()),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.output.write(bytes)?;
        Ok(self.sum.push(bytes)?)
    }

    fn commit(self, promised: Digest, old: &OldFile) -> Result<()> {
        if self.sum.finish()?.digest == promised {
            return self.output.commit();
        }
        let name = old.path.display();
        if old.is(&self.header)? {
            bail!(FormatError::Damaged);
        }
        bail!("{name} is not the file that the delta starts from: same length, other content");
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io;
    use std::os::unix::fs::MetadataExt;

    use super::super::{delta, signature};
    use super::*;
    use crate::args::links::TrustArgs;
    use crate::args::offline::{DeltaArgs, SignatureArgs};

    /// A directory with `old` and `new` of 1 MB, which differ in the middle, and the delta between them.
    fn prepared() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let byte = |n: u64| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 37) as u8;
        let mut bytes: Vec<u8> = (0..1_000_000).map(|n: u64| byte(n * n)).collect();
        fs::write(dir.path().join("old"), &bytes).unwrap();
        bytes.splice(500_000..500_100, *b"not the same");
        fs::write(dir.path().join("new"), &bytes).unwrap();
        let path = |name: &str| dir.path().join(name);
        let (output, links) = (Some(path("sig")), TrustArgs::default());
        signature::run(&SignatureArgs { file: path("old"), output, links }).unwrap();
        diff(dir.path(), "delta").unwrap();
        dir
    }

    /// Writes the delta from `old`, by its signature, to `new`.
    fn diff(dir: &Path, output: &str) -> Result<()> {
        let (signature, new, output) = (dir.join("sig"), dir.join("new"), Some(dir.join(output)));
        delta::run(&DeltaArgs { signature, new, output, links: TrustArgs::default() })
    }

    fn patch(dir: &Path, output: &str) -> Result<()> {
        let (old, delta, output) = (dir.join("old"), dir.join("delta"), dir.join(output));
        run(&PatchArgs { old, delta, output, links: TrustArgs::default() })
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
    fn zeros_become_holes() {
        let dir = prepared();
        let len = 64 << 20;
        let new = fs::File::create(dir.path().join("new")).unwrap();
        new.set_len(len).unwrap();
        diff(dir.path(), "delta").unwrap();
        patch(dir.path(), "made").unwrap();
        let made = fs::metadata(dir.path().join("made")).unwrap();
        assert_eq!(made.len(), len);
        assert!(made.blocks() * 512 < len / 2, "{} blocks", made.blocks());
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
        assert!(diff(dir.path(), "other").is_err());
        assert_eq!(names(dir.path()), ["delta", "new", "old", "sig"]);
    }
}
