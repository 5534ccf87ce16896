//! The line after each round of a watch: the time, the work done, and the state.

use std::time::SystemTime;

use deltic_net::{Outcome, SyncError};
use indicatif::{HumanBytes, HumanCount};

use super::confirm;
use crate::report::exit::Exit;
use crate::report::numbers::counted;
use crate::report::summary::duration;
use crate::words::zone::Zone;

/// The end of a round.
pub(super) struct RoundEnd<'a> {
    pub(super) number: u64,
    pub(super) result: &'a Result<Outcome, SyncError>,
    pub(super) exit: Exit,
    /// Names to be removed that wait for a confirmation.
    pub(super) held: u64,
}

/// Returns the line for a round; `None` for a later round without changes.
pub(super) fn line(round: &RoundEnd<'_>, zone: &Zone, now: SystemTime) -> Option<String> {
    let RoundEnd { number, result, exit, held } = *round;
    let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let time = zone.format_time(since.as_secs() as i64);
    let done = match result {
        Ok(outcome) if number > 1 && exit == Exit::Success && is_idle(outcome) => return None,
        Ok(outcome) => format!(": {}", transfer_counts(outcome)),
        Err(_) => format!(" failed (code {})", exit.code()),
    };
    let stands = match exit {
        _ if result.is_err() => "trying again".to_owned(),
        Exit::Success if held == 0 => "waiting for changes".to_owned(),
        Exit::DeleteLimit if held == 0 => "deletions are held back".to_owned(),
        Exit::Success | Exit::DeleteLimit => waiting(held),
        Exit::Partial => "trying the failed names again (code 23)".to_owned(),
        Exit::Vanished => "trying the vanished and changed names again (code 24)".to_owned(),
        exit => format!("trying again (code {})", exit.code()),
    };
    Some(format!("{time} round {}{done}; {stands}", HumanCount(number)))
}

/// Returns the text for names that wait for the user's confirmation.
pub(super) fn waiting(held: u64) -> String {
    let wait = if held == 1 { "waits" } else { "wait" };
    format!("{} {wait} for `{}`", counted(held, "name"), confirm::command())
}

fn is_idle(Outcome { totals, .. }: &Outcome) -> bool {
    totals.created == 0 && totals.transferred == 0 && totals.deleted == 0
}

fn transfer_counts(Outcome { totals, traffic, elapsed, .. }: &Outcome) -> String {
    format!(
        "{} transferred, {} removed, {} sent in {}",
        counted(totals.transferred, "file"),
        counted(totals.deleted, "name"),
        HumanBytes(traffic.sent),
        duration(*elapsed),
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use deltic_net::Traffic;
    use deltic_protocol::report::Totals;

    #[test]
    fn a_round_says_when_it_ended_and_what_it_did() {
        let outcome = |transferred| Outcome {
            totals: Totals { transferred, deleted: 2, ..Totals::default() },
            traffic: Traffic { sent: 2048, received: 9 },
            elapsed: Duration::from_millis(310),
            ..Outcome::default()
        };
        let (zone, at) = (Zone::utc(), SystemTime::UNIX_EPOCH + Duration::from_secs(86_400));
        let shown = |number, result, exit, held| {
            line(&RoundEnd { number, result: &result, exit, held }, &zone, at)
        };
        let told = |number, result, exit| shown(number, result, exit, 0);
        assert_eq!(
            told(2, Ok(outcome(1)), Exit::Success).as_deref(),
            Some(
                "1970/01/02 00:00:00 round 2: 1 file transferred, 2 names removed, 2.00 KiB sent in 0.31 s; \
                 waiting for changes"
            )
        );
        assert_eq!(
            told(3, Err(SyncError::Silence), Exit::Timeout).as_deref(),
            Some("1970/01/02 00:00:00 round 3 failed (code 30); trying again")
        );
        assert_eq!(told(4, Ok(Outcome::default()), Exit::Success), None);
        assert!(told(1, Ok(Outcome::default()), Exit::Success).is_some());
        let held = shown(2, Ok(outcome(1)), Exit::Success, 7).unwrap();
        assert!(held.contains("; 7 names wait for `") && held.ends_with("deltic watch --confirm`"));
    }
}
