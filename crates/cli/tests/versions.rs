//! Old versions that a volume keeps: of what plain HTTP and sessions replace and remove.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::process::Command;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::common::http::{Answer, ask, ask_as};
use crate::common::server::Server;
use crate::common::terminal::Terminal;
use crate::common::{DELTIC, Run, World, noise};
use rustix::process::Signal;
use serde_json::Value;

const FILE: &str = "/v1/volumes/photos/files/dir/a";

/// The old versions of a file: of each its name and its length.
#[track_caller]
fn versions(server: &Server<'_>, file: &str) -> Vec<(String, u64)> {
    let answer = ask(server, &format!("GET {file}?as=versions"), "", b"");
    assert_eq!(answer.status, 200, "{answer:?}");
    let answer: Value = serde_json::from_slice(&answer.body).expect("it is said");
    let version = |version: &Value| {
        let id = version["version"].as_str().expect("it is said").to_owned();
        (id, version["bytes"].as_u64().expect("it is said"))
    };
    answer["versions"].as_array().expect("it is said").iter().map(version).collect()
}

fn contents(server: &Server<'_>, file: &str) -> Vec<Vec<u8>> {
    let read = |(id, _)| ask(server, &format!("GET {file}?version={id}"), "", b"").body;
    versions(server, file).into_iter().map(read).collect()
}

fn put(server: &Server<'_>, file: &str, body: &[u8]) -> Answer {
    ask(server, &format!("PUT {file}"), "", body)
}

#[test]
fn a_replaced_or_removed_file_is_kept_by_whatever_way() {
    let world = World::new();
    let server = Server::start(&world, "--versions 10");
    assert_eq!(put(&server, FILE, b"one").status, 201);
    assert_eq!(versions(&server, FILE), []);
    // By a whole file, a patch, a session, a deletion, and a session that deletes.
    assert_eq!(put(&server, FILE, b"two").status, 204);
    let signed = ask(&server, &format!("GET {FILE}?as=signature"), "", b"");
    world.write("signature", &signed.body);
    world.write("src/dir/a", "three");
    server.ok("delta signature src/dir/a -o delta");
    let delta = world.read("delta");
    let patched = ask(&server, &format!("POST {FILE}?as=patch"), "If-Match: *\r\n", &delta);
    assert_eq!(patched.status, 204);
    world.write("src/dir/a", "the fourth");
    server.ok("sync -a src/ URL/photos/");
    assert_eq!(contents(&server, FILE), [&b"three"[..], b"two", b"one"]);
    assert_eq!(ask(&server, &format!("DELETE {FILE}"), "If-Match: *\r\n", b"").status, 204);
    assert_eq!(contents(&server, FILE)[0], b"the fourth");
    world.write("src/dir/a", "5");
    server.ok("sync -a src/ URL/photos/");
    world.write("src/dir/a", "in a root that is deeper");
    server.ok("sync -a src/dir/ URL/photos/dir/");
    assert_eq!(contents(&server, FILE)[0], b"5");
    std::fs::remove_dir_all(world.path("src/dir")).unwrap();
    server.ok("sync -a --force-delete --delete src/ URL/photos/");
    assert!(!world.exists("photos/dir"));
    let all = contents(&server, FILE);
    assert_eq!(all.len(), 6);
    assert_eq!(all[0], b"in a root that is deeper");
    // One comes back, though its directory is gone; and again, which keeps the present one.
    let (third, _) = versions(&server, FILE)[3].clone();
    let restore = |id: &str| ask(&server, &format!("POST {FILE}?as=restore&version={id}"), "", b"");
    let restored = restore(&third);
    assert_eq!((restored.status, &*world.read("photos/dir/a")), (201, &b"three"[..]));
    let (last, _) = versions(&server, FILE)[0].clone();
    assert_eq!(restore(&last).status, 204);
    assert_eq!(world.read("photos/dir/a"), b"in a root that is deeper");
    assert_eq!(contents(&server, FILE)[0], b"three");
    let stale = format!("POST {FILE}?as=restore&version={last}");
    assert_eq!(ask(&server, &stale, "If-Match: \"x\"\r\n", b"").status, 412);
    let run = server.ok("versions URL/photos/dir/a");
    assert_eq!(run.lines().len(), versions(&server, FILE).len());
    assert!(
        run.stdout.starts_with(&versions(&server, FILE)[0].0) && run.stdout.contains(" 5 bytes")
    );
    server.ok(&format!("restore URL/photos/dir/a --version {third}"));
    assert_eq!(world.read("photos/dir/a"), b"three");
    let listed = server.ok("versions --json URL/photos/dir/a").stdout;
    let first: Value =
        serde_json::from_str(listed.lines().next().expect("one line a version")).unwrap();
    assert_eq!(first["version"].as_str(), Some(&*versions(&server, FILE)[0].0));
    // Yesterday the file had the content that was replaced first.
    server.ok("restore URL/photos/dir/a --at 1d");
    assert_eq!(world.read("photos/dir/a"), b"one");
    let mut sentence = world.command(DELTIC, ["restore", &format!("{}/photos/dir/a", server.url)]);
    let run = Run::of(sentence.args(["--at", "2 days ago"]));
    assert_eq!(run.code, Some(0), "{run:#?}");
    server.fails(1, "restore URL/photos/dir/a --at soon", "'2 days ago'");
    let run = server.deltic("restore URL/photos/dir/a");
    assert_eq!(run.code, Some(1), "{run:#?}");
    assert!(run.stderr.contains("  <--version <ID>|--at <TIME>>\n"), "{run:#?}");
    assert!(run.stderr.contains("hint: `deltic versions URL` lists the versions"), "{run:#?}");
    server.fails(1, "restore URL/photos/dir/a --at 1d --version 7", "cannot be used with");
    server.fails(3, "restore URL/photos/dir/a --version 7", "dir/a");
    server.fails(3, "versions URL/photos/none", "no such file");
    server.fails(3, "versions URL/photos/dir", "end the path with a slash");
    server.fails(1, "restore URL/photos/dir/ --version 7", "--at");
    server.fails(1, "restore URL/photos/dir/a --at 1d --delete", "--delete");
    server.fails(3, "versions URL/music/a", "no such volume");
    server.fails(11, "versions --token @delta URL/photos/dir/a", "");
    // A version is a file as others are.
    let read = format!("GET {FILE}?version={last}");
    let part = ask(&server, &read, "Range: bytes=3-6\r\n", b"");
    assert_eq!((part.status, &*part.body), (206, &b"a ro"[..]));
    assert_eq!(
        ask(&server, &format!("GET {FILE}?as=signature&version={last}"), "", b"").status,
        200
    );
}

