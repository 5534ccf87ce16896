//! The names that a receiver asked for: a sender must not bring anything else.

use deltic_tree::{Name, Names, glob};

/// The names that may be listed at the root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expect {
    /// These.
    pub names: Names,
    /// And what one of these patterns matches (`deltic_tree::glob`).
    pub globs: Vec<Box<[u8]>>,
    /// And what the root itself is.
    pub own: bool,
}

impl Expect {
    /// True where `name` was asked for.
    #[must_use]
    pub fn admits(&self, name: &Name) -> bool {
        self.names.contains(name) || self.globs.iter().any(|g| glob::matches(g, name.as_bytes()))
    }
}

impl<const N: usize> From<[Name; N]> for Expect {
    fn from(names: [Name; N]) -> Self {
        Self { names: names.into_iter().collect(), ..Self::default() }
    }
}
