//! Shell patterns over one name, as a remote shell would expand them: `*`, `?`, `[…]` and `\`.

/// True if `text` has a wildcard, so that it stands for names that are there.
#[must_use]
pub fn has_wildcards(text: &[u8]) -> bool {
    text.iter().any(|byte| matches!(byte, b'*' | b'?' | b'['))
}

/// True if `pattern` matches all of `name`. A wildcard in front does not match a dot in front; an unclosed `[` is
/// itself.
///
/// After a mismatch only the last `*` can help: whatever an earlier one might take, it can take as well.
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
                if let Some(behind) = take(rest, *byte) {
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

/// The rest of `pattern` behind the item that took `byte`; `None` where it does not take it.
fn take(pattern: &[u8], byte: u8) -> Option<&[u8]> {
    match pattern {
        [] => None,
        [b'?', rest @ ..] => Some(rest),
        [b'\\', escaped, rest @ ..] => (*escaped == byte).then_some(rest),
        [b'[', inner @ ..] => match set(inner, byte) {
            Some((taken, rest)) => taken.then_some(rest),
            None => (byte == b'[').then_some(inner),
        },
        [own, rest @ ..] => (*own == byte).then_some(rest),
    }
}

/// Looks for `byte` in the set that opened before `inner`: true if it is there, and what follows; `None` if it is not
/// closed.
fn set(inner: &[u8], byte: u8) -> Option<(bool, &[u8])> {
    let (except, mut rest) = match inner {
        [b'!' | b'^', rest @ ..] => (true, rest),
        _ => (false, inner),
    };
    let (mut has, mut first) = (false, true);
    loop {
        // A `]` in first place stands for itself.
        if let ([b']', after @ ..], false) = (rest, first) {
            return Some((has != except, after));
        }
        first = false;
        let (low, after) = member(rest)?;
        let (high, after) = match after {
            [b'-', to @ ..] if !to.starts_with(b"]") => member(to)?,
            _ => (low, after),
        };
        has |= (low..=high).contains(&byte);
        rest = after;
    }
}

fn member(text: &[u8]) -> Option<(u8, &[u8])> {
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
    fn many_stars_take_no_longer_than_the_names_allow() {
        let (pattern, name) = ("*a".repeat(100), "a".repeat(90) + &"b".repeat(160));
        assert!(!matches(pattern.as_bytes(), name.as_bytes()));
    }

    #[test]
    fn a_wildcard_is_seen() {
        assert!(has_wildcards(b"*.c") && has_wildcards(b"a?") && has_wildcards(b"[a]"));
        assert!(!has_wildcards(b"plain.c"));
    }
}
