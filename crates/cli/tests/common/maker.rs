//! The maker of trees: random ones to be written, of every kind of entry, with every attribute; and edits of them.
//!
//! Names are few, so that trees, edits and patterns meet.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Timespec, Timestamps, utimensat};

use super::attrs::{ACCESS, DEFAULT, SOMEBODY, acl, node, note, own};
use super::dice::Dice;
use super::look::Kind;
use super::noise;
use super::tree::ODD_NAMES;

/// Bounds of a tree.
#[derive(Clone, Copy, Debug, Default)]
pub struct Taste {
    /// Most entries.
    pub entries: u64,
    /// Links, FIFOs, sockets, and names for one file; else only files and directories.
    pub kinds: bool,
    /// What only root can make: owners, devices, attributes of the system.
    pub foreign: bool,
    /// Attributes and ACLs.
    pub notes: bool,
    /// Modes that keep an ordinary user out.
    pub closed: bool,
    /// Files of rules, and names that their patterns match; none that would be a pattern as a directory's.
    pub rules: bool,
    /// Links that lead round.
    pub loops: bool,
    /// Names as long as can be.
    pub long: bool,
}

/// A tree to be written: what each path is, directories before what is in them.
#[derive(Clone, Debug, Default)]
pub struct Tree(pub BTreeMap<PathBuf, Node>);

#[derive(Clone, Debug)]
pub struct Node {
    pub what: What,
    pub mode: u32,
    pub time: (i64, i64),
    /// User and group; whoever writes it, if none.
    pub owner: Option<(u32, u32)>,
    pub notes: BTreeMap<&'static str, Vec<u8>>,
}

#[derive(Clone, Debug)]
pub enum What {
    Dir,
    /// `len` bytes with a hole of `hole` bytes behind the first half.
    File {
        len: usize,
        hole: u64,
        seed: u64,
    },
    Text(Vec<u8>),
    Link(&'static [u8]),
    /// Another name of a file.
    Again(PathBuf),
    Node(FileType, (u32, u32)),
}

impl Tree {
    /// A tree that is not empty.
    pub fn random(dice: &mut Dice, taste: Taste) -> Self {
        let mut tree = Self::default();
        for _ in 0..1 + dice.below(taste.entries) {
            tree.add(dice, taste);
        }
        // A source that is not empty, whatever the dice say.
        let always = Node::random(dice, taste, What::File { len: 30, hole: 0, seed: 1 });
        tree.0.insert("always".into(), always);
        tree
    }

    fn add(&mut self, dice: &mut Dice, taste: Taste) {
        let mut what = What::random(dice, taste);
        let name = name(dice, taste, &what);
        let path = dice.pick(&self.dirs()).join(&name);
        if self.0.contains_key(&path) || path.as_os_str().len() > 200 + name.len() {
            return;
        }
        if let What::Again(first) = &mut what {
            let is_file = |node: &Node| matches!(node.what, What::File { .. });
            let files: Vec<_> = self.0.iter().filter(|(_, node)| is_file(node)).collect();
            if files.is_empty() {
                return;
            }
            first.clone_from(dice.pick(&files).0);
        }
        if name == ".cvsignore" {
            let words: [&[u8]; 3] = [b"a b\n", b"*.x !\tb\n", b"! core a*\n"];
            what = What::Text(dice.pick(&words).to_vec());
        }
        let node = Node::random(dice, taste, what);
        self.0.insert(path, node);
    }

    /// This tree after some edits; with `turns`, entries may become of another kind.
    pub fn edited(&self, dice: &mut Dice, taste: Taste, edits: u64, turns: bool) -> Self {
        let mut tree = self.clone();
        for _ in 0..dice.below(edits + 1) {
            let paths: Vec<PathBuf> = tree.0.keys().cloned().collect();
            if paths.is_empty() {
                tree.add(dice, taste);
                continue;
            }
            let path = dice.pick(&paths).clone();
            tree.edit(&path, dice, taste, turns);
        }
        // What was removed may have come again.
        tree.leave_out(|path, node| {
            let is_turned = |was: &Node| was.what.kind() != node.what.kind();
            !turns && self.0.get(path).is_some_and(is_turned)
        });
        tree
    }

