//! A case: trees, options, who runs it and where its ends are.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::fs::{self, FileTimes};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use super::compare::{Asked, Both, is_in_the_way, is_of_rules};
use super::limit::output_within;
use super::{NO_KINDS, options};
use crate::common::attrs::{DEFAULT, SOMEBODY, own};
use crate::common::dice::Dice;
use crate::common::look::{Kind, Look, look};
use crate::common::maker::{Node, PATTERNS, Taste, Tree, What};
use crate::common::{DELTIC, SHELL, Way, World, is_root};

/// All that makes a case.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) seed: u64,
    /// True if an ordinary user runs it; else whoever runs this test.
    pub(crate) lowered: bool,
    pub(crate) way: Way,
    /// Choice by choice; the first is what is carried at all.
    pub(crate) options: Vec<Vec<OsString>>,
    pub(crate) sources: Vec<OsString>,
    pub(crate) new: Tree,
    pub(crate) old: Tree,
    pub(crate) alternates: [Tree; 2],
    /// Names for `--files-from`.
    pub(crate) list: Vec<OsString>,
    /// Lines of a file of patterns.
    pub(crate) patterns: Vec<Vec<u8>>,
}

/// Result of a program.
pub(crate) struct End {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// Its log.
    pub(crate) log: Vec<u8>,
    /// True if it had to be killed.
    hangs: bool,
}

/// Result of a case.
pub(crate) enum Verdict {
    Alike,
    Differs(String),
    DelticHangs(String),
    /// There is nothing to compare with.
    RsyncBreaks,
}

/// A program that runs longer hangs.
const LIMIT: Duration = Duration::from_secs(60);

impl Case {
    pub(crate) fn random(seed: u64) -> Self {
        let dice = &mut Dice::new(seed);
        let options = options(dice);
        let asked = Asked::new(&options.concat());
        let lowered = is_root() && dice.percent(40);
        let taste = Taste {
            entries: if asked.rules() { 30 } else { 16 },
            kinds: true,
            foreign: is_root() && !lowered && dice.percent(50),
            notes: asked.has("-A") || asked.part("-X") || dice.percent(15),
            closed: lowered && asked.may_be_closed() && dice.percent(20),
            rules: asked.rules(),
            loops: !asked.follows(),
            long: !asked.has("-b") && dice.percent(30),
        };
        let is_said =
            |word: &&str| if word.len() == 2 { asked.has(word) } else { asked.part(word) };
        let turns = !NO_KINDS.iter().any(is_said);
        let new = Tree::random(dice, taste);
        let edits = if asked.rules() { 16 } else { 8 };
        let mut old = new.edited(dice, taste, edits, turns);
        let mut way = *dice.pick(&[Way::Local, Way::Local, Way::Push, Way::Pull]);
        // rsync tells only the end that it starts here.
        if asked.has("--no-d") && way == Way::Pull {
            way = Way::Local;
        }
        if asked.has("--no-super") && way == Way::Push {
            way = Way::Local;
        }
        // What is only touched changes under its other names as well, also those that do not take part.
        if asked.touches() || way != Way::Local {
            old.part_names();
        }
        let mut alternates = [3, 6].map(|edits| new.edited(dice, taste, edits, turns));
        let mut new = new;
        let is_ordinary = lowered || !is_root();
        for tree in alternates.iter_mut().chain([&mut new, &mut old]) {
            tree.leave_out(is_no_file_of_rules);
            if is_ordinary && asked.leaves_unread() {
                tree.leave_out(|_, node| matches!(node.what, What::Link(b"/etc/passwd")));
            }
            if is_ordinary && asked.has("--delay-updates") {
                tree.0.values_mut().for_each(|node| drop(node.notes.remove(DEFAULT)));
            }
        }
        let sources = sources(dice, &asked, &new, turns);
        let pattern = |dice: &mut Dice| dice.pick(&PATTERNS).to_vec();
        Self {
            seed,
            lowered,
            way,
            sources,
            list: list(dice, &new),
            patterns: (0..1 + dice.below(3)).map(|_| pattern(dice)).collect(),
            options,
            new,
            old,
            alternates,
        }
    }

