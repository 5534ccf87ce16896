//! `deltic serve`: the real server on loopback, and the real command as its client.

use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::common::http::ask;
use crate::common::server::Server;
use crate::common::{DELTIC, Run, World, edited, is_installed, noise, skip, wait_until};
use rustix::process::Signal;

#[test]
fn a_tree_goes_to_a_server_and_comes_back_by_what_changed() {
    let world = World::new();
    let old = noise(3_000_000, 1);
    world.write("src/big", &old);
    world.write("src/dir/small", "x");
    world.link("small", "src/dir/link");
    let server = Server::start(&world, "");
    server.ok("sync -a src/ URL/photos/2026/");
    world.assert_same("src", "photos/2026");
    world.write("src/big", edited(&old, 1_000_000));
    let run = server.ok("sync -a --stats src/ URL/photos/2026/");
    assert!(run.stat("Total bytes sent") < 100_000, "{run:#?}");
    world.assert_same("src", "photos/2026");
    server.ok("sync -a URL/photos/2026/ back/");
    world.assert_same("src", "back");
    server.ok("verify src URL/photos/2026");
    world.write("back/dir/small", "y");
    assert_eq!(server.deltic("verify back URL/photos/2026").code, Some(26));
    std::fs::remove_file(world.path("src/dir/small")).unwrap();
    server.ok("sync -a --delete src/ URL/photos/2026/");
    world.assert_same("src", "photos/2026");
    assert!(server.ok("sync --list-only URL/photos/2026/").stdout.contains("big"));
    server.fails(23, "sync -a URL/photos/none there", "cannot read /photos/none");
    world.assert_clean("photos");
}

#[test]
fn nothing_leads_out_of_a_volume() {
    let world = World::new();
    world.write("secret/x", "secret");
    world.write("src/x", "mine");
    world.mkdir("photos");
    world.link("../secret", "photos/out");
    world.link("../secret/x", "photos/file");
    let server = Server::start(&world, "");
    for (words, why) in [
        ("sync -a URL/photos/../secret/ got/", "'..' is not allowed"),
        ("sync -a URL/photos/out/ got/", "leads out"),
        ("sync -aL URL/photos/ got/", "not followed"),
        ("sync -a src/ URL/photos/out/", "leads out"),
        ("sync -a src/ URL/photos/%2e%2e/secret/", "'..' is not allowed"),
        ("sync -a src/ URL/secret/", "no such volume"),
        ("sync -a --backup --backup-dir=../secret src/ URL/photos/", "leads out"),
    ] {
        server.fails(3, words, why);
    }
    // The list is looked for in the volume.
    server.fails(3, "sync -a --files-from=:/secret/x URL/photos/ got/", "no such file");
    let home = world.path("secret").display().to_string();
    for path in [
        "../secret/x",
        "..%2fsecret%2fx",
        "%2e%2e/secret/x",
        "out/x",
        "file",
        "%2fetc%2fpasswd",
        "a%00b",
        &format!("/{home}/x"),
    ] {
        let address = format!("/v1/volumes/photos/files/{path}");
        for (method, more) in
            [("GET", ""), ("DELETE", "If-Match: *\r\n"), ("PUT", "Content-Length: 0\r\n")]
        {
            let status = server.status(method, &address, more);
            assert!((400..500).contains(&status), "{method} {path}: {status}");
        }
    }
    assert_eq!(server.status("GET", "/v1/volumes/photos/tree/out", ""), 403);
    assert_eq!(server.status("POST", "/v1/volumes/photos/tree/out/made", ""), 403);
    assert_eq!(world.read("secret/x"), b"secret");
    assert_eq!(world.names("secret"), ["x"]);
}

