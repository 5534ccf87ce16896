//! Paths that an operator names for a program itself: settings, keys, logs, tokens, volumes. The superuser follows no
//! symlink of another user there, and goes on following the superuser's own.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt, lchown};
use std::os::unix::net::UnixStream;
use std::process::Stdio;

use crate::common::http::ask;
use crate::common::server::{Server, spawn};
use crate::common::service::Service;
use crate::common::{DELTIC, Run, World, is_root, skip, wait_until};
use rustix::process::{Pid, Signal, kill_process};

/// Another user.
const SOMEBODY: u32 = 12345;
const REFUSED: &str = "a symlink of another user";
/// Text of a file that nobody but its owner reads, and that is no settings, key or token.
const SECRET: &str = "secret words";

/// A world with a directory `his` of another user, in which `out` and `file` are links of his to `outside` and to a
/// secret in it.
fn world() -> World {
    let world = World::new();
    world.write("outside/file", SECRET);
    world.chmod("outside/file", 0o600);
    world.mkdir("photos");
    world.mkdir("state");
    world.mkdir("his");
    world.link("../outside", "his/out");
    world.link("../outside/file", "his/file");
    for name in ["his/out", "his/file", "his"] {
        lchown(world.path(name), Some(SOMEBODY), None).expect("we are root");
    }
    world
}

/// Makes a link of the other user.
fn his_link(world: &World, target: &str, name: &str) {
    fs::remove_file(world.path(name)).ok();
    world.link(target, name);
    lchown(world.path(name), Some(SOMEBODY), None).expect("we are root");
}

/// Settings of the volume `photos`, with `more` in front of the table.
fn settings(world: &World, more: &str) -> String {
    let path = |name: &str| world.path(name).display().to_string();
    let more = more.replace("WORLD", &path(""));
    format!(
        "state = \"{}\"\n{more}\n[volumes.photos]\npath = \"{}\"\n",
        path("state"),
        path("photos")
    )
}

/// A command is refused for the link, tells nothing of what is behind it, and changes nothing there.
#[track_caller]
fn assert_refused(world: &World, words: &str) {
    let run = Run::of(world.command(DELTIC, words.split(' ')).write_stdin(""));
    assert!(run.code != Some(0) && run.stderr.contains(REFUSED), "deltic {words}\n{run:#?}");
    assert!(!run.stderr.contains(SECRET), "deltic {words}\n{run:#?}");
    assert_eq!(world.names("outside"), ["file"], "deltic {words}");
    assert_eq!(world.read("outside/file"), SECRET.as_bytes(), "deltic {words}");
}

#[test]
fn paths_in_the_words_of_a_command_lead_over_no_link_of_another_user() {
    if !is_root() {
        return skip("only root can make links of others");
    }
    let world = world();
    world.write("deltic.toml", settings(&world, ""));
    for words in [
        "serve --config his/file --check",
        "serve --config his/out/file",
        "serve his/out --state state --listen 127.0.0.1:0",
        "serve photos --state his/out/state --listen 127.0.0.1:0",
        "serve photos --state state --cert his/file --key outside/file --check",
        "serve photos --state state --cert his/out/file --key his/out/file --check",
        "token add --state his/out/state somebody",
        "token add --state his/out somebody",
        "agent --restrict his/out",
        "facts --socket his/out/facts.sock",
        "facts --socket his/out/new/facts.sock",
        "man --dir his/out",
        "man --dir his/out/new",
    ] {
        assert_refused(&world, words);
    }
    // Settings of syncs name programs to run.
    let sync = |variable: &str, path: &str, words: &str| {
        let mut command = world.command(DELTIC, words.split(' '));
        let run = Run::of(command.env(variable, world.path(path)));
        assert!(run.code != Some(0) && run.stderr.contains(REFUSED), "{variable}: {run:#?}");
        assert_eq!(world.names("outside"), ["file"], "{variable}");
    };
    sync("DELTIC_CONFIG", "his/file", "sync -r src/ dst");
    // A token is kept in the home of whoever root is for now.
    let token = Run::of(&mut world.command(DELTIC, ["token", "new"])).stdout;
    let token = token.lines().next().expect("it is printed").to_owned();
    let login = format!("login http://127.0.0.1:9/photos/#t={token}");
    sync("XDG_CONFIG_HOME", "his/out", &login);
}

