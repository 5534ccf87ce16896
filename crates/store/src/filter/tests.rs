#![expect(clippy::disallowed_methods, reason = "rsync works on real trees")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use deltic_tree::RelPath;
use deltic_tree::rule::{self, RuleLine};

use super::*;
use crate::StoreError;
use proptest::prelude::*;

fn filter_at(rules: &[&str], side: FilterSide) -> Filter {
    let rule = |text: &&str| match rule::parse_rule(text.as_bytes()).unwrap().remove(0) {
        RuleLine::Rule(rule) => rule,
        line => panic!("{line:?}"),
    };
    let list = rules.iter().map(rule).collect();
    Filter::new(&Rules { list, ..Rules::default() }, side)
}

fn filter(rules: &[&str]) -> Filter {
    filter_at(rules, FilterSide::Sender)
}

/// A tree that contains only these rules files.
struct Files<'a>(&'a [(&'a str, &'a str)]);

impl Reads for Files<'_> {
    fn read(&self, path: &RelPath, _: Linked) -> Result<Option<Vec<u8>>, StoreError> {
        let file = self.0.iter().find(|(name, _)| name.as_bytes() == path.as_bytes());
        Ok(file.map(|(_, text)| text.as_bytes().to_vec()))
    }

    fn has_file(&self, path: &RelPath) -> bool {
        self.0.iter().any(|(name, _)| self::path(name).starts_with(path))
    }
}

/// True if `filter` admits the entry at `path` in a tree with these rules files.
fn admits_in(filter: &Filter, files: &Files<'_>, path: &RelPath, is_dir: bool) -> bool {
    let scopes = Scopes::new(filter.clone(), b"/top/root"[..].into(), Start::Root);
    let (dir, name) = path.split_last().unwrap();
    scopes.judge(&dir, files).unwrap().admits(&name, is_dir)
}

fn admits(filter: &Filter, path: &RelPath, is_dir: bool) -> bool {
    admits_in(filter, &Files(&[]), path, is_dir)
}

fn path(text: &str) -> RelPath {
    RelPath::parse(text.as_bytes()).unwrap()
}

/// From rsync's manual, "PATTERN MATCHING RULES", and its corner cases.
#[test]
fn patterns_match_as_rsyncs_manual_says() {
    for (pattern, matching, other) in [
        ("*.o", &["a.o", "dir/b.o"][..], &["a.oo", "a.o/x"][..]),
        ("/foo", &["foo"], &["dir/foo"]),
        ("foo/", &["foo/", "dir/foo/"], &["foo", "dir/foo"]),
        ("/foo/*/bar", &["foo/x/bar"], &["foo/bar", "foo/x/y/bar", "a/foo/x/bar"]),
        ("/foo/**/bar", &["foo/x/bar", "foo/x/y/bar"], &["foo/bar"]),
        ("foo/bar", &["foo/bar", "x/foo/bar"], &["foo/x/bar", "xfoo/bar", "foo/barx"]),
        ("foo/*", &["foo/x", "y/foo/x"], &["foo/", "foo/x/y"]),
        ("foo/**", &["foo/x", "foo/x/y", "a/foo/x"], &["foo/", "afoo/x"]),
        ("foo/***", &["foo/", "foo/x", "foo/x/y", "a/foo/", "a/foo/x"], &["foo", "afoo/"]),
        ("**/foo", &["foo", "a/foo", "a/b/foo"], &["afoo", "a/foo/b"]),
        ("/**/foo", &["a/foo", "a/b/foo"], &["foo"]),
        ("a**b", &["ab", "a/x/b", "x/a/b"], &["xab", "a/bx"]),
        ("fo?", &["foo", "x/fob"], &["fo", "fooo", "fo/"]),
        ("[a-c]x", &["ax", "y/cx"], &["dx", "x"]),
        ("[!a-c]x", &["dx"], &["ax", "x"]),
        ("[]a]x", &["]x", "ax"], &["bx"]),
        ("[a-]x", &["-x"], &["bx"]),
        ("[[:digit:]_]", &["7", "_"], &["x", "d"]),
        ("[\\]]", &["]"], &["\\"]),
        ("[x", &[], &["[x", "x"]),
        ("\\*", &["*"], &["\\*", "x"]),
        ("a\\b", &["a\\b"], &["ab"]),
        ("{a,b}", &["{a,b}"], &["a"]),
        ("/", &[], &["x", "x/"]),
    ] {
        let excluded = filter(&[&format!("- {pattern}")]);
        let admits =
            |text: &str| admits(&excluded, &path(text.trim_end_matches('/')), text.ends_with('/'));
        for text in matching {
            assert!(!admits(text), "{pattern} matches {text}");
        }
        for text in other {
            assert!(admits(text), "{pattern} does not match {text}");
        }
    }
}

