//! Removals at either end, and backups.

use deltic_core::codec::{CodecError, Reader};

use crate::wire::codec::{BadPayload, WireEncoding, read_flags, write_flags};

/// Removals beyond [`Delete`](super::Delete). Everything is off by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remove {
    /// Delete a full directory that a non-directory replaces, even if nothing else is deleted (`--force`).
    pub force: bool,
    /// Delete even if the source could not be listed or read in full (`--ignore-errors`).
    pub ignore_errors: bool,
    /// Remove sources after the arrival of the copies, except directories (`--remove-source-files`).
    pub sources: bool,
    /// Ask the user at the dialling end where [`Delete::Guarded`](super::Delete::Guarded) would delete nothing.
    pub asks: bool,
    /// Keep no symlink that may lead out of the tree as a backup, with [`Links::safe`](super::Links::safe).
    pub drops_unsafe_links: bool,
    /// Keep replaced or deleted entries under another name (`--backup`).
    pub backup: Option<Backup>,
}

/// Place and names of backups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    /// Tree for backups, absolute or relative to the destination's root; `None` keeps backups beside the new
    /// versions.
    pub dir: Option<Box<[u8]>>,
    /// Suffix of the backups' names.
    pub suffix: Box<[u8]>,
}

impl WireEncoding for Backup {
    fn write_to(&self, to: &mut Vec<u8>) {
        self.dir.write_to(to);
        self.suffix.write_to(to);
    }

    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        let (dir, suffix): (Option<Box<[u8]>>, Box<[u8]>) =
            (WireEncoding::read_from(from)?, WireEncoding::read_from(from)?);
        let is_name = |byte: &u8| !matches!(byte, b'/' | 0);
        // Without a directory and a suffix the backup would have the name of the new version.
        if dir.is_none() && suffix.is_empty() || !suffix.iter().all(is_name) {
            return Err(CodecError::OutOfRange.into());
        }
        Ok(Self { dir, suffix })
    }
}

impl WireEncoding for Remove {
    fn write_to(&self, to: &mut Vec<u8>) {
        let Self { force, ignore_errors, sources, asks, drops_unsafe_links, .. } = *self;
        write_flags(to, [force, ignore_errors, sources, asks, drops_unsafe_links]);
        self.backup.write_to(to);
    }

    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        let [force, ignore_errors, sources, asks, drops_unsafe_links] = read_flags(from)?;
        let backup = WireEncoding::read_from(from)?;
        Ok(Self { force, ignore_errors, sources, asks, drops_unsafe_links, backup })
    }
}
