//! Connections of a remote shell that are cut: the run connects again by itself.

use std::fs;
use std::time::Duration;

use crate::common::dice::Dice;
use crate::common::tree::picture;
use crate::common::{DELTIC, Run, World, at_once, noise, wait_until};

/// A remote shell for each attempt. Line N of the file `cuts` tells how attempt N ends: `up` or `down` with the bytes
/// that pass before the connection is cut, or `hold` with the bytes before the agent hears nothing more for a while and
/// lives on. Attempts without a line are not cut.
const CUTTING_SHELL: &str = r#"
host=$1; shift
n=$(($(cat attempts 2>/dev/null || echo 0) + 1)); echo $n >attempts
read -r how bytes <<END
$(sed -n "${n}p" cuts)
END
pass() { exec dd iflag=count_bytes bs=64k count=$bytes 2>/dev/null; }
case $how in
up) (pass) | "$@"; exit 255;;
down) mkfifo down$n; exec 3<&0; "$@" <&3 >down$n & (pass) <down$n; kill -9 $!; exit 255;;
hold)
    mkfifo up$n down$n
    "$@" <up$n >down$n 2>/dev/null &
    cat <down$n & back=$!
    sleep 3 <down$n >/dev/null 2>&1 &
    sleep 3 2>/dev/null >up$n &
    (pass) >up$n; kill $back; exit 255;;
refuse) exit $bytes;;
*) exec "$@";;
esac
"#;

/// A world with the remote shell; `cuts` are the lines of its file.
fn cut_world(cuts: &str) -> World {
    let world = World::new();
    world.write("rsh", CUTTING_SHELL);
    world.write("cuts", cuts);
    world
}

/// Runs `deltic sync` by that shell.
fn sync(world: &World, words: &str) -> Run {
    let fixed = ["sync", "--no-fsync", "-e", "sh rsh", "--deltic-path", DELTIC];
    let words = fixed.into_iter().chain(words.split_whitespace());
    Run::of(world.command(DELTIC, words).timeout(Duration::from_secs(120)))
}

fn attempts(world: &World) -> u32 {
    String::from_utf8_lossy(&world.read("attempts")).trim().parse().expect("a number")
}

/// A sync that is cut, and its sources.
struct CutSync {
    words: &'static str,
    pulls: bool,
    /// Writes the sources and the old destination.
    write: fn(&World),
}

/// 300 small files, of which some have another version at the destination.
fn write_small(world: &World) {
    for n in 0..300 {
        let name = format!("dir{}/{n}", n % 7);
        world.write(format!("src/{name}"), noise(n * 37 % 9000, n as u64));
        if n % 10 == 0 {
            world.write(format!("dst/{name}"), noise(n * 31 % 9000 + 1, 1000 + n as u64));
        }
    }
    world.write("dst/dir3/gone", "not in the source");
}

fn write_large(world: &World) {
    world.write("src/large", noise(20_000_000, 1));
}

const CUT_SYNCS: [CutSync; 8] = [
    CutSync { words: "-a", pulls: false, write: write_small },
    CutSync { words: "-a", pulls: true, write: write_small },
    CutSync { words: "-aI", pulls: false, write: write_small },
    CutSync { words: "-rlI", pulls: true, write: write_small },
    CutSync { words: "-a --delete", pulls: true, write: write_small },
    CutSync { words: "-a --remove-source-files", pulls: false, write: write_small },
    CutSync { words: "-a", pulls: false, write: write_large },
    CutSync { words: "-a", pulls: true, write: write_large },
];

impl CutSync {
    /// Runs the sync with these cuts.
    fn run(&self, cuts: &str) -> (World, Run) {
        let world = cut_world(cuts);
        (self.write)(&world);
        // Sources get the same times in each world.
        for path in picture(&world.path("src")).keys() {
            world.set_time(world.path("src").join(path), 1_000_000_000);
        }
        let operands = if self.pulls { "h:src/ dst/" } else { "src/ h:dst/" };
        let run = sync(&world, &format!("{} --stats -i {operands}", self.words));
        (world, run)
    }

    /// The tree at the destination, without times that the run did not set.
    fn result(&self, world: &World) -> Vec<(std::path::PathBuf, Vec<u8>)> {
        let names = picture(&world.path("dst")).into_keys();
        names
            .map(|name| (name.clone(), fs::read(world.path("dst").join(name)).unwrap_or_default()))
            .collect()
    }

