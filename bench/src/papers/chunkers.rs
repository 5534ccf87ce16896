//! Figures of VectorCDC, taken from runs of chunkers.

use deltic_core::Isa;
use deltic_core::chunk::PublishedForm;

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
    /// Speed of RAM and AE with vectors in one phase and in both.
    Phases,
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
        if let Some(form) = row.published {
            self.put_published(row, form, figures);
            return;
        }
        let isa = row.isa.map_or("plain", Isa::name);
        let is_best = row.isa.is_none_or(|isa| Some(isa) == Isa::available().last().copied());
        match self {
            Self::TwoStages if ["crc", "gear"].contains(&row.name) => {
                figures.put(row.name, "plain", speed);
            }
            Self::TwoStages => {
                if let Some(name) = row.name.strip_prefix("ss-") {
                    figures.put(name, &format!("two stages, {isa}"), speed);
                }
            }
            Self::InstructionSets if ["ram", "ae-max"].contains(&row.name) => {
                figures.put(row.name, isa, speed);
            }
            Self::Phases if ["ram", "ae-max"].contains(&row.name) && isa == "sse" => {
                figures.put(row.name, OURS, speed);
            }
            Self::Best if is_best && speed > 0.0 && row.name != "vector sum" => {
                figures.put(row.name, OURS, speed);
            }
            _ => {}
        }
    }

    /// Adds a form of VectorCDC to the figures that have these forms beside Deltic's.
    fn put_published(self, row: &TimedRow, form: PublishedForm, figures: &mut SeriesTable) {
        let speed = row.speed.hot.cpu;
        let best = Isa::available().pop();
        let series = match (self, form) {
            (Self::Best | Self::InstructionSets | Self::Phases, PublishedForm::Native) => {
                NATIVE.into()
            }
            (Self::Best, PublishedForm::Both(isa)) if Some(isa) == best => VECTORS.into(),
            (Self::InstructionSets, PublishedForm::Both(isa)) => {
                format!("{}, published", isa.name())
            }
            (Self::Phases, PublishedForm::SearchOnly(isa)) if isa.name() == "sse" => {
                ONE_PHASE.into()
            }
            (Self::Phases, PublishedForm::Both(isa)) if isa.name() == "sse" => VECTORS.into(),
            _ => return,
        };
        figures.put(row.name, &series, speed);
    }

    fn claims(self) -> Vec<Claim> {
        match self {
            Self::TwoStages => {
                let title = "two stages to plain (CRC and Gear)";
                vec![Claim::times(title, "1.2 to 2×", "plain", "two stages, avx512")]
            }
            Self::InstructionSets => vec![
                Claim::value("VRAM, VAE with SSE", "13.3, 2.9 GB/s", "sse, published"),
                Claim::value("VRAM, VAE with AVX2", "19.5, 5.2 GB/s", "avx2, published"),
                Claim::value("VRAM, VAE with AVX-512", "24 to 26 GB/s (VRAM)", "avx512, published"),
                Claim::times("SSE to native", "8.7×, 2×", NATIVE, "sse, published"),
                Claim::times("AVX2 to native", "12.3×, 3.45×", NATIVE, "avx2, published"),
            ],
            Self::Phases => vec![
                Claim::value("VRAM-EBS", "5.7 to 10 GB/s", ONE_PHASE),
                Claim::value("VRAM with SSE", "13 to 16.7 GB/s", VECTORS),
                Claim::times("both phases to one", "1.3 to 2.9×", ONE_PHASE, VECTORS),
            ],
            Self::Savings => {
                vec![Claim::value("CDC on a VM with a database", "86 to 87 %", "savings")]
            }
            Self::Fixed => vec![Claim::value("blocks (XC)", "18.98 to 83.17 %", "savings")],
            Self::Best => vec![
                Claim::value("slowest to fastest", "0.4 to 26 GB/s", OURS),
                Claim::value("native RAM and AE", "1.5 to 1.6 GB/s", NATIVE),
                Claim::times("VRAM to RAM, VAE to AE", "16× (VRAM)", NATIVE, VECTORS),
            ],
        }
    }
}

/// Series of Deltic's own forms.
const OURS: &str = "deltic";
/// Series of the forms that VectorCDC publishes.
const NATIVE: &str = "native, published";
const ONE_PHASE: &str = "one phase, published";
const VECTORS: &str = "both phases, published";
