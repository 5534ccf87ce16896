//! Watches: the server sends changes below a directory of a volume to a client on a WebSocket.

use std::sync::Arc;
use std::time::Duration;

use deltic_carrier::changes::{ChangeKind, PathChange, WatchMessages};
use deltic_store_local::Became;
use deltic_tree::RelPath;
use tokio::sync::oneshot::error::TryRecvError;
use tokio::sync::{oneshot, watch};
use tokio::time::sleep;

use super::events::{Event, Events, Missed, PIECE};
use super::problem::Problem;
use super::shared::{Known, Server, WatchPermit};
use super::volume::Right;
use crate::channel::Mux;

/// Longest time from the expiry of a token to the end of its watches. A watch also checks the token before the watch
/// sends changes.
const LOOK_EVERY: Duration = Duration::from_secs(20);

/// A watch of a client.
pub(super) struct Watching {
    pub(super) server: Arc<Server>,
    pub(super) known: Known,
    /// Name of the volume.
    pub(super) volume: String,
    /// The watched directory.
    pub(super) dir: RelPath,
    pub(super) events: Arc<Events>,
    pub(super) mux: Mux,
    /// Channel number of the watch.
    pub(super) channel: u32,
    /// Permit held until the watch ends.
    pub(super) _permit: WatchPermit,
}

impl Watching {
    /// Sends changes until the client gives up the watch, which drops the sender of `given_up`, or the server drains.
    ///
    /// # Errors
    /// [`Problem`] if the token has expired, or may no longer read the directory.
    pub(super) async fn run(mut self, mut given_up: oneshot::Receiver<()>) -> Result<(), Problem> {
        let mut draining = self.server.draining.subscribe();
        let mut teller = WatchMessages::new(self.channel);
        let (mut seen, mut more) = self.subscribe();
        self.mux.tell(teller.first_message().message()).await;
        loop {
            // Checked here as well: while events follow each other, the loop never reaches the `select!` below.
            if given_up.try_recv() != Err(TryRecvError::Empty) || *draining.borrow() {
                return Ok(());
            }
            self.check_rights()?;
            more.borrow_and_update();
            match self.events.after(seen, PIECE) {
                Ok(events) if events.is_empty() => {}
                Ok(events) => {
                    seen += events.len() as u64;
                    for message in teller
                        .messages_for(events.iter().filter_map(|event| self.visible_change(event)))
                    {
                        self.mux.tell(message.message()).await;
                    }
                    continue;
                }
                Err(Missed) => {
                    (seen, more) = self.subscribe();
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

    /// Looks up the present rights of the token: settings and tokens may change while a watch lasts.
    fn check_rights(&mut self) -> Result<(), Problem> {
        let known = self.server.known(self.known.token)?;
        self.server.volume_for(Right::Read, &known, &self.volume, &self.dir)?;
        self.known = known;
        Ok(())
    }

    /// Returns the number of events so far, and a signal of new events.
    fn subscribe(&self) -> (u64, watch::Receiver<u64>) {
        let (seen, more, _) = self.events.follow(None).expect("no place is asked for");
        (seen, more)
    }

    /// Converts an event for the client. `None` if the event is not below the watched directory or the client may not
    /// see it.
    fn visible_change(&self, event: &Event) -> Option<PathChange> {
        let is_below = event.path.starts_with(&self.dir) && self.known.grant.covers(&event.path);
        let became = match event.became {
            Became::Put => ChangeKind::Put,
            Became::Gone => ChangeKind::Gone,
        };
        is_below.then(|| PathChange::new(&event.path, became))
    }
}
