//! What every store does: one suite, run against each of them.
//!
//! Each law is a function whose name says it; a failed assertion names the line. The suite uses nothing but the traits,
//! so a store of another crate can be held to it as well.

mod facts;
mod files;
mod given;
mod leftovers;
mod trees;

use deltic_tree::rule::{Action, DirMerge, FileSyntax, FilterSide, Rule, Rules};

use crate::{FactStore, Filter, Keep, Resumable, Store, StoreError};
use given::{file_meta, path};

pub use given::KEEP_ALL;

/// Holds the stores that `make` makes, each empty, to every law of what they keep. All keep files and directories.
///
/// # Panics
/// Where one is broken.
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

/// Checks every law of facts against the stores of facts that `make` makes, each empty. Laws of facts that a store does
/// not keep are left out.
///
/// # Panics
/// Where a law is broken.
pub fn run_facts<F: FactStore>(make: impl Fn() -> F) {
    facts::run(&make);
}

/// Probes whether the store has symbolic links, and with them all of [`Posix`](crate::Posix).
fn keeps_links(store: &impl Store) -> bool {
    let made = store.make_symlink(&path("link"), b"x", &file_meta(), Keep::default());
    !matches!(made, Err(StoreError::Unsupported { .. }))
}

/// Probes whether the store keeps what a killed run wrote.
fn keeps_leftovers(store: &impl Store) -> bool {
    let noted = store.create(&path("file"), 1).expect("create").note(b"x");
    !matches!(noted, Err(StoreError::Unsupported { .. }))
}

/// Holds the stores that `make` makes with a filter to the laws of filters.
///
/// # Panics
/// Where one is broken.
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
