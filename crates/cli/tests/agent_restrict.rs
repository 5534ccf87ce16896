//! Keys that may do no more than sync one directory (`deltic agent --restrict`), from outside: what is refused, and
//! that nothing of it happens.

use std::fs;
use std::path::Path;

use crate::common::{DELTIC, Run, World, rsync};

/// A world with a directory `jail` for the key, and a secret beside it.
struct Key {
    world: World,
    /// Options of the forced command.
    options: &'static str,
}

impl Key {
    fn new(options: &'static str) -> Self {
        let world = World::new();
        world.mkdir("jail");
        world.write("outside/secret", "secret");
        world.write("src/file", "content");
        Self { world, options }
    }

    /// A remote shell that does as sshd with a forced command: the client's own words are in the environment.
    fn shell(&self) -> String {
        let Self { options, .. } = self;
        format!(
            r#"sh -c 'shift; export SSH_ORIGINAL_COMMAND="$*"; exec {DELTIC} agent --restrict jail {options}' rsh"#
        )
    }

    fn run(&self, words: &str) -> Run {
        let shell = self.shell();
        let fixed = ["sync", "-e", &shell, "--deltic-path", DELTIC];
        Run::of(&mut self.world.command(DELTIC, fixed.into_iter().chain(words.split(' '))))
    }

    #[track_caller]
    fn ok(&self, words: &str) -> Run {
        let run = self.run(words);
        assert_eq!((run.code, &*run.stderr), (Some(0), ""), "deltic sync {words}\n{run:#?}");
        run
    }

    /// It is refused with these words, and nothing outside has changed or become known.
    #[track_caller]
    fn refuses(&self, words: &str, why: &str) -> Run {
        let run = self.run(words);
        assert!(run.code != Some(0) && run.stderr.contains(why), "deltic sync {words}\n{run:#?}");
        self.assert_safe(words, &run);
        run
    }

    #[track_caller]
    fn assert_safe(&self, words: &str, run: &Run) {
        assert_eq!(self.world.names("outside"), ["secret"], "deltic sync {words}\n{run:#?}");
        assert_eq!(self.world.read("outside/secret"), b"secret", "deltic sync {words}\n{run:#?}");
        let leaked =
            found(&self.world.path("jail"), "secret") || found(&self.world.path("got"), "secret");
        assert!(!leaked, "deltic sync {words}\n{run:#?}");
    }

    /// `deltic agent`, asked for this command.
    fn agent(&self, command: &str) -> Run {
        let words =
            ["agent", "--restrict", "jail"].into_iter().chain(self.options.split_whitespace());
        let mut agent = self.world.command(DELTIC, words);
        Run::of(agent.env("SSH_ORIGINAL_COMMAND", command).write_stdin(""))
    }
}

/// True if a file below `dir` has this content.
fn found(dir: &Path, content: &str) -> bool {
    let Ok(entries) = fs::read_dir(dir) else { return false };
    entries.flatten().any(|entry| {
        let path = entry.path();
        let kind = entry.file_type().expect("it is there");
        kind.is_dir() && found(&path, content)
            || kind.is_file() && fs::read(&path).is_ok_and(|bytes| bytes == content.as_bytes())
    })
}

