//! The options of `deltic storage`.

use std::ffi::OsString;

use super::links::TrustArgs;

/// Show what storage knows of a file, or what differs between two by that
///
/// The file system says where bytes lie and which sums it keeps of them: Btrfs,
/// ext4 and F2FS with fs-verity, others by FIEMAP, which is a hint. No content is
/// read. With NEW and OLD the ranges of NEW are told that may differ:
///
///   deltic storage disk.img                         its parts, and what covers them
///   deltic storage disk.img snapshot/disk.img       what may differ between both
///
/// Experimental: files in which other systems keep sums, by a word in front. They
/// say what was when they were written.
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
    /// A file; ./ in front of a name with a colon
    pub(crate) new: OsString,
    /// The version to compare it with
    pub(crate) old: Option<OsString>,
    /// Print each sum
    #[arg(long, conflicts_with = "old")]
    pub(crate) sums: bool,
    /// Print events, for programs: docs/events.md
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) links: TrustArgs,
}
