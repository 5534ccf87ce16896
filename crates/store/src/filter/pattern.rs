//! Patterns: wildcards, and the part of a path that a pattern must match.

/// A compiled pattern.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    body: Body,
    tie: Tie,
    dirs_only: bool,
    /// True for a pattern that ends in `***`: a directory `d` is also matched as `d/`.
    dir_or_below: bool,
}

/// Compiled text of a pattern.
#[derive(Clone, Debug)]
enum Body {
    /// Exactly these bytes.
    Literal(Box<[u8]>),
    Wild {
        tokens: Box<[Token]>,
        /// Literal bytes at the end of the tokens. Comparing these first rejects most names.
        tail: Box<[u8]>,
    },
}

/// Start of the part of a path that a pattern must match. The part ends at the end of the path.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Tie {
    /// The anchor directory of the pattern, for a pattern with a leading slash.
    Anchor,
    /// The last name.
    Name,
    /// The last names of the path, as many names as the pattern has.
    Tail(usize),
    /// The start of any name, for a pattern with `**` that does not start with `**`.
    AnyName,
    /// The slash before [`Text::top`], for a pattern that starts with `**`.
    SlashedTop,
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Byte(u8),
    /// `?`: any byte except a slash.
    One,
    /// `*`: any bytes except slashes.
    Many,
    /// `**`: any bytes.
    All,
    /// `**/` of git: no bytes, or any bytes that end in a slash.
    Dirs,
    /// `[…]`: a set of bytes that never matches a slash.
    Set {
        except: bool,
        items: Vec<Range>,
    },
    /// An unclosed `[`, which matches nothing.
    Never,
}

/// First and last byte of a range, both included.
type Range = (u8, u8);

/// A path as seen by patterns: absolute, with a slash before and after.
#[derive(Clone, Copy, Debug)]
pub(super) struct Text<'a> {
    pub(super) slashed: &'a [u8],
    pub(super) is_dir: bool,
    /// Offset of the first byte visible to patterns without an anchor, usually the start of the path below the root.
    pub(super) top: usize,
    /// Offset at which patterns with an anchor start.
    pub(super) anchor: usize,
}

impl Pattern {
    /// Compiles a pattern of rsync.
    pub(super) fn new(text: &[u8]) -> Self {
        let (text, dirs_only) = match text {
            [rest @ .., b'/'] if !rest.is_empty() => (rest, true),
            _ => (text, false),
        };
        let wild = text.iter().any(|b| matches!(b, b'*' | b'?' | b'['));
        let crosses = text.windows(2).any(|pair| pair == b"**");
        let slashes = text.iter().filter(|byte| **byte == b'/').count();
        let (body, tie) = match text {
            [b'/', body @ ..] => (body, Tie::Anchor),
            [b'*', b'*', ..] => (text, Tie::SlashedTop),
            _ if crosses => (text, Tie::AnyName),
            _ if slashes == 0 => (text, Tie::Name),
            _ => (text, Tie::Tail(1 + slashes)),
        };
        let body =
            if wild { Body::wild(tokens(body, Stars::Rsync)) } else { Body::Literal(body.into()) };
        Self { body, tie, dirs_only, dir_or_below: text.ends_with(b"***") }
    }

    /// Compiles a pattern of a `.gitignore` file. `text` lacks the `!` of a negated pattern.
    pub(super) fn of_git(text: &[u8]) -> Self {
        let (text, dirs_only) = match text {
            [rest @ .., b'/'] => (rest, true),
            _ => (text, false),
        };
        let tie = if text.contains(&b'/') { Tie::Anchor } else { Tie::Name };
        let body = Body::wild(tokens(text.strip_prefix(b"/").unwrap_or(text), Stars::Git));
        Self { body, tie, dirs_only, dir_or_below: false }
    }

    /// True if the modifier `/`, which matches a pattern against the absolute path, has an effect on this pattern.
    pub(super) fn looks_at_paths(&self) -> bool {
        self.tie != Tie::Name
    }

