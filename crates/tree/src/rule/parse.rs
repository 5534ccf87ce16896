//! Parser of rsync's filter rules (`man rsync`, "FILTER RULES").

use super::{Action, DirMerge, FileSyntax, Modifiers, PatternRule, Rule, Sides, Syntax};
use crate::path::{MAX_PATH_BYTES, Name, printable};

/// A parsed line of a filter file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// A rule.
    Rule(Rule),
    /// Reads the rules of another file in place of this line (`.`).
    Merge {
        /// Path of the file.
        file: Box<[u8]>,
        /// Syntax of the file.
        reading: FileSyntax,
    },
    /// The default exclusions of `-C` in place of this line.
    CvsDefaults(Modifiers),
    /// Removes all rules before this line (`!`).
    Clear,
}

/// Terminator of lines in a rule file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LineEnd {
    /// A line feed or a carriage return.
    #[default]
    Line,
    /// A NUL (`--from0`).
    Nul,
}

/// Why a text is not a valid rule. Messages are safe to print.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRule {
    /// The text begins with no known rule name.
    #[error("unknown filter rule: '{0}'")]
    Unknown(String),
    /// A modifier that is unknown, or invalid for this kind of rule or beside an earlier modifier.
    #[error("invalid modifier '{modifier}' in filter rule: '{rule}'")]
    Modifier {
        /// The letter.
        modifier: String,
        /// Text of the rule.
        rule: String,
    },
    /// The pattern or file name is missing.
    #[error("unexpected end of filter rule: '{0}'")]
    Unfinished(String),
    /// The rule names a directory where a file is required.
    #[error("not the name of a file in filter rule: '{0}'")]
    NoFile(String),
    /// Text follows where the rule must end.
    #[error("nothing may follow in filter rule: '{0}'")]
    Trailing(String),
    /// The rule names a side, and so does the merge rule of its file.
    #[error("a rule names a side in a file that has one already: '{0}'")]
    Sided(String),
    /// The pattern or file name is longer than any path.
    #[error("a pattern or file name of more than {MAX_PATH_BYTES} bytes")]
    TooLong,
}

impl BadRule {
    /// Returns the error message without the text of the rule.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Unknown(_) => "unknown filter rule",
            Self::Modifier { .. } => "invalid modifier in filter rule",
            Self::Unfinished(_) => "unexpected end of filter rule",
            Self::NoFile(_) => "not the name of a file in filter rule",
            Self::Trailing(_) => "nothing may follow in filter rule",
            Self::Sided(_) => "a rule names a side in a file that has one already",
            Self::TooLong => "too long a pattern or file name",
        }
    }
}

/// An invalid line in a rule file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct BadLine {
    /// Line number, counted from 1.
    pub line: usize,
    /// Why the line is invalid.
    pub why: BadRule,
}

/// Parses one rule of `--filter`. Returns no line for an empty text, and two lines for a merge rule with the modifier
/// `e`.
///
/// # Errors
/// [`BadRule`] if the text is not a valid rule.
pub fn rule(text: &[u8]) -> Result<Vec<Line>, BadRule> {
    match text {
        b"" => Ok(Vec::new()),
        _ => one_rule(text, &FileSyntax::default()),
    }
}

/// Parses one pattern of `--exclude` or `--include`. The pattern may begin with `- ` or `+ `, or be `!`.
///
/// # Errors
/// [`BadRule`] if the text is not a valid pattern.
pub fn old_rule(text: &[u8], action: Action) -> Result<Option<Line>, BadRule> {
    let (action, pattern) = match text {
        b"" => return Ok(None),
        b"!" => return Ok(Some(Line::Clear)),
        [b'-', b' ', pattern @ ..] => (Action::Exclude, pattern),
        [b'+', b' ', pattern @ ..] => (Action::Include, pattern),
        pattern => (action, pattern),
    };
    match pattern.len() {
        0 => Err(BadRule::Unfinished(printable(text))),
        1..=MAX_PATH_BYTES => Ok(Some(Line::Rule(Rule::plain(action, pattern)))),
        _ => Err(BadRule::TooLong),
    }
}