#[test]
fn versions_are_nobodys_to_reach_and_are_those_of_their_file_alone() {
    let world = World::new();
    let server = Server::start(&world, "--versions 3");
    put(&server, FILE, b"one");
    put(&server, FILE, b"two");
    let (id, _) = versions(&server, FILE)[0].clone();
    for path in [".deltic-versions/dir/a", ".deltic-versions", "dir/.deltic-1", "dir/a/.deltic-1"] {
        let path = format!("/v1/volumes/photos/files/{path}");
        for what in
            [format!("GET {path}"), format!("PUT {path}"), format!("GET {path}?as=versions")]
        {
            assert_eq!(ask(&server, &what, "", b"").status, 400, "{what}");
        }
    }
    let listed = ask(&server, "GET /v1/volumes/photos/tree/", "", b"");
    assert!(!String::from_utf8(listed.body).unwrap().contains("deltic"));
    server.ok("sync -a URL/photos/ got/");
    assert_eq!(world.names("got"), ["dir"]);
    world.link(".deltic-versions", "photos/link");
    world.write("src/x", "x");
    for words in [
        "sync -a URL/photos/.deltic-versions/ more/",
        "sync -a URL/photos/.deltic-versions/dir/a/ more/",
        "sync -a URL/photos/link/ more/",
        "sync -a src/ URL/photos/.deltic-versions/",
        "sync -a src/ URL/photos/.deltic-versions/new/",
        "sync -a src/ URL/photos/.deltic/",
        "sync -a src/ URL/photos/link/",
        "sync -a --backup-dir=/.deltic-versions -b src/ URL/photos/",
        "sync -a --temp-dir=/.deltic-versions src/ URL/photos/",
        "sync -a --link-dest=/link/dir src/ URL/photos/",
        "sync -a --files-from=:/.deltic-versions/dir/a/x URL/photos/ more/",
    ] {
        server.fails(3, words, "leads out");
    }
    std::fs::remove_file(world.path("photos/link")).unwrap();
    assert_eq!(versions(&server, FILE).len(), 1);
    assert_eq!(world.names("photos/.deltic-versions"), ["dir"]);
    // Nothing of it is in the way of a sync that deletes.
    world.mkdir("empty");
    server.ok("sync -a --delete-excluded --force-delete --exclude=x empty/ URL/photos/");
    assert_eq!(world.names("photos"), [".deltic-versions"]);
    assert_eq!(versions(&server, FILE).len(), 2);
    let other = "/v1/volumes/photos/files/b";
    put(&server, other, b"other");
    for id in [&*id, "0", "-1", "1.5", "18446744073709551616", "..", "..%2fx", "%00", ""] {
        let answer = ask(&server, &format!("GET {other}?version={id}"), "", b"");
        assert!([400, 404].contains(&answer.status), "{id}: {answer:?}");
        let what = format!("POST {other}?as=restore&version={id}");
        let answer = ask(&server, &what, "", b"");
        assert!([400, 404].contains(&answer.status), "{id}: {answer:?}");
    }
    assert_eq!(ask(&server, &format!("POST {other}?as=restore"), "", b"").status, 400);
    assert_eq!(world.read("photos/b"), b"other");
    let none = "GET /v1/volumes/photos/files/none?as=versions";
    assert_eq!(ask(&server, none, "", b"").status, 404);
    // A file and a directory of one name have both.
    put(&server, other, b"again");
    ask(&server, &format!("DELETE {other}"), "If-Match: *\r\n", b"");
    let below = "/v1/volumes/photos/files/b/c";
    put(&server, below, b"below");
    put(&server, below, b"below again");
    assert_eq!(contents(&server, other), [&b"again"[..], b"other"]);
    assert_eq!(contents(&server, below), [b"below"]);
    // Without the old file in its place, what changes it there would change its version.
    world.write("src/dir/a", "x");
    server.fails(3, "sync -a --inplace src/ URL/photos/", "the volume keeps old versions");
    server.fails(
        3,
        "sync -a --remove-source-files URL/photos/ got/",
        "the volume keeps old versions",
    );
    drop(server);
    let server = Server::start(&world, "");
    assert_eq!(ask(&server, &format!("GET {FILE}?as=versions"), "", b"").status, 404);
}

