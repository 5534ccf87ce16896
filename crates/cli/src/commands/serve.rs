//! `deltic serve` and `deltic token`.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow, bail, ensure};
use deltic_net::NamedDir;
use deltic_serve::private;
use deltic_serve::server::config::{
    AccessConfig, AcmeConfig, Config, ConfigError, PORT, Tls, VolumeConfig,
};
use deltic_serve::server::grant::Grant;
use deltic_serve::server::state_dir::{has_state, may_have_volume};
use deltic_serve::server::token_file::TokenFile;
use deltic_serve::server::{Operator, Prepared, check, prepare};
use deltic_serve::token::{Token, TokenHash, new_token};

use crate::args::server::{ServeArgs, StateArgs, TokenAddArgs, TokenArgs, TokenCommand};
use crate::report::exit::Exit;
use crate::report::numbers::counted;
use crate::report::output::{self, Output};
use crate::words::age::Age;
use crate::words::home::STATE;
use crate::words::size::Size;

/// Default port of `https`.
const HTTPS: u16 = 443;

/// Serves until told to end.
pub(crate) fn run(args: &ServeArgs) -> Exit {
    let config = match config(args) {
        Ok(config) => config,
        Err(error) => {
            output::complain(&output::words(&error), None);
            return Exit::after_refusal(&error);
        }
    };
    if args.check {
        return match check(&config) {
            Ok(()) => {
                output::note("the settings are right\n");
                Exit::Success
            }
            Err(error) => failed(&error),
        };
    }
    if let Err(error) = make_own(&config.state) {
        output::complain(&output::words(&error), None);
        return Exit::after_refusal(&error);
    }
    let token = new_token();
    // Without a settings file, there is nothing to reload.
    let reload = || self::config(args).map_err(|error| output::words(&error));
    let report = |line: &str| output::note(&format!("{line}\n"));
    let reload: Option<&dyn Fn() -> Result<Config, String>> =
        if args.config.is_some() { Some(&reload) } else { None };
    let operator = Operator { reload, report: &report };
    match prepare(&config, Some(&token), args.config.as_deref()) {
        Ok(prepared) => {
            if let Err(error) = announce(&prepared, &config, &token) {
                output::complain_unwritten(&error);
            }
            prepared.run(&operator).map_or_else(|error| failed(&error), |()| Exit::Success)
        }
        Err(error) => failed(&error),
    }
}

fn failed(error: &ConfigError) -> Exit {
    let in_use = matches!(error, ConfigError::Io { source, .. } if source.kind() == io::ErrorKind::AddrInUse);
    let hint = "another program has it: --listen, or `metrics` of the settings, names another";
    let hint = in_use.then_some(hint);
    output::complain(&error.to_string(), hint);
    match error {
        ConfigError::Bad(_) => Exit::Usage,
        ConfigError::Taken(_) => Exit::Transport,
        ConfigError::Io { .. } if in_use => Exit::Transport,
        ConfigError::Io { .. } => Exit::Files,
    }
}

/// Returns the settings of the arguments, or of the file that `--config` names.
fn config(args: &ServeArgs) -> Result<Config> {
    let mut config = match &args.config {
        Some(path) => {
            let shown = path.display();
            let text = private::read(path)
                .and_then(|text| String::from_utf8(text).map_err(io::Error::other))
                .with_context(|| format!("cannot read {shown}"))?;
            toml::from_str::<Config>(&text).with_context(|| format!("{shown}"))?
        }
        None => Config {
            listen: (Ipv4Addr::LOCALHOST, PORT).into(),
            state: state(&args.state)?,
            tls: Tls::Off,
            audit: None,
            metrics: None,
            proxies: Vec::new(),
            volumes: volumes(&args.dirs)?,
            limits: deltic_serve::server::config::Limits::default(),
            tokens: BTreeMap::new(),
        },
    };
    if args.lan {
        config.tls = Tls::SelfSigned;
        config.listen = (Ipv6Addr::UNSPECIFIED, config.listen.port()).into();
    }
    if !args.domain.is_empty() {
        let of = |acme| AcmeConfig { domains: args.domain.clone(), ..acme };
        config.tls = Tls::Acme(match config.tls {
            Tls::Acme(acme) => of(acme),
            _ => of(AcmeConfig::of(Vec::new())),
        });
        if args.config.is_none() {
            config.listen = (Ipv6Addr::UNSPECIFIED, HTTPS).into();
        }
    }
    if let (Some(cert), Some(key)) = (&args.cert, &args.key) {
        config.tls = Tls::Files { cert: cert.clone(), key: key.clone() };
    }
    if let Some(listen) = args.listen {
        config.listen = listen;
    }
    if args.state.state.is_some() || config.state.as_os_str().is_empty() {
        config.state = state(&args.state)?;
    }
    for volume in config.volumes.values_mut() {
        if args.ro {
            volume.access = AccessConfig::Read;
        }
        volume.delete &= !args.no_delete;
        volume.versions = args.versions.or(volume.versions);
    }
    Ok(config)
}

