//! Laws of the codec: values survive a round trip, decoding is canonical, and no input makes a reader panic.

use deltic_core::chunk::FixedLen;
use deltic_core::{Algorithm, ChunkerSpec, CodecError, Put, Reader, Sizes};
use proptest::prelude::*;

fn any_spec() -> impl Strategy<Value = ChunkerSpec> {
    let sizes = (512u32..4096, 12u32..16, 32u32..512).prop_map(|(min, avg_bits, max_kib)| {
        Sizes::new(min, 1 << avg_bits, max_kib << 10).expect("sizes rise")
    });
    prop_oneof![
        (512u32..=512 << 10).prop_map(|len| {
            ChunkerSpec::Fixed(FixedLen::new(len).expect("length is in range"))
        }),
        (proptest::sample::select(&Algorithm::ALL[..]), sizes)
            .prop_map(|(algorithm, sizes)| ChunkerSpec::ByContent(algorithm, sizes)),
    ]
}

proptest! {
    #[test]
    fn encoded_values_decode_unchanged(
        small: u8,
        number in any::<u64>().prop_flat_map(|n| (0u32..64).prop_map(move |shift| n >> shift)),
        signed: i64,
        bytes: Vec<u8>,
        array: [u8; 16],
    ) {
        let mut out = Vec::new();
        out.put_u8(small);
        out.put_varint(number);
        out.put_signed(signed);
        out.put_prefixed(&bytes);
        out.put_bytes(&array);
        let mut reader = Reader::new(&out);
        prop_assert_eq!(reader.u8(), Ok(small));
        prop_assert_eq!(reader.clone().varint_u32(), u32::try_from(number).map_err(|_| CodecError::OutOfRange));
        prop_assert_eq!(reader.varint(), Ok(number));
        prop_assert_eq!(reader.signed(), Ok(signed));
        prop_assert_eq!(reader.prefixed(bytes.len()), Ok(&bytes[..]));
        prop_assert_eq!(reader.clone().finish(), Err(CodecError::Trailing));
        prop_assert_eq!(reader.array(), Ok(array));
        prop_assert!(reader.is_empty());
        prop_assert_eq!(reader.finish(), Ok(()));
        for cut in 0..out.len() {
            let mut reader = Reader::new(&out[..cut]);
            let whole = reader.u8().is_ok()
                && reader.varint().is_ok()
                && reader.signed().is_ok()
                && reader.prefixed(bytes.len()).is_ok()
                && reader.array::<16>().is_ok();
            prop_assert!(!whole);
        }
    }

    #[test]
    fn decoded_values_encode_to_the_same_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..24)) {
        let mut reader = Reader::new(&bytes);
        if let Ok(value) = reader.varint() {
            let mut again = Vec::new();
            again.put_varint(value);
            prop_assert_eq!(&again[..], &bytes[..bytes.len() - reader.rest().len()]);
        }
        let mut reader = Reader::new(&bytes);
        if let Ok(spec) = ChunkerSpec::decode(&mut reader) {
            let mut again = Vec::new();
            spec.encode(&mut again);
            prop_assert_eq!(&again[..], &bytes[..bytes.len() - reader.rest().len()]);
        }
        let _ = Reader::new(&bytes).signed();
        let _ = Reader::new(&bytes).prefixed(10);
    }

    #[test]
    fn an_encoded_chunker_spec_decodes_unchanged(spec in any_spec(), junk: Vec<u8>) {
        let mut bytes = Vec::new();
        spec.encode(&mut bytes);
        prop_assert_eq!(ChunkerSpec::decode(&mut Reader::new(&bytes)), Ok(spec));
        bytes[0] ^= 0x10;
        bytes.extend(junk);
        prop_assert_eq!(ChunkerSpec::decode(&mut Reader::new(&bytes)), Err(CodecError::OutOfRange));
    }
}
