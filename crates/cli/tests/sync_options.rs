//! Effect of each option on the files: taken alone, against its opposite, and next to rsync.

use std::fs;
use std::time::Instant;

use crate::common::{DELTIC, Run, SHELL, WAYS, Way, World, edited, noise};

/// `src` with a file, a directory and a link, all of a remarkable mode and time.
fn world() -> World {
    let world = World::new();
    world.write("src/file", "content");
    world.write("src/dir/below", "below");
    world.link("file", "src/link");
    world.chmod("src/file", 0o751);
    world.chmod("src/dir", 0o711);
    for name in ["src/file", "src/link", "src/dir/below", "src/dir", "src"] {
        world.set_time(name, 1_000_000_000);
    }
    world
}

fn is_old(world: &World, name: &str) -> bool {
    world.time(name) == (1_000_000_000, 123_456_789)
}

#[test]
fn without_recursion_directories_are_skipped_by_name_and_that_is_no_error() {
    for way in WAYS {
        let world = world();
        let run = world.sync(&[way.from("src/file"), way.from("src/dir"), way.to("dst/")]);
        assert_eq!(run.code, Some(0), "{way:?} {run:#?}");
        assert_eq!(run.stdout, "skipping directory dir\n", "{way:?}");
        let hint = "  hint: -a copies directories and their content\n";
        assert_eq!(run.stderr, hint, "{way:?}");
        assert!(world.exists("dst/file") && !world.exists("dst/dir"));
        let run = world.sync(&["-t", "src/", "dst2"]);
        assert_eq!((run.code, world.exists("dst2/file")), (Some(0), false), "{run:#?}");
        assert!(run.stdout.contains("skipping directory"), "{run:#?}");
    }
}

#[test]
fn recursion_alone_carries_content_and_nothing_else() {
    for way in WAYS {
        let world = world();
        let run = world.sync(&["-r", &way.from("src/"), &way.to("dst/")]);
        assert_eq!(run.code, Some(0), "{run:#?}");
        assert_eq!(run.stdout, "skipping non-regular file \"link\"\n", "{way:?}");
        assert_eq!(world.read("dst/dir/below"), b"below");
        assert!(!is_old(&world, "dst/file") && !is_old(&world, "dst/dir"));
        // As rsync does: what the source allows, less what the umask withholds.
        assert_eq!(world.mode("dst/file"), 0o751 & !umask(&world));
        assert_eq!(world.mode("dst/dir"), 0o711 & !umask(&world));
    }
}

fn umask(world: &World) -> u32 {
    world.mkdir("fresh");
    0o777 & !world.mode("fresh")
}

#[test]
fn links_alone_recreates_links() {
    let world = world();
    world.ok("-rl src/ dst/");
    assert_eq!(fs::read_link(world.path("dst/link")).unwrap().to_str(), Some("file"));
    assert!(!is_old(&world, "dst/link"));
}

#[test]
fn perms_alone_carries_modes_and_corrects_them_later() {
    let world = world();
    for mode in [0o751, 0o600, 0o4755] {
        world.chmod("src/file", mode);
        world.chmod("src/dir", mode & 0o777 | 0o100);
        world.ok("-rlp src/ dst/");
        assert_eq!((world.mode("dst/file"), world.mode("dst/dir")), (mode, mode & 0o777 | 0o100));
        assert!(!is_old(&world, "dst/file"));
    }
}

#[test]
fn times_alone_carries_times_and_leaves_the_mode_of_what_is_there() {
    let world = world();
    world.write("dst/file", "old content");
    world.chmod("dst/file", 0o604);
    world.ok("-rlt src/ dst/");
    assert_eq!((world.mode("dst/file"), world.read("dst/file")), (0o604, b"content".to_vec()));
    for name in ["dst/file", "dst/dir/below", "dst/dir", "dst/link", "dst"] {
        assert!(is_old(&world, name), "{name}");
    }
}

#[test]
fn what_is_taken_out_of_archive_stays_out() {
    let world = world();
    let run = world.sync(&["-a", "--no-l", "--no-p", "--no-t", "src/", "dst/"]);
    assert_eq!((run.code, world.exists("dst/link")), (Some(0), false), "{run:#?}");
    assert_eq!(world.mode("dst/file"), 0o751 & !umask(&world));
    assert!(!is_old(&world, "dst/file"));
    let run = world.sync(&["-a", "--no-recursive", "src/", "dst2/"]);
    assert!(run.code == Some(0) && !world.exists("dst2/file"), "{run:#?}");
}

