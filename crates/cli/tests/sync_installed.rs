//! A far end that `deltic install` put into the home directory, where no `PATH` leads.

use crate::common::{DELTIC, Run, SHELL, World};

#[test]
fn a_program_that_install_put_into_the_home_directory_is_found_without_a_path() {
    let world = World::new();
    world.write("src/a", "a");
    let sync = || {
        let mut command = world.command(DELTIC, ["sync", "-a", "-e", SHELL, "src/", "host:dst"]);
        Run::of(command.env("PATH", "/usr/bin:/bin"))
    };
    if std::path::Path::new("/usr/bin/deltic").exists() {
        return crate::common::skip("this machine has a deltic in /usr/bin");
    }
    let missing = sync();
    assert_eq!(missing.code, Some(127), "{missing:#?}");
    assert!(missing.stderr.contains("`deltic install`"), "{missing:#?}");
    world.mkdir(".local/bin");
    world.link(DELTIC, ".local/bin/deltic");
    let run = sync();
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert_eq!(world.read("dst/a"), b"a");
}
