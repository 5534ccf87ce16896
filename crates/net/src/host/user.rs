//! The events and the future of a running session.

use std::pin::Pin;

use deltic_protocol::report::Notice;

use crate::error::SyncError;

/// Reports an event.
pub(crate) type Watch<'a> = &'a mut (dyn FnMut(Notice) + Send);

/// The future of a running session. It is boxed, so that it is moved once and can be spawned whatever it borrows.
pub(crate) type Conversation<'a> = Pin<Box<dyn Future<Output = Result<(), SyncError>> + Send + 'a>>;
