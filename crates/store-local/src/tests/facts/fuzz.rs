//! The laws of all facts. Bytes not reported as changed are equal, in any two versions of any files. Kept checksums
//! are those of the bytes that a read returns.

use std::collections::VecDeque;
use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::fdatasync;

use super::changes::{Dice, Mapper, Replacer, change};
use super::sums::check;
use super::*;

/// The facts about a version, and its content.
struct Seen {
    facts: Extents,
    bytes: Vec<u8>,
    /// Blocks with a kept checksum, or known to be zeros.
    summed: usize,
}

impl Seen {
    /// Reads the present version of the file at `at`; `None` if it changed meanwhile.
    fn now(store: &LocalStore, at: &str) -> Option<Self> {
        let snapshot = store.open(&path(at)).unwrap();
        let len = snapshot.meta().len;
        let read = || {
            let mut bytes = vec![0; len as usize];
            snapshot.read_at(0, &mut bytes).map(|read| (read, bytes))
        };
        let before = read();
        let facts = match snapshot.extents() {
            Ok(facts) => facts.expect("facts were there before"),
            Err(error) => {
                assert!(matches!(error, StoreError::Changed { .. }), "{error}");
                return None;
            }
        };
        let parts = [0..len, len / 3..len / 3 + 5000];
        let sums = parts.map(|part| snapshot.stored_sums(&part));
        let after = read();
        snapshot.check_unchanged().ok()?;
        let ((_, before), (read, bytes)) = (before.unwrap(), after.unwrap());
        // The kernel notes a change before it copies the bytes of a write. Only this comparison detects a write that
        // stopped in between; sessions wait for the writer's next change.
        if before != bytes {
            return None;
        }
        assert_eq!((read, facts.len()), (bytes.len(), bytes.len() as u64));
        let facts = Extents::decode(&facts.encode()).unwrap();
        // Checksums are those of the opened version, or none.
        let sums = sums.map(|sums| sums.expect("it is unchanged").expect("a file of btrfs"));
        let [summed, _] = sums.map(|sums| check(&sums, &bytes, at));
        Some(Self { facts, bytes, summed })
    }

    /// Checks the facts about `self` and the reported difference from `old`. Returns the number of bytes reported as
    /// changed.
    fn check(&self, old: &Self, why: &str) -> u64 {
        for (range, _) in self.facts.parts().filter(|(_, is)| *is == ExtentContent::Zero) {
            assert!(self.at(range.clone()).iter().all(|byte| *byte == 0), "{range:?}, {why}");
        }
        let changed = self.facts.changed_since(&old.facts).expect("one mount, one history");
        let (mut at, len) = (0, self.bytes.len() as u64);
        for range in changed.iter().cloned().chain(std::iter::once(len..len)) {
            let same = at..range.start;
            let was = old.bytes.get(same.start as usize..same.end as usize);
            let is_same = was == Some(self.at(same.clone()));
            assert!(is_same || same.is_empty(), "{same:?} differs, {why}");
            at = range.end;
        }
        changed.iter().map(|range| range.end - range.start).sum()
    }

    fn at(&self, range: std::ops::Range<u64>) -> &[u8] {
        &self.bytes[range.start as usize..range.end as usize]
    }
}

/// Files of all kinds that btrfs has, and earlier versions of them.
struct Files<'a> {
    root: &'a Path,
    names: Vec<String>,
    seen: VecDeque<(String, Seen)>,
    dice: Dice,
    mapper: Option<Mapper>,
    said: u64,
    read: u64,
    summed: usize,
}

impl<'a> Files<'a> {
    fn new(root: &'a Path, seed: u64) -> Self {
        let mapper = Mapper::start();
        if mapper.is_none() {
            skip("nothing is stored into maps of files without python3");
        }
        let mut names: Vec<String> = Vec::new();
        for (dir, flag) in [("plain", None), ("small", Some("+c")), ("nocow", Some("+C"))] {
            fs::create_dir(root.join(dir)).unwrap();
            let is_so = |flag| succeeds(Command::new("chattr").arg(flag).arg(root.join(dir)));
            if !flag.is_none_or(is_so) {
                skip(&format!("chattr cannot make a directory {dir} here"));
                continue;
            }
            names.extend((0..2).map(|no| format!("{dir}/{no}")));
        }
        for name in &names {
            fs::write(root.join(name), noise(seed, 300_001)).unwrap();
        }
        let dice = Dice(seed);
        let seen = VecDeque::new();
        Self { root, names, seen, dice, mapper, said: 0, read: 0, summed: 0 }
    }

