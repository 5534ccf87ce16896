//! The command lines that the documents and the help print can be parsed.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory};

use super::{Cli, parse};

/// Returns the documents with commands for users.
fn documents() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let inside = |dir: &str| {
        let entries = fs::read_dir(root.join(dir)).expect("the repository");
        entries.map(|entry| entry.expect("an entry").path()).collect::<Vec<_>>()
    };
    let is_text = |path: &PathBuf| path.extension().is_some_and(|end| end == "md");
    let all = [inside("docs"), inside("docs/manual"), vec![root.join("README.md")]].concat();
    all.into_iter().filter(is_text).collect()
}

/// Returns the lines of the fenced blocks of a document.
fn fenced_lines(text: &str) -> Vec<&str> {
    text.split("\n```").skip(1).step_by(2).flat_map(str::lines).collect()
}

/// Returns the example lines in the help of a command and its subcommands.
fn example_lines(command: &Command) -> Vec<String> {
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let examples = help.split("EXIT CODES:").next().unwrap_or_default();
    let own = examples.lines().map(|line| line.trim().to_owned());
    own.chain(command.get_subcommands().flat_map(example_lines)).collect()
}

/// Returns the words of the command `deltic` in a line. `None` for a line without the command, for a form with
/// placeholders, and for a line with a profile, which needs settings.
fn command_of(line: &str) -> Option<Vec<String>> {
    let starts = ["nas$ sudo ", "laptop$ ", "$ ", "here: ", "there: ", "sudo "];
    let line = line.trim();
    let line = starts.iter().find_map(|start| line.strip_prefix(start)).unwrap_or(line).trim();
    if !line.starts_with("deltic ")
        || line.contains('[')
        || line.contains("...")
        || line.contains('…')
    {
        return None;
    }
    let line = ["   ", " #", " | ", " || ", " && ", "; ", " >", " <"]
        .iter()
        .fold(line, |line, end| line.split(end).next().unwrap_or_default());
    let words = shlex::split(line)?;
    let is_profile = |word: &String| word.starts_with('@');
    let is_elsewhere = words.get(1).is_some_and(|command| {
        command == "bench" || command == "storage" && cfg!(not(feature = "labs"))
    });
    (!is_elsewhere && !words.iter().skip(2).any(is_profile)).then_some(words)
}

#[test]
fn every_command_line_that_a_document_or_the_help_prints_can_be_parsed() {
    let texts = documents().into_iter().map(|path| {
        let text = fs::read_to_string(&path).expect("a document");
        let lines = fenced_lines(&text).into_iter().map(str::to_owned).collect::<Vec<_>>();
        (path.display().to_string(), lines)
    });
    let help = ("the help".to_owned(), example_lines(&Cli::command()));
    let mut count = 0;
    for (whence, lines) in texts.chain([help]) {
        for words in lines.iter().filter_map(|line| command_of(line)) {
            // A request for help is an error of the parser too.
            let error = parse(words.iter().map(Into::into)).err().filter(clap::Error::use_stderr);
            assert!(error.is_none(), "{whence}: {words:?}: {}", error.unwrap());
            count += 1;
        }
    }
    assert!(count > 120, "only {count} command lines were found");
}
