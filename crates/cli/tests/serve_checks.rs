//! What other programs of this kind were found to get wrong, tried on the server and on its client: credentials that
//! go elsewhere, listeners in the clear, answers that tell too much, heads without end, and requests that end more than
//! themselves. SECURITY.md has the whole list, with tests elsewhere that hold the rest of it.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::common::bucket::Bucket;
use crate::common::http::{Answer, ask, ask_as};
use crate::common::server::Server;
use crate::common::{DELTIC, Run, World, is_installed, noise, skip, wait_until};
use serde_json::Value;

/// A server of somebody else on this machine.
struct Stranger {
    address: String,
    /// Heads of requests.
    heard: Arc<Mutex<Vec<String>>>,
    /// Bytes that clients took.
    taken: Arc<AtomicUsize>,
}

impl Stranger {
    /// Answers each request with `answer`, and then with `more` for as long as the client takes that.
    fn new(answer: &str, more: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it is bound").to_string();
        let (heard, taken) = (Arc::default(), Arc::default());
        let stranger = Self { address, heard, taken };
        let (heard, taken) = (Arc::clone(&stranger.heard), Arc::clone(&stranger.taken));
        let answer = answer.to_owned();
        // It ends with this process.
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let head = head(&mut stream);
                heard.lock().expect("no test panics here").push(head);
                let mut rest = stream.write_all(answer.as_bytes());
                for _ in 0..MOST_PIECES {
                    if more.is_empty() || rest.is_err() {
                        break;
                    }
                    rest = stream.write_all(more.as_bytes());
                    taken.fetch_add(more.len(), Ordering::Relaxed);
                }
            }
        });
        stranger
    }

    fn heard(&self) -> Vec<String> {
        self.heard.lock().expect("no test panics here").clone()
    }
}

/// Pieces that an answer without end has in fact.
const MOST_PIECES: usize = 100_000;

/// The head of a request.
fn head(stream: &mut TcpStream) -> String {
    let (mut head, mut byte) = (Vec::new(), [0]);
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("it is a socket");
    while !head.ends_with(b"\r\n\r\n") && matches!(stream.read(&mut byte), Ok(1)) {
        head.push(byte[0]);
    }
    String::from_utf8_lossy(&head).into_owned()
}

/// Commands that ask a server for something; each is to end by itself.
const COMMANDS: &[&str] = &[
    "sync -a src/ URL/photos/",
    "sync -a URL/photos/ got/",
    "verify src URL/photos/",
    "versions URL/photos/a",
    "restore --version 1 URL/photos/a",
    "restore --at 1d URL/photos/a/",
];

/// Runs a command with a token for the server at `address`.
#[track_caller]
fn run_with_token(world: &World, command: &str, address: &str) -> Run {
    let words = command.replace("URL", &format!("http://{address}"));
    let mut deltic = world.command(DELTIC, words.split(' '));
    let run = Run::of(deltic.env("DELTIC_TOKEN", token(world)).timeout(Duration::from_secs(100)));
    assert!(!run.stderr.contains("panicked"), "{words}: {run:#?}");
    run
}

fn token(world: &World) -> String {
    let made = Run::of(&mut world.command(DELTIC, ["token", "new"]));
    made.stdout.lines().next().expect("it is printed").to_owned()
}

#[test]
fn a_server_that_repeats_its_pages_ends_a_restore_and_writes_nothing_to_the_terminal() {
    let world = World::new();
    let failed = r#"{"path":"../\u001b[31m","status":409,"detail":"\u001b]0;x\u0007"}"#;
    let most = u64::MAX;
    let body = format!(
        r#"{{"restored":{most},"unchanged":1,"younger":{most},"deleted":0,"failed":[{failed}],"next":"a"}}"#
    );
    let head =
        format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
    let stranger = Stranger::new(&(head + &body), "");
    let run = run_with_token(&world, "restore --at 1d URL/photos/", &stranger.address);
    assert_eq!(run.code, Some(23), "{run:#?}");
    assert_eq!(stranger.heard().len(), 2, "{:?}", stranger.heard());
    assert!(!(run.stderr.clone() + &run.stdout).contains(['\u{1b}', '\u{7}']), "{run:#?}");
    assert!(run.stdout.contains(&format!("2 unchanged, {} younger left", most)), "{run:#?}");
    assert_eq!(run.stderr.matches(r"../\u{1b}[31m: ").count(), 2, "{run:#?}");
}

