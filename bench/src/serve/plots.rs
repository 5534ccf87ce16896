//! Figures after those of WebR2sync+: 19 and 20 (simple load), 21 and 22 (clients that the server bears).

use std::path::Path;

use anyhow::{Context, Result};

use super::{Load, Options, Row};
use crate::figure::{Bars, Content, Figure, Group, both};
use crate::machine::Machine;
use crate::scale::{Scale, number};

/// A figure that is drawn: its file, its subject, its axis and whether that is logarithmic, and the value of a row.
type Drawn = (&'static str, (&'static str, &'static str, bool), fn(&Row) -> f64);

/// Draws the figures of this load into `dir`.
pub(super) fn draw(rows: &[Row], options: &Options, dir: &Path) -> Result<()> {
    std::fs::create_dir_all(dir).with_context(|| format!("make {}", dir.display()))?;
    let simple: &[Drawn] = &[
        ("server", ("Processor time of the server for a sync", "milliseconds", false), |row| {
            row.server_ms
        }),
        ("traffic", ("Bytes to the server for a sync", "kB (logarithmic)", true), Row::up_kb),
    ];
    let bears = "Clients that the processors of the server bear";
    let drawn = match options.load {
        Load::Simple => simple,
        Load::Regular => {
            &[("regular", (bears, "clients, an edit each 10 s", false), Row::bears as _)]
        }
        Load::Intensive => {
            &[("intensive", (bears, "clients, a sync each 10 s", false), Row::bears as _)]
        }
    };
    for (file, words, value) in drawn {
        figure(rows, options, *words, *value).save(&both(dir, file))?;
    }
    Ok(())
}

fn figure(
    rows: &[Row],
    options: &Options,
    (subject, axis, is_log): (&str, &str, bool),
    value: fn(&Row) -> f64,
) -> Figure {
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
