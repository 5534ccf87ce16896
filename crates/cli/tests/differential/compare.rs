//! Rules by which two ends of a case have to agree, and where they are meant not to.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use deltic_tree::path::printable;

use super::case::{Case, End};
use crate::common::attrs::{ACCESS, DEFAULT};
use crate::common::look::{Kind, Look, look};
use crate::common::maker::{Node, RULE_FILES, What};
use crate::common::{Way, World};

/// Rights of a directory's owner: all.
const OWNER_BITS: u32 = 0o700;

/// How rsync says that a link that is followed points at nothing.
const DEAD_LINK: &str = "symlink has no referent: ";

/// Where an ACL's bytes say what the owner may do; that he may write, and that he may do all.
const ACL_OWNER_AT: usize = 6;
const ACL_WRITE: u8 = 2;
const ACL_ALL: u8 = 7;

/// Where an ACL's bytes say what the owning group may do.
fn group_at(acl: &[u8]) -> Option<usize> {
    let nth = acl[4..].chunks_exact(8).position(|entry| entry[..2] == [4, 0])?;
    Some(4 + 8 * nth + 2)
}

type Looks = BTreeMap<PathBuf, Look>;

/// Options of a case.
pub(crate) struct Asked(Vec<String>);

impl Asked {
    pub(crate) fn new(words: &[OsString]) -> Self {
        Self(words.iter().map(|word| word.to_string_lossy().into_owned()).collect())
    }

    /// True if there is just this word.
    pub(crate) fn has(&self, word: &str) -> bool {
        self.0.iter().any(|other| other == word)
    }

    /// True if this is part of a word.
    pub(crate) fn part(&self, part: &str) -> bool {
        self.0.iter().any(|word| word.contains(part))
    }

    fn starts(&self, start: &str) -> bool {
        self.0.iter().any(|word| word.starts_with(start))
    }

    pub(crate) fn deletes(&self) -> bool {
        let is_one = |word: &String| word.starts_with("--delete") && !word.contains("missing");
        self.has("--del") || self.0.iter().any(is_one)
    }

    pub(crate) fn rules(&self) -> bool {
        let all = ["-f", "--filter", "-F", "-C", "--exclude", "--include"];
        all.iter().any(|start| self.starts(start))
    }

    /// True if modes that keep an ordinary user out do no harm but that they keep him out.
    pub(crate) fn may_be_closed(&self) -> bool {
        let is_sent_again = self.has("-H") && (self.has("-y") || self.has("-yy"));
        !self.deletes()
            && !is_sent_again
            && !self.part("-X")
            && !["-m", "-c", "-n", "--existing", "-A"].iter().any(|word| self.has(word))
    }

    /// True if links are followed.
    pub(crate) fn follows(&self) -> bool {
        ["-L", "-k", "-K", "--copy-unsafe-links"].iter().any(|word| self.has(word))
    }

    /// True if a file outside of the trees is to be read, and may not be as it is to be.
    pub(crate) fn leaves_unread(&self) -> bool {
        let any = |words: [&str; 2]| words.iter().any(|word| self.has(word));
        any(["-UU", "--open-noatime"]) && any(["-L", "--copy-unsafe-links"])
    }

    /// The seconds within which times are the same, if some were named.
    fn window(&self) -> Option<u64> {
        let named = |word: &String| {
            let seconds =
                word.strip_prefix("--modify-window=").or_else(|| word.strip_prefix("-@"))?;
            seconds.parse().ok()
        };
        self.0.iter().rev().find_map(named)
    }

    /// True if attributes of this name are carried.
    fn carries_note(&self, note: &str) -> bool {
        if note.starts_with("system.") {
            return self.has("-A");
        }
        self.part("-X") && (note.starts_with("user.") || !self.has("--no-super"))
    }

    /// True if the source is another one after a run.
    pub(crate) fn consumes(&self) -> bool {
        self.has("--remove-source-files") || self.atimes()
    }

    /// True if what becomes of a name may change others of its file.
    pub(crate) fn touches(&self) -> bool {
        let words = ["-I", "-c", "--no-whole-file", "--size-only", "-H", "--inplace"];
        words.iter().any(|word| self.has(word)) || self.part("--append")
    }

    fn atimes(&self) -> bool {
        self.has("-U") || self.has("-UU")
    }

    fn carries(&self, letter: char) -> bool {
        let bundle = |word: &String| !word.starts_with("--") && word.contains([letter, 'a']);
        self.0.first().is_some_and(bundle)
    }

    /// True if owners (`o`) or groups (`g`) are carried.
    fn carries_ids(&self, letter: char) -> bool {
        let words = [&*format!("-{letter}"), "-og"];
        let map = if letter == 'o' { "--usermap" } else { "--groupmap" };
        let asks = self.carries(letter)
            || words.iter().any(|word| self.has(word))
            || self.starts(map)
            || self.starts("--chown");
        asks && !self.has("--no-super") && !self.has(&format!("--no-{letter}"))
    }

    fn perms(&self) -> bool {
        self.carries('p') || self.has("-p") || self.has("-A")
    }

    fn times(&self) -> Times {
        let loose = self.part("window") || self.starts("-@") || self.has("-b") || self.has("-I");
        match (self.carries('t'), loose) {
            (false, _) => Times::None,
            (true, true) => Times::OfFiles,
            (true, false) => Times::All,
        }
    }
}

/// What is not compared of a name, where it is not carried.
#[derive(Clone, Copy, Default)]
struct Free {
    owner: bool,
    mode: bool,
    notes: bool,
}

/// Times that are compared.
#[derive(Clone, Copy, PartialEq)]
enum Times {
    None,
    OfFiles,
    All,
}

/// Both targets of a case, and what they were made of.
pub(crate) struct Both<'a> {
    pub(crate) case: &'a Case,
    pub(crate) asked: &'a Asked,
    pub(crate) world: &'a World,
    pub(crate) before: &'a Looks,
    /// The source as rsync left it.
    pub(crate) source: &'a Looks,
}

