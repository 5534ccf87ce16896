//! `deltic bench sync` as a command: its tables and files, bytes that add up, a link that holds its rate, other programs,
//! and words that make no sense.

mod common;

use std::fs;

use common::csv::{Line, csv, number};
use common::{DELTIC, Run, World, is_installed, noise, skip};

fn bench(world: &World, words: &str) -> Run {
    let words = format!("bench sync --dir . {words}");
    Run::of(&mut world.command(DELTIC, words.split_whitespace()))
}

#[track_caller]
fn ok(world: &World, words: &str) -> Run {
    let run = bench(world, words);
    assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{words}");
    assert_eq!(left(world), 0, "{:?}", world.names("."));
    run
}

/// Directories of a bench that are still there.
fn left(world: &World) -> usize {
    world.names(".").iter().filter(|name| name.starts_with("deltic-bench-")).count()
}

/// Two releases: the second is the first with an insert.
fn releases() -> World {
    let world = World::new();
    let old = noise(300_000, 1);
    world.write("old", &old);
    world.write("new", [&old[..50_000], b"between", &old[50_000..]].concat());
    world
}

fn sum(row: &Line, way: &str) -> f64 {
    let purposes = ["control", "recipe", "need", "confirm", "literal"];
    purposes.map(|purpose| number(row, &format!("{way}_{purpose}_bytes"))).iter().sum()
}

#[test]
fn each_case_has_a_row_in_each_way() {
    let run = ok(&World::new(), "--size 300kB,1MiB --change 0,1KiB,1% --threads 1,2 --runs 1");
    for table in ["time in seconds", "processor time of the sender", "bytes from the sender (up)"] {
        assert!(run.stdout.contains(&format!("== {table}")), "{table}: {}", run.stdout);
    }
    let rows = |words: [&str; 5]| {
        let is_it = |line: &&str| line.split_whitespace().take(5).eq(words);
        run.stdout.lines().filter(is_it).count()
    };
    // A row in each table for each number of threads.
    let wanted = run.stdout.lines().filter(|line| line.starts_with("== ")).count() * 2;
    assert_eq!(rows(["300", "kB", "none", "0", "B"]), wanted, "{}", run.stdout);
    for kind in ["insert", "cut", "inverse"] {
        assert_eq!(rows(["1", "MiB", kind, "1", "KiB"]), wanted, "{kind}: {}", run.stdout);
        assert_eq!(rows(["300", "kB", kind, "1", "%"]), wanted, "{kind}: {}", run.stdout);
    }
}

#[test]
fn figures_for_programs_add_up() {
    let world = World::new();
    ok(&world, "-q --size 1MB --change 0,4KiB,64KiB --runs 1 --csv f.csv");
    let rows = csv(&world, "f.csv");
    let names: Vec<_> = rows.iter().map(|row| (&*row["change"], &*row["changed_bytes"])).collect();
    let wanted = ["insert", "cut", "inverse"].map(|kind| [(kind, "4096"), (kind, "65536")]);
    assert_eq!(names, [&[("none", "0")], wanted.as_flattened()].concat());
    for row in &rows {
        assert_eq!(sum(row, "up"), number(row, "up_bytes"), "{row:?}");
        assert_eq!(sum(row, "down"), number(row, "down_bytes"), "{row:?}");
        assert!(number(row, "up_literal_bytes") >= number(row, "literal_bytes"), "{row:?}");
        assert_eq!(row["change"] == "none", row["up_literal_bytes"] == "0", "{row:?}");
        for end in ["sender", "receiver"] {
            let stages =
                ["read", "scan", "sum", "search", "pack", "write", "decide", "wire", "other"];
            let stages = stages.map(|stage| number(row, &format!("{end}_{stage}_cpu_s")));
            let cpu = number(row, &format!("{end}_cpu_s"));
            // Each is rounded to a microsecond.
            assert!((stages.iter().sum::<f64>() - cpu).abs() < 1e-5, "{row:?}");
            assert!(number(row, &format!("{end}_scan_cpu_s")) > 0.0, "{row:?}");
            assert!(number(row, &format!("{end}_busy_s")) <= number(row, "wall_s"), "{row:?}");
        }
        assert!(number(row, "waiting_s") < number(row, "wall_s"), "{row:?}");
    }
    let new_len = |change: &str| {
        let row = rows.iter().find(|row| row["change"] == change && row["changed_bytes"] == "4096");
        number(row.expect("a row"), "new_bytes")
    };
    assert_eq!(["insert", "cut", "inverse"].map(new_len), [1_004_096.0, 995_904.0, 1_000_000.0]);
}

#[test]
fn a_link_is_no_faster_than_its_rate_and_no_shorter_than_its_round_trip() {
    let world = World::new();
    let words = "-q --size 1MB --kind inverse --change 20% --runs 1 --csv f.csv";
    ok(&world, &format!("{words} --link none --link 20Mbit,20ms"));
    let rows = csv(&world, "f.csv");
    let links: Vec<_> = rows.iter().map(|row| &*row["link"]).collect();
    assert_eq!(links, ["none", "20 Mbit/s 20 ms"]);
    let slow = &rows[1];
    // The greeting goes there and back before anything else is said. What a late timer may make up for is not counted.
    let least = number(slow, "up_bytes") * 8.0 / 20e6 + 0.02 - 0.004;
    assert!(number(slow, "wall_s") >= least, "{least}: {slow:?}");
}

