//! Many small files sent or read by one request, by the real server.

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
fn a_file_replaces_only_the_version_that_its_line_names() {
    let world = World::new();
    let server = Server::start(&world, "--versions 10");
    let paths: Vec<_> = (0..20).map(|nth| format!("{nth}")).collect();
    let old: Vec<(&str, &[u8])> = paths.iter().map(|path| (&**path, &b"old"[..])).collect();
    let answer = ask_as(&server, server.token(), (FILES, ""), &body(&old));
    let told: Value = serde_json::from_slice(&answer.body).expect("the answer is JSON");
    let tag = |nth: usize| told["files"][nth]["etag"].as_str().expect("each file has a tag");
    // Another client has replaced this file.
    world.write("photos/7", "theirs");
    let line = |path: &str, tag: &str| {
        let line = serde_json::json!({ "path": path, "bytes": 3, "replaces": tag });
        format!("{line}\nnew")
    };
    let mut lines: Vec<_> =
        paths.iter().enumerate().map(|(nth, path)| line(path, tag(nth))).collect();
    lines.extend([line("missing", tag(0)), line("0", "\n"), line("../0", tag(0))]);
    lines.extend(["*", "", "x", "\"x\", *", "\"x\", \"y\""].map(|tag| line("1", tag)));
    let new = [lines.concat().into_bytes(), body(&[("beside", b"x")])].concat();
    let answer = ask_as(&server, server.token(), (FILES, ""), &new);
    let mut expected = [200; 20];
    expected[7] = 412;
    assert_eq!(statuses(&answer), [&expected[..], &[412, 400, 400], &[400; 5], &[201]].concat());
    let told: Value = serde_json::from_slice(&answer.body).expect("the answer is JSON");
    for (nth, path) in paths.iter().enumerate() {
        let content = world.read(format!("photos/{path}"));
        assert_eq!(content, if nth == 7 { &b"theirs"[..] } else { b"new" }, "{path}");
    }
    // The answer has the tag of the new version, and the old version stays.
    let file = "/v1/volumes/photos/files/0";
    let now = told["files"][0]["etag"].as_str().expect("each file has a tag");
    let same = ask_as(
        &server,
        server.token(),
        (&format!("HEAD {file}"), &format!("If-None-Match: {now}\r\n")),
        b"",
    );
    assert_eq!(same.status, 304);
    let versions = ask_as(&server, server.token(), (&format!("GET {file}?as=versions"), ""), b"");
    let versions: Value = serde_json::from_slice(&versions.body).expect("the answer is JSON");
    assert_eq!(versions["versions"].as_array().map(Vec::len), Some(1));
    // A token for a part cannot replace a file beside.
    let part = server.add_token("--volume photos --path part part").trim().to_owned();
    let foreign = line("1", told["files"][1]["etag"].as_str().expect("each file has a tag"));
    assert_eq!(statuses(&ask_as(&server, &part, (FILES, ""), foreign.as_bytes())), [404]);
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

const CONTENTS: &str = "POST /v1/volumes/photos/contents";

/// Returns a body that asks for these files, each up to a length.
fn wanted(files: &[(&str, usize)]) -> Vec<u8> {
    let line = |(path, bytes): &(&str, usize)| {
        format!("{}\n", serde_json::json!({ "path": path, "bytes": bytes }))
    };
    files.iter().map(line).collect::<String>().into_bytes()
}

/// Returns the status and the content of each file of an answer.
#[track_caller]
fn sent(answer: &Answer) -> Vec<(u64, Vec<u8>)> {
    assert_eq!(answer.status, 200, "{answer:?}");
    let (mut files, mut rest) = (Vec::new(), &answer.body[..]);
    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
        let line: Value = serde_json::from_slice(&rest[..end]).expect("a line is JSON");
        let number = |of: &str| line[of].as_u64().expect("each line has numbers");
        let (status, bytes) = (number("status"), number("bytes"));
        assert_eq!(status == 200, line["etag"].is_string(), "{line}");
        let (content, more) = rest[end + 1..].split_at(bytes as usize);
        files.push((status, content.to_vec()));
        rest = more;
    }
    assert!(rest.is_empty(), "{rest:?}");
    files
}

#[test]
fn each_file_of_a_request_is_sent_or_refused_by_itself() {
    let world = World::new();
    let long = vec![b'x'; (256 << 10) + 1];
    world.write("photos/a", "one\n{\"path\"");
    world.write("photos/dir/empty", "");
    world.write("photos/most", &long[1..]);
    world.write("photos/long", &long);
    world.write("outside", "x");
    world.link("../outside", "photos/link");
    let server = Server::start(&world, "");
    let files = [
        ("a", 11),
        ("a", 10),
        ("none", 9),
        ("dir", 9),
        ("dir/empty", 0),
        ("most", usize::MAX),
        ("long", usize::MAX),
        ("../outside", 9),
        ("/etc/passwd", 9999),
        ("link", 9),
        (".deltic/own", 9),
        ("", 9),
        ("a", 100),
    ];
    let answer = ask_as(&server, server.token(), (CONTENTS, ""), &wanted(&files));
    let sent = sent(&answer);
    let statuses: Vec<_> = sent.iter().map(|(status, _)| *status).collect();
    let first = &[200, 413, 404, 409, 200, 200, 413, 400, 400];
    assert_eq!(statuses[..9], *first);
    assert!(statuses[9..12].iter().all(|status| *status >= 400), "{statuses:?}");
    assert_eq!(sent[12], (200, world.read("photos/a")));
    assert_eq!((&sent[0].1, &sent[5].1.len()), (&world.read("photos/a"), &(256 << 10)));
    // The tag is that of the file.
    let line: Value =
        serde_json::from_slice(answer.body.split(|byte| *byte == b'\n').next().unwrap()).unwrap();
    let file = ask_as(&server, server.token(), ("HEAD /v1/volumes/photos/files/a", ""), b"");
    assert_eq!(line["etag"].as_str(), Some(file.tag()));
}

#[test]
fn contents_of_many_files_keep_to_rights_and_bounds() {
    let world = World::new();
    let paths: Vec<_> = (0..1_000).map(|nth| format!("part/{nth}")).collect();
    paths.iter().for_each(|path| world.write(format!("photos/{path}"), path));
    world.write("photos/beside", "x");
    let server = Server::start(&world, "");
    let token = |options: &str| server.add_token(options).trim().to_owned();
    let all: Vec<_> = paths.iter().map(|path| (&**path, 9)).collect();
    let answer = ask_as(&server, server.token(), (CONTENTS, ""), &wanted(&all));
    let expected: Vec<_> = paths.iter().map(|path| (200, path.clone().into_bytes())).collect();
    assert_eq!(sent(&answer), expected);
    let more = [&all[..], &[("part/0", 9)]].concat();
    assert_eq!(ask_as(&server, server.token(), (CONTENTS, ""), &wanted(&more)).status, 400);
    let huge = vec![b'x'; (1 << 20) + 1];
    assert_eq!(ask_as(&server, server.token(), (CONTENTS, ""), &huge).status, 413);
    let two = wanted(&[("part/0", 9), ("beside", 9)]);
    assert_eq!(ask_as(&server, &token("--wo writer"), (CONTENTS, ""), &two).status, 403);
    assert_eq!(ask_as(&server, "dlt_AAAA", (CONTENTS, ""), &two).status, 401);
    let part = token("--volume photos --path part part");
    let sent = sent(&ask_as(&server, &part, (CONTENTS, ""), &two));
    assert_eq!(sent, [(200, b"part/0".to_vec()), (404, Vec::new())]);
}
