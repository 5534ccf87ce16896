//! Weak sums alone: speed (NetSync table 2), uniformity (NetSync figure 11), and chunks that share a weak sum (ParaSync
//! figure 10).

use std::collections::{HashMap, HashSet};
use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use deltic_core::chunk::{SummingChunker, cut_all};
use deltic_core::{Algorithm, AtEnd, Crc32c, Fingerprint, WeakKind};
use rustix::time::{ClockId, clock_gettime};

use super::bench::{PaperBench, RunFailure};
use super::claims::{self, Claim};
use super::outcome::{Drawn, Outcome};
use super::runs::RunMode;
use super::series::SeriesTable;
use super::uniformity::{chi_square, chunks, spec, verdict};
use crate::machine::MachineInfo;
use crate::median::median;
use crate::random::Random;
use crate::table::TextTable;

/// NetSync, table 2: speed of weak sums by chunk length, with chunking and alone.
pub(crate) fn weak_speeds(bench: &mut PaperBench) -> Result<Outcome> {
    let data = Random::new(1).bytes(HOT_BYTES);
    let cutting = cutting_speeds(bench, &data);
    let claims = [
        Claim::value("LastFP", "471 to 664 MB/s", "lastfp"),
        Claim::value("Adler-32", "301 to 314 MB/s", "adler-rsync, second pass"),
        Claim::value("FastFP+16", "253 to 313 MB/s", "fastfp-16"),
        Claim::value("FastFP", "334 to 368 MB/s", "fastfp"),
        Claim::times("FastFP to chunking alone", "-", "no sum", "fastfp"),
        Claim::times("one loop to two", "-", "fastfp, second pass", "fastfp"),
    ];
    let what = "MB a second of chunking by FastCDC with a weak sum of each chunk, from the cache";
    let mut drawn = figures_of(what, "mean chunk", &cutting);
    drawn.claims = claims::table(&claims, &cutting);
    let alone = "MB a second of a weak sum alone:".to_owned();
    drawn.tables.push((alone, lone_speeds(bench, &data).table("chunk")));
    Ok(Outcome::Drawn(Box::new(drawn)))
}

/// Measures FastCDC alone, with sums in the loop that cuts, and with sums of each chunk that was just cut.
fn cutting_speeds(bench: &PaperBench, data: &[u8]) -> SeriesTable {
    let mut figures = SeriesTable::new(" MB/s");
    for avg in [1024, 2048, 8192] {
        let spec = spec(Algorithm::FastCdcNc, avg);
        let chunker = spec.build();
        let mut put = |series: &str, run: &dyn Fn()| {
            let speed = data.len() as f64 / seconds(bench, run) / 1e6;
            figures.put(&format!("{avg} B"), series, speed);
        };
        put("no sum", &|| {
            black_box(cut_all(&chunker, black_box(data), AtEnd::Yes, |_| {}));
        });
        for kind in WeakKind::ALL {
            if let Some(chunker) = SummingChunker::new(&spec, kind) {
                put(kind.name(), &|| {
                    chunker.cut_all(black_box(data), AtEnd::Yes, |_, sum| {
                        black_box(sum);
                    });
                });
            }
            put(&format!("{}, second pass", kind.name()), &|| {
                cut_all(&chunker, black_box(data), AtEnd::Yes, |chunk| {
                    black_box(kind.of(chunk));
                });
            });
        }
    }
    figures
}

fn lone_speeds(bench: &PaperBench, data: &[u8]) -> SeriesTable {
    let mut figures = SeriesTable::new(" MB/s");
    for len in [512, 2048, 8192, 32_768] {
        for kind in WeakKind::ALL {
            let time = seconds(bench, || {
                for chunk in data.chunks(len) {
                    black_box(kind.of(black_box(chunk)));
                }
            });
            figures.put(&format!("{len} B"), kind.name(), data.len() as f64 / time / 1e6);
        }
    }
    figures
}

