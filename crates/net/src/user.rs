//! The user of a session, where somebody can ask one.

use std::fmt;
use std::sync::Arc;

use deltic_protocol::report::Question;

type Ask = dyn Fn(&Question) -> bool + Send + Sync;

/// Who is asked before many names are removed; by default nobody, who says no.
#[derive(Clone, Default)]
pub struct User(Option<Arc<Ask>>);

impl User {
    /// A user whom `ask` asks. It is called on a thread of its own kind, may take any time, and need not come back from a
    /// run that ends meanwhile.
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
