//! The loop of a session, without a driver. Whole sessions run in `crates/worker/tests/inline.rs`.

use deltic_engine::session::Session;
use deltic_protocol::PeerError;
use deltic_protocol::frame::HEADER_BYTES;
use deltic_protocol::hello::Abort;
use deltic_protocol::limits::{Limits, MIN_FRAME_BYTES};
use deltic_protocol::receiver::{Receiver, Setting};

/// Why a session failed.
#[derive(Debug)]
struct SessionFailed(String);

impl From<PeerError> for SessionFailed {
    fn from(error: PeerError) -> Self {
        Self(error.to_string())
    }
}

impl From<Abort> for SessionFailed {
    fn from(abort: Abort) -> Self {
        Self(abort.message)
    }
}

/// The header alone is enough to refuse the frame.
#[test]
fn a_frame_beyond_the_agreed_limit_is_refused() {
    let limits = Limits { frame_bytes: MIN_FRAME_BYTES, ..Limits::default() };
    let receiver = || Receiver::new(Setting { limits, ..Setting::default() });
    let header = |len: usize| [&[17][..], &(len as u32).to_le_bytes()[..HEADER_BYTES - 1]].concat();
    let mut session = Session::<_, SessionFailed>::new(receiver(), None);
    assert_eq!(session.feed_bytes(&header(MIN_FRAME_BYTES)).map_err(|error| error.0), Ok(0));
    let refused = Err("too much: frame length".to_owned());
    let fed = session.feed_bytes(&header(MIN_FRAME_BYTES + 1));
    assert_eq!(fed.map_err(|error| error.0), refused);
    let fed = session.feed(17, &[0; MIN_FRAME_BYTES + 1]);
    assert_eq!(fed.map_err(|error| error.0), refused.map(drop));
}