#[test]
fn a_client_makes_no_program_that_runs_as_somebody_else_and_nobody_waits_at_its_fifos() {
    let world = World::new();
    world.write("src/suid", "x");
    world.chmod("src/suid", 0o6755);
    world.write("src/a", "a");
    let fifo = world.path("src/fifo");
    let made = Command::new("mkfifo").arg(&fifo).status();
    assert!(made.is_ok_and(|status| status.success()));
    let server = Server::start(&world, "");
    let run = server.deltic("sync -a --super --chmod=F+s src/ URL/photos/");
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert!(
        run.stderr.lines().count() == 1 && run.stderr.contains("keeps no set-user-ID"),
        "{run:#?}"
    );
    assert_eq!(world.mode("photos/suid") & 0o7000, 0);
    assert_eq!(world.mode("photos/a") & 0o7000, 0);
    server.fails(3, "sync -r --files-from=:/fifo URL/photos/ got/", "not a file");
    assert_eq!(server.status("GET", "/v1/volumes/photos/files/fifo", ""), 409);
    assert_eq!(server.status("GET", "/healthz", ""), 200);
}

#[test]
fn a_token_allows_what_it_says_and_only_as_long_as_it_stands() {
    let world = World::new();
    world.write("src/a", "a");
    let server = Server::start(&world, "");
    server.ok("sync -a src/ URL/photos/");
    let token = |words: &str, file: &str| {
        world.write(file, server.add_token(words));
    };
    token("--ro reader", "reader");
    token("--wo writer", "writer");
    token("--no-delete keeper", "keeper");
    // A volume of an earlier server.
    world.mkdir("state/bases/music");
    token("--volume music stranger", "stranger");
    token("--expires 0 late", "late");
    server.ok("sync -a --token @reader URL/photos/ got/");
    server.fails(3, "sync -a --token @reader src/ URL/photos/", "only reading is permitted");
    server.ok("sync -a --token @writer src/ URL/photos/");
    server.fails(3, "sync -a --token @writer URL/photos/ got/", "only writing is permitted");
    server.fails(3, "sync -a --delete --token @keeper src/ URL/photos/", "nothing may be deleted");
    // What is found in such a directory is used up.
    server.fails(
        3,
        "sync -a --partial-dir=/x --token @keeper src/ URL/photos/",
        "nothing may be deleted",
    );
    server.fails(3, "sync -a --token @stranger src/ URL/photos/", "no such volume");
    server.fails(11, "sync -a --token @late src/ URL/photos/", "does not accept the token");
    server.fails(1, "sync -a --token dlt_x src/ URL/photos/", "--token @FILE");
    assert!(server.ok("token list --state state").stdout.contains("  keeper  read+write  photos"));
    server.ok("token revoke --state state reader");
    server.fails(11, "sync -a --token @reader URL/photos/ got/", "does not accept the token");
    // Who is connected is put out.
    world.mkdir("idle");
    let mut watching = Command::new(DELTIC);
    let words = format!("sync -a --bwlimit 1 --token @writer big/ {}/photos/", server.url);
    world.write("big/file", noise(4_000_000, 2));
    watching.args(words.split_whitespace()).stderr(Stdio::piped());
    world.place(&mut watching);
    let mut slow = watching.spawn().unwrap();
    sleep(Duration::from_secs(1));
    assert!(slow.try_wait().unwrap().is_none(), "it is too fast for this test");
    server.ok("token revoke --state state writer");
    wait_until("who was let in is put out", || slow.try_wait().unwrap().is_some());
    assert!(!slow.wait().unwrap().success());
    assert!(!world.exists("photos/file"));
}

