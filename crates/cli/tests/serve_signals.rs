//! Signals to `deltic serve`: settings are taken up anew, and sessions end before the server does.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common::server::Server;
use crate::common::{DELTIC, World, is_installed, noise, skip, wait_until};
use rustix::process::Signal;

/// Starts an upload of ten bytes, and leaves out the last ones.
fn upload(server: &Server<'_>) -> TcpStream {
    server.upload(server.token(), ("a", 10), b"01234")
}

/// Waits until nobody is let in any more.
#[track_caller]
fn wait_until_closed(server: &Server<'_>) {
    let address = server.url.split("://").nth(1).expect("it has one");
    wait_until("nobody is let in any more", || TcpStream::connect(address).is_err());
}

#[test]
fn an_upload_under_way_ends_before_the_server_does() {
    let world = World::new();
    let mut server = Server::start(&world, "");
    let mut stream = upload(&server);
    server.signal(Signal::TERM);
    wait_until_closed(&server);
    stream.write_all(b"56789").expect("it is heard");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it is heard");
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
    assert_eq!(world.read("photos/a"), b"0123456789");
}

#[test]
fn a_second_signal_ends_the_server_at_once() {
    let world = World::new();
    let mut server = Server::start(&world, "");
    let _stream = upload(&server);
    server.signal(Signal::TERM);
    wait_until_closed(&server);
    let told = Instant::now();
    server.signal(Signal::TERM);
    assert!(server.child.wait().unwrap().success());
    // Without it, the upload has half a minute.
    assert!(told.elapsed() < Duration::from_secs(25));
    assert!(!world.exists("photos/a"));
}

