//! The bytes of a stream, as steps: the magic, then frames with checksums (docs/protocol.md, "Checks").
//!
//! ```text
//!  frames ─► OutgoingChecks ─► bytes of the wire ─► IncomingFrames ─► frames that may be processed
//! ```
//!
//! A transport with buffers of its own uses [`OutgoingChecks`] and [`IncomingFrames`]. [`StreamEnd`] combines both with
//! buffers, for a caller that passes bytes by hand.

use std::ops::Range;

use deltic_protocol::PeerError;
use deltic_protocol::check::{CHECK, Checksum, Inspector};
use deltic_protocol::frame::{HEADER_BYTES, Header};
use deltic_protocol::hello::{MAGIC, check_magic};
use deltic_protocol::limits::Limits;

/// Number of bytes of frames between two checks on a slow line. The reader processes no frame before its check arrives.
pub const CHECKED_RUN_BYTES: usize = 16 << 10;

/// Meaning of the first bytes of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamStart {
    /// The whole magic; frames follow.
    Deltic,
    /// A part of the magic; more bytes are needed.
    Partial,
    /// The bytes of another program, for example a short banner after which the program sends nothing.
    Foreign,
}

impl StreamStart {
    /// Determines the meaning of the first bytes of a stream.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        if bytes.starts_with(&MAGIC) {
            Self::Deltic
        } else if MAGIC.starts_with(bytes) {
            Self::Partial
        } else {
            Self::Foreign
        }
    }
}

/// Receiving direction: finds the frames that may be processed at the start of the caller's buffer.
#[derive(Clone, Debug, Default)]
pub struct IncomingFrames {
    inspector: Inspector,
    /// End of the inspected frames in the buffer.
    inspected: usize,
    /// End of the inspected frames in the buffer that may be processed.
    admitted: usize,
}

impl IncomingFrames {
    /// Returns the reader of a stream that carries checks. The default is a stream without checks.
    #[must_use]
    pub fn checked() -> Self {
        Self { inspector: Inspector::new_checked(), ..Self::default() }
    }

    /// Inspects the complete frames of `bytes`, which begin behind the frames that were [taken](Self::take). Frames
    /// before an error may still be processed.
    ///
    /// # Errors
    /// [`PeerError`] if the stream is damaged, or a frame is longer than `limits` allow.
    pub fn inspect(&mut self, bytes: &[u8], limits: &Limits) -> Result<(), PeerError> {
        while let Some(Header { len, .. }) = header_of(&bytes[self.inspected..])? {
            limits.check_frame(len)?;
            let end = self.inspected + HEADER_BYTES + len;
            let Some(frame) = bytes.get(self.inspected..end) else { break };
            let admits = self.inspector.inspect(frame)?;
            self.inspected = end;
            if admits {
                self.admitted = end;
            }
        }
        Ok(())
    }

    /// True if frames may be taken.
    #[must_use]
    pub const fn is_ready(&self) -> bool {
        self.admitted > 0
    }

    /// Takes the frames that may be processed. Returns their length in bytes; the caller removes these bytes from the
    /// buffer.
    pub const fn take(&mut self) -> usize {
        let len = std::mem::replace(&mut self.admitted, 0);
        self.inspected -= len;
        len
    }

    /// Returns type and place of the payload of each frame in `taken`, without the checks.
    pub fn frames(&self, taken: &[u8]) -> impl Iterator<Item = (u8, Range<usize>)> {
        let (mut end, is_checked) = (0, self.inspector.is_checked());
        let next = move || {
            let Header { kind, len } = header_of(&taken[end..]).ok()??;
            let start = end + HEADER_BYTES;
            end = start + len;
            Some((kind, start..end))
        };
        std::iter::from_fn(next).filter(move |(kind, _)| *kind != CHECK || !is_checked)
    }
}

/// Sending direction: appends checks to batches of frames.
#[derive(Clone, Copy, Debug)]
pub struct OutgoingChecks(Checksum);

impl Default for OutgoingChecks {
    fn default() -> Self {
        Self(Checksum::NOTHING)
    }
}

impl OutgoingChecks {
    /// Splits `frames` into runs of `run` bytes or a little more, and appends a check to each run. `frames` must not be
    /// empty, because the other end would refuse the check.
    ///
    /// If there are several runs, replaces `frames` with the buffer that `other` returns. Then returns the old buffer,
    /// for reuse.
    pub fn append(
        &mut self,
        frames: &mut Vec<u8>,
        run: usize,
        other: impl FnOnce() -> Vec<u8>,
    ) -> Option<Vec<u8>> {
        let ends = ends_of_runs(frames, run);
        if ends.len() <= 1 {
            // Nearly all batches take this path.
            self.0.add_frames(frames);
            frames.extend_from_slice(&self.0.check_frame());
            return None;
        }
        let (mut with_checks, mut start) = (other(), 0);
        for end in ends {
            self.0.add_frames(&frames[start..end]);
            with_checks.extend_from_slice(&frames[start..end]);
            with_checks.extend_from_slice(&self.0.check_frame());
            start = end;
        }
        Some(std::mem::replace(frames, with_checks))
    }
}

/// Returns the end offset of each run of `frames`. Returns no offsets if `frames` are no longer than one run.
fn ends_of_runs(frames: &[u8], run: usize) -> Vec<usize> {
    let (mut ends, mut start, mut end) = (Vec::new(), 0, 0);
    while let Some(header) = frames[end..].first_chunk().filter(|_| frames.len() > run)
        && let Ok(Header { len, .. }) = Header::decode(*header)
    {
        end += HEADER_BYTES + len;
        if end - start >= run || end == frames.len() {
            ends.push(end);
            start = end;
        }
    }
    ends
}

