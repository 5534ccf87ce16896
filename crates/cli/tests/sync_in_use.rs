//! Files that a program has open for writing. A write that is under way shows in what is read, and neither in the
//! length of the file nor in its times: such a copy is told, and the next run reads the file again.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::common::attrs::SOMEBODY;
use crate::common::{DELTIC, Mounted, Run, WAYS, Way, World, is_installed, is_root, skip};

const LEN: usize = 1 << 20;

/// A program in the midst of one `write()` of `b` over all of a file, which stops half way for as long as it has to.
struct Writer {
    child: Child,
    goes_on: ChildStdin,
    says: BufReader<ChildStdout>,
}

impl Writer {
    /// Starts it; `None` where nothing can hold a call up half way. The second half of its bytes is memory that is not
    /// there yet.
    fn begin(world: &World, name: &str) -> Option<Self> {
        const PROGRAM: &str = "
import ctypes, mmap, os, struct, sys, threading
path, size = sys.argv[1], int(sys.argv[2])
half = size // 2
libc = ctypes.CDLL(None, use_errno=True)
number = {'x86_64': 323, 'aarch64': 282}.get(os.uname().machine)
faults = libc.syscall(number, os.O_CLOEXEC) if number else -1
if faults < 0:
    sys.exit(0)
def ioctl(request, *words):
    if libc.ioctl(faults, ctypes.c_ulong(request), struct.pack('Q' * len(words), *words)):
        sys.exit(1)
def room(size):
    memory = mmap.mmap(-1, size)
    return memory, ctypes.addressof(ctypes.c_char.from_buffer(memory))
(memory, start), (rest, rest_start) = room(size), room(half)
memory[:half], rest[:] = b'b' * half, b'b' * half
ioctl(0xc018aa3f, 0xaa, 0, 0)
ioctl(0xc020aa00, start + half, half, 1, 0)
def fill():
    os.read(faults, 32)
    print('half', flush=True)
    sys.stdin.readline()
    ioctl(0xc028aa03, start + half, rest_start, half, 0, 0)
threading.Thread(target=fill, daemon=True).start()
file = os.open(path, os.O_WRONLY)
wrote = libc.pwrite(file, ctypes.c_void_p(start), ctypes.c_size_t(size), ctypes.c_long(0))
os.close(file)
print(wrote, flush=True)
";
        let mut command = Command::new("python3");
        command.args(["-c", PROGRAM]).arg(world.path(name)).arg(LEN.to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().ok()?;
        let goes_on = child.stdin.take().expect("it is piped");
        let says = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut writer = Self { child, goes_on, says };
        (writer.line() == "half").then_some(writer)
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.says.read_line(&mut line).expect("it speaks");
        line.trim_end().to_owned()
    }

    /// Lets it write the rest, and close the file.
    fn end(mut self) {
        self.goes_on.write_all(b"\n").expect("it listens");
        assert_eq!(self.line(), LEN.to_string());
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A world whose file is old at the destination, with a writer that is half way through it.
fn begun() -> Option<(World, Writer)> {
    if !is_installed("python3") {
        skip("python3 is not installed");
        return None;
    }
    let world = World::new();
    world.write("src/file", vec![b'a'; LEN]);
    world.write("src/other", "at rest");
    world.write("dst/file", vec![b'0'; LEN]);
    world.set_time("dst/file", 1_000_000_000);
    let Some(writer) = Writer::begin(&world, "src/file") else {
        skip("userfaultfd is not allowed");
        return None;
    };
    Some((world, writer))
}

fn run(world: &World, words: &str) -> Run {
    world.sync(&words.split_whitespace().collect::<Vec<_>>())
}

/// Asserts that a run told that `file`, and nothing else, was copied while a program had it open.
fn assert_told(run: &Run, what: &str) {
    assert_eq!(run.code, Some(24), "{what} {run:#?}");
    let told = run.stderr.matches("file was open for writing while it was read").count();
    assert_eq!(told, 1, "{what} {run:#?}");
}

#[test]
fn a_write_under_way_is_told_and_the_next_run_reads_what_it_wrote() {
    for way in WAYS {
        for option in ["", "--no-cache", "--no-whole-file", "--inplace", "-c", "--strategy rsync"] {
            let what = format!("{way:?} {option}");
            let Some((world, writer)) = begun() else { return };
            let words = format!("-a {option} {} {}", way.from("src/"), way.to("dst/"));
            let first = run(&world, &words);
            assert_told(&first, &what);
            assert_eq!(world.read("dst/other"), b"at rest", "{what}");
            let earlier = world.time("src/file").0 - 4;
            assert_eq!(world.time("dst/file").0, earlier, "{what}: the copy is the older one");
            let before = world.time("src/file");
            writer.end();
            assert_eq!(world.time("src/file"), before, "the end of a write changes no time");
            world.ok(&format!("-a {} {}", way.from("src/"), way.to("dst/")));
            world.assert_same("src", "dst");
            assert!(world.read("dst/file") == vec![b'b'; LEN], "{what}");
            world.assert_clean("dst");
        }
    }
}

/// What is at the destination has the same bytes, so only its time would change: it would count as the new version.
#[test]
fn a_file_that_is_as_it_was_half_way_does_not_count_as_the_new_version() {
    for way in WAYS {
        for option in ["-c", "-I --no-whole-file"] {
            let what = format!("{way:?} {option}");
            let Some((world, writer)) = begun() else { return };
            let half = world.read("src/file");
            world.write("dst/file", &half);
            let source = fs::metadata(world.path("src/file")).expect("it is there");
            let copy = fs::File::options().write(true).open(world.path("dst/file"));
            let times = source.modified().expect("it has one");
            copy.and_then(|copy| copy.set_modified(times)).expect("it is ours");
            let words = format!("-a {option} {} {}", way.from("src/"), way.to("dst/"));
            assert_told(&run(&world, &words), &what);
            writer.end();
            world.ok(&format!("-a {} {}", way.from("src/"), way.to("dst/")));
            assert!(world.read("dst/file") == vec![b'b'; LEN], "{what}");
        }
    }
}

#[test]
fn a_file_that_is_only_kept_open_is_copied_and_told_until_it_is_closed() {
    for way in WAYS {
        for option in ["", "--no-whole-file", "--modify-window=5", "-u"] {
            let world = World::new();
            let file = || fs::File::options().append(true).open(world.path("src/file"));
            world.write("src/file", vec![b'a'; LEN]);
            let writer = file().expect("it is ours");
            let words = format!("-a {option} {} {}", way.from("src/"), way.to("dst/"));
            for _ in 0..2 {
                assert_told(&run(&world, &words), &words);
                assert!(world.read("src/file") == world.read("dst/file"), "{words}");
            }
            drop(writer);
            world.ok(&words);
            world.assert_same("src", "dst");
            assert_eq!(
                world.ok(&format!("{words} --stats")).stat("Number of regular files transferred"),
                0
            );
        }
    }
}

#[test]
fn a_source_in_use_is_named_as_it_is_at_the_source() {
    for way in WAYS {
        let world = World::new();
        world.write("src/file", vec![b'a'; LEN]);
        let _writer = fs::File::options().append(true).open(world.path("src/file"));
        for option in ["", "-c", "--no-whole-file"] {
            world.write("copy", vec![b'0'; LEN]);
            world.set_time("copy", 1_000_000_000);
            let words = format!("-a {option} {} {}", way.from("src/file"), way.to("copy"));
            let run = run(&world, &words);
            assert_told(&run, &words);
            // The sender alone knows the full path.
            let is_full = run.stderr.contains("/src/file was open");
            assert_eq!(is_full, way != Way::Pull, "{words} {run:#?}");
        }
    }
}

/// Nobody waits for a file that is closed, and nothing is told of it.
#[test]
fn a_file_that_was_just_saved_and_closed_is_at_rest() {
    for way in WAYS {
        let world = World::new();
        for no in 0..200 {
            world.write(format!("src/{no}"), vec![b'a'; 10 + no * 1000]);
        }
        let words = format!("-a --stats {} {}", way.from("src/"), way.to("dst/"));
        let all = world.ok(&words);
        assert_eq!(all.stderr, "", "{all:#?}");
        world.write("src/7", "and now something else");
        assert_eq!(world.ok(&words).stderr, "");
        world.assert_same("src", "dst");
    }
}

#[test]
fn a_source_in_use_is_not_removed_and_no_comparison_calls_it_the_same() {
    let Some((world, writer)) = begun() else { return };
    let first = run(&world, "-a --remove-source-files src/ dst/");
    assert_told(&first, "--remove-source-files");
    assert_eq!(world.names("src"), ["file"]);
    world.write("dst/file", world.read("src/file"));
    let verify = Run::of(&mut world.command(DELTIC, ["verify", "src", "dst"]));
    assert_told(&verify, "verify");
    assert!(!verify.stderr.contains("copied"), "{verify:#?}");
    writer.end();
}

/// A sync that may take no lease of the file of another user waits until the file was not changed for a while.
#[test]
fn without_leases_a_file_has_to_be_at_rest_for_a_while() {
    if !is_root() || !is_installed("setpriv") {
        return skip("this needs root and setpriv");
    }
    let Some((world, writer)) = begun() else { return };
    for name in ["", "src", "dst"] {
        world.chmod(name, 0o777);
    }
    let run = thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(700));
            writer.end();
        });
        let user = SOMEBODY.to_string();
        let words = ["--reuid", &user, "--regid", &user, "--clear-groups", "--", DELTIC];
        let words = words.into_iter().chain(["sync", "-rtO", "src/", "dst/"]);
        Run::of(&mut world.command("setpriv", words))
    });
    assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{run:#?}");
    assert!(world.read("dst/file") == vec![b'b'; LEN]);
}