#[test]
fn paths_in_settings_and_files_of_the_servers_own_lead_over_no_link_of_another_user() {
    if !is_root() {
        return skip("only root can make links of others");
    }
    let world = world();
    let tls =
        |cert: &str, key: &str| format!("tls.files = {{ cert = \"{cert}\", key = \"{key}\" }}");
    let acme = "tls.acme = { domains = [\"nas.example\"], ca_file = \"WORLDhis/file\" }";
    for more in [
        "audit = \"WORLDhis/file\"",
        "audit = \"WORLDhis/out/audit\"",
        &tls("WORLDhis/file", "WORLDoutside/file"),
        &tls("WORLDhis/out/file", "WORLDhis/out/file"),
        acme,
    ] {
        world.write("deltic.toml", settings(&world, more));
        for end in ["", " --check"] {
            assert_refused(
                &world,
                &format!("serve --config deltic.toml --listen 127.0.0.1:0{end}"),
            );
        }
    }
    let volume = settings(&world, "").replace("/photos\"", "/his/out\"");
    world.write("deltic.toml", volume);
    assert_refused(&world, "serve --config deltic.toml --check");
    // What the server's own directory has under its names.
    for (name, more) in [
        ("tokens.json", ""),
        ("key.pem", "tls = \"self-signed\""),
        ("acme.json", "tls.acme = { domains = [\"nas.example\"] }"),
    ] {
        world.write("deltic.toml", settings(&world, more));
        his_link(&world, "../outside/file", &format!("state/{name}"));
        assert_refused(&world, "serve --config deltic.toml --listen 127.0.0.1:0");
        fs::remove_file(world.path(format!("state/{name}"))).expect("it is there");
    }
    // The name that a new version of a file has for a moment is no way out either.
    his_link(&world, "../outside/file", "state/tokens.new");
    let added = Run::of(
        &mut world.command(DELTIC, ["token", "add", "--all-volumes", "--state", "state", "it"]),
    );
    assert_eq!(added.code, Some(0), "{added:#?}");
    assert_eq!(world.read("outside/file"), SECRET.as_bytes());
    assert_eq!(world.mode("state/tokens.json"), 0o600);
}

#[test]
fn links_of_ones_own_are_followed_to_all_that_an_operator_names() {
    let world = World::new();
    world.mkdir("real/photos");
    world.mkdir("real/state");
    world.link("real", "own");
    world.link("real/photos", "photos");
    world.link("../volume-toml", "real/deltic.toml");
    let path = |name: &str| world.path(name).display().to_string();
    let text = format!(
        "state = \"{}\"\naudit = \"{}\"\n[volumes.photos]\npath = \"{}\"\n",
        path("own/state"),
        path("own/audit"),
        path("photos")
    );
    world.write("volume-toml", text);
    world.write("src/a", "a");
    // What is not there yet is made behind a link too.
    world.link("later", "real/audit");
    let server = Server::of(&world, "serve --config own/deltic.toml --listen 127.0.0.1:0".into());
    server.ok("sync -a src/ URL/photos/");
    assert_eq!(world.read("real/photos/a"), b"a");
    let token = Run::of(&mut world.command(DELTIC, ["token", "add", "--state", "own/state", "it"]));
    assert_eq!(
        server.answer(token.stdout.trim(), "/v1/volumes", "").split(' ').nth(1),
        Some("200")
    );
    assert_eq!(ask(&server, "PUT /v1/volumes/photos/files/b", "", b"b").status, 201);
    let log = String::from_utf8(world.read("real/later")).expect("it is text");
    assert!(log.contains("\"event\":\"request\""), "{log}");
    assert_eq!(world.mode("real/later") & 0o077, 0, "the log is its owner's alone");
    drop(server);
    let server = Server::of(&world, "serve photos --state own/state --listen 127.0.0.1:0".into());
    server.ok("sync -a src/ URL/photos/again/");
    assert_eq!(world.read("real/photos/again/a"), b"a");
}

/// The settings are read anew while the process keeps to its volumes.
#[test]
fn a_link_of_another_user_that_comes_later_is_refused_when_settings_are_read_anew() {
    if !is_root() {
        return skip("only root can make links of others");
    }
    let world = world();
    world.write("conf/deltic.toml", settings(&world, ""));
    world.link("../conf/deltic.toml", "his/settings");
    let said = fs::File::create(world.path("said")).expect("it is made");
    let words = "serve --config his/settings --listen 127.0.0.1:0";
    let (mut child, lines) = spawn(&world, words, Stdio::from(said));
    let address = lines.last().and_then(|line| line.split('/').nth(2)).expect("it says where");
    // Who is answered knows that it hears signals.
    let mut stream = TcpStream::connect(address).expect("it listens");
    let head = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    stream.write_all(head).and_then(|()| stream.read_to_end(&mut Vec::new())).expect("it answers");
    let signal = |signal| {
        let pid = Pid::from_raw(child.id() as i32).expect("it is a process");
        kill_process(pid, signal).expect("it is ours");
    };
    let told = |line: &str| {
        wait_until(line, || String::from_utf8_lossy(&world.read("said")).contains(line));
    };
    signal(Signal::HUP);
    told("settings reloaded");
    his_link(&world, "../outside/file", "his/settings");
    signal(Signal::HUP);
    told(REFUSED);
    told("the settings stay as they were");
    assert!(!String::from_utf8_lossy(&world.read("said")).contains(SECRET));
    signal(Signal::TERM);
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn the_socket_of_facts_is_for_everybody_and_behind_a_link_of_ones_own() {
    if !is_root() {
        return skip("the service needs a right of root's");
    }
    let world = world();
    world.mkdir("run");
    world.link("run", "own");
    let service = Service::at(&world, "own/new/facts.sock");
    let mode = world.path("run/new/facts.sock").metadata().expect("it is there").permissions();
    assert_eq!(mode.mode() & 0o777, 0o666);
    assert!(UnixStream::connect(world.path("run/new/facts.sock")).is_ok());
    drop(service);
    // Its socket is left, and the next service takes its place.
    drop(Service::at(&world, "own/new/facts.sock"));
}
