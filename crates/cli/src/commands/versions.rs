//! `deltic versions` and `deltic restore`: list and restore old versions that a server keeps.

use anyhow::{Context, Result, ensure};
use deltic_serve::client::{
    Address, Credentials, DirectoryRequests, FailedFile, FileVersions, FileVersionsPage,
    KeptVersion, KnownChange, RestoredPage,
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
        list_below(&address, &credentials, args.json, &mut output)?;
        return Ok(output.finish()?);
    }
    for kept in address.versions(&credentials)? {
        output.line(if args.json { serde_json::to_string(&kept)? } else { line_shown(&kept) });
    }
    Ok(output.finish()?)
}

/// Prints the versions of the files below a directory.
fn list_below(
    address: &Address,
    credentials: &Credentials,
    is_json: bool,
    output: &mut Output,
) -> Result<()> {
    let mut requests = DirectoryRequests::new(address, credentials)?;
    let mut after = String::new();
    loop {
        let FileVersionsPage { files, next } = requests.versions(&after)?;
        for file in &files {
            for kept in &file.versions {
                output.line(match is_json {
                    true => serde_json::to_string(&JsonVersion::of(file, kept))?,
                    false => file_line_shown(file, kept),
                });
            }
        }
        output.flush();
        match next_page(&after, next) {
            Some(next) => after = next,
            None => return Ok(()),
        }
    }
}

/// Returns the place where the next page begins, if that lies behind the beginning of the page `after`: a server that
/// lists files again has no more pages.
fn next_page(after: &str, next: Option<String>) -> Option<String> {
    next.filter(|next| after.is_empty() || next.split('/').gt(after.split('/')))
}

/// True if the address names a directory: the volume, or a path that ends in a slash.
fn is_dir(address: &Address) -> bool {
    address.path.is_empty() || address.path.ends_with(b"/")
}

/// Returns a version of a file as a line for people.
fn line_shown(kept: &KeptVersion) -> String {
    format!("{}{}", version_shown(kept), change_shown(kept))
}

/// Returns a version of a file below a directory as a line for people.
fn file_line_shown(file: &FileVersions, kept: &KeptVersion) -> String {
    format!("{}  {}{}", version_shown(kept), path_shown(file), change_shown(kept))
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
    let moment = u64::try_from(at.time()).unwrap_or_default();
    let (mut all, mut status) = (RestoredFiles::default(), StatusLine::new());
    let mut requests = DirectoryRequests::new(address, credentials)?;
    let mut after = String::new();
    loop {
        let page = requests.restore(moment, args.delete, &after)?;
        all.add(&page);
        for FailedFile { path, detail } in &page.failed {
            status.clear();
            let (path, detail) = (printable(path.as_bytes()), printable(detail.as_bytes()));
            output::complain(&format!("{path}: {detail}"), None);
        }
        status.show(|| all.summary());
        match next_page(&after, page.next) {
            Some(next) => after = next,
            None => break,
        }
    }
    status.clear();
    let mut output = Output::stdout();
    output.line(all.summary());
    output.finish()?;
    Ok(if all.failed > 0 { Exit::Partial } else { Exit::Success })
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
    fn add(&mut self, page: &RestoredPage) {
        self.restored = self.restored.saturating_add(page.restored);
        self.unchanged = self.unchanged.saturating_add(page.unchanged);
        self.younger = self.younger.saturating_add(page.younger);
        self.deleted = self.deleted.saturating_add(page.deleted);
        self.failed += page.failed.len() as u64;
    }

    fn summary(&self) -> String {
        let Self { restored, unchanged, younger, deleted, failed } = self;
        format!(
            "{} restored, {unchanged} unchanged, {younger} younger left, {deleted} deleted, {failed} failed",
            counted(*restored, "file")
        )
    }
}
