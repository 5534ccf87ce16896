//! The recipes of `docs/recipes.md` that can run here do, as they are written there; units are read by systemd.

use std::process::Command;

use crate::common::{DELTIC, Run, World, is_installed, skip};

const RECIPES: &str = include_str!("../../../docs/recipes.md");

/// Fenced text of this language.
fn fenced(language: &str) -> Vec<String> {
    let blocks = RECIPES.split("```").skip(1).step_by(2);
    blocks
        .filter_map(|block| block.strip_prefix(language)?.strip_prefix('\n'))
        .map(Into::into)
        .collect()
}

/// A world with `deltic` in its path, and stand-ins for programs that lead into containers and to other machines.
fn world() -> World {
    let world = World::new();
    world.mkdir("bin");
    std::os::unix::fs::symlink(DELTIC, world.path("bin/deltic")).expect("it can be made");
    let stand_in = |name: &str, words: &str| {
        let end = world.path("inside").display().to_string();
        // A container has directories of its own.
        let script = format!(
            "#!/bin/sh\necho \"$*\" >>said\ncase \"$*\" in {words}) ;; *) exit 9;; esac\n\
             while [ \"$1\" != deltic ] && [ \"$1\" != sh ]; do shift; done\ncd '{end}' && exec \"$@\"\n"
        );
        world.write(format!("bin/{name}"), script);
        world.chmod(&format!("bin/{name}"), 0o755);
    };
    stand_in("docker", "\"exec -i box \"*|\"exec -i -u www box \"*");
    stand_in("kubectl", "\"exec -i pod/web-0 -- \"*");
    // It has a shell split the command, as sshd does.
    let ssh = "#!/bin/sh\necho \"$*\" >>said\ncase \"$*\" in \"-l me backup sudo \"*|\
               \"-J me@gate.example.org 10.0.0.5 \"*) shift 2;; \"backup \"*) ;; *) exit 9;; esac\n\
               shift; cd inside && exec sh -c \"$*\"\n";
    for (name, script) in [("ssh", ssh), ("sudo", "#!/bin/sh\nexec \"$@\"\n")] {
        world.write(format!("bin/{name}"), script);
        world.chmod(&format!("bin/{name}"), 0o755);
    }
    world.mkdir("inside");
    world.write("src/app.log", "one line\n");
    world.write("src/data", crate::common::noise(50_000, 1));
    world
}

/// Runs this as a shell would.
fn shell(world: &World, text: &str) -> Run {
    let mut command = Command::new("sh");
    let path = std::env::var("PATH").unwrap_or_default();
    command.args(["-ec", text]).env("PATH", format!("{}:{path}", world.path("bin").display()));
    Run::of(&mut world.settle(command))
}

