//! A state directory has one server (`deltic serve --state`), and so has an audit log.

use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common::http::ask;
use crate::common::server::{Server, spawn};
use crate::common::{World, at_once, wait_until};
use rustix::process::Signal;

/// Starts a server that may be refused; it and what it says on standard error.
fn start(world: &World, words: &str) -> (Child, bool) {
    let errors = std::fs::File::create(world.path("errors")).expect("it can be made");
    let (child, said) = spawn(world, words, Stdio::from(errors));
    (child, said.iter().any(|line| line.contains("#t=")))
}

#[test]
fn a_second_server_on_one_state_directory_is_refused_and_told_who_has_it() {
    let world = World::new();
    world.mkdir("music");
    let server = Server::set(&world, "");
    // A server that takes up its settings anew keeps its directory.
    server.signal(Signal::HUP);
    let second = "serve music --state state --listen 127.0.0.1:0";
    let (mut child, is_there) = start(&world, second);
    assert!(!is_there);
    assert_eq!(child.wait().expect("it ends").code(), Some(10));
    let errors = String::from_utf8(world.read("errors")).expect("it is text");
    let who = format!("the server of process {} has this state directory", server.child.id());
    assert!(errors.contains(&who) && errors.contains("--state"), "{errors}");
    // What tokens there are needs no lock; another directory has its own.
    server.ok("token list --state state");
    let (mut other, is_there) = start(&world, "serve music --state other --listen 127.0.0.1:0");
    assert!(is_there);
    other.kill().and_then(|()| other.wait()).expect("it runs");
    // A server that was killed leaves no lock.
    drop(server);
    let (mut next, is_there) = start(&world, second);
    assert!(is_there);
    next.kill().and_then(|()| next.wait()).expect("it runs");
}

#[test]
fn a_second_server_of_a_volume_is_refused_whatever_its_state_unless_it_only_reads() {
    let world = World::new();
    let server = Server::start(&world, "");
    let second = "serve photos --state other --listen 127.0.0.1:0";
    let (mut child, is_there) = start(&world, second);
    assert!(!is_there);
    assert_eq!(child.wait().expect("it ends").code(), Some(10));
    let errors = String::from_utf8(world.read("errors")).expect("it is text");
    assert!(
        errors.contains("volume photos") && errors.contains("with another state directory"),
        "{errors}"
    );
    assert!(errors.contains(&format!("process {}", server.child.id())), "{errors}");
    // One that only reads counts nothing, and two names of one directory are one server's.
    let (mut reader, is_there) = start(&world, &format!("{second} --ro"));
    assert!(is_there);
    reader.kill().and_then(|()| reader.wait()).expect("it runs");
    drop(server);
    let photos = world.path("photos").display().to_string();
    let volume = |name: &str| format!("[volumes.{name}]\npath = \"{photos}\"\n");
    let state = world.path("other").display().to_string();
    world.write("2.toml", format!("state = \"{state}\"\n{}{}", volume("a"), volume("b")));
    let (mut next, is_there) = start(&world, "serve --config 2.toml --listen 127.0.0.1:0");
    assert!(is_there);
    next.kill().and_then(|()| next.wait()).expect("it runs");
}

#[test]
fn no_token_is_lost_where_many_are_made_at_once() {
    const MANY: usize = 20;
    let world = World::new();
    let server = Server::start(&world, "");
    at_once(0..MANY, |nth| {
        // The server makes tokens too.
        if nth % 4 > 0 {
            return drop(server.add_token(&format!("t{nth}")));
        }
        let wanted = format!("{{\"name\":\"t{nth}\"}}");
        let made = ask(&server, "POST /v1/tokens", "", wanted.as_bytes());
        assert_eq!(made.status, 201, "{made:?}");
    });
    let list = || server.ok("token list --state state").stdout;
    assert_eq!(list().lines().count(), MANY, "{}", list());
    at_once(0..MANY, |nth| {
        server.ok(&format!("token revoke --state state t{nth}"));
    });
    assert_eq!(list(), "");
}

