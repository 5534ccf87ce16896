//! Searches by plain HTTP, use of tokens, and the list of unfinished uploads.

use std::os::unix::ffi::OsStrExt;

use crate::common::World;
use crate::common::http::{Answer, ask, ask_as};
use crate::common::server::Server;
use rustix::process::Signal;
use serde_json::{Value, json};

const TREE: &str = "/v1/volumes/photos/tree";
const UPLOADS: &str = "/v1/volumes/photos/uploads";

fn json_of(answer: &Answer) -> Value {
    serde_json::from_slice(&answer.body).expect("it is JSON")
}

/// Returns the paths that a search finds, of all pages, and the number of requests.
fn found(server: &Server<'_>, token: &str, search: &str) -> (Vec<String>, usize) {
    let (mut paths, mut requests, mut after) = (Vec::new(), 0, String::new());
    loop {
        let answer = ask_as(server, token, (&format!("GET {TREE}{search}{after}"), ""), b"");
        assert_eq!(answer.status, 200, "{search}{after}: {answer:?}");
        let page = json_of(&answer);
        requests += 1;
        for entry in page["entries"].as_array().expect("the answer has entries") {
            paths.push(entry["path"].as_str().expect("an entry has a path").to_owned());
        }
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => return (paths, requests),
        }
    }
}

#[test]
fn pages_of_any_length_find_all_names_below_once_in_the_order_of_paths() {
    let world = World::new();
    for path in [
        "a/b/Report.txt",
        "a/report/deep/x",
        "a/report/deep/report",
        "z/none",
        "REPORT",
        "a.report",
    ] {
        world.write(format!("photos/{path}"), path);
    }
    world.link("a", "photos/report-link");
    let odd = std::ffi::OsStr::from_bytes(b"report\x80");
    std::fs::write(world.path("photos/z").join(odd), "odd").unwrap();
    let server = Server::start(&world, "");
    // By components: the directory `a` comes before `a.report`.
    let all = [
        "REPORT",
        "a/b/Report.txt",
        "a/report",
        "a/report/deep/report",
        "a.report",
        "report-link",
        "z/report\\x80",
    ];
    for limit in 1..9 {
        let (paths, requests) =
            found(&server, server.token(), &format!("?as=search&name=rePort&limit={limit}"));
        assert_eq!(paths, all, "{limit}");
        assert!(requests >= all.len() / limit, "{limit}: {requests}");
    }
    let below = found(&server, server.token(), "/a/report?as=search&name=report").0;
    assert_eq!(below, ["a/report/deep/report"]);
    let page = json_of(&ask(&server, &format!("GET {TREE}?as=search&name=report%5Cx80"), "", b""));
    assert_eq!((&page["entries"][0]["exact"], &page["looked"]), (&json!(false), &json!(13)));
    let guest = server.add_token("--path a guest");
    assert_eq!(
        found(&server, &guest, "/a?as=search&name=x").0,
        ["a/b/Report.txt", "a/report/deep/x"]
    );
    let outside = ask_as(&server, &guest, (&format!("GET {TREE}?as=search&name=x"), ""), b"");
    assert_eq!(outside.status, 404);
}

#[test]
fn searches_without_a_text_or_behind_another_directory_are_refused() {
    let world = World::new();
    world.write("photos/a/b", "b");
    let server = Server::start(&world, "");
    let long = format!("?as=search&name={}", "x".repeat(256));
    // The path `a/b`, and no path.
    for bad in [
        "?as=search",
        "?as=search&name=",
        &long,
        "?as=search&name=b&after=%2F",
        "/b?as=search&name=b&after=YS9i",
    ] {
        let answer = ask(&server, &format!("GET {TREE}{bad}"), "", b"");
        assert_eq!(answer.status, 400, "{bad}: {answer:?}");
    }
    assert_eq!(found(&server, server.token(), "?as=search&name=b&after=YS9i").0.len(), 0);
    assert_eq!(ask(&server, &format!("GET {TREE}/none?as=search&name=b"), "", b"").status, 404);
}

