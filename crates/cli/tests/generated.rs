//! Manual pages and completions: what is generated holds every option that the help shows.

use std::collections::BTreeSet;

use crate::common::{DELTIC, Run, World, is_installed};

/// Long options that `deltic sync --help` begins a line with.
fn options(world: &World) -> BTreeSet<String> {
    let help = Run::of(&mut world.command(DELTIC, ["sync", "--help"])).stdout;
    let option = |line: &str| {
        let at = line.trim_start().find("--").filter(|at| *at <= 4)?;
        let rest = &line.trim_start()[at..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(rest.len());
        Some(rest[..end].to_owned())
    };
    let options: BTreeSet<_> =
        help.lines().filter(|line| line.trim_start().starts_with('-')).filter_map(option).collect();
    for known in ["--archive", "--out-format", "--compress-level", "--iconv", "--8-bit-output"] {
        assert!(options.contains(known), "{known} is not in {options:?}");
    }
    options
}

#[test]
fn completions_of_every_shell_hold_every_option() {
    let world = World::new();
    let options = options(&world);
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let run = Run::of(&mut world.command(DELTIC, ["completions", shell]));
        assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{shell}");
        for option in &options {
            let name = if shell == "fish" { &option[2..] } else { option };
            assert!(run.stdout.contains(name), "{shell} does not complete {option}");
        }
    }
    let run = Run::of(&mut world.command(DELTIC, ["completions", "dos"]));
    assert_eq!(run.code, Some(1));
}

#[test]
fn bash_takes_its_completions() {
    if !is_installed("bash") {
        return crate::common::skip("bash is not installed");
    }
    let world = World::new();
    let run = Run::of(&mut world.command(DELTIC, ["completions", "bash"]));
    world.write("deltic.bash", run.stdout);
    let script = "source ./deltic.bash && COMP_WORDS=(deltic sync --out-f) COMP_CWORD=2 && \
                  _deltic deltic --out-f sync && echo \"${COMPREPLY[@]}\"";
    let run = Run::of(&mut world.command("bash", ["--norc", "-c", script]));
    assert_eq!((run.code, &*run.stdout), (Some(0), "--out-format\n"), "{run:#?}");
}

#[test]
fn manual_pages_hold_every_option_and_every_command() {
    let world = World::new();
    let page = Run::of(&mut world.command(DELTIC, ["man"])).stdout;
    // In such pages a dash that is one is escaped.
    let plain = page.replace("\\-", "-");
    for option in options(&world) {
        assert!(plain.contains(&option), "the page lacks {option}");
    }
    assert!(plain.contains(".SH SYNOPSIS\ndeltic sync [OPTIONS] SRC... DEST\n.SH DESCRIPTION"));
    assert!(page.starts_with(".ie") && page.contains(".TH deltic-sync 1"), "{}", &page[..200]);
    let version = concat!("Deltic ", env!("CARGO_PKG_VERSION"));
    let head = page.lines().find(|line| line.starts_with(".TH")).unwrap_or_default();
    assert!(head.ends_with(&format!(" \"{version}\" Deltic")), "{head}");
    let run = Run::of(&mut world.command(DELTIC, ["man", "--dir", "share/man1"]));
    assert_eq!((run.code, &*run.stdout, &*run.stderr), (Some(0), "", ""));
    let mut names = world.names("share/man1");
    names.sort();
    for name in ["deltic.1", "deltic-sync.1", "deltic-patch.1", "deltic-man.1"] {
        assert!(names.contains(&name.to_owned()), "{names:?}");
    }
    assert!(!names.contains(&"deltic-agent.1".to_owned()), "it is internal");
    assert_eq!(String::from_utf8(world.read("share/man1/deltic-sync.1")).unwrap(), page);
    world.write("file", "");
    let run = Run::of(&mut world.command(DELTIC, ["man", "--dir", "file"]));
    assert_eq!(run.code, Some(11));
}

