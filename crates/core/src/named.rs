//! Closed sets of choices. Each member has a number in files and frames, and a name in command lines.

/// Implements lookup of members of `$set` by number and by name. `$set` has a list `ALL`, and a method
/// `number_and_name`.
macro_rules! named {
    ($set:ident, $unknown:ident) => {
        impl $set {
            /// The name of the member, as [`FromStr`](std::str::FromStr) parses it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                self.number_and_name().1
            }

            /// The member with this number.
            fn numbered(number: u8) -> Result<Self, $crate::codec::CodecError> {
                let known =
                    Self::ALL.into_iter().find(|member| member.number_and_name().0 == number);
                known.ok_or($crate::codec::CodecError::OutOfRange)
            }
        }

        impl std::str::FromStr for $set {
            type Err = $unknown;

            fn from_str(name: &str) -> Result<Self, $unknown> {
                let found = Self::ALL.into_iter().find(|member| member.name() == name);
                found.ok_or_else(|| $unknown(name.into()))
            }
        }
    };
}

pub(crate) use named;
