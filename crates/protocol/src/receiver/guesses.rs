//! Bookkeeping of guesses that a new file equals or resembles another file. A wrong guess costs the time to read a
//! file, so the total length of wrongly guessed files is bounded.

/// Lengths in bytes of the files with guesses.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct GuessedBytes {
    open: u64,
    right: u64,
    wrong: u64,
}

/// Divisor of a file's length: a guess that matched less than this share of the file was wrong.
const RIGHT_SHARE: u64 = 8;

impl GuessedBytes {
    /// True if a guess about a further file of `len` bytes is allowed: the bytes of wrong and open guesses may not
    /// exceed `borne` bytes and twice the bytes of right guesses.
    pub(super) const fn has_room(self, len: u64, borne: u64) -> bool {
        let borne = self.right.saturating_mul(2).saturating_add(borne);
        self.wrong.saturating_add(self.open).saturating_add(len) <= borne
    }

    /// True if no guess is wrong or under way.
    pub(super) const fn is_unused(self) -> bool {
        self.wrong.saturating_add(self.open) == 0
    }

    /// True while guesses are under way.
    pub(super) const fn has_open_guesses(self) -> bool {
        self.open > 0
    }

    pub(super) const fn begin_guess(&mut self, len: u64) {
        self.open = self.open.saturating_add(len);
    }

    pub(super) const fn end_guess(&mut self, len: u64, matched: u64) {
        self.open = self.open.saturating_sub(len);
        let count = if matched >= len / RIGHT_SHARE { &mut self.right } else { &mut self.wrong };
        *count = count.saturating_add(len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BORNE: u64 = 256 << 20;

    #[test]
    fn guesses_are_made_while_enough_are_right() {
        let mut guesses = GuessedBytes::default();
        assert!(guesses.is_unused());
        guesses.begin_guess(BORNE);
        assert!(!guesses.has_room(1, BORNE), "nobody knows of the first");
        guesses.end_guess(BORNE, BORNE / RIGHT_SHARE);
        assert!(guesses.is_unused() && guesses.has_room(3 * BORNE, BORNE));
        guesses.begin_guess(BORNE);
        assert!(guesses.has_room(2 * BORNE, BORNE));
        assert!(!guesses.has_room(2 * BORNE + 1, BORNE));
        guesses.end_guess(BORNE, BORNE / RIGHT_SHARE - 1);
        assert!(!guesses.has_room(2 * BORNE + 1, BORNE), "a wrong one is not forgotten");
    }
}
