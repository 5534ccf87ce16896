//! Shell patterns for one name, as a remote shell expands them: `*`, `?`, `[…]` and `\`.

/// True if `text` contains `*`, `?` or `[`.
#[must_use]
pub fn has_wildcards(text: &[u8]) -> bool {
    text.iter().any(|byte| matches!(byte, b'*' | b'?' | b'['))
}

/// True if `pattern` matches all of `name`. A leading wildcard does not match a leading dot. A `[` without `]` matches
/// itself.
///
/// After a mismatch, only the last `*` takes one more byte: the last `*` can match all bytes that an earlier `*` could.
#[must_use]
pub fn matches(pattern: &[u8], name: &[u8]) -> bool {
    if name.first() == Some(&b'.') && pattern.first().is_some_and(|byte| b"*?[".contains(byte)) {
        return false;
    }
    let (mut rest, mut left) = (pattern, name);
    let mut star: Option<(&[u8], &[u8])> = None;
    loop {
        match (rest, left) {
            ([b'*', after @ ..], _) => {
                star = Some((after, left));
                rest = after;
                continue;
            }
            ([], []) => return true,
            (_, [byte, after @ ..]) => {
                if let Some(behind) = match_item(rest, *byte) {
                    (rest, left) = (behind, after);
                    continue;
                }
            }
            (_, []) => return false,
        }
        let Some((after, [_, shorter @ ..])) = star else { return false };
        star = Some((after, shorter));
        (rest, left) = (after, shorter);
    }
}

/// Matches the first item of `pattern` against `byte`. Returns the rest of `pattern`, or `None` on a mismatch.
fn match_item(pattern: &[u8], byte: u8) -> Option<&[u8]> {
    match pattern {
        [] => None,
        [b'?', rest @ ..] => Some(rest),
        [b'\\', escaped, rest @ ..] => (*escaped == byte).then_some(rest),
        [b'[', inner @ ..] => match match_set(inner, byte) {
            Some((taken, rest)) => taken.then_some(rest),
            None => (byte == b'[').then_some(inner),
        },
        [own, rest @ ..] => (*own == byte).then_some(rest),
    }
}

/// Looks for `byte` in the bracket expression that opened before `inner`. Returns whether `byte` matches, and the
/// pattern after `]`. Returns `None` if `]` is missing.
fn match_set(inner: &[u8], byte: u8) -> Option<(bool, &[u8])> {
    let (except, mut rest) = match inner {
        [b'!' | b'^', rest @ ..] => (true, rest),
        _ => (false, inner),
    };
    let (mut has, mut first) = (false, true);
    loop {
        // A `]` in first place is a member of the set.
        if let ([b']', after @ ..], false) = (rest, first) {
            return Some((has != except, after));
        }
        first = false;
        let (low, after) = read_member(rest)?;
        let (high, after) = match after {
            [b'-', to @ ..] if !to.starts_with(b"]") => read_member(to)?,
            _ => (low, after),
        };
        has |= (low..=high).contains(&byte);
        rest = after;
    }
}

fn read_member(text: &[u8]) -> Option<(u8, &[u8])> {
    match text {
        [b'\\', byte, rest @ ..] | [byte, rest @ ..] => Some((*byte, rest)),
        [] => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_as_in_a_shell() {
        for (pattern, yes, no) in [
            ("*", &["a", "a.b"][..], &["", ".a"][..]),
            ("*.c", &["a.c", "b.c.c"], &["a.d", "c", ".c"]),
            (".*", &[".a", ".."], &["a"]),
            ("a?c", &["abc", "a?c"], &["ac", "abbc"]),
            ("[a-c]x", &["ax", "cx"], &["dx", "x"]),
            ("[!a-c]x", &["dx"], &["ax"]),
            ("[]x]", &["]", "x"], &["[", "a"]),
            ("a[b", &["a[b"], &["ab"]),
            (r"a\*", &["a*"], &["ab"]),
            ("*a*b*c", &["aabbcc", "abc"], &["acb", "ab"]),
        ] {
            let matches = |name: &&&str| super::matches(pattern.as_bytes(), name.as_bytes());
            assert!(yes.iter().all(|name| matches(&name)), "{pattern}");
            assert!(!no.iter().any(|name| !name.is_empty() && matches(&name)), "{pattern}");
        }
    }

    #[test]
    fn matching_many_stars_takes_polynomial_time() {
        let (pattern, name) = ("*a".repeat(100), "a".repeat(90) + &"b".repeat(160));
        assert!(!matches(pattern.as_bytes(), name.as_bytes()));
    }

    #[test]
    fn a_wildcard_is_found() {
        assert!(has_wildcards(b"*.c") && has_wildcards(b"a?") && has_wildcards(b"[a]"));
        assert!(!has_wildcards(b"plain.c"));
    }
}
