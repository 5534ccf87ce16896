//! Other ends that are no Deltic, or not a good one. What they say is a file; a shell says it.

use deltic_core::Key;
use deltic_protocol::Hello;
use deltic_protocol::ToReceiver;
use deltic_protocol::check::Checksum;
use deltic_protocol::frame::{HEADER_BYTES, Header};
use deltic_protocol::hello::{MAGIC, Reply};
use deltic_protocol::message::Extent;
use deltic_tree::{Entry, Kind, Meta, Name, Timestamp};

use super::{DELTIC, Run, World};

/// `said`, with a check behind each frame that is whole, as a stream carries them.
pub fn checked(said: &[u8]) -> Vec<u8> {
    let Some(mut rest) = said.strip_prefix(&MAGIC) else { return said.to_vec() };
    let (mut checked, mut sum) = (MAGIC.to_vec(), Checksum::NOTHING);
    while let Some(header) = rest.first_chunk()
        && let Ok(Header { len, .. }) = Header::decode(*header)
        && let Some((frame, behind)) = rest.split_at_checked(HEADER_BYTES + len)
    {
        sum.add_frames(frame);
        checked.extend_from_slice(frame);
        checked.extend_from_slice(&sum.check_frame());
        rest = behind;
    }
    checked.extend_from_slice(rest);
    checked
}

/// First bytes of every Deltic.
pub fn hello() -> Vec<u8> {
    [&MAGIC[..], &Hello::of_this_version(Key::from_bytes([7; 32])).encode()].concat()
}

/// The same of one that lacks a capability.
pub fn hello_without(capability: &str) -> Vec<u8> {
    let mut hello = Hello::of_this_version(Key::from_bytes([7; 32]));
    assert!(hello.capabilities.remove(capability));
    [&MAGIC[..], &hello.encode()].concat()
}

/// And once it has agreed to what it was asked.
pub fn agreed() -> Vec<u8> {
    [hello(), Reply { single: None, join: None }.encode()].concat()
}

/// A sender that agreed and lists these entries at the root; the list stays open.
pub fn listing(entries: Vec<Entry>) -> Vec<u8> {
    let listing =
        ToReceiver::Listing { dir: Default::default(), own: None, entries, extent: Extent::Last };
    [agreed(), listing.encode()].concat()
}

pub fn entry(name: &str, kind: Kind, len: u64) -> Entry {
    let modified = Timestamp { secs: 1, nanos: 0 };
    let name = Name::new(name.as_bytes()).expect("a good name");
    Entry { name, meta: Meta::without_owner(kind, len, modified, 0o644) }
}

/// Syncs with an other end that says `said`, whatever it hears, and listens until it is left.
pub fn sync_with(world: &World, said: &[u8], operands: &[&str]) -> Run {
    world.write("said", checked(said));
    sync_over(world, "sh -c 'cat said; exec cat >heard' rsh", operands)
}

/// Syncs over another remote shell, by one attempt.
pub fn sync_over(world: &World, shell: &str, operands: &[&str]) -> Run {
    let words = ["sync", "-a", "--no-fsync", "--no-retry", "-e", shell, "--deltic-path", DELTIC];
    let words = words.iter().chain(operands);
    Run::of(&mut world.command(DELTIC, words))
}
