//! Fields of x86-64 code that hold the distance to an address.
//!
//! This is no disassembler. Each byte that is outside of a field may begin an instruction, and the first bytes of an
//! instruction tell if a field follows. So bytes in the middle of another instruction are sometimes taken for a field.
//! Whether a byte begins an instruction with a field depends on bytes outside of fields alone, so [`mask`] changes no
//! decision (law "masked code has the same fields").

use std::ops::Range;

/// Length of a field in bytes.
pub(super) const FIELD_BYTES: usize = 4;

/// Code has at least one field in this many bytes.
const BYTES_PER_FIELD: usize = 256;

/// Length of each of the two probes in bytes. Code has a field in about 20 bytes.
const PROBE_BYTES: usize = 128;
/// Pieces of a sample, spread over the bytes.
const SAMPLE_PIECES: usize = 8;
/// Length of a piece of a sample in bytes.
const SAMPLE_BYTES: usize = 2048;

/// Longest distance that counts as one of a program, in bytes.
const NEAR_BYTES: u32 = 64 << 20;

/// Kind of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// The distance to a called function.
    Call,
    /// The distance to an operand in memory.
    Operand,
}

/// A field in bytes of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Offset of the first byte of the instruction.
    pub begin: usize,
    /// Offset of the first byte of the field.
    pub start: usize,
    /// Kind of the field.
    pub kind: FieldKind,
}

/// Returns the fields in `code`, in order. Fields do not overlap.
pub fn fields(code: &[u8]) -> impl Iterator<Item = Field> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let field = next_field(code, at..code.len())?;
        at = field.start + FIELD_BYTES;
        Some(field)
    })
}

/// Replaces the bytes of all fields by zeros.
pub fn mask(code: &mut [u8]) {
    let mut at = 0;
    while let Some(Field { start, .. }) = next_field(code, at..code.len()) {
        at = start + FIELD_BYTES;
        code[start..at].fill(0);
    }
}

/// True if the bytes are probably code: a sample has many fields, and most of them hold a short distance. Of other bytes,
/// only a few are looked at: most gaps are no code.
#[must_use]
pub fn is_code(bytes: &[u8]) -> bool {
    let probes = [0, bytes.len() / 2].map(|start| piece_of(bytes, start, PROBE_BYTES));
    if probes.iter().all(|piece| count_fields(piece).near == 0) {
        return false;
    }
    let apart = (bytes.len() / SAMPLE_PIECES).max(SAMPLE_BYTES);
    let (mut near, mut far, mut len) = (0, 0, 0);
    for start in (0..bytes.len()).step_by(apart) {
        let piece = piece_of(bytes, start, SAMPLE_BYTES);
        let counts = count_fields(piece);
        (near, far, len) = (near + counts.near, far + counts.far, len + piece.len());
    }
    near * BYTES_PER_FIELD >= len && near >= 2 * far
}

/// Returns at most `len` bytes from `start`.
fn piece_of(bytes: &[u8], start: usize, len: usize) -> &[u8] {
    &bytes[start..bytes.len().min(start + len)]
}

/// Number of fields by their distances.
#[derive(Clone, Copy, Debug, Default)]
struct FieldCounts {
    near: usize,
    far: usize,
}

fn count_fields(piece: &[u8]) -> FieldCounts {
    let mut counts = FieldCounts::default();
    for field in fields(piece) {
        let distance = piece[field.start..].first_chunk();
        let is_near = distance.is_some_and(|distance| is_near(u32::from_le_bytes(*distance)));
        *(if is_near { &mut counts.near } else { &mut counts.far }) += 1;
    }
    counts
}

/// True for distances of programs: less than 64 MiB forward or backward. Of other bytes, few look like that.
pub(super) const fn is_near(distance: u32) -> bool {
    distance.wrapping_add(NEAR_BYTES) < 2 * NEAR_BYTES
}

