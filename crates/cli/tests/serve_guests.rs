//! What the holder of a token for guests may not do by plain HTTP.

use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::thread;

use crate::common::http::{Answer, ask, ask_as};
use crate::common::server::Server;
use crate::common::{World, wait_until};
use serde_json::{Value, json};

const FILES: &str = "/v1/volumes/photos/files";
const FAST: &str = "[limits]\nrequests_per_second = 10000\nrequest_burst = 10000\n";

/// Asks for a token with these fields.
fn mint(server: &Server<'_>, token: &str, wanted: Value) -> (u16, Value) {
    let made = ask_as(server, token, ("POST /v1/tokens", ""), wanted.to_string().as_bytes());
    (made.status, serde_json::from_slice(&made.body).unwrap_or_default())
}

fn json_of(answer: &Answer) -> Value {
    serde_json::from_slice(&answer.body).expect("it is JSON")
}

#[test]
fn a_download_ends_with_its_token() {
    let world = World::new();
    world.write("photos/dir/long", b"");
    let long = std::fs::File::options().write(true).open(world.path("photos/dir/long")).unwrap();
    long.set_len(1 << 30).unwrap();
    let server = Server::start(&world, "");
    for what in [format!("{FILES}/dir/long"), format!("{FILES}/dir?as=zip")] {
        let guest = server.add_token("guest");
        let mut download = server.connect();
        let head = format!(
            "GET {what} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {guest}\r\n\r\n"
        );
        download.write_all(head.as_bytes()).unwrap();
        let mut some = [0; 1000];
        download.read_exact(&mut some).unwrap();
        assert!(some.starts_with(b"HTTP/1.1 200"));
        server.ok("token revoke --state state guest");
        let mut got = 0;
        let mut piece = vec![0; 1 << 20];
        while let Ok(some @ 1..) = download.read(&mut piece) {
            got += some;
        }
        assert!(got < 1 << 29, "{what}: {got} bytes came after the token was revoked");
    }
}

#[test]
fn an_expired_link_is_listed_and_revoked_and_names_no_volume_that_is_not_there() {
    let world = World::new();
    let server = Server::start(&world, "");
    let (status, made) = mint(&server, server.token(), json!({ "name": "link", "expires_in": 0 }));
    assert_eq!(status, 201);
    let listed = ask(&server, "GET /v1/tokens", "", b"");
    assert_eq!(json_of(&listed)["tokens"][0]["id"], made["id"]);
    let revoke = format!("DELETE /v1/tokens/{}", made["id"].as_str().unwrap());
    assert_eq!(ask(&server, &revoke, "", b"").status, 204);
    assert_eq!(ask(&server, &revoke, "", b"").status, 404);
    let of = |volumes: Value| {
        mint(&server, server.token(), json!({ "name": "link", "volumes": volumes }))
    };
    assert_eq!(of(json!([""])).0, 404);
    assert_eq!(of(json!(["photos", "\u{1b}]0;x\u{7}"])).0, 404);
    assert_eq!(of(json!(["photos", "photos"])).1["volumes"], json!(["photos"]));
    for name in ["a\u{202e}b", "a\nb", ""] {
        assert_eq!(mint(&server, server.token(), json!({ "name": name })).0, 400, "{name:?}");
    }
}

#[test]
fn tickets_of_all_tokens_of_a_chain_count_together() {
    let world = World::new();
    world.write("photos/a", "text");
    let server = Server::set(&world, FAST);
    let guest = server.add_token("guest");
    let (_, more) = mint(&server, &guest, json!({ "name": "more" }));
    let ticket = |token: &str| {
        let file = br#"{"volume": "photos", "path": "a", "preview": true}"#;
        ask_as(&server, token, ("POST /v1/tickets", ""), file).status
    };
    assert!((0..200).all(|_| ticket(&guest) == 201));
    assert_eq!(ticket(more["token"].as_str().unwrap()), 503);
    assert_eq!(ticket(server.token()), 201);
}

