//! What the sender lists: checked, counted, and handed on a section at a time, once its directory is in place.

use deltic_tree::{Entry, Kind, Meta, RelPath, Timestamp};

use crate::error::PeerError;
use crate::message::{Extent, FileNo};
use crate::report::Notice;

use super::sections::{Lost, Section};
use super::{Carries, Place, Receiver, Work};

impl Receiver {
    /// Tells this end's user how much is listed.
    pub(super) fn report_listed(&mut self) {
        let (names, files) = (self.cx.totals.listed() + self.left_out, self.cx.totals.files);
        let (bytes, complete) = (self.cx.progress.listed(), self.list.is_complete());
        self.cx.notices.push_back(Notice::Listed { names, files, bytes, complete });
    }

    pub(super) fn listing(
        &mut self,
        mut section: Section,
        extent: Extent,
    ) -> Result<(), PeerError> {
        if let Some(name) = &self.cx.setting.rename
            && self.cx.listed_as.as_ref() == Some(&section.dir)
        {
            section.dir = RelPath::root().join(name).expect("a name is a path");
        }
        let begins = self.list.check_order(&section, extent)?;
        self.check_names(&section)?;
        if begins {
            self.tallies.pay(&section.dir);
        }
        let kept = self.list.go_on(&section, extent);
        if let Some(meta) = kept {
            self.dirs.push(&section.dir, meta);
        }
        section.first = self.list.told();
        self.list.take_entries(&section.entries)?;
        self.take_linked(&mut section)?;
        section.metas_mut().for_each(|meta| self.adopt(meta));
        self.count(&section);
        self.rename(&mut section);
        if self.cx.setting.options.select.list_only {
            self.list_only(section);
            return Ok(());
        }
        self.expect_arrivals(&section);
        self.announce(&section);
        // Without metadata of its own the root only holds what was named: its other names are not the transfer's.
        self.root_is_whole |= section.own.is_some();
        if section.own.is_some() || !section.entries.is_empty() {
            self.show_new_root(section.own.is_some());
        }
        if let Some(own) = section.own.take() {
            self.look_at_root(own);
        }
        self.note_extras(&section, extent)?;
        self.sections.push(section).into_iter().for_each(|no| self.look(no));
        Ok(())
    }

    /// What is listed of the root waits, as in other directories, until its owner may work in it and it is known what else stands
    /// in it.
    fn look_at_root(&mut self, own: Meta) {
        let root = RelPath::root();
        let no = self.sections.push(Section::new(root.clone(), Some(own), Vec::new()));
        self.sections.wait_for(root);
        no.into_iter().for_each(|no| self.look(no));
    }

    /// A new root is told when the first comes of what goes into it. Without metadata of its own it gets a mode then.
    pub(super) fn show_new_root(&mut self, has_own: bool) {
        if !std::mem::take(&mut self.root_is_bare) {
            return;
        }
        self.cx.tell_root();
        if !(has_own || self.cx.setting.options.dry_run) {
            let meta = Meta::plain(Kind::Dir, 0, Timestamp::default(), 0o777);
            let dirs = vec![(RelPath::root(), meta)];
            self.set_dirs_now(dirs, Carries::Nothing);
        }
    }

    /// Tells entries, and does nothing else with them.
    fn list_only(&mut self, section: Section) {
        for (nth, entry) in section.entries.iter().enumerate() {
            self.miss_undecided(FileNo(section.first + nth as u64), &entry.meta);
        }
        let own = section.own.map(|meta| (RelPath::root(), meta));
        let entry = |entry: Entry| Some((section.dir.join(&entry.name).ok()?, entry.meta));
        for (path, meta) in own.into_iter().chain(section.entries.into_iter().filter_map(entry)) {
            if meta.is_dir() && !path.is_root() {
                self.list.announce(path.clone(), None);
            }
            self.cx.report_settled(meta.len);
            self.cx.notices.push_back(Notice::Entry { path, meta });
        }
    }

    /// Refuses what a sender must not list: names too deep, names at the root that were not asked for, directories if the
    /// options leave them out.
    fn check_names(&self, section: &Section) -> Result<(), PeerError> {
        if section.dir.is_root() && !self.expects(section) {
            return Err(PeerError::Unexpected("a name that was not asked for"));
        }
        if self.cx.setting.rename.is_some() && !self.is_one_file(section) {
            return Err(PeerError::Unexpected("more than the one file that was announced"));
        }
        section.metas().try_for_each(|meta| self.check_meta(meta))?;
        if section.own.as_ref().is_some_and(|own| own.linked().is_some()) {
            return Err(PeerError::Unexpected("metadata that was not asked for"));
        }
        for Entry { name, meta } in &section.entries {
            let joined = section.dir.join(name);
            joined.map_err(|source| PeerError::BadName { frame: "Listing", source })?;
            if meta.is_dir() && !self.cx.setting.options.takes(&meta.kind) {
                return Err(PeerError::Unexpected("an entry that the options leave out"));
            }
        }
        Ok(())
    }

