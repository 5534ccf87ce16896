//! Two contexts in one process.

use std::sync::{Arc, Barrier};

use deltic_tree::Name;

use super::*;
use crate::handles::dir::{VolumeDir, volume_path};
use crate::{NamedDir, QuotaLimits, StoreContext};

/// Both contexts have a volume of the same name. Directory, quota and use of the volume are separate.
#[test]
fn two_contexts_have_volumes_quotas_and_flushes_of_their_own() {
    let worlds = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let volume = |name: &str, world: &TempDir, bytes| VolumeDir {
        name: Name::new(name.as_bytes()).unwrap(),
        path: world.path().into(),
        versions: None,
        quota: QuotaLimits { bytes, ..QuotaLimits::default() },
    };
    let volumes = [
        vec![volume("photos", &worlds[0], Some(10)), volume("notes", &worlds[1], None)],
        vec![volume("photos", &worlds[1], Some(100))],
    ];
    let contexts = [0, 1].map(|at| StoreContext::of_volumes(&volumes[at]).unwrap());
    let photos = &volumes[0][0].name;
    let stores = contexts.each_ref().map(|context| {
        let root = NamedDir::new(volume_path(photos), Trust::Ours).in_context(context);
        LocalStore::open_named(&root, LocalOptions::default()).unwrap()
    });
    let written = stores.each_ref().map(|store| put(store, "file", &[0; 20]));
    assert!(matches!(written, [Err(StoreError::Full { .. }), Ok(())]), "{written:?}");
    let is_there = |at: usize| worlds[at].path().join("file").exists();
    assert_eq!([0, 1].map(is_there), [false, true]);
    let used = contexts.each_ref().map(|context| context.volume_quota(photos).unwrap().usage());
    assert_eq!(used.map(|used| used.unwrap().bytes), [0, 20]);
    assert!(!contexts[0].leads_out(Path::new("/notes")));
    assert!(contexts[1].leads_out(Path::new("/notes")));
    assert!(!Arc::ptr_eq(&contexts[0].shared, &contexts[1].shared), "flushes are not shared");
    assert!(!StoreContext::default().leads_out(worlds[0].path()), "the process is not confined");
}

/// Two stores replace the version that both have seen. One of the two gets the conflict.
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
