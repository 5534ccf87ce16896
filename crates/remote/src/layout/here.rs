//! The layout of a file here, as its file system tells it: where its bytes lie, and the sums that it keeps of them.

use std::ops::Range;

use deltic_core::stored::{BlockSum, Strength};
use deltic_core::{StoredSums, SumKind};
use deltic_net::LocalSnapshot;
use deltic_store::Snapshot;
use deltic_store::facts::Is;
use deltic_tree::Timestamp;

use super::parts::{Cover, Id, Layout, LayoutError, Part, Units};
use crate::sums::Algorithm;

/// The layout of `file`. Nothing of it is read.
///
/// # Errors
/// [`LayoutError`] where storage tells nothing, of more parts than a layout has, and of a file that changed meanwhile.
pub fn layout(file: &LocalSnapshot) -> Result<Layout, LayoutError> {
    let (extents, system, identities, about) = match file.extents()? {
        Some(extents) => (extents, "btrfs", Strength::Proof, Vec::new()),
        None => {
            let why = format!("no identities: {}", file.lack());
            match file.mapped()? {
                Some(mapped) => {
                    let shared = format!("{} bytes are shared with other files", mapped.shared);
                    let about = if mapped.shared > 0 { vec![why, shared] } else { vec![why] };
                    (mapped.extents, "FIEMAP", Strength::Hint, about)
                }
                None => return Err(LayoutError("its storage tells nothing of it".into())),
            }
        }
    };
    let mut layout = Layout::new(system, *extents.store());
    (layout.about, layout.identities, layout.token) = (about, identities, token(file));
    let mut sums = Sums { file, is_kept: true, told: None, left: MAX_SUM_BYTES };
    for (range, is) in extents.parts() {
        sums.cover(&mut layout, &range, is)?;
    }
    if !sums.is_kept && sums.left == 0 {
        layout.about.push(format!("no more than {MAX_SUM_BYTES} bytes of sums are told"));
    }
    Ok(layout)
}

/// The sums that a file system keeps of a file, until it has none.
struct Sums<'a> {
    file: &'a LocalSnapshot,
    is_kept: bool,
    /// Those of the last window that was asked for, and where that begins.
    told: Option<(u64, StoredSums)>,
    /// Bytes of sums that may still come.
    left: usize,
}

impl Sums<'_> {
    /// Asks for the sums of a window, unless those are here.
    fn ask(&mut self, start: u64) -> Result<(), LayoutError> {
        if self.is_kept && self.told.as_ref().is_none_or(|(told, _)| *told != start) {
            let window = start..self.file.meta().len.min(start + WINDOW_BYTES);
            self.told = self.file.stored_sums(&window)?.map(|told| (start, told));
            self.is_kept = self.told.is_some();
        }
        Ok(())
    }

    /// Appends the part of the file in `range`, which lies where it `is`.
    fn cover(
        &mut self,
        layout: &mut Layout,
        range: &Range<u64>,
        is: Is,
    ) -> Result<(), LayoutError> {
        let mut at = range.start;
        while at < range.end {
            let end = range.end.min((at + 1).next_multiple_of(WINDOW_BYTES));
            if is != Is::Zero {
                self.ask(at - at % WINDOW_BYTES)?;
            }
            let told = self.told.as_ref().filter(|_| self.is_kept).map(|(_, told)| told);
            for (cover, len) in covers(told, at..end, is) {
                if let Cover::Units(units) = &cover {
                    self.left = self.left.saturating_sub(units.sums.len());
                }
                let id = match is {
                    Is::Id { id, from } => Some(Id { of: id, from: from + (at - range.start) }),
                    Is::Zero | Is::Unknown => None,
                };
                layout.push(Part { len, id, cover })?;
                at += len;
            }
            self.is_kept &= self.left > 0;
        }
        Ok(())
    }
}

/// The covers of a part, each with its length in bytes, by the sums that are told of it.
fn covers(told: Option<&StoredSums>, range: Range<u64>, is: Is) -> Vec<(Cover, u64)> {
    let whole = |cover| vec![(cover, range.end - range.start)];
    let Some(told) = told else {
        return whole(if is == Is::Zero { Cover::Zero } else { Cover::Unknown });
    };
    let block = u64::from(told.block_bytes());
    let mut covers: Vec<(Cover, u64)> = Vec::new();
    let mut at = range.start;
    while at < range.end {
        let end = range.end.min(at - at % block + block);
        let is_whole = at.is_multiple_of(block) && end - at == block;
        let cover = match told.at(at) {
            BlockSum::Sum(sum) if is_whole => {
                let sum = in_order(told.kind(), sum);
                Cover::Units(Units::plain(algorithm(told.kind()), told.block_bytes(), sum))
            }
            BlockSum::Zero => Cover::Zero,
            BlockSum::Sum(_) | BlockSum::Unknown => Cover::Unknown,
        };
        match (covers.last_mut(), cover) {
            (Some((Cover::Units(units), len)), Cover::Units(more)) => {
                units.sums.extend(more.sums);
                *len += end - at;
            }
            (Some((last, len)), cover) if *last == cover => *len += end - at,
            (_, cover) => covers.push((cover, end - at)),
        }
        at = end;
    }
    covers
}

const fn algorithm(kind: SumKind) -> Algorithm {
    match kind {
        SumKind::Crc32c => Algorithm::Crc32c,
        SumKind::Xxh64 => Algorithm::Xxh64,
        SumKind::Sha256 => Algorithm::Sha256,
        SumKind::Blake2b => Algorithm::Blake2b,
    }
}

/// The bytes of a sum that is a number, the most significant one first.
fn in_order(kind: SumKind, sum: &[u8]) -> Vec<u8> {
    match kind {
        SumKind::Crc32c | SumKind::Xxh64 => sum.iter().rev().copied().collect(),
        SumKind::Sha256 | SumKind::Blake2b => sum.to_vec(),
    }
}

fn token(file: &LocalSnapshot) -> String {
    let meta = file.meta();
    let Timestamp { secs, nanos } = meta.modified;
    let version = file.identity().map(|version| {
        let Timestamp { secs, nanos } = version.changed;
        format!(", changed {secs}.{nanos:09}")
    });
    format!("{} bytes, modified {secs}.{nanos:09}{}", meta.len, version.unwrap_or_default())
}

/// Bytes of a file of which sums are asked for at once.
const WINDOW_BYTES: u64 = 64 << 20;
/// Sums of one file at most, in bytes.
const MAX_SUM_BYTES: usize = 256 << 20;
