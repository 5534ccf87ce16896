//! A transfer by one choice over the link of the fake remote shell.

use std::fs;

use anyhow::{Result, bail};

use super::super::e2e::restore;
use super::super::files::same_content;
use super::super::peer::SyncTask;
use super::super::run::{BenchRig, TransferCost};
use super::choices::LinkChoice;
use super::data::LinkCase;

/// Removes the rates that earlier runs noted.
pub(super) fn forget_rates(rig: &BenchRig) -> Result<()> {
    let notes = rig.path("cache").join("deltic/links-1");
    match fs::remove_dir_all(&notes) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// Syncs by a choice, and checks the result.
pub(super) fn one(rig: &BenchRig, choice: &LinkChoice, case: &LinkCase) -> Result<TransferCost> {
    // A directory of its own: the far end also finds old content in files beside the destination.
    let place = rig.path("far-files");
    if place.exists() {
        fs::remove_dir_all(&place)?;
    }
    fs::create_dir(&place)?;
    let dest = place.join("dest");
    if let Some(old) = &case.old {
        restore(old, &dest)?;
    }
    let flags: Vec<&str> = choice.flags.iter().map(String::as_str).collect();
    let task = SyncTask { flags: &flags, compress: choice.compress, local: false };
    let is_tree = case.new.is_dir();
    let from = if is_tree { case.new.join("") } else { case.new.clone() };
    let cost = rig.transfer(choice.program(), task, &from, &dest)?;
    let equal = match is_tree {
        false => same_content(&case.new, &dest)?,
        true => {
            let mut equal = true;
            for entry in fs::read_dir(&case.new)? {
                let name = entry?.file_name();
                equal &= same_content(&case.new.join(&name), &dest.join(&name))?;
            }
            equal
        }
    };
    if !equal {
        bail!("{}: the destination differs from the source", choice.name);
    }
    Ok(cost)
}
