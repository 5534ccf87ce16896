//! One session from its first byte to its last, at either end.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use deltic_core::keyed::KEY_BYTES;
use deltic_core::{Key, Name};
use deltic_protocol::Purpose;
use deltic_protocol::hello::{Abort, AbortCause, MAGIC, Reply, Request, check_magic};
use deltic_protocol::limits::{MAX_GREETING_BYTES, MAX_STREAMS};
use deltic_protocol::options::Options;
use deltic_protocol::receiver::{Receiver, Setting};
use deltic_protocol::report::Notice;
use deltic_protocol::sender::Sender;
use deltic_protocol::streams::Join;
use deltic_protocol::{Hello, PeerError, Terms, negotiate};
use deltic_store::local::{LocalOptions, LocalStore, SourceArg, Sources, create_root};
use deltic_store::memory::MemoryStore;
use deltic_store::{Durability, Filter, Store};

use crate::drive::{Drive, Hands, Machine, drive, fewer};
use crate::error::SyncError;
use crate::hands::owners::is_privileged;
use crate::hands::receiving::ReceivingHands;
use crate::hands::sending::SendingHands;
use crate::monitor::Monitor;
use crate::outlets::Outlets;
use crate::place::{Resolved, expand, resolve};
use crate::plan;
use crate::streams::{Door, Joined, Joining, beside};
use crate::transport::{
    Counters, Flow, Heard, Link, RawFrame, ReadEnd, farewell, read_frame, start_reader,
    start_writer,
};

/// How long the other end may take to greet: it may ask its user for a password first.
const GREETING_PATIENCE: Duration = Duration::from_secs(120);
/// Bytes of a stream that is no Deltic's that are quoted, and how long the rest of them is waited for.
const QUOTED_BYTES: u64 = 64;
const QUOTE_PATIENCE: Duration = Duration::from_millis(100);
/// How long a last word may take to leave.
const ABORT_PATIENCE: Duration = Duration::from_secs(2);

/// Told what happens.
pub(crate) type Watch<'a> = &'a mut (dyn FnMut(Notice) + Send);

/// How an end goes about a session, whatever it is asked to do.
#[derive(Clone, Debug, Default)]
pub(crate) struct Conduct {
    pub(crate) counters: Arc<Counters>,
    /// Most bytes a second to put on the wire or take from it.
    pub(crate) bwlimit: Option<u64>,
    pub(crate) monitor: Monitor,
    pub(crate) further: Further,
}

/// A connection on which both ends have said hello.
pub(crate) struct Greeted {
    terms: Terms,
    reader: Box<dyn AsyncRead + Send + Unpin>,
    batches: mpsc::Sender<Vec<u8>>,
    writing: JoinHandle<std::io::Result<()>>,
    flow: Flow,
    further: Further,
}

/// How this end could have more streams than one.
#[derive(Clone, Debug, Default)]
pub(crate) enum Further {
    /// Not at all: nothing is between the ends.
    #[default]
    Never,
    /// By starting more remote shells.
    Dial { remote: plan::Remote, host: String },
    /// By a socket in one of these directories, the best first.
    Answer { dirs: Vec<PathBuf> },
}

impl Greeted {
    /// Says hello and hears the other's.
    pub(crate) async fn new(
        mut link: Link,
        conduct: Conduct,
    ) -> Result<(Self, Option<tokio::process::Child>), SyncError> {
        let flow = Flow::new(&conduct);
        let (batches, writing) = start_writer(link.writer, &flow);
        let ours = Hello::ours(draw_key());
        let hello = [&MAGIC[..], &ours.encode()].concat();
        conduct.monitor.count_sent(Purpose::Control, hello.len());
        // A peer that reads nothing is found out by what it does not say.
        batches.send(hello).await.ok();
        let theirs = hear_hello(&mut link.reader, &flow.counters);
        let theirs = tokio::time::timeout(GREETING_PATIENCE, theirs).await;
        let late = || SyncError::Disconnected("the other end said nothing for too long".into());
        let terms = match theirs.map_err(|_| late()).flatten() {
            Ok(theirs) => negotiate(&ours, &theirs)?,
            Err(error) => {
                drop(batches);
                return Err(explain(error, link.child).await);
            }
        };
        let reader = link.reader;
        let further = conduct.further;
        Ok((Self { terms, reader, batches, writing, flow, further }, link.child))
    }

    async fn say(&mut self, frame: Vec<u8>) {
        self.flow.monitor.count_sent(Purpose::Control, frame.len());
        // If nobody listens any more, the reader hears why.
        self.batches.send(frame).await.ok();
    }

