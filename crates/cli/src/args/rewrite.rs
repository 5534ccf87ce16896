//! Rewrites command lines before clap parses them: rsync's forms become Deltic's.

use std::ffi::OsString;
use std::io::{IsTerminal, stdin, stdout};
use std::os::unix::ffi::OsStrExt;

use crate::words::is_rsync;

/// Rewrites the command line for clap. A program called `rsync` becomes `deltic sync`, or the agent.
pub(super) fn normalized(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut words = without_empty(words);
    if words.first().is_some_and(|name| is_rsync(name)) {
        let far = is_started_as_agent(&words) && !stdin().is_terminal() && !stdout().is_terminal();
        words[0] = "deltic".into();
        if !far {
            words.insert(1, "sync".into());
        }
    }
    if words.get(1).is_some_and(|word| word == "help") {
        // `help sync` is `sync --help`.
        words.remove(1);
        words.push("--help".into());
    }
    if let [_, first, second] = &words[..]
        && [first, second].map(|word| word.to_str().unwrap_or_default()).iter().all(is_version)
        && first != second
    {
        // `--version -v` also shows the build.
        words.insert(1, "sync".into());
    }
    words
}

/// True if an argument asks for the version or for more details.
fn is_version(word: &&str) -> bool {
    ["--version", "-V", "-v", "--verbose"].contains(word)
}

/// True if another `deltic` starts its agent with these arguments.
fn is_started_as_agent(words: &[OsString]) -> bool {
    let is_option = |word: &OsString| word.as_bytes().starts_with(b"--");
    matches!(words, [_, first, rest @ ..] if first == "agent" && rest.iter().all(is_option))
}

/// Removes options with an empty value that rsync treats as not given. Scripts pass such options from unset
/// variables.
fn without_empty(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let (mut kept, mut words) = (Vec::new(), words.peekable());
    while let Some(word) = words.next() {
        if word == "--" {
            kept.push(word);
            kept.extend(words);
            break;
        }
        let text = word.to_str().unwrap_or_default();
        let name = text.strip_suffix('=');
        let is_empty = name.is_some() || words.peek().is_some_and(|value| value.is_empty());
        let is = |options: &[&str]| is_empty && options.contains(&name.unwrap_or(text));
        let zero = is(EMPTY_IS_ZERO).then(|| format!("{}=0", name.unwrap_or(text)));
        let is_shell = is_empty && name.is_none() && flags_before_shell(text).is_some();
        if zero.is_none() && !is_shell && !is(EMPTY_IS_UNSET) {
            kept.push(word);
            continue;
        }
        if name.is_none() {
            words.next();
        }
        kept.extend(flags_before_shell(text).map(OsString::from));
        kept.extend(zero.map(OsString::from));
    }
    kept
}

/// Returns the flags before the `e` in an argument such as `-ve`.
fn flags_before_shell(word: &str) -> Option<&str> {
    let flags = word.strip_suffix('e').filter(|flags| flags.len() > 1)?;
    let letters = flags.strip_prefix('-')?;
    // After one of these letters, the rest is a value; a second hyphen starts a long option.
    (!letters.contains(['-', 'B', 'M', 'T', 'e', 'f', '@'])).then_some(flags)
}

/// Options that are ignored if their value is empty.
const EMPTY_IS_UNSET: &[&str] = &[
    "--link-dest",
    "--compare-dest",
    "--copy-dest",
    "--partial-dir",
    "--log-file",
    "--compress-level",
    "--zl",
    "--compress-threads",
    "--zt",
    "--modify-window",
    "-@",
    "--port",
    "--checksum-seed",
    "--exclude-from",
    "--include-from",
    "--rsh",
    "-e",
];

/// Options with an empty value that means 0.
const EMPTY_IS_ZERO: &[&str] = &[
    "--bwlimit",
    "--timeout",
    "--contimeout",
    "--block-size",
    "-B",
    "--max-delete",
    "--max-size",
    "--min-size",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Command, parse};
    use crate::words::rate::Bandwidth;

    #[test]
    fn the_far_end_is_known_by_its_words() {
        for (words, far) in [
            ("rsync agent", true),
            ("rsync agent --bwlimit=1 --join", true),
            ("rsync agent -a", false),
            ("rsync agent b", false),
            ("rsync ./agent", false),
        ] {
            let words: Vec<_> = words.split(' ').map(OsString::from).collect();
            assert_eq!(is_started_as_agent(&words), far, "{words:?}");
        }
    }

    #[test]
    fn what_is_empty_is_not_given() {
        let words = "--link-dest= --link-dest '' --bwlimit 5 --bwlimit= --timeout '' -- --port= b";
        let words = shlex::split(&format!("deltic sync {words}")).unwrap();
        let Command::Sync(args) = parse(words.into_iter().map(Into::into)).unwrap().command else {
            unreachable!("the words say sync")
        };
        assert_eq!(args.operands, ["--port=", "b"]);
        assert_eq!(
            (Bandwidth::limits(args.travel.bwlimit.as_ref()).table, args.travel.timeout),
            (None, 0)
        );
        for words in ["--files-from '' a b", "--stop-after= a b", "--max-alloc 1 '' b"] {
            assert_eq!(
                without_empty(shlex::split(words).unwrap().into_iter().map(Into::into)).len(),
                shlex::split(words).unwrap().len(),
                "{words}"
            );
        }
    }
}
