//! Settings of a server, from a file or the command line.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use deltic_store::PrivateDir;
use deltic_store_local::{NamedDir, QuotaLimits};
use deltic_tree::{Name, RelPath};
use http::Uri;
use instant_acme::LetsEncrypt;
use rustls::pki_types::DnsName;
use serde::de::{Error, IgnoredAny};
use serde::{Deserialize, Deserializer};

use super::grant::{Grant, Grants};
use super::keep::Keep;
use crate::token::TokenHash;

/// Settings of a server (`deltic.toml`).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Address to listen on.
    #[serde(default = "default_listen")]
    pub listen: SocketAddr,
    /// State directory of the server, with tokens and keys. If the settings have none, the program that reads them
    /// sets a default.
    #[serde(default)]
    pub state: PathBuf,
    /// Encryption of connections.
    #[serde(default)]
    pub tls: Tls,
    /// Served directories, by their names for clients.
    pub volumes: BTreeMap<String, VolumeConfig>,
    /// File of the audit log, if one is written.
    pub audit: Option<PathBuf>,
    /// Address that serves metrics without a token.
    pub metrics: Option<SocketAddr>,
    /// Addresses of trusted proxies. A trusted proxy names the client by `X-Forwarded-For`.
    #[serde(default)]
    pub proxies: Vec<IpAddr>,
    /// Limits of clients.
    #[serde(default)]
    pub limits: Limits,
    /// Tokens in addition to those of `deltic token add`, by name.
    #[serde(default)]
    pub tokens: BTreeMap<String, TokenConfig>,
}

/// Settings of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeConfig {
    /// The served directory.
    pub path: PathBuf,
    /// Directions in which files may be transferred, whatever a token allows.
    #[serde(default)]
    pub access: AccessConfig,
    /// True if anything may be deleted.
    #[serde(default = "yes")]
    pub delete: bool,
    /// Old versions of files to keep, if any.
    #[serde(default)]
    pub versions: Option<Keep>,
    /// Most bytes of all files, including old versions and unfinished uploads.
    #[serde(default, deserialize_with = "byte_count")]
    pub quota_bytes: Option<u64>,
    /// Most names of files, directories and links.
    pub quota_files: Option<u64>,
    /// Bytes that must stay free on the volume's disk.
    #[serde(default = "default_free")]
    pub free_bytes: u64,
}

impl VolumeConfig {
    /// Returns the settings of a volume that may be read and written, without quotas and old versions.
    #[must_use]
    pub fn of(path: PathBuf) -> Self {
        Self {
            path,
            access: AccessConfig::ReadWrite,
            delete: true,
            versions: None,
            quota_bytes: None,
            quota_files: None,
            free_bytes: default_free(),
        }
    }

    /// Returns the limits of the space that the volume may take.
    pub(crate) const fn quota(&self) -> QuotaLimits {
        let Self { quota_bytes: bytes, quota_files: files, free_bytes, .. } = *self;
        QuotaLimits { bytes, files, free_bytes }
    }
}

/// Settings of a token. The token ends when it is removed from the settings.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenConfig {
    /// Hash of the token, as `deltic token new` prints it.
    pub hash: String,
    /// Volumes that the token is for; all volumes if `None`.
    pub volumes: Option<Vec<String>>,
    /// Directory in each volume that the token is for, with all entries below.
    pub path: Option<String>,
    /// Directions in which files may be transferred.
    #[serde(default)]
    pub access: AccessConfig,
    /// True if anything may be deleted.
    #[serde(default = "yes")]
    pub delete: bool,
    /// Most bytes in the token's part of a volume.
    #[serde(default, deserialize_with = "byte_count")]
    pub quota_bytes: Option<u64>,
    /// Most names of files, directories and links in the token's part of a volume.
    pub quota_files: Option<u64>,
}

impl TokenConfig {
    /// Returns the grant of the token.
    fn grant(&self, name: &str) -> Result<Grant, String> {
        let write = self.access != AccessConfig::Read;
        let grant = Grant {
            volumes: self.volumes.clone(),
            read: self.access != AccessConfig::Write,
            write,
            delete: write && self.delete,
            quota_bytes: self.quota_bytes,
            quota_files: self.quota_files,
            ..Grant::with_all_rights(name)
        };
        match &self.path {
            None => Ok(grant),
            Some(path) => grant.within(path).map_err(|why| format!("path '{path}': {why}")),
        }
    }
}

