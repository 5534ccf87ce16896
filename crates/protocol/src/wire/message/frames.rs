//! Frames of one direction: their numbers, and their fields in order.

/// Defines, for one direction, each frame's number, its fields in order, and both ways between them.
macro_rules! frames {
    ($direction:ident {
        $($number:literal $variant:ident { $($field:ident),* })+;
        $($tuple_number:literal $tuple:ident($inner:ident))*
    }) => {
        impl $direction {
            /// The whole frame, header included.
            #[must_use]
            pub fn encode(&self) -> Vec<u8> {
                let mut bytes = Vec::new();
                self.encode_behind(&mut bytes);
                bytes
            }

            /// The same behind what `to` holds: frames that leave together are copied once.
            pub fn encode_behind(&self, to: &mut Vec<u8>) {
                match self {
                    $(Self::$variant { $($field),* } => {
                        frame_behind(to, $number, |to| { $($field.put(to);)* });
                    })+
                    $(Self::$tuple($inner) => frame_behind(to, $tuple_number, |to| $inner.put(to)),)*
                }
            }

            /// Reads a frame's payload.
            ///
            /// # Errors
            /// [`PeerError`] where the type is not of this direction or the payload is malformed.
            pub fn decode(kind: u8, payload: &[u8]) -> Result<Self, PeerError> {
                match kind {
                    $($number => whole(stringify!($variant), payload, |from| {
                        $(let $field = Wire::take(from)?;)*
                        Ok(Self::$variant { $($field),* })
                    }),)+
                    $($tuple_number => whole(stringify!($tuple), payload, |from| {
                        Wire::take(from).map(Self::$tuple)
                    }),)*
                    other => Err(PeerError::UnknownFrame(other)),
                }
            }
        }
    };
}

pub(crate) use frames;