#[test]
fn an_invalid_record_of_the_token_file_is_refused_and_the_other_tokens_stand() {
    let world = World::new();
    let server = Server::start(&world, "");
    let [good, bad] = ["good", "bad"].map(|name| server.add_token(&format!("--path dir {name}")));
    world.mkdir("photos/dir");
    let text = String::from_utf8(world.read("state/tokens.json")).expect("it is text");
    let (head, tail) = text.split_at(text.find("\"bad\"").expect("it is there"));
    world
        .write("state/tokens.json", format!("{head}{}", tail.replacen("\"dir\"", "\"../dir\"", 1)));
    // The running server refuses the invalid record alone.
    let status = |token: &str| server.answer(token, "/v1/volumes/photos/tree/dir", "");
    wait_until("the server has read the file", || status(&bad).starts_with("HTTP/1.1 401"));
    assert!(status(&good).starts_with("HTTP/1.1 200"), "{}", status(&good));
    // A start and a list name the token, the file and the field.
    for words in ["token list --state state", "serve photos --state state --check"] {
        server.fails(11, words, "tokens.json: token 'bad' (");
        server.fails(11, words, "path '../dir': '.' or '..' is not a name");
    }
    server.ok("token revoke --state state bad");
    assert!(server.ok("token list --state state").stdout.contains("  good  "));
}

#[test]
fn token_commands_tell_of_a_wrong_state_an_unknown_volume_and_a_name_that_is_taken() {
    let world = World::new();
    world.mkdir("empty");
    let server = Server::start(&world, "");
    for none in ["empty", "missing"] {
        server.fails(3, &format!("token list --state {none}"), "holds no state of a server");
    }
    assert!(!world.exists("missing"));
    assert_eq!(server.ok("token list --state state").stderr, "");
    let add = |words: &str| {
        let run = server.deltic(&format!("token add --state state {words}"));
        assert_eq!(run.code, Some(0), "{run:#?}");
        run.stderr
    };
    let told = add("--volume photos tv");
    assert!(!told.contains("deltic: "), "{told}");
    let why = "has no volume 'nosuch'; its volumes: photos";
    server.fails(3, "token add --state state --volume photos --volume nosuch radio", why);
    assert!(!server.ok("token list --state state").stdout.contains("radio"));
    // A volume of an earlier server.
    world.mkdir("state/bases/music");
    assert!(add("--volume music --rw dj").contains("DIR/ http://127.0.0.1:"));
    assert!(add("--volume music dj2").contains("/music/ DIR/\n"));
    let told = add("--path 2026 camera");
    assert!(told.contains("the volume 'photos' has no directory 2026\n  hint: "), "{told}");
    world.mkdir("photos/2026");
    assert!(!add("--path 2026 radio").contains("deltic: "));
    let told = add("tv");
    assert!(told.contains("another token has the name 'tv'"), "{told}");
    let listed = server.ok("token list --json --state state").stdout;
    let parsed = listed.lines().map(serde_json::from_str::<serde_json::Value>);
    let names: Vec<_> = parsed.map(|token| token.expect("it is JSON")["name"].clone()).collect();
    assert_eq!(names.iter().filter(|name| *name == "tv").count(), 2, "{listed}");
    assert!(server.ok("token revoke --state state tv").stdout.contains("2 tokens"));
}

#[test]
fn a_server_that_is_about_to_end_is_waited_for() {
    let world = World::new();
    let mut server = Server::start(&world, "");
    // An upload under way holds up the end.
    let upload = server.upload(server.token(), ("a", 10), b"12345");
    server.signal(Signal::TERM);
    let ends = std::thread::spawn(move || {
        sleep(Duration::from_secs(2));
        drop(upload);
    });
    let begun = Instant::now();
    let (mut next, is_there) = start(&world, "serve photos --state state --listen 127.0.0.1:0");
    assert!(is_there && begun.elapsed() > Duration::from_secs(1));
    ends.join().expect("it ends");
    server.child.wait().expect("it ends");
    next.kill().and_then(|()| next.wait()).expect("it runs");
}

#[test]
fn an_audit_log_has_one_server() {
    let world = World::new();
    world.mkdir("music");
    world.mkdir("other");
    let log = format!("audit = \"{}\"\n", world.path("log").display());
    let _server = Server::set(&world, &log);
    let [state, music] = ["other", "music"].map(|name| world.path(name).display().to_string());
    world.write(
        "2.toml",
        format!("state = \"{state}\"\n{log}[volumes.music]\npath = \"{music}\"\n"),
    );
    let (mut child, is_there) = start(&world, "serve --config 2.toml --listen 127.0.0.1:0");
    assert!(!is_there);
    child.wait().expect("it ends");
    let errors = String::from_utf8(world.read("errors")).expect("it is text");
    assert!(errors.contains("another server writes to this log"), "{errors}");
}
