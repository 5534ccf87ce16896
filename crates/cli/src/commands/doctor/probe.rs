//! The requests of a probe of the link, and the answers of the far end.
//!
//! ```text
//! here                                    far end (deltic agent --examine)
//! path NUL                        ──►
//!                                 ◄──     line of the answer
//! '.'                             ──►
//!                                 ◄──     ".\n"                                round trip
//! 'u', number of bytes, the bytes ──►
//!                                 ◄──     "u\n"                                rate to the far end
//! 'd', number of bytes            ──►
//!                                 ◄──     the bytes                            rate from the far end
//! ```
//!
//! A number is a `u32`, little-endian.

use std::io::{self, Read, Write};

/// Bytes of the first probe, and the most bytes of a probe.
pub(super) const PROBE_BYTES: std::ops::RangeInclusive<u32> = (64 << 10)..=(1 << 30);
/// Bytes that are written or read at once.
pub(super) const PIECE: usize = 64 << 10;

/// Returns a request: `u` sends so many bytes, `d` fetches so many bytes.
pub(super) fn request(kind: u8, bytes: u32) -> [u8; 5] {
    let [a, b, c, d] = bytes.to_le_bytes();
    [kind, a, b, c, d]
}

/// Writes `bytes` bytes by `write`, in pieces. A piece does not compress, and is longer than the 32 KiB in which
/// a remote shell that compresses finds repeats.
pub(super) fn write_noise(
    bytes: u32,
    mut write: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let piece = noise(PIECE);
    let mut left = bytes as usize;
    while left > 0 {
        let most = left.min(PIECE);
        write(&piece[..most])?;
        left -= most;
    }
    Ok(())
}

/// Answers a request of a probe at the far end. Returns false if the request is for no probe.
///
/// # Errors
/// The other end has gone.
pub(super) fn answer_probe(
    kind: u8,
    input: &mut impl Read,
    output: &mut impl Write,
) -> io::Result<bool> {
    if !matches!(kind, b'u' | b'd') {
        return Ok(false);
    }
    let mut number = [0; 4];
    input.read_exact(&mut number)?;
    let bytes = u32::from_le_bytes(number).min(*PROBE_BYTES.end());
    if kind == b'd' {
        write_noise(bytes, |piece| output.write_all(piece))?;
    } else {
        let read = io::copy(&mut input.take(bytes.into()), &mut io::sink())?;
        if read < bytes.into() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        output.write_all(b"u\n")?;
    }
    output.flush()?;
    Ok(true)
}

/// Returns `bytes` pseudorandom bytes, which do not compress. `bytes` is a multiple of 8.
pub(super) fn noise(bytes: usize) -> Vec<u8> {
    let mixed = |n: u64| {
        let word = (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (word ^ (word >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    };
    (0..bytes as u64 / 8).flat_map(|n| mixed(n).to_le_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_far_end_answers_probes_with_the_bytes_that_were_asked_for() {
        let mut sent = request(b'u', 100_000)[1..].to_vec();
        sent.extend([7; 100_000]);
        let (mut input, mut output) = (&sent[..], Vec::new());
        assert!(answer_probe(b'u', &mut input, &mut output).unwrap());
        assert!(input.is_empty() && output == b"u\n", "{} {output:?}", input.len());
        output.clear();
        assert!(answer_probe(b'd', &mut &request(b'd', 100_000)[1..], &mut output).unwrap());
        assert_eq!(output.len(), 100_000);
        assert!(!answer_probe(b'.', &mut io::empty(), &mut output).unwrap());
        let short = [&request(b'u', 9)[1..], b"12345678"].concat();
        assert!(answer_probe(b'u', &mut &short[..], &mut output).is_err());
    }
}