    /// Cuts the connection at random moments, and compares with a run without cuts.
    fn cut_at(&self, seed: u64, whole: &(World, Run)) {
        let mut dice = Dice::new(seed);
        let (way, label) = match self.pulls {
            true => ("down", "Total bytes received"),
            false => ("up", "Total bytes sent"),
        };
        let (unharmed, wanted) = whole;
        let bytes = wanted.stat(label);
        let number = 1 + dice.below(3);
        let cuts: Vec<_> =
            (0..number).map(|_| format!("{way} {}\n", 2_000 + dice.below(bytes - 2_000))).collect();
        let (world, run) = self.run(&cuts.concat());
        let what = format!("{} {cuts:?} seed {seed}\n{}{}", self.words, run.stdout, run.stderr);
        assert_eq!(run.code, wanted.code, "{what}");
        assert!(self.result(&world) == self.result(unharmed), "{what}");
        let times = attempts(&world) - 1;
        assert_eq!(run.stderr.matches("trying again in").count(), times as usize, "{what}");
        for label in ["Number of files", "Number of deleted files", "Total file size"] {
            assert_eq!(run.stat(label), wanted.stat(label), "{label}: {what}");
        }
        // A sender does not learn of files that arrive while the connection breaks.
        for label in ["Number of created files", "Number of regular files transferred"] {
            let (is, was) = (run.stat(label), wanted.stat(label));
            let least = if self.pulls { was } else { 1 };
            assert!((least..=was).contains(&is), "{label} {is} {was}: {what}");
        }
        let names = |run: &Run| {
            let lines = run.stdout.lines().filter(|line| line.as_bytes().get(1) == Some(&b'f'));
            lines
                .map(|line| line.rsplit(' ').next().unwrap_or_default().to_owned())
                .collect::<Vec<_>>()
        };
        let (mut is, was) = (names(&run), names(wanted));
        is.sort_unstable();
        assert!(is.windows(2).all(|two| two[0] != two[1]), "a name is told twice: {what}");
        assert!(is.iter().all(|name| was.contains(name)), "{what}");
        let (is, was) = (run.traffic(), wanted.traffic());
        let most = was + was / 20 + u64::from(times) * LOST_BYTES;
        assert!(is <= most, "{is} bytes instead of {was}: {what}");
    }
}

/// Most bytes that a cut costs: the list of the sources, and data on the way or not yet in place.
const LOST_BYTES: u64 = 2 << 20;
/// Number of cut runs; `DELTIC_CUTS` names another one.
const CUTS: u64 = 24;

#[test]
fn a_run_that_is_cut_at_any_moment_ends_as_one_that_is_not() {
    let cuts = std::env::var("DELTIC_CUTS").ok().and_then(|text| text.parse().ok()).unwrap_or(CUTS);
    at_once(CUT_SYNCS.iter().enumerate(), |(at, sync)| {
        let whole = sync.run("");
        assert_eq!(whole.1.code, Some(0), "{:#?}", whole.1);
        (0..cuts)
            .filter(|seed| seed % CUT_SYNCS.len() as u64 == at as u64)
            .for_each(|seed| sync.cut_at(seed, &whole));
    });
}

#[test]
fn events_of_a_run_that_is_cut_are_those_of_one_run() {
    let world = cut_world("up 200000\nup 300000\n");
    write_small(&world);
    let run = sync(&world, "-a --json src/ h:dst/");
    assert_eq!(run.code, Some(0), "{run:#?}");
    let events: Vec<serde_json::Value> =
        run.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let count = |name: &str| events.iter().filter(|event| event["event"] == name).count();
    assert_eq!((count("start"), count("summary"), count("error")), (1, 1, 0), "{run:#?}");
    assert_eq!(count("retry"), 2, "{run:#?}");
    let retry = events.iter().find(|event| event["event"] == "retry").expect("one");
    assert_eq!(retry["pause_ms"], 500);
    assert!(retry["message"].as_str().is_some_and(|why| why.contains("ended early")), "{retry}");
    assert_eq!(events.last().expect("some")["files"], 300, "{run:#?}");
    world.assert_same("src/dir1", "dst/dir1");
}

