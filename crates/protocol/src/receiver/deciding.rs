//! From a listed entry and what stands in its place to what is done: pure decisions, a section at a time.

use deltic_core::meta::OWNER_BITS;
use deltic_core::{Entry, Kind, Meta, RelPath};

use crate::error::PeerError;
use crate::message::{Extent, FileNo};
use crate::options::{Delete, Options};
use crate::report::{Action, Change, Differs, Item, Trouble, TroubleKind};
use crate::work::Setback;

use super::clearing::Cleared;
use super::file::Candidate;
use super::owning::{Known, attributes};
use super::{Extra, Ours, Place, Receiver, Work, ends};

/// Some entries of one directory, waiting to be compared with what stands in their places.
#[derive(Debug)]
pub(super) struct Section {
    dir: RelPath,
    own: Option<Meta>,
    entries: Vec<Entry>,
    /// The number of its first entry.
    pub(super) first: u64,
}

impl Section {
    pub(super) fn new(dir: RelPath, own: Option<Meta>, entries: Vec<Entry>) -> Self {
        Self { dir, own, entries, first: 0 }
    }

    pub(super) fn metas(&self) -> impl Iterator<Item = &Meta> {
        self.own.iter().chain(self.entries.iter().map(|entry| &entry.meta))
    }

    fn metas_mut(&mut self) -> impl Iterator<Item = &mut Meta> {
        self.own.iter_mut().chain(self.entries.iter_mut().map(|entry| &mut entry.meta))
    }
}

impl Receiver {
    pub(super) fn listing(
        &mut self,
        mut section: Section,
        extent: Extent,
    ) -> Result<(), PeerError> {
        self.check_order(&section, extent)?;
        self.check_names(&section)?;
        section.first = self.told;
        section.metas_mut().for_each(|meta| self.adopt(meta));
        self.take_entries(section.entries.len() as u64)?;
        self.count(&section);
        self.rename(&mut section);
        self.announce(&section);
        self.note_extras(&section, extent);
        let no = self.next_section;
        self.next_section += 1;
        let dir = section.dir.clone();
        self.sections.insert(no, section);
        match self.making.get_mut(&dir) {
            Some(waiting) => waiting.push(no),
            None => self.look(no),
        }
        Ok(())
    }

    /// Refuses directories that were not announced, names twice, and sections that say nothing.
    fn check_order(&mut self, section: &Section, extent: Extent) -> Result<(), PeerError> {
        let (last, begins) = match self.listing.take() {
            Some((dir, last)) if dir == section.dir => (last, false),
            None if self.announced.contains(&section.dir) => (None, true),
            _ => return Err(PeerError::Unexpected("a listing of a directory that was not listed")),
        };
        let mut names = last.iter().chain(section.entries.iter().map(|entry| &entry.name));
        if !names.clone().zip(names.by_ref().skip(1)).all(|(one, next)| one < next) {
            return Err(PeerError::Unexpected("names out of order"));
        }
        if section.own.is_some() && !(begins && section.dir.is_root()) {
            return Err(PeerError::Unexpected("metadata of a directory that is not the root"));
        }
        if extent == Extent::Last {
            self.announced.remove(&section.dir);
            return Ok(());
        }
        if section.entries.is_empty() && section.own.is_none() {
            return Err(PeerError::Unexpected("a listing of nothing"));
        }
        let last = section.entries.last().map(|entry| entry.name.clone()).or(last);
        self.listing = Some((section.dir.clone(), last));
        Ok(())
    }

