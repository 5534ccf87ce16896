//! A slightly changed file in a remote store: traffic and time of the next sync, compared with a plain download.
//!
//! `tools/storage/remote.sh` starts the server and this program; `make bench-remote` runs all servers. Bytes are
//! counted on the loopback interface, with both directions and all headers. No other program may use the interface, so
//! the script runs everything in a network namespace.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;

use super::data::write_base;
use super::figures::{median, publish};
use super::files::same_content;
use super::measured::ProcessCost;
use super::peer::deltic_program;
use super::run::BenchDirs;
use crate::progress::progress;
use crate::random::Random;
use crate::size::ByteSize;
use crate::table::TextTable;

#[derive(Args)]
pub(crate) struct RemoteOptions {
    /// Name of the system in the table
    #[arg(long)]
    system: String,
    /// URL of the directory where the file is called `img`
    #[arg(long)]
    url: String,
    /// Shell command that uploads the file `$1`
    #[arg(long)]
    put: String,
    /// Shell command that downloads the file to `$1`
    #[arg(long)]
    get: String,
    /// Length of the blocks that the system keeps sums of
    #[arg(long, default_value = "64KiB")]
    unit: ByteSize,
    /// Length of the file
    #[arg(long, default_value = "512MiB")]
    size: ByteSize,
    /// Bytes to change before each sync, in a single range
    #[arg(long, default_value = "64KiB")]
    change: ByteSize,
    /// Number of measured rounds; the median is shown
    #[arg(long, default_value_t = 5)]
    runs: u32,
    /// The deltic binary [default: the one beside this program, else in PATH]
    #[arg(long, value_name = "PATH")]
    deltic: Option<PathBuf>,
    #[command(flatten)]
    at: BenchDirs,
}

/// Cost of getting the new version in a certain way.
#[derive(Clone, Copy)]
struct RoundCost {
    cost: ProcessCost,
    wire: u64,
    /// Bytes of the changed units.
    changed: u64,
}

/// A way to get the new version.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FetchWay {
    Download,
    /// A download with a flush, as Deltic flushes written files.
    Flushed,
    Known,
    Unknown,
    /// A lower bound: the changed units are copied locally into a copy of the old version, and flushed.
    Floor,
}

/// The compared ways, with their names in the table.
const WAYS: [(FetchWay, &str); 5] = [
    (FetchWay::Download, "download"),
    (FetchWay::Flushed, "download, flushed"),
    (FetchWay::Known, "deltic"),
    (FetchWay::Unknown, "deltic, old copy unknown"),
    (FetchWay::Floor, "changed units from here, flushed"),
];

/// Returns a shell command that copies a range of the new version `img` into a copy of the old version `$1` and renames
/// the result.
fn floor(img: &Path, Range { start, end }: &Range<u64>) -> String {
    let (img, count) = (img.display(), end - start);
    format!(
        "cp --reflink=auto \"$1\" \"$1.new\" && dd status=none if='{img}' of=\"$1.new\" bs=1M skip={start} \
         seek={start} count={count} iflag=skip_bytes,count_bytes oflag=seek_bytes conv=notrunc,fsync && \
         mv \"$1.new\" \"$1\""
    )
}

/// A running benchmark: the file, and a directory for each way.
struct RemoteBench<'a> {
    options: &'a RemoteOptions,
    dir: tempfile::TempDir,
    deltic: PathBuf,
}

pub(crate) fn remote(options: &RemoteOptions) -> Result<()> {
    ensure!(options.change.bytes() <= options.size.bytes(), "--change is larger than --size");
    let dir = tempfile::Builder::new().prefix("deltic-bench-").tempdir_in(&options.at.dir)?;
    let deltic = deltic_program(options.deltic.as_deref());
    let rounds = RemoteBench { options, dir, deltic };
    let mut ways = [const { Vec::new() }; WAYS.len()];
    rounds.begin()?;
    for no in 0..options.runs {
        progress(&format!("{}: round {} of {}", options.system, no + 1, options.runs));
        let changed = rounds.change(&mut Random::new(no.into()))?;
        for (all, (way, name)) in ways.iter_mut().zip(WAYS) {
            all.push(rounds.run(way, &changed).context(name)?);
        }
    }
    progress("");
    let mut table =
        TextTable::new(2, ["system", "way", "s", "cpu s", "on the wire B", "/ changed", "times"]);
    let plain = median(&ways[0], |round| round.cost.wall).as_secs_f64();
    for ((_, name), all) in WAYS.iter().zip(&ways) {
        let wall = median(all, |round| round.cost.wall).as_secs_f64();
        let cpu: Duration = median(all, |round| round.cost.cpu);
        let (wire, changed) = (median(all, |round| round.wire), median(all, |round| round.changed));
        table.row([
            options.system.clone(),
            (*name).to_owned(),
            format!("{wall:.3}"),
            format!("{:.3}", cpu.as_secs_f64()),
            wire.to_string(),
            format!("{:.3}", wire as f64 / changed as f64),
            format!("{:.1}", plain / wall),
        ]);
    }
    publish(&table, &options.at.out, &format!("remote-{}", options.system))
}

