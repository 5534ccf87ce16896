//! Reads files with little memory, in a cgroup with a low limit.
//!
//! A disk may be set to read megabytes ahead of each open file. These pages count for the process's cgroup, and can
//! only be freed once they are read. So a cgroup of 32 MiB could run out of memory.

use std::os::fd::AsFd;
use std::sync::OnceLock;

use rustix::fs::{self, Advice};

use crate::kernel::system::read_system_file;

/// Largest memory limit in bytes that counts as low.
const TIGHT_BYTES: u64 = 64 << 20;
/// Smallest file in bytes for which read-ahead is turned off.
const LARGE_BYTES: u64 = 16 << 20;

/// True if the memory limit of this process's cgroup is at most 64 MiB. The limit is read once.
#[must_use]
pub fn is_memory_tight() -> bool {
    static IS_TIGHT: OnceLock<bool> = OnceLock::new();
    *IS_TIGHT.get_or_init(|| memory_limit().is_some_and(|bytes| bytes <= TIGHT_BYTES))
}

/// Turns off read-ahead for a large `file`, if memory is tight.
pub(crate) fn disable_read_ahead(file: impl AsFd, len: u64) {
    if len >= LARGE_BYTES && is_memory_tight() {
        // After an error, the memory may suffice even so.
        let _ = fs::fadvise(file, 0, None, Advice::Random);
    }
}

/// Returns the memory limit in bytes of this process's cgroup, if there is a limit.
fn memory_limit() -> Option<u64> {
    let text = |path: &str| String::from_utf8(read_system_file(path, 4096)?).ok();
    let groups = text("/proc/self/cgroup")?;
    groups
        .lines()
        .filter_map(memory_limit_file)
        .find_map(|path| text(&path)?.trim_end().parse().ok())
}

/// Returns the file with the memory limit of a cgroup, given a line of `/proc/self/cgroup`. `None` if the line is not
/// about memory.
fn memory_limit_file(line: &str) -> Option<String> {
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
    fn the_memory_limit_file_is_found_for_both_cgroup_versions() {
        let first = "/sys/fs/cgroup/memory/a:b/memory.limit_in_bytes";
        assert_eq!(memory_limit_file("4:memory:/a:b").as_deref(), Some(first));
        assert_eq!(
            memory_limit_file("0::/user/x").as_deref(),
            Some("/sys/fs/cgroup/user/x/memory.max")
        );
        for line in ["3:cpu,cpuacct:/a", "1:name=systemd:/", "", "0", "4:memory"] {
            assert_eq!(memory_limit_file(line), None, "{line}");
        }
    }
}
