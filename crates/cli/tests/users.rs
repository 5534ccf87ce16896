//! Every option, by the real binary, here and over a pipe, for root; and each over one of these for an ordinary user:
//! all end alike. What a run leaves and says is another than without the option, or the table says that nothing shows.
//!
//! What an option does is for other suites to say; `testing/COVERAGE.md` names them. Here each has its turn with each
//! user, and none is forgotten, or ignored.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::common::attrs::{ACCESS, SOMEBODY, acl, node, note, own, set_times};
use crate::common::look::{Kind, Look, look};
use crate::common::{DELTIC, SHELL, WAYS, Way, World, edited, is_root, noise, skip};
use rustix::fs::FileType;

/// Visible effect of an option.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shows {
    /// A run without it ends otherwise.
    Yes,
    /// For root alone.
    ToRoot,
    /// In a pull alone.
    InAPull,
    /// It is about speed or patience, is accepted, or has a test of its own where more is to be seen.
    No,
}
use Shows::{InAPull, No, ToRoot, Yes};

/// Words, the option that is added to them, and what both end with. `from=` and `to=` are other operands.
const WORDS: &[(&str, &str, i32, Shows)] = &[
    ("-n", "--archive", 0, Yes),
    ("-rt", "--verbose", 0, Yes),
    ("", "--recursive", 0, Yes),
    ("-r", "--links", 0, Yes),
    ("-r", "--perms", 0, Yes),
    ("-r", "--times", 0, Yes),
    ("-a", "--no-recursive", 0, Yes),
    ("-a", "--no-links", 0, Yes),
    ("-a", "--no-perms", 0, Yes),
    ("-a", "--no-times", 0, Yes),
    ("-rt", "--owner", 0, ToRoot),
    ("-rt", "--group", 0, Yes),
    ("-a", "--no-owner", 0, ToRoot),
    ("-a", "--no-group", 0, Yes),
    ("-rt", "--specials", 0, Yes),
    ("-rt", "--devices", 0, Yes),
    ("-rt", "-D", 0, Yes),
    ("-a", "--no-D", 0, Yes),
    ("-a", "--no-devices", 0, Yes),
    ("-a", "--no-specials", 0, Yes),
    ("-rt", "--executability", 0, Yes),
    ("-a", "--chmod=Fgo+w", 0, Yes),
    ("-rpt", "--acls", 0, Yes),
    ("-rt", "--xattrs", 0, Yes),
    ("-rt", "--atimes", 0, Yes),
    ("-rt", "--open-noatime", 0, Yes),
    ("-a", "--omit-dir-times", 0, Yes),
    ("-a", "--omit-link-times", 0, Yes),
    ("-a", "--numeric-ids", 0, No),
    ("-rt", "--usermap=*:7", 0, ToRoot),
    ("-rt", "--groupmap=*:6", 0, Yes),
    ("-rt", "--chown=:6", 0, Yes),
    ("-a", "--no-super", 0, ToRoot),
    ("-rlt", "--super", 0, No),
    ("-rt", "--crtimes", 1, Yes),
    ("-t", "--dirs", 0, Yes),
    ("-rt", "--relative", 0, Yes),
    ("-t --files-from=deep", "--no-implied-dirs", 0, Yes),
    ("-rt", "--one-file-system", 0, No),
    ("-rt", "--prune-empty-dirs", 0, Yes),
    ("-rt to=o/dst/no/such/", "--mkpath", 0, Yes),
    ("-a", "--files-from=list", 0, Yes),
    ("-a --files-from=zero", "--from0", 0, Yes),
    ("-a", "--list-only", 0, Yes),
    ("-rt from=src/missing", "--ignore-missing-args", 0, Yes),
    ("-rt from=src/extra", "--delete-missing-args", 0, Yes),
    ("-rt", "--old-args", 0, No),
    ("-rt", "--secluded-args", 0, No),
    ("-rt", "--size-only", 0, Yes),
    ("-rt", "--ignore-times", 0, Yes),
    ("-rt", "--modify-window=1", 0, Yes),
    ("-rt", "--update", 0, Yes),
    ("-rt", "--existing", 0, Yes),
    ("-rt", "--ignore-existing", 0, Yes),
    ("-rt", "--max-size=5", 0, Yes),
    ("-rt", "--min-size=5", 0, Yes),
    ("-rpt", "--compare-dest=../alt", 0, Yes),
    ("-rpti", "--copy-dest=../alt", 0, Yes),
    ("-rpt", "--link-dest=../alt", 0, Yes),
    ("-rt --no-whole-file --out-format=%n:%b", "--fuzzy", 0, No),
    ("-rt", "--checksum", 0, Yes),
    ("-rt", "--dry-run", 0, Yes),
    ("-rt", "--itemize-changes", 0, Yes),
    ("-rt --delete", "--filter=-_file", 0, Yes),
    ("-rt", "--exclude=file", 0, Yes),
    ("-rt --exclude-from=all", "--include=file", 0, No),
    ("-rt", "--exclude-from=list", 0, Yes),
    ("-rt --include=*/", "--include-from=list", 0, No),
    ("-rt", "-F", 0, Yes),
    ("-rt", "--cvs-exclude", 0, Yes),
    ("-rt", "--gitignore", 0, Yes),
    ("-rt --delete --exclude=file", "--delete-excluded", 0, Yes),
    ("-rt", "--copy-links", 23, Yes),
    ("-rlt", "--copy-dirlinks", 0, Yes),
    ("-rlt", "--copy-unsafe-links", 23, Yes),
    ("-rlt", "--safe-links", 0, Yes),
    ("-rlt", "--munge-links", 0, InAPull),
    ("-rt", "--delete", 0, Yes),
    ("-rt", "--delete-before", 0, Yes),
    ("-rt", "--delete-after", 0, Yes),
    ("-rt", "--delete-delay", 0, Yes),
    ("-rt --delete", "--max-delete=0", 25, Yes),
    ("-rt --delete from=src/empty/", "--force-delete", 0, Yes),
    ("-rt from=src/file to=o/dst/full/", "--force", 0, Yes),
    ("-rt -f:_.bad --delete", "--ignore-errors", 23, Yes),
    ("-rt", "--remove-source-files", 0, Yes),
    ("-rt", "--backup", 0, Yes),
    ("-rt --backup", "--backup-dir=old", 0, Yes),
    ("-rt --backup", "--suffix=.old", 0, Yes),
    ("-rt --no-whole-file --out-format=%n:%b", "--whole-file", 0, Yes),
    ("-rt --whole-file --out-format=%n:%b", "--no-whole-file", 0, Yes),
    ("-rt --no-whole-file --out-format=%n:%b", "--strategy=rsync", 0, Yes),
    ("-rt --no-whole-file --out-format=%n:%b", "--block-size=32768", 0, Yes),
    ("-rt --no-whole-file --out-format=%n:%b", "--checksum-choice=none", 0, Yes),
    ("-rt", "--streams=2", 0, No),
    ("-rt", "--retry-for=2m", 0, No),
    ("-rt", "--no-retry", 0, No),
    ("-rt", "--threads=2", 0, No),
    ("-rt", "--no-fsync", 0, No),
    ("-rt", "--fsync", 0, No),
    ("-rt", "--compress", 0, No),
    ("-rt", "--compress-choice=zstd", 0, No),
    ("-rt", "--compress-level=3", 0, No),
    ("-rt", "--skip-compress=gz", 0, No),
    ("-rt", "--compress-threads=2", 0, No),
    ("-rt", "--bwlimit=10m", 0, No),
    ("-rt", "--timeout=50", 0, No),
    ("-rt", "--contimeout=50", 0, No),
    ("-rt", "--stop-after=5", 0, No),
    ("-rt", "--stop-at=2999-01-01", 0, No),
    ("-rt", "--stop-at=1999-01-01", 1, Yes),
    ("-rt", "--remote-option=--bwlimit=10m", 0, No),
    ("-rt", "--ipv4", 0, No),
    ("-rt", "--ipv6", 0, No),
    ("-rtv", "--quiet", 0, Yes),
    ("-rt", "--info=name,stats2", 0, Yes),
    ("-rt", "--debug=all", 0, Yes),
    ("-rt", "--out-format=%n", 0, Yes),
    ("-rt", "--log-file=o/log", 0, Yes),
    ("-rt --log-file=o/log", "--log-file-format=%n", 0, Yes),
    ("-rt", "--stats", 0, Yes),
    ("-rt", "--stats-one-line", 0, Yes),
    ("-rt", "--no-config", 0, No),
    ("-rt --stats", "--human-readable", 0, Yes),
    ("-rt --stats", "--no-human-readable", 0, Yes),
    ("-rt", "--explain", 0, Yes),
    ("-rt", "--progress", 0, Yes),
    ("-rt", "-P", 0, Yes),
    ("-rt --progress", "--no-progress", 0, Yes),
    ("-rt", "--json", 0, Yes),
    ("-rti", "--8-bit-output", 0, Yes),
    ("-rtv", "--stderr=all", 0, Yes),
    ("-rtv", "--outbuf=line", 0, No),
    ("-rt", "--no-motd", 0, No),
    ("-rt", "--version", 0, Yes),
    ("-rt", "--help", 0, Yes),
    ("-rt", "--hard-links", 0, Yes),
    ("-rlt", "--keep-dirlinks", 0, Yes),
    ("-a", "--fake-super --remote-option=--fake-super", 0, Yes),
    ("-rtc", "--no-cache", 0, No),
    ("-rtc", "--checksum-max-age=0", 0, No),
    ("-rtc", "--trust-sums", 1, Yes),
    ("-rtc", "--cache", 0, No),
    ("-rt", "--sparse", 0, Yes),
    ("-rt", "--inplace", 0, Yes),
    ("-rt", "--append", 0, Yes),
    ("-rt", "--append-verify", 0, Yes),
    ("-rt", "--preallocate", 0, No),
    ("-rt", "--temp-dir=../alt", 0, Yes),
    ("-rt", "--partial-dir=.part", 0, No),
    ("-rt", "--delay-updates", 0, No),
    ("-rt", "--partial", 0, No),
    ("-rt", "--inc-recursive", 0, No),
    ("-rt", "--no-inc-recursive", 0, No),
    ("-rt", "--protocol=31", 0, No),
    ("-rt", "--checksum-seed=1", 0, No),
    ("-rt", "--blocking-io", 0, No),
    ("-rt", "--no-write-devices", 0, No),
    ("-rt", "--trust-sender", 0, No),
    ("-rt", "--old-compress", 0, No),
    ("-rt", "--qsort", 0, No),
    ("-rt", "--no-crtimes", 0, No),
    ("-rt", "--max-alloc=1g", 0, No),
    ("-rt", "--port=1", 0, No),
    ("-rt", "--sockopts=x", 0, No),
    ("-rt", "--address=x", 0, No),
    ("-rt", "--insecure-links", 0, No),
    ("-rt", "--password-file=list", 1, Yes),
    ("-rt", "--early-input=list", 0, No),
    ("-rtn", "--write-batch=b", 0, No),
    ("-rtn", "--only-write-batch=b", 0, No),
    ("-rt", "--read-batch=b", 1, Yes),
    ("-rt", "--iconv=utf8", 4, Yes),
    ("-rt", "--copy-as=root", 4, Yes),
    ("-rt", "--server", 4, Yes),
    ("-rt", "--sender", 4, Yes),
    ("-rt", "--daemon", 4, Yes),
];

