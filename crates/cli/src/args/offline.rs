//! The options of `deltic signature`, `deltic delta` and `deltic patch`.

use std::path::PathBuf;

use super::links::TrustArgs;

/// Write down what another machine must know of FILE to compute a delta against it
///
/// The signature has the length and the fingerprint of each chunk of FILE, and
/// none of its bytes: about 1.5 % of a small file's size, and less the larger
/// the file is, down to 0.03 % from 32 GiB on.
///
/// To bring a file up to date where no connection leads:
///
///   there:  deltic signature disk.img -o disk.sig
///   here:   deltic delta disk.sig disk.img -o disk.delta
///   there:  deltic patch disk.img disk.delta -o disk.img
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct SignatureArgs {
    /// The old version; - is standard input
    pub(crate) file: PathBuf,
    /// Where to write the signature, instead of to standard output
    #[arg(short, long, value_name = "OUT")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) links: TrustArgs,
}

/// Compute what turns the file behind SIGNATURE into NEW
///
/// The delta names what to copy from the old version, and holds the bytes that
/// only NEW has as they are; a compressor may follow:
///
///   deltic delta disk.sig disk.img | zstd > disk.delta.zst
///   pg_dump db | deltic delta dump.sig - -o dump.delta
///
/// SIGNATURE may also be what a server answered to the signature of NEW, asked
/// for a match.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct DeltaArgs {
    /// What `deltic signature` wrote for the old version; - is standard input
    pub(crate) signature: PathBuf,
    /// The new version; - is standard input
    pub(crate) new: PathBuf,
    /// Where to write the delta, instead of to standard output
    #[arg(short, long, value_name = "OUT")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) links: TrustArgs,
}

/// Make a new version from OLD and what `deltic delta` wrote
///
/// The result is checked against the delta's digest and only then takes its
/// name, in one step; NEW may be OLD itself. With the wrong OLD or a damaged
/// delta nothing changes. NEW has holes where it is zeros.
///
///   deltic patch disk.img disk.delta -o disk.img
///   zstd -dc disk.delta.zst | deltic patch disk.img - -o disk-new.img
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct PatchArgs {
    /// The old version, that the signature was made of
    pub(crate) old: PathBuf,
    /// What `deltic delta` wrote; - is standard input
    pub(crate) delta: PathBuf,
    /// Where to write the new version
    #[arg(short, long, value_name = "NEW")]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) links: TrustArgs,
}
