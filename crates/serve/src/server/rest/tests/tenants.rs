//! Tests of tokens made by other tokens, of tickets, and of the separation between tenants.

use std::io::Read;

use super::*;

/// Starts a server with two tenants. The returned token is for `photos/dir`; `music` belongs to the other tenant.
fn two_tenants(world: &Path) -> (Here, tokio::runtime::Runtime, String) {
    for (path, text) in [
        ("photos/dir/file", "own"),
        ("photos/directory/file", "foreign"),
        ("photos/out/file", "foreign"),
        ("music/dir/file", "foreign"),
    ] {
        let path = world.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let (here, runtime) = (Here::new(world), runtime());
    let wanted = json!({
        "name": "tenant", "volumes": ["photos"], "path": "dir", "write": true, "delete": true,
    });
    let token = runtime.block_on(here.mint(&here.token.reveal(), &wanted));
    (here, runtime, token)
}

impl Here {
    async fn by(
        &self,
        token: &str,
        (method, path): (&str, &str),
        body: &[u8],
    ) -> (StatusCode, Vec<u8>) {
        let (bearer, len) = (format!("Bearer {token}"), body.len().to_string());
        let headers = [
            (header::AUTHORIZATION, &*bearer),
            (header::IF_MATCH, "*"),
            (header::CONTENT_LENGTH, &*len),
        ];
        let ask = (method.parse().unwrap(), path);
        let (status, body) = self.ask(ask, &headers, body.to_vec()).await;
        (status, body.unwrap())
    }

    async fn json(&self, token: &str, what: (&str, &str), body: &Value) -> (u16, Value) {
        let (status, body) = self.by(token, what, body.to_string().as_bytes()).await;
        (status.as_u16(), serde_json::from_slice(&body).unwrap_or_default())
    }

    async fn mint(&self, token: &str, wanted: &Value) -> String {
        let (status, made) = self.json(token, ("POST", "/v1/tokens"), wanted).await;
        assert_eq!(status, 201, "{made}");
        made["token"].as_str().unwrap().to_owned()
    }
}

/// Addresses of a route at which a tenant would reach foreign files, each paired with an address where nothing
/// exists.
fn foreign(route: &str, method: &str) -> Vec<(String, String)> {
    let pair = |one: String, other: String| (one, other);
    let places = [("photos", "out"), ("photos", "directory"), ("music", "dir")];
    let at = |what: &str, end: &str| -> Vec<_> {
        let one = |(volume, dir)| {
            let missing = if volume == "music" { ("none", dir) } else { (volume, "nothing") };
            let path =
                |(volume, dir): (&str, &str)| format!("/v1/volumes/{volume}/{what}/{dir}{end}");
            pair(path((volume, dir)), path(missing))
        };
        places.into_iter().map(one).collect()
    };
    match (route, method) {
        // These routes name no tenant, and answer with the client's own data.
        ("/healthz" | "/v1/openapi.json" | "/v1/volumes", "get") => Vec::new(),
        // Only an administrator is answered: `an_administrator_sees_all_tokens_and_nobody_else_does`.
        ("/v1/server", "get") => Vec::new(),
        // The volume is named in messages over the socket: `a_websocket_tells_a_tenant_nothing_of_others` of the
        // command's tests.
        (SOCKET_PATH, "get") => Vec::new(),
        // A session is of the client's own token: `the_printed_token_is_traded_for_one_that_outlives_the_server` of the
        // command's tests.
        ("/v1/session", "post" | "delete") => Vec::new(),
        // The bodies name the volume: `what_clients_make_for_others_is_no_more_than_they_have`.
        ("/v1/tokens", "get" | "post") | ("/v1/tickets" | "/v1/streams", "post") => Vec::new(),
        ("/v1/streams/{id}", "get" | "post" | "delete") => {
            vec![pair("/v1/streams/STREAM?at=0".into(), "/v1/streams/0?at=0".into())]
        }
        ("/v1/volumes/{volume}/events", "get") => {
            vec![pair("/v1/volumes/music/events".into(), "/v1/volumes/none/events".into())]
        }
        ("/v1/volumes/{volume}/uploads/{id}", "head" | "patch" | "delete") => {
            vec![pair("/v1/volumes/music/uploads/0".into(), "/v1/volumes/none/uploads/0".into())]
        }
        ("/v1/tokens/{id}", "delete") => {
            vec![pair("/v1/tokens/FOREIGN".into(), "/v1/tokens/000000000000".into())]
        }
        ("/v1/volumes/{volume}/tree", "get") => vec![
            pair("/v1/volumes/music/tree".into(), "/v1/volumes/none/tree".into()),
            pair("/v1/volumes/photos/tree".into(), "/v1/volumes/none/tree".into()),
            pair("/v1/volumes/photos/tree/".into(), "/v1/volumes/none/tree/".into()),
        ],
        ("/v1/volumes/{volume}/tree", "post") => ["music", "photos"]
            .map(|volume| {
                let of = |volume| format!("/v1/volumes/{volume}/tree?as=restore&at=9&delete=true");
                pair(of(volume), of("none"))
            })
            .into(),
        ("/v1/volumes/{volume}/tree/{path}", "get") => {
            let forms = ["", "?changes=true", "?as=search&name=f", "?as=versions", "?at=9"];
            forms.iter().flat_map(|form| at("tree", form)).collect()
        }
        ("/v1/volumes/{volume}/tree/{path}", "post") => {
            ["", "?as=restore&at=9"].iter().flat_map(|form| at("tree", form)).collect()
        }
        ("/v1/volumes/{volume}/contents", "post") => {
            vec![pair("/v1/volumes/music/contents".into(), "/v1/volumes/none/contents".into())]
        }
        ("/v1/volumes/{volume}/files", "post") => {
            vec![pair("/v1/volumes/music/files".into(), "/v1/volumes/none/files".into())]
        }
        ("/v1/volumes/{volume}/uploads", "get") => {
            vec![pair("/v1/volumes/music/uploads".into(), "/v1/volumes/none/uploads".into())]
        }
        ("/v1/volumes/{volume}/files/{path}", method) => {
            let own = "/v1/volumes/photos/files/dir/file?as=move&to=";
            let forms: &[&str] = match method {
                "get" | "head" => &[
                    "",
                    "?as=signature",
                    "?as=versions",
                    "?as=zip",
                    "?as=zip&at=9",
                    "?as=changes",
                    "?version=1",
                ],
                "put" | "delete" => &[""],
                "post" => &[
                    "?as=patch",
                    "?as=delta",
                    "?as=match",
                    "?as=restore&version=1",
                    "?as=move&to=dir/x",
                ],
                _ => panic!("{method} {route}: which of its addresses are another tenant's?"),
            };
            let ends = forms.iter().map(|form| format!("/file{form}"));
            let mut all: Vec<_> = ends.flat_map(|end| at("files", &end)).collect();
            if method == "post" {
                all.push(pair(format!("{own}out/file"), format!("{own}nothing/file")));
            }
            all
        }
        _ => panic!("{method} {route}: which of its addresses are another tenant's?"),
    }
}

#[test]
fn no_request_tells_a_tenant_whether_another_has_something() {
    in_a_child("tenants::no_request_tells_a_tenant_whether_another_has_something", |world| {
        let (here, runtime, tenant) = two_tenants(world);
        let described: Value = serde_json::from_str(OPENAPI).unwrap();
        runtime.block_on(async {
            let all = here.token.reveal();
            let other = here.mint(&all, &json!({ "name": "other" })).await;
            let other: Token = other.parse().unwrap();
            let id = &other.hash().to_string()[..12];
            let wanted = json!({ "volume": "photos" });
            let (_, stream) = here.json(&all, ("POST", "/v1/streams"), &wanted).await;
            let stream = stream["stream"].as_str().unwrap().to_owned();
            for (route, methods) in described["paths"].as_object().unwrap() {
                let methods = methods.as_object().unwrap().keys();
                for method in methods.filter(|key| *key != "parameters") {
                    for (there, missing) in foreign(route, method) {
                        let there = there.replace("FOREIGN", id).replace("STREAM", &stream);
                        let verb = method.to_uppercase();
                        let met = here.by(&tenant, (&verb, &there), b"x").await;
                        let not_met = here.by(&tenant, (&verb, &missing), b"x").await;
                        assert_eq!(met.0, StatusCode::NOT_FOUND, "{verb} {there}");
                        assert_eq!(met, not_met, "{verb} {there}, {missing}");
                    }
                }
            }
            assert!(here.by(&tenant, ("GET", FILE), b"").await.1 == b"own");
            let (status, _) = here.by(&other.reveal(), ("GET", "/v1/volumes"), b"").await;
            assert_eq!(status, StatusCode::OK, "the other token still counts");
        });
        for file in ["photos/directory/file", "photos/out/file", "music/dir/file"] {
            assert_eq!(std::fs::read(world.join(file)).unwrap(), b"foreign", "{file}");
        }
        assert!(!world.join("photos/nothing").exists());
    });
}

#[test]
fn what_clients_make_for_others_is_no_more_than_they_have() {
    in_a_child("tenants::what_clients_make_for_others_is_no_more_than_they_have", |world| {
        let (here, runtime, tenant) = two_tenants(world);
        runtime.block_on(async {
            let mint = async |token: &str, wanted: Value| {
                here.json(token, ("POST", "/v1/tokens"), &wanted).await
            };
            for (more, status) in [
                (json!({ "volumes": ["music"] }), 404),
                (json!({ "volumes": ["none"] }), 404),
                (json!({ "path": "out" }), 404),
                (json!({ "path": "directory" }), 404),
                (json!({ "path": "../out" }), 400),
                (json!({ "name": "" }), 400),
                (json!({ "admin": true }), 400),
                (json!({ "quota_bytes": -1 }), 400),
            ] {
                let mut wanted = json!({ "name": "more" });
                wanted.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
                assert_eq!(mint(&tenant, wanted.clone()).await.0, status, "{wanted}");
            }
            let wanted = json!({ "name": "reader", "path": "dir/sub", "expires_in": 3600 });
            let (_, made) = mint(&tenant, wanted).await;
            let reader = made["token"].as_str().unwrap().to_owned();
            assert_eq!(
                [&made["read"], &made["write"], &made["delete"], &made["path"]],
                [&json!(true), &json!(false), &json!(false), &json!("dir/sub")]
            );
            let right = json!({ "name": "writer", "write": true });
            assert_eq!(mint(&reader, right).await.0, 403);
            let (_, child) = mint(&reader, json!({ "name": "c", "expires_in": 1_u64 << 40 })).await;
            assert_eq!(child["expires"], made["expires"]);
            let child = child["token"].as_str().unwrap().to_owned();
            // Each token is visible only to the tokens above it.
            let listed = async |token: &str| {
                let (_, listed) = here.json(token, ("GET", "/v1/tokens"), &json!(null)).await;
                listed["tokens"].as_array().unwrap().len()
            };
            assert_eq!(
                [listed(&tenant).await, listed(&reader).await, listed(&child).await],
                [2, 1, 0]
            );
            let revoke = async |token: &str, id: &str| {
                here.by(token, ("DELETE", &format!("/v1/tokens/{id}")), b"").await.0.as_u16()
            };
            let id = made["id"].as_str().unwrap();
            assert_eq!(revoke(&child, id).await, 404);
            assert_eq!(revoke(&reader, id).await, 404);
            let volumes =
                async |token: &str| here.by(token, ("GET", "/v1/volumes"), b"").await.0.as_u16();
            assert_eq!(volumes(&child).await, 200);
            assert_eq!(revoke(&tenant, id).await, 204);
            assert_eq!([volumes(&reader).await, volumes(&child).await], [401, 401]);
            // The most generations that are allowed.
            let mut last = tenant.clone();
            for generation in 3..=8 {
                last = here.mint(&last, &json!({ "name": format!("{generation}") })).await;
            }
            assert_eq!(volumes(&last).await, 200);
            assert_eq!(mint(&last, json!({ "name": "9" })).await.0, 409);
        });
    });
}

#[test]
fn a_ticket_reads_one_file_once() {
    in_a_child("tenants::a_ticket_reads_one_file_once", |world| {
        let (here, runtime, tenant) = two_tenants(world);
        runtime.block_on(async {
            let issue = async |volume: &str, path: &str| {
                let file = json!({ "volume": volume, "path": path });
                let (status, made) = here.json(&tenant, ("POST", "/v1/tickets"), &file).await;
                (status, made["ticket"].as_str().unwrap_or_default().to_owned())
            };
            for (volume, path) in [("photos", "out/file"), ("music", "dir/file"), ("none", "file")]
            {
                assert_eq!(issue(volume, path).await.0, 404, "{volume}/{path}");
            }
            let get = async |method: Method, address: String| {
                here.ask((method, &address), &[(header::IF_MATCH, "*")], Vec::new()).await
            };
            let (status, ticket) = issue("photos", "dir/file").await;
            assert_eq!(status, 201);
            let refused = StatusCode::UNAUTHORIZED;
            let mut other =
                vec![(Method::GET, format!("/v1/volumes/photos/files/out/file?ticket={ticket}"))];
            for (method, form) in [
                (Method::HEAD, ""),
                (Method::PUT, ""),
                (Method::DELETE, ""),
                (Method::POST, "&as=patch"),
                (Method::GET, "&as=versions"),
            ] {
                other.push((method, format!("{FILE}?ticket={ticket}{form}")));
            }
            for (method, address) in other {
                assert_eq!(
                    get(method.clone(), address.clone()).await.0,
                    refused,
                    "{method} {address}"
                );
            }
            let whole = format!("{FILE}?ticket={ticket}");
            let (status, body) = get(Method::GET, whole.clone()).await;
            assert_eq!((status, body.unwrap().as_slice()), (StatusCode::OK, &b"own"[..]));
            assert_eq!(get(Method::GET, whole).await.0, refused);
            assert_eq!(get(Method::GET, format!("{FILE}?ticket=x")).await.0, refused);
            // A ticket ends with the token that asked for it.
            let (_, ticket) = issue("photos", "dir/file").await;
            let id = tenant.parse::<Token>().unwrap().hash().to_string();
            let all = here.token.reveal();
            let (gone, _) = here.by(&all, ("DELETE", &format!("/v1/tokens/{id}")), b"").await;
            assert_eq!(gone, StatusCode::NO_CONTENT);
            assert_eq!(get(Method::GET, format!("{FILE}?ticket={ticket}")).await.0, refused);
        });
    });
}

#[test]
fn an_administrator_sees_all_tokens_and_nobody_else_does() {
    in_a_child("tenants::an_administrator_sees_all_tokens_and_nobody_else_does", |world| {
        let (here, runtime, tenant) = two_tenants(world);
        runtime.block_on(async {
            let link = json!({ "name": "link", "path": "dir/sub", "share": false });
            let link = here.mint(&tenant, &link).await;
            let describe = ("GET", "/v1/server");
            assert_eq!(here.by(&tenant, describe, b"").await.0, StatusCode::FORBIDDEN);
            assert_eq!(here.by(&link, describe, b"").await.0, StatusCode::FORBIDDEN);
            let admin = here.token.reveal();
            let (status, told) = here.json(&admin, describe, &json!(null)).await;
            assert_eq!(status, 200);
            let tokens = told["tokens"].as_array().unwrap();
            let of = |name: &str| tokens.iter().find(|token| token["name"] == name).unwrap();
            assert_eq!(of("link")["made_by"], of("tenant")["id"]);
            assert_eq!(
                [&of("link")["share"], &of("link")["connected"]],
                [&json!(false), &json!(0)]
            );
            // A link makes no links, and nobody makes an administrator.
            let (more, _) = here.json(&link, ("POST", "/v1/tokens"), &json!({ "name": "x" })).await;
            assert_eq!(more, 403);
            let revoke = format!("/v1/tokens/{}", of("link")["id"].as_str().unwrap());
            assert_eq!(here.by(&admin, ("DELETE", &revoke), b"").await.0, StatusCode::NO_CONTENT);
            assert_eq!(
                here.by(&link, ("GET", "/v1/volumes"), b"").await.0,
                StatusCode::UNAUTHORIZED
            );
        });
    });
}

#[test]
fn a_directory_moves_with_its_entries_and_replaces_nothing() {
    in_a_child("tenants::a_directory_moves_with_its_entries_and_replaces_nothing", |world| {
        let (here, runtime, tenant) = two_tenants(world);
        std::fs::create_dir_all(world.join("photos/dir/from/in")).unwrap();
        std::fs::write(world.join("photos/dir/from/in/file"), "moved").unwrap();
        std::fs::create_dir(world.join("photos/dir/taken")).unwrap();
        runtime.block_on(async {
            for (to, status) in [
                ("dir/taken", 409),
                ("dir/from/in/x", 409),
                ("dir/from", 409),
                ("out/from", 404),
                ("../from", 400),
                ("dir/new/from", 201),
                ("dir/new/again", 412),
            ] {
                let ask = format!("/v1/volumes/photos/files/dir/from?as=move&to={to}");
                let (found, body) = here.by(&tenant, ("POST", &ask), b"").await;
                assert_eq!(found.as_u16(), status, "{to}: {}", String::from_utf8_lossy(&body));
            }
        });
        let moved = std::fs::read(world.join("photos/dir/new/from/in/file")).unwrap();
        assert_eq!(moved, b"moved");
        assert!(!world.join("photos/dir/from").exists());
    });
}

#[test]
fn a_preview_is_read_many_times_and_has_no_kind_that_runs() {
    in_a_child("tenants::a_preview_is_read_many_times_and_has_no_kind_that_runs", |world| {
        let (here, runtime, tenant) = two_tenants(world);
        for name in ["a.jpg", "a.svg", "a.pdf"] {
            std::fs::write(world.join("photos/dir").join(name), "<script>").unwrap();
        }
        runtime.block_on(async {
            for (name, kind) in [
                ("a.jpg", "image/jpeg"),
                ("a.svg", "text/plain; charset=utf-8"),
                ("a.pdf", "application/octet-stream"),
            ] {
                let path = format!("dir/{name}");
                let wanted = json!({ "volume": "photos", "path": path, "preview": true });
                let (_, made) = here.json(&tenant, ("POST", "/v1/tickets"), &wanted).await;
                let ticket = made["ticket"].as_str().unwrap();
                let address =
                    |path: &str| format!("/v1/volumes/photos/files/{path}?ticket={ticket}");
                for _ in 0..2 {
                    let ask = (axum::http::Method::GET, &*address(&path));
                    let answer =
                        here.answer(ask, &[(header::RANGE, "bytes=1-3")], Vec::new()).await;
                    assert_eq!(answer.status(), StatusCode::PARTIAL_CONTENT);
                    assert_eq!(answer.headers()[header::CONTENT_TYPE], kind, "{name}");
                    assert_eq!(answer.headers()[header::CONTENT_SECURITY_POLICY], "sandbox");
                    assert_eq!(answer.headers()[header::X_CONTENT_TYPE_OPTIONS], "nosniff");
                }
                let other = here.by("none", ("GET", &address("dir/file")), b"").await;
                assert_eq!(other.0, StatusCode::UNAUTHORIZED);
            }
        });
    });
}

#[test]
fn a_directory_is_read_as_an_archive() {
    in_a_child("tenants::a_directory_is_read_as_an_archive", |world| {
        let (here, runtime, tenant) = two_tenants(world);
        std::fs::create_dir_all(world.join("photos/dir/pack/empty")).unwrap();
        let long: Vec<u8> = (0..700_000_u32).map(|at| (at % 251) as u8).collect();
        std::fs::write(world.join("photos/dir/pack/long"), &long).unwrap();
        std::os::unix::fs::symlink("../../out/file", world.join("photos/dir/pack/link")).unwrap();
        let (status, zip) = runtime.block_on(async {
            let wanted = json!({ "volume": "photos", "path": "dir/pack" });
            let (_, made) = here.json(&tenant, ("POST", "/v1/tickets"), &wanted).await;
            let ticket = made["ticket"].as_str().unwrap();
            let ask = format!("/v1/volumes/photos/files/dir/pack?as=zip&ticket={ticket}");
            here.by("none", ("GET", &ask), b"").await
        });
        assert_eq!(status, StatusCode::OK);
        let zip = rawzip::ZipArchive::from_slice(&zip).unwrap();
        let (mut entries, mut members) = (zip.entries(), Vec::new());
        while let Some(entry) = entries.next_entry().unwrap() {
            let name = String::from_utf8(entry.file_path().as_ref().to_vec()).unwrap();
            let content = zip.get_entry(entry.wayfinder()).unwrap();
            let mut bytes = Vec::new();
            content.verifying_reader(content.data()).read_to_end(&mut bytes).unwrap();
            members.push((name, bytes));
        }
        members.sort();
        // The link is left out.
        let names = ["pack/", "pack/empty/", "pack/long"].map(str::to_owned);
        assert!(members.into_iter().eq(names.into_iter().zip([Vec::new(), Vec::new(), long])));
    });
}

#[test]
fn an_upload_in_several_requests_goes_on_where_it_was_and_replaces_only_the_version_it_names() {
    in_a_child(
        "tenants::an_upload_in_several_requests_goes_on_where_it_was_and_replaces_only_the_version_it_names",
        |world| {
            let (here, runtime, tenant) = two_tenants(world);
            let bearer = format!("Bearer {tenant}");
            runtime.block_on(async {
                let ask = async |what: (&str, &str), more: &[(&'static str, &str)], body: &[u8]| {
                    let mut headers = vec![(header::AUTHORIZATION, &*bearer)];
                    for (name, value) in more {
                        headers.push((header::HeaderName::from_static(name), value));
                    }
                    let ask = (what.0.parse().unwrap(), what.1);
                    here.answer(ask, &headers, body.to_vec()).await
                };
                let file = "/v1/volumes/photos/files/dir/parts";
                let begin =
                    [("upload-complete", "?0"), ("upload-length", "10"), ("if-none-match", "*")];
                let begun = ask(("PUT", file), &begin, b"abc").await;
                assert_eq!(begun.status(), StatusCode::CREATED);
                let place = begun.headers()[header::LOCATION].to_str().unwrap().to_owned();
                let at = |answer: &Response<Body>| {
                    answer.headers()["upload-offset"].to_str().unwrap().to_owned()
                };
                assert_eq!(at(&begun), "3");
                let part = |at: &'static str, end: &'static str| {
                    [("upload-offset", at), ("upload-complete", end)]
                };
                let gap = ask(("PATCH", &place), &part("4", "?0"), b"x").await;
                assert_eq!((gap.status(), &*at(&gap)), (StatusCode::CONFLICT, "3"));
                let more = ask(("PATCH", &place), &part("3", "?0"), b"defg").await;
                assert_eq!((more.status(), &*at(&more)), (StatusCode::NO_CONTENT, "7"));
                let looked = ask(("HEAD", &place), &[], b"").await;
                assert_eq!((looked.status(), &*at(&looked)), (StatusCode::NO_CONTENT, "7"));
                let long = ask(("PATCH", &place), &part("7", "?1"), b"hijk").await;
                assert_eq!(long.status(), StatusCode::BAD_REQUEST);
                let early = ask(("PATCH", &place), &part("7", "?1"), b"h").await;
                assert_eq!(early.status(), StatusCode::BAD_REQUEST);
                assert!(!world.join("photos/dir/parts").exists());
                // Another token knows nothing of it, whatever its rights.
                let (other, _) = here.by(&here.token.reveal(), ("HEAD", &place), b"").await;
                assert_eq!(other, StatusCode::NOT_FOUND);
                let last = ask(("PATCH", &place), &part("8", "?1"), b"ij").await;
                assert_eq!(last.status(), StatusCode::CREATED);
                assert!(last.headers().contains_key(header::ETAG));
                assert_eq!(std::fs::read(world.join("photos/dir/parts")).unwrap(), b"abcdefghij");
                assert_eq!(ask(("HEAD", &place), &[], b"").await.status(), StatusCode::NOT_FOUND);
                // What appears meanwhile is not replaced, and an upload that is given up changes nothing.
                assert_eq!(ask(("PUT", file), &begin, b"").await.status(), 412);
                let file = "/v1/volumes/photos/files/dir/late";
                let begun = ask(("PUT", file), &begin, b"").await;
                let place = begun.headers()[header::LOCATION].to_str().unwrap().to_owned();
                std::fs::write(world.join("photos/dir/late"), "other").unwrap();
                let last = ask(("PATCH", &place), &part("0", "?1"), b"0123456789").await;
                assert_eq!(last.status(), StatusCode::PRECONDITION_FAILED);
                assert_eq!(std::fs::read(world.join("photos/dir/late")).unwrap(), b"other");
                let begun = ask(("PUT", "/v1/volumes/photos/files/dir/none"), &begin, b"abc").await;
                let place = begun.headers()[header::LOCATION].to_str().unwrap().to_owned();
                assert_eq!(
                    ask(("DELETE", &place), &[], b"").await.status(),
                    StatusCode::NO_CONTENT
                );
                assert!(!world.join("photos/dir/none").exists());
                assert_eq!(
                    ask(("PUT", "/v1/volumes/photos/files/out/x"), &begin, b"").await.status(),
                    StatusCode::NOT_FOUND
                );
            });
        },
    );
}
