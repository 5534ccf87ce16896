//! Tests of the guarantee: both trees are equal once rounds succeed, whatever happens and in whatever order events
//! arrive.
//!
//! The ground is a model of a tree with watches as on Linux: watches belong to directories and not to paths. The queue
//! of events may be too short, and the watches may be too few.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use deltic_tree::{Name, RelPath};

use super::State;
use super::batch::{Batch, Fault, Pace};
use super::dirt::{Change, Dirt};
use super::tree::{Event, Kind, Listed, Unwatched, WatchNo, WatchedDirs, Watches};

struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }
}

type Inode = usize;

#[derive(Clone, Debug)]
struct Node {
    /// The entries of a directory; `None` for a file.
    names: Option<BTreeMap<Name, Inode>>,
    /// Grows with each change of the content, the entries or the attributes.
    version: u64,
}

/// A model of the source.
struct World {
    nodes: HashMap<Inode, Node>,
    next: Inode,
    watches: BTreeMap<Inode, WatchNo>,
    next_watch: i32,
    most_watches: usize,
    queue: VecDeque<Event>,
    longest: usize,
    /// True if files may get several hard links.
    links: bool,
}

/// Each path, with true for a directory, and the version.
type Picture = BTreeMap<RelPath, (bool, u64)>;

const ROOT: Inode = 0;

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

fn path(text: &str) -> RelPath {
    RelPath::parse(text.as_bytes()).unwrap()
}

impl World {
    fn new(most_watches: usize, longest: usize) -> Self {
        let root = Node { names: Some(BTreeMap::new()), version: 0 };
        let (watches, queue) = (BTreeMap::new(), VecDeque::new());
        let nodes = HashMap::from([(ROOT, root)]);
        let links = false;
        Self { nodes, next: 1, watches, next_watch: 1, most_watches, queue, longest, links }
    }

    fn at(&self, path: &RelPath) -> Option<Inode> {
        path.components().try_fold(ROOT, |at, step| {
            self.nodes[&at].names.as_ref()?.get(&Name::new(step).unwrap()).copied()
        })
    }

    fn is_dir(&self, inode: Inode) -> bool {
        self.nodes[&inode].names.is_some()
    }

    fn picture(&self) -> Picture {
        let mut picture = Picture::new();
        let mut dirs = vec![(RelPath::root(), ROOT)];
        while let Some((path, inode)) = dirs.pop() {
            let node = &self.nodes[&inode];
            for (name, inode) in node.names.iter().flatten() {
                dirs.push((path.join(name).unwrap(), *inode));
            }
            picture.insert(path, (node.names.is_some(), node.version));
        }
        picture
    }

    fn event(&mut self, inode: Inode, kind: Kind, (name, is_dir): (Option<Name>, bool)) {
        let Some(no) = self.watches.get(&inode).copied() else { return };
        if self.queue.len() < self.longest {
            self.queue.push_back(Event { no, kind, name, is_dir });
        } else if self.queue.back().is_some_and(|last| last.kind != Kind::Lost) {
            let (no, name) = (WatchNo(-1), None);
            self.queue.push_back(Event { no, kind: Kind::Lost, name, is_dir: false });
        }
    }

    fn all(&self) -> Vec<(RelPath, Inode)> {
        self.picture().into_keys().map(|path| (path.clone(), self.at(&path).unwrap())).collect()
    }

    fn add(&mut self, dir: Inode, name: &Name, inode: Inode) {
        let is_dir = self.is_dir(inode);
        let node = self.nodes.get_mut(&dir).unwrap();
        node.names.as_mut().unwrap().insert(name.clone(), inode);
        node.version += 1;
        self.event(dir, Kind::Came, (Some(name.clone()), is_dir));
    }

    fn take(&mut self, dir: Inode, name: &Name) -> Inode {
        let node = self.nodes.get_mut(&dir).unwrap();
        let inode = node.names.as_mut().unwrap().remove(name).unwrap();
        node.version += 1;
        let is_dir = self.is_dir(inode);
        self.event(dir, Kind::Went, (Some(name.clone()), is_dir));
        inode
    }

