//! `deltic bench sync` as a command: tables and files, consistent byte counts, the link's rate, other programs, and
//! invalid arguments.

mod common;

use std::fs;

use common::csv::{Line, csv, number};
use common::{Run, World, is_installed, noise, skip};

fn bench(world: &World, words: &str) -> Run {
    let words = format!("sync --dir . {words}");
    Run::of(&mut world.bench(words.split_whitespace()))
}

#[track_caller]
fn ok(world: &World, words: &str) -> Run {
    let run = bench(world, words);
    assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{words}");
    assert_eq!(left(world), 0, "{:?}", world.names("."));
    run
}

/// Returns the remaining directories of a benchmark.
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
    // Each table has a row for each number of threads.
    let wanted = run.stdout.lines().filter(|line| line.starts_with("== ")).count() * 2;
    assert_eq!(rows(["300", "kB", "none", "0", "B"]), wanted, "{}", run.stdout);
    for kind in ["insert", "cut", "inverse"] {
        assert_eq!(rows(["1", "MiB", kind, "1", "KiB"]), wanted, "{kind}: {}", run.stdout);
        assert_eq!(rows(["300", "kB", kind, "1", "%"]), wanted, "{kind}: {}", run.stdout);
    }
}

/// Deltic's own strategy, a strategy that confirms weak sums, and a rolling strategy.
#[test]
fn figures_for_programs_add_up() {
    let world = World::new();
    let words = "-q --strategy deltic,parasync,rsync --size 1MB --change 0,4KiB,64KiB --runs 1";
    ok(&world, &format!("{words} --csv f.csv"));
    let all = csv(&world, "f.csv");
    for name in ["deltic", "parasync", "rsync"] {
        let rows: Vec<_> = all.iter().filter(|row| row["name"] == name).collect();
        let names: Vec<_> =
            rows.iter().map(|row| (&*row["change"], &*row["changed_bytes"])).collect();
        let wanted = ["insert", "cut", "inverse"].map(|kind| [(kind, "4096"), (kind, "65536")]);
        assert_eq!(names, [&[("none", "0")], wanted.as_flattened()].concat());
        for row in &rows {
            figures_add_up(row);
            comparisons_are_those_of_its_strategy(row);
        }
        let new_len = |change: &str| {
            let is_it = |row: &&&Line| row["change"] == change && row["changed_bytes"] == "4096";
            number(rows.iter().find(is_it).expect("a row"), "new_bytes")
        };
        assert_eq!(
            ["insert", "cut", "inverse"].map(new_len),
            [1_004_096.0, 995_904.0, 1_000_000.0]
        );
    }
}

#[track_caller]
fn figures_add_up(row: &Line) {
    assert_eq!(sum(row, "up"), number(row, "up_bytes"), "{row:?}");
    assert_eq!(sum(row, "down"), number(row, "down_bytes"), "{row:?}");
    assert!(number(row, "up_literal_bytes") >= number(row, "literal_bytes"), "{row:?}");
    assert_eq!(row["change"] == "none", row["literal_bytes"] == "0", "{row:?}");
    for end in ["sender", "receiver"] {
        let stages = ["read", "scan", "sum", "search", "pack", "write", "decide", "wire", "other"];
        let stages = stages.map(|stage| number(row, &format!("{end}_{stage}_cpu_s")));
        let cpu = number(row, &format!("{end}_cpu_s"));
        // Each time is rounded to a microsecond.
        assert!((stages.iter().sum::<f64>() - cpu).abs() < 1e-5, "{row:?}");
        assert!(number(row, &format!("{end}_busy_s")) <= number(row, "wall_s"), "{row:?}");
    }
    assert!(number(row, "waiting_s") < number(row, "wall_s"), "{row:?}");
}

