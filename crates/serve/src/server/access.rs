//! Access control: tokens by their hashes, from the token file and from the settings.
//!
//! The file may change while the server runs. The server looks for changes before checking a token, and twice a second
//! while clients are connected: a revoked token is refused, and clients with a revoked token are disconnected. A token
//! may have made other tokens, which end when the token ends. The *chain of makers* of a token is the token, its maker,
//! the maker of that maker, and so on up to the first token.

mod sessions;

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::watch;

use super::grant::{Grant, Grants};
use super::quotas::{TokenQuota, TokenQuotas};
use super::token_file::{GrantRecords, TokenFile, valid_grants};
use super::uses::TokenUses;
use crate::lock;
use crate::pass::{Pass, Passes};
use crate::token::{Token, TokenHash, new_token};

/// Most tokens made with one token.
const MAX_MADE: usize = 100;
/// Most tokens made with one token, and with tokens made with that token.
const MAX_BELOW: usize = 1_000;
/// Time after which an expired token may be removed: the clock may be set back.
const EXPIRED_FOR: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Longest chain of tokens, each made with the one before.
const MAX_GENERATIONS: usize = 8;

/// Checks tokens.
#[derive(Debug)]
pub(crate) struct Access {
    file: TokenFile,
    /// The starter's token, which was made when the server was started.
    starter: Option<TokenHash>,
    /// The digest of the volumes ([`Config::served`](super::config::Config::served)).
    served: String,
    known: Mutex<Known>,
    changes: watch::Sender<u64>,
    passes: Mutex<Passes>,
    /// Counts for quotas of tokens.
    pub(crate) quotas: Arc<TokenQuotas>,
    pub(crate) uses: TokenUses,
}

/// The result of looking up a token.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) grant: Grant,
    /// The first token of the chain of makers, which no other token made.
    pub(crate) first: TokenHash,
    /// Quotas of all tokens in the chain of makers.
    pub(crate) quotas: Vec<TokenQuota>,
}

#[derive(Debug, Default)]
struct Known {
    stamp: Option<(u64, i64, i64)>,
    /// Grants from the token file.
    grants: Grants,
    /// Grants from the settings, and of the starter's token.
    fixed: Grants,
}

/// Returns the chain of makers of a token, from the token to the first maker, with grants from `tables`. `None` if
/// the chain is too long, a token of the chain is missing or allows more than its maker does, or a token has expired
/// at `now`. Without `now`, expiry does not count.
fn line(
    tables: [&Grants; 2],
    token: TokenHash,
    now: Option<SystemTime>,
) -> Option<Vec<(TokenHash, &Grant)>> {
    let (mut line, mut next) = (Vec::new(), Some(token));
    while let Some(hash) = next {
        if line.len() == MAX_GENERATIONS {
            return None;
        }
        let grant = tables.iter().find_map(|grants| grants.get(&hash))?;
        let is_cut = |(_, made): &(TokenHash, &Grant)| !made.is_within(grant);
        if now.is_some_and(|now| grant.has_ended(now)) || line.last().is_some_and(is_cut) {
            return None;
        }
        next = grant.parent;
        line.push((hash, grant));
    }
    Some(line)
}

/// Drops the grants of sessions that a server with other volumes made.
fn drop_foreign_sessions(mut grants: Grants, served: &str) -> Grants {
    grants.retain(|_, grant| grant.session.as_deref().is_none_or(|of| of == served));
    grants
}

impl Known {
    fn line(&self, token: TokenHash, now: Option<SystemTime>) -> Option<Vec<(TokenHash, &Grant)>> {
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
    /// The number of tokens of this kind has reached its limit.
    TooMany,
    /// The token file cannot be read or replaced.
    Io(io::Error),
}

impl Access {
    /// Accepts the tokens of the file, the tokens of the settings, and the starter's token. `served` is the digest of
    /// the volumes.
    pub(crate) fn new(
        file: TokenFile,
        starter: Option<TokenHash>,
        settings: Grants,
        served: String,
    ) -> io::Result<Self> {
        let (stamp, grants) = (file.stamp(), drop_foreign_sessions(file.read()?, &served));
        let known = Mutex::new(Known { stamp, grants, fixed: Grants::new() });
        let (changes, quotas) = (watch::Sender::default(), Arc::default());
        let (passes, uses) = (Mutex::default(), TokenUses::read(file.state()));
        let access = Self { file, starter, served, known, changes, passes, quotas, uses };
        access.set(settings);
        Ok(access)
    }

    /// Replaces the tokens of the settings.
    pub(crate) fn set(&self, settings: Grants) {
        let all = || Grant { admin: true, ..Grant::with_all_rights("starter of the server") };
        let starter = self.starter.map(|hash| (hash, all()));
        lock(&self.known).fixed = settings.into_iter().chain(starter).collect();
        self.changes.send_modify(|times| *times += 1);
    }