/// Directions in which files may be transferred.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum AccessConfig {
    /// Both directions.
    #[default]
    ReadWrite,
    /// Only to clients.
    Read,
    /// Only from clients.
    Write,
}

/// Encryption of connections.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Tls {
    /// No encryption: for connections on this machine, or behind a proxy with TLS.
    #[default]
    Off,
    /// TLS with a self-signed certificate, which clients know by its pin.
    SelfSigned,
    /// TLS with a certificate and its key in PEM files.
    Files {
        /// File with the certificate and its issuers.
        cert: PathBuf,
        /// File with the key.
        key: PathBuf,
    },
    /// TLS with a certificate from an authority, obtained and renewed by ACME.
    Acme(AcmeConfig),
}

/// Settings of an ACME certificate.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct AcmeConfig {
    /// Host names of the certificate.
    pub domains: Vec<String>,
    /// Contact address for the authority: `mailto:…`.
    pub contact: Option<String>,
    /// Address of the authority's ACME directory; that of Let's Encrypt by default.
    #[serde(default = "lets_encrypt")]
    pub directory: String,
    /// PEM file with the issuers of the authority's TLS certificate; the system's authorities by default.
    pub ca_file: Option<PathBuf>,
}

impl AcmeConfig {
    /// Returns the settings of a Let's Encrypt certificate for these names.
    #[must_use]
    pub fn of(domains: Vec<String>) -> Self {
        Self { domains, directory: lets_encrypt(), ..Self::default() }
    }

    fn check(&self) -> Result<(), ConfigError> {
        let bad = |why: String| Err(ConfigError::Bad(format!("tls.acme: {why}")));
        if self.domains.is_empty() || self.domains.len() > MAX_DOMAINS {
            return bad(format!("domains: between 1 and {MAX_DOMAINS} names"));
        }
        for name in &self.domains {
            let is_name = DnsName::try_from(name.as_str()).is_ok() && !name.ends_with('.');
            if !is_name || name.parse::<IpAddr>().is_ok() || name.contains(char::is_uppercase) {
                return bad(format!(
                    "'{name}' is no name of a host in small letters; names with '*' and addresses have no certificates"
                ));
            }
        }
        let is_secret = |uri: &Uri| uri.scheme_str() == Some("https") && uri.host().is_some();
        if !self.directory.parse::<Uri>().is_ok_and(|uri| is_secret(&uri)) {
            return bad(format!("directory: '{}' is not an https:// URL", self.directory));
        }
        match self.contact.as_ref().filter(|contact| !contact.starts_with("mailto:")) {
            Some(contact) => bad(format!("contact: '{contact}' does not begin with mailto:")),
            None => Ok(()),
        }
    }
}

/// Most host names of a certificate.
const MAX_DOMAINS: usize = 100;

fn lets_encrypt() -> String {
    LetsEncrypt::Production.url().into()
}

/// Limits of clients: of all clients, of each address, of each token.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Most connections at once.
    pub connections: usize,
    /// Most connections of an address at once.
    pub connections_per_address: usize,
    /// Most new connections of an address in a second, after a burst; 0 for no limit. Connections that show a token
    /// are not counted.
    pub handshakes_per_second: u32,
    /// Most new connections of an address in a burst.
    pub handshake_burst: u32,
    /// Most wrong tokens of an address in a minute; 0 for no limit.
    pub wrong_tokens_per_minute: u32,
    /// True if the limits of an address also apply to this machine's own addresses.
    pub count_loopback: bool,
    /// Most sessions at once.
    pub sessions: usize,
    /// Most sessions of a token at once.
    pub sessions_per_token: usize,
    /// Most requests of a token in a second, after a burst; 0 for no limit. Opening a session counts as a request.
    pub requests_per_second: u32,
    /// Most requests of a token in a burst.
    pub request_burst: u32,
    /// Most bytes of memory for one session.
    pub session_bytes: u64,
    /// Most bytes of memory for recipes of received files. With a recipe, the next version of a file needs no reading
    /// of the old version. A recipe takes about a hundredth of its file.
    pub recipe_bytes: u64,
    /// Most bytes of one file uploaded by plain HTTP.
    pub upload_bytes: u64,
    /// Longest time for a TLS handshake, and for the head of a request, in seconds.
    pub head_seconds: u64,
    /// Longest time without a byte from a client or to a client, in seconds.
    pub stall_seconds: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 20_000,
            connections_per_address: 500,
            handshakes_per_second: 2,
            handshake_burst: 50,
            wrong_tokens_per_minute: 10,
            count_loopback: false,
            sessions: 1_000,
            sessions_per_token: 250,
            requests_per_second: 20,
            request_burst: 200,
            session_bytes: 64 << 20,
            recipe_bytes: 256 << 20,
            upload_bytes: 1 << 40,
            head_seconds: 10,
            stall_seconds: 60,
        }
    }
}

