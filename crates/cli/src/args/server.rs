//! Options of `deltic serve` and `deltic token`, and options for the login of a client.

use std::net::SocketAddr;
use std::path::PathBuf;

use deltic_serve::server::keep::Keep;
use deltic_serve::trust::Pin;

use super::headings::TRAVEL;
use crate::words::age::{Age, PastTime};
use crate::words::size::Size;

/// Options for the login to a server.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct LoginArgs {
    /// Read the token for https:// from this file: @FILE
    ///
    /// The default is DELTIC_TOKEN in the environment, else the token that `deltic login` stored.
    #[arg(long, value_name = "@FILE", help_heading = TRAVEL)]
    pub(crate) token: Option<String>,
    /// Trust only a server with this key: sha256//BASE64
    #[arg(long, value_name = "PIN", help_heading = TRAVEL)]
    pub(crate) pin: Option<Pin>,
}

/// Serve directories to Deltic and HTTP clients, over one port
///
/// Each directory is a volume, named by the last part of its path. Clients need a token: each start prints a temporary
/// token, and `deltic token` creates permanent ones.
#[derive(Debug, clap::Args)]
#[command(after_help = SERVE_EXAMPLES)]
#[command(group(clap::ArgGroup::new("volumes").args(["dirs", "config"])))]
pub(crate) struct ServeArgs {
    /// Directories to serve
    #[arg(value_name = "DIR", required_unless_present_any = ["config", "show"])]
    pub(crate) dirs: Vec<PathBuf>,
    /// Read volumes and settings from FILE; options take precedence over FILE
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Listen on this address [default: 127.0.0.1:8420]
    #[arg(long, value_name = "ADDRESS", value_parser = listen_address)]
    pub(crate) listen: Option<SocketAddr>,
    /// Serve the whole network, with a self-signed key that clients verify by a pin
    #[arg(long)]
    pub(crate) lan: bool,
    /// Obtain and renew a certificate for NAME, from Let's Encrypt or the authority in --config
    ///
    /// Let's Encrypt connects to port 443 of NAME, the default of --listen with this option. Use of this option
    /// accepts the terms of service of Let's Encrypt. May be given several times.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["lan", "cert"])]
    pub(crate) domain: Vec<String>,
    /// Use this certificate, a PEM file
    #[arg(long, value_name = "FILE", requires = "key", conflicts_with = "lan")]
    pub(crate) cert: Option<PathBuf>,
    /// Private key of --cert, a PEM file
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(crate) key: Option<PathBuf>,
    /// Refuse all writes, whatever a token allows
    #[arg(long)]
    pub(crate) ro: bool,
    /// Refuse deletions, whatever a token allows; files may still be replaced by new versions
    #[arg(long)]
    pub(crate) no_delete: bool,
    /// Keep N old versions of each replaced or deleted file, or versions up to AGE
    ///
    /// `10` keeps ten versions of each file, `30d` the versions of thirty days, in .deltic-versions of the volume. See
    /// `deltic versions` and `deltic restore`.
    #[arg(long, value_name = "N|AGE")]
    pub(crate) versions: Option<Keep>,
    /// The server's own directory.
    #[command(flatten)]
    pub(crate) state: StateArgs,
    /// Check the settings, and exit
    #[arg(long)]
    pub(crate) check: bool,
    /// Print the address, the pin and the volumes of the running server, and exit
    #[arg(long, conflicts_with = "check")]
    pub(crate) show: bool,
}

/// Parses the address of `--listen`.
fn listen_address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| {
        "write IP:PORT: 127.0.0.1:8420 for this machine, 0.0.0.0:8420 or [::]:8420 for the network"
    })
}

/// The server's own directory.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct StateArgs {
    /// Keep the keys and tokens of the server in DIR [default: ~/.local/state/deltic/.deltic-serve]
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
}

/// Create, list and revoke tokens of the server on this machine
///
/// A token is printed once; the server stores a hash. A running server applies changes within a second.
#[derive(Debug, clap::Args)]
#[command(after_help = TOKEN_EXAMPLES)]
pub(crate) struct TokenArgs {
    #[command(subcommand)]
    pub(crate) command: TokenCommand,
}

/// Commands about tokens.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum TokenCommand {
    /// Create a token, and print it with the lines for the other side
    Add(TokenAddArgs),
    /// Create a token for deltic.toml: print the token, and the hash for [tokens.NAME]
    New,
    /// List the tokens
    List {
        /// Print each token as one line of JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        state: StateArgs,
    },
    /// Revoke the tokens of a name, and close their connections
    Revoke {
        /// Name of the tokens, or the first letters of a hash that `list` prints
        which: String,
        #[command(flatten)]
        state: StateArgs,
    },
}

