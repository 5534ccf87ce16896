//! `deltic bench chunk` as a command: tables and files, and invalid arguments and inputs. Times are not checked.

mod common;

use common::csv::{csv, number};
use common::{Run, World, noise};

fn bench(world: &World, words: &str) -> Run {
    let words = format!("chunk {words}");
    Run::of(&mut world.bench(words.split_whitespace()))
}

#[track_caller]
fn ok(world: &World, words: &str) -> Run {
    let run = bench(world, words);
    assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{words}");
    run
}

/// Two releases: the second is the first with an insert.
fn world() -> World {
    let world = World::new();
    let old = noise(200_000, 1);
    world.write("old", &old);
    world.write("new", [&old[..50_000], b"between", &old[50_000..]].concat());
    world
}

#[test]
fn a_table_shows_each_chunker_and_what_is_new_in_each_input() {
    let run = ok(&world(), "-q --runs 1 --algorithms fixed,gear-nc,ram --avg 1KiB,2KiB old new");
    for words in ["old, new, 0.40 MB", "1 KiB (512 B to 4 KiB)", "2 KiB (512 B to 8 KiB)"] {
        assert!(run.stdout.contains(words), "{words}: {}", run.stdout);
    }
    let lines = |name: &str| run.stdout.lines().filter(|line| line.starts_with(name)).count();
    assert_eq!((lines("vector sum"), lines("fixed"), lines("gear-nc")), (2, 2, 4));
    assert!(lines("ram") >= 4 && run.stdout.contains("new in 2 MB"), "{}", run.stdout);
}

#[test]
fn figures_for_programs_have_a_line_for_each_row() {
    let world = world();
    let words = "-q --runs 1 --isa scalar --algorithms fixed,gear-nc,ram --csv f.csv old new";
    ok(&world, words);
    let rows = csv(&world, "f.csv");
    let names: Vec<_> = rows.iter().map(|row| (&*row["algorithm"], &*row["isa"])).collect();
    let chunkers = [("gear-nc", ""), ("ram", "scalar"), ("fixed", "")];
    assert_eq!(names, [&[("vector sum", ""), ("sums alone", "")], &chunkers[..]].concat());
    let rows = &rows[2..];
    for row in rows {
        assert_eq!(number(row, "original_bytes"), 400_007.0);
        assert_eq!(number(row, "new_in_1_bytes"), 200_000.0);
        let again = number(row, "new_in_2_bytes");
        assert_eq!(again > 100_000.0, row["algorithm"] == "fixed", "{row:?}");
        assert_eq!(200_000.0 + again, number(row, "deduplicated_bytes"));
    }
    assert!(number(&rows[0], "cold_cpu_gb_s") > 0.0 && rows[2]["cold_cpu_gb_s"].is_empty());
    assert!(number(&rows[0], "cold_cpu_with_blake3_gb_s") > 0.0);
    let lengths = csv(&world, "f-lengths.csv");
    let chunks = lengths.iter().filter(|row| row["algorithm"] == "ram");
    let chunks: f64 = chunks.map(|row| number(row, "chunks")).sum();
    assert_eq!(chunks, number(&rows[1], "chunks"));
    assert!(!world.names("").contains(&"f-edits.csv".into()));
}

#[test]
fn edits_are_counted_for_each_kind_and_length() {
    let world = world();
    let words = "-q --runs 1 --isa scalar --algorithms gear-nc --edits --csv f --random 100K";
    let run = ok(&world, words);
    for data in ["inputs", "two values", "zero runs"] {
        assert!(run.stdout.contains(&format!("edits of {data}, KiB")), "{}", run.stdout);
    }
    let rows = csv(&world, "f-edits");
    assert_eq!(rows.len(), 3 * (3 * 5 + 1));
    let one = rows.iter().find(|row| row["kind"] == "overwrite" && row["edit_bytes"] == "1");
    let cost: f64 = one.expect("overwrites of a byte")["mean_bytes"].parse().unwrap();
    assert!((2048.0..40_000.0).contains(&cost), "{cost}");
}