/// Returns a second that has passed: nothing before this call is younger, and everything after this call is.
fn moment() -> u64 {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later").as_secs();
    let moment = now();
    while now() == moment {
        thread::sleep(Duration::from_millis(20));
    }
    // The clock of the file system may be a tick behind.
    thread::sleep(Duration::from_millis(50));
    moment
}

/// Returns a time as a date of RFC 3339.
fn date(secs: u64) -> String {
    let mut date = Command::new("date");
    date.args(["-u", "+%Y-%m-%dT%H:%M:%SZ", "-d"]).arg(format!("@{secs}"));
    let date = date.output().expect("it runs").stdout;
    String::from_utf8(date).expect("it is text").trim().to_owned()
}

fn files(name: &str) -> String {
    format!("/v1/volumes/photos/files/{name}")
}

#[test]
fn a_directory_becomes_what_it_was() {
    let world = World::new();
    let server = Server::start(&world, "--versions 10");
    for name in ["dir/same", "dir/edited", "dir/gone/deep", "dir/back", "other"] {
        put(&server, &files(name), name.as_bytes());
    }
    let long = noise(600_000, 3);
    put(&server, &files("dir/long"), &long);
    let then = moment();
    put(&server, &files("dir/edited"), b"1");
    put(&server, &files("dir/edited"), b"2");
    put(&server, &files("dir/back"), b"for a while");
    put(&server, &files("dir/back"), b"dir/back");
    put(&server, &files("dir/long"), &[&long[..599_999], b"!"].concat());
    put(&server, &files("other"), b"changed");
    put(&server, &files("dir/young"), b"one");
    // A version that is replaced within a tick of its creation could be a copy, so its creation is unknown.
    thread::sleep(Duration::from_millis(50));
    put(&server, &files("dir/young"), b"two");
    ask(&server, &format!("DELETE {}", files("dir/gone/deep")), "If-Match: *\r\n", b"");
    ask(&server, &format!("DELETE {}", files("dir/gone")), "If-Match: *\r\n", b"");
    let listed = server.ok("versions URL/photos/dir/").stdout;
    let paths: Vec<_> = listed.lines().map(|line| line.split("  ").nth(3).unwrap()).collect();
    let edited = ["dir/back", "dir/back", "dir/edited", "dir/edited"];
    assert_eq!(paths, [&edited[..], &["dir/gone/deep", "dir/long", "dir/young"]].concat());
    assert_eq!(listed.matches("(deleted)").count(), 1);
    let first: Value =
        serde_json::from_str(server.ok("versions --json URL/photos/").lines()[0]).unwrap();
    assert_eq!((&first["path"], &first["deleted"]), (&"dir/back".into(), &false.into()));
    // A file younger than the moment is told by its creation time.
    let is_born = std::fs::metadata(world.path("photos/dir/young")).unwrap().created().is_ok();
    let restore = |more: &str| {
        server.ok(&format!("restore URL/photos/dir/ --at {} {more}", date(then))).stdout
    };
    let said = restore("");
    assert!(said.starts_with("3 files restored, 1 unchanged, "), "{said}");
    for name in ["dir/same", "dir/edited", "dir/gone/deep", "dir/back"] {
        assert_eq!(world.read(format!("photos/{name}")), name.as_bytes(), "{name}");
    }
    assert_eq!(world.read("photos/dir/long"), long);
    assert_eq!(world.read("photos/other"), b"changed");
    // The file with equal bytes was left alone, which made no version.
    assert_eq!(contents(&server, &files("dir/back")).len(), 2);
    if is_born {
        assert_eq!(world.read("photos/dir/young"), b"two");
        assert!(said.contains(" 1 younger left, 0 deleted, 0 failed"), "{said}");
        assert!(restore("--delete").contains("0 younger left, 1 deleted, 0 failed"));
        assert!(!world.exists("photos/dir/young") && world.exists("photos/dir/same"));
        assert_eq!(contents(&server, &files("dir/young")).len(), 2);
    }
}