impl Limits {
    /// Longest time for a TLS handshake, and for the head of a request.
    pub(crate) const fn head(&self) -> Duration {
        Duration::from_secs(self.head_seconds)
    }

    /// Longest time without a byte from a client or to a client.
    pub(crate) const fn stall(&self) -> Duration {
        Duration::from_secs(self.stall_seconds)
    }
}

/// Parses a number of bytes, and explains the expected form if the value is not a number.
fn byte_count<'de, D: Deserializer<'de>>(value: D) -> Result<Option<u64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum ByteCount {
        Number(u64),
        Other(IgnoredAny),
    }
    match ByteCount::deserialize(value)? {
        ByteCount::Number(bytes) => Ok(Some(bytes)),
        ByteCount::Other(_) => {
            Err(D::Error::custom("write a number of bytes without a unit; 1 GiB is 1073741824"))
        }
    }
}

const fn default_free() -> u64 {
    1 << 30
}

const fn yes() -> bool {
    true
}

/// Default port of a server.
pub const PORT: u16 = 8420;

fn default_listen() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, PORT).into()
}

/// Error of invalid settings, or of a server that cannot start with its settings.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The settings are invalid.
    #[error("{0}")]
    Bad(String),
    /// Another server holds an exclusive lock.
    #[error("{0}")]
    Taken(String),
    /// A file or an address cannot be used.
    #[error("cannot {what}: {}", deltic_store_local::reason(source))]
    Io {
        /// The failed action and its object, such as `open PATH`.
        what: String,
        /// The system's error.
        source: std::io::Error,
    },
}

impl ConfigError {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}

impl Config {
    /// Checks rules that the types of the settings do not enforce.
    ///
    /// # Errors
    /// [`ConfigError::Bad`] with the first invalid setting, or `ConfigError::Io` if the path of a volume is not
    /// safe to serve.
    pub fn check(&self) -> Result<(), ConfigError> {
        let bad = |why: String| Err(ConfigError::Bad(why));
        if self.volumes.is_empty() {
            return bad("no volumes: name a directory to serve".into());
        }
        for (name, volume) in &self.volumes {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            if Name::new(name.as_bytes()).is_err() || !name.chars().all(is_plain) {
                return bad(format!(
                    "volume '{name}': a name has letters, digits, '-', '_' and '.'"
                ));
            }
            let way = NamedDir::of_operator(&volume.path).check_operators();
            way.map_err(ConfigError::io(format!("serve volume {name}")))?;
            if !volume.path.is_dir() {
                return bad(format!("volume {name}: {}: no such directory", volume.path.display()));
            }
            if self.shows_state(&volume.path) {
                return bad(format!(
                    "volume {name} contains the server's state directory {}; choose a directory outside by --state, \
                     or one named .deltic-serve",
                    self.state.display()
                ));
            }
        }
        if self.limits.head_seconds == 0 || self.limits.stall_seconds == 0 {
            return bad("limits: head_seconds and stall_seconds are at least 1".into());
        }
        if let Tls::Acme(acme) = &self.tls {
            acme.check()?;
        }
        self.grants()?;
        if let Some(metrics) = self.metrics.filter(|at| !self.may_listen(*at)) {
            return bad(format!(
                "metrics: {metrics}: without TLS, names of volumes would cross the network in the clear; use an \
                 address of this machine alone (127.0.0.1), or --lan, or a certificate"
            ));
        }
        self.check_address(self.listen)
    }

