//! Updates of edited files: one message a file, over a kept connection, from facts remembered since the last sync.
//!
//! Rounds that do not fit run as a session.

use std::path::{Component, Path};
use std::time::{Duration, Instant};

use anyhow::Result;
use deltic_net::plan::{Destination, Plan};
use deltic_net::watch::Round;
use deltic_net::{Outcome, SyncError, User};
use deltic_protocol::options::{
    Compare, Links, Metadata, Options, Remove, Select, Window, Writing,
};
use deltic_protocol::report::{Action, Change, Differs, EntryType, Facts, Notice, Totals};
use deltic_serve::client::{Address, Local, Updated, Updating};
use deltic_tree::{Name, RelPath};

use crate::args::server::LoginArgs;
use crate::plan::server::{address_of, credentials};

/// Most files updated in a round, one after the other.
const MOST_FILES: usize = 8;
/// Longest time for the updates of a round. With a slower server, a session does the rest.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Most bytes, of all files together, remembered after a round. Remembering reads each file again.
const MOST_BYTES: u64 = 64 << 20;

/// Updates of edited files for the rounds of a watch.
pub(super) struct EditedFiles {
    server: Updating,
    /// The destination directory in the volume.
    dir: RelPath,
    /// True if files get their modes at the destination.
    modes: bool,
    /// True if directories get their times at the destination; files always do.
    dir_times: bool,
}

impl EditedFiles {
    /// Connects for the watch of this plan; `None` if the plan does not allow updates.
    ///
    /// # Errors
    /// If there is no token, or no thread can be started.
    pub(super) fn new(plan: &Plan, login: &LoginArgs) -> Result<Option<Self>> {
        let Destination::Remote { host, path } = &plan.destination else { return Ok(None) };
        let is_limited = !plan.limits.are_none();
        if !Address::looks_like(host.as_bytes()) || !fit(&plan.options) || is_limited {
            return Ok(None);
        }
        let address = address_of(host)?;
        let credentials = credentials(&address, login)?;
        let Some(dir) = dir_of(Path::new(path)) else { return Ok(None) };
        let server = Updating::new(address, credentials)?;
        let Options { modes, metadata, .. } = &plan.options;
        Ok(Some(Self { server, dir, modes: *modes, dir_times: !metadata.omit_dir_times }))
    }

    /// Makes the updates of a round, or runs the round's plan as a session.
    ///
    /// # Errors
    /// Errors of the session.
    pub(super) fn run(
        &mut self,
        round: &Round,
        plan: Plan,
        user: &User,
        hear: &mut (dyn FnMut(Notice) + Send),
    ) -> Result<Outcome, SyncError> {
        let begun = Instant::now();
        let mut done = Outcome::default();
        let few = |files: &Vec<RelPath>| (1..=MOST_FILES).contains(&files.len());
        let files = round.changed_files().filter(few);
        if files.is_some_and(|files| self.update_all(round, &files, &mut done, hear)) {
            hear(Notice::Finished(done.totals));
            return Ok(Outcome { elapsed: begun.elapsed(), ..done });
        }
        let (mut changed, mut left) = (Vec::new(), MOST_BYTES);
        let result = deltic_net::run(plan, user, &mut |notice| {
            match &notice {
                Notice::Changed(change) if is_new_content(change) && change.facts.len <= left => {
                    left -= change.facts.len;
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

    /// Updates the files of a round up to the first that does not fit. True if all were updated.
    fn update_all(
        &mut self,
        round: &Round,
        files: &[RelPath],
        done: &mut Outcome,
        hear: &mut (dyn FnMut(Notice) + Send),
    ) -> bool {
        let there = |path: &RelPath| join(&self.dir, path);
        if !files.iter().all(|path| there(path).is_some_and(|path| self.server.knows(&path))) {
            return false;
        }
        let begun = Instant::now();
        files.iter().all(|path| {
            if begun.elapsed() > TIMEOUT {
                return false;
            }
            let Some(updated) = self.update(round, path) else { return false };
            if updated.is_nothing() {
                return true;
            }
            let Updated { new, literal, traffic, .. } = updated;
            let totals = &mut done.totals;
            totals.files += 1;
            totals.bytes += new.len;
            totals.transferred += 1;
            totals.transferred_bytes += new.len;
            totals.literal += literal;
            totals.matched += new.len - literal;
            done.traffic.sent += traffic.0;
            done.traffic.received += traffic.1;
            hear(Notice::Changed(change(path, &updated)));
            true
        })
    }

    fn update(&mut self, round: &Round, path: &RelPath) -> Option<Updated> {
        let (root, there) = (round.source_of_root(path)?, join(&self.dir, path)?);
        self.server.update(Local {
            root: &root,
            path,
            there: &there,
            times: true,
            modes: self.modes,
            dir_times: self.dir_times,
        })
    }

    fn remember(&mut self, round: &Round, path: &RelPath) {
        if let (Some(root), Some(there)) = (round.source_of_root(path), join(&self.dir, path)) {
            self.server.remember(&root, path, &there);
        }
    }
}

/// Returns the directory in a volume that a destination's path names.
fn dir_of(path: &Path) -> Option<RelPath> {
    let mut dir = RelPath::root();
    for part in path.components() {
        match part {
            Component::RootDir | Component::CurDir => {}
            Component::Normal(name) => {
                dir = dir.join(&Name::new(name.as_encoded_bytes()).ok()?).ok()?;
            }
            Component::ParentDir | Component::Prefix(_) => return None,
        }
    }
    Some(dir)
}

/// True if an update does all that a session with these options would do for an edited file.
fn fit(options: &Options) -> bool {
    let Options {
        recursive: _,
        links: _,
        modes: _,
        times,
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
    // Without `--times`, the new file has the time of the update, and the next update finds no basis.
    *times
        && is_plain
        && is_own_way
        && !says_more
        && !dry_run
        && rules.list.is_empty()
        && *remove == removes
        && *compare == compares
}

/// True if the options preserve no attributes of an edited file except its time and mode.
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

/// True for a file with transferred content.
fn is_new_content(change: &Change) -> bool {
    change.item == EntryType::File && matches!(change.action, Action::Created | Action::Updated)
}

fn join(dir: &RelPath, path: &RelPath) -> Option<RelPath> {
    match dir.is_root() {
        true => Some(path.clone()),
        false => RelPath::parse(&[dir.as_bytes(), b"/", path.as_bytes()].concat()).ok(),
    }
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

/// Adds the counts of files updated before a session. The session lists these files too.
fn sum(mut totals: Totals, done: &Totals) -> Totals {
    totals.transferred += done.transferred;
    totals.transferred_bytes += done.transferred_bytes;
    totals.literal += done.literal;
    totals.matched += done.matched;
    totals
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destination_is_a_directory_of_its_volume() {
        let dir = |path: &str| dir_of(Path::new(path));
        for path in [".", "/", "", "./"] {
            assert_eq!(dir(path), Some(RelPath::root()), "{path}");
        }
        for path in ["a/b", "/a/b/", "a//./b"] {
            assert_eq!(dir(path).unwrap().as_bytes(), b"a/b", "{path}");
        }
        assert_eq!(dir("a/../b"), None);
    }
}
