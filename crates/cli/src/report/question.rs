//! Questions to a user at a terminal: before many names are removed, and before deltic is installed elsewhere.

use std::io::{self, BufRead};

use deltic_protocol::report::Question;
use deltic_tree::path::printable;
use rustix::process::getpgrp;
use rustix::termios::{QueueSelector, tcflush, tcgetpgrp};

use crate::report::output;

/// True if another process group has the terminal: a background process that reads the terminal is stopped.
pub(crate) fn is_in_background() -> bool {
    tcgetpgrp(io::stdin()).is_ok_and(|group| group != getpgrp())
}

/// Drops input typed before the question: such input is no answer.
pub(crate) fn forget_input() {
    // Standard input is no terminal any more if this fails, and its end counts as a no.
    tcflush(io::stdin(), QueueSelector::IFlush).ok();
}

/// Reads the answer; anything but a yes is a no.
pub(crate) fn answer() -> bool {
    let mut line = Vec::new();
    let read = io::stdin().lock().read_until(b'\n', &mut line);
    read.is_ok() && is_yes(&line)
}

/// Asks whether to install deltic on `host`. An empty line is a yes; the end of input, and a background process, a no.
pub(crate) fn asks_to_install(host: &str) -> bool {
    if is_in_background() {
        return false;
    }
    forget_input();
    let host = printable(host.as_bytes());
    output::note(&format!("deltic is not installed on {host}; install it to ~/.local/bin? [Y/n] "));
    let mut line = Vec::new();
    let read = io::stdin().lock().read_until(b'\n', &mut line);
    let is_empty = !line.is_empty() && line.trim_ascii().is_empty();
    read.is_ok() && (is_empty || is_yes(&line))
}

fn is_yes(line: &[u8]) -> bool {
    [&b"y"[..], b"yes"].iter().any(|yes| line.trim_ascii().eq_ignore_ascii_case(yes))
}

/// Returns the question, up to the place where the answer is typed.
pub(crate) fn text(Question { names, of, first }: &Question) -> String {
    let shown: String = first.iter().map(|path| format!("  {path}\n")).collect();
    let more = if (first.len() as u64) < *names { "  ...\n" } else { "" };
    format!(
        "deltic: {names} of {of} names at the destination would be removed:\n{shown}{more}Remove these names? [y/N] "
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use deltic_tree::RelPath;

    #[test]
    fn only_a_yes_is_a_yes() {
        for (line, yes) in [
            ("y\n", true),
            (" Yes \r\n", true),
            ("y", true),
            ("", false),
            ("\n", false),
            ("n\n", false),
            ("yellow\n", false),
        ] {
            assert_eq!(is_yes(line.as_bytes()), yes, "{line:?}");
        }
    }

    #[test]
    fn a_question_says_how_many_and_shows_the_first() {
        let path = |text: &[u8]| RelPath::parse(text).unwrap();
        let question =
            |names| Question { names, of: 1300, first: vec![path(b"a\x1b"), path(b"b")] };
        assert_eq!(
            text(&question(2)),
            format!(
                "deltic: 2 of 1300 names at the destination would be removed:\n  {}\n  b\nRemove these names? [y/N] ",
                path(b"a\x1b")
            )
        );
        assert!(text(&question(1200)).contains("  b\n  ...\nRemove"));
        assert!(!text(&question(2)).contains('\x1b'));
    }
}