    fn remove(&mut self, dir: Inode, name: &Name) {
        let inode = self.nodes[&dir].names.as_ref().unwrap()[name];
        let below: Vec<_> =
            self.nodes[&inode].names.iter().flatten().map(|(n, _)| n.clone()).collect();
        below.iter().for_each(|name| self.remove(inode, name));
        self.take(dir, name);
        if self.names_of(inode) == 0 {
            self.event(inode, Kind::Left, (None, true));
            self.event(inode, Kind::Over, (None, true));
            self.watches.remove(&inode);
            self.nodes.remove(&inode);
        }
    }

    fn names_of(&self, inode: Inode) -> usize {
        self.all().iter().filter(|(_, other)| *other == inode).count()
    }

    /// True if a name may be removed. After a write through a hard link, that link is the only hint at the other links
    /// for a while.
    fn lets_go(&self) -> bool {
        !self.links || self.queue.is_empty()
    }

    fn make(&mut self, dir: Inode, name: &Name, is_dir: bool) -> Inode {
        let inode = self.next;
        self.next += 1;
        let names = is_dir.then(BTreeMap::new);
        // Versions of different nodes differ.
        self.nodes.insert(inode, Node { names, version: inode as u64 * 1_000_000 });
        self.add(dir, name, inode);
        inode
    }

    /// Makes a random change.
    fn happen(&mut self, dice: &mut Dice) {
        let all = self.all();
        let dirs: Vec<_> = all.iter().filter(|(_, inode)| self.is_dir(*inode)).collect();
        let (at, dir) = dirs[dice.below(dirs.len())].clone();
        let name = name(["a", "b", "c", "a.b"][dice.below(4)]);
        let there = self.nodes[&dir].names.as_ref().unwrap().get(&name).copied();
        match (dice.below(8), there) {
            (0..3, None) if at.components().count() < 5 => {
                let made = self.make(dir, &name, dice.below(2) == 0);
                // As `mkdir -p` does, before the event of the first directory is handled.
                if self.is_dir(made) && dice.below(2) == 0 {
                    self.make(made, &name, dice.below(3) > 0);
                }
            }
            (0..4, Some(inode)) => {
                self.nodes.get_mut(&inode).unwrap().version += 1;
                let is_dir = self.is_dir(inode);
                self.event(dir, Kind::Changed, (Some(name), is_dir));
                if is_dir {
                    self.event(inode, Kind::Changed, (None, true));
                }
            }
            (4, Some(_)) if self.lets_go() => self.remove(dir, &name),
            (3, None) if self.links => {
                let files: Vec<_> = all.iter().filter(|(_, inode)| !self.is_dir(*inode)).collect();
                if !files.is_empty() {
                    self.add(dir, &name, files[dice.below(files.len())].1);
                }
            }
            (5.., Some(inode)) => {
                let (to, into) = dirs[dice.below(dirs.len())].clone();
                let new = super::tests::name(["a", "b", "c", "d"][dice.below(4)]);
                let from = at.join(&name).unwrap();
                let target = self.nodes[&into].names.as_ref().unwrap().get(&new).copied();
                let fits = target.is_none_or(|target| !self.is_dir(target) && !self.is_dir(inode));
                let fits = fits && (target.is_none() || self.lets_go());
                if to.starts_with(&from) || !fits || target == Some(inode) {
                    return;
                }
                self.take(dir, &name);
                self.add(into, &new, inode);
                // A file that is replaced by a rename causes no event.
                if let Some(target) = target.filter(|target| self.names_of(*target) == 0) {
                    self.nodes.remove(&target);
                }
                self.event(inode, Kind::Left, (None, true));
            }
            _ => {}
        }
    }
}

impl WatchedDirs for World {
    fn renew(&mut self) {}

