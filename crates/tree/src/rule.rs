//! Filter rules as data, and the parser for rule text. A filter decides which entries take part in a sync, as in rsync.
//! Matching is in `deltic-store`.

mod parse;

pub use parse::{
    BadLine, BadRule, LineEnd, RuleLine, cvs_defaults, parse_pattern, parse_patterns, parse_rule,
    parse_rules,
};

/// Effect of a rule on a matching entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// The entry takes part.
    Include,
    /// The entry does not take part. If the entry is a directory, everything below is excluded too.
    Exclude,
}

/// The end that applies a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FilterSide {
    /// The sender: the filter hides names from the transfer.
    Sender,
    /// The receiver: the filter protects names from deletion.
    Receiver,
}

/// Ends at which a rule applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RuleSides {
    /// The rule names no side. Applies at both ends; with `--delete-excluded`, at the sender only.
    #[default]
    Unsaid,
    /// The sender only (`hide`, `show`, modifier `s`).
    Sender,
    /// The receiver only (`protect`, `risk`, modifier `r`).
    Receiver,
    /// The rule names both sides (modifiers `s` and `r`).
    Both,
}

impl RuleSides {
    /// True if a rule for these sides applies at `side`. `delete_excluded` is [`Rules::delete_excluded`].
    #[must_use]
    pub const fn applies_at(self, side: FilterSide, delete_excluded: bool) -> bool {
        match (self, side) {
            (Self::Unsaid, FilterSide::Sender) | (Self::Both, _) => true,
            (Self::Unsaid, FilterSide::Receiver) => !delete_excluded,
            (Self::Sender, _) => matches!(side, FilterSide::Sender),
            (Self::Receiver, _) => matches!(side, FilterSide::Receiver),
        }
    }

    /// Returns the ends at which the rule applies after sender and receiver have exchanged roles.
    const fn with_roles_exchanged(self, delete_excluded: bool) -> Self {
        match self {
            Self::Unsaid if delete_excluded => Self::Receiver,
            Self::Sender => Self::Receiver,
            Self::Receiver => Self::Sender,
            Self::Unsaid | Self::Both => self,
        }
    }
}

/// Modifiers of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RuleModifiers {
    /// `s` and `r`: the ends at which the rule applies.
    pub sides: RuleSides,
    /// `/`: a pattern with a slash is matched against the path from the file system's root.
    pub absolute: bool,
    /// `p`: the rule is ignored in directories that are being deleted.
    pub perishable: bool,
    /// `x`: the rule matches only names of extended attributes.
    pub xattr: bool,
}

/// A rule that includes or excludes the entries that a pattern matches.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PatternRule {
    /// Effect on matching entries.
    pub action: Action,
    /// `!`: the rule applies to entries that do *not* match.
    pub negated: bool,
    /// Modifiers of the rule.
    pub marks: RuleModifiers,
    /// A glob, as bytes.
    pub pattern: Box<[u8]>,
}

/// Syntax of a file of rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FileSyntax {
    /// Syntax of a line.
    pub syntax: LineSyntax,
    /// `w`: rules end at any white space, and comments do not exist.
    pub words: bool,
    /// Modifiers added to the modifiers of each rule in the file.
    pub marks: RuleModifiers,
}

/// Syntax of a line in a file of rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LineSyntax {
    /// A filter rule.
    #[default]
    Rules,
    /// `-`: a pattern to exclude.
    Excludes,
    /// `+`: a pattern to include.
    Includes,
    /// `C`: a pattern to exclude, or `!`, as in `.cvsignore`.
    Cvs,
    /// `g`: the syntax of `.gitignore`. rsync has no such modifier.
    Git,
}

/// Reads more rules from a file of this name in each directory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DirMerge {
    /// Name of the file. With a leading path, the file is also read in the directories of that path above the root.
    pub file: Box<[u8]>,
    /// Syntax of the file.
    pub reading: FileSyntax,
    /// True if the rules apply in subdirectories. The modifier `n` turns inheritance off.
    pub inherited: bool,
}

/// A filter rule. The first rule that matches an entry decides.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// A rule with a pattern.
    Pattern(PatternRule),
    /// Rules read from files in the tree.
    DirMerge(DirMerge),
}

impl Rule {
    /// Returns a pattern rule without modifiers.
    #[must_use]
    pub fn plain(action: Action, pattern: &[u8]) -> Self {
        let marks = RuleModifiers::default();
        Self::Pattern(PatternRule { action, negated: false, marks, pattern: pattern.into() })
    }
}

/// Largest number of [`DirMerge`] rules in a filter.
pub const MAX_DIR_MERGES: usize = 64;
/// Most levels of rule files that merge other rule files.
pub const MAX_MERGE_DEPTH: usize = 8;
/// Error for more levels than [`MAX_MERGE_DEPTH`].
pub const TOO_DEEP: &str = "too many rule files within rule files";

/// The filter of a sync, as sent to the peer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Rules in order. The first rule that matches an entry decides.
    pub list: Vec<Rule>,
    /// `--delete-excluded`: rules that name no side do not protect entries from deletion.
    pub delete_excluded: bool,
    /// `--from0`: lines in files of rules end with a NUL.
    pub from0: bool,
}

impl Rules {
    /// Returns the rules for a sync in the other direction: sender and receiver exchange roles.
    #[must_use]
    pub fn with_roles_exchanged(mut self) -> Self {
        for rule in &mut self.list {
            let marks = match rule {
                Rule::Pattern(rule) => &mut rule.marks,
                Rule::DirMerge(merge) => &mut merge.reading.marks,
            };
            marks.sides = marks.sides.with_roles_exchanged(self.delete_excluded);
        }
        self
    }
}
