//! `deltic verify`: says what differs, and changes nothing.

use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::common::attrs::SOMEBODY;
use crate::common::tree::picture;
use crate::common::{DELTIC, Run, SHELL, WAYS, Way, World, noise};

fn verify(world: &World, words: &str) -> Run {
    let all = ["verify", "-e", SHELL, "--deltic-path", DELTIC];
    Run::of(&mut world.command(DELTIC, all.into_iter().chain(words.split_whitespace())))
}

fn between(world: &World, way: Way, words: &str) -> Run {
    verify(world, &format!("{words} {} {}", way.from("a"), way.to("b")))
}

#[test]
fn the_program_over_there_has_the_name_that_rsync_gives_it_too() {
    let world = World::new();
    world.write("a/file", "x");
    world.write("b/file", "y");
    let words = ["verify", "-e", SHELL, "--rsync-path", DELTIC, "a", "h:b"];
    let run = Run::of(&mut world.command(DELTIC, words));
    let expected = "content file\ndifferent: 1 name; 1 file, 1 B compared\n";
    assert_eq!((run.code, &*run.stdout), (Some(26), expected), "{run:#?}");
}

/// The lines that tell of names, in their order.
fn told(run: &Run) -> Vec<&str> {
    let is_verdict = |line: &&str| {
        ["equal: ", "different: ", "incomplete: "].iter().any(|word| line.starts_with(word))
    };
    run.lines().into_iter().filter(|line| !is_verdict(line)).collect()
}

/// The line that says what it came to.
fn verdict(run: &Run) -> &str {
    run.stdout.lines().last().unwrap_or_default()
}

/// The same by a user who may not read everything.
fn as_somebody(world: &World, way: Way) -> Run {
    let mut command = Command::new(DELTIC);
    command.args(["verify", "-e", SHELL, "--deltic-path", DELTIC]);
    command.args([way.from("a"), way.to("b")]);
    if crate::common::is_root() {
        command.uid(SOMEBODY).gid(SOMEBODY);
    }
    Run::of(&mut world.settle(command))
}

#[test]
fn a_second_tree_that_is_not_there_is_a_wrong_word() {
    for way in WAYS {
        let world = World::new();
        world.write("a/file", "x");
        for words in [["a", "none"], ["a/file", "none"], ["a/file", "a/none"]] {
            let words = format!("{} {}", way.from(words[0]), way.to(words[1]));
            let run = verify(&world, &words);
            assert_eq!((run.code, &*run.stdout), (Some(3), ""), "{words} {run:#?}");
            assert!(run.stderr.contains("none: does not exist"), "{words} {run:#?}");
            assert!(!run.stderr.contains("destination"), "{words} {run:#?}");
        }
    }
}

#[test]
fn a_first_tree_that_is_not_there_ends_as_a_sync_of_it() {
    for way in WAYS {
        let world = World::new();
        world.write("b/file", "x");
        for second in ["b", "b/file"] {
            let words = format!("{} {}", way.from("none"), way.to(second));
            let run = verify(&world, &words);
            assert_eq!((run.code, &*run.stdout), (Some(23), ""), "{words} {run:#?}");
            assert!(run.stderr.contains("none"), "{words} {run:#?}");
        }
        let part = verify(&world, &format!("{} {}", way.from("src"), way.to("b")));
        assert_eq!(part.code, Some(26), "an empty tree is one: {part:#?}");
    }
}

fn equal_trees() -> World {
    let world = World::new();
    for (name, len) in [("a/big", 3 << 20), ("a/d/e/small", 100), ("a/empty", 0)] {
        world.write(name, noise(len, 3));
    }
    world.link("big", "a/link");
    world.ok("-a --no-cache a/ b");
    world
}

#[test]
fn equal_trees_are_told_in_one_line() {
    for way in WAYS {
        let world = equal_trees();
        for words in ["", "-a", "--threads 1"] {
            let run = between(&world, way, words);
            assert_eq!(
                (run.code, &*run.stdout, &*run.stderr),
                (Some(0), "equal: 3 files, 3.00 MiB compared\n", ""),
                "{way:?} {words}"
            );
        }
    }
}

