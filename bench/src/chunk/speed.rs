//! Speed of cutting: by processor time and by the clock, from memory and from the cache.
//!
//! A *cold* pass goes over the whole data set once; passes over little data are repeated and added up. A data set too
//! short to push itself out of the last-level cache is pushed out of it before each pass, by reading another buffer.
//! *Hot* passes go over one slice, again and again, that the core's own cache holds.
//!
//! All subjects take turns in each run, so that what else the machine does hits them alike; of several runs the median
//! counts, for each figure by itself.

use std::hint::black_box;
use std::time::{Duration, Instant};

use deltic_core::chunk::{TwoStage, cut_all};
use deltic_core::{AnyChunker, AtEnd, Chunk, Chunker, Crc32c};
use rustix::time::{ClockId, clock_gettime};

use super::cuts::{bounds, pieces};
use crate::inputs::Inputs;
use crate::machine::Machine;
use crate::median::median;

/// A computation that goes over the bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Subject {
    /// A plain sum: what reading alone costs.
    Sum,
    /// A chunker that cuts them.
    Chunker(AnyChunker),
    /// The same, and again with each chunk summed as soon as it is cut.
    Summed(AnyChunker),
    /// The sums alone, of the chunks that this one finds beforehand.
    Sums(AnyChunker),
    /// A chunker that finds candidates first.
    Stages(TwoStage, usize),
}

/// Figures of one subject, in 10^9 bytes a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Speed {
    /// From memory.
    pub(crate) cold: Pace,
    /// From the cache.
    pub(crate) hot: Pace,
    /// From memory, with CRC-32C taken of each chunk as soon as it is cut: of processor time.
    pub(crate) crc32c: f64,
    /// The same with fingerprints: what a recipe costs.
    pub(crate) blake3: f64,
}

/// 10^9 bytes a second of two kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Pace {
    /// By processor time.
    pub(crate) cpu: f64,
    /// By the clock.
    pub(crate) wall: f64,
}

/// The bytes that are gone over, and what makes them cold.
pub(crate) struct Course<'a> {
    cold: Vec<&'a [u8]>,
    /// Bytes that hot slices are taken from.
    largest: &'a [u8],
    /// Pushes other bytes out of all caches; empty where the data does so itself.
    evict: Vec<u8>,
}

impl<'a> Course<'a> {
    /// Goes over `inputs`.
    pub(crate) fn new(inputs: &'a Inputs, machine: &Machine) -> Self {
        let cold: Vec<_> = inputs.files().collect();
        let short = inputs.len() < machine.last_level.saturating_mul(COLD_BY_ITSELF);
        let evict = if short { machine.last_level.saturating_mul(2) } else { 0 };
        // Untouched zeros would all be one page.
        let evict = vec![1; usize::try_from(evict).unwrap_or_default()];
        let largest = cold.iter().max_by_key(|file| file.len()).copied().unwrap_or_default();
        Self { cold, largest, evict }
    }

    /// Bytes of the slice that is hot for chunks of at most `longest` bytes: it holds a few of them.
    pub(crate) fn hot_len(&self, longest: usize) -> usize {
        self.largest.len().min(HOT_BYTES.max(HOT_CHUNKS * longest))
    }

    /// A hot slice: the middle of the largest file.
    fn hot(&self, longest: usize) -> &'a [u8] {
        let len = self.hot_len(longest);
        let start = (self.largest.len() - len) / 2;
        &self.largest[start..start + len]
    }

    /// True if caches are emptied before each cold pass.
    pub(crate) fn evicts(&self) -> bool {
        !self.evict.is_empty()
    }

    /// Lets `subject` take one turn.
    fn run(&self, subject: &Subject) -> Speed {
        let (crc32c, blake3) = match subject {
            Subject::Summed(chunker) => (
                self.cold(|_, file| summed(chunker, file, Crc32c::of)).cpu,
                self.cold(|_, file| summed(chunker, file, Chunk::of)).cpu,
            ),
            Subject::Sums(chunker) => {
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
        let start = Clock::now();
        let mut bytes = 0;
        while bytes == 0 || start.wall.elapsed() < HOT_TIME {
            subject.pass(hot);
            bytes += hot.len();
        }
        let mut taken = Taken::default();
        taken.add(&start);
        Speed { cold, hot: taken.pace(bytes), crc32c, blake3 }
    }

    /// The pace of passes over everything, from memory: one, or more if it is too short to be timed.
    fn cold(&self, pass: impl Fn(usize, &[u8])) -> Pace {
        let len: usize = self.cold.iter().map(|file| file.len()).sum();
        let (mut bytes, mut taken) = (0, Taken::default());
        let turn = Instant::now();
        while bytes == 0 || (taken.wall < COLD_TIME && turn.elapsed() < COLD_PATIENCE) {
            black_box(sum(black_box(&self.evict)));
            let start = Clock::now();
            self.cold.iter().enumerate().for_each(|(at, file)| pass(at, file));
            taken.add(&start);
            bytes += len;
        }
        taken.pace(bytes)
    }
}

/// Lets all subjects take turns, `runs` times; their medians, in order. Calls `each` before each turn.
pub(crate) fn measure(
    course: &Course<'_>,
    subjects: &[Subject],
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
        cold: Pace { cpu: median(|turn| turn.cold.cpu), wall: median(|turn| turn.cold.wall) },
        hot: Pace { cpu: median(|turn| turn.hot.cpu), wall: median(|turn| turn.hot.wall) },
        crc32c: median(|turn| turn.crc32c),
        blake3: median(|turn| turn.blake3),
    }
}

