//! Where frames leave: one stream for all of them, and others that take over what may overtake.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use tokio::sync::mpsc;

use deltic_protocol::frame::HEADER_BYTES;
use deltic_protocol::streams::over;

use crate::batch::Tap;
use crate::machine::{Machine, Tell};
use crate::monitor::Monitor;
use crate::transport::spare;

/// Bytes of frames that travel to the writer together.
const BATCH_BYTES: usize = 256 << 10;

/// Which streams a frame may travel on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// The first alone: it is in order with others.
    First,
    /// Any.
    Any,
}

/// A stream has closed: the first, or another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Closed(pub(crate) Lane);

/// The queues of all writers of a session.
pub(crate) struct Outlets {
    outlets: Vec<Outlet>,
    /// What a machine said and no stream has taken yet: at most two batches.
    held: VecDeque<(Lane, Vec<u8>)>,
    monitor: Monitor,
    tap: Option<Arc<Tap>>,
}

struct Outlet {
    batches: mpsc::Sender<Vec<u8>>,
    /// Bytes that it was given.
    bytes: u64,
}

impl Outlets {
    /// The first stream alone; what leaves on any is counted by `monitor`.
    pub(crate) fn new(first: mpsc::Sender<Vec<u8>>, monitor: Monitor) -> Self {
        let outlets = vec![Outlet { batches: first, bytes: 0 }];
        Self { outlets, held: VecDeque::new(), monitor, tap: None }
    }

    /// The same; what leaves passes by this.
    pub(crate) fn tapped(self, tap: Option<Arc<Tap>>) -> Self {
        Self { tap, ..self }
    }

    /// One more stream.
    pub(crate) fn add(&mut self, batches: mpsc::Sender<Vec<u8>>) {
        self.outlets.push(Outlet { batches, bytes: 0 });
    }

    /// Bytes that machines said so far, sent or not.
    pub(crate) fn given(&self) -> u64 {
        let held = self.held.iter().map(|(_, batch)| batch.len() as u64);
        self.outlets.iter().map(|outlet| outlet.bytes).chain(held).sum()
    }

    /// Hands frames to the writers while they take them; whether they would take more.
    pub(crate) fn send_ready<M: Machine>(&mut self, machine: &mut M, tell: Tell<'_>) -> bool {
        while self.outlets.iter().any(Outlet::has_room) {
            let Some((lane, batch)) = self.next_batch(machine, tell) else { return true };
            let Some(outlet) = self.best(lane) else {
                self.held.push_front((lane, batch));
                return false;
            };
            outlet.bytes += batch.len() as u64;
            outlet.batches.try_send(batch).ok();
        }
        false
    }

    /// Sends all that there still is, in order, and ends the streams; what nobody reads any more is not needed.
    pub(crate) async fn send_rest<M: Machine>(mut self, machine: &mut M, tell: Tell<'_>) {
        while let Some((_, batch)) = self.next_batch(machine, tell) {
            if self.outlets[0].batches.send(batch).await.is_err() {
                break;
            }
        }
        for outlet in &self.outlets[1..] {
            outlet.batches.send(over()).await.ok();
        }
    }

    /// Waits until a stream takes what is held, or one has closed.
    pub(crate) async fn writable(&self) -> Result<(), Closed> {
        let needs_first = matches!(self.held.front(), Some((Lane::First, _)));
        let usable = if needs_first { &self.outlets[..1] } else { &self.outlets };
        let mut waits: Vec<_> =
            usable.iter().map(|outlet| Box::pin(outlet.batches.reserve())).collect();
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

    /// The stream with most room for it, of those the one that was given least.
    fn best(&mut self, lane: Lane) -> Option<&mut Outlet> {
        let usable = match lane {
            Lane::First => &mut self.outlets[..1],
            Lane::Any => &mut self.outlets[..],
        };
        let free = usable.iter_mut().filter(|outlet| outlet.has_room());
        free.max_by_key(|outlet| (outlet.batches.capacity(), Reverse(outlet.bytes)))
    }

    /// Frames that travel together.
    fn next_batch<M: Machine>(
        &mut self,
        machine: &mut M,
        tell: Tell<'_>,
    ) -> Option<(Lane, Vec<u8>)> {
        let (lane, mut batch) = match self.held.pop_front() {
            Some(held) => held,
            None => {
                let mut batch = spare::buffer();
                let Some(lane) = self.next_frame((machine, tell), &mut batch) else {
                    spare::keep(batch);
                    return None;
                };
                (lane, batch)
            }
        };
        while batch.len() < BATCH_BYTES {
            if let Some((next, _)) = self.held.front()
                && *next != lane
            {
                break;
            }
            if let Some((_, held)) = self.held.pop_front() {
                batch.extend_from_slice(&held);
                spare::keep(held);
                continue;
            }
            let start = batch.len();
            let Some(next) = self.next_frame((machine, tell), &mut batch) else { break };
            if next != lane {
                self.held.push_front((next, batch.split_off(start)));
                break;
            }
        }
        Some((lane, batch))
    }

    /// Puts the next frame behind what `to` holds.
    fn next_frame<M: Machine>(
        &self,
        (machine, tell): (&mut M, Tell<'_>),
        to: &mut Vec<u8>,
    ) -> Option<Lane> {
        let start = to.len();
        let (lane, purpose) = machine.poll_frame(self.outlets.len() > 1, tell, to)?;
        self.monitor.count_sent(purpose, to.len() - start);
        if let Some(tap) = &self.tap {
            tap.note(to[start], &to[start + HEADER_BYTES..]);
        }
        Some(lane)
    }
}

impl Outlet {
    fn has_room(&self) -> bool {
        !self.batches.is_closed() && self.batches.capacity() > 0
    }
}
