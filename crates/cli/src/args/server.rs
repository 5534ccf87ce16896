//! Options of `deltic serve` and `deltic token`, and options for the login of a client.

use std::net::SocketAddr;
use std::path::PathBuf;

use deltic_serve::server::keep::Keep;
use deltic_serve::trust::Pin;

use super::headings::TRAVEL;
use crate::words::age::Age;
use crate::words::size::Size;

/// Options by which a client shows who it is, and knows a server.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct LoginArgs {
    /// Read the token for https:// from this file: @FILE
    ///
    /// Without it, DELTIC_TOKEN in the environment counts, and else what `deltic login` has kept.
    #[arg(long, value_name = "@FILE", help_heading = TRAVEL)]
    pub(crate) token: Option<String>,
    /// Trust the server with this key alone: sha256//BASE64
    #[arg(long, value_name = "PIN", help_heading = TRAVEL)]
    pub(crate) pin: Option<Pin>,
}

/// Serve directories over one port, to other deltics and to plain HTTP
///
/// Each directory is a volume, by the last name of its path. Nobody is let in without a token; one is made and printed
/// at each start, and `deltic token` makes those that stay.
#[derive(Debug, clap::Args)]
#[command(after_help = SERVE_EXAMPLES)]
#[command(group(clap::ArgGroup::new("volumes").required(true).args(["dirs", "config"])))]
pub(crate) struct ServeArgs {
    /// Directories to serve
    #[arg(value_name = "DIR")]
    pub(crate) dirs: Vec<PathBuf>,
    /// Read volumes and settings from this file; other options count first
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Listen on this address [default: 127.0.0.1:8420]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<SocketAddr>,
    /// Be there for the whole network, with a key of our own that clients know by its pin
    #[arg(long)]
    pub(crate) lan: bool,
    /// Have a certificate made for this name, and renewed: by Let's Encrypt, unless --config says otherwise
    ///
    /// Let's Encrypt connects to port 443 of the name, so the server listens there unless --listen says otherwise. With
    /// this option you agree to its terms of service. May be given several times.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["lan", "cert"])]
    pub(crate) domain: Vec<String>,
    /// Show this certificate, a PEM file
    #[arg(long, value_name = "FILE", requires = "key", conflicts_with = "lan")]
    pub(crate) cert: Option<PathBuf>,
    /// Its key, a PEM file
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(crate) key: Option<PathBuf>,
    /// Write nothing, whatever a token allows
    #[arg(long)]
    pub(crate) ro: bool,
    /// Delete nothing, whatever a token allows; files are still replaced by new versions
    #[arg(long)]
    pub(crate) no_delete: bool,
    /// Keep old versions of files that are replaced or deleted: so many of each, or for so long
    ///
    /// `10` keeps ten versions of each file, `30d` those of thirty days. They are in .deltic-versions of the volume;
    /// `deltic versions` lists those of a file, and `deltic restore` puts one back.
    #[arg(long, value_name = "N|AGE")]
    pub(crate) versions: Option<Keep>,
    /// The server's own directory.
    #[command(flatten)]
    pub(crate) state: StateArgs,
    /// Say whether the settings make sense, and end
    #[arg(long)]
    pub(crate) check: bool,
}

/// The server's own directory.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct StateArgs {
    /// Directory of the server's own, with keys and tokens [default: ~/.local/state/deltic/serve]
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
}

/// Make, list and revoke tokens of the server on this machine
///
/// A token is shown once; the server keeps its hash. A running server knows of changes within a second.
#[derive(Debug, clap::Args)]
#[command(after_help = TOKEN_EXAMPLES)]
pub(crate) struct TokenArgs {
    #[command(subcommand)]
    pub(crate) command: TokenCommand,
}

/// Commands about tokens.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token and print it
    Add(TokenAddArgs),
    /// Make a token for the server's settings: print it, and its hash for [tokens.NAME] of deltic.toml
    New,
    /// List the tokens
    List {
        #[command(flatten)]
        state: StateArgs,
    },
    /// Remove the tokens of a name; who is connected with one is put out
    Revoke {
        /// The name, or the first letters of the hash as `list` shows it
        which: String,
        #[command(flatten)]
        state: StateArgs,
    },
}

