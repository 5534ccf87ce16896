//! Plain HTTP: deltas and versions, by the real server.

use crate::common::http::{Answer, ask};
use crate::common::server::Server;
use crate::common::{Mounted, World, edited, noise, skip};

#[track_caller]
fn assert_nothing_staged(world: &World) {
    assert_eq!(world.names("photos"), ["a"]);
}

const FILE: &str = "/v1/volumes/photos/files/a";

fn signature(server: &Server<'_>) -> Answer {
    let answer = ask(server, &format!("GET {FILE}?as=signature"), "", b"");
    assert_eq!(answer.status, 200, "{answer:?}");
    answer
}

fn patch(server: &Server<'_>, tag: &str, delta: &[u8]) -> Answer {
    ask(server, &format!("POST {FILE}?as=patch"), &format!("If-Match: {tag}\r\n"), delta)
}

#[test]
fn a_change_goes_by_a_signature_and_a_patch_and_comes_by_a_delta() {
    let world = World::new();
    for (nth, len) in [0, 1, 3_000_000].into_iter().enumerate() {
        let old = noise(len, nth as u64);
        world.write("photos/a", &old);
        world.write("new", edited(&[old, b"more".to_vec()].concat(), len / 2));
        let server = Server::start(&world, "");
        let signed = signature(&server);
        world.write("signature", &signed.body);
        server.ok("delta signature new -o delta");
        let delta = world.read("delta");
        assert!(delta.len() < 100_000);
        // Our signature is the command's own.
        server.ok("signature photos/a -o again");
        assert_eq!(world.read("again"), signed.body);
        // What it has of the new version, by that one's signature, makes a delta as well.
        server.ok("signature new -o wanted");
        let ask_match = format!("POST {FILE}?as=match");
        let matched = ask(&server, &ask_match, "", &world.read("wanted"));
        assert_eq!((matched.status, matched.tag()), (200, signed.tag()));
        assert!(matched.body.len() < 200, "{}", matched.body.len());
        world.write("matches", &matched.body);
        server.ok("delta matches new -o by-match");
        assert!(world.read("by-match").len() < 100_000);
        server.ok("patch photos/a by-match -o made");
        assert_eq!(world.read("made"), world.read("new"));
        world.write("other", edited(&world.read("new"), len / 3));
        server.fails(12, "delta matches other -o none", "not the one whose signature was matched");
        assert!(!world.exists("none"));
        server.ok("signature photos/a -o old");
        std::fs::copy(world.path("photos/a"), world.path("before")).unwrap();
        let answer = patch(&server, signed.tag(), &delta);
        assert_eq!(answer.status, 204, "{answer:?}");
        assert_eq!(world.read("photos/a"), world.read("new"));
        assert_eq!(signature(&server).tag(), answer.tag());
        let ask_delta = format!("POST {FILE}?as=delta");
        let fetched = ask(&server, &ask_delta, "", &world.read("old"));
        assert_eq!((fetched.status, fetched.tag()), (200, answer.tag()));
        assert_eq!(fetched.body, delta);
        world.write("delta", &fetched.body);
        server.ok("patch before delta -o made");
        assert_eq!(world.read("made"), world.read("new"));
        assert_nothing_staged(&world);
    }
}