#[test]
fn a_dry_run_tells_what_the_real_run_does_and_changes_nothing() {
    for way in WAYS {
        let world = world();
        world.write("dst/file", "older content");
        world.write("dst/extra/deep", "extra");
        world.write("dst/dir/below", "below");
        let before = crate::common::tree::picture(&world.path("dst"));
        let operands = format!("{} {}", way.from("src/"), way.to("dst/"));
        let told = world.ok(&format!("-ain --delete {operands}"));
        assert_eq!(crate::common::tree::picture(&world.path("dst")), before, "{way:?}");
        assert!(told.lines().len() > 4, "{told:#?}");
        assert_eq!(told.lines(), world.ok(&format!("-ai --delete {operands}")).lines(), "{way:?}");
        world.assert_same("src", "dst");
    }
}

#[test]
fn a_dry_run_into_a_missing_directory_does_not_make_it() {
    for way in WAYS {
        let world = world();
        let operands = format!("{} {}", way.from("src/"), way.to("dst/"));
        let told = world.ok(&format!("-ain {operands}"));
        assert!(!world.exists("dst"), "{way:?}");
        assert_eq!(told.lines(), world.ok(&format!("-ai {operands}")).lines(), "{way:?}");
    }
}

#[test]
fn checksum_finds_what_size_and_time_hide_and_rewrites_nothing_that_is_equal() {
    for way in WAYS {
        let world = world();
        world.write("src/same", noise(100_000, 1));
        world.ok("-a src/ dst/");
        world.write("dst/file", "CONTENT");
        world.set_time("dst/file", 1_000_000_000);
        let (same, below) = (world.inode("dst/same"), world.inode("dst/dir/below"));
        let operands = format!("{} {}", way.from("src/"), way.to("dst/"));
        world.ok(&format!("-a {operands}"));
        assert_eq!(world.read("dst/file"), b"CONTENT", "{way:?}");
        let told = world.ok(&format!("-acin {operands}"));
        assert_eq!(told.lines().len(), 1, "{told:#?}");
        assert_eq!(world.read("dst/file"), b"CONTENT", "{way:?}");
        // Another time and the same content needs no more than the time.
        world.set_time("dst/dir/below", 5);
        let run = world.ok(&format!("-ac --stats {operands}"));
        assert_eq!(run.stat("Number of regular files transferred"), 1, "{way:?}");
        world.assert_same("src", "dst");
        assert_eq!(
            (world.inode("dst/same"), world.inode("dst/dir/below")),
            (same, below),
            "{way:?}"
        );
    }
}

#[test]
fn whole_files_are_sent_whole_and_recipes_only_what_changed() {
    let (old, len) = (noise(1 << 20, 3), (1 << 20) + 15);
    for (way, option, whole) in [
        (Way::Local, "", true),
        (Way::Local, "--no-whole-file", false),
        (Way::Push, "", false),
        (Way::Push, "-W", true),
        (Way::Pull, "", false),
        (Way::Pull, "--no-whole-file -W", true),
    ] {
        let world = World::new();
        world.write("src/large", edited(&old, 500_000));
        world.write("dst/large", &old);
        let run = world.ok(&format!("-a {option} --stats {} {}", way.from("src/"), way.to("dst/")));
        let (literal, matched) = (run.stat("Literal data"), run.stat("Matched data"));
        assert_eq!(literal + matched, len, "{way:?} {option}");
        assert_eq!(matched == 0, whole, "{way:?} {option}: {matched} matched");
        world.assert_same("src", "dst");
    }
}

#[test]
fn compression_sends_fewer_bytes() {
    let text: String = (0..60_000).map(|n| format!("line {n} of the log\n")).collect();
    for way in [Way::Push, Way::Pull] {
        let wire = |option: &str| {
            let world = World::new();
            world.write("src/log", &text);
            world.write("src/small", &text[..1500]);
            world.write("src/noise", noise(50_000, 9));
            let words = format!("-a {option} --stats {} {}", way.from("src/"), way.to("dst/"));
            let run = world.ok(&words);
            world.assert_same("src", "dst");
            run.traffic()
        };
        let plain = wire("--zc=none");
        assert!(plain as usize > text.len(), "{plain}");
        for option in ["", "-z"] {
            let packed = wire(option);
            assert!(packed > 50_000 && packed < plain / 4, "{way:?} {option}: {packed} of {plain}");
        }
    }
}

