//! What is to go: names that stand here and not in the list, once the list is complete, and within the limits.

use std::collections::{BTreeMap, HashMap};

use deltic_tree::rule::Rule;
use deltic_tree::{Names, RelPath};

use crate::error::PeerError;
use crate::limits::MAX_ASKED;
use crate::message::{Extent, ToSender};
use crate::options::{Delete, Guard, Options};
use crate::report::{Action, Change, Differs, EntryType, Facts, Question, Trouble, TroubleKind};

use super::extras::{Extras, Taken};
use super::file::Candidate;
use super::new_files::NewFiles;
use super::sections::Section;
use super::{Extra, Place, Receiver, Removed, Unlisted, Work, ends};

/// Names that are being removed at once, as far as is known; directories of more count as much as [`LARGE`], for what is in
/// each is kept while it is being removed.
const REMOVALS_AT_ONCE: usize = 256;
const LARGE: usize = 32;
/// How many names that nobody counted may go in a step.
const MORE_AT_ONCE: u64 = 256;

/// What `--force-delete` allows.
pub(super) const NO_LIMIT: u64 = u64::MAX;

/// What is to go, as far as it is known.
#[derive(Debug, Default)]
pub(super) struct Deleting {
    /// Names of the directory being listed, kept while deletions are asked for.
    keep: Names,
    /// The same of directories that are not in place yet: what is there now may be a link, or closed to us.
    keep_later: HashMap<RelPath, Names>,
    /// What stands at the destination and not in the list; whether it is being removed, and how much of it at the moment.
    extras: Extras,
    removing: bool,
    out: usize,
    /// How many names did not come that deletions need not wait for: sources that vanished or kept changing, and files that
    /// there was no room for.
    pub(super) excused: u64,
    /// How far they are counted once more.
    recounted: Taken,
    /// Files that are new here; how far names that go were compared with them, and how many have only moved.
    pub(super) new: NewFiles,
    compared: Taken,
    moved: u64,
    /// How many may go besides those that were counted, if more are there when it comes to that.
    spare: u64,
    /// Names that may still go, where not all do.
    ration: Option<u64>,
    /// Names that had to go to make way, and count as deletions.
    cleared: u64,
    /// Whether the user is being asked if they go.
    asked: bool,
    /// Empty sources, and how many names stay for each: there is nothing in one that is not mounted.
    empty: BTreeMap<RelPath, u64>,
}

impl Deleting {
    /// Whether the user was asked, and has not answered.
    pub(super) const fn is_asking(&self) -> bool {
        self.asked
    }

    /// Whether more is to be removed.
    pub(super) const fn is_removing(&self) -> bool {
        self.removing && !self.extras.is_empty()
    }

    /// Counts names that make way, unless they are more than `most` with those before.
    pub(super) fn clear(&mut self, names: u64, most: u64) -> bool {
        let cleared = self.cleared + names;
        let fits = cleared <= most;
        if fits {
            self.cleared = cleared;
        }
        fits
    }

    /// How many more names may make way within `most`, and are counted: as many as go in a call.
    pub(super) fn clear_more(&mut self, most: u64) -> u64 {
        let more = most.saturating_sub(self.cleared).min(MORE_AT_ONCE);
        self.cleared += more;
        more
    }

    /// So many of them did not.
    pub(super) fn spare_cleared(&mut self, names: u64) {
        self.cleared = self.cleared.saturating_sub(names);
    }

    /// The directory is not made: nothing in its place is looked at.
    pub(super) fn lose(&mut self, dir: &RelPath) {
        self.keep_later.remove(dir);
    }

    /// As many of these `names` as may go, and whether that is rationed.
    fn grant(&mut self, names: u64) -> (u64, bool) {
        let Some(ration) = &mut self.ration else { return (names, false) };
        let granted = names.min(*ration);
        *ration -= granted;
        (granted, true)
    }

    /// How many names go in all, those included that made way.
    const fn names_to_go(&self) -> u64 {
        self.extras.names().saturating_add(self.cleared)
    }
}

/// What is being removed.
#[derive(Debug, Default)]
pub(super) struct Removal {
    pub(super) path: RelPath,
    /// Whether something else is to be in its place.
    pub(super) gives_way: bool,
    /// What it counts of [`REMOVALS_AT_ONCE`].
    pub(super) weight: usize,
    /// How many names more may go with it: those that were counted, or all else would bind what was there then only.
    pub(super) names: u64,
    /// Whether these names are a part of [`Deleting::ration`].
    pub(super) is_rationed: bool,
}

