//! `deltic serve`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{self, IsTerminal};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail, ensure};
use deltic_net::NamedDir;
use deltic_serve::private;
use deltic_serve::server::announcement::{Announcement, ServedVolume, is_running};
use deltic_serve::server::config::{
    AccessConfig, AcmeConfig, Config, ConfigError, PORT, Tls, VolumeConfig,
};
use deltic_serve::server::state_dir::SERVER_STATE_NAME;
use deltic_serve::server::{Operator, Prepared, check, prepare};
use deltic_serve::token::{Token, new_token};

use super::invitation::Invitation;
use crate::args::server::{ServeArgs, StateArgs};
use crate::report::exit::Exit;
use crate::report::output::{self, Output};
use crate::words::home::STATE;
use crate::words::refused::UnreadableFile;

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
    if args.show {
        return print_running_server(&config.state).map_or_else(
            |error| {
                output::complain(&output::words(&error), None);
                Exit::Selection
            },
            |()| Exit::Success,
        );
    }
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
        let hint = "the server keeps keys and tokens there; --state names another directory";
        output::complain(&output::words(&error), Some(hint));
        return Exit::Files;
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
            let server = announcement(&prepared, &config);
            if let Err(error) = server.write(&config.state) {
                let state = config.state.display();
                output::complain(&format!("cannot write the address to {state}: {error}"), None);
            }
            if let Err(error) = announce(&server, &config.state, &token) {
                output::complain_unwritten(&error);
            }
            prepared.run(&operator).map_or_else(|error| failed(&error), |()| Exit::Success)
        }
        Err(error) => failed(&error),
    }
}

fn failed(error: &ConfigError) -> Exit {
    let in_use = matches!(error, ConfigError::Io { source, .. } if source.kind() == io::ErrorKind::AddrInUse);
    let hint = "`deltic serve --show` tells about a running server; choose another address for --listen or `metrics`";
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
                .with_context(|| UnreadableFile(format!("cannot read {shown}")))?;
            toml::from_str::<Config>(&text)
                .map_err(|why| anyhow!("{shown}: {}", why.to_string().trim_end()))?
        }
        None => Config {
            listen: (Ipv4Addr::LOCALHOST, PORT).into(),
            state: state_dir(&args.state)?,
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
        config.state = state_dir(&args.state)?;
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
pub(super) fn make_own(dir: &Path) -> Result<()> {
    let made = NamedDir::of_operator(dir).open_or_create(0o700);
    made.map(drop).with_context(|| format!("cannot make {}", dir.display()))
}

/// Returns the state directory that the arguments name, or else the default one.
pub(super) fn state_dir(args: &StateArgs) -> Result<PathBuf> {
    if let Some(state) = &args.state {
        return Ok(state.clone());
    }
    let dir = STATE.find().context("HOME is not set; --state names a directory")?;
    Ok(dir.join("deltic").join(OsStr::from_bytes(SERVER_STATE_NAME)))
}

/// Returns a volume for each directory, named by the last component of its path.
fn volumes(dirs: &[PathBuf]) -> Result<BTreeMap<String, VolumeConfig>> {
    let mut volumes = BTreeMap::new();
    for dir in dirs {
        let real = NamedDir::of_operator(dir).real_path();
        let path = real.with_context(|| format!("cannot serve {}", dir.display()))?;
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

/// Returns the announcement of the server: address for clients, certificate pin and volumes.
fn announcement(prepared: &Prepared, config: &Config) -> Announcement {
    let scheme = if matches!(config.tls, Tls::Off) { "http" } else { "https" };
    let port = prepared.address.port();
    let address = match &config.tls {
        Tls::Acme(acme) if port == HTTPS => acme.domains[0].clone(),
        Tls::Acme(acme) => format!("{}:{port}", acme.domains[0]),
        _ => SocketAddr::new(reachable(prepared.address.ip()), port).to_string(),
    };
    let volumes = config.volumes.iter().map(|(name, volume)| ServedVolume {
        name: name.clone(),
        path: volume.path.clone(),
        is_read_only: volume.access == AccessConfig::Read,
    });
    Announcement {
        address: format!("{scheme}://{address}"),
        pin: prepared.pin().map(str::to_owned),
        volumes: volumes.collect(),
    }
}

/// Prints the volumes, and an invitation with the token of this start.
fn announce(server: &Announcement, state: &Path, token: &Token) -> io::Result<()> {
    let mut output = Output::stdout();
    for ServedVolume { name, path, .. } in &server.volumes {
        output.line(format!("serving {} as {name}", path.display()));
    }
    // The first writable volume by name, or else the first volume.
    let first = server.volumes.iter().min_by_key(|volume| volume.is_read_only);
    let invitation = Invitation {
        server,
        token,
        path: first.map(|volume| format!("{}/", volume.name)).unwrap_or_default(),
        is_read_only: first.is_some_and(|volume| volume.is_read_only),
    };
    output.text(invitation.text(io::stdout().is_terminal()));
    let is_default = state_dir(&StateArgs::default()).is_ok_and(|default| default == state);
    let quoted = shlex::try_quote(&state.to_string_lossy()).map(Cow::into_owned);
    let quoted = quoted.unwrap_or_else(|_| state.display().to_string());
    let state = if is_default { String::new() } else { format!(" --state {quoted}") };
    output.line("This token ends with this server. A browser that opens the address stays");
    output.line("signed in (`deltic token revoke page`). For a token that stays, run:");
    output.line(format!("  deltic token add{state} NAME"));
    output.finish()
}

/// Prints address, pin and volumes of the server that runs with the state directory.
fn print_running_server(state: &Path) -> Result<()> {
    let shown = state.display();
    ensure!(is_running(state), "no server runs with the state directory {shown}");
    let server = Announcement::read(state).with_context(|| format!("cannot read {shown}"))?;
    let server = server.with_context(|| format!("{shown}: the server has no address yet"))?;
    let mut output = Output::stdout();
    output.line(format!("address: {}", server.address));
    if let Some(pin) = &server.pin {
        output.line(format!("pin: {pin}"));
    }
    for ServedVolume { name, path, is_read_only } in &server.volumes {
        let access = if *is_read_only { " (read only)" } else { "" };
        output.line(format!("volume {name}: {}{access}", path.display()));
    }
    Ok(output.finish()?)
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
