//! `deltic verify` with a store that a URL names: contents are compared by the sums that it keeps.

use crate::common::bucket::Bucket;
use crate::common::{DELTIC, Run, World, btrfs, noise};

fn ran(world: &World, bucket: &Bucket, words: &str) -> Run {
    let mut command = world.command(DELTIC, words.split_whitespace());
    Run::of(command.env("STORAGE_EMULATOR_HOST", &bucket.address))
}

/// Two trees that are equal.
fn equal(world: &World, dir: &str) -> Bucket {
    let bucket = Bucket::new();
    for (name, bytes) in
        [("big", noise(300_001, 1)), ("d/e/small", b"small".into()), ("empty", Vec::new())]
    {
        world.write(format!("{dir}/{name}"), &bytes);
        bucket.put(&format!("dir/{name}"), &bytes);
    }
    bucket
}

#[test]
fn equal_trees_are_known_by_sums_whichever_is_named_first() {
    let world = World::new();
    let bucket = equal(&world, "a");
    for words in ["a gs://bucket/dir", "gs://bucket/dir/ a", "a/ gs://bucket/dir/"] {
        let run = ran(&world, &bucket, &format!("verify {words}"));
        let lines = run.lines();
        assert_eq!(run.code, Some(0), "{words}: {run:#?}");
        let evidence = "by CRC-32C that one side keeps: 2 files, 292.97 KiB; read here: 292.97 KiB; received: ";
        assert!(lines[0].starts_with(evidence), "{words}: {run:#?}");
        assert_eq!(lines[1], "equal: 3 files, 292.97 KiB compared", "{words}");
        assert_eq!(lines.len(), 2);
    }
    let file = ran(&world, &bucket, "verify a/big gs://bucket/dir/big");
    assert_eq!((file.code, file.lines().len()), (Some(0), 2), "{file:#?}");
    assert!(!bucket.was_read());
}

#[test]
fn differences_are_told_by_the_tree_that_was_named_first() {
    let world = World::new();
    let bucket = equal(&world, "a");
    world.write("a/here", "1");
    world.write("a/far/b", "1");
    bucket.put("dir/there", b"22");
    bucket.put("dir/d/e/small", b"Small");
    for (words, here, there) in
        [("a gs://bucket/dir", "missing", "extra"), ("gs://bucket/dir a", "extra", "missing")]
    {
        let run = ran(&world, &bucket, &format!("verify {words}"));
        for line in [format!("{here} here"), format!("{there} there"), "content d/e/small".into()] {
            assert!(run.lines().contains(&&*line), "{words}: {line}: {run:#?}");
        }
        let last = "3 files, 292.97 KiB compared";
        assert!(run.stdout.trim_end().ends_with(last), "{words}: {run:#?}");
        assert_eq!(run.code, Some(26));
    }
    // What is hidden of A is not missed in B.
    let run = ran(&world, &bucket, "verify --filter=H,far --filter=H,here a gs://bucket/dir");
    assert!(!run.stdout.contains("missing"), "{run:#?}");
    assert!(!bucket.was_read());
}

#[test]
fn programs_are_told_by_what() {
    let world = World::new();
    let bucket = equal(&world, "a");
    let run = ran(&world, &bucket, "verify --json a gs://bucket/dir");
    let events: Vec<serde_json::Value> =
        run.stdout.lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect();
    assert_eq!(events[0]["sources"][0]["path"], "a", "{run:#?}");
    assert_eq!(events[0]["destination"]["host"], "gs://bucket");
    let last = &events[events.len() - 1];
    assert_eq!(last["read_bytes"], 300_006);
    let by = serde_json::json!([{"by": "summed", "sum": "CRC-32C", "files": 2, "bytes": 300_006}]);
    assert_eq!(last["evidence"], by);
}

