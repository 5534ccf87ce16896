//! A figure of a paper, taken from runs of whole syncs.

use super::bench::{Measured, PaperBench, RunFailure};
use super::claims::{self, Claim};
use super::outcome::{Drawn, Outcome};
use super::series::SeriesTable;
use crate::sync::report::{SyncReport, SyncRow};
use crate::sync::settings::Factor;

/// The rows of a table, and their values, that a figure shows.
pub(crate) struct SyncView {
    /// Names of runs.
    pub(crate) runs: Vec<&'static str>,
    quantity: Quantity,
    /// Compared systems.
    systems: &'static [&'static str],
    /// Systems shown in a table of their own, because a setting of theirs cannot be equal.
    beside: &'static [&'static str],
    /// Kinds of change; all if empty.
    kinds: &'static [&'static str],
    /// Settings that the figure studies. All others must be equal.
    studied: &'static [Factor],
    claims: Vec<Claim>,
}

/// A quantity of a sync: the sum of columns of `bench sync`, perhaps as a share of other columns.
#[derive(Clone, Copy)]
pub(crate) struct Quantity {
    name: &'static str,
    columns: &'static [&'static str],
    /// Columns of the whole; empty if the quantity is no share.
    whole: &'static [&'static str],
    /// Unit after a number, and the factor of values.
    unit: (&'static str, f64),
}

impl Quantity {
    /// Makes a time in milliseconds.
    pub(crate) const fn millis(name: &'static str, columns: &'static [&'static str]) -> Self {
        Self { name, columns, whole: &[], unit: (" ms", 1e3) }
    }

    /// Makes a number of bytes in kB.
    pub(crate) const fn kilobytes(name: &'static str, columns: &'static [&'static str]) -> Self {
        Self { name, columns, whole: &[], unit: (" kB", 1e-3) }
    }

    /// Makes a count.
    pub(crate) const fn count(name: &'static str, columns: &'static [&'static str]) -> Self {
        Self { name, columns, whole: &[], unit: ("", 1.0) }
    }

    /// Makes a share in percent.
    pub(crate) const fn share(
        name: &'static str,
        columns: &'static [&'static str],
        whole: &'static [&'static str],
    ) -> Self {
        Self { name, columns, whole, unit: (" %", 1e2) }
    }

    /// True if other programs on the machine change the quantity by much.
    fn is_by_clock(&self) -> bool {
        let by_clock =
            |column: &&str| ["wall_s", "waiting_s"].contains(column) || column.ends_with("busy_s");
        self.columns.iter().chain(self.whole).any(by_clock)
    }

    fn of(&self, row: &SyncRow) -> Option<f64> {
        let sum =
            |columns: &[&str]| columns.iter().map(|column| row.figure(column)).sum::<Option<f64>>();
        let part = sum(self.columns)? * self.unit.1;
        match self.whole {
            [] => Some(part),
            whole => Some(part / sum(whole)?).filter(|share| share.is_finite()),
        }
    }
}

impl SyncView {
    /// Makes a view of `systems` in `runs`.
    pub(crate) fn new(
        runs: &[&'static str],
        quantity: Quantity,
        systems: &'static [&'static str],
    ) -> Self {
        let runs = runs.to_vec();
        Self { runs, quantity, systems, beside: &[], kinds: &[], studied: &[], claims: Vec::new() }
    }

    /// Shows systems in a table of their own.
    pub(crate) fn beside(self, beside: &'static [&'static str]) -> Self {
        Self { beside, ..self }
    }

