//! Runs in which the tally of a directory may replace the list of its entries.

use deltic_tree::{ComparedAttributes, Follow};

use super::{Compare, Links, Metadata, Missing, Options, Remove, Select, Window};

impl Options {
    /// True if tallies with these options need the capability `tallies:wide`: earlier versions send no tallies with
    /// these options.
    #[must_use]
    pub fn needs_wide_tallies(&self) -> bool {
        let Metadata { acls, xattrs, hard_links, .. } = self.metadata;
        let has_window = matches!(self.compare.window, Window::Secs(_));
        let is_compared = self.compare.size_only || has_window || self.remove.backup.is_some();
        acls || xattrs || hard_links || is_compared || self.select.relative
    }

    /// Returns the attributes that tallies compare, or `None` if runs with these options use no tallies. Equal
    /// tallies mean that every entry of the directory is up to date and that no other entry is deleted. So tallies
    /// are off where the options act on up-to-date entries, compare more than a tally covers, or report every entry.
    /// A new field of an option group such as `Metadata` does not compile until this function handles the field.
    #[must_use]
    pub fn tallied_attributes(&self) -> Option<ComparedAttributes> {
        let Self { recursive, modes, times, checksum, metadata, follow, .. } = self;
        let Self { remove, select, compare, tells_unchanged, .. } = self;
        let Self { dry_run: _, delete: _, rules: _, links: _, durable: _, whole_file: _, .. } =
            self;
        let Self {
            strategy: _, block_bytes: _, writing: _, compress: _, compress_level: _, ..
        } = self;
        let Self { threads: _, streams: _, tells_owners: _, .. } = self;
        let metadata = metadata.tallied_attributes()?;
        let Links { follow, safe, munge, keep_dirs, unmunge, insecure: _ } = follow;
        // Only replaced and removed entries get a backup.
        let Remove { sources, backup: _, force: _, ignore_errors: _, .. } = remove;
        let Select {
            list_only,
            missing,
            // A directory that only leads to an argument is listed: its entries are a part of the directory.
            relative: _,
            dirs: _,
            plain_implied_dirs: _,
            prune_empty_dirs: _,
            mkpath: _,
            existing: _,
            mounts: _,
        } = select;
        let Compare {
            size_only,
            ignore_times,
            alternates,
            // These options do not matter: an entry with equal attributes is up to date.
            window: _,
            update: _,
            existing: _,
            ignore_existing: _,
            cached,
            min_bytes: _,
            max_bytes: _,
            fuzzy: _,
            max_age_secs: _,
            trusted,
        } = compare;
        // Equal sizes and times also agree with `size_only` and with any `window`.
        let quick = !ignore_times;
        // No file is read for a tally: its digest is known, or the directory has no tally.
        let quick = quick && (!checksum || *cached && trusted.is_none());
        let links = *follow == Follow::Never && !safe && !munge && !keep_dirs && !unmunge;
        let named = !list_only && !tells_unchanged && *missing != Missing::Delete;
        let kept = !sources && alternates.dirs.is_empty();
        (*recursive && quick && links && named && kept).then_some(ComparedAttributes {
            contents: *checksum,
            file_times: *times || !(*checksum || *size_only),
            modes: *modes,
            dir_times: *times && metadata.dir_times,
            link_times: *times && metadata.link_times,
            special_times: *times,
            ..metadata
        })
    }
}

impl Metadata {
    /// Returns the metadata that a tally compares; `None` if a run compares more.
    fn tallied_attributes(&self) -> Option<ComparedAttributes> {
        let Self {
            users,
            groups,
            executability,
            omit_dir_times,
            omit_link_times,
            accessed,
            acls,
            xattrs,
            hard_links,
            reads_notes,
            writes_notes,
            chmod,
            // These options depend on attributes, change nothing that is compared, or only map ids.
            all_xattrs: _,
            devices: _,
            specials: _,
            untouched: _,
            numeric_ids: _,
            powers: _,
            user_map: _,
            group_map: _,
        } = self;
        let noted = *reads_notes || *writes_notes;
        let plain = !accessed && !noted && chmod.is_empty();
        plain.then_some(ComparedAttributes {
            executability: *executability,
            dir_times: !omit_dir_times,
            link_times: !omit_link_times,
            users: *users,
            groups: *groups,
            acls: *acls,
            xattrs: *xattrs,
            hard_links: *hard_links,
            ..ComparedAttributes::default()
        })
    }
}