/// Options that every run here has.
const ALWAYS: &[&str] = &["--rsh", "--deltic-path"];
/// Options of servers and of a missing program, which have tests of their own.
const TO_SERVERS: &[&str] = &["--token", "--pin", "--install"];

/// The user who runs it.
type User = Option<u32>;

#[derive(Clone, Debug, PartialEq, Eq)]
struct End {
    code: Option<i32>,
    /// In order, and without figures of time and traffic.
    stdout: Vec<String>,
    stderr: Vec<String>,
    /// What is there, and what of it is the user's affair.
    trees: BTreeMap<PathBuf, (String, String)>,
}

impl End {
    /// All that is said of it.
    fn lines(&self) -> BTreeSet<String> {
        let told = |from: &'static str, lines: &[String]| {
            lines.iter().map(move |line| format!("{from}: {line}")).collect::<Vec<_>>()
        };
        let trees = self.trees.iter().map(|(path, (all, own))| format!("{path:?} {all} {own}"));
        let code = format!("code {:?}", self.code);
        let lines = [told("stdout", &self.stdout), told("stderr", &self.stderr)].concat();
        trees.chain(lines).chain([code]).collect()
    }
}

/// A world in which every option has something to do, all of it `user`'s but for one file.
fn world(user: User) -> World {
    let world = World::new();
    let large = noise(100_000, 1);
    for name in [
        "file",
        "dir/other",
        "hidden",
        "x.o",
        "ignored",
        "kept/in it",
        "hard",
        "attributed",
        "foreign",
    ] {
        world.write(format!("src/{name}"), name);
    }
    world.write("src/.rsync-filter", "- hidden\n");
    world.write("src/.gitignore", "ignored\n");
    world.write("src/dir/.bad", "no rule\n");
    world.write("src/large", edited(&large, 50_000));
    world.write("src/zeros", vec![0; 128 << 10]);
    world.write("src/tail", "begins and goes on");
    world.write(OsStr::from_bytes(b"src/odd \xff"), "x");
    for name in ["hidden content", "length", "near", "newer", "run"] {
        world.write(format!("src/{name}"), "what is new");
        world.write(format!("o/dst/{name}"), "what is old");
    }
    world.chmod("src/run", 0o755);
    fs::hard_link(world.path("src/hard"), world.path("src/hard too")).expect("it is free");
    world.mkdir("src/empty");
    for (target, name) in
        [("file", "link"), ("/nowhere/../etc/hostname-that-is-not", "astray"), ("dir", "to dir")]
    {
        world.link(target, &format!("src/{name}"));
    }
    note(&world.path("src/attributed"), "user.a", b"b");
    note(&world.path("src/attributed"), ACCESS, &acl(33, 33).to_bytes());
    node(&world.path("src/fifo"), FileType::Fifo, (0, 0));
    if is_root() {
        node(&world.path("src/device"), FileType::CharacterDevice, (1, 3));
    }
    for (name, text) in [
        ("o/dst/file", "older content"),
        ("o/dst/extra", "x"),
        ("o/dst/tail", "BEGINS"),
        ("o/dst/full/file/x", "x"),
        ("o/dst/real/x", "x"),
        ("o/alt/file", "file"),
        ("o/alt/dir/other", "dir/other"),
        ("list", "file\n"),
        ("deep", "dir/other\n"),
        ("zero", "file\0dir\0"),
        ("all", "*\n"),
    ] {
        world.write(name, text);
    }
    world.write("o/dst/large", &large);
    world.link("real", "o/dst/kept");
    for (dir, time) in [("src", 1_000_000_000), ("o", 1_050_000_000)] {
        for path in look(&world.path(dir)).into_keys() {
            let path = world.path(dir).join(path);
            if let Some(user) = user {
                own(&path, user, user);
            }
            set_times(&path, (900_000_000, time));
        }
    }
    for (name, time) in
        [("hidden content", 1_000_000_000), ("near", 1_000_000_001), ("newer", 1_100_000_000)]
    {
        set_times(&world.path(format!("o/dst/{name}")), (900_000_000, time));
    }
    for name in ["file", "dir/other"] {
        set_times(&world.path("o/alt").join(name), (900_000_000, 1_000_000_000));
    }
    if is_root() {
        own(&world.path("src/foreign"), 5, 6);
    }
    world.chmod("", 0o755);
    world
}

