//! A connection to a server: messages in and out, and the transfers over its channels.

mod append;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use deltic_carrier::channels::{self, Channels};
use deltic_carrier::control::{Capabilities, FromClient, FromServer, SessionScope};
use deltic_carrier::ends::ClientEnd;
use deltic_carrier::message::Outgoing;
use deltic_engine::machine::Machine;
use deltic_protocol::report::{Counts, Notice, Totals};
use deltic_tree::Meta;
use deltic_worker::Worker;
use deltic_worker::dialling::DiallingEnd;
use deltic_worker::inline::{InlineError, Progress};

use self::append::Appending;
use crate::events::{Event, PutFile};
use crate::requests::milliseconds;
use crate::{HostFiles, PageStore, RequestError};

/// Most bytes of messages that wait for the socket: with more, transfers pause.
const MAX_QUEUED_BYTES: usize = 1 << 20;
/// Pieces of work of a transfer in one turn. A piece reads half a megabyte or less, so a turn is short.
const WORK_AT_ONCE: usize = 4;

/// A connection to a server, and its transfers.
pub struct Connection<H> {
    pub(crate) host: H,
    control: ClientEnd,
    /// The open channels. The reader of a channel is the number of the channel.
    channels: Channels<u32, Appending>,
    transfers: BTreeMap<u32, Transfer<H>>,
    messages: VecDeque<Bytes>,
    /// Bytes of all `messages`.
    queued: usize,
    events: VecDeque<Event>,
    has_ended: bool,
}

/// A transfer over a channel.
struct Transfer<H> {
    end: Box<dyn Dialled>,
    outgoing: Outgoing,
    /// Time since the page's start at the first turn.
    begun: Option<Duration>,
    /// True once all bytes of this channel have arrived: the server ended the stream.
    is_heard_out: bool,
    /// The store of a pull.
    store: Option<PageStore<H>>,
    counts: TransferCounts,
}

/// Counts of a transfer for the page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct TransferCounts {
    settled: u64,
    of: u64,
    sent: u64,
    received: u64,
    totals: Option<Totals>,
}

/// The end of a session that dialled: a sender or a receiver.
pub(crate) trait Dialled {
    fn receive(&mut self, bytes: &[u8]) -> Result<(), InlineError>;
    fn wake(&mut self, now: Duration) -> Result<(), InlineError>;
    fn turn(
        &mut self,
        unsent: &mut Vec<u8>,
        watch: &mut dyn FnMut(Notice),
    ) -> Result<Progress, InlineError>;
    fn counts(&self) -> Counts;
}

impl<M: Machine, W: Worker<M>> Dialled for DiallingEnd<M, W> {
    fn receive(&mut self, bytes: &[u8]) -> Result<(), InlineError> {
        Self::receive(self, bytes)
    }

    fn wake(&mut self, now: Duration) -> Result<(), InlineError> {
        Self::wake(self, now)
    }

    fn turn(
        &mut self,
        unsent: &mut Vec<u8>,
        watch: &mut dyn FnMut(Notice),
    ) -> Result<Progress, InlineError> {
        Self::turn(self, WORK_AT_ONCE, unsent, watch)
    }

    fn counts(&self) -> Counts {
        Self::counts(self)
    }
}

impl<H: HostFiles> Connection<H> {
    /// Begins a connection with this token over a new socket. `host` reads and writes the user's files.
    #[must_use]
    pub fn new(host: H, token: String) -> Self {
        let mut connection = Self {
            host,
            control: ClientEnd::default(),
            channels: Channels::default(),
            transfers: BTreeMap::new(),
            messages: VecDeque::new(),
            queued: 0,
            events: VecDeque::new(),
            has_ended: false,
        };
        connection.say(FromClient::Auth { token }.message());
        connection
    }

