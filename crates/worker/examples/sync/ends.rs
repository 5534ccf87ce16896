//! Both ends of a session between two stores in memory, in one thread and over two byte strings.

use std::sync::Arc;

use deltic_core::Key;
use deltic_engine::machine::Machine;
use deltic_protocol::frame::{HEADER_BYTES, Header};
use deltic_protocol::hello::{NamesFrom, Reply, Request};
use deltic_protocol::options::Options;
use deltic_protocol::report::{Notice, Totals};
use deltic_protocol::sender::Sender;
use deltic_protocol::{Hello, PeerError, Terms, negotiate};
use deltic_store::faulty::{Call, Faulty, Plan};
use deltic_store::memory::MemoryStore;
use deltic_store::{MemoryFacts, Store};
use deltic_tree::RelPath;
use deltic_worker::inline::{InlineError, InlineSession};
use deltic_worker::kept::KeptFacts;
use deltic_worker::owners::UnknownAccount;
use deltic_worker::receiving::{OpenDestination, ReceiverConfig, ReceiverEnd};
use deltic_worker::source::SourceWorker;

/// Why a session failed.
#[derive(Debug)]
pub(crate) struct SessionFailed(pub(crate) String);

impl From<PeerError> for SessionFailed {
    fn from(error: PeerError) -> Self {
        Self(error.to_string())
    }
}

impl From<InlineError> for SessionFailed {
    fn from(error: InlineError) -> Self {
        Self(error.to_string())
    }
}

impl From<UnknownAccount> for SessionFailed {
    fn from(error: UnknownAccount) -> Self {
        Self(error.to_string())
    }
}

/// A store with the facts of its end.
#[derive(Default)]
pub(crate) struct SessionEnd {
    pub(crate) store: MemoryStore,
    pub(crate) facts: MemoryFacts,
    /// Counts the calls of the store.
    calls: Plan,
}

impl SessionEnd {
    /// Returns the number of reads so far.
    pub(crate) fn reads(&self) -> u64 {
        self.calls.count(Call::Read)
    }

    fn counted(&self) -> Faulty<MemoryStore> {
        Faulty::new(self.store.clone(), self.calls.clone())
    }

    fn kept(&self, options: &Options) -> KeptFacts {
        KeptFacts::new(Arc::new(self.facts.clone()), options, None)
    }
}

/// Takes the first frame of `bytes`: its kind and its payload.
fn frame<'a>(bytes: &mut &'a [u8]) -> Result<(u8, &'a [u8]), SessionFailed> {
    let cut = || SessionFailed("a frame of the greeting is cut".into());
    let (header, behind) = bytes.split_first_chunk::<HEADER_BYTES>().ok_or_else(cut)?;
    let Header { kind, len } = Header::decode(*header)?;
    let (payload, rest) = behind.split_at_checked(len).ok_or_else(cut)?;
    *bytes = rest;
    Ok((kind, payload))
}

/// The results of a greeting: the sender's hello, and the terms and options of each end.
struct Greeted {
    ours: Hello,
    sender: Terms,
    receiver: (Terms, Options),
}

/// Greets as an end that dials and pushes, and answers as the other end.
fn greet(options: &Options) -> Result<Greeted, SessionFailed> {
    let [ours, theirs] = [1, 2].map(|byte| Hello::of_this_version(Key::from_bytes([byte; 32])));
    let (destination, options) = (b"anywhere"[..].into(), options.clone());
    let names = NamesFrom::Nowhere;
    let request = Request::Receive { destination, single: None, names, options };
    let said = [ours.encode(), request.encode()].concat();
    let mut said = &said[..];
    let (kind, payload) = frame(&mut said)?;
    let there = negotiate(&Hello::decode(kind, payload)?, &theirs)?;
    let (kind, payload) = frame(&mut said)?;
    let Request::Receive { options, .. } = Request::decode(kind, payload)? else {
        return Err(SessionFailed("the request of a push asks for a pull".into()));
    };
    there.check_support(&options.strategy, options.delete)?;
    let said = [theirs.encode(), Reply { single: None, join: None }.encode()].concat();
    let mut said = &said[..];
    let (kind, payload) = frame(&mut said)?;
    let here = negotiate(&ours, &Hello::decode(kind, payload)?)?;
    let (kind, payload) = frame(&mut said)?;
    Reply::decode(kind, payload)?;
    Ok(Greeted { ours, sender: here, receiver: (there, options) })
}

/// Pushes all of `source` to `destination`. The connection breaks once the sender has sent more than `most` bytes.
///
/// # Errors
/// [`SessionFailed`] if the session does not end, fails, or reports a trouble.
pub(crate) fn push(
    source: &SessionEnd,
    destination: &SessionEnd,
    options: &Options,
    most: usize,
) -> Result<Totals, SessionFailed> {
    let Greeted { ours, sender: terms, receiver: (far_terms, far_options) } = greet(options)?;
    let own = source.store.look(&RelPath::root()).ok().flatten();
    let worker =
        SourceWorker::new(source.counted(), own, options, &ours).with_kept(source.kept(options));
    worker.agree(terms);
    let mut machine = Sender::new(options.clone());
    Machine::greeted(&mut machine, &terms);
    let mut sender = InlineSession::new(machine, worker);
    let config = ReceiverConfig {
        terms: far_terms,
        options: far_options,
        expect: None,
        user_is_here: false,
        most_files: None,
    };
    let opened = OpenDestination::new(destination.counted());
    let ReceiverEnd { machine, worker, .. } =
        opened.receiver(config, |options| destination.kept(options))?;
    let mut receiver = InlineSession::new(machine, worker);
    let (mut seen, mut sent) = (Seen::default(), 0);
    let (mut there, mut back) = (Vec::new(), Vec::new());
    let (mut has_sent, mut has_received) = (false, false);
    while !(has_sent && has_received) {
        has_sent = has_sent || sender.step(&mut there, &mut |notice| seen.note(notice))?;
        sent += there.len();
        if sent > most {
            return Err(SessionFailed("the connection broke".into()));
        }
        let came = there.len();
        receiver.receive(&there);
        there.clear();
        has_received = has_received || receiver.step(&mut back, &mut |notice| seen.note(notice))?;
        if came == 0 && back.is_empty() && !(has_sent && has_received) {
            return Err(SessionFailed("both ends wait".into()));
        }
        sender.receive(&back);
        back.clear();
    }
    seen.trouble.map_or(Ok(seen.totals), |message| Err(SessionFailed(message)))
}

/// The reported totals and the first trouble.
#[derive(Default)]
struct Seen {
    totals: Totals,
    trouble: Option<String>,
}

impl Seen {
    fn note(&mut self, notice: Notice) {
        match notice {
            Notice::Finished(totals) => self.totals = totals,
            Notice::Trouble(trouble) => {
                self.trouble.get_or_insert(trouble.message);
            }
            _ => {}
        }
    }
}
