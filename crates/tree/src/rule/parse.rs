//! Parser of rsync's filter rules (`man rsync`, "FILTER RULES").

use super::{
    Action, DirMerge, FileSyntax, LineSyntax, PatternRule, Rule, RuleModifiers, RuleSides,
};
use crate::path::{MAX_PATH_BYTES, Name, printable};

/// A parsed line of a filter file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleLine {
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
    CvsDefaults(RuleModifiers),
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
    /// A modifier that is unknown, invalid for this kind of rule, or in conflict with an earlier modifier.
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
    /// The rule names a side (sender or receiver), and so does the merge rule of its file.
    #[error("a rule and the merge rule of its file both name a side, sender or receiver: '{0}'")]
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
            Self::Sided(_) => {
                "a rule and the merge rule of its file both name a side, sender or receiver"
            }
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
pub fn parse_rule(text: &[u8]) -> Result<Vec<RuleLine>, BadRule> {
    match text {
        b"" => Ok(Vec::new()),
        _ => parse_line(text, &FileSyntax::default()),
    }
}

/// Parses one pattern of `--exclude` or `--include`. The pattern may begin with `- ` or `+ `, or be `!`.
///
/// # Errors
/// [`BadRule`] if the text is not a valid pattern.
pub fn parse_pattern(text: &[u8], action: Action) -> Result<Option<RuleLine>, BadRule> {
    let (action, pattern) = match text {
        b"" => return Ok(None),
        b"!" => return Ok(Some(RuleLine::Clear)),
        [b'-', b' ', pattern @ ..] => (Action::Exclude, pattern),
        [b'+', b' ', pattern @ ..] => (Action::Include, pattern),
        pattern => (action, pattern),
    };
    match pattern.len() {
        0 => Err(BadRule::Unfinished(printable(text))),
        1..=MAX_PATH_BYTES => Ok(Some(RuleLine::Rule(Rule::plain(action, pattern)))),
        _ => Err(BadRule::TooLong),
    }
}

/// Parses a file of patterns (`--exclude-from`, `--include-from`).
///
/// # Errors
/// [`BadLine`] with the first invalid line.
pub fn parse_patterns(
    bytes: &[u8],
    action: Action,
    end: LineEnd,
) -> Result<Vec<RuleLine>, BadLine> {
    let mut read = Vec::new();
    for (n, line) in lines(bytes, end) {
        if !is_comment(line) {
            read.extend(parse_pattern(line, action).map_err(|why| BadLine { line: n, why })?);
        }
    }
    Ok(read)
}

/// Parses a file of rules.
///
/// # Errors
/// [`BadLine`] with the first invalid line.
pub fn parse_rules(
    bytes: &[u8],
    reading: &FileSyntax,
    end: LineEnd,
) -> Result<Vec<RuleLine>, BadLine> {
    let mut read = Vec::new();
    for (n, line) in lines(bytes, end) {
        let step = match reading.words {
            true => parse_words(line, reading, &mut read),
            false if line.is_empty() || is_comment(line) => Ok(()),
            false => parse_line(line, reading).map(|rules| read.extend(rules)),
        };
        step.map_err(|why| BadLine { line: n, why })?;
    }
    Ok(read)
}

