//! Many small files by one request, by the real server.

use crate::common::World;
use crate::common::http::{Answer, ask_as};
use crate::common::server::Server;
use serde_json::Value;

const FILES: &str = "POST /v1/volumes/photos/files";

/// Returns a body with these files.
fn body(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (path, content) in files {
        let line = serde_json::json!({ "path": path, "bytes": content.len() });
        body.extend_from_slice(format!("{line}\n").as_bytes());
        body.extend_from_slice(content);
    }
    body
}

/// Returns the status of each file.
#[track_caller]
fn statuses(answer: &Answer) -> Vec<u64> {
    assert_eq!(answer.status, 200, "{answer:?}");
    let told: Value = serde_json::from_slice(&answer.body).expect("the answer is JSON");
    let files = told["files"].as_array().expect("the answer has files");
    let status = |file: &Value| file["status"].as_u64().expect("each file has a status");
    files.iter().map(status).collect()
}

#[test]
fn each_file_of_a_request_is_created_or_refused_by_itself() {
    let world = World::new();
    world.write("photos/same", "same");
    world.write("photos/other", "theirs");
    world.write("photos/dir/inner", "x");
    let server = Server::start(&world, "");
    let files: [(&str, &[u8]); 10] = [
        ("new/deep/one", b"one\n{\"path\""),
        ("same", b"same"),
        ("other", b"mine"),
        ("dir", b"a file"),
        ("same/below", b"x"),
        ("../outside", b"x"),
        (".deltic/own", b"x"),
        ("empty", b""),
        ("twice", b"first"),
        ("twice", b"second"),
    ];
    let answer = ask_as(&server, server.token(), (FILES, ""), &body(&files));
    assert_eq!(statuses(&answer), [201, 200, 412, 409, 409, 400, 400, 201, 201, 412]);
    for (path, content) in
        [("new/deep/one", files[0].1), ("other", b"theirs"), ("empty", b""), ("twice", b"first")]
    {
        assert_eq!(world.read(format!("photos/{path}")), content, "{path}");
    }
    assert!(!world.exists("outside"));
    assert_eq!(world.names("photos").len(), 6);
}

#[test]
fn a_request_that_is_cut_creates_nothing() {
    let world = World::new();
    world.write("photos/a", "a");
    let server = Server::start(&world, "");
    let mut cut = body(&[("one", b"one"), ("two", b"two")]);
    cut.pop();
    assert_eq!(ask_as(&server, server.token(), (FILES, ""), &cut).status, 400);
    let many: Vec<(&str, &[u8])> = vec![("x", b""); 1_001];
    assert_eq!(ask_as(&server, server.token(), (FILES, ""), &body(&many)).status, 400);
    assert_eq!(
        ask_as(&server, server.token(), (FILES, ""), &vec![b'x'; (8 << 20) + 1]).status,
        413
    );
    assert_eq!(world.names("photos"), ["a"]);
}

#[test]
fn rights_hold_for_each_file() {
    let world = World::new();
    world.write("photos/part/same", "same");
    let server = Server::start(&world, "");
    let token = |options: &str| server.add_token(options).trim().to_owned();
    let files = body(&[("part/new", b"new"), ("part/same", b"same"), ("beside", b"x")]);
    let reader = token("--ro reader");
    assert_eq!(ask_as(&server, &reader, (FILES, ""), &files).status, 403);
    assert_eq!(ask_as(&server, "dlt_AAAA", (FILES, ""), &files).status, 401);
    let part = token("--volume photos --path part part");
    assert_eq!(statuses(&ask_as(&server, &part, (FILES, ""), &files)), [201, 200, 404]);
    // A token without the right to read does not learn that the contents are equal.
    let writer = token("--wo writer");
    assert_eq!(statuses(&ask_as(&server, &writer, (FILES, ""), &files)), [412, 412, 201]);
    assert!(world.exists("photos/beside") && world.exists("photos/part/new"));
}

#[test]
fn one_request_makes_a_bounded_number_of_directories() {
    let world = World::new();
    world.mkdir("photos");
    let server = Server::start(&world, "");
    let deep = |nth: usize| format!("{nth}/{}f", "d/".repeat(199));
    let paths: Vec<_> = (0..12).map(deep).collect();
    let files: Vec<(&str, &[u8])> = paths.iter().map(|path| (&**path, &b""[..])).collect();
    let answer = ask_as(&server, server.token(), (FILES, ""), &body(&files));
    assert_eq!(statuses(&answer), [[201; 10].as_slice(), &[413; 2]].concat());
}
