//! Waits for the greeting of both ends. The steps of the greeting are in the engine (`deltic_engine::greeting`).
//!
//! No end waits without need: the connecting end sends its hello and request at once. A sender that connected lists its
//! sources before the other end's hello arrives.

use std::time::Duration;

use tokio::time::timeout;

use deltic_core::Key;
use deltic_core::keyed::KEY_BYTES;
use deltic_engine::session::GREETING_TIMEOUT;
use deltic_engine::stream::StreamStart;
use deltic_protocol::hello::{MAGIC, Reply, check_magic};
use deltic_protocol::{Hello, Terms};

use crate::bounds::files_at_once;
use crate::error::{ReadEnd, SyncError};
use crate::executor::Budget;
use crate::transport::{Arrivals, Counters};

pub(crate) use deltic_engine::greeting::{Greeting, Role, agree, is_greeting};

/// Most bytes of a stream without a valid greeting that an error quotes.
const QUOTED_BYTES: usize = 64 + MAGIC.len();
/// Longest wait for further bytes to quote.
const QUOTE_TIMEOUT: Duration = Duration::from_millis(100);

/// Called once, with the terms and the reply of the greeting.
pub(crate) type Agree = Box<dyn FnOnce(Terms, Reply) + Send>;

/// Returns the hello of an end with this budget, with a new random part of the session's key.
pub(crate) fn hello(budget: &Budget) -> Hello {
    let mut bytes = [0; KEY_BYTES];
    getrandom::fill(&mut bytes).expect("the system has randomness");
    let ours = Hello::of_this_version(Key::from_bytes(bytes)).with_max_files(files_at_once(budget));
    ours.with_frame_limit(budget.frame_bytes).with_credit(budget.credit)
}

/// Waits for a greeting, up to `GREETING_TIMEOUT`.
pub(crate) async fn within_greeting_timeout<T>(
    hearing: impl Future<Output = Result<T, SyncError>>,
) -> Result<T, SyncError> {
    timeout(GREETING_TIMEOUT, hearing).await.unwrap_or(Err(SyncError::NoAnswerInTime))
}

/// Reads [`MAGIC`].
pub(crate) async fn receive_magic(
    arrivals: &mut Arrivals,
    counters: &Counters,
) -> Result<(), ReadEnd> {
    read_magic(arrivals).await?;
    counters.count_received(arrivals.bytes().len());
    arrivals.skip(MAGIC.len());
    Ok(())
}

/// Reads the magic. Other bytes are reported at once: a short banner may be followed by silence.
async fn read_magic(arrivals: &mut Arrivals) -> Result<(), ReadEnd> {
    while StreamStart::of(arrivals.bytes()) == StreamStart::Partial {
        if arrivals.read_uncounted().await.map_err(ReadEnd::Broken)? == 0 {
            return Err(ReadEnd::Closed);
        }
    }
    if StreamStart::of(arrivals.bytes()) == StreamStart::Deltic {
        return Ok(());
    }
    if arrivals.bytes().len() <= MAGIC.len() {
        // Further bytes help the user to recognise the program that sent the bytes.
        timeout(QUOTE_TIMEOUT, arrivals.read_uncounted()).await.ok();
    }
    let quoted = arrivals.bytes().len().min(QUOTED_BYTES);
    check_magic(&arrivals.bytes()[..quoted]).map_err(ReadEnd::Bad)
}