    /// Refuses what a sender must not list: names too deep, names at the root that were not asked for, kinds of entries
    /// that the options leave out.
    fn check_names(&self, section: &Section) -> Result<(), PeerError> {
        if section.dir.is_root() && !self.expects(section) {
            return Err(PeerError::Unexpected("a name that was not asked for"));
        }
        if self.setting.rename.is_some() && !self.is_one_file(section) {
            return Err(PeerError::Unexpected("more than the one file that was announced"));
        }
        let Options { recursive, links, ref metadata, .. } = self.setting.options;
        section.metas().try_for_each(|meta| self.check_meta(meta))?;
        for Entry { name, meta } in &section.entries {
            let joined = section.dir.join(name);
            joined.map_err(|source| PeerError::BadName { frame: "Listing", source })?;
            let admitted = match meta.kind {
                Kind::File => true,
                Kind::Dir => recursive,
                Kind::Symlink(_) => links,
                Kind::Fifo | Kind::Socket => metadata.specials,
                Kind::Device(_) => metadata.devices,
            };
            if !admitted {
                return Err(PeerError::Unexpected("an entry that the options leave out"));
            }
        }
        Ok(())
    }

    /// Whether a listing of the root is of what was asked for.
    fn expects(&self, section: &Section) -> bool {
        let Some(expect) = &self.setting.expect else { return true };
        section.own.is_none() && section.entries.iter().all(|entry| expect.contains(&entry.name))
    }

    /// Whether this listing is of one entry that is no directory, and the first to name any.
    fn is_one_file(&self, section: &Section) -> bool {
        let entries = section.entries.as_slice();
        let is_first = self.told == 0 || entries.is_empty();
        is_first
            && section.own.is_none()
            && entries.len() <= 1
            && !entries.iter().any(|e| e.meta.is_dir())
    }

    /// Announces the directories of a section: what is listed of them waits until they are in place.
    fn announce(&mut self, section: &Section) {
        for entry in section.entries.iter().filter(|entry| entry.meta.is_dir()) {
            if let Ok(path) = section.dir.join(&entry.name) {
                self.announced.insert(path.clone());
                self.making.insert(path, Vec::new());
            }
        }
    }

    fn count(&mut self, section: &Section) {
        for entry in &section.entries {
            match entry.meta.kind {
                Kind::File => {
                    self.totals.files += 1;
                    self.progress.list(entry.meta.len);
                }
                Kind::Dir => self.totals.dirs += 1,
                Kind::Symlink(_) => self.totals.links += 1,
                Kind::Fifo | Kind::Socket => self.totals.specials += 1,
                Kind::Device(_) => self.totals.devices += 1,
            }
        }
        self.totals.bytes = self.progress.listed();
        self.report_listed();
    }

    /// The destination may name the one file that is listed.
    fn rename(&self, section: &mut Section) {
        if let (true, Some(name), [entry]) =
            (section.dir.is_root(), &self.setting.rename, section.entries.as_mut_slice())
        {
            entry.name.clone_from(name);
        }
    }

    /// Collects a directory's names; at its end asks which others stand in it.
    fn note_extras(&mut self, section: &Section, extent: Extent) {
        // Without metadata of its own the root only holds what was named: its other names are not the transfer's.
        self.root_is_whole |= section.own.is_some();
        if self.setting.options.delete == Delete::Never
            || section.dir.is_root() && !self.root_is_whole
        {
            return;
        }
        self.keep.extend(section.entries.iter().map(|entry| entry.name.clone()));
        if ends(extent) {
            let (dir, keep) = (section.dir.clone(), std::mem::take(&mut self.keep));
            self.jobs.ask(Work::Extra { dir: dir.clone(), keep }, Place::Extra(dir));
        }
    }

    fn look(&mut self, no: u64) {
        let section = &self.sections[&no];
        if self.lost.contains(&section.dir) {
            return self.give_up_section(no);
        }
        let own = section.own.iter().map(|_| RelPath::root());
        let entries = section.entries.iter().filter_map(|entry| section.dir.join(&entry.name).ok());
        let paths = own.chain(entries).collect();
        let (users, groups) = self.strangers(section);
        self.jobs.ask(Work::Look { paths, users, groups }, Place::Look(no));
    }

    /// A directory is lost, and with it all below; it was said once.
    fn give_up_section(&mut self, no: u64) {
        let Some(section) = self.sections.remove(&no) else { return };
        for entry in section.entries {
            self.totals.failed += 1;
            self.report_settled(entry.meta.len);
            if let (Kind::Dir, Ok(path)) = (&entry.meta.kind, section.dir.join(&entry.name)) {
                self.lose_dir(path);
            }
        }
    }

