//! Promises of a running server, whatever its clients say or do: flushes, the kernel's walls, tokens, and its volumes.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::http::{ask, ask_as};
use crate::common::server::{Server, Socket};
use crate::common::{DELTIC, PATIENCE, Run, World, is_installed, is_root, noise, skip, wait_until};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};
use serde_json::Value;

const FILES: &str = "/v1/volumes/photos/files";

/// The system's calls of these names that a server makes while something is done.
fn calls(world: &World, server: &Server<'_>, names: &str, done: impl FnOnce()) -> Option<String> {
    let mut strace = std::process::Command::new("strace");
    world.place(&mut strace);
    let traced = format!("trace={names}");
    strace.args(["-f", "-o", "calls", "-e", &traced, "-p", &server.child.id().to_string()]);
    let mut strace = strace.stderr(Stdio::piped()).spawn().expect("it starts");
    let lines = BufReader::new(strace.stderr.take().expect("it is piped")).lines();
    let mut said = lines.map_while(Result::ok);
    let attached = said.any(|line| line.contains(" attached"));
    if attached {
        done();
        let pid = Pid::from_raw(strace.id() as i32).expect("it is a process");
        kill_process(pid, Signal::TERM).expect("it is ours");
        // It lets go of the server, which needs somebody to hear it.
        said.for_each(drop);
    }
    strace.wait().expect("it is ours");
    attached.then(|| String::from_utf8_lossy(&world.read("calls")).into_owned())
}

#[test]
fn a_server_flushes_whatever_its_client_says() {
    if !is_installed("strace") {
        return skip("strace is not installed, which sees what is flushed");
    }
    let world = World::new();
    let server = Server::start(&world, "");
    world.write("src/dir/new", noise(100_000, 1));
    for (at, words) in ["--fsync", "--no-fsync", "--no-fsync --inplace"].iter().enumerate() {
        world.write("src/dir/new", noise(100_000 + at, 1));
        let push = || drop(server.ok(&format!("sync -a {words} src/ URL/photos/{at}/")));
        let Some(calls) = calls(&world, &server, "fsync,fdatasync", push) else {
            return skip("strace may not look at the server");
        };
        // The file, and directories with new names.
        let flushes = calls.lines().filter(|line| line.contains("sync") && line.ends_with("= 0"));
        assert!(flushes.count() >= 3, "{words}: {calls}");
        world.assert_same("src", &format!("photos/{at}"));
    }
}

/// Values of a field of each thread of a process.
fn of_threads(pid: u32, field: &str) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
    // One may end meanwhile.
    let texts =
        threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("status")).ok());
    let value = |text: String| {
        let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(":\t"));
        line.unwrap_or_else(|| panic!("no {field}:\n{text}")).trim().parse().expect("a number")
    };
    texts.map(value).collect()
}

#[test]
fn the_kernel_refuses_calls_to_all_threads_of_a_running_server() {
    let world = World::new();
    world.write("src/a", noise(3_000_000, 1));
    let server = Server::start(&world, "");
    // Those of sessions, of the disk and of the runtime are there.
    server.ok("sync -a src/ URL/photos/");
    assert_eq!(ask(&server, &format!("PUT {FILES}/b"), "", b"b").status, 201);
    // Whoever runs the tests may be behind a wall already.
    let own = of_threads(std::process::id(), "Seccomp_filters")[0];
    let filters = of_threads(server.child.id(), "Seccomp_filters");
    assert!(filters.len() > 3 && filters.iter().all(|count| *count > own), "{filters:?}");
    for (field, value) in [("Seccomp", 2), ("NoNewPrivs", 1)] {
        let all = of_threads(server.child.id(), field);
        assert!(all.iter().all(|is| *is == value), "{field}: {all:?}");
    }
}

/// An agent that waits for the other end.
fn waiting_agent(world: &World, words: &[&str]) -> Child {
    let mut agent = std::process::Command::new(DELTIC);
    world.place(&mut agent);
    agent.arg("agent").args(words).env("SSH_ORIGINAL_COMMAND", "deltic agent");
    let mut agent = agent.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    // Its greeting comes once the walls are up.
    let said = agent.stdout.as_mut().expect("it is piped").read(&mut [0; 1]);
    assert_eq!(said.expect("it is ours"), 1, "{words:?}");
    agent
}

#[test]
fn the_kernel_refuses_calls_to_a_restricted_agent_and_to_no_other() {
    let world = World::new();
    world.mkdir("jail");
    let own = of_threads(std::process::id(), "Seccomp_filters")[0];
    for (words, more) in [(&["--restrict", "jail"][..], 1), (&[], 0)] {
        let mut agent = waiting_agent(&world, words);
        let filters = of_threads(agent.id(), "Seccomp_filters");
        assert!(filters.iter().all(|count| *count == own + more), "{words:?}: {filters:?}");
        agent.kill().and_then(|()| agent.wait()).expect("it is ours");
    }
}

