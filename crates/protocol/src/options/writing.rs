//! Options for writing files.

use deltic_core::codec::{CodecError, Put, Reader};

use crate::wire::codec::{BadPayload, WireEncoding, closed_set, read_flags, write_flags};

/// Ways of writing new versions. Everything is off by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Writing {
    /// Write runs of zeros as holes (`--sparse`).
    pub sparse: bool,
    /// Allocate all blocks of a file before writing (`--preallocate`).
    pub preallocate: bool,
    /// Change existing files in place (`--inplace`).
    pub inplace: bool,
    /// Rename new versions into place only when all are complete (`--delay-updates`).
    pub delay: bool,
    /// Treatment of files that only grow; appended files are written in place.
    pub append: Append,
    /// Directory for staged files (`--temp-dir`), absolute or relative to the destination's root.
    pub temp_dir: Option<Box<[u8]>>,
    /// Directory for incomplete versions (`--partial-dir`), absolute or relative to the directory of each file.
    pub partial_dir: Option<Box<[u8]>>,
}

/// Treatment of files that are shorter at the receiver. With an append option all other existing files keep their
/// content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Append {
    /// No special treatment.
    #[default]
    Never,
    /// Append the missing bytes without comparing the existing ones (`--append`).
    Blindly,
    /// Append the missing bytes and verify the existing ones (`--append-verify`).
    Verified,
}

closed_set!(Append: Never = 0, Blindly = 1, Verified = 2);

impl Writing {
    /// True if these options can be combined.
    fn is_valid_combination(&self) -> bool {
        let elsewhere = self.delay || self.partial_dir.is_some();
        !(self.inplace && elsewhere) && (self.inplace || self.append == Append::Never)
    }
}

impl WireEncoding for Writing {
    fn write_to(&self, to: &mut Vec<u8>) {
        write_flags(to, [self.sparse, self.preallocate, self.inplace, self.delay]);
        self.append.write_to(to);
        self.temp_dir.write_to(to);
        self.partial_dir.write_to(to);
    }

    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        let [sparse, preallocate, inplace, delay] = read_flags(from)?;
        let append = WireEncoding::read_from(from)?;
        let (temp_dir, partial_dir) =
            (WireEncoding::read_from(from)?, WireEncoding::read_from(from)?);
        let all = Self { sparse, preallocate, inplace, delay, append, temp_dir, partial_dir };
        if all.is_valid_combination() { Ok(all) } else { Err(CodecError::OutOfRange.into()) }
    }
}
