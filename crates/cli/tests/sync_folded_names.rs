//! Destinations whose file system takes several spellings for one name: an exFAT in a loop file, by `exfat-fuse`, and
//! a FAT in a User-Mode Linux.

use std::fs;

use crate::common::disks::{exfat, on_fat};
use crate::common::{DELTIC, WAYS, World};

fn sorted(world: &World, dir: &str) -> Vec<String> {
    let mut names = world.names(dir);
    names.sort_unstable();
    names
}

/// Renames a source, and lets its times be.
fn rename(world: &World, name: &str, new: &str) {
    fs::rename(world.path(name), world.path(new)).expect("the source is renamed");
}

#[test]
fn a_deletion_spares_the_entry_of_a_name_whose_case_changed() {
    let world = World::new();
    let Some(_disk) = exfat(&world, "dst") else { return };
    for (way, mode) in WAYS.iter().cycle().zip([
        "--delete",
        "--delete-before",
        "--delete-during",
        "--delete-after",
        "--delete-delay",
        "--delete-excluded",
        "--delete -b",
        "--delete -c",
    ]) {
        world.write("src/Report.txt", "report");
        world.write("src/Edited", "old");
        world.write("src/Dir/In It", "below");
        world.write("src/Dir/stays", "as it is");
        world.write("src/gone", "gone");
        let words = format!("-rt --modify-window=2 {} {}", way.from("src/"), way.to("dst/"));
        world.ok(&words);
        fs::remove_file(world.path("src/gone")).unwrap();
        rename(&world, "src/Report.txt", "src/report.txt");
        rename(&world, "src/Dir/In It", "src/Dir/in it");
        rename(&world, "src/Dir", "src/dir");
        rename(&world, "src/Edited", "src/EDITED");
        world.write("src/EDITED", "new and longer");

        let told = world.ok(&format!("{words} {mode} --max-delete=1 -nv"));
        assert!(!told.stdout.contains("deleting Report"), "{mode}: {told:#?}");
        assert!(world.exists("dst/gone"), "{mode}");
        assert_eq!(sorted(&world, "dst"), ["Dir", "Edited", "Report.txt", "gone"], "{mode}");

        world.ok(&format!("{words} {mode} --max-delete=1"));
        let backup = mode.contains("-b").then_some("Edited~");
        let mut names = sorted(&world, "dst");
        names.retain(|name| !name.ends_with('~'));
        assert_eq!(names, ["EDITED", "dir", "report.txt"], "{mode} {backup:?}");
        assert_eq!(sorted(&world, "dst/dir"), ["in it", "stays"], "{mode}");
        assert_eq!(world.read("dst/report.txt"), b"report", "{mode}");
        assert_eq!(world.read("dst/EDITED"), b"new and longer", "{mode}");
        assert_eq!(world.read("dst/dir/in it"), b"below", "{mode}");

        let again = world.ok(&format!("{words} {mode} -i"));
        assert_eq!(again.stdout, "", "{mode}: nothing is left to do");
        for name in ["src", "dst"] {
            for entry in fs::read_dir(world.path(name)).unwrap() {
                let path = entry.unwrap().path();
                let removed = fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path));
                removed.unwrap();
            }
        }
    }
}

#[test]
fn moved_sources_of_another_case_stay_at_the_destination() {
    let world = World::new();
    let Some(_disk) = exfat(&world, "dst") else { return };
    world.write("src/Report.txt", "report");
    world.write("src/É", "letter");
    world.write("src/other", "other");
    world.ok("-rt --modify-window=2 src/ dst/");
    rename(&world, "src/Report.txt", "src/report.txt");
    rename(&world, "src/É", "src/é");
    world.ok("-rt --modify-window=2 --remove-source-files --delete src/ dst/");
    assert_eq!(sorted(&world, "dst"), ["other", "report.txt", "é"]);
    assert_eq!(sorted(&world, "src"), Vec::<String>::new());
}

#[test]
fn two_names_that_are_one_at_the_destination_are_told_on_every_run() {
    let world = World::new();
    let Some(_disk) = exfat(&world, "dst") else { return };
    world.write("src/README", "capital");
    world.write("src/readme", "small");
    world.write("src/Dir/one", "1");
    world.write("src/dir/two", "2");
    world.write("src/other", "other");
    for words in ["-rtn src/ dst/", "-rt src/ dst/", "-rt src/ dst/", "-rtn --delete src/ dst/"] {
        let run = world.fails(23, &format!("--modify-window=2 {words}"));
        for names in [["README", "readme"], ["Dir", "dir"]] {
            let both = |line: &str| names.iter().all(|name| line.contains(name));
            assert!(run.stderr.lines().any(both), "{words}: {run:#?}");
        }
        if !words.contains("-rtn") {
            assert_eq!(sorted(&world, "dst"), ["Dir", "README", "other"]);
            assert_eq!(world.read("dst/README"), b"capital");
            assert_eq!(world.names("dst/Dir"), ["one"]);
        }
    }
    // On a file system that tells them apart both arrive, and nothing of the trial is left.
    world.ok("-rt src/ plain/");
    assert_eq!(sorted(&world, "plain"), ["Dir", "README", "dir", "other", "readme"]);
    assert_eq!(world.names("plain/dir"), ["two"]);
}