    /// Shows these kinds of change only.
    pub(crate) fn kinds(self, kinds: &'static [&'static str]) -> Self {
        Self { kinds, ..self }
    }

    /// Studies settings, which may differ.
    pub(crate) fn studies(self, studied: &'static [Factor]) -> Self {
        Self { studied, ..self }
    }

    /// Adds a number that the paper prints.
    pub(crate) fn claim(mut self, claim: Claim) -> Self {
        self.claims.push(claim);
        self
    }

    /// Measures the runs and makes the figure.
    pub(crate) fn outcome(&self, bench: &mut PaperBench) -> Outcome {
        let (mut measured, mut missing) = (Vec::new(), None);
        for run in &self.runs {
            match bench.sync(run) {
                Ok(run) => measured.push(run),
                Err(failure @ RunFailure::Missing(_)) => missing = Some(failure.why()),
                Err(failure) => return Outcome::Void(failure.why()),
            }
        }
        if let (Some(why), true) = (&missing, measured.is_empty()) {
            return Outcome::Void(why.clone());
        }
        let load = measured.iter().map(|run| run.load).fold(0.0, f64::max);
        if self.quantity.is_by_clock() && load > bench.settings.most_load {
            return Outcome::Void(format!("other programs took {load:.0} % of the processors"));
        }
        let runs: Vec<_> = measured.iter().map(|run| &**run).collect();
        let left_out = missing.map(|why| format!(" Left out: {why}.")).unwrap_or_default();
        self.draw(&runs).map_or_else(Outcome::Void, |mut drawn| {
            drawn.caption.push_str(&left_out);
            Outcome::Drawn(Box::new(drawn))
        })
    }

    fn draw(&self, runs: &[&Measured<SyncReport>]) -> Result<Drawn, String> {
        let rows = self.rows(runs, self.systems);
        let equal = self.equal_settings(&rows)?;
        let figures = self.series(&rows);
        if figures.is_empty() {
            return Err("no system was measured".into());
        }
        let commands = runs.iter().map(|run| run.command.clone()).collect();
        let Quantity { name, unit, .. } = self.quantity;
        let named = format!("{name}{}", in_unit(unit.0));
        let caption = format!("{named}. {equal}");
        let beside = self.series(&self.rows(runs, self.beside));
        let machine = runs[0].report.machine.clone();
        let axis = format!("{named}, logarithmic");
        let mut tables = vec![(String::new(), figures.table("change"))];
        if !beside.is_empty() {
            tables.push((BESIDE.into(), beside.table("change")));
        }
        Ok(Drawn {
            caption,
            commands,
            tables,
            claims: claims::table(&self.claims, &figures),
            plot: figures.figure([name.into(), equal, machine], axis),
        })
    }

    fn rows<'r>(&self, runs: &[&'r Measured<SyncReport>], systems: &[&str]) -> Vec<&'r SyncRow> {
        let rows = || runs.iter().flat_map(|run| &run.report.rows);
        let is_shown = |row: &&SyncRow| {
            let change = &*row.case.change;
            self.kinds.is_empty() || self.kinds.contains(&change) || row.case.changed == Some(0)
        };
        let of = |system: &&str| rows().filter(|row| row.name == *system).collect::<Vec<_>>();
        systems.iter().flat_map(of).filter(is_shown).collect()
    }

    /// Returns a sentence with the settings that all rows share. Fails if a setting differs that is not studied.
    fn equal_settings(&self, rows: &[&SyncRow]) -> Result<String, String> {
        let mut equal = Vec::new();
        for factor in Factor::ALL.into_iter().filter(|factor| !self.studied.contains(factor)) {
            let values = rows.iter().filter_map(|row| row.settings.as_ref());
            let mut values: Vec<_> = values.map(|settings| settings.value(factor)).collect();
            values.sort_unstable();
            values.dedup();
            match &values[..] {
                [value] => equal.push(format!("{} {value}", factor.name())),
                _ => {
                    return Err(format!(
                        "unequal settings: {} {}",
                        factor.name(),
                        values.join(", ")
                    ));
                }
            }
        }
        let studied: Vec<_> = self.studied.iter().map(|factor| factor.name()).collect();
        let studied = match &studied[..] {
            [] => String::new(),
            names => format!(" Studied: {}.", names.join(", ")),
        };
        Ok(format!("Equal for all: {}.{studied}", equal.join(", ")))
    }

    fn series(&self, rows: &[&SyncRow]) -> SeriesTable {
        let mut figures = SeriesTable::new(self.quantity.unit.0);
        for row in rows {
            if let Some(value) = self.quantity.of(row) {
                figures.put(&group(row), &self.label(row), value);
            }
        }
        figures
    }

    /// Returns the name of a series: the system, and the settings that the figure studies.
    fn label(&self, row: &SyncRow) -> String {
        let Some(settings) = &row.settings else { return row.name.clone() };
        let values = self.studied.iter().filter(|factor| **factor != Factor::Proof);
        let values = values.map(|factor| match factor {
            Factor::Threads => match settings.value(*factor) {
                one if one == "1" => "1 thread".into(),
                many => format!("{many} threads"),
            },
            _ => settings.value(*factor),
        });
        [row.name.clone()].into_iter().chain(values).collect::<Vec<_>>().join(", ")
    }
}