#[test]
fn a_file_that_is_not_restored_is_counted_and_the_others_are_restored() {
    let world = World::new();
    let server = Server::start(&world, "--versions 10");
    put(&server, &files("a"), b"a");
    put(&server, &files("b"), b"b");
    let then = moment();
    ask(&server, &format!("DELETE {}", files("a")), "If-Match: *\r\n", b"");
    put(&server, &files("a/below"), b"in the way");
    put(&server, &files("b"), b"changed");
    let run = server.deltic(&format!("restore URL/photos --at {}", date(then)));
    assert_eq!(run.code, Some(23), "{run:#?}");
    assert!(run.stderr.contains("a: ") && run.stdout.contains("1 failed"), "{run:#?}");
    assert!(run.stdout.starts_with("1 file restored"), "{run:#?}");
    assert_eq!(world.read("photos/b"), b"b");
    assert_eq!(world.read("photos/a/below"), b"in the way");
}

#[test]
fn a_directory_of_many_files_is_restored_whatever_their_names_at_the_rate_that_the_server_allows() {
    let world = World::new();
    let server = Server::set_volume(
        &world,
        "versions = 10",
        "[limits]\nrequests_per_second = 4\nrequest_burst = 6\n",
    );
    // Two names are written alike in a list, and two are not UTF-8.
    let odd: [&[u8]; 4] = [b"odd\nname", b"odd\\nname", b"latin-\xe9", b"latin-\xff/\xfe"];
    let plain: Vec<_> = (0..2_000).map(|nth| format!("{}/plain{nth}", nth % 7)).collect();
    let names = || odd.into_iter().chain(plain.iter().map(String::as_bytes));
    let at = |dir: &str, name: &[u8]| OsString::from_vec([dir.as_bytes(), name].concat());
    names().for_each(|name| world.write(at("src/", name), name));
    server.ok("sync -rt src/ URL/photos/dir/");
    let then = moment();
    names().for_each(|name| world.write(at("src/", name), "changed"));
    server.ok("sync -rt src/ URL/photos/dir/");
    world.write("token", server.add_token("laptop"));
    let url = format!("{}/photos/dir/", server.url);
    let mut command = Command::new(DELTIC);
    world.place(command.args(["restore", &url, "--token", "@token", "--at", &date(then)]));
    let terminal = Terminal::start(&mut command);
    let (code, shown) = terminal.end();
    let said =
        shown.contains("2,004 files restored, 0 unchanged, 0 younger left, 0 deleted, 0 failed");
    assert!(code == Some(0) && said, "{shown}");
    for name in names() {
        assert_eq!(world.read(at("photos/dir/", name)), name);
    }
}

