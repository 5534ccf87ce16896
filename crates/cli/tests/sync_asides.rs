//! What is said of names besides their changes: why they are passed over, where old versions are kept, which sources
//! go. In rsync's words, whichever end is remote.

use crate::common::{DELTIC, Run, SHELL, WAYS, Way, World, rsync};

/// Lines of one kind. In rsync those of one process are in order, and the processes race.
#[derive(Debug, Default, PartialEq, Eq)]
struct Said {
    /// Deletions, and why names stay as they are: the generator's.
    asides: Vec<String>,
    names: Vec<String>,
    /// The generator's and the receiver's, or one of each file: sorted.
    backups: Vec<String>,
    removed: Vec<String>,
    /// Lines about how files are sent.
    inside: Vec<String>,
}

impl Said {
    fn of(run: &Run) -> Self {
        let mut said = Self::default();
        for line in run.stdout.lines().filter(|line| !is_of_rsync(line)) {
            let is_aside =
                ASIDES.iter().any(|words| line.starts_with(words) || line.ends_with(words));
            let lines = match () {
                () if line.starts_with("backed up ") => &mut said.backups,
                () if line.starts_with("sender removed ") => &mut said.removed,
                () if INSIDE.iter().any(|words| line.starts_with(words)) => &mut said.inside,
                () if is_aside => &mut said.asides,
                () => &mut said.names,
            };
            lines.push(line.to_owned());
        }
        said.backups.sort_unstable();
        said.removed.sort_unstable();
        said
    }
}

const INSIDE: [&str; 2] = ["delta-transmission ", "total: "];
const ASIDES: [&str; 7] = [
    "deleting ",
    "not creating new ",
    " exists",
    " is newer",
    " is over max-size",
    " is under min-size",
    " is uptodate",
];

/// True if it is about the inside of rsync, or has figures.
fn is_of_rsync(line: &str) -> bool {
    let inside = ["opening connection ", "(new) backup_dir ", "[generator] ", "sent "];
    line.is_empty()
        || line == "deleting in ."
        || line.starts_with("total size is ")
        || line.starts_with("backup_dir is ")
        || line.starts_with("cannot delete non-empty directory: ")
        || inside.iter().any(|words| line.starts_with(words))
}

/// Names with every reason to be passed over, in two directories that are there and one that is not.
fn tree(world: &World) {
    for dir in ["", "a/", "b/c/"] {
        let file = |name: &str, new: &str, old: Option<&str>, (newer, older): (i64, i64)| {
            let (src, dst) = (format!("src/{dir}{name}"), format!("dst/{dir}{name}"));
            world.write(&src, new);
            world.set_time(&src, newer);
            if let Some(old) = old {
                world.write(&dst, old);
                world.set_time(&dst, older);
            }
        };
        file("same", "same", Some("same"), (NEW, NEW));
        file("changed", "changed", Some("old"), (NEW, OLD));
        file("outdated", "outdated", Some("newer"), (OLD, NEW));
        file("long", &"long".repeat(10), None, (NEW, OLD));
        file("x", "x", None, (NEW, OLD));
        world.write(format!("dst/{dir}gone"), "gone");
        world.link("here", &format!("src/{dir}link"));
        world.link("there", &format!("dst/{dir}link"));
    }
    world.write("src/new/x", "x");
    world.write("dst/old/gone", "gone");
    let links =
        ["src/link", "src/a/link", "src/b/c/link", "dst/link", "dst/a/link", "dst/b/c/link"];
    let dirs = ["src/new", "src/a", "src/b/c", "src/b", "src", "dst/a", "dst/b/c", "dst/b", "dst"];
    links.iter().chain(&dirs).for_each(|name| world.set_time(name, NEW));
}

const OLD: i64 = 1_000_000_000;
const NEW: i64 = 1_100_000_000;

fn run(way: Way, options: &str, program: impl Fn(&World, &[&str]) -> Option<Run>) -> Option<Run> {
    let world = World::new();
    tree(&world);
    let (from, to) = (way.from("src/"), way.to("dst/"));
    let words: Vec<_> = options.split(' ').chain([from.as_str(), to.as_str()]).collect();
    program(&world, &words)
}

fn ours(way: Way, options: &str) -> Run {
    let run = run(way, options, |world, words| Some(world.sync(words))).expect("it ran");
    assert_eq!(run.code, Some(0), "{way:?} {options}: {run:#?}");
    run
}

