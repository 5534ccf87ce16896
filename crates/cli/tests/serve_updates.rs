//! Updates of edited files in one message each: what a watch sends to `deltic serve`, and what a server takes.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, missing_docs)]

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt, chown, symlink};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::common::dice::Dice;
use crate::common::http::ask;
use crate::common::server::{Server, Socket};
use crate::common::{DELTIC, World, noise, wait_until};
use deltic_serve::client::{Address, Credentials, Local, Updating};
use deltic_serve::update::{Base, Head, MAX_FILE_BYTES, MAX_UPDATE_BYTES, Step, encode};
use deltic_tree::{RelPath, Timestamp};

/// Longer than a file must have rested.
const REST: Duration = Duration::from_millis(120);

fn audited<'a>(world: &'a World, volume: &str) -> Server<'a> {
    let audit = format!("audit = \"{}\"\n", world.path("audit.jsonl").display());
    Server::set_volume(world, volume, &audit)
}

/// Lines of the audit log about an event.
fn events(world: &World, event: &str) -> usize {
    let log = String::from_utf8(world.read("audit.jsonl")).unwrap();
    log.lines().filter(|line| line.contains(&format!("\"event\":\"{event}\""))).count()
}

/// A watch, which ends with this value.
struct Watching(Child);

impl Watching {
    fn start(world: &World, words: &str) -> Self {
        let mut command = Command::new(DELTIC);
        command.args(words.split_whitespace()).stdin(Stdio::null());
        command.stdout(File::create(world.path("watch.log")).unwrap());
        world.place(&mut command);
        Self(command.spawn().unwrap())
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[track_caller]
fn wait_for_same(world: &World, one: &str, other: &str) {
    let is_same =
        || world.read(one) == world.read(other) && times(world, one) == times(world, other);
    wait_until(&format!("{one} is {other}"), is_same);
}

fn times(world: &World, path: &str) -> (i64, i64) {
    let meta = world.path(path).metadata().unwrap();
    (meta.mtime(), meta.mtime_nsec())
}

#[test]
fn a_watch_sends_a_file_that_is_edited_again_in_one_message() {
    let world = World::new();
    world.write("src/deep/file", noise(1_000_000, 1));
    world.write("src/other", noise(100_000, 2));
    let mut server = audited(&world, "");
    // The token of whoever started the server ends with it.
    world.write("token", server.add_token("watch"));
    let to = format!("{}/photos/there/", server.url);
    let words = format!("watch -ai --delay 0.15 --token @token src/ {to}");
    let watching = Watching::start(&world, &words);
    wait_until("all is there", || world.path("photos/there/deep/file").exists());
    let edit = |bytes: &[u8], at: u64| {
        let file = File::options().write(true).open(world.path("src/deep/file")).unwrap();
        file.write_all_at(bytes, at).unwrap();
        drop(file);
        wait_for_same(&world, "src/deep/file", "photos/there/deep/file");
        wait_for_same_dir(&world);
    };
    wait_until("it rests", || events(&world, "session") == 1);
    edit(b"one", 1000);
    wait_until("a session was held", || events(&world, "session") == 2);
    let before = times(&world, "photos");
    for (nth, at) in [500_000, 999_999, 1_000_000, 0].into_iter().enumerate() {
        sleep(REST);
        edit(b"some more", at);
        wait_until("it is noted", || events(&world, "update") == nth + 1);
    }
    assert_eq!(events(&world, "session"), 2);
    // The change of an update is noted, with the name of the token.
    let listed = ask(&server, "GET /v1/volumes/photos/tree/there/deep?changes=true", "", b"");
    let listed: serde_json::Value = serde_json::from_slice(&listed.body).unwrap();
    let change = &listed["entries"][0]["change"];
    assert_eq!((&change["by"], &change["moved"]), (&"watch".into(), &0.into()), "{listed}");
    assert!((1..100_000).contains(&change["buckets"][0][2].as_u64().unwrap()), "{listed}");
    assert_eq!(change["buckets"][16][2], 0, "{listed}");
    server.wait_for_no_staging();
    wait_until("the root has its time again", || times(&world, "photos") == before);
    // Another mode goes with the next content.
    world.chmod("src/deep/file", 0o600);
    sleep(REST);
    edit(b"and more", 7);
    wait_until("it is private", || world.mode("photos/there/deep/file") & 0o777 == 0o600);
    // Who changed the file at the server loses nothing but what a sync replaces.
    world.write("photos/there/deep/file", noise(1_000_000, 3));
    sleep(REST);
    edit(b"again", 77);
    wait_until("a session was held", || events(&world, "session") == 3);
    // Nor does a server that starts anew know what is there.
    let (url, port) = (server.url.clone(), server.url.rsplit(':').next().unwrap().to_owned());
    let _ = server.child.kill();
    let _ = server.child.wait();
    let again = Server::of(&world, format!("serve --config deltic.toml --listen 127.0.0.1:{port}"));
    assert_eq!(again.url, url);
    sleep(REST);
    edit(b"at last", 777);
    drop(watching);
    let log = String::from_utf8(world.read("watch.log")).unwrap();
    assert!(log.contains("<f..t...... deep/file"), "{log}");
}

#[test]
fn a_watch_updates_files_in_the_root_of_a_volume_too() {
    let world = World::new();
    world.write("src/file", noise(100_000, 1));
    let server = audited(&world, "");
    let words = format!("watch -av --delay 0.15 src/ {}/photos/", server.url);
    let _watching = Watching::start(&world, &words);
    wait_until("all is there", || events(&world, "session") == 1);
    for edits in 0..3 {
        sleep(REST);
        world.write("src/file", noise(100_000, 2 + edits));
        wait_for_same(&world, "src/file", "photos/file");
        let noted = || events(&world, "session") + events(&world, "update") == 2 + edits as usize;
        wait_until("it is noted", noted);
    }
    assert_eq!(events(&world, "update"), 0, "all of it was another content");
    for edits in 1..3 {
        sleep(REST);
        let file = File::options().write(true).open(world.path("src/file")).unwrap();
        file.write_all_at(b"some", 1000 * edits).unwrap();
        drop(file);
        wait_for_same(&world, "src/file", "photos/file");
        wait_until("it is noted", || events(&world, "update") == edits as usize);
        server.wait_for_no_staging();
        let is_same = || times(&world, "src") == times(&world, "photos");
        wait_until("the root has its time again", is_same);
    }
}

#[track_caller]
fn wait_for_same_dir(world: &World) {
    let is_same = || times(world, "src/deep") == times(world, "photos/there/deep");
    wait_until("the directory's time is the same", is_same);
}

fn below(dice: &mut Dice, end: usize) -> usize {
    dice.below(end as u64) as usize
}

fn local<'a>(root: &'a Path, path: &'a RelPath, there: &'a RelPath) -> Local<'a> {
    Local { root, path, there, times: true, modes: true, dir_times: false }
}