/// Parses a file of patterns (`--exclude-from`, `--include-from`).
///
/// # Errors
/// [`BadLine`] with the first invalid line.
pub fn read_old(bytes: &[u8], action: Action, end: LineEnd) -> Result<Vec<Line>, BadLine> {
    let mut read = Vec::new();
    for (n, line) in lines(bytes, end) {
        if !is_comment(line) {
            read.extend(old_rule(line, action).map_err(|why| BadLine { line: n, why })?);
        }
    }
    Ok(read)
}

/// Parses a file of rules.
///
/// # Errors
/// [`BadLine`] with the first invalid line.
pub fn read(bytes: &[u8], reading: &FileSyntax, end: LineEnd) -> Result<Vec<Line>, BadLine> {
    let mut read = Vec::new();
    for (n, line) in lines(bytes, end) {
        let step = match reading.words {
            true => words(line, reading, &mut read),
            false if line.is_empty() || is_comment(line) => Ok(()),
            false => one_rule(line, reading).map(|rules| read.extend(rules)),
        };
        step.map_err(|why| BadLine { line: n, why })?;
    }
    Ok(read)
}

/// Returns the default exclusions of `-C`.
#[must_use]
pub fn cvs_defaults(marks: Modifiers) -> Vec<Line> {
    let marks = Modifiers { perishable: true, ..marks };
    let reading = FileSyntax { syntax: Syntax::Cvs, words: true, marks };
    read(CVS_DEFAULTS, &reading, LineEnd::Line).expect("the list is well-formed")
}

fn lines(bytes: &[u8], end: LineEnd) -> impl Iterator<Item = (usize, &[u8])> {
    let ends = move |byte: &u8| if end == LineEnd::Nul { *byte == 0 } else { *byte == b'\n' };
    let lines = (1..).zip(bytes.split(ends));
    // A carriage return also ends a line. A line feed after it only makes an empty line.
    lines.flat_map(move |(n, line)| {
        let piece = move |byte: &u8| end == LineEnd::Line && *byte == b'\r';
        line.split(piece).map(move |line| (n, line))
    })
}

const fn is_comment(line: &[u8]) -> bool {
    matches!(line, [b'#' | b';', ..])
}

/// Parses rules that end at white space. If a word is only a rule prefix, the next word is its pattern.
fn words(line: &[u8], reading: &FileSyntax, read: &mut Vec<Line>) -> Result<(), BadRule> {
    let is_space = |byte: &u8| matches!(*byte, b' ' | 9..=13);
    let mut words = line.split(is_space).filter(|word| !word.is_empty());
    while let Some(word) = words.next() {
        match one_rule(word, reading) {
            Err(BadRule::Unfinished(_)) => {
                let Some(pattern) = words.next() else { return one_rule(word, reading).map(drop) };
                read.extend(one_rule(&[word, b" ", pattern].concat(), reading)?);
            }
            rules => read.extend(rules?),
        }
    }
    Ok(())
}

/// Kind of a rule, from its name or letter.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Pattern(Action),
    Merge,
    DirMerge,
    Clear,
}

/// Name and modifiers of a rule: the text before the pattern or file name.
struct Prefix {
    kind: Kind,
    marks: Modifiers,
    /// Syntax of the merged file.
    syntax: Syntax,
    negated: bool,
    cvs: bool,
    words: bool,
    inherited: bool,
    excludes_self: bool,
}

fn one_rule(text: &[u8], reading: &FileSyntax) -> Result<Vec<Line>, BadRule> {
    let (prefix, rest) = match reading.syntax {
        Syntax::Rules => prefix(text)?,
        Syntax::Cvs if text == b"!" => return Ok(vec![Line::Clear]),
        Syntax::Includes => (Prefix::of(Kind::Pattern(Action::Include)), text),
        _ => (Prefix::of(Kind::Pattern(Action::Exclude)), text),
    };
    if rest.len() > MAX_PATH_BYTES {
        return Err(BadRule::TooLong);
    }
    let marks =
        joined(prefix.marks, reading.marks).ok_or_else(|| BadRule::Sided(printable(text)))?;
    prefix.finish(marks, rest).map_err(|why| why(printable(text)))
}

