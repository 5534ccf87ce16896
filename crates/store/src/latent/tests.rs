use std::pin::pin;
use std::task::{Context, Waker};

use deltic_tree::{Kind, Timestamp};

use super::*;
use crate::blocking::{Blocking, block_on};
use crate::faulty::{Fault, Faulty, Nth, Plan};
use crate::memory::MemoryStore;
use crate::{Filter, Posix, Replaces, conformance};

fn latent<S: Store>(inner: S, seed: u64) -> Latent<S> {
    Latent::new(inner, Delays::new(seed, 3))
}

fn path(text: &str) -> RelPath {
    RelPath::parse(text.as_bytes()).unwrap()
}

fn meta() -> Meta {
    Meta::plain(Kind::File, 0, Timestamp::default(), 0o644)
}

/// Writes `bytes` to `file` in parts, the last part first, and replaces `old`.
async fn replace<S: AsyncStore>(
    store: &S,
    bytes: &[u8],
    old: Option<&S::Snapshot>,
) -> Result<(), StoreError> {
    let upload = store.create(&path("file"), bytes.len() as u64).await?;
    let len = upload.part_bytes();
    for (no, part) in bytes.chunks(len).enumerate().collect::<Vec<_>>().into_iter().rev() {
        upload.put((no * len) as u64, part.to_vec()).await?;
    }
    let replaces = old.map_or(Replaces::Nothing, Replaces::Version);
    upload.finish(Commit { meta: &meta(), keep: Keep::default(), replaces }).await.map(drop)
}

#[test]
fn an_awaited_store_is_a_store() {
    let make = |rules: Filter| Blocking(latent(MemoryStore::new(rules), 1));
    conformance::run(|| make(Filter::default()));
    conformance::run_filtered(make);
}

#[test]
fn what_an_awaited_store_does_not_keep_is_named() {
    let store = Blocking(latent(MemoryStore::default(), 1));
    let refused = store.make_symlink(&path("a"), b"b", &meta(), Keep::default()).unwrap_err();
    assert_eq!(refused.to_string(), "cannot write a: symbolic links are not kept by this store");
}

#[test]
fn of_two_uploads_under_way_one_takes_the_place_and_one_conflicts() {
    let bytes = [vec![1; 10_000], vec![2; 9_000]];
    for seed in 0..100 {
        let memory = MemoryStore::default();
        memory.put("file", b"old");
        let store = latent(memory.clone(), seed);
        let old = block_on(store.open(&path("file"))).unwrap();
        let mut one = pin!(replace(&store, &bytes[0], Some(&old)));
        let mut other = pin!(replace(&store, &bytes[1], Some(&old)));
        let (mut done, mut context) = ([None, None], Context::from_waker(Waker::noop()));
        while done.iter().any(Option::is_none) {
            assert!([&b"old"[..], &bytes[0], &bytes[1]].contains(&&*memory.bytes("file").unwrap()));
            for (done, upload) in done.iter_mut().zip([one.as_mut(), other.as_mut()]) {
                if done.is_none()
                    && let Poll::Ready(result) = upload.poll(&mut context)
                {
                    *done = Some(result);
                }
            }
        }
        let [Some(one), Some(other)] = done else { unreachable!() };
        let (won, lost) = if one.is_ok() { (&bytes[0], other) } else { (&bytes[1], one) };
        assert!(matches!(lost, Err(StoreError::Conflict { .. })), "seed {seed}: {lost:?}");
        assert_eq!(memory.bytes("file").unwrap(), *won, "seed {seed}");
    }
}

#[test]
fn whichever_awaited_call_fails_the_file_is_old_or_new() {
    let new = [7; 10_000];
    let run = |memory: &MemoryStore, plan: &Plan| {
        let store = latent(Faulty::new(memory.clone(), plan.clone()), 5);
        block_on(async {
            let old = store.open(&path("file")).await?;
            old.read(0..9).await?;
            replace(&store, &new, Some(&old)).await
        })
    };
    let memory = || {
        let memory = MemoryStore::default();
        memory.put("file", b"old bytes");
        memory
    };
    let plan = Plan::default();
    run(&memory(), &plan).unwrap();
    assert_eq!(plan.total(), 7);
    for nth in 0..plan.total() {
        let (memory, plan) = (memory(), Plan::default());
        plan.fail(Nth::Of(nth), Fault::Broken);
        run(&memory, &plan).unwrap_err();
        assert_eq!(memory.bytes("file").unwrap(), b"old bytes", "call {nth}");
        run(&memory, &Plan::default()).unwrap();
        assert_eq!(memory.bytes("file").unwrap(), new);
    }
}
