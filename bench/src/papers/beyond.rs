//! The comparison in which all systems sync the same files: time, bytes, processor time and memory, and the rows in
//! which Deltic's default is not the first.

use std::collections::BTreeMap;

use anyhow::Result;
use deltic_core::Strategy;

use super::bench::{Measured, PaperBench, RunFailure};
use super::outcome::{Drawn, Outcome};
use super::runs::{BEYOND, KEPT};
use super::series::SeriesTable;
use super::stored::sync_with_kept_sums;
use super::view::group;
use crate::exit::words;
use crate::sync::report::{SyncReport, SyncRow};
use crate::table::TextTable;

/// A measure of all systems, with the goal for the default.
struct Measure {
    title: &'static str,
    columns: &'static [&'static str],
    scale: f64,
    /// Most that the default may take, as a multiple of the first system.
    most: f64,
    is_by_clock: bool,
}

/// Table 1: all systems on the same work.
pub(crate) fn all_systems(bench: &mut PaperBench) -> Result<Outcome> {
    let work = match AllWork::measure(bench) {
        Ok(work) => work,
        Err(why) => return Ok(Outcome::Void(why)),
    };
    let tables = MEASURES.iter().map(|measure| work.table(measure)).collect();
    let plot = work.figures(&MEASURES[0]);
    let title = ["Time of a sync".into(), work.settings(), work.machine.clone()];
    let plot = if work.is_loaded { None } else { plot.figure(title, "ms, logarithmic".into()) };
    Ok(Outcome::Drawn(Box::new(Drawn {
        caption: work.settings(),
        commands: work.commands,
        tables,
        claims: None,
        plot,
    })))
}

/// Table 2: work where the default misses its goals.
pub(crate) fn misses(bench: &mut PaperBench) -> Result<Outcome> {
    let work = match AllWork::measure(bench) {
        Ok(work) => work,
        Err(why) => return Ok(Outcome::Void(why)),
    };
    let header = ["work", "measure", "first system", "first", "deltic", "times"];
    let mut table = TextTable::new(3, header);
    for measure in MEASURES.iter().filter(|measure| !(measure.is_by_clock && work.is_loaded)) {
        work.put_misses(measure, &mut table);
    }
    let goals = "Rows where deltic takes more than 1.05 times the time or bytes, or 1.1 times the processor time, of \
                 the first system, or more than 64 MiB.";
    let tables = vec![(String::new(), table)];
    let time = if work.is_loaded {
        format!(" Time is left out: other programs took {:.0} %.", work.load)
    } else {
        String::new()
    };
    let caption = format!("{goals}{time} {}", work.settings());
    Ok(Outcome::Drawn(Box::new(Drawn {
        caption,
        commands: Vec::new(),
        tables,
        claims: None,
        plot: None,
    })))
}

/// The rows of all runs.
struct AllWork {
    rows: Vec<OwnedRow>,
    machine: String,
    commands: Vec<String>,
    /// Reasons why some work is left out.
    left_out: Vec<String>,
    /// True if other programs took so much that no time by the clock is shown.
    is_loaded: bool,
    load: f64,
}

/// Values of a system for a piece of work, by title of the measure.
struct OwnedRow {
    group: String,
    system: String,
    values: BTreeMap<&'static str, f64>,
}

impl OwnedRow {
    fn new(row: &SyncRow, sums: &str) -> Self {
        let value = |measure: &Measure| {
            let sum = measure.columns.iter().map(|column| row.figure(column)).sum::<Option<f64>>();
            sum.map(|sum| (measure.title, sum * measure.scale))
        };
        let values = MEASURES.iter().filter_map(value).collect();
        Self { group: group(row), system: format!("{}{sums}", row.name), values }
    }
}

