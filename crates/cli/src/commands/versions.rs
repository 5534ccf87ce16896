//! `deltic versions` and `deltic restore`: list and restore old versions that a server keeps.

use anyhow::{Context, Result, ensure};
use deltic_net::SyncError;
use deltic_serve::client::{
    Address, Credentials, DirectoryRequests, FileVersions, KeptVersion, KnownChange,
};
use deltic_tree::path::printable;
use serde::Serialize;

use crate::args::server::{RestoreArgs, VersionsArgs};
use crate::plan::server::{address_in_volume, credentials};
use crate::report::exit::Exit;
use crate::report::numbers::counted;
use crate::report::output::{self, Output};
use crate::report::status::StatusLine;
use crate::words::refused::Misused;
use crate::words::zone::Zone;

/// Prints the versions of a file, or of the files below a directory.
pub(crate) fn list(args: &VersionsArgs) -> Result<()> {
    let address = address_in_volume(&args.url)?;
    let credentials = credentials(&address, &args.login)?;
    let mut output = Output::stdout();
    if is_dir(&address) {
        let mut requests = DirectoryRequests::new(&address, &credentials)?;
        each_file(&mut requests, false, |_, file| {
            for kept in &file.versions {
                output.line(match args.json {
                    true => serde_json::to_string(&JsonVersion::of(file, kept))?,
                    false => format!(
                        "{}  {}{}",
                        version_shown(kept),
                        path_shown(file),
                        change_shown(kept)
                    ),
                });
            }
            output.flush();
            Ok(())
        })?;
        return Ok(output.finish()?);
    }
    for kept in address.versions(&credentials)? {
        output.line(if args.json { serde_json::to_string(&kept)? } else { line_shown(&kept) });
    }
    Ok(output.finish()?)
}

/// True if the address names a directory: the volume, or a path that ends in a slash.
fn is_dir(address: &Address) -> bool {
    address.path.is_empty() || address.path.ends_with(b"/")
}

/// Returns a version of a file as a line for people.
fn line_shown(kept: &KeptVersion) -> String {
    format!("{}{}", version_shown(kept), change_shown(kept))
}

/// Returns the start of a version's line: the name of the version, its time and its length.
fn version_shown(kept: &KeptVersion) -> String {
    let KeptVersion { version, replaced, bytes, .. } = kept;
    let (when, bytes) = (Zone::here().format_time(*replaced), counted(*bytes, "byte"));
    format!("{:<20} {when}  {bytes}", printable(version.as_bytes()))
}

/// Returns the end of a version's line: a strip of the file from its start to its end, the shares, and the author.
/// Empty if the change is unknown.
fn change_shown(version: &KeptVersion) -> String {
    let Some(KnownChange { kept, moved, new, buckets, by, .. }) = &version.change else {
        return String::new();
    };
    let strip: String = buckets.iter().map(|bucket| bucket_letter(*bucket)).collect();
    let all = [kept, moved, new].iter().fold(0_u64, |sum, part| sum.saturating_add(**part));
    let share = |part: u64| {
        // Rounded towards the middle: a change is never shown as none.
        let tenths = (u128::from(part) * 1000 / u128::from(all.max(1))) as u64;
        let tenths = if tenths == 0 && part > 0 { 1 } else { tenths };
        format!("{}.{} %", tenths / 10, tenths % 10)
    };
    let by = by.as_ref().map(|by| format!("  by {}", printable(by.as_bytes())));
    format!(
        "  [{strip}] kept {}, moved {}, new {}{}",
        share(*kept),
        share(*moved),
        share(*new),
        by.unwrap_or_default()
    )
}

/// Returns the letter for a part of a file: `+` if bytes are new, `~` if bytes moved, `=` if all were kept, and a space
/// for a part without bytes.
const fn bucket_letter([kept, moved, new]: [u64; 3]) -> char {
    match (kept, moved, new) {
        (0, 0, 0) => ' ',
        (_, _, 1..) => '+',
        (_, 1.., _) => '~',
        _ => '=',
    }
}

/// Returns the path of a file; a deleted file is marked.
fn path_shown(file: &FileVersions) -> String {
    let mark = if file.deleted { "  (deleted)" } else { "" };
    format!("{}{mark}", printable(file.path.as_bytes()))
}

