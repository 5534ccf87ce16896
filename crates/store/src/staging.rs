//! Names that are no targets: those of staging directories.

use deltic_tree::RelPath;

use crate::StoreError;

/// The name of staging directories, at any depth: never listed, never a target.
pub const STAGING_NAME: &[u8] = b".deltic";

/// Whether a directory of this name is one: a user has one of his own, `.deltic-UID`, where the first is another user's.
#[must_use]
pub fn is_staging_name(name: &[u8]) -> bool {
    let Some(rest) = name.strip_prefix(STAGING_NAME) else { return false };
    let number = rest.strip_prefix(b"-");
    let is_user = |digits: &[u8]| !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    rest.is_empty() || number.is_some_and(is_user)
}

/// Refuses paths into staging directories.
///
/// # Errors
/// [`StoreError::BadName`].
pub fn check_path(action: &'static str, path: &RelPath) -> Result<(), StoreError> {
    if path.components().any(is_staging_name) {
        return Err(StoreError::BadName { action, path: path.clone() });
    }
    Ok(())
}
