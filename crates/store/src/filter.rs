//! Filter rules of rsync, byte for byte, and `.gitignore` files as one more kind of per-directory rules file.
//!
//! The first rule that matches a name decides; a name without a matching rule is included. A walk of a tree checks each
//! entry on the way down, and does not descend into excluded directories. Patterns match bytes. Glob libraries for
//! other dialects cannot be used: they match text only, treat `{}` specially, and do not let `a**b` match a slash.
//! Tests compare the results with those of rsync and git.
//!
//! A [`Filter`] is compiled once and for one side: the sender's filter selects the files to send, the receiver's
//! filter the files that may be deleted. Rules that directories add in files of their own form a `Scope`, which is
//! made when a directory is entered and shared by all directories below.

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

/// Compiled rules for one side. A filter without rules allocates no memory. Clones share the rules.
#[derive(Clone, Debug, Default)]
pub struct Filter(Option<Arc<Book>>);

/// Contents of a filter that has rules.
#[derive(Debug)]
struct Book {
    side: FilterSide,
    delete_excluded: bool,
    from0: bool,
    nodes: Vec<Node>,
    /// Per-directory rules files that the rules name.
    merges: Vec<Arc<Merge>>,
    ignored: Mutex<Ignored>,
}

/// Rules files that are ignored.
#[derive(Debug, Default)]
struct Ignored {
    all: HashSet<String>,
    untold: Vec<String>,
}

/// A step of a decision. Steps are tried in order.
#[derive(Debug)]
enum Node {
    Rule(Compiled),
    /// Rules of the per-directory rules file with this number.
    Merge(usize),
}

/// A compiled pattern rule.
#[derive(Debug)]
struct Compiled {
    action: Action,
    negated: bool,
    absolute: bool,
    perishable: bool,
    xattr: bool,
    pattern: Pattern,
}

/// A rules file that directories may contain.
#[derive(Debug)]
struct Merge {
    name: Name,
    reading: FileSyntax,
    inherited: bool,
    /// True if the rules of the file apply to this side. If false, the file is not read, but later rules about a file
    /// of the same name are still dropped.
    counts: bool,
    /// Directory part of the file's path in the rule, if there is one. The search for the file may start in that
    /// directory, above the root.
    above: Option<Box<[u8]>>,
}

impl Filter {
    /// Compiles the rules that apply to `side`. Any bytes are a valid pattern.
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

    /// True if the rules about extended attributes (`x`) allow the attribute `name` to be sent or changed.
    #[must_use]
    pub fn admits_xattr(&self, name: &[u8]) -> bool {
        let Some(book) = &self.0 else { return true };
        Scope::default().decide_xattr(&book.nodes, name) != Some(Action::Exclude)
    }

    /// Returns a warning for each rules file that was ignored since the last call, with the reason.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let Some(book) = &self.0 else { return Vec::new() };
        std::mem::take(&mut lock(&book.ignored).untold)
    }

    /// Removes the extended attributes that the rules exclude.
    pub fn remove_excluded_xattrs(&self, meta: &mut Meta) {
        if self.0.is_some() {
            retain_xattrs(meta, |name| self.admits_xattr(name));
        }
    }
}

/// Keeps only the extended attributes that `admits` accepts.
fn retain_xattrs(meta: &mut Meta, admits: impl Fn(&[u8]) -> bool) {
    if !meta.xattrs().is_empty()
        && let Some(mut more) = meta.more.take()
    {
        more.xattrs.retain(|xattr| admits(&xattr.name));
        meta.more = more.into_box();
    }
}

impl Book {
    /// Notes that the rules file `file` is ignored because the file is a symlink of another user.
    fn ignore(&self, file: String) {
        let mut ignored = lock(&self.ignored);
        let warning = match ignored.all.len() {
            ..MAX_IGNORED => {
                format!("{file}: a symlink of another user; its rules are ignored")
            }
            MAX_IGNORED => "rules files behind further symlinks of other users are ignored".into(),
            _ => return,
        };
        if ignored.all.insert(file) {
            ignored.untold.push(warning);
        }
    }

    /// Compiles a rule. Returns `None` if the rule does not apply to this side.
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
        marks.sides.applies_at(self.side, self.delete_excluded).then_some(compiled)
    }

    /// Returns the rules file of a `dir-merge` rule. `None` if an earlier rule names a file of the same name.
    fn merge(&self, merge: &DirMerge) -> Option<Arc<Merge>> {
        let DirMerge { file, reading, inherited } = merge;
        let start = file.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        let name = Name::new(&file[start..]).ok()?;
        // The option `--delete-excluded` changes the side of pattern rules only, not of rules files.
        let counts = reading.marks.sides.applies_at(self.side, false);
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

/// Most ignored rules files that get a warning each.
const MAX_IGNORED: usize = 1000;

#[cfg(test)]
mod tests;
