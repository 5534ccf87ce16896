//! Recipes that the sessions of a process keep for each other.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    reason = "makes and looks at trees"
)]

mod common;

use std::path::Path;
use std::time::{Duration, SystemTime};

use common::{noise, plan, there};
use deltic_net::embed::{Embedding, Facts, LocalFacts, RecipeCache};
use deltic_protocol::options::Options;

/// Kind of `Resume` (docs/protocol.md), by which a file is wanted by a recipe of an earlier session.
const RESUME: u8 = 41;

/// Pushes a file; true if the receiver knew the old version.
async fn pushed(source: &Path, destination: &Path, recipes: &RecipeCache, cached: bool) -> bool {
    let mut options = Options { times: true, durable: true, ..Options::default() };
    options.compare.cached = cached;
    let facts = Facts::new(LocalFacts::default().with_recipes(recipes.clone()));
    let with = Embedding { facts, ..Embedding::default() };
    let (_, back) = common::pushed(plan(source.into(), there(destination), options), with).await;
    assert_eq!(std::fs::read(destination).unwrap(), std::fs::read(source).unwrap());
    back.iter().any(|frame| frame.kind == RESUME)
}

/// Writes a version of a file, `age` seconds old.
fn write(path: &Path, bytes: &[u8], age: u64) {
    std::fs::write(path, bytes).unwrap();
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
}

#[tokio::test]
async fn the_next_version_of_a_file_that_came_is_received_without_cutting_the_old_one() {
    let trees = tempfile::tempdir().unwrap();
    let (source, destination) = (trees.path().join("a"), trees.path().join("b"));
    let recipes = RecipeCache::new(1 << 20);
    let mut bytes = noise(900_000, 7);
    let mut known = Vec::new();
    for round in 0..6_u64 {
        write(&source, &bytes, 100 - round);
        known.push(pushed(&source, &destination, &recipes, round != 4).await);
        let at = 100_000 + 90_000 * round as usize;
        bytes.splice(at..at + 10, *b"an edit of another length");
    }
    // Who asks for no cache gets none, and leaves none.
    assert_eq!(known, [false, true, true, true, false, false]);
}

#[tokio::test]
async fn a_version_that_somebody_else_wrote_is_none_that_came() {
    let trees = tempfile::tempdir().unwrap();
    let (source, destination) = (trees.path().join("a"), trees.path().join("b"));
    let recipes = RecipeCache::new(1 << 20);
    let mut bytes = noise(300_000, 7);
    for round in 0..3_u64 {
        write(&source, &bytes, 100 - round);
        let known = pushed(&source, &destination, &recipes, true).await;
        assert_eq!(known, round > 0);
        bytes[50_000 * (1 + round as usize)] ^= 1;
    }
    // Of the same length and time, by another hand.
    let meta = std::fs::metadata(&destination).unwrap();
    std::fs::write(&destination, noise(300_000, 7)).unwrap();
    let file = std::fs::File::options().write(true).open(&destination).unwrap();
    file.set_modified(meta.modified().unwrap()).unwrap();
    write(&source, &bytes, 50);
    assert!(!pushed(&source, &destination, &recipes, true).await);
}

#[tokio::test]
async fn recipes_that_were_of_no_use_for_longest_make_room() {
    for (room, is_enough) in [(3_000, false), (1 << 20, true)] {
        let trees = tempfile::tempdir().unwrap();
        let recipes = RecipeCache::new(room);
        let mut bytes = noise(200_000, 7);
        for round in 0..3_u64 {
            for name in ["a", "b", "c", "d"] {
                let (source, to) = (trees.path().join(name), trees.path().join(name.repeat(2)));
                write(&source, &bytes, 100 - round);
                let known = pushed(&source, &to, &recipes, true).await;
                assert_eq!(known, is_enough && round > 0, "{room} {round}");
            }
            bytes[50_000] ^= 1 + round as u8;
        }
    }
}
