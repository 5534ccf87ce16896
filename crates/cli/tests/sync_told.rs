//! Standard output of a run, line by line as rsync has it in the same world, whichever end is remote.

use std::fs::FileTimes;
use std::time::{Duration, UNIX_EPOCH};

use crate::common::{Run, SHELL, WAYS, Way, World, rsync};

/// What a run says on standard output; of the two last lines only what no figures are in.
fn lines(run: &Run) -> Vec<String> {
    let line = |line: &str| match line {
        _ if line.starts_with("sent ") => "sent".to_owned(),
        _ if line.starts_with("total size is ") => {
            format!("total{}", if line.ends_with(" (DRY RUN)") { " (DRY RUN)" } else { "" })
        }
        _ => line.to_owned(),
    };
    run.stdout.lines().map(line).collect()
}

/// Asserts that both programs say the same: `words` in a world of its own for each, their last operand the destination.
#[track_caller]
fn assert_alike(way: Way, words: &str, make: impl Fn(&World)) {
    let words: Vec<_> = words.split(' ').collect();
    let sources = words.iter().position(|word| !word.starts_with('-')).expect("there is a source");
    let (options, operands) = words.split_at(sources);
    let mut operands: Vec<_> = operands.iter().map(|word| way.from(word)).collect();
    if let (Some(last), Way::Push | Way::Local) = (operands.last_mut(), way) {
        *last = way.to(last);
    } else if let Some(last) = operands.last_mut() {
        *last = last.trim_start_matches("h:").into();
    }
    let words: Vec<_> =
        options.iter().copied().chain(operands.iter().map(String::as_str)).collect();
    let (ours, theirs) = (World::new(), World::new());
    make(&ours);
    make(&theirs);
    let rsh = format!("--rsh={SHELL}");
    let Some(theirs) = rsync(&theirs, &[&[rsh.as_str()], &*words].concat()) else { return };
    let ours = ours.sync(&words);
    assert_eq!(lines(&ours), lines(&theirs), "{way:?} {words:?}: {}", ours.stderr);
}

/// The source's directory is older than any that is made.
fn tree(world: &World) {
    for name in ["a", "b/f"] {
        world.write(format!("src/{name}"), "x");
    }
    for name in ["src/a", "src/b/f", "src/b", "src"] {
        world.set_time(name, 1_000_000_000);
    }
}

#[test]
fn a_directory_is_in_its_place_with_the_slash_behind_its_name() {
    for way in WAYS {
        assert_alike(way, "-ai src/ dst", |world| {
            for name in ["foo/a/f", "foo/g", "foo-old/f", "foo.d/f", "foo+/f", "foo.txt", "foo1/f"]
            {
                world.write(format!("src/{name}"), "x");
            }
        });
    }
}

#[test]
fn a_destination_that_is_made_is_named_whatever_comes() {
    for way in WAYS {
        for words in [
            "-av src dst",
            "-av src/a dst/",
            "-avi src/a src/b dst",
            "-ain src dst",
            "-ai src/ dst",
            "-ain src/ dst/",
            "-ai --mkpath src/ n1/n2/",
            "-ain --mkpath src/ n1/n2/",
            "-ain --mkpath src n1/n2",
            "-av --mkpath src/a n1/n2",
            "-avn --mkpath src/ dst",
            "-a --out-format=%n src dst",
            "-a --info=name1 --out-format=%o src dst",
            "-aq src dst",
        ] {
            assert_alike(way, words, tree);
        }
    }
}

#[test]
fn a_file_is_told_by_its_own_name_though_the_destination_has_another() {
    for way in WAYS {
        for options in
            ["-av", "-avn", "-ai", "-ain", "-rv", "-a --out-format=%f:%n", "-ac --info=name"]
        {
            assert_alike(way, &format!("{options} src/a dst"), tree);
            for time in [900_000_000, 1_000_000_000] {
                assert_alike(way, &format!("{options} src/a dst"), |world| {
                    tree(world);
                    world.write("dst", "x");
                    world.set_time("dst", time);
                });
            }
        }
    }
}

#[test]
fn the_root_of_a_new_destination_is_told_by_what_the_alternate_has() {
    for way in WAYS {
        for usage in ["compare", "copy", "link"] {
            for options in ["-ai", "-ain", "-av", "-aii"] {
                let words = format!("{options} --{usage}-dest=../alt src/ dst");
                assert_alike(way, &words, tree);
                assert_alike(way, &words, |world| {
                    tree(world);
                    world.mkdir("alt");
                });
                assert_alike(way, &words, |world| {
                    tree(world);
                    world.mkdir("alt");
                    world.set_time("alt", 1_000_000_000);
                });
            }
        }
    }
    let world = World::new();
    tree(&world);
    let run = world.sync(&["-a", "--stats", "--link-dest=../alt", "src/", "dst"]);
    assert!(run.stdout.contains("Number of created files: 4 (reg: 2, dir: 2)\n"), "{run:#?}");
}

