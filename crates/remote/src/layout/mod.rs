//! Layouts: the word of storage about one version (SkySync §3.4).
//!
//! A [`Layout`] has the parts of a version in order, what covers each of them, and where they lie. [`here`] asks the
//! file system of a file on this machine. The others read files in which systems keep sums, and the text of `zdb`; they
//! are experimental. [`Layout::differing`] is the one place that says which evidence counts for equal parts. No content
//! of a version is read. Why so: docs/decisions/0062.

mod bluestore;
mod compare;
mod dm_verity;
mod hdfs;
mod input;
pub mod local;
mod moosefs;
mod parts;
mod recipe;
pub mod zfs;

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;

pub use compare::Comparison;
pub use parts::{Layout, LayoutError, LayoutPart, PartContent, StorageId, UnitSums};

use input::{bytes, bytes_to, read_error};

/// Kinds of files in which systems keep sums, and of snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutSource {
    /// The hash device of an image (`veritysetup`).
    DmVerity,
    /// `POOL/DATASET@SNAPSHOT:INODE`, by `zdb`.
    Zfs,
    /// A recipe of MeGA.
    Mega,
    /// A recipe of MFDedup.
    MfDedup,
    /// The `.meta` file of a block of an HDFS datanode.
    HdfsMeta,
    /// The file of a chunk of a MooseFS chunk server.
    MooseFsChunk,
    /// The output of `ceph-objectstore-tool … dump` of an object.
    BlueStore,
}

impl LayoutSource {
    /// All, each with the word in front of its colon.
    pub const ALL: [(&'static str, Self); 7] = [
        ("dm-verity", Self::DmVerity),
        ("zfs", Self::Zfs),
        ("mega", Self::Mega),
        ("mfdedup", Self::MfDedup),
        ("hdfs-meta", Self::HdfsMeta),
        ("moosefs-chunk", Self::MooseFsChunk),
        ("bluestore", Self::BlueStore),
    ];

    /// The kind that `word` begins with, and what follows its colon; `None` of a path.
    #[must_use]
    pub fn of(word: &OsStr) -> Option<(Self, &OsStr)> {
        let bytes = word.as_bytes();
        let colon = bytes.iter().position(|byte| *byte == b':')?;
        let (_, kind) =
            Self::ALL.into_iter().find(|(name, _)| name.as_bytes() == &bytes[..colon])?;
        Some((kind, OsStr::from_bytes(&bytes[colon + 1..])))
    }

    /// Reads a file of this kind, which has `len` bytes; of ZFS the text of `zdb`.
    ///
    /// # Errors
    /// [`LayoutError`] of other files, and of more than a million parts.
    pub fn read(self, file: &mut dyn Read, len: u64) -> Result<Layout, LayoutError> {
        match self {
            Self::DmVerity => dm_verity::read(&bytes(file)?),
            Self::Zfs => zfs::read(&String::from_utf8_lossy(&bytes(file)?)),
            Self::Mega => recipe::mega(&bytes(file)?),
            Self::MfDedup => recipe::mfdedup(&bytes(file)?),
            Self::HdfsMeta => hdfs::read(&bytes(file)?),
            Self::MooseFsChunk => {
                // The chunk itself follows what is kept of it.
                let mut head = Vec::new();
                file.take(moosefs::HEAD_BYTES as u64).read_to_end(&mut head).map_err(read_error)?;
                moosefs::read(&head, len)
            }
            // A dump of 4 MiB has less than a hundredth of it.
            Self::BlueStore => bluestore::read(&bytes_to(file, 64 << 20)?),
        }
    }
}

#[cfg(test)]
mod tests;
