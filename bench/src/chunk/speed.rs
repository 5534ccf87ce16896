//! Speed of cutting: by processor time and by wall time, from memory and from the cache.
//!
//! A *cold* pass reads the whole data set once; passes over little data are repeated and added up. If the data set is
//! too short to evict itself from the last-level cache, another buffer is read before each pass. *Hot* passes read a
//! slice again and again that fits the second-level cache.
//!
//! All subjects take turns in each run, so that disturbances hit them alike. The result is the median of each figure,
//! taken separately.

use std::hint::black_box;
use std::time::{Duration, Instant};

use deltic_core::chunk::{SsCdc, cut_all};
use deltic_core::{AnyChunker, AtEnd, Chunk, Chunker, Crc32c};
use rustix::time::{ClockId, clock_gettime};

use super::cuts::{bounds, pieces};
use crate::inputs::Inputs;
use crate::machine::MachineInfo;
use crate::median::median;

/// A computation to time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TimedSubject {
    /// The vector sum: the cost of reading.
    Sum,
    /// A chunker that cuts.
    Chunker(AnyChunker),
    /// A chunker that cuts, alone and with a sum of each chunk.
    Summed(AnyChunker),
    /// Sums alone, of the chunks that this chunker found before.
    Sums(AnyChunker),
    /// A chunker in two stages, with the longest chunk length.
    Stages(SsCdc, usize),
}

/// Speeds of a subject, in 10^9 bytes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Speed {
    /// Speed from memory.
    pub(crate) cold: ClockSpeed,
    /// Speed from the cache.
    pub(crate) hot: ClockSpeed,
    /// Speed from memory with a CRC-32C of each chunk, by processor time.
    pub(crate) crc32c: f64,
    /// Speed from memory with a fingerprint of each chunk, by processor time.
    pub(crate) blake3: f64,
}

/// A speed by both clocks, in 10^9 bytes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ClockSpeed {
    /// Speed by processor time.
    pub(crate) cpu: f64,
    /// Speed by wall time.
    pub(crate) wall: f64,
}

/// The data to read, and a buffer to evict caches.
pub(crate) struct TimedData<'a> {
    cold: Vec<&'a [u8]>,
    /// The largest file, in which hot passes read a slice again and again.
    largest: &'a [u8],
    /// Buffer that evicts all caches; empty if the data set is long enough.
    evict: Vec<u8>,
}

impl<'a> TimedData<'a> {
    /// Takes the files of `inputs`.
    pub(crate) fn new(inputs: &'a Inputs, machine: &MachineInfo) -> Self {
        let cold: Vec<_> = inputs.files().collect();
        let short = inputs.len() < machine.last_level.saturating_mul(COLD_BY_ITSELF);
        let evict = if short { machine.last_level.saturating_mul(2) } else { 0 };
        // Zero pages would all share one physical page.
        let evict = vec![1; usize::try_from(evict).unwrap_or_default()];
        let largest = cold.iter().max_by_key(|file| file.len()).copied().unwrap_or_default();
        Self { cold, largest, evict }
    }

    /// Returns the length of the slice that is timed in the processor cache, for chunks of at most `longest` bytes.
    pub(crate) fn hot_len(&self, longest: usize) -> usize {
        self.largest.len().min(HOT_BYTES.max(HOT_CHUNKS * longest))
    }