/// True if this is the name of a file of rules.
pub(crate) fn is_of_rules(path: &Path) -> bool {
    path.file_name().is_some_and(|name| RULE_FILES.contains(&name.as_bytes()))
}

/// True if it is a time of this run.
fn is_fresh(secs: i64) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    (secs as u64).abs_diff(now) < 86_400
}

/// All names of the file that one looks like this.
fn names_of<'a>(look: &Look, looks: &'a Looks) -> Vec<&'a PathBuf> {
    let is_other = |(_, other): &(&PathBuf, &Look)| other.inode == look.inode;
    looks.iter().filter(is_other).map(|(name, _)| name).collect()
}

/// True if it is a full directory in the place of a file.
pub(crate) fn is_in_the_way(name: &Path, ours: &End) -> bool {
    let Ok(name) = name.strip_prefix("dst") else { return false };
    let name = printable(name.as_os_str().as_bytes());
    let said = format!("/dst/{name}: directory not empty");
    ours.stderr.lines().any(|line| line.contains("cannot write ") && line.ends_with(&said))
}

/// True if it is a file in a partial directory, in whose place a full directory is, or the partial directory of such.
fn has_no_place(name: &Path, ours: &Looks, end: &End) -> bool {
    let is_one = |name: &Path| {
        let Some(dir) = name.parent().filter(|dir| dir.ends_with(".part")) else { return false };
        let place = dir.with_file_name(name.file_name().unwrap_or_default());
        is_in_the_way(&place, end)
    };
    is_one(name) || ours.keys().any(|other| other.parent() == Some(name) && is_one(other))
}

/// True if it is a directory that backups are kept in.
fn is_backup_dir(name: &Path, look: &Look) -> bool {
    look.kind == Kind::Dir && name.components().any(|part| part.as_os_str() == "kept")
}

/// True if Deltic deletes nothing after an error.
fn deletes_nothing(ours: &End) -> bool {
    ours.stderr.lines().any(|line| line.starts_with("deltic: nothing deleted: "))
}

/// True if rsync took a name for one that it had not asked for, and gave up.
fn is_rejected(theirs: &End) -> bool {
    theirs.code == Some(4) && theirs.stderr.contains("rejecting excluded file-list name")
}

/// True if rsync could not add a hole to what it had made room for, and gave up.
fn cannot_add(theirs: &End) -> bool {
    theirs.code == Some(11) && theirs.stderr.contains("rsync: [receiver] write failed on ")
}

/// True if rsync could not open what it had told the sender of, and gave up.
fn has_no_basis(theirs: &End) -> bool {
    theirs.code == Some(2) && theirs.stderr.starts_with("got a block match with no basis file for ")
}

/// The lines of a log, without times and numbers of processes. rsync escapes bytes there that `-8` lets pass elsewhere.
fn unstamped(log: &[u8]) -> String {
    let mut bytes = log.to_vec();
    for byte in 0x80..=0x9f {
        let escaped = format!("\\#{byte:o}");
        for (told, meant) in [(format!("\\#302{escaped}"), &[0xc2, byte][..]), (escaped, &[byte])] {
            let at =
                |bytes: &[u8]| bytes.windows(told.len()).position(|some| some == told.as_bytes());
            while let Some(at) = at(&bytes) {
                bytes.splice(at..at + told.len(), meant.iter().copied());
            }
        }
    }
    let text = String::from_utf8_lossy(&bytes);
    let lines = text.lines().filter_map(|line| Some(line.split_once("] ")?.1.to_owned() + "\n"));
    lines.collect()
}

