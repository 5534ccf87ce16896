//! Limits of the system for a process: few open files, and no long ones.

use crate::common::{DELTIC, Run, SHELL, WAYS, Way, World, noise};

/// `deltic sync -a` where the shell's `ulimit` has set this bound for both ends.
fn bounded(world: &World, bound: &str, (way, words): (Way, &str)) -> Run {
    let script = format!("ulimit {bound}; exec \"$@\"");
    let (src, dst) = (way.from("src/"), way.to("dst/"));
    let all = ["-c", &script, "sh", DELTIC, "sync", "-e", SHELL, "--deltic-path", DELTIC, "-a"];
    let all = all.into_iter().chain(words.split_whitespace()).chain([&*src, &*dst]);
    Run::of(&mut world.command("sh", all))
}

#[test]
fn who_may_hold_few_files_open_brings_all_of_them() {
    for way in WAYS {
        let world = World::new();
        for n in 0..1500 {
            world.write(format!("src/small/{n}"), n.to_string());
        }
        for n in 0..150 {
            world.write(format!("src/longer/{n}"), noise(300_000, n));
        }
        let run = bounded(&world, "-n 64", (way, "--no-fsync"));
        assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{way:?}");
        world.assert_same("src", "dst");
        for n in 0..150 {
            world.write(format!("src/longer/{n}"), noise(300_001, n));
        }
        let run = bounded(&world, "-n 64", (way, "--no-fsync -c --no-whole-file"));
        assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{way:?}");
        world.assert_same("src", "dst");
    }
}

/// The limit is that of the far end alone.
#[test]
fn an_other_end_that_may_hold_few_files_open_is_asked_for_no_more() {
    let few = r#"sh -c 'ulimit -n 64; shift; exec "$@"' rsh"#;
    for (from, to) in [("h:src/", "dst/"), ("src/", "h:dst/")] {
        let world = World::new();
        for n in 0..400 {
            world.write(format!("src/longer/{n}"), noise(100_000, n));
            world.write(format!("src/deep/{n}/in/file"), noise(3000, n));
        }
        for words in ["-a", "-ac --no-whole-file"] {
            let all = ["sync", "--no-fsync", "-e", few, "--deltic-path", DELTIC];
            let all = all.into_iter().chain(words.split(' ')).chain([from, to]);
            let run = Run::of(&mut world.command(DELTIC, all));
            assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{from} {words}");
            world.assert_same("src", "dst");
            for n in 0..400 {
                world.write(format!("src/longer/{n}"), noise(100_001, n));
            }
        }
    }
}

#[test]
fn a_file_that_may_not_be_so_long_fails_by_itself() {
    for way in WAYS {
        let world = World::new();
        world.write("src/long", noise(1_000_000, 1));
        world.write("dst/long", "as it was");
        world.write("src/a", "short");
        world.write("src/z", "short");
        for words in ["", "--inplace"] {
            let run = bounded(&world, "-f 100", (way, words));
            assert_eq!(run.code, Some(23), "{way:?} {words} {run:#?}");
            assert!(run.stderr.contains("long: file too large"), "{way:?} {words} {run:#?}");
            assert_eq!(world.read("dst/long"), b"as it was", "{way:?} {words}");
            assert_eq!(
                (world.read("dst/a"), world.read("dst/z")),
                (b"short".into(), b"short".into())
            );
        }
        world.ok("-a src/ dst/");
        world.assert_same("src", "dst");
    }
}

#[test]
fn a_command_that_may_not_write_so_long_a_file_says_so() {
    let world = World::new();
    world.write("old", noise(3_000_000, 1));
    world.write("new", noise(3_000_000, 2));
    let run = |bound: &str, words: &str| {
        let script = format!("ulimit -f {bound}; exec \"$@\"");
        let all = ["-c", &script, "sh", DELTIC].into_iter().chain(words.split(' '));
        Run::of(&mut world.command("sh", all))
    };
    for (words, bound) in [
        ("signature old -o sig", "1"),
        ("delta sig new -o delta", "100"),
        ("patch old delta -o made", "100"),
    ] {
        let short = run(bound, words);
        assert_eq!(short.code, Some(11), "{words} {short:#?}");
        assert!(short.stderr.contains("file too large"), "{words} {short:#?}");
        let whole = run("unlimited", words);
        assert_eq!((whole.code, &*whole.stderr), (Some(0), ""), "{words}");
    }
    assert_eq!(world.read("made"), world.read("new"));
}