#[test]
fn names_that_stay_as_they_are_are_told_as_by_rsync() {
    let rsh = format!("--rsh={SHELL}");
    for way in WAYS {
        for options in [
            "-avv -u",
            "-avv --existing",
            "-avv --ignore-existing",
            "-avv --max-size=20 --min-size=2",
            "-avv --delete -u",
            "-avv --delete-after -b --backup-dir=../kept --existing",
            "-avv --delete -b --backup-dir=../kept",
            "-avvn --existing --ignore-existing",
            "-avvi -u",
            "-aii --info=skip -u",
            "-a --info=skip,backup,remove -u -b --remove-source-files",
            "-avv --remove-source-files",
            "-avvn --remove-source-files",
            "-avv -W",
            "-avv --no-W",
            "-a --info=name --remove-source-files -b",
            "-avv --info=skip0,backup0 -u -b",
            "-aq --info=skip,backup,remove -u -b --remove-source-files",
        ] {
            let theirs = |world: &World, words: &[&str]| rsync(world, &[&[&*rsh], words].concat());
            let Some(theirs) = run(way, options, theirs) else { return };
            let ours = ours(way, options);
            assert_eq!(Said::of(&ours), Said::of(&theirs), "{way:?} {options}");
        }
    }
}

/// Deletions come first in each directory, then what stays there, then all that changes, and at last which sources
/// went.
#[test]
fn what_is_told_besides_changes_has_its_order() {
    for way in WAYS {
        let run = ours(
            way,
            "-a --info=name2,skip,backup,remove,del --delete -ub --backup-dir=../kept --remove-source-files",
        );
        let said: Vec<_> = run.stdout.lines().collect();
        let order = "\
backed up old/gone to ../kept/old/gone
deleting old/gone
deleting old/
backed up gone to ../kept/gone
deleting gone
backed up link to ../kept/link
outdated is newer
same is uptodate
backed up a/gone to ../kept/a/gone
deleting a/gone
backed up a/link to ../kept/a/link
a/outdated is newer
a/same is uptodate
backed up b/c/gone to ../kept/b/c/gone
deleting b/c/gone
backed up b/c/link to ../kept/b/c/link
b/c/outdated is newer
b/c/same is uptodate
changed
backed up changed to ../kept/changed
link -> here
long
x
a/changed
backed up a/changed to ../kept/a/changed
a/link -> here
a/long
a/x
b/c/changed
backed up b/c/changed to ../kept/b/c/changed
b/c/link -> here
b/c/long
b/c/x
new/
new/x
sender removed changed
sender removed link
sender removed long
sender removed same
sender removed x
sender removed a/changed
sender removed a/link
sender removed a/long
sender removed a/same
sender removed a/x
sender removed b/c/changed
sender removed b/c/link
sender removed b/c/long
sender removed b/c/same
sender removed b/c/x
sender removed new/x";
        assert_eq!(said, order.lines().collect::<Vec<_>>(), "{way:?}");
    }
}

#[test]
fn a_name_that_is_passed_over_is_an_event_where_that_is_asked_for() {
    for way in WAYS {
        let events = |options: &str| {
            let run = ours(way, options);
            run.stdout.lines().filter(|line| line.contains("\"passed_over\"")).count()
        };
        assert_eq!(events("-a --json --info=skip -u"), 3, "{way:?}");
        assert_eq!(events("-a --json --info=skip0 -u --remove-source-files"), 0, "{way:?}");
    }
}

#[test]
fn a_source_that_could_not_be_removed_is_not_told_as_removed() {
    let world = World::new();
    world.write("src/a", "a");
    world.write("src/b/f", "f");
    let frozen = world.path("src/b");
    if !crate::common::is_installed("chattr") || !attribute("+i", &frozen) {
        return crate::common::skip("no directory can be made immutable here");
    }
    let run = world.sync(&["-avv", "--remove-source-files", "src/", "dst"]);
    assert!(attribute("-i", &frozen), "it was set");
    let removed: Vec<_> = run.stdout.lines().filter(|line| line.starts_with("sender")).collect();
    assert_eq!((run.code, removed), (Some(23), vec!["sender removed a"]), "{run:#?}");
}

