//! WebR2sync+'s figures.

use super::super::claims::Claim;
use super::super::strong_sums::strong_sums;
use super::super::view::{Quantity, SyncView};
use super::item::{PaperItem, Redraw, figure, table};
use crate::sync::settings::Factor;

/// Returns the rows of WebR2sync+.
pub(super) fn items() -> Vec<PaperItem> {
    let mut items = vec![
        figure(1, "steps of WebRsync", Redraw::Sketch),
        figure(2, "time of WebRsync by bytes of the edit", Redraw::Elsewhere(LAB)),
        figure(
            3,
            "time of rsync and WebRsync split by step; processor of the client",
            Redraw::Elsewhere(LAB),
        ),
        figure(4, "stagnation of the browser, by StagMeter", Redraw::Elsewhere(LAB)),
        figure(5, "time of WebRsync with a native client", Redraw::Elsewhere(LAB)),
        figure(6, "time of WebRsync with web workers", Redraw::Elsewhere(LAB)),
        figure(7, "stagnation with web workers", Redraw::Elsewhere(LAB)),
        figure(8, "time of WebRsync with the server's improvements", Redraw::Elsewhere(LAB)),
        figure(9, "the same, split by step", Redraw::Elsewhere(LAB)),
        figure(10, "steps of WebR2sync", Redraw::Sketch),
        figure(11, "the search in three levels", Redraw::Sketch),
        figure(12, "sub-edits of an edit", Redraw::Sketch),
        figure(13, "sub-edits of one save in two traces", Redraw::NotHere(TRACES)),
        figure(14, "places of client and server", Redraw::Sketch),
        figure(15, "sub-edits of files between two releases of Linux", Redraw::NotHere(SUB_EDITS)),
        figure(16, "time of a sync by bytes of the edit", times()),
        figure(17, "time split into client, network and server", computing()),
        figure(
            18,
            "processor of the client",
            cpu("processor time of the sender", &["sender_cpu_s"]),
        ),
        figure(
            19,
            "processor of the server",
            cpu("processor time of the receiver", &["receiver_cpu_s"]),
        ),
        figure(20, "bytes on the wire by bytes of the edit", traffic()),
        figure(21, "clients of a server, an edit each 10 s", Redraw::Elsewhere(REGULAR)),
        figure(
            22,
            "clients of a server, releases of Linux file by file",
            Redraw::Elsewhere(INTENSIVE),
        ),
    ];
    items.push(table(1, "which services have delta sync", Redraw::Sketch));
    items.push(table(2, "collisions and cycles a byte of hashes", Redraw::Own(strong_sums)));
    items
}

fn sync(view: SyncView) -> Redraw {
    Redraw::Sync(Box::new(view))
}

/// The paper's own change of hash is studied here; figures 17 to 19 have one hash.
fn times() -> Redraw {
    let wall = Quantity::millis("time of a sync", &["wall_s"]);
    let [plus, first] = ["webr2sync+, siphash-2-4", "webr2sync, md5"];
    sync(
        SyncView::new(&["webr2sync"], wall, SYSTEMS)
            .studies(&[Factor::Hash])
            .beside(&["deltic"])
            .claim(Claim::times("+ faster than WebR2sync", "2 to 3×", plus, first))
            .claim(Claim::times("+ faster than rsync", "near rsync", plus, "rsync, md5")),
    )
}

fn computing() -> Redraw {
    let share = Quantity::share(
        "share of the receiver in the processor time of both ends",
        &["receiver_cpu_s"],
        &["sender_cpu_s", "receiver_cpu_s"],
    );
    sync(SyncView::new(&["webr2sync-equal"], share, SYSTEMS).claim(Claim::value(
        "share of the server in WebR2sync+",
        "most",
        "webr2sync+",
    )))
}

fn cpu(name: &'static str, columns: &'static [&'static str]) -> Redraw {
    let time = Quantity::millis(name, columns);
    let claim =
        Claim::less("+ less than WebR2sync, one hash", "least of all", "webr2sync+", "webr2sync");
    sync(SyncView::new(&["webr2sync-equal"], time, SYSTEMS).claim(claim))
}

fn traffic() -> Redraw {
    let bytes = Quantity::kilobytes("bytes on the wire, both ways", &["up_bytes", "down_bytes"]);
    let plus = "webr2sync+, siphash-2-4";
    sync(
        SyncView::new(&["webr2sync"], bytes, SYSTEMS)
            .studies(&[Factor::Hash])
            .beside(&["deltic"])
            .claim(Claim::value("WebR2sync+", "1 to 120 kB", plus)),
    )
}

const SYSTEMS: &[&str] = &["rsync", "webr2sync", "webr2sync+"];
const LAB: &str =
    "tools/web.sh bench lab: the lab of the page, without a visitor (docs/manual/lab.md)";
const TRACES: &str = "the traces of Word and WeChat are not public";
const SUB_EDITS: &str = "no tool here counts sub-edits of file pairs yet";
const REGULAR: &str =
    "deltic-bench serve --load simple --clients 100 --period 1 --plot DIR (docs/figures.md)";
const INTENSIVE: &str =
    "deltic-bench serve --load intensive --clients 40 --plot DIR (docs/figures.md)";