impl Both<'_> {
    /// Each name and each line that is not the same in both, if it should be.
    pub(crate) fn differences(&self, ours: &End, theirs: &End) -> Vec<String> {
        let fails = self.asked.has("--preallocate") && self.asked.has("-S");
        let fails = fails && self.asked.part("--append") && cannot_add(theirs);
        let lacks = (self.asked.has("-y") || self.asked.has("-yy")) && has_no_basis(theirs);
        let rejects = self.case.way == Way::Pull && is_rejected(theirs);
        if rejects || fails || lacks || self.fills_closed_dirs(theirs) {
            return Vec::new();
        }
        let mut all = Vec::new();
        let now = [look(&self.world.path("o")), look(&self.world.path("t"))];
        let complains = self.wants_to_list_what_goes(ours, theirs, &now[0])
            || self.wants_attributes_of_none(ours, theirs)
            || self.wants_an_acl_of_what_gave_way(ours, theirs)
            || self.leaves_followed_links(ours, theirs)
            || self.spares_for_an_empty_source(ours, theirs)
            || self.spares_for_a_list_in_part(ours, theirs);
        if ours.code != theirs.code && !complains {
            all.push(format!("exit code: deltic {:?} · rsync {:?}", ours.code, theirs.code));
        }
        all.extend(self.names(&now, (ours, theirs)));
        let came_past_rules =
            |name: &PathBuf| !now[0].contains_key(name) && self.comes_past_rules(name);
        if !now[1].keys().any(came_past_rules) && self.tells_alike(theirs) {
            let spared = self.spared(&now);
            all.extend(self.lines((ours, theirs), &spared));
            all.extend(self.figures((ours, theirs), &spared));
        }
        let source = look(&self.world.path("src"));
        if self.asked.has("--remove-source-files") {
            let names = |looks: &Looks| looks.keys().cloned().collect::<BTreeSet<_>>();
            let (ours, theirs) = (names(&source), names(self.source));
            // What has no content and an alternate has, rsync does not remove.
            let stays = |name: &PathBuf| {
                let kind = self.source.get(name).map(|look| look.kind);
                let has_content = matches!(kind, None | Some(Kind::File | Kind::Dir));
                let is_followed = kind == Some(Kind::Link) && self.asked.has("--copy-unsafe-links");
                self.asked.part("-dest=") && !has_content || is_followed
            };
            let differ: Vec<_> =
                ours.symmetric_difference(&theirs).filter(|name| !stays(name)).collect();
            if !differ.is_empty() {
                all.push(format!("left at the source by one only: {differ:?}"));
            }
        }
        all
    }

    /// True if rsync broke down at a full directory that is in the way of a name that others are to be linked to.
    pub(crate) fn has_died(&self, ours: &End, theirs: &End) -> bool {
        self.asked.has("-H")
            && (ours.code, matches!(theirs.code, None | Some(12))) == (Some(23), true)
            && ours.stderr.contains(": directory not empty")
            && theirs.stderr.contains("could not make way for new regular file: ")
    }

    /// True if all that is wrong for rsync is that it may not list directories that are no more, as they should be.
    fn wants_to_list_what_goes(&self, ours: &End, theirs: &End, now: &Looks) -> bool {
        let is_closed_dir = |look: &Look| look.kind == Kind::Dir && look.mode & 0o500 != 0o500;
        let gave_way = |(name, look): &(&PathBuf, &Look)| {
            let is_dir = now.get(*name).is_none_or(|now| now.kind == Kind::Dir);
            is_closed_dir(look) && !is_dir
        };
        let told = theirs.stderr.lines().filter(|line| line.starts_with("rsync: "));
        let is_meant = |line: &str| {
            line.starts_with("rsync: [generator] opendir ")
                && line.contains("/t/dst/")
                && line.ends_with("failed: Permission denied (13)")
        };
        (ours.code, theirs.code) == (Some(0), Some(23))
            && told.clone().all(is_meant)
            && told.count() == self.before.iter().filter(gave_way).count()
    }

    /// True if all that is wrong for rsync is that new directories, which an alternate has, have no attributes in a dry
    /// run.
    fn wants_attributes_of_none(&self, ours: &End, theirs: &End) -> bool {
        let asked = self.asked;
        let asks = asked.has("-n") && asked.part("-X") && asked.part("-dest=");
        // Where names may not go either, the code is rsync's all the same.
        let fares_well = matches!(ours.code, Some(0 | 25));
        let is_meant = |line: &str| {
            line.starts_with("rsync: [generator] gen_entry_copy_xattrs: ")
                && line.ends_with("failed: No such file or directory (2)")
        };
        let mut told = theirs.stderr.lines().filter(|line| line.starts_with("rsync: "));
        asks && fares_well && theirs.code == Some(23) && told.all(is_meant)
    }

    /// True if all that is wrong for rsync is that links of the source that were followed are no files.
    fn leaves_followed_links(&self, ours: &End, theirs: &End) -> bool {
        let is_meant = |line: &str| {
            line.starts_with("ERROR: Skipping sender remove for changed file: ")
                || line.starts_with("rsync error: some files/attrs were not transferred ")
        };
        self.asked.has("--remove-source-files")
            && self.asked.has("--copy-unsafe-links")
            && (ours.code, theirs.code) == (Some(0), Some(23))
            && theirs.stderr.lines().all(|line| line.is_empty() || is_meant(line))
    }

    /// True if all that is wrong for rsync is that a name that it linked has no default ACL, as the directory in its
    /// place had.
    fn wants_an_acl_of_what_gave_way(&self, ours: &End, theirs: &End) -> bool {
        let is_meant = |line: &str| {
            line.starts_with("rsync: [generator] get_acl: ")
                && line.ends_with("ACL_TYPE_DEFAULT): Permission denied (13)")
        };
        let mut told = theirs.stderr.lines().filter(|line| line.starts_with("rsync: "));
        self.asked.has("-H")
            && self.asked.has("-A")
            && (ours.code, theirs.code) == (Some(0), Some(23))
            && told.all(is_meant)
    }

    /// True if Deltic removes nothing because nothing takes part, whatever number was named.
    fn spares_for_an_empty_source(&self, ours: &End, theirs: &End) -> bool {
        self.asked.has("--max-delete=1000")
            && (ours.code, theirs.code) == (Some(25), Some(0))
            && ours.stderr.contains(": the source ")
            && ours.stderr.contains(" is empty, and ")
    }

    /// True if Deltic does not come to count what would go, since not all was listed.
    fn spares_for_a_list_in_part(&self, ours: &End, theirs: &End) -> bool {
        self.asked.part("--max-delete")
            && (ours.code, theirs.code) == (Some(23), Some(25))
            && ours.stderr.contains("nothing deleted: the source could not be listed in full")
    }

    /// True if an ordinary user's directories on the way, which rsync does not carry, are closed to him.
    fn fills_closed_dirs(&self, theirs: &End) -> bool {
        let is_meant = |line: &str| {
            line.starts_with("rsync: [receiver] mkstemp ")
                && line.ends_with("failed: Permission denied (13)")
        };
        let implied = self.asked.has("--no-implied-dirs");
        self.case.lowered && implied && theirs.stderr.lines().any(is_meant)
    }

    /// True if both tell the same of the same: not of alternates, nor of what `-I` finds equal; without times, nor of
    /// what is found equal at all; nor of directories that are implied and not carried. What is told of a name may
    /// depend on which name of its file came first. Nor of a file that may not be read, for which rsync makes a new
    /// one, or where rsync deletes backups.
    fn tells_alike(&self, theirs: &End) -> bool {
        let asked = self.asked;
        let untimed = asked.times() == Times::None && self.finds_equal();
        let shared = self.case.old.0.values().any(|node| matches!(node.what, What::Again(_)));
        let implied = asked.has("--no-implied-dirs");
        let links = asked.has("-H") || asked.part("--append");
        let unread = self.before.keys().any(|name| self.was_unread(name));
        let unpruned = asked.has("-m") && theirs.stderr.contains(DEAD_LINK);
        let gone = theirs.stdout.lines().filter_map(|line| line.strip_prefix("*deleting   "));
        let deletes_backups = gone.map(|name| Path::new("dst").join(name)).any(|name| {
            let met = asked.has("--delete-excluded") || asked.rules();
            met && self.is_backup(&name)
        });
        !unread
            && !deletes_backups
            && !asked.part("-dest=")
            && !links
            && !asked.has("-I")
            && !untimed
            && !shared
            && !implied
            && !unpruned
            && !self
                .case
                .sources
                .iter()
                .any(|source| self.is_told_without_descent(Path::new(source)))
    }

    /// Names that went with rsync and are there, since only files of rules of one side protect them.
    fn spared<'l>(&self, [ours, theirs]: &'l [Looks; 2]) -> BTreeSet<&'l Path> {
        let names = ours.keys().map(PathBuf::as_path).filter(|_| self.rules_moved(ours));
        let went = |name: &&Path| self.before.contains_key(*name) && !theirs.contains_key(*name);
        names.filter(went).collect()
    }

    /// Each `-i` line, and each line of the log, of one only.
    fn lines(&self, (ours, theirs): (&End, &End), spared: &BTreeSet<&Path>) -> Vec<String> {
        let failed = ours.code != Some(0) && !self.asked.has("--ignore-errors");
        // What rsync deleted before it met an error, or what is spared here.
        let is_meant = |line: &String| {
            let name = line.strip_prefix("*deleting   ").map(|name| Path::new("dst").join(name));
            name.is_some_and(|name| failed || spared.contains(&*name))
        };
        let mut all = Vec::new();
        // rsync's dry run logs directories alone.
        let log =
            |end: &End| if self.asked.has("-n") { String::new() } else { unstamped(&end.log) };
        for (how, ours, theirs) in
            [("told", &ours.stdout, &theirs.stdout), ("logged", &log(ours), &log(theirs))]
        {
            let (ours, mut theirs) = (self.told_lines(ours), self.told_lines(theirs));
            theirs.retain(|line| !is_meant(line) || ours.contains(line));
            for (who, one, other) in [("deltic", &ours, &theirs), ("rsync", &theirs, &ours)] {
                all.extend(
                    one.difference(other).map(|line| format!("{how} by {who} only: {line}")),
                );
            }
        }
        all
    }

    /// What is itemised, but for what is meant to differ.
    fn told_lines(&self, stdout: &str) -> BTreeSet<String> {
        let is_item = |line: &&str| {
            let kind = line.starts_with(['<', '>', 'c', 'h', '.'])
                && line[1..].starts_with(['f', 'd', 'L', 'D', 'S'])
                && line.as_bytes().get(11) == Some(&b' ');
            kind || line.starts_with("*deleting ")
        };
        stdout.lines().filter(is_item).filter_map(|line| self.told_line(line)).collect()
    }

    fn told_line(&self, line: &str) -> Option<String> {
        // With -8 rsync lets controls beyond ASCII pass.
        let mut line = line.to_owned();
        for control in '\u{80}'..='\u{9f}' {
            line = line.replace(control, &format!("\\#302\\#{:o}", u32::from(control)));
        }
        // Deltic escapes what turns the direction of a line, with -8 too.
        line = line.replace('\u{202e}', "\\#342\\#200\\#256");
        // It tells where links lead without what they are munged by.
        if line.as_bytes().get(1) == Some(&b'L') && self.munges() {
            return None;
        }
        if line.starts_with('*') || line.contains("+++++++++") {
            return Some(line);
        }
        let (mut marks, name) = (line.as_bytes()[..11].to_vec(), &line[11..]);
        // True if bytes travelled: what has equal content is touched.
        if marks[0] != b'c' {
            marks[0] = b'.';
        }
        // rsync sees times of directories change by what it deleted, and leaves them alone with -b.
        if marks[1] == b'd' && (self.asked.deletes() || self.asked.times() != Times::All) {
            marks[4] = b'.';
        }
        // A change of owner clears setuid, and rsync tells of that instead.
        if self.case.new.0.values().any(|node| node.mode & 0o6000 != 0) {
            marks[5..8].fill(b'.');
        }
        // The mode that rsync compares is that which the ACL gave.
        if self.asked.has("-A") && marks[9] == b'a' {
            marks[5] = b'.';
        }
        // It reads files of rules before it looks when that was done last.
        let of_rules = self.asked.atimes() && is_of_rules(Path::new(&name[1..]));
        if of_rules || self.is_read_by_other_names() {
            marks[8] = b'.';
        }
        if self.takes_notes_of_links() {
            marks[10] = b'.';
        }
        let starts = name == " ./" && self.asked.part("--files-from");
        let marks = String::from_utf8(marks).expect("marks are ASCII");
        (marks[2..] != *"........." && !starts).then(|| format!("{marks}{name}"))
    }

    /// Each line of `--stats` that both have and that says something else.
    fn figures(&self, (ours, theirs): (&End, &End), spared: &BTreeSet<&Path>) -> Vec<String> {
        let line = |end: &End, start: &str| {
            end.stdout.lines().find(|line| line.starts_with(start)).map(str::to_owned)
        };
        let number = |end: &End, start: &str| {
            line(end, start)?
                .split(' ')
                .find_map(|word| word.replace(',', "").parse::<usize>().ok())
        };
        let deleted = "Number of deleted files:";
        let alike = |start: &str| {
            if start == deleted && !spared.is_empty() {
                let ours = number(ours, start).map(|ours| ours + spared.len());
                return ours == number(theirs, start);
            }
            line(ours, start) == line(theirs, start)
        };
        let told = |start: &&str| {
            format!("deltic {:?} · rsync {:?}", line(ours, start), line(theirs, start))
        };
        // What is skipped for its kind, pruned, or named twice, rsync counts.
        let asked = self.asked;
        let skips = !asked.has("-a") || asked.starts("--no-") || asked.has("-m") || asked.rules();
        let named = self.case.sources.len() > 1 || asked.part("--files-from");
        if ours.code != Some(0) {
            return Vec::new(); // What fails to arrive rsync has counted.
        }
        let mut counted = vec!["Number of created files:", deleted];
        if !self.finds_equal() {
            counted.push("Number of regular files transferred:");
        }
        if !skips && !named {
            counted.extend(["Number of files:", "Total file size:"]);
        }
        counted.iter().filter(|start| !alike(start)).map(told).collect()
    }

    fn names(&self, [ours, theirs]: &[Looks; 2], ends: (&End, &End)) -> Vec<String> {
        let (linked, code) = (self.linked(), ends.0.code);
        let source = look(&self.world.path("src"));
        let names: BTreeSet<_> = ours.keys().chain(theirs.keys()).collect();
        let (asked, mut all) = (self.asked, Vec::new());
        for name in names {
            let free = self.free(name, [ours, theirs]);
            let is_in_the_way = is_in_the_way(name, ends.0);
            let told = |look: &Look| {
                let told = self.told(name, look, (&linked, free));
                let mode = self.told_mode((name, is_in_the_way), look);
                format!("{:o} {told}", if free.mode && !asked.perms() { 0 } else { mode })
            };
            let (here, was) = (ours.get(name).map(told), self.before.get(name).map(told));
            let new = name.strip_prefix("dst").ok().and_then(|name| source.get(name));
            let there = theirs.get(name).map(|look| {
                let names = names_of(look, theirs);
                self.as_meant(name, (look, ours.get(name)), (new, &names))
            });
            let there = there.as_ref().map(told);
            let new = new.map(told);
            let stays = here.is_some() && there.is_none() && self.before.contains_key(name);
            let is_dir = |looks: &Looks| looks.get(name).is_some_and(|look| look.kind == Kind::Dir);
            // A directory from which not the same was removed.
            let around = new.is_none() && is_dir(ours) && is_dir(theirs);
            // A name that begins with `./` brings the directory that it starts in only with rsync; and the target that
            // is no part of the transfer changes with what is staged in it.
            let start = name == Path::new("dst")
                && (asked.part("--files-from") || self.case.sources != ["src/"]);
            let gave_way = there.is_none() && self.is_backup_of_one(name);
            let was_no_file = self.before.get(name).is_some_and(|look| look.kind != Kind::File);
            let existing = asked.has("--existing") && asked.has("-H");
            let made_way = there.is_none() && existing && was_no_file;
            let meant = start
                || gave_way
                || made_way
                || there.is_none() && self.keeps_backups(name, ours)
                || there.is_none() && self.was_linked_to(name, [ours, theirs])
                || there.is_none() && has_no_place(name, ours, ends.0)
                || here.is_none()
                    && asked.has("--no-implied-dirs")
                    && self.leads_nowhere(name, ends.1)
                || there.is_none() && asked.has("-m") && self.leads_nowhere(name, ends.1)
                || there.is_none() && self.is_implied_for_nothing(name, ours)
                || self.is_touched_link(name, [ours, theirs])
                || there.is_none() && asked.part("--compare-dest") && self.is_behind_a_link(name)
                || here.is_none() && self.is_backup(name) && self.rules_moved(ours)
                || here.is_none() && self.is_backup(name) && deletes_nothing(ends.0)
                || (stays || around) && (code != Some(0) || self.rules_moved(ours))
                || around && self.finds_equal()
                || here.is_none() && self.finds_equal() && self.is_backup(name)
                || here.is_none()
                    && self.is_backup(name)
                    && self.spares_for_an_empty_source(ends.0, ends.1)
                || there.is_none() && self.is_unsafe_backup(name, ours)
                || here.is_none() && self.is_told_without_descent(name)
                || here.is_none() && self.comes_past_rules(name);
            if here != there && !meant {
                let [new, was, here, there] =
                    [new, was, here, there].map(|told| told.unwrap_or_else(|| "nothing".into()));
                let name = name.as_os_str().as_bytes().escape_ascii();
                all.push(format!("{name}: {new} over {was} · deltic {here} · rsync {there}"));
            }
        }
        all
    }

    /// What rsync made of a name, with the times that it would have if rsync kept to what it was asked.
    fn as_meant(
        &self,
        name: &Path,
        (theirs, ours): (&Look, Option<&Look>),
        (new, names): (Option<&Look>, &[&PathBuf]),
    ) -> Look {
        let mut meant = theirs.clone();
        let (Some(ours), was) = (ours, self.before.get(name)) else { return meant };
        // It reads what is at the target, and with -UU files of rules, as if nobody had asked it not to touch them.
        if is_fresh(theirs.accessed) && !is_fresh(ours.accessed) {
            meant.accessed = ours.accessed;
            // And what it linked to: the alternate's file is another one then.
            if is_of_rules(name) {
                meant.inode = ours.inode;
            }
        }
        // A link that is not munged and else equal it leaves as it is.
        if was.is_some_and(|was| was.content == theirs.content)
            && self.munges()
            && ours.content == theirs.content.replacen("-> ", "-> /rsyncd-munged/", 1)
        {
            meant = ours.clone();
        }
        // What is linked to a name that it takes for equal, by its size and time, has the content of that.
        if let Some(new) = new.filter(|new| self.asked.has("-H") && new.content == ours.content) {
            let len = |look: &Look| look.content.split(' ').next().map(str::to_owned);
            let is_taken = |was: &&Look| {
                let within = self.asked.window().map_or(was.modified == new.modified, |window| {
                    was.modified.0.abs_diff(new.modified.0) <= window
                });
                was.content == theirs.content
                    && len(was) == len(new)
                    && (within || self.asked.has("--size-only"))
            };
            if names.iter().filter_map(|name| self.before.get(*name)).any(|was| is_taken(&was)) {
                meant.content.clone_from(&ours.content);
                meant.owner = ours.owner;
                meant.notes.retain(|note, _| self.asked.carries_note(note));
                let kept = ours.notes.iter().filter(|(note, _)| !self.asked.carries_note(note));
                meant.notes.extend(kept.map(|(note, value)| (note.clone(), value.clone())));
            }
        }
        // To what --append leaves alone it links no other names.
        if self.asked.part("--append") && theirs.content == ours.content {
            meant.names = ours.names;
        }
        // An ACL that comes with the loss of setuid or setgid it sets without what the owning group may do, until the
        // next run.
        let was_special = was.is_some_and(|was| was.mode & 0o6000 != 0 && was.mode != theirs.mode);
        if was_special && self.asked.has("-A") {
            let here = ours.notes.get(ACCESS).and_then(|acl| Some(acl[group_at(acl)?]));
            let there = meant.notes.get_mut(ACCESS).and_then(|acl| {
                let at = group_at(acl)?;
                acl.get_mut(at)
            });
            if let Some((there, here)) = there.zip(here).filter(|(there, _)| **there == 0) {
                *there = here;
            }
        }
        // What it sets an attribute of gets the exact time, though the one that it has is within the window.
        if let (Some(was), Some(new), Some(window)) = (was, new, self.asked.window()) {
            let differ = |note: &&String| was.notes.get(*note) != new.notes.get(*note);
            let mut all = was.notes.keys().chain(new.notes.keys());
            let is_attribute = |note: &&String| !note.starts_with("system.");
            let noted = all
                .any(|note| is_attribute(&note) && self.asked.carries_note(note) && differ(&note));
            let kept = ours.modified == was.modified && theirs.modified == new.modified;
            let is_within = was.modified.0.abs_diff(new.modified.0) <= window;
            let is_equal = self.asked.has("-I") && was.content == new.content;
            if (noted || is_equal) && kept && is_within {
                meant.modified = ours.modified;
            }
        }
        meant
    }

    /// True if files count as read by what became of other names of them, or of others like them.
    fn is_read_by_other_names(&self) -> bool {
        let several = self.asked.follows() || !self.case.new.names_of_several().is_empty();
        self.asked.has("-U") && (several || self.asked.has("-y"))
    }

    /// True if the destination munges links.
    fn munges(&self) -> bool {
        let word = if self.case.way == Way::Pull { "--munge-links" } else { "-M--munge-links" };
        self.asked.has(word)
    }

    /// True if what is equal by its content is found to be so, though its time is another: it is not written again.
    fn finds_equal(&self) -> bool {
        let asked = self.asked;
        let words = ["-I", "--no-whole-file", "-H"];
        self.case.way != Way::Local || words.iter().any(|word| asked.has(word))
    }

    /// What has the name of a backup and gives way to a directory, or is deleted, rsync does not keep again.
    fn is_backup_of_one(&self, name: &Path) -> bool {
        let last = name.file_name().unwrap_or_default().as_bytes();
        self.asked.has("-b") && (last.ends_with(b"~~") || last.ends_with(b".old.old"))
    }

    fn is_backup(&self, name: &Path) -> bool {
        let last = name.file_name().unwrap_or_default().as_bytes();
        let is_kept = name.components().any(|part| part.as_os_str() == "kept");
        self.asked.has("-b") && (is_kept || last.ends_with(b"~") || last.ends_with(b".old"))
    }

    /// True if it is a backup of a link that leads out: with --safe-links rsync keeps none.
    fn is_unsafe_backup(&self, name: &Path, ours: &Looks) -> bool {
        let is_link = ours.get(name).is_some_and(|look| look.kind == Kind::Link);
        is_link && self.asked.has("--safe-links") && self.is_backup(name)
    }

    /// True if files of rules in directories on the way to it do not count for rsync, which does not descend.
    fn is_told_without_descent(&self, name: &Path) -> bool {
        let words = ["-lptd", "-R"].iter().all(|word| self.asked.has(word));
        let is_named = |source: &OsString| name.ends_with(source);
        words && self.asked.rules() && self.case.sources.iter().any(is_named)
    }

    /// True if it is a source, or on the way to one or below, and files of rules on the way do not count for rsync,
    /// which has the whole list before it begins.
    fn comes_past_rules(&self, name: &Path) -> bool {
        let asked = self.asked;
        let has_all = ["-m", "--delete-before", "--delete-after", "--delay-updates", "--no-i-r"];
        let Ok(below) = name.strip_prefix("dst") else { return false };
        let is_near = |source: &OsString| {
            let source = source.to_string_lossy();
            let source = Path::new(source.rsplit("/./").next().unwrap_or_default());
            below.starts_with(source) || source.starts_with(below)
        };
        has_all.iter().any(|word| asked.has(word))
            && asked.has("-R")
            && asked.rules()
            && self.case.sources.iter().any(is_near)
    }

    /// True if rsync carries the attributes of links that are followed, and not of what they point at.
    fn takes_notes_of_links(&self) -> bool {
        let follows = ["-L", "-k", "--copy-unsafe-links"].iter().any(|word| self.asked.has(word));
        follows && self.asked.part("-X")
    }

    /// True if an alternate has a link on the way to this.
    fn is_behind_a_link(&self, name: &Path) -> bool {
        let Ok(name) = name.strip_prefix("dst") else { return false };
        let is_link = |path: &Path, node: &Node| {
            matches!(node.what, What::Link(_)) && path != name && name.starts_with(path)
        };
        let mut alternates = self.case.alternates.iter().flat_map(|tree| &tree.0);
        self.asked.follows() && alternates.any(|(path, node)| is_link(path, node))
    }

    /// True if this is the name of a link of the source.
    fn is_of_a_link(&self, name: &Path) -> bool {
        let is_link = |node: &Node| matches!(node.what, What::Link(_));
        let mut named = self.case.new.0.iter().filter(|(_, node)| is_link(node));
        named.any(|(path, _)| path.file_name() == name.file_name())
    }

    /// True if an ordinary user may not read the file that was there: rsync takes it for none, and makes one of a new
    /// mode.
    fn was_unread(&self, name: &Path) -> bool {
        let is_closed = |look: &Look| look.kind == Kind::File && look.mode & 0o400 == 0;
        self.case.lowered && self.before.get(name).is_some_and(is_closed)
    }

    /// What is not compared of this name where it is not carried.
    fn free(&self, name: &Path, all: [&Looks; 2]) -> Free {
        let kept =
            all[0].get(name).is_some_and(|look| self.is_kept(look) || self.is_copy(name, look));
        let mut free = self.free_by_names(name, all);
        let aside = self.free_aside(name, all[0]);
        free.owner |= kept || aside.owner;
        free.notes |= kept || aside.notes;
        free
    }

    /// What a file gets from its directory, as a setgid bit or a default ACL there says: rsync made it in another one.
    fn free_aside(&self, name: &Path, ours: &Looks) -> Free {
        let dir = name.parent().and_then(|dir| ours.get(dir));
        let file = ours.get(name).filter(|look| look.kind == Kind::File);
        let (Some(dir), Some(file)) = (dir, file) else { return Free::default() };
        let owner = dir.mode & 0o2000 != 0 && dir.owner.1 == file.owner.1;
        let notes = dir.notes.contains_key(DEFAULT);
        let asks = self.asked.has("--temp-dir=aside");
        Free { owner: asks && owner, mode: false, notes: asks && notes }
    }

    /// True if this is a file of the target that was not written again, for it is equal by its content: it keeps what
    /// is not carried.
    fn is_kept(&self, ours: &Look) -> bool {
        let others = |look: &Look| {
            let is_other =
                |note: &&String| !note.starts_with("system.") && !self.asked.carries_note(note);
            let notes = look.notes.iter().filter(|(note, _)| is_other(note));
            notes.map(|(note, value)| (note.clone(), value.clone())).collect::<Vec<_>>()
        };
        let same = |was: &&Look| {
            let (user, group) = was.owner;
            was.inode == ours.inode
                && was.content == ours.content
                && (self.asked.carries_ids('o') || user == ours.owner.0)
                && (self.asked.carries_ids('g') || group == ours.owner.1)
                && others(was) == others(ours)
        };
        let finds = ours.kind == Kind::File && self.finds_equal();
        finds && self.before.values().any(|was| same(&was))
    }

    /// True if this is a backup that is a copy, with the owner of the old version: rsync's has that of a new file.
    fn is_copy(&self, name: &Path, ours: &Look) -> bool {
        let is_in_place = self.asked.has("--inplace") || self.asked.part("--append");
        let was = self.kept_from(name).and_then(|was| self.before.get(&was));
        is_in_place && was.is_some_and(|was| was.owner == ours.owner)
    }

    /// What this is a backup of, if it is one.
    fn kept_from(&self, name: &Path) -> Option<PathBuf> {
        if !self.is_backup(name) {
            return None;
        }
        let mut dirs = ["kept", "dst/kept"].iter().filter_map(|dir| name.strip_prefix(dir).ok());
        let place =
            dirs.next().map_or_else(|| name.to_path_buf(), |name| Path::new("dst").join(name));
        let last = place.file_name()?.as_bytes();
        let suffix: &[u8] = match self.asked.has("--suffix=.old") {
            true => b".old",
            false if self.asked.part("--backup-dir") => b"",
            false => b"~",
        };
        Some(place.with_file_name(OsStr::from_bytes(last.strip_suffix(suffix)?)))
    }

    /// What depends on which of a file's names leads: there was another file under some of them, or none, for which it
    /// counts what the directory hands down.
    fn free_by_names(&self, name: &Path, all: [&Looks; 2]) -> Free {
        if !self.asked.has("-H") {
            return Free::default();
        }
        let names: BTreeSet<_> = all
            .iter()
            .filter_map(|looks| Some(names_of(looks.get(name)?, looks)))
            .flatten()
            .collect();
        let was = |name: &PathBuf| self.before.get(name).filter(|was| was.kind == Kind::File);
        let dir = |name: &PathBuf| all.iter().find_map(|looks| looks.get(name.parent()?));
        let default = |name: &PathBuf| dir(name).and_then(|dir| dir.notes.get(DEFAULT));
        let group =
            |name: &PathBuf| dir(name).filter(|dir| dir.mode & 0o2000 != 0).map(|dir| dir.owner.1);
        // What is replaced is new, too.
        let owners: BTreeSet<_> =
            names.iter().map(|name| (was(name).map(|was| was.owner), group(name))).collect();
        let modes: BTreeSet<_> =
            names.iter().map(|name| (was(name).map(|was| was.mode), default(name))).collect();
        let notes: BTreeSet<_> =
            names.iter().map(|name| (was(name).map(|was| &was.notes), default(name))).collect();
        Free { owner: owners.len() > 1, mode: modes.len() > 1, notes: notes.len() > 1 }
    }

    /// True if this is a backup that `--delete-excluded` spares, or a rule that admits it, or a directory with one in
    /// it.
    fn keeps_backups(&self, name: &Path, ours: &Looks) -> bool {
        let may_meet = self.asked.has("--delete-excluded") || self.asked.rules();
        let asks = self.asked.has("-b") && self.asked.deletes() && may_meet;
        let is_one = |other: &PathBuf| other.starts_with(name) && self.is_backup(other);
        asks && ours.keys().any(is_one)
    }

    /// True if this is a backup of what other names were linked to instead by rsync, or what it left alone with
    /// `--append`, or a directory for it.
    fn was_linked_to(&self, name: &Path, [ours, theirs]: [&Looks; 2]) -> bool {
        let is_there = |kept: &Look| {
            theirs.values().any(|other| other.names > 1 && other.content == kept.content)
        };
        let kept = ours.get(name).filter(|_| self.asked.has("-H") && self.is_backup(name));
        let left = self.kept_from(name).filter(|_| self.asked.part("--append"));
        let left = left.and_then(|was| theirs.get(&was));
        let is_left = |kept: &Look| left.is_some_and(|left| left.content == kept.content);
        kept.is_some_and(|kept| is_backup_dir(name, kept) || is_there(kept) || is_left(kept))
    }

    /// True if a link in this directory points at nothing.
    fn leads_nowhere(&self, name: &Path, theirs: &End) -> bool {
        let Ok(name) = name.strip_prefix("dst") else { return false };
        let below = format!("/{}/", name.display());
        let is_of_it = |line: &str| line.starts_with(DEAD_LINK) && line.contains(&below);
        theirs.stderr.lines().any(is_of_it)
    }

    /// True if this is an empty directory on the way to what files of rules leave out.
    fn is_implied_for_nothing(&self, name: &Path, ours: &Looks) -> bool {
        let is_below = |other: &PathBuf| other != name && other.starts_with(name);
        let is_empty_dir =
            ours.get(name).is_some_and(|look| look.kind == Kind::Dir) && !ours.keys().any(is_below);
        self.asked.has("--no-implied-dirs") && self.asked.rules() && is_empty_dir
    }

    /// True if this is a link in the place of a directory, whose attributes rsync gives it.
    fn is_touched_link(&self, name: &Path, all: [&Looks; 2]) -> bool {
        let [ours, theirs] = all.map(|looks| {
            looks.get(name).filter(|look| look.kind == Kind::Link).map(|look| &look.content)
        });
        let asks = self.asked.has("--ignore-existing") && self.asked.follows();
        asks && ours.is_some() && ours == theirs
    }

    /// True if files of rules came or went at the target: what either says is protected stays.
    fn rules_moved(&self, now: &Looks) -> bool {
        let files = |looks: &Looks| {
            let content = |name: &PathBuf| (name.clone(), looks[name].content.clone());
            looks.keys().filter(|name| is_of_rules(name)).map(content).collect::<Vec<_>>()
        };
        self.asked.rules() && files(now) != files(self.before)
    }

    /// What is to be equal of a name: times of this run are all one, and links to the alternates are told.
    fn told(&self, name: &Path, look: &Look, (linked, free): (&BTreeSet<u64>, Free)) -> String {
        if is_backup_dir(name, look) {
            return "dir".into();
        }
        let asked = self.asked;
        let perms = asked.perms();
        let is_opened = self.is_opened(name);
        let times = asked.times();
        let timed = match look.kind {
            Kind::Dir => times == Times::All && !asked.has("-O"),
            Kind::Link => times != Times::None && !asked.has("-J"),
            _ => times != Times::None,
        };
        let (secs, nanos) = look.modified;
        let time =
            if timed && !is_fresh(secs) { format!("{secs}.{nanos:09}") } else { "now".into() };
        let id = |letter, id| if free.owner && !asked.carries_ids(letter) { 0 } else { id };
        let (user, group) = (id('o', look.owner.0), id('g', look.owner.1));
        let mut text = format!("{time} {user}:{group} {}", look.content);
        if look.device != 0 {
            text += &format!(" {:x}", look.device);
        }
        if asked.atimes() && look.kind == Kind::File && !self.is_read_by_other_names() {
            match is_fresh(look.accessed) {
                true => text += " read now",
                false => text += &format!(" read {}", look.accessed),
            }
        }
        let of_link = self.takes_notes_of_links() && self.is_of_a_link(name);
        for (note, value) in &look.notes {
            let is_acl = note.starts_with("system.");
            if of_link && !is_acl {
                continue;
            }
            let mut value = value.clone();
            if is_opened && note == ACCESS {
                value[ACL_OWNER_AT] &= !ACL_WRITE;
            }
            if note == ACCESS && self.is_left_open(name, look) {
                value[ACL_OWNER_AT] = ACL_ALL;
            }
            if asked.carries_note(note) || !free.notes && (perms || !is_acl) {
                text += &format!(" {note}={}", value.escape_ascii());
            }
        }
        if linked.contains(&look.inode) && !self.is_behind_a_link(name) {
            text += " linked";
        }
        if asked.has("-H") && look.kind != Kind::Dir {
            text += &format!(" of {} names", look.names);
        }
        text
    }

    /// What is to be equal of a name's mode.
    fn told_mode(&self, (name, is_in_the_way): (&Path, bool), look: &Look) -> u32 {
        if is_backup_dir(name, look) {
            return 0;
        }
        let asked = self.asked;
        let bits = match look.kind {
            Kind::Link => 0,
            _ if asked.perms() => 0o7777,
            _ if self.was_unread(name) => 0,
            _ if asked.part("-X") || asked.part("-D") || asked.part("--specials") => 0,
            _ => 0o777,
        };
        let bits = if self.is_opened(name) { bits & 0o7577 } else { bits };
        let is_dir_in_the_way = self.case.lowered && look.kind == Kind::Dir && is_in_the_way;
        let opened =
            if is_dir_in_the_way || self.is_left_open(name, look) { OWNER_BITS } else { 0 };
        (look.mode | opened) & bits
    }

    /// True if rsync made it writable: an ordinary user's does so with what it removes, before it keeps or spares that.
    fn is_opened(&self, name: &Path) -> bool {
        let is_ordinary = self.case.lowered || self.asked.has("--no-super");
        let removes = self.asked.deletes() || self.asked.has("--force");
        let had_others = removes && self.before.get(name).is_some_and(|was| was.names > 1);
        is_ordinary && (self.is_backup(name) || self.asked.part("max-delete") || had_others)
    }

    /// True if it is a directory that its owner may only write in (or that --chmod closes to him otherwise), or a new
    /// one that a default ACL closes to him: rsync opens it to an ordinary user and leaves it so.
    fn is_left_open(&self, name: &Path, look: &Look) -> bool {
        let is_closed = |acl: &Vec<u8>| acl[ACL_OWNER_AT] != ACL_ALL;
        let was_dir = self.before.get(name).is_some_and(|was| was.kind == Kind::Dir);
        let is_closed_heir = !was_dir && look.notes.get(DEFAULT).is_some_and(is_closed);
        let is_changed = self.asked.part("--chmod") && look.mode & OWNER_BITS != OWNER_BITS;
        let is_closed = look.mode & OWNER_BITS == 0o200 || is_changed || is_closed_heir;
        self.case.lowered && look.kind == Kind::Dir && is_closed
    }

    /// Files of the alternates, which a target may have further names of.
    fn linked(&self) -> BTreeSet<u64> {
        let alternates = ["alt1", "alt2"].map(|name| look(&self.world.path(name)));
        let files = alternates.iter().flat_map(BTreeMap::values);
        files.filter(|look| look.kind != Kind::Dir).map(|look| look.inode).collect()
    }
}