/// Returns the name of a group: data, change and link.
pub(crate) fn group(row: &SyncRow) -> String {
    let case = &row.case;
    let change = match case.changed {
        Some(0) => "no change".into(),
        Some(_) => format!("{} {}", case.change, case.amount),
        None => case.change.clone(),
    };
    let link = if case.link == "none" { String::new() } else { format!(", {}", case.link) };
    format!("{}, {change}{link}", case.data)
}

fn in_unit(unit: &str) -> String {
    match unit.trim() {
        "" => String::new(),
        unit => format!(" in {unit}"),
    }
}

/// Title of the table of systems that a figure does not compare.
const BESIDE: &str = "Beside these, with a hash and a proof of its own:";

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use deltic_core::Strategy;

    use super::*;
    use crate::sync::report::SyncCase;
    use crate::sync::settings::{LiteralCodec, SyncSettings};

    fn row(name: &str, codec: LiteralCodec, threads: u32) -> SyncRow {
        let case = SyncCase {
            data: "1 MB".into(),
            change: "insert".into(),
            changed: Some(1),
            amount: "1 B".into(),
            new_len: 1,
            link: "none".into(),
        };
        let strategy = Strategy::by_name(name).unwrap();
        let threads = NonZeroU32::new(threads).unwrap();
        let settings = SyncSettings::new(strategy, threads, codec, None);
        SyncRow::new(case, name, Some(settings))
    }

    fn equal(view: &SyncView, rows: &[SyncRow]) -> Result<String, String> {
        view.equal_settings(&rows.iter().collect::<Vec<_>>())
    }

    #[test]
    fn a_table_of_unequal_settings_is_void() {
        let view = || SyncView::new(&[], Quantity::millis("time", &["wall_s"]), &[]);
        let none = LiteralCodec::Nothing;
        let told = equal(&view(), &[row("dsync", none, 2), row("netsync", none, 2)]).unwrap();
        assert_eq!(
            told,
            "Equal for all: strong hash sha1, proof BLAKE3 of the file, compressor none, threads 1, mean chunk the \
             system's own."
        );
        for (rows, why) in [
            (
                [row("dsync", none, 1), row("netsync", LiteralCodec::Zstd(3), 1)],
                "compressor none, zstd 3",
            ),
            ([row("dsync", none, 1), row("rsync", none, 1)], "strong hash md5, sha1"),
            ([row("skysync-c", none, 1), row("skysync-f", none, 2)], "threads 1, 2"),
        ] {
            assert_eq!(equal(&view(), &rows), Err(format!("unequal settings: {why}")));
        }
        let studied = view().studies(&[Factor::Codec]);
        let rows = [row("dsync", none, 1), row("netsync", LiteralCodec::Own, 1)];
        assert!(equal(&studied, &rows).unwrap().ends_with("Studied: compressor."));
        assert_eq!(studied.label(&rows[1]), "netsync, the system's own");
    }
}
