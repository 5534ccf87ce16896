//! A state directory has one server (`deltic serve --state`), and so has an audit log.

use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common::World;
use crate::common::server::{Server, spawn};
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
