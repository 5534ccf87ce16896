//! Under wrappers that stand between a program and the system.

use crate::common::{DELTIC, Run, SHELL, WAYS, World, is_installed, skip};

/// Runs a script of the shell under fakeroot; what it printed.
fn under_fakeroot(world: &World, script: &str) -> Option<String> {
    if !is_installed("fakeroot") {
        skip("fakeroot is not installed");
        return None;
    }
    let run = Run::of(&mut world.command("fakeroot", ["sh", "-ec", script]));
    assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{script}\n{run:#?}");
    Some(run.stdout)
}

#[test]
fn fakeroot_sees_owners_modes_and_devices() {
    for way in WAYS {
        let world = World::new();
        let (from, to) = (way.from("src/"), way.to("dst/"));
        let sync =
            format!("{DELTIC} sync -e '{}' --deltic-path {DELTIC}", SHELL.replace('\'', r"'\''"));
        let script = format!(
            "show() {{ (cd $1; stat -c '%n %F %u:%g %a %t:%T' . * dir/*); }}
            cd src; mknod null c 1 3; mkdir dir; echo old >dir/file; echo one >gone; ln -s to link
            chown 1:2 dir/file; chown -h 5:6 link; chown 3:4 dir gone; chmod 4711 gone; cd ..
            {sync} -aX --delete {from} {to}; show src >first; show dst | diff first -
            cd src; echo other >dir/file; chown 7:8 dir/file .; chown 9 null; chmod 640 null; cd ..
            rm src/gone; echo new >src/new
            {sync} -aX --delete {from} {to}; show src >then; show dst | diff then -
            cat then"
        );
        let Some(shown) = under_fakeroot(&world, &script) else { return };
        let lines = [
            ". directory 7:8 755 0:0",
            "dir directory 3:4 755 0:0",
            "link symbolic link 5:6 777 0:0",
            "new regular file 0:0 644 0:0",
            "null character special file 9:0 640 1:3",
            "dir/file regular file 7:8 644 0:0",
        ];
        assert_eq!(shown.lines().collect::<Vec<_>>(), lines, "{way:?}");
    }
}

#[test]
fn nothing_is_flushed_under_eatmydata() {
    let installed = ["eatmydata", "strace"].into_iter().all(is_installed);
    if !installed {
        return skip("eatmydata or strace is not installed");
    }
    let world = World::new();
    world.write("src/dir/file", "content");
    let words = "-f -o calls -e trace=fsync,fdatasync,syncfs,sync_file_range eatmydata";
    let words = words.split(' ').chain([DELTIC, "sync", "-a", "src/", "dst/"]);
    let run = Run::of(&mut world.command("strace", words));
    assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{run:#?}");
    let calls = String::from_utf8(world.read("calls")).unwrap();
    assert!(!calls.contains("sync"), "{calls}");
}

#[test]
fn a_wrapper_that_is_not_loaded_is_refused() {
    let world = World::new();
    world.write("src/file", "content");
    for library in ["/nowhere/libfakeroot-0.so", "libpseudo.so"] {
        for words in [&["sync", "-a", "src/", "dst/"][..], &["agent"]] {
            let mut command = world.command(DELTIC, words);
            let run = Run::of(command.env("LD_PRELOAD", library));
            // The linker has its say first.
            let said = run.stderr.lines().any(|line| {
                line.starts_with("deltic: ")
                    && line.ends_with("cannot intercept this program's system calls")
            });
            assert!(run.code == Some(4) && said, "{run:#?}");
        }
    }
    assert!(!world.exists("dst"));
}

#[test]
fn a_library_is_no_wrapper_because_its_directory_is_called_so() {
    let world = World::new();
    world.write("src/file", "content");
    for library in ["/x/pseudo/libnone.so", "/fakeroot/lib/libc.so:libnone.so"] {
        let mut command = world.command(DELTIC, ["sync", "-a", "src/", "dst/"]);
        let run = Run::of(command.env("LD_PRELOAD", library));
        assert_eq!(run.code, Some(0), "{run:#?}");
    }
}