/// Runs `words` as root or somebody, in a world that is his.
fn run(words: &str, way: Way, user: User) -> End {
    let world = world(user);
    let before = look(&world.path("o"));
    let (mut from, mut to, mut said) = ("src/", "o/dst/", Vec::new());
    for word in words.split_whitespace() {
        match word.split_once('=') {
            Some(("from", operand)) => from = operand,
            Some(("to", operand)) => to = operand,
            _ => said.push(word),
        }
    }
    let lower: &[&str] = &["--reuid=65534", "--regid=65534", "--groups=65534,6", DELTIC]
        [..if user.is_some() { 4 } else { 0 }];
    let program = if user.is_some() { "setpriv" } else { DELTIC };
    let mut command = world.command(program, lower);
    command.args(["sync", "--no-fsync", "-e", SHELL, "--deltic-path", DELTIC]);
    command.args(said).args([way.from(from), way.to(to)]);
    let output = command.output().expect("it starts");
    let mut trees = BTreeMap::new();
    for (dir, before) in [("src", None), ("o", Some(&before))] {
        for (path, look) in look(&world.path(dir)) {
            let old = before.and_then(|before| before.get(&path));
            let path = world.path(dir).join(path);
            trees.insert(
                path.strip_prefix(world.path("")).expect("it is below").into(),
                seen(&path, &look, old),
            );
        }
    }
    // Each world has a directory of its own.
    let here = world.path("").display().to_string();
    let told = |bytes: &[u8]| lines(String::from_utf8_lossy(bytes).replace(&here, "/").as_bytes());
    let (stdout, stderr) = (told(&output.stdout), told(&output.stderr));
    End { code: output.status.code(), stdout, stderr, trees }
}

