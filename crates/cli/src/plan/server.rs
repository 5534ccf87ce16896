//! Finds the token and the pin for a server.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result};
use deltic_net::plan::{Destination, Dial, Sources, remote_host};
use deltic_net::{NamedDir, NamedFile, TOKEN_VARIABLE, Trust};
use deltic_serve::client::{Address, Credentials};
use deltic_serve::private;
use deltic_serve::token::Token;
use deltic_serve::trust::Pin;
use serde::{Deserialize, Serialize};

use crate::args::server::LoginArgs;
use crate::words::home::CONFIG;
use crate::words::password;
use crate::words::place::has_volume;
use crate::words::refused::{Misused, UnreadableFile};

/// Returns the connection to the server that an operand names, if any.
pub(crate) fn dial(
    sources: &Sources,
    destination: &Destination,
    login: &LoginArgs,
) -> Result<Option<Dial>> {
    let Some(host) =
        remote_host(sources, destination).filter(|host| Address::looks_like(host.as_bytes()))
    else {
        return Ok(None);
    };
    let address = address_of(host)?;
    let kept = Logins::read()?.0.remove(&address.server());
    let is_kept = kept.is_some();
    let mut dial = credentials_by(&address, login, kept).map(|found| address.dial(found))?;
    dial.is_kept = is_kept;
    Ok(Some(dial))
}

/// Parses `word` as the address of a server.
pub(crate) fn address_of(word: &str) -> Result<Address> {
    // The fragment behind the '#' is secret.
    let shown = word.split('#').next().unwrap_or_default();
    password::refuse(shown)?;
    parsed(word, &format!("'{shown}'"))
}

/// Parses `word` as the address of a volume, or of a path in a volume.
pub(crate) fn address_in_volume(word: &str) -> Result<Address> {
    let address = address_of(word)?;
    let shown = word.split('#').next().unwrap_or_default();
    has_volume(&address, shown)?;
    Ok(address)
}

/// Parses `text`, such as a token, a pin or an address, from the place that `whence` names.
///
/// # Errors
/// [`Misused`]; the message names `whence`.
pub(crate) fn parsed<T: FromStr<Err: Display>>(text: &str, whence: &str) -> Result<T> {
    text.parse().map_err(|why| Misused(format!("{whence}: {why}")).into())
}

pub(crate) fn credentials(address: &Address, login: &LoginArgs) -> Result<Credentials> {
    credentials_by(address, login, Logins::read()?.0.remove(&address.server()))
}

/// Returns the credentials for `address`: from the options, or else from the stored login of `address`.
fn credentials_by(
    address: &Address,
    login: &LoginArgs,
    stored: Option<Login>,
) -> Result<Credentials> {
    let in_logins = |what| format!("the {what} in {}", Logins::shown_path());
    let pin = match (login.pin, stored.as_ref().and_then(|stored| stored.pin.as_deref())) {
        (Some(pin), _) => Some(pin),
        (None, pin) => pin.map(|pin| parsed(pin, &in_logins("pin"))).transpose()?,
    };
    let said = match &login.token {
        Some(word) => Some((token_in_file(word)?, format!("--token {word}"))),
        None => environment_token().map(|token| (token, TOKEN_VARIABLE.into())),
    };
    let stored = stored.map(|login| (login.token, in_logins("token")));
    let Some((token, whence)) = said.or(stored) else {
        let server = address.server();
        let why = format!("no token for {server}; `deltic login {server}` keeps one");
        return Err(Misused(why).into());
    };
    Ok(Credentials { token: parsed(&token, &whence)?, pin })
}

/// Returns the token in the environment, if the variable is set and not empty.
fn environment_token() -> Option<String> {
    let token = std::env::var_os(TOKEN_VARIABLE).filter(|token| !token.is_empty())?;
    // Text that is not UTF-8 cannot be a valid token; parsing will refuse the result.
    Some(token.to_string_lossy().into_owned())
}

fn token_in_file(word: &str) -> Result<String> {
    let Some(path) = word.strip_prefix('@') else {
        let why =
            "--token: all users of this machine see a token in a command line; write --token @FILE";
        return Err(Misused(why.into()).into());
    };
    let read = || {
        let file = NamedFile::find_file(Path::new(path), Trust::Ours)?.open_to_read()?;
        io::read_to_string(File::from(file))
    };
    let text = read().with_context(|| UnreadableFile(format!("--token: cannot read {path}")))?;
    Ok(text.trim().to_owned())
}

/// Logins kept for servers, by server address.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Logins(BTreeMap<String, Login>);

/// Token and pin for a server.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Login {
    token: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pin: Option<String>,
}

impl Login {
    pub(crate) fn new(token: &Token, pin: Option<Pin>) -> Self {
        Self { token: token.reveal(), pin: pin.map(|pin| pin.to_string()) }
    }
}

impl Logins {
    fn path() -> Option<PathBuf> {
        Some(CONFIG.find()?.join("deltic/logins.json"))
    }

    fn shown_path() -> String {
        Self::path().map_or_else(String::new, |path| path.display().to_string())
    }

    pub(crate) fn read() -> Result<Self> {
        let Some(path) = Self::path() else { return Ok(Self::default()) };
        let unread = || UnreadableFile(format!("cannot read {}", Self::shown_path()));
        match private::read(&path) {
            Ok(text) => serde_json::from_slice(&text).with_context(unread),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error).with_context(unread),
        }
    }

    /// Writes the login to a file that only this user can read. Returns the path of the file.
    pub(crate) fn keep(mut self, server: String, login: Login) -> Result<PathBuf> {
        let path = Self::path().context("cannot keep the token: HOME is not set")?;
        let dir = path.parent().unwrap_or_else(|| Path::new("/"));
        NamedDir::of_operator(dir)
            .open_or_create(0o777)
            .with_context(|| format!("cannot make {}", dir.display()))?;
        self.0.insert(server, login);
        let text = serde_json::to_vec_pretty(&self).expect("logins are plain data");
        private::replace(&path, &text)
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }
}
