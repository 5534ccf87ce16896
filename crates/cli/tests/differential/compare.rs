//! What two ends of a case have to agree in, and where they are meant not to.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::case::End;
use crate::common::World;
use crate::common::look::{Kind, Look, look};
use crate::common::maker::RULE_FILES;

type Looks = BTreeMap<PathBuf, Look>;

/// What the words of a case ask for.
pub(crate) struct Asked(Vec<String>);

impl Asked {
    pub(crate) fn new(words: &[OsString]) -> Self {
        Self(words.iter().map(|word| word.to_string_lossy().into_owned()).collect())
    }

    /// Whether there is just this word.
    pub(crate) fn has(&self, word: &str) -> bool {
        self.0.iter().any(|other| other == word)
    }

    /// Whether this is part of a word.
    pub(crate) fn part(&self, part: &str) -> bool {
        self.0.iter().any(|word| word.contains(part))
    }

    fn starts(&self, start: &str) -> bool {
        self.0.iter().any(|word| word.starts_with(start))
    }

    pub(crate) fn deletes(&self) -> bool {
        self.0.iter().any(|word| word.starts_with("--delete") && !word.contains("missing"))
    }

    pub(crate) fn rules(&self) -> bool {
        let all = ["-f", "--filter", "-F", "-C", "--exclude", "--include"];
        all.iter().any(|start| self.starts(start))
    }

    /// Whether links are followed.
    pub(crate) fn follows(&self) -> bool {
        ["-L", "-k", "--copy-unsafe-links"].iter().any(|word| self.has(word))
    }

    /// Whether the source is another one after a run.
    pub(crate) fn consumes(&self) -> bool {
        self.has("--remove-source-files") || self.has("-UU")
    }

    fn carries(&self, letter: char) -> bool {
        let bundle = |word: &String| !word.starts_with("--") && word.contains([letter, 'a']);
        self.0.first().is_some_and(bundle)
    }

    fn perms(&self) -> bool {
        self.carries('p') || self.has("-p") || self.has("-A")
    }

    fn times(&self) -> Times {
        let loose = self.part("window") || self.starts("-@") || self.has("-b");
        match (self.carries('t'), loose) {
            (false, _) => Times::None,
            (true, true) => Times::OfFiles,
            (true, false) => Times::All,
        }
    }
}

/// Which times are compared.
#[derive(Clone, Copy, PartialEq)]
enum Times {
    None,
    OfFiles,
    All,
}

/// Both targets of a case, and what they were made of.
pub(crate) struct Both<'a> {
    pub(crate) asked: &'a Asked,
    pub(crate) world: &'a World,
    pub(crate) before: &'a Looks,
    /// The source as rsync left it.
    pub(crate) source: &'a Looks,
}

impl Both<'_> {
    /// Each name and each line that is not the same in both, if it should be.
    pub(crate) fn differences(&self, ours: &End, theirs: &End) -> Vec<String> {
        let mut all = Vec::new();
        if ours.code != theirs.code {
            all.push(format!("exit code: deltic {:?} · rsync {:?}", ours.code, theirs.code));
        }
        let now = [look(&self.world.path("o")), look(&self.world.path("t"))];
        all.extend(self.names(&now, ours.code));
        let source = look(&self.world.path("src"));
        if self.asked.has("--remove-source-files") && !source.keys().eq(self.source.keys()) {
            let names = |looks: &Looks| looks.keys().cloned().collect::<BTreeSet<_>>();
            let (ours, theirs) = (names(&source), names(self.source));
            let differ: Vec<_> = ours.symmetric_difference(&theirs).collect();
            all.push(format!("left at the source by one only: {differ:?}"));
        }
        all
    }

    fn names(&self, [ours, theirs]: &[Looks; 2], code: Option<i32>) -> Vec<String> {
        let linked = self.linked();
        let source = look(&self.world.path("src"));
        let names: BTreeSet<_> = ours.keys().chain(theirs.keys()).collect();
        let mut all = Vec::new();
        for name in names {
            let told = |looks: &Looks| looks.get(name).map(|look| self.told(name, look, &linked));
            let (here, there) = (told(ours), told(theirs));
            let was = told(self.before);
            let below = name.strip_prefix("dst").ok();
            let new = below.and_then(|name| source.get(name)).map(|look| self.told(name, look, &linked));
            let stays = here.is_some() && there.is_none() && self.before.contains_key(name);
            let is_dir = |looks: &Looks| looks.get(name).is_some_and(|look| look.kind == Kind::Dir);
            // A directory from which not the same was removed.
            let around = new.is_none() && is_dir(ours) && is_dir(theirs);
            let meant = (stays || around) && (code != Some(0) || self.rules_moved(ours));
            if here != there && !meant {
                let [new, was, here, there] =
                    [new, was, here, there].map(|told| told.unwrap_or_else(|| "nothing".into()));
                let name = name.as_os_str().as_bytes().escape_ascii();
                all.push(format!("{name}: {new} over {was} · deltic {here} · rsync {there}"));
            }
        }
        all
    }

    /// Whether files of rules came or went at the target: what either says is protected stays.
    fn rules_moved(&self, now: &Looks) -> bool {
        let files = |looks: &Looks| {
            let is_one = |name: &&PathBuf| {
                name.file_name().is_some_and(|name| RULE_FILES.contains(&name.as_bytes()))
            };
            let content = |name: &PathBuf| (name.clone(), looks[name].content.clone());
            looks.keys().filter(is_one).map(content).collect::<Vec<_>>()
        };
        self.asked.rules() && files(now) != files(self.before)
    }

    /// What is to be equal of a name: times of this run are all one, and links to the alternates are told.
    fn told(&self, name: &Path, look: &Look, linked: &BTreeSet<u64>) -> String {
        let kept = name.components().any(|part| part.as_os_str() == "kept");
        if kept && look.kind == Kind::Dir {
            return "dir".into();
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let asked = self.asked;
        let perms = asked.perms();
        let bits = match look.kind {
            Kind::Link => 0,
            _ if perms => 0o7777,
            _ if asked.part("-X") || asked.part("-D") || asked.part("--specials") => 0,
            _ => 0o777,
        };
        let times = asked.times();
        let timed = match look.kind {
            Kind::Dir => times == Times::All && !asked.has("-O"),
            Kind::Link => times != Times::None && !asked.has("-J"),
            _ => times != Times::None,
        };
        let (secs, nanos) = look.modified;
        let fresh = (secs as u64).abs_diff(now) < 86_400;
        let time =
            if timed && !fresh { format!("{secs}.{nanos:09}") } else { "now".into() };
        let (user, group) = look.owner;
        let mut text = format!("{time} {:o} {user}:{group} {}", look.mode & bits, look.content);
        if look.device != 0 {
            text += &format!(" {:x}", look.device);
        }
        if asked.has("-UU") && look.kind == Kind::File {
            text += &format!(" read {}", look.accessed);
        }
        for (note, value) in &look.notes {
            if perms || !note.starts_with("system.") {
                text += &format!(" {note}={}", value.escape_ascii());
            }
        }
        if linked.contains(&look.inode) {
            text += " linked";
        }
        text
    }

    /// Files of the alternates, which a target may have further names of.
    fn linked(&self) -> BTreeSet<u64> {
        let alternates = ["alt1", "alt2"].map(|name| look(&self.world.path(name)));
        let files = alternates.iter().flat_map(BTreeMap::values);
        files.filter(|look| look.kind != Kind::Dir).map(|look| look.inode).collect()
    }
}
