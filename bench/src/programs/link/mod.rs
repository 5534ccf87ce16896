//! `deltic-bench link`: default options beside fixed choices and beside rsync, over a grid of simulated links.
//!
//! ```text
//! bench ─► measured NEAR ─► client ─► shell ─► far-end LINK ─► measured FAR ─► server
//! ```
//!
//! A cell is a link and a kind of data. In each cell, every choice runs once a round, in turn. The links have a rate
//! and a round trip, and neither loss nor slow start.

mod choices;
mod data;
mod in_virtual_time;
mod options;
mod releases;
mod room;
mod transfer;

use std::time::Duration;

use anyhow::Result;

use super::e2e::make_older;
use super::figures::{medians, publish, seconds};
use super::peer::{PeerProgram, turns};
use super::run::{BenchRig, TransferCost};
use crate::progress::progress;
use crate::sync::LinkSpec;
use crate::table::TextTable;
use choices::{ChoiceKind, LinkChoice, choices};
use data::{LinkCase, LinkData, NEW_TIME, new_bytes};
pub(crate) use options::LinkOptions;
use options::LinkPart;
use releases::Releases;
use transfer::{forget_rates, sync_once};

/// Links of the default grid.
const LINKS: [&str; 9] = [
    "10Mbit,1ms",
    "10Mbit,30ms",
    "10Mbit,100ms",
    "100Mbit,1ms",
    "100Mbit,30ms",
    "100Mbit,100ms",
    "1000Mbit,1ms",
    "1000Mbit,30ms",
    "1000Mbit,100ms",
];

pub(crate) fn link(options: &LinkOptions) -> Result<()> {
    options.programs.announce(&[PeerProgram::Deltic, PeerProgram::Rsync])?;
    let rig = BenchRig::new(&options.programs, &options.at.dir)?;
    let links = match options.links.is_empty() {
        true => LINKS.iter().flat_map(|word| word.parse()).collect(),
        false => options.links.clone(),
    };
    if options.parts.contains(&LinkPart::Grid) {
        let cells = grid(options, &rig, &links)?;
        progress("");
        for line in verdict(&cells) {
            println!("{line}");
        }
        publish(&table(&cells), &options.at.out, "link")?;
    }
    if options.parts.contains(&LinkPart::Room) {
        let table = room::room(options, &rig, &links)?;
        progress("");
        publish(&table, &options.at.out, "link-room")?;
    }
    if options.parts.contains(&LinkPart::Virtual) {
        let table = in_virtual_time::grid(options, &rig)?;
        publish(&table, &options.at.out, "link-virtual")?;
    }
    Ok(())
}

/// Measures all choices in all cells.
fn grid(options: &LinkOptions, rig: &BenchRig, links: &[LinkSpec]) -> Result<Vec<LinkCell>> {
    let releases = Releases::fetch(options, rig)?;
    let mut cells = Vec::new();
    for between in links {
        rig.write_linked_shell(*between, Duration::ZERO)?;
        let bytes = new_bytes(*between, NEW_TIME);
        for (data, case) in releases.cases(&options.data, rig, bytes)? {
            cells.push(cell(options, rig, LinkCellName { link: *between, data }, &case)?);
        }
    }
    Ok(cells)
}

/// The link and the data of a cell.
#[derive(Clone, Copy)]
struct LinkCellName {
    link: LinkSpec,
    data: LinkData,
}

/// A choice in a cell, and the median of its runs.
struct ChoiceCost {
    name: String,
    kind: ChoiceKind,
    cost: TransferCost,
}

/// A cell with its choices, the default options first.
struct LinkCell {
    of: LinkCellName,
    costs: Vec<ChoiceCost>,
}

impl LinkCell {
    /// Returns the fastest choice of a kind.
    fn fastest(&self, kind: ChoiceKind) -> &ChoiceCost {
        let of_kind = self.costs.iter().filter(|choice| choice.kind == kind);
        of_kind.min_by_key(|choice| choice.cost.wall).unwrap_or(&self.costs[0])
    }

    /// Returns the time of the default options as a multiple of the time of the fastest choice of a kind.
    fn ratio_to(&self, kind: ChoiceKind) -> f64 {
        self.costs[0].cost.wall.as_secs_f64() / self.fastest(kind).cost.wall.as_secs_f64()
    }
}

