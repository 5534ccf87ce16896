//! What a client may replace in a volume: by an upload whose version or right is gone at its end, and by the
//! directories of options.

use std::io::{Read, Write};

use crate::common::World;
use crate::common::http::ask;
use crate::common::server::Server;

#[test]
fn an_upload_that_names_a_version_replaces_no_other_of_the_same_length_and_time() {
    let world = World::new();
    let put = |text: &str| {
        world.write("new", text);
        world.set_time("new", 1_700_000_000);
        std::fs::rename(world.path("new"), world.path("photos/a")).unwrap();
    };
    let server = Server::start(&world, "");
    for condition in ["If-Match", "If-Unmodified-Since"] {
        put("AAAA");
        let seen = ask(&server, "GET /v1/volumes/photos/files/a", "", b"");
        let value = match condition {
            "If-Match" => seen.tag(),
            _ => seen.header("last-modified").unwrap(),
        };
        let mut upload = server.connect();
        let head = format!(
            "PUT /v1/volumes/photos/files/a HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\n\
             {condition}: {value}\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n",
            server.token()
        );
        upload.write_all(head.as_bytes()).unwrap();
        let mut line = [0; 25];
        upload.read_exact(&mut line).unwrap();
        assert_eq!(&line, b"HTTP/1.1 100 Continue\r\n\r\n");
        // Another version comes while the upload is under way.
        put("BBBB");
        upload.write_all(b"CCCC").unwrap();
        let mut answer = String::new();
        upload.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 412"), "{condition}: {answer}");
        assert_eq!(world.read("photos/a"), b"BBBB", "{condition}");
    }
}

#[test]
fn an_upload_of_a_token_that_lost_the_right_to_write_changes_nothing() {
    let world = World::new();
    let server = Server::start(&world, "");
    let token = server.add_token("guest");
    let mut upload = server.upload(&token, ("a", 4), b"ne");
    let tokens = String::from_utf8(world.read("state/tokens.json")).unwrap();
    world.write("state/tokens.json", tokens.replace("\"write\": true", "\"write\": false"));
    upload.write_all(b"w!").unwrap();
    let mut answer = [0; 12];
    upload.read_exact(&mut answer).unwrap();
    assert_eq!(String::from_utf8_lossy(&answer), "HTTP/1.1 403");
    assert!(!world.exists("photos/a"));
}

#[test]
fn a_token_that_may_not_delete_removes_no_directory_by_a_backup() {
    let world = World::new();
    world.write("photos/docs/album/1", "precious");
    world.write("src/album", "first");
    let server = Server::start(&world, "");
    world.write("guest", server.add_token("--no-delete guest"));
    server.ok("sync -a --token @guest src/ URL/photos/tmp/");
    world.write("src/album", "the second");
    let run = "sync -a --token @guest --backup --backup-dir=/docs src/ URL/photos/tmp/";
    let run = server.deltic(run);
    assert_eq!(run.code, Some(23), "{run:#?}");
    assert_eq!(world.read("photos/docs/album/1"), b"precious");
    assert_eq!(world.read("photos/tmp/album"), b"first");
    // A backup still replaces an older backup.
    for text in ["one", "the other", "and the last"] {
        world.write("src/album", text);
        server.ok("sync -a --token @guest --backup --backup-dir=/old src/ URL/photos/tmp/");
    }
    assert_eq!(world.read("photos/old/album"), b"the other");
}

#[test]
fn backups_below_the_destination_are_not_deleted_in_a_volume_either() {
    let world = World::new();
    world.write("src/a", "one");
    world.write("src/dir/b", "b");
    let server = Server::start(&world, "");
    for (nth, dir) in ["old", "/old"].into_iter().enumerate() {
        let to = format!("URL/photos/{nth}/");
        // For a client of a volume, `/` is the root of the volume.
        let dir = if nth == 0 { dir.to_owned() } else { format!("/{nth}{dir}") };
        let sync = || server.ok(&format!("sync -a --delete -b --backup-dir={dir} src/ {to}"));
        world.write("src/a", "one");
        world.write("src/dir/b", "b");
        sync();
        std::fs::remove_dir_all(world.path("src/dir")).unwrap();
        for text in ["the second", "the third one"] {
            world.write("src/a", text);
            sync();
        }
        assert_eq!(world.read(format!("photos/{nth}/old/a")), b"the second");
        assert_eq!(world.read(format!("photos/{nth}/old/dir/b")), b"b");
        assert!(!world.exists(format!("photos/{nth}/old/old")), "{dir}");
    }
}

#[test]
fn a_file_that_a_backup_replaces_has_a_version_in_a_volume_that_keeps_versions() {
    let world = World::new();
    world.write("photos/docs/a", "precious");
    world.write("photos/docs/report.txt", "precious");
    world.write("src/a", "first");
    world.write("src/report", "first");
    let server = Server::start(&world, "--versions 3");
    let sync = |text: &str, words: &str, to: &str| {
        world.write("src/a", text);
        world.write("src/report", text);
        server.ok(&format!("sync -a {words} src/ URL/photos/{to}/"));
    };
    let versions = |of: &str| world.names(&format!("photos/.deltic-versions/docs/{of}"));
    let version = |of: &str| {
        let name = versions(of).remove(0);
        world.read(format!("photos/.deltic-versions/docs/{of}/{name}"))
    };
    sync("first", "", "tmp");
    sync("the second", "--backup --backup-dir=/docs", "tmp");
    assert_eq!(world.read("photos/docs/a"), b"first");
    assert_eq!(version("a"), b"precious");
    sync("the third one", "", "docs");
    sync("and the fourth one", "--backup --suffix=.txt", "docs");
    assert_eq!(world.read("photos/docs/report.txt"), b"the third one");
    assert_eq!(version("report.txt"), b"precious");
    // No more versions are kept than may be.
    for nth in 0..9 {
        sync(&"x".repeat(nth), "--backup --backup-dir=/docs", "tmp");
    }
    assert_eq!(versions("a").len(), 3);
}

#[test]
fn a_partial_directory_costs_no_file_of_a_volume_that_keeps_versions() {
    let world = World::new();
    world.write("photos/docs/a", "precious");
    world.write("photos/tmp/beside/a", "precious");
    let server = Server::start(&world, "--versions 3");
    for (nth, dir) in ["/docs", "beside"].into_iter().enumerate() {
        world.write("src/a", "x".repeat(100_000 + nth));
        server.ok(&format!("sync -a --partial-dir={dir} src/ URL/photos/tmp/"));
        assert_eq!(world.read("photos/tmp/a"), world.read("src/a"));
    }
    assert_eq!(world.read("photos/docs/a"), b"precious");
    assert_eq!(world.read("photos/tmp/beside/a"), b"precious");
    // The directory of partial files goes with the last of them.
    server.ok("sync -a --partial-dir=.partial src/ URL/photos/new/");
    assert_eq!(world.names("photos/new"), ["a"]);
}