#[test]
fn two_releases_are_compared_as_they_are() {
    let world = releases();
    world.link("new", "latest");
    let before = (world.read("old"), world.read("new"));
    ok(&world, "-q --pair old new --pair old latest --runs 1 --csv f.csv -z --durable");
    let rows = csv(&world, "f.csv");
    let names: Vec<_> = rows.iter().map(|row| (&*row["data"], &*row["change"])).collect();
    assert_eq!(names, [("new", "from old"), ("latest", "from old")]);
    for row in &rows {
        assert_eq!((&*row["new_bytes"], &*row["changed_bytes"]), ("300007", ""));
        let literal = number(row, "literal_bytes");
        assert!(literal > 0.0 && literal < 20_000.0, "{row:?}");
    }
    assert_eq!((world.read("old"), world.read("new")), before);
}

#[test]
fn a_figure_is_drawn_for_each_kind_of_change() {
    let world = World::new();
    ok(&world, "-q --size 100kB --kind insert,cut --change 0,1KiB --runs 1 --plots plots");
    let mut names = world.names("plots");
    names.sort();
    let of = |what: &str, kind: &str| {
        ["png", "svg"].map(|format| format!("{what}-100kB-{kind}-none.{format}"))
    };
    let wanted = ["bytes", "cpu", "time"].map(|what| ["cut", "insert"].map(|kind| of(what, kind)));
    assert_eq!(names, wanted.as_flattened().as_flattened());
    let svg =
        String::from_utf8(world.read("plots/bytes-100kB-insert-none.svg")).expect("SVG is text");
    for words in ["Bytes from the sender", "1 KiB", "deltic"] {
        assert!(svg.contains(words), "{words}: {svg}");
    }
}

#[test]
fn other_programs_stand_in_the_same_tables() {
    for (peer, split) in [("rsync", false), ("rdiff", true)] {
        if !is_installed(peer) {
            skip(&format!("{peer} is not installed"));
            continue;
        }
        let world = World::new();
        let words =
            format!("-q --size 1MB --kind insert --change 4KiB --runs 1 --csv f.csv --peer {peer}");
        let run = ok(&world, &words);
        assert!(run.stdout.contains(&format!("{peer} (program)")), "{run:#?}");
        let rows = csv(&world, "f.csv");
        let (ours, theirs) = (&rows[0], &rows[1]);
        assert_eq!((&*ours["name"], &*theirs["name"]), ("deltic", &*format!("{peer} (program)")));
        // Inserts are new bytes to everybody.
        for row in [ours, theirs] {
            assert!(number(row, "up_bytes") > 4096.0 && number(row, "down_bytes") > 0.0, "{row:?}");
        }
        assert_eq!(!theirs["sender_cpu_s"].is_empty(), split, "{theirs:?}");
        assert!(theirs["waiting_s"].is_empty() && number(theirs, "wall_s") > 0.0, "{theirs:?}");
    }
}

#[test]
fn a_program_that_is_not_there_is_left_out_and_named() {
    let world = World::new();
    let run = bench(&world, "--size 100kB --change 0 --runs 1 --peer rsync=no/such/rsync");
    let said = "deltic: rsync (program) is left out: start no/such/rsync: no such file";
    assert!(run.code == Some(0) && run.stderr.starts_with(said), "{run:#?}");
    assert!(run.stdout.contains("deltic") && !run.stdout.contains("rsync"), "{run:#?}");
}

#[test]
fn words_that_make_no_sense_are_refused_before_anything_is_made() {
    let world = releases();
    for (words, wanted) in [
        ("--strategy deltic,foo", "\"foo\" is not a strategy; there are deltic, rsync, "),
        ("--kind sideways", "sideways"),
        ("--size 10MB --change 11MB", "--change 11 MB: more than --size 10 MB"),
        ("--change 101%", "not a share"),
        ("--threads 0", "--threads"),
        ("--threads 1025", "--threads 1025: at most "),
        ("--link 500", "500Mbit,50ms"),
        ("--peer scp", "there are rsync and rdiff"),
        ("--pair old", "2 values"),
        ("--runs 0", "--runs"),
        ("--pair old new --csv new", "deltic: write new: it is one of the inputs"),
    ] {
        let run = bench(&world, words);
        assert_eq!((run.code, &*run.stdout), (Some(1), ""), "{words}: {run:#?}");
        assert!(run.stderr.contains(wanted), "{words}: {run:#?}");
    }
    for (words, code, wanted) in [
        ("--pair old no/such", 11, "deltic: look at no/such: no such file"),
        ("--pair old src", 3, "deltic: src is not a regular file"),
        ("--csv no/such/f.csv", 11, "deltic: write no/such/f.csv: "),
        ("--plot old", 11, "deltic: make old: "),
    ] {
        let run = bench(&world, words);
        assert_eq!((run.code, &*run.stdout), (Some(code), ""), "{words}: {run:#?}");
        assert!(run.stderr.starts_with(wanted), "{words}: {run:#?}");
    }
    let run = Run::of(&mut world.command(DELTIC, ["bench", "sync", "--dir", "no/such"]));
    assert!(run.code == Some(11) && run.stderr.starts_with("deltic: make no/such/"), "{run:#?}");
    assert_eq!(left(&world), 0);
    assert!(fs::read(world.path("new")).is_ok_and(|new| new.len() == 300_007));
}
