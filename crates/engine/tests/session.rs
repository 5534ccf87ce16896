//! The engine's loop runs whole sessions between two machines in one thread; `make wasm` runs the same in a browser's
//! machine.

#[path = "../examples/sync/cases.rs"]
mod cases;
#[path = "../examples/sync/memory.rs"]
mod memory;

#[test]
fn two_byte_strings_are_synced_in_one_thread() {
    assert_eq!(cases::check(), Ok(9));
}
