//! Rules of `--usermap` and `--groupmap` for owners of new entries.

use std::ops::RangeInclusive;

/// List of `FROM:TO` pairs. The first pair with a matching FROM decides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdRules {
    text: String,
    rules: Vec<(IdSource, IdTarget)>,
}

/// Error of [`IdRules::parse`], with the invalid pair.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a pair FROM:TO of names or numbers")]
pub struct BadIdRules(String);

/// The source (FROM) of a pair: users or groups at the sender.
#[derive(Clone, Debug, PartialEq, Eq)]
enum IdSource {
    /// A range of ids.
    Ids(RangeInclusive<u32>),
    /// A glob for names. Ids without a name have the empty name.
    Names(Box<[u8]>),
}

/// The target (TO) of a pair: a user or group at the receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdTarget {
    /// An id.
    Id(u32),
    /// A name at the receiver.
    Name(String),
}

impl IdRules {
    /// Parses comma-separated pairs. The empty text has no rules.
    ///
    /// # Errors
    /// [`BadIdRules`] with the first invalid pair.
    pub fn parse(text: &str) -> Result<Self, BadIdRules> {
        let pairs = text.split(',').filter(|_| !text.is_empty());
        let rule = |pair: &str| rule(pair).ok_or_else(|| BadIdRules(pair.into()));
        let rules = pairs.map(rule).collect::<Result<_, _>>()?;
        Ok(Self { text: text.into(), rules })
    }

    /// Returns the text given to [`parse`](Self::parse).
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// True if the list has no rules.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Iterates over the targets (TO) of all pairs, in order.
    pub fn targets(&self) -> impl Iterator<Item = &IdTarget> {
        self.rules.iter().map(|(_, to)| to)
    }

    /// Returns the target (TO) for a user or group of the sender. `name` is empty if the id has no name. Returns `None`
    /// if no pair matches.
    #[must_use]
    pub fn target(&self, id: u32, name: &[u8]) -> Option<&IdTarget> {
        let fits = |(from, _): &&(IdSource, IdTarget)| match from {
            IdSource::Ids(ids) => ids.contains(&id),
            IdSource::Names(pattern) => matches(pattern, name),
        };
        self.rules.iter().find(fits).map(|(_, to)| to)
    }
}

fn rule(pair: &str) -> Option<(IdSource, IdTarget)> {
    let (from, to) = pair.split_once(':')?;
    let number = |digits: &str| {
        let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        is_number.then(|| digits.parse().ok()).flatten()
    };
    let from = if from.starts_with(|c: char| c.is_ascii_digit()) {
        let (low, high) = from.split_once('-').unwrap_or((from, from));
        IdSource::Ids(number(low)?..=number(high)?)
    } else {
        IdSource::Names(from.as_bytes().into())
    };
    let to = if to.bytes().all(|b| b.is_ascii_digit()) {
        IdTarget::Id(number(to)?)
    } else {
        IdTarget::Name(to.to_owned())
    };
    Some((from, to))
}

/// Matches `name` against a glob: `*` for any bytes, `?` for one byte, `[a-z]` and `[!a-z]` for one byte of a set, `\`
/// for a literal byte. Takes at most `pattern.len() * name.len()` steps.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut rest, mut left) = (pattern, name);
    // The pattern after the last `*`, and the part of the name that this `*` has not matched.
    let mut back: Option<(&[u8], &[u8])> = None;
    loop {
        if let [b'*', after @ ..] = rest {
            (back, rest) = (Some((after, left)), after);
            continue;
        }
        match (match_one(rest, left.first().copied()), left) {
            (Some(after), [_, less @ ..]) => (rest, left) = (after, less),
            _ if rest.is_empty() && left.is_empty() => return true,
            _ => {
                let Some((after, [_, less @ ..])) = back else { return false };
                (back, rest, left) = (Some((after, less)), after, less);
            }
        }
    }
}

/// Matches the first item of a pattern against `byte`. Returns the rest of the pattern, or `None` on a mismatch.
fn match_one(pattern: &[u8], byte: Option<u8>) -> Option<&[u8]> {
    let byte = byte?;
    match pattern {
        [b'?', rest @ ..] => Some(rest),
        [b'\\', literal, rest @ ..] => (*literal == byte).then_some(rest),
        [b'[', set @ ..] => {
            // The first byte of a set is a member even if it is `]`.
            let negated = matches!(set, [b'!' | b'^', ..]);
            let set = &set[usize::from(negated)..];
            let end = 1 + set.iter().skip(1).position(|b| *b == b']')?;
            (in_set(&set[..end], byte) != negated).then_some(&set[end + 1..])
        }
        [literal, rest @ ..] => (*literal == byte).then_some(rest),
        [] => None,
    }
}

fn in_set(mut set: &[u8], byte: u8) -> bool {
    loop {
        set = match set {
            [low, b'-', high, rest @ ..] => {
                if (*low..=*high).contains(&byte) {
                    return true;
                }
                rest
            }
            [single, rest @ ..] => {
                if *single == byte {
                    return true;
                }
                rest
            }
            [] => return false,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(rules: &str, id: u32, name: &str) -> Option<String> {
        let rules = IdRules::parse(rules).unwrap();
        rules.target(id, name.as_bytes()).map(|to| match to {
            IdTarget::Id(id) => id.to_string(),
            IdTarget::Name(name) => name.clone(),
        })
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        let rules = "0-99:nobody,wayne:admin,1000:7,:9,w*:web,*:normal";
        for (id, name, expected) in [
            (0, "root", "nobody"),
            (99, "", "nobody"),
            (100, "wayne", "admin"),
            (1000, "x", "7"),
            (1001, "", "9"),
            (1001, "www", "web"),
            (1001, "x", "normal"),
        ] {
            assert_eq!(target(rules, id, name).as_deref(), Some(expected), "{id} {name}");
        }
        assert_eq!(target("wayne:admin", 5, ""), None);
        assert_eq!(target("", 5, "x"), None);
        assert_eq!(target("*:7", 5, "").as_deref(), Some("7"));
    }

    #[test]
    fn globs_match_as_in_a_shell() {
        for (pattern, name, fits) in [
            ("*", "", true),
            ("?", "", false),
            ("a*c", "abbc", true),
            ("a*c", "abcd", false),
            ("a*b*c", "aXbXbc", true),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[]]", "]", true),
            ("[a", "[a", false),
            ("\\*", "*", true),
            ("\\*", "a", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), fits, "{pattern} {name}");
        }
    }

    #[test]
    fn a_bad_pair_is_refused() {
        for text in ["a", "a:", "1-:b", "1-2-3:b", "1x:b", "a:b,", "99999999999:b", "a:99999999999"]
        {
            assert!(IdRules::parse(text).is_err(), "{text}");
        }
    }
}
