//! Options about checksums.

use anyhow::{Result, bail};

use super::headings::TRAVEL;
use crate::words::refused::Unsupported;

/// The words of it.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct SumArgs {
    /// Choose checksums: auto, blake3, none
    ///
    /// blake3: no faster sum that the two ends share. none: files go whole. Names of rsync's mean auto. One name, or
    /// one for transfers and one for -c.
    #[arg(long, value_name = "NAMES", visible_alias = "cc", help_heading = TRAVEL)]
    checksum_choice: Option<String>,
}

/// The chosen sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    /// Chunks are named by BLAKE3.
    pub(crate) by_blake3: bool,
    /// Files go whole.
    pub(crate) whole: bool,
}

impl SumArgs {
    /// The meaning of the word; `compares` is true with -c.
    pub(crate) fn sums(&self, compares: bool) -> Result<Sums> {
        let Some(word) = &self.checksum_choice else { return Ok(Sums::default()) };
        let (transfer, before) = word.split_once(',').unwrap_or((word, word));
        for name in [transfer, before] {
            match name {
                "auto" | "blake3" | "none" => {}
                // Names of speed: what we have proves more.
                "xxh128" | "xxh3" | "xxh64" | "xxhash" | "md5" | "md4" | "sha1" => {}
                _ => {
                    let what = format!("checksum {name}");
                    bail!(Unsupported::new(what, "there are auto, blake3 and none"))
                }
            }
        }
        if before == "none" && compares {
            let what = "checksum none with --checksum".into();
            bail!(Unsupported::new(what, "contents are compared by sums"));
        }
        let by_blake3 = [transfer, before].contains(&"blake3");
        Ok(Sums { by_blake3, whole: transfer == "none" })
    }
}
