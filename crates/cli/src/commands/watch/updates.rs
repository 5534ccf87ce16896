//! Rounds of files that were edited, by updates in one message each: over a connection that stays, and with what is
//! known of the files since they were last synced. What does not fit is for a session, as any other round.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use deltic_net::plan::{Destination, Plan};
use deltic_net::watch::Round;
use deltic_net::{Outcome, SyncError, User};
use deltic_protocol::options::{
    Compare, Links, Metadata, Options, Remove, Select, Window, Writing,
};
use deltic_protocol::report::{Action, Change, Differs, EntryType, Facts, Notice, Totals};
use deltic_serve::client::{Address, Local, Updated, Updating};
use deltic_tree::{RelPath, Timestamp};

use crate::args::server::LoginArgs;
use crate::plan::server::credentials;

/// Most files of a round that are remembered.
const MOST_FILES: usize = 256;

/// Updates for the rounds of a watch.
pub(super) struct Updates {
    server: Updating,
    /// The directory of the files in the volume.
    dir: RelPath,
    options: Options,
}

impl Updates {
    /// Updates for the watch of this plan, if they fit it.
    ///
    /// # Errors
    /// Where there is no token, or no thread.
    pub(super) fn new(plan: &Plan, login: &LoginArgs) -> Result<Option<Self>> {
        let Destination::Remote { host, path } = &plan.destination else { return Ok(None) };
        if !Address::looks_like(host.as_bytes()) || !fit(&plan.options) || plan.bwlimit.is_some() {
            return Ok(None);
        }
        let address: Address = host.parse()?;
        let credentials = credentials(&address, login)?;
        let path = path.as_encoded_bytes();
        let start = path.iter().take_while(|byte| **byte == b'/').count();
        let end = path.iter().rev().take_while(|byte| **byte == b'/').count();
        let dir = path.get(start..path.len() - end.min(path.len() - start)).unwrap_or_default();
        let Ok(dir) = RelPath::parse(dir) else { return Ok(None) };
        let server = Updating::new(address, credentials)?;
        Ok(Some(Self { server, dir, options: plan.options.clone() }))
    }

    /// Runs a round's plan, or makes updates in its place.
    ///
    /// # Errors
    /// As of any run.
    pub(super) fn run(
        &mut self,
        round: &Round,
        (plan, user): (Plan, &User),
        hear: &mut (dyn FnMut(Notice) + Send),
    ) -> Result<Outcome, SyncError> {
        let begun = Instant::now();
        let mut done = Outcome::default();
        let files = round.files().filter(|files| !files.is_empty());
        if files.is_some_and(|files| self.update_all(round, &files, (&mut done, hear))) {
            hear(Notice::Finished(done.totals));
            return Ok(Outcome { elapsed: begun.elapsed(), ..done });
        }
        let mut changed = Vec::new();
        let result = deltic_net::run(plan, user, &mut |notice| {
            match &notice {
                Notice::Changed(change) if is_new_content(change) => {
                    changed.truncate(MOST_FILES);
                    changed.push(change.path.clone());
                }
                _ => {}
            }
            hear(match notice {
                Notice::Finished(totals) => Notice::Finished(sum(totals, &done.totals)),
                notice => notice,
            });
        });
        let mut outcome = result?;
        if round.names.is_some() {
            changed.iter().for_each(|path| self.remember(round, path));
        }
        outcome.totals = sum(outcome.totals, &done.totals);
        outcome.traffic.sent += done.traffic.sent;
        outcome.traffic.received += done.traffic.received;
        Ok(outcome)
    }

    /// Updates files of a round until one does not fit; whether all did.
    fn update_all(
        &mut self,
        round: &Round,
        files: &[RelPath],
        (done, hear): (&mut Outcome, &mut (dyn FnMut(Notice) + Send)),
    ) -> bool {
        let there = |path: &RelPath| join(&self.dir, path);
        if !files.iter().all(|path| there(path).is_some_and(|path| self.server.knows(&path))) {
            return false;
        }
        files.iter().all(|path| {
            let Some(updated) = self.update(round, path) else { return false };
            let Updated { new, literal, traffic, .. } = updated;
            let totals = Totals {
                files: 1,
                bytes: new.len,
                transferred: 1,
                transferred_bytes: new.len,
                literal,
                matched: new.len - literal,
                ..Totals::default()
            };
            done.totals = sum(done.totals, &totals);
            done.traffic.sent += traffic.0;
            done.traffic.received += traffic.1;
            hear(Notice::Changed(change(path, &updated)));
            true
        })
    }

