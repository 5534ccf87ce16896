//! Patterns of a `.gitignore` file (`man gitignore`). The last pattern that matches decides.

use deltic_tree::rule::{Action, RuleModifiers};

use super::pattern::Pattern;
use super::{Compiled, Node};

/// Compiles the patterns of a file. The last pattern comes first, so the first match decides.
pub(super) fn nodes(bytes: &[u8], marks: RuleModifiers) -> Vec<Node> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let patterns = bytes.split(|byte| *byte == b'\n').rev();
    patterns.filter_map(|line| compile(line, marks)).map(Node::Rule).collect()
}

fn compile(line: &[u8], marks: RuleModifiers) -> Option<Compiled> {
    let line = without_trailing_spaces(line.strip_suffix(b"\r").unwrap_or(line));
    let (action, pattern) = match line {
        [] | [b'#', ..] => return None,
        [b'!', pattern @ ..] => (Action::Include, pattern),
        pattern => (Action::Exclude, pattern),
    };
    // An empty pattern matches no name.
    (!matches!(pattern, [] | [b'/'])).then(|| Compiled {
        action,
        negated: false,
        absolute: false,
        perishable: marks.perishable,
        xattr: false,
        pattern: Pattern::of_git(pattern),
    })
}

/// Removes spaces at the end of a line, except a space after a backslash.
fn without_trailing_spaces(line: &[u8]) -> &[u8] {
    let mut end = 0;
    let mut at = 0;
    while let Some(byte) = line.get(at) {
        at += if *byte == b'\\' { 2 } else { 1 };
        if *byte != b' ' {
            end = at.min(line.len());
        }
    }
    &line[..end]
}
