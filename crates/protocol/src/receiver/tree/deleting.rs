//! Deletion of destination names that are not listed: once the list is complete, and within the limits.

use std::collections::BTreeMap;

use deltic_tree::RelPath;
use deltic_tree::rule::Rule;

use crate::error::PeerError;
use crate::limits::MAX_ASKED;
use crate::message::ToSender;
use crate::options::{Delete, Guard, Options};
use crate::receiver::ask::{Extra, LookupWork, ReceiverWork, RemovedNames, UnlistedNames};
use crate::receiver::context::Context;
use crate::receiver::files::candidate::FileCandidate;
use crate::receiver::pending::TreePending;
use crate::report::{
    Action, Change, Differs, EntryType, Facts, Question, Side, Trouble, TroubleKind,
};

use super::extras::{ExtraNames, NameCursor};
use super::new_files::NewFiles;
use super::removal::{NO_LIMIT, NameRemoval};

/// Maximum number of counted names that are being removed at once. A directory counts as at most [`LARGE`] names,
/// because its listing is held during the removal.
const REMOVALS_AT_ONCE: usize = 256;
const LARGE: usize = 32;
/// Maximum number of uncounted names that one step may remove.
const MORE_AT_ONCE: u64 = 256;

/// The names to be deleted, and the limits of deletion.
#[derive(Debug, Default)]
pub(super) struct PendingDeletions {
    /// Destination names that are not listed. `removing` is true while they are removed; `out` is the weight of the
    /// removals under way.
    extras: ExtraNames,
    removing: bool,
    out: usize,
    /// Number of failed files that deletions need not wait for: sources that vanished or kept changing, and files
    /// that found no room.
    pub(super) excused: u64,
    /// Progress of the second count.
    recounted: NameCursor,
    /// New files. `compared` is the progress of comparing names to be removed with new files; `moved` counts the names
    /// that only moved.
    new: NewFiles,
    compared: NameCursor,
    moved: u64,
    /// Number of names that may be removed in addition to the counted names.
    spare: u64,
    /// Number of names that may still be removed, if `--max-delete` does not allow all.
    ration: Option<u64>,
    /// Number of names removed because a new entry takes their place. These names count as deletions.
    cleared: u64,
    /// True while the user is asked about deletions.
    pub(super) asked: bool,
    /// Empty sources, each with the number of names that stay. A source may be empty because it is not mounted.
    empty: BTreeMap<RelPath, u64>,
    /// Number of names in the list, once deletions begin.
    known: u64,
    /// True in a dry run that only reports names because a real run would delete none.
    names_only: bool,
}

impl PendingDeletions {
    /// True while names remain to be removed.
    pub(super) const fn has_names_to_remove(&self) -> bool {
        self.removing && !self.extras.is_empty()
    }

    /// Counts names that are removed for new entries in their place. Returns false and counts no names if the total
    /// would exceed `most`.
    pub(super) fn count_cleared(&mut self, names: u64, most: u64) -> bool {
        let cleared = self.cleared + names;
        let fits = cleared <= most;
        if fits {
            self.cleared = cleared;
        }
        fits
    }

    /// Counts further names that may be removed for new entries: up to a total of `most`, at most `MORE_AT_ONCE`
    /// more. Returns the number of names.
    pub(super) fn grant_cleared(&mut self, most: u64) -> u64 {
        let more = most.saturating_sub(self.cleared).min(MORE_AT_ONCE);
        self.cleared += more;
        more
    }

    /// Uncounts names that were not removed after all.
    pub(super) fn uncount_cleared(&mut self, names: u64) {
        self.cleared = self.cleared.saturating_sub(names);
    }

    /// Grants the removal of up to `names` names. Returns the number granted, and true if `ration` limits the number.
    fn grant_removal(&mut self, names: u64) -> (u64, bool) {
        let Some(ration) = &mut self.ration else { return (names, false) };
        let granted = names.min(*ration);
        *ration -= granted;
        (granted, true)
    }

    /// Number of names to be removed in all, including names that were removed for new entries.
    const fn removal_count(&self) -> u64 {
        self.extras.names().saturating_add(self.cleared)
    }
}