#[test]
fn what_is_not_there_is_said() {
    let world = World::new();
    let bucket = equal(&world, "a");
    for words in ["a gs://bucket/nothing", "gs://bucket/nothing a", "none gs://bucket/dir"] {
        let run = ran(&world, &bucket, &format!("verify {words}"));
        assert!(run.code != Some(0) && run.code != Some(26), "{words}: {run:#?}");
        assert!(
            run.stderr.contains("gs://bucket/nothing") || run.stderr.contains("none"),
            "{run:#?}"
        );
    }
    for words in ["gs://bucket/dir gs://bucket/nothing", "gs://bucket/nothing gs://bucket/dir"] {
        let run = ran(&world, &bucket, &format!("verify {words}"));
        assert!(run.code != Some(0) && run.code != Some(26), "{words}: {run:#?}");
        assert!(run.stderr.contains("gs://bucket/nothing"), "{words}: {run:#?}");
    }
}

#[test]
fn two_urls_are_compared_by_the_sums_of_both() {
    let world = World::new();
    let bucket = equal(&world, "a");
    let run = ran(&world, &bucket, "verify gs://bucket/dir gs://bucket/dir/");
    assert_eq!(run.code, Some(0), "{run:#?}");
    let evidence =
        "by CRC-32C that both sides keep: 2 files, 292.97 KiB; read here: 0 B; received: ";
    assert!(run.lines()[0].starts_with(evidence), "{run:#?}");
    assert_eq!(run.lines()[1], "equal: 3 files, 292.97 KiB compared");
    for (name, bytes) in [("big", noise(300_001, 1)), ("more/x", b"1".into())] {
        bucket.put(&format!("other/{name}"), &bytes);
    }
    bucket.put("other/d/e/small", b"longer");
    let run = ran(&world, &bucket, "verify gs://bucket/dir gs://bucket/other");
    assert_eq!(run.code, Some(26), "{run:#?}");
    for line in ["missing empty", "extra more", "extra more/x", "content d/e/small"] {
        assert!(run.lines().contains(&line), "{line}: {run:#?}");
    }
    let file = ran(&world, &bucket, "verify gs://bucket/dir/big gs://bucket/other/big");
    assert_eq!(file.code, Some(0), "{file:#?}");
    let run = ran(&world, &bucket, "verify http://127.0.0.1:9/a http://127.0.0.1:9/b");
    assert!(run.code == Some(1) && run.stderr.contains("both trees are on servers"), "{run:#?}");
    assert!(!bucket.was_read());
}

#[test]
fn btrfs_keeps_the_same_sums_so_nothing_is_read() {
    let world = World::new();
    let Some(_disk) = btrfs(&world) else { return };
    let bucket = equal(&world, "disk/a");
    let big = noise(20 << 20, 2);
    world.write("disk/a/more", &big);
    bucket.put("dir/more", &big);
    let equal = ran(&world, &bucket, "verify --json disk/a gs://bucket/dir");
    let last: serde_json::Value =
        serde_json::from_str(equal.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(equal.code, Some(0), "{equal:#?}");
    let kept = serde_json::json!({"by": "kept", "sum": "CRC-32C", "files": 2, "bytes": (20 << 20) + 300_001});
    assert_eq!(last["evidence"][0], kept, "{equal:#?}");
    // The end of the one, and all of the short one.
    assert_eq!(last["read_bytes"], 300_001 % 4096 + 5);
    let mut other = big;
    other[9 << 20] ^= 1;
    world.write("disk/a/more", &other);
    let run = ran(&world, &bucket, "verify disk/a gs://bucket/dir");
    assert!(run.lines().contains(&"content more") && run.code == Some(26), "{run:#?}");
    assert!(!bucket.was_read());
}

#[test]
fn a_list_of_names_is_refused_with_a_reason() {
    let world = World::new();
    let bucket = equal(&world, "a");
    world.write("names", "big\n");
    let run = ran(&world, &bucket, "sync --files-from names gs://bucket/dir/ out");
    assert_ne!(run.code, Some(0));
    assert!(run.stderr.contains("--filter chooses names"), "{run:#?}");
}
