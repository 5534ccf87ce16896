//! Access control: tokens by their hashes, in a file of the state directory and in the settings.
//!
//! The file may change while the server runs. The server looks for changes before checking a token, and twice a
//! second while clients are connected: a revoked token is refused, and clients with a revoked token are disconnected.

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
    /// Name of the token, for people.
    pub name: String,
    /// Volumes that the token is for; `None` for all volumes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volumes: Option<Vec<String>>,
    /// Path in these volumes that the token is for, with all entries below; `None` for all paths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// True if files may be read.
    pub read: bool,
    /// True if files may be written.
    pub write: bool,
    /// True if files may be deleted.
    pub delete: bool,
    /// Most bytes in the token's part of a volume. Applies to writes with this token and with tokens made by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota_bytes: Option<u64>,
    /// Most names of files, directories and links in the token's part of a volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota_files: Option<u64>,
    /// Expiry in seconds since 1970; `None` for no expiry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<u64>,
    /// Hash of the token that made this token. A token ends with its maker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
}

impl Grant {
    /// Returns a grant with all rights, without expiry.
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

    /// Limits the grant to the directory `path` of its volumes.
    ///
    /// # Errors
    /// A text, if `path` is invalid, reserved, or the root of a volume.
    pub fn within(self, path: &str) -> Result<Self, String> {
        let path = path.trim_matches('/');
        let parsed = RelPath::parse(path.as_bytes()).map_err(|why| why.to_string())?;
        deltic_store::check_volume_path("reach", &parsed).map_err(|_| "a name of deltic's own")?;
        if parsed.is_root() {
            return Err("that is all of a volume".into());
        }
        Ok(Self { path: Some(path.to_owned()), ..self })
    }

    /// True if the token is for the volume.
    #[must_use]
    pub fn is_for(&self, volume: &str) -> bool {
        self.volumes.as_ref().is_none_or(|volumes| volumes.iter().any(|name| name == volume))
    }

    /// True if the token is for the path in its volumes.
    #[must_use]
    pub fn covers(&self, path: &RelPath) -> bool {
        self.part().is_ok_and(|part| part.is_none_or(|part| path.starts_with(&part)))
    }

    /// Returns the path that the token is for, or `None` for all paths.
    ///
    /// # Errors
    /// `BadPath` if the stored path is invalid, as in a file edited by hand. The token is then for no path.
    pub fn part(&self) -> Result<Option<RelPath>, BadPath> {
        self.path.as_deref().map(|path| RelPath::parse(path.as_bytes())).transpose()
    }

    /// True if this grant allows nothing beyond the present grant of `maker`, which made the token.
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

    /// Returns the quota of the token, or `None` without limits.
    fn quota(&self, token: &str) -> Option<TokenQuota> {
        let (bytes, files) = (self.quota_bytes, self.quota_files);
        let limits = QuotaLimits { bytes, files, free_bytes: 0 };
        let part = self.part().ok()?.unwrap_or_else(RelPath::root);
        (limits != QuotaLimits::default()).then_some(())?;
        Some(TokenQuota { token: token.parse().ok()?, part, limits })
    }

    /// True if the token has expired.
    pub(crate) fn has_ended(&self, now: SystemTime) -> bool {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        self.expires.is_some_and(|end| now >= end)
    }
}

/// The file with a server's tokens.
#[derive(Debug)]
pub struct TokenFile {
    state: PathBuf,
    path: PathBuf,
}

/// Grants by the hashes of their tokens.
pub(crate) type Grants = BTreeMap<String, Grant>;

impl TokenFile {
    /// Returns the token file in the state directory `state`.
    #[must_use]
    pub fn of(state: &Path) -> Self {
        Self { state: state.to_owned(), path: state.join("tokens.json") }
    }

    /// Reads the grants, by the hashes of their tokens. A missing file counts as empty.
    ///
    /// # Errors
    /// If the file cannot be read or parsed.
    pub fn read(&self) -> io::Result<BTreeMap<String, Grant>> {
        match private::read(&self.path) {
            Ok(text) => serde_json::from_slice(&text).map_err(crate::channel::invalid),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Grants::new()),
            Err(error) => Err(error),
        }
    }

    /// Adds a new token with this grant.
    ///
    /// # Errors
    /// If the file cannot be read or replaced.
    pub fn add(&self, grant: Grant) -> io::Result<Token> {
        let token = new_token();
        let _held = self.hold()?;
        let mut grants = self.read()?;
        grants.insert(token.hash().to_string(), grant);
        self.write(&grants)?;
        Ok(token)
    }

    /// Removes the tokens named `which`, or whose hash begins with `which`, and all tokens made with them. Returns
    /// the number of removed tokens.
    ///
    /// # Errors
    /// Same as [`TokenFile::add`].
    pub fn revoke(&self, which: &str) -> io::Result<usize> {
        let _held = match self.hold() {
            // Without the state directory there are no tokens.
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

    /// Locks the file against changes by other programs and threads, until the returned lock is dropped.
    fn hold(&self) -> io::Result<File> {
        lock_for_change(&self.state, "tokens.lock")
    }

    fn write(&self, grants: &Grants) -> io::Result<()> {
        let text = serde_json::to_vec_pretty(grants).expect("grants are plain data");
        private::replace(&self.path, &text)
    }

    /// Returns a stamp that changes with the file.
    fn stamp(&self) -> Option<(u64, i64, i64)> {
        let stat = NamedFile::of_operator(&self.path).and_then(|file| file.stat()).ok()?;
        Some((stat.st_ino, stat.st_ctime, stat.st_ctime_nsec))
    }
}

/// Removes all tokens made with the tokens `gone`, directly or through other tokens.
fn remove_made_by(grants: &mut Grants, mut gone: Vec<String>) {
    while let Some(parent) = gone.pop() {
        let is_its = |grant: &Grant| grant.parent.as_ref() == Some(&parent);
        gone.extend(grants.extract_if(.., |_, grant| is_its(grant)).map(|(hash, _)| hash));
    }
}

/// Most tokens made with one token.
const MAX_MADE: usize = 100;
/// Longest chain of tokens, each made with the one before.
const MAX_GENERATIONS: usize = 8;

/// Checks tokens.
#[derive(Debug)]
pub(crate) struct Access {
    file: TokenFile,
    /// The starter's token, which was made when the server was started.
    starter: Option<TokenHash>,
    known: Mutex<Known>,
    changes: watch::Sender<u64>,
    passes: Mutex<Passes>,
    /// Counts for quotas of tokens.
    pub(crate) quotas: Arc<TokenQuotas>,
}

/// The result of looking up a token.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) grant: Grant,
    /// The first token of the chain of makers.
    pub(crate) first: TokenHash,
    /// Quotas of all tokens in the chain of makers.
    pub(crate) quotas: Vec<TokenQuota>,
}