    fn watch(&mut self, dir: &RelPath) -> Result<WatchNo, Unwatched> {
        let inode = self.at(dir).filter(|inode| self.is_dir(*inode)).ok_or(Unwatched::Nothing)?;
        if let Some(no) = self.watches.get(&inode) {
            return Ok(*no);
        }
        if self.watches.len() == self.most_watches {
            return Err(Unwatched::TooMany);
        }
        let no = WatchNo(self.next_watch);
        self.next_watch += 1;
        self.watches.insert(inode, no);
        Ok(no)
    }

    fn unwatch(&mut self, no: WatchNo) {
        let Some(inode) = self.watches.iter().find(|(_, of)| **of == no).map(|(inode, _)| *inode)
        else {
            return;
        };
        self.event(inode, Kind::Over, (None, true));
        self.watches.remove(&inode);
    }

    fn list(&mut self, dir: &RelPath) -> Listed {
        let names = self.at(dir).and_then(|inode| self.nodes[&inode].names.clone());
        let names = names.unwrap_or_default();
        let has_links = names.values().any(|inode| self.names_of(*inode) > 1);
        let dirs = names.into_iter().filter(|(_, inode)| self.is_dir(*inode));
        Listed { dirs: dirs.map(|(name, _)| name).collect(), has_links }
    }

    fn has_other_names(&mut self, path: &RelPath) -> bool {
        self.at(path).is_some_and(|inode| self.names_of(inode) > 1)
    }
}

/// An argument of a round.
enum Item {
    All,
    Dir(RelPath),
    Name(RelPath),
}

fn items(dirt: &Dirt) -> Vec<Item> {
    if dirt.is_all() {
        return vec![Item::All];
    }
    dirt.dirs().cloned().map(Item::Dir).chain(dirt.names().map(Item::Name)).collect()
}

/// Syncs an argument, with the directories above it, as a round does.
fn bring(world: &World, item: &Item, there: &mut Picture) {
    let here = world.picture();
    let (path, contents) = match item {
        Item::All => {
            *there = here;
            return;
        }
        Item::Dir(path) => (path, true),
        Item::Name(path) => (path, false),
    };
    let Some((is_dir, _)) = here.get(path) else { return };
    if contents && !is_dir {
        return;
    }
    let mut put = |path: &RelPath| {
        let now = here[path];
        if there.insert(path.clone(), now).is_some_and(|before| before.0 && !now.0) {
            there.retain(|other, _| other == path || !other.starts_with(path));
        }
    };
    let mut above = path.split_last();
    while let Some((dir, _)) = above.filter(|(dir, _)| !dir.is_root()) {
        put(&dir);
        above = dir.split_last();
    }
    put(path);
    if contents {
        let is_in = |other: &RelPath| other.split_last().is_some_and(|(dir, _)| dir == *path);
        here.keys().filter(|other| is_in(other)).for_each(put);
        let gone: BTreeSet<_> = there
            .keys()
            .filter(|other| is_in(other) && !here.contains_key(other))
            .cloned()
            .collect();
        there.retain(|other, _| !gone.iter().any(|gone| other.starts_with(gone)));
    }
}

const PACE: Pace = Pace { delay: Duration::from_secs(1), longest: Duration::from_secs(5) };

/// A watched source, and its destination.
struct Sync {
    world: World,
    watches: Watches,
    batch: Batch,
    there: Picture,
    now: Duration,
}

impl Sync {
    fn new(world: World) -> Self {
        let watches = Watches::new(vec![RelPath::root()]);
        let (batch, there) = (Batch::new(PACE), Picture::new());
        Self { world, watches, batch, there, now: Duration::ZERO }
    }

    fn hear(&mut self) {
        let Some(event) = self.world.queue.pop_front() else { return };
        for change in self.watches.handle(event, &mut self.world) {
            self.batch.note_change(self.now, change);
        }
        self.batch.set_may_miss_changes(self.now, self.watches.is_short);
    }

