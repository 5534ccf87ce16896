//! Manual pages and completions: what is generated holds every option that the help shows.

mod common;

use std::collections::BTreeSet;

use common::{DELTIC, Run, World, is_installed};

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
        return common::skip("bash is not installed");
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