#[test]
fn settings_are_taken_up_anew_and_wrong_ones_are_not() {
    let world = World::new();
    let server = Server::set(&world, "[limits]\nsessions_per_token = 1\n");
    let config = String::from_utf8(world.read("deltic.toml")).expect("it is heard");
    let token = server.add_token("it");
    let mut socket = server.socket(&token);
    assert!(socket.hear().contains("welcome"));
    socket.open(1);
    socket.open(2);
    assert!(socket.hear().contains("this token"));
    world.write("deltic.toml", format!("{config}speed = 3\n"));
    server.signal(Signal::HUP);
    world.write("deltic.toml", config.replace("token = 1", "token = 9"));
    server.signal(Signal::HUP);
    wait_until("the new limit counts", || {
        // A token may ask only so often.
        sleep(Duration::from_millis(100));
        let mut other = server.socket(&token);
        other.hear();
        other.open(1);
        other.open(0);
        other.hear().contains(r#""channel":0"#)
    });
    assert_eq!(server.status("GET", "/healthz", ""), 200);
}

#[test]
fn what_a_new_start_is_needed_for_is_told() {
    let world = World::new();
    world.mkdir("photos");
    world.mkdir("state");
    let [state, photos] = ["state", "photos"].map(|name| world.path(name).display().to_string());
    let settings = format!("state = \"{state}\"\n[volumes.photos]\npath = \"{photos}\"\n");
    world.write("deltic.toml", &settings);
    let said = std::fs::File::create(world.path("said")).expect("it is made");
    let words = "serve --config deltic.toml --listen 127.0.0.1:0";
    let (mut child, lines) = crate::common::server::spawn(&world, words, said.into());
    let address =
        lines.last().and_then(|line| line.split('/').nth(2)).expect("it says where it is");
    // Who is answered knows that it hears signals.
    let mut stream = TcpStream::connect(address).expect("it listens");
    let head = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    stream.write_all(head).and_then(|()| stream.read_to_end(&mut Vec::new())).expect("it answers");
    let signal = |signal| {
        let pid = rustix::process::Pid::from_raw(child.id() as i32).expect("it is a process");
        rustix::process::kill_process(pid, signal).expect("it is ours");
    };
    let told = |line: &str| {
        let said = || String::from_utf8_lossy(&world.read("said")).contains(line);
        wait_until(line, said);
    };
    signal(Signal::HUP);
    told("settings reloaded\n");
    world.write("deltic.toml", format!("{settings}quota_files = 9\n[limits]\nsessions = 7\n"));
    signal(Signal::HUP);
    told("settings reloaded; a restart is needed for volumes, limits.sessions\n");
    signal(Signal::TERM);
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn tokens_of_the_settings_count_as_long_as_these_have_them() {
    let world = World::new();
    let made = crate::common::Run::of(&mut world.command(DELTIC, ["token", "new"])).stdout;
    let (token, hash) = made.split_once('\n').expect("a token, and its hash");
    let settings = format!(
        "[limits]\nsessions_per_token = 9\n[tokens.tv]\n{hash}access = \"read\"\npath = \"films\"\n"
    );
    let server = Server::set(&world, &settings);
    world.write("photos/films/a", b"moving");
    world.write("photos/b", b"still");
    let file = |path: &str| server.answer(token, &format!("/v1/volumes/photos/files/{path}"), "");
    assert!(file("films/a").ends_with("moving"));
    assert!(file("b").starts_with("HTTP/1.1 404"));
    let put = format!(
        "PUT /v1/volumes/photos/files/films/c HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
         Authorization: Bearer {token}\r\nContent-Length: 1\r\n\r\n1"
    );
    let (mut stream, mut answer) = (server.connect(), String::new());
    stream
        .write_all(put.as_bytes())
        .and_then(|()| stream.read_to_string(&mut answer))
        .expect("it is heard");
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    // Who is connected with it is put out.
    let mut socket = server.socket(token);
    assert!(socket.hear().contains("welcome"));
    let config = String::from_utf8(world.read("deltic.toml")).expect("it is text");
    let without = &config[..config.find("[tokens").expect("it has one")];
    world.write("deltic.toml", without);
    server.signal(Signal::HUP);
    wait_until("it lets nobody in", || file("films/a").starts_with("HTTP/1.1 401"));
    let is_out = |read: std::io::Result<usize>| match read {
        Ok(len) => len == 0,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    };
    wait_until("who had it is put out", || is_out(socket.0.read(&mut [0; 64])));
    for (wrong, why) in [
        ("hash = \"abc\"", "tokens.tv: hash: use what `deltic token new` prints"),
        (&format!("{hash}volumes = [\"x\"]"), "tokens.tv: volumes: there is no volume 'x'"),
        (&format!("{hash}path = \"../x\""), "tokens.tv: path '../x'"),
        (&format!("{hash}[tokens.radio]\n{hash}"), "tokens.tv: hash: another token has the same"),
    ] {
        world.write("wrong.toml", format!("{without}[tokens.tv]\n{wrong}\n"));
        server.fails(1, "serve --config wrong.toml --check", why);
    }
}

#[test]
fn a_new_certificate_is_shown_without_a_new_start() {
    if !is_installed("openssl") {
        return skip("openssl is not installed: no certificate");
    }
    let world = World::new();
    let make = |name: &str| {
        let words = format!(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout {name}/key.pem \
             -out {name}/cert.pem -subj /CN=localhost -days 1"
        );
        world.mkdir(name);
        let made = crate::common::Run::of(&mut world.command("openssl", words.split_whitespace()));
        assert_eq!(made.code, Some(0), "{made:#?}");
    };
    make("old");
    make("new");
    let path = |name: &str| world.path(name).display().to_string();
    let tls = format!(
        "tls = {{ files = {{ cert = \"{0}/cert.pem\", key = \"{0}/key.pem\" }} }}\n",
        path("old")
    );
    let server = Server::set(&world, &tls);
    let shown = || {
        let address = server.url.split("://").nth(1).expect("it is heard");
        let mut command = world.command("openssl", ["s_client", "-connect", address]);
        let run = crate::common::Run::of(command.write_stdin(""));
        run.stdout.split("-----BEGIN CERTIFICATE-----").nth(1).map(|rest| rest[..200].to_owned())
    };
    let first = shown();
    assert!(first.is_some());
    let (old, new) = (world.path("old"), world.path("new"));
    std::fs::rename(new.join("key.pem"), old.join("key.pem")).expect("it is heard");
    // A key without its certificate: the old ones stay.
    server.signal(Signal::HUP);
    sleep(Duration::from_millis(300));
    assert_eq!(shown(), first);
    std::fs::rename(new.join("cert.pem"), old.join("cert.pem")).expect("it is heard");
    server.signal(Signal::HUP);
    wait_until("the new one is shown", || shown().is_some_and(|shown| Some(shown) != first));
}

#[test]
fn a_sync_whose_server_is_killed_goes_on_once_it_is_back() {
    let world = World::new();
    world.write("src/long", noise(12_000_000, 1));
    world.write("src/short", "x");
    world.mkdir("photos");
    // Nobody else takes a port of this address while there is no server.
    let serve = |port: &str| {
        Server::of(&world, format!("serve photos --state state --listen 127.0.0.74:{port}"))
    };
    let mut server = serve("0");
    world.write("token", server.add_token("me"));
    let words = format!("sync -a --bwlimit 4M --token @token src/ {}/photos/", server.url);
    let mut command = Command::new(DELTIC);
    world.place(command.args(words.split_whitespace()));
    let client = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    wait_until("the push is under way", || world.exists("photos/.deltic"));
    server.child.kill().expect("it runs");
    server.child.wait().expect("it is ours");
    let port = server.url.rsplit(':').next().expect("it has one");
    let _again = serve(port);
    let ended = client.wait_with_output().expect("it is ours");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(0), "{said}");
    assert!(said.contains("trying again in 0.5 s"), "{said}");
    assert_eq!(world.read("photos/long"), world.read("src/long"));
    assert_eq!(world.read("photos/short"), b"x");
}
