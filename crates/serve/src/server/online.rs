//! Clients that are connected: the sessions, updates and watches of each token.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::lock;
use crate::token::TokenHash;

/// Number of sessions, updates and watches of each token that has any.
#[derive(Debug, Default)]
pub(crate) struct Online(Mutex<HashMap<TokenHash, usize>>);

impl Online {
    /// Counts a session, update or watch of a token, until the guard is dropped.
    pub(crate) fn enter(self: &Arc<Self>, token: TokenHash) -> OnlineClient {
        *lock(&self.0).entry(token).or_default() += 1;
        OnlineClient { online: Arc::clone(self), token }
    }

    /// Returns the number of sessions, updates and watches of a token.
    pub(crate) fn of(&self, token: &TokenHash) -> usize {
        lock(&self.0).get(token).copied().unwrap_or_default()
    }
}

/// Guard of a session, update or watch of a connected client.
#[derive(Debug)]
pub(crate) struct OnlineClient {
    online: Arc<Online>,
    token: TokenHash,
}

impl Drop for OnlineClient {
    fn drop(&mut self) {
        let mut all = lock(&self.online.0);
        if let Some(count) = all.get_mut(&self.token) {
            *count -= 1;
            if *count == 0 {
                all.remove(&self.token);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::new_token;

    #[test]
    fn a_token_is_connected_as_long_as_a_session_of_it_lasts() {
        let (online, token) = (Arc::new(Online::default()), new_token().hash());
        let first = online.enter(token);
        let second = online.enter(token);
        assert_eq!(online.of(&token), 2);
        drop((first, second));
        assert_eq!((online.of(&token), lock(&online.0).len()), (0, 0));
    }
}