    fn any(&mut self) -> String {
        let no = self.dice.below(self.names.len() as u64);
        self.names[no as usize].clone()
    }

    /// Changes a file, and checks it against earlier versions of the same file and of others.
    fn round(&mut self, store: &LocalStore, round: u64) {
        let name = self.any();
        let at = self.root.join(&name);
        let open = |name: &str| File::options().read(true).write(true).open(self.root.join(name));
        let file = open(&name).unwrap();
        for _ in 0..self.dice.below(4) {
            if self.dice.below(6) == 0
                && let Some(mapper) = &mut self.mapper
            {
                mapper.store(&at, &mut self.dice);
            } else {
                let no = self.dice.below(self.names.len() as u64) as usize;
                let other = File::open(self.root.join(&self.names[no])).unwrap();
                change(&file, &other, &mut self.dice);
            }
        }
        match self.dice.below(40) {
            0..8 => fdatasync(&file).unwrap(),
            8..10 => syncfs(&file).unwrap(),
            10 => self.take_snapshot(round),
            _ => {}
        }
        drop(file);
        let now = Seen::now(store, &name).expect("nobody else changes it");
        self.summed += now.summed;
        for (of, old) in &self.seen {
            self.said += now.check(old, &format!("round {round}: {name} since {of}"));
            self.read += now.bytes.len() as u64;
        }
        if self.seen.len() == 16 {
            let no = self.dice.below(16) as usize;
            self.seen.remove(no);
        }
        self.seen.push_back((format!("{name} of round {round}"), now));
    }

    /// Takes a btrfs snapshot: it keeps the present files as other files.
    fn take_snapshot(&mut self, round: u64) {
        let to = format!("snapshot{round}");
        let mut snapshot = Command::new("btrfs");
        snapshot.args(["subvolume", "snapshot"]).arg(self.root).arg(self.root.join(&to));
        if self.names.len() < 12 && succeeds(&mut snapshot) {
            self.names.extend([format!("{to}/plain/0"), format!("{to}/small/1")]);
        }
    }

    /// Moves all extents to other addresses on the device.
    fn balance(&self) {
        let mut balance = Command::new("btrfs");
        balance.args(["balance", "start", "-d"]).arg(self.root);
        if !succeeds(&mut balance) {
            skip("no balance moved any extent");
        }
    }
}

fn changes_are_never_missed(rounds: u64, seed: u64) {
    let at = tempfile::tempdir().unwrap();
    let Some(_mounted) = btrfs(at.path()) else { return };
    eprintln!("seed {seed}");
    let (store, mut files) = (open_store(at.path()), Files::new(at.path(), seed));
    for round in 0..rounds {
        files.round(&store, round);
        if round % 100 == 99 {
            files.balance();
        }
    }
    let Files { said, read, summed, .. } = files;
    eprintln!("{said} of {read} bytes were said to have changed in {rounds} rounds");
    eprintln!("{summed} blocks had sums, or were zeros");
    // The facts are useful, although most compared versions are of different files.
    assert!(said < read && summed > 0, "nothing was ever unchanged, or known");
}

#[test]
fn random_changes_are_never_missed() {
    changes_are_never_missed(150, 1);
}

/// Run by `make storage`: many rounds, with other seeds.
#[test]
#[ignore = "long"]
fn very_many_random_changes_are_never_missed() {
    let seed = std::env::var("DELTIC_FACTS_SEED").map_or(2, |seed| seed.parse().unwrap());
    changes_are_never_missed(10_000, seed);
}

