//! Names that Deltic reserves in a tree: staging directories, and the directory of old versions of a volume.

use deltic_tree::RelPath;
use deltic_tree::fold::{compatibility_folded, without_dots_at_end};

use crate::StoreError;

/// Name of staging directories, at any depth. Never listed, never a destination.
pub const STAGING_NAME: &[u8] = b".deltic";

/// Name of the directory in which a volume keeps old versions. Excluded from all trees, as staging directories are.
pub const VERSIONS_NAME: &[u8] = b".deltic-versions";

/// Name of a server's state directory. A server leaves a directory of this name out of its volumes, so a volume may
/// contain the state directory.
pub const SERVER_STATE_NAME: &[u8] = b".deltic-serve";

/// True if `name` is that of a staging directory or of the directory of [old versions](VERSIONS_NAME). A user's own
/// staging directory is `.deltic-UID` if `.deltic` belongs to another user.
#[must_use]
pub fn is_staging_name(name: &[u8]) -> bool {
    let Some(rest) = name.strip_prefix(STAGING_NAME) else { return false };
    let number = rest.strip_prefix(b"-");
    let is_user = |digits: &[u8]| !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    rest.is_empty() || name == VERSIONS_NAME || number.is_some_and(is_user)
}

/// Private directory of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrivateDir {
    /// Staging directory.
    Staging,
    /// Directory of old versions.
    Versions,
    /// State directory of a server.
    ServerState,
}

impl PrivateDir {
    /// Returns the private directory that `name` finds in a volume on some file system.
    ///
    /// A volume may be on exFAT, FAT, NTFS, SMB, HFS+, ZFS with normalization, or ext4 with `casefold`. A name finds a
    /// private directory if the two names differ only in case, in characters that are not ASCII (some of these file
    /// systems ignore some of them), or in dots and blanks at the end. A short name of FAT and NTFS (`DELTIC~1`) and
    /// the name of an NTFS stream (`.deltic:stream`) also find a private directory.
    #[must_use]
    pub fn found_by(name: &[u8]) -> Option<Self> {
        if !matches!(name.first()?, b'.' | b'd' | b'D' | 0x80..) {
            return None;
        }
        let mut plain = compatibility_folded(name);
        plain.retain(u8::is_ascii);
        let end = plain.iter().position(|byte| *byte == b':').unwrap_or(plain.len());
        let plain = without_dots_at_end(&plain[..end]);
        match plain {
            VERSIONS_NAME => Some(Self::Versions),
            SERVER_STATE_NAME => Some(Self::ServerState),
            _ => (is_staging_name(plain) || is_short_name(plain)).then_some(Self::Staging),
        }
    }
}

/// True for a short name that FAT or NTFS gives a private directory: `deltic~1`, or `de0123~1` once several short
/// names exist.
fn is_short_name(name: &[u8]) -> bool {
    let Some(at) = name.iter().position(|byte| *byte == b'~') else { return false };
    let (head, number) = (&name[..at], &name[at + 1..]);
    let is_hash = |rest: &[u8]| rest.len() == 4 && rest.iter().all(u8::is_ascii_hexdigit);
    let is_ours = head == b"deltic" || head.strip_prefix(b"de").is_some_and(is_hash);
    is_ours && !number.is_empty() && number.iter().all(u8::is_ascii_digit)
}

/// Refuses paths into staging directories.
///
/// # Errors
/// [`StoreError::BadName`].
pub fn check_path(action: &'static str, path: &RelPath) -> Result<(), StoreError> {
    check_names(action, path, is_staging_name)
}

/// Refuses paths that [find](PrivateDir::found_by) a private directory of a volume.
///
/// # Errors
/// [`StoreError::BadName`].
pub fn check_volume_path(action: &'static str, path: &RelPath) -> Result<(), StoreError> {
    check_names(action, path, |name| PrivateDir::found_by(name).is_some())
}

fn check_names(
    action: &'static str,
    path: &RelPath,
    is_private: impl Fn(&[u8]) -> bool,
) -> Result<(), StoreError> {
    if path.components().any(is_private) {
        return Err(StoreError::BadName { action, path: path.clone() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_private_name_finds_a_private_directory() {
        let staging =
            [".deltic", ".DELTIC", ".Deltic-1000", ".deltic. .", ".del\u{200c}tic", "DELTIC~1"];
        let more = ["de12AF~1", ".deltic:stream", ".deltic::$INDEX_ALLOCATION", "\u{feff}.deltic"];
        let compatible = ["\u{2024}deltic", ".delti\u{217d}", ".\u{ff44}eltic"];
        for name in staging.into_iter().chain(more).chain(compatible) {
            assert_eq!(PrivateDir::found_by(name.as_bytes()), Some(PrivateDir::Staging), "{name}");
        }
        for name in
            [".deltic-versions", ".DELTIC-Versions", ".deltic-ver\u{17f}ions", ".deltic-versions ."]
        {
            assert_eq!(PrivateDir::found_by(name.as_bytes()), Some(PrivateDir::Versions), "{name}");
        }
        assert_eq!(PrivateDir::found_by(b".Deltic-Serve"), Some(PrivateDir::ServerState));
        let others = [
            ".deltic-old",
            ".deltic-",
            "deltic",
            "demo~1",
            "deltic~1.txt",
            ".delti",
            "é",
            "d",
            ".",
        ];
        for name in others {
            assert_eq!(PrivateDir::found_by(name.as_bytes()), None, "{name}");
        }
    }
}