#[test]
fn a_token_for_a_part_of_a_volume_syncs_there_and_nowhere_else() {
    let world = World::new();
    world.write("src/a", "a");
    world.write("photos/new/deep/b", "b");
    world.write("photos/newer/secret", "secret");
    world.link("..", "photos/new/up");
    world.link("../newer", "photos/new/side");
    let server = Server::set_volume(&world, "versions = 3\nquota_bytes = 10000000", "");
    world.write("guest", server.add_token("--path new/ guest"));
    let guest = |words: &str| format!("sync -a --token @guest {words}");
    server.ok(&guest("src/ URL/photos/new/"));
    server.ok(&guest("URL/photos/new/deep/ got/"));
    assert_eq!(world.read("got/b"), b"b");
    world.write("src/a", "longer");
    server.ok(&guest("--backup --backup-dir=/old src/ URL/photos/new/"));
    assert_eq!(world.read("photos/new/a"), b"longer");
    assert_eq!(world.read("photos/new/old/a"), b"a");
    // What was replaced has a version, as in all of the volume.
    world.write("src/a", "longest");
    server.ok(&guest("src/ URL/photos/new/"));
    assert!(world.exists("photos/.deltic-versions/new/a"));
    for (words, why) in [
        ("src/ URL/photos/", "the token does not cover this path"),
        ("src/ URL/photos/newer/", "the token does not cover this path"),
        ("URL/photos/newer/secret got/", "the token does not cover this path"),
        ("URL/photos/none/secret got/", "the token does not cover this path"),
        ("URL/photos/new/../newer/ got/", "'..' is not allowed"),
        ("URL/photos/new/up/ got/", "leads out"),
        ("URL/photos/new/side/ got/", "leads out"),
        ("src/ URL/photos/new/side/", "leads out"),
        ("--backup --backup-dir=../../newer src/ URL/photos/new/deep/", "leads out"),
        ("--link-dest=../newer src/ URL/photos/new/", "leads out"),
        ("src/ URL/photos:new/", "no such volume"),
    ] {
        server.fails(3, &guest(words), why);
    }
    assert_eq!(world.read("photos/newer/secret"), b"secret");
    server.fails(1, "token add --state state --path ../x guest", "--path=../x");
    world.assert_clean("photos/new");
}

#[test]
fn a_server_of_its_own_key_is_known_by_its_pin() {
    let world = World::new();
    world.write("src/a", noise(100_000, 3));
    let server = Server::start(&world, "--lan");
    assert!(server.whole.starts_with("https://") && server.whole.contains("&pin=sha256//"));
    server.ok("sync -a src/ URL/photos/");
    world.assert_same("src", "photos");
    let wrong = "sha256//AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    server.fails(10, &format!("sync -a --pin {wrong} src/ URL/photos/"), "does not match the pin");
    std::fs::remove_file(world.path(".config/deltic/logins.json")).unwrap();
    world.write("token", server.token());
    server.fails(10, "sync -a --token @token src/ URL/photos/", "certificate");
}

#[test]
fn a_server_is_reached_by_ipv6_with_a_token_of_the_environment() {
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        return skip("there is no IPv6");
    }
    let world = World::new();
    world.write("src/a", "a");
    world.mkdir("photos");
    let server = Server::of(&world, "serve photos --state state --lan --listen [::1]:0".into());
    assert!(server.url.starts_with("https://[::1]:"), "{}", server.url);
    server.ok("sync -a src/ URL/photos/");
    world.assert_same("src", "photos");
    let reader = server.add_token("--ro reader");
    let with = |token: &str, words: &str| {
        let words = words.replace("URL", &server.url);
        let mut command = world.command(DELTIC, words.split_whitespace());
        let run = Run::of(command.env("DELTIC_TOKEN", token));
        (run.code, run.stderr)
    };
    // It goes before what `deltic login` kept, and behind --token; an empty one is none.
    assert_eq!(with(&reader, "sync -a URL/photos/ got/"), (Some(0), String::new()));
    world.assert_same("src", "got");
    let push = "sync -a src/ URL/photos/";
    let (code, said) = with(&reader, push);
    assert!(code == Some(3) && said.contains("only reading is permitted"), "{code:?} {said}");
    assert_eq!(with("", push).0, Some(0));
    world.write("token", server.token());
    assert_eq!(with(&reader, "sync -a --token @token src/ URL/photos/").0, Some(0));
    assert_ne!(with("dlt_x", push).0, Some(0));
}

