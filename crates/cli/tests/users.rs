//! Every option, by the real binary, here and over a pipe, for root; and each over one of these for an ordinary user: all end
//! alike.
//!
//! What an option does is for other suites to say; `testing/COVERAGE.md` names them. Here each has its turn with each user, and
//! none is forgotten.

mod common;

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;

use common::attrs::{SOMEBODY, own};
use common::look::look;
use common::{DELTIC, SHELL, WAYS, Way, World, is_root, skip};

/// Words for each option, and what they end with.
const WORDS: &[(&str, i32)] = &[
    ("--archive --verbose", 0),
    ("--recursive --links --perms --times", 0),
    ("-a --no-recursive", 0),
    ("-a --no-links", 0),
    ("-a --no-perms", 0),
    ("-a --no-times", 0),
    ("-rt --owner --group", 0),
    ("-a --no-owner --no-group", 0),
    ("-rt --specials", 0),
    ("-rt --devices", 0),
    ("-rt -D", 0),
    ("-a --no-D", 0),
    ("-a --no-devices --no-specials", 0),
    ("-rt --executability", 0),
    ("-a --chmod=Fgo-w", 0),
    ("-rt --acls", 0),
    ("-rt --xattrs", 0),
    ("-rt --atimes --open-noatime", 0),
    ("-a --omit-dir-times --omit-link-times", 0),
    ("-a --numeric-ids", 0),
    ("-rt --no-super --usermap=*:0 --groupmap=*:0", 0),
    ("-rt --no-super --chown=0:0", 0),
    ("-rlt --super", 0),
    ("-rt --crtimes", 1),
    ("--dirs -t", 0),
    ("-rt --relative", 0),
    ("-rtR --no-implied-dirs", 0),
    ("-rt --one-file-system", 0),
    ("-rt --prune-empty-dirs", 0),
    ("-rt --mkpath", 0),
    ("-a --files-from=list", 0),
    ("-a --files-from=zero --from0", 0),
    ("-a --list-only", 0),
    ("-rt --ignore-missing-args", 0),
    ("-rt --delete-missing-args", 0),
    ("-rt --old-args --secluded-args", 0),
    ("-rt --size-only", 0),
    ("-rt --ignore-times", 0),
    ("-rt --modify-window=1", 0),
    ("-rt --update", 0),
    ("-rt --existing", 0),
    ("-rt --ignore-existing", 0),
    ("-rt --max-size=5", 0),
    ("-rt --min-size=5", 0),
    ("-rpt --compare-dest=../alt", 0),
    ("-rpt --copy-dest=../alt", 0),
    ("-rpt --link-dest=../alt", 0),
    ("-rt --fuzzy", 0),
    ("-rt --checksum", 0),
    ("-rt --dry-run --itemize-changes", 0),
    ("-rt --filter=-_file --delete", 0),
    ("-rt --exclude=file", 0),
    ("-rt --include=file --exclude=*", 0),
    ("-rt --exclude-from=list", 0),
    ("-rt --include-from=list --exclude=*", 0),
    ("-rt -F", 0),
    ("-rt --cvs-exclude", 0),
    ("-rt --gitignore", 0),
    ("-rt --delete-excluded --exclude=file", 0),
    ("-rt --copy-links", 23),
    ("-rlt --copy-dirlinks", 0),
    ("-rlt --copy-unsafe-links", 23),
    ("-rlt --safe-links", 0),
    ("-rlt --munge-links", 0),
    ("-rt --delete", 0),
    ("-rt --delete --max-delete=0", 25),
    ("-rt --delete --force-delete", 0),
    ("-rt --force", 0),
    ("-rt --delete --ignore-errors", 0),
    ("-rt --remove-source-files", 0),
    ("-rt --backup", 0),
    ("-rt --backup --backup-dir=kept", 0),
    ("-rt --backup --suffix=.old", 0),
    ("-rt --whole-file", 0),
    ("-rt --no-whole-file", 0),
    ("-rt --strategy=rsync", 0),
    ("-rt --streams=2 --threads=2", 0),
    ("-rt --no-fsync", 0),
    ("-rt --fsync", 0),
    ("-rt --compress --compress-choice=zstd --compress-level=3", 0),
    ("-rt --skip-compress=gz --compress-threads=2", 0),
    ("-rt --bwlimit=10m", 0),
    ("-rt --timeout=50 --contimeout=50 --stop-after=5", 0),
    ("-rt --stop-at=2999-01-01", 0),
    ("-rt --stop-at=1999-01-01", 1),
    ("-rt --remote-option=--bwlimit=10m", 0),
    ("-rt --ipv4", 0),
    ("-rt --ipv6", 0),
    ("-rtv --quiet", 0),
    ("-rt --info=name,stats2", 0),
    ("-rt --debug=all", 0),
    ("-rt --out-format=%n", 0),
    ("-rt --log-file=o/log --log-file-format=%n", 0),
    ("-rt --stats --human-readable", 0),
    ("-rt --stats --no-human-readable", 0),
    ("-rt --explain", 0),
    ("-rt --progress", 0),
    ("-rt -P", 0),
    ("-rt --no-progress", 0),
    ("-rt --json", 0),
    ("-rti --8-bit-output", 0),
    ("-rtv --stderr=all", 0),
    ("-rtv --outbuf=line", 0),
    ("-rt --no-motd", 0),
    ("--version", 0),
    ("--help", 0),
    ("-rt --hard-links", 0),
    ("-rlt --keep-dirlinks", 0),
    ("-rt --fake-super", 0),
    ("-rtc --no-cache", 0),
    ("-rtc --cache", 0),
    ("-rt --sparse", 0),
    ("-rt --inplace", 0),
    ("-rt --append", 0),
    ("-rt --append-verify", 0),
    ("-rt --preallocate", 0),
    ("-rt --temp-dir=../alt", 0),
    ("-rt --partial-dir=.part", 0),
    ("-rt --delay-updates", 0),
    ("-rt --block-size=8192 --checksum-choice=blake3", 0),
    ("-rt --partial --inc-recursive --no-inc-recursive", 0),
    (
        "-rt --protocol=31 --checksum-seed=1 --blocking-io --trust-sender --old-compress --qsort --no-crtimes",
        0,
    ),
    ("-rt --max-alloc=1g --port=1 --sockopts=x --address=x --insecure-links", 0),
    ("-rt --password-file=list", 1),
    ("-rt --early-input=list", 0),
    ("-rt --write-batch=o/b", 0),
    ("-rtn --only-write-batch=o/b", 0),
    ("-rt --read-batch=b", 1),
    ("-rt --iconv=utf8", 4),
    ("-rt --copy-as=root", 4),
    ("-rt --server --sender", 4),
    ("-rt --daemon", 4),
];

