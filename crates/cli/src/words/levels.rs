//! `--info` and `--debug`: rsync's names for kinds of output, and their levels.
//!
//! All of rsync's names are accepted, so that scripts run. Names about the inside of rsync have no effect.

/// Levels of `--info`, for the names with an effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct InfoLevels {
    /// Level for backups: old versions, and their new paths.
    pub(crate) backup: u8,
    /// Level for deletions.
    pub(crate) del: u8,
    /// Level for the message that the file list is under way.
    pub(crate) flist: u8,
    /// 1: names that change; 2: also names with changed attributes only, and names that are up to date.
    pub(crate) name: u8,
    /// Level for names skipped because of their file type.
    pub(crate) nonreg: u8,
    /// 1 and 2: progress is shown.
    pub(crate) progress: u8,
    /// Level for removed sources.
    pub(crate) remove: u8,
    /// Level for skipped names and the reasons.
    pub(crate) skip: u8,
    /// 1: totals; 2: every count.
    pub(crate) stats: u8,
}

/// An item unknown to rsync too, or a request for help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum UnknownItem {
    Item { option: &'static str, item: String },
    Help(String),
}

impl std::error::Error for UnknownItem {}

impl std::fmt::Display for UnknownItem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Item { option, item } => write!(f, "unknown {option} item: '{item}'"),
            Self::Help(text) => f.write_str(text),
        }
    }
}

impl InfoLevels {
    /// Returns the levels that `-v`, given `times` times, sets.
    pub(crate) fn verbose(times: u8) -> Self {
        let mut info = Self { nonreg: 1, ..Self::default() };
        if times > 0 {
            info.raise("del,flist,name,stats");
        }
        if times > 1 {
            info.raise("backup,name2,remove,skip");
        }
        info
    }

    /// Raises levels to the levels in `flags`; higher levels stay.
    pub(crate) fn raise(&mut self, flags: &str) {
        for (name, level) in flags.split(',').map(split) {
            if let Some(known) = self.of(name) {
                *known = level.max(*known);
            }
        }
    }

    /// Sets the levels that `--info=FLAGS` names.
    ///
    /// # Errors
    /// [`UnknownItem`]
    pub(crate) fn set(&mut self, flags: &str) -> Result<(), UnknownItem> {
        for item in items("--info", flags, &INFO)? {
            let (name, level) = item;
            match self.of(&name) {
                Some(known) => *known = level,
                None if name == "all" => {
                    let Self { backup, del, flist, name, nonreg, progress, remove, skip, stats } =
                        self;
                    for each in [backup, del, flist, name, nonreg, progress, remove, skip, stats] {
                        *each = level;
                    }
                }
                None => {}
            }
        }
        Ok(())
    }

    fn of(&mut self, name: &str) -> Option<&mut u8> {
        Some(match name {
            "backup" => &mut self.backup,
            "del" => &mut self.del,
            "flist" => &mut self.flist,
            "name" => &mut self.name,
            "nonreg" => &mut self.nonreg,
            "progress" => &mut self.progress,
            "remove" => &mut self.remove,
            "skip" => &mut self.skip,
            "stats" => &mut self.stats,
            _ => return None,
        })
    }
}

/// Levels of `--debug`, for the names that resemble rsync's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DebugLevels {
    /// Level for counts of matched data.
    pub(crate) deltasum: u8,
    /// Level for whether files are sent whole.
    pub(crate) flist: u8,
    /// Level for files that `--fuzzy` took as basis under another name.
    pub(crate) fuzzy: u8,
    /// Level for the checksum and the compression of the session.
    pub(crate) nstr: u8,
}

impl DebugLevels {
    /// Returns the levels that `-v`, given `times` times, sets.
    pub(crate) fn verbose(times: u8) -> Self {
        let (inside, more) = (u8::from(times > 1), u8::from(times > 2));
        Self { deltasum: inside, flist: inside, fuzzy: more, nstr: 0 }
    }

