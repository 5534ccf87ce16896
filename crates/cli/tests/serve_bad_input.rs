//! What `deltic serve` makes of pages of other sites, of disks that fill up and of tokens that end in the middle.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread::sleep;
use std::time::Duration;

use crate::common::http::ask;
use crate::common::server::Server;
use crate::common::{Mounted, World, wait_until};

const FILES: &str = "/v1/volumes/photos/files";

/// The status of the answer to a request, whatever follows.
fn status(server: &Server<'_>, head: &str) -> u16 {
    let mut stream = server.connect();
    stream.write_all(head.as_bytes()).expect("it listens");
    status_of(&mut stream)
}

fn status_of(stream: &mut TcpStream) -> u16 {
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        let mut byte = [0];
        match stream.read(&mut byte) {
            Ok(1) => line.push(byte[0]),
            _ => break,
        }
    }
    let line = String::from_utf8_lossy(&line);
    line.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_default()
}

#[test]
fn pages_of_other_sites_get_nothing_whatever_hosts_and_proxies_say() {
    let world = World::new();
    let server = Server::set(&world, "proxies = [\"127.0.0.1\"]");
    let token = server.token();
    let socket = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                  Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: deltic.1\r\n";
    let requests = [
        ("GET /v1/volumes", "", 200),
        ("GET /v1/volumes/photos/events", "", 200),
        ("PUT /v1/volumes/photos/files/empty", "Content-Length: 0\r\n", 204),
        ("POST /v1/streams", "Content-Length: 0\r\n", 400),
        ("GET /v1/streams/0?at=0", "", 404),
        ("GET /v1/volumes/photos/files/empty?ticket=x", "", 401),
        ("GET /v1/ws", socket, 101),
    ];
    assert_eq!(ask(&server, &format!("PUT {FILES}/empty"), "", b"").status, 201);
    // Hosts, origins, and whether the origin is that of the host.
    let pages = [
        ("Host: nas.example:8420", "", true),
        ("Host: nas.example:8420", "Origin: http://nas.example:8420", true),
        ("Host: nas.example", "Origin: https://NAS.example", true),
        ("Host: [::1]:8420", "Origin: http://[::1]:8420", true),
        ("Host: nas.example:8420", "Origin: http://nas.example", false),
        ("Host: nas.example:8420", "Origin: http://nas.example:8421", false),
        ("Host: nas.example", "Origin: http://nas.example.evil.example", false),
        ("Host: nas.example", "Origin: http://evil.example/nas.example", false),
        ("Host: nas.example", "Origin: http://me@nas.example", false),
        ("Host: nas.example", "Origin: file://nas.example", false),
        ("Host: nas.example", "Origin: null", false),
        ("Host: nas.example", "Origin:", false),
        ("Host:", "Origin: http://", false),
        ("X-None: x", "Origin: http://nas.example", false),
        ("Host: nas.example", "Origin: http://nas.example\r\nOrigin: http://evil.example", false),
        ("Host: back.example", "Origin: http://nas.example\r\nSec-Fetch-Site: same-site", false),
        (
            "Host: back.example",
            "Origin: http://evil.example\r\nSec-Fetch-Site: cross-site\r\nSec-Fetch-Site: same-origin",
            false,
        ),
    ];
    let proxies = [
        "",
        "X-Forwarded-Host: evil.example\r\nX-Forwarded-Proto: https\r\n",
        "Forwarded: for=192.0.2.1;host=evil.example;proto=http\r\nX-Forwarded-For: 192.0.2.1\r\n",
        "X-Forwarded-For: 192.0.2.1, 127.0.0.1\r\nX-Real-IP: 127.0.0.1\r\nVia: 1.1 evil.example\r\n",
    ];
    for (what, more, wanted) in requests {
        for (host, origin, is_own) in pages {
            for proxy in proxies {
                let origin =
                    if origin.is_empty() { String::new() } else { format!("{origin}\r\n") };
                let head = format!(
                    "{what} HTTP/1.1\r\n{host}\r\n{origin}{proxy}Authorization: Bearer {token}\r\n{more}\r\n"
                );
                let wanted = if is_own { wanted } else { 403 };
                assert_eq!(status(&server, &head), wanted, "{head}");
            }
            let evil = origin.to_lowercase().replace("nas.example", "evil.example");
            let evil = evil.replace("[::1]", "[::2]");
            if is_own && !evil.is_empty() {
                let head = format!(
                    "{what} HTTP/1.1\r\n{host}\r\n{evil}\r\nX-Forwarded-Host: evil.example\r\n\
                     Authorization: Bearer {token}\r\n{more}\r\n"
                );
                assert_eq!(status(&server, &head), 403, "{head}");
            }
        }
        let head = format!(
            "{what} HTTP/1.1\r\nHost: nas.example\r\nHost: evil.example\r\nOrigin: http://nas.example\r\n\
             Authorization: Bearer {token}\r\n{more}\r\n"
        );
        assert_eq!(status(&server, &head), 400, "{head}");
        // A proxy replaced the host, and the browser vouches for the page.
        let head = format!(
            "{what} HTTP/1.1\r\nHost: back.example\r\nOrigin: http://nas.example\r\n\
             Sec-Fetch-Site: same-origin\r\nAuthorization: Bearer {token}\r\n{more}\r\n"
        );
        assert_eq!(status(&server, &head), wanted, "{head}");
    }
}