    /// Runs both programs and compares what they did.
    pub(crate) fn verdict(&self) -> Verdict {
        let asked = Asked::new(&self.options.concat());
        let world = World::new();
        self.write(&world);
        let before = look(&world.path("o"));
        let alternates = ["alt1", "alt2"].map(|name| (world.path(name), look(&world.path(name))));
        let theirs = self.run(&world, "rsync", "t/dst/");
        // It hangs, or its own ends misunderstand each other.
        if theirs.hangs || theirs.code == Some(2) && theirs.stderr.contains("Invalid packet") {
            return Verdict::RsyncBreaks;
        }
        let source = look(&world.path("src"));
        if asked.consumes() {
            fs::remove_dir_all(world.path("src")).expect("it is there");
            self.new.write(&world.path("src"), self.owner());
        }
        alternates.iter().for_each(|(root, files)| unread(root, files));
        let ours = self.run(&world, DELTIC, "o/dst/");
        if ours.hangs {
            return Verdict::DelticHangs(self.told(&["deltic hangs".into()], &ours, &theirs));
        }
        let both =
            Both { case: self, asked: &asked, world: &world, before: &before, source: &source };
        if both.has_died(&ours, &theirs)
            && let Some(emptied) = self.without_full_dirs_for_linked(&ours)
        {
            return emptied.verdict();
        }
        let differences = both.differences(&ours, &theirs);
        if differences.is_empty() {
            return Verdict::Alike;
        }
        Verdict::Differs(self.told(&differences, &ours, &theirs))
    }

    fn told(&self, differences: &[String], ours: &End, theirs: &End) -> String {
        let user = if self.lowered { "an ordinary user" } else { "the user of the test" };
        let mut text = format!("seed {}, {:?}, {user}:", self.seed, self.way);
        for (program, target) in [("deltic", "o/dst/"), ("rsync", "t/dst/")] {
            write!(text, "\n  {program} {:?}", self.words(program, target)).expect("a string");
        }
        for difference in differences {
            write!(text, "\n    {difference}").expect("a string");
        }
        for (program, end) in [("deltic", ours), ("rsync", theirs)] {
            write!(text, "\n  {program} {:?}: {}", end.code, end.stderr).expect("a string");
        }
        text
    }

    /// This case with nothing in the directories that are in the place of a file of several names, if there are such.
    fn without_full_dirs_for_linked(&self, ours: &End) -> Option<Self> {
        let mut emptied = self.clone();
        let several = self.new.names_of_several();
        let is_linked = |dir: &&PathBuf| {
            let is_named = several.iter().any(|name| name.file_name() == dir.file_name());
            is_named && is_in_the_way(&Path::new("dst").join(dir), ours)
        };
        for dir in self.old.0.keys().filter(is_linked) {
            emptied.old.leave_out(|other, _| other != dir && other.starts_with(dir));
        }
        (emptied.old.0.len() < self.old.0.len()).then_some(emptied)
    }

    fn owner(&self) -> Option<u32> {
        self.lowered.then_some(SOMEBODY)
    }

    fn write(&self, world: &World) {
        fs::set_permissions(world.path(""), fs::Permissions::from_mode(0o755)).expect("ours");
        self.new.write(&world.path("src"), self.owner());
        for (tree, name) in self.alternates.iter().zip(["alt1", "alt2"]) {
            tree.write(&world.path(name), self.owner());
        }
        for side in ["o", "t"] {
            world.mkdir(side);
            if let Some(owner) = self.owner() {
                own(&world.path(side), owner, owner);
            }
            self.old.write(&world.path(format!("{side}/dst")), self.owner());
        }
        world.write("away", "far off");
        world.mkdir("aside");
        if let Some(owner) = self.owner() {
            ["away", "aside"].iter().for_each(|name| own(&world.path(name), owner, owner));
        }
        let list: Vec<&[u8]> = self.list.iter().map(|name| name.as_bytes()).collect();
        world.write("zero", list.join(&0));
        let plain = |name: &&&[u8]| !name.iter().any(|byte| matches!(byte, b'\n' | b'\r'));
        world.write("list", list.iter().filter(plain).copied().collect::<Vec<_>>().join(&b'\n'));
        world.write("patterns", self.patterns.join(&b'\n'));
    }

    fn words(&self, program: &str, target: &str) -> Vec<OsString> {
        let first: &[&str] = match program {
            // The shell here runs words as they are, so that rsync must not escape them; `-M` does without it on one
            // machine.
            "rsync" if self.way == Way::Local => &["-@-1"],
            "rsync" => &["-@-1", "-s", "-e", SHELL],
            _ => &["sync", "-@-1", "--no-fsync", "-e", SHELL, "--deltic-path", DELTIC],
        };
        let mut words: Vec<OsString> = first.iter().map(OsString::from).collect();
        words.extend(["-i", "--stats", "-8"].map(OsString::from));
        let asked = Asked::new(&self.options.concat());
        if program != "rsync" && asked.deletes() && !asked.part("--max-delete") {
            words.push("--force-delete".into());
        }
        words.extend(self.options.iter().flatten().cloned());
        for source in &self.sources {
            let host: &[u8] = if self.way == Way::Pull { b"h:" } else { b"" };
            words.push(OsString::from_vec([host, source.as_bytes()].concat()));
        }
        words.push(self.way.to(target).into());
        words
    }

