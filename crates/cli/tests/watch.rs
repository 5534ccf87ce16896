//! `deltic watch`: what changes at the source arrives, whatever happens meanwhile.

use std::fs;
use std::io::{BufRead, BufReader, Write as _};
use std::os::unix::fs::{lchown, symlink};
use std::os::unix::net::UnixListener;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::tree::picture;
use crate::common::{DELTIC, PATIENCE, Run, SHELL, Way, World, is_root, skip};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A watch under way.
struct Watching<'a> {
    world: &'a World,
    child: Child,
    events: Receiver<Value>,
}

/// Waits for the end of a watch, which is killed where it does not come.
#[track_caller]
fn ended(child: &mut Child) -> Option<i32> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("it is our child") {
            return status.code();
        }
        if start.elapsed() > PATIENCE {
            child.kill().ok();
            panic!("it does not end");
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// The lines that a watch writes for people.
struct Lines(Receiver<String>);

impl Lines {
    /// Reads the lines of a watch whose standard output is piped.
    fn of(child: &mut Child) -> Self {
        let stdout = BufReader::new(child.stdout.take().expect("it is piped"));
        let (sender, lines) = channel();
        thread::spawn(move || {
            let mut all = stdout.lines().map_while(Result::ok);
            all.try_for_each(|line| sender.send(line))
        });
        Self(lines)
    }

    /// The next one; none after the last.
    #[track_caller]
    fn next(&self) -> Option<String> {
        match self.0.recv_timeout(PATIENCE) {
            Err(RecvTimeoutError::Timeout) => panic!("it says nothing"),
            line => line.ok(),
        }
    }

    /// The next one with this text.
    #[track_caller]
    fn with(&self, text: &str) -> String {
        let start = Instant::now();
        while let Some(line) = self.next() {
            if line.contains(text) {
                return line;
            }
            assert!(start.elapsed() < PATIENCE, "{text}");
        }
        panic!("it ended without {text}");
    }
}

fn command(world: &World, words: &str) -> Command {
    let mut command = Command::new(DELTIC);
    command.args(["watch", "-e", SHELL, "--deltic-path", DELTIC, "--no-fsync"]);
    command.args(["--delay", "0.05", "--max-delay", "0.5"]).args(words.split_whitespace());
    world.place(&mut command);
    command
}

impl<'a> Watching<'a> {
    /// Starts it, and waits for the end of the first round.
    fn start(world: &'a World, words: &str) -> Self {
        Self::run(world, command(world, words))
    }

    fn run(world: &'a World, mut command: Command) -> Self {
        let stderr = fs::File::create(world.path("stderr")).expect("it can be made");
        let mut child =
            command.arg("--json").stdout(Stdio::piped()).stderr(stderr).spawn().expect("it starts");
        let stdout = BufReader::new(child.stdout.take().expect("it is piped"));
        let (sender, events) = channel();
        thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let event = serde_json::from_str(&line).expect("each line is an event");
                if sender.send(event).is_err() {
                    break;
                }
            }
        });
        let mut watching = Self { world, child, events };
        assert_eq!(watching.event("round")["full"], true);
        watching.event("summary");
        watching
    }

    /// The next event of this name.
    #[track_caller]
    fn event(&mut self, name: &str) -> Value {
        let start = Instant::now();
        while let Ok(event) = self.events.recv_timeout(PATIENCE.saturating_sub(start.elapsed())) {
            if event["event"] == name {
                return event;
            }
        }
        panic!("no {name}: {}", self.stderr());
    }

    fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.world.read("stderr")).into_owned()
    }

    /// Waits until standard error has `text`.
    #[track_caller]
    fn says(&self, text: &str) {
        let start = Instant::now();
        while !self.stderr().contains(text) {
            assert!(start.elapsed() < PATIENCE, "{text}: {}", self.stderr());
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until the destination holds what the source does.
    #[track_caller]
    fn settles(&self, src: &str, dst: &str) {
        let start = Instant::now();
        while !same(self.world, src, dst) {
            assert!(start.elapsed() < PATIENCE, "{src} and {dst} differ: {}", self.stderr());
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it is there");
    }

    /// Ends it; its exit code and its last word.
    fn end(mut self, signal: Signal) -> (Option<i32>, Value) {
        self.signal(signal);
        let last = self.event("watched");
        (ended(&mut self.child), last)
    }
}

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// True if two trees are equal just now. Of one that is being changed no picture may come.
fn same(world: &World, src: &str, dst: &str) -> bool {
    let (src, dst) = (world.path(src), world.path(dst));
    let mut staging = dst.clone();
    staging.push(".deltic");
    if staging.exists() || !dst.exists() {
        return false;
    }
    let taken = std::panic::catch_unwind(|| picture(&dst));
    taken.is_ok_and(|taken| taken == picture(&src))
}

fn world() -> World {
    let world = World::new();
    for name in ["a", "b", "sub/c", "sub/deep/d", "other/e"] {
        world.write(format!("src/{name}"), name);
    }
    world
}

fn words(way: Way, options: &str) -> String {
    format!("-a {options} src/ {}", way.to("dst/"))
}

#[test]
fn changes_of_every_kind_arrive() {
    for way in [Way::Local, Way::Push] {
        let world = world();
        let watching = Watching::start(&world, &words(way, "--delete"));
        watching.settles("src", "dst");
        let steps: [&dyn Fn(); 14] = [
            &|| world.write("src/new", "new"),
            &|| world.write("src/sub/c", "other content"),
            &|| world.write("src/some/way/down/file", "deep"),
            &|| fs::rename(world.path("src/a"), world.path("src/sub/renamed")).unwrap(),
            &|| fs::rename(world.path("src/sub"), world.path("src/moved")).unwrap(),
            &|| world.write("src/moved/deep/more", "in what has moved"),
            &|| fs::remove_file(world.path("src/b")).unwrap(),
            &|| fs::remove_dir_all(world.path("src/other")).unwrap(),
            &|| world.chmod("src/moved", 0o700),
            &|| world.chmod("src/moved/c", 0o600),
            &|| world.chmod("src", 0o711),
            &|| world.link("nowhere", "src/moved/link"),
            &|| world.set_time("src/some/way", 1_000_000_000),
            &|| {
                fs::remove_file(world.path("src/new")).unwrap();
                world.write("src/new/is/a/directory/now", "");
                fs::remove_dir_all(world.path("src/some")).unwrap();
                world.write("src/some", "is a file now");
            },
        ];
        for (nth, step) in steps.into_iter().enumerate() {
            step();
            watching.settles("src", "dst");
            assert!(!world.exists("dst/.deltic"), "{way:?} {nth}");
        }
        world.assert_same("src", "dst");
        let (code, last) = watching.end(Signal::TERM);
        assert_eq!(
            (code, &last["exit_code"], &last["complete"]),
            (Some(0), &0.into(), &true.into())
        );
        assert!(last["deleted"].as_u64() >= Some(4), "{last}");
    }
}

#[test]
fn a_round_compares_what_changed_and_no_more() {
    let world = world();
    for n in 0..200 {
        world.write(format!("src/wide/{n}"), "");
    }
    let mut watching = Watching::start(&world, &words(Way::Push, "--delete"));
    world.write("src/wide/7", "changed");
    let round = watching.event("round");
    assert_eq!((&round["full"], &round["names"]), (&false.into(), &1.into()), "{round}");
    let change = watching.event("change");
    assert_eq!(change["path"], "wide/7");
    let summary = watching.event("summary");
    // With what is beside it at the top.
    assert_eq!((&summary["files"], &summary["transferred"]), (&3.into(), &1.into()), "{summary}");
    watching.settles("src", "dst");
    let (code, _) = watching.end(Signal::INT);
    assert_eq!(code, Some(0));
}

/// The event is of the name that was written through.
#[test]
fn a_change_arrives_under_all_names_of_a_file() {
    let world = world();
    fs::hard_link(world.path("src/a"), world.path("src/sub/other")).unwrap();
    fs::hard_link(world.path("src/b"), world.path("src/sub/deep/other")).unwrap();
    for options in ["--delete", "--delete -H"] {
        let mut watching = Watching::start(&world, &words(Way::Local, options));
        append(&world, "src/a");
        assert_eq!(watching.event("round")["full"], true);
        watching.settles("src", "dst");
        // The name is not the one that it was written through, and what else is in that directory is to be compared
        // anyway.
        append(&world, "src/sub/deep/other");
        fs::rename(world.path("src/sub/deep/other"), world.path("src/sub/deep/moved")).unwrap();
        watching.settles("src", "dst");
        fs::rename(world.path("src/sub/deep/moved"), world.path("src/sub/deep/other")).unwrap();
        watching.settles("src", "dst");
        watching.end(Signal::TERM);
    }
}

fn append(world: &World, name: &str) {
    let file = fs::OpenOptions::new().append(true).open(world.path(name));
    file.and_then(|mut file| file.write_all(b", and more")).expect("it is there");
}

#[test]
fn without_delete_nothing_is_removed() {
    let world = world();
    let mut watching = Watching::start(&world, &words(Way::Local, ""));
    fs::remove_file(world.path("src/a")).unwrap();
    fs::rename(world.path("src/sub"), world.path("src/moved")).unwrap();
    watching.event("summary");
    let start = Instant::now();
    while !world.exists("dst/moved/deep/d") {
        watching.event("summary");
        assert!(start.elapsed() < PATIENCE, "{}", watching.stderr());
    }
    assert!(world.exists("dst/a") && world.exists("dst/sub/deep/d"));
    watching.end(Signal::TERM);
}

/// The law with a real kernel: whatever happens while rounds go on, at the end the trees are equal.
#[test]
fn in_a_busy_tree_nothing_is_lost() {
    for seed in 0..3u64 {
        let world = world();
        let watching = Watching::start(&world, &words(Way::Push, "--delete --force-delete"));
        let mut state = seed + 1;
        let mut below = |n: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % n
        };
        let mut at = |depth: usize| {
            let names: Vec<_> =
                (0..=below(depth)).map(|_| ["x", "y", "z", "x.y"][below(4)]).collect();
            world.path(format!("src/{}", names.join("/")))
        };
        for n in 0..1500usize {
            let (one, other) = (at(4), at(4));
            // Many of these fail, as they may.
            match n * 7 % 10 {
                0..3 => drop(fs::create_dir_all(&one)),
                3..7 => drop(fs::write(&one, n.to_string())),
                7 => drop(fs::rename(&one, &other)),
                8 => drop(fs::remove_file(&one)),
                _ => drop(fs::remove_dir_all(&one)),
            }
            if n % 100 == 0 {
                thread::sleep(Duration::from_millis(60));
            }
        }
        watching.settles("src", "dst");
        world.assert_same("src", "dst");
        watching.end(Signal::TERM);
    }
}

#[test]
fn a_destination_that_goes_away_is_waited_for_and_never_made_anew() {
    for way in [Way::Local, Way::Push] {
        let world = world();
        let mut watching = Watching::start(&world, &words(way, "--delete"));
        fs::rename(world.path("dst"), world.path("away")).unwrap();
        world.write("src/new", "while it is away");
        let error = watching.event("error");
        assert_eq!(error["exit_code"], 3, "{error}");
        assert!(!world.exists("dst"), "{way:?}");
        // What is gone there comes back as well: everything is compared.
        fs::remove_file(world.path("away/b")).unwrap();
        fs::rename(world.path("away"), world.path("dst")).unwrap();
        watching.settles("src", "dst");
        let (code, last) = watching.end(Signal::TERM);
        assert_eq!(code, Some(0));
        assert!(last["failed_rounds"].as_u64() >= Some(1), "{last}");
    }
}

#[test]
fn a_source_that_goes_away_is_waited_for_and_nothing_is_removed_meanwhile() {
    let world = world();
    let mut watching = Watching::start(&world, &words(Way::Local, "--delete"));
    fs::rename(world.path("src"), world.path("away")).unwrap();
    assert_eq!(watching.event("watch")["state"], "source_gone");
    world.write("away/new", "while it is away");
    fs::rename(world.path("away"), world.path("src")).unwrap();
    assert_eq!(watching.event("watch")["state"], "source_back");
    watching.settles("src", "dst");
    assert!(world.exists("dst/sub/deep/d"));
    world.write("src/later", "watched again");
    watching.settles("src", "dst");
    watching.end(Signal::TERM);
}

/// The directory that was there tells nothing of its end: somebody holds it open.
#[test]
fn a_source_that_is_made_anew_is_watched_anew() {
    let world = world();
    let watching = Watching::start(&world, &words(Way::Local, "--delete --force-delete"));
    let held = fs::File::open(world.path("src")).unwrap();
    fs::remove_dir_all(world.path("src")).unwrap();
    world.write("src/one", "made at once");
    watching.settles("src", "dst");
    world.write("src/two", "watched again");
    watching.settles("src", "dst");
    drop(held);
    watching.end(Signal::TERM);
}

/// Between rounds nothing of the source is held.
#[test]
fn a_source_that_is_watched_can_be_unmounted_and_is_watched_when_it_is_mounted_again() {
    let world = World::new();
    world.mkdir("src");
    let mount = || Run::of(&mut world.command("mount", ["-t", "tmpfs", "tmpfs", "src"])).code;
    if !is_root() || mount() != Some(0) {
        return skip("nothing can be mounted here");
    }
    world.write("src/sub/a", "a");
    let watching = Watching::start(&world, &words(Way::Local, "--delete"));
    world.write("src/sub/b", "b");
    watching.settles("src", "dst");
    for name in ["c", "d"] {
        let start = Instant::now();
        let unmount = || Run::of(&mut world.command("umount", ["src"])).code;
        while unmount() != Some(0) {
            if start.elapsed() > PATIENCE {
                Run::of(&mut world.command("umount", ["-l", "src"]));
                panic!("it is held");
            }
            thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(mount(), Some(0));
        for name in ["a", "b", name] {
            world.write(format!("src/sub/{name}"), name);
        }
        let start = Instant::now();
        while !world.exists(format!("dst/sub/{name}")) {
            assert!(start.elapsed() < PATIENCE, "{}", watching.stderr());
            thread::sleep(Duration::from_millis(20));
        }
        assert!(world.exists("dst/sub/a"), "nothing goes in the place of what is not mounted");
    }
    watching.end(Signal::TERM);
    Run::of(&mut world.command("umount", ["-l", "src"]));
}

#[test]
fn what_is_mounted_in_a_source_is_synced_and_watched_and_so_is_what_it_covered() {
    let world = World::new();
    world.write("src/mount here/under", "covered for a while");
    let mount = ["-t", "tmpfs", "tmpfs", "src/mount here"];
    let unmount = || Run::of(&mut world.command("umount", ["-l", "src/mount here"]));
    if !is_root() || Run::of(&mut world.command("mount", mount)).code != Some(0) {
        return skip("nothing can be mounted here");
    }
    unmount();
    let watching = Watching::start(&world, &words(Way::Local, ""));
    assert_eq!(Run::of(&mut world.command("mount", mount)).code, Some(0));
    let arrives = |name: &str| {
        world.write(format!("src/mount here/{name}"), name);
        let start = Instant::now();
        while !world.exists(format!("dst/mount here/{name}")) {
            if start.elapsed() > PATIENCE {
                unmount();
                panic!("{name}: {}", watching.stderr());
            }
            thread::sleep(Duration::from_millis(20));
        }
    };
    arrives("found");
    arrives("watched");
    // This one is held by what is in it, and gone nevertheless.
    let held = fs::File::open(world.path("src/mount here/found")).unwrap();
    unmount();
    arrives("seen again");
    arrives("watched again");
    drop(held);
    watching.end(Signal::TERM);
}

#[test]
fn sources_of_every_form_are_watched() {
    for (operands, pairs) in [
        ("src dst/", &[("src", "dst/src")][..]),
        ("-R src/sub dst/", &[("src/sub", "dst/src/sub")]),
        ("src/sub src/other dst/", &[("src/sub", "dst/sub"), ("src/other", "dst/other")]),
        ("src/./sub/ dst/", &[("src/sub", "dst")]),
        ("--exclude *.tmp src/ dst/", &[("src", "dst")]),
        ("-F src/ dst/", &[("src", "dst")]),
        ("-L src/ dst/", &[("src", "dst")]),
    ] {
        let world = world();
        let watching = Watching::start(&world, &format!("-a --delete {operands}"));
        world.write("src/sub/deep/new", "1");
        fs::remove_file(world.path("src/other/e")).unwrap();
        fs::remove_file(world.path("src/sub/c")).unwrap();
        world.write("src/sub/made/file", "2");
        pairs.iter().for_each(|(src, dst)| watching.settles(src, dst));
        watching.end(Signal::TERM);
    }
    let world = world();
    let watching = Watching::start(&world, "-a src/a copy");
    world.write("new", "moved over it");
    fs::rename(world.path("new"), world.path("src/a")).unwrap();
    let start = Instant::now();
    while fs::read(world.path("copy")).ok() != Some(b"moved over it".to_vec()) {
        assert!(start.elapsed() < PATIENCE, "{}", watching.stderr());
        thread::sleep(Duration::from_millis(20));
    }
    watching.end(Signal::TERM);
}

#[test]
fn rules_in_directories_count_from_when_they_change() {
    let world = world();
    world.write("src/out/file", "excluded");
    world.write("src/.rsync-filter", "- /out\n");
    let watching = Watching::start(&world, &words(Way::Local, "-F"));
    assert!(!world.exists("dst/out"));
    world.write("src/.rsync-filter", "");
    watching.settles("src", "dst");
    world.write("src/out/more", "of what is watched since");
    watching.settles("src", "dst");
    watching.end(Signal::TERM);
}

#[test]
fn what_keeps_failing_puts_nothing_else_off() {
    let world = world();
    world.write("src/other/in-the-way", "a file here");
    world.write("dst/other/in-the-way/full", "a directory there");
    let mut watching = Watching::start(&world, &words(Way::Push, ""));
    // Each time that comes later everything is compared again.
    for n in 0.. {
        world.write(format!("src/sub/new{n}"), "does not wait for that");
        if watching.event("round")["full"] == false {
            break;
        }
        assert!(n < 20, "{}", watching.stderr());
    }
    assert_eq!(watching.event("summary")["exit_code"], 0);
    fs::remove_dir_all(world.path("dst/other/in-the-way")).unwrap();
    watching.settles("src", "dst");
    watching.end(Signal::TERM);
}

/// At first there were so few that a few would be most of them.
#[test]
fn the_guard_counts_with_what_has_come_and_gone() {
    let world = World::new();
    world.write("src/a", "a");
    let mut watching = Watching::start(&world, &words(Way::Local, "--delete --max-delete=25%"));
    (0..200).for_each(|n| world.write(format!("src/many/{n}"), ""));
    watching.settles("src", "dst");
    (0..30).for_each(|n| fs::remove_file(world.path(format!("src/many/{n}"))).unwrap());
    watching.settles("src", "dst");
    fs::rename(world.path("src/many"), world.path("away")).unwrap();
    let trouble = watching.event("trouble");
    let said = trouble["message"].as_str().unwrap();
    // The source itself, a file, a directory and what is left in that.
    assert_eq!(said, "nothing deleted: 171 of 173 names would be removed (limit 43)");
    watching.end(Signal::TERM);
}

/// The user's word to the watches of this world.
fn confirm(world: &World) -> Run {
    Run::of(&mut world.command(DELTIC, ["watch", "--confirm"]))
}

#[test]
fn many_deletions_wait_for_the_users_word_and_the_rest_goes_on() {
    for way in [Way::Local, Way::Push] {
        let world = world();
        (0..60).for_each(|n| world.write(format!("src/many/{n}"), ""));
        let mut watching = Watching::start(&world, &words(way, "--delete --max-delete=25%"));
        let nothing = confirm(&world);
        assert_eq!((nothing.code, &*nothing.stdout), (Some(3), ""), "{nothing:#?}");
        fs::rename(world.path("src/many"), world.path("away")).unwrap();
        let trouble = watching.event("trouble");
        assert_eq!(trouble["kind"], "delete_limit");
        let said = "nothing deleted: 61 of 70 names would be removed (limit 17)";
        assert_eq!(trouble["message"], said);
        assert_eq!(watching.event("summary")["exit_code"], 25);
        let waits = watching.event("watch");
        assert_eq!(waits["state"], "held_back");
        assert_eq!(waits["message"], "61 names wait to be removed");
        watching.says("`deltic watch --confirm` allows the deletions");
        // Deletions elsewhere go, and not by all being compared.
        world.write("src/sub/new", "goes on");
        fs::remove_file(world.path("src/other/e")).unwrap();
        assert_eq!(watching.event("round")["full"], false);
        let start = Instant::now();
        while !world.exists("dst/sub/new") || world.exists("dst/other/e") {
            assert_eq!(watching.event("summary")["exit_code"], 0);
            assert!(start.elapsed() < PATIENCE, "{}", watching.stderr());
        }
        assert!(world.exists("dst/many/59"));
        let confirmed = confirm(&world);
        let said = "61 names may be removed: deltic watch src/ ";
        assert!(confirmed.stdout.starts_with(said), "{confirmed:#?}");
        assert_eq!((confirmed.code, confirmed.lines().len()), (Some(0), 1), "{confirmed:#?}");
        watching.settles("src", "dst");
        assert_eq!(confirm(&world).code, Some(3));
        let (code, last) = watching.end(Signal::TERM);
        assert_eq!((code, &last["complete"]), (Some(0), &true.into()), "{last}");
        assert_eq!(last["waiting"], 0, "{last}");
    }
}

#[test]
fn names_that_wait_are_told_to_the_end() {
    let world = world();
    (0..60).for_each(|n| world.write(format!("src/many/{n}"), ""));
    let mut command = command(&world, "-av --delete --max-delete=25% src/ dst/");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let lines = Lines::of(&mut child);
    lines.with("; waiting for changes");
    fs::rename(world.path("src/many"), world.path("away")).unwrap();
    lines.with("61 names wait for `");
    // Another round goes well, and they wait still.
    world.write("src/new", "goes on");
    lines.with(": 1 file transferred, 0 names removed, ");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    // The last line.
    lines.with("; 61 names wait for `");
    assert!(ended(&mut child).is_some());
}

#[test]
fn names_that_vanish_under_a_watch_are_counted() {
    if !crate::common::is_installed("strace") {
        return crate::common::skip("strace is not installed, which has files vanish");
    }
    let world = World::new();
    for name in ["gone 1", "gone 2", "gone 3", "stays"] {
        world.write(format!("src/{name}"), name);
    }
    let mut traced = Command::new("strace");
    // The program itself is our child.
    traced.args(["-D", "-qq", "-f", "-o", "trace", "-P", "gone 1", "-P", "gone 2", "-P", "gone 3"]);
    traced.args(["-e", "inject=open,openat,openat2:error=ENOENT", DELTIC]);
    traced.args(command(&world, "-a src/ dst/").get_args());
    world.place(&mut traced);
    let watching = Watching::run(&world, traced);
    watching.says("deltic: 3 names vanished or changed while they were read");
    assert!(!watching.stderr().contains("has vanished"), "{}", watching.stderr());
    watching.end(Signal::TERM);
}

#[test]
fn an_empty_source_says_what_a_watch_waits_for() {
    let world = World::new();
    world.mkdir("src");
    world.write("dst/kept", "x");
    let watching = Watching::start(&world, "-a --delete src/ dst/");
    watching.says("1 name would be removed; to delete anyway, use --force-delete");
    watching.says("  hint: the watch waits for a first name in the source; ");
    watching.end(Signal::TERM);
}

#[test]
fn a_watch_that_is_stopped_does_not_keep_the_word_from_the_others() {
    let world = world();
    (0..60).for_each(|n| world.write(format!("src/many/{n}"), ""));
    let mut watching = Watching::start(&world, &words(Way::Local, "--delete --max-delete=25%"));
    fs::rename(world.path("src/many"), world.path("away")).unwrap();
    assert_eq!(watching.event("watch")["state"], "held_back");
    let sockets = world.path(".cache/deltic/watch");
    // Several, so that one of them comes first whatever the order of names is.
    let silent: Vec<_> =
        (0..4).map(|n| UnixListener::bind(sockets.join(format!("1-{n}.sock"))).unwrap()).collect();
    // Nothing listens at this one, and it is no socket of a watch that would.
    world.write(".cache/deltic/watch/2-0.sock", "");
    let confirmed = confirm(&world);
    assert!(confirmed.stdout.starts_with("61 names may be removed"), "{confirmed:#?}");
    assert_eq!(confirmed.code, Some(11), "{confirmed:#?}");
    assert!(confirmed.stderr.contains("watch 1-3.sock: no answer"), "{confirmed:#?}");
    drop(silent);
    watching.settles("src", "dst");
    watching.end(Signal::TERM);
}

/// Containers may share a directory, and count processes each for itself.
#[test]
fn a_socket_is_taken_from_no_other_watch_of_the_same_number() {
    let world = world();
    world.mkdir(".cache/deltic/watch");
    world.chmod(".cache/deltic/watch", 0o755);
    let mut command = Command::new("sh");
    // The shell's number is that of the watch; the first name is in use, and the second was left behind.
    let script = r#"touch ready.$$; while ! [ -e go ]; do sleep 0.02; done; exec "$0" "$@""#;
    let inner = self::command(&world, &words(Way::Local, "--delete"));
    command.args(["-c", script, DELTIC]).args(inner.get_args());
    world.place(&mut command);
    let place = |pid: u32, n: u32| world.path(format!(".cache/deltic/watch/{pid}-{n}.sock"));
    thread::scope(|scope| {
        let taken = scope.spawn(|| {
            let start = Instant::now();
            let pid = loop {
                let names = world.names("");
                let found = names.iter().find_map(|name| name.strip_prefix("ready."));
                if let Some(pid) = found {
                    break pid.parse::<u32>().unwrap();
                }
                assert!(start.elapsed() < PATIENCE, "it does not start");
                thread::sleep(Duration::from_millis(20));
            };
            let taken = UnixListener::bind(place(pid, 0)).unwrap();
            drop(UnixListener::bind(place(pid, 1)).unwrap());
            world.write("go", "");
            (pid, taken)
        });
        let watching = Watching::run(&world, command);
        let (pid, taken) = taken.join().unwrap();
        taken.set_nonblocking(true).unwrap();
        assert!(taken.accept().is_err(), "it was given a word");
        assert_eq!(confirm_sockets(&world), [format!("{pid}-0.sock"), format!("{pid}-1.sock")]);
        assert_eq!(world.mode(".cache/deltic/watch"), 0o700);
        watching.end(Signal::TERM);
        assert_eq!(confirm_sockets(&world), [format!("{pid}-0.sock")]);
    });
}

fn confirm_sockets(world: &World) -> Vec<String> {
    let mut names = world.names(".cache/deltic/watch");
    names.sort();
    names
}

#[test]
fn another_users_link_leads_no_watch_to_another_directory() {
    if !is_root() {
        return skip("another user's link needs root");
    }
    for link in [".cache/deltic/watch", ".cache/deltic"] {
        let world = world();
        (0..60).for_each(|n| world.write(format!("src/many/{n}"), ""));
        world.mkdir("victim");
        world.chmod("victim", 0o755);
        world.mkdir(".cache");
        let path = world.path(link);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(world.path("victim"), &path).unwrap();
        lchown(&path, Some(65534), None).unwrap();
        let mut watching = Watching::start(&world, &words(Way::Local, "--delete --max-delete=25%"));
        assert_eq!(world.mode("victim"), 0o755);
        assert_eq!(world.names("victim"), [""; 0]);
        fs::rename(world.path("src/many"), world.path("away")).unwrap();
        assert_eq!(watching.event("watch")["state"], "held_back");
        watching.says("confirmations cannot be received here");
        watching.end(Signal::TERM);
    }
}

#[test]
fn a_watch_with_a_directory_of_its_own_says_how_it_is_reached() {
    let world = world();
    (0..60).for_each(|n| world.write(format!("src/many/{n}"), ""));
    let mut command = command(&world, &words(Way::Local, "--delete --max-delete=25%"));
    let dir = world.path("my cache");
    command.env("DELTIC_CACHE_DIR", &dir);
    let mut watching = Watching::run(&world, command);
    fs::rename(world.path("src/many"), world.path("away")).unwrap();
    assert_eq!(watching.event("watch")["state"], "held_back");
    let said = format!(
        "`DELTIC_CACHE_DIR='{}' deltic watch --confirm` allows the deletions",
        dir.display()
    );
    watching.says(&said);
    watching.end(Signal::TERM);
}

/// More names than a watch remembers one by one.
#[test]
fn many_names_of_one_directory_wait_and_the_rest_goes_on() {
    let world = World::new();
    (0..400).for_each(|n| world.write(format!("src/{n}"), ""));
    (0..5).for_each(|n| world.write(format!("src/dir/{n}"), ""));
    let mut watching = Watching::start(&world, &words(Way::Local, "--delete --max-delete=10%"));
    // It learns of all of them at once: no round falls in between.
    watching.signal(Signal::STOP);
    (0..290).for_each(|n| fs::remove_file(world.path(format!("src/{n}"))).unwrap());
    watching.signal(Signal::CONT);
    assert_eq!(watching.event("watch")["state"], "held_back");
    let start = Instant::now();
    for (n, name) in ["new", "newer"].into_iter().enumerate() {
        world.write(format!("src/{name}"), "goes on");
        let gone = format!("dir/{n}");
        fs::remove_file(world.path(format!("src/{gone}"))).unwrap();
        while !world.exists(format!("dst/{name}")) || world.exists(format!("dst/{gone}")) {
            assert_eq!(watching.event("summary")["exit_code"], 0, "{name}");
            assert!(start.elapsed() < PATIENCE, "{}", watching.stderr());
        }
        assert_eq!((0..290).filter(|n| world.exists(format!("dst/{n}"))).count(), 290, "{name}");
    }
    watching.says("nothing deleted: 290 of ");
    while !confirm(&world).stdout.starts_with("290 names may be removed") {
        assert!(start.elapsed() < PATIENCE, "{}", watching.stderr());
    }
    watching.settles("src", "dst");
    watching.end(Signal::TERM);
}

/// A tree of more names than a watch remembers, which is removed name by name.
#[test]
fn a_large_directory_that_is_removed_waits_and_the_rest_goes_on() {
    let world = world();
    (0..1300).for_each(|n| world.write(format!("src/node_modules/{}/{n}", n % 7), ""));
    let mut watching = Watching::start(&world, &words(Way::Local, "--delete --max-delete=10%"));
    // It learns of all of them at once: no round falls in between.
    watching.signal(Signal::STOP);
    fs::remove_dir_all(world.path("src/node_modules")).unwrap();
    watching.signal(Signal::CONT);
    assert_eq!(watching.event("watch")["message"], "1308 names wait to be removed");
    let start = Instant::now();
    fs::remove_file(world.path("src/other/e")).unwrap();
    while world.exists("dst/other/e") {
        assert!(start.elapsed() < PATIENCE, "{}", watching.stderr());
        thread::sleep(Duration::from_millis(20));
    }
    assert!(world.exists("dst/node_modules/6/6"));
    let confirmed = confirm(&world);
    assert!(confirmed.stdout.starts_with("1,308 names may be removed"), "{confirmed:#?}");
    watching.settles("src", "dst");
    watching.end(Signal::TERM);
}

/// The word is for as many names as were told.
#[test]
fn what_goes_besides_what_was_confirmed_is_asked_for_again() {
    let world = world();
    (0..60).for_each(|n| world.write(format!("src/many[*]/{n}"), ""));
    (0..60).for_each(|n| world.write(format!("src/sub/more/{n}"), ""));
    let mut watching = Watching::start(&world, &words(Way::Push, "--delete --max-delete=25%"));
    for name in ["many[*]", "sub/more"] {
        fs::rename(world.path(format!("src/{name}")), world.path(name.replace('/', "-"))).unwrap();
        assert_eq!(watching.event("watch")["message"], "61 names wait to be removed");
    }
    world.write("dst/sub/more/another", "");
    assert!(confirm(&world).stdout.starts_with("122 names may be removed"));
    assert_eq!(watching.event("watch")["message"], "123 names wait to be removed");
    assert!(world.exists("dst/many[*]/59") && world.exists("dst/sub/more/59"));
    assert!(confirm(&world).stdout.starts_with("123 names may be removed"));
    watching.settles("src", "dst");
    watching.end(Signal::TERM);
}

#[test]
fn what_comes_back_before_its_deletion_is_confirmed_stays() {
    let world = world();
    (0..60).for_each(|n| world.write(format!("src/many/{n}"), ""));
    let mut watching = Watching::start(&world, &words(Way::Local, "--delete --max-delete=25%"));
    fs::rename(world.path("src/many"), world.path("away")).unwrap();
    assert_eq!(watching.event("watch")["state"], "held_back");
    fs::rename(world.path("away"), world.path("src/many")).unwrap();
    let start = Instant::now();
    while watching.event("summary")["exit_code"] != 0 {
        assert!(start.elapsed() < PATIENCE, "{}", watching.stderr());
    }
    watching.settles("src", "dst");
    assert_eq!(confirm(&world).code, Some(3));
    // It is watched as ever.
    fs::rename(world.path("src/many"), world.path("away")).unwrap();
    assert_eq!(watching.event("watch")["message"], "61 names wait to be removed");
    watching.end(Signal::TERM);
}

#[test]
fn words_that_make_no_watch_are_refused_and_so_is_a_first_round_that_cannot_start() {
    for (words, code, why) in [
        ("-a h:src/ dst/", 1, "on this machine"),
        ("-t src/ dst/", 1, "the options need -r or -a"),
        ("-an src/ dst/", 1, "-n is not possible"),
        ("-a --remove-source-files src/ dst/", 1, "--remove-source-files"),
        ("-a --delay x src/ dst/", 1, "--delay"),
        ("-a missing/ dst/", 23, "missing"),
        ("--confirm src/ dst/", 1, "--confirm takes no SRC and DEST"),
        ("-a src/ no/such/dst/", 11, "no such directory"),
        ("-a src/ src/dst/", 1, "inside the source"),
    ] {
        let world = world();
        let mut words: Vec<_> = words.split(' ').collect();
        words.insert(0, "watch");
        let mut command = world.command(DELTIC, words);
        let run = Run::of(command.args(["-e", SHELL, "--deltic-path", DELTIC]));
        assert_eq!(run.code, Some(code), "{run:#?}");
        assert!(!run.stderr.contains("deltic sync --help"), "{run:#?}");
        assert!(run.stderr.contains(why), "{run:#?}");
    }
}

/// The same in a user namespace of its own, where the system is short of something; loudly nothing where there are
/// none.
fn short_of(world: &World, what: &str, words: &str) -> Option<Command> {
    let limit = format!(r#"echo {what} && exec "$0" "$@""#);
    let probe = Command::new("unshare").args(["-Ur", "sh", "-c", &limit, "true"]).output();
    if !probe.is_ok_and(|probe| probe.status.success()) {
        crate::common::skip("no user namespace can be made: limits stay what they are");
        return None;
    }
    let inner = command(world, words);
    let mut command = Command::new("unshare");
    command.args(["-Ur", "sh", "-c", &limit, DELTIC]).args(inner.get_args());
    command.current_dir(world.path("")).env("HOME", world.path(""));
    Some(command)
}

#[test]
fn a_tree_of_too_many_directories_is_compared_now_and_then() {
    let world = world();
    let limit = "3 >/proc/sys/user/max_inotify_watches";
    let Some(command) = short_of(&world, limit, &words(Way::Local, "--delete")) else { return };
    let watching = Watching::run(&world, command);
    let stderr = watching.stderr();
    assert!(
        stderr.contains("too many directories") && stderr.contains("max_user_watches"),
        "{stderr}"
    );
    for name in ["sub/deep/d", "other/e", "a"] {
        world.write(format!("src/{name}"), "changed, watched or not");
    }
    watching.settles("src", "dst");
    watching.end(Signal::TERM);
}

#[test]
fn a_system_that_lets_nobody_watch_is_told_of_with_what_to_do() {
    let world = world();
    let limit = "0 >/proc/sys/user/max_inotify_instances";
    let Some(mut command) = short_of(&world, limit, &words(Way::Local, "")) else { return };
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(11), "{stderr}");
    assert!(
        stderr.contains("watch the source") && stderr.contains("max_user_instances"),
        "{stderr}"
    );
}

#[test]
fn people_are_told_what_it_came_to() {
    let world = world();
    let mut command = command(&world, "-av src/ dst/");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let lines = Lines::of(&mut child);
    let line = lines.with(" round 1: 5 files transferred, 0 names removed, ");
    assert!(line.ends_with("; waiting for changes"), "{line}");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let rest: Vec<_> = std::iter::from_fn(|| lines.next()).collect();
    assert!(
        rest[0].starts_with("watched for ") && rest[0].contains(": 1 round, 5 files"),
        "{rest:?}"
    );
    assert!(rest[1].starts_with("sent "), "{rest:?}");
    assert_eq!(ended(&mut child), Some(0));
}

#[test]
fn limits_that_would_hold_in_each_round_anew_are_refused() {
    let world = World::new();
    world.write("src/a", "x");
    let refused = |words: &str| {
        let run = Run::of(&mut world.command(DELTIC, words.split(' ')));
        assert_eq!(run.code, Some(1), "{run:#?}");
        run.stderr
    };
    let number = refused("watch -a --delete --max-delete=5 src/ dst/");
    assert!(number.contains("--max-delete 10%"), "{number}");
    let mut set = world.command(DELTIC, ["watch", "-a", "--delete", "src/", "dst/"]);
    let run = Run::of(set.env("DELTIC_MAX_DELETE", "5"));
    let origin = "`max-delete` is set in DELTIC_MAX_DELETE in the environment";
    assert!(run.code == Some(1) && run.stderr.contains(origin), "{run:#?}");
    let words = ["watch", "-a", "--delete", "--max-delete=5", "src/", "dst/"];
    let run = Run::of(world.command(DELTIC, words).env("DELTIC_MAX_DELETE", "10%"));
    assert!(!run.stderr.contains("is set in"), "{run:#?}");
    assert!(refused("watch -a src/").contains("no destination to keep equal"));
    // As a sync of it ends.
    for command in ["watch", "sync"] {
        let run = Run::of(&mut world.command(DELTIC, [command, "-a", "none", "dst"]));
        assert!(run.code == Some(23) && run.stderr.contains("cannot read "), "{run:#?}");
    }
    assert!(!world.exists("dst"));
}
