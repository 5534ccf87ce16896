//! What the system lets a process have: few open files, and no long ones.

mod common;

use common::{DELTIC, Run, SHELL, WAYS, Way, World, noise};

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
