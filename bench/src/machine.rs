//! Properties of this machine: processor model, caches and memory. Unknown sizes have usual values.

use std::fs;
use std::num::NonZeroU32;
use std::thread;

use anyhow::{Context, Result};

use crate::size::ByteSize;

/// The processor and its caches.
pub(crate) struct MachineInfo {
    /// Model name.
    pub(crate) name: String,
    /// Size of the second-level cache of a core, in bytes.
    pub(crate) l2: u64,
    /// Size of the last-level cache, in bytes.
    pub(crate) last_level: u64,
}

impl MachineInfo {
    /// Reads the properties of this machine.
    pub(crate) fn here() -> Self {
        Self {
            name: model().unwrap_or_else(|| std::env::consts::ARCH.into()),
            l2: cache(2).unwrap_or(USUAL_L2_BYTES),
            last_level: cache(4).or_else(|| cache(3)).unwrap_or(USUAL_LAST_LEVEL_BYTES),
        }
    }
}

/// Returns the number of processors that this process may use.
pub(crate) fn processors() -> NonZeroU32 {
    let processors = thread::available_parallelism().ok();
    processors.and_then(|processors| processors.try_into().ok()).unwrap_or(NonZeroU32::MIN)
}

/// Returns the resident memory of a process in KiB. `process` is a process id or `self`.
pub(crate) fn resident_kib(process: &str) -> Result<u64> {
    let stat = fs::read_to_string(format!("/proc/{process}/statm"))?;
    let pages = stat.split(' ').nth(1).context("/proc/PID/statm has two numbers")?;
    Ok((pages.parse::<u64>()? * rustix::param::page_size() as u64) >> 10)
}

/// The memory of this process at the begin of a measurement.
pub(crate) struct PeakMemory {
    before: Option<u64>,
}

impl PeakMemory {
    /// Starts a measurement: sets the high-water mark of this process to its present memory.
    pub(crate) fn watch() -> Self {
        let reset = fs::write("/proc/self/clear_refs", "5");
        let before = reset.ok().and_then(|()| resident_kib("self").ok());
        Self { before: before.map(|kib| kib << 10) }
    }

    /// Returns the bytes between the memory at the begin and the high-water mark. `None` if the system does not tell.
    pub(crate) fn rise(&self) -> Option<u64> {
        let status = fs::read_to_string("/proc/self/status").ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        let peak = line.split_whitespace().next()?.parse::<u64>().ok()? << 10;
        Some(peak.saturating_sub(self.before?))
    }
}

/// Returns the available memory in bytes, if the system reports the value.
pub(crate) fn available_memory() -> Option<u64> {
    let info = fs::read_to_string("/proc/meminfo").ok()?;
    let line = info.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

fn model() -> Option<String> {
    let info = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = info.lines().find_map(|line| line.strip_prefix("model name"))?;
    Some(line.trim_start_matches([' ', '\t', ':']).into())
}

/// Returns the size of the first core's cache of this level in bytes.
fn cache(level: u32) -> Option<u64> {
    let caches = fs::read_dir("/sys/devices/system/cpu/cpu0/cache").ok()?;
    caches.flatten().find_map(|entry| {
        let fact = |name| fs::read_to_string(entry.path().join(name)).ok();
        let is_it = fact("level")?.trim() == level.to_string();
        let size: ByteSize = fact("size")?.trim().parse().ok()?;
        is_it.then_some(size.bytes())
    })
}

/// Environment variable with the name of an instruction set.
pub(crate) const ISA_VARIABLE: &str = "DELTIC_ISA";
const USUAL_L2_BYTES: u64 = 1 << 20;
const USUAL_LAST_LEVEL_BYTES: u64 = 32 << 20;