/// True if the system writes a core of a process that may have one.
fn dumps_core(child: &mut Child) -> bool {
    let pid = Pid::from_raw(child.id() as i32).expect("it is a process");
    let unlimited = Rlimit { current: None, maximum: None };
    prlimit(Some(pid), Resource::Core, unlimited).expect("root may");
    kill_process(pid, Signal::ABORT).expect("it is ours");
    child.wait().expect("it ends").core_dumped()
}

#[test]
fn the_memory_of_a_server_and_of_an_agent_is_in_no_core_dump() {
    let world = World::new();
    let mut other = std::process::Command::new("sleep");
    world.place(&mut other);
    let mut other = other.arg("60").spawn().expect("it starts");
    if !is_root() || !dumps_core(&mut other) {
        other.kill().ok();
        return skip("no core is dumped here of any process");
    }
    world.mkdir("jail");
    for words in [&["--restrict", "jail"][..], &[]] {
        assert!(!dumps_core(&mut waiting_agent(&world, words)), "{words:?}");
    }
    let mut server = Server::start(&world, "");
    assert!(!dumps_core(&mut server.child));
}

/// True if the kernel keeps processes to directories, as a restricted agent finds.
fn has_landlock(world: &World) -> bool {
    world.mkdir("jail");
    let shell = format!(
        r#"sh -c 'shift; export SSH_ORIGINAL_COMMAND="$*"; exec {DELTIC} agent --restrict jail' rsh"#
    );
    let words = ["doctor", "-e", &shell, "--deltic-path", DELTIC, "h"];
    let run = Run::of(&mut world.command(DELTIC, words));
    assert!(run.stdout.contains("Landlock"), "{run:#?}");
    !run.stdout.contains("no Landlock")
}

#[test]
fn the_kernel_opens_nothing_outside_to_a_running_server() {
    let world = World::new();
    if !has_landlock(&world) {
        return skip("this kernel has no Landlock");
    }
    let server = Server::start(&world, "");
    let token = server.add_token("guest");
    let status = || ask_as(&server, &token, ("GET /v1/volumes", ""), b"").status;
    assert_eq!(status(), 200);
    // Its tokens are in a file that it opens by name, and follows links to.
    let (file, outside) = (world.path("state/tokens.json"), world.path("outside/tokens.json"));
    world.mkdir("outside");
    fs::copy(&file, &outside).expect("there is room");
    fs::rename(&file, world.path("state/kept")).expect("it is ours");
    symlink(&outside, &file).expect("nothing is there");
    assert_eq!(status(), 401, "it read what is outside");
    fs::remove_file(&file).expect("it is ours");
    symlink("kept", &file).expect("nothing is there");
    assert_eq!(status(), 200, "it reads what is inside");
}

/// Bytes that come over a connection until the server closes it, and how long that takes.
#[track_caller]
fn rest(socket: &mut Socket) -> (Vec<u8>, Duration) {
    let (begun, mut rest) = (Instant::now(), Vec::new());
    match socket.0.read_to_end(&mut rest) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{rest:?}"),
    }
    (rest, begun.elapsed())
}

