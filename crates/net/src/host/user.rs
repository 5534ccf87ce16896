//! The user of a session: who is told of events, and asked where somebody can be.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use deltic_protocol::report::{Notice, Question};

use crate::error::SyncError;

/// Reports an event.
pub(crate) type Watch<'a> = &'a mut (dyn FnMut(Notice) + Send);

/// A session while it is held. Boxed, it is moved once, and may be spawned whatever it borrows.
pub(crate) type Conversation<'a> = Pin<Box<dyn Future<Output = Result<(), SyncError>> + Send + 'a>>;

type Ask = dyn Fn(&Question) -> bool + Send + Sync;

/// The user to ask before many names are removed; by default nobody: the answer is no.
#[derive(Clone, Default)]
pub struct User(Option<Arc<Ask>>);

impl User {
    /// A user whom `ask` asks. It is called on a thread of its own kind, may take any time, and need not come back
    /// from a run that ends meanwhile.
    pub fn new(ask: impl Fn(&Question) -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(ask)))
    }

    pub(crate) fn allows(&self, question: &Question) -> bool {
        self.0.as_ref().is_some_and(|ask| ask(question))
    }
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "User(asked)" } else { "User(nobody)" })
    }
}