#[test]
fn a_token_that_may_not_change_what_is_there_may_compare_with_it() {
    let world = World::new();
    world.write("src/same", "same");
    world.write("photos/june/same", "same");
    world.write("photos/june/more", "more");
    let server = Server::start(&world, "");
    for (words, name) in [("--ro", "reader"), ("--no-delete", "keeper")] {
        world.write(name, server.add_token(&format!("{words} {name}")));
        let verify = format!("verify --token @{name} src URL/photos/june");
        assert_eq!(server.deltic(&verify).code, Some(26), "{name}");
        let looks = format!("sync -an --delete --token @{name} src/ URL/photos/june/");
        assert!(server.ok(&looks).stdout.is_empty());
    }
    server.fails(3, "sync -a --token @reader src/ URL/photos/june/", "only reading is permitted");
    server.fails(3, "sync -a --delete --token @keeper src/ URL/photos/june/", "be deleted");
    assert_eq!(world.read("photos/june/more"), b"more");
    // All that a token is for has no name there.
    world.write("part", server.add_token("--path june part"));
    server.fails(3, "sync -a --token @part URL/photos/june got/", "add a slash at the end");
    server.ok("sync -a --token @part URL/photos/june/ got/");
    world.assert_same("photos/june", "got");
}

/// Bytes of a client never stand under a mode with which a program runs as its owner, be it for a moment.
#[test]
fn a_file_that_lends_rights_is_replaced_and_never_changed_where_it_is() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let world = World::new();
    let lend = |path: &str, bits: u32| {
        let mode = std::fs::Permissions::from_mode(0o755 | bits);
        std::fs::set_permissions(world.path(path), mode).expect("it is ours");
    };
    let server = Server::start(&world, "");
    for (bits, words) in [(0o6000, "-a"), (0o2000, "-a"), (0o4000, "-a"), (0o6000, "-rt")] {
        world.write("photos/tool", noise(10_000, 1));
        lend("photos/tool", bits);
        let before = world.path("photos/tool").metadata().expect("it is there");
        world.write("src/tool", edited(&noise(10_000, 1), 5_000));
        lend("src/tool", bits);
        let run = server.deltic(&format!("sync {words} --inplace src/ URL/photos/"));
        assert_eq!(run.code, Some(0), "{run:#?}");
        assert_eq!(world.read("src/tool"), world.read("photos/tool"));
        let after = world.path("photos/tool").metadata().expect("it is there");
        assert_eq!(after.mode() & 0o7000, 0, "{bits:o} {words}");
        assert_ne!(after.ino(), before.ino());
        std::fs::remove_file(world.path("photos/tool")).expect("it is there");
    }
}

