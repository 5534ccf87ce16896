//! From a listed entry and what stands in its place to what is done: pure decisions, a section at a time.

use deltic_tree::links::{MUNGED, leaves_root};
use deltic_tree::meta::OWNER_BITS;
use deltic_tree::path::printable;
use deltic_tree::{Entry, Kind, Meta, RelPath, Timestamp};

use crate::message::FileNo;
use crate::options::{Append, Links, Options};
use crate::report::{Action, Change, Differs, EntryType, Facts, Trouble, TroubleKind};
use crate::work::{Setback, Turn};

use super::beside::Beside;
use super::clearing::Cleared;
use super::compare::{Quick, attributes, quick};
use super::file::Candidate;
use super::final_dirs::FinalMeta;
use super::linking::first_of;
use super::owning::Known;
use super::sections::Lost;
use super::tallying::gone;
use super::{Carries, Ours, Place, Receiver, Setting, Work};

/// An entry, and what stands in its place.
#[derive(Debug)]
pub(super) struct Looked {
    pub(super) file: FileNo,
    pub(super) entry: Entry,
    pub(super) old: Result<Option<Meta>, Trouble>,
}

impl Receiver {
    pub(super) fn looked(
        &mut self,
        no: u64,
        found: Vec<Result<Option<Meta>, Trouble>>,
        ours: (Vec<Ours>, Vec<Ours>),
    ) {
        let Some(mut section) = self.sections.take(no) else { return };
        let known = Known::of(&section, ours);
        let mut found = found.into_iter();
        if let Some(mut own) = section.own.take() {
            known.translate(&mut own);
            match found.next() {
                Some(Ok(Some(old))) => return self.existing_dir(section.dir, own, &old),
                Some(Err(trouble)) => self.cx.trouble(trouble),
                Some(Ok(None)) | None => {}
            }
            return self.release(&section.dir);
        }
        section.metas_mut().for_each(|meta| known.translate(meta));
        self.know_linked(&section);
        let looked = |((nth, entry), old)| {
            let file = FileNo(section.first + nth as u64);
            Looked { file, entry, old }
        };
        let mut all: Vec<Looked> =
            section.entries.into_iter().enumerate().zip(found).map(looked).collect();
        self.lead_by_what_is_here(&mut all);
        for Looked { file, entry, old } in all {
            let Ok(path) = section.dir.join(&entry.name) else { continue };
            match old {
                Ok(old) => self.decide(file, path, entry.meta, old),
                Err(trouble) => {
                    self.miss_undecided(file, &entry.meta);
                    self.cx.report_settled(entry.meta.len);
                    self.cx.trouble(trouble);
                    if entry.meta.is_dir() {
                        self.lose_dir(path, Lost::Failed);
                    }
                }
            }
        }
    }

    fn decide(&mut self, file: FileNo, path: RelPath, mut meta: Meta, old: Option<Meta>) {
        if let Kind::Symlink(target) = &mut meta.kind {
            let Links { safe, munge, .. } = self.cx.setting.options.follow;
            if safe && self.cx.setting.options.links && leaves_root(path.as_bytes(), target) {
                let message =
                    format!("ignoring unsafe symlink \"{path}\" -> \"{}\"", printable(target));
                self.miss_undecided(file, &meta);
                let ignored = Trouble::about(TroubleKind::UnsafeLink, &path, message);
                return self.cx.tell_trouble(ignored);
            }
            if munge {
                *target = [MUNGED, target].concat().into();
            }
        }
        if let Some(why) = self.cx.setting.options.compare.passes_over(&meta, old.as_ref()) {
            self.cx.passed_over(&path, &meta, why);
            self.cx.report_settled(meta.len);
            self.miss_undecided(file, &meta);
            if meta.is_dir() {
                self.lose_dir(path, Lost::PassedOver);
            }
        } else if let Some(first) = first_of(file, &meta) {
            self.decide_linked((file, first), path, (meta, old));
        } else {
            self.decide_alone(file, path, (meta, old));
        }
    }

    /// What is done with an entry that is no other name of something.
    pub(super) fn decide_alone(
        &mut self,
        file: FileNo,
        path: RelPath,
        (meta, old): (Meta, Option<Meta>),
    ) {
        let compare = &self.cx.setting.options.compare;
        if meta.is_file()
            && let Some(why) = compare.passes_over_file(&meta, old.as_ref())
        {
            self.cx.passed_over(&path, &meta, why);
            self.cx.report_settled(meta.len);
            self.miss(file);
        } else if self.asks_alternates(&meta, old.as_ref()) {
            self.look_beside(file, path, (meta, old));
        } else {
            self.decide_here(file, path, (meta, old), None);
        }
    }