impl AllWork {
    fn measure(bench: &mut PaperBench) -> Result<Self, String> {
        let mut work = Self {
            rows: Vec::new(),
            machine: String::new(),
            commands: Vec::new(),
            left_out: Vec::new(),
            is_loaded: false,
            load: 0.0,
        };
        for name in BEYOND {
            let run = match bench.sync(name) {
                Ok(run) => run,
                Err(failure @ RunFailure::Missing(_)) => {
                    work.left_out.push(failure.why());
                    continue;
                }
                Err(failure) => return Err(failure.why()),
            };
            work.add(&run, "");
        }
        match sync_with_kept_sums(bench, KEPT) {
            Ok(Some(run)) => work.add(&run, ", sums kept"),
            Ok(None) => {}
            Err(error) => return Err(words(&error)),
        }
        work.is_loaded = work.load > bench.settings.most_load;
        Ok(work)
    }

    fn add(&mut self, run: &Measured<SyncReport>, sums: &str) {
        self.rows.extend(run.report.rows.iter().map(|row| OwnedRow::new(row, sums)));
        self.machine.clone_from(&run.report.machine);
        self.commands.push(run.command.clone());
        self.load = self.load.max(run.load);
    }

    fn settings(&self) -> String {
        let left_out = self.left_out.iter().map(|why| format!(" Left out: {why}."));
        format!("{SETTINGS}{}", left_out.collect::<String>())
    }

    fn figures(&self, measure: &Measure) -> SeriesTable {
        let mut figures = SeriesTable::new("");
        for row in &self.rows {
            if let Some(value) = row.values.get(measure.title) {
                figures.put(&row.group, &row.system, *value);
            }
        }
        figures
    }

    fn table(&self, measure: &Measure) -> (String, TextTable) {
        if measure.is_by_clock && self.is_loaded {
            let why = format!("{}: VOID, other programs took {:.0} %.", measure.title, self.load);
            return (why, TextTable::new(1, ["work"]));
        }
        (format!("{}:", measure.title), self.figures(measure).table("work"))
    }

    fn put_misses(&self, measure: &Measure, table: &mut TextTable) {
        let figures = self.figures(measure);
        for group in figures.groups() {
            let of = |system: &str| figures.value(group, system);
            let systems = Strategy::ALL.iter().map(|strategy| strategy.name);
            let values = systems.filter_map(|system| Some((system, of(system)?)));
            let first = values.min_by(|one, other| one.1.total_cmp(&other.1));
            let (Some(deltic), Some((system, least))) = (of("deltic"), first) else { continue };
            let is_memory = measure.most.is_infinite();
            let is_miss =
                if is_memory { deltic > MOST_MEMORY_MIB } else { deltic > least * measure.most };
            if is_miss {
                let [least_is, deltic_is] = [least, deltic].map(|value| format!("{value:.1}"));
                let times = format!("{:.2}", deltic / least);
                table.row([
                    group.clone(),
                    measure.title.into(),
                    system.into(),
                    least_is,
                    deltic_is,
                    times,
                ]);
            }
        }
    }
}

/// Measures of the comparison.
const MEASURES: [Measure; 5] = [
    Measure {
        title: "time in ms",
        columns: &["wall_s"],
        scale: 1e3,
        most: 1.05,
        is_by_clock: true,
    },
    Measure {
        title: "bytes on the wire in kB",
        columns: &["up_bytes", "down_bytes"],
        scale: 1e-3,
        most: 1.05,
        is_by_clock: false,
    },
    Measure {
        title: "processor time of the sender in ms",
        columns: &["sender_cpu_s"],
        scale: 1e3,
        most: 1.1,
        is_by_clock: false,
    },
    Measure {
        title: "processor time of the receiver in ms",
        columns: &["receiver_cpu_s"],
        scale: 1e3,
        most: 1.1,
        is_by_clock: false,
    },
    Measure {
        title: "memory of both ends in MiB",
        columns: &["peak_bytes"],
        scale: 1.0 / 1_048_576.0,
        most: f64::INFINITY,
        is_by_clock: false,
    },
];
const MOST_MEMORY_MIB: f64 = 64.0;
const SETTINGS: &str = "Equal for all: compressor none, threads 1. Hash and proof are those of each system: this \
                        table compares systems, not hashes.";
