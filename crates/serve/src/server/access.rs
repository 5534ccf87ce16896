//! Who may do what: tokens by their hashes, in a file of the server's own directory, and in its settings.
//!
//! The file may be changed while the server runs. It is looked at before a token is checked, and once a second while
//! anybody is connected: a token that is revoked lets nobody in, and puts out who is.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use deltic_store_local::{NamedFile, QuotaLimits};
use deltic_tree::RelPath;
use deltic_tree::path::BadPath;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::file_lock::lock_for_change;
use super::quotas::{TokenQuota, TokenQuotas};
use crate::lock;
use crate::pass::{Pass, Passes};
use crate::private;
use crate::token::{Token, TokenHash, new_token};

/// Rights of a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// What people call it.
    pub name: String,
    /// Volumes that it is for; none for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volumes: Option<Vec<String>>,
    /// Path in these volumes that it is for, with all below it; none for all paths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Whether files may be read.
    pub read: bool,
    /// Whether files may be written.
    pub write: bool,
    /// Whether files may be deleted.
    pub delete: bool,
    /// Most bytes that may be in its part of a volume, by what it writes and those that it makes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota_bytes: Option<u64>,
    /// Most names of files, directories and links there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota_files: Option<u64>,
    /// When it ends, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<u64>,
    /// Hash of the token that made it, and with which it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
}

impl Grant {
    /// All rights, for ever.
    #[must_use]
    pub fn all(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            volumes: None,
            path: None,
            read: true,
            write: true,
            delete: true,
            quota_bytes: None,
            quota_files: None,
            expires: None,
            parent: None,
        }
    }

    /// Cuts it to a directory of its volumes.
    ///
    /// # Errors
    /// Why the path is none of a directory that clients reach.
    pub fn within(self, path: &str) -> Result<Self, String> {
        let path = path.trim_matches('/');
        let parsed = RelPath::parse(path.as_bytes()).map_err(|why| why.to_string())?;
        deltic_store::check_volume_path("reach", &parsed).map_err(|_| "a name of deltic's own")?;
        if parsed.is_root() {
            return Err("that is all of a volume".into());
        }
        Ok(Self { path: Some(path.to_owned()), ..self })
    }

    /// Whether it is for a volume.
    #[must_use]
    pub fn is_for(&self, volume: &str) -> bool {
        self.volumes.as_ref().is_none_or(|volumes| volumes.iter().any(|name| name == volume))
    }

    /// True if it is for a path in its volumes.
    #[must_use]
    pub fn covers(&self, path: &RelPath) -> bool {
        self.part().is_ok_and(|part| part.is_none_or(|part| path.starts_with(&part)))
    }

    /// The path that it is for, if it is not for all.
    ///
    /// # Errors
    /// Where it is no path, as a file that somebody wrote may have it: then the token is for nothing.
    pub fn part(&self) -> Result<Option<RelPath>, BadPath> {
        self.path.as_deref().map(|path| RelPath::parse(path.as_bytes())).transpose()
    }

    /// True if it allows nothing that `maker`, which made it, may not do by now.
    fn is_within(&self, maker: &Self) -> bool {
        let volumes = match &self.volumes {
            Some(own) => own.iter().all(|volume| maker.is_for(volume)),
            None => maker.volumes.is_none(),
        };
        let part = match (self.part(), maker.part()) {
            (Ok(_), Ok(None)) => true,
            (Ok(Some(own)), Ok(Some(part))) => own.starts_with(&part),
            _ => false,
        };
        let rights = (maker.read || !self.read) && (maker.write || !self.write);
        volumes && part && rights && (maker.delete || !self.delete)
    }

    /// Its quota, if it has one.
    fn quota(&self, token: &str) -> Option<TokenQuota> {
        let (bytes, files) = (self.quota_bytes, self.quota_files);
        let limits = QuotaLimits { bytes, files, free_bytes: 0 };
        let part = self.part().ok()?.unwrap_or_else(RelPath::root);
        (limits != QuotaLimits::default()).then_some(())?;
        Some(TokenQuota { token: token.parse().ok()?, part, limits })
    }

    /// True once its time is over.
    pub(crate) fn has_ended(&self, now: SystemTime) -> bool {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        self.expires.is_some_and(|end| now >= end)
    }
}