#[test]
fn nothing_is_served_over_a_websocket_without_a_token() {
    let world = World::new();
    world.write("photos/a", "secret");
    let audit = world.path("audit.jsonl").display().to_string();
    let settings = format!("audit = \"{audit}\"\n[limits]\nhead_seconds = 1\n");
    let server = Server::set(&world, &settings);
    let unknown = "no such volume, or not for this token";
    let (_, mut stranger) = server.upgrade("");
    for channel in [1, 2] {
        stranger.open(channel);
        let refused = stranger.hear();
        assert!(refused.contains("refused") && refused.contains(unknown), "{refused}");
    }
    // What belongs to a session would come on its channel.
    stranger.send(1, "not a greeting");
    let (heard, _) = rest(&mut stranger);
    assert!(heard.first() != Some(&0x82), "{}", String::from_utf8_lossy(&heard));
    // One that shows a wrong token is closed at once.
    let (_, mut stranger) = server.upgrade("");
    stranger.send(0, r#"{"auth":{"token":"dlt_x"}}"#);
    let (heard, _) = rest(&mut stranger);
    assert!(heard.first() != Some(&0x82), "{}", String::from_utf8_lossy(&heard));
    let log = || String::from_utf8(world.read("audit.jsonl")).expect("it is text");
    assert!(log().contains("wrong_token") && !log().contains(r#""event":"open""#), "{}", log());
    // The same by whoever has one opens a session.
    let mut known = server.socket(server.token());
    assert!(known.hear().contains("welcome"));
    known.open(1);
    wait_until("it is open", || log().contains(r#""event":"open""#));
}

#[test]
fn the_audit_log_names_the_old_version_that_a_session_reads() {
    let world = World::new();
    let audit = world.path("audit.jsonl").display().to_string();
    let server = Server::set_volume(&world, "versions = 9", &format!("audit = \"{audit}\"\n"));
    for text in ["before", "after, longer"] {
        world.write("src/a", text);
        server.ok("sync -a src/ URL/photos/");
    }
    let listed = ask(&server, "GET /v1/volumes/photos/files/a?as=versions", "", b"");
    let listed: Value = serde_json::from_slice(&listed.body).expect("an answer is JSON");
    let id = listed["versions"][0]["version"].as_str().expect("versions have identifiers");
    let mut socket = server.socket(server.token());
    assert!(socket.hear().contains("welcome"));
    let version = format!(r#"{{"path":"a","id":"{id}"}}"#);
    let open = format!(r#"{{"open":{{"channel":1,"volume":"photos","version":{version}}}}}"#);
    socket.send(0, &open);
    let log = || String::from_utf8(world.read("audit.jsonl")).expect("the log is text");
    let parts =
        [r#""event":"open""#.into(), r#""path":"a""#.into(), format!(r#""version":"{id}""#)];
    wait_until("the log names the version", || {
        log().lines().any(|line| parts.iter().all(|part: &String| line.contains(part)))
    });
}

#[test]
fn compression_that_a_client_offers_is_not_taken_up() {
    let world = World::new();
    let server = Server::start(&world, "");
    let offer = "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n";
    let more = format!("Authorization: Bearer {}\r\n{offer}", server.token());
    let (head, mut socket) = server.upgrade(&more);
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
    assert!(!head.to_lowercase().contains("sec-websocket-extensions"), "{head}");
    assert!(socket.hear().contains("welcome"));
    socket.open(0);
    assert!(socket.hear().contains("refused"), "it is heard without it");
    // The bit that says a message is compressed.
    socket.send_as(0xc2, 0, "x");
    let (rest, _) = rest(&mut socket);
    assert!(!rest.windows(7).any(|word| word == b"refused"), "{rest:?}");
    assert_eq!(server.status("GET", "/healthz", ""), 200);
}

#[test]
fn a_client_that_answers_no_ping_is_closed_and_one_that_does_stays() {
    let world = World::new();
    let server = Server::set(&world, "[limits]\nhead_seconds = 1\nstall_seconds = 1\n");
    let mut silent = server.socket(server.token());
    let (mut awake, begun) = (server.socket(server.token()), Instant::now());
    let waiting = thread::spawn(move || rest(&mut silent));
    // Longer than it bears with the other one.
    let mut pings = 0;
    while pings < 8 || !waiting.is_finished() {
        assert!(begun.elapsed() < PATIENCE, "it is still there");
        pings += usize::from(awake.answer_ping());
    }
    let (heard, _) = waiting.join().expect("it does not panic");
    let asked = heard.windows(2).filter(|frame| *frame == [0x89, 0]).count();
    assert!((2..5).contains(&asked), "it was asked {asked} times: {heard:?}");
    awake.open(0);
    assert!(awake.hear().contains("refused"), "it is heard still");
}

#[test]
fn a_websocket_tells_a_tenant_nothing_of_others() {
    let world = World::new();
    world.write("photos/dir/a", "own");
    let second = world.path("second");
    world.mkdir("second");
    let table = format!("[volumes.second]\npath = \"{}\"", second.display());
    let server = Server::set_volume(&world, &table, "");
    let token = server.add_token("--volume photos --path dir tenant");
    let mut socket = server.socket(&token);
    assert!(socket.hear().contains("welcome"));
    let mut open = |channel: u8, volume: &str| {
        socket.send(0, &format!(r#"{{"open":{{"channel":{channel},"volume":"{volume}"}}}}"#));
        socket.open(0);
        let said = socket.hear();
        let own = format!("\"channel\":{channel}");
        // A session that opens has nothing said of it.
        if said.contains(&own) { Some(said.replace(&own, "") + &socket.hear()) } else { None }
    };
    let (there, missing) = (open(1, "second"), open(2, "nothing"));
    assert!(there.as_ref().is_some_and(|said| said.contains("no such volume")), "{there:?}");
    assert_eq!(there, missing);
    assert_eq!(open(3, "photos"), None);
}

/// Longest time until a revoked token's clients are put out: a second is promised, and the machine may be busy.
const PUT_OUT: Duration = Duration::from_secs(8);

#[test]
fn a_token_that_is_revoked_ends_what_is_open_and_silent() {
    let world = World::new();
    let server = Server::start(&world, "");
    let (gone, stays) = (server.add_token("gone"), server.add_token("stays"));
    let mut sockets = [&gone, &stays].map(|token| {
        let mut socket = server.socket(token);
        assert!(socket.hear().contains("welcome"));
        socket.open(1);
        socket
    });
    let stream = |token: &str| {
        let opened =
            ask_as(&server, token, ("POST /v1/streams", ""), br#"{"volume":"photos"}"#).body;
        let opened: serde_json::Value = serde_json::from_slice(&opened).expect("it is JSON");
        opened["stream"].as_str().expect("it has a name").to_owned()
    };
    let (stream, other) = (stream(&gone), stream(&stays));
    let mut events = server.connect();
    let head = format!(
        "GET /v1/volumes/photos/events HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
         Authorization: Bearer {gone}\r\n\r\n"
    );
    events.write_all(head.as_bytes()).expect("it listens");
    // Nothing goes either way from here on.
    thread::sleep(Duration::from_secs(1));
    server.ok("token revoke --state state gone");
    let begun = Instant::now();
    let (_, took) = rest(&mut sockets[0]);
    events.read_to_end(&mut Vec::new()).expect("it is closed");
    assert!(begun.elapsed() < PUT_OUT, "{:?}", begun.elapsed());
    eprintln!("put out after {took:?}");
    let at = |token: &str, name: &str| {
        ask_as(&server, token, (&format!("DELETE /v1/streams/{name}"), ""), b"").status
    };
    wait_until("its stream is gone", || at(&gone, &stream) == 404);
    assert_eq!(at(&stays, &other), 204);
    sockets[1].open(0);
    assert!(sockets[1].hear().contains("refused"), "another's goes on");
    // By a request, and in this process, it takes no look at a file.
    let maker = server.add_token("maker");
    let made = ask_as(&server, &maker, ("POST /v1/tokens", ""), br#"{"name":"made"}"#).body;
    let made: serde_json::Value = serde_json::from_slice(&made).expect("it is JSON");
    let [token, id] = ["token", "id"].map(|key| made[key].as_str().expect("it has one"));
    let mut socket = server.socket(token);
    assert!(socket.hear().contains("welcome"));
    let revoke = format!("DELETE /v1/tokens/{id}");
    assert_eq!(ask_as(&server, &maker, (&revoke, ""), b"").status, 204);
    let (_, took) = rest(&mut socket);
    assert!(took < PUT_OUT, "{took:?}");
}

/// A name of a volume that is a directory or a file now, and a link out of the volume in the next moment.
struct Flipping {
    name: PathBuf,
    /// Has the other one.
    spare: PathBuf,
    outside: PathBuf,
    is_dir: bool,
}

impl Flipping {
    /// Exchanges the two; where requests left two of a kind, the spare one is made anew.
    fn flip(&self, trash: &Path) {
        let Self { name, spare, outside, is_dir } = self;
        let is_link = |path: &Path| path.symlink_metadata().is_ok_and(|meta| meta.is_symlink());
        match (is_link(name), is_link(spare)) {
            (true, true) => {
                fs::remove_file(spare).expect("it is ours");
                let file = if *is_dir { spare.join("file") } else { spare.clone() };
                let made = if *is_dir { fs::create_dir(spare) } else { Ok(()) };
                made.and_then(|()| fs::write(file, "from inside")).expect("there is room");
            }
            (false, false) => {
                fs::rename(spare, trash).ok();
                symlink(outside, spare).ok();
            }
            // A name that the server replaces may be gone for a moment.
            _ => drop(renameat_with(CWD, name, CWD, spare, RenameFlags::EXCHANGE)),
        }
    }
}

/// Flips `photos/dir` and `photos/name` all the time, in another thread, while something is done.
fn while_flipping(world: &World, done: impl FnOnce()) {
    let stop = AtomicBool::new(false);
    let of = |name: &str, outside: &str| Flipping {
        name: world.path(format!("photos/{name}")),
        spare: world.path(format!("photos/.{name}")),
        outside: outside.into(),
        is_dir: name == "dir",
    };
    let all = [of("dir", "../outside"), of("name", "../outside/file")];
    world.mkdir("trash");
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0_u64.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                for it in &all {
                    it.flip(&world.path(format!("trash/{round}-{}", it.is_dir)));
                }
            }
        });
        // It is over for the other thread too if this one panics.
        let stopping = Stop(&stop);
        done();
        drop(stopping);
    });
}

struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A world with something outside of the volume, and links that lead there.
fn flipping() -> World {
    let world = World::new();
    world.write("outside/file", "from outside");
    world.write("outside/only", "from outside");
    world.write("photos/dir/file", "from inside");
    world.write("photos/name", "from inside");
    world.link("../outside", "photos/.dir");
    world.link("../outside/file", "photos/.name");
    world
}

/// Time for which a link is in the way.
const FLIPS: Duration = Duration::from_millis(1_500);

fn assert_untouched(world: &World) {
    let mut names = world.names("outside");
    names.sort();
    assert_eq!(names, ["file", "only"]);
    assert_eq!(world.read("outside/file"), b"from outside");
}

#[test]
fn a_link_that_comes_and_goes_leads_no_request_out_of_a_volume() {
    let world = flipping();
    let server = Server::start(&world, "");
    let (mut found, mut refused, mut written) = (0, 0, 0);
    while_flipping(&world, || {
        let begun = Instant::now();
        let more = |met: bool| begun.elapsed() < if met { FLIPS } else { PATIENCE };
        while more(found > 0 && refused > 0 && written > 0) {
            for name in ["dir/file", "name", "dir/file?as=signature"] {
                let answer = ask(&server, &format!("GET {FILES}/{name}"), "", b"");
                let (status, text) = (answer.status, String::from_utf8_lossy(&answer.body));
                assert!(!text.contains("from outside"), "{name}: {text}");
                let len = answer.header("content-length").and_then(|len| len.parse().ok());
                match status {
                    200 if name.contains("signature") => {}
                    // It went away in between: the client knows that it has not all.
                    200 if text.is_empty() && len == Some(11) => {}
                    200 => assert_eq!(text, "from inside", "{name}: {}", answer.head),
                    _ => assert!((400..500).contains(&status), "{name}: {status} {text}"),
                }
                found += usize::from(status == 200);
                refused += usize::from(status != 200);
            }
            let list = ask(&server, "GET /v1/volumes/photos/tree/dir", "", b"");
            assert!(!list.body.windows(4).any(|word| word == b"only"), "{}", list.head);
            for (name, more) in [("dir/new", ""), ("dir/file", ""), ("name", "")] {
                let put = ask(&server, &format!("PUT {FILES}/{name}"), more, b"from inside");
                written += usize::from(put.status < 300);
            }
            let any = "If-Match: *\r\n";
            ask(&server, &format!("DELETE {FILES}/dir/new"), any, b"");
            ask(&server, "POST /v1/volumes/photos/tree/dir/made/deep", "", b"");
            ask(&server, &format!("POST {FILES}/dir/file?as=move&to=dir/moved"), any, b"");
            ask(&server, &format!("POST {FILES}/dir/moved?as=move&to=dir/file"), any, b"");
        }
    });
    assert_untouched(&world);
    // Both were met.
    assert!(found > 0 && refused > 0 && written > 0, "{found} {refused} {written}");
}

#[test]
fn a_link_that_comes_and_goes_leads_no_sync_out_of_a_volume() {
    let world = flipping();
    let server = Server::start(&world, "");
    world.mkdir("got");
    for name in ["dir/file", "dir/new", "dir/deep/new", "name"] {
        world.write(format!("src/{name}"), "from inside");
    }
    let (mut rounds, mut done) = (0, 0);
    while_flipping(&world, || {
        let begun = Instant::now();
        while begun.elapsed() < if done > 0 { FLIPS } else { PATIENCE } {
            rounds += 1;
            for words in [
                "sync -rI URL/photos/ got/",
                "sync -rI URL/photos/dir/ got/dir/",
                "sync -rI URL/photos/dir/file got/",
                "sync -rI --delete src/dir/ URL/photos/dir/",
                "sync -rI src/ URL/photos/",
                "sync -rI --inplace src/name URL/photos/name",
            ] {
                let run = server.deltic(words);
                done += usize::from(run.code == Some(0));
                assert!(matches!(run.code, Some(0..=24)), "{words}: {run:#?}");
            }
            assert_untouched(&world);
        }
    });
    assert_untouched(&world);
    let leaked =
        Run::of(&mut world.command("grep", ["-r", "from outside", "got", "photos", "trash"]));
    // What is behind the link itself is outside by right.
    assert_eq!(leaked.stdout, "", "{leaked:#?}");
    assert!(rounds > 0 && done > 0, "{done} of {rounds} rounds");
}
