//! The sender's listings: checked, counted, and passed on in sections once the directories are in place.

use deltic_tree::fold::FoldedNames;
use deltic_tree::{Entry, Kind, Meta, Names, RelPath, Timestamp};

use crate::error::PeerError;
use crate::message::{Extent, FileNo, NameLine};
use crate::options::Delete;
use crate::receiver::ask::{AlikeNames, CarriedMeta, MappedOwners};
use crate::receiver::context::Context;
use crate::report::{Notice, Trouble};

use super::dirs::ListedDirs;
use super::list::ends;
use super::owners::{LocalOwners, adopt, check_meta, learn};
use super::removal::NO_LIMIT;
use super::sections::DirSection;

impl ListedDirs {
    /// Checks a section, and numbers the entries.
    pub(super) fn check(
        &mut self,
        cx: &Context,
        section: &mut DirSection,
        extent: Extent,
    ) -> Result<(), PeerError> {
        if let Some(name) = &cx.setting.rename
            && cx.listed_as.as_ref() == Some(&section.dir)
        {
            section.dir = RelPath::root().join(name).expect("a name is a path");
        }
        let begins = self.list.check_order(section, extent)?;
        self.check_names(cx, section)?;
        if begins {
            self.digests.listing_begins(&section.dir);
        }
        if let Some(meta) = self.list.go_on(section, extent) {
            self.last.push(&section.dir, meta);
        }
        section.first = self.list.listed_count();
        self.list.take_entries(&section.entries)
    }

    /// Adapts the metadata of a checked section to this end, and counts the entries.
    pub(super) fn adopt(&mut self, cx: &mut Context, section: &mut DirSection) {
        section.metas_mut().for_each(|meta| adopt(cx, meta));
        self.count(cx, section);
        self.rename(cx, section);
    }

    /// Announces a section's directories, and looks up the entries once the section's directory is in place. Returns
    /// true if the directory is empty at the source, so that its names at this end stay.
    pub(super) fn take(
        &mut self,
        cx: &mut Context,
        mut section: DirSection,
        extent: Extent,
    ) -> Result<bool, PeerError> {
        self.announce(&section);
        // A root without listed metadata only holds the named sources: its other names are not part of the transfer.
        self.root.is_whole |= section.own.is_some();
        if section.own.is_some() || !section.entries.is_empty() {
            self.show_new_root(cx, section.own.is_some());
        }
        if let Some(own) = section.own.take() {
            self.look_at_root(cx, own);
        }
        let is_empty = self.note_names(cx, &section, extent)?;
        section.alike = self.alike_names(&section, extent);
        self.sections
            .push_and_get_if_ready(section)
            .into_iter()
            .for_each(|no| self.request_lookup(cx, no));
        Ok(is_empty)
    }

    /// Collects a directory's names, and requests the unlisted names at the end of the directory. Returns true if the
    /// directory is empty at the source, so that its names at this end stay.
    fn note_names(
        &mut self,
        cx: &mut Context,
        section: &DirSection,
        extent: Extent,
    ) -> Result<bool, PeerError> {
        let delete = cx.setting.options.delete;
        if delete == Delete::Never || section.dir.is_root() && !self.root.is_whole {
            return Ok(false);
        }
        if extent == Extent::Part {
            self.names.keep = Names::default();
            return Ok(false);
        }
        for entry in &section.entries {
            let kept = self.names.keep.push(&entry.name);
            kept.map_err(|_| PeerError::Unexpected("names out of order"))?;
        }
        if ends(extent) {
            let (dir, keep) = (section.dir.clone(), std::mem::take(&mut self.names.keep));
            if self.sections.awaits(&dir) {
                self.names.keep_later.insert(dir, keep);
            } else {
                self.ask_extra(cx, dir, keep);
            }
        }
        Ok(extent == Extent::Empty && delete != Delete::AtMost(NO_LIMIT))
    }