#[test]
fn a_link_that_leads_elsewhere_in_an_alternate_differs_from_there() {
    for way in WAYS {
        for usage in ["compare", "copy", "link"] {
            for options in ["-ai", "-rli", "-ain", "-av"] {
                assert_alike(way, &format!("{options} --{usage}-dest=../alt src/ dst"), |world| {
                    world.link("here", "src/link");
                    world.mkdir("alt");
                    world.link("there", "alt/link");
                    for name in ["src/link", "alt/link", "src", "alt"] {
                        world.set_time(name, 1_000_000_000);
                    }
                });
            }
        }
    }
}

#[test]
fn what_is_copied_from_an_alternate_without_its_time_is_told() {
    for way in WAYS {
        for options in ["-rli", "-rliH", "-rlv", "-ai", "-aii", "-aHi", "-aHin", "-rlni"] {
            assert_alike(way, &format!("{options} --copy-dest=../alt src/ dst"), |world| {
                for dir in ["src", "alt"] {
                    world.write(format!("{dir}/f"), "x");
                    world.write(format!("{dir}/b/f"), "x");
                    world.link("f", &format!("{dir}/link"));
                    std::fs::hard_link(
                        world.path(format!("{dir}/f")),
                        world.path(format!("{dir}/g")),
                    )
                    .expect("it can have two names");
                    for name in ["f", "b/f", "link", "b", ""] {
                        world.set_time(format!("{dir}/{name}"), 1_000_000_000);
                    }
                }
            });
        }
    }
}

#[test]
fn what_an_alternate_has_unchanged_is_up_to_date_in_words() {
    let world = World::new();
    for dir in ["src", "alt"] {
        world.write(format!("{dir}/f"), "x");
        for name in ["f", ""] {
            world.set_time(format!("{dir}/{name}"), 1_000_000_000);
        }
    }
    for usage in ["compare", "copy", "link"] {
        let run = world.ok(&format!("-avv --{usage}-dest=../alt src/ {usage}"));
        let said: Vec<_> = run.stdout.lines().filter(|line| line.ends_with("uptodate")).collect();
        assert_eq!(said, ["./ is uptodate", "f is uptodate"], "{run:#?}");
    }
}

#[test]
fn the_line_of_the_list_says_whether_rsync_would_have_all_of_it_first() {
    for way in WAYS {
        for options in [
            "-r",
            "-d",
            "-rm",
            "-r --delay-updates",
            "-r --delete",
            "-r --delete-before",
            "-r --delete-during",
            "-r --delete-delay",
            "-r --delete-after",
            "-r --no-i-r",
            "-rn",
            "-a --no-r -d",
        ] {
            assert_alike(way, &format!("-v {options} src/ dst/"), tree);
        }
        if way == Way::Local {
            // Over a remote shell rsync does not know its own word.
            assert_alike(way, "-rv --qsort src/ dst/", tree);
        }
        for words in ["-v src/a dst", "-lv src/a dst", "-Rv src/a dst", "-r --info=flist src dst"] {
            assert_alike(way, words, tree);
        }
    }
}

#[test]
fn lists_are_told_as_by_rsync() {
    let files = |world: &World| {
        tree(world);
        std::fs::remove_dir_all(world.path("src/b")).expect("it is there");
        world.link("a", "src/link");
        world.set_time("src/link", 1_000_000_000);
        let read = UNIX_EPOCH + Duration::from_secs(1_100_000_000);
        let file = std::fs::File::open(world.path("src/a")).expect("it is there");
        file.set_times(FileTimes::new().set_accessed(read)).expect("it is ours");
    };
    for words in [
        "-v --list-only src/a dst",
        "-vd --list-only src/a dst",
        "-vn --list-only src/a dst",
        "-U --list-only src/a dst",
        "-lh --list-only src/a src/link dst",
        "-Uh --list-only src/a dst",
        "-q --list-only src/a dst",
        "-rv --list-only src/a dst",
    ] {
        for way in WAYS {
            assert_alike(way, words, files);
        }
    }
    // The length of a directory is left out.
    let world = World::new();
    tree(&world);
    let run = world.ok("-dU --list-only src/");
    let dir = run.stdout.lines().next().expect("the root comes first");
    assert!(dir.ends_with(&format!(" {:19} .", "")), "{run:#?}");
}

#[test]
fn figures_of_progress_are_as_h_has_them() {
    let world = World::new();
    world.write("src/file", vec![0; 1_234_567]);
    for (options, shown) in
        [("", "1,234,567"), ("-h", "1.23M"), ("-hh", "1.18M"), ("--no-h", "1234567")]
    {
        for progress in ["--progress", "--info=progress2"] {
            let dst = format!("dst{options}{}", progress.len());
            let run = world.ok(&format!("-a {progress} {options} src/ {dst}").replace("  ", " "));
            let last = run.stdout.trim_end().rsplit(['\n', '\r']).next().expect("there is a line");
            assert!(last.starts_with(&format!("{shown:>15} 100% ")), "{options} {run:#?}");
        }
    }
}