#[test]
fn a_restore_of_a_directory_keeps_to_the_rights_of_its_token() {
    let world = World::new();
    let server = Server::start(&world, "--versions 10");
    let names = ["part/a", "part/deep/b", "beside"];
    names.iter().for_each(|name| _ = put(&server, &files(name), b"then"));
    let then = moment();
    names.iter().for_each(|name| _ = put(&server, &files(name), b"now"));
    put(&server, &files("part/young"), b"now");
    let restore = |token: &str, words: &str| {
        let what = format!("POST /v1/volumes/photos/tree{words}at={then}");
        let answer = ask_as(&server, token, (&what, ""), b"");
        (answer.status, serde_json::from_slice::<Value>(&answer.body).unwrap_or_default())
    };
    for (rights, words, status) in [
        ("--ro reader", "/part?as=restore&", 403),
        ("--wo writer", "/part?as=restore&", 403),
        ("--no-delete keeper", "/part?as=restore&delete=true&", 403),
        ("--path part --volume photos guest", "?as=restore&", 404),
        ("--path part --volume photos guest2", "/beside?as=restore&", 404),
        ("all", "?as=other&", 400),
        ("all2", "/part?as=restore&delete=perhaps&", 400),
        ("all3", "/.deltic-versions?as=restore&", 400),
        ("all4", "/..?as=restore&", 400),
    ] {
        let told = restore(&server.add_token(rights), words);
        assert_eq!(told.0, status, "{rights} {words} {told:?}");
    }
    assert!(names.iter().all(|name| world.read(format!("photos/{name}")) == b"now"));
    let guest = server.add_token("--path part --volume photos guest3");
    // By pages of one file, each of which goes on after the last one.
    let (mut after, mut restored) = (String::new(), 0);
    for _ in 0..20 {
        let (status, told) = restore(&guest, &format!("/part?as=restore&limit=1&after={after}&"));
        assert_eq!(status, 200, "{told}");
        restored += told["restored"].as_u64().unwrap();
        match told["next"].as_str() {
            Some(next) => after = next.into(),
            None => break,
        }
    }
    assert_eq!(restored, 2);
    assert_eq!(world.read("photos/part/deep/b"), b"then");
    assert_eq!(world.read("photos/beside"), b"now");
    let (status, told) = restore(server.token(), "/nothing?as=restore&");
    assert_eq!((status, &told["restored"], &told["next"]), (200, &0.into(), &Value::Null));
    drop(server);
    let server = Server::start(&world, "");
    server.fails(
        3,
        "restore URL/photos/part/ --at 1d",
        "keeps no versions; start the server with `--versions 10`",
    );
}

