//! The greeting at the dialling end (the end that opened the connection), as steps: frames in, terms and reply out
//! (docs/protocol.md, "Greeting").
//!
//! The dialling end sends its hello and its request at once, then passes the frames that arrive to
//! [`Greeting::take_frame`]. The answering end uses [`agree`] and [`is_greeting`] directly.

use deltic_core::Strategy;
use deltic_protocol::hello::{Abort, Alive, Reply};
use deltic_protocol::limits::MAX_GREETING_BYTES;
use deltic_protocol::options::{Delete, Options};
use deltic_protocol::report::Side;
use deltic_protocol::{Hello, PeerError, Terms, negotiate};

/// The side of a session: sender or receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The end with the new version.
    Sends,
    /// The end with the old version, or with no version.
    Receives,
}

impl Role {
    /// Returns the role of the end that reports as `side`.
    #[must_use]
    pub const fn of(side: Side) -> Self {
        match side {
            Side::Sender => Self::Sends,
            Side::Receiver => Self::Receives,
        }
    }
}

/// Reason why a greeting failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GreetingError {
    /// The other end broke the protocol.
    Peer(PeerError),
    /// The other end gave up.
    Abort(Abort),
    /// The two versions share no capability that a session needs.
    Versions {
        /// Version of this end.
        here: String,
        /// Version of the other end.
        there: String,
    },
}

impl From<PeerError> for GreetingError {
    fn from(error: PeerError) -> Self {
        Self::Peer(error)
    }
}

impl From<Abort> for GreetingError {
    fn from(abort: Abort) -> Self {
        Self::Abort(abort)
    }
}

/// The frames that the dialling end still waits for: a hello, then a reply.
#[derive(Debug)]
pub struct Greeting {
    ours: Hello,
    role: Role,
    strategy: Strategy,
    delete: Delete,
    /// Set once the hello has arrived.
    terms: Option<Terms>,
}

impl Greeting {
    /// Makes the greeting of a session with these options, after this end sent `ours` and requested this role.
    #[must_use]
    pub const fn new(ours: Hello, role: Role, options: &Options) -> Self {
        Self { ours, role, strategy: options.strategy, delete: options.delete, terms: None }
    }

    /// Takes the next frame. Returns the terms and the reply after the last frame of the greeting.
    ///
    /// # Errors
    /// [`GreetingError`] if the other end cannot hold this session.
    pub fn take_frame(
        &mut self,
        kind: u8,
        payload: &[u8],
    ) -> Result<Option<(Terms, Reply)>, GreetingError> {
        check_len(payload)?;
        if let Some(terms) = self.terms {
            return Ok(Some((terms, Reply::decode(kind, payload)?)));
        }
        let theirs = Hello::decode(kind, payload)?;
        let terms = agree(self.role, &self.ours, &theirs)?;
        terms.check_support(&self.strategy, self.delete)?;
        self.terms = Some(terms);
        Ok(None)
    }
}

/// Returns the terms between an end of this role and the other end.
///
/// # Errors
/// [`GreetingError::Versions`] if the ends share no capability, [`PeerError`] if the hello of the other end is wrong.
pub fn agree(role: Role, ours: &Hello, theirs: &Hello) -> Result<Terms, GreetingError> {
    let terms = match role {
        Role::Sends => negotiate(ours, theirs),
        Role::Receives => negotiate(theirs, ours),
    };
    terms.map_err(|error| match error {
        PeerError::NothingInCommon(_) => {
            GreetingError::Versions { here: ours.version().into(), there: theirs.version().into() }
        }
        error => error.into(),
    })
}

/// Returns true if a frame is part of the greeting, false for an `Alive` frame (keep-alive).
///
/// # Errors
/// [`Abort`] if the other end gives up, [`PeerError`] if the frame is too long or malformed.
pub fn is_greeting(kind: u8, payload: &[u8]) -> Result<bool, GreetingError> {
    check_len(payload)?;
    if let Some(abort) = Abort::decode(kind, payload)? {
        return Err(abort.into());
    }
    Ok(Alive::decode(kind, payload)?.is_none())
}

/// Refuses a frame that is too long for a greeting.
const fn check_len(payload: &[u8]) -> Result<(), PeerError> {
    let fits = payload.len() <= MAX_GREETING_BYTES;
    if fits { Ok(()) } else { Err(PeerError::Limit("greeting")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use deltic_core::Key;
    use deltic_protocol::frame::{HEADER_BYTES, Header};
    use deltic_protocol::hello::AbortCause;

    fn kind_and_payload(frame: &[u8]) -> (u8, &[u8]) {
        let (header, payload) = frame.split_first_chunk::<HEADER_BYTES>().unwrap();
        (Header::decode(*header).unwrap().kind, payload)
    }

    fn hello(byte: u8) -> Hello {
        Hello::of_this_version(Key::from_bytes([byte; 32]))
    }

    #[test]
    fn a_greeting_ends_with_the_reply() {
        let (ours, theirs) = (hello(1), hello(2));
        let reply = Reply { single: None, join: None };
        let mut greeting = Greeting::new(ours.clone(), Role::Sends, &Options::default());
        let (said, answer) = (theirs.encode(), reply.encode());
        let (kind, payload) = kind_and_payload(&said);
        assert_eq!(greeting.take_frame(kind, payload), Ok(None));
        let (kind, payload) = kind_and_payload(&answer);
        let terms = agree(Role::Receives, &theirs, &ours).unwrap();
        assert_eq!(greeting.take_frame(kind, payload), Ok(Some((terms, reply))));
    }

    #[test]
    fn another_version_is_named() {
        let mut theirs = hello(2);
        theirs.program = "deltic 9.9.9".into();
        theirs.capabilities.clear();
        let versions = GreetingError::Versions {
            here: env!("CARGO_PKG_VERSION").into(),
            there: "9.9.9".into(),
        };
        assert_eq!(agree(Role::Sends, &hello(1), &theirs), Err(versions));
    }

    #[test]
    fn signs_of_life_are_no_part_of_a_greeting_and_an_abort_ends_it() {
        let said = Alive.encode();
        let (kind, payload) = kind_and_payload(&said);
        assert_eq!(is_greeting(kind, payload), Ok(false));
        let abort = Abort { cause: AbortCause::Selection, message: "no such directory".into() };
        let said = abort.encode();
        let (kind, payload) = kind_and_payload(&said);
        assert_eq!(is_greeting(kind, payload), Err(abort.into()));
        let said = hello(1).encode();
        let (kind, payload) = kind_and_payload(&said);
        assert_eq!(is_greeting(kind, payload), Ok(true));
        assert_eq!(
            is_greeting(kind, &vec![0; MAX_GREETING_BYTES + 1]),
            Err(PeerError::Limit("greeting").into())
        );
    }
}
