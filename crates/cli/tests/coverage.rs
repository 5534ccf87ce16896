//! `testing/COVERAGE.md` names tests that there are. (That no option lacks a row is a test beside their declarations.)

use std::fs;
use std::path::{Component, Path, PathBuf};

const MATRIX: &str = include_str!("../../../testing/COVERAGE.md");

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("it can be listed") {
        let path = entry.expect("it can be listed").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// What is in backticks and names a test, or all of a module's: `module::name`. A row's later names may leave the module out.
fn named() -> Vec<(String, String)> {
    let mut all = Vec::new();
    for line in MATRIX.lines() {
        let mut module = String::new();
        let quoted = line.split('`').skip(1).step_by(2);
        for (before, name) in quoted.filter_map(|text| text.rsplit_once("::")) {
            if name.starts_with(char::is_uppercase) {
                continue; // A constant.
            }
            if before != "…" {
                module = before.to_owned();
            }
            all.push((module.clone(), name.to_owned()));
        }
    }
    all
}

#[test]
fn every_test_that_the_matrix_names_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut paths = Vec::new();
    for dir in ["crates", "bench"] {
        sources(&root.join(dir), &mut paths);
    }
    let files: Vec<_> =
        paths.iter().map(|path| (path, fs::read_to_string(path).expect("text"))).collect();
    let is_of = |path: &Path, module: &str| {
        let is_module = |part: Component<'_>| {
            let name = part.as_os_str().to_str().unwrap_or_default();
            name.strip_suffix(".rs").unwrap_or(name) == module
        };
        path.components().any(is_module)
    };
    let named = named();
    assert!(named.len() > 100, "the matrix was understood: {named:?}");
    let missing = |(module, name): &(String, String)| {
        let last = module.rsplit("::").next().unwrap_or_default();
        let is_type = last.starts_with(char::is_uppercase);
        let mut of_it = files.iter().filter(|(path, _)| is_type || is_of(path, last));
        !match name.strip_suffix('…') {
            _ if name == "*" => of_it.next().is_some(),
            Some(start) => of_it.any(|(_, text)| text.contains(&format!("fn {start}"))),
            None => of_it.any(|(_, text)| text.contains(&format!("fn {name}("))),
        }
    };
    let missing: Vec<_> = named.into_iter().filter(missing).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn no_cell_says_that_a_test_is_missing() {
    let missing =
        |line: &&str| ["—", "| - |", "TODO", "not yet"].iter().any(|word| line.contains(word));
    let found: Vec<_> = MATRIX.lines().filter(missing).collect();
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn every_option_is_seen_to_work_by_a_test_of_the_whole_program() {
    let table = MATRIX.split("## ").find(|part| part.starts_with("Options")).expect("it is there");
    let rows = table.lines().filter(|line| line.starts_with("| `-"));
    let blind = |row: &&str| {
        // Behind the option, how its words are read, and what they mean.
        !row.split('|').skip(4).any(|cell| cell.contains("::"))
    };
    let blind: Vec<_> = rows.filter(blind).collect();
    assert!(blind.is_empty(), "{blind:#?}");
}