/// Creates a directory for this user only, if missing.
fn make_own(dir: &Path) -> Result<()> {
    let made = NamedDir::of_operator(dir).made(0o700);
    made.map(drop).with_context(|| format!("cannot make {}", dir.display()))
}

fn state(args: &StateArgs) -> Result<PathBuf> {
    if let Some(state) = &args.state {
        return Ok(state.clone());
    }
    let dir = STATE.find().context("HOME is not set; --state names a directory")?;
    Ok(dir.join("deltic/serve"))
}

/// Returns a volume for each directory, named by the last component of its path.
fn volumes(dirs: &[PathBuf]) -> Result<BTreeMap<String, VolumeConfig>> {
    let mut volumes = BTreeMap::new();
    for dir in dirs {
        let real = NamedDir::of_operator(dir).real_path();
        let path = real.with_context(|| format!("{}", dir.display()))?;
        let last = path.file_name().unwrap_or_else(|| "root".as_ref()).as_bytes();
        let plain = |byte: &u8| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => char::from(*byte),
            _ => '-',
        };
        let name: String = last.iter().map(plain).collect();
        if volumes.insert(name.clone(), VolumeConfig::of(path)).is_some() {
            bail!("two directories are called {name}; --config names volumes otherwise");
        }
    }
    Ok(volumes)
}

/// Prints the volumes and their URLs.
fn announce(prepared: &Prepared, config: &Config, token: &Token) -> io::Result<()> {
    let scheme = if matches!(config.tls, Tls::Off) { "http" } else { "https" };
    let port = prepared.address.port();
    let address = match &config.tls {
        Tls::Acme(acme) if port == HTTPS => acme.domains[0].clone(),
        Tls::Acme(acme) => format!("{}:{port}", acme.domains[0]),
        _ => SocketAddr::new(reachable(prepared.address.ip()), port).to_string(),
    };
    let pin = prepared.pin().map(|pin| format!("&pin={pin}")).unwrap_or_default();
    let mut output = Output::stdout();
    for (name, volume) in &config.volumes {
        output.line(format!("serving {} as {name}", volume.path.display()));
    }
    let is_read_only = |volume: &VolumeConfig| volume.access == AccessConfig::Read;
    // The first writable volume by name, or else the first volume.
    let first = config.volumes.iter().min_by_key(|(_, volume)| is_read_only(volume));
    let (first, is_read_only) =
        first.map_or(("", false), |(name, volume)| (name, is_read_only(volume)));
    let there = format!("{scheme}://{address}/{first}/");
    let url = format!("{there}#t={}{pin}", token.reveal());
    output.line(format!("\n  {url}\n"));
    output.line(format!("elsewhere: deltic login '{url}'"));
    output.line(match is_read_only {
        true => format!("           deltic sync -a {there} DIR/"),
        false => format!("           deltic sync -a DIR/ {there}"),
    });
    if io::stdout().is_terminal()
        && let Ok(code) = qrcode::QrCode::new(url.as_bytes())
    {
        let code = code.render::<qrcode::render::unicode::Dense1x2>().quiet_zone(true).build();
        output.line(code);
    }
    output.finish()
}

/// Returns an address for other machines, if the server listens on all addresses.
fn reachable(ip: IpAddr) -> IpAddr {
    if !ip.is_unspecified() {
        return ip;
    }
    // Sends nothing: connecting the socket makes the system choose a source address.
    let from = || {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
        socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
        Some(socket.local_addr().ok()?.ip())
    };
    from().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
}

