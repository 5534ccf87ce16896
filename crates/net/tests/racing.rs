//! Syncs of files that others write to meanwhile, by what storage says has changed: whatever a run saw, the next one
//! brings what is there. Root only: the storage is btrfs, on a file of its own.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "makes and looks at files"
)]

mod common;

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant, UNIX_EPOCH};

use common::{plan, there};
use deltic_net::embed::{Bases, Embedding, Facts, LocalFacts, Outcome, serve_over, sync_over};
use deltic_net::executor::{Executor, Limits};
use deltic_protocol::limits::LARGE_FILE_BYTES;
use deltic_protocol::options::Options;
use deltic_protocol::report::{Notice, ReadReason};
use rustix::fs::{FallocateFlags, SeekFrom, copy_file_range, fallocate, ioctl_ficlone, seek};
use tokio::io::duplex;

/// Length of a file, more or less: it is large whatever becomes of it.
const LEN: u64 = LARGE_FILE_BYTES + 2 * HOT;
/// Bytes at the beginning, in the middle and at the end which change. All else are holes: a sync is short.
const HOT: u64 = 1 << 20;
const BLOCK: u64 = 4096;
/// Files that are synced side by side: each waits most of the time until it is at rest.
const PLACES: u64 = 8;

/// Numbers of a seed (SplitMix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ (word >> 31)) % end
    }

    /// A place that may change.
    fn place(&mut self) -> u64 {
        [0, LEN / 2, LEN - HOT][self.below(3) as usize] + self.below(HOT)
    }

    fn bytes(&mut self, len: u64) -> Vec<u8> {
        // Few values are the same again, now and then.
        let values = [2, 256][self.below(2) as usize];
        (0..len).map(|_| self.below(values) as u8).collect()
    }
}

/// Changes the file at `path` in one way, which mostly seems to be long ago: what has the present for its time is no
/// base.
fn change(path: &Path, dice: &mut Dice) {
    static TIMES: AtomicU64 = AtomicU64::new(1_000_000_000);
    change_now(path, dice);
    if dice.below(30) > 0 {
        let time = Duration::from_secs(TIMES.fetch_add(1, Ordering::Relaxed));
        File::open(path).unwrap().set_modified(UNIX_EPOCH + time).unwrap();
    }
}

/// The same, at present. Calls that do not suit the file fail, which is well.
fn change_now(path: &Path, dice: &mut Dice) {
    let open = || File::options().read(true).write(true).open(path).unwrap();
    let (file, at) = (open(), dice.place());
    let most = [10, 5000, 50_000][dice.below(3) as usize];
    let len = 1 + dice.below(most);
    let reserve = |flags| _ = fallocate(&file, flags, at, len);
    match dice.below(14) {
        0..4 => file.write_all_at(&dice.bytes(len), at).unwrap(),
        4 => file.set_len(LEN - HOT + dice.below(2 * HOT)).unwrap(),
        5 => reserve(FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE),
        6 => reserve(FallocateFlags::ZERO_RANGE),
        7 => reserve(FallocateFlags::KEEP_SIZE),
        8..10 => {
            // Whole blocks are shared.
            let (mut from, mut to) = (at / BLOCK * BLOCK, dice.place() / BLOCK * BLOCK);
            let len = (1 + dice.below(20)) * BLOCK;
            _ = copy_file_range(open(), Some(&mut from), &file, Some(&mut to), len as usize);
        }
        12.. => insert(path, at / BLOCK * BLOCK, dice),
        which => {
            let beside = path.with_extension("new");
            let new = File::create(&beside).unwrap();
            match which {
                10 => ioctl_ficlone(&new, &file).unwrap(),
                _ => new.set_len(LEN).unwrap(),
            }
            new.write_all_at(&dice.bytes(len), at).unwrap();
            fs::rename(beside, path).unwrap();
        }
    }
}

