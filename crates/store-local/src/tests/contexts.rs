//! Two contexts in one process.

use std::process::Command;
use std::sync::Barrier;

use deltic_tree::Name;

use super::*;
use crate::dir::{VolumeDir, confine_to_volumes, volume_path};
use crate::{NamedDir, QuotaLimits, StoreContext};

const CHILD: &str = "DELTIC_TEST_CONTEXTS";
const NAME: &str = "tests::contexts::each_context_has_the_quotas_of_its_own_volumes";

/// A process is restricted to volumes for good, so the test runs in a child process.
#[test]
fn each_context_has_the_quotas_of_its_own_volumes() {
    if let Some(dir) = std::env::var_os(CHILD) {
        return in_volumes(Path::new(&dir));
    }
    let world = tempfile::tempdir().unwrap();
    for volume in ["photos", "notes"] {
        fs::create_dir(world.path().join(volume)).unwrap();
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    let run = child.args(["--exact", NAME]).env(CHILD, world.path()).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stdout));
    assert!(String::from_utf8_lossy(&run.stdout).contains("1 passed"));
}

fn in_volumes(world: &Path) {
    let volumes = ["photos", "notes"].map(|name| VolumeDir {
        name: Name::new(name.as_bytes()).unwrap(),
        path: world.join(name),
        versions: None,
        quota: QuotaLimits { bytes: Some(10), ..QuotaLimits::default() },
    });
    confine_to_volumes(&volumes).unwrap();
    let contexts = [&volumes[..1], &volumes[1..]].map(|own| StoreContext::of_volumes(own).unwrap());
    for (at, context) in contexts.iter().enumerate() {
        for (no, VolumeDir { name, .. }) in volumes.iter().enumerate() {
            let root = NamedDir {
                context: context.clone(),
                ..NamedDir::new(volume_path(name), Trust::Ours)
            };
            let store = LocalStore::open_named(&root, LocalOptions::default()).unwrap();
            let (used, written) =
                (context.volume_quota(name), put(&store, &format!("of-{at}"), &[0; 20]));
            match at == no {
                true => assert!(matches!(written, Err(StoreError::Full { .. })), "{written:?}"),
                false => written.unwrap(),
            }
            assert_eq!(used.is_some(), at == no, "the quota of a volume is that of its context");
        }
    }
    // The second context counted the bytes of the first.
    let bytes =
        |no: usize| contexts[no].volume_quota(&volumes[no].name).unwrap().usage().unwrap().bytes;
    assert_eq!([0, 1].map(bytes), [0, 0]);
    contexts[0].volume_quota(&volumes[0].name).unwrap().recount();
    assert_eq!([0, 1].map(bytes), [20, 0], "only a count notices what another context wrote");
}

/// Of two stores that replace the version that both have seen, one is told of the conflict.
#[test]
fn stores_of_two_contexts_on_one_directory_exclude_each_other() {
    let (root, store) = new_store();
    put(&store, "a", b"").unwrap();
    let stores = [store, open_store(root.path())];
    for round in 0..200 {
        let seen = stores[0].look(&path("a")).unwrap().unwrap();
        let both = Barrier::new(2);
        let replace = |at: usize| {
            let bytes = vec![0; 1 + 2 * round + at];
            let rebuild = stores[at].create(&path("a"), bytes.len() as u64).unwrap();
            rebuild.write(0, &bytes).unwrap();
            both.wait();
            let replaces = Replaces::Seen(&seen);
            rebuild.commit(Commit { meta: &file_meta(), keep: KEEP_ALL, replaces }).map(drop)
        };
        let replaced = thread::scope(|scope| {
            let other = scope.spawn(|| replace(1));
            [replace(0), other.join().unwrap()]
        });
        let won = replaced.iter().filter(|answer| answer.is_ok()).count();
        assert_eq!(won, 1, "{replaced:?}");
        assert!(replaced.iter().any(|answer| matches!(answer, Err(StoreError::Conflict { .. }))));
    }
}
