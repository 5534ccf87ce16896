//! `testing/COVERAGE.md` names tests that exist, and every option with the tests that use it.
//!
//! The table of options is generated from `--help` and the sources of the tests: `DELTIC_UPDATE_GOLDEN=1` writes it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

const MATRIX: &str = include_str!("../../../testing/COVERAGE.md");
/// Begins the part that is generated, up to the end.
const GENERATED: &str = "## Options\n";
/// Most tests that a cell names: those that use the fewest other options.
const MOST_NAMED: usize = 3;
/// Longest cell of several names.
const MAX_CELL: usize = 260;
/// The commands of which options are listed; an option of several stands with the first.
const COMMANDS: [&str; 15] = [
    "sync",
    "watch",
    "verify",
    "doctor",
    "install",
    "facts",
    "serve",
    "login",
    "versions",
    "restore",
    "signature",
    "delta",
    "patch",
    "man",
    "completions",
];

/// An option as `--help` has it.
struct Opt {
    short: Option<char>,
    /// The long name and its aliases.
    longs: Vec<String>,
}

impl Opt {
    /// Parses a line such as `  -e, --rsh <COMMAND>  Use this shell [aliases: --shell]`; `rest` are lines behind it.
    fn parse(line: &str, rest: &str) -> Option<Self> {
        let text = line.strip_prefix("  ")?.trim_start();
        let names = text.split("  ").next()?;
        let mut words = names.split([' ', ',', '[', '=']).filter(|word| word.starts_with('-'));
        let first = words.next()?;
        let short = (!first.starts_with("--")).then(|| first.chars().nth(1)).flatten();
        let long = if short.is_some() { words.next() } else { Some(first) };
        let help: String = [line, rest].concat().split_whitespace().collect::<Vec<_>>().join(" ");
        let aliases = help.split("[aliases: ").nth(1).or_else(|| help.split("[alias: ").nth(1));
        let aliases = aliases.and_then(|rest| rest.split(']').next()).unwrap_or_default();
        let longs = long.into_iter().chain(aliases.split(", ").filter(|name| !name.is_empty()));
        Some(Self { short, longs: longs.map(|name| name.trim_matches('.').to_owned()).collect() })
    }

    /// The names in the first cell of its row.
    fn shown(&self) -> String {
        let short = self.short.map(|letter| format!("`-{letter}`"));
        let long = self.longs.first().map(|name| format!("`{name}`"));
        short.into_iter().chain(long).collect::<Vec<_>>().join(", ")
    }
}

/// The options of a command, from its help.
fn options(command: &str) -> Vec<Opt> {
    let help = Command::new(env!("CARGO_BIN_EXE_deltic")).args([command, "--help"]).output();
    let help = String::from_utf8(help.expect("it runs").stdout).expect("help is text");
    let is_option = |line: &str| {
        let text = line.trim_start();
        text.starts_with('-') && (2..=6).contains(&(line.len() - text.len()))
    };
    let help = help.split("EXAMPLES:").next().unwrap_or_default();
    let lines: Vec<_> = help.lines().collect();
    let starts: Vec<_> = (0..lines.len()).filter(|at| is_option(lines[*at])).collect();
    let ends = starts.iter().skip(1).copied().chain([lines.len()]);
    let parsed = starts.iter().zip(ends).map(|(start, end)| {
        let rest = lines[start + 1..end].iter().map(|line| format!(" {line}")).collect::<String>();
        Opt::parse(lines[*start], &rest).unwrap_or_else(|| panic!("{:?}", lines[*start]))
    });
    parsed.collect()
}

/// The reach of a test.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Runs the program.
    Whole,
    /// Is about a part of the program.
    Part,
    /// `users`: every option, for two users.
    Users,
    /// `differential`: random options.
    Random,
}

/// A test, or what a file of tests has outside of them.
struct Test {
    /// `file::name`, or `file::*`.
    name: String,
    kind: Kind,
    /// Words that begin with a hyphen.
    words: BTreeSet<String>,
    text: String,
}

impl Test {
    fn new(path: &Path, name: &str, text: String) -> Self {
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '@';
        let words = code.flat_map(|line| line.split(|c| !is_part(c)));
        let words = words.filter(|word| word.starts_with('-')).map(str::to_owned).collect();
        let file = match path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default() {
            "mod" | "lib" | "main" => path.parent().and_then(Path::file_name),
            _ => path.file_stem(),
        };
        let file = file.and_then(|stem| stem.to_str()).unwrap_or_default();
        let is_in = |dir| path.components().any(|part| part.as_os_str() == dir);
        let kind = match () {
            () if !is_in("tests") => Kind::Part,
            () if file == "users" => Kind::Users,
            () if file == "differential" || is_in("differential") => Kind::Random,
            () => Kind::Whole,
        };
        Self { name: format!("{file}::{name}"), kind, words, text }
    }