#[test]
fn settings_of_a_file_count_and_are_checked_before_anybody_is_let_in() {
    let world = World::new();
    world.write("src/a", "a");
    world.mkdir("photos");
    world.mkdir("state");
    let path = |name: &str| world.path(name).display().to_string();
    let volume = format!("[volumes.photos]\npath = \"{}\"\n", path("photos"));
    let text = format!("state = \"{}\"\n{volume}", path("state"));
    world.write("deltic.toml", format!("{text}access = \"read\"\n"));
    let deltic = |words: &str| Run::of(&mut world.command(DELTIC, words.split(' ')));
    let run = deltic("serve --config deltic.toml --check");
    assert_eq!((run.code, &*run.stderr), (Some(0), "the settings are right\n"));
    for (config, why) in [
        (text.replace("photos\"", "none\""), "no such directory"),
        (text.replace("state\"", "photos/state\""), "state directory"),
        (format!("{text}speed = 3\n"), "speed"),
        (format!("{text}quota_bytes = \"1G\"\n"), "write a number of bytes without a unit"),
        (format!("listen = \"0.0.0.0:0\"\n{text}"), "in the clear"),
        (text.replace("volumes.photos", "volumes.'a/b'"), "a name has letters"),
    ] {
        world.write("bad.toml", config);
        let run = deltic("serve --config bad.toml --check");
        assert!(run.code == Some(1) && run.stderr.contains(why), "{why}: {run:#?}");
    }
    for (code, words, why) in [
        (1, "serve photos --listen 8420", "write IP:PORT: 127.0.0.1:8420 for this machine"),
        (1, "serve none", "cannot serve none: no such file or directory"),
        (11, "serve --config none.toml", "cannot read none.toml: no such file or directory"),
        (11, "serve photos --state deltic.toml/x", "--state names another directory"),
    ] {
        let run = deltic(words);
        assert!(run.code == Some(code) && run.stderr.contains(why), "{words}: {run:#?}");
    }
    let server = Server::of(&world, "serve --config deltic.toml --listen 127.0.0.1:0".into());
    server.fails(3, "sync -a src/ URL/photos/", "only reading is permitted");
    drop(server);
    // A directory of its own is chosen where none is named, and a volume to write to is shown first.
    let two = format!(
        "{volume}access = \"read\"\n[volumes.zoo]\npath = \"{}\"\n[limits]\nsessions = 9\n",
        path("src")
    );
    world.write("two.toml", &two);
    let words = "serve --config two.toml --listen 127.0.0.1:0 --state state";
    let (mut child, lines) = crate::common::server::spawn(&world, words, Stdio::null());
    assert!(lines.iter().any(|line| line.contains("/zoo/#t=")), "{lines:?}");
    child.kill().and_then(|()| child.wait()).expect("it is ours");
    let server = Server::start(&world, "--no-delete");
    server.fails(3, "sync -a --delete src/ URL/photos/", "nothing may be deleted");
    drop(server);
    if !is_installed("openssl") {
        return skip("openssl is not installed: no certificate");
    }
    let words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key.pem -out cert.pem \
                 -subj /CN=localhost -days 1";
    let made = Run::of(&mut world.command("openssl", words.split_whitespace()));
    assert_eq!(made.code, Some(0), "{made:#?}");
    let [cert, key] = ["cert.pem", "key.pem"].map(path);
    let tls = |key: &str| format!("[tls.files]\ncert = \"{cert}\"\nkey = \"{key}\"\n");
    world.write("other.pem", "no key");
    for (more, code, why) in [
        (tls(&key), 0, "the settings are right"),
        (tls(&path("none.pem")), 11, "none.pem: no such file"),
        (tls(&path("other.pem")), 1, "other.pem: no key in it"),
        (tls(&key).replace("cert.pem", "other.pem"), 1, "other.pem: no certificate in it"),
    ] {
        world.write("tls.toml", format!("{text}{more}"));
        let run = deltic("serve --config tls.toml --check");
        assert!(run.code == Some(code) && run.stderr.contains(why), "{why}: {run:#?}");
    }
    for (audit, code, why) in [
        ("none/audit", 11, "none/audit: no such file"),
        ("state", 11, "not a file"),
        ("state/audit", 0, "the settings are right"),
    ] {
        world.write("audit.toml", format!("audit = \"{}\"\n{text}", path(audit)));
        let run = deltic("serve --config audit.toml --check");
        assert!(run.code == Some(code) && run.stderr.contains(why), "{why}: {run:#?}");
    }
    assert!(!world.exists("state/audit"), "nothing is made");
    let server = Server::start(&world, "--cert cert.pem --key key.pem --ro");
    assert!(server.whole.starts_with("https://"));
    world.write("token", server.token());
    server.fails(10, "sync -a --token @token URL/photos/ got/", "certificate");
}

