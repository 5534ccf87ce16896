//! Percent-encoding of paths in addresses.

use std::fmt::Write;

/// Escapes a path for an address.
#[must_use]
pub fn escape(path: &[u8]) -> String {
    path.iter().fold(String::new(), |mut text, byte| {
        let is_plain = byte.is_ascii_alphanumeric() || b"-_.~/".contains(byte);
        let written = match is_plain {
            true => text.write_char(char::from(*byte)),
            false => write!(text, "%{byte:02X}"),
        };
        written.expect("a string takes all");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_escaped_where_an_address_could_mean_otherwise() {
        assert_eq!(escape(b"2026/a b/%?#.jpg"), "2026/a%20b/%25%3F%23.jpg");
        assert_eq!(escape(&[0xc3, 0xa4, 0, b'~']), "%C3%A4%00~");
    }
}
