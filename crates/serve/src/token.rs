//! Tokens: secrets that authorise a client. A server stores only hashes of tokens.

pub use deltic_carrier::token::{BadToken, TOKEN_BYTES, Token, TokenHash};

/// Makes a random token.
///
/// # Panics
/// If the system has no random bytes.
#[must_use]
pub fn new_token() -> Token {
    let mut bytes = [0; TOKEN_BYTES];
    getrandom::fill(&mut bytes).expect("the system has randomness");
    Token::from_random(bytes)
}