/// Writes a file anew with blocks inserted at `at`, or taken out.
fn insert(path: &Path, at: u64, dice: &mut Dice) {
    let (old, beside) = (File::open(path).unwrap(), path.with_extension("new"));
    let (new, len) = (File::create(&beside).unwrap(), old.metadata().unwrap().len());
    let [more, less] = [1 + dice.below(40), 0].map(|blocks| blocks * BLOCK);
    let (more, less) = if dice.below(2) == 0 { (more, less) } else { (less, more) };
    let behind = (at + less).min(len);
    new.set_len(at.min(len) + more + (len - behind)).unwrap();
    new.write_all_at(&dice.bytes(more), at.min(len)).unwrap();
    // Some is written over too.
    let is_other = |dice: &mut Dice| dice.below(100) == 0;
    let mut place = 0;
    while let Ok(start) = seek(&old, SeekFrom::Data(place)) {
        place = seek(&old, SeekFrom::Hole(start)).unwrap();
        for from in (start..place).step_by(BLOCK as usize) {
            let mut block = vec![0; BLOCK.min(place - from) as usize];
            old.read_exact_at(&mut block, from).unwrap();
            if is_other(dice) {
                block[0] ^= 1;
            }
            if from < at {
                new.write_all_at(&block, from).unwrap();
            } else if from >= behind {
                new.write_all_at(&block, at + more + (from - behind)).unwrap();
            }
        }
    }
    fs::rename(beside, path).unwrap();
}

/// Changes a file until nobody is at the other end of `stop`.
fn write(path: &Path, mut dice: Dice, stop: &Receiver<()>) {
    // A run gives up where there is no pause in which it sees a file at rest.
    let longest = [3, 100, 200, 300, 400][dice.below(5) as usize];
    let pause = |dice: &mut Dice| Duration::from_micros(dice.below(longest * 1000));
    while stop.recv_timeout(pause(&mut dice)) == Err(RecvTimeoutError::Timeout) {
        change(path, &mut dice);
    }
}

/// A program that replaces extents of both files by others of the same bytes, and has them put together now and then.
/// No time of a file tells that.
struct Replacer(Child);

impl Replacer {
    fn start(files: [&Path; 2], seed: u64) -> Option<Self> {
        const PROGRAM: &str = "
import fcntl, os, random, select, struct, sys
SHARE, GATHER = 0xc0189436, 0x50009402
seed, length, hot, names = *map(int, sys.argv[1:4]), sys.argv[4:]
dice, done = random.Random(seed), [0, 0]
def replace(file, twin):
    start = dice.choice([0, length // 2, length - hot]) + dice.randrange(hot)
    start -= start % 4096
    same = os.pread(file, dice.choice([1, 16, 100]) * 4096, start)
    os.pwrite(twin, same, start)
    head = struct.pack('=QQHHI', start, len(same), 1, 0, 0)
    asked = bytearray(head + struct.pack('=qQQiI', file, start, 0, 0, 0))
    fcntl.ioctl(twin, SHARE, asked)
    done[0] += struct.unpack_from('=Q', asked, 40)[0] > 0
while not select.select([sys.stdin], [], [], dice.random() / 50)[0]:
    files = []
    try:
        name = dice.choice(names)
        files.append(os.open(name, os.O_RDWR))
        files.append(os.open(name + '.twin', os.O_RDWR | os.O_CREAT))
        if dice.randrange(20):
            replace(*files)
        else:
            fcntl.ioctl(files[0], GATHER)
            done[1] += 1
    except OSError:
        pass
    for file in files:
        os.close(file)
print(*done)
";
        let mut python = Command::new("python3");
        python.args(["-c", PROGRAM]).args([seed, LEN, HOT].map(|number| number.to_string()));
        python.args(files).stdin(Stdio::piped()).stdout(Stdio::piped());
        python.spawn().ok().map(Self)
    }

    /// Ends it. How often extents were replaced, and put together.
    fn end(mut self) -> [u64; 2] {
        drop(self.0.stdin.take());
        let mut told = String::new();
        self.0.stdout.take().unwrap().read_to_string(&mut told).unwrap();
        let told: Vec<_> = told.split_whitespace().map(|number| number.parse().unwrap()).collect();
        told.try_into().unwrap()
    }
}

impl Drop for Replacer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A btrfs that tells what changed, until this is dropped.
struct Disk(tempfile::TempDir);

impl Disk {
    fn mount(sums: &str) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let (image, at) = (dir.path().join("image"), dir.path().join("disk"));
        File::create(&image).unwrap().set_len(4 << 30).unwrap();
        fs::create_dir(&at).unwrap();
        let made = succeeds(Command::new("mkfs.btrfs").args(["-q", "--csum", sums]).arg(&image))
            && succeeds(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&at));
        if !made {
            eprintln!("SKIPPED: btrfs cannot be mounted here");
        }
        made.then(|| Self(dir))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join("disk").join(name)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        succeeds(Command::new("umount").arg("-l").arg(self.path("")));
    }
}