#[test]
fn names_of_one_file_that_are_not_so_in_the_other_tree_differ_by_their_links() {
    for way in WAYS {
        let world = World::new();
        for name in ["a/one", "b/one", "b/two"] {
            world.write(name, "content");
        }
        std::fs::hard_link(world.path("a/one"), world.path("a/two")).unwrap();
        assert_eq!(between(&world, way, "").code, Some(0), "{way:?}");
        let run = between(&world, way, "-H");
        assert_eq!((told(&run), run.code), (vec!["links two"], Some(26)), "{way:?}");
        let run = between(&world, way, "-H --json");
        assert!(run.stdout.contains(r#""differences":["links"]"#), "{run:#?}");
    }
}

/// What is below it is not known.
#[test]
fn nothing_is_extra_in_a_directory_that_could_not_be_listed() {
    for way in WAYS {
        let world = equal_trees();
        world.write("b/d/e/extra", "x");
        world.write("b/extra", "x");
        world.chmod("", 0o755);
        world.chmod("a/d/e", 0);
        let run = as_somebody(&world, way);
        assert_eq!((told(&run), run.code), (vec!["extra extra"], Some(23)), "{way:?} {run:#?}");
        assert_eq!(verdict(&run), "incomplete: 1 error; 1 name known to differ");
    }
}

#[test]
fn each_difference_is_a_line_and_nothing_is_changed() {
    for way in WAYS {
        let world = equal_trees();
        world.write("a/only here", "1");
        world.write("a/new/below", "1");
        world.write("b/only there", "1");
        world.write("b/more/below", "1");
        let mut bytes = world.read("b/big");
        bytes[2 << 20] ^= 1;
        world.write("b/big", bytes);
        world.write("b/d/e/small", noise(99, 3));
        std::fs::remove_file(world.path("b/link")).unwrap();
        world.link("empty", "b/link");
        std::fs::remove_file(world.path("b/empty")).unwrap();
        world.mkdir("b/empty");
        world.mkdir("a/was");
        world.write("b/was", "a file");
        // Sizes and times tell nothing of it.
        for name in ["a/big", "b/big"] {
            world.set_time(name, 1_000_000_000);
        }
        let before = [picture(&world.path("a")), picture(&world.path("b"))];
        let run = between(&world, way, "");
        let expected = [
            "content big",
            "content d/e/small",
            "content link",
            "extra more",
            "extra more/below",
            "extra only there",
            "kind empty",
            "kind was",
            "missing new",
            "missing only here",
        ];
        assert_eq!(
            (told(&run), run.code, &*run.stderr),
            (expected.into(), Some(26), ""),
            "{way:?}"
        );
        // Of four files one is missing, one in a directory that is, and one is a directory there.
        assert_eq!(verdict(&run), "different: 10 names; 2 files, 3.00 MiB compared", "{way:?}");
        let quiet = between(&world, way, "-q");
        assert_eq!((&*quiet.stdout, quiet.code), ("", Some(26)));
        assert_eq!([picture(&world.path("a")), picture(&world.path("b"))], before);
        assert!(!world.exists(".cache"), "{way:?}");
    }
}

#[test]
fn attributes_count_where_they_are_asked_for() {
    let world = equal_trees();
    world.chmod("b/big", 0o600);
    world.chmod("a/big", 0o644);
    world.set_time("b/d/e/small", 1_000_000_000);
    let lines = |words: &str| {
        let run = between(&world, Way::Local, words);
        (told(&run).join("; "), run.code)
    };
    assert_eq!(lines(""), (String::new(), Some(0)));
    assert_eq!(lines("-p"), ("mode big".into(), Some(26)));
    assert_eq!(lines("-t"), ("time d/e/small".into(), Some(26)));
    assert_eq!(lines("-a"), ("mode big; time d/e/small".into(), Some(26)));
    world.write("b/big", "other");
    assert_eq!(lines("-p").0, "content,mode big");
}

#[test]
fn a_hidden_change_is_found_though_an_earlier_run_knew_better() {
    let world = equal_trees();
    world.ok("-ac a/ b");
    std::thread::sleep(std::time::Duration::from_millis(150));
    assert_eq!(between(&world, Way::Local, "").code, Some(0));
    let (secs, _) = world.time("a/big");
    let mut bytes = world.read("b/big");
    bytes[7] ^= 1;
    world.write("b/big", bytes);
    for name in ["a/big", "b/big"] {
        world.set_time(name, secs);
    }
    let run = between(&world, Way::Local, "");
    assert_eq!((told(&run), run.code), (vec!["content big"], Some(26)));
}

#[test]
fn names_can_be_left_out_on_both_sides() {
    let world = equal_trees();
    world.write("a/x.tmp", "1");
    world.write("b/y.tmp", "1");
    assert_eq!(between(&world, Way::Push, "--exclude *.tmp").code, Some(0));
    let run = between(&world, Way::Pull, "");
    assert_eq!(told(&run), ["extra y.tmp", "missing x.tmp"]);
}

#[test]
fn files_are_compared_too() {
    let world = equal_trees();
    for way in WAYS {
        let files = |a, b| verify(&world, &format!("{} {}", way.from(a), way.to(b)));
        assert_eq!(files("a/big", "b/big").code, Some(0), "{way:?}");
        let other = files("a/big", "b/d/e/small");
        assert_eq!((told(&other), other.code), (vec!["content big"], Some(26)), "{way:?}");
    }
}

#[test]
fn events_are_for_programs() {
    let world = equal_trees();
    world.write("b/d/e/small", "other");
    world.write("b/more", "");
    let run = between(&world, Way::Push, "--json");
    let events: Vec<serde_json::Value> =
        run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let differences: Vec<_> =
        events.iter().filter(|event| event["event"] == "difference").collect();
    assert_eq!(differences.len(), 2);
    let small = differences.iter().find(|event| event["path"] == "d/e/small").unwrap();
    assert_eq!(small["differences"], serde_json::json!(["content"]));
    assert_eq!(events[0]["event"], "start");
    let mut last = events[events.len() - 1].clone();
    for figure in ["elapsed_ms", "sent_bytes", "received_bytes"] {
        assert!(last.as_object_mut().unwrap().remove(figure).unwrap().is_u64(), "{figure}");
    }
    assert_eq!(
        last,
        serde_json::json!({
            "event": "verified", "exit_code": 26, "files": 3, "compared_bytes": (3 << 20) + 100,
            "differences": 2, "missing": 0, "extra": 1, "failed": 0,
        })
    );
    assert_eq!(run.code, Some(26));
}

#[test]
fn what_is_equal_is_named_where_that_is_asked_for() {
    for way in WAYS {
        let world = equal_trees();
        std::fs::hard_link(world.path("a/big"), world.path("a/other")).unwrap();
        std::fs::hard_link(world.path("b/big"), world.path("b/other")).unwrap();
        world.write("b/d/e/small", "other");
        let run = between(&world, way, "-vH");
        let names = ["equal big", "equal d", "equal d/e", "equal empty", "equal link"];
        let equal: Vec<_> = told(&run).into_iter().filter(|line| line.starts_with("eq")).collect();
        for name in names {
            assert!(equal.contains(&name), "{way:?} {name}: {run:#?}");
        }
        assert!(told(&run).contains(&"content d/e/small"), "{way:?} {run:#?}");
        assert_eq!(verdict(&run), "different: 1 name; 4 files, 6.00 MiB compared", "{way:?}");
        let events = between(&world, way, "-v --json").stdout;
        assert!(events.contains(r#""path":"big","kind":"file","differences":[]"#), "{events}");
        let quiet = between(&world, way, "-qv");
        assert_eq!((&*quiet.stdout, quiet.code), ("", Some(26)));
    }
}

#[test]
fn links_of_others_are_followed_where_that_is_asked_for() {
    if !crate::common::is_root() {
        return;
    }
    for way in WAYS {
        let world = equal_trees();
        for (link, tree) in [("to-a", "a"), ("to-b", "b")] {
            world.link(tree, link);
            let somebody = Some(SOMEBODY);
            std::os::unix::fs::lchown(world.path(link), somebody, somebody).unwrap();
        }
        let words = format!("{}/ {}/", way.from("to-a"), way.to("to-b"));
        let refused = verify(&world, &words);
        assert_ne!(refused.code, Some(0), "{way:?} {refused:#?}");
        assert!(refused.stderr.contains("--insecure-links"), "{way:?} {refused:#?}");
        let run = verify(&world, &format!("--insecure-links {words}"));
        assert_eq!(verdict(&run), "equal: 3 files, 3.00 MiB compared", "{way:?} {run:#?}");
    }
}

#[test]
fn what_cannot_be_done_is_no_answer() {
    let world = equal_trees();
    for (words, code) in [
        ("a", 1),
        ("a b c", 1),
        ("h:a h:b", 1),
        ("--delete a b", 1),
        ("none b", 23),
        ("h:none b", 23),
    ] {
        let run = verify(&world, words);
        assert_eq!(run.code, Some(code), "{words}: {run:#?}");
        assert_ne!(run.stderr, "", "{words}");
    }
}

#[test]
fn what_cannot_be_read_on_either_side_is_no_answer() {
    for way in WAYS {
        for unreadable in ["a/big", "b/big"] {
            let world = equal_trees();
            world.write("b/d/e/small", "other");
            world.chmod("", 0o755);
            world.chmod(unreadable, 0);
            let run = as_somebody(&world, way);
            let told = (run.code, told(&run));
            assert_eq!(told, (Some(23), vec!["content d/e/small"]), "{way:?} {run:#?}");
            assert!(run.stderr.contains("big"), "{way:?} {unreadable} {run:#?}");
        }
    }
}
