//! Expands the wildcards of source paths, as a shell does: `*`, `?` and `[…]` within one name.

use deltic_tree::glob;

use crate::RemoteError;
use crate::system::{StorageSystem, SystemEntry};

/// Most paths that a pattern may expand to.
const MAX_MATCHES: usize = 100_000;

/// Returns the paths of `system` that `pattern` matches, in order. Returns the pattern itself if it has no wildcards or
/// no match.
///
/// # Errors
/// Any error of a request but [`RemoteError::NotFound`], and [`RemoteError::Wrong`] for too many matches.
pub(crate) fn expanded(
    system: &dyn StorageSystem,
    pattern: &[u8],
) -> Result<Vec<Vec<u8>>, RemoteError> {
    let itself = || vec![pattern.to_vec()];
    let Ok(text) = std::str::from_utf8(pattern) else { return Ok(itself()) };
    if !glob::has_wildcards(pattern) {
        return Ok(itself());
    }
    let (names, slash) = match text.strip_suffix('/') {
        Some(names) => (names, "/"),
        None => (text, ""),
    };
    let mut found = vec![String::new()];
    let mut names = names.trim_start_matches('/').split('/').peekable();
    while let Some(name) = names.next() {
        let must_be_dir = names.peek().is_some() || !slash.is_empty();
        let mut next = Vec::new();
        for above in found {
            for name in matching(system, &above, name, must_be_dir)? {
                next.push(if above.is_empty() { name } else { format!("{above}/{name}") });
            }
            if next.len() > MAX_MATCHES {
                return Err(RemoteError::Wrong(format!(
                    "{text} matches more than {MAX_MATCHES} names"
                )));
            }
        }
        found = next;
    }
    // A name behind the last wildcard need not exist.
    let is_listed = text.rsplit('/').find(|name| !name.is_empty()).is_some_and(has_wildcards);
    if !is_listed {
        let mut there = Vec::new();
        for path in found {
            if system.look(&path)?.is_some() {
                there.push(path);
            }
        }
        found = there;
    }
    found.sort();
    found.dedup();
    let paths: Vec<_> = found.into_iter().map(|path| format!("{path}{slash}").into()).collect();
    Ok(if paths.is_empty() { itself() } else { paths })
}

fn has_wildcards(name: &str) -> bool {
    glob::has_wildcards(name.as_bytes())
}

/// Returns the names in the directory `above` that match `pattern`; the pattern itself if it has no wildcards.
fn matching(
    system: &dyn StorageSystem,
    above: &str,
    pattern: &str,
    must_be_dir: bool,
) -> Result<Vec<String>, RemoteError> {
    if !has_wildcards(pattern) {
        return Ok(vec![pattern.to_owned()]);
    }
    let mut names = Vec::new();
    let listed = system.list(above, &mut |name, entry| {
        let is_kind = !must_be_dir || matches!(entry, SystemEntry::Dir { .. });
        if is_kind && glob::matches(pattern.as_bytes(), name.as_bytes()) {
            names.push(name);
        }
    });
    match listed {
        Err(RemoteError::NotFound) => Ok(Vec::new()),
        listed => listed.map(|()| names),
    }
}