#[test]
fn versions_of_a_directory_are_listed_by_pages_and_by_rights() {
    let world = World::new();
    let server = Server::start(&world, "--versions 10");
    let names = ["a", "b/c", "b/d/e", "b.x", "mine/f", "\u{e9}\\z"];
    for name in names {
        let name = files(&name.replace('\\', "%5C").replace('\u{e9}', "%C3%A9"));
        put(&server, &name, b"one");
        put(&server, &name, b"two");
    }
    let tree = "GET /v1/volumes/photos/tree";
    let page = |words: &str, status| -> Value {
        let answer = ask(&server, &format!("{tree}{words}"), "", b"");
        assert_eq!(answer.status, status, "{words} {answer:?}");
        serde_json::from_slice(&answer.body).unwrap()
    };
    let (mut seen, mut after) = (Vec::new(), String::new());
    for _ in 0..20 {
        let listed = page(&format!("?as=versions&limit=1&after={after}"), 200);
        let files = listed["files"].as_array().unwrap().iter();
        seen.extend(files.map(|file| file["path"].as_str().unwrap().to_owned()));
        match listed["next"].as_str() {
            Some(next) => after = next.replace('\\', "%5C").replace('\u{e9}', "%C3%A9"),
            None => break,
        }
    }
    assert_eq!(seen, names);
    assert_eq!(page("/b?as=versions", 200)["files"].as_array().unwrap().len(), 2);
    assert_eq!(page("/none?as=versions", 200)["files"], Value::Array(Vec::new()));
    world.write("photos/b/present", "x");
    let all = page("/b?as=versions&all=true", 200);
    assert_eq!(all["files"].as_array().unwrap().len(), 3);
    for (words, status) in [
        ("?as=signature", 400),
        ("?as=versions&limit=x", 400),
        ("?as=versions&all=2", 400),
        ("?as=versions&at=9", 400),
        ("/.deltic-versions?as=versions", 400),
        ("/..?as=versions", 400),
        ("?as=versions&after=..%2f..", 200),
    ] {
        page(words, status);
    }
    let token = server.add_token("--path mine --volume photos guest");
    let head = "/v1/volumes/photos/tree";
    let own = server.answer(&token, &format!("{head}/mine?as=versions"), "");
    assert!(own.starts_with("HTTP/1.1 200") && own.contains("mine/f"), "{own}");
    for path in ["", "/b"] {
        let other = server.answer(&token, &format!("{head}{path}?as=versions"), "");
        assert!(!other.starts_with("HTTP/1.1 200") && !other.contains("b/c"), "{other}");
    }
    let writer = server.add_token("--wo --volume photos writer");
    let refused = server.answer(&writer, &format!("{head}?as=versions"), "");
    assert!(refused.starts_with("HTTP/1.1 403"), "{refused}");
}

#[test]
fn a_directory_is_listed_as_of_a_moment() {
    let world = World::new();
    let server = Server::start(&world, "--versions 10");
    let list = |words: &str| -> Value {
        let answer = ask(&server, &format!("GET /v1/volumes/photos/tree{words}"), "", b"");
        assert_eq!(answer.status, 200, "{words} {answer:?}");
        serde_json::from_slice(&answer.body).unwrap()
    };
    let told = |listed: &Value| -> Vec<(String, String, u64)> {
        let text = |entry: &Value, field: &str| entry[field].as_str().unwrap().to_owned();
        let entries = listed["entries"].as_array().unwrap().iter();
        let one = |entry: &Value| {
            (text(entry, "name"), text(entry, "now"), entry["bytes"].as_u64().unwrap_or_default())
        };
        entries.map(one).collect()
    };
    let now = || {
        // Moments are whole seconds.
        thread::sleep(Duration::from_millis(1_100));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        thread::sleep(Duration::from_millis(1_100));
        now
    };
    for name in ["same", "other", "gone", "dir/inner", "away/deep/file"] {
        put(&server, &files(name), b"first");
    }
    let then = now();
    put(&server, &files("other"), b"the second");
    put(&server, &files("young"), b"x");
    put(&server, &files("dir/young"), b"x");
    for name in ["gone", "away/deep/file"] {
        ask(&server, &format!("DELETE {}", files(name)), "If-Match: *\r\n", b"");
    }
    std::fs::remove_dir_all(world.path("photos/away")).unwrap();
    let listed = list(&format!("?at={then}"));
    let entry = |name: &str, now: &str, bytes| (name.to_owned(), now.to_owned(), bytes);
    let root = [
        entry("away", "gone", 0),
        entry("dir", "same", 0),
        entry("gone", "gone", 5),
        entry("other", "other", 5),
        entry("same", "same", 5),
    ];
    assert_eq!(told(&listed), root);
    assert_eq!((&listed["younger"], &listed["next"]), (&1.into(), &Value::Null));
    assert_eq!(told(&list(&format!("/away/deep?at={then}"))), [entry("file", "gone", 5)]);
    assert_eq!(told(&list(&format!("/dir?at={then}"))), [entry("inner", "same", 5)]);
    // Old versions are named, and present files have tags for a restore.
    let [gone, other] = [&listed["entries"][2], &listed["entries"][3]];
    assert!(gone["etag"].is_null() && other["etag"].is_string(), "{listed}");
    let version = other["version"].as_str().unwrap();
    let old = ask(&server, &format!("GET {}?version={version}", files("other")), "", b"");
    assert_eq!(old.body, b"first");
    for (dir, had) in [("dir", "dir/inner"), ("away", "away/deep/file")] {
        let archive = ask(&server, &format!("GET {}?as=zip&at={then}", files(dir)), "", b"");
        let archive = String::from_utf8_lossy(&archive.body).into_owned();
        assert!(archive.contains(had) && archive.contains("first"), "{dir}: {archive}");
        assert!(!archive.contains("young"), "{dir}: {archive}");
    }
    let none = ask(&server, &format!("GET {}?as=zip&at={then}", files("never")), "", b"");
    assert_eq!(none.status, 404);
    // By pages.
    let (mut seen, mut after) = (Vec::new(), String::new());
    for _ in 0..20 {
        let page = list(&format!("?at={then}&limit=1&after={after}"));
        seen.extend(told(&page));
        let Some(next) = page["next"].as_str() else { break };
        after = next.to_owned();
    }
    assert_eq!(seen, root);
    // Now, and before everything.
    let names = |at: u64| told(&list(&format!("?at={at}"))).into_iter().map(|told| told.0);
    assert_eq!(names(now()).collect::<Vec<_>>(), ["dir", "other", "same", "young"]);
    assert_eq!(names(9).count(), 0);
    for (words, status) in [("/none?at=9", 404), ("?at=x", 400), ("/.deltic-versions?at=9", 400)] {
        let answer = ask(&server, &format!("GET /v1/volumes/photos/tree{words}"), "", b"");
        assert_eq!(answer.status, status, "{words}");
    }
}