/// Decodes the header at the start of `bytes`, if complete.
fn header_of(bytes: &[u8]) -> Result<Option<Header>, PeerError> {
    bytes.first_chunk().map(|header| Header::decode(*header)).transpose()
}

/// Both directions of a stream with checks, with a buffer for received bytes.
#[derive(Debug)]
pub struct StreamEnd {
    /// Received bytes that were not taken.
    received: Vec<u8>,
    incoming: IncomingFrames,
    has_heard_magic: bool,
    outgoing: OutgoingChecks,
    has_sent_magic: bool,
}

impl Default for StreamEnd {
    fn default() -> Self {
        Self {
            received: Vec::new(),
            incoming: IncomingFrames::checked(),
            has_heard_magic: false,
            outgoing: OutgoingChecks::default(),
            has_sent_magic: false,
        }
    }
}

impl StreamEnd {
    /// Takes received bytes, cut anywhere. Appends the frames that may be processed to `frames`, without checks.
    ///
    /// # Errors
    /// [`PeerError`] if the bytes do not come from Deltic, are damaged, or a frame is longer than `limits` allow.
    /// Frames before the error are appended first.
    pub fn receive(
        &mut self,
        bytes: &[u8],
        limits: &Limits,
        frames: &mut Vec<u8>,
    ) -> Result<(), PeerError> {
        self.received.extend_from_slice(bytes);
        if !self.has_heard_magic {
            match StreamStart::of(&self.received) {
                StreamStart::Partial => return Ok(()),
                StreamStart::Foreign => return check_magic(&self.received),
                StreamStart::Deltic => self.received.drain(..MAGIC.len()),
            };
            self.has_heard_magic = true;
        }
        let inspected = self.incoming.inspect(&self.received, limits);
        let len = self.incoming.take();
        for (_, payload) in self.incoming.frames(&self.received[..len]) {
            frames.extend_from_slice(&self.received[payload.start - HEADER_BYTES..payload.end]);
        }
        self.received.drain(..len);
        inspected
    }

    /// Returns the bytes to send for `frames`: the magic at the start of the stream, then the frames with their checks.
    /// Returns no bytes if there are no frames.
    pub fn send(&mut self, mut frames: Vec<u8>) -> Vec<u8> {
        if frames.is_empty() {
            return frames;
        }
        self.outgoing.append(&mut frames, CHECKED_RUN_BYTES, Vec::new);
        if !std::mem::replace(&mut self.has_sent_magic, true) {
            frames.splice(0..0, MAGIC);
        }
        frames
    }

    /// True if received bytes wait for the rest of their frames or for a check.
    #[must_use]
    pub fn is_amid_frames(&self) -> bool {
        !self.received.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use deltic_protocol::limits::MAX_FRAME_BYTES;

    const LIMITS: Limits = Limits { frame_bytes: MAX_FRAME_BYTES, credit: None };

    fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
        let len = (payload.len() as u32).to_le_bytes();
        [&[kind], &len[..3], payload].concat()
    }

    #[test]
    fn frames_arrive_as_they_were_sent_wherever_the_stream_is_cut() {
        let batches = [
            [frame(9, b""), frame(10, b"abc")].concat(),
            (0..5).flat_map(|no| frame(20 + no, &[no; CHECKED_RUN_BYTES / 2])).collect(),
            frame(30, &[3; 300]),
        ];
        let mut sender = StreamEnd::default();
        let sent: Vec<Vec<u8>> = batches.iter().map(|batch| sender.send(batch.clone())).collect();
        assert!(sent[0].starts_with(&MAGIC) && !sent[1].starts_with(&MAGIC));
        let checks = sent[1].len() - batches[1].len();
        assert_eq!(checks, 3 * 8, "a check for each run");
        for len in [1, 7, 8, 9, 1000, usize::MAX] {
            let (mut receiver, mut frames) = (StreamEnd::default(), Vec::new());
            for piece in sent.concat().chunks(len) {
                receiver.receive(piece, &LIMITS, &mut frames).unwrap();
            }
            assert!(frames == batches.concat(), "pieces of {len} bytes");
            assert!(!receiver.is_amid_frames());
        }
    }

    #[test]
    fn frames_before_damage_are_taken_and_others_are_not() {
        let mut sender = StreamEnd::default();
        let (whole, mut damaged) = (sender.send(frame(9, b"x")), sender.send(frame(10, b"y")));
        damaged[4] ^= 1;
        let (mut receiver, mut frames) = (StreamEnd::default(), Vec::new());
        let bytes = [whole, damaged].concat();
        assert_eq!(receiver.receive(&bytes, &LIMITS, &mut frames), Err(PeerError::Damaged));
        assert_eq!(frames, frame(9, b"x"));
    }

    #[test]
    fn a_frame_that_is_too_long_is_refused_by_its_header() {
        let limits = Limits { frame_bytes: 10, ..LIMITS };
        let mut receiver = StreamEnd::default();
        let bytes = [&MAGIC[..], &[9, 11, 0, 0]].concat();
        let refused = receiver.receive(&bytes, &limits, &mut Vec::new());
        assert_eq!(refused, Err(PeerError::Limit("frame length")));
    }

    #[test]
    fn another_program_is_told_from_a_slow_one() {
        assert_eq!(StreamStart::of(b""), StreamStart::Partial);
        assert_eq!(StreamStart::of(&MAGIC[..5]), StreamStart::Partial);
        assert_eq!(StreamStart::of(b"deltic/1\x01"), StreamStart::Deltic);
        assert_eq!(StreamStart::of(b"Welcome"), StreamStart::Foreign);
        let heard = StreamEnd::default().receive(b"HTTP/1.1 400", &LIMITS, &mut Vec::new());
        assert!(matches!(heard, Err(PeerError::NotDeltic(_))), "{heard:?}");
    }
}
