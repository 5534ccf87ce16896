//! Sessions of pages: tokens that stand in for the starter's token and outlive the server.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{Access, Refusal};
use crate::server::grant::Grant;
use crate::server::token_file::GrantRecords;
use crate::token::{Token, TokenHash, new_token};

/// Name of the tokens of sessions.
const NAME: &str = "page";
/// Time after which an unused session ends.
const LIFE: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Shortest time between two extensions of a session.
const EXTEND_EVERY: Duration = Duration::from_secs(24 * 60 * 60);
/// Most sessions at once.
const MAX_SESSIONS: usize = 100;

/// The result of [`Access::keep_session`]: a token that outlives the server.
#[derive(Debug)]
pub(crate) struct Session {
    /// The new token, or `None` if the present token stays in use.
    pub(crate) token: Option<Token>,
    /// Expiry in seconds since 1970; `None` for no expiry.
    pub(crate) expires: Option<u64>,
}

impl Access {
    /// Makes a session for the starter's token, or extends a session. Other tokens last as long as their makers
    /// decided.
    pub(crate) fn keep_session(
        &self,
        token: &TokenHash,
        grant: &Grant,
        now: SystemTime,
    ) -> Result<Session, Refusal> {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let expires = now.saturating_add(LIFE.as_secs());
        let is_starter = self.is_starter(token);
        // A clock that was ahead once has made a session too long: the next use makes the session shorter.
        let is_fresh = |end| end <= expires && end + EXTEND_EVERY.as_secs() > expires;
        if !is_starter && (grant.session.is_none() || grant.expires.is_none_or(is_fresh)) {
            return Ok(Session { token: None, expires: grant.expires });
        }
        let _held = self.file.hold().map_err(Refusal::Io)?;
        let mut records = self.file.records().map_err(Refusal::Io)?;
        let mut made = None;
        if is_starter {
            make_room(&mut records, now)?;
            let session = Some(self.served.clone());
            let grant = Grant {
                session,
                admin: true,
                expires: Some(expires),
                ..Grant::with_all_rights(NAME)
            };
            let token = made.insert(new_token());
            records.insert(token.hash().to_string(), grant.into());
        } else {
            let record = records.get_mut(&token.to_string()).ok_or(Refusal::Ended)?;
            record.expires = Some(expires);
        }
        self.file.write(&records).map_err(Refusal::Io)?;
        self.look();
        Ok(Session { token: made, expires: Some(expires) })
    }
}

/// Makes room for one more session: at the limit, removes sessions that have expired at `now`.
fn make_room(records: &mut GrantRecords, now: u64) -> Result<(), Refusal> {
    let sessions =
        |records: &GrantRecords| records.values().filter(|it| it.session.is_some()).count();
    if sessions(records) >= MAX_SESSIONS {
        let has_ended = |end: u64| now >= end;
        records.retain(|_, it| !(it.session.is_some() && it.expires.is_some_and(has_ended)));
    }
    if sessions(records) >= MAX_SESSIONS { Err(Refusal::TooMany) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::grant::Grants;
    use crate::server::token_file::TokenFile;

    #[test]
    fn a_session_is_extended_by_use_and_the_number_of_sessions_has_a_bound() {
        let dir = tempfile::tempdir().unwrap();
        let starter = new_token().hash();
        let file = TokenFile::of(dir.path());
        let other =
            file.add(Grant { expires: Some(7), ..Grant::with_all_rights("other") }).unwrap().hash();
        let of = |volumes: &str| {
            let file = TokenFile::of(dir.path());
            Access::new(file, Some(starter), Grants::new(), volumes.into()).unwrap()
        };
        let access = of("photos");
        let day = |day: u64| UNIX_EPOCH + EXTEND_EVERY * u32::try_from(20_000 + day).unwrap();
        let ends = |token: &TokenHash| {
            access.find_at(token, Some(day(0))).and_then(|it| it.grant.expires).unwrap()
        };
        let keep = |token: &TokenHash, at: u64| {
            let grant = access.find_at(token, Some(UNIX_EPOCH)).map(|it| it.grant);
            access.keep_session(token, &grant.unwrap(), day(at))
        };
        let session = keep(&starter, 0).unwrap().token.unwrap().hash();
        let first = ends(&session);
        assert!(access.find_at(&session, Some(day(29))).is_some(), "it lasts for 30 days");
        assert!(of("photos").find_at(&session, Some(day(29))).is_some(), "it outlives the server");
        assert!(
            of("private").find_at(&session, Some(day(29))).is_none(),
            "these are other volumes"
        );
        assert!(access.find_at(&session, Some(day(30))).is_none());
        assert!(keep(&session, 0).unwrap().token.is_none());
        assert_eq!(ends(&session), first, "it was extended on this day already");
        assert!(keep(&session, 10).unwrap().token.is_none());
        assert_eq!(ends(&session), first + 10 * EXTEND_EVERY.as_secs());
        assert_eq!(keep(&other, 0).unwrap().expires, Some(7), "its maker decided");
        let all = (1..).map_while(|_| keep(&starter, 10).ok()).count();
        assert_eq!(all, MAX_SESSIONS - 1);
        assert!(keep(&starter, 39).is_err(), "none has expired");
        assert!(keep(&starter, 40).is_ok(), "all have");
        assert!(access.find_at(&session, Some(UNIX_EPOCH)).is_none());
        assert!(access.find_at(&other, Some(UNIX_EPOCH)).is_some());
    }
}