/// Combines the modifiers of a rule and of its file. Returns `None` if both name a side.
fn joined(own: Modifiers, file: Modifiers) -> Option<Modifiers> {
    let ((Sides::Unsaid, sides) | (sides, Sides::Unsaid)) = (own.sides, file.sides) else {
        return None;
    };
    Some(Modifiers {
        sides,
        absolute: own.absolute || file.absolute,
        perishable: own.perishable || file.perishable,
        xattr: own.xattr || file.xattr,
    })
}

impl Prefix {
    fn of(kind: Kind) -> Self {
        Self {
            kind,
            marks: Modifiers::default(),
            syntax: Syntax::default(),
            negated: false,
            cvs: false,
            words: false,
            inherited: true,
            excludes_self: false,
        }
    }

    const fn is_merge(&self) -> bool {
        matches!(self.kind, Kind::Merge | Kind::DirMerge)
    }

    /// Adds a modifier. Returns false if the modifier does not fit the rule or an earlier modifier.
    fn takes(&mut self, modifier: u8, side_is_said: bool) -> bool {
        let (merge, open) = (self.is_merge(), self.syntax == Syntax::Rules);
        match modifier {
            b'-' if merge && open => self.syntax = Syntax::Excludes,
            b'+' if merge && open => self.syntax = Syntax::Includes,
            b'C' if merge && open => {
                (self.syntax, self.words, self.inherited) = (Syntax::Cvs, true, false);
            }
            b'C' if self.kind == Kind::Pattern(Action::Exclude) && !side_is_said => self.cvs = true,
            b'g' if self.kind == Kind::DirMerge && open => self.syntax = Syntax::Git,
            b'e' if merge => self.excludes_self = true,
            b'n' if merge => self.inherited = false,
            b'w' if merge => self.words = true,
            b'!' if !merge => self.negated = true,
            b'/' => self.marks.absolute = true,
            b'p' => self.marks.perishable = true,
            b'x' => self.marks.xattr = true,
            b's' if !side_is_said => self.marks.sides = and(self.marks.sides, Sides::Sender),
            b'r' if !side_is_said => self.marks.sides = and(self.marks.sides, Sides::Receiver),
            _ => return false,
        }
        // A `.gitignore` file has no words, absolute paths or attribute patterns.
        self.syntax != Syntax::Git || !(self.words || self.marks.absolute || self.marks.xattr)
    }

    fn finish(self, marks: Modifiers, rest: &[u8]) -> Result<Vec<Line>, fn(String) -> BadRule> {
        let default: &[u8] = match self.syntax {
            Syntax::Cvs => b".cvsignore",
            Syntax::Git => b".gitignore",
            _ => b"",
        };
        let file: Box<[u8]> = if rest.is_empty() { default } else { rest }.into();
        match self.kind {
            Kind::Clear if rest.is_empty() => return Ok(vec![Line::Clear]),
            Kind::Clear => return Err(BadRule::Trailing),
            Kind::Pattern(_) if self.cvs && rest.is_empty() => {
                return Ok(vec![Line::CvsDefaults(marks)]);
            }
            Kind::Pattern(_) if self.cvs => return Err(BadRule::Trailing),
            _ if file.is_empty() => return Err(BadRule::Unfinished),
            Kind::Pattern(action) => {
                let rule = PatternRule { action, negated: self.negated, marks, pattern: file };
                return Ok(vec![Line::Rule(Rule::Pattern(rule))]);
            }
            Kind::Merge | Kind::DirMerge => {}
        }
        let name = file.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        if Name::new(name).is_err() {
            return Err(BadRule::NoFile);
        }
        let own = Line::Rule(Rule::plain(Action::Exclude, name));
        let reading = FileSyntax { syntax: self.syntax, words: self.words, marks };
        let merge = match self.kind {
            Kind::Merge => Line::Merge { file: file.clone(), reading },
            _ => Line::Rule(Rule::DirMerge(DirMerge {
                file: file.clone(),
                reading,
                inherited: self.inherited,
            })),
        };
        Ok(self.excludes_self.then_some(own).into_iter().chain([merge]).collect())
    }
}

