//! The streams on which frames are sent: the first stream for all frames, further streams for frames that may arrive in
//! any order.

use std::cmp::Reverse;
use std::future::poll_fn;
use std::task::Poll;

use tokio::sync::mpsc;

use deltic_engine::machine::Lane;
use deltic_protocol::streams::over_frame;

/// Error: the first stream, or a further stream, is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Closed(pub(crate) Lane);

/// Queues to the writers of all streams of a session.
pub(crate) struct Outlets(Vec<Outlet>);

struct Outlet {
    batches: mpsc::Sender<Vec<u8>>,
    /// Bytes queued for this stream so far.
    bytes: u64,
}

impl Outlets {
    /// Returns outlets with the first stream only.
    pub(crate) fn new(first: mpsc::Sender<Vec<u8>>) -> Self {
        Self(vec![Outlet { batches: first, bytes: 0 }])
    }

    /// Adds a further stream.
    pub(crate) fn add(&mut self, batches: mpsc::Sender<Vec<u8>>) {
        self.0.push(Outlet { batches, bytes: 0 });
    }

    /// True if there are further streams.
    pub(crate) const fn has_further(&self) -> bool {
        self.0.len() > 1
    }

    /// True if a batch can be sent on this lane.
    pub(crate) fn has_room(&self, lane: Lane) -> bool {
        self.outlets_of(lane).iter().any(Outlet::has_room)
    }

    /// Queues a batch for the stream with the most free room; among equals, for the stream with the fewest bytes so
    /// far. The caller has checked for room. A stream that has closed meanwhile is reported later.
    pub(crate) fn send(&mut self, lane: Lane, batch: Vec<u8>) {
        let usable = match lane {
            Lane::First => &mut self.0[..1],
            Lane::Any => &mut self.0[..],
        };
        let free = usable.iter_mut().filter(|outlet| outlet.has_room());
        let best = free.max_by_key(|outlet| (outlet.batches.capacity(), Reverse(outlet.bytes)));
        if let Some(outlet) = best {
            outlet.bytes += batch.len() as u64;
            outlet.batches.try_send(batch).ok();
        }
    }

    /// Sends a batch on the first stream, waiting as long as needed. Returns false if the stream is closed.
    pub(crate) async fn send_first(&self, batch: Vec<u8>) -> bool {
        self.0[0].batches.send(batch).await.is_ok()
    }

    /// Ends the further streams.
    pub(crate) async fn end(&mut self) {
        for outlet in self.0.drain(1..) {
            outlet.batches.send(over_frame()).await.ok();
        }
    }

    /// Waits until a stream of this lane can take a batch, or is closed.
    pub(crate) async fn wait_until_writable(&self, lane: Lane) -> Result<(), Closed> {
        let mut waits: Vec<_> =
            self.outlets_of(lane).iter().map(|outlet| Box::pin(outlet.batches.reserve())).collect();
        poll_fn(|context| {
            for (no, wait) in waits.iter_mut().enumerate() {
                if let Poll::Ready(permit) = wait.as_mut().poll(context) {
                    let lane = if no == 0 { Lane::First } else { Lane::Any };
                    return Poll::Ready(permit.map(drop).map_err(|_| Closed(lane)));
                }
            }
            Poll::Pending
        })
        .await
    }

    fn outlets_of(&self, lane: Lane) -> &[Outlet] {
        match lane {
            Lane::First => &self.0[..1],
            Lane::Any => &self.0,
        }
    }
}

impl Outlet {
    fn has_room(&self) -> bool {
        !self.batches.is_closed() && self.batches.capacity() > 0
    }
}