/// How many names may be removed where so many are `listed`, and `going` are not. A number or a share is said of what goes day
/// by day, and not of a source that is not mounted: an empty one takes nothing but where there is no limit.
fn most_deletes(delete: Delete, listed: u64, going: u64) -> u64 {
    match delete {
        Delete::Never => 0,
        Delete::AtMost(NO_LIMIT) => NO_LIMIT,
        _ if listed == 0 => 0,
        Delete::AtMost(most) => most,
        Delete::Guarded(guard) => guard.most(listed.saturating_add(going)),
    }
}

/// The words before what a run without the dry run would do.
const fn if_dry_run(options: &Options) -> &'static str {
    if options.dry_run { "without -n " } else { "" }
}

/// How many names stay for an empty source that is `dir`, or what it is in, if there is one.
fn held_by<'a>(empty: &'a mut BTreeMap<RelPath, u64>, dir: &RelPath) -> Option<&'a mut u64> {
    let mut at = dir.clone();
    while !empty.contains_key(&at) {
        at = at.split_last()?.0;
    }
    empty.get_mut(&at)
}

impl Receiver {
    /// Collects a directory's names; at its end asks which others stand in it.
    pub(super) fn note_extras(
        &mut self,
        section: &Section,
        extent: Extent,
    ) -> Result<(), PeerError> {
        if self.cx.setting.options.delete == Delete::Never
            || section.dir.is_root() && !self.root_is_whole
        {
            return Ok(());
        }
        if extent == Extent::Part {
            self.deleting.keep = Names::default();
            return Ok(());
        }
        if extent == Extent::Empty && self.cx.setting.options.delete != Delete::AtMost(NO_LIMIT) {
            self.deleting.empty.insert(section.dir.clone(), 0);
        }
        for entry in &section.entries {
            let kept = self.deleting.keep.push(&entry.name);
            kept.map_err(|_| PeerError::Unexpected("names out of order"))?;
        }
        if ends(extent) {
            let (dir, keep) = (section.dir.clone(), std::mem::take(&mut self.deleting.keep));
            if self.sections.awaits(&dir) {
                self.deleting.keep_later.insert(dir, keep);
            } else {
                self.ask_extra(dir, keep);
            }
        }
        Ok(())
    }

    /// A directory is in place: what stands in it may be looked at, and is before anything comes into it, for it may hold
    /// rules. Whether that is asked for.
    pub(super) fn ask_extra_later(&mut self, dir: &RelPath) -> bool {
        let keep = self.deleting.keep_later.remove(dir);
        keep.map(|keep| self.ask_extra(dir.clone(), keep)).is_some()
    }

    fn ask_extra(&mut self, dir: RelPath, keep: Names) {
        let extra = Work::Extra { dir: dir.clone(), keep: Some(keep), rest: None };
        self.cx.jobs.ask(extra, Place::Extra(dir));
    }

    /// Takes names of `dir` that are not in the list, and asks for those that are left.
    pub(super) fn extra(&mut self, dir: RelPath, unlisted: Result<Unlisted, Trouble>) {
        self.enter(&dir);
        let Unlisted { extras, rest, warnings } = match unlisted {
            Ok(unlisted) => unlisted,
            Err(trouble) => return self.cx.trouble(trouble),
        };
        warnings.into_iter().for_each(|warning| self.cx.tell_trouble(warning));
        let dry_run = self.cx.setting.options.dry_run;
        let Deleting { extras: going, empty, .. } = &mut self.deleting;
        let mut staying = held_by(empty, &dir);
        for Extra { name, names } in extras {
            let Ok(path) = dir.join(&name) else { continue };
            if let Some(staying) = &mut staying {
                **staying = staying.saturating_add(names);
            }
            // A dry run lists it all the same.
            if staying.is_none() || dry_run {
                going.push(&path, names);
                going.spare(if staying.is_some() { names } else { 0 });
            }
        }
        if let Some(rest) = rest {
            let more = Work::Extra { dir: dir.clone(), keep: None, rest: Some(rest) };
            self.cx.jobs.ask(more, Place::Extra(dir));
        }
    }

