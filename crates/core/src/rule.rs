//! Which entries of a tree take part in a sync: the nouns. Matching lives with the trees, in the store.

/// What becomes of an entry that a rule's pattern matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// It takes part.
    Include,
    /// It does not, nor does anything below it.
    Exclude,
}

/// One line of a filter. The first rule that matches an entry decides.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rule {
    /// What to do with matching entries.
    pub action: Action,
    /// A glob over the path below the root; bytes, as names are.
    pub pattern: Box<[u8]>,
}
