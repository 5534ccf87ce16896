//! Values by group and series: the content of a table and of a plot with bars.

use crate::figure::{BarChart, BarGroup, Figure, FigureContent};
use crate::scale::{AxisScale, number};
use crate::table::TextTable;

/// A value for each group and series. Groups are rows of a table; series are columns.
pub(crate) struct SeriesTable {
    /// Unit of the values, with a space before it where one is written.
    pub(crate) unit: &'static str,
    groups: Vec<String>,
    series: Vec<String>,
    /// Group number, series number and value.
    values: Vec<(usize, usize, f64)>,
}

impl SeriesTable {
    /// Makes a table without values.
    pub(crate) fn new(unit: &'static str) -> Self {
        Self { unit, groups: Vec::new(), series: Vec::new(), values: Vec::new() }
    }

    /// Adds a value.
    pub(crate) fn put(&mut self, group: &str, series: &str, value: f64) {
        let group = place(&mut self.groups, group);
        let series = place(&mut self.series, series);
        self.values.push((group, series, value));
    }

    /// True without values.
    pub(crate) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns the names of the groups.
    pub(crate) fn groups(&self) -> &[String] {
        &self.groups
    }

    /// Returns the value of a series in a group.
    pub(crate) fn value(&self, group: &str, series: &str) -> Option<f64> {
        let group = self.groups.iter().position(|name| name == group)?;
        self.at(group, self.series.iter().position(|name| name == series)?)
    }

    fn at(&self, group: usize, series: usize) -> Option<f64> {
        let found = self.values.iter().find(|value| (value.0, value.1) == (group, series));
        found.map(|value| value.2)
    }

    /// Combines the values of two series in each group that has both.
    pub(crate) fn pairs(&self, of: &str, to: &str, combine: fn(f64, f64) -> f64) -> Vec<f64> {
        let both = |group: &String| Some(combine(self.value(group, of)?, self.value(group, to)?));
        self.groups.iter().filter_map(both).collect()
    }

    /// Makes a table for text.
    pub(crate) fn table(&self, corner: &str) -> TextTable {
        let mut table =
            TextTable::new(1, [corner.to_owned()].into_iter().chain(self.series.clone()));
        for (at, group) in self.groups.iter().enumerate() {
            let cell = |series| self.at(at, series).map_or_else(|| "-".into(), number);
            let cells = (0..self.series.len()).map(cell);
            table.row([group.clone()].into_iter().chain(cells));
        }
        table
    }

    /// Makes a figure with a bar for each value.
    pub(crate) fn figure(&self, title: [String; 3], axis: String) -> Option<Figure> {
        let groups = self.groups.iter().enumerate().map(|(at, name)| {
            let bars = (0..self.series.len()).filter_map(|no| Some((no, self.at(at, no)?)));
            BarGroup { name: name.clone(), bars: bars.collect() }
        });
        let values: Vec<_> = self.values.iter().map(|value| value.2).collect();
        let scale = AxisScale::log(10, &values, number);
        let chart = BarChart { groups: groups.collect(), mark: None, scale };
        let content = FigureContent::Bars(chart);
        (!self.is_empty()).then(|| Figure { title, axis, series: self.series.clone(), content })
    }
}

/// Returns the number of a name, which is added if missing.
fn place(names: &mut Vec<String>, name: &str) -> usize {
    names.iter().position(|known| known == name).unwrap_or_else(|| {
        names.push(name.into());
        names.len() - 1
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_value_is_a_dash() {
        let mut figures = SeriesTable::new(" ms");
        figures.put("1 B", "rsync", 2.5);
        figures.put("2 B", "dsync", 10.0);
        let text = figures.table("changed").csv();
        assert_eq!(text, "changed,rsync,dsync\n1 B,2.5,-\n2 B,-,10\n");
        assert_eq!(figures.value("2 B", "dsync"), Some(10.0));
        assert!(figures.figure(Default::default(), String::new()).is_some());
    }
}