/// Returns the maximum number of names that may be removed, given `listed` names in the list and `deletion_count` names
/// to be removed.
///
/// If the list is empty, no name may be removed unless there is no limit: the source may not be mounted.
fn max_deletions(delete: Delete, listed: u64, deletion_count: u64) -> u64 {
    match delete {
        Delete::Never => 0,
        Delete::AtMost(NO_LIMIT) => NO_LIMIT,
        _ if listed == 0 => 0,
        Delete::AtMost(most) => most,
        Delete::Guarded(guard) => guard.max_deletions(listed.saturating_add(deletion_count)),
    }
}

/// Returns the words that mark the effect of a real run in messages of a dry run.
const fn dry_run_words(options: &Options) -> &'static str {
    if options.dry_run { "without -n " } else { "" }
}

/// Returns the empty source that is or contains `dir`, if there is one.
fn empty_source_above(empty: &BTreeMap<RelPath, u64>, dir: &RelPath) -> Option<RelPath> {
    let mut at = dir.clone();
    while !empty.contains_key(&at) {
        at = at.split_last()?.0;
    }
    Some(at)
}

impl PendingDeletions {
    /// Adds an empty source. Names in the same place at the destination stay.
    pub(super) fn add_empty_source(&mut self, dir: RelPath) {
        self.empty.insert(dir, 0);
    }

    /// Takes names of `dir` that are not listed, and requests the remaining names.
    pub(super) fn take_unlisted_names(
        &mut self,
        cx: &mut Context,
        dir: RelPath,
        unlisted: Result<UnlistedNames, Trouble>,
    ) {
        let UnlistedNames { extras, rest, warnings } = match unlisted {
            Ok(unlisted) => unlisted,
            Err(trouble) => return cx.count_failure(trouble),
        };
        warnings.into_iter().for_each(|warning| cx.send_trouble(warning));
        let dry_run = cx.setting.options.dry_run;
        let Self { extras: all_extras, empty, .. } = self;
        let mut staying = empty_source_above(empty, &dir).and_then(|source| empty.get_mut(&source));
        for Extra { name, names } in extras {
            let Ok(path) = dir.join(&name) else { continue };
            if let Some(staying) = &mut staying {
                **staying = staying.saturating_add(names);
            }
            // A dry run reports a staying name all the same.
            if staying.is_none() || dry_run {
                all_extras.push(&path, names);
                all_extras.remove_from_count(if staying.is_some() { names } else { 0 });
            }
        }
        if let Some(rest) = rest {
            let more = ReceiverWork::Lookup(LookupWork::Extra {
                dir: dir.clone(),
                keep: None,
                rest: Some(rest),
            });
            cx.request_work(more, TreePending::Extra(dir));
        }
    }

    /// Removes the names that are not listed, unless errors or limits forbid it.
    pub(super) fn delete(&mut self, cx: &mut Context, intact: bool, known: u64) {
        self.known = known;
        let stay = self.empty.values().any(|names| *names > 0);
        if self.extras.is_empty() && !stay {
            return;
        }
        let whole = intact && cx.totals.failed == cx.partial_meta.names + self.excused;
        if !whole && !cx.setting.options.remove.ignore_errors {
            let why = match intact {
                true => "not everything arrived",
                false => "the source could not be listed in full",
            };
            let message = format!("nothing deleted: {why}; use --ignore-errors to delete anyway");
            return cx.count_failure(Trouble::new(TroubleKind::Failed, message));
        }
        self.hold_back_empty(cx);
        if self.extras.is_empty() {
            return;
        }
        let Options { rules, follow, select, .. } = &cx.setting.options;
        let brings_rules = |rule: &Rule| matches!(rule, Rule::DirMerge(_));
        let keeps_links = follow.keep_dirs || select.plain_implied_dirs;
        let may_spare = keeps_links || rules.list.iter().any(brings_rules);
        if self.exceeds_limit(cx) && !cx.setting.options.dry_run && may_spare {
            return self.request_recount(cx);
        }
        self.delete_within_limits(cx);
    }

    /// Counts the names to be removed again: this run may have brought rules files, and may treat symlinks as
    /// directories.
    fn request_recount(&mut self, cx: &mut Context) {
        let Self { out, extras, recounted, .. } = self;
        while *out < REMOVALS_AT_ONCE
            && let Some((path, names)) = extras.next_unseen(recounted)
        {
            *out += 1;
            cx.request_work(
                ReceiverWork::Lookup(LookupWork::Count { path, gives_way: false }),
                TreePending::CountGoing(names),
            );
        }
        if *out == 0 {
            self.delete_within_limits(cx);
        }
    }