#[test]
fn the_first_rule_that_matches_decides() {
    let filter = filter(&["+ */", "+ *.rs", "- *"]);
    assert!(admits(&filter, &path("src"), true));
    assert!(admits(&filter, &path("src/lib.rs"), false));
    assert!(!admits(&filter, &path("src/lib.c"), false));
    assert!(admits(&Filter::default(), &path("x"), false));
}

#[test]
fn a_name_need_not_be_text() {
    let rules = Rules { list: vec![Rule::plain(Action::Exclude, b"\xff*")], ..Rules::default() };
    let filter = Filter::new(&rules, FilterSide::Sender);
    assert!(!admits(&filter, &RelPath::parse(b"\xffa\xfe").unwrap(), false));
}

#[test]
fn a_pattern_of_many_wildcards_is_matched_in_time() {
    let rules =
        ["*a*a*a*a*a*a*a*a*b", "**a**a**a**a**a**a**b"].map(|pattern| format!("- {pattern}"));
    let filter = filter(&[&rules[0], &rules[1]]);
    assert!(admits(&filter, &path(&"a".repeat(250)), false));
    assert!(admits(&filter, &path(&"a/".repeat(200)[..399]), false));
}

#[test]
fn a_rule_counts_at_its_side_unless_excluded_names_go() {
    for (rule, sent, deleted, deleted_though) in [
        ("- x", false, false, true),
        ("H x", false, true, true),
        ("P x", true, false, false),
        ("-sr x", false, false, false),
        ("-! y", false, false, true),
        ("R x", true, true, true),
    ] {
        let RuleLine::Rule(parsed) = rule::parse_rule(rule.as_bytes()).unwrap().remove(0) else {
            panic!()
        };
        let judge = |side, delete_excluded| {
            let rules = Rules { list: vec![parsed.clone()], delete_excluded, from0: false };
            admits(&Filter::new(&rules, side), &path("x"), false)
        };
        assert_eq!(judge(FilterSide::Sender, false), sent, "{rule}");
        assert_eq!(judge(FilterSide::Sender, true), sent, "{rule}");
        assert_eq!(judge(FilterSide::Receiver, false), deleted, "{rule}");
        assert_eq!(judge(FilterSide::Receiver, true), deleted_though, "{rule}");
    }
}

#[test]
fn an_absolute_rule_looks_at_the_path_from_the_file_systems_root_on() {
    for (rule, text, admitted) in [
        ("-/ /top/root/a", "a", false),
        ("-/ /a", "a", true),
        ("-/ root/a", "a", false),
        ("- root/a", "a", true),
        ("-/ a", "d/a", false),
        ("-/ **/root/**", "d/a", false),
        ("-/ t**a", "d/a", false),
        ("- t**a", "d/a", true),
        ("-/ /top/*/d/***", "d", false),
    ] {
        assert_eq!(admits(&filter(&[rule]), &path(text), text == "d"), admitted, "{rule} {text}");
    }
}

#[test]
fn directories_add_rules_that_are_inherited_and_anchored_where_they_are() {
    let files = Files(&[
        (".r", "- /top\n- a"),
        ("d/.r", "- /here\n+ a\n- d/e/x"),
        ("d/e/.r", "!\n- only"),
        ("n/.n", "- x"),
    ]);
    let filter = filter(&["+ first", ": .r", "- last", ":n .n"]);
    for (text, admitted) in [
        ("top", false),
        ("d/top", true),
        ("a", false),
        ("d/a", true),
        ("d/here", false),
        ("d/f/here", true),
        ("d/f/a", true),
        ("d/e/a", true),
        ("d/e/only", false),
        ("d/f/only", true),
        ("d/e/x", true),
        ("f/last", false),
        ("n/x", false),
        ("n/m/x", true),
        ("first", true),
    ] {
        assert_eq!(admits_in(&filter, &files, &path(text), false), admitted, "{text}");
    }
}

#[test]
fn a_file_that_a_directory_names_is_looked_for_above_it_from_where_its_path_says() {
    for (rule, admitted) in [
        (": ../.n", [true, false, false, true]),
        (": ../../.n", [false, false, false, true]),
        (": ../../../.n", [false, false, false, true]),
        (": /top/root/.n", [false, false, false, true]),
        // As in rsync, only directories above are searched.
        (": .n", [true, true, false, true]),
        (": ../x/.n", [true, true, false, true]),
        (": y/.n", [true, true, false, true]),
        (": /elsewhere/.n", [true, true, false, true]),
        (":n ../../.n", [true, true, false, true]),
    ] {
        let files = Files(&[
            (".n", "- root"),
            ("d/.n", "- above\n- /anchored"),
            ("d/e/.r", rule),
            ("d/e/.n", "- own\n- /e/anchored"),
            ("d/x/.n", "- x"),
            ("d/e/y/.n", "- y"),
        ]);
        let filter = filter(&[": .r"]);
        let judge = |name: &str| admits_in(&filter, &files, &path(&format!("d/e/{name}")), false);
        let found = ["root", "above", "own", "x"].map(judge);
        assert_eq!(found, admitted, "{rule}");
        assert!(judge("anchored") && judge("y"), "{rule}");
        let beside = admits_in(&filter, &files, &path("d/above"), false);
        assert!(beside, "{rule}: only what is below the file that names it");
    }
}

