//! Modes and times.

use std::os::fd::AsFd;
use std::path::Path;

use deltic_core::Meta;
use rustix::fs::{self, CWD, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT};
use rustix::io::{self, Errno};

use crate::Keep;

/// What to set on an entry; nothing where `None`.
#[derive(Debug, Default)]
pub(super) struct Attrs {
    mode: Option<u32>,
    /// A mode nobody asked to keep: a file system without modes may refuse it.
    mode_is_optional: bool,
    times: Option<Timestamps>,
}

impl Attrs {
    /// For an entry that the tree has not shown yet, or whose old version had `old_mode`.
    pub(super) fn of_new(meta: &Meta, keep: Keep, old_mode: Option<u32>, umask: u32) -> Self {
        let default = old_mode.unwrap_or(meta.mode & !umask) & ACCESS_BITS;
        let mode = if keep.modes { meta.mode & ALL_BITS } else { default };
        Self { mode: Some(mode), mode_is_optional: !keep.modes, ..Self::of_existing(meta, keep) }
    }

    /// For an entry that was there before.
    pub(super) fn of_existing(meta: &Meta, keep: Keep) -> Self {
        let mode = keep.modes.then_some(meta.mode & ALL_BITS);
        Self { mode, mode_is_optional: false, times: keep.times.then(|| times(meta)) }
    }

    /// The mode alone.
    pub(super) fn of_mode(mode: u32) -> Self {
        Self { mode: Some(mode & ALL_BITS), ..Self::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.mode.is_none() && self.times.is_none()
    }

    /// Sets them on an open file or directory.
    pub(super) fn set(&self, file: impl AsFd) -> Result<(), Errno> {
        if let Some(mode) = self.mode {
            match fs::fchmod(&file, Mode::from_raw_mode(mode)) {
                Err(Errno::PERM | Errno::OPNOTSUPP) if self.mode_is_optional => {}
                set => set?,
            }
        }
        self.times.as_ref().map_or(Ok(()), |times| fs::futimens(&file, times))
    }

    /// Sets them on what `handle` stands for, which cannot be opened to read.
    pub(super) fn set_unreadable(&self, handle: impl AsFd) -> Result<(), Errno> {
        use std::os::fd::AsRawFd;
        // The only way to change the mode of a held file that may not be read, before Linux 6.6.
        let link = format!("/proc/self/fd/{}", handle.as_fd().as_raw_fd());
        if let Some(mode) = self.mode {
            fs::chmodat(CWD, &*link, Mode::from_raw_mode(mode), fs::AtFlags::empty())?;
        }
        let set = |times| fs::utimensat(CWD, &*link, times, fs::AtFlags::empty());
        self.times.as_ref().map_or(Ok(()), set)
    }
}

/// The times of `meta`; when it was last read stays.
pub(super) fn times(meta: &Meta) -> Timestamps {
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec {
            tv_sec: meta.modified.secs,
            tv_nsec: meta.modified.nanos.into(),
        },
    }
}

/// The bits that this process withholds from new files. Asked of `/proc`, since the system call that tells also sets,
/// for all threads; all that can be withheld where nothing is mounted there.
pub(super) fn umask() -> u32 {
    let mut text = vec![0; 4096];
    let status = fs::openat(CWD, Path::new("/proc/self/status"), OFlags::CLOEXEC, Mode::empty());
    let read = status.and_then(|status| io::read(status, &mut text)).unwrap_or(0);
    let text = String::from_utf8_lossy(&text[..read]).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix("Umask:"));
    line.and_then(|digits| u32::from_str_radix(digits.trim(), 8).ok()).unwrap_or(0o077)
}

/// All that a mode can say.
const ALL_BITS: u32 = 0o7777;
/// Who may read, write and execute: no setuid, setgid or sticky.
const ACCESS_BITS: u32 = 0o777;
