//! Conformance suite of stores: the same tests for every store.
//!
//! Each law is a function whose name states the law; a failed assertion gives the line. The suite uses only the
//! traits, so stores of other crates can be tested as well.

mod facts;
mod files;
mod given;
mod leftovers;
mod trees;

use deltic_tree::rule::{Action, DirMerge, FileSyntax, FilterSide, Rule, Rules};

use crate::{FactStore, Filter, Keep, Resumable, Store, StoreError};
use given::{file_meta, path};

pub use given::KEEP_ALL;

/// Checks every law against new, empty stores that `make` returns. Laws of links and of leftovers are skipped if the
/// store keeps no links or no leftovers.
///
/// # Panics
/// If a law is broken.
pub fn run<S: Store>(make: impl Fn() -> S) {
    files::run(&make);
    trees::run(&make);
    if keeps_links(&make()) {
        files::run_with_links(&make);
        trees::run_with_links(&make);
    }
    if keeps_leftovers(&make()) {
        leftovers::run(&make);
    }
}

/// Checks every law of [`FactStore`] against new, empty stores of facts that `make` returns. Laws about a kind of facts
/// are skipped if the store does not keep that kind.
///
/// # Panics
/// If a law is broken.
pub fn run_facts<F: FactStore>(make: impl Fn() -> F) {
    facts::run(&make);
}

/// True if the store can create symlinks. Such a store must serve all of [`Posix`](crate::Posix).
fn keeps_links(store: &impl Store) -> bool {
    let made = store.make_symlink(&path("link"), b"x", &file_meta(), Keep::default());
    !matches!(made, Err(StoreError::Unsupported { .. }))
}

/// True if the store keeps the bytes that a killed run wrote.
fn keeps_leftovers(store: &impl Store) -> bool {
    let noted = store.create(&path("file"), 1).expect("create").note(b"x");
    !matches!(noted, Err(StoreError::Unsupported { .. }))
}

/// Checks the laws of filters against new, empty stores that `make` returns for a filter.
///
/// # Panics
/// If a law is broken.
pub fn run_filtered<S: Store>(make: impl Fn(Filter) -> S) {
    let exclude = |pattern: &[u8]| Rule::plain(Action::Exclude, pattern);
    let filter = |list| Filter::new(&Rules { list, ..Rules::default() }, FilterSide::Receiver);
    let store = make(filter(vec![exclude(b"*.keep"), exclude(b"/cache/")]));
    trees::what_a_filter_excludes_is_neither_listed_nor_removed(&store);
    let reading = FileSyntax::default();
    let rules = DirMerge { file: b".rules"[..].into(), reading, inherited: true };
    let store = make(filter(vec![Rule::DirMerge(rules)]));
    trees::what_a_directory_protects_is_neither_listed_nor_removed(&store);
}
