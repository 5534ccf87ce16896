//! `--remove-source-files --delete` whose server is killed and comes back in the midst of it.

use std::process::{Child, Command, Output, Stdio};

use crate::common::server::Server;
use crate::common::{DELTIC, World, noise, wait_until};

/// Files that are moved before the connection is lost, and after: more than an end holds before it lets sources go.
const SMALL_FILES: usize = 6_000;

/// Starts a move that takes a while.
fn start(world: &World, words: &str) -> Child {
    let mut command = Command::new(DELTIC);
    let all = "sync -a --remove-source-files --delete --token @token --bwlimit=1M";
    world.place(command.args(all.split(' ')).args(words.split_whitespace()));
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
}

/// Makes the files that are moved.
fn write_sources(world: &World, dir: &str) {
    for n in 0..SMALL_FILES {
        world.write(format!("{dir}/few/{n:04}"), n.to_string());
    }
    world.write(format!("{dir}/long"), noise(6_000_000, 1));
}

/// Kills the server once some sources are gone, starts it again, and waits for the client.
fn interrupted(world: &World, dir: &str, words: &dyn Fn(&str) -> String) -> Output {
    // Nobody else takes a port of this address while there is no server.
    let serve = |port: &str| {
        Server::of(world, format!("serve photos --state state --listen 127.0.0.75:{port}"))
    };
    let mut server = serve("0");
    world.write("token", server.add_token("me"));
    let client = start(world, &words(&server.url));
    wait_until("some sources are gone", || world.names(&format!("{dir}/few")).len() < SMALL_FILES);
    server.child.kill().expect("it runs");
    server.child.wait().expect("it is ours");
    let port = server.url.rsplit(':').next().expect("it has one").to_owned();
    let _again = serve(&port);
    client.wait_with_output().expect("it is ours")
}

fn assert_all_arrived(world: &World, dir: &str) {
    assert_eq!(world.names(&format!("{dir}/few")).len(), SMALL_FILES);
    assert_eq!(world.read(format!("{dir}/long")), noise(6_000_000, 1));
    assert_eq!(world.read(format!("{dir}/few/0007")), b"7");
}

#[test]
fn a_push_that_is_made_again_deletes_nothing_that_its_first_connection_moved() {
    let world = World::new();
    write_sources(&world, "src");
    world.write("photos/few/old", "not in the source");
    world.write("photos/few/older", "not in the source");
    let ended = interrupted(&world, "src", &|url| format!("--max-delete=2 src/ {url}/photos/"));
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(said.contains("trying again"), "{said}");
    assert_eq!(ended.status.code(), Some(0), "{said}");
    assert_all_arrived(&world, "photos");
    assert!(!world.exists("photos/few/old") && !world.exists("photos/few/older"), "{said}");
    assert_eq!(world.names("src/few"), Vec::<String>::new());
}

#[test]
fn a_pull_that_is_made_again_deletes_nothing_and_says_so() {
    let world = World::new();
    write_sources(&world, "photos");
    world.write("dst/few/old", "not in the source");
    let ended = interrupted(&world, "photos", &|url| format!("--max-delete=9 {url}/photos/ dst/"));
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(said.contains("trying again") && said.contains("nothing deleted"), "{said}");
    assert_eq!(ended.status.code(), Some(25), "{said}");
    world.read("dst/few/old");
    std::fs::remove_file(world.path("dst/few/old")).unwrap();
    assert_all_arrived(&world, "dst");
}