fn succeeds(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

/// Two ends, and what they remember.
struct Ends {
    runtime: tokio::runtime::Runtime,
    near: Embedding,
    far: Embedding,
}

impl Ends {
    fn new(dir: &Path) -> Self {
        let executor = Executor::new(Limits { compute: 16, copies: 2, flushes: 16 });
        let end = |name: &str| {
            fs::create_dir(dir.join(name)).unwrap();
            let bases = Bases::open(&dir.join(name)).unwrap();
            let facts = Facts::new(LocalFacts::default().with_bases(bases));
            Embedding { executor: executor.clone(), facts, ..Embedding::default() }
        };
        let (near, far) = (end("near"), end("far"));
        Self { runtime: tokio::runtime::Runtime::new().unwrap(), near, far }
    }

    /// Syncs a file; what was done, and why it was read whole, or not, at the last try.
    fn sync(&self, from: &Path, to: &Path) -> (Outcome, Vec<ReadReason>) {
        let mut options = Options { times: true, durable: true, ..Options::default() };
        options.compare.cached = true;
        options.writing.sparse = true;
        let plan = plan(from.into(), there(to), options);
        let mut reasons = Vec::new();
        let mut hear = |notice| {
            if let Notice::ReadReason { reason, .. } = notice {
                reasons = vec![reason];
            }
        };
        let outcome = self.runtime.block_on(async {
            let (here, there) = duplex(256 << 10);
            let with = self.far.clone();
            let serving = tokio::spawn(async move { serve_over(there, &with).await });
            let outcome = sync_over(plan, here, &self.near, &mut hear).await.unwrap();
            serving.await.unwrap().unwrap();
            outcome
        });
        (outcome, reasons)
    }
}

/// Counts of what went on.
#[derive(Debug, Default)]
struct Tally {
    /// Runs beside a writer that ended well, and those of them that brought what storage says has changed.
    raced: u64,
    raced_by_changes: u64,
    /// Runs after it that brought what storage says has changed, and all there is.
    by_changes: u64,
    whole: u64,
    /// Runs in which storage said that blocks moved.
    moved: u64,
    /// Runs in which storage told nothing for once: items were put in the place of those that were just read.
    untold: u64,
    /// Extents that others replaced meanwhile, and files of which they put them together.
    replaced: [u64; 2],
    wrong: Vec<String>,
}

/// Changes and syncs a file so many times.
fn rounds(disk: &Disk, ends: &Ends, (place, seed, rounds): (u64, u64, u64)) -> Tally {
    let (from, to) = (disk.path(&format!("from{place}")), disk.path(&format!("to{place}")));
    let (mut dice, mut tally) = (Dice(seed.wrapping_mul(1000) + place), Tally::default());
    File::create(&from).unwrap().set_len(LEN).unwrap();
    let replacer = Replacer::start([&from, &to], seed + place);
    for round in 0..rounds {
        (0..dice.below(4)).for_each(|_| change(&from, &mut dice));
        let writer = Dice(dice.below(u64::MAX));
        let ((done, stop), path) = (channel(), &from);
        let (outcome, raced) = thread::scope(|scope| {
            scope.spawn(move || write(path, writer, &stop));
            let ended = ends.sync(path, &to);
            drop(done);
            ended
        });
        let tells_nothing = raced.iter().any(|why| matches!(why, ReadReason::NoFacts(_)));
        tally.untold += u64::from(tells_nothing);
        if outcome.totals.failed == 0 {
            tally.raced += 1;
            tally.raced_by_changes += u64::from(is_by_changes(&raced));
        }
        // The replacer has the file open for writing now and then: such a run is told, and the next one reads again.
        let mut runs = (0..20).map(|_| ends.sync(&from, &to));
        let at_rest = runs.find(|(outcome, _)| outcome.totals.failed == 0);
        let (_, why) = at_rest.expect("nobody changes the file any more");
        tally.by_changes += u64::from(is_by_changes(&why));
        let moved = |why: &&ReadReason| matches!(why, ReadReason::Moved { .. });
        tally.moved += raced.iter().chain(&why).filter(moved).count() as u64;
        tally.whole += u64::from(!why.is_empty() && !is_by_changes(&why));
        if !are_same(&from, &to) {
            tally.wrong.push(format!("place {place}, round {round}: {raced:?}, then {why:?}"));
        }
    }
    tally.replaced = replacer.map(Replacer::end).unwrap_or_default();
    tally
}

/// True if the last try brought what storage says has changed.
fn is_by_changes(why: &[ReadReason]) -> bool {
    matches!(why.last(), Some(ReadReason::Changed { .. } | ReadReason::Moved { .. }))
}

/// True if two files are of the same bytes. Where both have holes nothing is read.
fn are_same(one: &Path, other: &Path) -> bool {
    let files = [one, other].map(|path| File::open(path).unwrap());
    let [len, other_len] = files.each_ref().map(|file| file.metadata().unwrap().len());
    let read = |file: &File, at: u64, end: u64| {
        let mut bytes = vec![0; (end - at) as usize];
        file.read_exact_at(&mut bytes, at).unwrap();
        bytes
    };
    let is_same_by = |guide: &File| {
        let (mut at, mut is_same) = (0, true);
        while let Ok(start) = seek(guide, SeekFrom::Data(at)) {
            at = seek(guide, SeekFrom::Hole(start)).unwrap();
            is_same &= read(&files[0], start, at) == read(&files[1], start, at);
        }
        is_same
    };
    len == other_len && files.iter().all(is_same_by)
}

fn no_file_is_wrong(of_each: u64, seed: u64, sums: &str) {
    let Some(disk) = Disk::mount(sums) else { return };
    let (ends, begun) = (Ends::new(disk.0.path()), Instant::now());
    File::create(disk.path("probe")).unwrap().set_len(LEN).unwrap();
    let (_, why) = ends.sync(&disk.path("probe"), &disk.path("probed"));
    if matches!(why[..], [ReadReason::NoFacts(_)]) {
        return eprintln!("SKIPPED: storage tells what changed to CAP_SYS_ADMIN, on Linux 6.8");
    }
    let tallies: Vec<_> = thread::scope(|scope| {
        let (disk, ends) = (&disk, &ends);
        let begin = |place| scope.spawn(move || rounds(disk, ends, (place, seed, of_each)));
        let places: Vec<_> = (0..PLACES).map(begin).collect();
        places.into_iter().map(|place| place.join().unwrap()).collect()
    });
    let sum = |of: fn(&Tally) -> u64| tallies.iter().map(of).sum::<u64>();
    let wrong: Vec<_> = tallies.iter().flat_map(|tally| &tally.wrong).collect();
    eprintln!("seed {seed}: {} rounds in {:?}", PLACES * of_each, begun.elapsed());
    let (raced, by_changes) = (sum(|tally| tally.raced), sum(|tally| tally.raced_by_changes));
    eprintln!("{raced} runs beside a writer ended well, {by_changes} of them by what changed");
    let (by_changes, whole) = (sum(|tally| tally.by_changes), sum(|tally| tally.whole));
    eprintln!(
        "{by_changes} runs after it brought what changed, {whole} all; {} files are wrong",
        wrong.len()
    );
    let moved = sum(|tally| tally.moved);
    eprintln!("in {moved} runs blocks had moved, by {sums}");
    match (sum(|tally| tally.replaced[0]), sum(|tally| tally.replaced[1])) {
        (0, _) => eprintln!("SKIPPED: no extents are replaced without python3"),
        (parts, files) => {
            eprintln!("{parts} extents were replaced, files put together {files} times")
        }
    }
    let untold = sum(|tally| tally.untold);
    assert!(untold <= PLACES * of_each / 50, "this storage tells, but for {untold} runs");
    assert_eq!(moved > 0, sums == "sha256");
    assert!(by_changes > whole, "most go by what storage says");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn files_that_others_write_to_are_never_wrong_in_the_end() {
    no_file_is_wrong(13, 1, "crc32c");
}

#[test]
fn files_of_which_blocks_moved_are_never_wrong_in_the_end() {
    no_file_is_wrong(13, 1, "sha256");
}

/// `make storage`: with other seeds, for long.
#[test]
#[ignore = "long"]
fn files_that_others_write_to_are_never_wrong_for_long() {
    let seed = std::env::var("DELTIC_FACTS_SEED").map_or(2, |seed| seed.parse().unwrap());
    no_file_is_wrong(10_000 / PLACES, seed, "crc32c");
}

/// The same where storage says which blocks moved.
#[test]
#[ignore = "long"]
fn files_of_which_blocks_moved_are_never_wrong_for_long() {
    let seed = std::env::var("DELTIC_FACTS_SEED").map_or(2, |seed| seed.parse().unwrap());
    no_file_is_wrong(10_000 / PLACES, seed, "sha256");
}