    /// What is done where the alternates have nothing to say, or only something to match against.
    pub(super) fn decide_here(
        &mut self,
        file: FileNo,
        path: RelPath,
        (meta, old): (Meta, Option<Meta>),
        beside: Option<Beside>,
    ) {
        match &meta.kind {
            // Listed so that what stands in its place is not removed.
            kind if !self.cx.setting.options.takes(kind) => self.miss(file),
            Kind::Dir => match old {
                Some(old) if old.is_dir() => self.existing_dir(path, meta, &old),
                Some(_) if self.cx.setting.rename.is_some() => {
                    let words = |path: &str| format!("cannot replace {path}: not a directory");
                    self.cx.trouble(Trouble::at(TroubleKind::Failed, &path, words));
                    self.lose_dir(path, Lost::Failed);
                }
                old => {
                    let differs = Differs { kind: old.is_some(), ..Differs::default() };
                    self.new_dir(path, meta, (Action::Created, differs));
                }
            },
            Kind::File => self.decide_file((file, path), meta, old, beside),
            Kind::Device(_) if !self.cx.setting.is_privileged => {
                self.miss(file);
                let skipped = Trouble::skipped(&meta.kind, &path);
                self.cx.tell_trouble(skipped.because("only the superuser makes devices"));
            }
            _ => self.decide_other((file, path), meta, old, beside),
        }
    }

    /// Makes a directory, which is told so.
    pub(super) fn new_dir(
        &mut self,
        path: RelPath,
        meta: Meta,
        (action, differs): (Action, Differs),
    ) {
        let (item, facts) = (EntryType::Dir, Facts::of(&meta));
        if !meta.is_implied() {
            self.cx.changed(Change { path: path.clone(), item, action, differs, facts });
        }
        if self.is_alike(&path) {
            self.sections.release(&path);
            return self.cx.trouble(gone(&path));
        }
        if self.cx.setting.options.dry_run {
            self.dirs.push(&path, (&meta).into());
            self.release(&path);
        } else {
            self.make_dir(path, meta);
        }
    }

    /// Whether the root is told as a directory that was made. As in rsync what `--mkpath` makes is there before the list.
    const fn root_is_new(&self) -> bool {
        let Setting { options, made_dirs, .. } = &self.cx.setting;
        *made_dirs > 0 && (!options.select.mkpath || options.dry_run)
    }

    /// Tells that the root was made: as a new directory, or like what differs from the alternates' root.
    fn new_root(&mut self, meta: Meta) {
        if self.cx.setting.options.compare.alternates.dirs.is_empty() {
            return self.made_root(&meta, Vec::new());
        }
        self.cx.jobs.ask(Work::LookBeside { path: RelPath::root() }, Place::LookBesideRoot(meta));
    }

    pub(super) fn made_root(&mut self, meta: &Meta, beside: Vec<Option<Meta>>) {
        let (action, differs) = match self.best(meta, beside) {
            Some(best) => (Action::Copied, self.differs_from(meta, &best.is)),
            None => (Action::Created, Differs::default()),
        };
        let (path, item, facts) = (RelPath::root(), EntryType::Dir, Facts::of(meta));
        self.cx.changed(Change { path, item, action, differs, facts });
    }

    /// Makes a directory, or makes ready one that is there. Its mode and times come last.
    pub(super) fn make_dir(&mut self, path: RelPath, meta: Meta) {
        self.dirs.push(&path, (&meta).into());
        let (meta, carries) = match meta.is_implied() {
            true => (on_the_way(&meta), Carries::Nothing),
            false => (meta, Carries::All),
        };
        let place = Place::MakeDir { path: path.clone(), bytes: meta.more_bytes() };
        self.cx.ask_to_write(Turn::Any, Work::MakeDir { path, meta, carries }, place);
    }

    /// Sets directories that are there.
    pub(super) fn set_dirs_now(&mut self, dirs: Vec<(RelPath, Meta)>, carries: Carries) {
        let bytes = dirs.iter().map(|(_, meta)| meta.more_bytes()).sum();
        let work = Work::SetDirs { dirs, carries };
        self.cx.ask_to_write(Turn::Any, work, Place::SetDirs { bytes });
    }