    fn lose_dir(&mut self, path: RelPath) {
        let waiting = self.making.remove(&path);
        self.lost.insert(path);
        waiting.into_iter().flatten().for_each(|no| self.give_up_section(no));
    }

    /// The directory is in place: what waited for it may go on.
    fn release(&mut self, path: &RelPath) {
        let waiting = self.making.remove(path);
        waiting.into_iter().flatten().for_each(|no| self.look(no));
    }

    pub(super) fn looked(
        &mut self,
        no: u64,
        found: Vec<Result<Option<Meta>, Trouble>>,
        ours: (Vec<Ours>, Vec<Ours>),
    ) {
        let Some(mut section) = self.sections.remove(&no) else { return };
        let known = Known::of(&section, ours);
        section.metas_mut().for_each(|meta| known.translate(meta));
        let mut found = found.into_iter();
        if let Some(own) = section.own {
            match found.next() {
                Some(Ok(Some(old))) => self.existing_dir(RelPath::root(), own, &old),
                Some(Err(trouble)) => self.trouble(trouble),
                Some(Ok(None)) | None => {}
            }
        }
        for ((nth, entry), old) in section.entries.into_iter().enumerate().zip(found) {
            let Ok(path) = section.dir.join(&entry.name) else { continue };
            match old {
                Ok(old) => self.decide(FileNo(section.first + nth as u64), path, entry.meta, old),
                Err(trouble) => {
                    self.report_settled(entry.meta.len);
                    self.trouble(trouble);
                    if entry.meta.is_dir() {
                        self.lose_dir(path);
                    }
                }
            }
        }
    }

    fn decide(&mut self, file: FileNo, path: RelPath, meta: Meta, old: Option<Meta>) {
        match &meta.kind {
            Kind::Dir => match old {
                Some(old) if old.is_dir() => self.existing_dir(path, meta, &old),
                _ => self.new_dir(path, meta),
            },
            Kind::File => self.decide_file(file, path, meta, old),
            Kind::Device(_) if !self.setting.is_privileged => {
                let message = format!("skip device {path}: only the superuser makes devices");
                self.tell_trouble(Trouble { kind: TroubleKind::Skipped, message });
            }
            _ => self.decide_other(file, path, meta, old),
        }
    }

    fn new_dir(&mut self, path: RelPath, meta: Meta) {
        let change = Change {
            path: path.clone(),
            item: Item::Dir,
            action: Action::Created,
            differs: Differs::default(),
        };
        self.changed(change);
        self.dirs.push((path.clone(), meta));
        if self.setting.options.dry_run {
            self.release(&path);
        } else {
            self.jobs.ask(Work::MakeDir { path: path.clone() }, Place::MakeDir(path));
        }
    }

    pub(super) fn made_dir(&mut self, path: &RelPath, made: Result<(), Setback>) {
        match made {
            Ok(()) => self.release(path),
            Err(setback) => {
                self.dirs.retain(|(dir, _)| dir != path);
                self.trouble(setback.trouble);
                self.lose_dir(path.clone());
            }
        }
    }

    fn existing_dir(&mut self, path: RelPath, meta: Meta, old: &Meta) {
        let differs = attributes(&self.setting.options, &meta, old);
        if differs != Differs::default() {
            let (item, action) = (Item::Dir, Action::Touched);
            self.changed(Change { path: path.clone(), item, action, differs });
        }
        self.dirs.push((path.clone(), meta));
        if old.mode & OWNER_BITS == OWNER_BITS || self.setting.options.dry_run || path.is_root() {
            self.release(&path);
        } else {
            self.jobs.ask(Work::MakeDir { path: path.clone() }, Place::MakeDir(path));
        }
    }

