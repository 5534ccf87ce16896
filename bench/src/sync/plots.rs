//! Figures after SkySync (7 to 12, 17) and NetSync (14, 18). A figure shows one data set, kind of change and link, with
//! a group for each amount of change and a bar for each way.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::report::{SyncCase, SyncReport, SyncRow};
use crate::figure::both;
use crate::figure::{BarChart, BarGroup, Figure, FigureContent};
use crate::scale::{AxisScale, number};

/// Description of a figure.
struct SyncPlot {
    file: &'static str,
    what: &'static str,
    column: &'static str,
    axis: &'static str,
    /// Factor to multiply values with.
    scale: f64,
}

impl SyncPlot {
    const ALL: [Self; 3] = [
        Self::time("time", "Time of a sync", "wall_s"),
        Self::time("cpu", "Processor time of both ends", "cpu_s"),
        Self {
            file: "bytes",
            what: "Bytes from the sender",
            column: "up_bytes",
            axis: "kB (logarithmic); in brackets: threads",
            scale: 1e-3,
        },
    ];

    const fn time(file: &'static str, what: &'static str, column: &'static str) -> Self {
        Self {
            file,
            what,
            column,
            axis: "milliseconds (logarithmic); in brackets: threads",
            scale: 1e3,
        }
    }
}

/// Rows of a figure: the same data set, link and kind of change. A file without a change belongs to every kind.
struct PlotSheet<'a> {
    name: String,
    data: String,
    rows: Vec<&'a SyncRow>,
}

/// Draws all figures of `report` in `dir`.
pub(crate) fn draw(report: &SyncReport, dir: &Path) -> Result<()> {
    for sheet in sheets(report) {
        for drawn in &SyncPlot::ALL {
            let files = both(dir, &format!("{}-{}", drawn.file, sheet.name));
            figure(report, &sheet, drawn).save(&files)?;
        }
    }
    Ok(())
}

/// Returns all files that [`draw`] writes for these cases.
pub(crate) fn files(dir: &Path, cases: &[SyncCase]) -> Vec<PathBuf> {
    let names = kinds(cases.iter()).into_iter().map(|case| sheet_name(&case));
    let both =
        |name: String| SyncPlot::ALL.map(|drawn| both(dir, &format!("{}-{name}", drawn.file)));
    names.flat_map(both).flatten().collect()
}

fn sheets(report: &SyncReport) -> Vec<PlotSheet<'_>> {
    let sheet = |case: SyncCase| {
        let rows = report.rows.iter().filter(|row| belongs(&row.case, &case)).collect();
        let data = format!("{}, {}, link: {}", case.data, case.change, case.link);
        PlotSheet { name: sheet_name(&case), data, rows }
    };
    kinds(report.rows.iter().map(|row| &row.case)).into_iter().map(sheet).collect()
}

/// Returns the first case of each sheet, in order.
fn kinds<'a>(cases: impl Iterator<Item = &'a SyncCase> + Clone) -> Vec<SyncCase> {
    let mut kinds: Vec<SyncCase> = Vec::new();
    for case in cases.clone() {
        let changes = |other: &SyncCase| same_data(other, case) && other.changed != Some(0);
        // A case without a change has a sheet of its own only if no case of the same data has a change.
        let stands = case.changed != Some(0) || !cases.clone().any(changes);
        if stands && !kinds.iter().any(|kind| belongs(case, kind)) {
            kinds.push(case.clone());
        }
    }
    kinds
}

fn same_data(one: &SyncCase, other: &SyncCase) -> bool {
    one.data == other.data && one.link == other.link
}

fn belongs(case: &SyncCase, kind: &SyncCase) -> bool {
    same_data(case, kind) && (case.change == kind.change || case.changed == Some(0))
}

fn sheet_name(case: &SyncCase) -> String {
    let SyncCase { data, change, link, .. } = case;
    let words = [data, change, link].map(|word| {
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
        word.replace(' ', "").chars().map(plain).collect::<String>()
    });
    words.join("-")
}

fn figure(report: &SyncReport, sheet: &PlotSheet<'_>, drawn: &SyncPlot) -> Figure {
    let mut series: Vec<String> = Vec::new();
    let mut groups: Vec<BarGroup> = Vec::new();
    for row in &sheet.rows {
        let Some(value) = row.figure(drawn.column) else { continue };
        let label = row.label();
        let at = series.iter().position(|name| *name == label).unwrap_or(series.len());
        if at == series.len() {
            series.push(label);
        }
        match groups.last_mut().filter(|group| group.name == row.case.amount) {
            Some(group) => group.bars.push((at, value * drawn.scale)),
            None => groups.push(BarGroup {
                name: row.case.amount.clone(),
                bars: vec![(at, value * drawn.scale)],
            }),
        }
    }
    let values: Vec<_> = groups.iter().flat_map(|group| &group.bars).map(|bar| bar.1).collect();
    let scale = AxisScale::log(10, &values, number);
    Figure {
        title: [drawn.what.into(), sheet.data.clone(), report.machine.clone()],
        axis: drawn.axis.into(),
        series,
        content: FigureContent::Bars(BarChart { groups, mark: None, scale }),
    }
}
