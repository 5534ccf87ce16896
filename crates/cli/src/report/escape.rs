//! Names for a terminal or a log: bytes that could control either are escaped as rsync's `\#ooo`.

use deltic_tree::path::is_format_control;

/// Bytes that are not escaped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Escape {
    /// UTF-8 text without control characters.
    #[default]
    Unprintable,
    /// The text of [`Self::Unprintable`], and bytes that are not UTF-8 (`-8`).
    Control,
    /// The bytes of [`Self::Control`], except the C1 control bytes of 8-bit terminals: some programs show logs raw.
    Log,
}

impl Escape {
    /// Returns `bytes` with an octal number for each escaped byte. A backslash that looks like the start of such a
    /// number is escaped too.
    pub(crate) fn escaped(self, bytes: &[u8]) -> Vec<u8> {
        let mut to = Vec::with_capacity(bytes.len());
        for (place, chunk) in places(bytes) {
            for (at, c) in chunk.valid().char_indices() {
                let rest = &bytes[place + at..];
                let here = &rest[..c.len_utf8()];
                let looks_escaped = matches!(rest, [b'\\', b'#', a, b, c, ..] if [a, b, c].iter().all(|d| d.is_ascii_digit()));
                if looks_escaped || controls(c) || is_format_control(c) {
                    octal(here, &mut to);
                } else {
                    to.extend_from_slice(here);
                }
            }
            match self {
                Self::Unprintable => octal(chunk.invalid(), &mut to),
                Self::Control => to.extend_from_slice(chunk.invalid()),
                Self::Log => chunk.invalid().iter().for_each(|byte| match byte {
                    0x80..=0x9f => octal(&[*byte], &mut to),
                    byte => to.push(*byte),
                }),
            }
        }
        to
    }
}

/// True for characters that control a terminal. Terminals ignore DEL, and rsync shows it.
fn controls(c: char) -> bool {
    c.is_control() && !matches!(c, '\t' | '\x7f')
}

/// Splits `bytes` into chunks of UTF-8: valid text, then invalid bytes. Returns each chunk with its offset.
fn places(bytes: &[u8]) -> impl Iterator<Item = (usize, std::str::Utf8Chunk<'_>)> {
    bytes.utf8_chunks().scan(0, |next, chunk| {
        let place = *next;
        *next += chunk.valid().len() + chunk.invalid().len();
        Some((place, chunk))
    })
}

fn octal(bytes: &[u8], to: &mut Vec<u8>) {
    for byte in bytes {
        to.extend_from_slice(format!("\\#{byte:03o}").as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_as_rsync_does() {
        for (name, shown) in [
            (&b"plain name"[..], &b"plain name"[..]),
            (b"a\x1b[2J\nb\tc\x7f", b"a\\#033[2J\\#012b\tc\x7f"),
            ("h\u{e4}".as_bytes(), "h\u{e4}".as_bytes()),
            (b"\xff\xc3", b"\\#377\\#303"),
            (b"a\\#033", b"a\\#134#033"),
            (b"a\\#03", b"a\\#03"),
            ("\u{202e}gpj".as_bytes(), b"\\#342\\#200\\#256gpj"),
        ] {
            assert_eq!(Escape::Unprintable.escaped(name), shown, "{name:?}");
        }
    }

    #[test]
    fn eight_bits_pass_where_they_are_asked_for_and_controls_never() {
        assert_eq!(Escape::Control.escaped(b"\xff\x1b\xe4\n"), b"\xff\\#033\xe4\\#012");
        assert_eq!(Escape::Control.escaped(b"\x9b"), b"\x9b");
    }

    #[test]
    fn a_log_takes_text_and_letters_of_any_encoding_and_no_controls_of_eight_bits() {
        assert_eq!(Escape::Log.escaped(b"a\x9b[2J\xe4\x1b"), b"a\\#233[2J\xe4\\#033");
        for escape in [Escape::Log, Escape::Control, Escape::Unprintable] {
            let turned = escape.escaped("\u{202e}gpj\u{feff}".as_bytes());
            assert_eq!(turned, b"\\#342\\#200\\#256gpj\\#357\\#273\\#277", "{escape:?}");
        }
        assert_eq!(Escape::Log.escaped("\u{11b}\u{201c}".as_bytes()), "\u{11b}\u{201c}".as_bytes());
    }
}