/// Checks the rows of a strategy: sent bytes, computed sums and comparisons.
#[track_caller]
fn comparisons_are_those_of_its_strategy(row: &Line) {
    let positive = |name: &str| number(row, name) > 0.0;
    let compared =
        ["sender_weak", "sender_strong", "receiver_weak", "receiver_strong"].map(|sums| {
            let count = format!("{sums}_compared");
            positive(&count)
        });
    let confirms = ["up_confirm_bytes", "down_confirm_bytes"].map(positive);
    let scans = ["sender_scan_cpu_s", "receiver_scan_cpu_s"].map(positive);
    match &*row["name"] {
        "deltic" => {
            // Gaps exist only near changes.
            let changes = row["change"] != "none";
            assert_eq!(compared, [changes, false, false, true], "{row:?}");
            assert_eq!((confirms, scans), ([false; 2], [true; 2]), "{row:?}");
            assert_eq!(positive("up_literal_bytes"), changes, "{row:?}");
        }
        "parasync" => {
            assert_eq!(compared, [false, true, true, false], "{row:?}");
            assert_eq!((confirms[1], scans), (true, [true; 2]), "{row:?}");
        }
        _ => {
            assert_eq!(compared, [true, true, false, false], "{row:?}");
            assert_eq!(confirms, [false; 2], "{row:?}");
            assert!(positive("sender_search_cpu_s") && positive("down_recipe_bytes"), "{row:?}");
            if row["change"] == "none" {
                // One sum for each block of 8 KiB.
                assert_eq!(row["sender_strong_compared"], "123", "{row:?}");
            }
        }
    }
}