/// Rights of a new token.
#[derive(Debug, clap::Args)]
pub(crate) struct TokenAddArgs {
    /// What you call it: whose it is, or what for
    pub(crate) name: String,
    /// For these volumes alone; else for all
    #[arg(long, value_name = "NAME")]
    pub(crate) volume: Vec<String>,
    /// For this directory in each of them alone, with all that is below it
    #[arg(long, value_name = "DIR")]
    pub(crate) path: Option<String>,
    /// Files may be read, and none written
    #[arg(long, conflicts_with = "wo")]
    pub(crate) ro: bool,
    /// Files may be written, and none read
    #[arg(long)]
    pub(crate) wo: bool,
    /// No file may be deleted
    #[arg(long)]
    pub(crate) no_delete: bool,
    /// Most bytes that may be in its part of each volume, as it writes: 500M, 10G
    ///
    /// All that is there counts, whoever put it there, but for old versions. What exceeds it is refused as a whole.
    #[arg(long, value_name = "SIZE")]
    pub(crate) quota: Option<Size>,
    /// Most names of files, directories and links there
    #[arg(long, value_name = "N")]
    pub(crate) quota_files: Option<u64>,
    /// It ends after so long: 12h, 30d
    #[arg(long, value_name = "AGE")]
    pub(crate) expires: Option<Age>,
    #[command(flatten)]
    pub(crate) state: StateArgs,
}

/// Keep the token and the pin for a server
///
/// They are read from standard input, or taken from behind the # of the address that `deltic serve` prints. They are
/// kept in ~/.config/deltic/logins.json, for you alone.
#[derive(Debug, clap::Args)]
#[command(after_help = LOGIN_EXAMPLES)]
pub(crate) struct LoginCommandArgs {
    /// The address of the server, or of a volume there
    #[arg(value_name = "URL")]
    pub(crate) url: String,
    /// Trust the server with this key alone: sha256//BASE64
    #[arg(long, value_name = "PIN")]
    pub(crate) pin: Option<Pin>,
}

/// List the old versions that a server keeps of a file, the newest first
///
/// Each line has the name of a version, when it was replaced or deleted, and its length.
#[derive(Debug, clap::Args)]
#[command(after_help = VERSIONS_EXAMPLES)]
pub(crate) struct VersionsArgs {
    /// The file: https://HOST/VOLUME/PATH
    #[arg(value_name = "URL")]
    pub(crate) url: String,
    #[command(flatten)]
    pub(crate) login: LoginArgs,
}

/// Put an old version of a file back, on the server
///
/// What is there until then becomes an old version itself.
#[derive(Debug, clap::Args)]
#[command(after_help = VERSIONS_EXAMPLES)]
pub(crate) struct RestoreArgs {
    /// The file: https://HOST/VOLUME/PATH
    #[arg(value_name = "URL")]
    pub(crate) url: String,
    /// The version, as `deltic versions` lists it
    #[arg(long, value_name = "ID")]
    pub(crate) version: u64,
    #[command(flatten)]
    pub(crate) login: LoginArgs,
}

const VERSIONS_EXAMPLES: &str = "\
EXAMPLES:
  deltic versions https://nas:8420/photos/2026/a.jpg
  deltic restore https://nas:8420/photos/2026/a.jpg --version 1764000000123456789

EXIT CODES:
  0 done; 1 the words make no sense, or there is no token; 3 no such file or version, or not allowed; 10 the server is
  not reached; 11 the token is not known there, or a file of it cannot be read";

const SERVE_EXAMPLES: &str = "\
EXAMPLES:
  deltic serve photos/
      on this machine alone: http://127.0.0.1:8420/photos/
  deltic serve --lan photos/ music/
      for the whole network, by TLS
  deltic serve --domain nas.example.org /srv/photos
      for everybody, on port 443, with a certificate of Let's Encrypt
  deltic serve --cert fullchain.pem --key privkey.pem --listen 0.0.0.0:443 /srv/photos
      with a certificate that clients trust by themselves
  deltic serve --config /etc/deltic/deltic.toml --check
      are the settings right?

EXIT CODES:
  0 told to end; 1 the settings make no sense; 10 the address is not to be had; 11 a file is not to be had";

const TOKEN_EXAMPLES: &str = "\
EXAMPLES:
  deltic token add --ro --volume photos tv
      the TV may see the photos
  deltic token add --no-delete --expires 90d laptop-backup
  deltic token add --path guests --quota 10G guest
      in the directory guests, 10 GiB
  deltic token revoke tv";

const LOGIN_EXAMPLES: &str = "\
EXAMPLES:
  deltic login https://nas:8420
      asks for the token, which is not shown
  deltic login 'https://nas:8420/photos/#t=dlt_...&pin=sha256//...'
      takes both from the address that `deltic serve` printed";