#[test]
fn a_patch_that_does_not_fit_changes_nothing() {
    let world = World::new();
    let old = noise(500_000, 1);
    world.write("photos/a", &old);
    world.write("new", edited(&old, 1000));
    let server = Server::start(&world, "");
    let signed = signature(&server);
    world.write("signature", &signed.body);
    server.ok("delta signature new -o delta");
    let delta = world.read("delta");
    let status = |tag: &str, delta: &[u8]| patch(&server, tag, delta).status;
    let post = format!("POST {FILE}?as=patch");
    assert_eq!(ask(&server, &post, "", &delta).status, 428);
    assert_eq!(status("\"x\"", &delta), 412);
    assert_eq!(status("*", b""), 400);
    assert_eq!(status("*", &delta[..delta.len() - 1]), 400);
    assert_eq!(status("*", &[&delta[..], b"x"].concat()), 400);
    assert_eq!(status("*", &signed.body), 400);
    // A digest that the steps do not make.
    let mut bad = delta.clone();
    *bad.last_mut().unwrap() ^= 1;
    assert_eq!(status("*", &bad), 400);
    let huge = "Content-Length: 99999999999\r\nIf-Match: *\r\n";
    assert_eq!(server.status("POST", &format!("{FILE}?as=patch"), huge), 413);
    let huge = "Content-Length: 9223372036854775808\r\nIf-Match: *\r\n";
    assert!((400..500).contains(&server.status("POST", &format!("{FILE}?as=patch"), huge)));
    // Copies of a little that make too much.
    let bomb = bomb(&delta, 1000);
    assert!(bomb.len() < 20_000);
    assert_eq!(status("*", &bomb), 413);
    for form in ["x", "signature", "", "..%2f"] {
        assert_eq!(ask(&server, &format!("POST {FILE}?as={form}"), "", b"").status, 400);
        let get = ask(&server, &format!("GET {FILE}?as={form}"), "", b"").status;
        assert_eq!(get, if form == "signature" { 200 } else { 400 });
    }
    for (path, status) in [("none", 404), ("../a", 400), (".deltic/x", 400)] {
        let path = format!("/v1/volumes/photos/files/{path}?as=");
        assert_eq!(ask(&server, &format!("GET {path}signature"), "", b"").status, status);
        assert_eq!(ask(&server, &format!("POST {path}delta"), "", &signed.body).status, status);
        let patched = ask(&server, &format!("POST {path}patch"), "If-Match: *\r\n", &delta);
        assert_eq!(patched.status, if status == 404 { 412 } else { status });
    }
    assert_eq!(world.read("photos/a"), old);
    // The same length, other content.
    world.write("photos/a", noise(500_000, 2));
    assert_eq!(status(signed.tag(), &delta), 412);
    assert_eq!(status("*", &delta), 412);
    world.write("photos/a", &old[1..]);
    assert_eq!(status("*", &delta), 412);
    assert_nothing_staged(&world);
    world.write("photos/a", &old);
    assert_eq!(status("*", &delta), 204);
    assert_eq!(world.read("photos/a"), world.read("new"));
}

#[test]
fn a_file_moves_to_where_nothing_is_and_nowhere_else() {
    let world = World::new();
    world.write("photos/a", "here");
    world.write("photos/b", "there");
    let server = Server::start(&world, "");
    let go = |to: &str, more: &str| {
        ask(&server, &format!("POST {FILE}?as=move&to={to}"), more, b"").status
    };
    assert_eq!(go("b", ""), 409);
    assert_eq!(go("c", "If-Match: \"x\"\r\n"), 412);
    let others = ["", "..%2fout", "../out", "/x/../../y", "a%00b"];
    for bad in [".deltic/x", ".DELTIC/x", ".deltic-versions/x", ".Deltic-Versions./x", "DELTIC~1/x"]
        .into_iter()
        .chain(others)
    {
        assert_eq!(go(bad, ""), 400, "{bad}");
    }
    assert_eq!(ask(&server, &format!("POST {FILE}?as=move"), "", b"").status, 400);
    let dir = "POST /v1/volumes/photos/tree/dir";
    assert_eq!(ask(&server, dir, "", b"").status, 201);
    let moved = "POST /v1/volumes/photos/files/dir?as=move&to=x";
    assert_eq!(ask(&server, moved, "", b"").status, 201);
    assert!(world.exists("photos/x") && !world.exists("photos/dir"), "a directory moves too");
    assert_eq!(go("new/place%20of/a", "If-Match: *\r\n"), 201);
    assert_eq!(go("c", ""), 404);
    assert_eq!(world.read("photos/new/place of/a"), b"here");
    assert_eq!(world.read("photos/b"), b"there");
    assert!(!world.exists("photos/a") && !world.exists("out"));
    drop(server);
    let server = Server::start(&world, "--no-delete");
    let kept = "POST /v1/volumes/photos/files/b?as=move&to=c";
    assert_eq!(ask(&server, kept, "", b"").status, 403);
}

