//! Checks on the text of symlink targets.

/// True if the symlink at `path` with this `target` may lead out of the root, as rsync's `--safe-links` decides.
///
/// Unsafe targets are empty, absolute, climb above the root, or have `..` after a name: that name may be a symlink too.
#[must_use]
pub fn leaves_root(path: &[u8], target: &[u8]) -> bool {
    if target.is_empty() || target.starts_with(b"/") {
        return true;
    }
    let names = target.split(|byte| *byte == b'/').filter(|name| !matches!(*name, b"" | b"."));
    let mut depth = path.split(|byte| *byte == b'/').count() - 1;
    let mut descended = false;
    for name in names {
        if name != b".." {
            descended = true;
            continue;
        }
        if descended || depth == 0 {
            return true;
        }
        depth -= 1;
    }
    false
}

/// Prefix that `--munge-links` puts before targets, so that they cannot be followed.
pub const MUNGED: &[u8] = b"/rsyncd-munged/";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_that_may_leave_the_root_are_unsafe() {
        for (path, target, leaves) in [
            ("a", "b", false),
            ("a", "b/c", false),
            ("a", "..", true),
            ("a", "../b", true),
            ("d/a", "../b", false),
            ("d/a", "../../b", true),
            ("d/a", "./../b", false),
            ("d/a", "x/../b", true),
            ("d/a", "x/..", true),
            ("a", "/b", true),
            ("a", "", true),
        ] {
            assert_eq!(leaves_root(path.as_bytes(), target.as_bytes()), leaves, "{path} {target}");
        }
    }
}