#[test]
fn a_second_rule_about_one_file_is_none_whichever_side_the_first_is_for() {
    let files = Files(&[(".r", "- a")]);
    let both = filter_at(&[":s .r", ": .r"], FilterSide::Receiver);
    assert!(admits_in(&both, &files, &path("a"), false));
    let second = filter_at(&[":r .r", ": .r"], FilterSide::Receiver);
    assert!(!admits_in(&second, &files, &path("a"), false));
}

#[test]
fn a_file_of_rules_may_name_further_ones_below_the_root() {
    let files = Files(&[
        ("d/.r", ". more\n: .s\n. ../up"),
        ("d/more", "- one"),
        ("up", "-C"),
        ("d/e/.s", "- two"),
        ("d/.s", "- three"),
    ]);
    let filter = filter(&[": .r"]);
    for (text, admitted) in [
        ("d/one", false),
        ("d/x.o", false),
        ("d/e/two", false),
        ("d/two", true),
        ("d/e/three", false),
        ("one", true),
        ("three", true),
    ] {
        assert_eq!(admits_in(&filter, &files, &path(text), false), admitted, "{text}");
    }
}

#[test]
fn a_file_of_rules_that_cannot_be_understood_is_an_error_that_names_the_line() {
    let long = "- x\n".repeat(5000);
    for (text, why) in [
        ("- a\nbad", "/top/root/d/.r: line 2: unknown filter rule"),
        (". /etc/passwd", "a merged file is outside of the root"),
        (". ../../x", "is outside of the root"),
        (". none", "a file that it merges is not there"),
        (". .r", "too many rule files within rule files"),
        (&long, "too many rules"),
        ("P,s x", "invalid modifier"),
    ] {
        let scopes = Scopes::new(filter(&[": .r"]), b"/top/root"[..].into(), Start::Root);
        let error = scopes.judge(&path("d/e"), &Files(&[("d/.r", text)])).unwrap_err();
        let error = error.to_string();
        let shows = ["bad", "passwd", "none"].into_iter().find(|word| error.contains(word));
        assert!(error.contains(why) && shows.is_none(), "{error}");
    }
}

#[test]
fn rules_about_attributes_judge_nothing_else() {
    let filter = filter(&["-x user.*", "+x *", "- b"]);
    assert!(admits(&filter, &path("user.a"), false));
    assert!(!filter.admits_xattr(b"user.a"));
    assert!(filter.admits_xattr(b"b") && Filter::default().admits_xattr(b"b"));
}

#[test]
fn perishable_rules_do_not_count_in_what_is_being_deleted() {
    let filter = filter_at(&["P,p *.o", "P keep"], FilterSide::Receiver);
    let scopes = Scopes::new(filter, Box::default(), Start::Root);
    let mut judge = scopes.judge_by_global_rules(&path("gone"));
    let name = |text: &str| Name::new(text.as_bytes()).unwrap();
    assert!(!judge.admits(&name("x.o"), false));
    assert!(judge.admits_as(&name("x.o"), false, Fate::Goes));
    assert!(!judge.admits_as(&name("keep"), false, Fate::Goes));
}