#[test]
fn a_tree_goes_below_the_directory_and_back() {
    let key = Key::new("");
    let world = &key.world;
    world.write("src/sub/large", crate::common::noise(300_000, 1));
    world.link("sub/large", "src/link");
    for there in ["h:dst", "h:/dst", "h:./dst/"] {
        key.ok(&format!("-a src/ {there}"));
        world.assert_same("src", "jail/dst");
    }
    world.write("src/sub/large", crate::common::edited(&crate::common::noise(300_000, 1), 1000));
    let run = key.ok("-a --delete --stats src/ h:dst");
    assert!(run.stat("Literal data") < 100_000, "{run:#?}");
    for (n, from) in ["h:dst/", "h:/dst/", "h:/d*/"].into_iter().enumerate() {
        key.ok(&format!("-a {from} back{n}"));
        world.assert_same("src", &format!("back{n}"));
    }
    key.ok("-aR h:/dst/./sub relative");
    key.ok("-aR h:/dst/sub h:dst/file relative");
    assert!(world.exists("relative/sub/large") && world.exists("relative/dst/sub/large"));
    assert!(world.exists("relative/dst/file"));
    for (n, all) in ["h:", "h:/", "h:."].into_iter().enumerate() {
        key.ok(&format!("-a {all} all{n}"));
        world.assert_same("jail", &format!("all{n}"));
    }
    key.ok("-a --checksum src/ h:dst");
    key.ok("-a src/file h:");
    assert_eq!(world.read("jail/file"), b"content");
    key.ok("-a --list-only h:dst/");
    world.assert_clean("jail");
}

#[test]
fn options_may_name_directories_below() {
    let key = Key::new("");
    let world = &key.world;
    world.write("jail/dst/file", "old");
    world.write("jail/first/file", "content");
    world.set_time("src/file", 1_000_000_000);
    world.set_time("jail/first/file", 1_000_000_000);
    key.ok("-a -b --backup-dir=/kept src/ h:dst");
    assert_eq!(world.read("jail/kept/file"), b"old");
    for (dst, dir) in [("a", "../first"), ("b", "/first")] {
        key.ok(&format!("-a --link-dest={dir} src/ h:{dst}"));
        assert_eq!(
            world.inode(&format!("jail/{dst}/file")),
            world.inode("jail/first/file"),
            "{dir}"
        );
    }
    world.mkdir("jail/parts");
    key.ok("-a --partial-dir=/parts src/ h:c");
    key.ok("-a --partial-dir=.part --temp-dir=/parts src/ h:d");
    world.write("jail/list", "file\n");
    key.ok("-a --files-from=:/list h:first listed/");
    assert_eq!(world.read("listed/file"), b"content");
    world.write("jail/rules", "- file");
    world.write("jail/sub/deep/file", "x");
    key.ok("-a -f:_../rules h:first/ ruled");
    key.ok("-aF h:sub/ with-F");
    assert!(world.exists("with-F/deep/file"));
}

#[test]
fn paths_that_lead_out_are_refused() {
    let key = Key::new("");
    let world = &key.world;
    world.write("jail/dst/file", "old");
    world.link("../outside", "jail/out");
    world.link(world.path("outside").to_str().expect("it is text"), "jail/absolute");
    world.link("/", "jail/root");
    world.link("dst", "jail/in");
    let outside = world.path("outside").display().to_string();
    for (words, why) in [
        ("-a src/ h:../outside", "'..' is not allowed"),
        ("-a src/ h:dst/../../outside", "'..' is not allowed"),
        ("-a h:../outside/ got", "'..' is not allowed"),
        ("-a h:dst/../../outside/ got", "'..' is not allowed"),
        ("-a h:~/outside/ got", "no home directories"),
        ("-a src/ h:~root/x", "no home directories"),
        ("-a src/ h:out", "leads out"),
        ("-a src/ h:out/", "leads out"),
        ("-a --mkpath src/ h:out/x/y", "leads out"),
        ("-a src/file h:out/", "leads out"),
        ("-a src/ h:absolute/", "leads out"),
        ("-a src/ h:root/tmp/", "leads out"),
        ("-a h:out/ got", "leads out"),
        ("-a h:out/secret got", "leads out"),
        ("-a h:absolute/secret got", "leads out"),
        ("-aR h:out/secret got", "leads out"),
        ("-a h:in/../../outside/secret got", "'..' is not allowed"),
        ("-aL h: got", "links are not followed"),
        ("-ak h: got", "links are not followed"),
        ("-a --copy-unsafe-links h: got", "links are not followed"),
        ("-a --files-from=:../outside/secret h: got", "'..' is not allowed"),
        ("-a --files-from=:out/secret h: got", "leads out"),
        ("-a --files-from=:out/secret src h:dst", "leads out"),
        ("-a --partial-dir=/../outside src/ h:dst", "--partial-dir"),
        ("-a --partial-dir=/out src/ h:dst", "--partial-dir"),
        ("-a --temp-dir=../../outside src/ h:dst", "--temp-dir"),
        ("-a -b --backup-dir=../../outside src/ h:dst", "--backup-dir"),
        ("-a -b --backup-dir=../out/x src/ h:dst", "--backup-dir"),
        ("-a --link-dest=../../outside src/ h:dst", "--link-dest"),
        ("-a --copy-dest=../out src/ h:dst", "--copy-dest"),
        ("-a --compare-dest=no/../../../outside src/ h:dst", "--compare-dest"),
    ] {
        key.refuses(words, why);
    }
    // What leads out by its words is below the directory here, and is not there.
    for words in [
        format!("-a h:{outside}/ got"),
        format!("-a src/ h:{outside}"),
        format!("-a --files-from=:{outside}/secret h: got"),
    ] {
        let run = key.run(&words);
        assert_ne!(run.code, Some(0), "{words}\n{run:#?}");
        key.assert_safe(&words, &run);
    }
    let run = key.run(&format!("-a --link-dest={outside} src/ h:dst"));
    assert!(run.code == Some(0) && run.stderr.contains("does not exist"), "{run:#?}");
    assert_eq!(world.read("jail/dst/file"), b"content");
    // Wildcards show nothing outside, and a link that is named is told as one.
    let run = key.run("-a h:out/* got");
    assert!(run.code != Some(0) && !run.stderr.contains("secret"), "{run:#?}");
    key.ok("-a h:out got/");
    assert!(world.path("got/out").is_symlink());
}

