//! Runs all cases in all ways, taking turns, in a temporary directory.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process;

use anyhow::{Context, Result, ensure};

use super::SyncPlan;
use super::made::{FileChange, write_new, write_old};
use super::peers::PeerLink;
use super::report::{SyncCase, SyncRow};
use super::settings::LiteralCodec;
use super::tree::len_of;
use super::trial::{SyncFiles, SyncResult, SyncWay};
use super::words::{ChangeAmount, ChangeKind, DataKind, EditPlaces, LinkSpec, OtherProgram};
use crate::exit::shown;
use crate::exit::{complain, words};
use crate::progress::StepProgress;
use crate::size::ByteSize;

/// Two versions of a file.
#[derive(Clone, Debug)]
pub(crate) enum VersionPair {
    /// Generated versions. Without a change, the new version is equal with another modification time.
    Made { data: DataKind, size: ByteSize, change: Option<(ChangeKind, ChangeAmount)> },
    /// Files or directories of the user.
    Pair { old: PathBuf, new: PathBuf },
}

impl VersionPair {
    /// Makes a scene without a change.
    pub(crate) fn same(data: DataKind, size: ByteSize) -> Self {
        Self::Made { data, size, change: None }
    }

    /// Describes the scene for tables. The user's files must exist.
    pub(crate) fn case(&self, link: LinkSpec) -> Result<SyncCase> {
        let link = link.to_string();
        match self {
            Self::Made { data, size, change } => {
                let len = size.bytes();
                let changed = change.map_or(0, |(_, amount)| amount.of(len));
                let name = change.map_or("none", |(change, _)| change.name());
                let amount =
                    change.map_or(ChangeAmount::Bytes(ByteSize::from(0)), |(_, amount)| amount);
                let amount = amount.to_string();
                let new_len = match change {
                    Some((ChangeKind::Insert, _)) => len + changed,
                    Some((ChangeKind::Cut, _)) => len - changed,
                    _ => len,
                };
                let (data, change) = (data.describe(*size), name.into());
                Ok(SyncCase { data, change, changed: Some(changed), amount, new_len, link })
            }
            Self::Pair { old, new } => {
                let old_name = shown(old.file_name().map_or(old, Path::new));
                let (data, new_len) = (shown(new.file_name().map_or(new, Path::new)), len_of(new)?);
                len_of(old)?;
                let is_alike = old.is_dir() == new.is_dir();
                ensure!(is_alike, "{old_name} and {data}: neither two files nor two directories");
                let (change, amount) = (format!("from {old_name}"), "-".into());
                Ok(SyncCase { data, change, changed: None, amount, new_len, link })
            }
        }
    }
}

/// A way to sync, used for all cases.
enum SyncSubject {
    Way(SyncWay),
    Peer(OtherProgram, LinkSpec),
}

/// A running comparison, with the ways that could not be measured.
pub(crate) struct Comparison {
    dir: WorkDir,
    peers: Vec<OtherProgram>,
    /// Compressor of literals.
    codec: LiteralCodec,
    /// Places of changes.
    places: EditPlaces,
    /// Kind and length of the generated old version on disk.
    made: Option<(DataKind, u64)>,
    /// Ways that a session refused. An error was printed for each.
    refused: HashSet<&'static str>,
}

impl Comparison {
    /// Makes the directory and drops programs that are not installed.
    pub(crate) fn new(plan: &SyncPlan<'_>) -> Result<Self> {
        let parent = plan.args.dir.clone().unwrap_or_else(std::env::temp_dir);
        let dir = WorkDir::new(&parent)?;
        let mut peers = plan.args.peer.clone();
        peers.retain(|peer| match peer.version() {
            Ok(version) => {
                if !plan.args.quiet {
                    eprintln!("{}: {version}", shown(&peer.program));
                }
                true
            }
            Err(error) => {
                let why = words(&error);
                complain(&format!("{} is left out: {why}", peer.name()), None);
                false
            }
        });
        let codec = plan.args.codec();
        let places = plan.args.places;
        Ok(Self { dir, peers, codec, places, made: None, refused: HashSet::new() })
    }

    /// True if every requested way of Deltic was measured.
    pub(crate) fn is_whole(&self) -> bool {
        self.refused.is_empty()
    }

    /// Measures a row for each case and way.
    pub(crate) fn rows(&mut self, plan: &SyncPlan<'_>) -> Result<Vec<SyncRow>> {
        let mut rows = Vec::new();
        let ways = plan.strategies.len() * plan.threads.len() + self.peers.len();
        let turns = plan.scenes.len() * plan.links.len() * ways * plan.args.runs.get();
        let mut steps = StepProgress::new(turns, plan.args.quiet);
        for scene in &plan.scenes {
            steps.show(&format!("writing {}", scene.case(LinkSpec::Nothing)?.data));
            let files = self.prepare(scene)?;
            for link in &plan.links {
                let turns =
                    CaseTurns { plan, files: &files, link: *link, case: scene.case(*link)? };
                rows.extend(self.measure_case(&turns, &mut steps)?);
            }
        }
        Ok(rows)
    }