#[test]
fn the_examples_of_the_manual_do_what_they_say() {
    if !is_installed("curl") || !is_installed("openssl") {
        return skip("curl or openssl is not installed");
    }
    let world = World::new();
    world.write("data", noise(300_000, 4));
    world.write("edited", edited(&noise(300_000, 4), 100_000));
    let server = Server::start(&world, "--versions 10");
    let manual = include_str!("../../../docs/http.md");
    let mut blocks = manual.split("```").skip(1).step_by(2);
    let block = blocks.find_map(|block| block.strip_prefix("sh\n")).expect("there is one");
    assert!(block.matches("curl ").count() >= 10);
    let mut command = Command::new("sh");
    let programs = Path::new(DELTIC).parent().expect("it is in a directory").as_os_str();
    let mut path = programs.to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    command.args(["-exc", block]).env("URL", &server.url).env("TOKEN", server.token());
    command.env("PATH", path);
    let run = Run::of(&mut world.settle(command));
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert_eq!(world.read("photos/new/data"), world.read("data"));
    assert_eq!(world.read("first"), world.read("data"));
    assert!(world.exists("photos/empty") && !world.exists("photos/new/other"));
    world.assert_clean("photos/new");
}

#[test]
fn a_file_over_http_is_replaced_as_a_whole_and_only_if_the_conditions_hold() {
    let world = World::new();
    world.write("photos/a", "old");
    let server = Server::start(&world, "");
    let file = "/v1/volumes/photos/files/a";
    let status = |method: &str, more: &str| server.status(method, file, more);
    assert_eq!(status("GET", "If-Match: \"x\"\r\n"), 412);
    assert_eq!(status("GET", "If-None-Match: *\r\n"), 304);
    assert_eq!(status("GET", "Range: bytes=9-\r\n"), 416);
    let beyond = ask(&server, &format!("GET {file}"), "Range: bytes=9-\r\n", b"");
    assert_eq!(beyond.header("content-range"), Some("bytes */3"), "{}", beyond.head);
    assert_eq!(beyond.header("content-type"), Some("application/problem+json"), "{}", beyond.head);
    assert_eq!(status("GET", "Range: bytes=1-1\r\n"), 206);
    assert_eq!(status("DELETE", ""), 428);
    assert_eq!(status("DELETE", "If-Match: \"x\"\r\n"), 412);
    assert_eq!(status("PUT", "Content-Length: 3\r\nIf-None-Match: *\r\n\r\nnew"), 412);
    assert_eq!(status("PUT", "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 411);
    assert_eq!(status("PUT", "Content-Length: 99999999999999999\r\n\r\nnew"), 413);
    let digest = "Repr-Digest: sha-256=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:\r\n";
    assert_eq!(status("PUT", &format!("Content-Length: 3\r\n{digest}\r\nnew")), 400);
    assert_eq!(server.status("PUT", "/v1/volumes/photos/files/a/b", "Content-Length: 0\r\n"), 409);
    // A body that ends early.
    server.raw(
        format!("PUT {file} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nContent-Length: 9\r\n\r\nnew", server.token())
            .as_bytes(),
    );
    assert_eq!(world.read("photos/a"), b"old");
    assert_eq!(status("PUT", "Content-Length: 3\r\nIf-Match: *\r\n\r\nnew"), 204);
    assert_eq!(world.read("photos/a"), b"new");
    assert_eq!(server.status("GET", "/v1/volumes/music/files/a", ""), 404);
    assert_eq!(server.status("GET", "/v1/volumes", "Origin: https://evil.example\r\n"), 403);
}

#[test]
fn what_is_no_request_ends_its_own_connection_alone() {
    let world = World::new();
    let server = Server::start(&world, "");
    assert!(server.raw(b"\x16\x03\x01 what is this\r\n\r\n").contains("400"));
    let long = server.raw(&[b'x'; 200_000]);
    assert!(long.is_empty() || long.contains(" 4"), "{long}");
    let upgrade = |more: &str, frames: &[u8]| {
        let head = format!(
            "GET /v1/ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\
             Sec-WebSocket-Protocol: deltic.1\r\n{more}\r\n"
        );
        server.raw(&[head.as_bytes(), frames].concat())
    };
    let known = format!("Authorization: Bearer {}\r\n", server.token());
    // A masked frame: what is said, by the mask of zeros.
    let frame =
        |payload: &[u8]| [&[0x82, 0x80 | payload.len() as u8, 0, 0, 0, 0], payload].concat();
    let open = br#"{"open":{"channel":1,"volume":"photos"}}"#;
    for frames in [
        vec![0xff; 64],
        [&[0x82, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff][..], &[0; 64]].concat(),
        frame(b""),
        frame(b"\x80\x80\x80\x80\x80\x80"),
        frame(b"\x00{"),
        frame(br#"x"#),
        [
            frame(&[&b"\0"[..], open].concat()),
            frame(b"\x01garbage instead of a greeting"),
            vec![0x88, 0x80, 0, 0, 0, 0],
        ]
        .concat(),
        [
            frame(&[&b"\0"[..], open].concat()),
            frame(&[&b"\0"[..], open].concat()),
            vec![0x88, 0x80, 0, 0, 0, 0],
        ]
        .concat(),
    ] {
        assert!(upgrade(&known, &frames).contains("101"), "{frames:?}");
    }
    let nope = frame(&[&b"\0"[..], br#"{"open":{"channel":1,"volume":"nope"}}"#].concat());
    let ping = [0x89, 0x80, 0, 0, 0, 0];
    upgrade("", &nope.repeat(50_000));
    upgrade("", &ping.repeat(200_000));
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.child.id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("it is told");
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().expect("a number");
    assert!(peak < 100_000, "{peak} kB");
    assert!(upgrade("Authorization: Bearer dlt_x\r\n", b"").contains("401"));
    assert!(upgrade("Origin: https://evil.example\r\n", b"").contains("403"));
    // Nobody who has not said who he is may open anything.
    let stranger = [frame(&[&b"\0"[..], open].concat()), vec![0x88, 0x80, 0, 0, 0, 0]].concat();
    assert!(upgrade("", &stranger).contains("101"));
    assert_eq!(server.status("GET", "/healthz", ""), 200);
    world.write("src/a", "a");
    server.ok("sync -a src/ URL/photos/");
}

#[test]
fn a_server_that_ends_lets_sessions_end_and_one_that_is_killed_leaves_whole_files() {
    let world = World::new();
    world.write("src/a", noise(20_000_000, 5));
    world.write("photos/a", "old");
    let mut server = Server::start(&world, "");
    let mut command = Command::new(DELTIC);
    let words = format!("sync -a --bwlimit 10M src/ {}/photos/", server.url);
    command.args(words.split_whitespace());
    world.place(&mut command);
    let mut push = command.spawn().unwrap();
    wait_until("the push is under way", || world.exists("photos/.deltic"));
    server.signal(Signal::TERM);
    assert!(push.wait().unwrap().success());
    assert!(server.child.wait().unwrap().success());
    world.assert_same("src", "photos");

    world.write("src/a", noise(20_000_000, 6));
    let old = world.read("photos/a");
    let server = Server::start(&world, "");
    let words = format!("sync -a --bwlimit 4M src/ {}/photos/", server.url);
    let mut command = Command::new(DELTIC);
    command.args(words.split_whitespace()).stderr(Stdio::null());
    world.place(&mut command);
    let mut push = command.spawn().unwrap();
    wait_until("the push is under way", || world.exists("photos/.deltic"));
    server.signal(Signal::KILL);
    assert!(!push.wait().unwrap().success());
    assert_eq!(world.read("photos/a"), old);
    drop(server);
    let server = Server::start(&world, "");
    server.ok("sync -a src/ URL/photos/");
    world.assert_same("src", "photos");
    world.assert_clean("photos");
}
