//! A process that is actually killed.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use super::*;

const ROOT: &str = "DELTIC_TEST_KILLED_IN";

/// The body of the child process that is killed while it writes a file; not a test by itself.
#[test]
fn the_process_that_is_killed() {
    let Some(root) = std::env::var_os(ROOT) else { return };
    let store = open_store(Path::new(&root));
    let rebuild = store.create(&path("dir/file"), 100_000).unwrap();
    rebuild.write(50_000, &[7; 50_000]).unwrap();
    println!("ready");
    loop {
        thread::park();
    }
}

#[test]
fn what_a_killed_process_wrote_is_held_until_then_and_found_after() {
    let (root, store) = new_store();
    store.make_dir(&path("dir"), None).unwrap();
    let mut child = at_work_in(root.path());
    assert!(store.leftovers(&path("dir/file")).unwrap().is_empty());
    assert_eq!(store.sweep().unwrap(), 0);
    child.kill().unwrap();
    child.wait().unwrap();

    // A new store, since the first one has looked for leftovers before there were any.
    let store = open_store(root.path());
    let found = store.leftovers(&path("dir/file")).unwrap();
    let mut bytes = vec![0; 50_000];
    assert_eq!(found[0].read_at(50_000, &mut bytes).unwrap(), 50_000);
    assert_eq!(bytes, [7; 50_000]);
    assert_eq!((found.len(), store.sweep().unwrap()), (1, 0));
    drop(found);
    assert_eq!(store.sweep().unwrap(), 1);
    assert_eq!(names_in(root.path()), ["dir"]);
    assert!(names_in(&root.path().join("dir")).is_empty());
}

fn at_work_in(root: &Path) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "tests::kill::the_process_that_is_killed", "--nocapture"])
        .env(ROOT, root)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.map(Result::unwrap).any(|line| line.contains("ready")));
    child
}
