//! `--streams`: literals over several connections, each a remote shell of its own; and `--threads`.

use std::fs;
use std::process::Stdio;

use crate::common::peer::{agreed, checked, hello_without, listing};
use crate::common::{DELTIC, Run, SHELL, Way, World, at_once, noise, tree, wait_until};
use deltic_protocol::ToReceiver;
use deltic_protocol::hello::Reply;

/// Bytes of a file of which three quarters change.
const LEN: usize = 12_000_000;
/// Rate at which further streams join long before the end, on a busy machine as well.
const RATE: &str = "2M";

/// A world with a tree, an older one at the destination, and a place for sockets.
fn world() -> World {
    let world = World::new();
    let old = noise(LEN, 1);
    let mut new = old.clone();
    for (n, block) in new.chunks_mut(100_000).enumerate().filter(|(n, _)| n % 4 > 0) {
        block.copy_from_slice(&noise(block.len(), n as u64 + 2));
    }
    world.write("dst/large", old);
    world.set_time("dst/large", 1);
    world.write("src/large", new);
    world.mkdir("run");
    world
}

/// Syncs over `shell`, with sockets in `run`.
fn sync_over(world: &World, shell: &str, words: &[&str]) -> Run {
    let fixed = ["sync", "-a", "--no-fsync", "-e", shell, "--deltic-path", DELTIC];
    let mut command = world.command(DELTIC, fixed.iter().chain(words));
    Run::of(command.env("XDG_RUNTIME_DIR", world.path("run")))
}

/// A remote shell that runs what it is told in a shell script of ours where it is for a further stream.
fn shell_for_streams(world: &World, script: &str) -> String {
    world.write(
        "rsh",
        format!("shift\ncase \"$*\" in\n*--join) {script};;\n*) exec \"$@\";;\nesac\n"),
    );
    "sh rsh".into()
}

/// A remote shell that keeps what passes, by the last word of what it is told.
const TEE: &str = "shift\nname=${*##* }.$$\ntee tees/in.$name | \"$@\" | tee tees/out.$name\n";

/// Lengths of what passed, of the names that start so.
fn passed(world: &World, start: &str) -> Vec<u64> {
    let names = world.names("tees").into_iter().filter(|name| name.starts_with(start));
    let len =
        |name: String| fs::metadata(world.path("tees").join(name)).expect("it is there").len();
    names.map(len).collect()
}

/// Waits until two further streams have carried much each.
#[track_caller]
fn assert_both_carried(world: &World, way: Way) {
    let start = if way == Way::Push { "in.--join" } else { "out.--join" };
    let what = format!("2 streams have carried much: {way:?} {:?}", passed(world, start));
    wait_until(&what, || {
        let literals = passed(world, start);
        literals.len() == 2 && literals.iter().all(|len| *len > 500_000)
    });
}

fn operands(way: Way) -> [String; 2] {
    [way.from("src/"), way.to("dst/")]
}

#[test]
fn a_tree_arrives_over_any_number_of_streams() {
    for way in [Way::Push, Way::Pull, Way::Local] {
        for streams in ["1", "2", "4", "16"] {
            let world = world();
            tree::everything(&world.path("src/tree"));
            world.write("dst/tree/several chunks", noise(290_000, 1));
            let [src, dst] = operands(way);
            let words = ["--no-whole-file", "--streams", streams, "--threads", streams, &src, &dst];
            let run = sync_over(&world, SHELL, &words);
            assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{way:?} {streams}");
            tree::assert_same(&world.path("src"), &world.path("dst"));
            assert_eq!(world.names("run"), [""; 0], "{way:?} {streams}");
        }
    }
}

#[test]
fn literals_travel_on_every_stream_and_every_byte_is_counted() {
    at_once([Way::Push, Way::Pull], |way| {
        let world = world();
        world.mkdir("tees");
        world.write("rsh", TEE);
        let [src, dst] = operands(way);
        let words = ["--streams", "3", "--bwlimit", RATE, "--stats", &src, &dst];
        let run = sync_over(&world, "sh rsh", &words);
        assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{way:?}");
        tree::assert_same(&world.path("src"), &world.path("dst"));
        // Nobody waits for a tee, which passes bytes on before it writes them.
        for (label, start) in [("Total bytes sent", "in."), ("Total bytes received", "out.")] {
            let counted = run.stat(label);
            let all = || passed(&world, start).iter().sum::<u64>();
            wait_until(&format!("{counted} bytes passed: {way:?} {start} {}", all()), || {
                all() == counted
            });
        }
        assert_both_carried(&world, way);
    });
}

/// Nothing of it is asked for chunk by chunk; it is what a line gets most of.
#[test]
fn a_first_copy_travels_on_every_stream() {
    at_once([Way::Push, Way::Pull], |way| {
        let world = World::new();
        world.write("src/large", noise(LEN, 1));
        for dir in ["run", "tees", "dst"] {
            world.mkdir(dir);
        }
        world.write("rsh", TEE);
        let [src, dst] = operands(way);
        let run = sync_over(&world, "sh rsh", &["--streams", "3", "--bwlimit", RATE, &src, &dst]);
        assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{way:?}");
        assert!(world.read("dst/large") == world.read("src/large"), "{way:?}");
        assert_both_carried(&world, way);
    });
}

