//! Folds names as case-insensitive and Unicode-normalizing file systems do.
//!
//! A directory of exFAT, NTFS, FAT, SMB, HFS+, or of ext4 with `casefold`, finds `Report.txt` by the name `report.txt`.
//! The rules differ between file systems. [`folded`] merges more names than any single file system, so names with equal
//! folded forms are only candidates for one name: the file system decides.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher};

use deltic_core::PackedStrings;
use deltic_core::packed::StringSlot;
use unicode_normalization::UnicodeNormalization;

use crate::path::{Name, RelPath};

/// Returns the folded form of `name`. All spellings of a name have the same folded form.
///
/// Names with different folded forms are different names on every file system without compatibility normalization (ZFS
/// `formKC`, `formKD`). The folded form drops dots and blanks at the end of a name, as FAT and NTFS do.
#[must_use]
pub fn folded(name: &Name) -> Vec<u8> {
    to_lower_case_nfd(without_dots_at_end(name.as_bytes()))
}

/// Returns `name` in lower case and in Unicode normalization form D. Without valid UTF-8, only ASCII letters change.
fn to_lower_case_nfd(name: &[u8]) -> Vec<u8> {
    let text = std::str::from_utf8(name).ok().filter(|text| !text.is_ascii());
    let Some(text) = text else { return name.to_ascii_lowercase() };
    to_lower_case(text.nfd()).nfd().collect::<String>().into_bytes()
}

/// Returns letters in lower case, by way of upper case: the upper case of ß is SS, and the upper case of ſ is S.
fn to_lower_case(letters: impl Iterator<Item = char>) -> impl Iterator<Item = char> {
    letters.flat_map(char::to_uppercase).flat_map(char::to_lowercase)
}

/// Returns `name` in lower case and in Unicode's compatibility form, as ZFS with `normalization=formKD` compares names.
/// Bytes that are not UTF-8 become U+FFFD. The result need not be a valid name.
#[must_use]
pub fn compatibility_folded(name: &[u8]) -> Vec<u8> {
    if name.is_ascii() {
        return name.to_ascii_lowercase();
    }
    to_lower_case(String::from_utf8_lossy(name).nfkd()).nfkd().collect::<String>().into_bytes()
}

/// Returns the folded form of a path: the [folded] names of its components.
#[must_use]
pub fn folded_path(path: &RelPath) -> Vec<u8> {
    let form = |name: &[u8]| Name::new(name).map_or_else(|_| name.to_vec(), |name| folded(&name));
    path.components().map(form).collect::<Vec<_>>().join(&b'/')
}

/// Returns `name` without dots and blanks at its end. A name of dots and blanks alone stays whole.
#[must_use]
pub fn without_dots_at_end(name: &[u8]) -> &[u8] {
    let end = name.iter().rposition(|byte| !matches!(byte, b'.' | b' '));
    end.map_or(name, |end| &name[..=end])
}

/// Returns at most two other spellings of `name`: one in the other case, one in the other Unicode normalization form. A
/// name without letters gets a dot at the end, which FAT and exFAT drop.
pub fn other_spellings(name: &Name) -> impl Iterator<Item = Name> + use<> {
    let in_other_form = |text: &str| {
        let decomposed: String = text.nfd().collect();
        if decomposed == text { text.nfc().collect() } else { decomposed }
    };
    let text = std::str::from_utf8(name.as_bytes()).unwrap_or_default();
    let in_other_case = swap_ascii_case(name);
    let other = match in_other_case == name.as_bytes() && text.is_ascii() {
        true => [name.as_bytes(), b"."].concat(),
        false => in_other_case,
    };
    let others = [other, in_other_form(text).into_bytes()];
    let others = others.into_iter().filter(|other| !other.is_empty() && other != name.as_bytes());
    let others: Vec<Name> = others.filter_map(|other| Name::new(&other).ok()).collect();
    others.into_iter()
}

