//! Layouts: places and stored checksums of the parts of a file version (SkySync §3.4).
//!
//! A [`Layout`] lists the parts of a version in order. No content is read.
//!
//! - [`local`] asks the local file system.
//! - The other modules parse files in which storage systems keep checksums, and the output of `zdb`. They are
//!   experimental.
//! - [`Layout::differing`] is the only place that decides which evidence makes two parts equal.
//!
//! Reasons: docs/decisions/0062.

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

/// A kind of file in which a storage system keeps checksums, or a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutSource {
    /// The hash device of a dm-verity image (`veritysetup`).
    DmVerity,
    /// A file of a ZFS snapshot, `POOL/DATASET@SNAPSHOT:INODE`, by `zdb`.
    Zfs,
    /// A recipe of MeGA.
    Mega,
    /// A recipe of MFDedup.
    MfDedup,
    /// The `.meta` file of a block of an HDFS datanode.
    HdfsMeta,
    /// The file of a chunk of a MooseFS chunk server.
    MooseFsChunk,
    /// The output of `ceph-objectstore-tool … dump` for an object.
    BlueStore,
}

impl LayoutSource {
    /// All kinds, each with the prefix on the command line.
    pub const ALL: [(&'static str, Self); 7] = [
        ("dm-verity", Self::DmVerity),
        ("zfs", Self::Zfs),
        ("mega", Self::Mega),
        ("mfdedup", Self::MfDedup),
        ("hdfs-meta", Self::HdfsMeta),
        ("moosefs-chunk", Self::MooseFsChunk),
        ("bluestore", Self::BlueStore),
    ];

    /// Splits `KIND:REST` into the kind and the rest. `None` for a word without a known prefix, which is a path.
    #[must_use]
    pub fn of(word: &OsStr) -> Option<(Self, &OsStr)> {
        let bytes = word.as_bytes();
        let colon = bytes.iter().position(|byte| *byte == b':')?;
        let (_, kind) =
            Self::ALL.into_iter().find(|(name, _)| name.as_bytes() == &bytes[..colon])?;
        Some((kind, OsStr::from_bytes(&bytes[colon + 1..])))
    }

    /// Parses a file of this kind, which has `len` bytes. For ZFS, the file is the output of `zdb`.
    ///
    /// # Errors
    /// [`LayoutError`] for a file of another kind, or of too many parts.
    pub fn read(self, file: &mut dyn Read, len: u64) -> Result<Layout, LayoutError> {
        match self {
            Self::DmVerity => dm_verity::read(&bytes(file)?),
            Self::Zfs => zfs::read(&String::from_utf8_lossy(&bytes(file)?)),
            Self::Mega => recipe::mega(&bytes(file)?),
            Self::MfDedup => recipe::mfdedup(&bytes(file)?),
            Self::HdfsMeta => hdfs::read(&bytes(file)?),
            Self::MooseFsChunk => {
                // The data of the chunk follows the header.
                let mut head = Vec::new();
                file.take(moosefs::HEAD_BYTES as u64).read_to_end(&mut head).map_err(read_error)?;
                moosefs::read(&head, len)
            }
            // The dump of an object of 4 MiB has less than a hundredth of this.
            Self::BlueStore => bluestore::read(&bytes_to(file, 64 << 20)?),
        }
    }
}

#[cfg(test)]
mod tests;
