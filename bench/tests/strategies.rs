//! `deltic bench sync` with every strategy. Each strategy must transfer the file, which the benchmark checks, and have
//! its rows.

mod common;

use common::{Run, World};
use deltic_core::Strategy;

#[test]
fn every_strategy_has_its_rows() {
    let world = World::new();
    let words = "sync -q --dir . --strategy all --size 300kB --kind cut --change 0,1% --runs 1";
    let run = Run::of(&mut world.bench(words.split_whitespace()));
    assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{run:#?}");
    for strategy in Strategy::ALL {
        let is_its = |line: &&str| line.split_whitespace().any(|word| word == strategy.name);
        let rows = run.stdout.lines().filter(is_its).count();
        // Two cases, five tables.
        assert_eq!(rows, 10, "{}: {run:#?}", strategy.name);
    }
}
