//! Figures after WebR2sync+: 19 and 20 (simple load), 21 and 22 (supported number of clients).

use std::path::Path;

use anyhow::{Context, Result};

use super::load::{LoadKind, ServeOptions};
use super::row::LoadRow;
use crate::figure::{BarChart, BarGroup, Figure, FigureContent, both};
use crate::machine::MachineInfo;
use crate::scale::{AxisScale, number};

/// Description of a figure.
struct ServePlot {
    file: &'static str,
    subject: &'static str,
    /// Unit of the axis; true for a logarithmic axis.
    axis: (&'static str, bool),
    value: fn(&LoadRow) -> f64,
}

const SERVER: ServePlot = ServePlot {
    file: "server",
    subject: "Processor time of the server for a sync",
    axis: ("milliseconds", false),
    value: |row| row.server_ms,
};
const TRAFFIC: ServePlot = ServePlot {
    file: "traffic",
    subject: "Bytes to the server for a sync",
    axis: ("kB (logarithmic)", true),
    value: LoadRow::up_kb,
};
const REGULAR: ServePlot = ServePlot {
    file: "regular",
    subject: "Clients that the processors of the server bear",
    axis: ("clients, an edit each 10 s", false),
    value: LoadRow::supported_clients,
};
const INTENSIVE: ServePlot =
    ServePlot { file: "intensive", axis: ("clients, a sync each 10 s", false), ..REGULAR };

/// Draws the figures of this load in `dir`.
pub(super) fn draw(rows: &[LoadRow], options: &ServeOptions, dir: &Path) -> Result<()> {
    std::fs::create_dir_all(dir).with_context(|| format!("make {}", dir.display()))?;
    let drawn = match options.load {
        LoadKind::Simple => &[SERVER, TRAFFIC][..],
        LoadKind::Regular => &[REGULAR],
        _ => &[INTENSIVE],
    };
    drawn.iter().try_for_each(|drawn| figure(rows, options, drawn).save(&both(dir, drawn.file)))
}

fn figure(rows: &[LoadRow], options: &ServeOptions, drawn: &ServePlot) -> Figure {
    let &ServePlot { subject, axis: (axis, is_log), value, .. } = drawn;
    let mut edits: Vec<_> = rows.iter().map(|row| row.edit).collect();
    edits.sort_unstable();
    edits.dedup();
    let group = |edit: u64| {
        let bars = options.ways.iter().enumerate().filter_map(|(series, way)| {
            let row = rows.iter().find(|row| row.edit == edit && row.way == *way)?;
            Some((series, value(row)))
        });
        BarGroup { name: format!("{edit} B"), bars: bars.collect() }
    };
    let groups: Vec<_> = edits.into_iter().map(group).collect();
    let values =
        groups.iter().flat_map(|group: &BarGroup| group.bars.iter().map(|(_, value)| *value));
    let values: Vec<_> = values.collect();
    let scale = match is_log {
        true => AxisScale::log(10, &values, number),
        false => AxisScale::linear(values.into_iter().fold(1.0, f64::max)),
    };
    let tls = if options.plain { "no TLS" } else { "TLS" };
    let data = format!("files of {}, edits in turn appended, inserted, cut; {tls}", options.size);
    Figure {
        title: [subject.into(), data, MachineInfo::here().name],
        axis: axis.into(),
        series: options.ways.clone(),
        content: FigureContent::Bars(BarChart { groups, mark: None, scale }),
    }
}
