//! RAM and AE in the forms that VectorCDC publishes (§4.3, figure 4), for comparison with `ram.rs` and `ae.rs`.
//!
//! The chunks are the same. These forms have no shortcut of ours: a search for the extreme byte reads the whole
//! window, even after a byte of 255.
//!
//! ```text
//! RAM   top = Extreme Byte Search of data[..window]
//!       cut = Range Scan for a byte >= top after the window
//! AE    target = the first byte
//!       repeat: top = Extreme Byte Search of the window after target
//!               if top does not exceed target: cut after the window
//!               target = Range Scan for a byte that exceeds target
//! ```
//!
//! A [`PublishedForm`] tells which of the two phases has vectors. The paper's names: the native loops are *RAM*
//! and *AE*, vectors in the first phase alone are *VRAM-EBS* (§5.2.2, figure 8), vectors in both are *VRAM* and
//! *VAE*.

use super::{Chunker, Sizes};
use crate::simd::search::{Extreme, SearchReach, WantedBytes};
use crate::simd::{Isa, Kernel, Simd};

/// The phases of RAM and AE that have vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublishedForm {
    /// A loop over single bytes, without phases.
    Native,
    /// Vectors in Extreme Byte Search, single bytes in Range Scan.
    SearchOnly(Isa),
    /// Vectors in both phases.
    Both(Isa),
}

impl PublishedForm {
    /// The forms that this machine has: the native loop, then the forms of each instruction set.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let with =
            Isa::available().into_iter().flat_map(|isa| [Self::SearchOnly(isa), Self::Both(isa)]);
        std::iter::once(Self::Native).chain(with).collect()
    }
}

/// The instruction sets of the two phases of a form with vectors.
#[derive(Clone, Copy, Debug)]
struct PhaseForms {
    search: Isa,
    /// `None` for single bytes.
    scan: Option<Isa>,
}

impl PhaseForms {
    /// Extreme Byte Search: the extreme byte of all of `window`, which must not be empty.
    #[inline(always)]
    fn extreme_byte(self, extreme: Extreme, window: &[u8]) -> u8 {
        self.search.run(ExtremeSearch { extreme, window })
    }

    /// Range Scan: the position of the first wanted byte.
    #[inline(always)]
    fn find(self, wanted: WantedBytes, data: &[u8]) -> Option<usize> {
        match self.scan {
            None => data.iter().position(|byte| wanted.wants(*byte)),
            Some(isa) => isa.run(RangeScan { wanted, data }),
        }
    }
}

struct ExtremeSearch<'a> {
    extreme: Extreme,
    window: &'a [u8],
}

impl Kernel for ExtremeSearch<'_> {
    type Output = u8;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> u8 {
        self.extreme.extreme_byte_within(simd, self.window, SearchReach::Whole)
    }
}

struct RangeScan<'a> {
    wanted: WantedBytes,
    data: &'a [u8],
}

impl Kernel for RangeScan<'_> {
    type Output = Option<usize>;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> Option<usize> {
        self.wanted.find(simd, self.data)
    }
}

/// An algorithm that VectorCDC speeds up.
#[derive(Clone, Copy, Debug)]
pub(super) enum PublishedAlgorithm {
    Ram,
    Ae(Extreme),
}

/// RAM or AE in a published form.
#[derive(Clone, Copy, Debug)]
pub(super) struct PublishedChunker {
    algorithm: PublishedAlgorithm,
    window: usize,
    max: usize,
    form: PublishedForm,
}

impl PublishedChunker {
    /// Creates a chunker for chunks of `sizes` in a form.
    pub(super) const fn new(
        algorithm: PublishedAlgorithm,
        sizes: Sizes,
        form: PublishedForm,
    ) -> Self {
        Self { algorithm, window: sizes.window() as usize, max: sizes.max() as usize, form }
    }

    fn cut_by_ram(&self, phases: PhaseForms, data: &[u8]) -> usize {
        let Some((window, after)) = data.split_at_checked(self.window) else { return data.len() };
        let top = phases.extreme_byte(Extreme::Max, window);
        let reached = phases.find(WantedBytes::AtLeast(top), after);
        reached.map_or(data.len(), |n| self.window + n + 1)
    }

    fn cut_by_ae(&self, extreme: Extreme, phases: PhaseForms, data: &[u8]) -> usize {
        let mut target = 0;
        loop {
            let end = target + 1 + self.window;
            if end >= data.len() {
                return data.len();
            }
            let window = &data[target + 1..end];
            if !extreme.exceeds(phases.extreme_byte(extreme, window), data[target]) {
                return end;
            }
            let wanted = match extreme {
                Extreme::Max => WantedBytes::Above(data[target]),
                Extreme::Min => WantedBytes::Below(data[target]),
            };
            let next = phases.find(wanted, window);
            target += 1 + next.expect("the extreme byte of the window exceeds the target");
        }
    }
}

impl Chunker for PublishedChunker {
    fn max_len(&self) -> usize {
        self.max
    }

    #[inline]
    fn cut(&self, data: &[u8]) -> usize {
        let data = &data[..data.len().min(self.max)];
        let phases = match self.form {
            PublishedForm::Native => None,
            PublishedForm::SearchOnly(search) => Some(PhaseForms { search, scan: None }),
            PublishedForm::Both(isa) => Some(PhaseForms { search: isa, scan: Some(isa) }),
        };
        match (self.algorithm, phases) {
            (PublishedAlgorithm::Ram, None) => native_ram(data, self.window),
            (PublishedAlgorithm::Ram, Some(phases)) => self.cut_by_ram(phases, data),
            (PublishedAlgorithm::Ae(extreme), None) => native_ae(extreme, data, self.window),
            (PublishedAlgorithm::Ae(extreme), Some(phases)) => {
                self.cut_by_ae(extreme, phases, data)
            }
        }
    }
}

/// The loop of RAM over single bytes.
fn native_ram(data: &[u8], window: usize) -> usize {
    let mut top = 0;
    for (at, byte) in data.iter().enumerate() {
        if *byte >= top {
            if at >= window {
                return at + 1;
            }
            top = *byte;
        }
    }
    data.len()
}

/// The loop of AE over single bytes.
fn native_ae(extreme: Extreme, data: &[u8], window: usize) -> usize {
    let (mut top, mut end) = (data[0], window);
    for (at, byte) in data.iter().enumerate() {
        if extreme.exceeds(*byte, top) {
            (top, end) = (*byte, at + window);
        } else if at == end {
            return at + 1;
        }
    }
    data.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ram(form: PublishedForm) -> PublishedChunker {
        let sizes = Sizes::new(512, 1024, 4096).unwrap();
        PublishedChunker::new(PublishedAlgorithm::Ram, sizes, form)
    }

    #[test]
    fn a_largest_byte_counts_in_every_lane() {
        for form in PublishedForm::all() {
            for at in 768..1100 {
                for top in [9, 255] {
                    let mut data = [7; 5000];
                    (data[at % 768], data[at]) = (top, top);
                    assert_eq!(ram(form).cut(&data), at + 1, "{form:?} {top}");
                }
            }
        }
    }
}