#[test]
fn no_more_versions_are_kept_than_was_said() {
    let world = World::new();
    let server = Server::start(&world, "--versions 2");
    for text in ["a", "b", "c", "d", "e"] {
        put(&server, FILE, text.as_bytes());
    }
    assert_eq!(contents(&server, FILE), [b"d", b"c"]);
    drop(server);
    for word in ["0", "x", "1z"] {
        let run =
            world.command(crate::common::DELTIC, ["serve", "photos", "--versions", word]).output();
        assert_eq!(run.unwrap().status.code(), Some(1), "{word}");
    }
}

#[test]
fn each_acknowledged_version_of_many_at_once_is_there_or_kept() {
    let world = World::new();
    let server = Server::start(&world, "--versions 1000");
    put(&server, FILE, b"first");
    let serving = &server;
    let told: Vec<_> = thread::scope(|scope| {
        let one = move |who: u32| {
            let body = move |nth: u32| format!("{who} {nth}").into_bytes();
            let put = move |nth: &u32| put(serving, FILE, &body(*nth)).status == 204;
            (0..25).filter(put).map(body).collect::<Vec<_>>()
        };
        let threads: Vec<_> = (0..8).map(|who| scope.spawn(move || one(who))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert!(told.len() >= 25);
    let mut all: BTreeSet<_> = contents(&server, FILE).into_iter().collect();
    all.insert(world.read("photos/dir/a"));
    assert!(all.remove(&b"first"[..]));
    assert_eq!(all, told.into_iter().collect());
}

#[test]
fn a_server_that_is_killed_loses_no_version_and_tears_none() {
    let world = World::new();
    for round in 0..6 {
        let server = Server::start(&world, "--versions 100000");
        if round == 0 {
            put(&server, FILE, &noise(200_000, 0));
        }
        let told = thread::scope(|scope| {
            let server = &server;
            let putting = scope.spawn(move || {
                let mut told = 0;
                for nth in 1.. {
                    if put(server, FILE, &noise(200_000, 1000 * round + nth)).status != 204 {
                        break;
                    }
                    told = nth;
                }
                told
            });
            thread::sleep(Duration::from_millis(300 + 37 * round));
            server.signal(Signal::KILL);
            putting.join().unwrap()
        });
        drop(server);
        let server = Server::start(&world, "--versions 100000");
        let mut all = contents(&server, FILE);
        all.insert(0, world.read("photos/dir/a"));
        // The last that was told well is the present one, or the one before that.
        let known = |seed: u64| noise(200_000, seed);
        if told > 0 {
            let last = known(1000 * round + told);
            assert!(all[..2].contains(&last), "round {round}");
        }
        assert!(all.iter().all(|version| version.len() == 200_000));
        let different: BTreeSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len(), "round {round}");
        assert!(all.len() as u64 > told);
    }
}