#[test]
fn figures_are_drawn_as_svg_and_png() {
    let world = world();
    ok(
        &world,
        "-q --runs 1 --algorithms fixed,gear-nc,ram --avg 1KiB,4KiB --plot made/plots old new",
    );
    let mut names = world.names("made/plots");
    names.sort();
    let drawn = ["lengths", "throughput-cold", "throughput-hot"];
    let drawn = drawn.map(|what| ["1KiB", "4KiB"].map(|avg| format!("{what}-{avg}")));
    let drawn = drawn.into_iter().flatten().chain(["savings".into()]);
    let mut wanted: Vec<_> =
        drawn.flat_map(|name| [format!("{name}.png"), format!("{name}.svg")]).collect();
    wanted.sort();
    assert_eq!(names, wanted);
    for name in names {
        let bytes = world.read(format!("made/plots/{name}"));
        if name.ends_with(".png") {
            assert!(bytes.starts_with(b"\x89PNG\r\n\x1a\n") && bytes.ends_with(b"IEND\xaeB`\x82"));
        } else {
            let svg = String::from_utf8(bytes).expect("a figure is text");
            assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{name}");
            assert!(svg.contains("old, new, 0.40 MB") && svg.contains("gear-nc"), "{name}");
        }
    }
}

#[test]
fn the_same_arguments_give_the_same_chunks() {
    let world = World::new();
    for name in ["a.csv", "b.csv"] {
        ok(&world, &format!("-q --runs 1 --isa scalar --random 300K --csv {name}"));
    }
    assert_eq!(world.read("a-lengths.csv"), world.read("b-lengths.csv"));
}

#[test]
fn a_directory_is_one_input_and_links_are_not_followed() {
    let world = world();
    world.write("src/a", noise(1000, 1));
    world.write("src/deep/b", noise(2000, 2));
    world.link("../old", "src/link");
    ok(&world, "-q --runs 1 --algorithms fixed --csv f.csv src");
    assert_eq!(csv(&world, "f.csv").last().unwrap()["original_bytes"], "3000");
}

#[test]
fn unreadable_inputs_are_named_and_the_rest_is_measured() {
    let world = world();
    let run = bench(&world, "-q --runs 1 --algorithms fixed missing old /dev/null");
    assert_eq!(run.code, Some(23), "{run:#?}");
    assert!(run.stderr.contains("deltic-bench: cannot read missing: no such file"), "{run:#?}");
    assert!(run.stderr.contains("/dev/null: neither a regular file nor"), "{run:#?}");
    assert!(run.stdout.contains("old, 0.20 MB"), "{run:#?}");
    let run = bench(&world, "missing");
    assert_eq!((run.code, &*run.stdout), (Some(23), ""), "{run:#?}");
    world.write("empty", "");
    assert_eq!(bench(&world, "empty").code, Some(3));
}

#[test]
fn chunks_beyond_the_limit_are_counted_from_their_files() {
    let world = world();
    world.write("copy", world.read("old"));
    let words = "-q --runs 1 --algorithms sieve old copy";
    let run = bench(&world, &format!("--limit 100KB {words} --csv short.csv"));
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert!(
        run.stdout.contains("old, copy, 0.40 MB") && run.stderr.contains("--limit"),
        "{run:#?}"
    );
    ok(&world, &format!("{words} --csv whole.csv"));
    for column in ["savings_percent", "chunks", "original_bytes", "new_in_2_bytes"] {
        let figure = |file| number(csv(&world, file).last().expect("a row"), column);
        assert_eq!(figure("short.csv"), figure("whole.csv"), "{column}");
    }
    let savings = number(csv(&world, "short.csv").last().expect("a row"), "savings_percent");
    assert!((savings - 50.0).abs() < 1e-9, "{savings}");
}

#[test]
fn unwritable_output_files_are_reported_before_the_measurement() {
    let world = world();
    world.write("f.csv", "figures of before");
    world.mkdir("f-lengths.csv");
    world.mkdir("g-edits.csv");
    world.mkdir("plots/savings.png");
    let before = world.names(".").len();
    for (words, wanted) in [
        ("--csv no/such/f.csv old", "deltic-bench: write no/such/f.csv: "),
        ("--csv no/ old", "deltic-bench: write no/: "),
        ("--csv f.csv old", "deltic-bench: write f-lengths.csv: "),
        ("--csv g.csv old", "deltic-bench: write g-edits.csv: "),
        ("--csv /dev/null old", "deltic-bench: write /dev/null: "),
        ("--plot old old", "deltic-bench: make old: "),
        ("--plot plots old", "deltic-bench: write plots/savings.png: "),
    ] {
        let run = bench(&world, words);
        assert_eq!((run.code, &*run.stdout), (Some(11), ""), "{run:#?}");
        assert!(run.stderr.starts_with(wanted), "{run:#?}");
    }
    assert_eq!(world.read("f.csv"), b"figures of before");
    assert_eq!(world.names(".").len(), before, "{:?}", world.names("."));
}

