//! Sessions of two machines without dice: the one that docs/protocol.md shows in hex, and one whose source knows
//! recipes.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, clippy::unwrap_used, missing_docs)]

mod common;

use common::Dice;
use common::destination::Destination;
use common::source::Source;
use common::tree::{Node, Tree, name, path};
use deltic_core::Key;
use deltic_protocol::check::Checksum;
use deltic_protocol::hello::{MAGIC, NamesFrom, Reply, Request};
use deltic_protocol::limits::Limits;
use deltic_protocol::options::Options;
use deltic_protocol::receiver::{Receiver, Setting};
use deltic_protocol::sender::Sender;
use deltic_protocol::{Hello, ToReceiver, ToSender};
use deltic_tree::Timestamp;

const DOCUMENT: &str = include_str!("../../../docs/protocol.md");

/// The bytes of one end, and a check behind each part of them.
struct Stream {
    bytes: Vec<u8>,
    sum: Checksum,
    has_said: bool,
}

impl Stream {
    fn new() -> Self {
        Self { bytes: MAGIC.to_vec(), sum: Checksum::NOTHING, has_said: false }
    }

    fn say(&mut self, frame: &[u8]) {
        self.sum.add_frames(frame);
        self.bytes.extend_from_slice(frame);
        self.has_said = true;
    }

    fn check(&mut self) {
        if std::mem::take(&mut self.has_said) {
            self.bytes.extend_from_slice(&self.sum.check_frame());
        }
    }
}

fn hello(part: u8) -> Hello {
    let names = ["checks:crc32c", "chunker:sieve", "recipe:keyed-8"];
    let capabilities = names.into_iter().map(String::from).collect();
    Hello { program: "deltic 0.1".into(), capabilities, part: Key::from_bytes([part; 32]) }
}

/// A push of one new file.
fn session() -> [Vec<u8>; 2] {
    let (mut new, time) = (Tree::default(), Timestamp { secs: 1_700_000_000, nanos: 0 });
    new.0.insert(path("a"), Node::file(b"hello\n".to_vec(), time, 0o644));
    let options = Options { times: true, durable: true, ..Options::default() };
    let mut source = Source::new(new, None, Dice::new(1));
    let mut destination = Destination::new(Tree::default(), options.clone(), Dice::new(2));
    let setting = Setting { options: options.clone(), ..Setting::default() };
    let (mut sender, mut receiver) = (Sender::new(options.clone()), Receiver::new(setting));
    let (mut from_sender, mut from_receiver) = (Stream::new(), Stream::new());
    from_sender.say(&hello(0x5a).encode());
    let (single, names) = (Some(name("a")), NamesFrom::Nowhere);
    let destination_path = b"/data"[..].into();
    let request = Request::Receive { destination: destination_path, single, names, options };
    from_sender.say(&request.encode());
    from_receiver.say(&hello(0xa5).encode());
    from_receiver.say(&Reply { single: None, join: None }.encode());
    sender.set_terms(true, Limits::default());
    while !sender.is_finished() {
        while let Some((id, work)) = sender.poll_work() {
            sender.answer(id, source.perform(work)).unwrap();
        }
        let frames: Vec<ToReceiver> = std::iter::from_fn(|| sender.poll_frame()).collect();
        frames.iter().for_each(|frame| from_sender.say(&frame.encode()));
        from_sender.check();
        frames.into_iter().for_each(|frame| receiver.handle(frame).unwrap());
        while let Some((id, work)) = receiver.poll_work() {
            receiver.answer(id, destination.perform(work)).unwrap();
        }
        let frames: Vec<ToSender> = std::iter::from_fn(|| receiver.poll_frame()).collect();
        frames.iter().for_each(|frame| from_receiver.say(&frame.encode()));
        from_receiver.check();
        frames.into_iter().for_each(|frame| sender.handle(frame).unwrap());
    }
    [from_sender.bytes, from_receiver.bytes]
}

/// The bytes of the document's lines that begin with `who`.
fn shown(who: &str) -> Vec<u8> {
    let lines = DOCUMENT.lines().filter_map(|line| line.strip_prefix(who)?.split('#').next());
    let words = lines.flat_map(str::split_whitespace);
    words.map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!(" {byte:02x}")).collect()
}

#[test]
fn the_session_of_the_document_is_what_is_said() {
    let said = session().map(|bytes| hex(&bytes));
    assert_eq!(
        ["S ", "R "].map(|who| hex(&shown(who))),
        said,
        "of the sender, and of the receiver"
    );
}

/// Sends `a`, which has grown in its midst. Returns the bytes that were read to be cut, and to be sent.
fn reads(knows: bool) -> (u64, u64) {
    let old = Dice::new(1).bytes(1 << 20);
    let mut bytes = old.clone();
    bytes.splice(500_000..500_000, [7; 1000]);
    let (mut new, mut there) = (Tree::default(), Tree::default());
    let times = [2, 1].map(|secs| Timestamp { secs, nanos: 0 });
    new.0.insert(path("a"), Node::file(bytes.clone(), times[0], 0o644));
    there.0.insert(path("a"), Node::file(old, times[1], 0o644));
    let options = Options { times: true, ..Options::default() };
    let mut source = Source::new(new, None, Dice::new(1));
    source.knows = knows;
    let mut destination = Destination::new(there, options.clone(), Dice::new(2));
    let setting = Setting { options: options.clone(), ..Setting::default() };
    let (mut sender, mut receiver) = (Sender::new(options), Receiver::new(setting));
    while !sender.is_finished() {
        while let Some((id, work)) = sender.poll_work() {
            sender.answer(id, source.perform(work)).unwrap();
        }
        std::iter::from_fn(|| sender.poll_frame())
            .for_each(|frame| receiver.handle(frame).unwrap());
        while let Some((id, work)) = receiver.poll_work() {
            receiver.answer(id, destination.perform(work)).unwrap();
        }
        std::iter::from_fn(|| receiver.poll_frame())
            .for_each(|frame| sender.handle(frame).unwrap());
    }
    assert_eq!(*destination.tree.0[&path("a")].bytes, bytes);
    (source.scanned, source.read)
}

#[test]
fn recipes_that_a_store_knows_are_not_read() {
    let (scanned, read) = reads(true);
    assert_eq!(scanned, 0);
    assert!((1000..200_000).contains(&read), "{read} bytes");
    let (scanned, read_anyway) = reads(false);
    assert!(scanned > 1 << 20);
    assert_eq!(read, read_anyway);
}