    /// Returns names of a section that some file systems treat as the same as an earlier name of the directory.
    fn alike_names(&mut self, section: &DirSection, extent: Extent) -> Vec<AlikeNames> {
        let (folded, mut found) = (&mut self.names.folded, Vec::new());
        for Entry { name, .. } in &section.entries {
            let alike =
                |earlier| AlikeNames { dir: section.dir.clone(), name: name.clone(), earlier };
            found.extend(folded.add(name).into_iter().map(alike));
        }
        if ends(extent) {
            *folded = FoldedNames::default();
        }
        found
    }

    /// Takes the entries found at the names of a section; returns a section with entries.
    pub(super) fn take_found_entries(
        &mut self,
        cx: &mut Context,
        no: u64,
        found: &mut impl Iterator<Item = Result<Option<Meta>, Trouble>>,
        owners: MappedOwners,
    ) -> Option<DirSection> {
        let mut section = self.sections.take(no)?;
        let known = LocalOwners::of(&section, owners);
        let Some(mut own) = section.own.take() else {
            section.metas_mut().for_each(|meta| known.translate(meta));
            return Some(section);
        };
        known.translate(&mut own);
        match found.next() {
            Some(Ok(Some(old))) => {
                self.existing_dir(cx, section.dir, own, &old);
                return None;
            }
            Some(Err(trouble)) => cx.trouble(trouble),
            Some(Ok(None)) | None => {}
        }
        self.release(cx, &section.dir);
        None
    }

    /// Takes the names of users and groups at the sender. Errors: `Unexpected` for names that were not asked for or
    /// told before.
    pub(super) fn learn_owners(
        &mut self,
        cx: &Context,
        users: Vec<NameLine>,
        groups: Vec<NameLine>,
    ) -> Result<(), PeerError> {
        let metadata = &cx.setting.options.metadata;
        let asked = (metadata.names_users() || users.is_empty())
            && (metadata.names_groups() || groups.is_empty());
        if !asked || users.is_empty() && groups.is_empty() {
            return Err(PeerError::Unexpected("names of users or groups"));
        }
        self.digests.forget_owners();
        learn(&mut self.owners.users, users)?;
        learn(&mut self.owners.groups, groups)
    }

    /// Ends the list. Errors: `Unexpected` if announced directories were not listed.
    pub(super) fn end_list(&mut self, cx: &mut Context, intact: bool) -> Result<(), PeerError> {
        if !self.list.has_all() || !self.digests.is_empty() {
            return Err(PeerError::Unexpected("the end of an incomplete list"));
        }
        if cx.setting.root_is_wanted {
            self.show_new_root(cx, false);
        }
        self.list.end(intact);
        self.report_listed(cx);
        Ok(())
    }

    /// Reports the size of the list to this end's user.
    pub(super) fn report_listed(&mut self, cx: &mut Context) {
        let (names, files) = (cx.totals.listed() + self.left_out, cx.totals.files);
        let (bytes, complete) = (cx.progress.listed(), self.list.is_complete());
        cx.notices.push_back(Notice::Listed { names, files, bytes, complete });
    }

    /// Looks at the root. As in other directories, its listed entries wait until its owner may work in it and its
    /// unlisted names are known.
    fn look_at_root(&mut self, cx: &mut Context, own: Meta) {
        let root = RelPath::root();
        let no = self.sections.push_and_get_if_ready(DirSection::new(
            root.clone(),
            Some(own),
            Vec::new(),
        ));
        self.sections.wait_for(root);
        no.into_iter().for_each(|no| self.request_lookup(cx, no));
    }

    /// Reports a new root before the first entry in the root. A root without listed metadata gets its mode now.
    pub(super) fn show_new_root(&mut self, cx: &mut Context, has_own: bool) {
        if !std::mem::take(&mut self.root.is_bare) {
            return;
        }
        cx.tell_root();
        if !(has_own || cx.setting.options.dry_run) {
            let meta = Meta::plain(Kind::Dir, 0, Timestamp::default(), 0o777);
            let dirs = vec![(RelPath::root(), meta)];
            self.set_dirs_now(cx, dirs, CarriedMeta::Nothing);
        }
    }