    pub(super) fn made_dir(&mut self, path: &RelPath, made: Result<(), Setback>) {
        match made {
            Ok(()) => self.release(path),
            Err(setback) => {
                self.dirs.remove(path);
                self.cx.trouble(setback.trouble);
                self.lose_dir(path.clone(), Lost::Failed);
            }
        }
    }

    fn existing_dir(&mut self, path: RelPath, meta: Meta, old: &Meta) {
        let differs = attributes(&self.cx.setting.options, &meta, old);
        let implied = meta.is_implied();
        if path.is_root() && self.root_is_new() {
            self.new_root(meta.clone());
        } else if differs != Differs::default() {
            let (item, action) = (EntryType::Dir, Action::Touched);
            let facts = Facts::of(&meta);
            if !implied {
                self.cx.changed(Change { path: path.clone(), item, action, differs, facts });
            }
        } else {
            self.cx.unchanged(&path, &meta, None);
        }
        let Setting { options, made_dirs, .. } = &self.cx.setting;
        let is_open = old.mode & OWNER_BITS == OWNER_BITS;
        let is_new = path.is_root() && *made_dirs > 0;
        let Differs { mode, user, group, acl, xattrs, .. } = differs;
        let changes = (mode || user || group || acl) && !implied;
        if (!is_open || is_new || changes) && !options.dry_run {
            return self.make_dir(path, meta);
        }
        let sets_now = xattrs && !options.dry_run && !implied;
        let own = FinalMeta::from(&meta);
        if differs != Differs::default() || !is_open || !self.waits_for_list(&path, own) {
            self.dirs.push(&path, own);
        }
        if sets_now {
            self.set_dirs_now(vec![(path.clone(), meta)], Carries::All);
        }
        self.release(&path);
    }

    /// A link, a FIFO, a socket or a device: what has no content to be sent.
    fn decide_other(
        &mut self,
        (file, path): (FileNo, RelPath),
        mut meta: Meta,
        old: Option<Meta>,
        beside: Option<Beside>,
    ) {
        let item = EntryType::of(&meta.kind);
        let mut differs = self.differs_from_known(&meta, (&old, &beside));
        if let Some(old) = old.as_ref().filter(|old| old.kind == meta.kind) {
            if !differs.time {
                meta.modified = old.modified;
            }
            return self.keep((file, path), (meta, old), differs);
        }
        let is_alike =
            beside.is_some() || old.as_ref().is_some_and(|old| EntryType::of(&old.kind) == item);
        let action = match &beside {
            Some(beside) if beside.is_it() => Action::Copied,
            _ if is_alike => Action::Updated,
            _ => Action::Created,
        };
        differs.content = action == Action::Updated;
        differs.kind = old.is_some() && !is_alike;
        self.will_arrive(file, &path);
        let facts = Facts::of(&meta);
        let change = Change { path: path.clone(), item, action, differs, facts };
        if self.clears(old.as_ref()) {
            self.clear(file, path, Cleared::Other { meta, change });
        } else {
            self.make_other(file, meta, change);
        }
    }

    /// In what an entry differs from the old version, or else from what an alternate has.
    fn differs_from_known(
        &self,
        meta: &Meta,
        (old, beside): (&Option<Meta>, &Option<Beside>),
    ) -> Differs {
        let known = old.as_ref().or_else(|| beside.as_ref().map(|beside| &beside.is));
        known.map(|is| self.differs_from(meta, is)).unwrap_or_default()
    }

    pub(super) fn make_other(&mut self, file: FileNo, meta: Meta, change: Change) {
        if self.cx.setting.options.dry_run {
            self.cx.changed(change);
            return self.came(file);
        }
        let path = change.path.clone();
        let work = match &meta.kind {
            Kind::Symlink(target) => Work::MakeSymlink { path, target: target.clone(), meta },
            _ => Work::MakeSpecial { path, meta },
        };
        self.cx.jobs.ask(work, Place::Make { change });
    }

    pub(super) fn changed_in_place(&mut self, change: Change, done: Result<(), Setback>) {
        let arrived = self.arrivals.take(&change.path);
        match done {
            Ok(()) => {
                arrived.into_iter().for_each(|file| self.arrive(file));
                self.cx.changed(change);
            }
            Err(setback) => {
                arrived.into_iter().for_each(|file| self.miss(file));
                self.cx.trouble(setback.trouble);
            }
        }
    }

