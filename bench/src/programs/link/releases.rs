//! Kinds of data, some of them from releases of packages.

use std::path::PathBuf;

use anyhow::Result;

use super::super::release::ReleasePair;
use super::super::run::BenchRig;
use super::data::{LinkCase, LinkData, edits, noise, small_files};
use super::options::LinkOptions;

/// Releases of packages, each as the old and the new file.
pub(super) struct Releases {
    text: Option<(PathBuf, PathBuf)>,
    binary: Option<(PathBuf, PathBuf)>,
}

impl Releases {
    /// Downloads the releases that the requested kinds of data need.
    pub(super) fn fetch(options: &LinkOptions, rig: &BenchRig) -> Result<Self> {
        let fetch = |pair: &ReleasePair, name: &str, kinds: &[LinkData]| match kinds
            .iter()
            .any(|kind| options.data.contains(kind))
        {
            true => pair.fetch(&rig.path(name)),
            false => Ok(None),
        };
        // The small files are pieces of the text.
        let text = fetch(&options.text, "text", &[LinkData::Text, LinkData::Files])?;
        Ok(Self { text, binary: fetch(&options.binary, "binary", &[LinkData::Binary])? })
    }

    /// Returns the kinds of data, with `bytes` of new data. Kinds without a release are left out.
    pub(super) fn cases(
        &self,
        kinds: &[LinkData],
        rig: &BenchRig,
        bytes: u64,
    ) -> Result<Vec<(LinkData, LinkCase)>> {
        let release =
            |pair: &Option<_>| pair.clone().map(|(old, new)| LinkCase { new, old: Some(old) });
        let mut cases = Vec::new();
        for kind in kinds {
            let case = match kind {
                LinkData::Text => release(&self.text),
                LinkData::Binary => release(&self.binary),
                LinkData::Edits => Some(edits(rig)?),
                LinkData::Noise => Some(noise(rig, bytes)?),
                LinkData::Files => match &self.text {
                    Some((_, new)) => Some(small_files(rig, new, bytes)?),
                    None => None,
                },
            };
            cases.extend(case.map(|case| (*kind, case)));
        }
        Ok(cases)
    }
}