/// From git's manual, "PATTERN FORMAT", and its corner cases.
#[test]
fn gitignore_patterns_match_as_gits_manual_says() {
    for (pattern, matching, other) in [
        ("foo", &["foo", "a/foo", "a/foo/"][..], &["foo/x"][..]),
        ("/foo", &["foo"], &["a/foo"]),
        ("foo/", &["foo/", "a/foo/"], &["foo"]),
        ("a/b", &["a/b"], &["x/a/b"]),
        ("a/*", &["a/b"], &["a/b/c", "a/"]),
        ("**/foo", &["foo", "a/b/foo"], &["afoo"]),
        ("**/a/b", &["a/b", "x/a/b"], &["xa/b"]),
        ("a/**", &["a/b", "a/b/c"], &["a/", "x/a/b"]),
        ("a/**/b", &["a/b", "a/x/b", "a/x/y/b"], &["axb", "a/xb"]),
        ("a**b", &["ab", "axb"], &["a/b"]),
        ("x/a**", &["x/ab"], &["x/a/b"]),
        ("***/b", &["b", "a/b"], &["ab"]),
        ("*.o", &["x.o", "a/x.o"], &["x.oo"]),
        ("a?c", &["abc"], &["a/c"]),
        ("[a-c]x", &["bx"], &["dx"]),
        ("x ", &["x"], &["x "]),
        ("x\\ ", &["x "], &["x"]),
        ("x\\\\", &["x\\"], &["x"]),
        ("x\\", &[], &["x", "x\\"]),
        ("\\#x", &["#x"], &["x"]),
        ("\\!x", &["!x"], &["x"]),
        ("#x", &[], &["#x", "x"]),
        ("a\\*", &["a*"], &["ab"]),
        ("x\r", &["x"], &["x\r"]),
        ("x\t", &["x\t"], &["x"]),
        ("/", &[], &["x"]),
        ("a//", &[], &["a/"]),
    ] {
        let files = [(".gitignore", pattern)];
        let admits = |text: &str| {
            let (path, is_dir) = (path(text.trim_end_matches('/')), text.ends_with('/'));
            admits_in(&filter(&[":g"]), &Files(&files), &path, is_dir)
        };
        for text in matching {
            assert!(!admits(text), "{pattern:?} matches {text}");
        }
        for text in other {
            assert!(admits(text), "{pattern:?} does not match {text}");
        }
    }
}

#[test]
fn the_deepest_gitignore_and_the_last_line_of_it_decide_and_a_repository_is_its_own() {
    let files = Files(&[
        (".git/info/exclude", "info\n!both"),
        (".gitignore", "*.log\n!keep.log\nboth"),
        ("d/.gitignore", "!*.log\nkeep.log\n/here"),
        ("d/repo/.git/info/exclude", "mine"),
        ("d/repo/.gitignore", "yours"),
    ]);
    let filter = filter(&[":g"]);
    for (text, admitted) in [
        ("info", false),
        ("both", false),
        ("x.log", false),
        ("keep.log", true),
        ("d/x.log", true),
        ("d/keep.log", false),
        ("d/here", false),
        ("d/e/here", true),
        ("d/repo/keep.log", true),
        ("d/repo/info", true),
        ("d/repo/mine", false),
        ("d/repo/sub/yours", false),
    ] {
        assert_eq!(admits_in(&filter, &files, &path(text), false), admitted, "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_filter_admits_what_rsync_transfers(
        rules in prop::collection::vec("[-+] /?([ab*?]{1,3}|\\*\\*|\\[ab\\]|\\[!a\\])(/([ab*?]{1,3}|\\*\\*)){0,2}(/|/\\*\\*\\*)?", 1..5)
    ) {
        let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
        let Some(transferred) = by_rsync(&rules) else { return Ok(()) };
        prop_assert_eq!(by_walk(&filter(&rules)), transferred, "{:?}", rules);
    }
}

/// Paths that rsync transfers of the tree of all paths of `a`, `b` and `ab`.
fn by_rsync(rules: &[&str]) -> Option<BTreeSet<String>> {
    let root = tempfile::tempdir().unwrap();
    grow(root.path(), 3);
    let rules = rules.iter().map(|rule| format!("--filter={rule}"));
    let source = format!("{}/", root.path().display());
    let run = Command::new("rsync")
        .args(["-rn", "--out-format=%n"])
        .args(rules)
        .args([&source, "/nowhere-to-be"])
        .output();
    let Ok(run) = run else {
        eprintln!("SKIPPED: no rsync to compare with");
        return None;
    };
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let lines = String::from_utf8(run.stdout).unwrap();
    Some(
        lines
            .lines()
            .filter(|line| !line.starts_with("./") && !line.contains(' '))
            .map(str::to_owned)
            .collect(),
    )
}

fn grow(dir: &Path, depth: u32) {
    for name in NAMES {
        let sub = dir.join(name);
        match depth {
            1 => fs::write(&sub, b"").unwrap(),
            _ => {
                fs::create_dir(&sub).unwrap();
                fs::write(dir.join(format!("{name}b")), b"").unwrap();
                grow(&sub, depth - 1);
            }
        }
    }
}

/// Paths of the same tree that a walk with `filter` finds. Directories end in a slash, as in the output of rsync.
fn by_walk(filter: &Filter) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut dirs = vec![(String::new(), 3)];
    while let Some((dir, depth)) = dirs.pop() {
        for name in NAMES {
            let (sub, file) = (format!("{dir}{name}"), format!("{dir}{name}b"));
            if depth > 1 && admits(filter, &path(&file), false) {
                found.insert(file);
            }
            if !admits(filter, &path(&sub), depth > 1) {
                continue;
            }
            if depth > 1 {
                dirs.push((format!("{sub}/"), depth - 1));
                found.insert(format!("{sub}/"));
            } else {
                found.insert(sub);
            }
        }
    }
    found
}

const NAMES: [&str; 3] = ["a", "b", "ba"];
