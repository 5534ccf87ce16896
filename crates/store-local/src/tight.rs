//! Tight memory: how little the system grants this process, and reading where that is so.
//!
//! A disk may be set to read megabytes ahead of each open file. They count for the group of the process (cgroup), and
//! can be taken back only once they are read: a group of 32 MiB is out of memory before that.

use std::os::fd::AsFd;
use std::sync::OnceLock;

use rustix::fs::{self, Advice};

use crate::system::told;

/// Bytes up to which a limit is tight.
const TIGHT_BYTES: u64 = 64 << 20;
/// Bytes from which a file is worth the call.
const LARGE_BYTES: u64 = 16 << 20;

/// True where the group of this process (cgroup) may have 64 MiB at most.
pub(crate) fn is_memory_tight() -> bool {
    static IS_TIGHT: OnceLock<bool> = OnceLock::new();
    *IS_TIGHT.get_or_init(|| limit().is_some_and(|bytes| bytes <= TIGHT_BYTES))
}

/// Has the system read nothing of a large `file` ahead, where memory is tight.
pub(crate) fn spare_memory(file: impl AsFd, len: u64) {
    if len >= LARGE_BYTES && is_memory_tight() {
        // Where it does otherwise, there may be memory enough even so.
        let _ = fs::fadvise(file, 0, None, Advice::Random);
    }
}

/// Bytes of memory that the group of this process may have, if it is in one that has a limit.
fn limit() -> Option<u64> {
    let text = |path: &str| String::from_utf8(told(path, 4096)?).ok();
    let groups = text("/proc/self/cgroup")?;
    groups.lines().filter_map(limit_file).find_map(|path| text(&path)?.trim_end().parse().ok())
}

/// The file that has the limit of a group, by its line in `/proc/self/cgroup`; nothing if it is not of memory.
fn limit_file(line: &str) -> Option<String> {
    let (kinds, path) = line.split_once(':')?.1.split_once(':')?;
    match kinds {
        "memory" => Some(format!("/sys/fs/cgroup/memory{path}/memory.limit_in_bytes")),
        "" => Some(format!("/sys/fs/cgroup{path}/memory.max")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_where_either_hierarchy_has_it() {
        let first = "/sys/fs/cgroup/memory/a:b/memory.limit_in_bytes";
        assert_eq!(limit_file("4:memory:/a:b").as_deref(), Some(first));
        assert_eq!(limit_file("0::/user/x").as_deref(), Some("/sys/fs/cgroup/user/x/memory.max"));
        for line in ["3:cpu,cpuacct:/a", "1:name=systemd:/", "", "0", "4:memory"] {
            assert_eq!(limit_file(line), None, "{line}");
        }
    }
}