    /// True unless the token was revoked. Expiry does not count, so work begun before the expiry may finish.
    pub(crate) fn stands(&self, token: &TokenHash) -> bool {
        self.look();
        lock(&self.known).line(*token, None).is_some()
    }

    /// Looks up a token. `None` if the token, or a maker in its chain, is unknown or has ended.
    pub(crate) fn find(&self, token: &TokenHash) -> Option<Found> {
        self.look();
        self.find_at(token, Some(SystemTime::now()))
    }

    /// Looks up a token whose work began earlier: expiry does not count, so the work may finish. `None` if the token,
    /// or a maker in its chain, was revoked.
    pub(crate) fn find_begun(&self, token: &TokenHash) -> Option<Found> {
        self.look();
        self.find_at(token, None)
    }

    /// Returns the token of a pass.
    pub(crate) fn passed(&self, pass: &Pass) -> Option<TokenHash> {
        self.look();
        let known = lock(&self.known);
        let version = *self.changes.borrow();
        let tokens = || known.fixed.keys().chain(known.grants.keys()).copied().collect();
        lock(&self.passes).find(pass, SystemTime::now(), version, tokens)
    }

    /// Looks up a token as of the time `now` of the system's clock. Without `now`, expiry does not count.
    fn find_at(&self, token: &TokenHash, now: Option<SystemTime>) -> Option<Found> {
        let known = lock(&self.known);
        let line = known.line(*token, now)?;
        let (&(_, grant), &(first, _)) = (line.first()?, line.last()?);
        let quotas = line.iter().filter_map(|(hash, grant)| grant.quota(*hash)).collect();
        Some(Found { grant: grant.clone(), first, quotas })
    }

    /// Makes a token for a client with the token `parent`.
    pub(crate) fn mint(&self, parent: &TokenHash, grant: Grant) -> Result<Token, Refusal> {
        let _held = self.file.hold().map_err(Refusal::Io)?;
        // Requests do not wait while the file is read and written.
        let fixed = lock(&self.known).fixed.clone();
        let mut records = self.file.records().map_err(Refusal::Io)?;
        let grants = valid_grants(records.clone());
        let tables = [&fixed, &grants];
        let line = line(tables, *parent, Some(SystemTime::now())).ok_or(Refusal::Ended)?;
        let first = line.last().map(|(first, _)| *first);
        let mut below = 0;
        for (hash, _) in grants.iter().filter(|(_, grant)| grant.parent.is_some()) {
            match self::line(tables, *hash, None) {
                Some(line) => below += usize::from(line.last().map(|(first, _)| *first) == first),
                // Tokens made with the starter's token of an earlier start are useless.
                None => drop(records.remove(&hash.to_string())),
            }
        }
        if line.len() >= MAX_GENERATIONS || below >= MAX_BELOW {
            return Err(Refusal::TooMany);
        }
        make_room(&mut records, parent)?;
        let token = new_token();
        let grant = Grant { parent: Some(*parent), ..grant };
        records.insert(token.hash().to_string(), grant.into());
        self.file.write(&records).map_err(Refusal::Io)?;
        self.look();
        Ok(token)
    }

    /// Returns the tokens made with this token, directly or through other tokens, by their hashes. Expired tokens are
    /// among them.
    pub(crate) fn made_by(&self, token: &TokenHash) -> Grants {
        self.look();
        let known = lock(&self.known);
        let is_its = |hash: &TokenHash| {
            let line = known.line(*hash, None).unwrap_or_default();
            line.iter().skip(1).any(|(parent, _)| parent == token)
        };
        let its = known.grants.iter().filter(|(hash, _)| is_its(hash));
        its.map(|(hash, grant)| (*hash, grant.clone())).collect()
    }

    /// Returns all tokens of the token file and of the settings by their hashes: valid tokens and expired tokens.
    pub(crate) fn all(&self) -> Grants {
        self.look();
        let known = lock(&self.known);
        let is_valid = |hash: &TokenHash| known.line(*hash, None).is_some();
        let grants = known.fixed.iter().chain(&known.grants).filter(|(hash, _)| is_valid(hash));
        grants.map(|(hash, grant)| (*hash, grant.clone())).collect()
    }

    /// Writes the use of all tokens that were not revoked. Blocks on the disk.
    pub(super) fn save_uses(&self) -> io::Result<()> {
        // Without a readable token file, it is unknown which tokens were revoked.
        let is_known = self.file.records().is_ok();
        self.uses.save(|token| !is_known || self.stands(token))
    }

    /// Removes a token, and all tokens made with it.
    pub(crate) fn revoke(&self, token: &TokenHash) -> io::Result<usize> {
        let gone = self.file.revoke(&token.to_string())?;
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
        // An unreadable file stands for no tokens, and an invalid record for no rights.
        let records = self.file.records().unwrap_or_default();
        (known.stamp, known.grants) =
            (stamp, drop_foreign_sessions(valid_grants(records), &self.served));
        self.changes.send_modify(|times| *times += 1);
    }