#[test]
fn names_of_a_list_lead_nowhere_outside() {
    let key = Key::new("");
    let world = &key.world;
    world.write("jail/file", "x");
    world.link("../outside", "jail/out");
    world.write("list", "file\n../outside/secret\nout/secret\n/../outside/secret\n");
    for words in ["-a --files-from=list h: got", "-a --no-relative --files-from=list h: got"] {
        let run = key.run(words);
        assert_eq!(run.code, Some(23), "{run:#?}");
        assert!(world.exists("got/file"), "{run:#?}");
        key.assert_safe(words, &run);
    }
}

#[test]
fn links_in_the_midst_of_the_tree_are_not_passed() {
    let key = Key::new("");
    let world = &key.world;
    world.write("src/sub/new", "x");
    for target in ["../../outside", "/", "../../../../../../../../../../tmp"] {
        for words in
            ["-aK src/ h:dst", "-a src/ h:dst", "-aR --no-implied-dirs src/./sub/new h:dst"]
        {
            world.mkdir("jail/dst");
            fs::remove_dir_all(world.path("jail/dst")).expect("it is ours");
            world.mkdir("jail/dst");
            world.link(target, "jail/dst/sub");
            let run = key.run(words);
            key.assert_safe(words, &run);
        }
    }
    // One that stays inside is kept.
    world.mkdir("jail/other/real");
    world.link("real", "jail/other/sub");
    key.ok("-aK src/ h:other");
    assert!(world.exists("jail/other/real/new"));
}

#[test]
fn rules_above_the_directory_are_refused_and_never_read() {
    let key = Key::new("");
    let world = &key.world;
    world.write("rules", "- file\nsecret");
    world.write("jail/rules", "- hidden");
    world.write("jail/dst/file", "x");
    world.write("jail/dst/hidden", "x");
    key.refuses("-a -f:_../../rules h:dst/ got", "restricted");
    assert!(!world.exists("got/file"));
    // In a file of rules as well; and to them, too, the directory is the root.
    world.write("jail/dst/.rules", ": ../../rules\n");
    key.refuses("-a -f:_.rules h:dst/ got", "restricted");
    world.write("jail/dst/.rules", ": /rules\n");
    key.ok("-a -f:_.rules h:dst/ got");
    assert!(world.exists("got/file") && !world.exists("got/hidden"));
    // A link to rules outside is not followed.
    world.link("../../outside/secret", "jail/dst/.linked");
    let run = key.run("-a -f:_.linked h:dst/ got");
    key.assert_safe("linked rules", &run);
}

