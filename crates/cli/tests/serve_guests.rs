//! What the holder of a token for guests may not do by plain HTTP.

use std::io::{Read, Write};

use crate::common::World;
use crate::common::http::ask;
use crate::common::server::Server;

const FILES: &str = "/v1/volumes/photos/files";

#[test]
fn a_download_ends_with_its_token() {
    let world = World::new();
    world.write("photos/dir/long", b"");
    let long = std::fs::File::options().write(true).open(world.path("photos/dir/long")).unwrap();
    long.set_len(1 << 30).unwrap();
    let server = Server::start(&world, "");
    for what in [format!("{FILES}/dir/long"), format!("{FILES}/dir?as=zip")] {
        let guest = server.add_token("guest");
        let mut download = server.connect();
        let head = format!(
            "GET {what} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {guest}\r\n\r\n"
        );
        download.write_all(head.as_bytes()).unwrap();
        let mut some = [0; 1000];
        download.read_exact(&mut some).unwrap();
        assert!(some.starts_with(b"HTTP/1.1 200"));
        server.ok("token revoke --state state guest");
        let mut got = 0;
        let mut piece = vec![0; 1 << 20];
        while let Ok(some @ 1..) = download.read(&mut piece) {
            got += some;
        }
        assert!(got < 1 << 29, "{what}: {got} bytes came after the token was revoked");
    }
}

#[test]
fn names_in_an_archive_have_no_separators_of_other_systems() {
    let world = World::new();
    world.write("photos/dir/..\\..\\run.bat", "x");
    world.write("photos/dir/C:y", "x");
    let server = Server::start(&world, "");
    let zip = ask(&server, &format!("GET {FILES}/dir?as=zip"), "", b"").body;
    let has = |wanted: &[u8]| zip.windows(wanted.len()).any(|part| part == wanted);
    assert!(has(b"dir/..%5C..%5Crun.bat") && has(b"dir/C%3Ay"));
    assert!(!has(b"\\") && !has(b"C:"));
}