/// The tokens of a server, in a file.
#[derive(Debug)]
pub struct TokenFile {
    state: PathBuf,
    path: PathBuf,
}

/// Rights by the hashes of their tokens.
pub(crate) type Grants = BTreeMap<String, Grant>;

impl TokenFile {
    /// The file in a server's own directory.
    #[must_use]
    pub fn of(state: &Path) -> Self {
        Self { state: state.to_owned(), path: state.join("tokens.json") }
    }

    /// Reads the rights, by the hashes of their tokens.
    ///
    /// # Errors
    /// Where it cannot be read, or is something else. A file that is not there is empty.
    pub fn read(&self) -> io::Result<BTreeMap<String, Grant>> {
        match private::read(&self.path) {
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
        let token = new_token();
        let mut grants = self.read()?;
        grants.insert(token.hash().to_string(), grant);
        self.write(&grants)?;
        Ok(token)
    }

    /// Removes the tokens of a name, or of a hash that begins so, and those that they made; how many.
    ///
    /// # Errors
    /// As [`TokenFile::add`].
    pub fn revoke(&self, which: &str) -> io::Result<usize> {
        let _held = match self.hold() {
            // Without the directory there are no tokens.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            held => held?,
        };
        let mut grants = self.read()?;
        let before = grants.len();
        let is_it = |hash: &str, grant: &Grant| {
            grant.name == which || which.len() >= 8 && hash.starts_with(which)
        };
        let gone = grants.extract_if(.., |hash, grant| is_it(hash, grant)).map(|(hash, _)| hash);
        let gone = gone.collect();
        remove_made_by(&mut grants, gone);
        if grants.len() < before {
            self.write(&grants)?;
        }
        Ok(before - grants.len())
    }

    /// Keeps other programs and threads from changing the file, until the returned lock is dropped.
    fn hold(&self) -> io::Result<File> {
        lock_for_change(&self.state, "tokens.lock")
    }

    fn write(&self, grants: &Grants) -> io::Result<()> {
        let text = serde_json::to_vec_pretty(grants).expect("grants are plain data");
        private::replace(&self.path, &text)
    }

    /// What changes with the file.
    fn stamp(&self) -> Option<(u64, i64, i64)> {
        let stat = NamedFile::of_operator(&self.path).and_then(|file| file.stat()).ok()?;
        Some((stat.st_ino, stat.st_ctime, stat.st_ctime_nsec))
    }
}

/// Removes the tokens that those `gone` made, and those that these made.
fn remove_made_by(grants: &mut Grants, mut gone: Vec<String>) {
    while let Some(parent) = gone.pop() {
        let is_its = |grant: &Grant| grant.parent.as_ref() == Some(&parent);
        gone.extend(grants.extract_if(.., |_, grant| is_its(grant)).map(|(hash, _)| hash));
    }
}

/// Most tokens that one token has made.
const MAX_MADE: usize = 100;
/// Most tokens of which each made the next.
const MAX_GENERATIONS: usize = 8;

/// Checks tokens.
#[derive(Debug)]
pub(crate) struct Access {
    file: TokenFile,
    /// The token that was made when the server was started.
    starter: Option<TokenHash>,
    known: Mutex<Known>,
    changes: watch::Sender<u64>,
    passes: Mutex<Passes>,
    /// Counts for quotas of tokens.
    pub(crate) quotas: Arc<TokenQuotas>,
}

/// A token that was found.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) grant: Grant,
    /// The first of those tokens of which each made the next.
    pub(crate) first: TokenHash,
    /// Quotas of all of these.
    pub(crate) quotas: Vec<TokenQuota>,
}

#[derive(Debug, Default)]
struct Known {
    stamp: Option<(u64, i64, i64)>,
    /// Rights that the file has.
    grants: Grants,
    /// Rights in no file: of the settings, and of whoever started the server.
    fixed: Grants,
}

