//! The token file of the state directory: the rights of tokens by the hashes of the tokens.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use deltic_store_local::NamedFile;

use super::file_lock::lock_for_change;
use super::grant::{Grant, GrantRecord, Grants};
use super::state_dir::TOKENS;
use crate::private;
use crate::token::{Token, TokenHash, new_token};

/// The file with a server's tokens.
#[derive(Debug)]
pub struct TokenFile {
    state: PathBuf,
    path: PathBuf,
}

/// Records of the token file, by the hashes of the tokens as text.
pub(super) type GrantRecords = BTreeMap<String, GrantRecord>;

impl TokenFile {
    /// Returns the token file in the state directory `state`.
    #[must_use]
    pub fn of(state: &Path) -> Self {
        Self { state: state.to_owned(), path: state.join(TOKENS) }
    }

    /// Returns the state directory.
    pub(super) fn state(&self) -> &Path {
        &self.state
    }

    /// Reads and parses the rights of all tokens. A missing file counts as empty.
    ///
    /// # Errors
    /// If the file cannot be read, or a record is invalid: the error names the token and the file.
    pub fn read(&self) -> io::Result<Grants> {
        let parsed = |(hash, record): (String, GrantRecord)| {
            let name = record.name.clone();
            parse(&hash, record).map_err(|why| {
                let file = self.path.display();
                let way = "correct the record, or revoke the token";
                crate::channel::invalid(format!("{file}: token '{name}' ({hash}): {why}; {way}"))
            })
        };
        self.records()?.into_iter().map(parsed).collect()
    }

    /// Reads the records of all tokens. A missing file counts as empty.
    pub(super) fn records(&self) -> io::Result<GrantRecords> {
        let invalid = |why| crate::channel::invalid(format!("{}: {why}", self.path.display()));
        match private::read(&self.path) {
            Ok(text) => serde_json::from_slice(&text).map_err(invalid),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(GrantRecords::new()),
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
        let mut records = self.records()?;
        records.insert(token.hash().to_string(), grant.into());
        self.write(&records)?;
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
        let mut records = self.records()?;
        let before = records.len();
        let is_it = |hash: &str, record: &GrantRecord| {
            record.name == which || which.len() >= 8 && hash.starts_with(which)
        };
        let gone = records.extract_if(.., |hash, record| is_it(hash, record));
        let gone = gone.map(|(hash, _)| hash).collect();
        remove_made_by(&mut records, gone);
        if records.len() < before {
            self.write(&records)?;
        }
        Ok(before - records.len())
    }

    /// Locks the file against changes by other programs and threads, until the returned lock is dropped.
    pub(super) fn hold(&self) -> io::Result<File> {
        lock_for_change(&self.state, "tokens.lock")
    }

    /// Replaces the file. The caller holds the lock.
    pub(super) fn write(&self, records: &GrantRecords) -> io::Result<()> {
        let text = serde_json::to_vec_pretty(records).expect("records are plain data");
        private::replace(&self.path, &text)
    }

    /// Returns a stamp that changes with the file.
    pub(super) fn stamp(&self) -> Option<(u64, i64, i64)> {
        let stat = NamedFile::of_operator(&self.path).and_then(|file| file.stat()).ok()?;
        Some((stat.st_ino, stat.st_ctime, stat.st_ctime_nsec))
    }
}

/// Removes all tokens made with the tokens `gone`, directly or through other tokens.
fn remove_made_by(records: &mut GrantRecords, mut gone: Vec<String>) {
    while let Some(parent) = gone.pop() {
        let is_its = |record: &GrantRecord| record.parent.as_ref() == Some(&parent);
        gone.extend(records.extract_if(.., |_, record| is_its(record)).map(|(hash, _)| hash));
    }
}

/// Parses the rights of a token. Errors: a text with the invalid field and the reason.
fn parse(hash: &str, record: GrantRecord) -> Result<(TokenHash, Grant), String> {
    let token = hash.parse().map_err(|_| "invalid hash of a token".to_owned())?;
    Ok((token, record.try_into()?))
}

/// Parses the valid records. An invalid record grants no rights; the others stand.
pub(super) fn valid_grants(records: GrantRecords) -> Grants {
    records.into_iter().filter_map(|(hash, record)| parse(&hash, record).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_record_is_named_and_may_be_revoked_while_the_others_stand() {
        let dir = tempfile::tempdir().unwrap();
        let file = TokenFile::of(dir.path());
        let good = file.add(Grant::with_all_rights("good")).unwrap().hash();
        let bad = file.add(Grant::with_all_rights("bad").within("dir").unwrap()).unwrap().hash();
        let path = dir.path().join("tokens.json");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replace("\"dir\"", "\"../dir\"")).unwrap();
        let why = file.read().unwrap_err().to_string();
        for part in ["tokens.json", "'bad'", &bad.to_string(), "'../dir'"] {
            assert!(why.contains(part), "{why}");
        }
        assert!(valid_grants(file.records().unwrap()).keys().eq([&good]));
        file.add(Grant::with_all_rights("later")).unwrap();
        assert_eq!(file.revoke("bad").unwrap(), 1);
        assert_eq!(file.read().unwrap().len(), 2);
    }
}
