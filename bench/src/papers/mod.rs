//! `deltic-bench papers`: one command that redraws the figures and tables of five papers.
//!
//! [`manifest`] has a row for each figure and table: what the paper shows, and how it is redrawn or why it is not. A row
//! is redrawn from *runs* ([`runs`]), each the words of a command line of `deltic-bench sync` or `chunk`, and measured
//! once for all rows that show it. A table holds hash, proof, compressor and threads equal, except the setting that the
//! figure studies; a row that cannot is void, and says why ([`void`](outcome::Outcome::Void)).

mod bench;
mod beyond;
mod chunkers;
mod claims;
mod hash_tables;
mod hashes;
mod load;
mod made;
mod manifest;
mod outcome;
mod pages;
mod runs;
mod series;
mod stored;
mod strong_sums;
mod uniformity;
mod view;

use std::path::PathBuf;

use anyhow::{Result, ensure};

use crate::exit::{Exit, complain, give_up, print, words};
use crate::table::TextTable;
use bench::{BenchSettings, PaperBench};
use manifest::Paper;
use manifest::item::{Label, PaperItem};
use pages::{PageItem, PaperPages};
use runs::RunMode;

/// Redraw the figures and tables of the papers, with equal settings
///
/// Writes into --out a page for each paper, an index, and for each redrawn figure
/// a table as CSV and a plot as SVG. A figure whose conditions do not hold is void:
/// the page says why, and shows no numbers.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, after_help = EXAMPLES)]
pub(crate) struct PapersArgs {
    /// Tiny inputs, to check that each row still works: less than a minute
    #[arg(long, conflicts_with = "quick")]
    smoke: bool,
    /// Smaller inputs: about ten minutes instead of an hour
    #[arg(long)]
    quick: bool,
    /// Papers, figures and tables to redraw: skysync, netsync:t3, parasync:f22 [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    only: Vec<String>,
    /// Directory for pages, tables and plots
    #[arg(long, value_name = "DIR", default_value = "bench/out/papers")]
    out: PathBuf,
    /// Directory with releases, as tools/fetch-versions.sh makes it; rows without their releases are void
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Directory for the synced files [default: the directory for temporary files]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Most processor time of other programs during a run, in percent of all processors; figures by the clock are void
    /// where other programs took more
    #[arg(long, value_name = "PERCENT", default_value_t = 25.0)]
    load: f64,
    /// Print the index of all figures and tables, and measure nothing
    #[arg(long)]
    list: bool,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
}

impl PapersArgs {
    fn mode(&self) -> RunMode {
        match (self.smoke, self.quick) {
            (true, _) => RunMode::Smoke,
            (_, true) => RunMode::Quick,
            _ => RunMode::Full,
        }
    }

    fn settings(&self) -> BenchSettings {
        BenchSettings {
            mode: self.mode(),
            data: self.data.clone(),
            dir: self.dir.clone().unwrap_or_else(std::env::temp_dir),
            most_load: self.load,
            is_quiet: self.quiet,
        }
    }

    /// Returns the command line that repeats this run, for pages.
    fn command(&self) -> String {
        let only = self.only.join(",");
        let mode = [(self.smoke, " --smoke"), (self.quick, " --quick")];
        let mode = mode.into_iter().filter_map(|(is_on, word)| is_on.then_some(word));
        let only = (!only.is_empty()).then(|| format!(" --only {only}"));
        let data = self.data.as_ref().map(|_| " --data DIR".to_owned());
        let load = (self.load != 25.0).then(|| format!(" --load {}", self.load));
        let words = mode.map(String::from).chain(only).chain(data).chain(load);
        format!("deltic-bench papers{}", words.collect::<String>())
    }

    /// Returns the items of a paper that are asked for.
    fn items(&self, paper: Paper) -> Vec<PaperItem> {
        let is_asked = |label: Label| {
            let word = format!("{}:{}", paper.name(), label.word());
            self.only.is_empty()
                || self.only.iter().any(|only| *only == word || only == paper.name())
        };
        let items = manifest::items(paper).into_iter();
        items.filter(|item| is_asked(item.label)).collect()
    }

    fn check(&self) -> Result<()> {
        for only in &self.only {
            let known = Paper::ALL.into_iter().any(|paper| {
                let words = manifest::items(paper).into_iter().map(|item| item.label.word());
                *only == paper.name()
                    || words.into_iter().any(|word| *only == format!("{}:{word}", paper.name()))
            });
            ensure!(known, "--only {only}: no such paper, figure or table; --list shows all");
        }
        Ok(())
    }
}

/// Redraws the figures that are asked for.
pub(crate) fn run(args: &PapersArgs) -> Exit {
    if let Err(refusal) = args.check() {
        complain(&words(&refusal), None);
        return Exit::Usage;
    }
    let done = if args.list { list(args) } else { redraw(args) };
    done.unwrap_or_else(|error| give_up(&error))
}

fn list(args: &PapersArgs) -> Result<Exit> {
    let mut table = TextTable::new(3, ["item", "shows", "redrawn"]);
    for paper in Paper::ALL {
        for PaperItem { label, shows, redraw } in args.items(paper) {
            let item = format!("{}:{}", paper.name(), label.word());
            table.row([item, shows.into(), redraw.how()]);
        }
    }
    print(&table.lines())?;
    Ok(Exit::Success)
}

fn redraw(args: &PapersArgs) -> Result<Exit> {
    let pages = PaperPages::new(&args.out, args.command())?;
    let mut bench = PaperBench::new(args.settings());
    let mut table = TextTable::new(3, ["item", "outcome", "why"]);
    for paper in Paper::ALL {
        let items = args.items(paper).into_iter();
        let drawn: Vec<_> = items
            .map(|item| {
                let outcome = item.redraw.outcome(&mut bench)?;
                let name = format!("{}:{}", paper.name(), item.label.word());
                table.row([name, outcome.word().into(), outcome.why()]);
                Ok(PageItem { item, outcome })
            })
            .collect::<Result<_>>()?;
        if !drawn.is_empty() {
            pages.write(paper, &drawn)?;
        }
    }
    pages.write_index()?;
    print(&table.lines())?;
    Ok(Exit::Success)
}

const EXAMPLES: &str = "\
EXAMPLES:
  deltic-bench papers --list                      every figure and table, and how it is redrawn
  deltic-bench papers --smoke                     each row with tiny inputs
  deltic-bench papers --quick --data releases --out docs/papers
                                                  the pages of the documentation
  deltic-bench papers --only netsync,skysync:f12  a paper, and a figure of another paper";