    fn decide_file(
        &mut self,
        (file, path): (FileNo, RelPath),
        meta: Meta,
        old: Option<Meta>,
        beside: Option<Beside>,
    ) {
        let options = &self.cx.setting.options;
        let clears = self.clears(old.as_ref());
        let (seen, old_file) = (old.clone(), old.filter(Meta::is_file));
        let differs = Differs {
            kind: seen.is_some() && old_file.is_none(),
            ..self.differs_from_known(&meta, (&old_file, &beside))
        };
        let looks = old_file.as_ref().map(|old| quick(options, &meta, old));
        if let (Some(Quick::Same), Some(old)) = (looks, &old_file) {
            return self.keep_file((file, path), (meta, old), differs);
        }
        let has_grown = old_file.as_ref().is_none_or(|old| old.len < meta.len);
        if options.writing.append != Append::Never && !has_grown {
            self.cx.report_settled(meta.len);
            return self.miss(file);
        }
        let candidate = Candidate {
            file,
            path,
            meta,
            old: old_file,
            seen,
            differs,
            compared: false,
            beside,
            may_have_moved: false,
            repeats: None,
        };
        if looks == Some(Quick::Unknown) {
            self.compare(candidate);
        } else if clears {
            self.clear(file, candidate.path.clone(), Cleared::File(Box::new(candidate)));
        } else {
            self.bring(candidate);
        }
    }

    /// The file is to come; in a dry run it is told, unless an alternate may have it: then it goes by its content.
    pub(super) fn bring(&mut self, candidate: Candidate) {
        let Options { dry_run, checksum, .. } = self.cx.setting.options;
        let is_beside = |beside: &Beside| beside.may_be_it(checksum, &candidate.meta);
        if dry_run && !candidate.beside.as_ref().is_some_and(is_beside) {
            self.would_replace(candidate);
        } else {
            self.enqueue(candidate);
        }
    }

    /// Size and time agree, or there is no content to compare: at most the attributes are set.
    pub(super) fn keep_file(
        &mut self,
        place: (FileNo, RelPath),
        (meta, old): (Meta, &Meta),
        differs: Differs,
    ) {
        self.cx.report_settled(meta.len);
        self.keep(place, (meta, old), differs);
    }

    /// What is here stays, but for its attributes.
    fn keep(
        &mut self,
        (file, path): (FileNo, RelPath),
        (mut meta, old): (Meta, &Meta),
        differs: Differs,
    ) {
        self.stays(file, old);
        if differs == Differs::default() {
            self.cx.unchanged(&path, &meta, None);
            return self.arrive(file);
        }
        self.will_arrive(file, &path);
        if !differs.time {
            // Near enough stays as it is.
            meta.modified = old.modified;
        }
        let (item, action, facts) = (EntryType::of(&meta.kind), Action::Touched, Facts::of(&meta));
        let change = Change { path: path.clone(), item, action, differs, facts };
        if self.cx.setting.options.dry_run {
            self.cx.changed(change);
            self.came(file);
        } else {
            self.cx.jobs.ask(Work::SetMeta { path, meta }, Place::Touch { change });
        }
    }

    pub(super) fn would_replace(&mut self, candidate: Candidate) {
        let action = candidate.action();
        self.cx.totals.transferred += 1;
        let bytes = &mut self.cx.totals.transferred_bytes;
        *bytes = bytes.saturating_add(candidate.meta.len);
        self.cx.report_settled(candidate.meta.len);
        self.came(candidate.file);
        self.note_new(&candidate);
        let Candidate { path, meta, mut differs, .. } = candidate;
        differs.content = self.cx.setting.options.checksum && action == Action::Updated;
        let (item, facts) = (EntryType::File, Facts::of(&meta));
        self.cx.changed(Change { path, item, action, differs, facts });
    }
}

/// With what a directory is made of which it is not known yet whether it is on the way only, and so nobody's but ours: it lets
/// others do no more than it will, whoever they will be.
fn on_the_way(meta: &Meta) -> Meta {
    let all = meta.mode & meta.mode >> 3 & 7;
    let others = match (meta.access_acl(), meta.user, meta.group) {
        (Some(_), ..) => 0,
        (None, None, None) => meta.mode & 0o077,
        _ => all << 3 | all,
    };
    Meta::plain(Kind::Dir, 0, Timestamp::default(), OWNER_BITS | others)
}