/// A token, the one that made it, and so on, with their rights, which are in one of the tables; nothing where one of
/// them is not there, may do more than the one that made it by now, or has ended at that time, if ends count.
fn line(
    tables: [&Grants; 2],
    token: String,
    now: Option<SystemTime>,
) -> Option<Vec<(String, &Grant)>> {
    let (mut line, mut next) = (Vec::new(), Some(token));
    while let Some(hash) = next {
        if line.len() == MAX_GENERATIONS {
            return None;
        }
        let grant = tables.iter().find_map(|grants| grants.get(&hash))?;
        let is_cut = |(_, made): &(String, &Grant)| !made.is_within(grant);
        if now.is_some_and(|now| grant.has_ended(now)) || line.last().is_some_and(is_cut) {
            return None;
        }
        next = grant.parent.clone();
        line.push((hash, grant));
    }
    Some(line)
}

impl Known {
    fn line(&self, token: String, now: Option<SystemTime>) -> Option<Vec<(String, &Grant)>> {
        line([&self.fixed, &self.grants], token, now)
    }
}

/// Pause between two looks for tokens that were revoked.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Why a client gets no token of its own making.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// Its own has ended.
    Ended,
    /// The token has made as many as it may.
    TooMany,
    /// The file of tokens cannot be read or replaced.
    Io(io::Error),
}

impl Access {
    /// Lets in whom the file names, whom the settings do, and who started the server.
    pub(crate) fn new(
        file: TokenFile,
        starter: Option<TokenHash>,
        settings: Grants,
    ) -> io::Result<Self> {
        let (stamp, grants) = (file.stamp(), file.read()?);
        let known = Mutex::new(Known { stamp, grants, fixed: Grants::new() });
        let (changes, quotas) = (watch::Sender::default(), Arc::default());
        let passes = Mutex::default();
        let access = Self { file, starter, known, changes, passes, quotas };
        access.set(settings);
        Ok(access)
    }

    /// Takes up the tokens of new settings.
    pub(crate) fn set(&self, settings: Grants) {
        let starter =
            self.starter.map(|hash| (hash.to_string(), Grant::all("who started the server")));
        lock(&self.known).fixed = settings.into_iter().chain(starter).collect();
        self.changes.send_modify(|times| *times += 1);
    }

    /// True unless a token was revoked. What began before its end goes on.
    pub(crate) fn stands(&self, token: &TokenHash) -> bool {
        self.look();
        lock(&self.known).line(token.to_string(), None).is_some()
    }

    /// Finds the rights of a token, as long as those of which each made the next have not ended.
    pub(crate) fn find(&self, token: &TokenHash) -> Option<Found> {
        self.look();
        self.find_at(token, SystemTime::now())
    }

    /// Finds the token of a pass.
    pub(crate) fn passed(&self, pass: &Pass) -> Option<TokenHash> {
        self.look();
        let known = lock(&self.known);
        let version = *self.changes.borrow();
        let all = || known.fixed.keys().chain(known.grants.keys());
        let tokens = || all().filter_map(|hash| hash.parse().ok()).collect();
        lock(&self.passes).find(pass, SystemTime::now(), version, tokens)
    }

    /// Finds the rights of a token at a time of the wall's clock.
    fn find_at(&self, token: &TokenHash, now: SystemTime) -> Option<Found> {
        let known = lock(&self.known);
        let mut line = known.line(token.to_string(), Some(now))?;
        let (first, _) = line.last()?;
        let first = first.parse().ok()?;
        let quotas = line.iter().filter_map(|(hash, grant)| grant.quota(hash)).collect();
        let (_, grant) = line.swap_remove(0);
        Some(Found { grant: grant.clone(), first, quotas })
    }

    /// Makes a token for a client that has the token `parent`.
    pub(crate) fn mint(&self, parent: &TokenHash, grant: Grant) -> Result<Token, Refusal> {
        let _held = self.file.hold().map_err(Refusal::Io)?;
        let known = lock(&self.known);
        let mut grants = self.file.read().map_err(Refusal::Io)?;
        let tables = [&known.fixed, &grants];
        let line =
            line(tables, parent.to_string(), Some(SystemTime::now())).ok_or(Refusal::Ended)?;
        if line.len() >= MAX_GENERATIONS {
            return Err(Refusal::TooMany);
        }
        // Those of an earlier start are worth nothing. The clock may be set back again.
        let stands = |hash: &&String| self::line(tables, (*hash).clone(), None).is_some();
        let ended: Vec<_> = grants.keys().filter(|hash| !stands(hash)).cloned().collect();
        grants.retain(|hash, grant| grant.parent.is_none() || !ended.contains(hash));
        let parent = Some(parent.to_string());
        if grants.values().filter(|grant| grant.parent == parent).count() >= MAX_MADE {
            return Err(Refusal::TooMany);
        }
        let token = new_token();
        grants.insert(token.hash().to_string(), Grant { parent, ..grant });
        self.file.write(&grants).map_err(Refusal::Io)?;
        drop(known);
        self.look();
        Ok(token)
    }

