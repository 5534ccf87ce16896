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
use super::list::is_last_section;
use super::owners::{LocalOwners, adapt_meta, check_meta, insert_names};
use super::removal::NO_LIMIT;
use super::sections::DirSection;

impl ListedDirs {
    /// Checks a section, and numbers the entries.
    pub(super) fn check_section(
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
            self.digests.note_listing(&section.dir);
        }
        if let Some(meta) = self.list.take_section(section, extent) {
            self.last.push(&section.dir, meta);
        }
        section.first = self.list.listed_count();
        self.list.take_entries(&section.entries)
    }

    /// Adapts the metadata of a checked section to this end, and counts the entries.
    pub(super) fn adapt_and_count(&mut self, cx: &mut Context, section: &mut DirSection) {
        section.metas_mut().for_each(|meta| adapt_meta(cx, meta));
        self.count_entries(cx, section);
        self.rename_single_entry(cx, section);
    }

    /// Announces a section's directories, and looks up the entries once the section's directory is in place. Returns
    /// true if the directory is empty at the source, so that its names at this end stay.
    pub(super) fn take_section(
        &mut self,
        cx: &mut Context,
        mut section: DirSection,
        extent: Extent,
    ) -> Result<bool, PeerError> {
        self.announce_dirs(&section);
        // A root without listed metadata only holds the named sources: its other names are not part of the transfer.
        self.root.is_whole |= section.own.is_some();
        if section.own.is_some() || !section.entries.is_empty() {
            self.report_new_root(cx, section.own.is_some());
        }
        if let Some(own) = section.own.take() {
            self.look_up_root(cx, own);
        }
        let is_empty = self.note_names(cx, &section, extent)?;
        section.alike = self.names_alike(&section, extent);
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
        if is_last_section(extent) {
            let (dir, keep) = (section.dir.clone(), std::mem::take(&mut self.names.keep));
            if self.sections.is_awaited(&dir) {
                self.names.keep_later.insert(dir, keep);
            } else {
                self.request_unlisted(cx, dir, keep);
            }
        }
        Ok(extent == Extent::Empty && delete != Delete::AtMost(NO_LIMIT))
    }

    /// Returns names of a section that some file systems treat as the same as an earlier name of the directory.
    fn names_alike(&mut self, section: &DirSection, extent: Extent) -> Vec<AlikeNames> {
        let (folded, mut found) = (&mut self.names.folded, Vec::new());
        for Entry { name, .. } in &section.entries {
            let alike =
                |earlier| AlikeNames { dir: section.dir.clone(), name: name.clone(), earlier };
            found.extend(folded.add_name(name).into_iter().map(alike));
        }
        if is_last_section(extent) {
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
        let known = LocalOwners::with_mapped(&section, owners);
        let Some(mut own) = section.own.take() else {
            section.metas_mut().for_each(|meta| known.translate(meta));
            return Some(section);
        };
        known.translate(&mut own);
        match found.next() {
            Some(Ok(Some(old))) => {
                self.take_existing_dir(cx, section.dir, own, &old);
                return None;
            }
            Some(Err(trouble)) => cx.count_failure(trouble),
            Some(Ok(None)) | None => {}
        }
        self.release_dir(cx, &section.dir);
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
        let asked = (metadata.sends_user_names() || users.is_empty())
            && (metadata.sends_group_names() || groups.is_empty());
        if !asked || users.is_empty() && groups.is_empty() {
            return Err(PeerError::Unexpected("names of users or groups"));
        }
        self.digests.forget_owners();
        insert_names(&mut self.owners.users, users)?;
        insert_names(&mut self.owners.groups, groups)
    }

    /// Ends the list. Errors: `Unexpected` if announced directories were not listed.
    pub(super) fn end_list(&mut self, cx: &mut Context, intact: bool) -> Result<(), PeerError> {
        if !self.list.has_listed_all_dirs() || !self.digests.is_empty() {
            return Err(PeerError::Unexpected("the end of an incomplete list"));
        }
        if cx.setting.root_is_wanted {
            self.report_new_root(cx, false);
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
    fn look_up_root(&mut self, cx: &mut Context, own: Meta) {
        let root = RelPath::root();
        let no = self.sections.push_and_get_if_ready(DirSection::new(
            root.clone(),
            Some(own),
            Vec::new(),
        ));
        self.sections.wait_for_dir(root);
        no.into_iter().for_each(|no| self.request_lookup(cx, no));
    }

    /// Reports a new root before the first entry in the root. A root without listed metadata gets its mode now.
    pub(super) fn report_new_root(&mut self, cx: &mut Context, has_own: bool) {
        if !std::mem::take(&mut self.root.is_bare) {
            return;
        }
        cx.report_new_root();
        if !(has_own || cx.setting.options.dry_run) {
            let meta = Meta::without_owner(Kind::Dir, 0, Timestamp::default(), 0o777);
            let dirs = vec![(RelPath::root(), meta)];
            self.request_dir_meta(cx, dirs, CarriedMeta::Nothing);
        }
    }

    /// Reports entries without any further step.
    pub(super) fn report_only(&mut self, cx: &mut Context, section: DirSection) {
        for (nth, entry) in section.entries.iter().enumerate() {
            self.give_up_entry(FileNo(section.first + nth as u64), &entry.meta);
        }
        let own = section.own.map(|meta| (RelPath::root(), meta));
        let entry = |entry: Entry| Some((section.dir.join(&entry.name).ok()?, entry.meta));
        for (path, meta) in own.into_iter().chain(section.entries.into_iter().filter_map(entry)) {
            if meta.is_dir() && !path.is_root() {
                self.list.allow_listing(&path, None);
            }
            cx.report_settled(meta.len);
            cx.notices.push_back(Notice::Entry { path, meta });
        }
    }

    /// Checks that the sender may list these names. Errors: `BadName` for too deep paths, `Unexpected` for names at
    /// the root that were not asked for, and for directories that the options leave out.
    fn check_names(&self, cx: &Context, section: &DirSection) -> Result<(), PeerError> {
        if section.dir.is_root() && !self.has_only_requested_names(cx, section) {
            return Err(PeerError::Unexpected("a name that was not requested"));
        }
        if cx.setting.rename.is_some() && !self.is_one_file(cx, section) {
            return Err(PeerError::Unexpected("more files than the one that was announced"));
        }
        section.metas().try_for_each(|meta| check_meta(cx, meta))?;
        if section.own.as_ref().is_some_and(|own| own.hard_link().is_some()) {
            return Err(PeerError::Unexpected("metadata that was not requested"));
        }
        for Entry { name, meta } in &section.entries {
            let joined = section.dir.join(name);
            joined.map_err(|source| PeerError::BadName { frame: "Listing", source })?;
            if meta.is_dir() && !cx.setting.options.transfers_kind(&meta.kind) {
                return Err(PeerError::Unexpected("an entry that the options exclude"));
            }
        }
        Ok(())
    }

    /// True if a listing of the root has only names that were asked for.
    fn has_only_requested_names(&self, cx: &Context, section: &DirSection) -> bool {
        let Some(expect) = &cx.setting.expect else { return true };
        (expect.own || section.own.is_none())
            && section.entries.iter().all(|entry| expect.is_expected(&entry.name))
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
    fn announce_dirs(&mut self, section: &DirSection) {
        for entry in section.entries.iter().filter(|entry| entry.meta.is_dir()) {
            if let Ok(path) = section.dir.join(&entry.name) {
                self.note_named(&path, None);
                self.sections.wait_for_dir(path);
            }
        }
    }

    fn count_entries(&mut self, cx: &mut Context, section: &DirSection) {
        // Like rsync, count the root too if it is part of the transfer.
        cx.totals.dirs += u64::from(section.own.is_some());
        for entry in &section.entries {
            match &entry.meta.kind {
                kind if !cx.setting.options.transfers_kind(kind) => self.left_out += 1,
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
    fn rename_single_entry(&mut self, cx: &mut Context, section: &mut DirSection) {
        if let (true, Some(name), [entry]) =
            (section.dir.is_root(), &cx.setting.rename, section.entries.as_mut_slice())
        {
            cx.listed_as = RelPath::root().join(&entry.name).ok();
            entry.name.clone_from(name);
        }
    }
}