/// Makes, lists and revokes tokens.
pub(crate) fn token(args: &TokenArgs) -> Result<()> {
    let mut output = Output::stdout();
    match &args.command {
        TokenCommand::Add(add) => {
            let state = state(&add.state)?;
            make_own(&state)?;
            let (file, grant) = (TokenFile::of(&state), grant(add)?);
            warn_of(&file, &grant, &state)?;
            output.line(file.add(grant)?.reveal());
        }
        TokenCommand::New => {
            let token = new_token();
            output.line(token.reveal());
            output.line(format!("hash = \"{}\"", token.hash()));
        }
        TokenCommand::List { state } => {
            let state = self::state(state)?;
            let shown = state.display();
            ensure!(has_state(&state), "{shown} holds no state of a server; --state names another");
            for (hash, grant) in TokenFile::of(&state).read()? {
                output.line(line(&hash, grant));
            }
        }
        TokenCommand::Revoke { which, state } => {
            let gone = TokenFile::of(&self::state(state)?).revoke(which)?;
            ensure!(gone > 0, "no token is called {which}, or has a hash that begins so");
            output.line(format!("revoked: {}", counted(gone as u64, "token")));
        }
    }
    Ok(output.finish()?)
}

/// Warns of a name that another token has, and of volumes that no server with this state has had.
fn warn_of(file: &TokenFile, grant: &Grant, state: &Path) -> Result<()> {
    let Grant { name, volumes, .. } = grant;
    if file.read()?.values().any(|other| other.name == *name) {
        let hint = "`deltic token revoke` with this name revokes all of them";
        output::complain(&format!("another token is called '{name}' too"), Some(hint));
    }
    for volume in volumes.iter().flatten().filter(|volume| !may_have_volume(state, volume)) {
        let state = state.display();
        let why = format!("no volume is called '{volume}' in any start of a server with {state}");
        output::complain(&why, Some("the token has no rights until a volume is called so"));
    }
    Ok(())
}

/// Returns the rights that the arguments grant.
fn grant(add: &TokenAddArgs) -> Result<Grant> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let end = |age: &Age| Some(now.as_secs().saturating_add(age.0?));
    let grant = Grant {
        volumes: (!add.volume.is_empty()).then(|| add.volume.clone()),
        read: !add.wo,
        write: !add.ro,
        delete: !add.ro && !add.no_delete,
        quota_bytes: add.quota.map(Size::bytes),
        quota_files: add.quota_files,
        expires: add.expires.as_ref().and_then(end),
        ..Grant::all(add.name.clone())
    };
    match &add.path {
        None => Ok(grant),
        Some(path) => grant.within(path).map_err(|why| anyhow!("--path={path}: {why}")),
    }
}

/// Returns the line of `token list` for a token and its rights.
fn line(hash: &TokenHash, grant: Grant) -> String {
    let rights = [(grant.read, "read"), (grant.write, "write"), (grant.delete, "delete")];
    let rights: Vec<_> = rights.iter().filter(|(has, _)| *has).map(|(_, right)| *right).collect();
    let path = grant.path_text().map(|path| format!(", below {path}")).unwrap_or_default();
    let volumes = grant.volumes.map_or_else(|| "all volumes".into(), |names| names.join(" "));
    let bytes = grant.quota_bytes.map(|bytes| format!("  at most {}", counted(bytes, "byte")));
    let files = grant.quota_files.map(|files| format!("  at most {}", counted(files, "name")));
    let quotas = [bytes, files].map(Option::unwrap_or_default).concat();
    let made = if grant.parent.is_some() { "  made by a token" } else { "" };
    let ends = grant.expires.map(expiry).unwrap_or_default();
    let (name, rights) = (grant.name, rights.join("+"));
    format!("{hash:.12}  {name}  {rights}  {volumes}{path}{quotas}{ends}{made}")
}

fn expiry(at: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    match at.checked_sub(now).map(Duration::from_secs) {
        None => "  has ended".into(),
        Some(left) => format!("  ends in {}", indicatif::HumanDuration(left)),
    }
}