    /// Removes what is not in the list, if nothing speaks against it.
    pub(super) fn delete(&mut self, intact: bool) {
        self.look_for_missing();
        let stay = self.deleting.empty.values().any(|names| *names > 0);
        if self.deleting.extras.is_empty() && !stay {
            return;
        }
        let whole = intact && self.cx.totals.failed == self.lacking.names + self.deleting.excused;
        if !whole && !self.cx.setting.options.remove.ignore_errors {
            let why = match intact {
                true => "not everything arrived",
                false => "the source could not be listed in full",
            };
            let message = format!("nothing deleted: {why}; --ignore-errors goes on");
            return self.cx.trouble(Trouble::new(TroubleKind::Failed, message));
        }
        self.hold_back_empty();
        if self.deleting.extras.is_empty() {
            return;
        }
        let Options { rules, follow, select, .. } = &self.cx.setting.options;
        let brings_rules = |rule: &Rule| matches!(rule, Rule::DirMerge(_));
        let keeps_links = follow.keep_dirs || select.plain_implied_dirs;
        let may_spare = keeps_links || rules.list.iter().any(brings_rules);
        if self.is_over() && !self.cx.setting.options.dry_run && may_spare {
            return self.recount();
        }
        self.delete_within_limits();
    }

    /// Counts what goes by the rules that came with this run, and the links that were kept in it.
    fn recount(&mut self) {
        let Deleting { out, extras, recounted, .. } = &mut self.deleting;
        while *out < REMOVALS_AT_ONCE
            && let Some((path, names)) = extras.see(recounted)
        {
            *out += 1;
            self.cx.jobs.ask(Work::Count { path, gives_way: false }, Place::CountGoing(names));
        }
        if *out == 0 {
            self.delete_within_limits();
        }
    }

    /// Of so many `names` this many go `now`.
    pub(super) fn recounted(&mut self, names: u64, now: u64) {
        let now = now.min(names);
        self.deleting.out -= 1;
        self.deleting.extras.spare(names - now);
        self.recount();
    }

    /// Names that count for the limits: a number counts all that go, the guard those that are lost.
    fn going(&self) -> u64 {
        self.deleting.names_to_go().saturating_sub(self.deleting.moved)
    }

    fn most_deletes(&self) -> u64 {
        most_deletes(self.cx.setting.options.delete, self.list.known(), self.going())
    }

    fn is_over(&self) -> bool {
        self.going() > self.most_deletes()
    }

    fn delete_within_limits(&mut self) {
        if self.is_over() && self.count_moved() {
            return;
        }
        let is_empty = self.list.known() == 0;
        match self.cx.setting.options.delete {
            _ if !self.is_over() => self.remove_all(),
            Delete::AtMost(most) if !is_empty => self.remove_some(most),
            _ if self.cx.setting.options.dry_run => {
                self.hold_back();
                self.remove_all();
            }
            _ if self.cx.setting.options.asks() && !is_empty => self.ask(),
            _ => self.hold_back(),
        }
    }

    /// Takes in a file that came, or in a dry run would: the guard counts one like it that goes as moved.
    pub(super) fn note_new(&mut self, Candidate { meta, old, .. }: &Candidate) {
        if old.is_none() && matches!(self.cx.setting.options.delete, Delete::Guarded(_)) {
            self.deleting.new.note(meta);
        }
    }

    /// Compares some more of what goes with what is new; whether there is more of both.
    fn count_moved(&mut self) -> bool {
        let Deleting { extras, compared, new, .. } = &mut self.deleting;
        if new.is_empty() {
            return false;
        }
        let next = std::iter::from_fn(|| extras.see(compared)).map(|(path, _)| path);
        let paths: Vec<_> = next.take(REMOVALS_AT_ONCE).collect();
        if paths.is_empty() {
            return false;
        }
        let new = Box::new(std::mem::take(new));
        self.cx.jobs.ask(Work::CountMoved { paths, new }, Place::CountMoved);
        true
    }

    pub(super) fn counted_moved(&mut self, files: u64, new: NewFiles) {
        self.deleting.moved = self.deleting.moved.saturating_add(files);
        self.deleting.new = new;
        self.delete_within_limits();
    }

    fn remove_all(&mut self) {
        self.deleting.removing = true;
        self.deleting.spare = self.most_deletes().saturating_sub(self.going());
        self.remove_more();
    }

