//! `deltic ls`, `deltic size` and `deltic cat`: of a server, of a store, of a path.

use serde_json::Value;

use crate::common::bucket::Bucket;
use crate::common::server::Server;
use crate::common::{DELTIC, Run, World, noise};
use deltic_core::Strategy;

/// Files in `photos`, which a server serves.
fn photos(world: &World) {
    world.write("photos/2026/a.jpg", noise(3_000_000, 1));
    world.write("photos/2026/b.txt", "some text");
    world.write("photos/2026/sub/c d", "1");
}

/// The last words of all lines.
fn names(run: &Run) -> Vec<&str> {
    run.stdout.lines().filter_map(|line| line.rsplit(' ').next()).collect()
}

fn json(run: &Run) -> Vec<Value> {
    run.stdout.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
}

#[test]
fn a_volume_is_listed_counted_and_read() {
    let world = World::new();
    photos(&world);
    let server = Server::start(&world, "");
    for url in ["URL/photos/2026", "URL/photos/2026/"] {
        let listed = server.ok(&format!("ls {url}"));
        assert_eq!(names(&listed), ["a.jpg", "b.txt", "sub"], "{url}: {listed:#?}");
    }
    assert_eq!(names(&server.ok("ls URL/photos")), ["2026"]);
    assert_eq!(names(&server.ok("ls URL/photos/2026/b.txt")), ["b.txt"]);
    assert_eq!(names(&server.ok("ls URL/photos/20*/*.txt")), ["b.txt"]);
    let events = json(&server.ok("ls -r --json URL/photos"));
    let paths: std::collections::BTreeSet<_> =
        events.iter().map(|event| event["path"].as_str().expect("a path")).collect();
    let all = ["2026", "2026/a.jpg", "2026/b.txt", "2026/sub", "2026/sub/c d"];
    assert_eq!(paths.into_iter().collect::<Vec<_>>(), all);
    assert!(events.iter().all(|event| event["event"] == "entry"), "{events:?}");

    let size = server.ok("size URL/photos").stdout;
    assert_eq!(size, "3 files, 2 directories, 2.86 MiB (3,000,010 bytes)\n");
    let size = json(&server.ok("size --json URL/photos/2026/b.txt"));
    assert_eq!(size, [serde_json::json!({"event": "size", "files": 1, "dirs": 0, "bytes": 9})]);

    assert_eq!(server.ok("cat URL/photos/2026/b.txt").stdout, "some text");
    assert_eq!(server.ok("cat URL/photos/2026/sub/c%20d").stdout, "1");
}

#[test]
fn a_long_file_of_a_volume_is_read_whole() {
    let world = World::new();
    photos(&world);
    let server = Server::start(&world, "");
    let url = format!("{}/photos/2026/a.jpg", server.url);
    let read = world.command(DELTIC, ["cat", &url]).output().expect("deltic runs");
    assert!(read.status.success() && read.stdout == noise(3_000_000, 1), "{:?}", read.stderr);
}

#[test]
fn what_is_not_there_ends_with_an_error() {
    let world = World::new();
    photos(&world);
    let server = Server::start(&world, "");
    for command in ["ls", "size", "cat"] {
        let named = match command {
            "cat" => "none".to_owned(),
            _ => format!("{}/photos/none: cannot read ", server.url),
        };
        server.fails(3, &format!("{command} URL/photos/none"), &named);
        server.fails(3, &format!("{command} URL/nowhere/none"), "nowhere");
    }
    server.fails(3, "ls URL/photos/none/", "none");
    server.fails(3, "cat URL/photos/2026", "2026");
    for url in ["URL/photos", "URL/photos/2026/"] {
        server.fails(1, &format!("cat {url}"), "is a directory; `deltic ls` lists");
    }
    for command in ["ls", "size", "cat", "versions", "restore --at 1d"] {
        let told = format!("`deltic doctor {}` lists the volumes", server.url);
        server.fails(1, &format!("{command} URL"), &told);
    }
    assert_eq!(server.deltic("size URL/photos/none").stdout, "");
    server.fails(1, "cat photos/2026/b.txt", "write `cat photos/2026/b.txt`");
    server.fails(1, "cat host:b.txt", "write `ssh host cat b.txt`");
    server.fails(1, "ls", "URL");
    server.fails(1, "ls s3://", "write s3://BUCKET/PATH");
}

