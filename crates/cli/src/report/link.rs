//! The link to the other machine, as this end measured it, and the compression that was chosen for the link.

use std::time::Duration;

use deltic_net::RoundTrip;
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

/// The round trip to the other end, in a JSON summary.
#[derive(Debug, Serialize)]
pub(crate) struct JsonRoundTrip {
    idle_us: u64,
    current_us: u64,
    samples: u32,
}

/// Returns the measured round trip for a JSON summary.
pub(crate) fn round_trip(link: &LinkReport) -> Option<JsonRoundTrip> {
    let RoundTrip { idle, current, samples } = link.round_trip?;
    let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    Some(JsonRoundTrip { idle_us: micros(idle), current_us: micros(current), samples })
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

/// Returns lines for the measured rate, the round trip and the compression, without the parts that are unknown or zero.
pub(crate) fn link_lines(link: &LinkReport) -> Vec<String> {
    // A run with a store has neither compression nor a round trip; its rate is not the rate of a link.
    let rate = link
        .bits_per_second
        .filter(|_| is_chosen(link) || link.round_trip.is_some())
        .map(|rate| format!("Measured rate of the link: {}", megabits(rate)));
    let trip = link.round_trip.map(|RoundTrip { idle, current, samples }| {
        let [idle, current] = [idle, current].map(|time| time.as_secs_f64() * 1e3);
        format!("Round trip: {idle:.1} ms idle, {current:.1} ms at the end; {samples} measured")
    });
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
    rate.into_iter().chain(trip).chain(ways).collect()
}

/// Formats a rate in bits a second.
pub(crate) fn megabits(bits: u64) -> String {
    format!("{:.1} Mbit/s", bits as f64 / 1e6)
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
        let [idle, current] = [30_200, 58_000].map(Duration::from_micros);
        let round_trip = Some(RoundTrip { idle, current, samples: 7 });
        let link = LinkReport { bits_per_second: Some(9_640_000), round_trip, packing };
        let wanted = [
            "Measured rate of the link: 9.6 Mbit/s",
            "Round trip: 30.2 ms idle, 58.0 ms at the end; 7 measured",
            "Compression: zstd level 6, 12.00 MiB to 3.00 MiB; none for 1.00 MiB incompressible",
        ];
        assert_eq!(link_lines(&link), wanted);
        let packing = PackingTotals { for_fast_link: 2 << 20, ..PackingTotals::default() };
        let fast = LinkReport { packing, ..LinkReport::default() };
        assert_eq!(link_lines(&fast), ["Compression: none for 2.00 MiB because the link is fast"]);
        assert_eq!(link_lines(&LinkReport::default()), [""; 0]);
        let json = serde_json::to_value(compression(&link)).unwrap();
        assert_eq!((&json["level"], &json["fast_link_bytes"]), (&6.into(), &0.into()));
        assert!(compression(&LinkReport::default()).is_none());
        let json = serde_json::to_value(super::round_trip(&link)).unwrap();
        assert_eq!((&json["idle_us"], &json["samples"]), (&30_200.into(), &7.into()));
    }
}