    /// Returns a hot slice: the middle of the largest file.
    fn hot(&self, longest: usize) -> &'a [u8] {
        let len = self.hot_len(longest);
        let start = (self.largest.len() - len) / 2;
        &self.largest[start..start + len]
    }

    /// True if caches are evicted before each cold pass.
    pub(crate) fn evicts(&self) -> bool {
        !self.evict.is_empty()
    }

    /// Times a turn of `subject`.
    fn run(&self, subject: &TimedSubject) -> Speed {
        let (crc32c, blake3) = match subject {
            TimedSubject::Summed(chunker) => (
                self.cold(|_, file| summed(chunker, file, Crc32c::of)).cpu,
                self.cold(|_, file| summed(chunker, file, Chunk::of)).cpu,
            ),
            TimedSubject::Sums(chunker) => {
                let chunks: Vec<_> = self.cold.iter().map(|file| chunks(chunker, file)).collect();
                let crc32c = self.cold(|at, _| sums(&chunks[at], Crc32c::of)).cpu;
                let blake3 = self.cold(|at, _| sums(&chunks[at], Chunk::of)).cpu;
                return Speed { crc32c, blake3, ..Speed::default() };
            }
            _ => (0.0, 0.0),
        };
        let cold = self.cold(|_, file| subject.pass(file));
        let hot = self.hot(subject.longest());
        subject.pass(hot);
        let start = ClockReading::now();
        let mut bytes = 0;
        while bytes == 0 || start.wall.elapsed() < HOT_TIME {
            subject.pass(hot);
            bytes += hot.len();
        }
        let mut taken = ElapsedTime::default();
        taken.add(&start);
        Speed { cold, hot: taken.speed(bytes), crc32c, blake3 }
    }

    /// Times passes over all data from memory, repeated if a pass is too short to time.
    fn cold(&self, pass: impl Fn(usize, &[u8])) -> ClockSpeed {
        let len: usize = self.cold.iter().map(|file| file.len()).sum();
        let (mut bytes, mut taken) = (0, ElapsedTime::default());
        let turn = Instant::now();
        while bytes == 0 || (taken.wall < COLD_TIME && turn.elapsed() < COLD_PATIENCE) {
            black_box(sum(black_box(&self.evict)));
            let start = ClockReading::now();
            self.cold.iter().enumerate().for_each(|(at, file)| pass(at, file));
            taken.add(&start);
            bytes += len;
        }
        taken.speed(bytes)
    }
}

/// Times all subjects in turns, `runs` times. Returns the medians in order. Calls `each` before each turn.
pub(crate) fn measure(
    course: &TimedData<'_>,
    subjects: &[TimedSubject],
    runs: usize,
    mut each: impl FnMut(usize, usize),
) -> Vec<Speed> {
    let mut turns = vec![Vec::with_capacity(runs); subjects.len()];
    for run in 0..runs {
        for (at, subject) in subjects.iter().enumerate() {
            each(run, at);
            turns[at].push(course.run(subject));
        }
    }
    turns.iter().map(|turns| medians(turns)).collect()
}

fn medians(turns: &[Speed]) -> Speed {
    let median = |figure: fn(&Speed) -> f64| median(turns.iter().map(figure));
    Speed {
        cold: ClockSpeed { cpu: median(|turn| turn.cold.cpu), wall: median(|turn| turn.cold.wall) },
        hot: ClockSpeed { cpu: median(|turn| turn.hot.cpu), wall: median(|turn| turn.hot.wall) },
        crc32c: median(|turn| turn.crc32c),
        blake3: median(|turn| turn.blake3),
    }
}

impl TimedSubject {
    /// Returns the longest chunk length.
    fn longest(&self) -> usize {
        match self {
            Self::Sum => 0,
            Self::Chunker(chunker) | Self::Summed(chunker) | Self::Sums(chunker) => {
                chunker.max_len()
            }
            Self::Stages(_, longest) => *longest,
        }
    }

    /// Reads `data` once.
    fn pass(&self, data: &[u8]) {
        let data = black_box(data);
        match self {
            Self::Sum => {
                black_box(sum(data));
            }
            Self::Chunker(chunker) | Self::Summed(chunker) | Self::Sums(chunker) => {
                black_box(cut_all(chunker, data, AtEnd::Yes, |_| {}));
            }
            Self::Stages(stages, _) => {
                let mut lens = Vec::new();
                stages.cuts(data, &mut lens);
                black_box(lens);
            }
        }
    }
}

fn chunks<'a>(chunker: &AnyChunker, data: &'a [u8]) -> Vec<&'a [u8]> {
    pieces(data, &bounds(chunker, data)).collect()
}

fn sums<T>(chunks: &[&[u8]], sum: impl Fn(&[u8]) -> T) {
    for chunk in chunks {
        black_box(sum(chunk));
    }
}

/// Cuts `data` and sums each chunk immediately.
fn summed<T>(chunker: &AnyChunker, data: &[u8], sum: impl Fn(&[u8]) -> T) {
    black_box(cut_all(chunker, black_box(data), AtEnd::Yes, |chunk| {
        black_box(sum(chunk));
    }));
}

