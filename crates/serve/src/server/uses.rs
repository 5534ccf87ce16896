//! The time of each token's last request, and the token's number of visits, kept across starts of the server.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::lock;
use crate::private;
use crate::token::TokenHash;

/// Name of the file in the state directory.
const FILE: &str = "uses.json";
/// Time without a request after which the next request begins another visit.
const VISIT_GAP: Duration = Duration::from_secs(30 * 60);

/// Use of each token that has made a request.
#[derive(Debug)]
pub(crate) struct TokenUses {
    file: PathBuf,
    table: Mutex<UseTable>,
}

#[derive(Debug, Default)]
struct UseTable {
    by_token: HashMap<TokenHash, TokenUse>,
    /// True if the file lacks a request.
    is_newer_than_file: bool,
}

/// Use of one token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TokenUse {
    /// Time of the last request, in seconds since 1970.
    pub(crate) last: u64,
    /// Number of visits. A visit ends with half an hour without a request.
    pub(crate) visits: u64,
}

impl TokenUses {
    /// Reads the file in the state directory `state`. A missing or damaged file counts as empty.
    pub(crate) fn read(state: &Path) -> Self {
        let file = state.join(FILE);
        let bytes = private::read_regular(&file).unwrap_or_default();
        let records: HashMap<String, TokenUse> = serde_json::from_slice(&bytes).unwrap_or_default();
        let parsed =
            records.into_iter().filter_map(|(hash, token)| Some((hash.parse().ok()?, token)));
        let table = UseTable { by_token: parsed.collect(), is_newer_than_file: false };
        Self { file, table: Mutex::new(table) }
    }

    /// Notes a request at the time `now`.
    pub(crate) fn note(&self, token: TokenHash, now: SystemTime) {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let mut table = lock(&self.table);
        table.is_newer_than_file = true;
        let token = table.by_token.entry(token).or_insert(TokenUse { last: now, visits: 1 });
        // A clock that was set back by more than the gap begins a visit too.
        if token.last.abs_diff(now) > VISIT_GAP.as_secs() {
            token.visits += 1;
        }
        token.last = now;
    }

    /// Returns the use of a token. `None` if the token has made no request.
    pub(crate) fn of(&self, token: &TokenHash) -> Option<TokenUse> {
        lock(&self.table).by_token.get(token).copied()
    }

    /// Writes the file if it lacks a request, without the tokens for which `stands` is false. Blocks on the disk.
    pub(crate) fn save(&self, stands: impl Fn(&TokenHash) -> bool) -> io::Result<()> {
        let mut records: Vec<_> = {
            let mut table = lock(&self.table);
            if !std::mem::take(&mut table.is_newer_than_file) {
                return Ok(());
            }
            table.by_token.iter().map(|(token, used)| (*token, *used)).collect()
        };
        records.retain(|(token, _)| {
            let is_kept = stands(token);
            if !is_kept {
                lock(&self.table).by_token.remove(token);
            }
            is_kept
        });
        let records: HashMap<_, _> =
            records.into_iter().map(|(token, used)| (token.to_string(), used)).collect();
        let written = serde_json::to_vec(&records)
            .map_err(io::Error::other)
            .and_then(|bytes| private::replace(&self.file, &bytes));
        if written.is_err() {
            lock(&self.table).is_newer_than_file = true;
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::new_token;

    #[test]
    fn visits_are_counted_by_gaps_and_kept_in_a_file_as_long_as_the_token_stands() {
        let dir = tempfile::tempdir().unwrap();
        let [one, other] = [(); 2].map(|()| new_token().hash());
        let at = |minutes: u64| UNIX_EPOCH + Duration::from_secs(1_000_000 + 60 * minutes);
        let uses = TokenUses::read(dir.path());
        for minutes in [0, 20, 40, 71, 300, 10] {
            uses.note(one, at(minutes));
        }
        uses.note(other, at(0));
        let expected = TokenUse { last: 1_000_600, visits: 4 };
        assert_eq!((uses.of(&one), uses.of(&new_token().hash())), (Some(expected), None));
        uses.save(|token| *token == one).unwrap();
        assert_eq!(uses.of(&other), None);
        let read = TokenUses::read(dir.path());
        assert_eq!((read.of(&one), read.of(&other)), (Some(expected), None));
        std::fs::write(dir.path().join(FILE), "{").unwrap();
        assert_eq!(TokenUses::read(dir.path()).of(&one), None, "a damaged file counts as empty");
    }
}