#[test]
fn a_directory_with_the_state_of_the_server_does_not_move() {
    let world = World::new();
    world.mkdir("photos/home/other");
    let state = "serve photos --state photos/home/deep/.deltic-serve --listen 127.0.0.1:0";
    let server = Server::of(&world, state.into());
    let go = |from: &str| {
        let request = format!("POST /v1/volumes/photos/files/{from}?as=move&to=moved");
        ask(&server, &request, "", b"").status
    };
    assert_eq!(go("home"), 409);
    assert_eq!(go("home/deep"), 409);
    assert_eq!(go("home/other"), 201);
    assert!(world.exists("photos/home/deep/.deltic-serve/lock") && world.exists("photos/moved"));
}

#[test]
fn an_empty_directory_is_deleted_and_a_full_one_is_left() {
    let world = World::new();
    world.write("photos/dir/sub/file", "file");
    let server = Server::start(&world, "");
    let delete = |path: &str, more: &str| {
        ask(&server, &format!("DELETE /v1/volumes/photos/files/{path}"), more, b"")
    };
    let any = "If-Match: *\r\n";
    assert_eq!(delete("dir/sub", "").status, 428);
    let full = delete("dir/sub", any);
    let why = String::from_utf8_lossy(&full.body).into_owned();
    assert!(full.status == 409 && why.contains("dir/sub: the directory is not empty"), "{why}");
    assert_eq!(delete("dir/sub/file", any).status, 204);
    assert_eq!(delete("dir/sub", "If-Match: \"x\"\r\n").status, 412);
    assert_eq!(delete("dir/sub", any).status, 204);
    assert!(world.exists("photos/dir") && !world.exists("photos/dir/sub"));
    assert_eq!(delete("dir/sub", any).status, 404);
}

#[test]
fn in_a_volume_that_is_only_read_nothing_is_deleted() {
    let world = World::new();
    world.write("photos/a", "a");
    let server = Server::start(&world, "--ro");
    let answer = ask(&server, &format!("DELETE {FILE}"), "If-Match: *\r\n", b"");
    assert_eq!(answer.status, 403, "{answer:?}");
    assert_eq!(world.read("photos/a"), b"a");
    server.fails(3, "sync -a --remove-source-files URL/photos/ dst/", "only reading is permitted");
    assert_eq!(world.read("photos/a"), b"a");
}

/// A union whose directories are on two branches: the kernel refuses to rename from one to the other.
#[test]
fn a_file_that_its_file_system_does_not_move_is_left_and_the_answer_says_what_to_do() {
    let world = World::new();
    world.mkdir("one");
    world.mkdir("two/sub");
    let words = ["-o", "category.create=epff", "one:two", "photos"];
    let without = "no union can be mounted here";
    let Some(_mounted) = Mounted::by((&world, "photos"), ("mergerfs", &words), without) else {
        return;
    };
    world.write("one/a", "whole");
    let server = Server::start(&world, "");
    let answer = ask(&server, &format!("POST {FILE}?as=move&to=sub/b"), "", b"");
    let why = String::from_utf8_lossy(&answer.body);
    assert_eq!(answer.status, 409, "{answer:?}");
    assert!(why.contains("moves no file between these directories: put a copy there"), "{why}");
    assert_eq!(world.read("one/a"), b"whole");
    assert_eq!(world.names("two/sub"), Vec::<String>::new());
}

