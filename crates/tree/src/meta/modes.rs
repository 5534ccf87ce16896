//! Changes of mode bits by `--chmod`: `D2755,F644`, `Dg+s,ug+w,Fo-w,+X`, `g=u`.

use super::{EXECUTE_BITS, Kind};

/// A list of mode changes, applied in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModeRules {
    text: String,
    umask: u32,
    rules: Vec<ModeRule>,
}

/// Error of [`ModeRules::parse`], with the invalid item.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a mode change such as D755, Fgo-w or +X")]
pub struct BadModeRules(String);

/// A mode change: one item between commas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ModeRule {
    of: EntryClass,
    op: ModeOp,
    /// Classes that the change applies to, as their execute bits. 0 if the item names no class.
    who: u32,
    /// Bits to set, add or remove.
    bits: u32,
    /// True for `X`: execute bits are added only to directories and to files that somebody may execute.
    conditional: bool,
    /// Class to copy permissions from, as the position of the class's lowest bit.
    copy: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EntryClass {
    All,
    Dirs,
    Others,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ModeOp {
    Add,
    Remove,
    Assign,
    /// Replaces all bits with an octal mode.
    Set,
}

impl ModeRules {
    /// Parses comma-separated items. Items without a class leave the bits in `umask` unchanged.
    ///
    /// # Errors
    /// [`BadModeRules`] with the first invalid item.
    pub fn parse(text: &str, umask: u32) -> Result<Self, BadModeRules> {
        let rule = |item: &str| ModeRule::parse(item).ok_or_else(|| BadModeRules(item.into()));
        let rules = text.split(',').map(rule).collect::<Result<_, _>>()?;
        Ok(Self { text: text.into(), umask: umask & 0o777, rules })
    }

    /// Returns the original text given to [`parse`](Self::parse).
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the bits that items without a class leave unchanged.
    #[must_use]
    pub const fn umask(&self) -> u32 {
        self.umask
    }

    /// True if the list has no changes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Returns `mode` after all changes. The mode of a symlink never changes.
    #[must_use]
    pub fn apply_to(&self, mode: u32, kind: &Kind) -> u32 {
        if matches!(kind, Kind::Symlink(_)) {
            return mode;
        }
        let is_dir = *kind == Kind::Dir;
        let executes = is_dir || mode & EXECUTE_BITS != 0;
        let fits = |rule: &&ModeRule| match rule.of {
            EntryClass::All => true,
            EntryClass::Dirs => is_dir,
            EntryClass::Others => !is_dir,
        };
        let change = |mode, rule: &ModeRule| rule.apply_to(mode, self.umask, executes);
        self.rules.iter().filter(fits).fold(mode, change)
    }
}

impl ModeRule {
    fn parse(item: &str) -> Option<Self> {
        let of = match item.as_bytes().first() {
            Some(b'D') => EntryClass::Dirs,
            Some(b'F') => EntryClass::Others,
            _ => EntryClass::All,
        };
        let rest = item.trim_start_matches(of.letter());
        let op_at = rest.find(['+', '-', '=']);
        let Some(op_at) = op_at else { return Self::parse_octal(of, rest) };
        let (who, special) = parse_classes(&rest[..op_at])?;
        let op = match rest.as_bytes()[op_at] {
            b'+' => ModeOp::Add,
            b'-' => ModeOp::Remove,
            _ => ModeOp::Assign,
        };
        let mut rule = Self { of, op, who, bits: 0, conditional: false, copy: None };
        let mut is_letter = false;
        for letter in rest[op_at + 1..].chars() {
            if matches!(letter, 'u' | 'g' | 'o') && !is_letter && rule.copy.is_none() {
                rule.copy = Some(match letter {
                    'u' => 6,
                    'g' => 3,
                    _ => 0,
                });
                continue;
            }
            let bits = permission_bits(letter, who, special)?;
            if rule.copy.is_some() {
                return None;
            }
            rule.conditional |= letter == 'X';
            rule.bits |= bits;
            is_letter = true;
        }
        Some(rule)
    }

    fn parse_octal(of: EntryClass, digits: &str) -> Option<Self> {
        let is_octal = !digits.is_empty() && digits.bytes().all(|b| matches!(b, b'0'..=b'7'));
        let bits = u32::from_str_radix(digits, 8).ok().filter(|bits| *bits <= 0o7777)?;
        let rule = Self { of, op: ModeOp::Set, who: 0, bits, conditional: false, copy: None };
        is_octal.then_some(rule)
    }

    fn apply_to(&self, mode: u32, umask: u32, executes: bool) -> u32 {
        let Self { op, who, .. } = *self;
        if op == ModeOp::Set {
            return self.bits;
        }
        let whom = if who == 0 { 0o111 } else { who };
        let open = if who == 0 { !umask } else { !0 };
        let hidden = if self.conditional && !executes { EXECUTE_BITS } else { 0 };
        let copied = self.copy.map_or(0, |place| ((mode >> place & 7) * whom) & open);
        let bits = (self.bits & (open | 0o7000)) | copied;
        match op {
            ModeOp::Add => mode | bits & !hidden,
            ModeOp::Remove => mode & !bits,
            _ => (mode & !self.cleared_bits(whom)) | bits & !hidden,
        }
    }

    /// Returns the bits that `=` clears: the permissions of the classes in `whom`, and their special bits if the item
    /// sets special bits.
    fn cleared_bits(&self, whom: u32) -> u32 {
        let special = |bit: u32, place: u32| if whom & place == 0 { 0 } else { bit };
        let specials = special(0o4000, 0o100) | special(0o2000, 0o010);
        let of_bits = if self.bits & 0o7000 != 0 && self.who != 0 { specials } else { 0 };
        let of_copy = if self.copy.is_some() { specials | special(0o1000, 0o001) } else { 0 };
        (7 * whom) | of_bits | of_copy
    }
}

impl EntryClass {
    const fn letter(self) -> char {
        match self {
            Self::All => '\0',
            Self::Dirs => 'D',
            Self::Others => 'F',
        }
    }
}

/// Returns the execute bits and special bits of the classes that `letters` name. Returns `None` for an unknown letter.
fn parse_classes(letters: &str) -> Option<(u32, u32)> {
    letters.chars().try_fold((0, 0), |(who, special), letter| {
        let (place, bit) = match letter {
            'u' => (0o100, 0o4000),
            'g' => (0o010, 0o2000),
            'o' => (0o001, 0),
            'a' => (0o111, 0o6000),
            _ => return None,
        };
        Some((who | place, special | bit))
    })
}

/// Returns the bits of a permission letter for the classes `who`. Without a class, the letter applies to all classes.
const fn permission_bits(letter: char, who: u32, special: u32) -> Option<u32> {
    let whom = if who == 0 { 0o111 } else { who };
    Some(match letter {
        'r' => 4 * whom,
        'w' => 2 * whom,
        'x' | 'X' => whom,
        // As in rsync: without a class, or for others only, `s` is set-user-ID.
        's' if special == 0 => 0o4000,
        's' => special,
        't' => 0o1000,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(rules: &str, mode: u32, kind: &Kind) -> u32 {
        ModeRules::parse(rules, 0o022).unwrap().apply_to(mode, kind)
    }

    #[test]
    fn modes_change_as_in_chmod() {
        for (rules, mode, file, dir) in [
            ("644", 0o777, 0o644, 0o644),
            ("D2755,F640", 0o777, 0o640, 0o2755),
            ("Dg+s,ug+w,Fo-w,+X", 0o646, 0o664, 0o2777),
            ("go=rX", 0o700, 0o755, 0o755),
            ("go=rX", 0o600, 0o644, 0o655),
            ("a=", 0o4755, 0o4000, 0o4000),
            ("+w", 0o444, 0o644, 0o644),
            ("-w", 0o666, 0o466, 0o466),
            ("=rwx", 0o000, 0o755, 0o755),
            ("o=g", 0o750, 0o755, 0o755),
            ("o=g", 0o1750, 0o755, 0o755),
            ("g-o", 0o777, 0o707, 0o707),
            ("u+s,g+s,o+t", 0o755, 0o7755, 0o7755),
            ("a+s", 0o755, 0o6755, 0o6755),
            ("u=rs", 0o6755, 0o6455, 0o6455),
            ("a-x", 0o755, 0o644, 0o644),
        ] {
            let both = [Kind::File, Kind::Dir].map(|kind| changed(rules, mode, &kind));
            assert_eq!(both, [file, dir], "{rules} of {mode:o}: {both:?}");
        }
        assert_eq!(changed("000", 0o777, &Kind::Symlink(b"x"[..].into())), 0o777);
    }

    #[test]
    fn a_bad_change_is_refused() {
        for text in
            ["", ",", "u", "8", "77777", "u+z", "DF+x", "g=uo", "g=ur", "g=ru", "q+r", "+r,"]
        {
            assert!(ModeRules::parse(text, 0).is_err(), "{text}");
        }
    }
}
