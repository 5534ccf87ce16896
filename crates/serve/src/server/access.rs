//! Who may do what: tokens by their hashes, in a file of the server's own directory.
//!
//! The file may be changed while the server runs. It is looked at before a token is checked, and once a second while
//! anybody is connected: a token that is revoked lets nobody in, and puts out who is.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::private;
use crate::token::{Token, TokenHash};

/// Rights of a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// What people call it.
    pub name: String,
    /// Volumes that it is for; none for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volumes: Option<Vec<String>>,
    /// Whether files may be read.
    pub read: bool,
    /// Whether files may be written.
    pub write: bool,
    /// Whether files may be deleted.
    pub delete: bool,
    /// When it ends, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<u64>,
}

impl Grant {
    /// All rights, for ever.
    #[must_use]
    pub fn all(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            volumes: None,
            read: true,
            write: true,
            delete: true,
            expires: None,
        }
    }

    /// Whether it is for a volume.
    #[must_use]
    pub fn is_for(&self, volume: &str) -> bool {
        self.volumes.as_ref().is_none_or(|volumes| volumes.iter().any(|name| name == volume))
    }

    fn has_ended(&self, now: SystemTime) -> bool {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        self.expires.is_some_and(|end| now >= end)
    }
}

/// The tokens of a server, in a file.
#[derive(Debug)]
pub struct TokenFile(PathBuf);

type Grants = BTreeMap<String, Grant>;

impl TokenFile {
    /// The file in a server's own directory.
    #[must_use]
    pub fn of(state: &Path) -> Self {
        Self(state.join("tokens.json"))
    }

    /// Reads the rights, by the hashes of their tokens.
    ///
    /// # Errors
    /// Where it cannot be read, or is something else. A file that is not there is empty.
    pub fn read(&self) -> io::Result<Grants> {
        match fs::read(&self.0) {
            Ok(text) => serde_json::from_slice(&text).map_err(crate::channel::invalid),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Grants::new()),
            Err(error) => Err(error),
        }
    }

    /// Adds a token with these rights.
    ///
    /// # Errors
    /// Where the file cannot be read or replaced.
    pub fn add(&self, grant: Grant) -> io::Result<Token> {
        let token = Token::random();
        let mut grants = self.read()?;
        grants.insert(token.hash().to_string(), grant);
        self.write(&grants)?;
        Ok(token)
    }

    /// Removes the tokens of a name, or of a hash that begins so; how many.
    ///
    /// # Errors
    /// As [`TokenFile::add`].
    pub fn revoke(&self, which: &str) -> io::Result<usize> {
        let mut grants = self.read()?;
        let before = grants.len();
        let is_it = |hash: &str, grant: &Grant| {
            grant.name == which || which.len() >= 8 && hash.starts_with(which)
        };
        grants.retain(|hash, grant| !is_it(hash, grant));
        if grants.len() < before {
            self.write(&grants)?;
        }
        Ok(before - grants.len())
    }

    fn write(&self, grants: &Grants) -> io::Result<()> {
        let text = serde_json::to_vec_pretty(grants).expect("grants are plain data");
        private::replace(&self.0, &text)
    }

    /// What changes with the file.
    fn stamp(&self) -> Option<(u64, i64, i64)> {
        fs::metadata(&self.0).ok().map(|meta| (meta.ino(), meta.ctime(), meta.ctime_nsec()))
    }
}

/// Checks tokens.
#[derive(Debug)]
pub(crate) struct Access {
    file: TokenFile,
    /// The token that was made when the server was started, which is in no file.
    own: Option<(TokenHash, Grant)>,
    known: Mutex<Known>,
    changes: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Known {
    stamp: Option<(u64, i64, i64)>,
    grants: Grants,
}

/// Pause between two looks for tokens that were revoked.
const LOOK_EVERY: Duration = Duration::from_millis(500);

impl Access {
    pub(crate) fn new(file: TokenFile, own: Option<(TokenHash, Grant)>) -> io::Result<Self> {
        let known = Known { stamp: file.stamp(), grants: file.read()? };
        Ok(Self { file, own, known: Mutex::new(known), changes: watch::Sender::default() })
    }

    /// Finds the rights of a token, if it has any by now.
    pub(crate) fn grant(&self, token: &TokenHash) -> Option<Grant> {
        self.look();
        let own = self.own.as_ref().filter(|(own, _)| own == token).map(|(_, grant)| grant.clone());
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let grant = own.or_else(|| known.grants.get(&token.to_string()).cloned())?;
        (!grant.has_ended(SystemTime::now())).then_some(grant)
    }

    /// True for the token that was made when the server was started.
    pub(crate) fn is_starter(&self, token: &TokenHash) -> bool {
        self.own.as_ref().is_some_and(|(own, _)| own == token)
    }

    /// Reads the file again if it has changed.
    fn look(&self) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = self.file.stamp();
        if stamp == known.stamp {
            return;
        }
        // A file that cannot be read lets nobody in.
        *known = Known { stamp, grants: self.file.read().unwrap_or_default() };
        self.changes.send_modify(|times| *times += 1);
    }

    /// Ends once `token` has no rights any more. Looks for that now and then, for all who wait together.
    pub(crate) async fn revoked(&self, token: &TokenHash) {
        let mut changes = self.changes.subscribe();
        while self.grant(token).is_some() {
            // Without an end, nothing but a change of the file revokes it.
            changes.changed().await.ok();
        }
    }

    /// The tokens by their hashes, with their names, and a signal that they have changed.
    pub(crate) fn tokens(&self) -> (BTreeMap<String, String>, watch::Receiver<u64>) {
        let changes = self.changes.subscribe();
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let names = known.grants.iter().map(|(hash, grant)| (hash.clone(), grant.name.clone()));
        (names.collect(), changes)
    }

    /// Looks for tokens that were revoked, while there are `clients` who would be put out.
    pub(crate) async fn watch(&self, mut clients: watch::Receiver<usize>) {
        while clients.wait_for(|clients| *clients > 0).await.is_ok() {
            tokio::time::sleep(LOOK_EVERY).await;
            self.look();
        }
    }
}
