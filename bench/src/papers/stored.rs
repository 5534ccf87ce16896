//! SkySync with sums that storage keeps: figures 9 and 18, as root on a btrfs of its own.

use std::path::PathBuf;
use std::rc::Rc;

use anyhow::{Result, anyhow};

use super::bench::{Measured, PaperBench};
use super::claims::{self, Claim};
use super::outcome::{Drawn, Outcome};
use super::runs::RunMode;
use super::series::SeriesTable;
use crate::machine::MachineInfo;
use crate::programs::skysync::{self, SkysyncOptions, SkysyncRow};
use crate::programs::sums::{self, SumsOptions};
use crate::sync::report::SyncReport;
use crate::table::TextTable;

/// Figure 9: the sender's time for unmodified files, with kept and with computed sums.
pub(crate) fn kept_sums(bench: &mut PaperBench) -> Result<Outcome> {
    if let Some(why) = cannot_mount(bench) {
        return Ok(Outcome::Skipped(why));
    }
    let dir = bench.settings.dir.display().to_string();
    let runs = if bench.mode() == RunMode::Full { "3" } else { "1" };
    let words =
        ["--isa", "best", "--strong", "sha256", "--no-links", "--runs", runs, "--dir", &dir];
    let options = SkysyncOptions::by_words(&words)?;
    let Some(rows) = skysync::measured(&options)? else {
        return Ok(Outcome::Skipped("no btrfs could be made".into()));
    };
    let mut figures = SeriesTable::new(" ms");
    for SkysyncRow { size, way, cost, .. } in rows.iter().filter(|row| row.changed == 0) {
        figures.put(size, way, cost[0] * 1e3);
    }
    let [kept, computed] = ["skysync-f, sums kept", "rsync, sums of skysync"];
    let mut read = SeriesTable::new(" MB");
    for row in rows.iter().filter(|row| row.way.starts_with("skysync-f") && row.change != "cut") {
        let work = if row.changed == 0 {
            format!("{}, no change", row.size)
        } else {
            format!("{}, {} {} B", row.size, row.change, row.changed)
        };
        read.put(&work, &row.way, row.read / 1e6);
    }
    let claims = [
        Claim::times("F with kept sums, to rsync", "fastest", kept, "rsync"),
        Claim::times("of that by storage", "-", kept, computed),
    ];
    let what = "processor time of the sender in ms, files without a change";
    Ok(Outcome::Drawn(Box::new(Drawn {
        caption: format!(
            "{what}. Equal for all: strong hash sha256, proof BLAKE3 of the file (none where a column says so), \
             compressor none, threads 1 (deltic: hash and proof of its own)."
        ),
        commands: vec!["deltic-bench skysync --isa best --strong sha256 --no-links".into()],
        tables: vec![(String::new(), figures.table("file")), (READ.into(), read.table("file"))],
        claims: claims::table(&claims, &figures),
        plot: figures
            .figure([what.into(), "on btrfs".into(), MachineInfo::here().name], what.into()),
    })))
}

/// Figure 18: time to read sums from btrfs, and time to compute them.
pub(crate) fn extraction(bench: &mut PaperBench) -> Result<Outcome> {
    if let Some(why) = cannot_mount(bench) {
        return Ok(Outcome::Skipped(why));
    }
    let dir = bench.settings.dir.display().to_string();
    let is_full = bench.mode() == RunMode::Full;
    let [size, files, runs] =
        if is_full { ["4GiB", "20000", "5"] } else { ["256MiB", "2000", "3"] };
    let words = ["--size", size, "--files", files, "--runs", runs, "--dir", &dir];
    let options = SumsOptions::by_words(&words)?;
    let Some(table) = sums::measured(&options)? else {
        return Ok(Outcome::Skipped("no btrfs could be made".into()));
    };
    let mut claims = TextTable::new(2, ["number", "paper", "here"]);
    claims.row(["read sums; compute them", "1.8 to 119.2 s; 26 to 246 s", "the table above"]);
    Ok(Outcome::Drawn(Box::new(Drawn {
        caption: "time to read the CRC-32C that btrfs keeps, and to read the file and compute them. Equal for both: \
                  one thread, CRC-32C."
            .into(),
        commands: vec!["deltic-bench sums".into()],
        tables: vec![(String::new(), table)],
        claims: Some(claims),
        plot: None,
    })))
}

/// Returns the results of a run whose files are on a btrfs that keeps sums. `None` if there is none.
pub(crate) fn sync_with_kept_sums(
    bench: &mut PaperBench,
    run: &'static str,
) -> Result<Option<Rc<Measured<SyncReport>>>> {
    if cannot_mount(bench).is_some() {
        return Ok(None);
    }
    let before = bench.settings.dir.clone();
    let result = skysync::on_btrfs(&before, |mount| {
        bench.settings.dir = mount.into();
        bench.sync(run)
    });
    bench.settings.dir = before;
    result?.transpose().map_err(|failure| anyhow!(failure.why()))
}

/// Title of the table of bytes read.
const READ: &str = "MB that the receiver reads of the old and the new version, without blocks that btrfs shares: the \
                    old version once for sums and once where a copy is not aligned, the new version once for the proof";

/// Returns why a btrfs cannot be mounted for this run.
fn cannot_mount(bench: &PaperBench) -> Option<String> {
    if bench.mode() == RunMode::Smoke {
        return Some("--smoke mounts no file system".into());
    }
    if !nix::unistd::geteuid().is_root() {
        return Some("only root can mount a btrfs".into());
    }
    let is_there = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
        .chain(["/usr/sbin", "/sbin"].map(PathBuf::from))
        .any(|dir| dir.join("mkfs.btrfs").exists());
    (!is_there).then(|| "mkfs.btrfs is not installed".into())
}
