//! Timestamps in the formats of remote systems.

use deltic_tree::Timestamp;

/// Parses ISO 8601: `2026-11-26T10:20:30.000Z`.
pub(crate) fn from_iso(text: &str) -> Option<Timestamp> {
    let time: jiff::Timestamp = text.parse().ok()?;
    let nanos = time.subsec_nanosecond();
    let (secs, nanos) = match nanos {
        0.. => (time.as_second(), nanos),
        // Before 1970 jiff's nanoseconds are negative; ours count up from the second before.
        _ => (time.as_second() - 1, nanos + 1_000_000_000),
    };
    Some(Timestamp { secs, nanos: nanos.try_into().ok()? })
}

/// Parses an HTTP date: `Thu, 26 Nov 2026 10:20:30 GMT`.
pub(crate) fn from_http(text: &str) -> Option<Timestamp> {
    let time = httpdate::parse_http_date(text).ok()?;
    let secs = time.duration_since(std::time::UNIX_EPOCH).ok()?.as_secs();
    Some(Timestamp { secs: secs.try_into().ok()?, nanos: 0 })
}

/// Converts milliseconds since 1970.
pub(crate) const fn from_millis(millis: i64) -> Timestamp {
    let nanos = millis.rem_euclid(1000) as u32 * 1_000_000;
    Timestamp { secs: millis.div_euclid(1000), nanos }
}