    fn edit(&mut self, path: &Path, dice: &mut Dice, taste: Taste, turns: bool) {
        let what = What::random(dice, Taste { rules: false, ..taste });
        let fresh = Node::random(dice, taste, what);
        let old = self.0.get_mut(path).expect("it was picked");
        match dice.below(11) {
            0 => self.remove(path),
            1 if turns && !matches!(fresh.what, What::Again(_)) => {
                self.remove(path);
                self.0.insert(path.to_path_buf(), fresh);
            }
            2 => old.mode ^= 0o020,
            3 => old.time = fresh.time,
            4 => match &mut old.what {
                What::File { seed, .. } => *seed += 1,
                What::Text(text) if !path.ends_with(".cvsignore") => *text = rule_file(dice),
                _ => {}
            },
            5 | 6 => {
                if let What::File { len, .. } = &mut old.what {
                    *len += 7;
                    old.time = fresh.time;
                }
            }
            7 => old.owner = fresh.owner,
            8 if matches!(old.what, What::Dir) == matches!(fresh.what, What::Dir) => {
                if !matches!(old.what, What::Link(_) | What::Node(..)) {
                    old.notes = fresh.notes;
                }
            }
            _ => self.add(dice, taste),
        }
    }

    pub fn dirs(&self) -> Vec<PathBuf> {
        let dirs = self.0.iter().filter(|(_, node)| matches!(node.what, What::Dir));
        std::iter::once(PathBuf::new()).chain(dirs.map(|(path, _)| path.clone())).collect()
    }

    /// Removes a path, what is below it, and further names of files there.
    pub fn remove(&mut self, path: &Path) {
        self.0.retain(|other, node| {
            let again = matches!(&node.what, What::Again(first) if first.starts_with(path));
            !other.starts_with(path) && !again
        });
    }

    /// Removes each path of which `is_out` holds.
    pub fn leave_out(&mut self, is_out: impl Fn(&Path, &Node) -> bool) {
        let out = |(path, node): (&PathBuf, &Node)| is_out(path, node).then(|| path.clone());
        for path in self.0.iter().filter_map(out).collect::<Vec<_>>() {
            self.remove(&path);
        }
    }

    /// Each name of a file that has several.
    pub fn names_of_several(&self) -> BTreeSet<&Path> {
        let all = self.0.iter().filter_map(|(path, node)| match &node.what {
            What::Again(first) => Some([path.as_path(), first]),
            _ => None,
        });
        all.flatten().collect()
    }

    /// Leaves each file one name.
    pub fn part_names(&mut self) {
        self.0.retain(|_, node| !matches!(node.what, What::Again(_)));
    }

    /// Writes it below `root`, all of it as a possession of `owner` if that is not whoever writes it.
    pub fn write(&self, root: &Path, owner: Option<u32>) {
        fs::create_dir_all(root).expect("it can be made");
        for (path, node) in &self.0 {
            node.what.write(&root.join(path));
        }
        for (path, node) in &self.0 {
            if let What::Again(first) = &node.what {
                fs::hard_link(root.join(first), root.join(path)).expect("it is free");
            }
        }
        // From the leaves up: a directory's time changes with what is put in it.
        for (path, node) in self.0.iter().rev() {
            node.dress(&root.join(path), owner);
        }
        if let Some(owner) = owner {
            own(root, owner, owner);
        }
        set_time(root, (1_000_000_000, 7));
    }
}

impl What {
    fn random(dice: &mut Dice, taste: Taste) -> Self {
        match dice.below(14) {
            0..3 => Self::Dir,
            3 if taste.kinds => Self::Link(link(dice, taste)),
            4 if taste.kinds => special(dice, taste),
            5 if taste.kinds => Self::Again(PathBuf::new()),
            6 if taste.rules => Self::Text(rule_file(dice)),
            _ => {
                let long = 3000 + dice.below(9000);
                let len = *dice.pick(&[0, 1, 20, 20, 21, 1024, 1023, 2001, 2049, long]) as usize;
                let hole = if dice.percent(8) { 4096 << dice.below(6) } else { 0 };
                Self::File { len, hole, seed: dice.below(4) }
            }
        }
    }

    const fn kind(&self) -> Kind {
        match self {
            Self::Dir => Kind::Dir,
            Self::File { .. } | Self::Text(_) | Self::Again(_) => Kind::File,
            Self::Link(_) => Kind::Link,
            Self::Node(..) => Kind::Node,
        }
    }