    /// Whether a listing of the root is of what was asked for.
    fn expects(&self, section: &Section) -> bool {
        let Some(expect) = &self.cx.setting.expect else { return true };
        (expect.own || section.own.is_none())
            && section.entries.iter().all(|entry| expect.admits(&entry.name))
    }

    /// Whether this listing is of one entry that nothing is listed in, and the first to name any.
    fn is_one_file(&self, section: &Section) -> bool {
        let entries = section.entries.as_slice();
        let is_first = self.list.told() == 0 || entries.is_empty();
        is_first
            && section.own.is_none()
            && entries.len() <= 1
            && !(self.cx.setting.options.recursive && entries.iter().any(|e| e.meta.is_dir()))
    }

    /// Announces the directories of a section: what is listed of them waits until they are in place.
    fn announce(&mut self, section: &Section) {
        for entry in section.entries.iter().filter(|entry| entry.meta.is_dir()) {
            if let Ok(path) = section.dir.join(&entry.name) {
                self.name(&path, None);
                self.sections.wait_for(path);
            }
        }
    }

    fn count(&mut self, section: &Section) {
        // rsync counts the root too, where it is part of the transfer.
        self.cx.totals.dirs += u64::from(section.own.is_some());
        for entry in &section.entries {
            match &entry.meta.kind {
                kind if !self.cx.setting.options.takes(kind) => self.left_out += 1,
                Kind::File => {
                    self.cx.totals.files += 1;
                    self.cx.progress.list(entry.meta.len);
                    self.cx.totals.bytes = self.cx.totals.bytes.saturating_add(entry.meta.len);
                }
                Kind::Dir => self.cx.totals.dirs += 1,
                Kind::Symlink(target) => {
                    self.cx.totals.links += 1;
                    self.cx.totals.bytes = self.cx.totals.bytes.saturating_add(target.len() as u64);
                }
                Kind::Fifo | Kind::Socket => self.cx.totals.specials += 1,
                Kind::Device(_) => self.cx.totals.devices += 1,
            }
        }
        self.report_listed();
    }

    /// The destination may name the one entry that is listed.
    fn rename(&mut self, section: &mut Section) {
        if let (true, Some(name), [entry]) =
            (section.dir.is_root(), &self.cx.setting.rename, section.entries.as_mut_slice())
        {
            self.cx.listed_as = RelPath::root().join(&entry.name).ok();
            entry.name.clone_from(name);
        }
    }

    fn look(&mut self, no: u64) {
        let section = self.sections.get(no);
        if let Some(lost) = self.sections.why_lost(&section.dir) {
            return self.give_up_section(no, lost);
        }
        let own = section.own.iter().map(|_| RelPath::root());
        let entries = section.entries.iter().filter_map(|entry| section.dir.join(&entry.name).ok());
        let paths = own.chain(entries).collect();
        let (users, groups) = self.strangers(section);
        // Where a symlink stands in their place, it may be kept.
        let keeps = self.cx.setting.options.follow.keep_dirs;
        let may_be_link = |Entry { meta, .. }: &&Entry| meta.is_dir() && keeps || meta.is_implied();
        let dirs = section.entries.iter().filter(may_be_link);
        let dirs = dirs.filter_map(|entry| section.dir.join(&entry.name).ok()).collect();
        self.cx.jobs.ask(Work::Look { paths, dirs, users, groups }, Place::Look(no));
    }

    /// A directory is lost, and with it all below; it was said once.
    fn give_up_section(&mut self, no: u64, lost: Lost) {
        let Some(section) = self.sections.take(no) else { return };
        for (nth, entry) in section.entries.into_iter().enumerate() {
            self.cx.totals.failed += u64::from(lost == Lost::Failed);
            self.cx.report_settled(entry.meta.len);
            self.miss_undecided(FileNo(section.first + nth as u64), &entry.meta);
            if let (Kind::Dir, Ok(path)) = (&entry.meta.kind, section.dir.join(&entry.name)) {
                self.lose_dir(path, lost);
            }
        }
    }

    pub(super) fn lose_dir(&mut self, path: RelPath, lost: Lost) {
        self.deleting.lose(&path);
        self.sections.lose(path, lost).into_iter().for_each(|no| self.give_up_section(no, lost));
    }

    /// The directory is in place: what waited for it may go on, once it is known what else stands in it.
    pub(super) fn release(&mut self, path: &RelPath) {
        if !self.ask_extra_later(path) {
            self.enter(path);
        }
    }

    /// What waited for the directory goes on.
    pub(super) fn enter(&mut self, path: &RelPath) {
        self.sections.release(path).into_iter().for_each(|no| self.look(no));
    }
}
