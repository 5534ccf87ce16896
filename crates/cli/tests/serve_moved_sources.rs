//! `--remove-source-files --delete` whose server is killed and comes back in the midst of it.

use std::process::{Child, Command, Stdio};

use crate::common::server::Server;
use crate::common::{DELTIC, World, noise, wait_until};

/// Files that are moved before the connection is lost, and after: more than an end holds before it lets sources go.
const SMALL_FILES: usize = 6_000;

/// Starts a move that takes a while.
fn start(world: &World, words: &str) -> Child {
    let mut command = Command::new(DELTIC);
    let all = "sync -a --remove-source-files --token @token --bwlimit=1M";
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

/// A moved tree whose server is killed in the midst of the move.
struct Interruption<'a> {
    world: &'a World,
    server: Server<'a>,
    client: Child,
}

impl<'a> Interruption<'a> {
    /// Starts the server and the move, and waits until some sources of `dir` are gone.
    fn begin(world: &'a World, dir: &str, words: &dyn Fn(&str) -> String) -> Self {
        let server = serve(world, "0");
        world.write("token", server.add_token("me"));
        let client = start(world, &words(&server.url));
        wait_until("some sources are gone", || sources(world, dir) < SMALL_FILES);
        Self { world, server, client }
    }

    /// Kills the server, and starts it again.
    fn restart(&mut self) {
        self.server.child.kill().expect("it runs");
        self.server.child.wait().expect("it is ours");
        let port = self.server.url.rsplit(':').next().expect("it has one").to_owned();
        self.server = serve(self.world, &port);
    }

    /// Waits for the end of the move; its exit code, and what it said.
    fn end(self) -> (Option<i32>, String) {
        let ended = self.client.wait_with_output().expect("it is ours");
        (ended.status.code(), String::from_utf8_lossy(&ended.stderr).into_owned())
    }
}

fn serve<'a>(world: &'a World, port: &str) -> Server<'a> {
    // Nobody else takes a port of this address while there is no server.
    Server::of(world, format!("serve photos --state state --listen 127.0.0.75:{port}"))
}

/// Small files that are left in a directory, which may be gone.
fn sources(world: &World, dir: &str) -> usize {
    let dir = format!("{dir}/few");
    if world.exists(&dir) { world.names(&dir).len() } else { 0 }
}

/// Kills the server once some sources are gone, starts it again, and waits for the client.
fn interrupted(world: &World, dir: &str, words: &dyn Fn(&str) -> String) -> (Option<i32>, String) {
    let mut interruption = Interruption::begin(world, dir, words);
    interruption.restart();
    let (code, said) = interruption.end();
    assert!(said.contains("trying again"), "{said}");
    // The program itself goes on.
    assert!(!said.contains("run the same command"), "{said}");
    (code, said)
}

fn assert_all_arrived(world: &World, dir: &str) {
    assert_eq!(world.names(&format!("{dir}/few")).len(), SMALL_FILES);
    assert_eq!(world.read(format!("{dir}/long")), noise(6_000_000, 1));
    assert_eq!(world.read(format!("{dir}/few/0007")), b"7");
}

/// Asserts that the run said why it deleted nothing, and left what was at the destination.
fn assert_held_back((code, said): (Option<i32>, String), world: &World, old: &str) {
    assert!(said.contains("nothing deleted"), "{said}");
    assert_eq!(code, Some(25), "{said}");
    world.read(old);
    std::fs::remove_file(world.path(old)).expect("it is there");
}

#[test]
fn a_push_that_is_made_again_deletes_nothing_that_its_first_connection_moved() {
    let world = World::new();
    write_sources(&world, "src");
    world.write("photos/few/old", "not in the source");
    world.write("photos/few/older", "not in the source");
    let words = |url: &str| format!("--delete --max-delete=2 src/ {url}/photos/");
    let (code, said) = interrupted(&world, "src", &words);
    assert_eq!(code, Some(0), "{said}");
    assert_all_arrived(&world, "photos");
    assert!(!world.exists("photos/few/old") && !world.exists("photos/few/older"), "{said}");
    assert_eq!(sources(&world, "src"), 0);
}

/// The second loss comes when other sources are gone than at the first one, later in the list.
#[test]
fn a_push_that_is_made_twice_again_deletes_nothing_that_its_connections_moved() {
    let world = World::new();
    write_sources(&world, "src");
    // Behind the small files of the list, and sent while most of them still wait.
    (0..SMALL_FILES).for_each(|n| world.write(format!("src/more/{n:04}"), n.to_string()));
    world.write("photos/few/old", "not in the source");
    world.write("photos/more/old", "not in the source");
    let words = |url: &str| format!("--delete src/ {url}/photos/");
    let mut interruption = Interruption::begin(&world, "src", &words);
    interruption.restart();
    // Only the second server writes now: an acknowledgement of the first one may still remove sources.
    let arrived = || sources(&world, "photos") + world.names("photos/more").len();
    let first = arrived();
    wait_until("the second connection writes files", || arrived() > first);
    let left = || sources(&world, "src") + world.names("src/more").len();
    let before = left();
    wait_until("more sources are gone", || left() < before);
    interruption.restart();
    let (code, said) = interruption.end();
    assert!(said.matches("trying again").count() >= 2, "{said}");
    assert_eq!(code, Some(0), "{said}");
    assert_all_arrived(&world, "photos");
    assert_eq!(world.names("photos/more").len(), SMALL_FILES);
    assert!(!world.exists("photos/few/old") && !world.exists("photos/more/old"), "{said}");
    assert_eq!(left(), 0);
}

/// A directory whose files are all gone is not listed again, and its copy is not to go for that.
#[test]
fn a_push_without_empty_directories_that_is_made_again_deletes_nothing_and_says_so() {
    let world = World::new();
    write_sources(&world, "src");
    world.write("photos/few/old", "not in the source");
    let ended = interrupted(&world, "src", &|url| format!("--delete -m src/ {url}/photos/"));
    assert_held_back(ended, &world, "photos/few/old");
    assert_all_arrived(&world, "photos");
}

/// An argument that was removed because it arrived is a missing argument of the next connection.
#[test]
fn a_push_that_deletes_missing_arguments_and_is_made_again_deletes_nothing_and_says_so() {
    let world = World::new();
    write_sources(&world, "src");
    world.write("photos/gone", "its argument is missing");
    world.write("arguments", {
        let all = (0..SMALL_FILES).map(|n| format!("few/{n:04}\n")).collect::<String>();
        all + "gone\nlong\n"
    });
    let words =
        |url: &str| format!("--delete-missing-args --files-from=arguments src/ {url}/photos/");
    assert_held_back(interrupted(&world, "src", &words), &world, "photos/gone");
    assert_all_arrived(&world, "photos");
}

#[test]
fn a_pull_that_is_made_again_deletes_nothing_and_says_so() {
    let world = World::new();
    write_sources(&world, "photos");
    world.write("dst/few/old", "not in the source");
    let words = |url: &str| format!("--delete --max-delete=9 {url}/photos/ dst/");
    let ended = interrupted(&world, "photos", &words);
    assert_held_back(ended, &world, "dst/few/old");
    assert_all_arrived(&world, "dst");
}
