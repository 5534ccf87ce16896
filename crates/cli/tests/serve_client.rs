//! Clients of `deltic serve` where it refuses something, is away, or keeps less than was asked for.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::server::Server;
use crate::common::{DELTIC, Run, World, noise, wait_until};
use rustix::process::{Pid, Signal, kill_process};

/// Starts the command in the background; what it complains of is in the file `said`.
fn start(world: &World, words: &str) -> Child {
    let said = fs::File::create(world.path("said")).expect("it is made");
    let mut command = Command::new(DELTIC);
    world.place(command.args(words.split_whitespace()));
    command.stdout(Stdio::null()).stderr(said).spawn().expect("it starts")
}

fn said(world: &World) -> String {
    String::from_utf8_lossy(&world.read("said")).into_owned()
}

#[track_caller]
fn wait_for_word(world: &World, word: &str) {
    wait_until(word, || said(world).contains(word));
}

#[test]
fn a_signal_ends_a_sync_that_waits_for_its_server() {
    for signal in [Signal::INT, Signal::TERM] {
        let world = World::new();
        world.write("src/long", noise(12_000_000, 1));
        let mut server = Server::start(&world, "");
        let words = format!("sync -a --bwlimit 2M src/ {}/photos/", server.url);
        let mut client = start(&world, &words);
        wait_until("the push is under way", || world.exists("photos/.deltic"));
        server.child.kill().expect("it runs");
        server.child.wait().expect("it is ours");
        // The longer of its pauses.
        wait_for_word(&world, "trying again in 2.0 s");
        let told = Instant::now();
        let pid = Pid::from_raw(client.id() as i32).expect("it is a process");
        kill_process(pid, signal).expect("it is ours");
        let ended = client.wait().expect("it is ours");
        assert_eq!(ended.code(), Some(20), "{}", said(&world));
        assert!(said(&world).contains("deltic: interrupted"), "{}", said(&world));
        assert!(told.elapsed() < Duration::from_millis(1900), "it waited to the end");
    }
}

#[test]
fn a_sync_waits_for_room_as_long_as_the_server_says() {
    let world = World::new();
    world.write("src/a", "a");
    let server = Server::set(&world, "[limits]\nsessions_per_token = 1\n");
    let token = server.add_token("me");
    world.write("token", &token);
    let mut socket = server.socket(&token);
    assert!(socket.hear().contains("welcome"));
    socket.open(1);
    let words = format!("sync -a --token @token src/ {}/photos/", server.url);
    let json = server.deltic(&format!("{words} --json --no-retry"));
    assert_eq!(json.code, Some(3), "{json:#?}");
    assert!(json.stderr.contains("(try again in 5 s)"), "{json:#?}");
    let mut client = start(&world, &words);
    wait_for_word(&world, "trying again in 5.0 s");
    let why =
        format!("deltic: {}/photos: this token has reached its limit of sessions", server.url);
    assert!(said(&world).contains(&why), "{}", said(&world));
    assert_eq!(said(&world).matches(&server.url).count(), 1, "{}", said(&world));
    drop(socket);
    assert_eq!(client.wait().expect("it is ours").code(), Some(0), "{}", said(&world));
    world.assert_same("src", "photos");
}

#[test]
fn a_sync_waits_where_its_token_asked_too_often() {
    let world = World::new();
    world.write("src/a", "a");
    let server = Server::set(&world, "[limits]\nrequests_per_second = 1\nrequest_burst = 4\n");
    let token = server.add_token("me");
    world.write("token", &token);
    wait_until("one is put off", || {
        server.answer(&token, "/v1/volumes", "").starts_with("HTTP/1.1 429")
    });
    let run = server.deltic("sync -a --token @token src/ URL/photos/");
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert!(run.stderr.contains("too many requests"), "{run:#?}");
    assert!(run.stderr.contains("trying again in 2.0 s"), "{run:#?}");
    world.assert_same("src", "photos");
}

#[test]
fn a_quota_that_is_used_up_is_told_once_with_a_count() {
    let world = World::new();
    for nth in 0..40 {
        world.write(format!("src/{nth:02}"), vec![1; 1_000]);
    }
    world.write("src/dir/below", vec![1; 1_000]);
    let server = Server::set_volume(&world, "quota_bytes = 10500", "");
    let run = server.deltic("sync -a src/ URL/photos/");
    assert_eq!(run.code, Some(23), "{run:#?}");
    assert_eq!(run.stderr.matches("the quota of the volume has").count(), 1, "{run:#?}");
    assert!(run.stderr.contains("31 names failed: disk quota exceeded"), "{run:#?}");
    assert!(run.stderr.contains("hint: the quota at the destination is used up"), "{run:#?}");
    let journal = server.deltic("sync -a --json src/ URL/photos/").stdout;
    assert_eq!(journal.matches("the quota of the volume has").count(), 31, "{journal}");
}

