//! Boots of the machine: what is known of a file system that was mounted may not outlive one.

use std::os::fd::AsFd;
use std::sync::OnceLock;

use rustix::fs::{self, CWD, Mode, OFlags};

use crate::copy::read_at;

/// Name of this boot of the machine, which no other has.
pub(super) fn boot() -> Option<&'static [u8]> {
    static BOOT: OnceLock<Option<Vec<u8>>> = OnceLock::new();
    let read = || {
        let file =
            fs::openat(CWD, BOOT_ID, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
        let mut bytes = vec![0; MAX_BOOT_BYTES];
        let got = read_at(file.as_fd(), 0, &mut bytes).ok()?;
        bytes.truncate(got);
        (got > 0).then_some(bytes)
    };
    BOOT.get_or_init(read).as_deref()
}

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
const MAX_BOOT_BYTES: usize = 64;
