//! The options of `deltic storage`.

use std::ffi::OsString;

use super::links::TrustArgs;

/// Show a file's block addresses and checksums, or the differences of two files
///
/// The addresses and checksums come from the records of the file system: Btrfs,
/// or ext4 and F2FS with fs-verity. Other file systems have addresses by FIEMAP,
/// which are a hint. No content is read. With NEW and OLD, the output lists the
/// ranges of NEW that may differ from OLD:
///
///   deltic storage disk.img                         parts of a file, with checksums
///   deltic storage disk.img snapshot/disk.img       ranges that may differ
///
/// Experimental: a word before a name reads the checksums that another system keeps
/// in a file. Such checksums describe the data at the time when the file was written.
///
///   deltic storage dm-verity:new.hash dm-verity:old.hash     by veritysetup, with one --salt
///   deltic storage zfs:tank/vm@tue:34 zfs:tank/vm@mon:34     of inode 34, by zdb
///   deltic storage mega:Recipe2 mega:Recipe1                 also mfdedup:
///   deltic storage hdfs-meta:FILE                            also moosefs-chunk:, bluestore:
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
#[command(
    override_usage = "deltic storage [OPTIONS] FILE\n       deltic storage [OPTIONS] NEW OLD"
)]
pub(crate) struct StorageArgs {
    /// A file; write ./ before a name with a colon
    pub(crate) new: OsString,
    /// The version to compare NEW with
    pub(crate) old: Option<OsString>,
    /// Print each checksum
    #[arg(long, conflicts_with = "old")]
    pub(crate) sums: bool,
    /// Print events, for programs: docs/events.md
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) links: TrustArgs,
}
