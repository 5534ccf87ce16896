//! The latest changes of a volume, kept for clients that follow the volume.
//!
//! All followers share one list of changes, and each follower has a position in the list. A follower that falls
//! behind the oldest kept change gets an error. Names of positions are random, so they do not reveal how many other
//! changes there were.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex};

use deltic_store_local::{Became, Changes};
use deltic_tree::RelPath;
use tokio::sync::watch;

use crate::lock;

/// Most changes kept.
const MAX_KEPT: usize = 1_000;
/// Most events that a follower takes at once.
pub(super) const PIECE: usize = 100;
/// Most bytes of paths that a follower takes at once, besides the first path.
const PIECE_BYTES: usize = 8 << 10;
/// Most bytes of the paths of kept changes.
const MAX_BYTES: usize = 256 << 10;

/// The latest changes of a volume.
#[derive(Debug)]
pub(crate) struct Events {
    kept: Mutex<Kept>,
    /// Number of events so far.
    count: watch::Sender<u64>,
}

#[derive(Debug)]
struct Kept {
    events: VecDeque<Event>,
    /// Number of events before `events`.
    before: u64,
    /// Total length of the paths in `events`, in bytes.
    bytes: usize,
    /// Name of the position before `events`.
    first: Place,
}

/// A change of an entry.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) place: Place,
    pub(crate) path: RelPath,
    pub(crate) became: Became,
}

/// Random name of the position after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place(u64);

impl Place {
    fn random() -> Self {
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes).expect("the system has randomness");
        Self(u64::from_le_bytes(bytes))
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        u64::from_str_radix(text, 16).ok().map(Self)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Error: the follower has missed events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Missed;

impl Default for Events {
    fn default() -> Self {
        let first = Place::random();
        let kept = Kept { events: VecDeque::new(), before: 0, bytes: 0, first };
        Self { kept: Mutex::new(kept), count: watch::Sender::new(0) }
    }
}

impl Events {
    /// Returns a sink that adds the changes of a store to these events.
    pub(crate) fn changes(self: &Arc<Self>) -> Changes {
        let events = Arc::clone(self);
        Changes::reporting_to(move |path, became| events.add(path, became))
    }

    fn add(&self, path: &RelPath, became: Became) {
        let mut kept = lock(&self.kept);
        kept.bytes += path.as_bytes().len();
        kept.events.push_back(Event { place: Place::random(), path: path.clone(), became });
        while kept.events.len() > MAX_KEPT || kept.bytes > MAX_BYTES {
            let Some(Event { place, path, .. }) = kept.events.pop_front() else { break };
            kept.bytes -= path.as_bytes().len();
            kept.first = place;
            kept.before += 1;
        }
        let count = kept.before + kept.events.len() as u64;
        drop(kept);
        // Two threads that add events at once may arrive here in either order.
        self.count.send_if_modified(|known| {
            let is_more = count > *known;
            *known = count.max(*known);
            is_more
        });
    }

    /// Starts a follower after the position `place`, or after all events so far. Returns the number of events before
    /// the follower's position, a signal of new events, and the name of the position.
    pub(crate) fn follow(
        &self,
        place: Option<Place>,
    ) -> Result<(u64, watch::Receiver<u64>, Place), Missed> {
        let more = self.count.subscribe();
        let kept = lock(&self.kept);
        let Some(place) = place else {
            let last = kept.events.back().map_or(kept.first, |event| event.place);
            return Ok((kept.before + kept.events.len() as u64, more, last));
        };
        let is_it = |event: &Event| event.place == place;
        let at = match place == kept.first {
            true => 0,
            false => kept.events.iter().position(is_it).ok_or(Missed)? as u64 + 1,
        };
        Ok((kept.before + at, more, place))
    }

    /// Returns at most `most` events after the first `seen` events, and no more than [`PIECE_BYTES`] of paths besides
    /// the first. Errors: `Missed` if the first of these events is no longer kept.
    pub(crate) fn after(&self, seen: u64, most: usize) -> Result<Vec<Event>, Missed> {
        let kept = lock(&self.kept);
        let at = seen.checked_sub(kept.before).ok_or(Missed)?;
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        let mut bytes = 0;
        let fits = |event: &&Event| {
            let is_first = bytes == 0;
            bytes += event.path.as_bytes().len();
            is_first || bytes <= PIECE_BYTES
        };
        Ok(kept.events.iter().skip(at).take(most).take_while(fits).cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> RelPath {
        RelPath::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn followers_go_on_from_a_place_as_long_as_what_follows_is_kept() {
        let events = Events::default();
        let (seen, more, start) = events.follow(None).unwrap();
        assert_eq!(seen, 0);
        for nth in 0..5 {
            events.add(&path(&format!("file-{nth}")), Became::Put);
        }
        assert_eq!(*more.borrow(), 5);
        let all = events.after(seen, 10).unwrap();
        let names: Vec<_> = all.iter().map(|event| event.path.to_string()).collect();
        assert_eq!(names, ["file-0", "file-1", "file-2", "file-3", "file-4"]);
        assert_eq!(events.after(seen, 2).unwrap().len(), 2);
        assert_eq!(events.follow(Some(start)).unwrap().0, 0);
        let third = Place::parse(&all[2].place.to_string()).unwrap();
        assert_eq!(events.follow(Some(third)).unwrap().0, 3);
        assert_eq!(events.follow(Some(Place(7))).unwrap_err(), Missed);
        (0..MAX_KEPT).for_each(|_| events.add(&path("more"), Became::Gone));
        assert_eq!(events.after(seen, 10).unwrap_err(), Missed);
        assert_eq!(events.follow(Some(third)).unwrap_err(), Missed);
        assert_eq!(events.after(5, 10_000).unwrap().len(), MAX_KEPT);
    }

    #[test]
    fn long_paths_take_no_more_memory() {
        let events = Events::default();
        let long = path(&vec!["x".repeat(255); 15].join("/"));
        (0..MAX_KEPT).for_each(|_| events.add(&long, Became::Put));
        let first = lock(&events.kept).before;
        assert_eq!(events.after(first, 100).unwrap().len(), PIECE_BYTES / long.as_bytes().len());
        let kept = lock(&events.kept);
        assert!(kept.bytes <= MAX_BYTES && kept.events.len() >= MAX_BYTES / 4096 - 1);
    }
}