#[test]
fn the_chosen_compression_is_told_and_why_the_rest_was_not_compressed() {
    let world = World::new();
    let text: String = (0..60_000).map(|n| format!("line {n} of the log\n")).collect();
    world.write("src/log", &text);
    world.write("src/noise", noise(50_000, 9));
    let told = |words: &str| {
        let run = world.ok(&format!("-a {words}"));
        run.stdout.lines().find(|line| line.starts_with("Compression: ")).map(str::to_owned)
    };
    for (to, words) in [("one", "--stats"), ("two", "--explain"), ("three", "-z --stats")] {
        let told = told(&format!("{words} src/ h:{to}")).unwrap_or_default();
        assert!(told.starts_with("Compression: zstd level "), "{words}: {told}");
        assert!(told.ends_with("; none for 48.83 KiB incompressible"), "{words}: {told}");
    }
    assert_eq!(told("--stats --zc=none src/ h:four"), None);
    assert_eq!(told("--stats --zl=3 src/ h:five"), None, "nothing was chosen");
    assert_eq!(told("--stats src/ six"), None, "there is no network");
    let json = world.ok("-a --json src/ h:seven").stdout;
    let summary = json.lines().find(|line| line.contains("\"summary\"")).unwrap_or_default();
    assert!(summary.contains("\"incompressible_bytes\":50000"), "{json}");
    assert!(summary.contains(&format!("\"original_bytes\":{}", text.len())), "{json}");
}

#[test]
fn a_run_notes_the_rate_of_its_link_for_later_runs_in_the_same_direction() {
    let world = World::new();
    world.write("src/noise", noise(60_000_000, 3));
    world.ok("-a --no-cache src/ h:one");
    assert!(!world.exists(".cache/deltic/links-1"));
    for to in ["h:two", "other:three", "h:four"] {
        world.ok(&format!("-a src/ {to}"));
    }
    assert_eq!(world.names(".cache/deltic/links-1").len(), 2, "a note for each machine");
    world.write("src/small", "short");
    world.ok("-a src/ third:five --exclude noise");
    assert_eq!(world.names(".cache/deltic/links-1").len(), 2, "few bytes say nothing");
    world.ok("-a src/noise six");
    assert_eq!(world.names(".cache/deltic/links-1").len(), 2, "there is no link");
    let run = world.ok("-a --stats h:src/ seven");
    assert_eq!(world.names(".cache/deltic/links-1").len(), 3, "a note for pulls: {run:#?}");
}

#[test]
fn the_rate_is_limited_in_either_direction() {
    for way in [Way::Push, Way::Pull] {
        let world = World::new();
        world.write("src/file", noise(300_000, 4));
        let start = Instant::now();
        world.ok(&format!("-a --bwlimit 200K {} {}", way.from("src/"), way.to("dst/")));
        let took = start.elapsed().as_secs_f64();
        assert!(took > 1.0, "{way:?}: {took} s for 300 kB at 200 KiB/s");
        world.assert_same("src", "dst");
    }
}

#[test]
fn the_remote_shell_may_have_arguments_and_quotes_and_a_default_in_the_environment() {
    let world = world();
    // A shell that shows what it was given.
    let shell = r#"sh -c 'printf "<%s>" "$@" >words; shift 5; exec "$@"' rsh -p '2 2'"#;
    let words = ["sync", "-a", "src/", "me@host:dst/", "--deltic-path", DELTIC];
    let given = format!("<-p><2 2><-l><me><host><{DELTIC}><agent>");
    let run = Run::of(world.command(DELTIC, words).args(["-e", shell]));
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert_eq!(String::from_utf8(world.read("words")).unwrap(), given);
    world.assert_same("src", "dst");
    fs::remove_dir_all(world.path("dst")).unwrap();
    let run = Run::of(world.command(DELTIC, words).env("DELTIC_RSH", shell));
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert_eq!(String::from_utf8(world.read("words")).unwrap(), given);
    // What is said on the command line counts more.
    fs::remove_file(world.path("words")).unwrap();
    Run::of(world.command(DELTIC, words).args(["-e", SHELL]).env("DELTIC_RSH", shell));
    assert!(!world.exists("words"));
}

#[test]
fn without_flushing_the_result_is_the_same() {
    let world = world();
    world.ok("-a --no-fsync src/ h:dst/");
    world.assert_same("src", "dst");
    world.assert_clean("dst");
}