    /// Writes the versions of a scene to disk. The old version is written only if it changed.
    fn prepare(&mut self, scene: &VersionPair) -> Result<SyncFiles> {
        let [made_old, made_new, dest] = ["old", "new", "dest"].map(|name| self.dir.path(name));
        let (what, change) = match scene {
            VersionPair::Pair { old, new } => {
                // A sync does not follow a symbolic link, so links are resolved here.
                let real = |path: &PathBuf| {
                    path.canonicalize().with_context(|| format!("cannot read {}", shown(path)))
                };
                return Ok(SyncFiles { old: real(old)?, new: real(new)?, dest });
            }
            VersionPair::Made { data, size, change } => ((*data, size.bytes()), *change),
        };
        let failed = |path: &PathBuf| format!("write {}", shown(path));
        if self.made != Some(what) {
            let (data, size) = what;
            write_old(&made_old, data, size).with_context(|| failed(&made_old))?;
            self.made = Some(what);
        }
        let (change, bytes) =
            change.map_or((ChangeKind::Insert, 0), |(change, amount)| (change, amount.of(what.1)));
        let edit = FileChange { kind: change, bytes, places: self.places };
        write_new(&made_old, &made_new, edit).with_context(|| failed(&made_new))?;
        Ok(SyncFiles { old: made_old, new: made_new, dest })
    }

    /// Measures all ways of a case, taking turns.
    fn measure_case(
        &mut self,
        turns: &CaseTurns<'_>,
        steps: &mut StepProgress,
    ) -> Result<Vec<SyncRow>> {
        let subjects = self.subjects(turns);
        let mut rows: Vec<_> = subjects.iter().map(|subject| subject.row(&turns.case)).collect();
        let runs = turns.plan.args.runs.get();
        for run in 1..=runs {
            for (subject, row) in subjects.iter().zip(&mut rows) {
                let SyncCase { data, change, amount, .. } = &turns.case;
                steps.next(&format!(
                    "{data}, {change} {amount}: {}, run {run} of {runs}",
                    row.label()
                ));
                self.measure_once(subject, turns.files, row)
                    .with_context(|| format!("{}: {data}, {change}", row.label()))?;
            }
        }
        rows.retain(|row| !row.is_empty());
        Ok(rows)
    }

    fn measure_once(
        &mut self,
        subject: &SyncSubject,
        files: &SyncFiles,
        row: &mut SyncRow,
    ) -> Result<()> {
        if matches!(subject, SyncSubject::Way(way) if self.refused.contains(way.strategy.name)) {
            return Ok(());
        }
        files.restore()?;
        let sample = match subject {
            SyncSubject::Peer(peer, link) => {
                let Self { codec, dir: WorkDir(dir), .. } = self;
                let compress = codec.is_zstd();
                peer.run(files, &PeerLink { link: *link, compress, dir })?
            }
            SyncSubject::Way(way) => match way.run(files)? {
                SyncResult::Well(sample) => *sample,
                SyncResult::Refused(why) => {
                    self.refused.insert(way.strategy.name);
                    complain(&format!("{} is left out: {why}", way.strategy.name), None);
                    return Ok(());
                }
            },
        };
        files.check()?;
        row.add(&sample);
        Ok(())
    }

    fn subjects(&self, turns: &CaseTurns<'_>) -> Vec<SyncSubject> {
        let SyncPlan { args, strategies, threads, .. } = turns.plan;
        let way = |strategy, threads| SyncWay {
            strategy,
            threads,
            link: turns.link.link(),
            codec: self.codec,
            block_bytes: args.block_size.map(|size| size.bytes() as u32),
            durable: args.durable,
        };
        let ways = strategies.iter().flat_map(|strategy| {
            threads.iter().map(move |threads| SyncSubject::Way(way(*strategy, *threads)))
        });
        let peers = self.peers.iter().cloned().map(|peer| SyncSubject::Peer(peer, turns.link));
        ways.chain(peers).collect()
    }
}

/// A case with its files and link.
struct CaseTurns<'a> {
    plan: &'a SyncPlan<'a>,
    files: &'a SyncFiles,
    link: LinkSpec,
    case: SyncCase,
}

impl SyncSubject {
    fn row(&self, case: &SyncCase) -> SyncRow {
        match self {
            Self::Way(way) => SyncRow::new(case.clone(), way.strategy.name, Some(way.settings())),
            Self::Peer(peer, _) => SyncRow::new(case.clone(), peer.name(), None),
        }
    }
}

/// A directory that is removed on drop.
struct WorkDir(PathBuf);

impl WorkDir {
    fn new(parent: &Path) -> Result<Self> {
        let path = parent.join(format!("deltic-bench-{}", process::id()));
        fs::create_dir(&path).with_context(|| format!("make {}", shown(&path)))?;
        Ok(Self(path))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            let why = deltic_net::reason(&error);
            complain(&format!("remove {}: {why}", shown(&self.0)), None);
        }
    }
}
