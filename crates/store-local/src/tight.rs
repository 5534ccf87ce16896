//! Reading where the system grants this process little memory.
//!
//! A disk may be set to read megabytes ahead of each open file. They count for the group of the process (cgroup), and
//! can be taken back only once they are read: a group of 32 MiB is out of memory before that.

use std::os::fd::AsFd;
use std::sync::OnceLock;

use rustix::fs::{self, Advice, Mode, OFlags};
use rustix::io;

/// Bytes up to which a limit is tight.
const TIGHT_BYTES: u64 = 64 << 20;
/// Bytes from which a file is worth the call.
const LARGE_BYTES: u64 = 16 << 20;

/// Has the system read nothing of a large `file` ahead, where memory is tight.
pub(crate) fn spare_memory(file: impl AsFd, len: u64) {
    static IS_TIGHT: OnceLock<bool> = OnceLock::new();
    let is_tight = || limit().is_some_and(|bytes| bytes <= TIGHT_BYTES);
    if len >= LARGE_BYTES && *IS_TIGHT.get_or_init(is_tight) {
        // Where it does otherwise, there may be memory enough even so.
        let _ = fs::fadvise(file, 0, None, Advice::Random);
    }
}

/// Bytes of memory that the group of this process may have, if it is in one that has a limit.
fn limit() -> Option<u64> {
    let groups = text("/proc/self/cgroup")?;
    let limit = |line: &str| {
        let (kinds, path) = line.split_once(':')?.1.split_once(':')?;
        let told = match kinds {
            "memory" => text(&format!("/sys/fs/cgroup/memory{path}/memory.limit_in_bytes")),
            "" => text(&format!("/sys/fs/cgroup{path}/memory.max")),
            _ => None,
        };
        told?.trim_end().parse().ok()
    };
    groups.lines().find_map(limit)
}

/// The first 4 KiB of a file of the system.
fn text(path: &str) -> Option<String> {
    let file = fs::openat(fs::CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let mut bytes = vec![0; 4096];
    let len = io::read(&file, &mut bytes).ok()?;
    bytes.truncate(len);
    String::from_utf8(bytes).ok()
}