impl Subject {
    /// The longest chunk that it cuts.
    fn longest(&self) -> usize {
        match self {
            Self::Sum => 0,
            Self::Chunker(chunker) | Self::Summed(chunker) | Self::Sums(chunker) => {
                chunker.max_len()
            }
            Self::Stages(_, longest) => *longest,
        }
    }

    /// Goes over `data` once.
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

/// Cuts `data` and takes a sum of each chunk at once.
fn summed<T>(chunker: &AnyChunker, data: &[u8], sum: impl Fn(&[u8]) -> T) {
    black_box(cut_all(chunker, black_box(data), AtEnd::Yes, |chunk| {
        black_box(sum(chunk));
    }));
}

/// The sum of `data` in words, in as many lanes as a compiler can make vectors of.
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

/// Both clocks at one moment.
struct Clock {
    wall: Instant,
    cpu: Duration,
}

impl Clock {
    fn now() -> Self {
        Self { cpu: cpu_time(), wall: Instant::now() }
    }
}

/// Time by both clocks.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    wall: Duration,
    cpu: Duration,
}

impl Taken {
    /// Counts the time since `start`.
    fn add(&mut self, start: &Clock) {
        self.wall += start.wall.elapsed();
        self.cpu += cpu_time().saturating_sub(start.cpu);
    }

    /// The pace of whoever went over so many bytes in it.
    fn pace(self, bytes: usize) -> Pace {
        let pace = |time: Duration| bytes as f64 / time.max(TICK).as_nanos() as f64;
        Pace { cpu: pace(self.cpu), wall: pace(self.wall) }
    }
}

/// Processor time of this thread.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}

/// A data set of so many last-level caches leaves nothing of its start in them.
const COLD_BY_ITSELF: u64 = 4;
/// The hot slice is at least so long …
const HOT_BYTES: usize = 256 << 10;
/// … and holds at least so many of the longest chunks.
const HOT_CHUNKS: usize = 4;
/// Cold passes are repeated until so much is timed, for a short one says little …
const COLD_TIME: Duration = Duration::from_millis(5);
/// … or until they, and what empties the caches between them, have taken so long.
const COLD_PATIENCE: Duration = Duration::from_millis(100);
/// Time that a subject goes over the hot slice in one turn.
const HOT_TIME: Duration = Duration::from_millis(20);
/// The shortest time that counts: a clock may stand still.
const TICK: Duration = Duration::from_nanos(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_the_middle_of_each_figure_by_itself() {
        let turn = |cpu, wall| Speed {
            cold: Pace { cpu, wall },
            hot: Pace { cpu: wall, wall: cpu },
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
        let machine = Machine { name: String::new(), l2: 1 << 10, last_level: 1 << 10 };
        let course = Course::new(&inputs, &machine);
        assert_eq!((course.hot_len(1000), course.evicts()), (100_000, false));
        let mut turns = Vec::new();
        let subjects = [Subject::Sum, Subject::Sum];
        let speeds = measure(&course, &subjects, 2, |run, at| turns.push((run, at)));
        assert_eq!(turns, [(0, 0), (0, 1), (1, 0), (1, 1)]);
        assert!(speeds.iter().all(|speed| speed.cold.wall > 0.0 && speed.hot.cpu > 0.0));
    }
}