impl RemoteBench<'_> {
    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Makes and uploads the file, and downloads it once in each way.
    fn begin(&self) -> Result<()> {
        write_base(&self.path("img"), self.options.size.bytes(), 1)?;
        self.put()?;
        for (way, name) in WAYS {
            fs::create_dir(self.dir_of(way))?;
            // The floor needs an old version, so the first copy is a download.
            let first = if way == FetchWay::Floor { FetchWay::Download } else { way };
            self.run_into(&self.dir_of(way), first, &(0..0)).context(name)?;
        }
        Ok(())
    }

    fn dir_of(&self, way: FetchWay) -> PathBuf {
        self.path(&(way as u8).to_string())
    }

    /// Changes some bytes and uploads the file. Returns the range of the changed units.
    fn change(&self, random: &mut Random) -> Result<Range<u64>> {
        let (len, size) = (self.options.change.bytes(), self.options.size.bytes());
        // Some systems keep times in whole seconds.
        std::thread::sleep(Duration::from_millis(1100));
        let start = random.below(size - len + 1);
        let file = OpenOptions::new().write(true).open(self.path("img"))?;
        file.write_all_at(&random.bytes(len as usize), start)?;
        self.put()?;
        let unit = self.options.unit.bytes();
        let end = (start + len).next_multiple_of(unit).min(size);
        Ok(start / unit * unit..end)
    }

    fn put(&self) -> Result<()> {
        let line = shell(&self.options.put, &self.path("img"));
        let status = Command::new(&line[0]).args(&line[1..]).stdin(Stdio::null()).status()?;
        ensure!(status.success(), "{}: {status}", self.options.put);
        Ok(())
    }

    fn run(&self, way: FetchWay, changed: &Range<u64>) -> Result<RoundCost> {
        self.run_into(&self.dir_of(way), way, changed)
    }

    fn run_into(&self, to: &Path, way: FetchWay, changed: &Range<u64>) -> Result<RoundCost> {
        let (img, cache) = (to.join("img"), self.path("cache"));
        let line = match way {
            FetchWay::Download => shell(&self.options.get, &img),
            FetchWay::Flushed => shell(&format!("{} && sync \"$1\"", self.options.get), &img),
            FetchWay::Floor => shell(&floor(&self.path("img"), changed), &img),
            FetchWay::Known | FetchWay::Unknown => vec![
                self.deltic.clone().into(),
                "sync".into(),
                "-rt".into(),
                OsString::from(&self.options.url),
                to.into(),
            ],
        };
        if way == FetchWay::Unknown {
            fs::remove_dir_all(&cache).ok();
        }
        // Each way has a cache of its own.
        let notes = if way == FetchWay::Known { self.path("notes") } else { cache };
        let cost = self.path("cost");
        // Earlier writes must not count for this way.
        rustix::fs::syncfs(File::open(to)?)?;
        let before = loopback_bytes()?;
        let output = Command::new(std::env::current_exe()?)
            .args([OsStr::new("measured"), cost.as_os_str(), OsStr::new("--")])
            .args(&line)
            .env("XDG_CACHE_HOME", notes)
            .stdin(Stdio::null())
            .output()?;
        let wire = loopback_bytes()? - before;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{} {said}", output.status);
        ensure!(
            same_content(&self.path("img"), &img)?,
            "the downloaded file differs from the source"
        );
        Ok(RoundCost {
            cost: ProcessCost::read(&cost)?,
            wire,
            changed: changed.end - changed.start,
        })
    }
}

/// Returns a bash command with `path` as `$1`. The command may be an exported function.
fn shell(command: &str, path: &Path) -> Vec<OsString> {
    vec!["bash".into(), "-c".into(), command.into(), "bash".into(), path.into()]
}

/// Returns the bytes sent over the loopback interface so far.
fn loopback_bytes() -> Result<u64> {
    // `/sys` may show another network namespace.
    let path = "/proc/self/net/dev";
    let text = fs::read_to_string(path).with_context(|| format!("read {path}"))?;
    let line = text.lines().find_map(|line| line.trim().strip_prefix("lo:"));
    let bytes = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    bytes.with_context(|| format!("{path} has no byte count for the interface lo"))
}
