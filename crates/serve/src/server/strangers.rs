//! Strangers: connections that have not shown a token. The number of strangers has a limit of its own. At the limit,
//! the oldest stranger is closed for a new one. A client with a token shows the token, or a pass for the token, early
//! enough to stay connected.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use tokio_util::sync::CancellationToken;

use crate::lock;

/// Connections that have not shown a token (strangers).
#[derive(Debug, Default)]
pub(super) struct Strangers(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    next: u64,
    /// All strangers by number, oldest first.
    all: BTreeMap<u64, Stranger>,
    /// Numbers of the strangers of each counted address.
    of: HashMap<IpAddr, BTreeSet<u64>>,
}

#[derive(Debug)]
struct Stranger {
    address: Option<IpAddr>,
    leave: CancellationToken,
}

impl Strangers {
    /// Adds a stranger. If `address` already has `most` strangers, closes the oldest stranger of the address.
    pub(super) fn enter(self: &Arc<Self>, address: Option<IpAddr>, most: usize) -> StrangerPlace {
        let mut table = lock(&self.0);
        if let Some(of) = address.and_then(|address| table.of.get(&address))
            && of.len() >= most.max(1)
            && let Some(oldest) = of.first().copied()
        {
            table.evict(oldest);
        }
        let (number, leave) = (table.next, CancellationToken::new());
        table.next += 1;
        table.all.insert(number, Stranger { address, leave: leave.clone() });
        if let Some(address) = address {
            table.of.entry(address).or_default().insert(number);
        }
        StrangerPlace { strangers: Arc::clone(self), number, leave }
    }

    /// Closes the oldest stranger, if there is one.
    pub(super) fn evict_oldest(&self) {
        let mut table = lock(&self.0);
        if let Some(oldest) = table.all.first_key_value().map(|(number, _)| *number) {
            table.evict(oldest);
        }
    }
}

impl Table {
    fn evict(&mut self, number: u64) {
        if let Some(gone) = self.remove(number) {
            gone.leave.cancel();
        }
    }

    fn remove(&mut self, number: u64) -> Option<Stranger> {
        let gone = self.all.remove(&number)?;
        if let Some(address) = gone.address
            && let Some(of) = self.of.get_mut(&address)
        {
            of.remove(&number);
            if of.is_empty() {
                self.of.remove(&address);
            }
        }
        Some(gone)
    }
}

/// The place of a connection among strangers, released on drop.
#[derive(Debug)]
pub(super) struct StrangerPlace {
    strangers: Arc<Strangers>,
    number: u64,
    leave: CancellationToken,
}

impl StrangerPlace {
    /// Returns a token that is cancelled once the connection must give way.
    pub(super) fn eviction_token(&self) -> CancellationToken {
        self.leave.clone()
    }
}

impl Drop for StrangerPlace {
    fn drop(&mut self) {
        lock(&self.strangers.0).remove(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_stranger_of_an_address_gives_way_and_no_other() {
        let strangers = Arc::<Strangers>::default();
        let [one, other] = ["192.0.2.1", "192.0.2.2"].map(|ip| Some(ip.parse().unwrap()));
        let elsewhere = strangers.enter(other, 2);
        let uncounted = strangers.enter(None, 2);
        let mut held: Vec<_> = (0..3).map(|_| strangers.enter(one, 2)).collect();
        let gone = |place: &StrangerPlace| place.eviction_token().is_cancelled();
        assert_eq!(held.iter().map(gone).collect::<Vec<_>>(), [true, false, false]);
        // A stranger that ends by itself makes room.
        drop(held.pop());
        held.push(strangers.enter(one, 2));
        assert!(!gone(&held[1]) && !gone(&elsewhere) && !gone(&uncounted));
        strangers.evict_oldest();
        strangers.evict_oldest();
        assert!(gone(&elsewhere) && gone(&uncounted) && !gone(&held[1]));
        drop((elsewhere, uncounted, held));
        let table = lock(&strangers.0);
        assert!(table.all.is_empty() && table.of.is_empty());
    }
}
