//! Rights of a token: as a record of the token file, and parsed.
//!
//! A record is parsed once, when the token file is loaded. Every check of a request uses the parsed [`Grant`].

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use deltic_store_local::QuotaLimits;
use deltic_tree::RelPath;
use serde::{Deserialize, Serialize};

use super::quotas::TokenQuota;
use crate::token::TokenHash;

/// Rights of a token as stored in the token file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct GrantRecord {
    pub(super) name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    volumes: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    read: bool,
    write: bool,
    delete: bool,
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    share: bool,
    #[serde(default, skip_serializing_if = "is_no")]
    admin: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    quota_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    quota_files: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) expires: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) parent: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) session: Option<String>,
}

/// Default of the right to share, for records of older servers without this right: their tokens may make other tokens.
const fn yes() -> bool {
    true
}

/// True if a token lacks the right. The field of the right is then left out of the record.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_no(right: &bool) -> bool {
    !*right
}

/// Parsed rights of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Name of the token, for people.
    pub name: String,
    /// Volumes that the token is for; `None` for all volumes.
    pub volumes: Option<Vec<String>>,
    /// Path in these volumes that the token is for, with all entries below; `None` for all paths.
    pub path: Option<RelPath>,
    /// True if files may be read.
    pub read: bool,
    /// True if files may be written.
    pub write: bool,
    /// True if files may be deleted.
    pub delete: bool,
    /// True if tokens with no more rights may be made.
    pub share: bool,
    /// True if all tokens of the server, and the clients that are connected, may be seen, and all tokens revoked.
    pub admin: bool,
    /// Most bytes in the token's part of a volume. Applies to writes with this token and with tokens made by this
    /// token.
    pub quota_bytes: Option<u64>,
    /// Most names of files, directories and links in the token's part of a volume.
    pub quota_files: Option<u64>,
    /// Expiry in seconds since 1970; `None` for no expiry.
    pub expires: Option<u64>,
    /// Hash of the token that made this token. A token ends when its maker ends.
    pub parent: Option<TokenHash>,
    /// Digest of the served volumes, for the token of a signed-in page (session). The session has the rights and rates
    /// of the starter's token, which the server printed, and is extended by use. A server with other volumes does not
    /// accept the session.
    pub session: Option<String>,
}

/// Parsed rights of tokens, by the hashes of the tokens.
pub type Grants = BTreeMap<TokenHash, Grant>;

impl TryFrom<GrantRecord> for Grant {
    type Error = String;

    /// Parses a record. Errors: a text with the invalid field and the reason.
    fn try_from(record: GrantRecord) -> Result<Self, String> {
        let GrantRecord { name, volumes, path, read, write, delete, .. } = record;
        let GrantRecord { quota_bytes, quota_files, expires, parent, session, .. } = record;
        let GrantRecord { share, admin, .. } = record;
        let parsed = |text: String| {
            RelPath::parse(text.as_bytes()).map_err(|why| format!("path '{text}': {why}"))
        };
        let hash = |text: String| {
            text.parse().map_err(|_| format!("parent '{text}': not the hash of a token"))
        };
        let (path, parent) = (path.map(parsed).transpose()?, parent.map(hash).transpose()?);
        let quotas = Self { share, admin, quota_bytes, quota_files, ..Self::with_all_rights(name) };
        Ok(Self { volumes, path, read, write, delete, expires, parent, session, ..quotas })
    }
}

impl From<Grant> for GrantRecord {
    fn from(grant: Grant) -> Self {
        let path = grant.path_text();
        let Grant { name, volumes, path: _, read, write, delete, share, admin, .. } = grant;
        let Grant { quota_bytes, quota_files, expires, parent, session, .. } = grant;
        let parent = parent.map(|hash| hash.to_string());
        Self {
            name,
            volumes,
            path,
            read,
            write,
            delete,
            share,
            admin,
            quota_bytes,
            quota_files,
            expires,
            parent,
            session,
        }
    }
}

