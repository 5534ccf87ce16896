//! Figures of VectorCDC, taken from runs of chunkers.

use deltic_core::Isa;

use super::bench::{Measured, PaperBench};
use super::claims::{self, Claim};
use super::outcome::{Drawn, Outcome};
use super::series::SeriesTable;
use crate::chunk::report::{ChunkReport, TimedRow};

/// The values of a run that a figure shows.
pub(crate) struct ChunkView {
    /// Name of the run.
    pub(crate) run: &'static str,
    pub(crate) quantity: ChunkQuantity,
}

/// A quantity of chunkers.
#[derive(Clone, Copy)]
pub(crate) enum ChunkQuantity {
    /// Speed of the two stages of SS-CDC, and of the plain chunkers.
    TwoStages,
    /// Space savings of all chunkers.
    Savings,
    /// Speed of all chunkers with the best instruction set.
    Best,
    /// Speed of hashless chunkers by instruction set.
    InstructionSets,
    /// Space savings of blocks of a fixed length.
    Fixed,
}

impl ChunkView {
    /// Measures the run and makes the figure.
    pub(crate) fn outcome(&self, bench: &mut PaperBench) -> Outcome {
        let run = match bench.chunk(self.run) {
            Ok(run) => run,
            Err(failure) => return Outcome::Void(failure.why()),
        };
        let mut figures = SeriesTable::new(self.quantity.unit());
        self.quantity.put(&run.report, &mut figures);
        if figures.is_empty() {
            return Outcome::Void("this machine has no instruction set for the figure".into());
        }
        Outcome::Drawn(Box::new(self.drawn(&run, &figures)))
    }

    fn drawn(&self, run: &Measured<ChunkReport>, figures: &SeriesTable) -> Drawn {
        let what = self.quantity.name();
        let equal = "Equal for all: mean chunk 8 KiB (2 to 32 KiB), one thread, no hash of chunks.";
        Drawn {
            caption: format!("{what}. {equal}"),
            commands: vec![run.command.clone()],
            tables: vec![(String::new(), figures.table("chunker"))],
            claims: claims::table(&self.quantity.claims(), figures),
            plot: figures.figure(run.report.title(what.into()), format!("{what}, logarithmic")),
        }
    }
}

impl ChunkQuantity {
    const fn unit(self) -> &'static str {
        match self {
            Self::Savings | Self::Fixed => " %",
            _ => " GB/s",
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Savings | Self::Fixed => "space savings in %",
            _ => "GB a second of processor time, from the cache",
        }
    }

    fn put(self, report: &ChunkReport, figures: &mut SeriesTable) {
        for block in &report.blocks {
            match self {
                Self::Savings | Self::Fixed => {
                    for row in &block.chunked {
                        if (row.name == "fixed") == matches!(self, Self::Fixed) {
                            figures.put(row.name, "savings", row.cuts.savings());
                        }
                    }
                }
                _ => block.timed.iter().for_each(|row| self.put_speed(row, figures)),
            }
        }
    }

    fn put_speed(self, row: &TimedRow, figures: &mut SeriesTable) {
        let speed = row.speed.hot.cpu;
        let isa = row.isa.map_or("plain", Isa::name);
        let is_best = row.isa.is_none_or(|isa| Some(isa) == Isa::available().last().copied());
        match self {
            Self::TwoStages if ["crc", "gear"].contains(&row.name) => {
                figures.put(row.name, "plain", speed);
            }
            Self::TwoStages => {
                if let Some(name) = row.name.strip_prefix("ss-") {
                    figures.put(name, "two stages", speed);
                }
            }
            Self::InstructionSets if ["ram", "ae-max"].contains(&row.name) => {
                figures.put(row.name, isa, speed);
            }
            Self::Best if is_best && speed > 0.0 && row.name != "vector sum" => {
                figures.put(row.name, "best", speed);
            }
            _ => {}
        }
    }

    fn claims(self) -> Vec<Claim> {
        match self {
            Self::TwoStages => {
                vec![Claim::times(
                    "two stages to plain (CRC and Gear)",
                    "1.2 to 2×",
                    "plain",
                    "two stages",
                )]
            }
            Self::InstructionSets => vec![
                Claim::value("with SSE", "VRAM 13.3, VAE 2.9 GB/s", "sse"),
                Claim::value("with AVX2", "VRAM 19.5, VAE 5.2 GB/s", "avx2"),
                Claim::value("with AVX-512", "VRAM 24 to 26 GB/s", "avx512"),
            ],
            Self::Savings => {
                vec![Claim::value("CDC on a VM with a database", "86 to 87 %", "savings")]
            }
            Self::Fixed => vec![Claim::value("blocks (XC)", "18.98 to 83.17 %", "savings")],
            Self::Best => vec![Claim::value("slowest to fastest", "0.4 to 26 GB/s", "best")],
        }
    }
}
