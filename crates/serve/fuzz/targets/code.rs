//! Fuzzes deltas of gaps of code that a client sends, and splits and joins the same bytes as if they were code.
#![no_main]

use deltic_core::code::{FieldReader, FieldWriter};
use deltic_core::gap::{GapDeltaReader, ReadDelta};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut deltas = GapDeltaReader::new(bytes);
    while let Ok(ReadDelta { delta, is_masked }) = deltas.next_delta() {
        let mut made = vec![0xe8; delta.new_len()];
        if is_masked {
            let _ = deltas.join(&mut made, 0);
        }
    }
    let (mut code, mut columns, mut fields) = (bytes.to_vec(), Vec::new(), FieldWriter::default());
    fields.split(&mut code, 7);
    fields.encode(&mut columns);
    let joined = FieldReader::decode(&columns).and_then(|mut fields| fields.join(&mut code, 7));
    assert!(joined.is_ok() && code == bytes);
});
