//! Compressed frames that a session refuses.
#![cfg(feature = "zstd")]
#![allow(clippy::unwrap_used, missing_docs)]

use deltic_engine::compression::FrameCompressor;
use deltic_engine::machine::Machine;
use deltic_engine::session::Session;
use deltic_protocol::compressed::CompressedFrame;
use deltic_protocol::frame::HEADER_BYTES;
use deltic_protocol::hello::Abort;
use deltic_protocol::limits::MAX_FRAME_BYTES;
use deltic_protocol::options::Options;
use deltic_protocol::receiver::{Receiver, Setting};
use deltic_protocol::sender::Sender;
use deltic_protocol::{PeerError, ToReceiver};

#[derive(Debug, PartialEq, Eq)]
struct Failed(Option<PeerError>);

impl From<PeerError> for Failed {
    fn from(error: PeerError) -> Self {
        Self(Some(error))
    }
}

impl From<Abort> for Failed {
    fn from(_: Abort) -> Self {
        Self(None)
    }
}

fn refusal(machine: impl Machine, frame: &[u8]) -> PeerError {
    let mut session: Session<_, Failed> = Session::new(machine, None);
    session.feed(frame[0], &frame[HEADER_BYTES..]).unwrap_err().0.unwrap()
}

fn receiver() -> Receiver {
    Receiver::new(Setting::default())
}

#[test]
fn only_literals_within_the_limits_come_compressed_and_only_to_a_receiver() {
    let listed = ToReceiver::Listed { intact: true }.encode();
    let listed = FrameCompressor::default().compress(&listed, 3, MAX_FRAME_BYTES).unwrap();
    let without_literals = PeerError::Unexpected("a compressed frame without literals");
    assert_eq!(refusal(receiver(), &listed), without_literals);
    let sender = Sender::new(Options::default());
    assert_eq!(refusal(sender, &listed), PeerError::UnknownFrame(CompressedFrame::KIND));
    let long =
        CompressedFrame { is_first: true, kind: 21, len: MAX_FRAME_BYTES as u32 + 1, part: b"" };
    let long = long.encode(MAX_FRAME_BYTES).unwrap();
    assert!(matches!(refusal(receiver(), &long), PeerError::Limit(_)));
}
