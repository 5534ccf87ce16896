//! One pattern: where it is tied to the path, and its wildcards.

/// A compiled pattern.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    tokens: Vec<Token>,
    tie: Tie,
    dirs_only: bool,
    /// Ends in `***`: matches a directory `d` also as `d/`.
    dir_or_below: bool,
}

/// From where in the path a pattern has to match up to its end.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Tie {
    /// From the transfer's root: a leading slash.
    Root,
    /// The path's last names, as many as the pattern has.
    Tail(usize),
    /// From any name on: `**` is in it, but not in front.
    AnyName,
    /// From the root as if a slash came before it: `**` is in front.
    SlashedRoot,
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Byte(u8),
    /// `?`: any byte but a slash.
    One,
    /// `*`: any bytes but slashes.
    Many,
    /// `**`: any bytes.
    All,
    /// `[…]`: never a slash.
    Set {
        except: bool,
        items: Vec<Range>,
    },
    /// An unclosed `[`: matches nothing.
    Never,
}

/// Bytes from the first to the second, both included.
type Range = (u8, u8);

impl Pattern {
    pub(super) fn new(text: &[u8]) -> Self {
        let (text, dirs_only) = match text {
            [rest @ .., b'/'] if !rest.is_empty() => (rest, true),
            _ => (text, false),
        };
        let wild = text.iter().any(|b| matches!(b, b'*' | b'?' | b'['));
        let crosses = text.windows(2).any(|pair| pair == b"**");
        let (body, tie) = match text {
            [b'/', body @ ..] => (body, Tie::Root),
            [b'*', b'*', ..] => (text, Tie::SlashedRoot),
            _ if crosses => (text, Tie::AnyName),
            _ => (text, Tie::Tail(1 + text.iter().filter(|b| **b == b'/').count())),
        };
        let tokens =
            if wild { tokens(body) } else { body.iter().copied().map(Token::Byte).collect() };
        Self { tokens, tie, dirs_only, dir_or_below: text.ends_with(b"***") }
    }

    pub(super) fn matches(&self, path: &[u8], is_dir: bool) -> bool {
        if self.dirs_only && !is_dir {
            return false;
        }
        let slashed = match (self.tie == Tie::SlashedRoot, self.dir_or_below && is_dir) {
            (false, false) => return self.matches_text(path),
            (true, false) => [b"/", path].concat(),
            (false, true) => [path, b"/"].concat(),
            (true, true) => [b"/", path, b"/"].concat(),
        };
        self.matches_text(&slashed)
    }

    fn matches_text(&self, text: &[u8]) -> bool {
        let mut starts = (0..text.len()).filter(|at| *at == 0 || text[at - 1] == b'/');
        match self.tie {
            Tie::Root | Tie::SlashedRoot => matches(&self.tokens, text),
            Tie::Tail(names) => {
                starts.nth_back(names - 1).is_some_and(|at| matches(&self.tokens, &text[at..]))
            }
            Tie::AnyName => starts.any(|at| matches(&self.tokens, &text[at..])),
        }
    }
}

/// Whether `tokens` match all of `text`.
///
/// After a mismatch only the last wildcard can help: what stands before it is matched as early as can be, and it may
/// take any byte more that an earlier one might have taken. Past a slash that is the last `**`, before one the last `*`.
fn matches(tokens: &[Token], text: &[u8]) -> bool {
    let (mut token, mut at) = (0, 0);
    let (mut many, mut all) = (None, None);
    loop {
        match tokens.get(token) {
            Some(Token::All) => {
                (many, all) = (None, Some((token, at)));
                token += 1;
                continue;
            }
            Some(Token::Many) => {
                many = Some((token, at));
                token += 1;
                continue;
            }
            Some(one) if text.get(at).is_some_and(|byte| one.takes(*byte)) => {
                (token, at) = (token + 1, at + 1);
                continue;
            }
            None if at == text.len() => return true,
            _ => {}
        }
        many = many.filter(|(_, from)| text.get(*from).is_some_and(|byte| *byte != b'/'));
        all = all.filter(|(_, from)| *from < text.len());
        let Some((last, from)) = many.as_mut().or(all.as_mut()) else { return false };
        *from += 1;
        (token, at) = (*last + 1, *from);
    }
}

impl Token {
    /// Whether this single-byte token takes `byte`.
    fn takes(&self, byte: u8) -> bool {
        match self {
            Self::Byte(own) => *own == byte,
            Self::One => byte != b'/',
            Self::Set { except, items } => {
                byte != b'/'
                    && *except != items.iter().any(|(low, high)| (*low..=*high).contains(&byte))
            }
            Self::Many | Self::All | Self::Never => false,
        }
    }
}

fn tokens(mut text: &[u8]) -> Vec<Token> {
    let mut tokens = Vec::new();
    while let [first, rest @ ..] = text {
        let (token, rest) = match (*first, rest) {
            (b'*', [b'*', ..]) => {
                (Token::All, &rest[rest.iter().take_while(|b| **b == b'*').count()..])
            }
            (b'*', _) => (Token::Many, rest),
            (b'?', _) => (Token::One, rest),
            (b'[', _) => set(rest).unwrap_or((Token::Never, rest)),
            (b'\\', [escaped, rest @ ..]) => (Token::Byte(*escaped), rest),
            (byte, _) => (Token::Byte(byte), rest),
        };
        tokens.push(token);
        text = rest;
    }
    tokens
}

/// The set that opened before `text`, and what follows its `]`.
fn set(text: &[u8]) -> Option<(Token, &[u8])> {
    let (except, mut text) = match text {
        [b'!' | b'^', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    let mut items = Vec::new();
    // A `]` in first place stands for itself.
    while items.is_empty() || !text.starts_with(b"]") {
        if let Some((class, rest)) = class(text) {
            items.extend_from_slice(class);
            text = rest;
            continue;
        }
        let (low, rest) = member(text)?;
        let (high, rest) = match rest {
            [b'-', after @ ..] if !after.starts_with(b"]") => member(after)?,
            _ => (low, rest),
        };
        items.push((low, high));
        text = rest;
    }
    Some((Token::Set { except, items }, &text[1..]))
}

fn member(text: &[u8]) -> Option<(u8, &[u8])> {
    match text {
        [b'\\', byte, rest @ ..] | [byte, rest @ ..] => Some((*byte, rest)),
        [] => None,
    }
}

/// A class such as `[:digit:]` at the front of `text`, and what follows.
fn class(text: &[u8]) -> Option<(&'static [Range], &[u8])> {
    CLASSES.iter().find_map(|(name, items)| {
        let rest = text.strip_prefix(b"[:")?.strip_prefix(name.as_bytes())?.strip_prefix(b":]")?;
        Some((*items, rest))
    })
}

/// The POSIX classes in the C locale.
const CLASSES: [(&str, &[Range]); 12] = [
    ("alnum", &[(b'0', b'9'), (b'A', b'Z'), (b'a', b'z')]),
    ("alpha", &[(b'A', b'Z'), (b'a', b'z')]),
    ("blank", &[(b' ', b' '), (b'\t', b'\t')]),
    ("cntrl", &[(0, 31), (127, 127)]),
    ("digit", &[(b'0', b'9')]),
    ("graph", &[(33, 126)]),
    ("lower", &[(b'a', b'z')]),
    ("print", &[(32, 126)]),
    ("punct", &[(33, 47), (58, 64), (91, 96), (123, 126)]),
    ("space", &[(9, 13), (b' ', b' ')]),
    ("upper", &[(b'A', b'Z')]),
    ("xdigit", &[(b'0', b'9'), (b'A', b'F'), (b'a', b'f')]),
];