/// The kernel refuses leases of a file on FUSE that a program has open, and NFS refuses leases for reasons of its own:
/// there a refusal says nothing, and the age of the last change decides.
#[test]
fn on_fuse_a_file_that_is_kept_open_is_at_rest_after_a_while() {
    let world = World::new();
    world.write("branch/file", "at rest");
    world.set_time("branch/file", 1_000_000_000);
    let words = ["branch", "src"];
    let without = "no union can be mounted here";
    let Some(_mounted) = Mounted::by((&world, "src"), ("mergerfs", &words), without) else {
        return;
    };
    let open = fs::File::options().append(true).open(world.path("src/file")).expect("it is ours");
    thread::sleep(Duration::from_millis(2_100));
    world.ok("-a src/ dst/");
    assert_eq!(world.read("dst/file"), b"at rest");
    assert_eq!(world.time("dst/file"), (1_000_000_000, 123_456_789));
    drop(open);
}

/// The true length of things: one call writes all of a long file, while a run reads it.
#[test]
fn a_long_write_is_never_copied_in_silence() {
    const LONG: usize = 64 << 20;
    let (old, new) = (vec![b'a'; LONG], vec![b'b'; LONG]);
    for way in [Way::Local, Way::Push] {
        let world = World::new();
        world.write("src/file", &old);
        let path = world.path("src/file");
        let words = format!("-a --no-fsync {} {}", way.from("src/"), way.to("dst/"));
        let run = thread::scope(|scope| {
            let (path, new) = (&path, &new);
            scope.spawn(move || {
                let file = fs::File::options().write(true).open(path).expect("it is ours");
                file.write_all_at(new, 0).expect("there is room");
            });
            run(&world, &words)
        });
        let copy = world.exists("dst/file").then(|| world.read("dst/file"));
        let is_whole = copy.is_some_and(|copy| copy == new || copy == old);
        assert!(is_whole && run.code == Some(0) || run.code == Some(24), "{way:?} {run:#?}");
        world.ok(&words);
        assert!(world.read("dst/file") == new, "{way:?}");
    }
}