    /// True where it uses the option of `command`, alone or with others behind one hyphen.
    fn uses(&self, command: &str, option: &Opt) -> bool {
        let is_of_it = command == "sync" || self.name.contains(command) || {
            let word = format!("\"{command}\"");
            self.text.contains(&word) || self.text.contains(&format!("{command} "))
        };
        let has_long = option.longs.iter().any(|name| self.words.contains(name));
        let letter = |letter| {
            let is_bundle = |word: &&String| {
                let letters = &word[1..];
                letters.len() <= MAX_BUNDLE && !letters.starts_with('-') && letters.contains(letter)
            };
            self.words.iter().any(|word| is_bundle(&word))
        };
        is_of_it && (has_long || option.short.is_some_and(letter))
    }
}

/// More letters behind one hyphen are no options.
const MAX_BUNDLE: usize = 8;

/// The tests of a file: its functions behind `#[test]`, and the rest as one.
fn tests(path: &Path, text: &str) -> Vec<Test> {
    let (mut found, mut rest) = (Vec::new(), String::new());
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.trim_start() != "#[test]" {
            writeln!(rest, "{line}").expect("a text takes all");
            continue;
        }
        let end = format!("{}}}", &line[..line.len() - line.trim_start().len()]);
        let body: Vec<_> = lines.by_ref().take_while(|line| *line != end).collect();
        let body = body.join("\n");
        let name = body.split("fn ").nth(1).and_then(|rest| rest.split('(').next());
        let name = name.expect("a test has a name").to_owned();
        found.push(Test::new(path, &name, body));
    }
    if path.components().any(|part| part.as_os_str() == "tests") {
        found.push(Test::new(path, "*", rest));
    }
    found
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every source of the workspace.
fn sources() -> BTreeMap<PathBuf, String> {
    let root = root();
    let mut found = BTreeMap::new();
    let mut dirs = vec![root.join("crates"), root.join("bench")];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).expect("it can be listed") {
            let path = entry.expect("it can be listed").path();
            if path.is_dir() {
                dirs.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("text");
                found.insert(path, text);
            }
        }
    }
    found
}

/// The table of options; an option that no test uses is an error.
fn table() -> Result<String, String> {
    let sources = sources();
    let own = root().join("crates/cli");
    let is_used = |path: &Path| path.starts_with(&own) && !path.ends_with("tests/coverage.rs");
    let files = sources.iter().filter(|(path, _)| is_used(path));
    let mut tests: Vec<_> = files.flat_map(|(path, text)| tests(path, text)).collect();
    tests.sort_by(|one, other| (one.words.len(), &one.name).cmp(&(other.words.len(), &other.name)));
    let (mut text, mut missing, mut known) = (HEAD.to_owned(), Vec::new(), BTreeSet::new());
    for command in COMMANDS {
        for option in options(command) {
            if !known.insert(option.shown()) || option.longs.contains(&"--help".into()) {
                continue;
            }
            let users: Vec<_> = tests.iter().filter(|test| test.uses(command, &option)).collect();
            if users.is_empty() {
                missing.push(format!("{command} {}", option.shown()));
            }
            let named = |kind| {
                let named = users.iter().filter(|test| test.kind == kind).take(MOST_NAMED);
                let mut named: Vec<_> = named.map(|test| format!("`{}`", test.name)).collect();
                while named.len() > 1 && named.join(", ").len() > MAX_CELL {
                    named.pop();
                }
                named.join(", ")
            };
            let by = |kind| {
                let is_by = users.iter().any(|test| test.kind == kind) && command == "sync";
                if is_by { "yes" } else { "" }
            };
            let command = if command == "sync" { String::new() } else { format!("{command} ") };
            let row = [
                format!("{command}{}", option.shown()),
                named(Kind::Whole),
                named(Kind::Part),
                by(Kind::Users).into(),
                by(Kind::Random).into(),
            ];
            writeln!(text, "| {} |", row.join(" | ")).expect("a text takes all");
        }
    }
    if missing.is_empty() { Ok(text) } else { Err(missing.join("\n")) }
}

const HEAD: &str = "\
## Options

Generated by `crates/cli/tests/coverage.rs` from `--help` and the sources of the tests; `DELTIC_UPDATE_GOLDEN=1`
writes it. A cell names the tests that use the option and the fewest others. *Two users*: `users` runs the option as
root and as an ordinary user, here and in both directions, with and without it. *Random*: `differential` draws it for
random trees, next to rsync.

| option | whole program | parts | two users | random |
|---|---|---|---|---|
";

#[test]
fn every_option_is_listed_with_the_tests_that_use_it() {
    let table = table().unwrap_or_else(|missing| panic!("no test uses:\n{missing}"));
    let at = MATRIX.find(GENERATED).unwrap_or(MATRIX.len());
    if std::env::var_os("DELTIC_UPDATE_GOLDEN").is_some() {
        let path = root().join("testing/COVERAGE.md");
        fs::write(path, [&MATRIX[..at], &table].concat()).expect("it can be written");
        return;
    }
    let listed = &MATRIX[at..];
    let other = table.lines().zip(listed.lines()).find(|(now, then)| now != then);
    assert!(listed == table, "DELTIC_UPDATE_GOLDEN=1 writes testing/COVERAGE.md anew: {other:?}");
}

/// Quoted names of a test, or of a whole module: `module::name`. A row's later names may leave the module out.
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
    let sources = sources();
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
        let mut of_it = sources.iter().filter(|(path, _)| is_type || is_of(path, last));
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