#[test]
fn each_source_that_went_is_told_where_many_stay() {
    for way in WAYS {
        let world = World::new();
        (0..100).for_each(|n| world.write(format!("src/stay/{n}"), "x"));
        (0..3).for_each(|n| world.write(format!("src/go/{n}"), "x"));
        let frozen = world.path("src/stay");
        if !crate::common::is_installed("chattr") || !attribute("+i", &frozen) {
            return crate::common::skip("no directory can be made immutable here");
        }
        let run = world.sync(&[
            "-a",
            "--info=remove",
            "--remove-source-files",
            &way.from("src/"),
            &way.to("dst"),
        ]);
        assert!(attribute("-i", &frozen), "it was set");
        let told: Vec<_> = run.stdout.lines().filter(|line| line.starts_with("sender")).collect();
        let went = ["sender removed go/0", "sender removed go/1", "sender removed go/2"];
        assert_eq!((run.code, &*told), (Some(23), &went[..]), "{way:?} {run:#?}");
    }
}

fn attribute(change: &str, path: &std::path::Path) -> bool {
    let status = std::process::Command::new("chattr").arg(change).arg(path).output();
    status.is_ok_and(|output| output.status.success())
}

#[test]
fn the_sums_and_the_compression_of_a_session_are_told() {
    for way in WAYS {
        for (options, level) in [("-az", "level by the link"), ("-a --zl=5", "level 5")] {
            let run = ours(way, &format!("{options} --debug=nstr"));
            let told: Vec<_> = run.stdout.lines().take(2).collect();
            let zstd = format!("Client negotiated compress: zstd ({level})");
            assert_eq!(told, ["Client negotiated checksum: blake3", &*zstd], "{way:?} {run:#?}");
        }
    }
}

#[test]
fn a_file_of_another_name_and_what_was_matched_are_told() {
    let text: Vec<u8> =
        (0..300_000_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    for way in WAYS {
        let world = World::new();
        world.write("dst/dir/text-1", &text);
        world.write("src/dir/text-1", &text);
        ["src/dir/text-1", "dst/dir/text-1"].iter().for_each(|name| world.set_time(name, NEW));
        world.write("src/dir/text-2", [&text[..], b"more"].concat());
        let (from, to) = (way.from("src/"), way.to("dst/"));
        let run = world.sync(&["-ay", "--no-W", "--debug=fuzzy,deltasum", &from, &to]);
        let lines: Vec<_> = run.stdout.lines().collect();
        assert_eq!(lines[0], "fuzzy basis selected for dir/text-2: dir/text-1", "{way:?} {run:#?}");
        let counts = "total: matches=1  hash_hits=1  false_alarms=0 data=";
        let data = lines[1].strip_prefix(counts).and_then(|data| data.parse::<u64>().ok());
        assert!(data.is_some_and(|data| data < 100_000), "{way:?} {run:#?}");
    }
}

#[test]
fn a_run_that_does_not_begin_says_nothing_of_how_it_sends() {
    let world = World::new();
    world.write("src/a", "a");
    let run = Run::of(&mut world.command(DELTIC, ["sync", "-avv", "-e", "false", "src/", "h:dst"]));
    assert_ne!(run.code, Some(0), "{run:#?}");
    assert!(!run.stdout.contains("delta-transmission"), "{run:#?}");
}

/// The old version of a file that is changed where it is must be copied first.
#[test]
fn of_a_file_that_changes_where_it_is_the_backup_is_told_first_as_by_rsync() {
    let rsh = format!("--rsh={SHELL}");
    for way in WAYS {
        for options in ["-avvb", "-avvb --inplace", "-avvb --append"] {
            let is_first = |run: &Run| {
                let line = |words: &str| run.stdout.lines().position(|line| line == words);
                line("backed up changed to changed~") < line("changed")
            };
            let theirs = |world: &World, words: &[&str]| rsync(world, &[&[&*rsh], words].concat());
            let ours = ours(way, options);
            assert!(ours.stdout.contains("backed up changed to"), "{way:?} {options} {ours:#?}");
            assert_eq!(is_first(&ours), options != "-avvb", "{way:?} {options} {ours:#?}");
            // Where the names are told by the sender, its lines and those of backups race.
            let Some(theirs) = run(way, options, theirs) else { return };
            if way == Way::Pull {
                assert_eq!(is_first(&theirs), is_first(&ours), "{options} {theirs:#?}");
            }
        }
    }
}
