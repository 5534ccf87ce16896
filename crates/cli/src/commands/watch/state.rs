//! The line after each round of a watch: the time, the work done, and the state.

use std::time::{Duration, SystemTime};

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
    /// Time until failed names, or the failed round, are tried again.
    pub(super) next_try: Option<Duration>,
}

/// Returns the line for a round; `None` for a later round without changes.
pub(super) fn line(round: &RoundEnd<'_>, zone: &Zone, now: SystemTime) -> Option<String> {
    let RoundEnd { number, result, exit, held, next_try } = *round;
    let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let time = zone.format_time(since.as_secs() as i64);
    let done = match result {
        Ok(outcome) if number > 1 && exit == Exit::Success && is_idle(outcome) => return None,
        Ok(outcome) => format!(": {}", transfer_counts(outcome)),
        Err(_) => format!(" failed (exit code {})", exit.code()),
    };
    let stands = match exit {
        _ if result.is_err() => format!("next try{}", time_left(next_try)),
        Exit::Success if held == 0 => "waiting for changes".to_owned(),
        Exit::DeleteLimit if held == 0 => "deletions are held back".to_owned(),
        Exit::Success | Exit::DeleteLimit => waiting(held),
        Exit::Partial => {
            format!("next try of the failed names{} (exit code 23)", time_left(next_try))
        }
        Exit::Vanished => {
            let names = "next try of the vanished and changed names";
            format!("{names}{} (exit code 24)", time_left(next_try))
        }
        exit => format!("next try{} (exit code {})", time_left(next_try), exit.code()),
    };
    Some(format!("{time} round {}{done}; {stands}", HumanCount(number)))
}

/// Returns ` in N s`, or nothing without a time.
fn time_left(time: Option<Duration>) -> String {
    time.map_or_else(String::new, |time| format!(" in {} s", time.as_millis().div_ceil(1000)))
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
            let next_try = Some(Duration::from_millis(1990));
            line(&RoundEnd { number, result: &result, exit, held, next_try }, &zone, at)
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
            Some("1970/01/02 00:00:00 round 3 failed (exit code 30); next try in 2 s")
        );
        let partial = told(4, Ok(outcome(1)), Exit::Partial).unwrap();
        assert!(
            partial.ends_with("; next try of the failed names in 2 s (exit code 23)"),
            "{partial}"
        );
        assert_eq!(told(4, Ok(Outcome::default()), Exit::Success), None);
        assert!(told(1, Ok(Outcome::default()), Exit::Success).is_some());
        let held = shown(2, Ok(outcome(1)), Exit::Success, 7).unwrap();
        assert!(held.contains("; 7 names wait for `") && held.ends_with("deltic watch --confirm`"));
    }
}