/// Returns `name` with its ASCII letters in the other case. Without ASCII letters, its other letters change case. A
/// letter whose other case has several letters stays.
fn swap_ascii_case(name: &Name) -> Vec<u8> {
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

/// Sample names of a directory. The receiver asks the file system for another spelling of each sample.
#[derive(Clone, Debug, Default)]
pub struct SampleNames {
    /// A name with ASCII letters.
    ascii: Option<Name>,
    /// An ASCII name without letters.
    without_letters: Option<Name>,
    other: Option<Name>,
}

impl SampleNames {
    /// Stores `name` as the sample of its kind (ASCII with letters, ASCII without, non-ASCII), if the kind has no
    /// sample yet and `name` has another spelling.
    pub fn keep_sample(&mut self, name: &Name) {
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

/// Finds names of one directory that some file systems treat as the same name.
///
/// Callers add names in byte order. Three rules keep the number of stored names small:
///
/// - Of two spellings in different case or normalization form, the first in byte order has a capital letter or a
///   non-ASCII letter. Only names with such a letter are stored by their folded case.
/// - Only names with dots or blanks at the end are stored without these dots and blanks.
/// - For a name that is a prefix of the next names (`a` of `a.`), only the length is stored.
#[derive(Debug, Default)]
pub struct FoldedNames {
    by_hash: HashMap<u64, StringSlot>,
    names: PackedStrings,
    last: Vec<u8>,
    beginnings: Vec<usize>,
}

impl FoldedNames {
    /// Adds a name. Returns earlier names that some file systems treat as the same name.
    pub fn add_name(&mut self, name: &Name) -> Vec<Name> {
        let bytes = name.as_bytes();
        self.update_prefix_lengths(bytes);
        let has_variants = bytes.iter().any(|byte| byte.is_ascii_uppercase() || !byte.is_ascii());
        let has_dots = without_dots_at_end(bytes).len() < bytes.len();
        if !has_variants && !has_dots && self.by_hash.is_empty() {
            return Vec::new();
        }
        let [by_case, by_start] = keys(bytes);
        let start = &by_start[..by_start.len() - KIND.len()];
        let mut found = vec![self.find_name(&by_case), self.find_name(&by_start)];
        if has_dots {
            let is_earlier = bytes.starts_with(start) && self.beginnings.contains(&start.len());
            found.push(Name::new(start).ok().filter(|_| is_earlier));
            found.push(self.find_name(start));
        }
        let kept = [(&by_case, has_variants), (&by_start, has_dots)];
        kept.iter().filter(|(_, is_kept)| *is_kept).for_each(|(key, _)| self.keep_name(key, bytes));
        let mut found: Vec<_> = found.into_iter().flatten().collect();
        found.dedup();
        found
    }

    fn find_name(&self, key: &[u8]) -> Option<Name> {
        let slot = self.by_hash.get(&hash(key))?;
        let earlier = Name::new(self.names.get(*slot)).ok()?;
        keys(earlier.as_bytes()).iter().any(|own| own == key).then_some(earlier)
    }

    fn keep_name(&mut self, key: &[u8], name: &[u8]) {
        let hash = hash(key);
        if !self.by_hash.contains_key(&hash)
            && let Ok(slot) = self.names.push(name)
        {
            self.by_hash.insert(hash, slot);
        }
    }

    /// Updates `beginnings`: the lengths of the earlier names that are prefixes of `name`, and the length of `name`.
    fn update_prefix_lengths(&mut self, name: &[u8]) {
        let common = self.last.iter().zip(name).take_while(|(last, new)| last == new).count();
        self.beginnings.retain(|len| *len <= common);
        self.beginnings.push(name.len());
        self.last.clear();
        self.last.extend_from_slice(name);
    }
}

/// Returns two keys of a name: the folded name, and the folded name without dots and blanks at its end. The second key
/// ends with [`KIND`], so it differs from the first key of every name.
fn keys(name: &[u8]) -> [Vec<u8>; 2] {
    let start = to_lower_case_nfd(without_dots_at_end(name));
    [to_lower_case_nfd(name), [&start, KIND].concat()]
}

/// Suffix of the second key of a name (see [`keys`]). Names contain no slash, so no first key ends with this byte.
const KIND: &[u8] = b"/";

fn hash(key: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(key);
    hasher.finish()
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
            ("a.", "A"),
            ("a. .", "a"),
        ];
        for (one, other) in same {
            assert_eq!(folded(&name(one)), folded(&name(other)), "{one} {other}");
        }
        for (one, other) in [("e", "é"), ("a", "b"), ("Report.txt", "Report_txt"), ("...", "....")]
        {
            assert_ne!(folded(&name(one)), folded(&name(other)), "{one} {other}");
        }
        let latin = Name::new(b"\xe9A").unwrap();
        assert_eq!(folded(&latin), b"\xe9a", "in names that are not UTF-8 only ASCII letters fold");
    }

    #[test]
    fn other_spellings_change_the_case_or_the_unicode_form() {
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
        ["1", "b", "a", "é", "ü"].iter().for_each(|text| samples.keep_sample(&name(text)));
        assert!(samples.names().eq(&[name("b"), name("1"), name("é")]));
    }

    /// Adds the names of `all` in byte order. Returns each name for which earlier names were found, with these names.
    fn repeated<'a>(all: &[&'a str]) -> Vec<(&'a str, Vec<Name>)> {
        let mut names = FoldedNames::default();
        let mut all = all.to_vec();
        all.sort_unstable();
        let added = all.into_iter().map(|one| (one, names.add_name(&name(one))));
        added.filter(|(_, earlier)| !earlier.is_empty()).collect()
    }

    #[test]
    fn an_earlier_name_without_dots_at_its_end_is_found() {
        let one = |new, earlier| (new, vec![name(earlier)]);
        let all = ["a", "a !", "a-b", "a-b.", "a.", "a.b", "a.b.", "ab", "b."];
        assert_eq!(repeated(&all), [one("a-b.", "a-b"), one("a.", "a"), one("a.b.", "a.b")]);
        assert_eq!(repeated(&["A.", "a"]), [one("a", "A.")]);
        assert_eq!(repeated(&["a ", "a."]), [one("a.", "a ")]);
        assert!(repeated(&["...", "ab", "b", "c."]).is_empty());
    }

    #[test]
    fn names_of_one_case_and_names_of_one_start_are_both_found() {
        // exFAT takes the last two for one name, FAT takes all.
        let both = |new, earlier: [&str; 2]| (new, earlier.map(name).to_vec());
        let (ab, upper) = (("Ab", vec![name("AB.")]), both("ab", ["Ab", "AB."]));
        assert_eq!(repeated(&["AB.", "Ab", "ab"]), [ab, upper]);
        let (a, dot) = (("a", vec![name("A.")]), both("a.", ["A.", "a"]));
        assert_eq!(repeated(&["A.", "a", "a."]), [a, dot]);
    }

    #[test]
    fn an_earlier_spelling_is_found() {
        let all = ["README", "Readme", "a", "e\u{301}x", "readme", "rest", "z", "\u{e9}x"];
        let found: Vec<_> = repeated(&all).into_iter().flat_map(|(_, earlier)| earlier).collect();
        assert_eq!(found, [name("README"), name("README"), name("e\u{301}x")]);
    }
}