const fn and(one: Sides, other: Sides) -> Sides {
    match (one, other) {
        (Sides::Unsaid, only) => only,
        (Sides::Sender, Sides::Sender) => Sides::Sender,
        (Sides::Receiver, Sides::Receiver) => Sides::Receiver,
        _ => Sides::Both,
    }
}

/// Parses name and modifiers of a rule. Returns the text after the separating space or underscore.
fn prefix(text: &[u8]) -> Result<(Prefix, &[u8]), BadRule> {
    let named = NAMES.iter().find_map(|(name, letter)| {
        let rest = text.strip_prefix(name.as_bytes())?;
        matches!(rest, [] | [b' ' | b'_' | b',', ..]).then_some((*letter, rest))
    });
    let letter = text.split_first().map(|(letter, rest)| (*letter, rest));
    let (letter, rest) = named.or(letter).ok_or_else(|| BadRule::Unfinished(String::new()))?;
    let (kind, sides) = match letter {
        b'-' => (Kind::Pattern(Action::Exclude), Sides::Unsaid),
        b'+' => (Kind::Pattern(Action::Include), Sides::Unsaid),
        b'H' => (Kind::Pattern(Action::Exclude), Sides::Sender),
        b'S' => (Kind::Pattern(Action::Include), Sides::Sender),
        b'P' => (Kind::Pattern(Action::Exclude), Sides::Receiver),
        b'R' => (Kind::Pattern(Action::Include), Sides::Receiver),
        b'.' => (Kind::Merge, Sides::Unsaid),
        b':' => (Kind::DirMerge, Sides::Unsaid),
        b'!' => (Kind::Clear, Sides::Unsaid),
        _ => return Err(BadRule::Unknown(printable(text))),
    };
    let mut prefix = Prefix::of(kind);
    prefix.marks.sides = sides;
    if kind == Kind::Clear {
        return Ok((prefix, rest));
    }
    let modifiers = rest.strip_prefix(b",").unwrap_or(rest);
    let end = modifiers.iter().position(|byte| matches!(byte, b' ' | b'_'));
    let (modifiers, rest) = modifiers.split_at(end.unwrap_or(modifiers.len()));
    for modifier in modifiers {
        if !prefix.takes(*modifier, sides != Sides::Unsaid) {
            let (modifier, rule) = (printable(&[*modifier]), printable(text));
            return Err(BadRule::Modifier { modifier, rule });
        }
    }
    Ok((prefix, rest.get(1..).unwrap_or_default()))
}

const NAMES: [(&str, u8); 9] = [
    ("clear", b'!'),
    ("dir-merge", b':'),
    ("exclude", b'-'),
    ("hide", b'H'),
    ("include", b'+'),
    ("merge", b'.'),
    ("protect", b'P'),
    ("risk", b'R'),
    ("show", b'S'),
];

const CVS_DEFAULTS: &[u8] = b"RCS SCCS CVS CVS.adm RCSLOG cvslog.* tags TAGS .make.state .nse_depinfo \
    *~ #* .#* ,* _$* *$ *.old *.bak *.BAK *.orig *.rej .del-* *.a *.olb *.o *.obj *.so *.exe *.Z *.elc *.ln core \
    .svn/ .git/ .hg/ .bzr/";

#[cfg(test)]
mod tests {
    use super::*;

    fn only(text: &str) -> Line {
        let mut lines = rule(text.as_bytes()).unwrap_or_else(|why| panic!("{text}: {why}"));
        assert_eq!(lines.len(), 1, "{text}");
        lines.remove(0)
    }

