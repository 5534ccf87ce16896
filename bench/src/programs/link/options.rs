//! Options of `deltic-bench link`.

use clap::{Args, ValueEnum};

use super::super::peer::ProgramPaths;
use super::super::release::ReleasePair;
use super::super::run::BenchDirs;
use super::choices::FixedSet;
use super::data::LinkData;
use crate::sync::LinkSpec;

#[derive(Args)]
pub(crate) struct LinkOptions {
    /// Link between the ends, may be repeated; each rate is combined with 1, 30 and 100 ms by default
    #[arg(long = "link", value_name = "RATE,RTT")]
    pub(super) links: Vec<LinkSpec>,
    /// Parts to measure
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = LinkPart::REAL)]
    pub(super) parts: Vec<LinkPart>,
    /// Fixed choices of compression, chunks, whole files and streams
    #[arg(long, value_enum, default_value_t = FixedSet::Usual)]
    pub(super) choices: FixedSet,
    /// Kinds of data
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = LinkData::ALL)]
    pub(super) data: Vec<LinkData>,
    /// Two releases of an npm package that holds text
    #[arg(long, default_value = "npm:typescript@5.9.2..5.9.3")]
    pub(super) text: ReleasePair,
    /// Two releases of an npm package that holds a program
    #[arg(long, default_value = "npm:@esbuild/linux-x64@0.25.10..0.25.11")]
    pub(super) binary: ReleasePair,
    /// Runs of each choice; the median is shown
    #[arg(long, default_value_t = 3)]
    pub(super) runs: u32,
    #[command(flatten)]
    pub(super) at: BenchDirs,
    #[command(flatten)]
    pub(super) programs: ProgramPaths,
}

/// A part of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum LinkPart {
    /// Default options beside fixed choices and rsync
    Grid,
    /// Pings beside a transfer without a limit, with a fixed limit, and with `--bwlimit auto`
    Room,
    /// The grid in virtual time
    Virtual,
}

impl LinkPart {
    /// The parts with real processes.
    const REAL: [Self; 2] = [Self::Grid, Self::Room];
}
