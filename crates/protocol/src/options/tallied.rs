//! Runs in which the tally of a directory may replace the list of its entries.

use deltic_tree::{ComparedAttributes, Follow};

use super::{Compare, Links, Metadata, Missing, Options, Remove, Select, Window};

impl Options {
    /// Returns the attributes that tallies compare, or `None` if runs with these options use no tallies. Equal
    /// tallies mean that every entry of the directory is up to date and that no other entry is deleted. So tallies
    /// are off where the options act on up-to-date entries, compare more than a tally covers, or report every entry.
    /// A new field of an option group such as `Metadata` does not compile until this function decides on it.
    #[must_use]
    pub fn tallied(&self) -> Option<ComparedAttributes> {
        let Self { recursive, modes, times, checksum, metadata, follow, .. } = self;
        let Self { remove, select, compare, tells_unchanged, .. } = self;
        let Self { dry_run: _, delete: _, rules: _, links: _, durable: _, whole_file: _, .. } =
            self;
        let Self {
            strategy: _, block_bytes: _, writing: _, compress: _, compress_level: _, ..
        } = self;
        let Self { threads: _, streams: _, tells_owners: _, .. } = self;
        let metadata = metadata.tallied()?;
        let Links { follow, safe, munge, keep_dirs, unmunge, insecure: _ } = follow;
        let Remove { sources, backup, force: _, ignore_errors: _, .. } = remove;
        let Select {
            relative,
            list_only,
            missing,
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
            window,
            alternates,
            // These options do not matter: an entry with equal attributes is up to date.
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
        let quick = !size_only && !ignore_times && !matches!(window, Window::Secs(_));
        // No file is read for a tally: its digest is known, or the directory has no tally.
        let quick = quick && (!checksum || *cached && trusted.is_none());
        let links = *follow == Follow::Never && !safe && !munge && !keep_dirs && !unmunge;
        let named = !relative && !list_only && !tells_unchanged && *missing != Missing::Delete;
        let kept = !sources && backup.is_none() && alternates.dirs.is_empty();
        (*recursive && quick && links && named && kept).then_some(ComparedAttributes {
            contents: *checksum,
            file_times: *times || !checksum,
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
    fn tallied(&self) -> Option<ComparedAttributes> {
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
        let plain = !accessed && !acls && !xattrs && !hard_links && !noted && chmod.is_empty();
        plain.then_some(ComparedAttributes {
            executability: *executability,
            dir_times: !omit_dir_times,
            link_times: !omit_link_times,
            users: *users,
            groups: *groups,
            ..ComparedAttributes::default()
        })
    }
}