    fn pattern(text: &str) -> PatternRule {
        match only(text) {
            Line::Rule(Rule::Pattern(rule)) => rule,
            other => panic!("{text}: {other:?}"),
        }
    }

    fn merge(text: &str) -> DirMerge {
        match only(text) {
            Line::Rule(Rule::DirMerge(merge)) => merge,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn short_and_long_names_are_equivalent() {
        for (short, long) in [
            ("- x", "exclude x"),
            ("+ x", "include,_x"),
            ("H x", "hide x"),
            ("S x", "show_x"),
            ("P x", "protect x"),
            ("R x", "risk x"),
            ("-,s! x", "exclude,!s x"),
            (": x", "dir-merge x"),
            (". x", "merge x"),
            ("!", "clear"),
        ] {
            assert_eq!(only(short), only(long), "{short} {long}");
        }
    }

    #[test]
    fn one_space_or_underscore_ends_the_prefix_and_the_rest_is_the_pattern() {
        for (text, wanted) in [
            ("-_x", "x"),
            ("- _x", "_x"),
            ("-  x y ", " x y "),
            ("-,! x", "x"),
            ("exclude_x_y", "x_y"),
        ] {
            assert_eq!(&*pattern(text).pattern, wanted.as_bytes(), "{text}");
        }
    }

    #[test]
    fn modifiers_set_sides_and_syntax() {
        let rule = pattern("-!/srpx a");
        assert!(rule.negated && rule.marks.absolute && rule.marks.perishable && rule.marks.xattr);
        assert_eq!(rule.marks.sides, Sides::Both);
        assert_eq!(pattern("R a").marks.sides, Sides::Receiver);
        assert_eq!(pattern("-s a").marks.sides, Sides::Sender);
        let list = merge(":sC");
        assert_eq!((&*list.file, list.inherited), (&b".cvsignore"[..], false));
        assert_eq!((list.reading.syntax, list.reading.words), (Syntax::Cvs, true));
        assert_eq!(list.reading.marks.sides, Sides::Sender);
        assert!(!merge(":n- x").inherited);
        assert_eq!(merge(":g").reading.syntax, Syntax::Git);
        assert_eq!(
            only("-pC"),
            Line::CvsDefaults(Modifiers { perishable: true, ..Modifiers::default() })
        );
        let own = rule_lines("dir-merge,e sub/.rules");
        assert_eq!(own[0], Line::Rule(Rule::plain(Action::Exclude, b".rules")));
        assert_eq!(own.len(), 2);
    }

    fn rule_lines(text: &str) -> Vec<Line> {
        rule(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_bad_rule_is_refused_with_a_reason() {
        for (text, why) in [
            ("- ", "unexpected end of filter rule: '- '"),
            ("-", "unexpected end"),
            ("x foo", "unknown filter rule: 'x foo'"),
            ("hidefoo", "unknown filter rule"),
            ("-foo", "invalid modifier 'f' in filter rule: '-foo'"),
            ("-n foo", "invalid modifier 'n'"),
            (".! foo", "invalid modifier '!'"),
            ("! x", "nothing may follow"),
            ("-C x", "nothing may follow"),
            ("H,s x", "invalid modifier 's'"),
            ("HC", "invalid modifier 'C'"),
            (".-+ x", "invalid modifier '+'"),
            (":C- x", "invalid modifier '-'"),
            (":e", "unexpected end"),
            (": sub/", "not the name of a file"),
            (". ..", "not the name of a file"),
            (".g x", "invalid modifier 'g'"),
            (":gw x", "invalid modifier 'w'"),
            ("-\x1b x", "invalid modifier '\\u{1b}'"),
        ] {
            let refusal = rule(text.as_bytes()).unwrap_err().to_string();
            assert!(refusal.contains(why), "{text}: {refusal}");
        }
        assert_eq!(rule(&[b"- ", &[b'a'; 5000][..]].concat()), Err(BadRule::TooLong));
    }

    fn patterns(lines: &[Line]) -> Vec<(Action, String)> {
        let pattern = |line: &Line| match line {
            Line::Rule(Rule::Pattern(rule)) => {
                (rule.action, String::from_utf8_lossy(&rule.pattern).into())
            }
            other => panic!("{other:?}"),
        };
        lines.iter().map(pattern).collect()
    }

    #[test]
    fn files_have_comments_and_errors_name_the_line() {
        let reading = FileSyntax::default();
        let file = b"; one\n# two\n\n- a\r\n+ b #c\n";
        let lines = read(file, &reading, LineEnd::Line).unwrap();
        let wanted = [(Action::Exclude, "a".into()), (Action::Include, "b #c".into())];
        assert_eq!(patterns(&lines), wanted);
        let bad = read(b"- a\r\n- b\n\nfoo\n", &reading, LineEnd::Line).unwrap_err();
        assert_eq!(bad.to_string(), "line 4: unknown filter rule: 'foo'");
        let lines = read(b"- a\nb\0#c\0- d", &reading, LineEnd::Nul).unwrap();
        assert_eq!(
            patterns(&lines),
            [(Action::Exclude, "a\nb".into()), (Action::Exclude, "d".into())]
        );
    }

    #[test]
    fn words_need_no_line_ends() {
        let words = |syntax| FileSyntax { syntax, words: true, ..FileSyntax::default() };
        let lines = read(b"- foo + bar\n-_#x", &words(Syntax::Rules), LineEnd::Line).unwrap();
        let wanted = [
            (Action::Exclude, "foo".into()),
            (Action::Include, "bar".into()),
            (Action::Exclude, "#x".into()),
        ];
        assert_eq!(patterns(&lines), wanted);
        let lines = read(b"a !x\n\t#b ", &words(Syntax::Cvs), LineEnd::Line).unwrap();
        assert_eq!(patterns(&lines).len(), 3);
        assert_eq!(read(b"a ! b", &words(Syntax::Cvs), LineEnd::Line).unwrap()[1], Line::Clear);
        assert!(read(b"foo + ", &words(Syntax::Rules), LineEnd::Line).is_err());
        assert!(read(b"- foo +", &words(Syntax::Rules), LineEnd::Line).is_err());
    }

    #[test]
    fn rules_in_a_file_with_a_side_may_not_name_sides() {
        let marks = Modifiers { sides: Sides::Sender, absolute: true, ..Modifiers::default() };
        let reading = FileSyntax { marks, ..FileSyntax::default() };
        let Line::Rule(Rule::Pattern(rule)) =
            read(b"-p a", &reading, LineEnd::Line).unwrap().remove(0)
        else {
            panic!("a pattern")
        };
        assert_eq!(rule.marks, Modifiers { perishable: true, ..marks });
        assert!(matches!(
            read(b"P a", &reading, LineEnd::Line).unwrap_err().why,
            BadRule::Sided(_)
        ));
    }

    #[test]
    fn old_patterns_may_have_a_prefix_or_clear() {
        let file = b"a\n+ b\n- c\n!\n;d\n!e\n";
        let lines = read_old(file, Action::Exclude, LineEnd::Line).unwrap();
        assert_eq!(lines[3], Line::Clear);
        assert_eq!(
            patterns(&[&lines[..3], &lines[4..]].concat()),
            [
                (Action::Exclude, "a".into()),
                (Action::Include, "b".into()),
                (Action::Exclude, "c".into()),
                (Action::Exclude, "!e".into()),
            ]
        );
        assert_eq!(read_old(b"- ", Action::Exclude, LineEnd::Line).unwrap_err().line, 1);
    }

    #[test]
    fn default_exclusions_of_cvs_are_perishable() {
        let lines = cvs_defaults(Modifiers::default());
        assert!(patterns(&lines).contains(&(Action::Exclude, ".git/".into())));
        assert!(
            lines.iter().all(
                |line| matches!(line, Line::Rule(Rule::Pattern(rule)) if rule.marks.perishable)
            )
        );
    }
}
