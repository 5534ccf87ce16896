//! SkySync, figure 6: the hash table of the paper and Deltic's cuckoo index: load, memory and speed.

use std::hint::black_box;

use anyhow::Result;
use deltic_core::StrongSum;
use deltic_core::index::{CuckooIndex, Entry1, Entry2, FillLevel, PublishedTable};

use super::bench::PaperBench;
use super::claims::{self, Claim};
use super::hashes::{figures_of, seconds};
use super::outcome::Outcome;
use super::runs::RunMode;
use super::series::SeriesTable;
use crate::random::Random;
use crate::table::TextTable;

/// Measures the tables with random sums: CRC-32C and SHA-256 are evenly distributed.
pub(crate) fn hash_tables(bench: &mut PaperBench) -> Result<Outcome> {
    let counts: &[usize] = match bench.mode() {
        RunMode::Smoke => &[1 << 10],
        RunMode::Quick => &[1 << 10, 1 << 17],
        RunMode::Full => &[1 << 10, 1 << 14, 1 << 17, 1 << 20],
    };
    let mut speeds = SeriesTable::new(" ns");
    let columns = ["published, first overflow", "deltic, first overflow"];
    let filled = ["published, slots", "published, doublings", "deltic, slots"];
    let mut loads = TextTable::new(1, ["sums"].into_iter().chain(columns).chain(filled));
    for count in counts {
        let sums = BlockSumList::new(*count);
        sums.time(bench, &mut speeds);
        loads.row(sums.loads());
    }
    let claims = [
        Claim::value("look-up in Entry1", "-", "Entry1, find"),
        Claim::value("look-up in Entry2", "-", "Entry2, find"),
        Claim::times("deltic to Entry1", "-", "Entry1, find", "deltic, find"),
    ];
    let what = "ns a sum: building a table sized by equation 5 at a load of 0.85, and look-ups of present and absent sums";
    let mut drawn = figures_of(what, "sums", &speeds);
    drawn.claims = claims::table(&claims, &speeds);
    drawn.tables.push((LOADS.into(), loads));
    Ok(Outcome::Drawn(Box::new(drawn)))
}

/// Random sums of blocks.
struct BlockSumList {
    present: Vec<Entry2>,
    absent: Vec<u32>,
}

impl BlockSumList {
    fn new(count: usize) -> Self {
        let mut random = Random::new(count as u64);
        let strong = |random: &mut Random| {
            StrongSum::from_bytes(&random.bytes(32)).expect("a strong sum has 32 bytes")
        };
        let entry =
            |block| Entry2 { weak: random.number() as u32, block, strong: strong(&mut random) };
        let present = (0..count as u32).map(entry).collect();
        let absent = (0..count).map(|_| random.number() as u32).collect();
        Self { present, absent }
    }

    /// Returns equation 5's table of weak sums.
    fn entry1(&self) -> PublishedTable<Entry1> {
        let mut table = PublishedTable::with_load(self.present.len(), LOAD_PERCENT);
        for Entry2 { weak, block, .. } in &self.present {
            table.insert(Entry1 { weak: *weak, chunk: *block });
        }
        table
    }

    /// Returns equation 5's table of weak and strong sums.
    fn entry2(&self) -> PublishedTable<Entry2> {
        let mut table = PublishedTable::with_load(self.present.len(), LOAD_PERCENT);
        self.present.iter().for_each(|entry| table.insert(*entry));
        table
    }

    fn cuckoo(&self) -> CuckooIndex<u32> {
        let mut index = CuckooIndex::with_room(self.present.len(), self.present.len());
        self.present.iter().for_each(|entry| index.push(entry.weak));
        index
    }

    fn time(&self, bench: &PaperBench, speeds: &mut SeriesTable) {
        let count = self.present.len();
        let mut put = |series: &str, run: &dyn Fn()| {
            speeds.put(&count.to_string(), series, seconds(bench, run) / count as f64 * 1e9);
        };
        let (entry1, entry2, cuckoo) = (self.entry1(), self.entry2(), self.cuckoo());
        put("Entry1, build", &|| drop(black_box(self.entry1())));
        put("Entry2, build", &|| drop(black_box(self.entry2())));
        put("deltic, build", &|| drop(black_box(self.cuckoo())));
        put("Entry1, find", &|| self.count(|wanted| entry1.matching(wanted.weak).next().is_some()));
        put("Entry2, find", &|| {
            self.count(|wanted| {
                entry2.matching(wanted.weak).any(|entry| entry.strong == wanted.strong)
            });
        });
        put("deltic, find", &|| self.count(|wanted| cuckoo.find(wanted.weak).is_some()));
        put("Entry1, absent", &|| self.count_absent(|weak| entry1.matching(weak).next().is_some()));
        put("Entry2, absent", &|| self.count_absent(|weak| entry2.matching(weak).next().is_some()));
        put("deltic, absent", &|| self.count_absent(|weak| cuckoo.find(weak).is_some()));
    }

    fn count(&self, has: impl Fn(&Entry2) -> bool) {
        black_box(self.present.iter().filter(|wanted| has(wanted)).count());
    }

    fn count_absent(&self, has: impl Fn(u32) -> bool) {
        black_box(self.absent.iter().filter(|weak| has(**weak)).count());
    }

    fn loads(&self) -> Vec<String> {
        let [published, ours] = [self.published_overflow(), self.cuckoo_overflow()];
        let table = self.entry1();
        let (FillLevel { slots, .. }, doublings) = (table.fill_level(), table.doublings());
        let our_slots = self.cuckoo().fill_level().slots;
        let overflows = [published, ours].map(|load| format!("{load:.3}"));
        let numbers = [slots, doublings as usize, our_slots].map(|number| number.to_string());
        let count = self.present.len().to_string();
        [count].into_iter().chain(overflows).chain(numbers).collect()
    }

    /// Returns the load of the paper's table when a pair of buckets is full for the first time.
    fn published_overflow(&self) -> f64 {
        let mut table = PublishedTable::with_load(self.present.len(), 100);
        let FillLevel { slots, .. } = table.fill_level();
        let fits = |entry: &&Entry2| {
            table.insert(Entry1 { weak: entry.weak, chunk: entry.block });
            table.doublings() == 0
        };
        self.present.iter().take_while(fits).count() as f64 / slots as f64
    }

    /// Returns the load of Deltic's index when the first sum finds no slot.
    fn cuckoo_overflow(&self) -> f64 {
        // The index adds one slot for each nine sums: room for 0.9 × as many sums has as many slots as there are sums.
        let mut index = CuckooIndex::with_room(self.present.len(), self.present.len() / 10 * 9);
        let FillLevel { slots, .. } = index.fill_level();
        let fits = |entry: &&Entry2| {
            index.push(entry.weak);
            let level = index.fill_level();
            level.overflow == 0 && level.slots == slots
        };
        self.present.iter().take_while(fits).count() as f64 / slots as f64
    }
}

const LOADS: &str = "Load of a table with as many slots as sums when the first sum finds no slot (the paper: 0.85 to 0.91), \
                     and the slots of a table for all sums:";
/// Load of equation 5, in percent.
const LOAD_PERCENT: usize = 85;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pairs_of_the_paper_overflow_before_the_cuckoo_index() {
        let sums = BlockSumList::new(1 << 12);
        let (published, ours) = (sums.published_overflow(), sums.cuckoo_overflow());
        assert!((0.1..0.6).contains(&published) && ours > 0.9, "{published} {ours}");
        assert!(sums.entry1().doublings() > 0);
        assert_eq!(sums.loads().len(), 6);
    }
}
