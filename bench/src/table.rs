//! Tables of text: aligned columns for terminals, Markdown, or CSV.

/// Rows of text under a header.
pub(crate) struct TextTable {
    /// Number of leading text columns, which are left-aligned. Number columns follow, right-aligned.
    words: usize,
    rows: Vec<Vec<String>>,
}

impl TextTable {
    /// Creates a table with `words` text columns and further number columns.
    pub(crate) fn new<S: Into<String>>(words: usize, header: impl IntoIterator<Item = S>) -> Self {
        Self { words, rows: vec![header.into_iter().map(Into::into).collect()] }
    }

    /// Adds a row with a cell for each column of the header.
    pub(crate) fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// Formats the rows with aligned columns.
    pub(crate) fn lines(&self) -> Vec<String> {
        let widths = self.widths();
        self.rows.iter().map(|row| self.line(row, &widths)).collect()
    }

    /// Returns the width of each column in characters.
    fn widths(&self) -> Vec<usize> {
        let columns = self.rows.first().map_or(0, Vec::len);
        let width = |at: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(at));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        (0..columns).map(width).collect()
    }

    fn line(&self, row: &[String], widths: &[usize]) -> String {
        let cells = row.iter().zip(widths).enumerate().map(|(at, (cell, width))| {
            if at < self.words { format!("{cell:width$}") } else { format!("{cell:>width$}") }
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().into()
    }

    /// Formats the table as Markdown.
    pub(crate) fn markdown(&self) -> String {
        let widths = self.widths();
        let line = |row: &[String]| {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$} "));
            format!("| {}|\n", cells.collect::<Vec<_>>().join("| "))
        };
        let rule: Vec<_> = widths.iter().map(|width| "-".repeat(*width)).collect();
        let mut lines: Vec<_> = self.rows.iter().map(|row| line(row)).collect();
        lines.insert(1, line(&rule));
        lines.concat()
    }

    /// Formats the table as CSV. Commas in cells become semicolons, so that no cell needs quotes.
    pub(crate) fn csv(&self) -> String {
        let line = |row: &Vec<String>| {
            row.iter().map(|cell| cell.replace(',', ";")).collect::<Vec<_>>().join(",") + "\n"
        };
        self.rows.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_left_aligned_and_numbers_are_right_aligned() {
        let mut table = TextTable::new(1, ["name", "GB/s"]);
        table.row(["a", "12.50"]);
        table.row(["longer", "-"]);
        assert_eq!(table.lines(), ["name     GB/s", "a       12.50", "longer      -"]);
        assert_eq!(table.csv(), "name,GB/s\na,12.50\nlonger,-\n");
        let rows = [
            "| name   | GB/s  |",
            "| ------ | ----- |",
            "| a      | 12.50 |",
            "| longer | -     |",
        ];
        assert_eq!(table.markdown(), rows.join("\n") + "\n");
    }
}