/// While others write, a version is refused, or its facts match the bytes that are read.
fn versions_are_never_torn(rounds: u32) {
    let at = tempfile::tempdir().unwrap();
    let Some(_mounted) = btrfs(at.path()) else { return };
    let (store, root) = (open_store(at.path()), at.path());
    fs::write(root.join("file"), noise(3, 1 << 20)).unwrap();
    let stop = AtomicBool::new(false);
    let writing = |no: u64, mut mapper: Option<Mapper>| {
        let file = File::options().read(true).write(true).open(root.join("file")).unwrap();
        let (mut dice, stop) = (Dice(no), &stop);
        move || {
            while !stop.load(Ordering::Relaxed) {
                match &mut mapper {
                    Some(mapper) => mapper.store(&root.join("file"), &mut dice),
                    None => change(&file, &file, &mut dice),
                }
                thread::sleep(Duration::from_micros(dice.below(3000)));
            }
        }
    };
    thread::scope(|scope| {
        let _stop = Stop(&stop);
        scope.spawn(writing(1, None));
        scope.spawn(writing(2, Mapper::start()));
        let (mut old, mut torn) = (None::<Seen>, 0);
        for round in 0..rounds {
            match (Seen::now(&store, "file"), &old) {
                (Some(now), Some(before)) => {
                    now.check(before, &format!("round {round}"));
                    old = Some(now);
                }
                (Some(now), None) => old = Some(now),
                (None, _) => torn += 1,
            }
        }
        eprintln!("{torn} of {rounds} versions changed meanwhile");
    });
}

/// The facts of a file hold while its extents are replaced by others with equal bytes.
fn replaced_extents_are_never_zeros(rounds: u32, seed: u64) {
    let at = tempfile::tempdir().unwrap();
    let Some(_mounted) = btrfs(at.path()) else { return };
    let (store, root) = (open_store(at.path()), at.path());
    // No byte is zero, and no block has the same address in two files.
    let bytes: Vec<_> = noise(seed, 4 << 20).into_iter().map(|byte| byte | 1).collect();
    let [file, one, other] = ["file", "one", "other"].map(|name| root.join(name));
    for path in [&file, &one, &other] {
        fs::write(path, &bytes).unwrap();
    }
    syncfs(File::open(root).unwrap()).unwrap();
    let Some(mut replacer) = Replacer::start(&file, [&one, &other], seed) else {
        return skip("no extents are replaced without python3");
    };
    let len = bytes.len() as u64;
    let (mut unknown, mut known) = (0, 0);
    for round in 0..rounds {
        let snapshot = store.open(&path("file")).unwrap();
        let facts = snapshot.extents().unwrap();
        let sums = snapshot.stored_sums(&(0..len)).unwrap().expect("a file of btrfs");
        known += check(&sums, &bytes, &format!("round {round}"));
        for (range, is) in facts.iter().flat_map(Extents::parts) {
            assert_ne!(is, ExtentContent::Zero, "{range:?}, round {round}");
            unknown += u32::from(is == ExtentContent::Unknown);
        }
    }
    eprintln!("{unknown} parts were unknown, {known} blocks had sums, in {rounds} rounds");
    assert!(replacer.is_at_work() && known > 0);
}

#[test]
fn what_is_being_replaced_is_never_taken_for_zeros() {
    replaced_extents_are_never_zeros(2000, 5);
}

/// Run by `make storage`: many rounds, with other seeds.
#[test]
#[ignore = "long"]
fn what_is_being_replaced_is_never_taken_for_zeros_for_long() {
    let seed = std::env::var("DELTIC_FACTS_SEED").map_or(6, |seed| seed.parse().unwrap());
    replaced_extents_are_never_zeros(10_000, seed);
}

/// Stops the writers when dropped, also after a failure.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn facts_of_a_file_that_others_write_to_are_of_one_version() {
    versions_are_never_torn(200);
}

/// Run by `make storage`: many rounds.
#[test]
#[ignore = "long"]
fn facts_of_a_file_that_others_write_to_are_of_one_version_for_long() {
    versions_are_never_torn(10_000);
}