    /// Removes names until they are as many as may go.
    fn remove_some(&mut self, most: u64) {
        let (names, would) = (self.deleting.names_to_go(), if_dry_run(&self.cx.setting.options));
        let stay = names.saturating_sub(most);
        let message = format!(
            "{would}deletions stop at --max-delete={most}: {stay} of {names} names to be removed stay"
        );
        self.cx.tell_trouble(Trouble::new(TroubleKind::DeleteLimit, message));
        self.deleting.removing = true;
        self.deleting.ration = Some(most.saturating_sub(self.deleting.cleared));
        self.remove_more();
    }

    /// Removes some of those that go.
    pub(super) fn remove_more(&mut self) {
        while self.deleting.removing
            && self.deleting.out < REMOVALS_AT_ONCE
            && self.deleting.ration != Some(0)
            && let Some((path, names)) = self.deleting.extras.next()
        {
            let (names, is_rationed) = self.deleting.grant(names);
            self.remove_granted(path, names, is_rationed);
        }
        // What does not go after all gives its part back.
        if self.deleting.ration == Some(0) && self.deleting.out == 0 {
            self.deleting.removing = false;
        }
    }

    /// Removes what stands here, so many names with all below, or tells what would go.
    pub(super) fn remove(&mut self, path: RelPath, names: u64) {
        self.remove_granted(path, names, false);
    }

    fn remove_granted(&mut self, path: RelPath, names: u64, is_rationed: bool) {
        let weight = usize::try_from(names).map_or(LARGE, |names| names.clamp(1, LARGE));
        self.deleting.out += weight;
        self.ask_removal(Removal { path, gives_way: false, weight, names, is_rationed });
    }

    fn ask_removal(&mut self, removal: Removal) {
        let dry_run = self.cx.setting.options.dry_run;
        let most = if dry_run && !removal.is_rationed { NO_LIMIT } else { removal.names };
        self.cx.jobs.ask(removal.work(dry_run, most), Place::Remove(removal));
    }

    /// Tells what stays in places of empty sources.
    fn hold_back_empty(&mut self) {
        for (source, names) in std::mem::take(&mut self.deleting.empty) {
            let (of, below) = match source.is_root() {
                true => ("the source".into(), String::new()),
                false => (format!("the source {source}"), format!(" in {source}")),
            };
            if names > 0 {
                self.tell_empty(&below, &of, names);
            }
        }
    }

    fn tell_empty(&mut self, below: &str, source: &str, names: u64) {
        let would = if names == 1 { "name" } else { "names" };
        let why = format!("{source} is empty, and {names} {would} would be removed");
        self.tell_held_back(below, format!("{why}; --force-delete goes on"));
    }

    /// Tells that all stays that was to go.
    fn hold_back(&mut self) {
        let (names, listed) = (self.deleting.names_to_go(), self.list.known());
        if listed == 0 {
            return self.tell_empty("", "the source", names);
        }
        let (going, most) = (self.going(), self.most_deletes());
        let besides = match self.deleting.moved {
            0 => String::new(),
            moved => format!(" besides {moved} that moved"),
        };
        let (there, hint) = match self.cx.setting.options.delete {
            // A watch takes the answer itself.
            Delete::Guarded(Guard { names: Some(there), .. }) => (there, String::new()),
            _ => {
                let hint = format!("; --max-delete {names} or --force-delete goes on");
                (listed.saturating_add(going), hint)
            }
        };
        let would = format!("{going} of {there} names would be removed{besides}");
        self.tell_held_back("", format!("{would} (limit {most}){hint}"));
    }

    /// Tells that names stay, those `below` what is said, or would without the dry run.
    fn tell_held_back(&mut self, below: &str, why: String) {
        let Options { dry_run, delete, .. } = self.cx.setting.options;
        let nothing = match dry_run {
            true => "a run without -n would delete nothing",
            false => "nothing deleted",
        };
        let message = format!("{nothing}{below}: {why}");
        // A number that was said decides how the dry run ends, too.
        let kind = match delete {
            Delete::Guarded(_) | Delete::Never if dry_run => TroubleKind::Warned,
            _ => TroubleKind::DeleteLimit,
        };
        self.cx.tell_trouble(Trouble::new(kind, message));
    }

