//! Filter rules as data: which entries of a tree take part in a sync, as with rsync, and how the rules are read from
//! text. Matching lives with the trees, in the store.

mod parse;

pub use parse::{BadLine, BadRule, Line, LineEnd, cvs_defaults, old_rule, read, read_old, rule};

/// Effect of a rule on an entry that its pattern matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// The entry takes part.
    Include,
    /// The entry does not take part, nor does anything below it.
    Exclude,
}

/// An end whose names are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The sender's: which names are sent.
    Sender,
    /// The receiver's: which names may be deleted.
    Receiver,
}

/// Ends at which a rule counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Sides {
    /// Both, but the sender only where excluded names are to be deleted.
    #[default]
    Unsaid,
    /// Hides and shows.
    Sender,
    /// Protects and puts at risk.
    Receiver,
    /// Said to be both.
    Both,
}

impl Sides {
    /// True if a rule that says this counts at `side`, given what [`Rules::delete_excluded`] says.
    #[must_use]
    pub const fn has(self, side: Side, delete_excluded: bool) -> bool {
        match (self, side) {
            (Self::Unsaid, Side::Sender) | (Self::Both, _) => true,
            (Self::Unsaid, Side::Receiver) => !delete_excluded,
            (Self::Sender, _) => matches!(side, Side::Sender),
            (Self::Receiver, _) => matches!(side, Side::Receiver),
        }
    }

    /// The same where the sender is called the receiver, and the other way round.
    const fn exchanged(self, delete_excluded: bool) -> Self {
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
pub struct Modifiers {
    /// `s` and `r`.
    pub sides: Sides,
    /// `/`: a pattern with a slash is matched against the path from the file system's root.
    pub absolute: bool,
    /// `p`: does not count in directories that are being deleted.
    pub perishable: bool,
    /// `x`: judges names of extended attributes, and no others.
    pub xattr: bool,
}

/// Includes or excludes what a pattern matches.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PatternRule {
    /// Effect on matching entries.
    pub action: Action,
    /// `!`: those that do *not* match.
    pub negated: bool,
    /// Modifiers: where it counts, and how it is matched.
    pub marks: Modifiers,
    /// A glob; bytes, as names are.
    pub pattern: Box<[u8]>,
}

/// Syntax of a file of rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FileSyntax {
    /// Syntax of a line.
    pub syntax: Syntax,
    /// `w`: rules end at any white space, and there are no comments.
    pub words: bool,
    /// Modifiers that each of its rules has besides its own.
    pub marks: Modifiers,
}

/// Syntax of a line in a file of rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Syntax {
    /// A rule.
    #[default]
    Rules,
    /// `-`: a pattern to exclude.
    Excludes,
    /// `+`: a pattern to include.
    Includes,
    /// `C`: a pattern to exclude, or `!`, as in `.cvsignore`.
    Cvs,
    /// `g`: what `git` reads in a `.gitignore`; not rsync's.
    Git,
}

/// Rules that directories bring with them, in files of one name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DirMerge {
    /// The file's name; a path before it says in which directories above the root it is looked for as well.
    pub file: Box<[u8]>,
    /// Syntax of the file.
    pub reading: FileSyntax,
    /// True if its rules count in directories below; not with `n`.
    pub inherited: bool,
}

/// A rule of a filter. The first that matches an entry decides.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// By a pattern.
    Pattern(PatternRule),
    /// By what directories say themselves.
    DirMerge(DirMerge),
}

impl Rule {
    /// A rule without modifiers.
    #[must_use]
    pub fn plain(action: Action, pattern: &[u8]) -> Self {
        let marks = Modifiers::default();
        Self::Pattern(PatternRule { action, negated: false, marks, pattern: pattern.into() })
    }
}

/// Most files of rules that directories may bring, by name.
pub const MAX_DIR_MERGES: usize = 64;

/// All that both ends need to know about which names take part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Rules in order.
    pub list: Vec<Rule>,
    /// `--delete-excluded`: rules that do not say where they count protect nothing from deletion.
    pub delete_excluded: bool,
    /// `--from0`: lines of files of rules end in a NUL.
    pub from0: bool,
}

impl Rules {
    /// The same for a run whose ends are exchanged.
    #[must_use]
    pub fn exchanged(mut self) -> Self {
        for rule in &mut self.list {
            let marks = match rule {
                Rule::Pattern(rule) => &mut rule.marks,
                Rule::DirMerge(merge) => &mut merge.reading.marks,
            };
            marks.sides = marks.sides.exchanged(self.delete_excluded);
        }
        self
    }
}