/// A small disk as the volume.
fn small_disk(world: &World) -> Option<Mounted<'_>> {
    let mount = ("mount", &["-t", "tmpfs", "-o", "size=2m", "tmpfs", "photos"][..]);
    Mounted::by((world, "photos"), mount, "no small disk can be mounted here")
}

#[test]
fn a_disk_that_fills_in_the_middle_leaves_all_as_it_was() {
    let world = World::new();
    let Some(_disk) = small_disk(&world) else { return };
    let server = Server::set_volume(&world, "free_bytes = 0", "");
    let put = |name: &str, len: usize| {
        ask(&server, &format!("PUT {FILES}/{name}"), "", &vec![7; len]).status
    };
    assert_eq!(put("file", 200_000), 201);
    assert_eq!(put("file", 3_000_000), 507);
    // It fills while an upload is under way.
    let (len, half) = (1_200_000, 600_000);
    let mut stream = server.upload(server.token(), ("file", len), &vec![8; half]);
    let taken = || {
        let df = world.command("df", ["--output=used", "-B1", "photos"]).output().expect("it runs");
        let shown = String::from_utf8_lossy(&df.stdout).into_owned();
        shown.lines().nth(1).and_then(|used| used.trim().parse::<usize>().ok()).expect("a number")
    };
    wait_until("much of it is on the disk", || taken() >= 200_000 + half / 2);
    let filler = std::fs::File::create(world.path("photos/filler")).expect("there is room");
    let fill = || while (&filler).write_all(&[1; 4096]).is_ok() {};
    fill();
    let _ = stream.write_all(&vec![8; len - half]);
    assert_eq!(status_of(&mut stream), 507);
    assert!(world.read("photos/file") == vec![7; 200_000]);
    server.wait_for_no_staging();
    // A sync names what has no room.
    fill();
    world.write("a/big", vec![9; 1_000_000]);
    world.write("a/file", vec![9; 200_000]);
    server.fails(23, "sync -a a/ URL/photos/", "no space");
    assert!(world.read("photos/file") == vec![7; 200_000]);
    drop(filler);
    std::fs::remove_file(world.path("photos/filler")).expect("it is there");
    server.ok("sync -a a/ URL/photos/");
    assert!(world.read("photos/file") == vec![9; 200_000]);
    assert_eq!(put("file", 300_000), 204);
}

#[test]
fn what_began_before_a_token_ended_is_done_and_nothing_begins_behind_it() {
    let world = World::new();
    let server = Server::start(&world, "");
    let token = server.add_token("--expires 5s late");
    let mut stream = server.upload(&token, ("file", 200_000), &vec![7; 100_000]);
    sleep(Duration::from_millis(5_500));
    assert!(server.answer(&token, "/v1/volumes", "").starts_with("HTTP/1.1 401"));
    stream.write_all(&vec![7; 100_000]).expect("it listens");
    assert_eq!(status_of(&mut stream), 201);
    assert_eq!(world.read("photos/file"), vec![7; 200_000]);
    // One that was revoked has it refused.
    let token = server.add_token("gone");
    let mut stream = server.upload(&token, ("other", 200_000), &vec![7; 100_000]);
    server.ok("token revoke --state state gone");
    stream.write_all(&vec![7; 100_000]).expect("it listens");
    assert_eq!(status_of(&mut stream), 401);
    assert!(!world.path("photos/other").exists());
}
