//! The documents name tests, files and headings that exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Documents that promise something.
const PROMISES: [&str; 3] = ["docs/promises.md", "docs/laws.md", "SECURITY.md"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All files below `dir` whose names end in `end`; what was built is not looked at.
fn files(dir: &Path, end: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).expect("the repository").map(|entry| entry.expect("an entry")) {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if path.is_dir() {
            if !name.starts_with('.')
                && !name.starts_with("target")
                && !matches!(&*name, "out" | "node_modules")
            {
                found.extend(files(&path, end));
            }
        } else if name.ends_with(end) {
            found.push(path);
        }
    }
    found
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
}

#[test]
fn every_test_that_proves_a_promise_exists() {
    let code: String =
        files(&root(), ".rs").iter().map(|f| fs::read_to_string(f).unwrap()).collect();
    let known: BTreeSet<&str> = words(&code).collect();
    for document in PROMISES {
        let text = fs::read_to_string(root().join(document)).unwrap();
        let named = text.split('`').skip(1).step_by(2).filter(|name| name.matches('_').count() > 1);
        let named: Vec<_> = named.filter(|name| words(name).count() == 1).collect();
        assert!(named.len() > 5, "{document} names tests");
        for name in named {
            assert!(known.contains(name), "{document} names {name}, which is nowhere");
        }
    }
}

#[test]
fn every_link_leads_somewhere() {
    for document in files(&root(), ".md") {
        let text = fs::read_to_string(&document).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.contains("://") {
                continue;
            }
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let file = match path {
                "" => document.clone(),
                path => document.parent().unwrap().join(path),
            };
            assert!(file.exists(), "{}: {link}", document.display());
            if !anchor.is_empty() && file.extension().is_some_and(|end| end == "md") {
                let anchors = anchors(&fs::read_to_string(&file).unwrap());
                assert!(anchors.contains(anchor), "{}: {link}", document.display());
            }
        }
    }
}

/// What links may lead to: headings as sites for code name them, and places that have names of their own.
fn anchors(text: &str) -> BTreeSet<String> {
    let of_heading = |heading: &str| {
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || "-_ ".contains(*c));
        kept.collect::<String>().to_lowercase().replace(' ', "-")
    };
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let headings = headings.map(|line| of_heading(line.trim_start_matches('#').trim()));
    let named = ["<a id=\"", "<a name=\""].into_iter().flat_map(|tag| {
        text.split(tag).skip(1).filter_map(|rest| rest.split('"').next()).map(String::from)
    });
    headings.chain(named).collect()
}

/// Tests of a file that no suite names are never compiled, and never fail.
#[test]
fn every_file_of_tests_is_part_of_a_suite() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let named: String = ["suite_sync.rs", "suite_serve.rs", "suite_command.rs"]
        .map(|suite| fs::read_to_string(tests.join(suite)).expect("a suite"))
        .concat();
    for file in
        fs::read_dir(&tests).expect("the tests").map(|entry| entry.expect("an entry").path())
    {
        let stem = file.file_stem().expect("a name").to_string_lossy().into_owned();
        if file.extension().is_some_and(|end| end == "rs") && !stem.starts_with("suite_") {
            assert!(named.contains(&format!("mod {stem};")), "no suite names {}", file.display());
        }
    }
}
