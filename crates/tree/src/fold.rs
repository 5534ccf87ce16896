//! Names that are one name to some file systems: names that differ in case only, or in how Unicode composes letters.
//!
//! A directory of exFAT, NTFS, FAT, SMB, HFS+, or of ext4 with `casefold`, finds `Report.txt` by the name `report.txt`.
//! The rules differ between file systems. [`folded`] takes more names for one than any of them; the file system itself
//! has the last word.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher};

use deltic_core::Packed;
use deltic_core::packed::Slot;
use unicode_normalization::UnicodeNormalization;

use crate::path::Name;

/// Returns the form that all spellings of `name` share: two names of different forms are two names on every file
/// system.
#[must_use]
pub fn folded(name: &Name) -> Vec<u8> {
    let bytes = name.as_bytes();
    let text = std::str::from_utf8(bytes).ok().filter(|text| !text.is_ascii());
    let Some(text) = text else { return bytes.to_ascii_lowercase() };
    // Upper case first: the upper case of ß is SS, and that of ſ is S.
    let upper = text.nfd().flat_map(char::to_uppercase);
    upper.flat_map(char::to_lowercase).nfd().collect::<String>().into_bytes()
}

/// Returns other spellings of `name`, at most two: the name in the other case, and in the other Unicode form. A name
/// without letters gets a dot at the end, which FAT and exFAT leave out.
pub fn other_spellings(name: &Name) -> impl Iterator<Item = Name> + use<> {
    let in_other_form = |text: &str| {
        let decomposed: String = text.nfd().collect();
        if decomposed == text { text.nfc().collect() } else { decomposed }
    };
    let text = std::str::from_utf8(name.as_bytes()).unwrap_or_default();
    let in_other_case = in_other_case(name);
    let other = match in_other_case == name.as_bytes() && text.is_ascii() {
        true => [name.as_bytes(), b"."].concat(),
        false => in_other_case,
    };
    let others = [other, in_other_form(text).into_bytes()];
    let others = others.into_iter().filter(|other| !other.is_empty() && other != name.as_bytes());
    let others: Vec<Name> = others.filter_map(|other| Name::new(&other).ok()).collect();
    others.into_iter()
}

/// The name with its ASCII letters in the other case. If the name has no ASCII letters, its other letters are in the
/// other case. A letter that would become several letters stays.
fn in_other_case(name: &Name) -> Vec<u8> {
    let bytes = name.as_bytes();
    let is_other = |other: &Vec<u8>| other != bytes;
    let ascii = [bytes.to_ascii_uppercase(), bytes.to_ascii_lowercase()];
    if let Some(other) = ascii.into_iter().find(is_other) {
        return other;
    }
    let text = std::str::from_utf8(bytes).unwrap_or_default();
    let upper = |letter: char| {
        let mut upper = letter.to_uppercase();
        upper.next().filter(|_| upper.next().is_none()).unwrap_or(letter)
    };
    let lower = |letter: char| {
        let mut lower = letter.to_lowercase();
        lower.next().filter(|_| lower.next().is_none()).unwrap_or(letter)
    };
    let raised: String = text.chars().map(upper).collect();
    let other = if raised == text { text.chars().map(lower).collect() } else { raised };
    other.into_bytes()
}

/// Sample names of a directory. The file system is asked for another spelling of each sample.
#[derive(Clone, Debug, Default)]
pub struct SampleNames {
    /// A name with ASCII letters.
    ascii: Option<Name>,
    /// An ASCII name without letters.
    without_letters: Option<Name>,
    other: Option<Name>,
}

impl SampleNames {
    /// Takes `name` as a sample, unless there is already a sample of its kind that has another spelling.
    pub fn note(&mut self, name: &Name) {
        let bytes = name.as_bytes();
        let sample = match (bytes.is_ascii(), bytes.iter().any(u8::is_ascii_alphabetic)) {
            (true, true) => &mut self.ascii,
            (true, false) => &mut self.without_letters,
            (false, _) => &mut self.other,
        };
        if sample.is_none() && other_spellings(name).next().is_some() {
            *sample = Some(name.clone());
        }
    }