#[test]
fn what_may_only_be_read_is_not_written() {
    let key = Key::new("--ro");
    let world = &key.world;
    world.write("jail/dst/old", "x");
    for words in ["-a src/ h:dst", "-an src/ h:dst", "-a --delete src/ h:dst", "-a src/ h:new"] {
        key.refuses(words, "--ro");
    }
    key.refuses("-an src/ h:dst", "-n and verify with HOST: as the second path ask to write");
    key.refuses("-a --remove-source-files h:dst/ got", "--remove-source-files");
    assert_eq!(world.names("jail/dst"), ["old"]);
    assert_eq!(world.names("jail"), ["dst"]);
    key.ok("-a h:dst/ got");
    world.assert_same("jail/dst", "got");
    // What the reader deletes is his own.
    world.write("got/more", "x");
    key.ok("-a --delete h:dst/ got");
    world.assert_same("jail/dst", "got");
}

#[test]
fn what_may_only_be_written_is_not_read() {
    let key = Key::new("--wo");
    let world = &key.world;
    world.write("jail/dst/old", "x");
    for words in [
        "-a h:dst/ got",
        "-an h:dst/ got",
        "--list-only h:dst/",
        "-a --remove-source-files h:dst/ got",
        "-a --files-from=:dst/old src h:dst",
    ] {
        key.refuses(words, "--wo");
    }
    assert!(!world.exists("got") && world.exists("jail/dst/old"));
    key.ok("-a --delete src/ h:dst");
    world.assert_same("src", "jail/dst");
}

#[test]
fn nothing_is_deleted_where_nothing_may_be() {
    let key = Key::new("--no-delete");
    let world = &key.world;
    world.write("jail/dst/old", "x");
    world.write("jail/dst/file", "older");
    for words in [
        "-a --delete src/ h:dst",
        "-an --delete src/ h:dst",
        "-a --delete-excluded src/ h:dst",
        "-a --delete --max-delete=1 src/ h:dst",
        "-a --delete --force-delete src/ h:dst",
        "-a --force src/ h:dst",
        "-a --delete-missing-args src/no h:dst",
        "-a --remove-source-files h:dst/ got",
    ] {
        key.refuses(words, "nothing may be deleted");
    }
    assert!(world.exists("jail/dst/old"));
    // A directory is no older backup.
    world.write("jail/docs/file/1", "precious");
    assert_eq!(key.run("-a --backup --backup-dir=/docs src/ h:dst").code, Some(23));
    assert_eq!(world.read("jail/docs/file/1"), b"precious");
    // New versions take the place of old ones.
    key.ok("-a src/ h:dst");
    assert_eq!(world.read("jail/dst/file"), b"content");
    key.ok("-a --delete h:dst/ got");
    key.ok("-a --remove-source-files src/ h:dst");
    assert!(!world.exists("src/file") && world.exists("jail/dst/old"));
}

#[test]
fn the_key_runs_nothing_but_the_agent() {
    let key = Key::new("");
    for command in [
        "sh -c 'id > jail/ran'",
        "deltic sync -a jail/ outside/",
        "deltic agent --restrict /",
        "deltic agent --join",
        "deltic agent; id",
        "deltic doctor h",
        "rsync --server -e.LsfxC . outside/",
        "scp -t outside",
        "\u{1b}[31mred",
    ] {
        let run = key.agent(command);
        assert_eq!(run.code, Some(4), "{command} {run:#?}");
        assert!(run.stderr.contains("is not run here"), "{command} {run:#?}");
        assert!(!run.stderr.contains('\u{1b}') && run.stdout.is_empty(), "{command} {run:#?}");
    }
    key.world.write("src/large", crate::common::noise(100_000, 3));
    // A second stream would lead through a socket outside: there is one.
    let run = key.run("-a --streams 3 src/ h:dst");
    assert_eq!(run.code, Some(0), "{run:#?}");
    key.world.assert_same("src", "jail/dst");
    let run = key.run("-a -M--restrict=/ src/ h:other");
    assert!(run.code != Some(0) && !key.world.exists("jail/other"), "{run:#?}");
    key.ok("-a -M--bwlimit=10M src/ h:slow");
}