    /// Completes once [`watch`](Self::watch) has found `token` revoked.
    pub(crate) async fn revoked(&self, token: &TokenHash) {
        let mut changes = self.changes.subscribe();
        while self.stands(token) {
            // Only a change of the file or of the settings revokes a token.
            changes.changed().await.ok();
        }
    }

    /// Returns the names of the tokens by hash, and a signal of changes.
    pub(crate) fn tokens(&self) -> (BTreeMap<TokenHash, String>, watch::Receiver<u64>) {
        let changes = self.changes.subscribe();
        let known = lock(&self.known);
        let grants = known.fixed.iter().chain(&known.grants);
        let names = grants.map(|(hash, grant)| (*hash, grant.name.clone()));
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

/// Makes room for one more token made with `parent`: at the limit, removes tokens that expired long ago.
fn make_room(records: &mut GrantRecords, parent: &TokenHash) -> Result<(), Refusal> {
    let maker = Some(parent.to_string());
    let made =
        |records: &GrantRecords| records.values().filter(|record| record.parent == maker).count();
    if made(records) >= MAX_MADE {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let is_old = |end: u64| Duration::from_secs(end).saturating_add(EXPIRED_FOR) <= now;
        records.retain(|_, it| !(it.parent == maker && it.expires.is_some_and(is_old)));
    }
    if made(records) >= MAX_MADE { Err(Refusal::TooMany) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tokens_below_a_token_have_a_bound_and_make_room_once_they_expired_long_ago() {
        let dir = tempfile::tempdir().unwrap();
        let file = TokenFile::of(dir.path());
        let first = file.add(Grant::with_all_rights("first")).unwrap().hash();
        let access = Access::new(file, None, Grants::new(), String::new()).unwrap();
        let mint = |parent: &TokenHash, expires: Option<u64>| {
            access
                .mint(parent, Grant { expires, ..Grant::with_all_rights("made") })
                .map(|made| made.hash())
        };
        let second = mint(&first, None).unwrap();
        let file = TokenFile::of(dir.path());
        let add = |parent: TokenHash, number: usize, expires: Option<u64>| {
            let mut records = file.records().unwrap();
            for _ in 0..number {
                let grant =
                    Grant { parent: Some(parent), expires, ..Grant::with_all_rights("made") };
                records.insert(new_token().hash().to_string(), grant.into());
            }
            file.write(&records).unwrap();
        };
        add(second, MAX_MADE, Some(7));
        assert!(access.made_by(&first).len() == MAX_MADE + 1, "expired tokens are listed");
        assert!(mint(&second, None).is_ok());
        assert_eq!(access.made_by(&first).len(), 2);
        add(second, MAX_MADE - 1, None);
        assert!(matches!(mint(&second, None), Err(Refusal::TooMany)));
        assert!(mint(&first, None).is_ok());
        // More than tokens can make by themselves.
        add(second, MAX_BELOW, None);
        assert!(matches!(mint(&first, None), Err(Refusal::TooMany)));
    }

    #[test]
    fn a_clock_that_jumps_ends_tokens_for_as_long_as_it_says_so_and_revokes_none() {
        let dir = tempfile::tempdir().unwrap();
        let file = TokenFile::of(dir.path());
        let day = |day: u64| UNIX_EPOCH + Duration::from_secs((20_000 + day) * 24 * 60 * 60);
        let ends = day(30).duration_since(UNIX_EPOCH).unwrap().as_secs();
        let parent = file
            .add(Grant { expires: Some(ends), ..Grant::with_all_rights("parent") })
            .unwrap()
            .hash();
        let child = file
            .add(Grant { parent: Some(parent), ..Grant::with_all_rights("child") })
            .unwrap()
            .hash();
        let lasting = file.add(Grant::with_all_rights("lasting")).unwrap().hash();
        let access = Access::new(file, None, Grants::new(), String::new()).unwrap();
        let has = |at: SystemTime| {
            [parent, child, lasting].map(|token| access.find_at(&token, Some(at)).is_some())
        };
        assert_eq!(has(day(1)), [true; 3]);
        // Ten years ahead, back again, and before 1970.
        assert_eq!(has(day(3_650)), [false, false, true]);
        assert_eq!(has(day(1)), [true; 3]);
        assert_eq!(has(UNIX_EPOCH), [true; 3]);
        assert_eq!(has(UNIX_EPOCH - Duration::from_secs(1)), [true; 3]);
        assert_eq!(has(day(30)), [false, false, true], "its last moment is not its own");
        assert!([parent, child, lasting].iter().all(|token| access.stands(token)));
        access.revoke(&parent).unwrap();
        assert_eq!(
            [parent, child, lasting].map(|token| access.stands(&token)),
            [false, false, true]
        );
    }
}
