//! Checks of a stream: damage in transit is found before either end acts on it (docs/protocol.md, "Checks").
//!
//! The content of a file is proven by its digest. Names, metadata, requests, answers and the offset at which
//! `--append` continues are protected by these checks alone. Checks find accidents, not attacks: an attacker who
//! changes a stream can change its checks too.

use deltic_core::codec::CodecError;
use deltic_core::weak::Crc32c;

use super::echo::{Echo, Echoed};
use super::frame::HEADER_BYTES;
use super::hello::{Alive, Hello};
use super::limits::{MAX_ALIVES, MAX_UNCHECKED_BYTES};
use crate::error::PeerError;

/// Type of the frame that checks the frames before it.
pub const CHECK: u8 = 7;

/// Length of the checksum in a check frame, in bytes.
const SUM_BYTES: usize = 4;

/// Checksum over all frames of one direction of a stream, excluding the check frames.
#[derive(Clone, Copy, Debug)]
pub struct Checksum(Crc32c);

impl Checksum {
    /// Checksum of no frames.
    pub const NOTHING: Self = Self(Crc32c::EMPTY);

    /// Adds the next frames to the checksum.
    pub fn add_frames(&mut self, frames: &[u8]) {
        self.0 = self.0.append(frames);
    }

    /// Returns the check frame for all frames added so far.
    #[must_use]
    pub fn check_frame(self) -> [u8; HEADER_BYTES + SUM_BYTES] {
        let [a, b, c, d] = self.0.get().to_le_bytes();
        [CHECK, SUM_BYTES as u8, 0, 0, a, b, c, d]
    }

    /// Compares the checksum with the payload of a check frame.
    ///
    /// # Errors
    /// [`PeerError::Damaged`] where they differ; [`PeerError::Malformed`] where the payload has the wrong length.
    pub fn verify(self, payload: &[u8]) -> Result<(), PeerError> {
        let sum: [u8; SUM_BYTES] = payload
            .try_into()
            .map_err(|_| PeerError::Malformed { frame: "Check", source: CodecError::OutOfRange })?;
        if Crc32c::new(u32::from_le_bytes(sum)) == self.0 {
            Ok(())
        } else {
            Err(PeerError::Damaged)
        }
    }
}

/// Decides which frames of a stream may be processed.
#[derive(Clone, Debug, Default)]
pub struct Inspector {
    /// Checksum of the frames; `None` for a stream without checks.
    sum: Option<Checksum>,
    /// Bytes of frames since the last check.
    unchecked: usize,
    /// `Alive` frames since the last frame of another type than echoes.
    alives: u32,
}

impl Inspector {
    /// An inspector of a stream that carries checks.
    #[must_use]
    pub fn new_checked() -> Self {
        Self { sum: Some(Checksum::NOTHING), ..Self::default() }
    }

    /// Takes the next whole frame, header and payload. Returns true if this frame and all frames before it may be
    /// processed. After an error the same frame gives the same error.
    ///
    /// # Errors
    /// [`PeerError`] where the stream is damaged, or the peer breaks the rules for checks and `Alive` frames.
    pub fn inspect(&mut self, frame: &[u8]) -> Result<bool, PeerError> {
        let kind = frame[0];
        if let Some(sum) = self.sum.filter(|_| kind == CHECK) {
            if self.unchecked == 0 {
                return Err(PeerError::Unexpected("a Check frame without frames to check"));
            }
            sum.verify(&frame[HEADER_BYTES..])?;
            self.unchecked = 0;
            return Ok(true);
        }
        match kind {
            Alive::KIND if self.alives == MAX_ALIVES => {
                return Err(PeerError::Limit("signs of life"));
            }
            Alive::KIND => self.alives += 1,
            Echo::KIND | Echoed::KIND => {}
            _ => self.alives = 0,
        }
        let Some(sum) = &mut self.sum else { return Ok(true) };
        let is_first = self.unchecked == 0;
        if self.unchecked + frame.len() > MAX_UNCHECKED_BYTES {
            return Err(PeerError::Limit("frames without a check"));
        }
        self.unchecked += frame.len();
        sum.add_frames(frame);
        // The hello may be processed unchecked, so that an end without checks gets a clear refusal.
        Ok(is_first && kind == Hello::KIND)
    }

    /// True if the stream carries checks.
    #[must_use]
    pub const fn is_checked(&self) -> bool {
        self.sum.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_may_be_taken_once_a_check_stands_behind_them() {
        let (hello, one, other) = ([Hello::KIND, 0, 0, 0], [9, 1, 0, 0, 5], [10, 0, 0, 0]);
        let mut sum = Checksum::NOTHING;
        let mut check = |frames: &[&[u8]]| {
            frames.iter().for_each(|frame| sum.add_frames(frame));
            sum.check_frame()
        };
        let first = check(&[&hello[..], &one, &other]);
        let second = check(&[&one[..]]);
        let mut inspector = Inspector::new_checked();
        assert_eq!(inspector.inspect(&hello), Ok(true), "a hello is taken at once");
        assert_eq!(inspector.inspect(&one), Ok(false));
        assert_eq!(inspector.inspect(&other), Ok(false));
        assert_eq!(inspector.inspect(&first), Ok(true));
        assert_eq!(
            inspector.inspect(&hello),
            Ok(true),
            "what is refused later is not checked first"
        );
        let mut inspector = Inspector::new_checked();
        for frame in [&hello[..], &one, &other, &first, &one] {
            inspector.inspect(frame).unwrap();
        }
        assert_eq!(
            inspector.inspect(&first),
            Err(PeerError::Damaged),
            "sums go on from check to check"
        );
        assert_eq!(inspector.inspect(&second), Ok(true));
        assert!(inspector.inspect(&second).is_err(), "a check of nothing");
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let mut sum = Checksum::NOTHING;
        let frame = [9, 4, 0, 0, 1, 2, 3, 4];
        sum.add_frames(&frame);
        let check = sum.check_frame();
        for bit in 0..frame.len() * 8 {
            let mut damaged = frame;
            damaged[bit / 8] ^= 1 << (bit % 8);
            let mut sum = Checksum::NOTHING;
            sum.add_frames(&damaged);
            assert_eq!(sum.verify(&check[HEADER_BYTES..]), Err(PeerError::Damaged));
        }
    }

    #[test]
    fn what_nobody_checks_and_who_only_says_that_it_lives_is_bounded() {
        let mut inspector = Inspector::new_checked();
        let long = vec![9; MAX_UNCHECKED_BYTES];
        assert_eq!(inspector.inspect(&long), Ok(false));
        let too_long = PeerError::Limit("frames without a check");
        assert_eq!(inspector.inspect(&[9, 0, 0, 0]), Err(too_long));
        for mut inspector in [Inspector::default(), Inspector::new_checked()] {
            let alive = Alive.encode();
            let mut sum = Checksum::NOTHING;
            let mut ended = 0;
            while inspector.inspect(&alive).is_ok() && ended <= MAX_ALIVES {
                ended += 1;
                sum.add_frames(&alive);
                if inspector.is_checked() {
                    inspector.inspect(&sum.check_frame()).unwrap();
                }
            }
            assert_eq!(ended, MAX_ALIVES);
        }
    }
}