    /// The tokens that this one made, and those that these made, by their hashes.
    pub(crate) fn made_by(&self, token: &TokenHash) -> Grants {
        self.look();
        let (known, now) = (lock(&self.known), SystemTime::now());
        let token = token.to_string();
        let is_its = |hash: &String| {
            let line = known.line(hash.clone(), Some(now)).unwrap_or_default();
            line.iter().skip(1).any(|(parent, _)| *parent == token)
        };
        let its = known.grants.iter().filter(|(hash, _)| is_its(hash));
        its.map(|(hash, grant)| (hash.clone(), grant.clone())).collect()
    }

    /// Removes a token, and those that it made.
    pub(crate) fn revoke(&self, hash: &str) -> io::Result<usize> {
        let gone = self.file.revoke(hash)?;
        self.look();
        Ok(gone)
    }

    /// True for the token that was made when the server was started.
    pub(crate) fn is_starter(&self, token: &TokenHash) -> bool {
        self.starter.as_ref() == Some(token)
    }

    /// Reads the file again if it has changed.
    fn look(&self) {
        let mut known = lock(&self.known);
        let stamp = self.file.stamp();
        if stamp == known.stamp {
            return;
        }
        // A file that cannot be read lets nobody in.
        (known.stamp, known.grants) = (stamp, self.file.read().unwrap_or_default());
        self.changes.send_modify(|times| *times += 1);
    }

    /// Ends once `token` was revoked. Looks for that now and then, for all who wait together.
    pub(crate) async fn revoked(&self, token: &TokenHash) {
        let mut changes = self.changes.subscribe();
        while self.stands(token) {
            // Nothing but a change of the file, or of the settings, revokes it.
            changes.changed().await.ok();
        }
    }

    /// The tokens by their hashes, with their names, and a signal that they have changed.
    pub(crate) fn tokens(&self) -> (BTreeMap<String, String>, watch::Receiver<u64>) {
        let changes = self.changes.subscribe();
        let known = lock(&self.known);
        let grants = known.fixed.iter().chain(&known.grants);
        let names = grants.map(|(hash, grant)| (hash.clone(), grant.name.clone()));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_jumps_ends_tokens_for_as_long_as_it_says_so_and_revokes_none() {
        let dir = tempfile::tempdir().unwrap();
        let file = TokenFile::of(dir.path());
        let day = |day: u64| UNIX_EPOCH + Duration::from_secs((20_000 + day) * 24 * 60 * 60);
        let ends = day(30).duration_since(UNIX_EPOCH).unwrap().as_secs();
        let parent =
            file.add(Grant { expires: Some(ends), ..Grant::all("parent") }).unwrap().hash();
        let by = Some(parent.to_string());
        let child = file.add(Grant { parent: by, ..Grant::all("child") }).unwrap().hash();
        let lasting = file.add(Grant::all("lasting")).unwrap().hash();
        let access = Access::new(file, None, Grants::new()).unwrap();
        let has = |at: SystemTime| {
            [parent, child, lasting].map(|token| access.find_at(&token, at).is_some())
        };
        assert_eq!(has(day(1)), [true; 3]);
        // Ten years forth, back again, and to before there were clocks.
        assert_eq!(has(day(3_650)), [false, false, true]);
        assert_eq!(has(day(1)), [true; 3]);
        assert_eq!(has(UNIX_EPOCH), [true; 3]);
        assert_eq!(has(UNIX_EPOCH - Duration::from_secs(1)), [true; 3]);
        assert_eq!(has(day(30)), [false, false, true], "its last moment is not its own");
        assert!([parent, child, lasting].iter().all(|token| access.stands(token)));
        access.revoke(&parent.to_string()).unwrap();
        assert_eq!(
            [parent, child, lasting].map(|token| access.stands(&token)),
            [false, false, true]
        );
    }
}
