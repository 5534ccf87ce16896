//! Tokens: secrets that let a client in. A server keeps only their hashes.

pub use deltic_carrier::token::{BadToken, TOKEN_BYTES, Token, TokenHash};

/// Makes a token that nobody else has.
///
/// # Panics
/// Where the system has no random bytes.
#[must_use]
pub fn new_token() -> Token {
    let mut bytes = [0; TOKEN_BYTES];
    getrandom::fill(&mut bytes).expect("the system has randomness");
    Token::from_random(bytes)
}
