//! Writing of files.

use deltic_core::codec::{CodecError, Put, Reader};

use crate::wire::codec::{Bad, Wire, closed_set, put_flags, take_flags};

/// Ways of new versions to their place. Everything is off by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Writing {
    /// Zeros become holes (`--sparse`).
    pub sparse: bool,
    /// A file has all of its blocks before it has content (`--preallocate`).
    pub preallocate: bool,
    /// A file that is there is changed where it is (`--inplace`).
    pub inplace: bool,
    /// New versions get their names when all are there (`--delay-updates`).
    pub delay: bool,
    /// Files that only grow; all do so in place.
    pub append: Append,
    /// Place where new versions grow (`--temp-dir`), absolute or from the destination's root.
    pub temp_dir: Option<Box<[u8]>>,
    /// Place of versions that are not complete (`--partial-dir`), absolute or from the directory of each file.
    pub partial_dir: Option<Box<[u8]>>,
}

/// Treatment of files that are shorter at the receiver; there the others keep their content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Append {
    /// No special treatment.
    #[default]
    Never,
    /// Put what they lack behind what they have, whatever that is (`--append`).
    Blindly,
    /// Compare what they have as well (`--append-verify`).
    Verified,
}

closed_set!(Append: Never = 0, Blindly = 1, Verified = 2);

impl Writing {
    /// Returns true for options that go together.
    fn makes_sense(&self) -> bool {
        let elsewhere = self.delay || self.partial_dir.is_some();
        !(self.inplace && elsewhere) && (self.inplace || self.append == Append::Never)
    }
}

impl Wire for Writing {
    fn put(&self, to: &mut Vec<u8>) {
        put_flags(to, [self.sparse, self.preallocate, self.inplace, self.delay]);
        self.append.put(to);
        self.temp_dir.put(to);
        self.partial_dir.put(to);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        let [sparse, preallocate, inplace, delay] = take_flags(from)?;
        let append = Wire::take(from)?;
        let (temp_dir, partial_dir) = (Wire::take(from)?, Wire::take(from)?);
        let all = Self { sparse, preallocate, inplace, delay, append, temp_dir, partial_dir };
        if all.makes_sense() { Ok(all) } else { Err(CodecError::OutOfRange.into()) }
    }
}