#[test]
fn an_input_is_never_overwritten() {
    for (words, file) in [
        ("--csv old new old", "old"),
        ("--csv link old", "link"),
        ("--csv hard old", "hard"),
        ("--csv src/deep/b src", "src/deep/b"),
        ("--csv f.csv f-edits.csv", "f-edits.csv"),
        ("--plot plots plots", "plots/savings.svg"),
    ] {
        let world = world();
        world.write("src/deep/b", "in a directory");
        world.write("f-edits.csv", "old edits");
        world.write("plots/savings.svg", "old savings");
        world.link("old", "link");
        std::fs::hard_link(world.path("old"), world.path("hard")).unwrap();
        let before = world.read(file);
        let run = bench(&world, words);
        assert_eq!((run.code, &*run.stdout), (Some(1), ""), "{words}: {run:#?}");
        let wanted = format!("deltic-bench: write {file}: it is one of the inputs");
        assert!(run.stderr.starts_with(&wanted), "{words}: {run:#?}");
        assert_eq!(world.read(file), before, "{words}");
    }
}

#[test]
fn an_outdated_edits_file_is_removed() {
    let world = world();
    let words = "-q --runs 1 --algorithms fixed --csv f.csv --random 1000";
    ok(&world, &format!("{words} --edits"));
    assert!(world.exists("f-edits.csv"));
    ok(&world, words);
    assert!(!world.exists("f-edits.csv"));
    world.write("f-edits.csv", "not of deltic");
    ok(&world, words);
    assert_eq!(world.read("f-edits.csv"), b"not of deltic");
}

#[test]
fn invalid_arguments_are_refused_with_the_valid_ones() {
    let world = world();
    for (words, wanted) in [
        ("--algorithms ram,foo old", "\"foo\" is not a chunker; there are fixed, "),
        ("--isa scalar,foo old", "it has scalar"),
        ("--avg 3000 old", "--avg 3 kB (a power of two, 512 B to 512 KiB): average chunk size"),
        ("--avg 8x old", "not a size"),
        ("--min 16K --avg 8K old", "must rise"),
        ("--runs 0 old", "--runs"),
        ("--fooo old", "--fooo"),
    ] {
        let run = bench(&world, words);
        assert_eq!((run.code, &*run.stdout), (Some(1), ""), "{words}: {run:#?}");
        assert!(run.stderr.contains(wanted), "{words}: {run:#?}");
    }
    let run = Run::of(&mut world.bench([] as [&str; 0]));
    assert!(run.code == Some(1) && run.stderr.contains("chunk"), "{run:#?}");
}

#[test]
fn an_instruction_set_from_the_environment_is_used_or_refused() {
    let world = world();
    let with = |isa: &str, words: &str| {
        Run::of(world.bench(words.split_whitespace()).env("DELTIC_ISA", isa))
    };
    let run = with("nonsense", "chunk old");
    assert_eq!((run.code, &*run.stdout), (Some(1), ""), "{run:#?}");
    assert!(run.stderr.starts_with("deltic-bench: DELTIC_ISA: "), "{run:#?}");
    assert!(run.stderr.contains("\"nonsense\" is not an instruction set"), "{run:#?}");
    assert!(run.stderr.contains("it has scalar"), "{run:#?}");
    let run = with("scalar", "chunk -q --runs 1 --algorithms ram old");
    let forms = run.stdout.lines().filter(|line| line.starts_with("ram  ")).count();
    assert!(run.code == Some(0) && forms == 2, "{run:#?}");
    let run = with("scalar,scalar", "chunk --isa scalar old");
    assert!(run.code == Some(1) && run.stderr.contains("DELTIC_ISA"), "{run:#?}");
}