#[test]
fn a_moved_file_is_not_replaced_by_an_upload_to_its_new_name() {
    let world = World::new();
    world.mkdir("photos");
    let server = Server::set(&world, FAST);
    for turn in 0..400 {
        world.write("photos/from", "the only copy");
        let to = format!("to{turn}");
        let (moved, put) = thread::scope(|scope| {
            let moved = scope.spawn(|| {
                ask(&server, &format!("POST {FILES}/from?as=move&to={to}"), "", b"").status
            });
            let put = ask(&server, &format!("PUT {FILES}/{to}"), "If-None-Match: *\r\n", b"new");
            (moved.join().unwrap(), put.status)
        });
        assert!(moved != put || moved != 201, "both succeeded in turn {turn}");
        let kept = if moved == 201 { to } else { "from".into() };
        assert_eq!(world.read(format!("photos/{kept}")), b"the only copy");
    }
}

#[test]
fn a_move_needs_the_right_to_read_and_takes_no_state_directory_with_it() {
    let world = World::new();
    world.write("photos/private/a", "secret");
    world.mkdir("photos/home");
    let server = Server::of(
        &world,
        "serve photos --state photos/home/.deltic-serve --listen 127.0.0.1:0".into(),
    );
    let (_, guest) = mint(
        &server,
        server.token(),
        json!({ "name": "box", "read": false, "write": true, "delete": true }),
    );
    let guest = guest["token"].as_str().unwrap();
    let moved = |token: &str, from: &str, to: &str, more: &str| {
        let what = format!("POST {FILES}/{from}?as=move&to={to}");
        ask_as(&server, token, (&what, more), b"").status
    };
    assert_eq!(moved(guest, "private/a", "shared/a", ""), 403);
    assert_eq!(moved(server.token(), "home", "away", ""), 409);
    assert!(world.exists("photos/home/.deltic-serve/tokens.json"));
    // A directory has no version, so no list of versions names it.
    for none in ["\"x\",", "", "W/"] {
        let condition = format!("If-Match: {none}\r\n");
        assert_eq!(moved(server.token(), "private", "public", &condition), 412, "{none}");
    }
    assert_eq!(moved(server.token(), "private", "public", "If-Match: *\r\n"), 201);
}

#[test]
fn names_in_an_archive_have_no_separators_of_other_systems() {
    let world = World::new();
    world.write("photos/dir/..\\..\\run.bat", "x");
    world.write("photos/dir/C:y", "x");
    let server = Server::start(&world, "");
    let zip = ask(&server, &format!("GET {FILES}/dir?as=zip"), "", b"").body;
    let has = |wanted: &[u8]| zip.windows(wanted.len()).any(|part| part == wanted);
    assert!(has(b"dir/..%5C..%5Crun.bat") && has(b"dir/C%3Ay"));
    assert!(!has(b"\\") && !has(b"C:"));
}

#[test]
fn the_audit_log_has_moves_with_both_names_and_nothing_of_made_up_tokens() {
    let world = World::new();
    world.write("photos/a", "text");
    let settings = format!("audit = \"{}\"\n", world.path("audit.jsonl").display());
    let server = Server::set(&world, &settings);
    let made_up = server.token().replace(&server.token()[8..20], "AAAAAAAAAAAA");
    let path = "b".repeat(10_000);
    for _ in 0..3 {
        let refused = ask_as(&server, &made_up, (&format!("PUT {FILES}/{path}"), ""), b"");
        assert_eq!(refused.status, 401);
    }
    // The path is too long for a file.
    assert_eq!(ask(&server, &format!("DELETE {FILES}/{path}"), "", b"").status, 400);
    let more = "Upload-Complete: ?0\r\nUpload-Length: 9\r\n";
    let begun = ask(&server, &format!("PUT {FILES}/c"), more, b"");
    let place = begun.header("location").unwrap();
    assert_eq!(ask(&server, &format!("DELETE {place}"), "", b"").status, 204);
    assert_eq!(ask(&server, &format!("POST {FILES}/a?as=move&to=b"), "", b"").status, 201);
    let log = || String::from_utf8(world.read("audit.jsonl")).unwrap();
    wait_until("the move is in the log", || log().contains("\"to\":\"b\""));
    let log = log();
    assert!(log.contains("\"as\":\"move\""), "{log}");
    let told = log.lines().filter(|line| line.contains(&path[..100])).count();
    assert_eq!(told, 1, "{log}");
    assert!(log.lines().all(|line| line.len() < 5_000), "{log}");
    assert!(!log.contains(place.rsplit('/').next().unwrap()), "{log}");
}