/// Bytes that are written meanwhile are no version, so nothing names them as one.
#[test]
fn a_file_that_a_program_has_open_for_writing_comes_without_a_tag() {
    let world = World::new();
    world.write("photos/a", "bytes");
    let server = Server::start(&world, "");
    let get = |more: &str| ask(&server, &format!("GET {FILE}"), more, b"");
    let at_rest = get("");
    let tag = at_rest.tag().to_owned();
    let writer = std::fs::File::options().append(true).open(world.path("photos/a"));
    let writer = writer.expect("it is ours");
    // A sync tells of a file in use.
    if world.sync(&["-a", "photos/a", "dst/"]).code != Some(24) {
        return skip("there are no leases here: a file in use is not known");
    }
    let in_use = get("");
    assert_eq!((in_use.status, &*in_use.body), (200, &b"bytes"[..]));
    assert_eq!((in_use.header("etag"), in_use.header("last-modified")), (None, None));
    // A part of the bytes from before goes with no part of these.
    let range = format!("Range: bytes=2-\r\nIf-Range: {tag}\r\n");
    assert_eq!(get(&range).status, 200);
    drop(writer);
    assert_eq!(get("").tag(), tag);
    assert_eq!(get(&range).status, 206);
}

#[test]
fn a_list_in_pages_has_each_entry_once_and_the_tags_of_files() {
    let world = World::new();
    let mut names: Vec<_> = (0..25).map(|nth| format!("{nth}")).collect();
    names.extend(["a\\b", "z\u{202e}z"].map(Into::into));
    for name in &names {
        world.write(format!("photos/dir/{name}"), name);
    }
    world.mkdir("photos/dir/sub");
    world.mkdir("photos/dir/.deltic");
    names.push("sub".into());
    names.sort();
    let server = Server::start(&world, "");
    for limit in [1, 2, 7, 28, 1000] {
        let (mut after, mut got) = (String::new(), Vec::new());
        loop {
            let page = format!("GET /v1/volumes/photos/tree/dir?limit={limit}&after={after}");
            let page = ask(&server, &page, "", b"");
            let page: serde_json::Value = serde_json::from_slice(&page.body).expect("it is JSON");
            let entries = page["entries"].as_array().expect("it has entries");
            assert!(entries.len() <= limit && (!entries.is_empty() || got.is_empty()));
            got.extend(entries.iter().cloned());
            if page["more"] != true {
                break;
            }
            let last = entries.last().expect("more follow")["name"].as_str().expect("a name");
            after = last.replace('\\', "%5C").replace('{', "%7B").replace('}', "%7D");
        }
        let shown: Vec<_> = got.iter().map(|entry| entry["name"].as_str().unwrap()).collect();
        let printed = names.iter().map(|name| name.replace('\u{202e}', "\\u{202e}"));
        assert!(printed.eq(shown.iter().copied()), "{limit}: {shown:?}");
        let tag = ask(&server, "GET /v1/volumes/photos/files/dir/7", "", b"").tag().to_owned();
        let is_it = |entry: &&serde_json::Value| entry["name"] == "7";
        assert_eq!(got.iter().find(is_it).expect("it is listed")["etag"], *tag);
        let dir = got.iter().find(|entry| entry["name"] == "sub").expect("it is listed");
        assert!(dir.get("etag").is_none());
    }
}

#[test]
fn an_address_that_makes_no_sense_is_answered_in_plain_words() {
    let world = World::new();
    world.write("photos/a", "a");
    let server = Server::start(&world, "");
    let parameter = "a query parameter is missing, repeated, or not a number";
    for (what, told) in [
        ("GET /v1/volumes/photos/tree/?limit=many", parameter),
        ("GET /v1/volumes/photos/tree/?limit=1&limit=2", parameter),
        ("GET /v1/volumes/photos/files/a?as=versions&as=versions", parameter),
        ("GET /v1/volumes/photos/files/%ff", "the path is not UTF-8"),
        ("GET /v1/volumes/photos/tree/%ff/", "the path is not UTF-8"),
    ] {
        let answer = ask(&server, what, "", b"");
        let why = String::from_utf8_lossy(&answer.body);
        assert_eq!(answer.status, 400, "{what}: {answer:?}");
        assert!(why.contains(told) && !why.contains("deserialize"), "{what}: {why}");
    }
}