/// A version of a file below a directory, as a line of JSON.
#[derive(Serialize)]
struct JsonVersion<'a> {
    path: &'a str,
    deleted: bool,
    #[serde(flatten)]
    kept: &'a KeptVersion,
}

impl<'a> JsonVersion<'a> {
    fn of(file: &'a FileVersions, kept: &'a KeptVersion) -> Self {
        Self { path: &file.path, deleted: file.deleted, kept }
    }
}

/// Passes the files below a directory to `each`, with the requests for changes of the files.
fn each_file(
    requests: &mut DirectoryRequests,
    all_files: bool,
    mut each: impl FnMut(&mut DirectoryRequests, &FileVersions) -> Result<()>,
) -> Result<()> {
    let mut after = String::new();
    loop {
        let page = requests.versions(all_files, &after)?;
        page.files.iter().try_for_each(|file| each(requests, file))?;
        match page.next {
            Some(next) if next != after => after = next,
            _ => return Ok(()),
        }
    }
}

/// Restores a version of a file, or the files below a directory.
pub(crate) fn restore(args: &RestoreArgs) -> Result<Exit> {
    let address = address_in_volume(&args.url)?;
    let credentials = credentials(&address, &args.login)?;
    if is_dir(&address) {
        return restore_below(args, &address, &credentials);
    }
    if args.delete {
        let why = "--delete: the URL names a file; end the URL of a directory with a slash";
        return Err(Misused(why.into()).into());
    }
    let version = match args.at {
        Some(at) => {
            let versions = address.versions(&credentials)?;
            let kept = version_at(&versions, at.time()).with_context(|| args.url.clone())?;
            let none = || format!("{}: no version was replaced or deleted since then", args.url);
            id_of(kept.with_context(none)?)?
        }
        None => args.version.unwrap_or_default(),
    };
    address.restore(&credentials, version)?;
    Ok(Exit::Success)
}

/// Returns the version that a file had at a time: the first one that was replaced or deleted later. `None` if no
/// version was replaced since that time.
///
/// # Errors
/// The server lists only versions that were replaced later.
fn version_at(versions: &[KeptVersion], time: i64) -> Result<Option<&KeptVersion>> {
    let is_later = |kept: &&KeptVersion| kept.replaced >= time;
    ensure!(
        versions.len() < MAX_LISTED_VERSIONS || !versions.iter().all(|kept| is_later(&kept)),
        "the newest {MAX_LISTED_VERSIONS} versions are all younger; name an older one by --version"
    );
    // Times are whole seconds; the names of versions are in order within a second too.
    let later = versions.iter().filter(is_later);
    Ok(later.min_by_key(|kept| id_of(kept).unwrap_or(u64::MAX)))
}

/// Most versions of a file that a server lists, the newest ones.
const MAX_LISTED_VERSIONS: usize = 1_000;

fn id_of(kept: &KeptVersion) -> Result<u64> {
    kept.version.parse().context("the server listed a version whose name is no number")
}

/// Restores every file below a directory to its version at a time.
fn restore_below(args: &RestoreArgs, address: &Address, credentials: &Credentials) -> Result<Exit> {
    let Some(at) = args.at else {
        let why = format!("{}: a directory has no versions; give a time by --at", args.url);
        return Err(Misused(why).into());
    };
    let time = at.time();
    let (mut restored, mut status) = (RestoredFiles::default(), StatusLine::new());
    let mut requests = DirectoryRequests::new(address, credentials)?;
    each_file(&mut requests, args.delete, |requests, file| {
        let step = RestoreStep::of(file, time, args.delete);
        let done = step.and_then(|step| restored.perform(requests, file, step));
        match done {
            Err(error) if is_final(&error) => return Err(error),
            Err(error) => {
                restored.failed += 1;
                status.clear();
                let path = printable(file.path.as_bytes());
                output::complain(&format!("{path}: {}", output::words(&error)), None);
            }
            Ok(()) => {}
        }
        status.show(|| restored.summary());
        Ok(())
    })?;
    status.clear();
    let mut output = Output::stdout();
    output.line(restored.summary());
    output.finish()?;
    Ok(if restored.failed > 0 { Exit::Partial } else { Exit::Success })
}

/// True for an error that every later request would meet too. A busy server was waited for.
fn is_final(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<SyncError>();
    error.is_some_and(|error| !matches!(error, SyncError::SelectionThere(_)))
}