#[test]
fn a_guest_learns_no_usage_of_the_volume_and_no_time_of_a_file_that_it_may_not_read() {
    let world = World::new();
    world.write("photos/dir/a", "text");
    let server = Server::set_volume(&world, "quota_bytes = 100000", FAST);
    let bytes = |token: &str| {
        let shown = json_of(&ask_as(&server, token, ("GET /v1/volumes", ""), b""));
        shown["volumes"][0]["bytes"].clone()
    };
    assert_eq!(bytes(server.token())["used"], 4);
    let token = |wanted: Value| {
        let (status, made) = mint(&server, server.token(), wanted);
        assert_eq!(status, 201);
        made["token"].as_str().unwrap().to_owned()
    };
    assert_eq!(bytes(&token(json!({ "name": "part", "path": "dir" }))), Value::Null);
    let drop_box = token(json!({ "name": "drop", "read": false, "write": true }));
    assert_eq!(bytes(&drop_box), Value::Null);
    let since = "If-Unmodified-Since: Sun, 06 Nov 1994 08:49:36 GMT\r\n";
    let put = |more: &str| {
        ask_as(&server, &drop_box, (&format!("PUT {FILES}/dir/a"), more), b"new").status
    };
    assert_eq!(put(since), 403);
    assert_eq!(put(&format!("{since}Upload-Complete: ?0\r\nUpload-Length: 3\r\n")), 403);
    assert_eq!(put(""), 204);
}

#[test]
fn a_printed_name_that_is_not_the_name_is_marked() {
    let world = World::new();
    let odd = std::ffi::OsStr::from_bytes(b"\x80");
    std::fs::create_dir_all(world.path("photos")).unwrap();
    std::fs::write(world.path("photos").join(odd), "odd").unwrap();
    world.write("photos/\\x80", "plain");
    let server = Server::start(&world, "");
    let listed = json_of(&ask(&server, "GET /v1/volumes/photos/tree/", "", b""));
    let exact: Vec<_> =
        listed["entries"].as_array().unwrap().iter().map(|it| &it["exact"]).collect();
    assert_eq!(exact, [&Value::Null, &json!(false)], "{listed}");
}

#[test]
fn a_download_goes_on_while_the_file_is_replaced() {
    const LEN: usize = 64 << 20;
    let world = World::new();
    for settings in ["", "versions = 3"] {
        world.write("photos/dir/a", vec![7; LEN]);
        let server = Server::set_volume(&world, settings, "");
        let mut download = server.connect();
        let head = format!(
            "GET {FILES}/dir/a HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {}\r\n\r\n",
            server.token()
        );
        download.write_all(head.as_bytes()).unwrap();
        let mut got = vec![0; 1000];
        download.read_exact(&mut got).unwrap();
        assert_eq!(ask(&server, &format!("PUT {FILES}/dir/a"), "", b"new").status, 204);
        download.read_to_end(&mut got).unwrap();
        let body = got.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
        assert!(got.len() - body == LEN && got[body..].iter().all(|byte| *byte == 7), "{settings}");
        assert_eq!(world.read("photos/dir/a"), b"new");
    }
}

#[test]
fn a_damaged_token_file_tells_a_client_no_path_of_the_server() {
    let world = World::new();
    let server = Server::start(&world, "");
    world.write("state/tokens.json", "{");
    let (status, refused) = mint(&server, server.token(), json!({ "name": "link" }));
    let why = refused["detail"].as_str().unwrap();
    assert!(status == 500 && why.contains("damaged") && !why.contains('/'), "{why}");
}