    /// Leaves it to the user, wherever that is.
    fn ask(&mut self) {
        let names = self.deleting.names_to_go();
        let first = self.deleting.extras.first(MAX_ASKED);
        // All that is listed is in place by now.
        let question = Question { names, of: self.list.known().saturating_add(names), first };
        self.deleting.asked = true;
        if self.cx.setting.user_is_here {
            self.cx.jobs.ask(Work::Ask(question), Place::Ask);
        } else {
            self.cx.frames.push_back(ToSender::Ask(question));
        }
    }

    /// The answer of a user at the other end.
    pub(super) fn allow(&mut self, allowed: bool) -> Result<(), PeerError> {
        if self.cx.setting.user_is_here || !self.deleting.is_asking() {
            return Err(PeerError::Unexpected("the answer to no question"));
        }
        self.answered(allowed);
        Ok(())
    }

    pub(super) fn answered(&mut self, allowed: bool) {
        self.deleting.asked = false;
        if allowed {
            return self.remove_all();
        }
        self.hold_back();
    }

    pub(super) fn removed(&mut self, mut removal: Removal, removed: Removed) {
        removal.take(&removed);
        self.tell_gone(&removal, removed.gone);
        // What rules protect stays as the user wishes.
        removed.troubles.into_iter().for_each(|trouble| self.found(trouble));
        if removed.goes_on && self.may_go_on(&mut removal) {
            return self.ask_removal(removal);
        }
        self.deleting.out -= removal.weight;
        if removal.is_rationed {
            let ration = self.deleting.ration.get_or_insert_default();
            *ration = ration.saturating_add(removal.names);
        } else if removed.goes_on {
            self.cx.tell_trouble(removal.refilled("delete"));
        }
    }

    /// Whether more may go: what was counted of it, and else what the limits leave.
    fn may_go_on(&mut self, removal: &mut Removal) -> bool {
        if removal.names == 0 && !removal.is_rationed {
            removal.names = self.deleting.spare.min(MORE_AT_ONCE);
            self.deleting.spare -= removal.names;
        }
        removal.names > 0 || self.cx.setting.options.dry_run && !removal.is_rationed
    }

    /// Tells what went, or would; what gives way is replaced itself, not deleted.
    pub(super) fn tell_gone(&mut self, removal: &Removal, gone: Vec<(RelPath, EntryType)>) {
        let (action, differs) = (Action::Deleted, Differs::default());
        for (path, item) in gone {
            if !removal.gives_way || path != removal.path {
                self.cx.totals.deleted += 1;
                self.cx.changed(Change { path, item, action, differs, facts: Facts::default() });
            }
        }
    }
}

impl Removal {
    /// The next step of it, in which `most` names go.
    pub(super) fn work(&self, dry_run: bool, most: u64) -> Work {
        Work::Remove { path: self.path.clone(), gives_way: self.gives_way, dry_run, most }
    }

    /// Counts what went.
    pub(super) fn take(&mut self, removed: &Removed) {
        let gone = removed.gone.iter().filter(|(path, _)| !self.gives_way || *path != self.path);
        self.names = self.names.saturating_sub(gone.count() as u64);
    }

    /// Why no more of it goes.
    pub(super) fn refilled(&self, action: &str) -> Trouble {
        Trouble::at(TroubleKind::DeleteLimit, &self.path, |path| {
            format!(
                "cannot {action} {path}: more is in it than was counted, and than may go; what is left stays"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::GUARDED_DELETES;

    #[test]
    fn an_accident_takes_few_names_and_a_will_as_many_as_were_said() {
        let most = |guard, listed, going| most_deletes(Delete::Guarded(guard), listed, going);
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
        let at_most = |most, listed| most_deletes(Delete::AtMost(most), listed, 9);
        assert_eq!(most_deletes(Delete::Never, 100, 1), 0);
        assert_eq!([at_most(7, 1), at_most(7, 0)], [7, 0], "nor does a number");
        assert_eq!(at_most(NO_LIMIT, 0), NO_LIMIT);
    }

    #[test]
    fn names_that_make_way_count_as_deletions_and_those_that_may_not_do_not() {
        let mut deleting = Deleting::default();
        assert!(deleting.clear(3, 5));
        assert!(!deleting.clear(3, 5));
        assert!(deleting.clear(2, 5));
        assert_eq!(deleting.names_to_go(), 5);
        // What is in a directory beyond what was counted, when it goes.
        assert_eq!([deleting.clear_more(7), deleting.clear_more(7)], [2, 0]);
        deleting.spare_cleared(1);
        assert_eq!(deleting.names_to_go(), 6);
    }
}