#[test]
fn edits_of_any_kind_arrive() {
    let world = World::new();
    let server = Server::start(&world, "");
    let address: Address = format!("{}/photos/", server.url).parse().unwrap();
    let credentials = Credentials { token: server.token().parse().unwrap(), pin: None };
    let mut updating = Updating::new(address, credentials).unwrap();
    let [here, there] = ["here", "file"].map(|path| RelPath::parse(path.as_bytes()).unwrap());
    let root = world.path(".");
    for seed in 0..3 {
        let mut dice = Dice::new(seed);
        let mut content = noise(20_000 + below(&mut dice, 2_000_000), seed);
        if seed == 2 {
            content.fill(0);
        }
        world.write("photos/file", &content);
        world.write("here", &content);
        sleep(REST);
        updating.remember(&root, &here, &there);
        let mut updates = 0;
        for _ in 0..20 {
            for _ in 0..=below(&mut dice, 3) {
                let at = below(&mut dice, content.len());
                let bytes = noise(below(&mut dice, 5_000), dice.next());
                match dice.below(3) {
                    0 => drop(content.splice(at..at, bytes)),
                    1 => drop(content.drain(at..(at + bytes.len()).min(content.len()))),
                    _ => content.iter_mut().skip(at).zip(&bytes).for_each(|(to, from)| *to = *from),
                }
            }
            world.write("here", &content);
            sleep(REST);
            match updating.update(local(&root, &here, &there)) {
                Some(updated) => {
                    assert_eq!(updated.new.len, content.len() as u64);
                    assert_eq!(times(&world, "here"), times(&world, "photos/file"));
                    updates += 1;
                }
                None => {
                    // A session would have done it.
                    world.write("photos/file", &content);
                    updating.remember(&root, &here, &there);
                }
            }
            assert!(world.read("photos/file") == content, "{seed}");
        }
        assert!(updates > 10, "{seed}: {updates}");
    }
    // A link that took the file's place is not followed, nor a pipe waited for.
    let path = world.path("here");
    std::fs::remove_file(&path).unwrap();
    symlink(world.path("photos/file"), &path).unwrap();
    sleep(REST);
    assert_eq!(updating.update(local(&root, &here, &there)), None);
    std::fs::remove_file(&path).unwrap();
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    assert_eq!(updating.update(local(&root, &here, &there)), None);
    drop(updating);
    server.wait_for_no_staging();
}

