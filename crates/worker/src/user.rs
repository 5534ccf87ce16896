//! The user of a session, who answers questions.

use std::fmt;
use std::sync::Arc;

use deltic_protocol::report::Question;

type Ask = dyn Fn(&Question) -> bool + Send + Sync;

/// The user to ask before many names are removed. Without a user, which is the default, the answer is no.
#[derive(Clone, Default)]
pub struct User(Option<Arc<Ask>>);

impl User {
    /// Returns a user that answers by `ask`. `ask` is called on its own thread and may take any time. If the run ends
    /// meanwhile, `ask` need not return.
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
