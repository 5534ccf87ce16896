//! Random changes of files, by all system calls that change a file.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::fs::{FallocateFlags, copy_file_range, fallocate};

/// Random numbers from a seed (SplitMix64).
#[derive(Clone)]
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ (word >> 31)) % end.max(1)
    }

    /// Returns bytes of one value, two, or 256: the fewer values, the more often bytes repeat.
    fn bytes(&mut self, len: u64) -> Vec<u8> {
        let values = [1, 2, 256][self.below(3) as usize];
        (0..len).map(|_| self.below(values) as u8).collect()
    }
}

/// Changes `file` in one random way, perhaps with blocks of `other`. Calls that do not suit the file may fail.
pub(super) fn change(file: &File, other: &File, dice: &mut Dice) {
    let size = file.metadata().unwrap().len();
    let start = dice.below(size + 5000).min(MOST);
    let most = [10, 5000, 100_000][dice.below(3) as usize];
    let len = (1 + dice.below(most)).min(MOST - start);
    if len == 0 {
        return;
    }
    let reserve = |flags| _ = fallocate(file, flags, start, len);
    match dice.below(9) {
        0..3 => file.write_all_at(&dice.bytes(len), start).unwrap(),
        3 => file.set_len(dice.below(MOST)).unwrap(),
        4 => reserve(FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE),
        5 => reserve(FallocateFlags::ZERO_RANGE),
        6 => reserve(FallocateFlags::empty()),
        7 => reserve(FallocateFlags::KEEP_SIZE),
        _ => {
            // Whole blocks are shared, even between files.
            let blocks = other.metadata().unwrap().len().min(MOST) / BLOCK;
            let (mut from, mut to) = (dice.below(blocks) * BLOCK, dice.below(MOST / BLOCK) * BLOCK);
            let mut left = (1 + dice.below(20)) * BLOCK;
            while left > 0 {
                match copy_file_range(other, Some(&mut from), file, Some(&mut to), left as usize) {
                    Ok(0) | Err(_) => break,
                    Ok(copied) => left -= copied as u64,
                }
            }
        }
    }
}

/// Greatest length of a file in bytes.
pub(super) const MOST: u64 = 1 << 20;
const BLOCK: u64 = 4096;

/// A program that stores bytes into memory maps of files. This crate has no unsafe code that could do so.
pub(super) struct Mapper {
    child: Child,
    answers: BufReader<std::process::ChildStdout>,
}

impl Mapper {
    pub(super) fn start() -> Option<Self> {
        const PROGRAM: &str = "
import mmap, sys
for line in sys.stdin:
    at, byte, name = line.rstrip('\\n').split(' ', 2)
    try:
        with open(name, 'r+b') as file, mmap.mmap(file.fileno(), 0) as map:
            map[int(at) % len(map)] = int(byte)
    except (ValueError, OSError):
        pass
    print(flush=True)
";
        let mut python = Command::new("python3");
        python.args(["-c", PROGRAM]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = python.spawn().ok()?;
        let answers = BufReader::new(child.stdout.take()?);
        Some(Self { child, answers })
    }

    /// Stores a byte at a random offset of the file at `path`, if the file is not empty.
    pub(super) fn store(&mut self, path: &Path, dice: &mut Dice) {
        let (at, byte) = (dice.below(MOST), dice.below(256));
        let input = self.child.stdin.as_mut().unwrap();
        let sent = writeln!(input, "{at} {byte} {}", path.display());
        let answered = self.answers.read_line(&mut String::new());
        // The program dies if the mapped part is truncated meanwhile.
        if sent.is_err() || answered.unwrap_or_default() == 0 {
            *self = Self::start().unwrap();
        }
    }
}

/// A program that replaces extents of a file by others with the same bytes, until this value is dropped. No time of
/// the file changes.
pub(super) struct Replacer(Child);

impl Replacer {
    /// Replaces parts of `file` by the same parts of `others` in turn, and defragments `file` now and then.
    pub(super) fn start(file: &Path, others: [&Path; 2], seed: u64) -> Option<Self> {
        const PROGRAM: &str = "
import fcntl, os, random, struct, sys
SHARE, GATHER = 0xc0189436, 0x50009402
dice = random.Random(int(sys.argv[1]))
file = os.open(sys.argv[2], os.O_RDWR)
others = [os.open(name, os.O_RDWR) for name in sys.argv[3:]]
size = os.fstat(file).st_size // 4096
print(flush=True)
while True:
    start = dice.randrange(size)
    blocks = min(dice.choice([1, 16, 300]), size - start)
    head = struct.pack('=QQHHI', start * 4096, blocks * 4096, 1, 0, 0)
    to = struct.pack('=qQQiI', file, start * 4096, 0, 0, 0)
    if dice.randrange(50):
        fcntl.ioctl(dice.choice(others), SHARE, bytearray(head + to))
    else:
        fcntl.ioctl(file, GATHER)
";
        let mut python = Command::new("python3");
        python.args(["-c", PROGRAM, &seed.to_string()]).arg(file).args(others);
        let mut child = python.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().ok()?;
        let mut begun = BufReader::new(child.stdout.take()?);
        (begun.read_line(&mut String::new()).ok()? > 0).then_some(Self(child))
    }

    /// True unless the program has ended.
    pub(super) fn is_at_work(&mut self) -> bool {
        self.0.try_wait().is_ok_and(|ended| ended.is_none())
    }
}

impl Drop for Replacer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Mapper {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        drop(self.child.wait());
    }
}
