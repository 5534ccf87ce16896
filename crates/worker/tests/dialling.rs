//! The end that dials, over bytes of the wire, against an end that answers.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::time::Duration;

use deltic_core::Key;
use deltic_engine::greeting::{Role, agree};
use deltic_engine::machine::Machine;
use deltic_engine::stream::{IncomingFrames, StreamEnd};
use deltic_protocol::hello::{Reply, Request};
use deltic_protocol::limits::Limits;
use deltic_protocol::options::Options;
use deltic_protocol::receiver::{Expect, Receiver};
use deltic_protocol::report::{Notice, Totals};
use deltic_protocol::sender::Sender;
use deltic_protocol::{Hello, PeerError, Terms};
use deltic_store::memory::MemoryStore;
use deltic_tree::Name;
use deltic_worker::Worker;
use deltic_worker::destination::DestinationWorker;
use deltic_worker::dialling::{DiallingEnd, PullEnd, PullRequest, PushEnd, PushRequest};
use deltic_worker::inline::{InlineError, InlineSession, Progress};
use deltic_worker::kept::KeptFacts;
use deltic_worker::receiving::{OpenDestination, ReceiverConfig};
use deltic_worker::source::SourceWorker;

fn hello(byte: u8) -> Hello {
    Hello::of_this_version(Key::from_bytes([byte; 32]))
}

fn name(name: &str) -> Name {
    Name::new(name.as_bytes()).unwrap()
}

/// Bytes without repeats.
fn content(len: usize) -> Vec<u8> {
    let mut x = 1_u32;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        x as u8
    };
    (0..len).map(|_| next()).collect()
}

/// Takes the hello and the request of the dialling end, and returns both with their length.
fn request(frames: &[u8]) -> Option<(Hello, Request, usize)> {
    let incoming = IncomingFrames::default();
    let mut frames_of = incoming.frames(frames).filter(|(_, place)| place.end <= frames.len());
    let (kind, place) = frames_of.next()?;
    let theirs = Hello::decode(kind, &frames[place]).unwrap();
    let (kind, place) = frames_of.next()?;
    let end = place.end;
    Some((theirs, Request::decode(kind, &frames[place]).unwrap(), end))
}

/// Holds a whole session. `answer` makes the session of the answering end. Returns the totals that the dialling end
/// reports, and the bytes of both directions.
fn hold<M: Machine, W: Worker<M>, N: Machine, V: Worker<N>>(
    dialling: &mut DiallingEnd<M, W>,
    role: Role,
    answer: impl FnOnce(&Hello, Request, Terms) -> InlineSession<N, V>,
) -> (Totals, usize) {
    let (ours, mut answer) = (hello(2), Some(answer));
    let (mut stream, mut heard, mut session) = (StreamEnd::default(), Vec::new(), None);
    let (mut totals, mut bytes, mut is_over) = (Totals::default(), 0, [false; 2]);
    let mut settled_early = 0;
    while is_over != [true; 2] {
        let mut there = Vec::new();
        if !is_over[0] {
            let mut settled = 0;
            let mut watch = |notice| match notice {
                Notice::Finished(all) => totals = all,
                Notice::Settled { bytes } => settled += bytes,
                Notice::Trouble(trouble) => panic!("{}", trouble.message),
                _ => {}
            };
            is_over[0] = dialling.turn(1, &mut there, &mut watch).unwrap() == Progress::Over;
            settled_early += if is_over[0] { 0 } else { settled };
        }
        for piece in there.chunks(999) {
            stream.receive(piece, &Limits::default(), &mut heard).unwrap();
        }
        let mut back = Vec::new();
        if session.is_none()
            && let Some((theirs, request, end)) = request(&heard)
        {
            heard.drain(..end);
            let terms = agree(role, &ours, &theirs).unwrap();
            session = answer.take().map(|answer| answer(&ours, request, terms));
            let reply = Reply { single: Some(name("a.img")), join: None };
            back = [ours.encode(), reply.encode()].concat();
        }
        if let Some(session) = session.as_mut().filter(|_| !is_over[1]) {
            session.receive(&std::mem::take(&mut heard));
            is_over[1] = session.step(&mut back, &mut |_| ()).unwrap();
        }
        let back = stream.send(back);
        for piece in back.chunks(777) {
            dialling.receive(piece).unwrap();
        }
        bytes += there.len() + back.len();
    }
    // A long transfer shows its progress, not only its end.
    assert!(totals.literal < 1_000_000 || settled_early > totals.literal / 2, "{settled_early}");
    (totals, bytes)
}

