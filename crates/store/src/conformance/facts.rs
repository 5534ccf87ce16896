//! Laws of stores of facts.

use std::time::Duration;

use deltic_core::Digest;
use deltic_tree::Timestamp;

use crate::{BaseNote, DigestQuery, FactStore, Moment, SettledVersion, Version, VersionToken};

pub(super) fn run<F: FactStore>(make: &impl Fn() -> F) {
    let probe = make();
    no_call_fails_where_nothing_is_known(&probe);
    match probe.keeps_digests() {
        true => run_digests(make),
        false => digests_that_are_not_kept_are_unknown(&make()),
    }
    if probe.keeps_recipes(LEN) {
        a_recipe_is_found_by_its_version_alone(&make());
    }
    if probe.keeps_bases() {
        a_base_is_found_by_its_version_alone(&make());
        notes_of_bases_are_found_by_kind_and_name(&make());
    }
}

fn run_digests<F: FactStore>(make: &impl Fn() -> F) {
    a_digest_is_found_by_its_version_alone(&make());
    answers_are_in_the_order_of_the_question(&make());
    a_query_that_needs_all_gets_all_or_nothing_usable(&make());
    a_later_version_of_a_file_replaces_the_earlier_one(&make());
    a_digest_that_is_too_old_is_unknown(&make());
    facts_outlive_the_end_of_a_session(&make());
}

fn no_call_fails_where_nothing_is_known(facts: &impl FactStore) {
    let version = version(facts, 1);
    facts.prefetch(&[version]);
    facts.forget_recipe(&version);
    assert_eq!(find(facts, &[version]), [None]);
    assert_eq!((facts.recipe(&version), facts.base(&version)), (None, None));
    for kind in [BaseNote::Extents, BaseNote::Sums] {
        facts.forget_base_note(kind, &digest(1));
        assert_eq!(facts.base_note(kind, &digest(1)), None);
    }
    facts.digests(&query(&[]), &mut []);
    facts.note_digests(&[]);
    facts.flush();
}

fn digests_that_are_not_kept_are_unknown(facts: &impl FactStore) {
    let version = version(facts, 1);
    let later = facts.now().elapsed() + Duration::from_secs(86_400);
    let settled = SettledVersion::after_read(version, Moment::since_1970(later));
    facts.note_digests(&[(settled.expect("it changed long before"), digest(1))]);
    assert_eq!(find(facts, &[version]), [None]);
}

fn a_digest_is_found_by_its_version_alone(facts: &impl FactStore) {
    let version = version(facts, 1);
    facts.note_digests(&[(settled(facts, version), digest(1))]);
    assert_eq!(find(facts, &[version]), [Some(digest(1))]);
    assert_eq!(find(facts, &others(version)), [None; 5]);
    facts.note_digests(&[(settled(facts, version), digest(2))]);
    assert_eq!(find(facts, &[version]), [Some(digest(2))], "the last note counts");
}

fn answers_are_in_the_order_of_the_question(facts: &impl FactStore) {
    let versions: Vec<_> = (0..500).map(|n| version(facts, n)).collect();
    let is_noted = |n: &u64| !n.is_multiple_of(3);
    let note = |n| (settled(facts, versions[n as usize]), digest(n));
    let notes: Vec<_> = (0..500).filter(is_noted).map(note).collect();
    facts.note_digests(&notes);
    facts.prefetch(&versions);
    let expected = |n: &u64| is_noted(n).then(|| digest(*n));
    let backwards: Vec<_> = (0..500).rev().chain([7, 7]).collect();
    let asked: Vec<_> = backwards.iter().map(|n| versions[*n as usize]).collect();
    assert_eq!(find(facts, &asked), backwards.iter().map(expected).collect::<Vec<_>>());
}

fn a_query_that_needs_all_gets_all_or_nothing_usable(facts: &impl FactStore) {
    let versions = [1, 2, 3].map(|n| version(facts, n));
    let ask = || {
        let (mut found, query) = ([None; 3], DigestQuery { needs_all: true, ..query(&versions) });
        facts.digests(&query, &mut found);
        found
    };
    facts.note_digests(&[1, 3].map(|n| (settled(facts, version(facts, n)), digest(n))));
    let found = ask();
    assert_eq!(found[1], None);
    assert!(found[2].is_none_or(|found| found == digest(3)));
    facts.note_digests(&[(settled(facts, versions[1]), digest(2))]);
    assert_eq!(ask(), [1, 2, 3].map(|n| Some(digest(n))));
}

fn a_later_version_of_a_file_replaces_the_earlier_one(facts: &impl FactStore) {
    let earlier = version(facts, 1);
    let later = Version { len: LEN + 1, ..earlier };
    for (version, of) in [(earlier, 1), (later, 2)] {
        facts.note_digests(&[(settled(facts, version), digest(of))]);
    }
    assert_eq!(find(facts, &[earlier, later]), [None, Some(digest(2))]);
}