/// Lines in order of text, without what is another in each run.
fn lines(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes).into_owned();
    // A run may be over before all its streams are there.
    let passing =
        ["{\"event\":\"progress\"", "further streams did not start", "Compression: ", "Measured "];
    let is_lasting = |line: &&str| !passing.iter().any(|passing| line.contains(passing));
    let mut lines: Vec<_> = text.lines().filter(is_lasting).map(figureless).collect();
    lines.sort_unstable();
    lines
}

/// A line without figures of time and traffic.
fn figureless(line: &str) -> String {
    let varies = ["seconds", "speedup", "Total bytes", "sent ", "{", "] "];
    let (line, compression) = line.split_once(",\"compression\":{").unwrap_or((line, "}"));
    let line = &format!("{line}{}", compression.split_once('}').expect("it ends").1);
    match varies.iter().any(|word| line.contains(word)) {
        _ if line.contains("/sec") || line.contains("B/s ") => "a rate".to_owned(),
        true => line.replace(|c: char| c.is_ascii_digit() || ",.".contains(c), ""),
        false => line.to_owned(),
    }
}

/// What all users see of a name that was `before`, and what is of the one that ran it.
fn seen(path: &Path, now: &Look, before: Option<&Look>) -> (String, String) {
    // What a test sets lies in the past.
    let time = |secs: i64| if secs < 1_200_000_000 { secs } else { 0 };
    let is_file = |look: &&Look| look.kind == Kind::File;
    let is_same = before.filter(is_file).is_some_and(|before| before.inode == now.inode);
    let meta = path.symlink_metadata().expect("it was looked at");
    let is_full = meta.blocks() * 512 >= meta.len();
    let content = match path.ends_with("log") {
        true => lines(&fs::read(path).expect("it is there")).join("|"),
        false => now.content.clone(),
    };
    let names = if now.kind == Kind::Dir { 0 } else { now.names };
    let all = format!(
        "{:o} {content} {} {names} {is_same} {is_full} {:?}",
        now.mode,
        time(now.modified.0),
        now.notes.keys()
    );
    (all, format!("{:?} {}", now.owner, time(now.accessed)))
}

