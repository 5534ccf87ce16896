//! Other ends that are missing, talkative, cut off, killed or hostile; and readers of our own output that leave.

use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::common::peer::{agreed, checked, entry, hello, listing, sync_over, sync_with};
use crate::common::{
    DELTIC, Run, SHELL, World, at_once, is_installed, is_root, noise, skip, wait_until,
};
use deltic_protocol::hello::Reply;
use deltic_protocol::message::{FileNo, TransferKind};
use deltic_protocol::{ToReceiver, ToSender};
use deltic_tree::{Kind, Name};

const PUSH: [&str; 2] = ["src/", "h:dst/"];
const PULL: [&str; 2] = ["h:src/", "dst/"];

fn world() -> World {
    let world = World::new();
    world.write("src/file", "content");
    world
}

#[track_caller]
fn assert_ends(run: &Run, codes: &[i32], says: &str) {
    assert!(run.code.is_some_and(|code| codes.contains(&code)), "not {codes:?}: {run:#?}");
    assert!(
        run.stderr.starts_with("deltic: ") && run.stderr.contains(says),
        "no {says:?}: {run:#?}"
    );
    assert!(!run.stderr.contains("panicked"), "{run:#?}");
}

#[test]
fn a_remote_shell_that_is_not_there_is_named() {
    for operands in [PUSH, PULL] {
        let run = sync_over(&world(), "/no/such/shell -p 22", &operands);
        assert_ends(&run, &[14], "/no/such/shell");
        assert!(run.stderr.contains("hint: is the remote shell installed?"), "{run:#?}");
    }
}

#[test]
fn a_program_that_is_not_there_is_told_from_a_broken_connection() {
    let world = world();
    for operands in [PUSH, PULL] {
        let words = ["sync", "-a", "-e", SHELL, "--deltic-path", "/no/such/deltic"];
        let run = Run::of(&mut world.command(DELTIC, words.iter().chain(&operands)));
        assert_eq!(run.code, Some(127), "{run:#?}");
        assert!(run.stderr.contains("--deltic-path names the program"), "{run:#?}");
    }
}

