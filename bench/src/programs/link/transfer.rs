//! A transfer by one choice over the link of the fake remote shell.

use std::fs;

use anyhow::{Result, bail};

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
pub(super) fn sync_once(
    rig: &BenchRig,
    choice: &LinkChoice,
    case: &LinkCase,
) -> Result<TransferCost> {
    // A directory of its own: the far end also finds old content in files beside the destination.
    let dest = case.fresh_destination(&rig.path("far-files"))?;
    let flags: Vec<&str> = choice.flags.iter().map(String::as_str).collect();
    let task = SyncTask { flags: &flags, compress: choice.compress, local: false };
    let cost = rig.transfer(choice.program(), task, &case.source(), &dest)?;
    let equal = match case.new.is_dir() {
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
