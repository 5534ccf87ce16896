//! `deltic-bench papers` as a command: every row with tiny inputs, pages that keep their text, and conditions that make a
//! row void.

mod common;

use std::fs;

use common::{Run, World};

fn papers(world: &World, words: &str) -> Run {
    let words = format!("papers --smoke --quiet --dir . --out out {words}");
    Run::of(&mut world.bench(words.split_whitespace()))
}

fn page(world: &World, name: &str) -> String {
    String::from_utf8(world.read(format!("out/{name}.md"))).expect("a page is text")
}

/// Returns outcome and reason of each row of the output.
fn outcomes(run: &Run) -> Vec<[String; 2]> {
    let columns = run.stdout.lines().next().expect("a header").to_owned();
    let at = |name: &str| columns.find(name).expect("a column");
    let (outcome, why) = (at("outcome"), at("why"));
    let cut = |line: &str, from: usize, to: usize| {
        line.chars().take(to).skip(from).collect::<String>().trim().to_owned()
    };
    let rows = run.stdout.lines().skip(1);
    rows.map(|line| {
        [cut(line, 0, outcome) + " " + &cut(line, outcome, why), cut(line, why, usize::MAX)]
    })
    .collect()
}

#[test]
fn each_row_is_redrawn_or_says_why_not() {
    let world = World::new();
    let run = papers(&world, "--load 1000");
    assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{run:#?}");
    let all = outcomes(&run);
    for [row, why] in &all {
        let is_set_missing = why.starts_with("set missing: ");
        let is_smoke = row.ends_with("SKIPPED") && why == "--smoke mounts no file system";
        let is_vectorless = why.starts_with("this machine has no instruction set");
        let is_void = row.ends_with("VOID") && (is_set_missing || is_vectorless);
        let is_told = row.ends_with("redrawn") || row.ends_with("sketch") || !why.is_empty();
        assert!(is_told && (is_void || !row.contains("VOID")), "{row}: {why}");
        assert!(is_smoke || !row.contains("SKIPPED"), "{row}: {why}");
    }
    let redrawn = all.iter().filter(|[row, _]| row.ends_with("redrawn")).count();
    assert!(redrawn >= 30, "{redrawn} of {}: {}", all.len(), run.stdout);
    let text = page(&world, "skysync").split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(text.matches("Equal for all: ").count(), text.matches("[CSV](").count(), "{text}");
    assert!(text.contains("## What its authors claim") && text.contains("| paper "), "{text}");
    let csv = String::from_utf8(world.read("out/skysync/f12.csv")).unwrap();
    assert!(csv.starts_with("change,rsync,dsync,skysync-f,skysync-c\n"), "{csv}");
    assert!(world.exists("out/skysync/f12.svg") && world.exists("out/README.md"));
}

#[test]
fn figures_by_the_clock_are_void_on_a_busy_machine() {
    let world = World::new();
    let run = papers(&world, "--only skysync:f12,skysync:f7 --load=-1");
    assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{run:#?}");
    let all = outcomes(&run);
    assert_eq!([&*all[0][0], &*all[1][0]], ["skysync:f7 redrawn", "skysync:f12 VOID"]);
    assert!(all[1][1].starts_with("other programs took "), "{all:?}");
    assert!(!world.exists("out/skysync/f12.csv") && world.exists("out/skysync/f7.csv"));
}

#[test]
fn a_second_run_replaces_its_sections_only() {
    let world = World::new();
    for only in ["skysync:f7", "netsync:t2", "skysync:f17"] {
        let run = papers(&world, &format!("--only {only}"));
        assert_eq!(run.code, Some(0), "{run:#?}");
    }
    let text = page(&world, "skysync").replace("# SkySync", "# Kept");
    fs::write(world.path("out/skysync.md"), &text).unwrap();
    papers(&world, "--only skysync:f17");
    let again = page(&world, "skysync");
    assert!(again.starts_with("# Kept") && again.contains("### Figure 7: "), "{again}");
    assert_eq!(again.matches("VOID: set missing").count(), 1, "{again}");
}

#[test]
fn unknown_rows_are_refused() {
    let run = papers(&World::new(), "--only skysync:f19");
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("skysync:f19: no such paper, figure or table"), "{}", run.stderr);
}
