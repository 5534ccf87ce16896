//! Which names take part: rsync's filter rules, byte for byte, and git's as one more kind of file that brings rules.
//!
//! The first rule that matches decides; a name that none matches takes part. Whoever walks a tree asks for each entry
//! on its way down and does not descend into what is excluded. We match bytes ourselves: globs of other dialects take
//! text only, give `{}` a meaning, and do not let `a**b` cross a slash. The oracles of the tests are rsync and git.
//!
//! A [`Filter`] is compiled once and for one side: a sender's says what is sent, a receiver's what may be deleted. What
//! directories add in files of their own is a `Scope`, made when a directory is entered and shared by all
//! below it.

mod dirs;
mod git;
mod pattern;
mod reads;
mod scope;

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use deltic_tree::rule::{Action, DirMerge, FileSyntax, FilterSide, PatternRule, Rule, Rules};
use deltic_tree::{Meta, Name};
use pattern::{Pattern, Text};

pub use dirs::cleaned;
pub use reads::{Linked, Reads, read_bounded};
pub use scope::{Fate, Judge, Scope, Scopes, Start};

use crate::lock;

/// Compiled rules, for one side. Without rules it costs nothing. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Filter(Option<Arc<Book>>);

/// What a filter is made of.
#[derive(Debug)]
struct Book {
    side: FilterSide,
    delete_excluded: bool,
    from0: bool,
    nodes: Vec<Node>,
    /// The files that the rules name and directories may bring.
    merges: Vec<Arc<Merge>>,
    ignored: Mutex<Ignored>,
}

/// Files of rules that do not count.
#[derive(Debug, Default)]
struct Ignored {
    all: HashSet<String>,
    untold: Vec<String>,
}

/// One thing to ask, in order.
#[derive(Debug)]
enum Node {
    Rule(Compiled),
    /// What directories say in the file with this number.
    Merge(usize),
}

/// A pattern and what it decides.
#[derive(Debug)]
struct Compiled {
    action: Action,
    negated: bool,
    absolute: bool,
    perishable: bool,
    xattr: bool,
    pattern: Pattern,
}

/// A file that directories may bring.
#[derive(Debug)]
struct Merge {
    name: Name,
    reading: FileSyntax,
    inherited: bool,
    /// True if its rules count at this side. If not it is not read, but a later rule about this name is none all the
    /// same.
    counts: bool,
    /// From which directory down, above the one whose rules name it, it is looked for as well.
    above: Option<Box<[u8]>>,
}

impl Filter {
    /// Compiles the rules that count at `side`; any bytes are a pattern.
    #[must_use]
    pub fn new(rules: &Rules, side: FilterSide) -> Self {
        let mut book = Book {
            side,
            delete_excluded: rules.delete_excluded,
            from0: rules.from0,
            nodes: Vec::new(),
            merges: Vec::new(),
            ignored: Mutex::default(),
        };
        for rule in &rules.list {
            match rule {
                Rule::Pattern(rule) => book.nodes.extend(book.compile(rule).map(Node::Rule)),
                Rule::DirMerge(merge) => {
                    let merge = book.merge(merge);
                    book.nodes.extend(merge.is_some().then_some(Node::Merge(book.merges.len())));
                    book.merges.extend(merge);
                }
            }
        }
        Self((!book.nodes.is_empty()).then(|| Arc::new(book)))
    }

    /// True if there is no rule.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// True if the rules about extended attributes (`x`) let the attribute `name` be told, or changed.
    #[must_use]
    pub fn admits_xattr(&self, name: &[u8]) -> bool {
        let Some(book) = &self.0 else { return true };
        Scope::default().decide_xattr(&book.nodes, name) != Some(Action::Exclude)
    }

    /// Files of rules that were found not to count since this was asked last, and why.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let Some(book) = &self.0 else { return Vec::new() };
        std::mem::take(&mut lock(&book.ignored).untold)
    }

    /// Takes those attributes away that the rules exclude.
    pub fn sift(&self, meta: &mut Meta) {
        if self.0.is_some() {
            sift(meta, |name| self.admits_xattr(name));
        }
    }
}

/// Keeps those attributes of which `admits` says so.
fn sift(meta: &mut Meta, admits: impl Fn(&[u8]) -> bool) {
    if !meta.xattrs().is_empty()
        && let Some(mut more) = meta.more.take()
    {
        more.xattrs.retain(|xattr| admits(&xattr.name));
        meta.more = more.boxed();
    }
}

impl Book {
    /// Notes that the file of rules `file` does not count, for it is a symlink of another user.
    fn ignore(&self, file: String) {
        let mut ignored = lock(&self.ignored);
        let warning = match ignored.all.len() {
            ..MAX_IGNORED => {
                format!("{file}: a symlink of another user; rules behind it do not count")
            }
            MAX_IGNORED => "rules behind more symlinks of other users do not count".into(),
            _ => return,
        };
        if ignored.all.insert(file) {
            ignored.untold.push(warning);
        }
    }

    /// The rule, if it counts at this side.
    fn compile(&self, rule: &PatternRule) -> Option<Compiled> {
        let PatternRule { action, negated, marks, pattern } = rule;
        let pattern = Pattern::new(pattern);
        let compiled = Compiled {
            action: *action,
            negated: *negated,
            absolute: marks.absolute && pattern.looks_at_paths(),
            perishable: marks.perishable,
            xattr: marks.xattr,
            pattern,
        };
        marks.sides.has(self.side, self.delete_excluded).then_some(compiled)
    }

    /// The file, if nothing of its name is looked for yet.
    fn merge(&self, merge: &DirMerge) -> Option<Arc<Merge>> {
        let DirMerge { file, reading, inherited } = merge;
        let start = file.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        let name = Name::new(&file[start..]).ok()?;
        // Only rules themselves say nothing of sides where excluded names are to be deleted; files of rules do not.
        let counts = reading.marks.sides.has(self.side, false);
        let is_new = self.merges.iter().all(|merge| merge.name != name);
        let above = (start > 0).then(|| file[..start].into());
        let merge = Merge { name, reading: *reading, inherited: *inherited, counts, above };
        is_new.then(|| Arc::new(merge))
    }
}

impl Compiled {
    fn matches(&self, text: &Text<'_>) -> bool {
        let text = if self.absolute { Text { top: 1, anchor: 1, ..*text } } else { *text };
        self.pattern.matches(&text) != self.negated
    }
}

/// Most files of rules that do not count of which each is told.
const MAX_IGNORED: usize = 1000;

#[cfg(test)]
mod tests;