/// A step that restores a file to its version at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RestoreStep {
    /// Restore the version with this name.
    Restore(u64),
    /// Delete a file that did not exist then.
    Delete,
    /// Leave a file that did not exist then.
    LeaveYounger,
    /// Leave a file that was not replaced since then.
    LeaveUnchanged,
    /// Leave a file that existed neither then nor now.
    LeaveDeleted,
}

impl RestoreStep {
    fn of(file: &FileVersions, time: i64, deletes: bool) -> Result<Self> {
        let is_younger = |created: Option<i64>| created.is_some_and(|created| created > time);
        let (existed, old) = match version_at(&file.versions, time)? {
            Some(kept) => (!is_younger(kept.created), Some(kept)),
            None => (!is_younger(file.created), None),
        };
        Ok(match (existed, old, file.deleted) {
            (true, Some(kept), _) => Self::Restore(id_of(kept)?),
            (true, None, false) => Self::LeaveUnchanged,
            (_, _, true) => Self::LeaveDeleted,
            (false, _, false) if deletes => Self::Delete,
            (false, _, false) => Self::LeaveYounger,
        })
    }
}

/// Numbers of files that a restore of a directory changed and left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct RestoredFiles {
    restored: u64,
    unchanged: u64,
    younger: u64,
    deleted: u64,
    failed: u64,
}

impl RestoredFiles {
    fn perform(
        &mut self,
        requests: &mut DirectoryRequests,
        file: &FileVersions,
        step: RestoreStep,
    ) -> Result<()> {
        let count = match step {
            RestoreStep::Restore(version) => match requests.restore(file, version)? {
                true => &mut self.restored,
                false => &mut self.unchanged,
            },
            RestoreStep::Delete => {
                requests.delete(file)?;
                &mut self.deleted
            }
            RestoreStep::LeaveYounger => &mut self.younger,
            RestoreStep::LeaveUnchanged => &mut self.unchanged,
            RestoreStep::LeaveDeleted => return Ok(()),
        };
        *count += 1;
        Ok(())
    }

    fn summary(&self) -> String {
        let Self { restored, unchanged, younger, deleted, failed } = self;
        format!(
            "{} restored, {unchanged} unchanged, {younger} younger left, {deleted} deleted, {failed} failed",
            counted(*restored, "file")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_becomes_what_it_was_and_a_younger_one_is_left() {
        let kept = |id: u64, created, replaced| KeptVersion {
            version: id.to_string(),
            replaced,
            bytes: 1,
            created,
            change: None,
        };
        let file = |deleted, created, versions: &[KeptVersion]| {
            let (path, versions) = ("a".into(), versions.to_vec());
            FileVersions { path, escaped: None, deleted, created, versions }
        };
        let old = [kept(30, Some(20), 30), kept(20, Some(10), 20), kept(10, None, 10)];
        let step =
            |file: &FileVersions, time, deletes| RestoreStep::of(file, time, deletes).unwrap();
        let replaced = file(false, Some(30), &old);
        assert_eq!(step(&replaced, 5, true), RestoreStep::Restore(10));
        assert_eq!(step(&replaced, 20, true), RestoreStep::Restore(20));
        assert_eq!(step(&replaced, 25, true), RestoreStep::Restore(30));
        assert_eq!(step(&replaced, 31, true), RestoreStep::LeaveUnchanged);
        let deleted = file(true, None, &old);
        assert_eq!(step(&deleted, 25, false), RestoreStep::Restore(30));
        assert_eq!(step(&deleted, 31, true), RestoreStep::LeaveDeleted);
        // Born at 20, and before that there was no such file.
        let young = file(false, Some(30), &old[..1]);
        assert_eq!(step(&young, 15, false), RestoreStep::LeaveYounger);
        assert_eq!(step(&young, 15, true), RestoreStep::Delete);
        let never_replaced = file(false, Some(30), &[]);
        assert_eq!(step(&never_replaced, 15, true), RestoreStep::Delete);
        assert_eq!(step(&never_replaced, 35, true), RestoreStep::LeaveUnchanged);
        let unknown = file(false, None, &[]);
        assert_eq!(step(&unknown, 15, true), RestoreStep::LeaveUnchanged);
    }
}