/// Sums the words of `data` in parallel lanes that a compiler can vectorize.
fn sum(data: &[u8]) -> u64 {
    let (blocks, rest) = data.as_chunks::<64>();
    let mut lanes = [0u64; 8];
    for block in blocks {
        let (words, _) = block.as_chunks::<8>();
        for (lane, word) in lanes.iter_mut().zip(words) {
            *lane = lane.wrapping_add(u64::from_le_bytes(*word));
        }
    }
    let rest = rest.iter().map(|byte| u64::from(*byte)).sum();
    lanes.iter().fold(rest, |sum: u64, lane| sum.wrapping_add(*lane))
}

/// A reading of both clocks.
struct ClockReading {
    wall: Instant,
    cpu: Duration,
}

impl ClockReading {
    fn now() -> Self {
        Self { cpu: cpu_time(), wall: Instant::now() }
    }
}

/// Time by both clocks.
#[derive(Clone, Copy, Debug, Default)]
struct ElapsedTime {
    wall: Duration,
    cpu: Duration,
}

impl ElapsedTime {
    /// Adds the time since `start`.
    fn add(&mut self, start: &ClockReading) {
        self.wall += start.wall.elapsed();
        self.cpu += cpu_time().saturating_sub(start.cpu);
    }

    /// Returns the speed of reading `bytes` bytes in this time.
    fn speed(self, bytes: usize) -> ClockSpeed {
        let pace = |time: Duration| bytes as f64 / time.max(TICK).as_nanos() as f64;
        ClockSpeed { cpu: pace(self.cpu), wall: pace(self.wall) }
    }
}

/// Returns the processor time of this thread.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}

/// A data set this many times as long as the last-level cache evicts itself.
const COLD_BY_ITSELF: u64 = 4;
/// Shortest length of a hot slice in bytes.
const HOT_BYTES: usize = 256 << 10;
/// Smallest number of longest chunks in a hot slice.
const HOT_CHUNKS: usize = 4;
/// Cold passes are repeated until this much time is measured, because short times are inaccurate.
const COLD_TIME: Duration = Duration::from_millis(5);
/// Cold passes also end after this much wall time, including the evictions.
const COLD_PATIENCE: Duration = Duration::from_millis(100);
/// Duration of a hot turn.
const HOT_TIME: Duration = Duration::from_millis(20);
/// Shortest time for a speed, in case a clock stands still.
const TICK: Duration = Duration::from_nanos(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_the_middle_of_each_figure_by_itself() {
        let turn = |cpu, wall| Speed {
            cold: ClockSpeed { cpu, wall },
            hot: ClockSpeed { cpu: wall, wall: cpu },
            crc32c: cpu,
            blake3: wall,
        };
        let speed = medians(&[turn(1.0, 30.0), turn(3.0, 10.0), turn(2.0, 20.0)]);
        assert_eq!(speed, turn(2.0, 20.0));
        let even = [turn(1.0, 30.0), turn(9.0, 10.0), turn(2.0, 25.0), turn(3.0, 20.0)];
        assert_eq!(medians(&even), turn(2.5, 22.5));
        assert_eq!(medians(&even[..1]), turn(1.0, 30.0));
    }

    #[test]
    fn a_sum_counts_every_byte() {
        for len in [0, 1, 63, 64, 65, 1000] {
            let mut data = vec![0; len];
            assert_eq!(sum(&data), 0);
            for at in 0..len {
                data[at] = 1;
                assert_ne!(sum(&data), 0, "byte {at} of {len}");
                data[at] = 0;
            }
        }
    }

    #[test]
    fn all_subjects_take_turns() {
        let inputs = Inputs::read(&[], Some(100_000), u64::MAX);
        let machine = MachineInfo { name: String::new(), l2: 1 << 10, last_level: 1 << 10 };
        let course = TimedData::new(&inputs, &machine);
        assert_eq!((course.hot_len(1000), course.evicts()), (100_000, false));
        let mut turns = Vec::new();
        let subjects = [TimedSubject::Sum, TimedSubject::Sum];
        let speeds = measure(&course, &subjects, 2, |run, at| turns.push((run, at)));
        assert_eq!(turns, [(0, 0), (0, 1), (1, 0), (1, 1)]);
        assert!(speeds.iter().all(|speed| speed.cold.wall > 0.0 && speed.hot.cpu > 0.0));
    }
}