    /// Takes the second count of a name: `now` of `names` names are to be removed.
    pub(super) fn take_recount(&mut self, cx: &mut Context, names: u64, now: u64) {
        let now = now.min(names);
        self.out -= 1;
        self.extras.remove_from_count(names - now);
        self.request_recount(cx);
    }

    /// Number of names that count for the limits. A guard does not count names that only moved.
    fn deletion_count(&self) -> u64 {
        self.removal_count().saturating_sub(self.moved)
    }

    fn max_deletions(&self, cx: &Context) -> u64 {
        max_deletions(cx.setting.options.delete, self.known, self.deletion_count())
    }

    fn exceeds_limit(&self, cx: &Context) -> bool {
        self.deletion_count() > self.max_deletions(cx)
    }

    fn delete_within_limits(&mut self, cx: &mut Context) {
        if self.exceeds_limit(cx) && self.request_moved_count(cx) {
            return;
        }
        let is_empty = self.known == 0;
        match cx.setting.options.delete {
            _ if !self.exceeds_limit(cx) => self.remove_all(cx),
            Delete::AtMost(most) if !is_empty => self.remove_some(cx, most),
            _ if cx.setting.options.dry_run => {
                self.report_held_back(cx);
                self.names_only = true;
                self.remove_all(cx);
            }
            _ if cx.setting.options.may_ask_before_deleting() && !is_empty => self.ask_user(cx),
            _ => self.report_held_back(cx),
        }
    }

    /// Notes a new file that arrived, or would arrive in a dry run. If a name to be removed is a file with the same
    /// length and time, the guard counts the name as moved.
    pub(super) fn note_new_file(
        &mut self,
        cx: &mut Context,
        FileCandidate { meta, old, .. }: &FileCandidate,
    ) {
        if old.is_none() && matches!(cx.setting.options.delete, Delete::Guarded(_)) {
            self.new.add(meta);
        }
    }

    /// Compares more names to be removed with new files. Returns false if no names or no new files are left.
    fn request_moved_count(&mut self, cx: &mut Context) -> bool {
        let Self { extras, compared, new, .. } = self;
        if new.is_empty() {
            return false;
        }
        let next = std::iter::from_fn(|| extras.next_unseen(compared)).map(|(path, _)| path);
        let paths: Vec<_> = next.take(REMOVALS_AT_ONCE).collect();
        if paths.is_empty() {
            return false;
        }
        let new = Box::new(std::mem::take(new));
        cx.request_work(
            ReceiverWork::Lookup(LookupWork::CountMoved { paths, new }),
            TreePending::CountMoved,
        );
        true
    }

    pub(super) fn take_moved_count(&mut self, cx: &mut Context, files: u64, new: NewFiles) {
        self.moved = self.moved.saturating_add(files);
        self.new = new;
        self.delete_within_limits(cx);
    }

    fn remove_all(&mut self, cx: &mut Context) {
        self.removing = true;
        self.spare = self.max_deletions(cx).saturating_sub(self.deletion_count());
        self.remove_more(cx);
    }

    /// Removes names up to the limit.
    fn remove_some(&mut self, cx: &mut Context, most: u64) {
        let (names, would) = (self.removal_count(), dry_run_words(&cx.setting.options));
        let stay = names.saturating_sub(most);
        let message = format!(
            "{would}deletions stop at --max-delete={most}: {stay} of {names} names to be removed stay"
        );
        cx.send_trouble(Trouble::new(TroubleKind::DeleteLimit, message));
        self.removing = true;
        self.ration = Some(most.saturating_sub(self.cleared));
        self.remove_more(cx);
    }

    /// Removes more of the names, as many at once as allowed.
    pub(super) fn remove_more(&mut self, cx: &mut Context) {
        while self.removing
            && self.out < REMOVALS_AT_ONCE
            && self.ration != Some(0)
            && let Some((path, names)) = self.extras.next()
        {
            let (names, is_rationed) = self.grant_removal(names);
            self.remove_granted(cx, path, names, is_rationed);
        }
        // A removal that falls short gives its part of the ration back.
        if self.ration == Some(0) && self.out == 0 {
            self.removing = false;
        }
    }

    /// Removes a path and everything below, up to `names` names. A dry run only reports the names.
    pub(super) fn remove_path(&mut self, cx: &mut Context, path: RelPath, names: u64) {
        self.remove_granted(cx, path, names, false);
    }