    /// Runs a round, if one is due, with changes meanwhile.
    fn round(&mut self, dice: &mut Dice) {
        let Some(dirt) = self.batch.take_due(self.now) else { return };
        let ends = dice.below(4);
        for item in items(&dirt) {
            // A failed round may have synced a part of its argument.
            if ends < 2 || dice.below(2) == 0 {
                bring(&self.world, &item, &mut self.there);
            }
            if dice.below(4) == 0 {
                self.world.happen(dice);
            }
            if dice.below(4) == 0 {
                self.hear();
            }
        }
        match ends {
            0 | 1 => {}
            2 => self.batch.note_failed(self.now, dirt, Fault::Names),
            _ => {
                let mut all = Dirt::default();
                all.note_change(Change::All);
                self.batch.note_failed(self.now, all, Fault::Run);
            }
        }
    }

    /// Handles all events and runs rounds that succeed, without further changes.
    fn settle(&mut self) {
        while !self.world.queue.is_empty() {
            self.hear();
        }
        let mut rounds = 0;
        while let Some(due) = self.batch.next_due() {
            self.now = self.now.max(due);
            let dirt = self.batch.take_due(self.now).expect("it is due");
            items(&dirt).iter().for_each(|item| bring(&self.world, item, &mut self.there));
            rounds += 1;
            // With too few watches, full comparisons never end.
            if self.watches.is_short && rounds > 1 {
                break;
            }
            assert!(rounds < 4, "rounds without a change");
        }
    }
}

#[test]
fn no_change_is_lost() {
    let mut short = 0;
    for seed in 0..4000 {
        let mut dice = Dice(seed);
        let most_watches = if seed % 5 == 0 { 3 } else { usize::MAX };
        let longest = if seed % 3 == 0 { 6 } else { usize::MAX };
        let mut world = World::new(most_watches, longest);
        world.links = seed % 2 == 0;
        (0..dice.below(20)).for_each(|_| world.happen(&mut dice));
        let mut sync = Sync::new(world);
        let all = sync.watches.rewatch_all(&mut sync.world);
        sync.batch.note_change(sync.now, all);
        for _ in 0..150 {
            match dice.below(6) {
                0 | 1 => sync.world.happen(&mut dice),
                2 | 3 => sync.hear(),
                4 => sync.now += Duration::from_millis(300),
                _ => sync.round(&mut dice),
            }
        }
        sync.settle();
        short += usize::from(sync.watches.is_short);
        assert_eq!(sync.there, sync.world.picture(), "seed {seed}");
    }
    assert!(short > 0, "watches were never too few");
}

#[test]
fn a_write_in_a_just_renamed_directory_is_found_at_the_files_other_hard_links() {
    let mut world = World::new(usize::MAX, usize::MAX);
    let dir = world.make(ROOT, &name("a"), true);
    let other = world.make(ROOT, &name("b"), true);
    let file = world.make(other, &name("b"), false);
    world.add(dir, &name("c"), file);
    let mut sync = Sync::new(world);
    sync.watches.rewatch_all(&mut sync.world);
    sync.settle();
    // The file changes after the rename of its directory, before the event of the rename is handled.
    sync.world.take(ROOT, &name("a"));
    sync.world.add(ROOT, &name("d"), dir);
    sync.world.nodes.get_mut(&file).unwrap().version += 1;
    sync.world.event(dir, Kind::Changed, (Some(name("c")), false));
    sync.settle();
    assert_eq!(sync.there, sync.world.picture());
}

