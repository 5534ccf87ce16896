//! `deltic serve` under systemd: the socket that was opened for it, and the states that it reports.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};

use crate::common::{DELTIC, PATIENCE, World};
use rustix::process::{Pid, Signal, kill_process};

#[test]
fn a_server_takes_the_socket_that_was_opened_for_it_and_says_when_it_is_ready() {
    let world = World::new();
    world.mkdir("photos");
    world.mkdir("state");
    let [state, photos] = ["state", "photos"].map(|name| world.path(name).display().to_string());
    let text = format!("state = \"{state}\"\n[volumes.photos]\npath = \"{photos}\"\n");
    world.write("deltic.toml", text);
    let listener = TcpListener::bind("127.0.0.1:0").expect("it is bound");
    let address = listener.local_addr().expect("it has one");
    // Who asks before the server is there waits for it.
    let mut early = TcpStream::connect(address).expect("it is open");
    early
        .write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        .expect("it is");
    let states = UnixDatagram::bind(world.path("notify")).expect("it is bound");
    states.set_read_timeout(Some(PATIENCE)).expect("it is a socket");
    let next = || {
        let mut state = [0; 100];
        let len = states.recv(&mut state).expect("it says something");
        String::from_utf8_lossy(&state[..len]).into_owned()
    };

    let mut command = Command::new("sh");
    world.place(&mut command);
    let script = r#"LISTEN_FDS=1 LISTEN_PID=$$ exec "$0" "$@" 3<&0 </dev/null"#;
    command.args(["-c", script, DELTIC, "serve", "--config", "deltic.toml"]);
    command.env("NOTIFY_SOCKET", world.path("notify")).env("WATCHDOG_USEC", "600000000");
    command.stdin(Stdio::from(OwnedFd::from(listener))).stdout(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    drop(command);
    assert_eq!(next(), "READY=1");
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let here = |line: &Result<String, _>| line.as_ref().is_ok_and(|line| line.contains("#t="));
    let line = lines.find(here).expect("it says where it is").expect("it is text");
    assert!(line.contains(&format!("http://{address}/photos/")), "{line}");
    let mut answer = String::new();
    early.set_read_timeout(Some(PATIENCE)).expect("it is a socket");
    early.read_to_string(&mut answer).expect("it answers");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");

    let signal = |signal| {
        let pid = Pid::from_raw(child.id() as i32).expect("it is a process");
        kill_process(pid, signal).expect("it is ours");
    };
    assert_eq!(next(), "WATCHDOG=1");
    signal(Signal::HUP);
    assert_eq!([next(), next()], ["RELOADING=1", "READY=1"]);
    signal(Signal::TERM);
    assert_eq!(next(), "STOPPING=1");
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn a_socket_that_all_can_reach_needs_tls() {
    let world = World::new();
    world.mkdir("photos");
    let listener = TcpListener::bind("0.0.0.0:0").expect("it is bound");
    let mut command = Command::new("sh");
    world.place(&mut command);
    let script = r#"LISTEN_FDS=1 LISTEN_PID=$$ exec "$0" "$@" 3<&0 </dev/null"#;
    command.args(["-c", script, DELTIC, "serve", "photos", "--state", "state"]);
    let run = command.stdin(Stdio::from(OwnedFd::from(listener))).output().expect("it runs");
    assert_eq!(run.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&run.stderr).contains("without TLS"));
}
