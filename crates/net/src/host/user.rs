//! Types for a running session: its observer and its future.

use std::pin::Pin;

use deltic_protocol::report::Notice;

use crate::error::SyncError;

/// Callback for the events of a run.
pub(crate) type Watch<'a> = &'a mut (dyn FnMut(Notice) + Send);

/// The future of a running session. The future is boxed: so it is moved once, and can be spawned whatever it borrows.
pub(crate) type Conversation<'a> = Pin<Box<dyn Future<Output = Result<(), SyncError>> + Send + 'a>>;