    pub(super) fn matches(&self, text: &Text<'_>) -> bool {
        if self.dirs_only && !text.is_dir {
            return false;
        }
        let Text { slashed, top, anchor, .. } = *text;
        let end = slashed.len() - 1;
        let path = &slashed[..end];
        let ending = if self.dir_or_below && text.is_dir { slashed } else { path };
        let starts = |from: usize| (from..end).filter(|at| slashed[at - 1] == b'/');
        match self.tie {
            Tie::Anchor => self.body.matches(&ending[anchor..]),
            Tie::Name => self.body.matches(&path[starts(top).next_back().unwrap_or(top)..]),
            Tie::SlashedTop => self.body.matches(&ending[top - 1..]),
            Tie::Tail(names) => {
                starts(top).nth_back(names - 1).is_some_and(|at| self.body.matches(&path[at..]))
            }
            Tie::AnyName => starts(top).any(|at| self.body.matches(&ending[at..])),
        }
    }
}

impl Body {
    fn wild(tokens: Vec<Token>) -> Self {
        let byte = |token: &Token| if let Token::Byte(byte) = token { Some(*byte) } else { None };
        let mut tail: Vec<u8> = tokens.iter().rev().map_while(byte).collect();
        tail.reverse();
        if tail.len() == tokens.len() {
            return Self::Literal(tail.into());
        }
        Self::Wild { tokens: tokens.into(), tail: tail.into() }
    }

    fn matches(&self, text: &[u8]) -> bool {
        match self {
            Self::Literal(own) => **own == *text,
            Self::Wild { tokens, tail } => text.ends_with(tail) && matches(tokens, text),
        }
    }
}

/// True if `tokens` match all of `text`.
///
/// After a mismatch, only the last wildcard is extended. The tokens before the last wildcard match as early as
/// possible, and the last wildcard can take any byte that an earlier wildcard could take. Up to the next slash, the
/// last wildcard is the last `*`; to pass a slash, the last `**`.
fn matches(tokens: &[Token], text: &[u8]) -> bool {
    let (mut token, mut at) = (0, 0);
    let (mut many, mut all) = (None, None);
    loop {
        match tokens.get(token) {
            Some(Token::All | Token::Dirs) => {
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
        *from += match tokens[*last] {
            Token::Dirs => match text[*from..].iter().position(|byte| *byte == b'/') {
                Some(slash) => slash + 1,
                None => return false,
            },
            _ => 1,
        };
        (token, at) = (*last + 1, *from);
    }
}

impl Token {
    /// True if this single-byte token takes `byte`.
    fn takes(&self, byte: u8) -> bool {
        match self {
            Self::Byte(own) => *own == byte,
            Self::One => byte != b'/',
            Self::Set { except, items } => {
                byte != b'/'
                    && *except != items.iter().any(|(low, high)| (*low..=*high).contains(&byte))
            }
            Self::Many | Self::All | Self::Dirs | Self::Never => false,
        }
    }
}

/// Meaning of two stars in a row.
#[derive(Clone, Copy, PartialEq)]
enum Stars {
    /// Any bytes, wherever the stars are.
    Rsync,
    /// Directories if the stars are a whole name, otherwise the same as a single star.
    Git,
}

fn tokens(mut text: &[u8], stars: Stars) -> Vec<Token> {
    let mut tokens = Vec::new();
    while let [first, rest @ ..] = text {
        let (token, rest) = match (*first, rest) {
            (b'*', [b'*', ..]) => {
                let rest = &rest[rest.iter().take_while(|b| **b == b'*').count()..];
                match (stars, rest) {
                    (Stars::Rsync, _) => (Token::All, rest),
                    (_, [] | [b'/', ..])
                        if !matches!(
                            tokens.last(),
                            None | Some(Token::Byte(b'/') | Token::Dirs)
                        ) =>
                    {
                        (Token::Many, rest)
                    }
                    (_, []) => (Token::All, rest),
                    (_, [b'/', rest @ ..]) => (Token::Dirs, rest),
                    _ => (Token::Many, rest),
                }
            }
            (b'*', _) => (Token::Many, rest),
            (b'?', _) => (Token::One, rest),
            (b'[', _) => set(rest).unwrap_or((Token::Never, rest)),
            (b'\\', [escaped, rest @ ..]) => (Token::Byte(*escaped), rest),
            (b'\\', []) if stars == Stars::Git => (Token::Never, rest),
            (byte, _) => (Token::Byte(byte), rest),
        };
        tokens.push(token);
        text = rest;
    }
    tokens
}

/// Parses a set after its opening `[`. Returns the set and the bytes after the `]`.
fn set(text: &[u8]) -> Option<(Token, &[u8])> {
    let (except, mut text) = match text {
        [b'!' | b'^', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    let mut items = Vec::new();
    // A `]` as first member stands for itself.
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

/// Parses a class such as `[:digit:]` at the start of `text`. Returns the class and the bytes after it.
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