#[test]
fn a_token_for_a_path_is_told_of_paths_as_they_are_written() {
    let world = World::new();
    world.write("src/a", "a");
    world.write("photos/2026/june/file", "x");
    let server = Server::start(&world, "");
    world.write("token", server.add_token("--volume photos --path 2026/june guest"));
    for (code, words, told) in [
        (11, "src/ URL/photos/2026/june/none/x/", "destination /photos/2026/june/none/x: "),
        (
            3,
            "src/ URL/photos/2026/",
            "volume photos/2026/june: 2026/: the token does not cover this path",
        ),
        (3, "src/ URL/photos/2026/june/file/", "destination /photos/2026/june/file"),
        (3, "--link-dest=/../x src/ URL/photos/2026/june/", "/photos/2026/june/../x leads out"),
        (23, "URL/photos/2026/june/none got/", "cannot read /photos/2026/june/none: no such file"),
        (
            3,
            "--files-from=:/2026/june/none URL/photos/2026/june/ got/",
            "cannot read /photos/2026/june/none",
        ),
    ] {
        let run = server.deltic(&format!("sync -a --token @token {words}"));
        assert_eq!(run.code, Some(code), "{words}: {run:#?}");
        assert!(run.stderr.contains(told), "{words}: {run:#?}");
        assert!(!run.stderr.contains("photos:2026"), "{words}: {run:#?}");
    }
}

#[test]
fn a_wrong_pin_is_told_beside_the_right_one_and_no_pin_is_taken_for_one() {
    let world = World::new();
    world.write("src/a", "a");
    let server = Server::start(&world, "--lan");
    let right = server.whole.split("&pin=").nth(1).expect("it has one").to_owned();
    let wrong = format!("sha256//{}=", "A".repeat(43));
    let run = server.deltic(&format!("sync -a --pin {wrong} src/ URL/photos/"));
    assert_eq!(run.code, Some(10), "{run:#?}");
    let told = format!("expected {wrong}, got {right}");
    assert!(run.stderr.contains(&told), "{run:#?}");
    assert!(run.stderr.contains("hint: another server may have answered"), "{run:#?}");
    for bad in ["sha256//AAAA", "sha256//", "x", &right[..right.len() - 1]] {
        for words in [
            "sync -a src/ URL/photos/",
            "versions URL/photos/a",
            "login URL",
            "verify src URL/photos",
        ] {
            server.fails(1, &format!("{words} --pin {bad}"), "not a pin: a pin is sha256//");
        }
        let whole = format!("{}/#t={}&pin={bad}", server.url, server.token());
        server.fails(1, &format!("login {whole}"), "pin= behind the # of the address: not a pin");
    }
    // What was kept is as it was.
    server.ok("sync -a src/ URL/photos/");
}

#[test]
fn a_client_without_the_pin_or_with_the_other_scheme_is_told_what_to_write() {
    let world = World::new();
    world.write("src/a", "a");
    let (secret, plain) = (World::new(), World::new());
    let (secret, plain) = (Server::start(&secret, "--lan"), Server::start(&plain, ""));
    world.write("token", secret.token());
    let port = |server: &Server<'_>| server.url.rsplit(':').next().expect("it has one").to_owned();
    let https_at_plain = format!("https://127.0.0.1:{}", port(&plain));
    let http_at_secret = format!("http://127.0.0.1:{}", port(&secret));
    let pinless = "cannot trust URL: the server's certificate is self-signed, or signed by an unknown authority\n  \
                   hint: a server with a key of its own is trusted by its pin: `deltic serve --show` there prints the pin";
    let plain =
        "cannot trust URL: the server answers without TLS\n  hint: `deltic serve --show` there";
    let other = "cannot ask URL: the answer is not HTTP\n  hint: if the server uses TLS, begin the address with https://";
    for (url, told) in [(&secret.url, pinless), (&https_at_plain, plain), (&http_at_secret, other)]
    {
        let told = told.replace("URL", url);
        let login = format!("{url}/photos/#t={}", secret.token());
        for words in [
            format!("login {login}"),
            format!("sync -a --no-retry --token @token src/ {url}/photos/"),
            format!("versions --token @token {url}/photos/a"),
            format!("ls --token @token {url}/photos/"),
        ] {
            let run = Run::of(&mut world.command(DELTIC, words.split_whitespace()));
            assert_eq!(run.code, Some(10), "{words}: {run:#?}");
            assert!(run.stderr.contains(&told), "{words}: {told}: {run:#?}");
        }
    }
}

