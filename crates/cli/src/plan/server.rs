//! The way to a server: the token and the pin for it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use deltic_net::plan::{Destination, Dial, Sources, far_host};
use deltic_net::{NamedFile, Trust};
use deltic_serve::client::{Address, Credentials};
use deltic_serve::private;
use deltic_serve::token::Token;
use serde::{Deserialize, Serialize};

use crate::args::server::LoginArgs;
use crate::words::home::CONFIG;

/// Finds the way to the other end of a run, if that is a server.
pub(crate) fn dial(
    sources: &Sources,
    destination: &Destination,
    login: &LoginArgs,
) -> Result<Option<Dial>> {
    let Some(host) =
        far_host(sources, destination).filter(|host| Address::looks_like(host.as_bytes()))
    else {
        return Ok(None);
    };
    let address: Address = host.parse()?;
    let credentials = credentials(&address, login)?;
    Ok(Some(address.dial(credentials)))
}

pub(crate) fn credentials(address: &Address, login: &LoginArgs) -> Result<Credentials> {
    let kept = Logins::read()?.0.remove(&address.server());
    let pin = login.pin.clone().or_else(|| kept.as_ref()?.pin.clone());
    let said = match &login.token {
        Some(word) => Some(token_in_file(word)?),
        None => std::env::var("DELTIC_TOKEN").ok().filter(|token| !token.is_empty()),
    };
    let Some(token) = said.or_else(|| kept.map(|login| login.token)) else {
        let server = address.server();
        bail!("no token for {server}; `deltic login {server}` keeps one");
    };
    Ok(Credentials { token: token.parse()?, pin })
}

fn token_in_file(word: &str) -> Result<String> {
    let Some(path) = word.strip_prefix('@') else {
        bail!(
            "--token: a token in a command line is seen by all users of this machine; write --token @FILE"
        )
    };
    let read = || {
        let file = NamedFile::find(Path::new(path), Trust::Ours)?.read()?;
        io::read_to_string(File::from(file))
    };
    let text = read().with_context(|| format!("--token: cannot read {path}"))?;
    Ok(text.trim().to_owned())
}

/// Tokens and pins that are kept for servers, by their addresses.
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
    pub(crate) fn new(token: &Token, pin: Option<String>) -> Self {
        Self { token: token.reveal(), pin }
    }
}

impl Logins {
    fn path() -> Option<PathBuf> {
        Some(CONFIG.find()?.join("deltic/logins.json"))
    }

    pub(crate) fn read() -> Result<Self> {
        let Some(path) = Self::path() else { return Ok(Self::default()) };
        let shown = path.display();
        match fs::read(&path) {
            Ok(text) => {
                serde_json::from_slice(&text).with_context(|| format!("cannot read {shown}"))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error).with_context(|| format!("cannot read {shown}")),
        }
    }

    /// Keeps a login, for this user alone; returns the file.
    pub(crate) fn keep(mut self, server: String, login: Login) -> Result<PathBuf> {
        let path = Self::path().context("cannot keep the token: HOME is not set")?;
        let dir = path.parent().unwrap_or_else(|| Path::new("/"));
        fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        self.0.insert(server, login);
        let text = serde_json::to_vec_pretty(&self).expect("logins are plain data");
        private::replace(&path, &text)
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }
}