    /// Returns a digest of the volumes: their names, directories, and what clients may do there.
    pub(crate) fn served(&self) -> String {
        let mut hasher = blake3::Hasher::new_derive_key("deltic 2026 volumes of a session");
        for (name, volume) in &self.volumes {
            let path = volume.path.canonicalize().unwrap_or_else(|_| volume.path.clone());
            let rights = format!("{:?} {}", volume.access, volume.delete);
            for part in [name.as_bytes(), path.as_os_str().as_bytes(), rights.as_bytes()] {
                hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
            }
        }
        hasher.finalize().to_hex()[..32].to_owned()
    }

    /// True if clients of a volume with the directory `volume` would reach the state directory. A directory named
    /// `.deltic-serve` is left out of volumes.
    fn shows_state(&self, volume: &Path) -> bool {
        let is_left_out = |name: &[u8]| PrivateDir::found_by(name) == Some(PrivateDir::ServerState);
        self.state_in(volume).is_some_and(|state| !state.components().any(is_left_out))
    }

    /// Returns the path of the state directory in the directory `volume`, with all symlinks resolved. `None` if the
    /// state directory is elsewhere.
    pub(crate) fn state_in(&self, volume: &Path) -> Option<RelPath> {
        let state = std::path::absolute(&self.state).ok()?;
        let made = |dir: &Path| Some(dir.canonicalize().ok()?.join(state.strip_prefix(dir).ok()?));
        let state = state.ancestors().find_map(made)?;
        let below = state.strip_prefix(volume.canonicalize().ok()?).ok()?;
        RelPath::parse(below.as_os_str().as_bytes()).ok()
    }

    /// Returns the names of settings that differ from those at the start, `began`, and that only a new start applies.
    pub(crate) fn for_a_new_start(&self, began: &Self) -> Vec<&'static str> {
        let (now, then) = (&self.limits, &began.limits);
        let all = [
            ("listen", self.listen == began.listen),
            ("state", self.state == began.state),
            ("volumes", self.volumes == began.volumes),
            ("audit", self.audit == began.audit),
            ("metrics", self.metrics == began.metrics),
            ("proxies", self.proxies == began.proxies),
            ("limits.connections", now.connections == then.connections),
            ("limits.sessions", now.sessions == then.sessions),
            ("limits.session_bytes", now.session_bytes == then.session_bytes),
            ("limits.recipe_bytes", now.recipe_bytes == then.recipe_bytes),
            ("limits.upload_bytes", now.upload_bytes == then.upload_bytes),
        ];
        all.into_iter().filter(|(_, is_same)| !is_same).map(|(name, _)| name).collect()
    }

    /// Returns the grants of the tokens in the settings, by the hashes of the tokens.
    ///
    /// # Errors
    /// [`ConfigError::Bad`] with the first invalid token.
    pub(crate) fn grants(&self) -> Result<Grants, ConfigError> {
        let mut grants = Grants::new();
        for (name, token) in &self.tokens {
            let bad = |why: String| ConfigError::Bad(format!("tokens.{name}: {why}"));
            let hash = token.hash.parse::<TokenHash>();
            let hash = hash.map_err(|_| bad("hash: use what `deltic token new` prints".into()))?;
            let unknown = |volume: &&String| !self.volumes.contains_key(*volume);
            if let Some(volume) = token.volumes.iter().flatten().find(unknown) {
                return Err(bad(format!("volumes: there is no volume '{volume}'")));
            }
            if grants.insert(hash, token.grant(name).map_err(bad)?).is_some() {
                return Err(bad("hash: another token has the same".into()));
            }
        }
        Ok(grants)
    }

    /// True if traffic to the address is encrypted or stays on this machine.
    fn may_listen(&self, address: SocketAddr) -> bool {
        !matches!(self.tls, Tls::Off) || address.ip().is_loopback()
    }

    /// Refuses an address at which traffic could be read on the network.
    pub(crate) fn check_address(&self, address: SocketAddr) -> Result<(), ConfigError> {
        if !self.may_listen(address) {
            return Err(ConfigError::Bad(format!(
                "{}: without TLS, tokens and files would cross the network in the clear; use --lan, or a \
                 certificate, or listen on 127.0.0.1 behind a proxy that has one",
                address
            )));
        }
        Ok(())
    }
}
