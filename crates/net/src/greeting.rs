//! The frames that both ends exchange before the conversation (docs/protocol.md, "Greeting").
//!
//! The ends do not wait without need: the dialling end sends its hello and request at once. A sender that dialled
//! lists its sources before the other end's hello arrives.

use std::time::Duration;

use tokio::time::timeout;

use deltic_core::keyed::KEY_BYTES;
use deltic_core::{Key, Strategy};
use deltic_engine::session::GREETING_TIMEOUT;
use deltic_protocol::hello::{MAGIC, Reply, check_magic};
use deltic_protocol::limits::MAX_GREETING_BYTES;
use deltic_protocol::options::{Delete, Options};
use deltic_protocol::report::Side;
use deltic_protocol::{Hello, PeerError, Terms, negotiate};

use crate::bounds::files_at_once;
use crate::error::{ReadEnd, SyncError, Versions};
use crate::executor::Budget;
use crate::transport::{Arrivals, Counters};

/// Most bytes of a foreign stream that are quoted in an error, and the longest wait for them.
const QUOTED_BYTES: usize = 64 + MAGIC.len();
const QUOTE_PATIENCE: Duration = Duration::from_millis(100);

/// The side of a session: sender or receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Sends,
    Receives,
}

impl Role {
    pub(crate) const fn of(side: Side) -> Self {
        match side {
            Side::Sender => Self::Sends,
            Side::Receiver => Self::Receives,
        }
    }
}

/// The frames that the dialling end still waits for: a hello, then a reply.
pub(crate) struct Greeting {
    ours: Hello,
    role: Role,
    strategy: Strategy,
    delete: Delete,
    /// Set once the hello has arrived.
    terms: Option<Terms>,
}

/// Called once with the terms and the reply.
pub(crate) type Agree = Box<dyn FnOnce(Terms, Reply) + Send>;

impl Greeting {
    /// Makes the greeting of a session with these options, after this end sent `ours` and requested this role.
    pub(crate) const fn new(ours: Hello, role: Role, options: &Options) -> Self {
        Self { ours, role, strategy: options.strategy, delete: options.delete, terms: None }
    }

    /// Takes the next frame. Returns the terms and the reply after the last frame of the greeting.
    pub(crate) fn hear(
        &mut self,
        kind: u8,
        payload: &[u8],
    ) -> Result<Option<(Terms, Reply)>, SyncError> {
        check_len(payload)?;
        if let Some(terms) = self.terms {
            return Ok(Some((terms, Reply::decode(kind, payload)?)));
        }
        let theirs = Hello::decode(kind, payload)?;
        let terms = agree(self.role, &self.ours, &theirs)?;
        terms.admits(&self.strategy, self.delete)?;
        self.terms = Some(terms);
        Ok(None)
    }
}

/// Returns the terms between an end of this role and the other end.
pub(crate) fn agree(role: Role, ours: &Hello, theirs: &Hello) -> Result<Terms, SyncError> {
    let terms = match role {
        Role::Sends => negotiate(ours, theirs),
        Role::Receives => negotiate(theirs, ours),
    };
    terms.map_err(|error| match error {
        PeerError::NothingInCommon(_) => SyncError::Versions(Versions {
            here: ours.version().into(),
            there: theirs.version().into(),
            host: None,
        }),
        error => error.into(),
    })
}

/// Refuses a frame that is too long for a greeting.
pub(crate) fn check_len(payload: &[u8]) -> Result<(), PeerError> {
    let fits = payload.len() <= MAX_GREETING_BYTES;
    if fits { Ok(()) } else { Err(PeerError::Limit("greeting")) }
}

/// Returns the hello of an end with this budget, with a new random part of the session's key.
pub(crate) fn hello(budget: &Budget) -> Hello {
    let mut bytes = [0; KEY_BYTES];
    getrandom::fill(&mut bytes).expect("the system has randomness");
    let ours = Hello::ours(Key::from_bytes(bytes)).holding(files_at_once(budget));
    ours.framing(budget.frame_bytes).granting(budget.credit)
}

/// Waits for a greeting, up to `GREETING_TIMEOUT`.
pub(crate) async fn in_time<T>(
    hearing: impl Future<Output = Result<T, SyncError>>,
) -> Result<T, SyncError> {
    timeout(GREETING_TIMEOUT, hearing).await.unwrap_or(Err(SyncError::NoAnswerInTime))
}

/// Reads [`MAGIC`].
pub(crate) async fn hear_magic(
    arrivals: &mut Arrivals,
    counters: &Counters,
) -> Result<(), ReadEnd> {
    read_magic(arrivals).await?;
    counters.count_received(arrivals.bytes().len());
    arrivals.skip(MAGIC.len());
    Ok(())
}

/// Reads the magic. Other bytes are reported at once, because a short banner may be followed by silence.
async fn read_magic(arrivals: &mut Arrivals) -> Result<(), ReadEnd> {
    while arrivals.bytes().len() < MAGIC.len() && MAGIC.starts_with(arrivals.bytes()) {
        if arrivals.read().await.map_err(ReadEnd::Broken)? == 0 {
            return Err(ReadEnd::Closed);
        }
    }
    if arrivals.bytes().starts_with(&MAGIC) {
        return Ok(());
    }
    if arrivals.bytes().len() <= MAGIC.len() {
        // More bytes help the user to recognise the program that sent the bytes.
        timeout(QUOTE_PATIENCE, arrivals.read()).await.ok();
    }
    let quoted = arrivals.bytes().len().min(QUOTED_BYTES);
    check_magic(&arrivals.bytes()[..quoted]).map_err(ReadEnd::Bad)
}