impl Grant {
    /// Returns a grant with all rights but that of an administrator, without expiry.
    #[must_use]
    pub fn with_all_rights(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            volumes: None,
            path: None,
            read: true,
            write: true,
            delete: true,
            share: true,
            admin: false,
            quota_bytes: None,
            quota_files: None,
            expires: None,
            parent: None,
            session: None,
        }
    }

    /// Limits the grant to the directory `path` of its volumes.
    ///
    /// # Errors
    /// A text, if `path` is invalid, reserved, or the root of a volume.
    pub fn within(self, path: &str) -> Result<Self, String> {
        let path = path.trim_matches('/');
        let path = RelPath::parse(path.as_bytes()).map_err(|why| why.to_string())?;
        deltic_store::check_volume_path("reach", &path)
            .map_err(|_| "a name that Deltic reserves")?;
        if path.is_root() {
            return Err("this path is the whole volume".into());
        }
        Ok(Self { path: Some(path), ..self })
    }

    /// Returns the directory that limits the token, as text. `None` if the token is for whole volumes.
    #[must_use]
    pub fn path_text(&self) -> Option<String> {
        // Paths of tokens are parsed from text.
        let text = |path: &RelPath| String::from_utf8_lossy(path.as_bytes()).into_owned();
        self.path.as_ref().map(text)
    }

    /// True if the token is for the volume.
    #[must_use]
    pub fn is_for(&self, volume: &str) -> bool {
        self.volumes.as_ref().is_none_or(|volumes| volumes.iter().any(|name| name == volume))
    }

    /// True if the token is for the path in its volumes.
    #[must_use]
    pub fn covers(&self, path: &RelPath) -> bool {
        self.path.as_ref().is_none_or(|part| path.starts_with(part))
    }

    /// Returns the directory that the token is for: its path, or the root of a volume.
    pub(super) fn part(&self) -> RelPath {
        self.path.clone().unwrap_or_default()
    }

    /// True if this grant allows nothing beyond the present grant of `maker`, which made the token.
    pub(super) fn is_within(&self, maker: &Self) -> bool {
        let volumes = match &self.volumes {
            Some(own) => own.iter().all(|volume| maker.is_for(volume)),
            None => maker.volumes.is_none(),
        };
        let part = match &self.path {
            Some(own) => maker.covers(own),
            None => maker.path.is_none(),
        };
        let rights = (maker.read || !self.read) && (maker.write || !self.write);
        let others = (maker.share || !self.share) && (maker.admin || !self.admin);
        volumes && part && rights && others && (maker.delete || !self.delete)
    }

    /// Returns the quota of the token, or `None` without limits.
    pub(super) fn quota(&self, token: TokenHash) -> Option<TokenQuota> {
        let (bytes, files) = (self.quota_bytes, self.quota_files);
        let limits = QuotaLimits { bytes, files, free_bytes: 0 };
        let is_limited = limits != QuotaLimits::default();
        is_limited.then(|| TokenQuota { token, part: self.part(), limits })
    }

    /// True if the token has expired.
    pub(super) fn has_ended(&self, now: SystemTime) -> bool {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        self.expires.is_some_and(|end| now >= end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_is_its_record_and_an_invalid_record_is_no_grant() {
        let record = |more: &str| {
            let text = format!(r#"{{"name":"tv","read":true,"write":false,"delete":false{more}}}"#);
            let record: GrantRecord = serde_json::from_str(&text).unwrap();
            assert_eq!(serde_json::to_string(&record).unwrap().len(), text.len());
            record
        };
        let parent = "0".repeat(64);
        for more in [
            "",
            r#","volumes":["photos"],"path":"2026/june","expires":7"#,
            r#","share":false,"admin":true,"expires":7,"session":"a1""#,
            &format!(r#","path":"","quota_bytes":1,"quota_files":2,"parent":"{parent}""#),
        ] {
            let grant = Grant::try_from(record(more)).unwrap();
            assert_eq!(GrantRecord::from(grant), record(more), "{more}");
        }
        for (more, why) in [
            (r#","path":"../x""#, "path '../x': '.' or '..' is not a name"),
            (r#","path":"a//b""#, "path 'a//b': empty name"),
            (r#","parent":"x""#, "parent 'x': not the hash of a token"),
        ] {
            assert_eq!(Grant::try_from(record(more)).unwrap_err(), why);
        }
    }

    #[test]
    fn a_made_token_allows_nothing_beyond_its_maker() {
        let june = Grant::with_all_rights("june").within("2026/june").unwrap();
        let whole = Grant::with_all_rights("whole");
        assert!(june.is_within(&whole) && !whole.is_within(&june));
        let within =
            |path: &str| Grant::with_all_rights("made").within(path).unwrap().is_within(&june);
        assert_eq!(
            ["2026/june/1", "2026/june", "2026", "2026/jun"].map(within),
            [true, true, false, false]
        );
        let reader = Grant { write: false, delete: false, ..whole.clone() };
        assert!(reader.is_within(&whole) && !whole.is_within(&reader));
        let admin = Grant { admin: true, ..whole.clone() };
        let link = Grant { share: false, ..whole.clone() };
        assert!(whole.is_within(&admin) && !admin.is_within(&whole));
        assert!(link.is_within(&whole) && !whole.is_within(&link));
        let photos = Grant { volumes: Some(vec!["photos".into()]), ..whole.clone() };
        assert!(photos.is_within(&whole) && !whole.is_within(&photos));
    }
}