#[derive(Debug, Default)]
struct Known {
    stamp: Option<(u64, i64, i64)>,
    /// Grants from the file.
    grants: Grants,
    /// Grants from the settings, and of the starter's token.
    fixed: Grants,
}

/// Returns the chain of makers of a token, from the token to the first maker, with grants from `tables`. `None` if
/// the chain is too long, a token of the chain is missing or allows more than its maker does, or a token has expired
/// at `now`. Without `now`, expiry does not count.
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

/// Pause between two looks for revoked tokens.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Reason why a client cannot make a token.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The client's own token has ended.
    Ended,
    /// The client's token has made as many tokens as it may.
    TooMany,
    /// The token file cannot be read or replaced.
    Io(io::Error),
}

impl Access {
    /// Accepts the tokens of the file, the tokens of the settings, and the starter's token.
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

    /// Replaces the tokens of the settings.
    pub(crate) fn set(&self, settings: Grants) {
        let starter =
            self.starter.map(|hash| (hash.to_string(), Grant::all("who started the server")));
        lock(&self.known).fixed = settings.into_iter().chain(starter).collect();
        self.changes.send_modify(|times| *times += 1);
    }

    /// True unless the token was revoked. Expiry does not count, so work begun before the expiry may finish.
    pub(crate) fn stands(&self, token: &TokenHash) -> bool {
        self.look();
        lock(&self.known).line(token.to_string(), None).is_some()
    }

    /// Looks up a token. `None` if the token, or a maker in its chain, is unknown or has ended.
    pub(crate) fn find(&self, token: &TokenHash) -> Option<Found> {
        self.look();
        self.find_at(token, SystemTime::now())
    }

    /// Returns the token of a pass.
    pub(crate) fn passed(&self, pass: &Pass) -> Option<TokenHash> {
        self.look();
        let known = lock(&self.known);
        let version = *self.changes.borrow();
        let all = || known.fixed.keys().chain(known.grants.keys());
        let tokens = || all().filter_map(|hash| hash.parse().ok()).collect();
        lock(&self.passes).find(pass, SystemTime::now(), version, tokens)
    }

    /// Looks up a token as of the time `now` of the system's clock.
    fn find_at(&self, token: &TokenHash, now: SystemTime) -> Option<Found> {
        let known = lock(&self.known);
        let mut line = known.line(token.to_string(), Some(now))?;
        let (first, _) = line.last()?;
        let first = first.parse().ok()?;
        let quotas = line.iter().filter_map(|(hash, grant)| grant.quota(hash)).collect();
        let (_, grant) = line.swap_remove(0);
        Some(Found { grant: grant.clone(), first, quotas })
    }

    /// Makes a token for a client with the token `parent`.
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
        // Tokens made with the starter's token of an earlier start are useless. Expired tokens stay, because the
        // clock may be set back.
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

    /// Returns the tokens made with this token, directly or through other tokens, by their hashes.
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

    /// Removes a token, and all tokens made with it.
    pub(crate) fn revoke(&self, hash: &str) -> io::Result<usize> {
        let gone = self.file.revoke(hash)?;
        self.look();
        Ok(gone)
    }

    /// True for the starter's token.
    pub(crate) fn is_starter(&self, token: &TokenHash) -> bool {
        self.starter.as_ref() == Some(token)
    }

    /// Reloads the file if it has changed.
    fn look(&self) {
        let mut known = lock(&self.known);
        let stamp = self.file.stamp();
        if stamp == known.stamp {
            return;
        }
        // An unreadable file stands for no tokens.
        (known.stamp, known.grants) = (stamp, self.file.read().unwrap_or_default());
        self.changes.send_modify(|times| *times += 1);
    }

    /// Completes once `token` is revoked. All callers share the look-ups of `watch`.
    pub(crate) async fn revoked(&self, token: &TokenHash) {
        let mut changes = self.changes.subscribe();
        while self.stands(token) {
            // Only a change of the file or of the settings revokes a token.
            changes.changed().await.ok();
        }
    }

    /// Returns the names of the tokens by hash, and a signal of changes.
    pub(crate) fn tokens(&self) -> (BTreeMap<String, String>, watch::Receiver<u64>) {
        let changes = self.changes.subscribe();
        let known = lock(&self.known);
        let grants = known.fixed.iter().chain(&known.grants);
        let names = grants.map(|(hash, grant)| (hash.clone(), grant.name.clone()));
        (names.collect(), changes)
    }

    /// Looks for revoked tokens regularly, while `clients` is above zero.
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
        // Ten years ahead, back again, and before 1970.
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