#[test]
fn words_that_make_no_sense_end_all_commands_alike_and_say_where_they_stand() {
    let world = World::new();
    world.write("src/a", "a");
    world.write("token", "dlt_x");
    let server = Server::start(&world, "");
    for command in ["sync -a src/", "verify src", "versions", "restore --version 1"] {
        for (code, words, told) in [
            (1, "--token dlt_x URL/photos/a", "write --token @FILE"),
            (1, "--token @token URL/photos/a", "--token @token: not a token"),
            (11, "--token @none URL/photos/a", "cannot read none: no such file"),
            (1, "http://nas.example/photos/a", "'http://nas.example/photos/a': http:// would"),
            (1, "https://nas.example/photos/a", "no token for https://nas.example"),
        ] {
            server.fails(code, &format!("{command} {words}"), told);
        }
        let words = format!("{command} {}/photos/a", server.url);
        let mut by_environment = world.command(DELTIC, words.split_whitespace());
        let run = Run::of(by_environment.env("DELTIC_TOKEN", "dlt_x"));
        assert_eq!(run.code, Some(1), "{words}: {run:#?}");
        assert!(run.stderr.contains("DELTIC_TOKEN: not a token"), "{words}: {run:#?}");
        let elsewhere = format!("{command} http://127.0.0.1:1/photos/a");
        let mut nobody = world.command(DELTIC, elsewhere.split_whitespace());
        let run = Run::of(nobody.env("DELTIC_TOKEN", server.token()));
        assert_eq!(run.code, Some(10), "{elsewhere}: {run:#?}");
        assert_eq!(run.stderr.matches("refused").count(), 1, "{elsewhere}: {run:#?}");
        let none = server.deltic(&format!("{command} URL/music/a"));
        assert_eq!(
            (none.code, none.stderr.matches(&server.url).count()),
            (Some(3), 1),
            "{none:#?}"
        );
    }
    server.fails(1, "login http://nas.example/", "'http://nas.example/': http:// would");
    server.fails(1, "login URL/#t=dlt_x", "t= behind the # of the address: not a token");
    server.fails(1, "login URL", "the token of standard input: not a token");
    let logins = String::from_utf8(world.read(".config/deltic/logins.json")).expect("it is text");
    world.write(".config/deltic/logins.json", logins.replace("dlt_", "dlt"));
    server.fails(1, "versions URL/photos/a", "logins.json: not a token");
}

#[test]
fn versions_and_files_that_are_not_there_are_told_apart() {
    let world = World::new();
    let server = Server::start(&world, "--versions 3");
    world.write("a", "one");
    world.write("photos/dir/b", "b");
    server.ok("sync -a a URL/photos/a");
    world.write("a", "another");
    server.ok("sync -a a URL/photos/a");
    assert_eq!(server.ok("versions URL/photos/a").lines().len(), 1);
    assert_eq!(server.ok("versions URL/photos/dir/b").stdout, "", "it never changed");
    let lists = "a: no version 7; `deltic versions` lists the versions";
    server.fails(3, "restore URL/photos/a --version 7", lists);
    assert_eq!(world.read("photos/a"), b"another");
    server.fails(3, "versions URL/photos/dir", "dir: a directory");
    assert_eq!(server.ok("versions URL/photos/dir/").stdout, "", "no file below changed");
    server.fails(3, "versions URL/photos/none", "none: no such file");
    // A file is listed as rsync does, wherever it is.
    let listed = server.ok("sync --list-only URL/photos/dir/b").stdout;
    assert!(listed.trim_end().ends_with(" b") && listed.lines().count() == 1, "{listed}");
    server.fails(23, "sync --list-only URL/photos/none", "cannot read /photos/none: no such file");
}