/// Returns the default exclusions of `-C`.
#[must_use]
pub fn cvs_defaults(marks: RuleModifiers) -> Vec<RuleLine> {
    let marks = RuleModifiers { perishable: true, ..marks };
    let reading = FileSyntax { syntax: LineSyntax::Cvs, words: true, marks };
    parse_rules(CVS_DEFAULTS, &reading, LineEnd::Line).expect("the list is well-formed")
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
fn parse_words(line: &[u8], reading: &FileSyntax, read: &mut Vec<RuleLine>) -> Result<(), BadRule> {
    let is_space = |byte: &u8| matches!(*byte, b' ' | 9..=13);
    let mut words = line.split(is_space).filter(|word| !word.is_empty());
    while let Some(word) = words.next() {
        match parse_line(word, reading) {
            Err(BadRule::Unfinished(_)) => {
                let Some(pattern) = words.next() else {
                    return parse_line(word, reading).map(drop);
                };
                read.extend(parse_line(&[word, b" ", pattern].concat(), reading)?);
            }
            rules => read.extend(rules?),
        }
    }
    Ok(())
}

/// Kind of a rule, from its name or letter.
#[derive(Clone, Copy, PartialEq)]
enum RuleKind {
    Pattern(Action),
    Merge,
    DirMerge,
    Clear,
}

/// Name and modifiers of a rule: the text before the pattern or file name.
struct RulePrefix {
    kind: RuleKind,
    marks: RuleModifiers,
    /// Syntax of the merged file.
    syntax: LineSyntax,
    negated: bool,
    cvs: bool,
    words: bool,
    inherited: bool,
    excludes_self: bool,
}

fn parse_line(text: &[u8], reading: &FileSyntax) -> Result<Vec<RuleLine>, BadRule> {
    let (prefix, rest) = match reading.syntax {
        LineSyntax::Rules => parse_prefix(text)?,
        LineSyntax::Cvs if text == b"!" => return Ok(vec![RuleLine::Clear]),
        LineSyntax::Includes => (RulePrefix::of(RuleKind::Pattern(Action::Include)), text),
        _ => (RulePrefix::of(RuleKind::Pattern(Action::Exclude)), text),
    };
    if rest.len() > MAX_PATH_BYTES {
        return Err(BadRule::TooLong);
    }
    let marks = combine_modifiers(prefix.marks, reading.marks)
        .ok_or_else(|| BadRule::Sided(printable(text)))?;
    prefix.finish(marks, rest).map_err(|why| why(printable(text)))
}

/// Combines the modifiers of a rule and of its file. Returns `None` if both name a side (sender or receiver).
fn combine_modifiers(own: RuleModifiers, file: RuleModifiers) -> Option<RuleModifiers> {
    let ((RuleSides::Unsaid, sides) | (sides, RuleSides::Unsaid)) = (own.sides, file.sides) else {
        return None;
    };
    Some(RuleModifiers {
        sides,
        absolute: own.absolute || file.absolute,
        perishable: own.perishable || file.perishable,
        xattr: own.xattr || file.xattr,
    })
}

impl RulePrefix {
    fn of(kind: RuleKind) -> Self {
        Self {
            kind,
            marks: RuleModifiers::default(),
            syntax: LineSyntax::default(),
            negated: false,
            cvs: false,
            words: false,
            inherited: true,
            excludes_self: false,
        }
    }

    const fn is_merge(&self) -> bool {
        matches!(self.kind, RuleKind::Merge | RuleKind::DirMerge)
    }

    /// Adds a modifier. Returns false if the modifier does not fit the rule or an earlier modifier.
    fn add_modifier(&mut self, modifier: u8, side_is_said: bool) -> bool {
        let (merge, open) = (self.is_merge(), self.syntax == LineSyntax::Rules);
        match modifier {
            b'-' if merge && open => self.syntax = LineSyntax::Excludes,
            b'+' if merge && open => self.syntax = LineSyntax::Includes,
            b'C' if merge && open => {
                (self.syntax, self.words, self.inherited) = (LineSyntax::Cvs, true, false);
            }
            b'C' if self.kind == RuleKind::Pattern(Action::Exclude) && !side_is_said => {
                self.cvs = true
            }
            b'g' if self.kind == RuleKind::DirMerge && open => self.syntax = LineSyntax::Git,
            b'e' if merge => self.excludes_self = true,
            b'n' if merge => self.inherited = false,
            b'w' if merge => self.words = true,
            b'!' if !merge => self.negated = true,
            b'/' => self.marks.absolute = true,
            b'p' => self.marks.perishable = true,
            b'x' => self.marks.xattr = true,
            b's' if !side_is_said => {
                self.marks.sides = intersect_sides(self.marks.sides, RuleSides::Sender)
            }
            b'r' if !side_is_said => {
                self.marks.sides = intersect_sides(self.marks.sides, RuleSides::Receiver)
            }
            _ => return false,
        }
        // A `.gitignore` file has no words, absolute paths or attribute patterns.
        self.syntax != LineSyntax::Git || !(self.words || self.marks.absolute || self.marks.xattr)
    }

    fn finish(
        self,
        marks: RuleModifiers,
        rest: &[u8],
    ) -> Result<Vec<RuleLine>, fn(String) -> BadRule> {
        let default: &[u8] = match self.syntax {
            LineSyntax::Cvs => b".cvsignore",
            LineSyntax::Git => b".gitignore",
            _ => b"",
        };
        let file: Box<[u8]> = if rest.is_empty() { default } else { rest }.into();
        match self.kind {
            RuleKind::Clear if rest.is_empty() => return Ok(vec![RuleLine::Clear]),
            RuleKind::Clear => return Err(BadRule::Trailing),
            RuleKind::Pattern(_) if self.cvs && rest.is_empty() => {
                return Ok(vec![RuleLine::CvsDefaults(marks)]);
            }
            RuleKind::Pattern(_) if self.cvs => return Err(BadRule::Trailing),
            _ if file.is_empty() => return Err(BadRule::Unfinished),
            RuleKind::Pattern(action) => {
                let rule = PatternRule { action, negated: self.negated, marks, pattern: file };
                return Ok(vec![RuleLine::Rule(Rule::Pattern(rule))]);
            }
            RuleKind::Merge | RuleKind::DirMerge => {}
        }
        let name = file.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        if Name::new(name).is_err() {
            return Err(BadRule::NoFile);
        }
        let own = RuleLine::Rule(Rule::plain(Action::Exclude, name));
        let reading = FileSyntax { syntax: self.syntax, words: self.words, marks };
        let merge = match self.kind {
            RuleKind::Merge => RuleLine::Merge { file: file.clone(), reading },
            _ => RuleLine::Rule(Rule::DirMerge(DirMerge {
                file: file.clone(),
                reading,
                inherited: self.inherited,
            })),
        };
        Ok(self.excludes_self.then_some(own).into_iter().chain([merge]).collect())
    }
}

const fn intersect_sides(one: RuleSides, other: RuleSides) -> RuleSides {
    match (one, other) {
        (RuleSides::Unsaid, only) => only,
        (RuleSides::Sender, RuleSides::Sender) => RuleSides::Sender,
        (RuleSides::Receiver, RuleSides::Receiver) => RuleSides::Receiver,
        _ => RuleSides::Both,
    }
}

/// Parses name and modifiers of a rule. Returns the text after the separating space or underscore.
fn parse_prefix(text: &[u8]) -> Result<(RulePrefix, &[u8]), BadRule> {
    let named = NAMES.iter().find_map(|(name, letter)| {
        let rest = text.strip_prefix(name.as_bytes())?;
        matches!(rest, [] | [b' ' | b'_' | b',', ..]).then_some((*letter, rest))
    });
    let letter = text.split_first().map(|(letter, rest)| (*letter, rest));
    let (letter, rest) = named.or(letter).ok_or_else(|| BadRule::Unfinished(String::new()))?;
    let (kind, sides) = match letter {
        b'-' => (RuleKind::Pattern(Action::Exclude), RuleSides::Unsaid),
        b'+' => (RuleKind::Pattern(Action::Include), RuleSides::Unsaid),
        b'H' => (RuleKind::Pattern(Action::Exclude), RuleSides::Sender),
        b'S' => (RuleKind::Pattern(Action::Include), RuleSides::Sender),
        b'P' => (RuleKind::Pattern(Action::Exclude), RuleSides::Receiver),
        b'R' => (RuleKind::Pattern(Action::Include), RuleSides::Receiver),
        b'.' => (RuleKind::Merge, RuleSides::Unsaid),
        b':' => (RuleKind::DirMerge, RuleSides::Unsaid),
        b'!' => (RuleKind::Clear, RuleSides::Unsaid),
        _ => return Err(BadRule::Unknown(printable(text))),
    };
    let mut prefix = RulePrefix::of(kind);
    prefix.marks.sides = sides;
    if kind == RuleKind::Clear {
        return Ok((prefix, rest));
    }
    let modifiers = rest.strip_prefix(b",").unwrap_or(rest);
    let end = modifiers.iter().position(|byte| matches!(byte, b' ' | b'_'));
    let (modifiers, rest) = modifiers.split_at(end.unwrap_or(modifiers.len()));
    for modifier in modifiers {
        if !prefix.add_modifier(*modifier, sides != RuleSides::Unsaid) {
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

    fn only(text: &str) -> RuleLine {
        let mut lines = parse_rule(text.as_bytes()).unwrap_or_else(|why| panic!("{text}: {why}"));
        assert_eq!(lines.len(), 1, "{text}");
        lines.remove(0)
    }

    fn pattern(text: &str) -> PatternRule {
        match only(text) {
            RuleLine::Rule(Rule::Pattern(rule)) => rule,
            other => panic!("{text}: {other:?}"),
        }
    }

    fn merge(text: &str) -> DirMerge {
        match only(text) {
            RuleLine::Rule(Rule::DirMerge(merge)) => merge,
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
        assert_eq!(rule.marks.sides, RuleSides::Both);
        assert_eq!(pattern("R a").marks.sides, RuleSides::Receiver);
        assert_eq!(pattern("-s a").marks.sides, RuleSides::Sender);
        let list = merge(":sC");
        assert_eq!((&*list.file, list.inherited), (&b".cvsignore"[..], false));
        assert_eq!((list.reading.syntax, list.reading.words), (LineSyntax::Cvs, true));
        assert_eq!(list.reading.marks.sides, RuleSides::Sender);
        assert!(!merge(":n- x").inherited);
        assert_eq!(merge(":g").reading.syntax, LineSyntax::Git);
        assert_eq!(
            only("-pC"),
            RuleLine::CvsDefaults(RuleModifiers { perishable: true, ..RuleModifiers::default() })
        );
        let own = rule_lines("dir-merge,e sub/.rules");
        assert_eq!(own[0], RuleLine::Rule(Rule::plain(Action::Exclude, b".rules")));
        assert_eq!(own.len(), 2);
    }

    fn rule_lines(text: &str) -> Vec<RuleLine> {
        parse_rule(text.as_bytes()).unwrap()
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
            let refusal = parse_rule(text.as_bytes()).unwrap_err().to_string();
            assert!(refusal.contains(why), "{text}: {refusal}");
        }
        assert_eq!(parse_rule(&[b"- ", &[b'a'; 5000][..]].concat()), Err(BadRule::TooLong));
    }

    fn patterns(lines: &[RuleLine]) -> Vec<(Action, String)> {
        let pattern = |line: &RuleLine| match line {
            RuleLine::Rule(Rule::Pattern(rule)) => {
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
        let lines = parse_rules(file, &reading, LineEnd::Line).unwrap();
        let wanted = [(Action::Exclude, "a".into()), (Action::Include, "b #c".into())];
        assert_eq!(patterns(&lines), wanted);
        let bad = parse_rules(b"- a\r\n- b\n\nfoo\n", &reading, LineEnd::Line).unwrap_err();
        assert_eq!(bad.to_string(), "line 4: unknown filter rule: 'foo'");
        let lines = parse_rules(b"- a\nb\0#c\0- d", &reading, LineEnd::Nul).unwrap();
        assert_eq!(
            patterns(&lines),
            [(Action::Exclude, "a\nb".into()), (Action::Exclude, "d".into())]
        );
    }

    #[test]
    fn words_need_no_line_ends() {
        let words = |syntax| FileSyntax { syntax, words: true, ..FileSyntax::default() };
        let (rules, cvs) = (words(LineSyntax::Rules), words(LineSyntax::Cvs));
        let lines = parse_rules(b"- foo + bar\n-_#x", &rules, LineEnd::Line).unwrap();
        let wanted = [
            (Action::Exclude, "foo".into()),
            (Action::Include, "bar".into()),
            (Action::Exclude, "#x".into()),
        ];
        assert_eq!(patterns(&lines), wanted);
        let lines = parse_rules(b"a !x\n\t#b ", &cvs, LineEnd::Line).unwrap();
        assert_eq!(patterns(&lines).len(), 3);
        assert_eq!(parse_rules(b"a ! b", &cvs, LineEnd::Line).unwrap()[1], RuleLine::Clear);
        assert!(parse_rules(b"foo + ", &rules, LineEnd::Line).is_err());
        assert!(parse_rules(b"- foo +", &rules, LineEnd::Line).is_err());
    }

    #[test]
    fn rules_in_a_file_with_a_side_may_not_name_sides() {
        let marks =
            RuleModifiers { sides: RuleSides::Sender, absolute: true, ..RuleModifiers::default() };
        let reading = FileSyntax { marks, ..FileSyntax::default() };
        let RuleLine::Rule(Rule::Pattern(rule)) =
            parse_rules(b"-p a", &reading, LineEnd::Line).unwrap().remove(0)
        else {
            panic!("a pattern")
        };
        assert_eq!(rule.marks, RuleModifiers { perishable: true, ..marks });
        assert!(matches!(
            parse_rules(b"P a", &reading, LineEnd::Line).unwrap_err().why,
            BadRule::Sided(_)
        ));
    }

    #[test]
    fn old_patterns_may_have_a_prefix_or_clear() {
        let file = b"a\n+ b\n- c\n!\n;d\n!e\n";
        let lines = parse_patterns(file, Action::Exclude, LineEnd::Line).unwrap();
        assert_eq!(lines[3], RuleLine::Clear);
        assert_eq!(
            patterns(&[&lines[..3], &lines[4..]].concat()),
            [
                (Action::Exclude, "a".into()),
                (Action::Include, "b".into()),
                (Action::Exclude, "c".into()),
                (Action::Exclude, "!e".into()),
            ]
        );
        assert_eq!(parse_patterns(b"- ", Action::Exclude, LineEnd::Line).unwrap_err().line, 1);
    }

    #[test]
    fn default_exclusions_of_cvs_are_perishable() {
        let lines = cvs_defaults(RuleModifiers::default());
        assert!(patterns(&lines).contains(&(Action::Exclude, ".git/".into())));
        assert!(lines.iter().all(
            |line| matches!(line, RuleLine::Rule(Rule::Pattern(rule)) if rule.marks.perishable)
        ));
    }
}
