//! The options of `deltic signature`, `deltic delta` and `deltic patch`.

use std::path::PathBuf;

use super::links::TrustArgs;

/// Write the signature of FILE, from which `deltic delta` computes a delta
///
/// The signature holds the length and the fingerprint of each chunk of FILE, and no
/// content. Its size is about 1.5 % of a small file, and falls to 0.03 % from 32 GiB
/// on.
///
/// To update a file without a connection:
///
///   there:  deltic signature disk.img -o disk.sig
///   here:   deltic delta disk.sig disk.img -o disk.delta
///   there:  deltic patch disk.img disk.delta -o disk.img
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct SignatureArgs {
    /// The old version; - is standard input
    pub(crate) file: PathBuf,
    /// Write to OUT instead of standard output
    #[arg(short, long, value_name = "OUT")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) links: TrustArgs,
}

/// Write the delta from the file of SIGNATURE to NEW
///
/// The delta refers to data of the old version, and holds new data uncompressed. A
/// compressor may follow:
///
///   deltic delta disk.sig disk.img | zstd > disk.delta.zst
///   pg_dump db | deltic delta dump.sig - -o dump.delta
///
/// SIGNATURE may also be the answer of a server to a match request with the
/// signature of NEW.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct DeltaArgs {
    /// The signature of the old version; - is standard input
    pub(crate) signature: PathBuf,
    /// The new version; - is standard input
    pub(crate) new: PathBuf,
    /// Write to OUT instead of standard output
    #[arg(short, long, value_name = "OUT")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) links: TrustArgs,
}

/// Build a new version from OLD and a delta
///
/// The result is checked against the digest of the delta, and then renamed to NEW.
/// NEW may be OLD itself. With a wrong OLD or a damaged delta, NEW is not changed.
/// Runs of zeros become holes in NEW.
///
///   deltic patch disk.img disk.delta -o disk.img
///   zstd -dc disk.delta.zst | deltic patch disk.img - -o disk-new.img
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct PatchArgs {
    /// The old version, from which the signature was made
    pub(crate) old: PathBuf,
    /// The delta; - is standard input
    pub(crate) delta: PathBuf,
    /// Write the new version to NEW
    #[arg(short, long, value_name = "NEW")]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) links: TrustArgs,
}