fn a_digest_that_is_too_old_is_unknown(facts: &impl FactStore) {
    let now = facts.now().elapsed();
    let (hour, minute) = (Duration::from_secs(3600), Duration::from_secs(60));
    let at = |n, elapsed| {
        let settled = SettledVersion::after_read(version(facts, n), Moment::since_1970(elapsed));
        facts.note_digests(&[(settled.expect("it changed long before"), digest(n))]);
        version(facts, n)
    };
    let versions = [at(1, now - minute), at(2, now - hour), at(3, now + hour)];
    let within = |max_age| {
        let mut found = [None; 3];
        facts.digests(&DigestQuery { max_age, ..query(&versions) }, &mut found);
        found.map(|found| found.is_some())
    };
    assert_eq!(within(None), [true; 3]);
    assert_eq!(within(Some(hour)), [true, false, false], "the age of the third is unknown");
    assert_eq!(within(Some(Duration::ZERO)), [false; 3]);
}

fn facts_outlive_the_end_of_a_session(facts: &impl FactStore) {
    let version = version(facts, 1);
    facts.note_digests(&[(settled(facts, version), digest(1))]);
    facts.flush();
    facts.prefetch(&[version]);
    assert_eq!(find(facts, &[version]), [Some(digest(1))]);
}

fn a_recipe_is_found_by_its_version_alone(facts: &impl FactStore) {
    let version = version(facts, 1);
    let note = |version, parts: &[&[u8]]| {
        let mut parts = parts.iter().map(|part| part.to_vec());
        facts.note_recipe(&settled(facts, version), &mut parts);
    };
    let find = |version: &Version| facts.recipe(version).map(|recipe| recipe.to_vec());
    note(version, &[b"first", b"", b" recipe"]);
    assert_eq!(find(&version).as_deref(), Some(&b"first recipe"[..]));
    assert!(others(version).iter().all(|other| find(other).is_none()));
    note(version, &[b"second"]);
    assert_eq!(find(&version).as_deref(), Some(&b"second"[..]));
    facts.forget_recipe(&version);
    assert_eq!(find(&version), None);
}

fn a_base_is_found_by_its_version_alone(facts: &impl FactStore) {
    let version = version(facts, 1);
    facts.note_base(&settled(facts, version), &digest(1));
    assert_eq!(facts.base(&version), Some(digest(1)));
    assert!(others(version).iter().all(|other| facts.base(other).is_none()));
}

fn notes_of_bases_are_found_by_kind_and_name(facts: &impl FactStore) {
    let (one, other) = (digest(1), digest(2));
    facts.keep_base_note(BaseNote::Extents, &one, b"extents".to_vec());
    facts.keep_base_note(BaseNote::Sums, &one, b"sums".to_vec());
    let find = |kind, name| facts.base_note(kind, name);
    assert_eq!(find(BaseNote::Extents, &one).as_deref(), Some(&b"extents"[..]));
    assert_eq!(find(BaseNote::Sums, &one).as_deref(), Some(&b"sums"[..]));
    assert_eq!(find(BaseNote::Extents, &other), None);
    facts.keep_base_note(BaseNote::Sums, &one, b"other sums".to_vec());
    assert_eq!(find(BaseNote::Sums, &one).as_deref(), Some(&b"other sums"[..]));
    facts.forget_base_note(BaseNote::Extents, &one);
    assert_eq!(find(BaseNote::Extents, &one), None);
    assert!(find(BaseNote::Sums, &one).is_some());
}

fn find(facts: &impl FactStore, versions: &[Version]) -> Vec<Option<Digest>> {
    let mut found = vec![None; versions.len()];
    facts.digests(&query(versions), &mut found);
    found
}

const fn query(versions: &[Version]) -> DigestQuery<'_> {
    DigestQuery { versions, max_age: None, needs_all: false }
}

fn settled(facts: &impl FactStore, version: Version) -> SettledVersion {
    SettledVersion::after_read(version, facts.now()).expect("it changed long before")
}

/// Returns a version of the file `n`, which changed a day ago.
fn version(facts: &impl FactStore, n: u64) -> Version {
    let mut token = [7; 32];
    token[..8].copy_from_slice(&n.to_le_bytes());
    let secs = facts.now().elapsed().as_secs().saturating_sub(86_400);
    let at = |nanos| Timestamp { secs: secs as i64, nanos };
    Version { token: VersionToken(token), len: LEN, modified: at(1), changed: at(2) }
}

/// Returns versions that differ from `version` in one field each.
fn others(version: Version) -> [Version; 5] {
    let later = |time: Timestamp| Timestamp { nanos: time.nanos + 1, ..time };
    let mut token = version.token;
    token.0[0] ^= 0x80;
    [
        Version { token, ..version },
        Version { len: version.len + 1, ..version },
        Version { modified: later(version.modified), ..version },
        Version { changed: later(version.changed), ..version },
        Version { modified: later(version.changed), changed: later(version.modified), ..version },
    ]
}

fn digest(n: u64) -> Digest {
    let mut bytes = [9; 32];
    bytes[..8].copy_from_slice(&n.to_le_bytes());
    Digest::from_bytes(bytes)
}

/// Length in bytes of a file that is long enough for a recipe in any store.
const LEN: u64 = 64 << 20;