#[test]
fn a_shell_that_prints_a_banner_is_quoted_and_told_from_another_protocol() {
    for operands in [PUSH, PULL] {
        let shell = r#"sh -c 'shift; echo "Welcome to host!"; exec "$@"' rsh"#;
        let run = sync_over(&world(), shell, &operands);
        assert_ends(&run, &[2], "Welcome to host!");
        assert!(run.stderr.contains("hint: is your shell clean?"), "{run:#?}");
        let run = sync_over(&world(), r#"sh -c 'echo hi; cat >/dev/null' rsh"#, &operands);
        assert_ends(&run, &[2], "got \"hi\\n\"");
        // What deltic says behind it is not what was printed.
        let shell = r#"sh -c 'shift; { echo Hi; exec "$@"; }' rsh"#;
        let run = sync_over(&world(), shell, &operands);
        assert_ends(&run, &[2], "got \"Hi\\n\"\n");
    }
}

#[test]
fn rsync_in_the_place_of_deltic_is_recognised() {
    if !is_installed("rsync") {
        return skip("rsync is not installed");
    }
    for operands in [PUSH, PULL] {
        let asks = "is the same deltic on both machines? --deltic-path names another program there";
        let shell = "sh -c 'exec rsync --server --sender -logDtpre.iLsfxC . . 2>/dev/null' rsh";
        let run = sync_over(&world(), shell, &operands);
        assert_ends(&run, &[2], "rsync answered, where deltic was expected");
        assert!(run.stderr.contains(asks), "{run:#?}");
        let run = sync_over(&world(), r#"sh -c 'echo "@RSYNCD: 32.0"; cat' rsh"#, &operands);
        assert_ends(&run, &[2], "rsync answered");
        // It takes `agent` for a file's name.
        let words = ["sync", "-a", "-e", SHELL, "--rsync-path=rsync"];
        let run = Run::of(&mut world().command(DELTIC, words.iter().chain(&operands)));
        assert_eq!(run.code, Some(12), "{run:#?}");
        assert!(run.stderr.contains("ended before deltic answered (exit status: 23)"), "{run:#?}");
        assert!(run.stderr.contains("hint: is the program there deltic?"), "{run:#?}");
    }
}

#[test]
fn an_other_end_that_closes_at_once_is_an_early_end_with_its_reason() {
    for operands in [PUSH, PULL] {
        let ended = "the remote shell ended before deltic answered (exit status: 0)";
        assert_ends(&sync_over(&world(), "true", &operands), &[12], ended);
        assert_ends(&sync_over(&world(), "sh -c 'exit 255' rsh", &operands), &[255], "255");
        let run = sync_over(&world(), "sh -c 'kill -9 $$' rsh", &operands);
        assert_ends(&run, &[12], "signal: 9");
    }
}

#[test]
fn a_shell_that_fails_in_the_midst_ends_the_run_with_its_255_as_in_rsync() {
    // The far end's own codes are none of the shell's.
    for (operands, cut) in [
        (PUSH, r#"sh -c 'shift; dd bs=1 count=5000 2>/dev/null | "$@"; exit CODE' rsh"#),
        (
            PULL,
            r#"sh -c 'shift; exec 3<&0; mkfifo f; "$@" <&3 >f & dd bs=1 count=5000 <f 2>/dev/null; kill -9 $!; exit CODE' rsh"#,
        ),
    ] {
        for (code, ours) in [(255, 255), (12, 12), (23, 12), (0, 12)] {
            let world = World::new();
            world.write("src/large", noise(1_000_000, 1));
            let run = sync_over(&world, &cut.replace("CODE", &code.to_string()), &operands);
            assert_ends(&run, &[ours], "the connection ended early");
            assert!(run.stderr.contains("run the same command again"), "{run:#?}");
        }
    }
}

/// After a move that was cut, the same command would delete what the move brought.
#[test]
fn a_move_that_is_cut_is_told_to_go_on_without_deletions() {
    let cut = r#"sh -c 'shift; dd bs=1 count=5000 2>/dev/null | "$@"' rsh"#;
    for (words, told) in [
        ("--remove-source-files --delete", "run the same command once without --delete,"),
        (
            "--remove-source-files --delete-missing-args",
            "run the same command once without --delete-missing-args,",
        ),
        ("--remove-source-files", "run the same command again"),
        ("--delete", "run the same command again"),
    ] {
        let world = World::new();
        world.write("src/large", noise(1_000_000, 1));
        let words: Vec<_> = words.split(' ').chain(PUSH).collect();
        assert_ends(&sync_over(&world, cut, &words), &[12], told);
    }
}

#[test]
fn a_connection_cut_anywhere_leaves_old_or_new_and_the_next_run_completes() {
    let (old, new) = (noise(150_001, 1), noise(150_000, 2));
    for (operands, cut) in [
        // dd, since head would hold bytes back.
        (PUSH, r#"sh -c 'shift; dd bs=1 count=LIMIT 2>/dev/null | "$@"' rsh"#),
        (
            PULL,
            r#"sh -c 'shift; exec 3<&0; mkfifo f; "$@" <&3 >f & dd bs=1 count=LIMIT <f 2>/dev/null; kill -9 $!' rsh"#,
        ),
    ] {
        for limit in [0, 3, 8, 11, 12, 60, 110, 150, 200, 300, 5000, 100_000] {
            let world = World::new();
            world.write("src/large", &new);
            world.write("src/small", "new");
            world.write("dst/large", &old);
            world.write("dst/small", "older");
            let run = sync_over(&world, &cut.replace("LIMIT", &limit.to_string()), &operands);
            assert_ends(&run, &[10, 12], "");
            let large = world.read("dst/large");
            assert!(large == old || large == new, "{operands:?} cut at {limit}");
            assert!([&b"older"[..], b"new"].contains(&&*world.read("dst/small")), "{limit}");
            world.ok(&format!("-a --no-fsync {} {}", operands[0], operands[1]));
            world.assert_same("src", "dst");
            world.assert_clean("dst");
        }
    }
}

/// A remote shell that kills the other end, `$!`, once this condition of sh holds.
fn killed_once(condition: &str) -> String {
    let wait = format!("for _ in $(seq 3000); do {condition} && break; sleep 0.02; done");
    format!(r#"sh -c 'shift; exec 3<&0 2>&-; "$@" <&3 & {wait}; kill -9 $!; wait $!' rsh"#)
}

#[test]
fn what_a_killed_other_end_has_received_is_not_sent_again() {
    let world = World::new();
    world.write("src/large", noise(24 << 20, 5));
    let shell = killed_once(r#"grep -Eq "^rchar: [2-9][0-9]{7}" /proc/$!/io"#);
    let run = sync_over(&world, &shell, &[&["--bwlimit", "8M"], &PUSH[..]].concat());
    assert_ends(&run, &[10, 12], "run the same command again");
    let again = world.ok("-a --stats src/ h:dst/");
    world.assert_same("src", "dst");
    world.assert_clean("dst");
    let literal = again.stat("Literal data");
    assert!(literal < (24 << 20) - 20_000_000 + (8 << 20), "{literal} bytes sent again");
}

#[test]
fn an_other_end_killed_in_the_midst_leaves_old_or_new_and_no_litter_after_the_next_run() {
    if !is_root() {
        return skip("only root sees how much an agent has written");
    }
    at_once([PUSH, PULL], |operands| {
        let world = World::new();
        let (old, new) = (noise(3_000_001, 1), noise(3_000_000, 2));
        world.write("src/large", &new);
        world.write("dst/large", &old);
        // Killed as soon as one end has told a million bytes, and the other has written as many.
        let wrote = |pid| format!(r#"grep -Eq "^wchar: [0-9]{{7}}" /proc/{pid}/io"#);
        let shell = killed_once(&format!("{} && {}", wrote("$!"), wrote("$PPID")));
        let run = sync_over(&world, &shell, &[&["--bwlimit", "500K"], &operands[..]].concat());
        assert_ends(&run, &[10, 12], "");
        assert!(world.read("dst/large") == old, "{operands:?}");
        let again = world.ok(&format!("-a --stats {} {}", operands[0], operands[1]));
        world.assert_same("src", "dst");
        world.assert_clean("dst");
        assert!(again.stat("Matched data") > 0, "{operands:?}: everything was sent again");
    });
}

#[test]
fn garbage_after_a_proper_hello_breaks_the_protocol() {
    let kinds = |said: Vec<u8>| [said, agreed()];
    for (start, operands) in
        kinds(hello()).into_iter().flat_map(|start| [(start.clone(), PUSH), (start, PULL)])
    {
        for garbage in [
            &noise(5000, 3)[..],
            b"Segmentation fault\n",
            &[0xff; 100],
            &[0; 100],
            &[250, 1, 0, 0, 7],
            &[16, 255, 255, 255],
        ] {
            let world = world();
            let run = sync_with(&world, &[&start, garbage].concat(), &operands);
            assert_ends(&run, &[12], "protocol");
            assert!(run.stderr.contains("hint: "), "{run:#?}");
        }
    }
}

#[test]
fn an_other_version_shares_no_protocol() {
    for operands in [PUSH, PULL] {
        let mut said = hello();
        let at = said.windows(6).position(|word| word == b"recipe").expect("it is there");
        said[at] = b'R';
        assert_ends(&sync_with(&world(), &said, &operands), &[2], "");
    }
}

/// A remote shell that starts nothing before it has heard `word`.
fn shell_that_waits_for(word: &str) -> String {
    let hears = r#"sh -c 'shift; : >heard; until grep -q WORD heard; do dd bs=65536 count=1 2>/dev/null >piece; test -s piece || exit 1; cat piece >>heard; done; cat heard - | exec "$@"' rsh"#;
    hears.replace("WORD", word)
}

#[test]
fn nothing_that_can_be_said_waits_for_an_answer() {
    // The request of a pull names what it wants; behind that of a push comes the list.
    for operands in [PULL, ["src/", "h:dst/"]] {
        let world = World::new();
        world.write("src/told-at-once", "content");
        let word = if operands == PULL { "src" } else { "told-at-once" };
        let run = sync_over(&world, &shell_that_waits_for(word), &operands);
        assert_eq!(run.code, Some(0), "{operands:?} {run:#?}");
        world.assert_same("src", "dst");
    }
}

#[test]
fn a_refusal_is_heard_however_much_was_said_before_it_came() {
    let world = World::new();
    for n in 0..3000 {
        world.write(format!("src/{n:0100}"), "");
    }
    assert_ends(
        &sync_over(&world, SHELL, &["src/", "h:no/such/place"]),
        &[11],
        "no such directory",
    );
    let mut other = hello();
    let at = other.windows(6).position(|word| word == b"recipe").expect("it is there");
    other[at] = b'R';
    assert_ends(&sync_with(&world, &other, &PUSH), &[2], "");
    world.write("said", "Who are you?\n");
    let shell = "sh -c 'head -c 100000 >/dev/null; cat said; exec cat >/dev/null' rsh";
    assert_ends(&sync_over(&world, shell, &PUSH), &[2], "Who are you?");
    let want = ToSender::Want { file: FileNo(0), how: TransferKind::Whole }.encode();
    let run = sync_with(&world, &[hello(), want].concat(), &PUSH);
    assert_ends(&run, &[12], "anything before the reply");
}

#[test]
fn an_agent_takes_no_list_before_a_request() {
    let world = World::new();
    world.write("dst/kept", "content");
    let list = listing(vec![entry("file", Kind::File, 0)])[agreed().len()..].to_vec();
    world.write("said", checked(&[hello(), list].concat()));
    let line = r#""$0" agent <said >heard; echo $? >code"#;
    Run::of(&mut world.command("sh", ["-c", line, DELTIC]));
    let heard = world.read("heard");
    let says = String::from_utf8_lossy(&heard);
    assert!(says.contains("anything before the request"), "{says}");
    assert_ne!(world.read("code"), b"0\n");
}

/// A frame of a payload written by hand.
fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    let len = u32::try_from(payload.len()).expect("it is short").to_le_bytes();
    [&[kind, len[0], len[1], len[2]], payload].concat()
}

#[test]
fn a_claim_of_two_to_the_sixty_third_costs_nothing_wherever_it_stands() {
    let huge = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
    let (file, how) = (FileNo(0), TransferKind::Whole);
    let list = listing(vec![entry("file", Kind::File, 5000)]);
    let frames = [
        (agreed(), list[agreed().len()..].to_vec(), PULL),
        (list, ToReceiver::Groups { file, groups: Vec::new() }.encode(), PULL),
        (agreed(), ToSender::Want { file, how }.encode(), PUSH),
        (agreed(), ToSender::Lack { file, groups: Vec::new() }.encode(), PUSH),
    ];
    for (before, frame_bytes, operands) in frames {
        let (kind, payload) = (frame_bytes[0], &frame_bytes[4..]);
        for at in 0..payload.len() {
            let claim = [&payload[..at], &huge, &payload[at + 1..]].concat();
            // It closes its side then, or it would be waited for.
            let world = world();
            world.write("said", checked(&[&before[..], &frame(kind, &claim)].concat()));
            let shell = "sh -c 'cat said; exec 1>&-; exec cat >heard' rsh";
            let start = Instant::now();
            let run = sync_over(&world, shell, &operands);
            assert_ends(&run, &[10, 12], "");
            assert!(start.elapsed() < Duration::from_secs(30), "kind {kind} at {at}");
        }
    }
}

#[test]
fn a_file_of_two_to_the_sixty_third_bytes_is_refused_or_fails_alone() {
    let world = world();
    for len in [1 << 62, u64::MAX / 2, u64::MAX] {
        let list = listing(vec![entry("huge", Kind::File, len), entry("name", Kind::Dir, 0)]);
        world.write("said", checked(&list));
        let shell = "sh -c 'cat said; exec 1>&-; exec cat >heard' rsh";
        assert_ends(&sync_over(&world, shell, &PULL), &[12], "");
        assert!(!world.exists("dst/huge"), "{len}");
    }
}

#[test]
fn names_that_lead_out_are_refused() {
    for name in ["../escape", "..", "/etc/x", "a/b", ".", ""] {
        let world = world();
        // A good listing in which the name is exchanged for one that no Name can be.
        let good = "x".repeat(name.len().max(1));
        let list = listing(vec![entry(&good, Kind::File, 3)]);
        let mut payload = list[agreed().len() + 4..].to_vec();
        let at = payload.windows(good.len()).rposition(|part| part == good.as_bytes());
        let at = at.expect("the name is there");
        payload.splice(at..at + good.len(), name.bytes());
        payload[at - 1] = name.len() as u8;
        let said = [agreed(), frame(16, &payload)].concat();
        let run = sync_with(&world, &said, &PULL);
        assert_ends(&run, &[12], "protocol");
        assert!(!world.exists("escape") && !world.exists("dst/b"), "{name}");
    }
}

#[test]
fn names_that_were_not_asked_for_are_refused() {
    let world = world();
    let said = listing(vec![entry(".bashrc", Kind::File, 3)]);
    assert_ends(&sync_with(&world, &said, &["h:notes", "dst/"]), &[12], "not requested");
    let said = listing(vec![entry("notes", Kind::Symlink(b"/etc"[..].into()), 0)]);
    let run = sync_with(&world, &said, &["--no-links", "h:notes", "dst/"]);
    assert_ends(&run, &[12], "");
    assert!(!world.exists("dst/.bashrc") && !world.exists("dst/notes"));
}

#[test]
fn no_flipped_bit_makes_a_wrong_file() {
    let world = World::new();
    let (one, two) = (noise(40_000, 1), noise(1500, 2));
    world.write("src/one", &one);
    world.write("src/two", &two);
    world.write("dst/one", "old");
    let shell = r#"sh -c 'shift; "$@" | tee stream' rsh"#;
    assert_eq!(sync_over(&world, shell, &PULL).code, Some(0));
    let stream = world.read("stream");
    for n in 0..100_u64 {
        let world = World::new();
        world.write("dst/one", "old");
        let mut flipped = stream.clone();
        // Half of them near the start, where the frames are.
        let reach = if n % 2 == 0 { 400 } else { stream.len() };
        let at = u64::from_le_bytes(noise(8, n).try_into().expect("eight")) as usize % reach;
        flipped[at] ^= 1 << (n % 8);
        world.write("said", flipped);
        let shell = "sh -c 'cat said; exec 1>&-; exec cat >heard' rsh";
        let run = sync_over(&world, shell, &PULL);
        assert!(
            run.code.is_some() && !run.stderr.contains("panicked"),
            "flip {n} at {at}: {run:#?}"
        );
        for entry in std::fs::read_dir(world.path("dst")).expect("it is there") {
            let path = entry.expect("it is there").path();
            if path.is_file() {
                let bytes = std::fs::read(&path).expect("it can be read");
                let known = bytes == one || bytes == two || bytes == b"old";
                assert!(known, "flip {n} at {at} made a wrong {} {run:#?}", path.display());
            }
        }
    }
}

#[test]
fn a_reader_that_leaves_does_not_stop_the_sync() {
    let world = World::new();
    for n in 0..500 {
        world.write(format!("src/{n}"), "x");
    }
    let line = r#"{ "$0" sync -ai --no-fsync src/ dst/; echo $? >code; } | head -1"#;
    let run = Run::of(&mut world.command("sh", ["-c", line, DELTIC]));
    assert_eq!((run.stdout.lines().count(), world.read("code")), (1, b"0\n".to_vec()), "{run:#?}");
    world.assert_same("src", "dst");
    let line = r#""$0" sync -ai --no-fsync src/ full/ >/dev/full"#;
    let run = Run::of(&mut world.command("sh", ["-c", line, DELTIC]));
    assert_ends(&run, &[11], "cannot write standard output");
    world.assert_same("src", "full");
}

#[test]
fn an_interrupt_ends_both_ends_and_the_next_run_goes_on() {
    for operands in [PUSH, PULL] {
        let world = World::new();
        world.write("src/large", noise(4_000_000, 8));
        let shell = r#"sh -c 'shift; echo $$ >pid; exec "$@"' rsh"#;
        let words = ["sync", "-a", "--bwlimit", "1M", "-e", shell, "--deltic-path", DELTIC];
        let mut command = std::process::Command::new(DELTIC);
        command.args(words).args(operands).current_dir(world.path("")).stderr(Stdio::piped());
        let child = command.spawn().expect("the program starts");
        wait_until("a good part is staged", || {
            let staged = world.exists("dst/.deltic").then(|| world.names("dst/.deltic"));
            let blocks = |name: String| world.written_blocks(format!("dst/.deltic/{name}"));
            staged.into_iter().flatten().any(|name| blocks(name) > 300)
        });
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it runs");
        let output = child.wait_with_output().expect("it ends");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(20), "{operands:?} {stderr}");
        assert!(stderr.contains("interrupted"), "{stderr}");
        assert!(!world.exists("dst/large"));
        let far = String::from_utf8(world.read("pid")).expect("a number");
        let far = format!("/proc/{}", far.trim());
        wait_until("the far end has ended", || !std::path::Path::new(&far).exists());
        let again = world.ok(&format!("-a --stats {} {}", operands[0], operands[1]));
        world.assert_same("src", "dst");
        world.assert_clean("dst");
        assert!(again.stat("Matched data") > 0, "{operands:?}: everything was sent again");
    }
}

#[test]
fn an_interrupt_that_ends_the_remote_shell_first_is_one() {
    let world = world();
    for operands in [PUSH, PULL] {
        // As a terminal's Ctrl-C reaches both, and the shell is quicker: it has ended when ours comes.
        let ended =
            "while read -r pid name state rest </proc/$$/stat && [ $state != Z ]; do :; done";
        let shell = format!("sh -c '{{ {ended}; kill -INT $PPID; }} 2>/dev/null & exit 255' rsh");
        let run = world.sync(&["-a", "-e", &shell, operands[0], operands[1]]);
        assert_ends(&run, &[20], "interrupted");
    }
}

#[test]
fn a_sender_that_claims_one_file_gets_no_further_than_what_was_asked_for() {
    let single = Reply { single: Some(Name::new(b"x").expect("a name")), join: None };
    let said = |frames: &[Vec<u8>]| [hello(), single.encode(), frames.concat()].concat();
    let planted = || listing(vec![entry(".profile", Kind::File, 3), entry("x", Kind::Dir, 0)]);
    for operands in [&["h:src/", "new"][..], &["h:src", "new"], &["h:src", "h:x", "new"]] {
        let world = world();
        world.write("kept", "content");
        let words = [&["--delete"][..], operands].concat();
        let run = sync_with(&world, &said(&[planted()]), &words);
        assert!(run.code.is_some_and(|code| code != 0), "{operands:?} {run:#?}");
        assert!(!world.exists(".profile") && !world.exists("x"), "{operands:?} {run:#?}");
        assert_eq!(world.read("kept"), b"content");
    }
    // Where one file was asked for, it is one file that may come.
    let world = world();
    let listings = [vec![entry("x", Kind::Dir, 0)], vec![entry("x", Kind::File, 3)]];
    for entries in listings {
        let run = sync_with(&world, &said(&[listing(entries)]), &["h:x", "new"]);
        assert_ends(&run, &[12], "");
    }
}

/// What the limit holds back is no silence, however slow it is and however short the patience.
#[test]
fn a_slow_limit_is_not_taken_for_a_silent_other_end() {
    at_once([PUSH, PULL, ["src/", "dst/"]], |operands| {
        let world = world();
        world.write("src/large", noise(9000, 3));
        let words = ["sync", "-a", "--no-fsync", "--bwlimit=1", "--timeout=3", "-e", SHELL];
        let path = ["--deltic-path", DELTIC];
        let run = Run::of(&mut world.command(DELTIC, words.iter().chain(&path).chain(&operands)));
        assert_eq!(run.code, Some(0), "{operands:?} {run:#?}");
        world.assert_same("src", "dst");
    });
}
