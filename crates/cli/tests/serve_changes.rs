//! What changed in a file, as a server tells it: noted when a version arrives, or found by comparing two versions.

use crate::common::http::{ask, ask_as};
use crate::common::server::Server;
use crate::common::{World, edited, noise};
use serde_json::Value;

const FILE: &str = "/v1/volumes/photos/files/a";

#[track_caller]
fn answer(server: &Server<'_>, path: &str) -> Value {
    let answer = ask(server, &format!("GET {path}"), "", b"");
    assert_eq!(answer.status, 200, "{answer:?}");
    serde_json::from_slice(&answer.body).expect("an answer is JSON")
}

/// The numbers of bytes that were kept, that moved, and that are new.
#[track_caller]
fn sums(change: &Value) -> [u64; 3] {
    ["kept", "moved", "new"].map(|part| change[part].as_u64().unwrap_or_else(|| panic!("{change}")))
}

/// The parts of the file with new bytes.
fn new_parts(change: &Value) -> Vec<usize> {
    let buckets = change["buckets"].as_array().expect("buckets are told");
    assert_eq!(buckets.len(), 32);
    (0..32).filter(|number| buckets[*number][2] != 0).collect()
}

/// The noted change of the file `a` in the list of its directory.
fn listed(server: &Server<'_>) -> Value {
    let page = answer(server, "/v1/volumes/photos/tree/?changes=true");
    let entries = page["entries"].as_array().expect("entries are told").clone();
    entries.into_iter().find(|entry| entry["name"] == "a").expect("the file is listed")["change"]
        .take()
}

#[test]
fn a_sync_notes_what_changed_and_the_note_stays_with_the_version() {
    let world = World::new();
    let server = Server::start(&world, "--versions 10");
    let first = noise(3_200_000, 1);
    world.write("src/a", &first);
    server.ok("sync -a src/ URL/photos/");
    assert_eq!(sums(&listed(&server)), [0, 0, 3_200_000]);
    assert_eq!(answer(&server, &format!("{FILE}?as=changes"))["from"], Value::Null);

    let second = edited(&first, 1_650_000);
    world.write("src/a", &second);
    server.ok("sync -a src/ URL/photos/");
    let change = answer(&server, &format!("{FILE}?as=changes"));
    assert_eq!((&change["known"], change["length"].as_u64()), (&"noted".into(), Some(3_200_015)));
    let [kept, moved, new] = sums(&change);
    assert_eq!((kept + new, moved), (3_200_015, 0));
    assert!((15..100_000).contains(&new), "{change}");
    assert_eq!(new_parts(&change), [16]);
    assert_eq!(sums(&listed(&server)), [kept, moved, new]);

    // The first quarter moves to the end.
    let (front, rest) = second.split_at(800_000);
    world.write("src/a", [rest, front].concat());
    server.ok("sync -a src/ URL/photos/");
    let [kept, moved, new] = sums(&answer(&server, &format!("{FILE}?as=changes")));
    assert!(kept > 2_300_000 && moved > 700_000 && new < 100_000, "{kept} {moved} {new}");

    // Old versions keep their notes, and any two versions can be compared.
    let versions = answer(&server, &format!("{FILE}?as=versions"));
    assert_eq!(sums(&versions["change"]), [kept, moved, new]);
    let [newer, oldest] = [0, 1].map(|number| &versions["versions"][number]);
    assert_eq!(new_parts(&newer["change"]), [16]);
    let [newer, oldest] = [newer, oldest].map(|version| version["version"].as_str().unwrap());
    let old = answer(&server, &format!("{FILE}?as=changes&version={newer}"));
    assert_eq!((&old["known"], &old["from"]), (&"noted".into(), &oldest.into()));
    let far = answer(&server, &format!("{FILE}?as=changes&from={oldest}"));
    assert_eq!(far["known"], "compared");
    let [kept, moved, new] = sums(&far);
    assert!(kept > 2_300_000 && moved > 700_000 && new < 100_000, "{far}");
    let same = answer(&server, &format!("{FILE}?as=changes&version={oldest}&from={oldest}"));
    assert_eq!(sums(&same), [3_200_000, 0, 0]);
    let run = server.ok("versions URL/photos/a");
    assert!(run.stdout.contains("[================+===============]"), "{}", run.stdout);
    let json = server.ok("versions --json URL/photos/a").stdout;
    let json: Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
    assert_eq!(new_parts(&json["change"]), [16]);
}

