//! Tokens, which authenticate clients. A token is random; a server keeps only its hash.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// Number of random bytes of a token.
pub const TOKEN_BYTES: usize = 32;
/// Number of check bytes after the random bytes, which detect a mistyped token.
const CHECK_BYTES: usize = 4;
const PREFIX: &str = "dlt_";

/// A secret that grants rights. Debug output does not show the secret.
#[derive(Clone, Eq)]
pub struct Token([u8; TOKEN_BYTES]);

/// BLAKE3 hash of a token. The hash is a name for the token, and does not reveal the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TokenHash(blake3::Hash);

/// Compares two tokens in constant time.
impl PartialEq for Token {
    fn eq(&self, other: &Self) -> bool {
        blake3::Hash::from_bytes(self.0) == blake3::Hash::from_bytes(other.0)
    }
}

impl Token {
    /// Makes a token of random bytes. The bytes must not be guessable.
    #[must_use]
    pub const fn from_random(bytes: [u8; TOKEN_BYTES]) -> Self {
        Self(bytes)
    }

    /// Returns the hash of the token, which names the token.
    #[must_use]
    pub fn hash(&self) -> TokenHash {
        TokenHash(blake3::derive_key("deltic 2026 token", &self.0).into())
    }

    /// Returns the secret text of the token.
    #[must_use]
    pub fn reveal(&self) -> String {
        let bytes = [&self.0[..], &check(&self.0)].concat();
        format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))
    }
}

fn check(bytes: &[u8; TOKEN_BYTES]) -> [u8; CHECK_BYTES] {
    let hash = blake3::derive_key("deltic 2026 token check", bytes);
    [hash[0], hash[1], hash[2], hash[3]]
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// Error of a text that is not a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a token: a token is dlt_ and 48 characters; copy the whole token")]
pub struct BadToken;

impl FromStr for Token {
    type Err = BadToken;

    fn from_str(text: &str) -> Result<Self, BadToken> {
        let letters = text.trim().strip_prefix(PREFIX).ok_or(BadToken)?;
        let bytes = URL_SAFE_NO_PAD.decode(letters).map_err(|_| BadToken)?;
        let (token, sum) = bytes.split_at_checked(TOKEN_BYTES).ok_or(BadToken)?;
        let token = token.try_into().map_err(|_| BadToken)?;
        if check(&token) == sum { Ok(Self(token)) } else { Err(BadToken) }
    }
}

impl TokenHash {
    /// Returns the bytes of the hash.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }
}

/// Orders hashes as their hex digits.
impl Ord for TokenHash {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl PartialOrd for TokenHash {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0.to_hex())
    }
}

impl FromStr for TokenHash {
    type Err = BadToken;

    fn from_str(text: &str) -> Result<Self, BadToken> {
        blake3::Hash::from_hex(text).map(Self).map_err(|_| BadToken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_round_trips_and_each_typo_is_an_error() {
        let token = Token::from_random(std::array::from_fn(|at| (at * 37 + 5) as u8));
        let text = token.reveal();
        assert_eq!(text.parse::<Token>().unwrap(), token);
        assert_ne!(Token::from_random([0; TOKEN_BYTES]), token);
        for at in 0..text.len() {
            let mut slip = text.clone().into_bytes();
            slip[at] = if slip[at] == b'0' { b'1' } else { b'0' };
            assert!(String::from_utf8(slip).unwrap().parse::<Token>().is_err(), "{at}");
        }
        assert!(!format!("{token:?}").contains(&text[4..12]));
        assert_eq!(token.hash().to_string().parse::<TokenHash>().unwrap(), token.hash());
        for bad in ["", "dlt_", "dlt_+1", "x", "dlt_é"] {
            assert_eq!(bad.parse::<Token>(), Err(BadToken), "{bad}");
        }
    }
}