    async fn ask(&mut self, request: &Request) -> Result<(), SyncError> {
        if !request.fits() {
            let message =
                "too many or too long paths and patterns for one run; sync a directory instead";
            return Err(SyncError::Usage(message.into()));
        }
        self.say(request.encode()).await;
        Ok(())
    }

    async fn hear(&mut self) -> Result<RawFrame, SyncError> {
        let frame = read_frame(&mut self.reader, &self.flow.counters).await?;
        if frame.payload.len() > MAX_GREETING_BYTES {
            return Err(PeerError::Limit("greeting").into());
        }
        match Abort::decode(frame.kind, &frame.payload)? {
            Some(abort) => Err(abort.into()),
            None => Ok(frame),
        }
    }

    /// Asks to be sent these paths; then receives them.
    pub(crate) async fn pull(
        mut self,
        paths: &[OsString],
        destination: &OsStr,
        options: Options,
        watch: Watch<'_>,
    ) -> Result<(), SyncError> {
        self.terms.admits(&options.strategy)?;
        let sources = paths.iter().map(|path| path.as_bytes().into()).collect();
        self.ask(&Request::Send { sources, options: options.clone() }).await?;
        let frame = self.hear().await?;
        let Reply { single, join } = Reply::decode(frame.kind, &frame.payload)?;
        let joining = self.dialling(join, options.streams, watch);
        let expect = expected(paths);
        // The other end's word does not make one file of what was asked for as a directory.
        let single = single.filter(|name| expect == Some(HashSet::from([name.clone()])));
        let result = match resolve(destination.as_bytes(), single.as_ref()) {
            Ok(resolved) => self.receive(resolved, (options, expect), joining, watch).await,
            Err(error) => Err(error),
        };
        self.end(result).await
    }

    /// Asks to receive; then sends these paths.
    pub(crate) async fn push(
        mut self,
        paths: &[PathBuf],
        destination: &OsStr,
        options: Options,
        watch: Watch<'_>,
    ) -> Result<(), SyncError> {
        self.terms.admits(&options.strategy)?;
        let paths: Vec<_> = paths.iter().map(|path| path.as_os_str().to_owned()).collect();
        let sources = open_sources(&paths, &options)?;
        let single = sources.single_file();
        let destination = destination.as_bytes().into();
        self.ask(&Request::Receive { destination, single, options: options.clone() }).await?;
        let frame = self.hear().await?;
        let Reply { join, .. } = Reply::decode(frame.kind, &frame.payload)?;
        let joining = self.dialling(join, options.streams, watch);
        let result = self.send(sources, options, joining, watch).await;
        self.end(result).await
    }

    /// Does what the dialling end asks.
    pub(crate) async fn serve(mut self, watch: Watch<'_>) -> Result<(), SyncError> {
        let frame = self.hear().await?;
        let result = match Request::decode(frame.kind, &frame.payload) {
            Ok(request) => self.serve_request(request, watch).await,
            Err(error) => Err(error.into()),
        };
        self.end(result).await
    }

    async fn serve_request(&mut self, request: Request, watch: Watch<'_>) -> Result<(), SyncError> {
        match request {
            Request::Send { options, .. } | Request::Receive { options, .. }
                if self.terms.admits(&options.strategy).is_err() =>
            {
                Err(PeerError::NothingInCommon("strategy of this name").into())
            }
            Request::Send { sources, options } => {
                let paths: Vec<_> =
                    sources.iter().map(|path| expand(path).into_os_string()).collect();
                let sources = open_sources(&paths, &options)?;
                let joining = self.agree(sources.single_file(), options.streams).await;
                self.send(sources, options, joining, watch).await
            }
            Request::Receive { destination, single, options } => {
                let resolved = resolve(&destination, single.as_ref())?;
                let expect = single.filter(|_| resolved.rename.is_some());
                let joining = self.agree(None, options.streams).await;
                let expect = expect.map(|name| [name].into());
                self.receive(resolved, (options, expect), joining, watch).await
            }
        }
    }

    /// Replies, and says where further streams may join if so many are asked for.
    async fn agree(&mut self, single: Option<Name>, streams: u32) -> Joining {
        let door = match &self.further {
            Further::Answer { dirs } if self.terms.streams() && streams > 1 => {
                Door::open(dirs, streams - 1)
            }
            _ => None,
        };
        let join = door.as_ref().map(|door| door.join().clone());
        self.say(Reply { single, join }.encode()).await;
        door.map_or(Joining::Nobody, Joining::Answer)
    }