#[test]
fn patches_short_files_and_restores_are_told_by_whoever_made_them() {
    let world = World::new();
    let server = Server::start(&world, "--versions 10");
    let old = noise(400_000, 2);
    world.write("photos/a", &old);
    assert_eq!(listed(&server), Value::Null);
    // A patch.
    let signed = ask(&server, &format!("GET {FILE}?as=signature"), "", b"");
    world.write("signature", &signed.body);
    world.write("new", edited(&old, 399_000));
    server.ok("delta signature new -o delta");
    let delta = world.read("delta");
    let patched = ask(&server, &format!("POST {FILE}?as=patch"), "If-Match: *\r\n", &delta);
    assert_eq!(patched.status, 204);
    let change = listed(&server);
    assert_eq!(new_parts(&change), [31]);
    assert!(change["by"].as_str().is_some_and(|by| !by.is_empty()), "{change}");
    assert!(change["at"].as_u64().unwrap() > 1_700_000_000);

    // A long file that was sent whole: the versions are compared when somebody asks.
    let whole = edited(&world.read("photos/a"), 10);
    assert_eq!(ask(&server, &format!("PUT {FILE}"), "", &whole).status, 204);
    assert_eq!(listed(&server), Value::Null);
    let change = answer(&server, &format!("{FILE}?as=changes"));
    assert_eq!((&change["known"], new_parts(&change)), (&"compared".into(), vec![0]));

    // Short files are compared when they arrive.
    let puts: [(&[u8], [u64; 3]); 5] = [
        (b"a short text, of one line", [0, 0, 25]),
        (b"a short text, of five lines", [17, 0, 10]),
        (b"", [0, 0, 0]),
        (b"again", [0, 0, 5]),
        (b"again", [5, 0, 0]),
    ];
    for (number, (text, expected)) in puts.into_iter().enumerate() {
        assert_eq!(ask(&server, &format!("PUT {FILE}"), "", text).status, 204);
        let change = answer(&server, &format!("{FILE}?as=changes"));
        // The first one replaces a long file.
        assert_eq!(change["known"], if number == 0 { "compared" } else { "noted" }, "{change}");
        assert_eq!(sums(&change), expected, "{change}");
    }
    let versions = answer(&server, &format!("{FILE}?as=versions"));
    let five = versions["versions"][2]["version"].as_str().unwrap();
    let restored = ask(&server, &format!("POST {FILE}?as=restore&version={five}"), "", b"");
    assert_eq!((restored.status, world.read("photos/a").len()), (204, 27));
    assert_eq!(listed(&server)["kept"].as_u64().map(|kept| kept < 27), Some(true));
}

#[test]
fn a_note_counts_for_its_version_alone_and_no_sync_takes_it_along() {
    let world = World::new();
    let server = Server::start(&world, "--versions 2");
    world.write("src/a", "one line");
    server.ok("sync -a src/ URL/photos/");
    world.write("src/a", "one line more");
    server.ok("sync -aX src/ URL/photos/");
    assert_eq!(sums(&listed(&server)), [8, 0, 5]);
    // A rename keeps the note; a copy by a sync with attributes does not have it.
    let moved = ask(&server, &format!("POST {FILE}?as=move&to=b"), "", b"");
    assert_eq!(moved.status, 201);
    let page = answer(&server, "/v1/volumes/photos/tree/?changes=true");
    assert_eq!(sums(&page["entries"][0]["change"]), [8, 0, 5]);
    assert_eq!(answer(&server, "/v1/volumes/photos/tree/")["entries"][0]["change"], Value::Null);
    server.ok("sync -aX URL/photos/ copy/");
    let notes = |path: &str| {
        let mut bytes = [0; 512];
        rustix::fs::getxattr(world.path(path), "user.deltic.change", &mut bytes).ok()
    };
    assert!(notes("photos/b").is_some());
    assert_eq!(notes("copy/b"), None);
    // A client cannot forge a note, and a sync with attributes does not remove one.
    rustix::fs::setxattr(
        world.path("src/a"),
        "user.deltic.change",
        b"forged",
        rustix::fs::XattrFlags::empty(),
    )
    .unwrap();
    assert_eq!(ask(&server, "POST /v1/volumes/photos/files/b?as=move&to=a", "", b"").status, 201);
    server.ok("sync -aX src/ URL/photos/");
    assert_eq!(sums(&listed(&server)), [8, 0, 5]);
    // Another program writes to the file.
    world.write("photos/a", "by a program");
    assert_eq!(listed(&server), Value::Null);
}

#[test]
fn versions_that_are_gone_or_foreign_are_refused_and_guests_learn_no_names() {
    let world = World::new();
    let server = Server::start(&world, "--versions 1");
    let put = |file: &str, text: &[u8]| {
        let status = ask(&server, &format!("PUT /v1/volumes/photos/files/{file}"), "", text).status;
        assert!([201, 204].contains(&status));
    };
    for text in ["one", "one two", "one two three"] {
        put("a", text.as_bytes());
        put("dir/b", text.as_bytes());
    }
    let id = |file: &str| {
        let versions = answer(&server, &format!("/v1/volumes/photos/files/{file}?as=versions"));
        versions["versions"][0]["version"].as_str().unwrap().to_owned()
    };
    let status =
        |query: &str| ask(&server, &format!("GET {FILE}?as=changes{query}"), "", b"").status;
    let (own, foreign) = (id("a"), id("dir/b"));
    assert_eq!(status(&format!("&version={own}")), 200);
    for query in [format!("&version={foreign}"), format!("&from={foreign}")] {
        assert_eq!(status(&query), 404, "{query}");
    }
    for query in ["&version=x", "&from=-1", "&from="] {
        assert_eq!(status(query), 400, "{query}");
    }
    assert_eq!(ask(&server, "GET /v1/volumes/photos/files/c?as=changes", "", b"").status, 404);
    // The version is pruned while somebody looks at it.
    put("a", b"four");
    assert_eq!(status(&format!("&version={own}")), 404);
    assert_eq!(status(&format!("&from={own}")), 404);
    assert_eq!(status(""), 200);

    let guest = server.add_token("--ro --volume photos --path dir guest");
    let told = |what: &str| {
        let answer = ask_as(&server, &guest, (&format!("GET /v1/volumes/photos/{what}"), ""), b"");
        assert_eq!(answer.status, 200, "{answer:?}");
        serde_json::from_slice::<Value>(&answer.body).unwrap()
    };
    let change = told("tree/dir?changes=true")["entries"][0]["change"].take();
    assert_eq!((sums(&change), &change["by"]), ([7, 0, 6], &Value::Null));
    assert_eq!(told("files/dir/b?as=changes")["by"], Value::Null);
    let hidden = ask_as(&server, &guest, (&format!("GET {FILE}?as=changes"), ""), b"");
    assert_eq!(hidden.status, 404);
}
