//! Passes: proof of a token in the first message of TLS, so that connections without a token do not lock out a client
//! of the same address.
//!
//! A pass is the name of a protocol that the client offers (ALPN); servers of other kinds ignore the name. The pass
//! is a hash of the token's hash and of the time, and does not reveal the token. An observer of a pass can replay the
//! pass for some minutes, and gains room for a connection but no access: the server still asks for the token.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::token::TokenHash;

/// Period of a pass. The clocks of client and server may differ by as much.
const PERIOD: Duration = Duration::from_secs(10 * 60);
/// Length of a pass after its prefix, in bytes.
const BYTES: usize = 16;
const PREFIX: &[u8] = b"deltic-pass/1/";

/// A pass for a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Pass([u8; BYTES]);

impl Pass {
    /// Returns the pass of a token at the time `now`.
    pub(crate) fn of(token: &TokenHash, now: SystemTime) -> Self {
        Self::in_period(token, period(now))
    }

    fn in_period(token: &TokenHash, period: u64) -> Self {
        let material = [&token.as_bytes()[..], &period.to_le_bytes()].concat();
        let key = blake3::derive_key("deltic 2026 pass", &material);
        let (pass, _) = key.split_first_chunk().expect("a key is longer");
        Self(*pass)
    }

    /// Returns the protocol name (ALPN) of this pass.
    pub(crate) fn alpn_name(&self) -> Vec<u8> {
        [PREFIX, &self.0].concat()
    }

    /// Parses a pass from a protocol name (ALPN).
    pub(crate) fn parse(protocol: &[u8]) -> Option<Self> {
        protocol.strip_prefix(PREFIX)?.try_into().ok().map(Self)
    }
}

fn period(now: SystemTime) -> u64 {
    now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() / PERIOD.as_secs()
}

/// The passes of all tokens at a time.
#[derive(Debug, Default)]
pub(crate) struct Passes {
    /// Period of the passes, and version of the set of tokens.
    made: Option<(u64, u64)>,
    tokens: HashMap<Pass, TokenHash>,
}

impl Passes {
    /// Returns the token of a pass. If the table is of another period or version, it is rebuilt from `tokens` first.
    pub(crate) fn find(
        &mut self,
        pass: &Pass,
        now: SystemTime,
        version: u64,
        tokens: impl FnOnce() -> Vec<TokenHash>,
    ) -> Option<TokenHash> {
        let period = period(now);
        if self.made != Some((period, version)) {
            let periods = [period.saturating_sub(1), period, period.saturating_add(1)];
            let all = tokens().into_iter();
            let all = all.flat_map(|token| periods.map(|at| (Pass::in_period(&token, at), token)));
            (self.tokens, self.made) = (all.collect(), Some((period, version)));
        }
        self.tokens.get(pass).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::new_token;

    #[test]
    fn a_pass_is_of_one_token_and_of_its_time() {
        let (one, other) = (new_token().hash(), new_token().hash());
        let now = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let shown = Pass::parse(&Pass::of(&one, now).alpn_name()).unwrap();
        let mut passes = Passes::default();
        let mut find = |at, version, tokens: &[TokenHash]| {
            passes.find(&shown, at, version, || tokens.to_vec())
        };
        assert_eq!(find(now, 0, &[other, one]), Some(one));
        assert_eq!(find(now, 0, &[]), Some(one), "the tokens are not read again");
        assert_eq!([now - PERIOD, now + PERIOD].map(|at| find(at, 0, &[one])), [Some(one); 2]);
        assert_eq!([now - 3 * PERIOD, now + 3 * PERIOD].map(|at| find(at, 0, &[one])), [None; 2]);
        assert_eq!(find(now, 1, &[other]), None, "it was revoked");
        for other in [&b""[..], b"http/1.1", b"deltic-pass/1/", b"deltic-pass/1/0123456789abcdefg"]
        {
            assert_eq!(Pass::parse(other), None);
        }
    }
}