    /// How we get so many streams, where the other end let us.
    fn dialling(&self, join: Option<Join>, streams: u32, watch: Watch<'_>) -> Joining {
        let Further::Dial { remote, host } = self.further.clone() else { return Joining::Nobody };
        match join {
            _ if streams <= 1 => Joining::Nobody,
            Some(join) => Joining::Dial { remote, host, join, more: streams - 1 },
            None => {
                watch(fewer("the other end found no place for a socket: one stream only".into()));
                Joining::Nobody
            }
        }
    }

    async fn send(
        &mut self,
        sources: Sources,
        options: Options,
        joining: Joining,
        watch: Watch<'_>,
    ) -> Result<(), SyncError> {
        let own = sources.own();
        let hands = SendingHands::new(sources, own, (self.terms, &options));
        let threads = options.threads;
        let machine = Sender::new(self.terms, options);
        self.run((machine, hands), joining, threads, watch).await
    }

    async fn receive(
        &mut self,
        resolved: Resolved,
        (options, expect): (Options, Option<HashSet<Name>>),
        joining: Joining,
        watch: Watch<'_>,
    ) -> Result<(), SyncError> {
        let Resolved { root, rename, missing } = resolved;
        let is_privileged = is_privileged(options.metadata.powers);
        let setting = Setting { options: options.clone(), expect, rename, is_privileged };
        if missing && options.dry_run {
            let store = MemoryStore::new(Filter::default());
            return self.receive_into(store, setting, joining, watch).await;
        }
        let unusable = |error| {
            let root = deltic_core::path::printable(root.as_os_str().as_bytes());
            SyncError::Selection(format!("destination {root}: {error}"))
        };
        if missing {
            create_root(&root, durability(&options)).map_err(unusable)?;
        }
        let local = LocalOptions {
            durability: durability(&options),
            rules: Filter::new(&options.rules),
            see: options.metadata.seen_by_receiver(is_privileged),
        };
        let store = LocalStore::open(&root, local).map_err(unusable)?;
        self.receive_into(store, setting, joining, watch).await
    }

    async fn receive_into<S: Store>(
        &mut self,
        store: S,
        setting: Setting,
        joining: Joining,
        watch: Watch<'_>,
    ) -> Result<(), SyncError> {
        let threads = setting.options.threads;
        let hands = ReceivingHands::new(store, (self.terms, &setting.options))?;
        self.run((Receiver::new(setting), hands), joining, threads, watch).await
    }

    /// Runs a machine over this connection, and over the streams that join it.
    async fn run<M: Machine, H: Hands<M>>(
        &mut self,
        (machine, hands): (M, H),
        joining: Joining,
        threads: u32,
        watch: Watch<'_>,
    ) -> Result<(), SyncError> {
        let reader = std::mem::replace(&mut self.reader, Box::new(tokio::io::empty()));
        let (into, frames) = start_reader(reader, &self.flow);
        let (tell, news) = mpsc::channel(MAX_STREAMS as usize);
        let (open, mut closed) = mpsc::channel(1);
        let joined =
            Joined { role: M::ROLE, frames: into, news: tell, flow: self.flow.clone(), open };
        let monitor = self.flow.monitor.clone();
        let outlets = Outlets::new(self.batches.clone(), monitor.clone());
        let by = Drive { frames, outlets, news, threads, monitor };
        let session = drive(machine, Arc::new(hands), by, watch);
        let result = beside(session, joining.go_on(joined)).await;
        if result.is_ok() {
            // A stream is left only once who sends has said that it is over: an early end would be a fault.
            tokio::time::timeout(GREETING_PATIENCE, closed.recv()).await.ok();
        }
        result
    }

    /// Closes our side; if we gave up, says why first.
    async fn end(self, result: Result<(), SyncError>) -> Result<(), SyncError> {
        let Self { batches, writing, .. } = self;
        if let Some(abort) = result.as_ref().err().and_then(last_word) {
            let said = batches.send(abort.encode());
            tokio::time::timeout(ABORT_PATIENCE, said).await.ok();
        }
        drop(batches);
        let patience = if result.is_ok() { GREETING_PATIENCE } else { ABORT_PATIENCE };
        let written = tokio::time::timeout(patience, writing).await;
        result?;
        match written {
            // The other end may close as soon as it has heard that we are done.
            Ok(Ok(Err(error))) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                Err(SyncError::Transport { action: "write to the other end", source: error })
            }
            _ => Ok(()),
        }
    }
}

/// Random bytes for this end's part of the session's key.
fn draw_key() -> Key {
    let mut bytes = [0; KEY_BYTES];
    getrandom::fill(&mut bytes).expect("the system has randomness");
    Key::from_bytes(bytes)
}