    fn write(&self, path: &Path) {
        match self {
            Self::Dir => fs::create_dir(path).expect("it is free"),
            Self::File { len, hole, seed } => {
                let bytes = noise(*len, *seed);
                let (first, second) = bytes.split_at(len / 2);
                let file = fs::File::create_new(path).expect("it is free");
                file.write_all_at(first, 0).expect("there is room");
                file.write_all_at(second, first.len() as u64 + hole).expect("there is room");
                file.set_len(*len as u64 + hole).expect("there is room");
            }
            Self::Text(text) => fs::write(path, text).expect("it is free"),
            Self::Link(target) => symlink(OsStr::from_bytes(target), path).expect("it is free"),
            Self::Again(_) => {}
            Self::Node(kind, device) => node(path, *kind, *device),
        }
    }
}

fn link(dice: &mut Dice, taste: Taste) -> &'static [u8] {
    let plain: [&[u8]; 8] = [
        b"a",
        b"nowhere",
        b"/etc/passwd",
        b"always",
        b"../always",
        b"../../away",
        b"\xff\n",
        b"/rsyncd-munged/a",
    ];
    let round: [&[u8]; 5] = [b".", b"..", b"../b", b"a/../../c", b"b/../b"];
    let targets: &[&[u8]] = if taste.loops && dice.percent(50) { &round } else { &plain };
    dice.pick::<&[u8]>(targets)
}

fn special(dice: &mut Dice, taste: Taste) -> What {
    match dice.below(4) {
        0 => What::Node(FileType::Socket, (0, 0)),
        1 if taste.foreign => What::Node(FileType::CharacterDevice, (1, *dice.pick(&[3, 5]))),
        2 if taste.foreign => What::Node(FileType::BlockDevice, (7, *dice.pick(&[1, 300]))),
        _ => What::Node(FileType::Fifo, (0, 0)),
    }
}

impl Node {
    fn random(dice: &mut Dice, taste: Taste, what: What) -> Self {
        let is_dir = matches!(what, What::Dir);
        let is_file = matches!(what, What::File { .. } | What::Text(_));
        let mode = match is_dir {
            _ if taste.closed && dice.percent(15) => *dice.pick(&[0, 0o200, 0o555]),
            true => *dice.pick(&[0o755, 0o755, 0o700, 0o775, 0o2775, 0o1777]),
            false => *dice
                .pick(&[0o644, 0o644, 0o600, 0o755, 0o666, 0o444, 0o640, 0o4755, 0o2755, 0o1777]),
        };
        let ids = [0, 0, 1, 33, 1000, SOMEBODY, 3_000_000];
        let owner = taste.foreign.then(|| (*dice.pick(&ids), *dice.pick(&ids)));
        let mut notes = BTreeMap::new();
        if taste.notes && (is_dir || is_file) {
            if dice.percent(20) {
                let acl = acl(*dice.pick(&ids), *dice.pick(&ids)).with_mode(mode);
                notes.insert(ACCESS, acl.to_bytes());
            }
            if is_dir && dice.percent(20) {
                notes.insert(DEFAULT, acl(33, *dice.pick(&ids)).to_bytes());
            }
            if dice.percent(30) {
                let values: [&[u8]; 3] = [b"", b"v", b"\0\xff"];
                notes.insert(*dice.pick(&["user.a", "user.b"]), dice.pick(&values).to_vec());
            }
        }
        if taste.notes && taste.foreign && dice.percent(15) {
            notes.insert(*dice.pick(&["trusted.t", "security.s"]), b"value".to_vec());
        }
        Self { what, mode, time: time(dice), owner, notes }
    }

    /// Gives what was written at `path` its attributes.
    fn dress(&self, path: &Path, owner: Option<u32>) {
        if matches!(self.what, What::Again(_)) {
            return;
        }
        if let Some((user, group)) = owner.map(|id| (id, id)).or(self.owner) {
            own(path, user, group);
        }
        for (name, value) in &self.notes {
            note(path, name, value);
        }
        if !matches!(self.what, What::Link(_)) {
            fs::set_permissions(path, fs::Permissions::from_mode(self.mode)).expect("it is ours");
        }
        set_time(path, self.time);
    }
}