#[test]
fn doctor_checks_a_server() {
    let world = World::new();
    let server = Server::set_volume(&world, "quota_bytes = 10000000", "");
    let run = server.ok("doctor URL/photos/").stdout;
    for found in [
        "ok       server: http://127.0.0.1:",
        "ok       token: ",
        "volume photos: read and write",
        "left in the quota of the volume",
    ] {
        assert!(run.contains(found), "{found} {run}");
    }
    server.fails(3, "doctor URL/music/", "");
    let unknown = server.ok("token new").stdout;
    world.write("token", unknown.lines().next().expect("a token is printed"));
    server.fails(11, "doctor --token @token URL", "");
    server.fails(1, "doctor https://no-login.example", "");
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    server.fails(10, &format!("doctor --token @token http://{closed}/photos/"), "");
}

#[test]
fn no_client_goes_where_an_answer_leads_and_no_token_gets_there() {
    let world = World::new();
    world.write("src/a", "a");
    let elsewhere = Stranger::new("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", "");
    for (status, to) in [
        ("301 Moved Permanently", "http://ELSEWHERE/photos/"),
        ("302 Found", "http://ELSEWHERE/v1/ws"),
        ("303 See Other", "//ELSEWHERE/v1/ws"),
        ("307 Temporary Redirect", "https://ELSEWHERE/v1/ws"),
        ("308 Permanent Redirect", "/elsewhere"),
        ("401 Unauthorized", "http://ELSEWHERE/login"),
    ] {
        let to = to.replace("ELSEWHERE", &elsewhere.address);
        let answer = format!(
            "HTTP/1.1 {status}\r\nLocation: {to}\r\nRefresh: 0; url={to}\r\nContent-Length: 0\r\n\
             Connection: close\r\n\r\n"
        );
        let asked = Stranger::new(&answer, "");
        for command in COMMANDS {
            let run = run_with_token(&world, command, &asked.address);
            assert!(run.code != Some(0) && !run.stderr.is_empty(), "{status} {command}: {run:#?}");
        }
        let heard = asked.heard();
        assert!(heard.len() >= COMMANDS.len(), "{status}: {heard:?}");
        assert!(heard.iter().all(|head| !head.contains("elsewhere")), "{status}: {heard:?}");
        assert_eq!(elsewhere.heard(), [""; 0], "{status}");
    }
}

