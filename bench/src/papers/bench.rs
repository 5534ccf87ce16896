//! Measures each run once, for all rows that need the run.

use std::collections::HashMap;
use std::path::PathBuf;
use std::rc::Rc;

use anyhow::Result;
use tempfile::TempDir;

use super::load::LoadWatch;
use super::made::make_trees;
use super::runs::{self, DataSets, MissingSet, RunMode};
use crate::chunk::report::ChunkReport;
use crate::exit::words;
use crate::progress::progress;
use crate::sync::report::SyncReport;
use crate::{chunk, sync};

/// A measured run.
pub(crate) struct Measured<R> {
    pub(crate) report: R,
    /// The command line that repeats the run.
    pub(crate) command: String,
    /// Processor time of other programs in percent.
    pub(crate) load: f64,
}

/// Why a run has no results. Every row that needs the run is void.
#[derive(Clone, Debug)]
pub(crate) enum RunFailure {
    /// A set is missing. A row with other runs too is made from these.
    Missing(String),
    Failed(String),
}

impl RunFailure {
    /// Returns the reason for pages.
    pub(crate) fn why(&self) -> String {
        match self {
            Self::Missing(set) => {
                format!("set missing: {set} (tools/fetch-versions.sh DIR, then --data DIR)")
            }
            Self::Failed(why) => why.clone(),
        }
    }
}

type RunResult<R> = Result<Rc<Measured<R>>, RunFailure>;

/// Directories and settings of the measured runs.
pub(crate) struct BenchSettings {
    pub(crate) mode: RunMode,
    /// Directory with releases.
    pub(crate) data: Option<PathBuf>,
    /// Directory for synced files.
    pub(crate) dir: PathBuf,
    /// Most processor time of other programs in percent, for figures by the clock.
    pub(crate) most_load: f64,
    pub(crate) is_quiet: bool,
}

/// Measures each run once.
pub(crate) struct PaperBench {
    pub(crate) settings: BenchSettings,
    syncs: HashMap<&'static str, RunResult<SyncReport>>,
    chunks: HashMap<&'static str, RunResult<ChunkReport>>,
    /// Made trees, once a run needs the trees.
    trees: Option<TempDir>,
}

impl PaperBench {
    /// Makes a bench without results.
    pub(crate) fn new(settings: BenchSettings) -> Self {
        Self { settings, syncs: HashMap::new(), chunks: HashMap::new(), trees: None }
    }

    /// Returns the size of the inputs.
    pub(crate) fn mode(&self) -> RunMode {
        self.settings.mode
    }

    /// Returns the results of a run of whole syncs. Fails with the reason why a row that needs the run is void.
    pub(crate) fn sync(&mut self, name: &'static str) -> RunResult<SyncReport> {
        if !self.syncs.contains_key(name) {
            let result = self.measure(name, "sync", sync::measured_by);
            self.syncs.insert(name, result);
        }
        self.syncs[name].clone()
    }

    /// Returns the results of a run of chunkers. Fails with the reason why a row that needs the run is void.
    pub(crate) fn chunk(&mut self, name: &'static str) -> RunResult<ChunkReport> {
        if !self.chunks.contains_key(name) {
            let result = self.measure(name, "chunk", chunk::measured_by);
            self.chunks.insert(name, result);
        }
        self.chunks[name].clone()
    }

    /// Returns the directory of made trees.
    fn trees(&mut self) -> Result<PathBuf> {
        if self.trees.is_none() {
            let dir =
                tempfile::Builder::new().prefix("deltic-trees-").tempdir_in(&self.settings.dir)?;
            make_trees(dir.path())?;
            self.trees = Some(dir);
        }
        Ok(self.trees.as_ref().map_or_else(PathBuf::new, |dir| dir.path().into()))
    }

    fn measure<R>(
        &mut self,
        name: &str,
        command: &str,
        measure: fn(&[String]) -> Result<R>,
    ) -> RunResult<R> {
        let words_of = runs::words(name).expect("rows name runs of the table");
        let trees = match words_of.contains("{made/") {
            true => Some(self.trees().map_err(failed)?),
            false => None,
        };
        let BenchSettings { mode, data, dir, is_quiet, .. } = &self.settings;
        let sets = DataSets { data: data.as_deref(), made: trees.as_deref() };
        let expanded = runs::expand(words_of, *mode, sets);
        let expanded = expanded.map_err(|MissingSet(set)| RunFailure::Missing(set))?;
        if !is_quiet {
            progress(&format!("{name}: {}", expanded.join(" ")));
        }
        let mut all = expanded.clone();
        all.push("--quiet".into());
        if command == "sync" {
            all.extend(["--dir".into(), dir.display().to_string()]);
        }
        let watch = LoadWatch::start();
        let report = measure(&all).map_err(failed)?;
        progress("");
        let load = watch.percent();
        let shown = sets.hidden_in(&expanded.join(" "));
        let command = format!("deltic-bench {command} {shown}");
        Ok(Rc::new(Measured { report, command, load }))
    }
}

fn failed(error: anyhow::Error) -> RunFailure {
    RunFailure::Failed(words(&error))
}