    fn update(&mut self, round: &Round, path: &RelPath) -> Option<Updated> {
        let (here, there) = (round.source_of(path)?, join(&self.dir, path)?);
        let sets_dir = self.options.times && !self.options.metadata.omit_dir_times;
        let dir_modified = here.parent().filter(|_| sets_dir).map(modified);
        let local = Local {
            path: &here,
            there: &there,
            times: self.options.times,
            modes: self.options.modes,
            dir_modified: dir_modified.map_or(Some(None), |time| time.map(Some))?,
        };
        self.server.update(local)
    }

    fn remember(&mut self, round: &Round, path: &RelPath) {
        if let (Some(here), Some(there)) = (round.source_of(path), join(&self.dir, path)) {
            self.server.remember(&here, &there);
        }
    }
}

/// True where a session with these options would do no more for an edited file than an update does.
fn fit(options: &Options) -> bool {
    let Options {
        recursive: _,
        links: _,
        modes: _,
        times: _,
        checksum: _,
        delete: _,
        compress: _,
        compress_level: _,
        durable: _,
        threads: _,
        streams: _,
        silence: _,
        tells_unchanged: _,
        whole_file,
        metadata,
        dry_run,
        tells_owners,
        tells_digests,
        strategy,
        block_bytes,
        rules,
        follow,
        remove,
        select,
        compare,
        writing,
    } = options;
    let is_plain = carries_plainly(metadata)
        && *follow == Links::default()
        && *select == Select { mkpath: select.mkpath, ..Select::default() }
        && *writing == Writing::default();
    let Remove { force, ignore_errors, asks, .. } = *remove;
    let removes = Remove { force, ignore_errors, asks, ..Remove::default() };
    let Compare { cached, max_age_secs, .. } = *compare;
    let window = Window::default();
    let compares = Compare { cached, max_age_secs, window, ..Compare::default() };
    let says_more = *tells_owners || *tells_digests;
    let is_own_way =
        !whole_file && *strategy == Options::default().strategy && block_bytes.is_none();
    is_plain
        && is_own_way
        && !says_more
        && !dry_run
        && rules.list.is_empty()
        && *remove == removes
        && *compare == compares
}

/// True where an edited file gets no more than its time and mode.
fn carries_plainly(metadata: &Metadata) -> bool {
    let Metadata { devices, specials, users, groups, omit_dir_times, omit_link_times, .. } =
        *metadata;
    let plain = Metadata {
        devices,
        specials,
        users,
        groups,
        omit_dir_times,
        omit_link_times,
        numeric_ids: metadata.numeric_ids,
        powers: metadata.powers,
        ..Metadata::default()
    };
    *metadata == plain
}

/// True for a file whose content came.
fn is_new_content(change: &Change) -> bool {
    change.item == EntryType::File && matches!(change.action, Action::Created | Action::Updated)
}

fn join(dir: &RelPath, path: &RelPath) -> Option<RelPath> {
    match dir.is_root() {
        true => Some(path.clone()),
        false => RelPath::parse(&[dir.as_bytes(), b"/", path.as_bytes()].concat()).ok(),
    }
}

fn modified(dir: &Path) -> Option<Timestamp> {
    let meta = fs::metadata(dir).ok()?;
    Some(Timestamp { secs: meta.mtime(), nanos: meta.mtime_nsec() as u32 })
}

fn change(path: &RelPath, updated: &Updated) -> Change {
    let Updated { old, new, literal, .. } = *updated;
    let differs = Differs {
        size: old.len != new.len,
        time: old.modified != new.modified,
        mode: old.mode != new.mode,
        ..Differs::default()
    };
    let facts =
        Facts { len: new.len, modified: new.modified, mode: new.mode, literal, ..Facts::default() };
    Change { path: path.clone(), item: EntryType::File, action: Action::Updated, differs, facts }
}

/// Counts of what was done in two ways. What was listed twice is one.
fn sum(mut totals: Totals, done: &Totals) -> Totals {
    totals.files = totals.files.max(done.files);
    totals.bytes = totals.bytes.max(done.bytes);
    totals.transferred += done.transferred;
    totals.transferred_bytes += done.transferred_bytes;
    totals.literal += done.literal;
    totals.matched += done.matched;
    totals
}