#[test]
fn an_agent_that_outlives_its_connection_does_no_harm() {
    let world = cut_world("hold 4000000\nhold 9000000\n");
    write_large(&world);
    write_small(&world);
    let run = sync(&world, "-a --delete src/ h:dst/");
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert_eq!(attempts(&world), 3);
    // Once the agents have ended, the next run removes what they had begun.
    wait_until("the next run leaves nothing behind", || {
        let run = sync(&world, "-a src/ h:dst/");
        assert_eq!(run.code, Some(0), "{run:#?}");
        !world.exists("dst/.deltic")
    });
    world.assert_same("src", "dst");
}

#[test]
fn a_connection_that_never_worked_is_not_made_again() {
    for (cuts, code) in [("refuse 255\n", 255), ("refuse 1\n", 12), ("refuse 127\n", 127)] {
        let world = cut_world(&cuts.repeat(3));
        world.write("src/a", "a");
        let run = sync(&world, "-a --deltic-path /no/such/deltic src/ h:dst/");
        assert_eq!(run.code, Some(code), "{run:#?}");
        assert!(attempts(&world) == 1 && !run.stderr.contains("trying again"), "{run:#?}");
    }
    // A network that is gone for a while, after a connection that worked.
    let world = cut_world("up 150000\nrefuse 255\nrefuse 255\n");
    write_small(&world);
    let run = sync(&world, "-a src/ h:dst/");
    assert_eq!((run.code, attempts(&world)), (Some(0), 4), "{run:#?}");
    let pauses = ["0.5 s", "1.0 s", "2.0 s"].map(|pause| format!("trying again in {pause}\n"));
    assert!(pauses.iter().all(|pause| run.stderr.contains(pause)), "{run:#?}");
}

#[test]
fn a_run_gives_up_after_the_time_that_the_user_sets() {
    for (words, code, times) in [
        ("--no-retry", 255, 1),
        ("--retry-for=1", 255, 2),
        ("--retry-for=forever --stop-after=1 --no-retry", 255, 1),
        ("--append", 255, 1),
        ("--write-batch=batch", 255, 1),
    ] {
        let world = cut_world(&format!("up 150000\n{}", "refuse 255\n".repeat(5)));
        write_small(&world);
        world.write("dst/dir0/0", "");
        let run = sync(&world, &format!("-a {words} src/ h:dst/"));
        assert_eq!((run.code, attempts(&world)), (Some(code), times), "{words} {run:#?}");
        let says_why = run.stderr.contains("does not connect again by itself");
        assert_eq!(says_why, words.starts_with("--append") || words.contains("batch"), "{run:#?}");
        let is_last = run.stderr.contains("run the same command again");
        assert_eq!(is_last, times == 1, "{words} {run:#?}");
    }
}

#[test]
fn a_list_from_standard_input_is_kept_for_later_attempts() {
    let world = cut_world("up 40000\n");
    write_small(&world);
    let list: String = (0..300).filter(|n| n % 7 == 1).map(|n| format!("dir1/{n}\n")).collect();
    let words = "sync -a --files-from=- --no-fsync -e".split(' ').chain(["sh rsh"]);
    let words = words.chain(["--deltic-path", DELTIC, "src/", "h:new/"]);
    let run = Run::of(world.command(DELTIC, words).write_stdin(list));
    assert_eq!((run.code, attempts(&world)), (Some(0), 2), "{run:#?}");
    assert_eq!(world.names("new/dir1").len(), 43);
}

/// ssh asks no question on a later attempt; another remote shell gets the words that the user wrote.
#[test]
fn a_later_attempt_of_ssh_asks_nothing() {
    use std::os::unix::fs::PermissionsExt;
    let world = cut_world("up 150000\n");
    write_small(&world);
    let script = "#!/bin/sh\necho \"$*\" >>said\n[ \"$1\" = -o ] && shift 2\nexec sh rsh \"$@\"\n";
    world.write("bin/ssh", script);
    let ssh = world.path("bin/ssh");
    fs::set_permissions(&ssh, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let ssh = ssh.to_str().expect("UTF-8");
    let words = ["sync", "-a", "-e", ssh, "--deltic-path", DELTIC, "src/", "h:dst/"];
    let run = Run::of(&mut world.command(DELTIC, words));
    assert_eq!(run.code, Some(0), "{run:#?}");
    let said = String::from_utf8(world.read("said")).expect("text");
    let wanted = [format!("h {DELTIC} agent"), format!("-o BatchMode=yes h {DELTIC} agent")];
    assert_eq!(said.lines().collect::<Vec<_>>(), wanted);
}