#[test]
fn bits_that_a_volume_does_not_keep_are_told_once_and_make_no_difference() {
    let world = World::new();
    for (name, mode) in [("user", 0o4755), ("group", 0o2755), ("both", 0o6711), ("plain", 0o640)] {
        world.write(format!("src/{name}"), name);
        world.chmod(&format!("src/{name}"), mode);
    }
    world.mkdir("src/sticky");
    world.mkdir("src/shared");
    world.chmod("src/sticky", 0o1777);
    world.chmod("src/shared", 0o2775);
    let server = Server::start(&world, "");
    let told = "a volume keeps no set-user-ID and set-group-ID bits";
    for (round, changes) in [(0, true), (1, false)] {
        let run = server.deltic("sync -ai src/ URL/photos/");
        assert_eq!(run.code, Some(0), "{run:#?}");
        assert_eq!(run.stderr.matches(told).count(), 1, "{round}: {run:#?}");
        assert_eq!(!run.stdout.is_empty(), changes, "{round}: {run:#?}");
    }
    let run = server.deltic("verify -a src URL/photos");
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert_eq!(run.stderr.matches(told).count(), 1, "{run:#?}");
    let mode = |name: &str| world.mode(&format!("photos/{name}"));
    let modes = ["user", "group", "both", "plain", "sticky", "shared"].map(mode);
    assert_eq!(modes, [0o755, 0o755, 0o711, 0o640, 0o1777, 0o775]);
    // All else of a mode counts as it did.
    world.chmod("src/user", 0o4700);
    let run = server.deltic("sync -ai src/ URL/photos/");
    assert!(run.stdout.contains(".f...p..... user"), "{run:#?}");
    assert_eq!(mode("user"), 0o700);
    // What the operator gave a directory, nobody takes away who has it too.
    world.chmod("photos/shared", 0o2775);
    world.chmod("src/user", 0o700);
    for name in ["group", "both"] {
        world.chmod(&format!("src/{name}"), 0o755);
    }
    server.ok("sync -a src/ URL/photos/");
    assert_eq!((mode("shared"), mode("both")), (0o2775, 0o755));
}

/// A server that starts again is away for a moment.
#[test]
fn a_first_connection_waits_for_a_server_whose_login_is_kept() {
    let world = World::new();
    world.write("src/a", "a");
    let mut server = Server::start(&world, "");
    let (url, port) = (server.url.clone(), server.url.rsplit(':').next().unwrap().to_owned());
    // The token of whoever started the server ends with it.
    let token = server.add_token("me");
    world.write("token", &token);
    let kept = server.deltic(&format!("login {url}#t={token}"));
    assert_eq!(kept.code, Some(0), "{kept:#?}");
    server.child.kill().expect("it runs");
    server.child.wait().expect("it is ours");
    let mut client = start(&world, &format!("sync -a src/ {url}/photos/"));
    wait_for_word(&world, "trying again in 1.0 s");
    let all = format!("serve photos --state state --listen 127.0.0.1:{port}");
    let again = Server::of(&world, all);
    let ended = client.wait().expect("it is ours");
    assert_eq!(ended.code(), Some(0), "{}", said(&world));
    assert_eq!(world.read("photos/a"), b"a");
    drop(again);
    // An address that nobody kept may be a slip of the hand, as may a host without an address.
    let other = url.replace("127.0.0.1", "localhost");
    for words in [
        format!("sync -a --no-retry src/ {url}/photos/"),
        format!("sync -a --token @token src/ {other}/photos/"),
        "sync -a --token @token src/ https://no-such-host.invalid/photos/".into(),
    ] {
        let begun = Instant::now();
        let run = Run::of(&mut world.command(DELTIC, words.split_whitespace()));
        assert_eq!(run.code, Some(10), "{words} {run:#?}");
        assert!(!run.stderr.contains("trying again"), "{words} {run:#?}");
        assert!(begun.elapsed() < Duration::from_secs(20), "{words}");
    }
}

#[test]
fn a_volume_may_be_a_link_of_ones_own() {
    let world = World::new();
    world.write("src/dir/a", "a");
    world.mkdir("disk/photos");
    world.link(&world.path("disk/photos").display().to_string(), "photos");
    let server = Server::start(&world, "");
    server.ok("sync -a src/ URL/photos/to/");
    server.ok("sync -a --delete URL/photos/to/ got/");
    assert_eq!(
        (world.read("disk/photos/to/dir/a"), world.read("got/dir/a")),
        (b"a".to_vec(), b"a".to_vec())
    );
}