    fn remove_granted(&mut self, cx: &mut Context, path: RelPath, names: u64, is_rationed: bool) {
        let weight = usize::try_from(names).map_or(LARGE, |names| names.clamp(1, LARGE));
        self.out += weight;
        self.request_removal(
            cx,
            NameRemoval { path, gives_way: false, weight, names, is_rationed },
        );
    }

    fn request_removal(&mut self, cx: &mut Context, removal: NameRemoval) {
        let dry_run = cx.setting.options.dry_run;
        let most = if dry_run && !removal.is_rationed { NO_LIMIT } else { removal.names };
        cx.request_work(removal.work(dry_run, most), TreePending::Remove(removal));
    }

    /// Reports the names that stay in the places of empty sources.
    fn hold_back_empty(&self, cx: &mut Context) {
        for (source, &names) in &self.empty {
            let (of, below) = match source.is_root() {
                true => ("the source".into(), String::new()),
                false => (format!("the source {source}"), format!(" in {source}")),
            };
            if names > 0 {
                report_empty_source(cx, &below, &of, names);
            }
        }
    }

    /// Reports that all names to be removed stay.
    fn report_held_back(&mut self, cx: &mut Context) {
        let (names, listed) = (self.removal_count(), self.known);
        if listed == 0 {
            return report_empty_source(cx, "", "the source", names);
        }
        let (deletion_count, most) = (self.deletion_count(), self.max_deletions(cx));
        let besides = match self.moved {
            0 => String::new(),
            moved => format!(" besides {moved} that moved"),
        };
        let (there, hint) = match cx.setting.options.delete {
            // With a known number of names, a watch takes the answer itself.
            Delete::Guarded(Guard { names: Some(there), .. }) => (there, String::new()),
            _ => {
                let hint =
                    format!("; to delete anyway, use --max-delete {names} or --force-delete");
                (listed.saturating_add(deletion_count), hint)
            }
        };
        let would = format!("{deletion_count} of {there} names would be removed{besides}");
        let why = format!("{would} (limit {most}){hint}");
        cx.send_trouble(held_back_trouble(&cx.setting.options, "", &why));
    }

    /// Asks the user about deletions, at either end.
    fn ask_user(&mut self, cx: &mut Context) {
        let names = self.removal_count();
        let first = self.extras.first_paths(MAX_ASKED);
        // Every listed entry is in place by now.
        let question = Question { names, of: self.known.saturating_add(names), first };
        self.asked = true;
        if cx.setting.user_is_here {
            cx.request_work(ReceiverWork::Ask(question), TreePending::Ask);
        } else {
            cx.frames.push_back(ToSender::Ask(question));
        }
    }

    /// Takes the answer of a user at the other end. Errors: `Unexpected` if no question is open.
    pub(super) fn receive_user_answer(
        &mut self,
        cx: &mut Context,
        allowed: bool,
    ) -> Result<(), PeerError> {
        if cx.setting.user_is_here || !self.asked {
            return Err(PeerError::Unexpected("an answer without a question"));
        }
        self.take_user_answer(cx, allowed);
        Ok(())
    }

    pub(super) fn take_user_answer(&mut self, cx: &mut Context, allowed: bool) {
        self.asked = false;
        if allowed {
            return self.remove_all(cx);
        }
        self.report_held_back(cx);
    }

    pub(super) fn take_removal_result(
        &mut self,
        cx: &mut Context,
        mut removal: NameRemoval,
        removed: RemovedNames,
    ) {
        removal.subtract(&removed);
        let counted = cx.totals.deleted;
        report_removed(cx, &removal, removed.gone);
        if self.names_only || empty_source_above(&self.empty, &removal.path).is_some() {
            cx.totals.deleted = counted;
        }
        // Names that rules protect stay, as the user wishes.
        removed.troubles.into_iter().for_each(|trouble| cx.report_trouble(trouble));
        if removed.goes_on && self.may_remove_more(cx, &mut removal) {
            return self.request_removal(cx, removal);
        }
        self.out -= removal.weight;
        if removal.is_rationed {
            let ration = self.ration.get_or_insert_default();
            *ration = ration.saturating_add(removal.names);
        } else if removed.goes_on {
            cx.send_trouble(removal.new_names_trouble("delete"));
        }
    }