#[test]
fn every_option_ends_alike_for_root_and_for_an_ordinary_user_and_shows() {
    if !is_root() {
        skip("only root can be somebody else as well");
    }
    std::thread::scope(|scope| {
        for (n, way) in WAYS.into_iter().enumerate() {
            // Somebody goes each way in turn, root all of them.
            scope.spawn(move || {
                let mut without = HashMap::new();
                for (m, row) in WORDS.iter().enumerate() {
                    ends_alike(row, way, is_root() && m % WAYS.len() == n, &mut without);
                }
            });
        }
    });
}

fn ends_alike(
    &(words, option, code, shows): &(&'static str, &str, i32, Shows),
    way: Way,
    lowered: bool,
    without: &mut HashMap<(&'static str, User), End>,
) {
    let users: &[User] = if lowered { &[None, Some(SOMEBODY)] } else { &[None] };
    let with = format!("{words} {option}");
    let mut ends = users.iter().map(|&user| {
        let end = run(&with, way, user);
        assert_eq!(end.code, Some(code), "{with} {way:?} {user:?}: {end:#?}");
        let before = without.entry((words, user)).or_insert_with(|| run(words, way, user));
        let is_seen = end != *before;
        let expected = match shows {
            Yes => true,
            ToRoot => user.is_none() && is_root(),
            InAPull => way == Way::Pull,
            No => false,
        };
        let differ = end.lines().symmetric_difference(&before.lines()).cloned().collect::<Vec<_>>();
        assert_eq!(is_seen, expected, "{with} {way:?} {user:?}: {differ:#?}");
        end
    });
    let (Some(own), Some(other)) = (ends.next(), ends.next()) else { return };
    if shows != ToRoot {
        let common = |mut end: End| {
            // What they are told of what they may not do is not the same.
            end.stderr.clear();
            end.stdout.retain(|line| !line.contains("only the superuser"));
            end.trees.values_mut().for_each(|(_, own)| own.clear());
            end.trees.retain(|path, _| !path.ends_with("device"));
            end.lines()
        };
        let (own, other) = (common(own), common(other));
        let differ: Vec<_> = own.symmetric_difference(&other).collect();
        assert!(differ.is_empty(), "{with} {way:?}: {differ:#?}");
    }
}

#[test]
fn no_option_is_forgotten() {
    let world = World::new();
    let help = crate::common::Run::of(&mut world.command(DELTIC, ["sync", "--help"])).stdout;
    let said: Vec<&str> =
        WORDS.iter().flat_map(|(_, option, ..)| option.split(['=', ' '])).collect();
    let is_option = |line: &&str| line.starts_with("  -") || line.starts_with("      --");
    let options = help.lines().filter(is_option).map(str::trim);
    let mut count = 0;
    for line in options {
        let names = line.split("  ").next().unwrap_or_default();
        let name = names.split(", ").last().unwrap_or_default();
        let name = name.split([' ', '=', '[', '.']).next().unwrap_or_default();
        let is_known = said.contains(&name) || ALWAYS.contains(&name);
        assert!(is_known || TO_SERVERS.contains(&name), "{name} of {line:?}");
        count += 1;
    }
    assert!(count > 100, "the help was understood: {count}");
}