/// NetSync, figure 11: chi-square of 1,024 bins of weak sums of different chunks.
pub(crate) fn uniformity(bench: &mut PaperBench) -> Result<Outcome> {
    let len = match bench.mode() {
        RunMode::Smoke => 4 << 20,
        RunMode::Quick => 64 << 20,
        RunMode::Full => 512 << 20,
    };
    let data = Random::new(1).bytes(len);
    let mut figures = SeriesTable::new("");
    let mut table = TextTable::new(
        1,
        ["mean chunk", "chunks"].into_iter().chain(WeakKind::ALL.map(WeakKind::name)),
    );
    for avg in [1024, 2048, 8192] {
        let mut seen = HashSet::new();
        let mut distinct = chunks(&data, Algorithm::FastCdcNc, avg);
        distinct.retain(|chunk| seen.insert(Fingerprint::of(chunk)));
        let judged = WeakKind::ALL.map(|kind| {
            let sums: Vec<u32> = distinct.iter().map(|chunk| kind.of(chunk)).collect();
            let statistic = chi_square(&sums);
            figures.put(&format!("{avg} B"), kind.name(), statistic);
            verdict(statistic).to_owned()
        });
        table.row([format!("{avg} B"), distinct.len().to_string()].into_iter().chain(judged));
    }
    let mut claims = TextTable::new(2, ["number", "paper", "here"]);
    claims.row([
        "LastFP; FastFP+16; Adler-32 and FastFP",
        "rejected; accepted at 1 %; at 10 %",
        "the table above",
    ]);
    let what = "highest level at which a uniform distribution is accepted, random bytes, chunks of FastCDC";
    let axis = "chi-square of 1,024 bins, logarithmic: 1,023 expected";
    Ok(Outcome::Drawn(Box::new(Drawn {
        caption: format!("{what}. Equal for all: the chunks."),
        commands: Vec::new(),
        tables: vec![(String::new(), table)],
        claims: Some(claims),
        plot: figures.figure([what.into(), axis.into(), MachineInfo::here().name], axis.into()),
    })))
}

/// ParaSync, figure 10: share of chunks by the number of chunks with the same CRC-32C.
pub(crate) fn shared_weak_sums(bench: &mut PaperBench) -> Result<Outcome> {
    let Some(set) =
        bench.settings.data.as_ref().map(|data| data.join("typescript")).filter(|set| set.exists())
    else {
        return Ok(Outcome::Void(RunFailure::Missing("typescript".into()).why()));
    };
    let mut counts: HashMap<u32, u64> = HashMap::new();
    for file in files(&set)? {
        for chunk in chunks(&fs::read(file)?, Algorithm::Crc, 8192) {
            *counts.entry(Crc32c::of(chunk).get()).or_default() += 1;
        }
    }
    let all: u64 = counts.values().sum();
    let share = |least: u64, most: u64| {
        let chunks: u64 = counts.values().filter(|count| (least..most).contains(*count)).sum();
        chunks as f64 / all.max(1) as f64 * 100.0
    };
    let mut figures = SeriesTable::new(" %");
    for (name, least, most) in [
        ("1", 1, 2),
        ("2 to 9", 2, 10),
        ("10 to 99", 10, 100),
        ("100 to 999", 100, 1000),
        ("1000 and more", 1000, u64::MAX),
    ] {
        figures.put(name, "typescript", share(least, most));
    }
    let under_ten = share(1, 10);
    let mut drawn = figures_of(
        "chunks in % by the number of chunks with one CRC-32C, 4/8/12 KiB",
        "chunks with one sum",
        &figures,
    );
    let mut claims = TextTable::new(2, ["number", "paper", "here"]);
    claims.row(["fewer than 10 chunks share a sum", "80 to 90 %", &format!("{under_ten:.1} %")]);
    claims.row(["over 100", "3 to 5 %", &format!("{:.1} %", share(101, u64::MAX))]);
    claims.row(["over 1,000", "0.1 to 0.5 %", &format!("{:.1} %", share(1001, u64::MAX))]);
    drawn.claims = Some(claims);
    Ok(Outcome::Drawn(Box::new(drawn)))
}

/// Returns the files of a directory, sorted by name.
fn files(dir: &Path) -> Result<Vec<std::path::PathBuf>> {
    let entries = fs::read_dir(dir)?.map(|entry| Ok(entry?.path()));
    let mut files = entries.collect::<Result<Vec<_>>>()?;
    files.sort();
    Ok(files)
}

pub(super) fn figures_of(what: &str, corner: &str, figures: &SeriesTable) -> Drawn {
    let machine = MachineInfo::here().name;
    Drawn {
        caption: format!("{what}. Equal for all: the bytes, one thread."),
        commands: Vec::new(),
        tables: vec![(String::new(), figures.table(corner))],
        claims: None,
        plot: figures.figure([what.into(), String::new(), machine], format!("{what}, logarithmic")),
    }
}

/// Returns the processor time of `run` in seconds, the median of several rounds.
pub(super) fn seconds(bench: &PaperBench, run: impl Fn()) -> f64 {
    let rounds = if bench.mode() == RunMode::Smoke { 3 } else { 31 };
    let clock = || {
        let now = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
    };
    let round = |_| {
        let start = clock();
        run();
        (clock() - start).max(Duration::from_nanos(1)).as_secs_f64()
    };
    median((0..rounds).map(round))
}

/// Larger than the first-level cache, smaller than the second.
pub(super) const HOT_BYTES: usize = 256 << 10;