    /// Opens a channel for a transfer. Returns the number of the transfer.
    pub(crate) fn open(
        &mut self,
        volume: String,
        scope: SessionScope,
        end: Box<dyn Dialled>,
        store: Option<PageStore<H>>,
    ) -> Result<u32, RequestError> {
        if self.has_ended {
            return Err(RequestError::Ended);
        }
        let (channel, open) = self.control.open(volume, scope).ok_or(RequestError::OlderServer)?;
        self.channels.open(channel, channel).expect("numbers repeat after billions of channels");
        self.say(open.message());
        let (outgoing, counts) = (Outgoing::new(channel), TransferCounts::default());
        let transfer = Transfer { end, outgoing, begun: None, is_heard_out: false, store, counts };
        self.transfers.insert(channel, transfer);
        Ok(channel)
    }

    /// Abandons a transfer, without an event.
    pub fn close(&mut self, channel: u32) {
        if self.transfers.remove(&channel).is_some() {
            self.channels.close(channel);
            self.say(FromClient::Close { channel }.message());
        }
    }

    /// Reports that a transfer cannot begin.
    pub fn refuse(&mut self, error: &RequestError) {
        let why = error.to_string();
        self.events.push_back(Event::Failed { channel: 0, why, retry_secs: None });
    }

    /// Takes a binary message of the socket.
    pub fn receive(&mut self, message: Bytes) {
        if self.has_ended {
            return;
        }
        match self.channels.receive(message) {
            Ok(None) => {}
            Ok(Some(channels::Event::Control(text))) => self.hear(&text),
            Ok(Some(channels::Event::Bytes { channel, bytes, .. })) => {
                let Some(transfer) = self.transfers.get_mut(&channel) else { return };
                transfer.counts.received += bytes.len() as u64;
                if let Err(error) = transfer.end.receive(&bytes) {
                    self.fail(channel, error.to_string(), None);
                }
            }
            Ok(Some(channels::Event::End(channel))) => {
                if let Some(transfer) = self.transfers.get_mut(&channel) {
                    transfer.is_heard_out = true;
                }
            }
            Ok(Some(channels::Event::Whole(appending, answer))) => {
                match appending.answered(&answer) {
                    Some(event) => self.events.push_back(event),
                    None => self.break_off("the server's answer is invalid".into()),
                }
            }
            Err(error) => self.break_off(error.to_string()),
        }
    }

    fn hear(&mut self, text: &[u8]) {
        let heard = match self.control.parse_message(text) {
            Ok(heard) => heard,
            Err(error) => return self.break_off(error.to_string()),
        };
        match heard {
            FromServer::Welcome { version, channels, .. } => {
                let can = Capabilities { busy: true, ..Capabilities::default() };
                let told = self.control.capabilities_message(can);
                if let Some(told) = told {
                    self.say(told.message());
                }
                self.events.push_back(Event::Welcome { version, channels });
            }
            FromServer::Refused { channel, why, retry_secs } => {
                if self.transfers.contains_key(&channel) {
                    self.fail(channel, why, retry_secs);
                } else if let Some(appending) = self.channels.give_up(channel) {
                    self.events.push_back(appending.refused(why, retry_secs));
                }
            }
            FromServer::GoAway => self.events.push_back(Event::GoAway),
            FromServer::Busy { secs } => self.events.push_back(Event::Busy { secs }),
            // The page requests no watch.
            FromServer::Changed { .. } => {}
        }
    }

    /// Ends the connection because the server broke the rules.
    fn break_off(&mut self, why: String) {
        self.end(&why);
        self.events.push_back(Event::Broken { why });
    }

    /// Ends all transfers, because the socket has ended.
    pub fn end(&mut self, why: &str) {
        self.has_ended = true;
        let channels: Vec<u32> = self.transfers.keys().copied().collect();
        channels.into_iter().for_each(|channel| self.fail(channel, why.into(), None));
    }

    /// Lets each transfer work for a short time. `now` is the time since the page's start. Returns true if more work
    /// can be done at once. False means: the transfers wait for messages of either direction.
    pub fn turn(&mut self, now: Duration) -> bool {
        let channels: Vec<u32> = self.transfers.keys().copied().collect();
        let mut goes_on = false;
        for channel in channels {
            if self.queued >= MAX_QUEUED_BYTES {
                break;
            }
            goes_on |= self.turn_of(channel, now);
        }
        goes_on
    }

