//! Tests of all requests in this process: malformed requests, and the description of the API.

mod tenants;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::net::Ipv4Addr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{Method, Request, Response, StatusCode, header};
use deltic_carrier::SOCKET_PATH;
use deltic_core::ChunkerSpec;
use deltic_core::format::{delta, recipe};
use deltic_tree::path::printable;
use http_body_util::BodyExt;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};

use super::{OPENAPI, Uploads};
use crate::server::admission::Peer;
use crate::server::config::Config;
use crate::server::{prepare, router, table};
use crate::token::{Token, new_token};

const CHILD: &str = "DELTIC_TEST_REST";
const FILE: &str = "/v1/volumes/photos/files/dir/file";

/// Runs a test in a process of its own, because a process is confined to its volumes for good.
fn in_a_child(name: &str, test: impl FnOnce(&Path)) {
    if let Some(world) = std::env::var_os(CHILD) {
        return test(Path::new(&world));
    }
    let world = tempfile::tempdir().unwrap();
    for dir in ["photos/dir", "music", "state"] {
        std::fs::create_dir_all(world.path().join(dir)).unwrap();
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    let name = format!("server::rest::tests::{name}");
    let run = child.args(["--exact", &name]).env(CHILD, world.path()).output().unwrap();
    let shown = [run.stdout, run.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(run.status.success() && shown[0].contains("1 passed"), "{shown:#?}");
}

/// A server without a listener.
struct Here {
    service: TowerToHyperService<axum::Router>,
    token: Token,
    peer: Arc<Peer>,
}

impl Here {
    fn new(world: &Path) -> Self {
        let settings = json!({
            "state": world.join("state"),
            "listen": "127.0.0.1:0",
            "limits": { "request_burst": 1_000 },
            "volumes": {
                "photos": { "path": world.join("photos"), "versions": 3, "free_bytes": 0 },
                "music": { "path": world.join("music"), "free_bytes": 0 },
            },
        });
        let config: Config = serde_json::from_value(settings).unwrap();
        let token = new_token();
        let prepared = prepare(&config, Some(&token), None).unwrap();
        let peer = prepared.server.admission.connect(Ipv4Addr::LOCALHOST.into()).into();
        let uploads = Uploads::of(&config.state, 1_000);
        let service = TowerToHyperService::new(router(prepared.server.into(), uploads.into()));
        Self { service, token, peer }
    }

    async fn answer(
        &self,
        (method, path): (Method, &str),
        headers: &[(header::HeaderName, &str)],
        body: Vec<u8>,
    ) -> Response<Body> {
        let mut request = Request::builder().method(method).uri(path);
        request = request.extension(Arc::clone(&self.peer));
        for (name, value) in headers {
            request = request.header(name, *value);
        }
        self.service.call(request.body(Body::from(body)).unwrap()).await.unwrap()
    }

    async fn ask(
        &self,
        what: (Method, &str),
        headers: &[(header::HeaderName, &str)],
        body: Vec<u8>,
    ) -> (StatusCode, Option<Vec<u8>>) {
        let answer = self.answer(what, headers, body).await;
        let status = answer.status();
        (status, answer.into_body().collect().await.ok().map(|body| body.to_bytes().to_vec()))
    }

    async fn known(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> (StatusCode, Option<Vec<u8>>) {
        let bearer = format!("Bearer {}", self.token.reveal());
        let headers = [(header::AUTHORIZATION, &*bearer), (header::IF_MATCH, "*")];
        self.ask((method, path), &headers, body).await
    }
}

/// Checks that an error has the form of RFC 9457, if the method has a body.
async fn assert_problem(answer: Response<Body>, what: &str) {
    let status = answer.status();
    if status.is_success() {
        return;
    }
    let kind = answer.headers().get(header::CONTENT_TYPE).cloned();
    assert!(kind.is_some_and(|kind| kind == "application/problem+json"), "{what}: {status}");
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    if what.starts_with("HEAD ") {
        return;
    }
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(body["status"], status.as_u16(), "{what}");
    assert!(body["detail"].as_str().is_some_and(|detail| detail.len() > 5), "{what}: {body}");
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn the_description_names_every_request_and_every_request_that_it_names_is_answered() {
    let described: Value = serde_json::from_str(OPENAPI).unwrap();
    let paths = described["paths"].as_object().unwrap();
    let named: BTreeSet<_> = paths.keys().cloned().collect();
    let plain = |path: &str| path.trim_end_matches('/').replace("{*path}", "{path}");
    let routed: BTreeSet<_> = table().map(|(path, _)| plain(path)).collect();
    assert_eq!(named, routed);
    in_a_child(
        "the_description_names_every_request_and_every_request_that_it_names_is_answered",
        |world| {
            let here = Here::new(world);
            runtime().block_on(async {
                for (path, methods) in paths {
                    let at = path
                        .replace("{volume}", "photos")
                        .replace("{path}", "dir/file")
                        .replace("{id}", "0?at=0");
                    for method in ["GET", "HEAD", "PUT", "POST", "DELETE", "PATCH"] {
                        // A path that answers GET also answers HEAD.
                        let is_get = method == "HEAD" && methods.get("get").is_some();
                        let is_named = is_get || methods.get(method.to_lowercase()).is_some();
                        let wanted = match is_named {
                            // A stream is visible only to the token that opened it.
                            true if path == "/v1/streams/{id}" => StatusCode::NOT_FOUND,
                            // These paths need no token, and reveal nothing.
                            true if path == "/healthz" => StatusCode::OK,
                            true if path == SOCKET_PATH => StatusCode::UPGRADE_REQUIRED,
                            true => StatusCode::UNAUTHORIZED,
                            false => StatusCode::METHOD_NOT_ALLOWED,
                        };
                        let ask = (method.parse().unwrap(), &*at);
                        let answer = here.answer(ask, &[], Vec::new()).await;
                        assert_eq!(answer.status(), wanted, "{method} {path}");
                        assert_eq!(
                            answer.headers().contains_key(header::ALLOW),
                            wanted == StatusCode::METHOD_NOT_ALLOWED,
                            "{method} {path}"
                        );
                        assert_problem(answer, &format!("{method} {path}")).await;
                    }
                }
                let (status, body) = here.known(Method::GET, "/v1/openapi.json", Vec::new()).await;
                assert_eq!(
                    (status, body.unwrap().as_slice()),
                    (StatusCode::OK, OPENAPI.as_bytes())
                );
            });
        },
    );
}

#[test]
fn every_error_is_a_problem_document() {
    in_a_child("every_error_is_a_problem_document", |world| {
        let here = Here::new(world);
        let volume = "/v1/volumes/photos";
        let token = format!("Bearer {}", here.token.reveal());
        runtime().block_on(async {
            for (what, wanted) in [
                ("GET /v1/none".into(), 404),
                ("POST /v1/none".into(), 404),
                ("POST /none".into(), 405),
                ("TRACE /v1/tokens".into(), 405),
                (format!("GET {volume}/tree?limit=x"), 400),
                (format!("GET {volume}/tree?limit=-1"), 400),
                (format!("GET {volume}/tree/%ff"), 400),
                (format!("GET {volume}/files/%ff"), 400),
                ("GET /v1/volumes/%ff/tree".into(), 400),
                ("GET /v1/volumes/%ff/events".into(), 400),
                (format!("POST {volume}/tree/%ff"), 400),
                (format!("GET {volume}/files/dir?as=x"), 400),
                (format!("GET {volume}/files/none"), 404),
                (format!("DELETE {volume}/files/none"), 428),
                ("DELETE /v1/tokens/%ff".into(), 400),
                ("DELETE /v1/tokens/0".into(), 404),
                ("GET /v1/streams/0".into(), 400),
                ("GET /v1/streams/0?at=-1".into(), 400),
                ("POST /v1/streams/0?at=0&end=x".into(), 400),
                ("POST /v1/streams".into(), 400),
                ("POST /v1/tickets".into(), 400),
                ("POST /v1/tokens".into(), 400),
            ] {
                let (method, path) = what.split_once(' ').unwrap();
                let headers = [(header::AUTHORIZATION, &*token)];
                let ask = (method.parse().unwrap(), path);
                let answer = here.answer(ask, &headers, Vec::new()).await;
                assert_eq!(answer.status().as_u16(), wanted, "{what}");
                assert_problem(answer, &what).await;
            }
        });
    });
}

#[test]
fn a_long_directory_is_listed_by_pages_whatever_its_names() {
    in_a_child("a_long_directory_is_listed_by_pages_whatever_its_names", |world| {
        let names: [&[u8]; 7] =
            [b"a", b"a b", b"a\\b", b"c\x07", b"d\xff", "\u{e4}&?".as_bytes(), b"\xff\xfe"];
        for name in names {
            let at = world.join("photos/dir").join(OsStr::from_bytes(name));
            std::fs::write(at, "x").unwrap();
        }
        let here = Here::new(world);
        runtime().block_on(async {
            for limit in 1..=8 {
                let (mut seen, mut after, mut more) = (Vec::new(), String::new(), true);
                while more {
                    assert!(seen.len() < names.len(), "{limit}: {seen:?}");
                    let hex = after.bytes().map(|byte| format!("%{byte:02x}"));
                    let path = format!(
                        "/v1/volumes/photos/tree/dir?limit={limit}&after={}",
                        hex.collect::<String>()
                    );
                    let (status, body) = here.known(Method::GET, &path, Vec::new()).await;
                    assert_eq!(status, StatusCode::OK, "{path}");
                    let page: Value = serde_json::from_slice(&body.unwrap()).unwrap();
                    let entries = page["entries"].as_array().unwrap();
                    assert!(!entries.is_empty() && entries.len() <= limit, "{path}: {page}");
                    seen.extend(
                        entries.iter().map(|entry| entry["name"].as_str().unwrap().to_owned()),
                    );
                    after = seen.last().unwrap().clone();
                    more = page["more"].as_bool().unwrap();
                }
                assert_eq!(seen, names.map(printable), "{limit}");
            }
            // The last name of a page may be removed before the next page is asked for.
            let (_, body) = here
                .known(Method::GET, "/v1/volumes/photos/tree/dir?limit=1&after=b", Vec::new())
                .await;
            let page: Value = serde_json::from_slice(&body.unwrap()).unwrap();
            assert_eq!(page["entries"][0]["name"], "c\\u{7}");
        });
    });
}

#[test]
fn a_page_of_a_directory_is_sent_again_when_it_changed() {
    in_a_child("a_page_of_a_directory_is_sent_again_when_it_changed", |world| {
        let file = world.join("photos/dir/file");
        std::fs::write(&file, "x").unwrap();
        let here = Here::new(world);
        let token = format!("Bearer {}", here.token.reveal());
        runtime().block_on(async {
            let list = async |tag: &str| {
                let ask = (Method::GET, "/v1/volumes/photos/tree/dir");
                let headers = [(header::AUTHORIZATION, &*token), (header::IF_NONE_MATCH, tag)];
                let answer = here.answer(ask, &headers, Vec::new()).await;
                let tag = answer.headers()[header::ETAG].to_str().unwrap().to_owned();
                (answer.status(), tag)
            };
            let (status, first) = list("\"other\"").await;
            assert_eq!(status, StatusCode::OK);
            assert_eq!(list(&first).await, (StatusCode::NOT_MODIFIED, first.clone()));
            std::fs::write(&file, "xy").unwrap();
            let (status, second) = list(&first).await;
            assert_eq!((status, second == first), (StatusCode::OK, false));
        });
    });
}

/// Bytes that look random, from a seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }

    /// Changes some of the bytes.
    fn mutate(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        for _ in 0..=self.roll(3) {
            let (at, byte) = (self.roll(bytes.len().max(1)), self.roll(256) as u8);
            match self.roll(6) {
                _ if bytes.is_empty() => bytes.push(byte),
                // Most of the interesting bytes are at both ends.
                0 => bytes[at.min(60)] = byte,
                1 => bytes[at] ^= 1 << (byte % 8),
                2 => bytes.truncate(at),
                3 => bytes.insert(at, byte),
                4 => drop(bytes.remove(at)),
                _ => bytes.extend_from_within(at..),
            }
        }
        bytes
    }
}

#[test]
fn ten_thousand_garbled_signatures_and_deltas_do_no_harm() {
    in_a_child("ten_thousand_garbled_signatures_and_deltas_do_no_harm", |world| {
        let here = Here::new(world);
        let at = world.join("photos/dir/file");
        let mut dice = Dice(1);
        let old: Vec<u8> = (0..40_000).map(|_| dice.roll(256) as u8).collect();
        let mut new = old.clone();
        new.splice(20_000..20_000, *b"something new");
        let (mut signature, mut patch) = (Vec::new(), Vec::new());
        let mut writer = recipe::RecipeWriter::new(&ChunkerSpec::for_len(40_000), &mut signature);
        writer.push(&old, &mut signature).unwrap();
        writer.finish(&mut signature).unwrap();
        let mut reader = recipe::RecipeReader::new(1_000);
        reader.feed(&signature).unwrap();
        let mut writer = delta::DeltaWriter::new(reader.finish().unwrap(), &mut patch);
        writer.push(&new, &mut patch).unwrap();
        writer.finish(&mut patch).unwrap();
        std::fs::write(&at, &old).unwrap();
        runtime().block_on(async {
            for nth in 0..5_000 {
                let body = dice.mutate(&patch);
                let (status, _) = here.known(Method::POST, &format!("{FILE}?as=patch"), body).await;
                let is = std::fs::read(&at).unwrap();
                match status.as_u16() {
                    // The changed delta still describes the same new version.
                    204 => assert_eq!(is, new, "{nth}"),
                    400 | 412 | 413 => assert_eq!(is, old, "{nth}: {status}"),
                    _ => panic!("{nth}: {status}"),
                }
                if status == StatusCode::NO_CONTENT {
                    std::fs::write(&at, &old).unwrap();
                }
                let body = dice.mutate(&signature);
                for form in ["delta", "match"] {
                    let at = format!("{FILE}?as={form}");
                    let (status, _) = here.known(Method::POST, &at, body.clone()).await;
                    assert!([200, 400].contains(&status.as_u16()), "{nth}: {status}");
                }
            }
            let (status, _) = here.known(Method::POST, &format!("{FILE}?as=patch"), patch).await;
            assert_eq!(status, StatusCode::NO_CONTENT);
        });
        assert_eq!(std::fs::read(&at).unwrap(), new);
        assert!(!world.join("photos/.deltic").exists());
    });
}
