//! Files with large holes: chooses files that are transferred as packed data, and reads packed data
//! (docs/decisions/0066).

use std::ops::{Deref, Range};

use deltic_core::{BlockSumSpec, DataMap, PackedRuns, SumKind};
use deltic_protocol::limits::{MAX_DATA_RUNS, MIN_HOLE_BYTES};
use deltic_store::{Snapshot, StoreError};

/// Bytes that are tested for zeros at a time.
const LOOK_BYTES: u64 = 256 << 10;

/// Returns the data map of a version, if less than half of its length is data. Other versions are read with their
/// holes: that costs at most twice their data, and digests and recipes of earlier runs stay usable.
pub(super) fn data_map(snapshot: &impl Snapshot) -> Result<Option<DataMap>, StoreError> {
    let len = snapshot.meta().len;
    let Some(runs) = snapshot.data_runs()? else { return Ok(None) };
    let map = DataMap::of_large_holes(&runs, len, MIN_HOLE_BYTES, MAX_DATA_RUNS);
    Ok((map.data_len() < len / 2).then_some(map))
}

/// A version at a source, read with holes or as packed data.
pub(super) struct SparseVersion<S> {
    snapshot: S,
    map: Option<DataMap>,
    /// The sums that storage keeps, if the strategy can use some.
    keeps: Option<BlockSumSpec>,
}

impl<S> Deref for SparseVersion<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.snapshot
    }
}

impl<S: Snapshot> SparseVersion<S> {
    pub(super) const fn new(
        snapshot: S,
        map: Option<DataMap>,
        keeps: Option<BlockSumSpec>,
    ) -> Self {
        Self { snapshot, map, keeps }
    }

    /// Returns the kind of the sums that storage keeps, if the strategy can use some.
    pub(super) const fn kept_kind(&self) -> Option<SumKind> {
        match self.keeps {
            Some(keeps) => Some(keeps.kind),
            None => None,
        }
    }

    /// Returns the data map, if the version is read as packed data.
    pub(super) const fn map(&self) -> Option<&DataMap> {
        self.map.as_ref()
    }

    /// Returns the length in bytes of the version, or of its packed data.
    pub(super) fn transferred_len(&self) -> u64 {
        self.map.as_ref().map_or_else(|| self.snapshot.meta().len, DataMap::data_len)
    }

    /// Reads packed data. Returns fewer bytes at the end.
    pub(super) fn read_packed(&self, start: u64, buf: &mut [u8]) -> Result<usize, StoreError> {
        match &self.map {
            Some(map) => read_places(
                &self.snapshot,
                map.places_in_file(start..start + buf.len() as u64),
                buf,
            ),
            None => self.snapshot.read_at(start, buf),
        }
    }

    /// True if every hole of the map is still a hole of the file.
    pub(super) fn has_same_holes(&self) -> Result<bool, StoreError> {
        let Some(map) = &self.map else { return Ok(true) };
        let Some(runs) = self.snapshot.data_runs()? else { return Ok(false) };
        Ok(map.split_old(map.file_len(), &runs).1.is_empty())
    }
}

/// Reads the ranges `places` of a version, one after the other. Returns a smaller count if the version ends before.
pub(super) fn read_places(
    snapshot: &impl Snapshot,
    places: impl Iterator<Item = Range<u64>>,
    buf: &mut [u8],
) -> Result<usize, StoreError> {
    let mut done = 0;
    for place in places {
        let room = &mut buf[done..done + (place.end - place.start) as usize];
        let got = snapshot.read_at(place.start, room)?;
        done += got;
        if got < room.len() {
            break;
        }
    }
    Ok(done)
}

/// Returns the data of an old version in the order that suits a new version with data in `map`. First come the places
/// of the new data, then the other data of the old version, without runs of zeros.
pub(super) fn facing(old: &impl Snapshot, map: &DataMap) -> Result<PackedRuns, StoreError> {
    let len = old.meta().len;
    let runs = old.data_runs()?;
    let runs = runs.unwrap_or_else(|| DataMap::whole(len).runs().to_vec());
    let (mut all, rest) = map.split_old(len, &runs);
    for run in rest {
        if !is_zero(old, run.clone())? {
            all.push(run);
        }
    }
    Ok(PackedRuns::new(all))
}

/// True if all bytes of `run` are zeros.
fn is_zero(snapshot: &impl Snapshot, run: Range<u64>) -> Result<bool, StoreError> {
    let mut room = vec![0; LOOK_BYTES.min(run.end - run.start) as usize];
    let mut at = run.start;
    while at < run.end {
        let piece = &mut room[..LOOK_BYTES.min(run.end - at) as usize];
        let got = snapshot.read_at(at, piece)?;
        if got == 0 || piece[..got].iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
        at += got as u64;
    }
    Ok(true)
}