/// An update of `photos/dir/file`, and what it says in words of a test.
fn head(world: &World, path: &str, len: u64) -> Head {
    Head {
        path: RelPath::parse(path.as_bytes()).unwrap(),
        base: Base::of(&world.read("photos/dir/file")),
        len,
        modified: Timestamp { secs: 1_000_000_000, nanos: 0 },
        mode: 0o640,
        times: true,
        modes: true,
        dir_modified: None,
    }
}

/// Sends an update; what comes back.
fn sent(socket: &mut Socket, volume: &str, update: &[u8]) -> String {
    socket.send(0, &format!(r#"{{"update":{{"channel":1,"volume":"{volume}"}}}}"#));
    for part in update.chunks(60_000) {
        socket.send_bytes(1, part);
    }
    socket.send_bytes(1, b"");
    loop {
        match socket.hear_bytes() {
            (1, answer) => return format!("{answer:?}"),
            (_, said) => {
                let said = String::from_utf8_lossy(&said).into_owned();
                if said.contains("refused") {
                    return said;
                }
            }
        }
    }
}

#[test]
fn bad_updates_change_nothing() {
    let world = World::new();
    let old = noise(100_000, 1);
    world.write("photos/dir/file", &old);
    world.write("photos/other/file", &old);
    world.write("secret", &old);
    symlink("../secret", world.path("photos/link")).unwrap();
    symlink("..", world.path("photos/up")).unwrap();
    symlink("file", world.path("photos/dir/inner")).unwrap();
    let server = audited(&world, "versions = 5\nquota_bytes = 450000\nfree_bytes = 0\n");
    let mut socket = server.socket(server.token());
    let all = [Step::Copy { start: 0, len: 100_000 }, Step::Bytes(b"new")];
    let update = |path: &str, steps: &[Step<'_>]| {
        let len = steps.iter().map(Step::len).sum();
        encode(&head(&world, path, len), steps.iter().copied()).unwrap()
    };
    let good = update("dir/file", &all);
    let other_base = "[1]";
    let cases = [
        (update("dir/file", &[Step::Copy { start: 0, len: 100_001 }]), other_base),
        (update("dir/file", &[Step::Copy { start: u64::MAX >> 1, len: 1 }]), other_base),
        (update("dir/none", &all), other_base),
        (update("none/file", &all), other_base),
        (update("dir", &all), other_base),
        (update("link", &all), "symlink"),
        (update("dir/inner", &all), "symlink"),
        (update("up/secret", &all), "refused"),
        (update(".deltic/file", &all), "Deltic reserves"),
        (update(".deltic-versions/dir/file", &all), "Deltic reserves"),
        (update(".DELTIC-Versions/dir/file", &all), "Deltic reserves"),
        (good[..good.len() - 1].to_vec(), "invalid update"),
        ([&good[..], b"x"].concat(), "invalid update"),
        (vec![], "invalid update"),
        (vec![9; 100], "invalid update"),
        (vec![1; MAX_UPDATE_BYTES + 1], "invalid update"),
        (traversal(&good), "invalid update"),
        // More than there is room for.
        (update("dir/file", &[Step::Copy { start: 0, len: 100_000 }; 3]), "quota"),
        (update("dir/file", &[Step::Copy { start: 0, len: 100_000 }; 5]), other_base),
    ];
    for (nth, (update, wanted)) in cases.iter().enumerate() {
        let answer = sent(&mut socket, "photos", update);
        assert!(answer.contains(wanted), "{nth}: {answer}");
        assert!(world.read("photos/dir/file") == old, "{nth}");
    }
    let long = Head { len: MAX_FILE_BYTES + 1, ..head(&world, "dir/file", 0) };
    assert_eq!(encode(&long, []), None);
    // Whoever may not, and what is not there.
    for (words, volume, wanted) in [
        ("--volume photos --ro reader", "photos", "refused"),
        ("--volume photos --wo writer", "photos", "refused"),
        ("--volume photos --path other outside", "photos", "refused"),
        ("--volume photos all", "nope", "refused"),
    ] {
        let token = server.add_token(words);
        let answer = sent(&mut server.socket(&token), volume, &good);
        assert!(answer.contains(wanted), "{words}: {answer}");
    }
    assert!(world.read("secret") == old && world.read("photos/other/file") == old);
    assert!(world.read("photos/dir/file") == old);
    assert_eq!(events(&world, "update"), 0);
    // A session sets groups.
    if rustix::process::geteuid().is_root() {
        let file = world.path("photos/dir/file");
        chown(&file, None, Some(1)).unwrap();
        assert_eq!(sent(&mut socket, "photos", &good), other_base);
        chown(&file, None, Some(0)).unwrap();
    }
    // The same one is good for who may, and only once.
    assert_eq!(sent(&mut socket, "photos", &good), "[0]");
    assert!(world.read("photos/dir/file") == [&old[..], b"new"].concat());
    assert_eq!(world.mode("photos/dir/file") & 0o777, 0o640);
    assert_eq!(times(&world, "photos/dir/file"), (1_000_000_000, 0));
    assert_eq!(sent(&mut socket, "photos", &good), other_base);
    let versions = server.ok("versions URL/photos/dir/file").stdout;
    assert!(versions.contains("100,000") || versions.contains("100000"), "{versions}");
    drop(socket);
    server.wait_for_no_staging();
}

/// The same update of a path that leads out.
fn traversal(good: &[u8]) -> Vec<u8> {
    let mut bytes = good.to_vec();
    bytes[2..10].copy_from_slice(b"../../fi");
    bytes
}

#[test]
fn an_update_that_never_ends_is_given_up_and_its_room_is_free_again() {
    let world = World::new();
    world.write("photos/dir/file", noise(100_000, 1));
    let server = Server::set(&world, "[limits]\nstall_seconds = 4\n");
    let mut socket = server.socket(server.token());
    for channel in 1..=8 {
        socket.send(0, &format!(r#"{{"update":{{"channel":{channel},"volume":"photos"}}}}"#));
        socket.send_bytes(channel, b"\x01");
    }
    socket.send(0, r#"{"update":{"channel":9,"volume":"photos"}}"#);
    let mut refused = 0;
    while refused < 9 {
        let (_, said) = socket.hear_bytes();
        refused += usize::from(String::from_utf8_lossy(&said).contains("refused"));
    }
    socket.open(10);
    assert_eq!(server.status("GET", "/healthz", ""), 200);
}

#[test]
fn an_update_that_is_given_up_has_no_room_any_more() {
    let world = World::new();
    let server = Server::start(&world, "");
    let mut socket = server.socket(server.token());
    assert!(socket.hear().contains("welcome"));
    let update = |channel: u8| format!(r#"{{"update":{{"channel":{channel},"volume":"photos"}}}}"#);
    for channel in 1..=8 {
        socket.send(0, &update(channel));
    }
    socket.send(0, r#"{"close":{"channel":3}}"#);
    socket.send(0, &update(9));
    socket.send(0, &update(10));
    let said = socket.hear();
    assert!(said.contains(r#""channel":10"#) && said.contains("too many"), "{said}");
}
