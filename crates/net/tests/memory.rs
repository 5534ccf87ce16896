//! Whole sessions whose stores are in memory: push, pull, facts of an earlier session, and a transfer that goes on
//! after its connection broke.
#![expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "makes and looks at trees")]

mod common;

use std::path::Path;

use common::{noise, plan, there};
use deltic_net::embed::{
    Embedding, Facts, InProcessFacts, OpenDestination, Outcome, Served, pull_into, receive_into,
    serve_tree, sync_over,
};
use deltic_net::plan::{Destination, Plan, Sources};
use deltic_net::{SyncError, Traffic};
use deltic_protocol::options::Options;
use deltic_store::faulty::{Call, Faulty, Plan as Faults};
use deltic_store::memory::MemoryStore;
use deltic_store::{MemoryFacts, Store, Tree};
use tokio::io::{AsyncReadExt, duplex, join, split};

/// Files and their contents.
const FILES: [(&str, &[u8]); 4] =
    [("a", b"one"), ("dir/b", b"two and more"), ("dir/empty", b""), ("dir/deep/c", &[7; 300_000])];

/// Length of a file whose interrupted transfer is noted in a journal, in bytes.
const LARGE: usize = (32 << 20) + 100_000;

fn options() -> Options {
    let mut options = Options { recursive: true, times: true, durable: true, ..Options::default() };
    options.compare.cached = true;
    options
}

fn contents() -> Options {
    Options { checksum: true, ..options() }
}

/// An end with facts in memory.
fn end() -> Embedding {
    Embedding { facts: Facts::new(MemoryFacts::default()), ..Embedding::default() }
}

/// Pushes a directory to `store`, whose end has the facts of `far`.
async fn pushed<S: Store>(
    (source, options): (&Path, Options),
    (near, far): (&Embedding, &Embedding),
    store: S,
) -> Outcome {
    let (here, other) = duplex(256 << 10);
    let far = far.clone();
    let open = |_| Ok(OpenDestination::new(store));
    let serving = tokio::spawn(async move { receive_into(open, other, &far).await });
    let plan = plan(source.join(""), there("anywhere"), options);
    let outcome = sync_over(plan, here, near, &mut |_| ()).await.unwrap();
    assert_eq!(outcome.totals.failed, 0);
    serving.await.unwrap().unwrap();
    outcome
}

/// Pulls all of one store into another one, over a connection that breaks after so many bytes.
async fn pulled<T: Tree, S: Store>(
    (tree, far): (T, &Embedding),
    (store, near): (S, &Embedding),
    (options, most): (Options, u64),
) -> Result<Outcome, SyncError> {
    let (here, other) = duplex(64 << 10);
    let far = far.clone();
    let open = |_, _: &Options| Ok(Served { tree, own: None, single: None });
    let serving = tokio::spawn(async move {
        serve_tree(open, other, InProcessFacts::default(), &far).await.ok();
    });
    let local = plan("".into(), Destination::Local("anywhere".into()), options);
    let sources = Sources::Remote { host: "there".into(), paths: vec!["all/".into()] };
    let plan = Plan { sources, ..local };
    let (reads, writes) = split(here);
    let transport = join(reads.take(most), writes);
    let open = |_| Ok(OpenDestination::new(store));
    let outcome = pull_into(plan, open, transport, near, &mut |_| ()).await;
    serving.await.unwrap();
    outcome
}

fn filled() -> MemoryStore {
    let store = MemoryStore::default();
    FILES.iter().for_each(|(path, bytes)| store.put(path, bytes));
    store
}

fn assert_filled(store: &MemoryStore) {
    for (path, bytes) in FILES {
        assert_eq!(store.bytes(path).as_deref(), Some(bytes), "{path}");
    }
}

#[tokio::test]
async fn a_directory_is_pushed_into_memory_and_its_facts_are_known_in_the_next_session() {
    let dir = tempfile::tempdir().unwrap();
    for (path, bytes) in FILES {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
    let (store, near, far) = (MemoryStore::default(), end(), end());
    pushed((dir.path(), contents()), (&near, &far), store.clone()).await;
    assert_filled(&store);
    let faults = Faults::default();
    let counted = Faulty::new(store.clone(), faults.clone());
    let outcome = pushed((dir.path(), contents()), (&near, &far), counted).await;
    assert_eq!((outcome.totals.literal, faults.count(Call::Read)), (0, 0));
    // An end without facts reads all files.
    let counted = Faulty::new(store.clone(), faults.clone());
    pushed((dir.path(), contents()), (&near, &end()), counted).await;
    assert!(faults.count(Call::Read) > 0);
    assert_filled(&store);
}

#[tokio::test]
async fn one_memory_store_is_pulled_into_another_and_no_file_is_read_by_a_later_session() {
    let (source, store, near, far) = (filled(), MemoryStore::default(), end(), end());
    let options = || (contents(), u64::MAX);
    pulled((source.clone(), &far), (store.clone(), &near), options()).await.unwrap();
    assert_filled(&store);
    // A sender takes no digest of a file that it sends by its recipe: the next session does.
    pulled((source.clone(), &far), (store.clone(), &near), options()).await.unwrap();
    let reads = [Faults::default(), Faults::default()];
    let tree = Faulty::new(source.clone(), reads[0].clone());
    let counted = Faulty::new(store.clone(), reads[1].clone());
    pulled((tree, &far), (counted, &near), options()).await.unwrap();
    assert_eq!(reads.each_ref().map(|reads| reads.count(Call::Read)), [0, 0]);
    // A changed file is read, and no other file.
    source.put("dir/b", b"another content");
    pulled((source.clone(), &far), (store.clone(), &near), options()).await.unwrap();
    assert_eq!(store.bytes("dir/b").as_deref(), Some(&b"another content"[..]));
}

#[tokio::test]
async fn a_pull_into_memory_whose_connection_broke_goes_on_where_it_ended() {
    let (source, store, near, far) = (MemoryStore::default(), MemoryStore::default(), end(), end());
    let bytes = noise(LARGE, 7);
    source.put("large", &bytes);
    let most = 20 << 20;
    let broken = pulled((source.clone(), &far), (store.clone(), &near), (options(), most)).await;
    assert!(broken.is_err());
    assert_eq!(store.bytes("large"), None, "nothing is in place before all of it is there");
    let whole = pulled((source, &far), (store.clone(), &near), (options(), u64::MAX)).await;
    let Outcome { totals, traffic: Traffic { received, .. }, .. } = whole.unwrap();
    assert!(totals.resumed > 0);
    assert!(store.bytes("large").unwrap() == bytes);
    assert!(received < LARGE as u64 - (4 << 20), "{received} bytes came again");
    assert_eq!(store.sweep().unwrap(), 0, "nothing is left of the first session");
}
