//! Search for a file with a similar name, which may be an old version (rsync's `--fuzzy`).

use deltic_tree::{Entry, Name, Timestamp};

/// Regular files with the number of the alternate tree that holds the file. `None` is the destination.
pub type Candidates = Vec<(Option<usize>, Entry)>;

/// Returns the file that is most likely an older version of `name`: a file of the same length and time, or else the
/// file with the most similar name.
#[must_use]
pub fn most_similar<'a>(
    name: &Name,
    len: u64,
    modified: Timestamp,
    candidates: &'a Candidates,
) -> Option<(Option<usize>, &'a Name)> {
    let same = |(_, entry): &&(_, Entry)| entry.meta.len == len && entry.meta.modified == modified;
    let found = candidates.iter().find(same).or_else(|| {
        let far = |(_, entry): &(_, Entry)| distance(name.as_bytes(), entry.name.as_bytes());
        let near = candidates.iter().map(|one| (far(one), one));
        near.filter(|(far, _)| *far <= FARTHEST).min_by_key(|(far, _)| *far).map(|(_, one)| one)
    });
    found.map(|(tree, entry)| (*tree, &entry.name))
}

/// Returns the edit distance of two names. Edits of the suffix count more.
fn distance(one: &[u8], other: &[u8]) -> usize {
    edits(one, other) + SUFFIX_WEIGHT * edits(suffix(one), suffix(other))
}

fn suffix(name: &[u8]) -> &[u8] {
    name.iter().rposition(|byte| *byte == b'.').map_or(&[], |dot| &name[dot..])
}

fn edits(one: &[u8], other: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (above, byte) in one.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], above + 1);
        for (left, facing) in other.iter().enumerate() {
            let changed = diagonal + usize::from(byte != facing);
            diagonal = row[left + 1];
            row[left + 1] = changed.min(diagonal + 1).min(row[left] + 1);
        }
    }
    row[other.len()]
}

/// Largest distance of similar names, as in rsync.
const FARTHEST: usize = 25;
const SUFFIX_WEIGHT: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;
    use deltic_tree::{Kind, Meta};

    fn entry(name: &str, len: u64, secs: i64) -> (Option<usize>, Entry) {
        let modified = Timestamp { secs, nanos: 0 };
        let meta = Meta::without_owner(Kind::File, len, modified, 0o644);
        (None, Entry { name: Name::new(name.as_bytes()).unwrap(), meta })
    }

    fn best(name: &str, candidates: &Candidates) -> Option<String> {
        let modified = Timestamp { secs: 7, nanos: 0 };
        let name = Name::new(name.as_bytes()).unwrap();
        most_similar(&name, 100, modified, candidates).map(|(_, name)| name.to_string())
    }

    #[test]
    fn the_nearest_name_wins_unless_a_file_has_the_same_length_and_time() {
        let candidates = vec![entry("app-1.2.tar", 5, 1), entry("app-1.2.zip", 5, 1)];
        assert_eq!(best("app-1.3.tar", &candidates).as_deref(), Some("app-1.2.tar"));
        let candidates = [candidates, vec![entry("quite other", 100, 7)]].concat();
        assert_eq!(best("app-1.3.tar", &candidates).as_deref(), Some("quite other"));
    }

    #[test]
    fn a_name_too_different_is_not_similar() {
        let candidates = vec![entry("something altogether different.iso", 5, 1)];
        assert_eq!(best("notes.txt", &candidates), None);
    }

    #[test]
    fn edits_are_the_levenshtein_distance() {
        for (one, other, edits) in [("", "", 0), ("abc", "", 3), ("kitten", "sitting", 3)] {
            assert_eq!(super::edits(one.as_bytes(), other.as_bytes()), edits);
            assert_eq!(super::edits(other.as_bytes(), one.as_bytes()), edits);
        }
    }
}
