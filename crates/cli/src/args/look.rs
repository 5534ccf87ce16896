//! The options of `deltic ls`, `deltic cat` and `deltic size`.

use std::ffi::OsString;

use super::server::LoginArgs;

/// List the names at a URL: mode, length, time and name
///
/// Any source of `deltic sync` can be listed: s3://, gs://, azure:// and hdfs://, a server's https://, HOST:PATH, and a
/// local path. A directory is listed with the names in it. The path may have wildcards.
#[derive(Debug, clap::Args)]
#[command(after_help = LS_EXAMPLES)]
pub(crate) struct LsArgs {
    /// The URL of a directory or a file
    #[arg(value_name = "URL")]
    pub(crate) url: OsString,
    /// List everything below, too
    #[arg(short, long)]
    pub(crate) recursive: bool,
    /// Print an `entry` event for each name, one JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) login: LoginArgs,
}

/// Write the content of a file at a URL to standard output
///
/// The URL is that of a store (s3://, gs://, azure://, hdfs://) or of a server (https://). Content of a store is
/// verified by the checksums that the store keeps; a mismatch ends with an error, perhaps after some output.
#[derive(Debug, clap::Args)]
#[command(after_help = CAT_EXAMPLES)]
pub(crate) struct CatArgs {
    /// The URL of a file
    #[arg(value_name = "URL")]
    pub(crate) url: OsString,
    #[command(flatten)]
    pub(crate) login: LoginArgs,
}

/// Count the files at a URL and their bytes
///
/// Takes the same URLs and paths as `deltic ls`. No content is read.
#[derive(Debug, clap::Args)]
#[command(after_help = SIZE_EXAMPLES)]
pub(crate) struct SizeArgs {
    /// The URL of a directory or a file
    #[arg(value_name = "URL")]
    pub(crate) url: OsString,
    /// Print a `size` event, a JSON object
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) login: LoginArgs,
}

const LS_EXAMPLES: &str = "\
EXAMPLES:
  deltic ls s3://backups/2026/
  deltic ls -r --json 's3://backups/2026/*.csv'
      quote wildcards, so that the shell leaves them alone
  deltic ls https://nas:8420/photos

EXIT CODES:
  0 done; 1 invalid arguments, or no token; 3 nothing is there; 10 the server is not reachable; 11 the server refuses
  the token; 23 some names could not be listed; others as `deltic sync`";

const CAT_EXAMPLES: &str = "\
EXAMPLES:
  deltic cat s3://backups/2026/report.csv | head
  deltic cat https://nas:8420/photos/notes.txt

EXIT CODES:
  0 done; 1 invalid arguments, or no token; 3 no such file, or the store refuses; 10 the server is not reachable;
  11 the server refuses the token, or standard output cannot be written";

const SIZE_EXAMPLES: &str = "\
EXAMPLES:
  deltic size s3://backups/2026
  deltic size --json https://nas:8420/photos

EXIT CODES:
  as `deltic ls`";