fn durability(options: &Options) -> Durability {
    if options.durable { Durability::Run } else { Durability::None }
}

/// What the other end should be told of our error, unless it told us or is gone.
fn last_word(error: &SyncError) -> Option<Abort> {
    let cause = match error {
        SyncError::Disconnected(_) | SyncError::Refused(_) | SyncError::Transport { .. } => {
            return None;
        }
        SyncError::Selection(_) | SyncError::Usage(_) => AbortCause::Selection,
        SyncError::Protocol(_) | SyncError::Incompatible(_) => AbortCause::Protocol,
        SyncError::StreamLost => AbortCause::Stream,
        _ => AbortCause::Internal,
    };
    Some(Abort { cause, message: error.to_string() })
}

async fn hear_hello(
    reader: &mut (impl AsyncRead + Unpin),
    counters: &Counters,
) -> Result<Hello, SyncError> {
    hear_magic(reader).await?;
    counters.count_received(MAGIC.len());
    let frame = read_frame(reader, counters).await?;
    if frame.payload.len() > MAX_GREETING_BYTES {
        return Err(PeerError::Limit("greeting").into());
    }
    Ok(Hello::decode(frame.kind, &frame.payload)?)
}

/// Reads [`MAGIC`]. What does not begin like it is told at once: a short banner may be followed by silence.
async fn hear_magic(reader: &mut (impl AsyncRead + Unpin)) -> Result<(), SyncError> {
    let failed = |source| SyncError::Transport { action: "read from the other end", source };
    let mut heard = Vec::new();
    while heard.len() < MAGIC.len() && MAGIC.starts_with(&heard) {
        let wanted = (MAGIC.len() - heard.len()) as u64;
        if (&mut *reader).take(wanted).read_buf(&mut heard).await.map_err(failed)? == 0 {
            return Err(ReadEnd::Closed.into());
        }
    }
    if heard != MAGIC {
        // Enough to recognise it by, if it is there already.
        let mut more = (&mut *reader).take(QUOTED_BYTES);
        tokio::time::timeout(QUOTE_PATIENCE, more.read_buf(&mut heard)).await.ok();
    }
    Ok(check_magic(&heard)?)
}

/// A remote shell that ends before anything was said knows best why.
async fn explain(error: SyncError, child: Option<tokio::process::Child>) -> SyncError {
    if !matches!(error, SyncError::Disconnected(_)) {
        return error;
    }
    farewell(child, Heard::Nothing).await.unwrap_or(error)
}

fn open_sources(paths: &[OsString], options: &Options) -> Result<Sources, SyncError> {
    let source = |path: &OsString| {
        SourceArg::new(path).map_err(|bad| {
            let path = deltic_core::path::printable(path.as_bytes());
            SyncError::Selection(format!("source {path}: {bad}"))
        })
    };
    let args = paths.iter().map(source).collect::<Result<_, _>>()?;
    let sources = Sources::new(args, Filter::new(&options.rules));
    Ok(sources.seeing(options.metadata.seen_by_sender()))
}

/// The names that a sender of these paths may bring; `None` where it was asked for a directory's content.
fn expected(paths: &[OsString]) -> Option<HashSet<Name>> {
    let name = |path: &OsString| {
        let last = path.as_bytes().rsplit(|byte| *byte == b'/').next()?;
        (last != b"~").then(|| Name::new(last).ok()).flatten()
    };
    paths.iter().map(name).collect()
}

/// What a plan asks of one end.
pub(crate) async fn dial(
    greeted: Greeted,
    plan: &plan::Plan,
    watch: Watch<'_>,
) -> Result<(), SyncError> {
    let mut options = plan.options.clone();
    match &greeted.further {
        Further::Dial { .. } if options.streams > 1 && !greeted.terms.streams() => {
            watch(fewer("the other end knows of one stream only".into()));
            options.streams = 1;
        }
        Further::Dial { .. } => {}
        _ => options.streams = 1,
    }
    match (&plan.sources, &plan.destination) {
        (plan::Sources::Remote { paths, .. }, plan::Destination::Local(to)) => {
            greeted.pull(paths, to.as_os_str(), options, watch).await
        }
        (plan::Sources::Local(paths), plan::Destination::Local(to)) => {
            greeted.push(paths, to.as_os_str(), options, watch).await
        }
        (plan::Sources::Local(paths), plan::Destination::Remote { path, .. }) => {
            greeted.push(paths, path, options, watch).await
        }
        (plan::Sources::Remote { .. }, plan::Destination::Remote { .. }) => {
            Err(SyncError::Usage("source and destination are both remote".into()))
        }
    }
}
