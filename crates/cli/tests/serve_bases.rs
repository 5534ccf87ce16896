//! A server knows which version a client brought: the next one comes as what the client's storage says has changed.
//! Root only, but for what no storage tells: the storage is btrfs, on a file of its own.

use std::fs;

use crate::common::server::Server;
use crate::common::{Run, SECTOR, World, btrfs, noise};
use rustix::fs::{statvfs, syncfs};

/// Longer than a large file has to be.
const LEN: usize = 40 << 20;

/// A server of the volume `disk/photos` with these settings; its own directory is elsewhere.
fn start<'a>(world: &'a World, settings: &str) -> Server<'a> {
    world.mkdir("disk/photos");
    if !world.exists("photos") {
        world.link("disk/photos", "photos");
    }
    Server::set_volume(world, &format!("free_bytes = 0\n{settings}"), "")
}

/// Makes a token, which stays one when the server is started anew; the word that names it.
fn token(server: &Server<'_>, world: &World, words: &str) -> String {
    let name = words.split(' ').next_back().expect("it ends in a name");
    world.write(name, server.add_token(words));
    format!("--token @{name}")
}

/// Makes the image as it is at first.
fn make(world: &World) {
    world.write("disk/s/image", noise(LEN, 1));
    world.set_time("disk/s/image", 1_000_000_000);
}

/// True if a run sent nothing but this many bytes of changes, and little else.
fn sent_changes(run: &Run, changed: u64) -> bool {
    run.stat("Literal data") == changed && run.traffic() < changed + changed / 8 + 3000
}

/// Bytes of the disk that are free.
fn free(world: &World) -> u64 {
    syncfs(fs::File::open(world.path("disk")).expect("it is there")).expect("it is mounted");
    let told = statvfs(world.path("disk")).expect("it is mounted");
    told.f_bfree * told.f_frsize
}

#[test]
fn what_storage_says_has_changed_alone_goes_to_a_server_and_takes_room_there() {
    let world = World::new();
    let Some(_disk) = btrfs(&world) else { return };
    make(&world);
    let server = start(&world, "versions = 9");
    let key = token(&server, &world, "laptop");
    let words = format!("sync -a --stats --explain {key} disk/s/ URL/photos/");
    server.ok(&words);
    let before = free(&world);
    let round = |server: &Server<'_>, sectors: &[u64], time: i64, told: &str| {
        world.write_over("disk/s/image", sectors, time);
        let run = server.ok(&words);
        assert!(world.read("disk/s/image") == world.read("disk/photos/image"), "{run:#?}");
        assert!(sent_changes(&run, sectors.len() as u64 * SECTOR), "{run:#?}");
        assert!(run.stdout.contains(told), "{run:#?}");
    };
    let told = "image: of 40.00 MiB, read the 8.00 KiB that changed";
    round(&server, &[7, 5000], 1_000_000_001, told);
    round(&server, &[7, 10_239], 1_000_000_002, told);
    // Its time alone is another.
    round(&server, &[], 1_000_000_003, "image: of 40.00 MiB, read the 0 B that changed");
    // Old versions are kept, and share all else.
    let taken = before.saturating_sub(free(&world));
    assert!(taken < LEN as u64 / 8, "{taken} bytes more are taken");
    // It is known still when the server is started anew.
    drop(server);
    let server = start(&world, "versions = 9");
    round(&server, &[1, 2], 1_000_000_004, told);
}

#[test]
fn a_base_is_for_the_token_that_brought_it_and_others_sync_the_ordinary_way() {
    let world = World::new();
    let Some(_disk) = btrfs(&world) else { return };
    make(&world);
    let server = start(&world, "");
    let (first, second) = (token(&server, &world, "one"), token(&server, &world, "--wo two"));
    let words = |key: &str| format!("sync -a --stats {key} disk/s/ URL/photos/");
    server.ok(&words(&first));
    let round = |key: &str, sector: u64| {
        world.write_over("disk/s/image", &[sector], 1_000_000_000 + sector as i64);
        let run = server.ok(&words(key));
        world.assert_same("disk/s", "disk/photos");
        sent_changes(&run, SECTOR)
    };
    assert!(round(&first, 1));
    // The client knows the base, and the server does not say that it has it.
    assert!(!round(&second, 2));
    assert!(round(&second, 3));
    // What the other one put there is not what this one brought.
    assert!(!round(&first, 4));
    // Somebody wrote to it on the server, and gave it its time back.
    world.write_over("disk/photos/image", &[3000], 1_000_000_004);
    assert!(!round(&first, 5));
    assert!(round(&first, 6));
    // What the server kept is gone.
    drop(server);
    fs::remove_dir_all(world.path("state/bases")).expect("it is there");
    let server = start(&world, "");
    world.write_over("disk/s/image", &[7], 1_000_000_007);
    let run = server.ok(&words(&first));
    world.assert_same("disk/s", "disk/photos");
    assert!(!sent_changes(&run, SECTOR), "{run:#?}");
}

#[test]
fn what_storage_says_has_changed_alone_comes_from_a_server() {
    let world = World::new();
    let Some(_disk) = btrfs(&world) else { return };
    world.write("disk/photos/image", noise(LEN, 1));
    world.set_time("disk/photos/image", 1_000_000_000);
    let server = start(&world, "");
    let (first, second) = (token(&server, &world, "one"), token(&server, &world, "two"));
    let words = |key: &str, to: &str| format!("sync -a --stats {key} URL/photos/ disk/{to}/");
    server.ok(&words(&first, "d"));
    server.ok(&words(&second, "e"));
    world.write_over("disk/photos/image", &[7, 5000], 1_000_000_001);
    let run = server.ok(&words(&first, "d"));
    world.assert_same("disk/photos", "disk/d");
    assert!(sent_changes(&run, 2 * SECTOR), "{run:#?}");
    // A base that another token fetched is none.
    let run = server.ok(&words(&first, "e"));
    world.assert_same("disk/photos", "disk/e");
    assert!(!sent_changes(&run, 2 * SECTOR), "{run:#?}");
}

/// Neither end has storage that tells.
#[test]
fn without_storage_that_tells_a_large_file_comes_as_it_did() {
    let world = World::new();
    make(&world);
    let server = start(&world, "");
    let words = "sync -a --stats disk/s/ URL/photos/";
    server.ok(words);
    for time in 1..4 {
        world.write_over("disk/s/image", &[time], 1_000_000_000 + time as i64);
        let run = server.ok(words);
        world.assert_same("disk/s", "disk/photos");
        assert!(run.traffic() < LEN as u64 / 50, "{run:#?}");
    }
}
