//! The open channels of a connection, as steps: a message goes in, an event comes out.
//!
//! ```text
//!   open, open_whole ─►┌──────────┐
//!            receive ─►│ Channels │─► Event::Control   parse it with ClientEnd or ServerEnd
//!         close, end ─►└──────────┘─► Event::Bytes     give them to the channel's reader
//!                              └────► Event::End       tell the channel's reader
//!                              └────► Event::Whole     all bytes of the stream
//! ```
//!
//! For each open channel the caller stores a value here: a reader `S` if bytes are handed on as they arrive, or a taker
//! `W` if the whole stream is collected first. A reader that accepts no bytes blocks the whole connection, so a client
//! with several channels must read all of them.
//!
//! Bounds: a collected stream holds at most `most` bytes and one message; other streams hold no bytes here. The caller
//! limits the number of open channels ([`count`](Channels::count)). The other end may send a bounded number of pings.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;

use crate::message::{BadMessage, decode};

/// Most pings of a connection, in addition to one for each second.
const MAX_PINGS: u64 = 60;

/// Result of a received message.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<S, W> {
    /// A control message, to be parsed.
    Control(Bytes),
    /// Bytes of a stream.
    Bytes {
        /// Channel number, for [`close`](Channels::close) if the reader is gone.
        channel: u32,
        /// The reader of the channel.
        reader: S,
        /// The received bytes, at least one.
        bytes: Bytes,
    },
    /// The other end ended the stream of this reader. The channel is closed.
    End(S),
    /// All bytes of a channel opened by [`open_whole`](Channels::open_whole), or the first bytes if the stream exceeds
    /// its limit, with the `taker` of the channel. The channel is closed.
    Whole(W, Vec<u8>),
}

/// Error of a connection with more pings than allowed. Each ping costs an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many pings")]
pub struct TooManyPings;

/// The open channels of a connection.
pub struct Channels<S, W> {
    open: BTreeMap<u32, Incoming<S, W>>,
    pings: u64,
}

/// Receiving direction of a channel.
enum Incoming<S, W> {
    Stream(S),
    Whole(Gathered<W>),
}

/// A stream whose bytes are collected until the stream ends.
struct Gathered<W> {
    bytes: Vec<u8>,
    /// Most bytes to collect.
    most: usize,
    /// Time at which the channel was opened, since the start of the connection.
    opened: Duration,
    taker: W,
}

impl<S: Clone, W> Channels<S, W> {
    /// Opens channel `number`. Bytes are handed to `reader` as they arrive. `None` if the channel is open already.
    #[must_use]
    pub fn open(&mut self, number: u32, reader: S) -> Option<()> {
        self.add(number, Incoming::Stream(reader))
    }

    /// Opens channel `number`. The stream is collected, and handed to `taker` once it is complete or longer than `most`
    /// bytes. `now` is the time since the connection started. `None` if the channel is open already.
    #[must_use]
    pub fn open_whole(&mut self, number: u32, most: usize, now: Duration, taker: W) -> Option<()> {
        let gathered = Gathered { bytes: Vec::new(), most, opened: now, taker };
        self.add(number, Incoming::Whole(gathered))
    }

    fn add(&mut self, number: u32, incoming: Incoming<S, W>) -> Option<()> {
        if self.open.contains_key(&number) {
            return None;
        }
        self.open.insert(number, incoming);
        Some(())
    }

    /// Receives a message of the other end. `None` if the message causes no event: a collected stream continues, or the
    /// channel is not open. Bytes for a closed channel are ignored: the other end sent them before it learned of the
    /// close.
    ///
    /// # Errors
    /// [`BadMessage`] if the message does not start with a channel number.
    pub fn receive(&mut self, message: Bytes) -> Result<Option<Event<S, W>>, BadMessage> {
        let (channel, bytes) = decode(message)?;
        if channel == 0 {
            return Ok(Some(Event::Control(bytes)));
        }
        let has_ended = match self.open.get_mut(&channel) {
            None => return Ok(None),
            Some(Incoming::Stream(reader)) if !bytes.is_empty() => {
                return Ok(Some(Event::Bytes { channel, reader: reader.clone(), bytes }));
            }
            Some(Incoming::Stream(_)) => true,
            Some(Incoming::Whole(gathered)) => gathered.add_bytes(&bytes),
        };
        let ended = if has_ended { self.open.remove(&channel) } else { None };
        Ok(ended.map(|ended| match ended {
            Incoming::Stream(reader) => Event::End(reader),
            Incoming::Whole(Gathered { bytes, taker, .. }) => Event::Whole(taker, bytes),
        }))
    }