#[test]
fn worst_case_data_is_synced() {
    let world = World::new();
    let words = "-q --data zeros,100B,4KiB,forged --strategy deltic,parasync,skysync-f --size 1MB";
    ok(&world, &format!("{words} --kind insert --change 0,4KiB --runs 1 --csv f.csv"));
    let rows = csv(&world, "f.csv");
    let kinds = ["of zeros", "of equal 100 B", "of equal 4 KiB", "of forged sums"];
    for kind in kinds.map(|kind| format!("1 MB {kind}")) {
        let of_it: Vec<_> = rows.iter().filter(|row| row["data"] == kind).collect();
        assert_eq!(of_it.len(), 6, "{kind}: {rows:?}");
        for row in of_it {
            assert_eq!(number(row, "literal_bytes") == 0.0, row["change"] == "none", "{row:?}");
        }
    }
    let strong = |data: &str| {
        let is_it = |row: &&Line| {
            row["data"].ends_with(data) && row["name"] == "skysync-f" && row["change"] == "none"
        };
        number(rows.iter().find(is_it).expect("a row"), "sender_strong_compared")
    };
    // All blocks have the same weak sum, so each block is found by its strong sum.
    assert_eq!(strong("forged sums"), 123.0);
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
    // The greeting takes a round trip before other data. A margin allows for late timers.
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
fn other_programs_have_rows_in_the_same_tables() {
    for peer in ["rsync", "rdiff"] {
        if !is_installed(peer) {
            skip(&format!("{peer} is not installed"));
            continue;
        }
        // A path that rsync would split into several words.
        let world = World::new();
        fs::create_dir(world.path("it's here")).expect("a directory");
        let links = "--link none --link 20Mbit,20ms";
        let mut words = vec!["sync", "--dir", "it's here"];
        let rest = format!(
            "-q --size 1MB --kind insert --change 200kB --runs 1 --csv f.csv --peer {peer} {links}"
        );
        words.extend(rest.split_whitespace());
        let run = Run::of(&mut world.bench(words));
        assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{run:#?}");
        let name = format!("{peer} (program)");
        assert!(run.stdout.contains(&name), "{run:#?}");
        let rows = csv(&world, "f.csv");
        let names: Vec<_> = rows.iter().map(|row| (&*row["name"], &*row["link"])).collect();
        let link = "20 Mbit/s 20 ms";
        assert_eq!(names, [("deltic", "none"), (&name, "none"), ("deltic", link), (&name, link)]);
        for row in &rows {
            // Inserted bytes are literals for every program.
            assert!(number(row, "up_bytes") > 2e5 && number(row, "down_bytes") > 0.0, "{row:?}");
            for end in ["sender", "receiver"] {
                assert!(number(row, &format!("{end}_cpu_s")) > 0.0, "{row:?}");
            }
            if row["name"] == name {
                let [cpu, sender, receiver] =
                    ["cpu_s", "sender_cpu_s", "receiver_cpu_s"].map(|name| number(row, name));
                assert!((sender + receiver - cpu).abs() < 1e-5, "{row:?}");
                assert!(row["waiting_s"].is_empty(), "{row:?}");
            }
            if row["link"] == link {
                let least = number(row, "up_bytes") * 8.0 / 20e6 + 0.02 - 0.004;
                assert!(number(row, "wall_s") >= least, "{least}: {row:?}");
            }
        }
    }
}

#[test]
fn the_command_behind_a_link_exits_like_its_far_end() {
    let world = World::new();
    for link in ["none", "20Mbit,20ms"] {
        let beyond = |far: &str| {
            let words = ["far-end", link, "costs", "far", "sh", "-c", far];
            Run::of(&mut world.bench(words))
        };
        let run = beyond("echo there; echo loud >&2");
        assert_eq!(
            (run.code, &*run.stdout, &*run.stderr),
            (Some(0), "there\n", "loud\n"),
            "{link}"
        );
        let costs = String::from_utf8(world.read("costs")).expect("costs are text");
        assert_eq!(costs.split_whitespace().flat_map(str::parse::<u64>).count(), 2, "{costs}");
        assert_eq!(beyond("exit 3").code, Some(12), "{link}");
        let words = ["far-end", link, "costs", "far", "no/such/program"];
        let run = Run::of(&mut world.bench(words));
        assert!(run.code != Some(0) && run.stderr.contains("no/such/program"), "{run:#?}");
    }
    let help = Run::of(&mut world.bench(["--help"]));
    assert!(help.stdout.contains("sync") && !help.stdout.contains("far-end"), "{help:#?}");
}

#[test]
fn a_missing_program_is_left_out_and_named() {
    let world = World::new();
    let run = bench(&world, "--size 100kB --change 0 --runs 1 --peer rsync=no/such/rsync");
    let said = "deltic-bench: rsync (program) is left out: start no/such/rsync: no such file";
    assert!(run.code == Some(0) && run.stderr.starts_with(said), "{run:#?}");
    assert!(run.stdout.contains("deltic") && !run.stdout.contains("rsync"), "{run:#?}");
}

#[test]
fn invalid_arguments_are_refused_before_files_are_made() {
    let world = releases();
    for (words, wanted) in [
        ("--strategy deltic,foo", "\"foo\" is not a strategy; there are deltic, rsync, "),
        ("--kind sideways", "sideways"),
        ("--data noise", "use random, text, zeros, forged"),
        ("--size 10MB --change 11MB", "--change 11 MB: more than --size 10 MB"),
        ("--change 101%", "not a share"),
        ("--threads 0", "--threads"),
        ("--threads 1025", "--threads 1025: at most "),
        ("--link 500", "500Mbit,50ms"),
        ("--peer scp", "there are rsync and rdiff"),
        ("--pair old", "2 values"),
        ("--runs 0", "--runs"),
        ("--pair old new --csv new", "deltic-bench: write new: it is one of the inputs"),
    ] {
        let run = bench(&world, words);
        assert_eq!((run.code, &*run.stdout), (Some(1), ""), "{words}: {run:#?}");
        assert!(run.stderr.contains(wanted), "{words}: {run:#?}");
    }
    for (words, code, wanted) in [
        ("--pair old no/such", 11, "deltic-bench: cannot read no/such: no such file"),
        ("--pair old src", 3, "deltic-bench: old and src: neither two files nor two directories"),
        ("--csv no/such/f.csv", 11, "deltic-bench: write no/such/f.csv: "),
        ("--plot old", 11, "deltic-bench: make old: "),
    ] {
        let run = bench(&world, words);
        assert_eq!((run.code, &*run.stdout), (Some(code), ""), "{words}: {run:#?}");
        assert!(run.stderr.starts_with(wanted), "{words}: {run:#?}");
    }
    let run = Run::of(&mut world.bench(["sync", "--dir", "no/such"]));
    assert!(
        run.code == Some(11) && run.stderr.starts_with("deltic-bench: make no/such/"),
        "{run:#?}"
    );
    assert_eq!(left(&world), 0);
    assert!(fs::read(world.path("new")).is_ok_and(|new| new.len() == 300_007));
}