    /// Sets the levels that `--debug=FLAGS` names.
    ///
    /// # Errors
    /// [`UnknownItem`]
    pub(crate) fn set(&mut self, flags: &str) -> Result<(), UnknownItem> {
        for (name, level) in items("--debug", flags, &DEBUG)? {
            match &*name {
                "deltasum" => self.deltasum = level,
                "flist" => self.flist = level,
                "fuzzy" => self.fuzzy = level,
                "nstr" => self.nstr = level,
                "all" => {
                    *self = Self { deltasum: level, flist: level, fuzzy: level, nstr: level };
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Splits `flags` into lower-case names and levels; `none` is `all0`.
fn items(
    option: &'static str,
    flags: &str,
    known: &[(&str, &str)],
) -> Result<Vec<(String, u8)>, UnknownItem> {
    let flags = flags.to_ascii_lowercase();
    let item = |item: &str| match split(item) {
        ("help", _) => Err(UnknownItem::Help(help(option, known))),
        ("none", _) => Ok(("all".to_owned(), 0)),
        (name, level) if name == "all" || known.iter().any(|(word, _)| *word == name) => {
            Ok((name.to_owned(), level))
        }
        _ => Err(UnknownItem::Item { option, item: item.to_owned() }),
    };
    flags.split(',').filter(|flag| !flag.is_empty()).map(item).collect()
}

/// Splits an item into name and level: `name2` is `name` at level 2, a bare name is at level 1.
fn split(item: &str) -> (&str, u8) {
    let name = item.trim_end_matches(|c: char| c.is_ascii_digit());
    let level = &item[name.len()..];
    (name, if level.is_empty() { 1 } else { level.parse().unwrap_or(u8::MAX) })
}

fn help(option: &str, known: &[(&str, &str)]) -> String {
    let mut text = String::from(
        "Use OPT or OPT1 for level 1 output, OPT2 for level 2, etc.; OPT0 silences.\n\n",
    );
    let own = [("all", "set all of them (e.g. all4)"), ("none", "the same as all0")];
    for (name, what) in known.iter().chain(&own) {
        text.push_str(&format!("{:<10} {what}\n", name.to_ascii_uppercase()));
    }
    text.push_str(&format!("\n{option} knows all of rsync's names; most have no meaning here.\n"));
    text
}

const NO_MEANING: &str = "no meaning here";

/// Flags of `--info`.
const INFO: [(&str, &str); 13] = [
    ("backup", "names of backups"),
    ("copy", NO_MEANING),
    ("del", "deletions"),
    ("flist", "message at the start of the file list"),
    ("misc", NO_MEANING),
    ("mount", NO_MEANING),
    ("name", "1) names that change, 2) also names with changed attributes only"),
    ("nonreg", "skipped special files and other types (default 1, 0 disables)"),
    ("progress", "progress of the whole run"),
    ("remove", "removed source files (--remove-source-files)"),
    ("skip", "skipped names, with the reason"),
    ("stats", "1) totals at the end, 2) all statistics"),
    ("symsafe", NO_MEANING),
];

/// Flags of `--debug`.
const DEBUG: [(&str, &str); 24] = [
    ("acl", NO_MEANING),
    ("backup", NO_MEANING),
    ("bind", NO_MEANING),
    ("chdir", NO_MEANING),
    ("connect", NO_MEANING),
    ("cmd", NO_MEANING),
    ("del", NO_MEANING),
    ("deltasum", "files with matched data, and bytes sent"),
    ("dup", NO_MEANING),
    ("exit", NO_MEANING),
    ("filter", NO_MEANING),
    ("flist", "whether files are sent whole"),
    ("fuzzy", "basis files with other names"),
    ("genr", NO_MEANING),
    ("hash", NO_MEANING),
    ("hlink", NO_MEANING),
    ("iconv", NO_MEANING),
    ("io", NO_MEANING),
    ("nstr", "checksum and compression of the session"),
    ("own", NO_MEANING),
    ("proto", NO_MEANING),
    ("recv", NO_MEANING),
    ("send", NO_MEANING),
    ("time", NO_MEANING),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbosity_sets_levels_and_flags_change_them() {
        assert_eq!(InfoLevels::verbose(0), InfoLevels { nonreg: 1, ..InfoLevels::default() });
        let mut info = InfoLevels::verbose(2);
        assert_eq!((info.name, info.del, info.flist, info.stats), (2, 1, 1, 1));
        assert_eq!((info.backup, info.remove, info.skip), (1, 1, 1));
        info.set("NAME0,stats2,misc2,copy").unwrap();
        assert_eq!((info.name, info.del, info.stats), (0, 1, 2));
        info.set("none,del").unwrap();
        assert_eq!(info, InfoLevels { del: 1, ..InfoLevels::default() });
    }

    #[test]
    fn names_that_rsync_does_not_know_are_refused() {
        for flags in ["foo", "name,foo2", "deltasum"] {
            assert!(
                matches!(InfoLevels::default().set(flags), Err(UnknownItem::Item { .. })),
                "{flags}"
            );
        }
        let mut debug = DebugLevels::default();
        debug.set("deltasum4,IO,all2,none,Fuzzy").unwrap();
        assert_eq!(debug, DebugLevels { fuzzy: 1, ..DebugLevels::default() });
        assert!(debug.set("name").is_err());
        assert!(
            matches!(debug.set("help"), Err(UnknownItem::Help(text)) if text.contains("FUZZY"))
        );
    }
}