    fn run(&self, world: &World, program: &str, target: &str) -> End {
        let mut command = std::process::Command::new(program);
        // A relative one is seen from the target, and may not lead up.
        let place = format!("--temp-dir={}", world.path("aside").display());
        let words = self.words(program, target).into_iter();
        command.args(
            words.map(|word| if word == "--temp-dir=aside" { (&*place).into() } else { word }),
        );
        if self.lowered {
            command.uid(SOMEBODY).gid(SOMEBODY);
        }
        world.place(&mut command);
        let (output, hangs) = output_within(LIMIT, command);
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let (stdout, stderr) = (text(output.stdout), text(output.stderr));
        let log = fs::read(world.path("aside/log")).unwrap_or_default();
        let _ = fs::remove_file(world.path("aside/log"));
        End { code: output.status.code(), stdout, stderr, log, hangs }
    }
}

/// Has files been read last when they were: rsync reads files of rules, and of the alternates both make use.
fn unread(root: &Path, files: &BTreeMap<PathBuf, Look>) {
    for (name, look) in files.iter().filter(|(_, look)| look.kind == Kind::File) {
        let accessed = UNIX_EPOCH + Duration::from_secs(look.accessed.unsigned_abs());
        // What may not be read was not.
        if let Ok(file) = fs::File::open(root.join(name)) {
            file.set_times(FileTimes::new().set_accessed(accessed)).expect("it is ours");
        }
    }
}

/// True if it has the name of a file of rules and is something that rsync and Deltic are meant to make different things
/// of: no file, one that may not be read, bytes that are no rules, a line longer than any path.
fn is_no_file_of_rules(path: &Path, node: &Node) -> bool {
    let is_none = match node.what {
        What::Link(_) | What::Node(..) => true,
        // All bytes are patterns there.
        What::File { len, hole, .. } => hole > 0 || len > 0 && !path.ends_with(".cvsignore"),
        _ => false,
    };
    let is_closed = !matches!(node.what, What::Dir) && node.mode & 0o400 == 0;
    is_of_rules(path) && (is_none || is_closed)
}

/// Mostly what is in `src`; else `src` itself, or names in it.
/// Without `turns`, no names further down: they end up where an entry of another kind may be.
fn sources(dice: &mut Dice, asked: &Asked, new: &Tree, turns: bool) -> Vec<OsString> {
    // A remote name is a pattern to both.
    let plain = |path: &&PathBuf| {
        path.as_os_str().as_bytes().iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'/')
    };
    let meets_its_kind = |path: &&PathBuf| turns || path.components().count() == 1;
    let names: Vec<&PathBuf> = new.0.keys().filter(plain).filter(meets_its_kind).collect();
    let all = vec!["src/".into()];
    if asked.part("--files-from") || names.is_empty() {
        return all;
    }
    match dice.below(if asked.has("-R") { 4 } else { 8 }) {
        0 => vec!["src".into()],
        1 | 2 => {
            let prefix = *dice.pick(&["src", "src", "src/."]);
            let name = |path: &PathBuf| Path::new(prefix).join(path).into_os_string();
            let [first, second] = [dice.pick(&names), dice.pick(&names)];
            let mut some = vec![name(first)];
            let within = first.starts_with(second) || second.starts_with(first);
            // Of equal names the first counts, even if it is not there. What goes under one name is not there under
            // another.
            let gone = within && asked.has("--remove-source-files");
            if first.file_name() != second.file_name() && !gone {
                some.push(name(second));
            }
            if asked.part("missing-args") {
                some.push("src/missing".into());
            }
            some
        }
        _ => all,
    }
}

/// Some names of `new`, and one that is not there.
fn list(dice: &mut Dice, new: &Tree) -> Vec<OsString> {
    let paths: Vec<(&PathBuf, &Node)> = new.0.iter().collect();
    let name = |dice: &mut Dice| {
        let (path, node) = *dice.pick(&paths);
        let is_dir = matches!(node.what, What::Dir);
        let after = if is_dir && dice.percent(50) { "/" } else { "" };
        let name = if dice.percent(6) { OsStr::new("missing") } else { path.as_os_str() };
        [OsStr::new(dice.pick(&["./", "./", "/", ""])), name, OsStr::new(after)]
            .into_iter()
            .collect()
    };
    (0..1 + dice.below(5)).map(|_| name(dice)).collect()
}
