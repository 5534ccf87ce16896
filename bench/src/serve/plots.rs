//! Figures after WebR2sync+: 19 and 20 (simple load), 21 and 22 (supported number of clients).

use std::path::Path;

use anyhow::{Context, Result};

use super::load::{Load, Options};
use super::row::Row;
use crate::figure::{Bars, Content, Figure, Group, both};
use crate::machine::Machine;
use crate::scale::{Scale, number};

/// Description of a figure.
struct Drawn {
    file: &'static str,
    subject: &'static str,
    /// Unit of the axis; true for a logarithmic axis.
    axis: (&'static str, bool),
    value: fn(&Row) -> f64,
}

const SERVER: Drawn = Drawn {
    file: "server",
    subject: "Processor time of the server for a sync",
    axis: ("milliseconds", false),
    value: |row| row.server_ms,
};
const TRAFFIC: Drawn = Drawn {
    file: "traffic",
    subject: "Bytes to the server for a sync",
    axis: ("kB (logarithmic)", true),
    value: Row::up_kb,
};
const REGULAR: Drawn = Drawn {
    file: "regular",
    subject: "Clients that the processors of the server bear",
    axis: ("clients, an edit each 10 s", false),
    value: Row::bears,
};
const INTENSIVE: Drawn =
    Drawn { file: "intensive", axis: ("clients, a sync each 10 s", false), ..REGULAR };

/// Draws the figures of this load in `dir`.
pub(super) fn draw(rows: &[Row], options: &Options, dir: &Path) -> Result<()> {
    std::fs::create_dir_all(dir).with_context(|| format!("make {}", dir.display()))?;
    let drawn = match options.load {
        Load::Simple => &[SERVER, TRAFFIC][..],
        Load::Regular => &[REGULAR],
        _ => &[INTENSIVE],
    };
    drawn.iter().try_for_each(|drawn| figure(rows, options, drawn).save(&both(dir, drawn.file)))
}

fn figure(rows: &[Row], options: &Options, drawn: &Drawn) -> Figure {
    let &Drawn { subject, axis: (axis, is_log), value, .. } = drawn;
    let mut edits: Vec<_> = rows.iter().map(|row| row.edit).collect();
    edits.sort_unstable();
    edits.dedup();
    let group = |edit: u64| {
        let bars = options.ways.iter().enumerate().filter_map(|(series, way)| {
            let row = rows.iter().find(|row| row.edit == edit && row.way == *way)?;
            Some((series, value(row)))
        });
        Group { name: format!("{edit} B"), bars: bars.collect() }
    };
    let groups: Vec<_> = edits.into_iter().map(group).collect();
    let values = groups.iter().flat_map(|group: &Group| group.bars.iter().map(|(_, value)| *value));
    let values: Vec<_> = values.collect();
    let scale = match is_log {
        true => Scale::log(10, &values, number),
        false => Scale::linear(values.into_iter().fold(1.0, f64::max)),
    };
    let tls = if options.plain { "no TLS" } else { "TLS" };
    let data = format!("files of {}, edits in turn appended, inserted, cut; {tls}", options.size);
    Figure {
        title: [subject.into(), data, Machine::here().name],
        axis: axis.into(),
        series: options.ways.clone(),
        content: Content::Bars(Bars { groups, mark: None, scale }),
    }
}