fn cell(
    options: &LinkOptions,
    rig: &BenchRig,
    of: LinkCellName,
    case: &LinkCase,
) -> Result<LinkCell> {
    let LinkCellName { link, data } = of;
    if let Some(old) = &case.old {
        make_older(old)?;
    }
    let choices = choices(options.choices);
    let mut runs = vec![Vec::new(); choices.len()];
    for round in 0..options.runs {
        for (number, choice) in turns(&choices, round) {
            progress(&format!("{link}, {data}, round {round}: {}", choice.name));
            if choice.kind == ChoiceKind::Later {
                sync_once(rig, choice, case)?;
            } else {
                forget_rates(rig)?;
            }
            runs[number].push(sync_once(rig, choice, case)?);
        }
    }
    let costs = choices.into_iter().zip(&runs).map(|(choice, runs)| {
        let LinkChoice { name, kind, .. } = choice;
        ChoiceCost { name, kind, cost: medians(runs) }
    });
    Ok(LinkCell { of, costs: costs.collect() })
}

/// Returns sentences about all cells.
fn verdict(cells: &[LinkCell]) -> Vec<String> {
    let all = cells.len();
    let near =
        |most: f64| cells.iter().filter(|cell| cell.ratio_to(ChoiceKind::Fixed) <= most).count();
    let mut beside: Vec<f64> = cells.iter().map(|cell| cell.ratio_to(ChoiceKind::Rsync)).collect();
    beside.sort_by(f64::total_cmp);
    let slower = beside.iter().filter(|ratio| **ratio > 1.0).count();
    let median = beside.get(all / 2).copied().unwrap_or_default();
    vec![
        format!(
            "default beside the best fixed choice: within 10 % in {} of {all} cells, within 25 % in {}",
            near(1.10),
            near(1.25)
        ),
        format!(
            "default beside the faster rsync: slower in {slower} of {all} cells, median {median:.2}x of rsync's time"
        ),
    ]
}

fn table(cells: &[LinkCell]) -> TextTable {
    let mut header: Vec<String> =
        ["link", "data", "default s", "best fixed s", "best fixed choice", "default / best"]
            .map(Into::into)
            .into();
    header.extend(["rsync s", "default / rsync"].map(Into::into));
    let choices = cells.first().map_or(&[][..], |cell| &cell.costs);
    header.extend(choices.iter().map(|choice| format!("{} s", choice.name)));
    header.extend(["default B", "best B", "rsync B"].map(Into::into));
    let mut table = TextTable::new(0, header);
    for cell in cells {
        let default = &cell.costs[0];
        let [best, rsync] = [ChoiceKind::Fixed, ChoiceKind::Rsync].map(|kind| cell.fastest(kind));
        let mut row = vec![
            cell.of.link.to_string(),
            cell.of.data.to_string(),
            seconds(default.cost.wall),
            seconds(best.cost.wall),
            best.name.clone(),
            format!("{:.2}x", cell.ratio_to(ChoiceKind::Fixed)),
            seconds(rsync.cost.wall),
            format!("{:.2}x", cell.ratio_to(ChoiceKind::Rsync)),
        ];
        row.extend(cell.costs.iter().map(|choice| seconds(choice.cost.wall)));
        row.extend([default, best, rsync].map(|choice| {
            let stats = choice.cost.stats;
            (stats.sent + stats.received).to_string()
        }));
        table.row(row);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell_of(walls: [(ChoiceKind, u64); 5]) -> LinkCell {
        let costs = walls.map(|(kind, ms)| {
            let cost = TransferCost { wall: Duration::from_millis(ms), ..TransferCost::default() };
            ChoiceCost { name: ms.to_string(), kind, cost }
        });
        let of = LinkCellName { link: LinkSpec::Nothing, data: LinkData::Text };
        LinkCell { of, costs: costs.into() }
    }

    #[test]
    fn the_default_is_compared_with_fixed_choices_and_with_rsync_apart() {
        use ChoiceKind::{Default, Fixed, Later, Rsync};
        let cell = cell_of([(Default, 110), (Later, 1), (Fixed, 200), (Fixed, 100), (Rsync, 55)]);
        assert_eq!(cell.fastest(Fixed).name, "100");
        assert!((cell.ratio_to(Fixed) - 1.1).abs() < 1e-9);
        assert!((cell.ratio_to(Rsync) - 2.0).abs() < 1e-9);
        let slow = cell_of([(Default, 150), (Later, 1), (Fixed, 100), (Fixed, 200), (Rsync, 300)]);
        let said = verdict(&[cell, slow]);
        assert!(said[0].contains("within 10 % in 1 of 2 cells, within 25 % in 1"), "{said:?}");
        assert!(said[1].contains("slower in 1 of 2 cells, median 2.00x"), "{said:?}");
    }

    #[test]
    fn all_links_of_the_default_grid_parse() {
        assert!(LINKS.iter().all(|word| word.parse::<LinkSpec>().is_ok()));
    }
}
