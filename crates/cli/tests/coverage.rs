//! `testing/COVERAGE.md` names tests that there are. (That no option lacks a row is a test beside their declarations.)

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

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
    let modules: BTreeSet<_> =
        paths.iter().flat_map(|path| path.components()).map(|part| part.as_os_str()).collect();
    let text: Vec<_> = paths.iter().map(|path| fs::read_to_string(path).expect("text")).collect();
    let is_there = |start: &str| text.iter().any(|text| text.contains(start));
    let named = named();
    assert!(named.len() > 100, "the matrix was understood: {named:?}");
    let missing = |(module, name): &(String, String)| {
        let last = module.rsplit("::").next().unwrap_or_default();
        let is_module = |name: &str| modules.contains(OsStr::new(name));
        let known = last.starts_with(char::is_uppercase)
            || is_module(last)
            || is_module(&format!("{last}.rs"));
        let there = match name.strip_suffix('…') {
            _ if name == "*" => true,
            Some(start) => is_there(&format!("fn {start}")),
            None => is_there(&format!("fn {name}(")),
        };
        !(known && there)
    };
    let missing: Vec<_> = named.into_iter().filter(missing).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