/// Returns the field of the first instruction with a field that begins in `range`.
pub(super) fn next_field(code: &[u8], range: Range<usize>) -> Option<Field> {
    let end = code.len().saturating_sub(FIELD_BYTES);
    let (first, stop) = (range.start, range.end.min(end));
    let class = |byte: &u8| u32::from(CLASSES[usize::from(*byte)]);
    let behind = code.get(first..stop.max(first) + WINDOW_BYTES - 1)?;
    let (head, behind) = behind.split_at(WINDOW_BYTES - 1);
    // The classes of the byte and of the three bytes behind, the first byte lowest.
    let mut window = head.iter().rev().fold(0, |window, byte| window << 8 | class(byte) << 8);
    (first..).zip(behind).find_map(|(at, last)| {
        window = window >> 8 | class(last) << 24;
        let has_relative = (window >> 8 | window >> 16 | window >> 24) & RELATIVE;
        if window & CALL == 0 && (window & OPERAND == 0 || has_relative == 0) {
            return None;
        }
        let (head_len, kind) = instruction(code[at..].first_chunk()?)?;
        let start = at + head_len;
        (start <= end).then_some(Field { begin: at, start, kind })
    })
}

/// Returns the length of the bytes before the field of an instruction, and the kind of the field.
const fn instruction(head: &[u8; 5]) -> Option<(usize, FieldKind)> {
    match *head {
        [0xe8, ..] => Some((1, FieldKind::Call)),
        [0x48..=0x4f, 0x0f, opcode, modrm, _] if is_relative(modrm) && is_wide(opcode) => {
            Some((4, FieldKind::Operand))
        }
        [0x48..=0x4f, opcode, modrm, ..] if is_relative(modrm) && has_operand(opcode) => {
            Some((3, FieldKind::Operand))
        }
        [0x0f, opcode, modrm, ..] if is_relative(modrm) && is_wide(opcode) => {
            Some((3, FieldKind::Operand))
        }
        [opcode, modrm, ..] if is_relative(modrm) && has_operand(opcode) => {
            Some((2, FieldKind::Operand))
        }
        _ => None,
    }
}

/// True if the operand is relative to the instruction pointer.
const fn is_relative(modrm: u8) -> bool {
    modrm & 0xc7 == 0x05
}

/// True for opcodes of one byte with an operand that compilers use: moves, arithmetic, comparisons, and addresses.
const fn has_operand(opcode: u8) -> bool {
    matches!(
        opcode,
        0x01 | 0x03 | 0x0b | 0x23 | 0x29 | 0x2b | 0x33 | 0x38..=0x3b | 0x63 | 0x80 | 0x81
            | 0x83..=0x8b | 0x8d | 0xc6 | 0xc7 | 0xf6 | 0xf7 | 0xff
    )
}

/// True for opcodes of two bytes, the first of which is 0x0f, with an operand that compilers use: moves and arithmetic
/// of vectors, conditional moves, and extending moves. Excludes bytes that begin a call.
const fn is_wide(opcode: u8) -> bool {
    matches!(
        opcode,
        0x10..=0x17 | 0x28..=0x2f | 0x40..=0x4f | 0x51..=0x6f | 0x74..=0x76 | 0x7e | 0x7f | 0xaf
            | 0xb6 | 0xb7 | 0xbe | 0xbf | 0xc2 | 0xc6 | 0xd0..=0xe7 | 0xea..=0xfe
    )
}

/// Bytes that decide whether an instruction with a field begins at the first one.
const WINDOW_BYTES: usize = 4;
/// Class of the byte of a call.
const CALL: u32 = 1;
/// Class of bytes that begin an instruction with an operand.
const OPERAND: u32 = 2;
/// Class of bytes that tell an operand relative to the instruction pointer.
const RELATIVE: u32 = 4;

/// Classes of all bytes.
const CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let value = byte as u8;
        let operand = has_operand(value) || matches!(value, 0x0f | 0x48..=0x4f);
        let class = (value == 0xe8) as u32 * CALL
            + operand as u32 * OPERAND
            + is_relative(value) as u32 * RELATIVE;
        classes[byte] = class as u8;
        byte += 1;
    }
    classes
};