    /// Counts a message of the other end without a channel: a ping, a pong or a text. `now` is the time since the
    /// connection started.
    ///
    /// # Errors
    /// [`TooManyPings`] if the other end sent more pings than allowed. The caller must end the connection.
    pub const fn receive_ping(&mut self, now: Duration) -> Result<(), TooManyPings> {
        self.pings += 1;
        if self.pings > MAX_PINGS + now.as_secs() { Err(TooManyPings) } else { Ok(()) }
    }

    /// Closes channel `number`. Returns the reader of its stream, if there is one.
    pub fn close(&mut self, number: u32) -> Option<S> {
        match self.open.remove(&number)? {
            Incoming::Stream(reader) => Some(reader),
            Incoming::Whole(_) => None,
        }
    }

    /// Closes channel `number` and returns its `taker`, if [`open_whole`](Self::open_whole) opened the channel.
    pub fn give_up(&mut self, number: u32) -> Option<W> {
        if matches!(self.open.get(&number)?, Incoming::Stream(_)) {
            return None;
        }
        match self.open.remove(&number)? {
            Incoming::Whole(Gathered { taker, .. }) => Some(taker),
            Incoming::Stream(_) => None,
        }
    }

    /// Closes each channel that [`open_whole`](Self::open_whole) opened more than `after` ago. Returns the numbers and
    /// the takers of the closed channels. `now` is the time since the connection started.
    pub fn close_late(&mut self, now: Duration, after: Duration) -> Vec<(u32, W)> {
        let is_late = |incoming: &mut Incoming<S, W>| match incoming {
            Incoming::Whole(gathered) => now.saturating_sub(gathered.opened) > after,
            Incoming::Stream(_) => false,
        };
        let late = self.open.extract_if(.., |_, incoming| is_late(incoming));
        let late = late.filter_map(|(number, incoming)| match incoming {
            Incoming::Whole(Gathered { taker, .. }) => Some((number, taker)),
            Incoming::Stream(_) => None,
        });
        late.collect()
    }

    /// Closes all channels at the end of the connection. Returns the readers.
    pub fn end(&mut self) -> Vec<S> {
        let open = std::mem::take(&mut self.open);
        let readers = open.into_values().filter_map(|incoming| match incoming {
            Incoming::Stream(reader) => Some(reader),
            Incoming::Whole(_) => None,
        });
        readers.collect()
    }

    /// Returns the number of open channels.
    #[must_use]
    pub fn count(&self) -> usize {
        self.open.len()
    }
}

impl<W> Gathered<W> {
    /// Adds received bytes; an empty slice ends the stream. Returns true if the stream is complete or too long.
    fn add_bytes(&mut self, bytes: &[u8]) -> bool {
        self.bytes.extend_from_slice(bytes);
        bytes.is_empty() || self.bytes.len() > self.most
    }
}

impl<S, W> Default for Channels<S, W> {
    fn default() -> Self {
        Self { open: BTreeMap::new(), pings: 0 }
    }
}