    /// Reports entries without any further step.
    pub(super) fn list_only(&mut self, cx: &mut Context, section: DirSection) {
        for (nth, entry) in section.entries.iter().enumerate() {
            self.give_up(FileNo(section.first + nth as u64), &entry.meta);
        }
        let own = section.own.map(|meta| (RelPath::root(), meta));
        let entry = |entry: Entry| Some((section.dir.join(&entry.name).ok()?, entry.meta));
        for (path, meta) in own.into_iter().chain(section.entries.into_iter().filter_map(entry)) {
            if meta.is_dir() && !path.is_root() {
                self.list.announce(&path, None);
            }
            cx.report_settled(meta.len);
            cx.notices.push_back(Notice::Entry { path, meta });
        }
    }

    /// Checks that the sender may list these names. Errors: `BadName` for too deep paths, `Unexpected` for names at
    /// the root that were not asked for, and for directories that the options leave out.
    fn check_names(&self, cx: &Context, section: &DirSection) -> Result<(), PeerError> {
        if section.dir.is_root() && !self.expects(cx, section) {
            return Err(PeerError::Unexpected("a name that was not asked for"));
        }
        if cx.setting.rename.is_some() && !self.is_one_file(cx, section) {
            return Err(PeerError::Unexpected("more than the one file that was announced"));
        }
        section.metas().try_for_each(|meta| check_meta(cx, meta))?;
        if section.own.as_ref().is_some_and(|own| own.linked().is_some()) {
            return Err(PeerError::Unexpected("metadata that was not asked for"));
        }
        for Entry { name, meta } in &section.entries {
            let joined = section.dir.join(name);
            joined.map_err(|source| PeerError::BadName { frame: "Listing", source })?;
            if meta.is_dir() && !cx.setting.options.takes(&meta.kind) {
                return Err(PeerError::Unexpected("an entry that the options leave out"));
            }
        }
        Ok(())
    }

    /// True if a listing of the root has only names that were asked for.
    fn expects(&self, cx: &Context, section: &DirSection) -> bool {
        let Some(expect) = &cx.setting.expect else { return true };
        (expect.own || section.own.is_none())
            && section.entries.iter().all(|entry| expect.admits(&entry.name))
    }

    /// True if no entry was listed before, and this listing has at most one entry, which is not walked as a
    /// directory.
    fn is_one_file(&self, cx: &Context, section: &DirSection) -> bool {
        let entries = section.entries.as_slice();
        let is_first = self.list.listed_count() == 0 || entries.is_empty();
        is_first
            && section.own.is_none()
            && entries.len() <= 1
            && !(cx.setting.options.recursive && entries.iter().any(|e| e.meta.is_dir()))
    }

    /// Announces the directories of a section, so that entries listed in them wait until the directories are in
    /// place.
    fn announce(&mut self, section: &DirSection) {
        for entry in section.entries.iter().filter(|entry| entry.meta.is_dir()) {
            if let Ok(path) = section.dir.join(&entry.name) {
                self.name(&path, None);
                self.sections.wait_for(path);
            }
        }
    }

    fn count(&mut self, cx: &mut Context, section: &DirSection) {
        // Like rsync, count the root too if it is part of the transfer.
        cx.totals.dirs += u64::from(section.own.is_some());
        for entry in &section.entries {
            match &entry.meta.kind {
                kind if !cx.setting.options.takes(kind) => self.left_out += 1,
                Kind::File => {
                    cx.totals.files += 1;
                    cx.progress.list(entry.meta.len);
                    cx.totals.bytes = cx.totals.bytes.saturating_add(entry.meta.len);
                }
                Kind::Dir => cx.totals.dirs += 1,
                Kind::Symlink(target) => {
                    cx.totals.links += 1;
                    cx.totals.bytes = cx.totals.bytes.saturating_add(target.len() as u64);
                }
                Kind::Fifo | Kind::Socket => cx.totals.specials += 1,
                Kind::Device(_) => cx.totals.devices += 1,
            }
        }
        self.report_listed(cx);
    }

    /// Renames the single listed entry, if the destination gives it a name.
    fn rename(&mut self, cx: &mut Context, section: &mut DirSection) {
        if let (true, Some(name), [entry]) =
            (section.dir.is_root(), &cx.setting.rename, section.entries.as_mut_slice())
        {
            cx.listed_as = RelPath::root().join(&entry.name).ok();
            entry.name.clone_from(name);
        }
    }
}
