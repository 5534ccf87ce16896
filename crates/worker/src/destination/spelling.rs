//! Destinations on file systems that accept several spellings of a name.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use deltic_protocol::receiver::{AlikeNames, AlikePaths};
use deltic_protocol::report::{Trouble, TroubleKind};
use deltic_store::{Listing, NamePair, OneName, Respell, Store, StoreError};
use deltic_tree::fold::SampleNames;
use deltic_tree::{Meta, Name, Names, RelPath};

use super::DestinationWorker;
use crate::to_failed_trouble;

impl<S: Store> DestinationWorker<S> {
    /// Lists the entries of `dir` that are not `listed`. An entry that a listed name finds under another spelling is
    /// first renamed to the listed spelling, and counts as listed.
    pub(super) fn respell_and_list_unlisted(
        &self,
        dir: &RelPath,
        listed: &Names,
    ) -> Result<Listing, StoreError> {
        let samples = RefCell::new(SampleNames::default());
        let is_kept = |name: &Name| {
            let is_listed = listed.contains(name);
            if !is_listed {
                samples.borrow_mut().keep_sample(name);
            }
            is_listed
        };
        let listing = self.store.list_but(dir, &is_kept)?;
        let samples = samples.into_inner();
        if samples.names().next().is_none() {
            return Ok(listing);
        }
        let respell = Respell { listed, samples: &samples, dry_run: self.options.dry_run };
        let former: HashSet<Name> = self.store.respell(dir, &respell)?.into_iter().collect();
        match former.is_empty() {
            true => Ok(listing),
            false => {
                self.store.list_but(dir, &|name| listed.contains(name) || former.contains(name))
            }
        }
    }

    /// Replaces the answer for a path by an error, if the file system treats the name and an earlier name as one name.
    pub(super) fn refuse_alike(
        &self,
        paths: &[RelPath],
        alike: &[AlikeNames],
        found: &mut [Result<Option<Meta>, Trouble>],
    ) {
        if alike.is_empty() {
            return;
        }
        let refused = alike.iter().filter_map(|names| self.refusal(names));
        let refused: HashMap<RelPath, Trouble> = refused.collect();
        for (path, found) in paths.iter().zip(found) {
            if let Some(trouble) = refused.get(path) {
                *found = Err(trouble.clone());
            }
        }
    }

    /// Replaces the answer for the path of a missing source by "no entry", if the file system treats that path and a
    /// listed path as one path.
    pub(super) fn spare_listed(
        &self,
        paths: &[RelPath],
        listed: &[AlikePaths],
        found: &mut [Result<Option<Meta>, Trouble>],
    ) {
        if listed.is_empty() {
            return;
        }
        let mut spared = HashMap::new();
        for alike in listed {
            match self.is_one_path(alike) {
                Ok(false) => {}
                Ok(true) => drop(spared.insert(&alike.missing, Ok(None))),
                Err(error) => drop(spared.insert(&alike.missing, Err(to_failed_trouble(&error)))),
            }
        }
        for (path, found) in paths.iter().zip(found) {
            if let Some(answer) = spared.get(path) {
                found.clone_from(answer);
            }
        }
    }

    /// True if the file system may treat both paths as one path.
    fn is_one_path(&self, AlikePaths { missing, listed }: &AlikePaths) -> Result<bool, StoreError> {
        let names = |path: &RelPath| {
            let names = path.components().filter_map(|name| Name::new(name).ok());
            names.collect::<Vec<_>>()
        };
        let mut dir = RelPath::root();
        for (name, earlier) in names(missing).into_iter().zip(names(listed)) {
            let pair = NamePair { name: &name, earlier: &earlier, dry_run: true };
            if name != earlier && self.store.one_name(&dir, &pair)? == OneName::No {
                return Ok(false);
            }
            let Ok(below) = dir.join(&earlier) else { return Ok(false) };
            dir = below;
        }
        Ok(true)
    }

    /// Returns the path of the later name, and the reason why it cannot exist beside the earlier name.
    fn refusal(
        &self,
        AlikeNames { dir, name, earlier }: &AlikeNames,
    ) -> Option<(RelPath, Trouble)> {
        let (path, first) = (dir.join(name).ok()?, dir.join(earlier).ok()?);
        let takes = match self
            .store
            .one_name(dir, &NamePair { name, earlier, dry_run: self.options.dry_run })
        {
            Ok(OneName::No) => return None,
            Ok(OneName::Yes) => "takes",
            Ok(OneName::Maybe) => "may take",
            Err(error) => return Some((path, to_failed_trouble(&error))),
        };
        let words = |path: &str| {
            format!(
                "cannot write {path}: the destination's file system {takes} {first} for the same name; \
                 rename one of them at the source"
            )
        };
        let trouble = Trouble::at(TroubleKind::Failed, &path, words);
        Some((path, trouble))
    }
}
