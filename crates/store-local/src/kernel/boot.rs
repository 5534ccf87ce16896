//! Identifies the machine's boot. Facts about a mounted file system may not outlive the boot.

use std::sync::OnceLock;

use crate::kernel::system::read_system_file;

/// Returns the unique identifier of the present boot.
pub(crate) fn boot() -> Option<&'static [u8]> {
    static BOOT: OnceLock<Option<Vec<u8>>> = OnceLock::new();
    let read = || read_system_file(BOOT_ID, MAX_BOOT_BYTES).filter(|bytes| !bytes.is_empty());
    BOOT.get_or_init(read).as_deref()
}

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
const MAX_BOOT_BYTES: usize = 64;
