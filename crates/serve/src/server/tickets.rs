//! Tickets: secrets for reading one file within a short time, once or as a preview. A link in a page carries a ticket
//! instead of a token, because links stay in histories and logs.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use deltic_tree::RelPath;

use super::problem::Problem;
use crate::lock;
use crate::token::{Token, TokenHash, new_token};

/// Lifetime of a ticket for one read.
const ONCE_LIFE: Duration = Duration::from_secs(60);
/// Lifetime of a ticket for a preview.
const PREVIEW_LIFE: Duration = Duration::from_secs(60 * 60);
/// Most valid tickets at once.
const MAX_TICKETS: usize = 10_000;
/// Most valid tickets of a chain of tokens at once.
const MAX_OF_TOKEN: usize = 200;

/// The valid tickets, by hash.
#[derive(Debug, Default)]
pub(crate) struct Tickets(Mutex<HashMap<TokenHash, Ticket>>);

/// Requests that a ticket permits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TicketUse {
    /// One read.
    #[default]
    Once,
    /// Reads of many ranges, as a player of audio or video makes.
    Preview,
}

impl TicketUse {
    /// Returns the lifetime of a ticket.
    pub(crate) const fn life(self) -> Duration {
        match self {
            Self::Once => ONCE_LIFE,
            Self::Preview => PREVIEW_LIFE,
        }
    }
}

#[derive(Debug)]
struct Ticket {
    good_for: TicketUse,
    /// The token that asked for the ticket.
    token: TokenHash,
    /// The first token in the chain of makers.
    first: TokenHash,
    volume: String,
    path: RelPath,
    ends: Instant,
}

impl Ticket {
    fn is_for(&self, volume: &str, path: &RelPath) -> bool {
        self.ends > Instant::now() && self.volume == volume && self.path == *path
    }
}

impl Tickets {
    /// Makes a ticket for a file of a volume, for a token and the first token in its chain of makers.
    pub(crate) fn issue(
        &self,
        [token, first]: [TokenHash; 2],
        volume: String,
        path: RelPath,
        good_for: TicketUse,
    ) -> Result<Token, Problem> {
        let now = Instant::now();
        let mut all = lock(&self.0);
        all.retain(|_, ticket| ticket.ends > now);
        let its = all.values().filter(|ticket| ticket.first == first).count();
        if all.len() >= MAX_TICKETS || its >= MAX_OF_TOKEN {
            return Err(Problem::busy("too many tickets at once; try again in a moment"));
        }
        let ticket = new_token();
        let ends = now + good_for.life();
        all.insert(ticket.hash(), Ticket { good_for, token, first, volume, path, ends });
        Ok(ticket)
    }

    /// Returns the token that asked for a ticket, and the requests that the ticket permits, if the ticket is for this
    /// file.
    pub(crate) fn find(
        &self,
        ticket: &TokenHash,
        volume: &str,
        path: &RelPath,
    ) -> Option<(TokenHash, TicketUse)> {
        let all = lock(&self.0);
        let found = all.get(ticket).filter(|it| it.is_for(volume, path))?;
        Some((found.token, found.good_for))
    }

    /// Uses a ticket, if the ticket is for this file; a ticket for one read is used up. Returns the requests that the
    /// ticket permits.
    pub(crate) fn take(
        &self,
        ticket: &TokenHash,
        volume: &str,
        path: &RelPath,
    ) -> Option<TicketUse> {
        let mut all = lock(&self.0);
        let good_for = all.get(ticket).filter(|it| it.is_for(volume, path))?.good_for;
        if good_for == TicketUse::Once {
            all.remove(ticket);
        }
        Some(good_for)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_for_one_file_and_one_time() {
        let (tickets, token) = (Tickets::default(), new_token().hash());
        let path = |text: &str| RelPath::parse(text.as_bytes()).unwrap();
        let ticket =
            tickets.issue([token; 2], "v".into(), path("a"), TicketUse::Once).unwrap().hash();
        assert_eq!(tickets.take(&ticket, "v", &path("b")), None);
        assert_eq!(tickets.take(&ticket, "w", &path("a")), None);
        for _ in 0..2 {
            assert_eq!(tickets.find(&ticket, "v", &path("a")), Some((token, TicketUse::Once)));
        }
        assert_eq!(tickets.take(&ticket, "v", &path("a")), Some(TicketUse::Once));
        assert_eq!(tickets.find(&ticket, "v", &path("a")), None);
        assert_eq!(tickets.take(&ticket, "v", &path("a")), None);
        let issue = || tickets.issue([token; 2], "v".into(), path("a"), TicketUse::Preview);
        let preview = issue().unwrap().hash();
        for _ in 0..3 {
            let used = tickets.take(&preview, "v", &path("a"));
            assert_eq!(used, Some(TicketUse::Preview));
        }
        assert_eq!(tickets.take(&preview, "v", &path("b")), None);
        assert!((1..MAX_OF_TOKEN).all(|_| issue().is_ok()) && issue().is_err());
        let ended = Instant::now();
        lock(&tickets.0).values_mut().for_each(|ticket| ticket.ends = ended);
        let late = *lock(&tickets.0).keys().next().unwrap();
        assert_eq!(tickets.take(&late, "v", &path("a")), None);
        assert!(issue().is_ok() && lock(&tickets.0).len() == 1);
    }
}