impl<S, W> fmt::Debug for Channels<S, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.open.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::message::Outgoing;

    const NOW: Duration = Duration::from_secs(5);

    fn channels() -> Channels<&'static str, &'static str> {
        let mut channels = Channels::default();
        channels.open(1, "reader").unwrap();
        channels.open_whole(2, 3, NOW, "taker").unwrap();
        channels
    }

    #[test]
    fn each_message_goes_where_its_channel_says() {
        let mut channels = channels();
        let bytes = |bytes: &'static [u8]| Bytes::from_static(bytes);
        let mut receive = |message: &'static [u8]| channels.receive(bytes(message)).unwrap();
        assert_eq!(receive(b"\x00{}"), Some(Event::Control(bytes(b"{}"))));
        let some = Event::Bytes { channel: 1, reader: "reader", bytes: bytes(b"some") };
        assert_eq!(receive(b"\x01some"), Some(some));
        assert_eq!(receive(b"\x02ab"), None);
        assert_eq!(receive(b"\x02"), Some(Event::Whole("taker", b"ab".to_vec())));
        assert_eq!(receive(b"\x01"), Some(Event::End("reader")));
        assert_eq!([receive(b"\x01x"), receive(b"\x02x"), receive(b"\x09")], [None, None, None]);
        assert_eq!(channels.receive(Bytes::new()), Err(BadMessage));
        assert_eq!(channels.count(), 0);
    }

    #[test]
    fn a_whole_stream_that_is_too_long_is_not_waited_for() {
        let mut channels = channels();
        let whole = channels.receive(Bytes::from_static(b"\x02abcd")).unwrap();
        assert_eq!(whole, Some(Event::Whole("taker", b"abcd".to_vec())));
    }

    #[test]
    fn a_channel_is_opened_once_and_closed_in_each_way() {
        let mut channels = channels();
        assert_eq!(channels.open(1, "other"), None);
        assert_eq!(channels.open_whole(2, 0, NOW, "other"), None);
        assert_eq!(channels.open_whole(1, 0, NOW, "other"), None);
        assert_eq!(channels.give_up(1), None, "its stream is read as it comes");
        let second = Duration::from_secs(1);
        assert!(channels.close_late(NOW + second, second).is_empty());
        let late = channels.close_late(NOW + Duration::from_millis(1), Duration::ZERO);
        assert_eq!(late, [(2, "taker")]);
        channels.open_whole(2, 0, NOW, "again").unwrap();
        assert_eq!([channels.give_up(2), channels.give_up(2)], [Some("again"), None]);
        assert_eq!([channels.close(1), channels.close(1)], [Some("reader"), None]);
        channels.open(3, "last").unwrap();
        channels.open_whole(4, 0, NOW, "nobody").unwrap();
        assert_eq!((channels.end(), channels.count()), (vec!["last"], 0));
    }

    #[test]
    fn pings_are_counted_by_the_time_that_is_handed_in() {
        let mut channels = channels();
        let most = MAX_PINGS + NOW.as_secs();
        assert!((0..most).all(|_| channels.receive_ping(NOW).is_ok()));
        assert_eq!(channels.receive_ping(NOW), Err(TooManyPings));
        assert_eq!(channels.receive_ping(NOW + Duration::from_secs(60)), Ok(()));
    }

    proptest! {
        /// Streams of several channels, in pieces of any length and mixed in any order, arrive as they were sent.
        #[test]
        fn streams_arrive_whole_however_they_are_mixed(
            pieces in vec((1_u32..5, vec(any::<u8>(), 0..50)), 0..40),
        ) {
            let mut channels = Channels::<u32, u32>::default();
            (1..3).for_each(|no| channels.open(no, no).unwrap());
            (3..5).for_each(|no| channels.open_whole(no, 1 << 20, NOW, no).unwrap());
            let mut sent = BTreeMap::<u32, Vec<u8>>::new();
            let mut arrived = BTreeMap::<u32, Vec<u8>>::new();
            let mut hear = |message| match channels.receive(message).unwrap() {
                Some(Event::Bytes { channel, reader, bytes }) => {
                    assert_eq!(channel, reader);
                    arrived.entry(channel).or_default().extend_from_slice(&bytes);
                }
                Some(Event::Whole(taker, bytes)) => {
                    arrived.insert(taker, bytes);
                }
                Some(Event::Control(_)) => panic!("no control message was sent"),
                Some(Event::End(reader)) => {
                    arrived.entry(reader).or_default();
                }
                None => {}
            };
            for (no, piece) in &pieces {
                sent.entry(*no).or_default().extend_from_slice(piece);
                if let Some((message, len)) = Outgoing::new(*no).message(piece) {
                    assert_eq!(len, piece.len());
                    hear(message);
                }
            }
            (1..5).for_each(|no| {
                sent.entry(no).or_default();
                hear(Outgoing::new(no).end().unwrap());
            });
            prop_assert_eq!(sent, arrived);
            prop_assert_eq!(channels.count(), 0);
        }

        #[test]
        fn any_message_is_an_event_or_an_error(messages in vec(vec(any::<u8>(), 0..6), 0..20)) {
            let mut channels = channels();
            for message in messages {
                let is_bad = crate::message::decode(message.clone().into()).is_err();
                prop_assert_eq!(channels.receive(message.into()).is_err(), is_bad);
            }
        }
    }
}
