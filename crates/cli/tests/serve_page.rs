//! The page for browsers, as a real server sends it, and the sessions that keep the page signed in.

use std::io::{Read, Write};

use crate::common::http::{Answer, ask, ask_as};
use crate::common::server::Server;
use crate::common::{World, skip, wait_until};
use serde_json::Value;

/// Answer to a request without a token.
fn get(server: &Server<'_>, path: &str, more: &str) -> Answer {
    send(server, &format!("GET {path}"), more)
}

fn send(server: &Server<'_>, what: &str, more: &str) -> Answer {
    let mut stream = server.connect();
    let head = format!("{what} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{more}\r\n");
    stream.write_all(head.as_bytes()).expect("it listens");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("it answers");
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
    let head = String::from_utf8_lossy(&answer[..end]).into_owned();
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
    Answer { status, head, body: answer[end + 4..].to_vec() }
}

fn text(answer: &Answer) -> String {
    String::from_utf8_lossy(&answer.body).into_owned()
}

/// Addresses of scripts and styles that the document names; none in a build without the page.
fn assets(document: &str) -> Vec<String> {
    let parts = document.split('"').filter_map(|part| part.strip_prefix("./"));
    parts.filter(|part| part.starts_with("assets/")).map(|part| format!("/{part}")).collect()
}

#[test]
fn every_address_outside_of_the_interface_has_the_page_and_the_way_to_its_root() {
    let world = World::new();
    world.write("photos/a", "secret");
    let server = Server::start(&world, "");
    let root = get(&server, "/", "");
    let plain = text(&root).replace("<base href=\"./\">", "");
    for (path, base) in [
        ("/", "./"),
        ("/photos/", "../"),
        ("/photos/2026/june/", "../../../"),
        ("/-/photos/", "../../"),
        ("/none?x=1", "./"),
        // Names of the volume and of the server's disk are not looked up.
        ("/photos/a", "../"),
        ("/../../../../etc/passwd", "../../../../../"),
        ("/assets/../../Cargo.toml", "../../../"),
        ("/assets/%2e%2e/%2e%2e/Cargo.toml", "../../../"),
        ("/index.html", "./"),
    ] {
        let answer = get(&server, path, "");
        assert_eq!(answer.status, 200, "{path}");
        assert_eq!(answer.header("content-type"), Some("text/html; charset=utf-8"), "{path}");
        let own = format!("<base href=\"{base}\">");
        assert!(text(&answer).contains(&own), "{path}: {}", text(&answer));
        assert_eq!(text(&answer).replace(&own, ""), plain, "{path}");
    }
    for path in
        ["/v1", "/v1/", "/v1/none", "/healthz/x", "/metrics", "/.well-known/x", "//evil.example/x"]
    {
        let answer = get(&server, path, "");
        assert_eq!(answer.status, 404, "{path}");
        assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{path}");
    }
    for method in ["POST", "PUT", "DELETE", "PATCH"] {
        let answer = send(&server, &format!("{method} /photos/a"), "Content-Length: 0\r\n");
        assert_eq!((answer.status, answer.header("allow")), (405, Some("GET, HEAD")), "{method}");
    }
    let head = send(&server, "HEAD /photos/", "");
    assert!(head.status == 200 && head.body.is_empty(), "{head:?}");
    assert_eq!(get(&server, "/", "Origin: http://evil.example\r\n").status, 403);
    assert_eq!(get(&server, "/", "Host: evil.example\r\n").status, 400);
}

