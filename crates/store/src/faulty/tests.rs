use super::*;
use crate::memory::MemoryStore;
use crate::{Filter, Replaces, conformance};
use deltic_tree::{Kind, Timestamp};

#[test]
fn without_a_fault_it_is_the_store_that_it_wraps() {
    let make = |rules: Filter| Faulty::new(MemoryStore::new(rules), Plan::default());
    conformance::run(|| make(Filter::default()));
    conformance::run_filtered(make);
}

#[test]
fn whichever_call_fails_the_file_is_old_or_new() {
    let calls = || {
        let plan = Plan::default();
        replace(&Faulty::new(tree(), plan.clone())).unwrap();
        plan.total()
    };
    for nth in 0..calls() {
        let (tree, plan) = (tree(), Plan::default());
        plan.fail(Nth::Of(nth), Fault::Broken);
        let error = replace(&Faulty::new(tree.clone(), plan)).unwrap_err();
        assert!(error.to_string().contains("file: input/output error"), "{error}");
        assert_eq!(tree.bytes("file").unwrap(), b"old bytes", "call {nth}");
        replace(&Faulty::new(tree.clone(), Plan::default())).unwrap();
        assert_eq!(tree.bytes("file").unwrap(), b"new bytes");
    }
    assert_eq!(calls(), 6);
}

#[test]
fn a_plan_names_calls_by_number_by_kind_and_from_one_on() {
    let plan = Plan::default();
    plan.fail(Nth::OfCall(Call::Look, 1), Fault::Denied);
    plan.fail(Nth::From(Call::Write, 1), Fault::Full);
    let store = Faulty::new(tree(), plan.clone());
    let path = RelPath::parse(b"file").unwrap();
    assert!(store.look(&path).is_ok());
    assert!(matches!(store.look(&path), Err(StoreError::Denied { .. })));
    assert!(store.look(&path).is_ok());
    let rebuild = store.create(&path, 9).unwrap();
    assert!(rebuild.write(0, b"x").is_ok());
    for _ in 0..2 {
        assert!(matches!(rebuild.write(0, b"x"), Err(StoreError::Full { .. })));
    }
    assert_eq!((plan.count(Call::Look), plan.count(Call::Write), plan.total()), (3, 3, 7));
}

fn tree() -> MemoryStore {
    let tree = MemoryStore::default();
    tree.put("file", b"old bytes");
    tree
}

fn replace(store: &impl Store) -> Result<(), StoreError> {
    let path = RelPath::parse(b"file").unwrap();
    let old = store.open(&path)?;
    let mut bytes = [0; 9];
    old.read_at(0, &mut bytes)?;
    let rebuild = store.create(&path, 9)?;
    rebuild.write(0, b"new")?;
    rebuild.copy(&old, 3..9, 3)?;
    let meta = Meta::without_owner(Kind::File, 9, Timestamp::default(), 0o644);
    let replaces = Replaces::Version(&old);
    rebuild.commit(Commit { meta: &meta, keep: Keep::default(), replaces }).map(drop)
}