#[test]
fn one_request_compares_a_bounded_number_of_names() {
    let world = World::new();
    world.mkdir("photos/many");
    for number in 0..20_500 {
        std::fs::File::create(world.path(format!("photos/many/{number:05}"))).unwrap();
    }
    world.write("photos/many/wanted", "");
    let server = Server::start(&world, "");
    assert_eq!(
        found(&server, server.token(), "?as=search&name=wanted"),
        (vec!["many/wanted".to_owned()], 2)
    );
}

#[test]
fn the_last_use_of_a_token_is_told_to_its_maker_also_after_a_restart() {
    let world = World::new();
    world.write("photos/a", "a");
    let mut server = Server::start(&world, "");
    let maker = server.add_token("maker");
    let made = ask_as(&server, &maker, ("POST /v1/tokens", ""), br#"{"name": "link"}"#);
    let made = json_of(&made);
    assert_eq!((&made["used"], &made["visits"]), (&Value::Null, &json!(0)));
    let link = made["token"].as_str().unwrap();
    for _ in 0..3 {
        assert_eq!(ask_as(&server, link, (&format!("GET {TREE}"), ""), b"").status, 200);
    }
    let told = |server: &Server<'_>| {
        let listed = ask_as(server, &maker, ("GET /v1/tokens", ""), b"");
        let token = json_of(&listed)["tokens"][0].clone();
        (token["used"].as_u64().unwrap_or_default(), token["visits"].as_u64().unwrap_or_default())
    };
    let before = told(&server);
    assert!(before.0 > 1_700_000_000 && before.1 == 1, "{before:?}");
    server.signal(Signal::TERM);
    server.child.wait().expect("the server ended");
    assert_eq!(told(&Server::start(&world, "")), before);
}

#[test]
fn unfinished_uploads_are_listed_to_their_token_and_its_makers_who_may_cancel_them() {
    let world = World::new();
    world.mkdir("photos");
    let server = Server::start(&world, "");
    let [maker, other] = ["maker", "other"].map(|words| server.add_token(words));
    let link =
        ask_as(&server, &maker, ("POST /v1/tokens", ""), br#"{"name": "link", "write": true}"#);
    let link = json_of(&link)["token"].as_str().unwrap().to_owned();
    let head = "Upload-Complete: ?0\r\nUpload-Length: 100\r\n";
    let begun = ask_as(&server, &link, ("PUT /v1/volumes/photos/files/dir/a", head), b"0123456789");
    assert_eq!(begun.status, 201, "{begun:?}");
    let uploads = |token: &str| {
        let listed = ask_as(&server, token, (&format!("GET {UPLOADS}"), ""), b"");
        json_of(&listed)["uploads"].as_array().unwrap().clone()
    };
    assert_eq!(uploads(&other), [] as [Value; 0]);
    let [upload] = &uploads(&link)[..] else { panic!("one upload") };
    let shown = ["path", "bytes", "arrived", "token"].map(|field| upload[field].clone());
    assert_eq!(shown, [json!("dir/a"), json!(100), json!(10), json!("link")]);
    let (touched, expires) =
        (upload["touched"].as_u64().unwrap(), upload["expires"].as_u64().unwrap());
    assert!((expires - touched).abs_diff(7 * 86_400) <= 1, "{upload}");
    assert_eq!((uploads(&maker).len(), uploads(server.token()).len()), (1, 1));
    let cancel = format!("DELETE {UPLOADS}/{}", upload["id"].as_str().unwrap());
    assert_eq!(ask_as(&server, &other, (&cancel, ""), b"").status, 404);
    assert_eq!(ask_as(&server, &maker, (&cancel, ""), b"").status, 204);
    assert_eq!(ask_as(&server, &maker, (&cancel, ""), b"").status, 404);
    assert_eq!(uploads(server.token()).len(), 0);
    assert_eq!(world.names("photos"), [] as [&str; 0], "nothing of the upload stays");
    let unknown = ask_as(&server, &other, ("GET /v1/volumes/none/uploads", ""), b"");
    assert_eq!(unknown.status, 404);
}
