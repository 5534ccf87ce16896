//! SkySync's figures.

use super::super::claims::Claim;
use super::super::view::{Quantity, SyncView};
use super::super::{hash_tables, stored};
use super::item::{PaperItem, Redraw, figure, table};

/// Returns the rows of SkySync.
pub(super) fn items() -> Vec<PaperItem> {
    let client = "time of the client for inserted, cut and inverted bytes";
    vec![
        figure(1, "steps of rsync", Redraw::Sketch),
        figure(2, "steps of dsync", Redraw::Sketch),
        figure(3, "share of sums and search in the time of rsync and dsync", shares()),
        figure(4, "parts of SkySync", Redraw::Sketch),
        figure(5, "weak sums of windows and chunks from sums of blocks", Redraw::Sketch),
        figure(6, "its hash table", Redraw::Own(hash_tables::hash_tables)),
        figure(7, client, sync(sender("skysync-10"))),
        figure(8, "the same for a file of 100 MB", sync(sender("skysync-100"))),
        figure(9, "time of the client for unmodified files", Redraw::Own(stored::kept_sums)),
        figure(10, "time of the server for inserted bytes, 10 MB", receiver("skysync-10")),
        figure(11, "time of the server for inserted bytes, 100 MB", receiver("skysync-100")),
        figure(12, "time of a sync at 100 and 500 Mbit/s", total()),
        figure(13, "time of sums and of search, 100 MB", sums()),
        figure(14, "time for five real sets by 1 to 8 threads", Redraw::NotHere(THREADS)),
        figure(15, "time of client and server for five real sets, one thread", release()),
        figure(16, "the same with vector instructions", Redraw::Elsewhere(VECTORS)),
        figure(17, "bytes on the wire for five real sets", traffic()),
        figure(18, "time to read sums from the storage layer", Redraw::Own(stored::extraction)),
        table(1, "which storage systems keep which sums", Redraw::Elsewhere("docs/storage.md")),
        table(2, "the five sets", Redraw::Sketch),
    ]
}

fn sync(view: SyncView) -> Redraw {
    Redraw::Sync(Box::new(view))
}

fn shares() -> Redraw {
    let share = Quantity::share(
        "share of sums and search (scan, sum, search) in the processor time of both ends",
        &[
            "sender_scan_cpu_s",
            "sender_sum_cpu_s",
            "sender_search_cpu_s",
            "receiver_scan_cpu_s",
            "receiver_sum_cpu_s",
            "receiver_search_cpu_s",
        ],
        &["sender_cpu_s", "receiver_cpu_s"],
    );
    sync(
        SyncView::new(&["skysync-100"], share, &["rsync", "dsync"])
            .kinds(&["insert"])
            .claim(Claim::value("sums and search in rsync", "up to 95 %", "rsync"))
            .claim(Claim::value("sums and search in dsync", "up to 95 %", "dsync")),
    )
}

fn sender(run: &'static str) -> SyncView {
    let cpu = Quantity::millis("processor time of the sender", &["sender_cpu_s"]);
    SyncView::new(&[run], cpu, SYSTEMS)
        .beside(&["deltic"])
        .claim(Claim::times("F faster than rsync", "1.2 to 2.0×", "skysync-f", "rsync"))
        .claim(Claim::times("C faster than dsync", "1.3 to 1.7×", "skysync-c", "dsync"))
}

fn receiver(run: &'static str) -> Redraw {
    let cpu = Quantity::millis("processor time of the receiver", &["receiver_cpu_s"]);
    sync(
        SyncView::new(&[run], cpu, SYSTEMS)
            .kinds(&["insert"])
            .beside(&["deltic"])
            .claim(Claim::less("F less than rsync", "up to 89.3 %", "skysync-f", "rsync"))
            .claim(Claim::less("C less than dsync", "up to 89.3 %", "skysync-c", "dsync")),
    )
}

fn total() -> Redraw {
    let wall = Quantity::millis("time of a sync", &["wall_s"]);
    let small = "26.7 to 72.1 % at small edits";
    sync(
        SyncView::new(&["skysync-links"], wall, SYSTEMS)
            .beside(&["deltic"])
            .claim(Claim::less("F less than rsync", small, "skysync-f", "rsync"))
            .claim(Claim::less("F less than dsync", small, "skysync-f", "dsync"))
            .claim(Claim::less("C less than dsync", "-", "skysync-c", "dsync")),
    )
}

fn sums() -> Redraw {
    let sums = Quantity::millis(
        "processor time of sums (scan, sum) at both ends",
        &["sender_scan_cpu_s", "sender_sum_cpu_s", "receiver_scan_cpu_s", "receiver_sum_cpu_s"],
    );
    sync(
        SyncView::new(&["skysync-100"], sums, SYSTEMS)
            .kinds(&["insert"])
            .claim(Claim::less("F less than rsync", "23.4 to 88.3 %", "skysync-f", "rsync"))
            .claim(Claim::less("C less than dsync", "24.5 to 33.6 %", "skysync-c", "dsync")),
    )
}

fn release() -> Redraw {
    let cpu = Quantity::millis("processor time of both ends", &["sender_cpu_s", "receiver_cpu_s"]);
    sync(
        SyncView::new(&["skysync-release"], cpu, SYSTEMS)
            .beside(&["deltic"])
            .claim(Claim::less("F less than rsync", "19.2 to 43.7 %", "skysync-f", "rsync"))
            .claim(Claim::less("C less than dsync", "19.2 to 43.7 %", "skysync-c", "dsync")),
    )
}

fn traffic() -> Redraw {
    let bytes = Quantity::kilobytes("bytes on the wire, both ways", &["up_bytes", "down_bytes"]);
    sync(
        SyncView::new(&["skysync-release"], bytes, SYSTEMS)
            .beside(&["deltic"])
            .claim(Claim::less("F less than rsync", "slightly more", "skysync-f", "rsync"))
            .claim(Claim::less("C less than dsync", "slightly more", "skysync-c", "dsync")),
    )
}

const SYSTEMS: &[&str] = &["rsync", "dsync", "skysync-f", "skysync-c"];
const THREADS: &str = "Deltic's presets rsync and dsync have one thread, so no table of several threads is equal; one \
                       thread: figure 15";
const VECTORS: &str = "figures 7 to 15 are with vector instructions here; DELTIC_ISA=scalar deltic-bench papers --only \
                       skysync is without";