#[test]
fn a_store_and_a_path_are_listed_and_counted() {
    let world = World::new();
    photos(&world);
    let bucket = Bucket::new();
    bucket.put("dir/a.csv", b"1");
    bucket.put("dir/b.csv", b"22");
    bucket.put("dir/sub/c.txt", b"333");
    let ran = |words: &str| {
        let mut command = world.command(DELTIC, words.split_whitespace());
        let run = Run::of(command.env("STORAGE_EMULATOR_HOST", &bucket.address));
        assert_eq!((run.code, &*run.stderr), (Some(0), ""), "deltic {words}\n{run:#?}");
        run
    };
    assert_eq!(names(&ran("ls gs://bucket/dir")), ["a.csv", "b.csv", "sub"]);
    assert_eq!(names(&ran("ls gs://bucket")), ["dir"]);
    assert_eq!(names(&ran("ls gs://bucket/dir/*.csv")), ["a.csv", "b.csv"]);
    assert_eq!(names(&ran("ls -r gs://bucket/dir")), ["a.csv", "b.csv", "sub", "sub/c.txt"]);
    assert_eq!(ran("size gs://bucket").stdout, "3 files, 2 directories, 6 B (6 bytes)\n");
    assert_eq!(ran("size gs://bucket/*/*.csv").stdout, "2 files, 0 directories, 3 B (3 bytes)\n");
    let mut command = world.command(DELTIC, ["cat", "gs://bucket/dir"]);
    let run = Run::of(command.env("STORAGE_EMULATOR_HOST", &bucket.address));
    assert_eq!(run.code, Some(3), "{run:#?}");
    assert!(run.stderr.contains("gs://bucket/dir: a directory; `deltic ls` lists"), "{run:#?}");
    // Without -r, a directory is skipped, and a missing one is an error.
    for (url, code, told) in [
        ("gs://bucket/dir/", 0, "skipping directory ."),
        ("gs://bucket/none/", 23, "cannot read gs://bucket/none"),
    ] {
        let mut command = world.command(DELTIC, ["sync", url, "out"]);
        let run = Run::of(command.env("STORAGE_EMULATOR_HOST", &bucket.address));
        assert_eq!(run.code, Some(code), "{run:#?}");
        assert!(format!("{}{}", run.stdout, run.stderr).contains(told), "{run:#?}");
    }
    assert_eq!(names(&ran("ls photos/2026")), ["a.jpg", "b.txt", "sub"]);
    assert!(!bucket.was_read());
}

/// A store computes no sums on request, so no preset can work there. The refusal comes before any request.
#[test]
fn a_strategy_for_a_store_is_refused_with_the_reason() {
    let (world, bucket) = (World::new(), Bucket::new());
    bucket.put("dir/f", b"from the store");
    world.mkdir("to");
    let sync = |words: &str| {
        let mut command = world.command(DELTIC, format!("sync {words}").split_whitespace());
        Run::of(command.env("STORAGE_EMULATOR_HOST", &bucket.address))
    };
    let stores =
        ["gs://bucket/dir/", "s3://bucket/dir/", "hdfs://127.0.0.1:1/dir/", "azure://c/dir/"];
    for Strategy { name, .. } in Strategy::ALL.into_iter().filter(|one| *one != Strategy::DELTIC) {
        for store in stores {
            let run = sync(&format!("-r --strategy {name} {store} to"));
            assert_eq!(run.code, Some(1), "{run:#?}");
            let host = store.trim_end_matches("dir/");
            for told in
                [&*format!("--strategy {name}"), host.trim_end_matches('/'), "leave the option out"]
            {
                assert!(run.stderr.contains(told), "{told}: {run:#?}");
            }
        }
    }
    assert!(!bucket.was_read() && !world.exists("to/f"));
    // Without a preset the same command reads the object, which this bucket does not give.
    sync("-r --strategy deltic gs://bucket/dir/ to");
    assert!(bucket.was_read());
}

#[test]
fn a_store_is_compared_with_a_volume_in_either_order() {
    let world = World::new();
    photos(&world);
    let (server, bucket) = (Server::start(&world, ""), Bucket::new());
    for (name, bytes) in [("a.jpg", noise(3_000_000, 1)), ("b.txt", b"some text".into())] {
        bucket.put(&format!("dir/{name}"), &bytes);
    }
    bucket.put("dir/extra", b"");
    for (words, there, here) in [
        ("URL/photos/2026 gs://bucket/dir", "missing sub", "extra extra"),
        ("gs://bucket/dir URL/photos/2026", "extra sub", "missing extra"),
    ] {
        let words = format!("verify {words}").replace("URL", &server.url);
        let mut command = world.command(DELTIC, words.split_whitespace());
        let run = Run::of(command.env("STORAGE_EMULATOR_HOST", &bucket.address));
        let lines = run.lines();
        assert!(lines.contains(&there) && lines.contains(&here), "{words}: {run:#?}");
    }
}