#[test]
fn a_directory_that_is_not_there_is_told_and_nothing_is_served() {
    let key = Key::new("");
    let mut agent = key.world.command(DELTIC, ["agent", "--restrict", "missing"]);
    let run = Run::of(agent.write_stdin(""));
    assert_eq!(run.code, Some(3), "{run:#?}");
    assert!(run.stderr.contains("--restrict missing: no such file"), "{run:#?}");
    for alone in ["--ro", "--wo", "--no-delete"] {
        let run = Run::of(key.world.command(DELTIC, ["agent", alone]).write_stdin(""));
        assert_eq!(run.code, Some(1), "{run:#?}");
    }
    let both = ["agent", "--restrict", "jail", "--ro", "--wo"];
    assert_eq!(Run::of(key.world.command(DELTIC, both).write_stdin("")).code, Some(1));
}

#[test]
fn the_doctor_says_what_a_key_may_do() {
    for (options, says) in [
        ("", "to read and write"),
        ("--ro", "to read (--ro)"),
        ("--wo --no-delete", "to write (--wo), and delete nothing"),
    ] {
        let key = Key::new(options);
        let shell = key.shell();
        let doctor = |place: &str| {
            let words = ["doctor", "-e", &shell, "--deltic-path", DELTIC, place];
            Run::of(&mut key.world.command(DELTIC, words))
        };
        let run = doctor("h");
        assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{run:#?}");
        assert!(run.stdout.contains(says) && run.stdout.contains("Landlock"), "{run:#?}");
        assert!(!run.stdout.contains("warning"), "{run:#?}");
        assert!(run.stdout.contains(" transfer: not tried: "), "{run:#?}");
        key.world.link("../outside", "jail/out");
        for place in ["h:../outside", "h:out", "h:~"] {
            let run = doctor(place);
            assert_eq!(run.code, Some(3), "{place} {run:#?}");
            key.assert_safe(place, &run);
        }
        assert_eq!(key.world.names("jail"), ["out"]);
    }
}

#[test]
fn owners_modes_and_attributes_pass_the_walls() {
    let key = Key::new("");
    let world = &key.world;
    world.write("src/sub/a", "a");
    fs::hard_link(world.path("src/sub/a"), world.path("src/b")).expect("it can be made");
    world.chmod("src/sub/a", 0o640);
    key.ok("-aHAX src/ h:dst");
    world.assert_same("src", "jail/dst");
    assert_eq!(world.inode("jail/dst/sub/a"), world.inode("jail/dst/b"));
    key.ok("-aHAX --fake-super src/ h:fake");
    key.ok("-a --inplace src/ h:dst");
    key.ok("-a --delay-updates src/ h:delayed");
    key.ok("-aS --preallocate --numeric-ids src/ h:sparse");
    let run = rsync(world, &["-anciH", "src/", "jail/dst/"]);
    assert!(run.is_none_or(|run| run.stdout.is_empty()));
}

#[test]
fn a_key_may_be_restricted_to_a_link_of_ones_own() {
    let key = Key::new("");
    fs::rename(key.world.path("jail"), key.world.path("disk")).expect("it is there");
    key.world.link("disk", "jail");
    key.ok("-a src/ h:dst/");
    key.ok("-a --link-dest=../dst src/ h:next/");
    key.ok("-a h:next/ got/");
    assert_eq!(key.world.read("got/file"), b"content");
    assert_eq!(key.world.inode("disk/next/file"), key.world.inode("disk/dst/file"));
}