/// Sets when something was changed, and that it was last read long ago.
fn set_time(path: &Path, (secs, nanos): (i64, i64)) {
    let times = Timestamps {
        last_access: Timespec { tv_sec: 900_000_000, tv_nsec: 0 },
        last_modification: Timespec { tv_sec: secs, tv_nsec: nanos },
    };
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).expect("it is ours");
}

fn time(dice: &mut Dice) -> (i64, i64) {
    if dice.percent(12) {
        let odd = [
            (-2_000_000_000, 1),
            (-1, 999_999_999),
            (0, 0),
            (1, 5),
            (4_000_000_000, 999_999_999),
            (14_000_000_000, 0),
        ];
        return *dice.pick(&odd);
    }
    (1_000_000_000 + dice.below(5) as i64, *dice.pick(&[0, 0, 500_000_000]))
}

fn name(dice: &mut Dice, taste: Taste, what: &What) -> OsString {
    let plain: [&[u8]; 8] = [b"a", b"b", b"c", b"d.c", b"e.txt", b"e.text", b"f~", b".g"];
    let bytes = match (taste.rules, what) {
        (_, What::Text(_)) => dice.pick(&RULE_FILES).to_vec(),
        (true, What::Dir) => dice.pick(&MATCHED_DIRS).to_vec(),
        (true, _) if dice.percent(70) => dice.pick(&MATCHED).to_vec(),
        (true, _) => dice.pick(&plain).to_vec(),
        (false, _) => match dice.below(8) {
            0 | 1 => {
                let byte = |dice: &mut Dice| {
                    Some(dice.next() as u8).filter(|b| !matches!(b, 0 | b'/' | b'.'))
                };
                (0..1 + dice.below(6)).map(|_| byte(dice).unwrap_or(b'_')).collect()
            }
            2 => dice.pick(&ODD_NAMES).to_vec(),
            3 if taste.long => vec![*dice.pick(b"l\xc3\n"); 255 - dice.below(3) as usize],
            _ => dice.pick(&plain).to_vec(),
        },
    };
    OsString::from_vec(bytes)
}

/// Names of files of rules.
pub const RULE_FILES: [&[u8]; 4] = [b".f", b".other", b".rsync-filter", b".cvsignore"];
const MATCHED: [&[u8]; 12] =
    [b"a", b"b", b"ab", b"a.o", b"core", b"x y", b"\xff\xfe", b"[a]", b"a\\b", b"#c", b"-d", b"*"];
const MATCHED_DIRS: [&[u8]; 6] = [b"d", b"e", b"d e", b"core", b"w*", b"a"];
/// What matches some of these names.
pub const PATTERNS: [&[u8]; 40] = [
    b"a", b"b", b"a*", b"*b", b"?", b"*.o", b"core", b"core/", b"d/", b"d", b"/d/", b"/a", b"/d/a",
    b"d/a", b"d/*", b"e/**", b"**/a", b"d/***", b"/d/**/b", b"x y", b"x*", b"\xff*", b"\\[a]",
    b"[[]a]", b"a\\b", b"a\\\\*", b"#c", b"-*", b"*", b"*/", b"/*", b"**", b"d e/a", b"/e/*.o",
    b"[!a]", b"**b", b"w*/a", b"/w*/b", b"d**a", b"/**/a",
];

/// A rule as it is written.
pub fn rule(dice: &mut Dice) -> Vec<u8> {
    let prefixes: [&[u8]; 19] = [
        b"- ", b"- ", b"- ", b"+ ", b"+ ", b"H ", b"S ", b"P ", b"P ", b"R ", b"-p ", b"-! ",
        b"-s ", b"-r ", b"+r ", b"-rs ", b"P,p ", b"-!p ", b"H! ",
    ];
    [*dice.pick(&prefixes), *dice.pick(&PATTERNS)].concat()
}

/// What is in a file of rules.
fn rule_file(dice: &mut Dice) -> Vec<u8> {
    let mut text = Vec::new();
    for _ in 0..=dice.below(3) {
        match dice.below(12) {
            0 => text.extend_from_slice(b"# comment"),
            1 => text.push(b'!'),
            2 => text.extend_from_slice(b": .other"),
            3 => text.extend_from_slice(b":n .other"),
            _ => text.extend(rule(dice)),
        }
        text.push(b'\n');
    }
    text
}
