//! Whole sessions between two stores in memory, in one thread. `make wasm` runs the same cases in WebAssembly.

#[path = "../examples/sync/cases.rs"]
mod cases;
#[path = "../examples/sync/ends.rs"]
mod ends;

#[test]
fn two_memory_stores_sync_through_whole_sessions_in_one_thread() {
    assert_eq!(cases::check(), Ok(14));
}