#[test]
fn changes_are_gathered_until_it_is_quiet_but_not_for_ever() {
    let ms = Duration::from_millis;
    let mut batch = Batch::new(PACE);
    assert!(batch.take_due(ms(0)).is_some_and(|dirt| dirt.is_all()));
    assert_eq!(batch.next_due(), None);
    batch.note_change(ms(10_000), Change::Name(path("a")));
    assert_eq!(batch.next_due(), Some(ms(11_000)));
    assert_eq!(batch.take_due(ms(10_999)), None);
    batch.note_change(ms(10_900), Change::Name(path("b")));
    assert_eq!(batch.next_due(), Some(ms(11_900)));
    for at in (11..20).map(|n| ms(n * 1000)) {
        batch.note_change(at, Change::Name(path("b")));
    }
    assert_eq!(batch.next_due(), Some(ms(15_000)));
    let dirt = batch.take_due(ms(15_000)).unwrap();
    assert_eq!(dirt.names().collect::<Vec<_>>(), [path("a"), path("b")]);
}

#[test]
fn what_failed_is_tried_again_later_and_later_with_what_came_meanwhile() {
    let secs = Duration::from_secs;
    let mut batch = Batch::new(PACE);
    let mut dirt = batch.take_due(secs(0)).unwrap();
    let mut pauses = Vec::new();
    let mut now = secs(0);
    for _ in 0..8 {
        batch.note_failed(now, dirt, Fault::Run);
        let due = batch.next_due().unwrap();
        pauses.push((due - now).as_secs());
        now = due;
        dirt = batch.take_due(now).unwrap();
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
    batch.note_change(now, Change::Name(path("a")));
    let dirt = batch.take_due(now + secs(1)).unwrap();
    batch.note_change(now + secs(1), Change::Name(path("b")));
    batch.note_failed(now + secs(1), dirt, Fault::Names);
    let dirt = batch.take_due(now + secs(2)).unwrap();
    assert_eq!(dirt.names().collect::<Vec<_>>(), [path("a"), path("b")]);
    // Held-back deletions cause no round, and go with the next one.
    batch.note_held_back(dirt);
    assert_eq!((batch.next_due(), batch.is_clean()), (None, false));
    batch.note_change(now + secs(9), Change::Name(path("c")));
    assert_eq!(batch.take_due(now + secs(10)).unwrap().len(), 3);
}

#[test]
fn a_name_that_keeps_failing_puts_nothing_else_off() {
    let secs = Duration::from_secs;
    let mut batch = Batch::new(PACE);
    let mut dirt = batch.take_due(secs(0)).unwrap();
    let mut now = secs(0);
    for _ in 0..10 {
        batch.note_failed(now, dirt, Fault::Names);
        now = batch.next_due().unwrap();
        dirt = batch.take_due(now).unwrap();
    }
    batch.note_failed(now, dirt, Fault::Names);
    let again = now + secs(600);
    assert_eq!((batch.next_due(), batch.is_clean()), (Some(again), false));
    batch.note_change(now, Change::Name(path("a")));
    assert_eq!(batch.next_due(), Some(now + secs(1)));
    let dirt = batch.take_due(now + secs(1)).unwrap();
    assert_eq!(dirt.names().collect::<Vec<_>>(), [path("a")]);
    // A second failing name waits together with the first, and does not delay it.
    batch.note_failed(now + secs(2), dirt, Fault::Names);
    assert_eq!(batch.next_due(), Some(again));
    // A full comparison includes all failed names, so these names are not tried again.
    batch.note_change(now, Change::All);
    assert!(batch.take_due(now + secs(3)).is_some_and(|dirt| dirt.is_all()));
    assert_eq!((batch.next_due(), batch.is_clean()), (None, true));
}

#[test]
fn where_nothing_arrives_nothing_is_sent_before_its_time() {
    let secs = Duration::from_secs;
    let mut batch = Batch::new(PACE);
    batch.take_due(secs(0)).unwrap();
    batch.note_change(secs(1), Change::Name(path("a")));
    let a = batch.take_due(secs(2)).unwrap();
    batch.note_failed(secs(2), a, Fault::Names);
    batch.note_change(secs(1), Change::Name(path("b")));
    let b = batch.take_due(secs(2)).unwrap();
    assert_eq!(b.names().collect::<Vec<_>>(), [path("b")]);
    batch.note_failed(secs(2), b, Fault::Run);
    let both = batch.take_due(secs(3)).unwrap();
    assert_eq!(both.names().collect::<Vec<_>>(), [path("a"), path("b")]);
    batch.note_failed(secs(3), both, Fault::Run);
    batch.note_change(secs(3), Change::Name(path("c")));
    assert_eq!((batch.take_due(secs(4)), batch.next_due()), (None, Some(secs(5))));
    assert_eq!(batch.take_due(secs(5)).unwrap().len(), 3);
}

#[test]
fn many_names_are_told_as_their_directory_and_very_many_as_everything() {
    let mut dirt = Dirt::default();
    for n in 0..300 {
        dirt.note_change(Change::Name(path(&format!("d/{n}"))));
    }
    assert_eq!((dirt.dirs().collect::<Vec<_>>(), dirt.names().count()), (vec![&path("d")], 0));
    for n in 0..5000 {
        dirt.note_change(Change::Dir(path(&format!("e/{n}"))));
    }
    assert!(dirt.is_all());
    dirt.note_change(Change::Name(path("a")));
    assert_eq!((dirt.len(), dirt.has_no_changes()), (0, false));
}

/// A round that compared only a part of the held-back deletions would count only a part of the deletions.
#[test]
fn what_is_held_back_and_not_known_goes_into_each_round() {
    let ms = Duration::from_millis;
    let held = |gone: usize, more: Option<Change>| {
        let mut state = State::new(PACE);
        assert!(state.next_changes(ms(0)).is_some_and(|dirt| dirt.is_all()));
        let mut dirt = Dirt::default();
        (0..gone).for_each(|n| dirt.note_change(Change::Gone(path(&format!("d/{n}")))));
        more.into_iter().for_each(|change| dirt.note_change(change));
        state.hold_back_deletions(dirt, 2000);
        state.note_change(ms(10_000), Change::Name(path("other/name")));
        let dirt = state.next_changes(ms(20_000)).unwrap();
        (dirt, state)
    };
    let (dirt, state) = held(256, None);
    assert!(!dirt.is_all() && dirt.dirs().next().is_none());
    assert_eq!((state.held.as_ref().unwrap().names, state.protecting_rules().len()), (2000, 256));
    // One more name of the same directory: the whole directory is held back.
    let (dirt, state) = held(257, None);
    assert!(!dirt.is_all() && dirt.dirs().next().is_none());
    assert_eq!((state.held.as_ref().unwrap().names, state.protecting_rules().len()), (2000, 1));
    // A tree is removed name by name, and then the directory itself.
    let (_, state) = held(1300, Some(Change::Gone(path("d"))));
    assert_eq!(state.held.unwrap().dirt.names_gone().collect::<Vec<_>>(), [&path("d")]);
    // A tree is removed name by name, with a round in between, and then the directory itself.
    let (_, mut state) = held(1300, None);
    state.note_change(ms(30_000), Change::Gone(path("d/another")));
    assert!(state.held.is_none());
    let dirt = state.next_changes(ms(40_000)).unwrap();
    assert!(dirt.dirs().any(|dir| *dir == path("d")));
    state.hold_back_deletions(dirt, 1301);
    state.note_change(ms(50_000), Change::Gone(path("d")));
    assert!(state.held.is_none());
    let dirt = state.next_changes(ms(60_000)).unwrap();
    assert!(dirt.dirs().any(RelPath::is_root));
    assert_eq!(dirt.names_gone().chain(dirt.gone_from()).collect::<Vec<_>>(), [&path("d")]);
    for (gone, change) in [(0, Change::All), (3, Change::All)] {
        let (dirt, state) = held(gone, Some(change));
        assert!(dirt.is_all() && state.held.is_none());
    }
    let (dirt, state) = held(3, Some(Change::Dir(path("e"))));
    assert_eq!(dirt.dirs().collect::<Vec<_>>(), [&path("d"), &path("e")]);
    assert!(state.held.is_none());
}