/// What comes over a connection in the clear.
fn in_the_clear(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("it is a socket");
    let head = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    let _ = stream.write_all(head.as_bytes());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn each_listener_that_others_reach_goes_by_tls() {
    let world = World::new();
    let free =
        || TcpListener::bind("0.0.0.0:0").and_then(|it| it.local_addr()).expect("it is bound");
    let metrics = free();
    let server = Server::set(&world, &format!("tls = \"self-signed\"\nmetrics = \"{metrics}\"\n"));
    let main = server.url.split("://").nth(1).expect("it has one").to_owned();
    let metrics = format!("127.0.0.1:{}", metrics.port());
    for (address, path) in [(&main, "/healthz"), (&metrics, "/metrics")] {
        let answer = in_the_clear(address, path);
        assert!(!answer.contains("HTTP/1") && !answer.contains("deltic"), "{path}: {answer}");
        if !is_installed("openssl") {
            skip("openssl is not installed: nothing is asked by TLS");
            continue;
        }
        let mut client = world.command("openssl", ["s_client", "-quiet", "-connect", address]);
        let head = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        let answer = Run::of(client.write_stdin(head)).stdout;
        assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
    }
    drop(server);
    // Without TLS, neither of them is where others reach it.
    let text = String::from_utf8(world.read("deltic.toml")).expect("it is text");
    let plain = text.replace("tls = \"self-signed\"\n", "");
    for (text, listen, why) in [
        (&plain, "127.0.0.1:0", "metrics: 0.0.0.0:"),
        (&text, "0.0.0.0:0", "the settings are right"),
        (&plain.replace("0.0.0.0", "127.0.0.1"), "0.0.0.0:0", "without TLS"),
        (&plain.replace("0.0.0.0", "127.0.0.1"), "127.0.0.1:0", "the settings are right"),
    ] {
        world.write("deltic.toml", text);
        let words = format!("serve --config deltic.toml --check --listen {listen}");
        let run = Run::of(&mut world.command(DELTIC, words.split(' ')));
        assert!(run.stderr.contains(why), "{listen}: {run:#?}");
        assert_eq!(run.code, Some(i32::from(!why.contains("right"))), "{listen}: {run:#?}");
    }
}

/// A request that has no token.
fn ask_without_token(server: &Server<'_>, what: &str) -> String {
    let mut stream = server.connect();
    let head =
        format!("{what} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("it listens");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    // The time of day is no news.
    let lines = answer.lines().filter(|line| !line.to_lowercase().starts_with("date:"));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn without_a_token_nothing_is_told_of_what_is_there() {
    let world = World::new();
    world.write("photos/a", "secret");
    world.mkdir("photos/dir");
    let server = Server::start(&world, "");
    let document = include_str!("../../serve/src/server/rest/openapi.json");
    let document: Value = serde_json::from_str(document).expect("it is JSON");
    let (mut open, mut closed) = (BTreeSet::new(), 0);
    for (path, methods) in document["paths"].as_object().expect("it has paths") {
        let methods = methods.as_object().expect("it has methods");
        let methods = methods.iter().filter(|(name, _)| *name != "parameters");
        for (method, operation) in methods {
            let filled = |volume: &str, file: &str| {
                let path = path.replace("{volume}", volume).replace("{path}", file);
                ask_without_token(
                    &server,
                    &format!("{} {}", method.to_uppercase(), path.replace("{id}", "0123456789ab")),
                )
            };
            let (there, missing) = (filled("photos", "a"), filled("music", "none"));
            assert_eq!(there, missing, "{method} {path}");
            assert!(!there.to_lowercase().contains("\nserver:"), "{method} {path}: {there}");
            let version = env!("CARGO_PKG_VERSION");
            assert!(!there.contains(version), "{method} {path}: {there}");
            if operation["security"].as_array().is_some_and(Vec::is_empty) {
                open.insert(path.as_str());
            } else if path != "/v1/ws" {
                // A stream has a secret name: to all others it is one that is not there.
                let wanted = if path.ends_with("streams/{id}") { "4" } else { "401" };
                let is_so = there.starts_with(&format!("HTTP/1.1 {wanted}"));
                assert!(is_so, "{method} {path}: {there}");
                closed += 1;
            }
        }
    }
    assert_eq!(open, BTreeSet::from(["/healthz"]));
    assert!(closed > 15, "{closed}");
    assert!(ask_without_token(&server, "GET /healthz").ends_with("ok"));
}

/// Requests that fail: what is asked, with which headers and which body.
fn failing() -> Vec<(String, String, Vec<u8>)> {
    let files = "/v1/volumes/photos/files";
    let long = "x".repeat(300);
    let deep = "d/".repeat(2_000);
    let plain = |what: String| (what, String::new(), Vec::new());
    let mut all: Vec<_> = [
        format!("GET {files}/none"),
        format!("GET {files}/{long}"),
        format!("GET {files}/{deep}"),
        format!("GET {files}/a/below"),
        format!("GET {files}/%ff%fe"),
        format!("GET {files}/%"),
        format!("GET {files}/dir"),
        format!("GET {files}/loop"),
        format!("GET {files}/.deltic/x"),
        format!("GET {files}/a?as=nonsense"),
        format!("GET {files}/a?as=versions"),
        format!("GET {files}/a?ticket=x"),
        "GET /v1/volumes/photos/tree/loop".into(),
        "GET /v1/streams/x?at=-1".into(),
        "GET /v1/no/such/address".into(),
        "FOO /v1/volumes".into(),
        "DELETE /v1/tokens/x".into(),
        format!("DELETE {files}/a"),
        format!("DELETE {files}/dir"),
        format!("POST {files}/a?as=restore&version=x"),
        format!("POST {files}/a?as=restore&version=1"),
    ]
    .into_iter()
    .map(plain)
    .collect();
    let body = |what: String, more: &str, body: &[u8]| (what, more.to_owned(), body.to_vec());
    all.extend([
        body(format!("GET {files}/a"), "Range: bytes=9-\r\n", b""),
        body(format!("PUT {files}/{long}"), "", b"x"),
        body(format!("PUT {files}/a/below"), "", b"x"),
        body(format!("PUT {files}/dir"), "", b"x"),
        body(format!("PUT {files}/a"), "If-Match: \"none\"\r\n", b"x"),
        body(format!("PATCH {files}/a"), "", &noise(1_000, 1)),
        body(format!("POST {files}/a?as=delta"), "", &noise(1_000, 2)),
        body("POST /v1/streams".into(), "", b"{"),
        body("POST /v1/tokens".into(), "", b"\xff"),
        body("POST /v1/tickets".into(), "", br#"{"volume":{}}"#),
    ]);
    all
}

/// An answer to a failure tells nothing of the inside of the program, or of the machine.
#[track_caller]
fn assert_plain(world: &World, what: &str, Answer { status, head, body }: &Answer) {
    let (body, home) = (String::from_utf8_lossy(body), world.path("").display().to_string());
    let home = home.trim_end_matches('/');
    for inside in [home, ".rs:", "panicked", "backtrace", "thread '", "os error", "/proc/", "Err("]
    {
        assert!(!body.contains(inside) && !head.contains(inside), "{what}: {head}\n{body}");
    }
    assert!((400..600).contains(status), "{what}: {head}\n{body}");
    let is_problem = head.to_lowercase().contains("content-type: application/problem+json");
    assert!(is_problem || body.is_empty(), "{what}: {head}\n{body}");
}

#[test]
fn answers_to_failures_have_plain_words_and_nothing_of_the_inside() {
    let world = World::new();
    world.write("photos/a", "a");
    world.write("photos/dir/b", "b");
    world.link("loop", "photos/loop");
    let server = Server::start(&world, "");
    for (what, more, body) in failing() {
        let answer = ask(&server, &what, &more, &body);
        // Some of them end well where they are allowed.
        if !(200..300).contains(&answer.status) {
            assert_plain(&world, &what, &answer);
        }
    }
    // A disk that is gone, with all of the volume.
    fs::remove_dir_all(world.path("photos")).expect("it is ours");
    for what in [
        "GET /v1/volumes/photos/files/a",
        "PUT /v1/volumes/photos/files/a",
        "PUT /v1/volumes/photos/files/new/b",
        "POST /v1/volumes/photos/tree/made",
    ] {
        assert_plain(&world, what, &ask(&server, what, "", b""));
    }
    assert_eq!(server.status("GET", "/healthz", ""), 200);
}

/// Most memory of the server so far, in kB.
fn peak(server: &Server<'_>) -> u64 {
    let status =
        fs::read_to_string(format!("/proc/{}/status", server.child.id())).expect("it runs");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("it is told");
    peak.trim().trim_end_matches(" kB").parse().expect("a number")
}

#[test]
fn a_head_has_a_longest_length_and_a_largest_number_of_headers_at_both_ends() {
    let world = World::new();
    world.write("src/a", "a");
    let server = Server::start(&world, "");
    let token = server.token();
    let head = |what: &str, more: &str| {
        format!("{what} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n{more}\r\n")
    };
    let long = "x".repeat(200_000);
    for (what, more) in [
        ("GET /v1/volumes", format!("X-Long: {long}\r\n")),
        ("GET /v1/volumes", "X: x\r\n".repeat(5_000)),
        ("GET /v1/volumes", (0..300).map(|n| format!("X-{n}: x\r\n")).collect()),
        (&format!("GET /{long}"), String::new()),
        (&format!("GET /v1/volumes?{long}"), String::new()),
        (&long, String::new()),
    ] {
        let line = server.raw(head(what, &more).as_bytes());
        // The connection may have ended before all of it was sent.
        assert!(line.is_empty() || line.contains(" 4"), "{line}");
    }
    assert!(peak(&server) < 100_000, "{} kB", peak(&server));
    assert_eq!(server.status("GET", "/v1/volumes", ""), 200);
    // The other way round.
    for (first, more) in [
        (
            "HTTP/1.1 200 OK\r\nX-Long: ",
            "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        ),
        (
            "HTTP/1.1 101 Switching Protocols\r\n",
            "X: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\r\n",
        ),
        ("HTTP/1.1 ", "9999999999999999999999999999999999999999999999999999999999999999"),
    ] {
        let stranger = Stranger::new(first, more);
        for command in COMMANDS {
            let run = run_with_token(&world, command, &stranger.address);
            assert!(run.code != Some(0) && !run.stderr.is_empty(), "{first} {command}: {run:#?}");
            assert!(run.stderr.len() < 2_000, "{first} {command}: {run:#?}");
        }
        // What the system holds of each connection counts too.
        let most = COMMANDS.len() * 6_000_000;
        let taken = stranger.taken.load(Ordering::Relaxed);
        assert!(taken < most, "{first}: {taken} bytes were taken");
    }
}

#[test]
fn a_bucket_whose_names_lead_elsewhere_puts_nothing_outside_the_destination() {
    let world = World::new();
    let bucket = Bucket::new();
    let outside = world.path("evil").display().to_string();
    for name in [
        "../evil/file",
        "a/../../evil/file",
        "..",
        "a/..",
        "./evil/x",
        "a//b/file",
        "a/./b/file",
        "dir\0name/file",
        &format!("{outside}/file"),
        "good/file",
    ] {
        bucket.put(name, b"x");
    }
    let mut command = world.command(DELTIC, ["sync", "-r", "gs://bucket/", "dst/"]);
    let run = Run::of(command.env("STORAGE_EMULATOR_HOST", &bucket.address));
    // It gives no bytes, so no file comes; directories do.
    assert!(run.code != Some(0) && !run.stderr.contains("panicked"), "{run:#?}");
    let mut names = world.names("");
    names.retain(|name| !name.starts_with('.'));
    names.sort();
    assert!(names.iter().all(|name| ["dst", "src"].contains(&&**name)), "{names:?}");
    assert!(world.exists("dst/good"), "{run:#?}");
    assert!(!world.exists("dst/evil") && !world.exists("dst/a/evil"), "{run:#?}");
}

/// The types that hold a secret in whole, and the files that define them.
const SECRETS: &[(&str, &str)] = &[
    ("pub struct Token(", "carrier/src/token.rs"),
    ("pub struct TokenHash(", "carrier/src/token.rs"),
    ("pub struct Token(", "protocol/src/wire/streams.rs"),
];

/// No test can see how long a comparison takes. A test can see that no type of a secret derives its comparison, which
/// would end at the first different byte. A [`TokenHash`] is a hash of BLAKE3, whose comparison takes constant time.
#[test]
fn no_secret_is_compared_byte_by_byte() {
    for (kind, file) in SECRETS {
        let text = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
        let text = fs::read_to_string(text).expect("it is there");
        let (before, behind) = text.split_once(kind).expect("it is defined there");
        let derived = before.lines().last().expect("it derives something");
        let is_blake3 = behind.starts_with("blake3::Hash)");
        assert!(derived.starts_with("#[derive(") || derived.is_empty(), "{file}: {derived}");
        let derives = before.rsplit("#[derive(").next().expect("it derives something");
        assert!(is_blake3 || !derives.contains("PartialEq"), "{file}: {kind} {derives}");
        let by_hand = text.contains("impl PartialEq for Token {");
        assert!(is_blake3 || by_hand, "{file}: {kind}");
    }
}

#[test]
fn a_bad_request_ends_nothing_but_itself() {
    let world = World::new();
    world.write("src/synced", "a");
    let server = Server::set(&world, "[limits]\nhead_seconds = 2\n");
    // Work of honest clients that is under way all the time.
    let mut upload = server.upload(server.token(), ("slow", 10), b"01234");
    let mut socket = server.socket(server.token());
    assert!(socket.hear().contains("welcome"));
    let tenant = server.add_token("--ro tenant");
    for (what, more, body) in failing() {
        ask(&server, &what, &more, &body);
        ask_as(&server, &tenant, (&what, &more), &body);
        ask_as(&server, "dlt_x", (&what, &more), &body);
    }
    let chunked =
        "PUT /v1/volumes/photos/files/c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n";
    let token = server.token();
    for bytes in [
        b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03".to_vec(),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        vec![0; 100_000],
        format!("{chunked}Authorization: Bearer {token}\r\n\r\nffffffffffffffffff\r\n").into(),
        format!("{chunked}Authorization: Bearer {token}\r\nContent-Length: 3\r\n\r\n0\r\n\r\n")
            .into(),
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n".to_vec(),
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n".to_vec(),
        b"GET / HTTP/1.1\nHost: x\n X: \x01\n\n".to_vec(),
    ] {
        let mut stream = server.connect();
        let _ = stream.write_all(&bytes);
        drop(stream);
        server.raw(&bytes);
    }
    // One that says nothing, and one that goes in the midst of its body.
    let _silent = server.connect();
    drop(server.upload(server.token(), ("gone", 1_000), b"01234"));
    upload.write_all(b"56789").expect("it is heard");
    let mut answer = String::new();
    while !answer.contains("\r\n\r\n") {
        let mut byte = [0];
        upload.read_exact(&mut byte).expect("it answers");
        answer.push(char::from(byte[0]));
    }
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    assert_eq!(world.read("photos/slow"), b"0123456789");
    socket.open(0);
    assert!(socket.hear().contains("refused"), "it is heard still");
    server.ok("sync -a src/ URL/photos/");
    wait_until("what was cut off is gone", || !world.exists("photos/gone"));
}
