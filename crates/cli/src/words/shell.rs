//! Remote paths as old scripts write them (`--old-args`): shell words that rsync left to the remote shell.
//!
//! Deltic runs no shell. Blanks and quotes are read as in a shell, the far end expands wildcards, other shell syntax
//! is refused.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::str::FromStr;

use anyhow::{Result, bail};
use deltic_tree::path::printable;

use super::refused::Unsupported;

/// A byte of a word, and true if quoted.
type Quotable = (u8, bool);

/// A word in the making.
#[derive(Default)]
struct ShellWord {
    bytes: Vec<Quotable>,
    /// True if quotes come before the first unquoted slash, even around an empty text.
    quotes_tilde: bool,
}

/// Splits `path` into words; wildcards are left to the far end.
///
/// # Errors
/// [`Unsupported`] for syntax that a shell would run or expand.
pub(crate) fn split(path: &OsStr) -> Result<Vec<OsString>> {
    let (mut words, mut word): (Vec<OsString>, Option<ShellWord>) = (Vec::new(), None);
    let mut quote = None;
    let mut rest = path.as_bytes().iter().copied();
    let refuse = || bail!(Unsupported::new(format!("--old-args '{}'", show(path)), NO_SHELL));
    while let Some(byte) = rest.next() {
        let is_escape = byte == b'\\' && quote != Some(b'\'');
        let is_for_shell = match quote {
            Some(b'\'') => false,
            Some(_) => b"$`".contains(&byte),
            None => b"$`;&|<>(){}\n".contains(&byte) || byte == b'#' && word.is_none(),
        };
        match (byte, quote) {
            _ if is_for_shell => return refuse(),
            _ if is_escape => {
                let Some(next) = rest.next() else { return refuse() };
                let ShellWord { bytes, .. } = word.get_or_insert_default().quoting();
                // A backslash in double quotes is literal unless before one of these bytes.
                if quote.is_some() && !b"$`\"\\".contains(&next) {
                    bytes.push((byte, true));
                }
                bytes.push((next, true));
            }
            (_, Some(open)) if byte == open => quote = None,
            (b'"' | b'\'', None) => {
                word.get_or_insert_default().quoting();
                quote = Some(byte);
            }
            (b' ' | b'\t', None) => words.extend(word.take().map(ShellWord::finish)),
            _ => word.get_or_insert_default().bytes.push((byte, quote.is_some())),
        }
    }
    if quote.is_some() {
        return refuse();
    }
    words.extend(word.map(ShellWord::finish));
    Ok(words)
}

/// Splits `path`, a destination, into exactly one word without wildcards.
///
/// # Errors
/// [`Unsupported`] for shell syntax, wildcards or an empty path. Another error for more than one word.
pub(crate) fn only(path: &OsStr) -> Result<OsString> {
    let mut words = split(path)?;
    match (words.pop(), &words[..]) {
        (Some(word), []) if !deltic_tree::glob::has_wildcards(word.as_bytes()) => Ok(word),
        (_, []) => bail!(Unsupported::new(format!("--old-args '{}'", show(path)), NO_SHELL)),
        _ => bail!("--old-args: '{}' is more than one destination", show(path)),
    }
}

impl ShellWord {
    /// Notes that a quoted part starts here.
    fn quoting(&mut self) -> &mut Self {
        self.quotes_tilde |= !self.bytes.contains(&(b'/', false));
        self
    }

    /// Returns the word for the far end. In a pattern, quoted wildcards and backslashes get a backslash.
    fn finish(self) -> OsString {
        let Self { bytes, quotes_tilde } = self;
        let is_pattern = bytes.iter().any(|(byte, _)| b"*?[".contains(byte));
        // A `~` with quotes in its first component is no home directory.
        let is_name = quotes_tilde && bytes.first().is_some_and(|(byte, _)| *byte == b'~');
        let here: &[u8] = if is_name { b"./" } else { b"" };
        let of = |(byte, quoted): Quotable| {
            let stands_for_itself = is_pattern && quoted && b"*?[]\\".contains(&byte);
            stands_for_itself.then_some(b'\\').into_iter().chain([byte])
        };
        OsString::from_vec(here.iter().copied().chain(bytes.into_iter().flat_map(of)).collect())
    }
}

/// Quotes `word` for a shell.
pub(crate) fn quoted(word: &OsStr) -> Vec<u8> {
    let inner: Vec<_> = word.as_bytes().split(|byte| *byte == b'\'').collect();
    [b"'", &inner.join(&b"'\\''"[..])[..], b"'"].concat()
}

fn show(path: &OsStr) -> String {
    printable(path.as_bytes())
}

/// A command, split as a shell splits words; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShellWords(pub(crate) Vec<OsString>);

impl FromStr for ShellWords {
    type Err = &'static str;

    fn from_str(command: &str) -> Result<Self, Self::Err> {
        let words = shlex::split(command).ok_or("a quote is not closed")?;
        if words.is_empty() {
            return Err("no command");
        }
        Ok(Self(words.into_iter().map(OsString::from).collect()))
    }
}

const NO_SHELL: &str =
    "no shell is run on paths: write each path as an argument, without --old-args";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_are_kept_from_the_shell() {
        assert_eq!(quoted(OsStr::new("it's")), br"'it'\''s'");
    }

    #[test]
    fn words_are_those_of_a_shell() {
        for (path, wanted) in [
            ("docs media", &["docs", "media"][..]),
            ("  a\t b  ", &["a", "b"]),
            (r#"my\ file 'and this' "or this""#, &["my file", "and this", "or this"]),
            ("do*s me'd ia'", &["do*s", "med ia"]),
            (r"a\*b", &[r"a\*b"]),
            (r"'*'x? y", &[r"\*x?", "y"]),
            (r"a\\b", &[r"a\b"]),
            ("''", &[""]),
            (r"~/a '~/a' \~ a~", &["~/a", "./~/a", "./~", "a~"]),
            (r#"~'/a' ~"/a" ~\/a ""~/a ~''/a"#, &["./~/a"; 5]),
            ("''~ ~''", &["./~"; 2]),
            (
                r"~'root'/a ~\root/a ~root/a ~/'a' ''a/~",
                &["./~root/a", "./~root/a", "~root/a", "~/a", "a/~"],
            ),
            ("a#b 'c$d'", &["a#b", "c$d"]),
            ("", &[]),
        ] {
            assert_eq!(split(OsStr::new(path)).unwrap(), wanted, "{path}");
        }
        for path in ["$HOME/x", "`ls`", "a;b", "a {b,c}", "a > b", "\"$x\"", "'a", "a\\", "#a"] {
            let refused = split(OsStr::new(path)).unwrap_err();
            assert!(refused.is::<Unsupported>(), "{path}");
        }
        assert_eq!(only(OsStr::new("'my dir'")).unwrap(), "my dir");
        assert!(["a b", "a*", ""].iter().all(|path| only(OsStr::new(path)).is_err()));
    }
}
