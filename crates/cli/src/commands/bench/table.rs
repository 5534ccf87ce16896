//! Rows of cells: aligned for people, separated by commas for programs.

/// Rows of text under a header.
pub(super) struct Table {
    /// The first so many columns are words and stand left; the others are numbers and stand right.
    words: usize,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table of so many columns of words, and then numbers.
    pub(super) fn new<S: Into<String>>(words: usize, header: impl IntoIterator<Item = S>) -> Self {
        Self { words, rows: vec![header.into_iter().map(Into::into).collect()] }
    }

    /// Adds a row; its cells stand under the header's.
    pub(super) fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// The lines for people.
    pub(super) fn lines(&self) -> Vec<String> {
        let columns = self.rows.first().map_or(0, Vec::len);
        let width = |at: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(at));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<_> = (0..columns).map(width).collect();
        self.rows.iter().map(|row| self.line(row, &widths)).collect()
    }

    fn line(&self, row: &[String], widths: &[usize]) -> String {
        let cells = row.iter().zip(widths).enumerate().map(|(at, (cell, width))| {
            if at < self.words { format!("{cell:width$}") } else { format!("{cell:>width$}") }
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().into()
    }

    /// The lines for programs. No cell of ours needs quotes.
    pub(super) fn csv(&self) -> String {
        self.rows.iter().map(|row| row.join(",") + "\n").collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_left_and_numbers_right() {
        let mut table = Table::new(1, ["name", "GB/s"]);
        table.row(["a", "12.50"]);
        table.row(["longer", "-"]);
        assert_eq!(table.lines(), ["name     GB/s", "a       12.50", "longer      -"]);
        assert_eq!(table.csv(), "name,GB/s\na,12.50\nlonger,-\n");
    }
}