#[test]
fn presets_of_the_papers_go_over_a_server_as_over_ssh() {
    let world = World::new();
    let old = noise(600_000, 7);
    world.write("new", edited(&old, 300_000));
    let server = Server::start(&world, "");
    for preset in ["skysync-f", "skysync-c", "rsync", "webr2sync+"] {
        world.write("photos/a", &old);
        let run = server.ok(&format!("sync -I --stats --strategy {preset} new URL/photos/a"));
        assert_eq!(world.read("photos/a"), world.read("new"), "{preset}");
        assert!(run.stat("Total bytes sent") < 60_000, "{preset}: {run:#?}");
        server.ok(&format!("sync -I --strategy {preset} URL/photos/a got"));
        assert_eq!(world.read("got"), world.read("new"), "{preset}");
    }
}

#[test]
fn a_digest_comes_with_a_file_if_it_is_asked_for() {
    let world = World::new();
    world.write("photos/a", "hello world");
    let server = Server::start(&world, "");
    let get = |more: &str| ask(&server, &format!("GET {FILE}"), more, b"");
    let sum = "sha-256=:uU0nuZNNPgilLlLX2n2r+sSE7+N6U4DukIj3rOLvzek=:";
    for (more, wanted) in [
        ("Want-Repr-Digest: sha-256=1\r\n", Some(sum)),
        ("Want-Repr-Digest: md5=3, sha-256=10\r\nRange: bytes=0-3\r\n", Some(sum)),
        ("Want-Repr-Digest: sha-256=0\r\n", None),
        ("Want-Repr-Digest: sha-512=1\r\n", None),
        ("", None),
    ] {
        assert_eq!(get(more).header("repr-digest"), wanted, "{more}");
    }
    // Several ranges are as none.
    assert_eq!(get("Range: bytes=0-1,3-4\r\n").status, 200);
    let tag = get("").tag().to_owned();
    assert_eq!(get(&format!("Range: bytes=0-1\r\nIf-Range: {tag}\r\n")).status, 206);
    assert_eq!(get("Range: bytes=0-1\r\nIf-Range: \"x\"\r\n").status, 200);
}

/// A delta with the header of another, which copies the first bytes of old so often.
fn bomb(delta: &[u8], times: usize) -> Vec<u8> {
    let header = 8 + 1 + usize::from(delta[8]);
    let mut bomb = delta[..header].to_vec();
    // 500,000 bytes from 0 on.
    bomb.extend([5, 2, 0, 0xa0, 0xc2, 0x1e].repeat(times));
    let mut len = 500_000 * times as u64;
    let mut end = vec![4];
    while len >= 128 {
        end.push(len as u8 | 128);
        len >>= 7;
    }
    end.push(len as u8);
    end.extend([0; 32]);
    bomb.push(end.len() as u8);
    bomb.extend(end);
    bomb
}

#[test]
fn who_may_only_read_patches_nothing_and_who_may_only_write_learns_nothing() {
    let world = World::new();
    world.write("photos/a", "old");
    let server = Server::start(&world, "--ro");
    let signed = signature(&server);
    assert_eq!(patch(&server, "*", &signed.body).status, 403);
    drop(server);
    let server = Server::start(&world, "");
    let token = server.add_token("--wo writer");
    let ask = |what: &str| {
        let more = format!("Authorization: Bearer {}\r\nIf-Match: *\r\n", token.trim());
        let head = format!("{what} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{more}\r\n");
        server.raw(head.as_bytes())
    };
    for what in ["GET {}?as=signature", "POST {}?as=delta", "POST {}?as=match", "POST {}?as=patch"]
    {
        assert!(ask(&what.replace("{}", FILE)).contains(" 403 "), "{what}");
    }
}
