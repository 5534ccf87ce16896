//! The link to the other machine, as this end measured it, and the compression that was chosen for the link.

use deltic_net::embed::LinkReport;
use indicatif::HumanBytes;
use serde::Serialize;

/// Compression of the literals that this end sent, in a JSON summary.
#[derive(Debug, Serialize)]
pub(crate) struct JsonCompression {
    #[serde(skip_serializing_if = "Option::is_none")]
    level: Option<i32>,
    original_bytes: u64,
    compressed_bytes: u64,
    incompressible_bytes: u64,
    fast_link_bytes: u64,
}

/// Returns the compression for a JSON summary, if this end chose compression for a link.
pub(crate) fn compression(link: &LinkReport) -> Option<JsonCompression> {
    let packing = link.packing;
    is_chosen(link).then_some(JsonCompression {
        level: packing.level,
        original_bytes: packing.original,
        compressed_bytes: packing.compressed,
        incompressible_bytes: packing.incompressible,
        fast_link_bytes: packing.for_fast_link,
    })
}

/// Returns a line for the measured rate and a line for the compression, without the parts that are unknown or zero.
pub(crate) fn link_lines(link: &LinkReport) -> Vec<String> {
    let rate = link
        .bits_per_second
        .filter(|_| is_chosen(link))
        .map(|rate| format!("Measured rate of the link: {:.1} Mbit/s", rate as f64 / 1e6));
    let packing = link.packing;
    let level = packing.level.map_or_else(String::new, |level| format!("zstd level {level}, "));
    let (from, to) = (HumanBytes(packing.original), HumanBytes(packing.compressed));
    let compressed = (packing.original > 0).then(|| format!("{level}{from} to {to}"));
    let part = |bytes, why| (bytes > 0).then(|| format!("{} {why}", HumanBytes(bytes)));
    let none = [
        part(packing.incompressible, "incompressible"),
        part(packing.for_fast_link, "because the link is fast"),
    ];
    let none: Vec<_> = none.into_iter().flatten().collect();
    let none = (!none.is_empty()).then(|| format!("none for {}", none.join(" and ")));
    let ways: Vec<_> = compressed.into_iter().chain(none).collect();
    let ways = (!ways.is_empty()).then(|| format!("Compression: {}", ways.join("; ")));
    rate.into_iter().chain(ways).collect()
}

/// True if this end chose the compression of literals for a link.
const fn is_chosen(link: &LinkReport) -> bool {
    let packing = link.packing;
    packing.original > 0 || packing.incompressible > 0 || packing.for_fast_link > 0
}

#[cfg(test)]
mod tests {
    use deltic_core::strategy::PackingTotals;

    use super::*;

    #[test]
    fn the_lines_tell_what_was_compressed_and_why_the_rest_was_not() {
        let packing = PackingTotals {
            level: Some(6),
            original: 12 << 20,
            compressed: 3 << 20,
            incompressible: 1 << 20,
            for_fast_link: 0,
        };
        let link = LinkReport { bits_per_second: Some(9_640_000), packing };
        let wanted = [
            "Measured rate of the link: 9.6 Mbit/s",
            "Compression: zstd level 6, 12.00 MiB to 3.00 MiB; none for 1.00 MiB incompressible",
        ];
        assert_eq!(link_lines(&link), wanted);
        let packing = PackingTotals { for_fast_link: 2 << 20, ..PackingTotals::default() };
        let fast = LinkReport { bits_per_second: None, packing };
        assert_eq!(link_lines(&fast), ["Compression: none for 2.00 MiB because the link is fast"]);
        assert_eq!(link_lines(&LinkReport::default()), [""; 0]);
        let json = serde_json::to_value(compression(&link)).unwrap();
        assert_eq!((&json["level"], &json["fast_link_bytes"]), (&6.into(), &0.into()));
        assert!(compression(&LinkReport::default()).is_none());
    }
}