    /// True if a removal may delete more names: the rest of its count, or as many names as the limits leave.
    fn may_remove_more(&mut self, cx: &mut Context, removal: &mut NameRemoval) -> bool {
        if removal.names == 0 && !removal.is_rationed {
            removal.names = self.spare.min(MORE_AT_ONCE);
            self.spare -= removal.names;
        }
        removal.names > 0 || cx.setting.options.dry_run && !removal.is_rationed
    }
}

/// Reports names that went, or would go. A name that gives way is replaced, not deleted.
pub(super) fn report_removed(
    cx: &mut Context,
    removal: &NameRemoval,
    gone: Vec<(RelPath, EntryType)>,
) {
    let (action, differs) = (Action::Deleted, Differs::default());
    for (path, item) in gone {
        if !removal.gives_way || path != removal.path {
            cx.totals.deleted += 1;
            cx.report_change(Change { path, item, action, differs, facts: Facts::default() });
        }
    }
}

fn report_empty_source(cx: &mut Context, below: &str, source: &str, names: u64) {
    let would = if names == 1 { "name" } else { "names" };
    let why = format!("{source} is empty, and {names} {would} would be removed");
    let why = format!("{why}; to delete anyway, use --force-delete");
    let held = held_back_trouble(&cx.setting.options, below, &why);
    // The side of the trouble distinguishes an empty source from a limit.
    cx.send_trouble(held.at_side(Side::Sender));
}

/// Returns the trouble of names that stay, or would stay without the dry run. `below` tells the place of these names.
fn held_back_trouble(options: &Options, below: &str, why: &str) -> Trouble {
    let Options { dry_run, delete, .. } = options;
    let nothing = match dry_run {
        true => "a run without -n would delete nothing",
        false => "nothing deleted",
    };
    // A number from the user also decides the status of a dry run.
    let kind = match delete {
        Delete::Guarded(_) | Delete::Never if *dry_run => TroubleKind::Warned,
        _ => TroubleKind::DeleteLimit,
    };
    Trouble::new(kind, format!("{nothing}{below}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::GUARDED_DELETES;

    #[test]
    fn an_accident_takes_few_names_and_a_will_as_many_as_were_said() {
        let most = |guard, listed, deletion_count| {
            max_deletions(Delete::Guarded(guard), listed, deletion_count)
        };
        let default = Guard::default();
        assert_eq!(most(default, 0, 7), 0, "an empty source empties nothing");
        assert_eq!(most(default, 1, 7), GUARDED_DELETES);
        assert_eq!(
            most(default, 3 * GUARDED_DELETES + 6, GUARDED_DELETES + 2),
            GUARDED_DELETES + 2
        );
        assert_eq!(most(default, u64::MAX, 1), u64::MAX / 4);
        let of = |names| Guard { names: Some(names), ..default };
        assert_eq!(most(of(4 * GUARDED_DELETES + 8), 1, 1), GUARDED_DELETES + 2);
        assert_eq!(most(of(u64::MAX), 0, 1), 0);
        let share = |percent| Guard { percent: Some(percent), ..default };
        assert_eq!(most(share(25), 315, 302), 154);
        assert_eq!([0, 10, 100].map(|percent| most(share(percent), 5, 5)), [0, 1, 10]);
        assert_eq!(most(Guard { names: Some(50), ..share(10) }, 5, 5), 5);
        let at_most = |most, listed| max_deletions(Delete::AtMost(most), listed, 9);
        assert_eq!(max_deletions(Delete::Never, 100, 1), 0);
        assert_eq!([at_most(7, 1), at_most(7, 0)], [7, 0], "nor does a number");
        assert_eq!(at_most(NO_LIMIT, 0), NO_LIMIT);
    }

    #[test]
    fn names_that_make_way_count_as_deletions_and_those_that_may_not_do_not() {
        let mut deleting = PendingDeletions::default();
        assert!(deleting.count_cleared(3, 5));
        assert!(!deleting.count_cleared(3, 5));
        assert!(deleting.count_cleared(2, 5));
        assert_eq!(deleting.removal_count(), 5);
        // The second call covers names beyond the count of a directory.
        assert_eq!([deleting.grant_cleared(7), deleting.grant_cleared(7)], [2, 0]);
        deleting.uncount_cleared(1);
        assert_eq!(deleting.removal_count(), 6);
    }
}