    fn turn_of(&mut self, channel: u32, now: Duration) -> bool {
        let Some(transfer) = self.transfers.get_mut(&channel) else { return false };
        let begun = *transfer.begun.get_or_insert(now);
        let (mut unsent, mut troubles) = (Vec::new(), Vec::new());
        let (before, counts) = (transfer.counts, &mut transfer.counts);
        let mut watch = |notice| match notice {
            Notice::Listed { bytes, .. } => counts.of = bytes,
            Notice::Settled { bytes } => counts.settled += bytes,
            Notice::Finished(totals) => counts.totals = Some(totals),
            Notice::Trouble(trouble) => troubles.push(trouble.message),
            _ => {}
        };
        let woken = transfer.end.wake(now.saturating_sub(begun));
        let turned = woken.and_then(|()| transfer.end.turn(&mut unsent, &mut watch));
        counts.sent += unsent.len() as u64;
        let (counts, is_heard_out) = (*counts, transfer.is_heard_out);
        self.send(channel, &unsent);
        let trouble = |why| Event::Trouble { channel, why };
        self.events.extend(troubles.into_iter().map(trouble));
        match turned {
            Ok(Progress::Over) => self.finish(channel),
            Ok(progress) => {
                if counts != before {
                    self.report(channel, counts);
                }
                if progress == Progress::Waits && is_heard_out {
                    self.fail(channel, "the server ended the transfer early".into(), None);
                }
                return progress == Progress::GoesOn;
            }
            Err(error) => self.fail(channel, error.to_string(), None),
        }
        false
    }

    /// Reports the state of a transfer. Replaces an older report that was not taken.
    fn report(&mut self, channel: u32, counts: TransferCounts) {
        let TransferCounts { settled, of, sent, received, .. } = counts;
        let report = Event::Progress { channel, settled, of, sent, received };
        let is_last =
            |last: &Event| matches!(last, Event::Progress { channel: of, .. } if *of == channel);
        self.events.pop_back_if(|last| is_last(last));
        self.events.push_back(report);
    }

    /// Ends the outgoing stream of a transfer that is over, and reports the result.
    fn finish(&mut self, channel: u32) {
        let Some(transfer) = self.transfers.remove(&channel) else { return };
        self.channels.close(channel);
        let compared = transfer.end.counts();
        if let Some(end) = transfer.outgoing.end() {
            self.say(end);
        }
        let TransferCounts { sent, received, totals, .. } = transfer.counts;
        let totals = totals.unwrap_or_default();
        let put = transfer.store.and_then(|store| store.put());
        let put = put
            .map(|Meta { len, modified, .. }| PutFile { len, modified_ms: milliseconds(modified) });
        self.events.push_back(Event::Finished {
            channel,
            put,
            failed: totals.failed,
            changed: totals.transferred,
            literal: totals.literal,
            matched: totals.matched,
            sent,
            received,
            weak: compared.weak,
            strong: compared.strong,
        });
    }

    fn fail(&mut self, channel: u32, why: String, retry_secs: Option<u32>) {
        if self.transfers.remove(&channel).is_none() {
            return;
        }
        if self.channels.close(channel).is_some() {
            self.say(FromClient::Close { channel }.message());
        }
        self.events.push_back(Event::Failed { channel, why, retry_secs });
    }

    /// Queues bytes of a channel.
    fn send(&mut self, channel: u32, mut bytes: &[u8]) {
        let outgoing = Outgoing::new(channel);
        while let Some((message, len)) = outgoing.message(bytes) {
            self.say(message);
            bytes = &bytes[len..];
        }
    }

    fn say(&mut self, message: Bytes) {
        self.queued += message.len();
        self.messages.push_back(message);
    }

    /// Returns the next message for the socket.
    pub fn next_message(&mut self) -> Option<Bytes> {
        let message = self.messages.pop_front()?;
        self.queued -= message.len();
        Some(message)
    }

    /// Returns the next report for the page.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }
}
