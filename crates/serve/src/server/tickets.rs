//! Tickets: secrets for one read of one file within a short time. A link in a page carries a ticket instead of a
//! token, because links stay in histories and logs.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use deltic_tree::RelPath;

use super::problem::Problem;
use crate::lock;
use crate::token::{Token, TokenHash, new_token};

/// Lifetime of a ticket.
pub(crate) const TICKET_LIFE: Duration = Duration::from_secs(60);
/// Most valid tickets at once.
const MAX_TICKETS: usize = 10_000;
/// Most valid tickets of a token at once.
const MAX_OF_TOKEN: usize = 200;

/// The valid tickets, by hash.
#[derive(Debug, Default)]
pub(crate) struct Tickets(Mutex<HashMap<TokenHash, Ticket>>);

#[derive(Debug)]
struct Ticket {
    /// The token that asked for the ticket.
    token: TokenHash,
    volume: String,
    path: RelPath,
    ends: Instant,
}

impl Tickets {
    /// Makes a ticket for a file of a volume.
    pub(crate) fn issue(
        &self,
        token: TokenHash,
        volume: String,
        path: RelPath,
    ) -> Result<Token, Problem> {
        let now = Instant::now();
        let mut all = lock(&self.0);
        all.retain(|_, ticket| ticket.ends > now);
        let its = all.values().filter(|ticket| ticket.token == token).count();
        if all.len() >= MAX_TICKETS || its >= MAX_OF_TOKEN {
            return Err(Problem::busy("too many tickets at once; try again in a moment"));
        }
        let ticket = new_token();
        all.insert(ticket.hash(), Ticket { token, volume, path, ends: now + TICKET_LIFE });
        Ok(ticket)
    }

    /// Uses up a ticket, if the ticket is for this file. Returns the token that asked for the ticket.
    pub(crate) fn take(
        &self,
        ticket: &TokenHash,
        volume: &str,
        path: &RelPath,
    ) -> Option<TokenHash> {
        let mut all = lock(&self.0);
        let is_for =
            |it: &Ticket| it.ends > Instant::now() && it.volume == volume && it.path == *path;
        all.get(ticket).filter(|it| is_for(it))?;
        all.remove(ticket).map(|it| it.token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_for_one_file_and_one_time() {
        let (tickets, token) = (Tickets::default(), new_token().hash());
        let path = |text: &str| RelPath::parse(text.as_bytes()).unwrap();
        let ticket = tickets.issue(token, "v".into(), path("a")).unwrap().hash();
        assert_eq!(tickets.take(&ticket, "v", &path("b")), None);
        assert_eq!(tickets.take(&ticket, "w", &path("a")), None);
        assert_eq!(tickets.take(&ticket, "v", &path("a")), Some(token));
        assert_eq!(tickets.take(&ticket, "v", &path("a")), None);
        let issue = || tickets.issue(token, "v".into(), path("a"));
        assert!((0..MAX_OF_TOKEN).all(|_| issue().is_ok()) && issue().is_err());
        let ended = Instant::now();
        lock(&tickets.0).values_mut().for_each(|ticket| ticket.ends = ended);
        let late = *lock(&tickets.0).keys().next().unwrap();
        assert_eq!(tickets.take(&late, "v", &path("a")), None);
        assert!(issue().is_ok() && lock(&tickets.0).len() == 1);
    }
}
