//! NetSync's figures.

use super::super::claims::Claim;
use super::super::hashes;
use super::super::view::{Quantity, SyncView};
use super::item::{PaperItem, Redraw, figure, table};
use crate::sync::settings::Factor;

/// Returns the rows of NetSync.
pub(super) fn items() -> Vec<PaperItem> {
    let mut items: Vec<_> = SKETCHES.map(|(no, shows)| figure(no, shows, Redraw::Sketch)).into();
    items.extend([
        figure(
            10,
            "time of WebRsync, WebR2sync+, dsync and NetSync on an inverted file",
            first_look(),
        ),
        figure(11, "uniformity of weak sums, by chi-square", Redraw::Own(hashes::uniformity)),
        figure(12, "bytes on the wire with merged matches, to those without", merging()),
        figure(13, "number of compared weak and strong sums", comparisons()),
        figure(14, "time of the client by bandwidth", client()),
        figure(15, "time by compressor", compressors()),
        figure(16, "time by mean chunk and bandwidth", chunk_lengths()),
        figure(17, "time with chunks chosen by bandwidth, to dsync", chosen_chunks()),
        figure(18, "time split into client, network and server", waiting()),
        figure(19, "processor time of a server by clients", Redraw::Elsewhere(SERVE)),
        figure(20, "time for files of 1 GB at 1 Gbit/s", large()),
        table(1, "which services have delta sync", Redraw::Sketch),
        table(2, "speed of weak sums by chunk length", Redraw::Own(hashes::weak_speeds)),
        table(3, "time for four real sets by bandwidth, on a PC and a phone", releases()),
    ]);
    items
}

fn sync(view: SyncView) -> Redraw {
    Redraw::Sync(Box::new(view))
}

fn time() -> Quantity {
    Quantity::millis("time of a sync", &["wall_s"])
}

fn first_look() -> Redraw {
    sync(SyncView::new(&["netsync"], time(), SYSTEMS).kinds(&["inverse"]).beside(&["deltic"]))
}

fn merging() -> Redraw {
    let tokens = Quantity::kilobytes(
        "bytes on the wire, both ways, at a mean chunk of 8 KiB",
        &["up_bytes", "down_bytes"],
    );
    let paper = "70 to 80 % at small edits, towards 0 % at 1 MB";
    sync(SyncView::new(&["netsync-8k"], tokens, &["netsync", "dsync"]).claim(Claim::less(
        "saved by merging",
        paper,
        "netsync",
        "dsync",
    )))
}

fn comparisons() -> Redraw {
    let strong = Quantity::count(
        "compared strong sums",
        &["sender_strong_compared", "receiver_strong_compared"],
    );
    sync(SyncView::new(&["netsync"], strong, WITH_OTHER_SUMS))
}

fn client() -> Redraw {
    let sender = Quantity::millis("processor time of the sender", &["sender_cpu_s"]);
    sync(
        SyncView::new(&["netsync"], sender, WITH_OTHER_SUMS)
            .beside(&["deltic"])
            .claim(Claim::times("faster than WebR2sync+", "everywhere", "netsync", "webr2sync+"))
            .claim(Claim::times("faster than dsync", "1 at 10 Mbit/s", "netsync", "dsync")),
    )
}

fn compressors() -> Redraw {
    let runs = ["netsync-codec-own", "netsync-codec-none", "netsync-codec-zstd"];
    let own = "netsync, the system's own";
    sync(
        SyncView::new(&runs, time(), SYSTEMS)
            .studies(&[Factor::Codec])
            .claim(Claim::times(
                "to WebR2sync+ without compressor",
                "1 to 2.19×",
                own,
                "webr2sync+, none",
            ))
            .claim(Claim::times("to dsync without compressor", "1 to 1.57×", own, "dsync, none"))
            .claim(Claim::times("to dsync, both compressed", "1 to 1.57×", own, "dsync, zstd 6")),
    )
}

fn chunk_lengths() -> Redraw {
    let runs = ["netsync-512", "netsync-1k", "netsync-2k", "netsync-8k-links"];
    sync(SyncView::new(&runs, time(), &["netsync"]).studies(&[Factor::Chunks]))
}

fn chosen_chunks() -> Redraw {
    sync(SyncView::new(&["netsync"], time(), &["netsync", "dsync"]).claim(Claim::times(
        "faster than dsync",
        "more at coarse edits and fast links",
        "netsync",
        "dsync",
    )))
}

fn waiting() -> Redraw {
    let waiting = Quantity::share("time in which both ends wait", &["waiting_s"], &["wall_s"]);
    sync(SyncView::new(&["netsync"], waiting, SYSTEMS))
}

fn large() -> Redraw {
    sync(
        SyncView::new(&["netsync-large"], time(), SYSTEMS)
            .beside(&["deltic"])
            .claim(Claim::times("faster than dsync", "1.25 to 1.4×", "netsync", "dsync"))
            .claim(Claim::times("faster than WebR2sync+", "3 to 10×", "netsync", "webr2sync+")),
    )
}

fn releases() -> Redraw {
    sync(
        SyncView::new(&["netsync-release"], time(), SYSTEMS)
            .beside(&["deltic"])
            .claim(Claim::times("faster than WebR2sync+", "1.78 to 5.26×", "netsync", "webr2sync+"))
            .claim(Claim::times("faster than dsync", "1.0 to 1.7×", "netsync", "dsync")),
    )
}

const SYSTEMS: &[&str] = &["netsync", "dsync", "webr2sync+"];
/// The systems, and NetSync with the weak sums that the paper compares.
const WITH_OTHER_SUMS: &[&str] = &["netsync", "netsync-16", "netsync-last", "dsync", "webr2sync+"];
const SKETCHES: [(u8, &str); 9] = [
    (1, "steps of rsync"),
    (2, "steps of WebR2sync+"),
    (3, "content-defined chunks"),
    (4, "parts of NetSync"),
    (5, "how FastFP follows from the hash of FastCDC"),
    (6, "its protocol, without confirmation of each chunk"),
    (7, "merging of adjacent matches"),
    (8, "steps of the module that adapts to the network"),
    (9, "its whole protocol"),
];
const SERVE: &str = "deltic-bench serve --load simple --clients 100: the server's processor time of each sync by \
                     strategy (docs/figures.md)";