fn receives(store: &MemoryStore, options: Options, terms: Terms) -> Receives {
    let (expect, user_is_here, most_files) = (None, false, None);
    let config = ReceiverConfig { terms, options, expect, user_is_here, most_files };
    let opened = OpenDestination::new(store.clone());
    let end = opened.receiver(config, |_| KeptFacts::default()).expect("no account is named");
    InlineSession::new(end.machine, end.worker)
}

type Receives = InlineSession<Receiver, DestinationWorker<MemoryStore>>;
type Sends = InlineSession<Sender, SourceWorker<MemoryStore>>;

fn sends(store: &MemoryStore, ours: &Hello, options: Options, terms: Terms) -> Sends {
    let worker = SourceWorker::new(store.clone(), None, &options, ours);
    worker.agree(terms);
    let mut machine = Sender::new(options);
    Machine::greeted(&mut machine, &terms);
    InlineSession::new(machine, worker)
}

fn push(source: &MemoryStore, destination: &MemoryStore) -> (Totals, usize) {
    let mut dialling = PushEnd::push(source.clone(), push_request(true), hello(1)).unwrap();
    hold(&mut dialling, Role::Receives, |_, request, terms| match request {
        Request::Receive { options, .. } => receives(destination, options, terms),
        Request::Send { .. } => panic!("a push asks the other end to receive"),
    })
}

fn push_request(offers: bool) -> PushRequest {
    let (single, options) = (Some(name("a.img")), Options::default());
    PushRequest { destination: (*b"/").into(), single, own: None, offers, options }
}

fn pull(destination: OpenDestination<MemoryStore>, source: &MemoryStore) -> (Totals, usize) {
    let expect = Expect::from([name("a.img")]);
    let request = PullRequest { source: (*b"a.img").into(), expect, options: Options::default() };
    let mut dialling = PullEnd::pull(destination, request, hello(1)).unwrap();
    hold(&mut dialling, Role::Sends, |ours, request, terms| match request {
        Request::Send { options, .. } => sends(source, ours, options, terms),
        Request::Receive { .. } => panic!("a pull asks the other end to send"),
    })
}

#[test]
fn an_edited_file_is_pushed_and_pulled_by_its_changes() {
    let (here, there) = (MemoryStore::default(), MemoryStore::default());
    let mut bytes = content(3_000_000);
    here.put("a.img", &bytes);
    let (totals, _) = push(&here, &there);
    assert_eq!((totals.transferred, totals.failed), (1, 0));
    assert!(there.bytes("a.img").as_ref() == Some(&bytes));
    bytes.splice(1_000_000..1_000_000, *b"inserted");
    here.put("a.img", &bytes);
    let (totals, moved) = push(&here, &there);
    assert!(there.bytes("a.img").as_ref() == Some(&bytes));
    assert_eq!(totals.literal + totals.matched, bytes.len() as u64);
    assert!(moved < 20_000, "{moved} bytes for a push");
    bytes.drain(2_000_000..2_000_003);
    there.put("a.img", &bytes);
    let (_, moved) = pull(OpenDestination::new(here.clone()), &there);
    assert!(here.bytes("a.img").as_ref() == Some(&bytes));
    assert!(moved < 20_000, "{moved} bytes for a pull");
}

#[test]
fn a_pulled_file_gets_the_name_that_the_destination_wants() {
    let (here, there) = (MemoryStore::default(), MemoryStore::default());
    there.put("a.img", b"content");
    let destination =
        OpenDestination { rename: Some(name("b.img")), ..OpenDestination::new(here.clone()) };
    pull(destination, &there);
    assert_eq!((here.bytes("a.img"), here.bytes("b.img")), (None, Some(b"content".to_vec())));
}

#[test]
fn only_a_push_with_offers_reads_a_file_before_the_request() {
    let store = MemoryStore::default();
    store.put("a.img", &content(300_000));
    let unanswered = |offers| {
        let mut dialling = PushEnd::push(store.clone(), push_request(offers), hello(1)).unwrap();
        let mut sent = Vec::new();
        dialling.turn(usize::MAX, &mut sent, &mut |_| ()).unwrap();
        let listed = sent.len();
        dialling.wake(Duration::from_secs(1)).unwrap();
        dialling.turn(usize::MAX, &mut sent, &mut |_| ()).unwrap();
        sent.len() - listed
    };
    assert!(unanswered(true) > 0);
    assert_eq!(unanswered(false), 0);
}

#[test]
fn another_program_is_found_out() {
    let store = MemoryStore::default();
    let mut dialling = PushEnd::push(store, push_request(true), hello(1)).unwrap();
    let error = dialling.receive(b"HTTP/1.1 404 Not Found").unwrap_err();
    assert!(matches!(error, InlineError::Peer(PeerError::NotDeltic(_))), "{error}");
}
