//! Parser of the CSV files that the program writes.

use std::collections::HashMap;

use super::World;

/// A row: cells by column name.
pub type Line = HashMap<String, String>;

/// Parses all rows of a file, and checks that each row has as many cells as the header.
pub fn csv(world: &World, name: &str) -> Vec<Line> {
    let text = String::from_utf8(world.read(name)).expect("figures are text");
    let mut lines = text.lines().map(|line| line.split(',').map(String::from).collect::<Vec<_>>());
    let header = lines.next().expect("a header");
    let row = |cells: Vec<String>| {
        assert_eq!(cells.len(), header.len(), "{cells:?}");
        header.iter().cloned().zip(cells).collect()
    };
    lines.map(row).collect()
}

/// Parses a numeric cell.
#[track_caller]
pub fn number(line: &Line, name: &str) -> f64 {
    line[name].parse().unwrap_or_else(|error| panic!("{name} is {:?}: {error}", line[name]))
}
