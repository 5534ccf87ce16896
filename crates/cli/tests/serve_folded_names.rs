//! Volumes on a file system that takes several spellings for one name: clients reach no private directory there.

use crate::common::World;
use crate::common::disks::exfat;
use crate::common::http::ask;
use crate::common::server::Server;

/// Spellings of the directory of old versions: exFAT finds the directory by the first two.
const SPELLINGS: [&str; 5] =
    [".DELTIC-VERSIONS", ".Deltic-Versions", ".deltic-versions.", "DELTIC~1", ".deltic-versions:x"];

/// A volume on exFAT with an old version of the file `a`.
fn volume(world: &World) -> Server<'_> {
    let server = Server::start(world, "--versions 10");
    for content in ["old", "new"] {
        let put = ask(&server, "PUT /v1/volumes/photos/files/a", "", content.as_bytes());
        assert!([201, 204].contains(&put.status), "{put:?}");
    }
    assert_eq!(versions(world).len(), 1);
    server
}

fn versions(world: &World) -> Vec<String> {
    assert_eq!(world.names("photos/.deltic-versions"), ["a"]);
    let mut names = world.names("photos/.deltic-versions/a");
    names.sort_unstable();
    names
}

#[test]
fn no_request_reaches_old_versions_by_another_spelling() {
    let world = World::new();
    let Some(_disk) = exfat(&world, "photos") else { return };
    let server = volume(&world);
    let kept = versions(&world);
    let version = kept[0].to_uppercase();
    for spelling in SPELLINGS {
        let file = format!("/v1/volumes/photos/files/{spelling}/a/{version}");
        for what in [
            format!("GET {file}"),
            format!("GET {file}?as=signature"),
            format!("GET {file}?as=versions"),
            format!("PUT {file}"),
            format!("PUT /v1/volumes/photos/files/{spelling}"),
            format!("DELETE {file}"),
            format!("POST {file}?as=move&to=b"),
            format!("POST /v1/volumes/photos/files/a?as=move&to={spelling}/a/b"),
            format!("POST {file}?as=patch"),
            format!("GET /v1/volumes/photos/tree/{spelling}"),
            format!("GET /v1/volumes/photos/tree/{spelling}/a"),
            format!("POST /v1/volumes/photos/tree/{spelling}"),
        ] {
            let answer = ask(&server, &what, "If-Match: *\r\n", b"evil");
            assert_eq!(answer.status, 400, "{what} {answer:?}");
            assert!(
                String::from_utf8_lossy(&answer.body).contains("Deltic reserves"),
                "{answer:?}"
            );
        }
    }
    assert_eq!(versions(&world), kept);
    assert_eq!(world.read("photos/a"), b"new");
}

#[test]
fn no_session_reaches_old_versions_by_another_spelling() {
    let world = World::new();
    let Some(_disk) = exfat(&world, "photos") else { return };
    let server = volume(&world);
    let kept = versions(&world);
    for spelling in SPELLINGS {
        // As a root of a session, both ways.
        server.fails(
            3,
            &format!("sync -rt URL/photos/{spelling}/ out/"),
            "leads out of the permitted directory",
        );
        assert!(!world.exists("out/a"), "{spelling}");
        world.write("evil", "evil");
        let into = format!("sync -rt evil URL/photos/{spelling}/a/");
        server.fails(3, &into, "leads out of the permitted directory");
        // As a listed name.
        world.write(format!("src/{spelling}/a/evil"), "evil");
        world.write("src/a", "new");
        server.fails(23, "sync -rtc --delete src/ URL/photos/", spelling);
        std::fs::remove_dir_all(world.path(format!("src/{spelling}"))).unwrap();
        let partial = format!("sync -rtc --partial-dir={spelling}/a src/ URL/photos/");
        server.fails(3, &partial, "leads out of the permitted directory");
        // By an option.
        let option = format!("sync -rtc --link-dest=/{spelling}/a src/ URL/photos/new/");
        let linked = server.deltic(&option);
        assert_ne!((linked.code, &*linked.stderr), (Some(0), ""), "{spelling}: {linked:#?}");
        assert_eq!(versions(&world), kept, "{spelling}");
    }
    let (stem, suffix) = (".D", "ELTIC-1000");
    for content in ["first", "second"] {
        world.write(format!("src/{stem}"), content);
        let _ = server.deltic(&format!("sync -rtc -b --suffix={suffix} src/ URL/photos/"));
    }
    assert_eq!(world.read(format!("photos/{stem}")), b"first", "no backup has a private name");
    assert_eq!(world.read("photos/a"), b"new");
    // A listing of the volume shows none of them.
    server.ok("sync -rt URL/photos/ out/");
    assert!(world.names("out").iter().all(|name| !name.contains("versions")));
}

#[test]
fn a_missing_argument_that_a_listed_name_finds_stays_in_a_volume() {
    let world = World::new();
    let Some(_disk) = exfat(&world, "photos") else { return };
    world.write("photos/Report.txt", "old");
    world.write("photos/gone", "old");
    world.write("src/report.txt", "of a new length");
    world.write("list", "Report.txt\nGone\nreport.txt\n");
    let server = Server::start(&world, "");
    let words = "--modify-window=2 --delete-missing-args --files-from=list";
    server.ok(&format!("sync -rt {words} src/ URL/photos/"));
    assert_eq!(world.read("photos/report.txt"), b"of a new length");
    assert!(!world.exists("photos/gone"));
}
