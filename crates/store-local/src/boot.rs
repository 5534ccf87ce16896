//! Boots of the machine: what is known of a file system that was mounted may not outlive one.

use std::sync::OnceLock;

use crate::system::told;

/// Name of this boot of the machine, which no other has.
pub(super) fn boot() -> Option<&'static [u8]> {
    static BOOT: OnceLock<Option<Vec<u8>>> = OnceLock::new();
    let read = || told(BOOT_ID, MAX_BOOT_BYTES).filter(|bytes| !bytes.is_empty());
    BOOT.get_or_init(read).as_deref()
}

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
const MAX_BOOT_BYTES: usize = 64;