    /// Returns the samples.
    pub fn names(&self) -> impl Iterator<Item = &Name> {
        self.ascii.iter().chain(&self.without_letters).chain(&self.other)
    }
}

/// Finder of names that some file systems take for one name, among the names of one directory.
///
/// Names are added in the order of their bytes. Only a name with a capital letter, or with a letter that is not ASCII,
/// is kept: of two spellings, one like that comes first.
#[derive(Debug, Default)]
pub struct FoldedNames {
    by_hash: HashMap<u64, Slot>,
    names: Packed,
}

impl FoldedNames {
    /// Adds a name. Returns an earlier name that some file systems take for the same name.
    pub fn add(&mut self, name: &Name) -> Option<Name> {
        let has_variants = |byte: &u8| byte.is_ascii_uppercase() || !byte.is_ascii();
        let is_kept = name.as_bytes().iter().any(has_variants);
        if !is_kept && self.names.is_empty() {
            return None;
        }
        let form = folded(name);
        let mut hasher = DefaultHasher::new();
        hasher.write(&form);
        let hash = hasher.finish();
        if let Some(slot) = self.by_hash.get(&hash) {
            let earlier = Name::new(self.names.get(*slot)).ok()?;
            return (folded(&earlier) == form).then_some(earlier);
        }
        if is_kept && let Ok(slot) = self.names.push(name.as_bytes()) {
            self.by_hash.insert(hash, slot);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text.as_bytes()).unwrap()
    }

    #[test]
    fn spellings_of_one_name_have_one_form() {
        let same = [
            ("Report.txt", "report.TXT"),
            ("É", "é"),
            ("\u{e9}", "e\u{301}"),
            ("\u{c9}", "e\u{301}"),
            ("STRASSE", "straße"),
            ("ΣΑΣ", "σας"),
            ("\u{212a}", "k"),
        ];
        for (one, other) in same {
            assert_eq!(folded(&name(one)), folded(&name(other)), "{one} {other}");
        }
        for (one, other) in [("e", "é"), ("a", "b"), ("Report.txt", "Report_txt")] {
            assert_ne!(folded(&name(one)), folded(&name(other)), "{one} {other}");
        }
        let latin = Name::new(b"\xe9A").unwrap();
        assert_eq!(folded(&latin), b"\xe9a", "bytes that are no UTF-8 keep what is not ASCII");
    }

    #[test]
    fn a_name_is_spelled_otherwise_in_case_and_in_form() {
        let others = |text: &str| other_spellings(&name(text)).collect::<Vec<_>>();
        assert_eq!(others("a.txt"), [name("A.TXT")]);
        assert_eq!(others("A"), [name("a")]);
        assert_eq!(others("\u{e9}"), [name("\u{c9}"), name("e\u{301}")]);
        assert_eq!(others("e\u{301}"), [name("E\u{301}"), name("\u{e9}")]);
        assert_eq!(others("Straße"), [name("STRAßE")]);
        assert_eq!(others("123"), [name("123.")]);
    }

    #[test]
    fn samples_are_names_that_have_other_spellings() {
        let mut samples = SampleNames::default();
        ["1", "b", "a", "é", "ü"].iter().for_each(|text| samples.note(&name(text)));
        assert!(samples.names().eq(&[name("b"), name("1"), name("é")]));
    }

    #[test]
    fn an_earlier_spelling_is_found() {
        let mut names = FoldedNames::default();
        let mut all = ["README", "Readme", "a", "e\u{301}x", "readme", "rest", "z", "\u{e9}x"];
        all.sort_unstable();
        let found: Vec<_> = all.iter().filter_map(|one| names.add(&name(one))).collect();
        assert_eq!(found, [name("README"), name("README"), name("e\u{301}x")]);
    }
}