#[test]
fn names_that_differ_in_case_are_two_names_where_the_file_system_says_so() {
    let world = World::new();
    world.write("src/a", "small");
    world.write("src/kept", "kept");
    world.write("dst/A", "capital");
    world.write("dst/a", "old");
    world.ok("-rt --delete --max-delete=1 src/ dst/");
    assert_eq!(sorted(&world, "dst"), ["a", "kept"]);
    assert_eq!(world.read("dst/a"), b"small");
}

/// Arguments of `--files-from`: a renamed name, a renamed directory, and names that are gone.
const LISTED: &str = "report.txt\nReport.txt\ndir/x\nDir/x\nDir\nfull\nFull\nGone\nother/gone\n";

#[test]
fn a_missing_argument_that_a_listed_name_still_finds_stays() {
    let world = World::new();
    let Some(_disk) = exfat(&world, "dst") else { return };
    for (nth, way) in WAYS.iter().enumerate() {
        for name in ["src/report.txt", "src/dir/x", "src/full/deep/y"] {
            world.write(name, format!("{name} {nth}"));
        }
        // The driver remembers the name of a removed entry for a while: no name is made again.
        let gone = [format!("gone{nth}"), format!("other/GONE{nth}")];
        let old = ["Report.txt", "Dir/x", "Full/deep/y"].into_iter();
        for name in old.chain(gone.iter().map(String::as_str)) {
            world.write(format!("dst/{name}"), "old");
        }
        world.write("list", format!("{LISTED}Gone{nth}\nother/gone{nth}\n"));
        let words = format!(
            "-rt --modify-window=2 --force --delete-missing-args --files-from=list {} {}",
            way.from("src/"),
            way.to("dst/")
        );
        world.ok(&format!("-n {words}"));
        assert!(world.exists(format!("dst/gone{nth}")));
        world.ok(&words);
        assert_eq!(sorted(&world, "dst"), ["Dir", "Full", "other", "report.txt"], "{nth}");
        for name in ["report.txt", "dir/x", "full/deep/y"] {
            assert_eq!(
                world.read(format!("dst/{name}")),
                world.read(format!("src/{name}")),
                "{nth}"
            );
        }
        assert_eq!(world.names("dst/other"), [""; 0], "{nth}");
    }
}

#[test]
fn a_missing_argument_goes_where_the_file_system_tells_names_apart() {
    let world = World::new();
    world.write("src/report.txt", "new");
    world.write("src/dir/x", "new");
    for name in ["Report.txt", "report.txt", "Dir/x", "Dir/y", "dir/y", "Full/z", "Gone"] {
        world.write(format!("dst/{name}"), "old");
    }
    world.write("list", LISTED);
    world.ok("-rt --force --delete-missing-args --files-from=list src/ dst/");
    assert_eq!(sorted(&world, "dst"), ["dir", "report.txt"]);
    assert_eq!(sorted(&world, "dst/dir"), ["x", "y"]);
}

#[test]
fn an_argument_that_is_missing_in_one_of_two_places_stays() {
    let world = World::new();
    world.mkdir("one");
    world.write("two/a", "of the second");
    world.ok("-Rt --delete-missing-args one/./a two/./a dst/");
    assert_eq!(world.read("dst/a"), b"of the second");
}

#[test]
fn two_names_of_which_fat_leaves_out_the_end_are_told_and_neither_goes() {
    let world = World::new();
    for name in ["a", "a.", "B.", "c..", "d./x"] {
        world.write(format!("src/{name}"), format!("of {name}"));
    }
    world.write("more/c", "of more");
    world.write("more/old", "to go");
    let script = format!(
        r#"
        sync() {{
            "{DELTIC}" sync -rtc --modify-window=2 "$@" 2>&1
            echo "exit $?"
            (cd dst && for file in $(find . -type f | sort); do echo $file: $(cat $file); done)
            echo END
        }}
        sync -n --delete src/ dst/
        sync more/ dst/
        sync --delete --ignore-errors src/ dst/
        sync --delete --exclude=a. src/ dst/
        sync --delete-after --exclude=a src/ dst/
        "#
    );
    let Some(said) = on_fat(&world, &script) else { return };
    let runs: Vec<_> = said.split("END\n").map(str::trim_start).collect();
    let told = |run: &str| {
        let line = run.lines().find(|line| line.contains("for the same name")).unwrap_or_default();
        assert!(line.contains("dst/a.: ") && line.contains(" takes a for"), "{said}");
        assert!(run.contains("\nexit 23\n"), "{said}");
    };
    told(runs[0]);
    assert!(!runs[0].contains("./"), "{said}");
    assert_eq!(runs[1], "exit 0\n./c: of more\n./old: to go\n");
    told(runs[2]);
    let kept = "./B: of B.\n./a: of a\n./c: of c..\n./d/x: of d./x\n";
    assert!(runs[2].ends_with(&format!("exit 23\n{kept}")), "{said}");
    assert_eq!(runs[3], format!("exit 0\n{kept}"));
    assert_eq!(runs[4], format!("exit 0\n{}", kept.replace("of a", "of a.")));
}