    /// A link, a FIFO, a socket or a device: what has no content to be sent.
    fn decide_other(&mut self, file: FileNo, path: RelPath, meta: Meta, old: Option<Meta>) {
        let item = Item::of(&meta.kind);
        let action = match &old {
            Some(old) if old.kind == meta.kind => Action::Touched,
            Some(old) if Item::of(&old.kind) == item => Action::Updated,
            _ => Action::Created,
        };
        let mut differs = match &old {
            Some(old) => attributes(&self.setting.options, &meta, old),
            None => Differs::default(),
        };
        differs.content = action == Action::Updated;
        if action == Action::Touched && differs == Differs::default() {
            return;
        }
        let change = Change { path: path.clone(), item, action, differs };
        let replaces_dir = old.as_ref().is_some_and(Meta::is_dir);
        if self.setting.options.dry_run {
            self.changed(change);
        } else if action == Action::Touched {
            self.jobs.ask(Work::SetMeta { path, meta }, Place::Touch { change });
        } else if replaces_dir && self.setting.options.delete != Delete::Never {
            self.clear(file, path, Cleared::ForOther { meta, change });
        } else {
            self.make_other(meta, change);
        }
    }

    pub(super) fn make_other(&mut self, meta: Meta, change: Change) {
        let path = change.path.clone();
        let work = match &meta.kind {
            Kind::Symlink(target) => Work::MakeSymlink { path, target: target.clone(), meta },
            _ => Work::MakeSpecial { path, meta },
        };
        self.jobs.ask(work, Place::Make { change });
    }

    pub(super) fn changed_in_place(&mut self, change: Change, done: Result<(), Setback>) {
        match done {
            Ok(()) => self.changed(change),
            Err(setback) => self.trouble(setback.trouble),
        }
    }

    fn decide_file(&mut self, file: FileNo, path: RelPath, meta: Meta, old: Option<Meta>) {
        let options = &self.setting.options;
        let replaces_dir = old.as_ref().is_some_and(Meta::is_dir);
        let (seen, old_file) = (old.clone(), old.filter(Meta::is_file));
        let differs = match &old_file {
            Some(old) => Differs { size: old.len != meta.len, ..attributes(options, &meta, old) },
            None => Differs::default(),
        };
        let same_len = old_file.is_some() && !differs.size;
        let same_time = old_file.as_ref().is_some_and(|old| old.modified == meta.modified);
        let compare = options.checksum && same_len && meta.len > 0;
        if same_len && (meta.len == 0 || same_time && !compare) {
            return self.keep_file(path, meta, differs);
        }
        let candidate = Candidate { file, path, meta, old: old_file, seen, differs };
        if options.dry_run && !compare {
            self.would_replace(candidate);
        } else if replaces_dir && options.delete != Delete::Never {
            self.clear(file, candidate.path.clone(), Cleared::ForFile(candidate));
        } else {
            self.queue.push(candidate);
        }
    }

    /// Size and time agree, or there is no content to compare: at most the attributes are set.
    fn keep_file(&mut self, path: RelPath, meta: Meta, differs: Differs) {
        self.report_settled(meta.len);
        if differs == Differs::default() {
            return;
        }
        let change =
            Change { path: path.clone(), item: Item::File, action: Action::Touched, differs };
        if self.setting.options.dry_run {
            self.changed(change);
        } else {
            self.jobs.ask(Work::SetMeta { path, meta }, Place::Touch { change });
        }
    }

    fn would_replace(&mut self, candidate: Candidate) {
        let action = if candidate.old.is_some() { Action::Updated } else { Action::Created };
        self.totals.transferred += 1;
        let bytes = &mut self.totals.transferred_bytes;
        *bytes = bytes.saturating_add(candidate.meta.len);
        self.report_settled(candidate.meta.len);
        let Candidate { path, mut differs, .. } = candidate;
        differs.content = self.setting.options.checksum && action == Action::Updated;
        self.changed(Change { path, item: Item::File, action, differs });
    }

    pub(super) fn extra(&mut self, dir: &RelPath, names: Result<Vec<Extra>, Trouble>) {
        match names {
            Ok(names) => {
                let extra = |extra: Extra| Some((dir.join(&extra.name).ok()?, extra));
                self.extras.extend(names.into_iter().filter_map(extra));
            }
            Err(trouble) => self.trouble(trouble),
        }
    }
}
