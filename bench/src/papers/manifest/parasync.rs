//! ParaSync's figures.

use super::super::claims::Claim;
use super::super::hashes;
use super::super::view::{Quantity, SyncView};
use super::item::{PaperItem, Redraw, figure, table};
use crate::sync::settings::Factor;

/// Returns the rows of ParaSync.
pub(super) fn items() -> Vec<PaperItem> {
    let mut items = vec![
        figure(1, "steps of dsync", Redraw::Sketch),
        figure(2, "the rolling window of a chunker", Redraw::Sketch),
        figure(
            3,
            "share of the chunker in the time of dsync, over a WAN and a LAN",
            chunker_share(),
        ),
        figure(4, "why segments cut by threads have other boundaries", Redraw::Sketch),
        figure(
            5,
            "shares of matching and reconstruction once the chunker costs nothing",
            other_shares(),
        ),
        figure(6, "steps of rsync that overlap", Redraw::Sketch),
        figure(7, "parts of ParaSync", Redraw::Sketch),
        figure(8, "two stages of its chunker", Redraw::Sketch),
        figure(9, "its table of weak sums", Redraw::Sketch),
        figure(10, "how many chunks share a weak sum", Redraw::Own(hashes::shared_weak_sums)),
    ];
    let sketches = [
        (11, "steps of matching by threads"),
        (12, "steps of reconstruction, one after the other"),
        (13, "reconstruction that overlaps in part"),
        (14, "matching that makes commands at once"),
        (15, "reconstruction that overlaps"),
    ];
    items.extend(sketches.map(|(no, shows)| figure(no, shows, Redraw::Sketch)));
    items.extend([
        figure(16, "time of chunking by 2 to 16 threads, split by stage", chunking()),
        figure(17, "speed of chunking by 8 threads", Redraw::Elsewhere(PARALLEL)),
        figure(18, "time of matching at both ends by 2 to 16 threads", matching()),
        figure(19, "time of matching with the wire", Redraw::NotHere(OVERLAP)),
        figure(20, "time of reconstruction", reconstruction()),
        figure(21, "bytes on the wire", traffic()),
        figure(22, "time of a sync over a WAN and a LAN", whole()),
        table(1, "which systems have which kind of parallel work", Redraw::Sketch),
    ]);
    items
}

fn sync(view: SyncView) -> Redraw {
    Redraw::Sync(Box::new(view))
}

fn chunker_share() -> Redraw {
    let share = Quantity::share(
        "share of cutting alone in the processor time of a sync",
        &["new_cut_cpu_s", "old_cut_cpu_s"],
        &["cpu_s"],
    );
    let paper = "49.5 to 75.1 % of the time";
    sync(SyncView::new(&["parasync-links"], share, &["dsync"]).claim(Claim::value(
        "share of the chunker in dsync",
        paper,
        "dsync",
    )))
}

fn other_shares() -> Redraw {
    let share = Quantity::share(
        "share of matching (decide, sum) and reconstruction (read, write) in the processor time without scans",
        &[
            "sender_decide_cpu_s",
            "sender_sum_cpu_s",
            "receiver_decide_cpu_s",
            "receiver_sum_cpu_s",
            "receiver_read_cpu_s",
            "receiver_write_cpu_s",
        ],
        &[
            "sender_decide_cpu_s",
            "sender_sum_cpu_s",
            "sender_read_cpu_s",
            "sender_wire_cpu_s",
            "sender_other_cpu_s",
            "receiver_decide_cpu_s",
            "receiver_sum_cpu_s",
            "receiver_read_cpu_s",
            "receiver_write_cpu_s",
            "receiver_wire_cpu_s",
            "receiver_other_cpu_s",
        ],
    );
    let paper = "LAN 3.7 to 53.4 % and 39.2 to 73.5 %";
    sync(SyncView::new(&["parasync-links"], share, &["dsync"]).claim(Claim::value(
        "matching and reconstruction in dsync",
        paper,
        "dsync",
    )))
}

fn chunking() -> Redraw {
    let scan = Quantity::millis(
        "processor time of cutting with sums at both ends",
        &["sender_scan_cpu_s", "receiver_scan_cpu_s"],
    );
    let paper = "stage 1 9.8 to 41.4 %, stage 2 62.8 to 84.5 % less";
    sync(
        SyncView::new(&["parasync"], scan, &["pdsync", "pdsync-skip", "parasync"])
            .studies(&[Factor::Threads])
            .claim(Claim::less(
                "less than pdsync, both stages",
                paper,
                "parasync, 1 thread",
                "pdsync, 1 thread",
            )),
    )
}

fn matching() -> Redraw {
    let matching = Quantity::millis(
        "processor time of matching at both ends (decide, sum)",
        &["sender_decide_cpu_s", "sender_sum_cpu_s", "receiver_decide_cpu_s", "receiver_sum_cpu_s"],
    );
    let paper = "receiver 15.3 to 56.1 %, sender 16.7 to 62.1 % less";
    sync(
        SyncView::new(&["parasync"], matching, &["dsync", "pdsync", "parasync"])
            .studies(&[Factor::Threads])
            .claim(Claim::less(
                "less than pdsync",
                paper,
                "parasync, 2 threads",
                "pdsync, 2 threads",
            )),
    )
}

fn reconstruction() -> Redraw {
    let write = Quantity::millis(
        "processor time of reconstruction at the receiver (read, write)",
        &["receiver_read_cpu_s", "receiver_write_cpu_s"],
    );
    sync(
        SyncView::new(&["parasync-links"], write, &["dsync", "pdsync", "parasync"])
            .studies(&[Factor::Threads])
            .claim(Claim::less(
                "less than dsync",
                "8.5 to 49.1 %",
                "parasync, 2 threads",
                "dsync, 1 thread",
            ))
            .claim(Claim::less(
                "less than pdsync",
                "5.1 to 26.7 %",
                "parasync, 2 threads",
                "pdsync, 2 threads",
            )),
    )
}

fn traffic() -> Redraw {
    let bytes = Quantity::kilobytes("bytes on the wire, both ways", &["up_bytes", "down_bytes"]);
    sync(
        SyncView::new(
            &["parasync-links", "parasync-release"],
            bytes,
            &["dsync", "pdsync", "parasync"],
        )
        .studies(&[Factor::Threads])
        .beside(&["deltic"])
        .claim(Claim::less(
            "less than dsync",
            "at most 3.2 % more",
            "parasync, 2 threads",
            "dsync, 1 thread",
        )),
    )
}

fn whole() -> Redraw {
    let wall = Quantity::millis("time of a sync", &["wall_s"]);
    let [wan, lan] = ["WAN 1.25 to 2.4×, LAN 2.3 to 3.7×", "WAN 1.14 to 1.6×, LAN 1.5 to 1.74×"];
    sync(
        SyncView::new(
            &["parasync-links", "parasync-release"],
            wall,
            &["dsync", "pdsync", "parasync"],
        )
        .studies(&[Factor::Threads])
        .beside(&["deltic"])
        .claim(Claim::times("faster than dsync", wan, "parasync, 2 threads", "dsync, 1 thread"))
        .claim(Claim::times(
            "faster than pdsync",
            lan,
            "parasync, 2 threads",
            "pdsync, 2 threads",
        )),
    )
}

const PARALLEL: &str = "cargo run --release -p deltic-core --example parallel: this machine has no 8 processors, so the \
                        example has a model of them";
const OVERLAP: &str = "matching overlaps reconstruction, so no clock can separate the two; figures 18 and 22 show both";
