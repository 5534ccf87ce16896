//! Figures after VectorCDC: throughput (Figure 6), space savings (Figure 5) and chunk lengths.

use std::path::{Path, PathBuf};

use anyhow::Result;
use deltic_core::Isa;

use super::report::{ChunkReport, ChunkerRow, SizeResults};
use super::speed::Speed;
use crate::figure::{BarChart, BarGroup, Figure, FigureContent, LineChart, both};
use crate::scale::{AxisScale, number};
use crate::size::ByteSize;

/// Draws all figures of `report` in `dir`.
pub(crate) fn draw(report: &ChunkReport, dir: &Path) -> Result<()> {
    for block in &report.blocks {
        for (name, figure) in OF_BLOCKS {
            figure(report, block).save(&of_block(dir, name, block.avg()))?;
        }
    }
    savings(report).save(&both(dir, SAVINGS))
}

/// Returns all files that [`draw`] writes for these mean lengths.
pub(crate) fn files(dir: &Path, avgs: &[ByteSize]) -> Vec<PathBuf> {
    let of_blocks =
        avgs.iter().flat_map(|avg| OF_BLOCKS.map(|(name, _)| of_block(dir, name, *avg)));
    of_blocks.chain([both(dir, SAVINGS)]).flatten().collect()
}

fn of_block(dir: &Path, name: &str, avg: ByteSize) -> [PathBuf; 2] {
    both(dir, &format!("{name}-{}", avg.to_string().replace(' ', "")))
}

fn cold(report: &ChunkReport, block: &SizeResults) -> Figure {
    let what = format!("Throughput from memory, chunks of {}", block.avg());
    throughput(report.title(what), block, |speed| speed.cold.cpu)
}

fn hot(report: &ChunkReport, block: &SizeResults) -> Figure {
    let what = format!("Throughput from the cache, chunks of {}", block.avg());
    throughput(report.title(what), block, |speed| speed.hot.cpu)
}

/// Makes a figure with a group for each chunker and a bar for each of its forms.
fn throughput(title: [String; 3], block: &SizeResults, figure: fn(&Speed) -> f64) -> Figure {
    let isas = Isa::available();
    let shown =
        |isa: &Isa| *isa == Isa::SCALAR || block.timed.iter().any(|row| row.isa == Some(*isa));
    let series: Vec<_> = isas.into_iter().filter(shown).collect();
    let at = |isa: Option<Isa>| series.iter().position(|other| Some(*other) == isa).unwrap_or(0);
    let mut groups: Vec<BarGroup> = Vec::new();
    // The first row is the vector sum, and rows of sums alone have no cutting speed.
    for row in block.timed.iter().skip(1).filter(|row| figure(&row.speed) > 0.0) {
        let bar = (at(row.isa), figure(&row.speed));
        match groups.last_mut().filter(|group| group.name == row.algorithm()) {
            Some(group) => group.bars.push(bar),
            None => groups.push(BarGroup { name: row.algorithm(), bars: vec![bar] }),
        }
    }
    let values = block.timed.iter().map(|row| figure(&row.speed));
    let values: Vec<_> = values.filter(|value| *value > 0.0).collect();
    let mark = values.first().map(|sum| (*sum, "sum of all bytes"));
    let scale = AxisScale::log(10, &values, number);
    Figure {
        title,
        axis: "GB per second of processor time (logarithmic)".into(),
        series: series.iter().map(|isa| isa.name().into()).collect(),
        content: FigureContent::Bars(BarChart { groups, mark, scale }),
    }
}

/// Makes a figure with a group for each chunker and a bar for each mean length.
fn savings(report: &ChunkReport) -> Figure {
    let mut groups: Vec<BarGroup> = Vec::new();
    for (series, block) in report.blocks.iter().enumerate() {
        for (at, ChunkerRow { name, cuts, .. }) in block.chunked.iter().enumerate() {
            if groups.len() == at {
                groups.push(BarGroup { name: (*name).into(), bars: Vec::new() });
            }
            groups[at].bars.push((series, cuts.savings()));
        }
    }
    let values = groups.iter().flat_map(|group| &group.bars).map(|bar| bar.1);
    let scale = AxisScale::linear(values.fold(1.0, f64::max));
    Figure {
        title: report.title("Space savings".into()),
        axis: "% of the bytes that need not be kept".into(),
        series: report.blocks.iter().map(|block| block.avg().to_string()).collect(),
        content: FigureContent::Bars(BarChart { groups, mark: None, scale }),
    }
}

/// Makes a figure with a line for each chunker: the share of chunks up to each length.
fn lengths(report: &ChunkReport, block: &SizeResults) -> Figure {
    let longest = block.chunked.iter().map(|row| row.cuts.percentile(100)).max().unwrap_or(1);
    let points = |row: &ChunkerRow| {
        let share = |len: u32| row.cuts.up_to(len) as f64 / row.cuts.count().max(1) as f64 * 100.0;
        let len = |point: u32| (u64::from(longest) * u64::from(point) / u64::from(POINTS)) as u32;
        (0..=POINTS).map(|point| (f64::from(len(point)) / 1024.0, share(len(point)))).collect()
    };
    let what = format!("Lengths of chunks, {} aimed at", block.avg());
    Figure {
        title: report.title(what),
        axis: "length in KiB; the share of chunks that are no longer".into(),
        series: block.chunked.iter().map(|row| row.name.into()).collect(),
        content: FigureContent::Lines(LineChart {
            lines: block.chunked.iter().map(points).collect(),
            scale: AxisScale::linear(f64::from(longest) / 1024.0),
        }),
    }
}

/// A function that makes a figure of the results for one mean length.
type OfBlock = fn(&ChunkReport, &SizeResults) -> Figure;
/// The figures that are drawn for each mean length, by file name.
const OF_BLOCKS: [(&str, OfBlock); 3] =
    [("throughput-cold", cold), ("throughput-hot", hot), ("lengths", lengths)];
/// Name of the figure for all mean lengths.
const SAVINGS: &str = "savings";
/// Number of points of a line.
const POINTS: u32 = 512;
