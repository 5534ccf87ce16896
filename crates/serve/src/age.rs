//! Parses ages such as `90m`, `12h`, `30d`.

/// Parses a number with a unit (`s`, `m`, `h`, `d`, `w`, `y` of 365 days) into seconds; without a unit, the number is
/// in seconds.
#[must_use]
pub fn seconds(word: &str) -> Option<u64> {
    let digits = word.trim_end_matches(|last: char| last.is_ascii_alphabetic());
    let unit: u64 = match &word[digits.len()..] {
        "" | "s" => 1,
        "m" => 60,
        "h" => 60 * 60,
        "d" => 24 * 60 * 60,
        "w" => 7 * 24 * 60 * 60,
        "y" => 365 * 24 * 60 * 60,
        _ => return None,
    };
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let count: u64 = digits.parse().ok().filter(|_| is_number)?;
    count.checked_mul(unit)
}