/// Create a token, and print it with the lines for the other side
///
/// The token alone is on standard output; the address with the token, the commands and a QR code are on standard
/// error. The token may read one volume, unless options say more. It survives restarts of the server.
#[derive(Debug, clap::Args)]
pub(crate) struct TokenAddArgs {
    /// Name of the token, such as its user or its purpose
    pub(crate) name: String,
    /// Allow this volume; may be given several times [default: the only volume of the server]
    #[arg(long, value_name = "NAME", conflicts_with = "all_volumes")]
    pub(crate) volume: Vec<String>,
    /// Allow all volumes, also later ones
    #[arg(long)]
    pub(crate) all_volumes: bool,
    /// Allow this directory of each volume only, and everything below
    #[arg(long, value_name = "DIR")]
    pub(crate) path: Option<String>,
    /// Allow reads only; this is the default
    #[arg(long, conflicts_with_all = ["wo", "rw"])]
    pub(crate) ro: bool,
    /// Allow reads, writes and deletions
    #[arg(long, conflicts_with = "wo", group = "writes")]
    pub(crate) rw: bool,
    /// Allow writes and deletions only
    #[arg(long, group = "writes")]
    pub(crate) wo: bool,
    /// Do not allow deletions
    #[arg(long, requires = "writes")]
    pub(crate) no_delete: bool,
    /// Limit the bytes in the allowed part of each volume: 500M, 10G
    ///
    /// All files there count, of every user, except old versions. A write that exceeds the limit is refused.
    #[arg(long, value_name = "SIZE")]
    pub(crate) quota: Option<Size>,
    /// Limit the number of files, directories and links in the allowed part of each volume
    #[arg(long, value_name = "N")]
    pub(crate) quota_files: Option<u64>,
    /// Let the token expire after AGE: 12h, 30d, 1y
    #[arg(long, value_name = "AGE")]
    pub(crate) expires: Option<Age>,
    #[command(flatten)]
    pub(crate) state: StateArgs,
}

/// Store the token and the pin for a server
///
/// The token is read from standard input, or from the part behind the # of the address that `deltic token add` or
/// `deltic serve` prints. The server is asked first whether it accepts the token. The file is ~/.config/deltic/logins.json, readable by you only.
#[derive(Debug, clap::Args)]
#[command(after_help = LOGIN_EXAMPLES)]
pub(crate) struct LoginCommandArgs {
    /// The address of the server, or of a volume there
    #[arg(value_name = "URL")]
    pub(crate) url: String,
    /// Trust only a server with this key: sha256//BASE64
    #[arg(long, value_name = "PIN")]
    pub(crate) pin: Option<Pin>,
}

/// List the old versions of a file, or of all files below a directory, on a server
///
/// Each line has the name of a version, the time when it was replaced or deleted, and its length. The newest version of
/// a file comes first. A URL that ends in a slash names a directory: each line ends with the path of the file in the
/// volume, and deleted files are listed too.
#[derive(Debug, clap::Args)]
#[command(after_help = VERSIONS_EXAMPLES)]
pub(crate) struct VersionsArgs {
    /// The file, or the directory with a slash: https://HOST/VOLUME/PATH
    #[arg(value_name = "URL")]
    pub(crate) url: String,
    /// Print each version as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) login: LoginArgs,
}

/// Restore an old version of a file, or the files below a directory, on the server
///
/// The current file becomes an old version. A file that has the bytes of the version already stays as it is. A URL that
/// ends in a slash names a directory: every file below becomes what it was at the time of --at.
#[derive(Debug, clap::Args)]
#[command(after_help = VERSIONS_EXAMPLES)]
#[command(group(clap::ArgGroup::new("which").args(["version", "at"]).required(true)))]
pub(crate) struct RestoreArgs {
    /// The file, or the directory with a slash: https://HOST/VOLUME/PATH
    #[arg(value_name = "URL")]
    pub(crate) url: String,
    /// The version, as `deltic versions` lists it
    #[arg(long, value_name = "ID")]
    pub(crate) version: Option<u64>,
    /// The version at this time: '2 days ago', 12h, 30d, 2026-11-27T10:00:00Z
    #[arg(long, value_name = "TIME")]
    pub(crate) at: Option<PastTime>,
    /// Of a directory: delete files that did not exist at that time
    ///
    /// By default such files stay, since a restore should bring data back and lose none. Whether a file existed is told
    /// by its creation time in the server's file system. Deleted files become old versions.
    #[arg(long, requires = "at")]
    pub(crate) delete: bool,
    #[command(flatten)]
    pub(crate) login: LoginArgs,
}

const VERSIONS_EXAMPLES: &str = "\
EXAMPLES:
  deltic versions https://nas:8420/photos/2026/a.jpg
  deltic versions https://nas:8420/photos/2026/
      what can be restored below 2026, deleted files too
  deltic restore https://nas:8420/photos/2026/a.jpg --version 1764000000123456789
  deltic restore https://nas:8420/photos/2026/ --at '2 days ago'

EXIT CODES:
  0 done; 1 invalid arguments, or no token; 3 no such file or version, or not allowed;
  10 the server is not reachable; 11 the server refuses the token, or a file of the login cannot be read;
  23 some files of a directory were not restored";

const SERVE_EXAMPLES: &str = "\
EXAMPLES:
  deltic serve photos/
      on this machine only: http://127.0.0.1:8420/photos/
  deltic serve --lan photos/ music/
      for the whole network, by TLS
  deltic serve --domain nas.example.org /srv/photos
      for everybody, on port 443, with a certificate of Let's Encrypt
  deltic serve --cert fullchain.pem --key privkey.pem --listen 0.0.0.0:443 /srv/photos
      with a certificate that clients trust by themselves
  deltic serve --config /etc/deltic/deltic.toml --check
      check the settings
  deltic serve --show
      address, pin and volumes of the server that runs

EXIT CODES:
  0 ended by a signal; 1 invalid settings; 3 --show, and no server runs; 10 cannot listen on the address; 11 a file cannot be opened";

const TOKEN_EXAMPLES: &str = "\
EXAMPLES:
  deltic token add --volume photos tv
      allow the TV to read the photos
  deltic token add --rw --no-delete --expires 1y laptop-backup
  deltic token add --rw --path guests --quota 10G guest
      allow 10 GiB in the directory guests
  deltic token revoke tv";

const LOGIN_EXAMPLES: &str = "\
EXAMPLES:
  deltic login https://nas:8420
      ask for the token, without echo
  deltic login 'https://nas:8420/photos/#t=dlt_...&pin=sha256//...'
      take token and pin from the address that `deltic token add` printed";