#[test]
fn recipes_do_what_they_say() {
    let recipes = fenced("sh");
    assert!(recipes.len() >= 9, "{recipes:?}");
    let world = world();
    world.mkdir("versions/1");
    for recipe in &recipes {
        let inside = world.path("inside").display().to_string();
        let recipe = recipe.replace(":/srv/", &format!(":{inside}/"));
        // A copy of all there is, for those that compare.
        assert_eq!(shell(&world, "deltic sync -a src/ box/").code, Some(0));
        let run = shell(&world, &recipe);
        assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{recipe}\n{run:#?}");
    }
    world.assert_same("src", "inside/src");
    world.assert_same("src", "versions/2");
    let ends = String::from_utf8(world.read("said")).unwrap();
    assert_eq!(ends.matches(" deltic agent\n").count(), 5, "{ends}");
    let line = String::from_utf8(world.read("runs.log")).unwrap();
    assert!(line.starts_with("files=2 bytes=50009 created=0 transferred=0 "), "{line}");
    assert!(line.ends_with(" exit_code=0\n"), "{line}");
    assert!(world.exists("ok.stamp") && !world.read("summary.json").is_empty());
}

#[test]
fn a_run_that_fails_has_one_line_too() {
    let world = world();
    let run = shell(&world, "deltic sync -a --stats-one-line -e 'sh -c \"exit 255\"' src/ h:x");
    assert_eq!((run.code, &*run.stdout), (Some(255), "exit_code=255\n"), "{run:#?}");
    let run = shell(&world, "deltic sync -a --stats-one-line missing src/ box");
    assert_eq!(run.code, Some(23), "{run:#?}");
    assert!(
        run.stdout.contains(" failed=1 ") && run.stdout.ends_with(" exit_code=23\n"),
        "{run:#?}"
    );
}

#[test]
fn the_profile_of_the_recipe_is_one() {
    let world = world();
    world.write(".config/deltic/config.toml", &fenced("toml")[0]);
    let run = shell(&world, "deltic sync --version @photos");
    assert_eq!(run.code, Some(0), "{run:#?}");
    world.write("photos/a", "a");
    let run = shell(&world, "deltic sync @photos -e 'docker exec -i box {command}' -n");
    assert_eq!(run.code, Some(0), "{run:#?}");
}

#[test]
fn the_line_for_cron_runs_the_profile_and_logs_it() {
    let world = world();
    let inside = world.path("inside").display().to_string();
    let profile = fenced("toml")[0].replace(":/srv/", &format!(":{inside}/"));
    world.write(".config/deltic/config.toml", profile);
    world.write("photos/a", "a");
    let line = RECIPES.lines().find(|line| line.contains(" flock -n ")).expect("it is there");
    let command = line.splitn(6, ' ').last().expect("five fields say when");
    let run = shell(&world, command);
    assert_eq!((run.code, &*run.stdout, &*run.stderr), (Some(0), "", ""), "{command}\n{run:#?}");
    world.assert_same("photos", "inside/photos");
    let log = String::from_utf8(world.read("photos.log")).unwrap();
    assert!(log.starts_with("files=1 ") && log.ends_with(" exit_code=0\n"), "{log}");
}

#[test]
fn a_database_is_copied_by_its_own_program_first() {
    if !is_installed("sqlite3") {
        return skip("sqlite3 is not installed");
    }
    let world = world();
    let (here, inside) = (world.path("").display().to_string(), world.path("inside"));
    let line = RECIPES.lines().find(|line| line.starts_with("sqlite3 ")).expect("it is there");
    let line = line.replace("/var/backups", here.trim_end_matches('/'));
    let line = line.replace(":/srv/", &format!(":{}/", inside.display()));
    let line = line.replace("sqlite3 shop.db", "sqlite3 live.db");
    let made = "sqlite3 live.db 'create table t(n); insert into t values (7)'";
    let read = "sqlite3 inside/shop.db 'select n from t'";
    let run = shell(&world, &format!("{made}; {line}; {read}"));
    assert_eq!((run.code, &*run.stdout, &*run.stderr), (Some(0), "7\n", ""), "{line}\n{run:#?}");
}

#[test]
fn a_log_of_runs_is_rotated_between_them() {
    if !is_installed("logrotate") {
        return skip("logrotate is not installed");
    }
    let world = world();
    let log = world.path("deltic.log").display().to_string();
    let from = RECIPES.find("/var/log/deltic.log {").expect("it is there");
    let len = RECIPES[from..].find('}').expect("it has an end") + 1;
    let rules = RECIPES[from..from + len].replace("/var/log/deltic.log", &log);
    world.write("rules", format!("{rules}\n"));
    world.chmod("rules", 0o644);
    let sync = "deltic sync -a --log-file=deltic.log src/ dst/";
    let rotate = "logrotate -f -s state rules";
    let run = shell(
        &world,
        &format!("{sync}; {rotate}; {sync}; gzip -dc deltic.log.1.gz; wc -l <deltic.log"),
    );
    assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{run:#?}");
    assert!(run.stdout.contains(" app.log\n"), "{run:#?}");
}

#[test]
fn systemd_reads_the_units() {
    if !is_installed("systemd-analyze") {
        return skip("systemd-analyze is not installed");
    }
    let world = World::new();
    let units = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/systemd");
    let mut names = Vec::new();
    for unit in std::fs::read_dir(units).expect("units are shipped") {
        let unit = unit.expect("it can be listed");
        let name = unit.file_name().into_string().expect("it is text").replace("@.", "@photos.");
        world.write(&name, std::fs::read(unit.path()).expect("it can be read"));
        names.push(name);
    }
    assert_eq!(names.len(), 7);
    let run = Run::of(
        &mut world
            .command("systemd-analyze", ["verify"].map(String::from).into_iter().chain(names)),
    );
    assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{run:#?}");
}