#[test]
fn ends_have_the_numbers_of_rsync() {
    let world = World::new();
    world.write("src/a", "x");
    world.fails(4, "-a --compress-choice=zz src/ dst");
    world.fails(4, "-a --zc=zz src/ dst");
    world.fails(3, "-a --write-batch=/nowhere/x src/ dst");
    world.fails(3, "-a --only-write-batch=/nowhere/x src/ dst");
    world.fails(11, "--read-batch=/nowhere/x dst");
    assert!(!world.exists("dst"));
}

#[test]
fn directories_on_the_way_are_not_told_with_no_implied_dirs() {
    let deep = |world: &World| {
        world.write("src/b/c/f", "x");
        world.write("src/b/c/g/h", "x");
        world.mkdir("dst");
    };
    for way in WAYS {
        for options in ["-aRi", "-aRv", "-aRin", "-rRi"] {
            for source in ["src/b/c/f", "src/b/c", "src/./b/c"] {
                let words = format!("{options} --no-implied-dirs {source} dst");
                assert_alike(way, &words, deep);
            }
        }
    }
    let world = World::new();
    deep(&world);
    let run = world.ok("-aR --stats --no-implied-dirs src/b/c dst");
    assert!(run.stdout.contains("Number of created files: 4 (reg: 2, dir: 2)\n"), "{run:#?}");
}

#[test]
fn formats_are_filled_in_as_by_rsync() {
    let files = |world: &World| {
        tree(world);
        world.link("a", "src/link");
        world.set_time("src/link", 1_000_000_000);
        world.set_time("src", 1_000_000_000);
    };
    for words in [
        "-a --out-format=%f ./src/ dst",
        "-a --out-format=%f ././src dst",
        "-a --out-format=%f src/.//b/./ dst",
        "-aR --out-format=%f src/./b dst",
        "-a --out-format=[%L] src/ dst",
        "-a --out-format=[%5L] src/ dst",
        "-a --out-format=[%-9L] src/ dst",
        "-a --out-format=[%-L] src/ dst",
        "-a --out-format= src/ dst",
        "-av --out-format= src/ dst",
    ] {
        // Where the sources are elsewhere, neither program knows their names.
        for way in [Way::Local, Way::Push] {
            assert_alike(way, words, files);
        }
    }
}

#[test]
fn attributes_alone_are_told_by_the_name_alone() {
    let links = |world: &World| {
        for (dir, time) in [("src", 1_000_000_000), ("dst", 1_100_000_000)] {
            world.write(format!("{dir}/file"), "x");
            world.link("nowhere", &format!("{dir}/link"));
            for name in ["link", "file"] {
                world.set_time(format!("{dir}/{name}"), time);
            }
            world.set_time(dir, 1_000_000_000);
        }
        world.chmod("src/file", 0o600);
        world.set_time("dst/file", 1_000_000_000);
    };
    for way in WAYS {
        for words in [
            "-a --info=name2 src/ dst",
            "-a --info=name2 --out-format=%n%L src/ dst",
            "-a --info=name2 --out-format=%i:%n%L src/ dst",
            "-ai src/ dst",
        ] {
            assert_alike(way, words, links);
        }
    }
    let log = |program: &dyn Fn(&World, &[&str])| {
        let world = World::new();
        links(&world);
        program(&world, &["-a", "--info=name2", "--log-file=log", "src/", "dst"]);
        let log = String::from_utf8(world.read("log")).expect("it is text");
        let line = |line: &str| line.split("] ").nth(1).unwrap_or_default().to_owned();
        let lines = log.lines().map(line).filter(|line| !line.starts_with("sent "));
        // A log has no order.
        lines.collect::<std::collections::BTreeSet<_>>()
    };
    let ours = log(&|world, words| assert_eq!(world.sync(words).code, Some(0)));
    assert!(ours.iter().eq(["building file list", "file", "link"]), "{ours:?}");
    if crate::common::is_installed("rsync") {
        assert_eq!(ours, log(&|world, words| drop(rsync(world, words))));
    }
}

#[test]
fn a_link_whose_time_is_omitted_gets_another() {
    for way in WAYS {
        for options in ["-rlti -J", "-rlti", "-rli"] {
            assert_alike(way, &format!("{options} src/ dst"), |world| {
                world.link("here", "src/link");
                world.mkdir("dst");
                world.link("there", "dst/link");
                for name in ["src/link", "dst/link", "src", "dst"] {
                    world.set_time(name, 1_000_000_000);
                }
            });
        }
    }
}
