//! Which names take part: rsync's include and exclude patterns, byte for byte.
//!
//! The first rule that matches decides; a name that none matches takes part. Whoever walks a tree asks for each entry
//! on its way down and does not descend into what is excluded. We match bytes ourselves: globs of other dialects take
//! text only, give `{}` a meaning, and do not let `a**b` cross a slash. The oracle of the tests is rsync itself.

mod pattern;

use deltic_core::RelPath;
use deltic_core::rule::{Action, Rule};
use pattern::Pattern;

/// Compiled rules.
#[derive(Clone, Debug, Default)]
pub struct Filter(Vec<(Action, Pattern)>);

impl Filter {
    /// Compiles `rules`; any bytes are a pattern.
    #[must_use]
    pub fn new(rules: &[Rule]) -> Self {
        Self(rules.iter().map(|rule| (rule.action, Pattern::new(&rule.pattern))).collect())
    }

    /// Whether the entry at `path`, a directory or not, takes part; its parents are judged on their own.
    #[must_use]
    pub fn admits(&self, path: &RelPath, is_dir: bool) -> bool {
        let decides = |(_, pattern): &&(Action, Pattern)| pattern.matches(path.as_bytes(), is_dir);
        path.is_root() || self.0.iter().find(decides).is_none_or(|rule| rule.0 == Action::Include)
    }
}

#[cfg(test)]
mod tests;
