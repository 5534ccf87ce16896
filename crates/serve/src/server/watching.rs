//! Watches: a client on a WebSocket is told what changes below a directory of a volume.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use deltic_carrier::changes::{ChangeKind, PathChange, WatchTeller};
use deltic_store_local::Became;
use deltic_tree::RelPath;
use tokio::sync::{oneshot, watch};
use tokio::time::sleep;

use super::events::{Event, Events, Missed};
use super::problem::Problem;
use super::shared::{Known, Server, SessionPermit};
use crate::channel::Mux;

/// Most events that are told at once.
const PIECE: usize = 100;
/// Longest time between the end of a token and the end of its watches.
const LOOK_EVERY: Duration = Duration::from_secs(20);

/// A watch of a client.
pub(super) struct Watching {
    pub(super) server: Arc<Server>,
    pub(super) known: Known,
    /// The directory, and the changes of its volume.
    pub(super) dir: RelPath,
    pub(super) events: Arc<Events>,
    pub(super) mux: Mux,
    /// Number of the watch.
    pub(super) channel: u32,
    /// Held until the end.
    pub(super) _permit: SessionPermit,
}

impl Watching {
    /// Tells of changes until the client gives the watch up, which drops the sender of `given_up`, or the server ends.
    ///
    /// # Errors
    /// [`Problem`] where the token's time is over.
    pub(super) async fn run(self, mut given_up: oneshot::Receiver<()>) -> Result<(), Problem> {
        let mut draining = self.server.draining.subscribe();
        let mut teller = WatchTeller::new(self.channel);
        let (mut seen, mut more) = self.begin();
        self.mux.tell(teller.begins().message()).await;
        loop {
            if self.known.grant.has_ended(SystemTime::now()) {
                return Err(Problem::not_let_in());
            }
            more.borrow_and_update();
            match self.events.after(seen, PIECE) {
                Ok(events) if events.is_empty() => {}
                Ok(events) => {
                    seen += events.len() as u64;
                    for message in teller.tell(events.iter().filter_map(|event| self.told(event))) {
                        self.mux.tell(message.message()).await;
                    }
                    continue;
                }
                Err(Missed) => {
                    (seen, more) = self.begin();
                    self.mux.tell(teller.missed().message()).await;
                    continue;
                }
            }
            tokio::select! {
                _ = &mut given_up => return Ok(()),
                _ = draining.wait_for(|drain| *drain) => return Ok(()),
                // The sender lives as long as the volume.
                _ = more.changed() => {}
                () = sleep(LOOK_EVERY) => {}
            }
        }
    }

    /// The number of events so far, and a signal of more.
    fn begin(&self) -> (u64, watch::Receiver<u64>) {
        let (seen, more, _) = self.events.follow(None).expect("no place is asked for");
        (seen, more)
    }

    /// The change that the client is told of an event, if the event is below the directory.
    fn told(&self, event: &Event) -> Option<PathChange> {
        let is_below = event.path.starts_with(&self.dir) && self.known.grant.covers(&event.path);
        let became = match event.became {
            Became::Put => ChangeKind::Put,
            Became::Gone => ChangeKind::Gone,
        };
        is_below.then(|| PathChange::new(&event.path, became))
    }
}