/// Options that every run here has.
const ALWAYS: &[&str] = &["--rsh", "--deltic-path"];

struct End {
    code: Option<i32>,
    /// Without figures, which may be of time.
    stdout: Vec<String>,
    trees: BTreeMap<PathBuf, String>,
    shown: String,
}

/// Runs `words` as root or somebody, in a world that is his.
fn run(words: &str, way: Way, user: Option<u32>) -> End {
    let world = World::new();
    for (name, content) in
        [("src/file", "content"), ("src/dir/other", "more"), ("src/.rsync-filter", "- hidden\n")]
    {
        world.write(name, content);
        world.set_time(name, 1_000_000_000);
    }
    world.write("src/hidden", "x");
    world.mkdir("src/empty");
    world.link("file", "src/link");
    world.link("/nowhere/../etc/hostname-that-is-not", "src/astray");
    world.write("alt/file", "content");
    world.set_time("alt/file", 1_000_000_000);
    world.write("o/dst/file", "older content");
    world.write("o/dst/extra", "x");
    world.write("list", "file\n");
    world.write("zero", "file\0dir\0");
    world.write("o/alt/file", "content");
    world.set_time("o/alt/file", 1_000_000_000);
    world.chmod("", 0o755);
    if let Some(user) = user {
        own(&world.path("o"), user, user);
        for dir in ["src", "o/dst", "o/alt"] {
            for path in look(&world.path(dir)).keys() {
                own(&world.path(dir).join(path), user, user);
            }
        }
    }
    let ends = [way.from("src/"), way.to("o/dst/")];
    let mut command = std::process::Command::new(DELTIC);
    command.args(["sync", "--no-fsync", "-e", SHELL, "--deltic-path", DELTIC]);
    command.args(words.split(' ')).args(&ends);
    if let Some(user) = user {
        command.uid(user).gid(user);
    }
    let output = world.settle(assert_cmd::Command::from_std(command)).output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let figureless = |line: &str| line.replace(|c: char| c.is_ascii_digit(), "");
    let mut stdout: Vec<_> = text.lines().map(figureless).collect();
    stdout.sort_unstable();
    let seen = |dir: &str| {
        let looks = look(&world.path(dir)).into_iter();
        let told = move |(name, look): (PathBuf, common::look::Look)| {
            (PathBuf::from(dir).join(name), format!("{:o} {}", look.mode, look.content))
        };
        looks.map(told).collect::<Vec<_>>()
    };
    End {
        code: output.status.code(),
        stdout,
        trees: seen("src").into_iter().chain(seen("o/dst")).collect(),
        shown: format!("{text}{}", String::from_utf8_lossy(&output.stderr)),
    }
}

#[test]
fn every_option_ends_alike_for_root_and_for_an_ordinary_user() {
    if !is_root() {
        skip("only root can be somebody else as well");
    }
    std::thread::scope(|scope| {
        for (n, way) in WAYS.into_iter().enumerate() {
            // Somebody goes each way in turn, root all of them.
            let both = move |(m, words)| ends_alike(words, way, is_root() && m % WAYS.len() == n);
            scope.spawn(move || WORDS.iter().enumerate().for_each(both));
        }
    });
}

fn ends_alike((words, code): &(&str, i32), way: Way, lowered: bool) {
    let own = run(words, way, None);
    assert_eq!(own.code, Some(*code), "{words} {way:?}: {}", own.shown);
    if !lowered {
        return;
    }
    let other = run(words, way, Some(SOMEBODY));
    assert_eq!(other.code, Some(*code), "{words} {way:?} as somebody: {}", other.shown);
    assert_eq!(own.trees, other.trees, "{words} {way:?}: {}", other.shown);
    if !words.contains("progress") && !words.contains("-P") {
        assert_eq!(own.stdout, other.stdout, "{words} {way:?}");
    }
}

#[test]
fn no_option_is_forgotten() {
    let world = World::new();
    let help = common::Run::of(&mut world.command(DELTIC, ["sync", "--help"])).stdout;
    let said: Vec<&str> = WORDS.iter().flat_map(|(words, _)| words.split([' ', '='])).collect();
    let is_option = |line: &&str| line.starts_with("  -") || line.starts_with("      --");
    let options = help.lines().filter(is_option).map(str::trim);
    let mut count = 0;
    for line in options {
        let names = line.split("  ").next().unwrap_or_default();
        let name = names.split(", ").last().unwrap_or_default();
        let name = name.split([' ', '=', '[', '.']).next().unwrap_or_default();
        assert!(said.contains(&name) || ALWAYS.contains(&name), "{name} of {line:?}");
        count += 1;
    }
    assert!(count > 100, "the help was understood: {count}");
}