#[test]
fn a_page_of_any_command_is_printed_with_other_names_of_options() {
    let world = World::new();
    let man = |words: &[&str]| Run::of(&mut world.command(DELTIC, [&["man"], words].concat()));
    let sync = man(&[]).stdout.replace("\\-", "-");
    for names in ["[alias: --rsync-path]", "[aliases: --del, --delete-during]", "[alias: --no-W]"] {
        assert!(sync.contains(names), "{names}");
    }
    assert_eq!(sync, man(&["sync"]).stdout.replace("\\-", "-"));
    let verify = man(&["verify"]).stdout;
    assert!(verify.contains(".TH deltic-verify 1") && verify.contains("rsync\\-path"), "{verify}");
    for words in [&["nothing"][..], &["agent"], &["verify", "--dir", "share"]] {
        let run = man(words);
        assert_eq!((run.code, &*run.stdout), (Some(1), ""), "{words:?} {run:#?}");
    }
}

#[test]
fn examples_rules_and_exit_codes_stand_in_the_manual_line_by_line() {
    let world = World::new();
    let page = Run::of(&mut world.command(DELTIC, ["man"])).stdout;
    for section in ["EXAMPLES", "EXIT CODES", "FILTER RULES", "ENVIRONMENT", "FILES"] {
        assert!(page.contains(&format!(".SH {section}\n.nf\n")), "{section}\n{page}");
    }
    assert!(!page.contains(".SH EXTRA"), "{page}");
    assert_eq!(page.matches(".nf\n").count(), page.matches("\n.fi\n").count());
    let line = "\\&  deltic sync \\-av photos/ backup:/srv/photos/\n";
    assert!(page.contains(line), "{page}");
    assert!(page.contains("\\&  . FILE      merge: the rules in FILE\n"), "{page}");
}

#[test]
fn completions_know_no_internal_command_and_serve_the_name_rsync() {
    let world = World::new();
    let bash = |words: &[&str]| {
        let run = Run::of(&mut world.command(DELTIC, [&["completions", "bash"], words].concat()));
        assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{words:?}");
        run.stdout
    };
    let own = bash(&[]);
    assert!(own.contains("--delete-during") && !own.contains("agent"), "{own}");
    let rsync = bash(&["--name", "rsync"]);
    assert!(rsync.contains("--delete-during") && rsync.contains("_rsync"), "{rsync}");
    assert!(!rsync.contains("deltic__"), "{rsync}");
}

#[test]
fn help_is_given_by_the_word_too() {
    let world = World::new();
    let said = |words: &[&str]| {
        let run = Run::of(&mut world.command(DELTIC, words));
        assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{words:?}");
        run.stdout
    };
    assert_eq!(said(&["help"]), said(&["--help"]));
    assert_eq!(said(&["help", "sync"]), said(&["sync", "--help"]));
    assert_eq!(said(&["help", "verify"]), said(&["verify", "--help"]));
    let run = Run::of(&mut world.command(DELTIC, ["help", "nothing"]));
    assert_eq!(run.code, Some(1));
}

/// Scripts look for an option in the help to know whether they may use it.
#[test]
fn the_help_shows_every_option_of_rsync_that_is_taken() {
    if !is_installed("rsync") {
        return crate::common::skip("rsync is not installed: nobody says which options it has");
    }
    let world = World::new();
    std::os::unix::fs::symlink(DELTIC, world.path("rsync")).expect("the name is free");
    let options = |program: &str| {
        let help = Run::of(&mut world.command(program, ["--help"])).stdout;
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let words = help.split(|c: char| !is_name(c)).filter(|word| word.starts_with("--"));
        words.map(str::to_owned).collect::<BTreeSet<_>>()
    };
    let ours = options(world.path("rsync").to_str().expect("the path is text"));
    let mut missing: Vec<_> = options("rsync").difference(&ours).cloned().collect();
    // The word for all that take an option back.
    missing.retain(|word| word != "--no-OPTION");
    let refused = ["--confine-root", "--copy-devices", "--crtimes", "--drop-D", "--write-devices"];
    assert_eq!(missing, refused);
}