#[test]
fn a_stream_that_breaks_breaks_the_session_and_tears_nothing() {
    for way in [Way::Push, Way::Pull] {
        let world = world();
        let shell = shell_for_streams(&world, "echo $$ >pid.new; mv pid.new pid; exec \"$@\"");
        let [src, dst] = operands(way);
        let fixed = ["sync", "-a", "--no-retry", "--streams", "2", "--bwlimit", "1M", "--no-fsync"];
        let mut command = std::process::Command::new(DELTIC);
        command.args(fixed).args(["-e", &shell, "--deltic-path", DELTIC, &src, &dst]);
        command.current_dir(world.path("")).env("XDG_RUNTIME_DIR", world.path("run"));
        let running = command.stderr(Stdio::piped()).spawn().expect("deltic starts");
        // The door is gone once the one who was expected has come in.
        wait_until("the other stream has joined", || {
            world.exists("pid") && world.names("run").is_empty()
        });
        let pid = String::from_utf8(world.read("pid")).expect("a number");
        assert!(std::process::Command::new("kill").arg(pid.trim()).status().unwrap().success());
        let output = running.wait_with_output().expect("it ends");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(12), "{way:?} {stderr}");
        assert!(stderr.contains("one of the streams to the other end ended early"), "{stderr}");
        assert_eq!(world.read("dst/large"), noise(LEN, 1), "{way:?}");
        assert_eq!(world.names("run"), [""; 0], "{way:?}");
        let run = sync_over(&world, SHELL, &["--streams", "2", &src, &dst]);
        assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{way:?}");
        tree::assert_same(&world.path("src"), &world.path("dst"));
    }
}

#[test]
fn streams_that_do_not_join_are_done_without_and_that_is_said() {
    let whys = [("WRONG", "exit status: 11"), ("exit 3", "exit status: 3"), ("cat", "not deltic")];
    let tries = whys.into_iter().flat_map(|why| [(why, Way::Push), (why, Way::Pull)]);
    at_once(tries, |((script, why), way)| {
        let world = world();
        // A length and the path behind the token, as it is made.
        let rest = 1 + world.path("run/deltic-0123456789abcdef/join").as_os_str().len();
        let wrong = format!(
            "{{ head -c 8; head -c 32 >/dev/null; printf %032d 0; head -c {rest}; }} | \"$@\""
        );
        let shell = shell_for_streams(&world, &script.replace("WRONG", &wrong));
        let [src, dst] = operands(way);
        let words = ["--streams", "3", "--bwlimit", RATE, &src, &dst];
        let run = sync_over(&world, &shell, &words);
        assert_eq!(run.code, Some(0), "{way:?} {run:#?}");
        assert!(run.stderr.contains("2 of 2 further streams did not start"), "{run:#?}");
        assert!(run.stderr.contains(why), "{run:#?}");
        assert_eq!(run.stderr.lines().count(), 1, "{run:#?}");
        tree::assert_same(&world.path("src"), &world.path("dst"));
    });
}

#[test]
fn a_ticket_is_worth_nothing_once_its_session_is_over() {
    let world = world();
    let shell = shell_for_streams(&world, "head -c 41 >ticket; exit 1");
    let words = ["--streams", "2", "--bwlimit", RATE, "src/", "h:dst/"];
    assert_eq!(sync_over(&world, &shell, &words).code, Some(0));
    let socket = world.path("run/deltic-0123456789abcdef/join").display().to_string();
    let ticket = [&world.read("ticket")[..40], &[socket.len() as u8], socket.as_bytes()].concat();
    let mut join = world.command(DELTIC, ["agent", "--join"]);
    let run = Run::of(join.write_stdin(ticket));
    assert_eq!((run.code, &*run.stdout), (Some(11), ""));
}

#[test]
fn an_end_that_knows_no_streams_is_asked_for_one() {
    let world = World::new();
    let reply = Reply { single: None, join: None }.encode();
    let listing = listing(Vec::new())[agreed().len()..].to_vec();
    let listed = ToReceiver::Listed { intact: true }.encode();
    let said = [hello_without("streams"), reply, listing, listed].concat();
    world.write("said", checked(&said));
    // It stays until it is left.
    let shell = "sh -c 'cat said; cat >heard' rsh";
    let run = sync_over(&world, shell, &["--streams", "4", "h:src/", "dst"]);
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert_eq!(run.stderr.matches("only one stream").count(), 1, "{run:#?}");
}

#[test]
fn numbers_that_make_no_sense_are_refused() {
    let world = World::new();
    for words in ["--streams 0", "--streams 17", "--streams x", "--threads 0", "--threads 1025"] {
        let run = world.fails(1, &format!("-a {words} src/ dst/"));
        let (option, value) = words.split_once(' ').expect("two words");
        assert!(run.stderr.contains(option) && run.stderr.contains(value), "{run:#?}");
    }
}
