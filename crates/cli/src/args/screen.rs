//! `-h` alone: the most common options with examples, on one screen. All options are in `--help` and the manual.

use std::ffi::OsString;
use std::fmt::Write as _;

use clap::Arg;

/// The short help of a command.
struct ShortHelp {
    command: &'static str,
    /// Long names of the options to show; letters of options without a long name.
    options: &'static [&'static str],
    examples: &'static str,
}

/// Replaces the help of a command by its screen, if `words` ask for the screen. Changes `-h` in `words` to `--help`.
pub(super) fn with_short_help(deltic: clap::Command, words: &mut [OsString]) -> clap::Command {
    let Some(screen) = requested(words) else { return deltic };
    words[2] = "--help".into();
    deltic.mut_subcommand(screen.command, |command| {
        let text = screen.text(command.clone());
        command.override_help(text)
    })
}

/// Returns the screen for `COMMAND -h`. With other arguments, `-h` is rsync's `--human-readable`.
fn requested(words: &[OsString]) -> Option<&'static ShortHelp> {
    let [_, command, help] = words else { return None };
    let command = if command == "rsync" { "sync" } else { command.to_str()? };
    SCREENS.iter().find(|screen| screen.command == command && help == "-h")
}

impl ShortHelp {
    fn text(&self, mut command: clap::Command) -> String {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let mut text = format!("{about}\n\n{}\n\n", command.render_usage());
        for name in self.options {
            let is = |arg: &&Arg| {
                arg.get_long() == Some(*name)
                    || arg.get_short().is_some_and(|letter| name.chars().eq([letter]))
            };
            let arg = command.get_arguments().find(is).expect("it is declared");
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            writeln!(text, "{:<28}{help}", option_names(arg)).expect("a text takes all");
        }
        let name = self.command;
        text + &format!(
            "\n{}\n--help lists all options; `deltic man {name} | man -l -` explains all options\n",
            self.examples
        )
    }
}

/// Formats the names of an option as in `--help`: `  -e, --rsh <COMMAND>`.
fn option_names(arg: &Arg) -> String {
    let short = arg.get_short().map(|letter| format!("-{letter}"));
    let long = arg.get_long().map(|name| format!("--{name}"));
    let gap = if short.is_some() && long.is_some() { ", " } else { "" };
    let names =
        format!("  {}{gap}{}", short.as_deref().unwrap_or("    "), long.unwrap_or_default());
    let value = arg.get_value_names().unwrap_or_default().first();
    match value.filter(|_| arg.get_action().takes_values()) {
        Some(value) => format!("{names} <{value}>"),
        None => names,
    }
}

const SCREENS: [ShortHelp; 3] = [
    ShortHelp {
        command: "sync",
        options: &[
            "archive",
            "hard-links",
            "acls",
            "xattrs",
            "dry-run",
            "itemize-changes",
            "verbose",
            "P",
            "checksum",
            "update",
            "exclude",
            "filter",
            "gitignore",
            "one-file-system",
            "delete",
            "max-delete",
            "backup",
            "link-dest",
            "inplace",
            "compress",
            "bwlimit",
            "rsh",
            "json",
        ],
        examples: "\
EXAMPLES:
  deltic sync -av photos/ backup:/srv/photos/     push changes over ssh
  deltic sync -a backup:/srv/vm.img .             pull a file
  deltic sync -ain --delete src/ /mnt/copy/       show what would change
  deltic sync -a --exclude '*.o' -e 'ssh -p 2222' src/ me@host:src/
",
    },
    ShortHelp {
        command: "watch",
        options: &[
            "archive",
            "hard-links",
            "acls",
            "xattrs",
            "verbose",
            "itemize-changes",
            "exclude",
            "filter",
            "gitignore",
            "one-file-system",
            "delete",
            "max-delete",
            "backup",
            "compress",
            "bwlimit",
            "rsh",
            "json",
            "delay",
            "max-delay",
            "confirm",
        ],
        examples: "\
EXAMPLES:
  deltic watch -a --delete src/ backup:/srv/src/  keep a copy up to date
  deltic watch -av --delay 0.2 site/ /srv/www/    list changes, wait less
  deltic watch --confirm                          allow held-back deletions
",
    },
    ShortHelp {
        command: "verify",
        options: &[
            "archive",
            "perms",
            "times",
            "hard-links",
            "acls",
            "xattrs",
            "verbose",
            "quiet",
            "exclude",
            "filter",
            "gitignore",
            "rsh",
            "bwlimit",
            "json",
        ],
        examples: "\
EXAMPLES:
  deltic verify photos backup:/srv/photos         compare contents
  deltic verify -a src /mnt/copy && echo equal    compare attributes too
",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_screen_has_room_on_a_small_terminal() {
        for screen in &SCREENS {
            let mut deltic = super::super::command();
            deltic.build();
            let text = screen.text(deltic.find_subcommand(screen.command).unwrap().clone());
            assert!(text.lines().count() <= 40, "{text}");
            for line in text.lines() {
                assert!(line.chars().count() <= 80, "{line}");
            }
        }
    }

    #[test]
    fn among_other_words_the_letter_is_that_of_rsync() {
        let screen =
            |words: &str| requested(&words.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert!(screen("deltic watch -h").is_some() && screen("deltic rsync -h").is_some());
        for words in ["deltic sync -h a", "deltic sync -ah", "deltic patch -h", "deltic -h"] {
            assert!(screen(words).is_none(), "{words}");
        }
    }
}
