//! Round trips that sessions measure, and the gentle rate, over a simulated link with a long queue.
#![expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "makes and looks at trees")]

mod common;

use std::time::Duration;

use common::{noise, plan};
use deltic_core::strategy::LinkModel;
use deltic_net::embed::Outcome;
use deltic_net::plan::{Destination, Plan};
use deltic_net::rates::RateLimits;
use deltic_net::rehearsal::{Rehearsal, rehearse};
use deltic_protocol::options::Options;

const LINK: LinkModel =
    LinkModel { bits_per_second: 20_000_000, round_trip: Duration::from_millis(30) };

/// Sends `bytes` of noise over the link.
fn sent(bytes: usize, gentle: bool) -> Outcome {
    let trees = tempfile::tempdir().unwrap();
    std::fs::create_dir(trees.path().join("a")).unwrap();
    let new = noise(bytes, 1);
    std::fs::write(trees.path().join("a/file"), &new).unwrap();
    let options = Options { recursive: true, durable: false, ..Options::default() };
    let to = Destination::Local(trees.path().join("b"));
    let limits = RateLimits { table: None, gentle };
    let plan = Plan { limits, ..plan(trees.path().join("a").join(""), to, options) };
    let rehearsal = Rehearsal { link: Some(LINK) };
    let outcome = rehearse(&plan, rehearsal, &mut |_| ()).unwrap().outcome;
    assert!(std::fs::read(trees.path().join("b/file")).unwrap() == new);
    outcome
}

#[test]
fn a_gentle_sender_keeps_the_queue_short() {
    let (plain, gentle) = (sent(8 << 20, false), sent(8 << 20, true));
    let [filled, short] = [plain, gentle].map(|outcome| outcome.link.round_trip.unwrap());
    assert!(filled.current > 2 * LINK.round_trip + Duration::from_millis(10), "{filled:?}");
    assert!(short.current <= 2 * LINK.round_trip + Duration::from_millis(10), "{short:?}");
    assert!(short.idle >= LINK.round_trip / 2 && short.samples >= 10, "{short:?}");
}

#[test]
fn a_short_session_pays_nothing_for_round_trips() {
    let outcome = sent(10_000, false);
    assert_eq!(outcome.link.round_trip, None);
}