#[test]
fn the_page_comes_with_its_policy_and_with_tags() {
    let world = World::new();
    let server = Server::start(&world, "");
    let document = get(&server, "/photos/", "");
    let assets = assets(&text(&document));
    for path in ["/photos/"].into_iter().chain(assets.iter().map(String::as_str)) {
        let answer = get(&server, path, "");
        let policy = answer.header("content-security-policy").expect("it has one");
        for part in [
            "default-src 'none'",
            "script-src 'self' 'wasm-unsafe-eval';",
            "connect-src 'self';",
            "worker-src 'self'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
        ] {
            assert!(policy.contains(part), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe-inline") && !policy.contains('*'), "{policy}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(answer.header("referrer-policy"), Some("no-referrer"), "{path}");
        let is_asset = path.starts_with("/assets/");
        let caching = answer.header("cache-control").expect("it has one");
        assert_eq!(caching.contains("immutable"), is_asset, "{path}: {caching}");
        assert_eq!(caching == "no-cache", !is_asset, "{path}: {caching}");
        let again = get(&server, path, &format!("If-None-Match: {}\r\n", answer.tag()));
        assert_eq!((again.status, again.body.len()), (304, 0), "{path}");
        assert_eq!(again.header("content-security-policy"), Some(policy), "{path}");
        assert_eq!(get(&server, path, "If-None-Match: \"x\"\r\n").status, 200, "{path}");
    }
    if assets.is_empty() {
        assert!(text(&document).contains("make page"), "{document:?}");
        return skip("the program was built without web/dist");
    }
    for path in assets {
        let plain = get(&server, &path, "");
        let kind = if path.ends_with(".js") { "text/javascript" } else { "text/css" };
        assert_eq!(plain.header("content-type"), Some(kind), "{path}");
        assert_eq!(plain.header("content-encoding"), None, "{path}");
        let brotli = get(&server, &path, "Accept-Encoding: gzip, br\r\n");
        assert_eq!(brotli.header("content-encoding"), Some("br"), "{path}");
        assert_eq!(brotli.header("vary"), Some("Accept-Encoding"), "{path}");
        assert_eq!(brotli.header("content-type"), Some(kind), "{path}");
        assert!(brotli.body.len() * 2 < plain.body.len(), "{path}");
        assert_ne!(brotli.tag(), plain.tag(), "{path}");
    }
}

fn session(server: &Server<'_>, token: &str) -> (u16, Value) {
    let answer = ask_as(server, token, ("POST /v1/session", ""), b"");
    (answer.status, serde_json::from_slice(&answer.body).unwrap_or_default())
}

#[test]
fn the_printed_token_is_traded_for_one_that_outlives_the_server() {
    let world = World::new();
    world.write("photos/a", "a");
    let server = Server::set(&world, &format!("audit = {:?}\n", world.path("audit")));
    let printed = server.token().to_owned();
    let (status, made) = session(&server, &printed);
    assert_eq!(status, 201, "{made}");
    let lasting = made["token"].as_str().expect("it is shown once").to_owned();
    let (status, kept) = session(&server, &lasting);
    assert!(
        status == 200 && kept["expires"] == made["expires"] && kept["token"].is_null(),
        "{kept}"
    );
    // A token of the operator lasts as the operator decided.
    let own = server.add_token("--expires 1d tv");
    let before = session(&server, &own);
    assert!(before.0 == 200 && before.1["token"].is_null(), "{before:?}");
    drop(server);
    let server = Server::of(&world, "serve --config deltic.toml --listen 127.0.0.1:0".into());
    let read =
        |token: &str| ask_as(&server, token, ("GET /v1/volumes/photos/files/a", ""), b"").status;
    assert_eq!([&printed, &lasting].map(|token| read(token)), [401, 200]);
    assert_eq!(session(&server, &printed).0, 401);
    let listed = server.ok("token list --state state").stdout;
    assert!(listed.contains("page"), "{listed}");
    let stored = String::from_utf8(world.read("state/tokens.json")).expect("it is text");
    assert!(!stored.contains(&lasting), "only the hash is stored");
    // Signing out revokes the token; other tokens are not of sessions.
    let leave = |token: &str| ask_as(&server, token, ("DELETE /v1/session", ""), b"").status;
    assert_eq!([server.token(), &own].map(leave), [404, 404]);
    assert_eq!(leave(&lasting), 204);
    assert_eq!((read(&lasting), session(&server, &lasting).0), (401, 401));
    let (_, again) = session(&server, server.token());
    let again = again["token"].as_str().expect("another one");
    assert_eq!(read(again), 200);
    server.ok("token revoke page --state state");
    assert_eq!(read(again), 401);
    for event in ["token_made", "token_revoked"] {
        let is_its = |line: &str| line.contains(event) && line.contains(r#""name":"page""#);
        let audit = || String::from_utf8(world.read("audit")).expect("it is text");
        wait_until(event, || audit().lines().any(is_its));
    }
    assert_eq!(ask(&server, "GET /v1/session", "", b"").status, 405);
}

#[test]
fn a_session_has_no_more_rights_than_the_server_grants() {
    let world = World::new();
    world.write("photos/a", "a");
    let server = Server::start(&world, "--ro");
    let (_, made) = session(&server, server.token());
    let token = made["token"].as_str().expect("it is shown once");
    let put = ("PUT /v1/volumes/photos/files/a", "If-Match: *\r\n");
    assert_eq!(ask_as(&server, token, put, b"b").status, 403);
    assert_eq!(world.read("photos/a"), b"a");
}
