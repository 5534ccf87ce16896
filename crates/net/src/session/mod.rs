//! A session at either end, from its first byte to its last: `dial` requests, `serve` answers requests, and both take
//! a role (`roles`).

mod destination;
mod dial;
mod roles;
mod serve;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use deltic_core::PackedStrings;
use deltic_core::strategy::LinkModel as Figures;
use deltic_protocol::Purpose;
use deltic_protocol::hello::{MAGIC, Names, Reply, Request};
use deltic_protocol::limits::{MAX_NAMES, MAX_NAMES_BYTES, MAX_STREAMS};
use deltic_protocol::options::Options;
use deltic_protocol::report::Trouble;
use deltic_protocol::{Hello, PeerError, Terms};
use deltic_tree::meta::Inode;

use crate::config::SessionConfig;
use crate::drive::{Drive, KnownLink, drive};
use crate::error::{SyncError, abort_frame};
use crate::executor::Share;
use crate::greeting::{
    Agree, Greeting, Role, hello, is_greeting, receive_magic, within_greeting_timeout,
};
use crate::host::place::inode_fingerprints;
use crate::host::user::Watch;
use crate::monitor::thread_cpu;
use crate::outlets::Outlets;
use crate::streams::{Joined, Joining, run_with_aside};
use crate::task::Task;
use crate::transport::{
    Arrivals, Ends, Flow, Heard, RawFrame, Reader, Stream, Writer, start_reader, start_writer,
};
use deltic_engine::compression::HIGHEST_LEVEL;
use deltic_engine::machine::Machine;
use deltic_worker::Worker;
use deltic_worker::packing::Adapting;

pub use deltic_worker::receiving::OpenDestination;
pub use destination::DestinationRequest;
pub(crate) use dial::{SourcePaths, adapt_to_plan, dial};
pub use serve::Served;

/// Longest time for sending the last frames, and for further streams to end.
const CLOSING_TIMEOUT: Duration = Duration::from_secs(120);
/// Longest time for sending an abort.
const ABORT_TIMEOUT: Duration = Duration::from_secs(2);
/// Highest level of frames that a thread compresses if the thread moves frames of several sessions.
const SHARED_THREAD_LEVEL: i32 = 3;

/// One end of a connection that carries a session.
pub(crate) struct Session {
    ours: Hello,
    /// Hello of the connecting end.
    theirs: Option<Hello>,
    arrivals: Arrivals,
    batches: mpsc::Sender<Vec<u8>>,
    writing: Task<std::io::Result<()>>,
    /// Reads frames until the connection ends, even after the machine has ended: the other end may still send.
    reading: Option<Task<()>>,
    flow: Flow,
    /// True if a network may be between the ends.
    is_far: bool,
    /// Troubles about list lines that are too long to be sent.
    untold: Vec<Trouble>,
    /// This end's hello, while it waits to be sent with the next frames.
    owed: Vec<u8>,
    config: SessionConfig,
}

/// Parameters for running a machine.
pub(super) struct RunConfig {
    joining: Joining,
    /// The greeting, if not read yet.
    greeting: Option<(Greeting, Agree)>,
    share: Share,
    /// True if this end is a receiver that reports to the user.
    user_is_here: bool,
}

impl Session {
    /// Makes a session over a connection, without sending anything yet.
    pub(crate) fn new(ends: Ends, config: SessionConfig) -> Self {
        let flow = Flow::new(&config);
        let Ends { reader, writer, child } = ends;
        let is_far =
            matches!(writer, Writer::Stream(_)) && !config.is_near && config.batch.is_none();
        config.shell.hold_child(child);
        let (batches, writing) = start_writer(writer, &flow, Stream::First, &MAGIC);
        let mut ours = hello(&config.budget);
        if is_far {
            flow.answer_echoes();
            ours = ours.with_echoes();
            if config.limits.gentle {
                ours = ours.with_gentle_sender();
            }
        }
        if config.asks_reasons {
            ours = ours.with_reasons();
        }
        Self {
            ours,
            theirs: None,
            arrivals: reader.into(),
            batches,
            writing,
            reading: None,
            flow,
            is_far,
            untold: Vec::new(),
            owed: Vec::new(),
            config,
        }
    }

    /// Sends `frames`, after the hello if the hello still waits. Sends nothing if both are empty: the other end would
    /// refuse the check of an empty batch.
    async fn send_frames(&mut self, frames: Vec<u8>) {
        let mut owed = std::mem::take(&mut self.owed);
        owed.extend(frames);
        let frames = owed;
        if frames.is_empty() {
            return;
        }
        self.flow.monitor.count_sent(Purpose::Control, frames.len());
        // The reader finds the reason if the other end has closed the connection.
        self.batches.send(frames).await.ok();
    }

    /// Sends the hello and the request together.
    async fn send_request(&mut self, request: &Request) -> Result<(), SyncError> {
        if !request.fits() {
            let message =
                "too many or too long paths and patterns for one run; sync a directory instead";
            return Err(SyncError::Usage(message.into()));
        }
        self.send_frames([self.ours.encode(), request.encode()].concat()).await;
        Ok(())
    }

    async fn receive_frame(&mut self) -> Result<RawFrame, SyncError> {
        loop {
            let frame = self.arrivals.next_frame(&self.flow).await?;
            if is_greeting(frame.kind, &frame.payload)? {
                return Ok(frame);
            }
        }
    }

    /// Reads all of a greeting.
    async fn receive_greeting(
        &mut self,
        mut greeting: Greeting,
    ) -> Result<(Terms, Reply), SyncError> {
        within_greeting_timeout(async {
            receive_magic(&mut self.arrivals, &self.flow.counters).await?;
            loop {
                let RawFrame { kind, payload } = self.receive_frame().await?;
                if let Some(agreed) = greeting.take_frame(kind, &payload)? {
                    return Ok(agreed);
                }
            }
        })
        .await
    }

    /// Reads the names of a request's list, up to the end of the list.
    async fn receive_names(&mut self) -> Result<PackedStrings, SyncError> {
        let (mut names, mut bytes) = (PackedStrings::default(), 0);
        loop {
            let frame = self.receive_frame().await?;
            let Names(more) = Names::decode(frame.kind, &frame.payload)?;
            if more.is_empty() {
                return Ok(names);
            }
            bytes += more.iter().map(|name| name.len()).sum::<usize>();
            let whole = more.iter().try_for_each(|name| names.push(name).map(drop));
            if whole.is_err() || names.len() > MAX_NAMES || bytes > MAX_NAMES_BYTES {
                return Err(PeerError::Limit("names").into());
            }
        }
    }

    /// Adds the first [`Hello::MAX_PLACES`] inodes that this end reads or writes to its hello, if sources are to be
    /// removed. An end on the same machine refuses if its own inodes are among these inodes.
    fn add_places(&mut self, inodes: impl IntoIterator<Item = Inode>) {
        let places = inode_fingerprints(&self.ours, inodes.into_iter().take(Hello::MAX_PLACES));
        self.ours = self.ours.clone().with_places(&places);
    }

    /// Returns this session's share of the process's threads.
    fn share_of_threads(&self, options: &Options) -> Share {
        self.config.executor.admit(self.config.budget.with_threads(options.threads))
    }

    /// Returns the means of a sender to adapt compression to the link.
    fn compression_adapter(&self, options: &Options) -> Adapting {
        let threads = self.config.budget.with_threads(options.threads).processors();
        // Wall time would count a thread that had to wait as a slow compressor.
        // Sessions of a server share the threads that move frames.
        let is_shared = self.config.budget.prompt_bytes.is_some();
        let highest = if is_shared { SHARED_THREAD_LEVEL } else { HIGHEST_LEVEL };
        Adapting { clock: thread_cpu, threads, highest, report: self.config.packing.clone() }
    }

    /// Runs a machine over this connection and its further streams.
    async fn run<M: Machine, H: Worker<M>>(
        &mut self,
        machine: M,
        worker: Arc<H>,
        RunConfig { joining, greeting, share, user_is_here }: RunConfig,
        watch: Watch<'_>,
    ) -> Result<(), SyncError> {
        let nothing = Reader::Stream(Box::new(tokio::io::empty()));
        let arrivals = std::mem::replace(&mut self.arrivals, nothing.into());
        let heard = if greeting.is_some() { Heard::Nothing } else { Heard::Hello };
        let flow = self.flow.clone();
        let greeting = greeting.map(|(greeting, agree)| -> (Greeting, Agree) {
            let agree = move |terms: Terms, reply| {
                flow.agree(&terms, Role::of(M::SIDE));
                agree(terms, reply);
            };
            (greeting, Box::new(agree))
        });
        let (into, frames, reading) = start_reader(arrivals, &self.flow, heard);
        self.reading = Some(reading);
        let (tell, news) = mpsc::channel(MAX_STREAMS as usize + 1);
        let link =
            KnownLink { figures: self.config.known_link_model(), limit: self.config.bits_limit() };
        if link.figures.is_none() && self.is_far {
            let learned = |bits_per_second| Figures { bits_per_second, ..Figures::PRIOR };
            worker.set_link(self.config.learned.map_or(Figures::PRIOR, learned));
        }
        let (open, mut closed) = mpsc::channel(1);
        let joined = Joined {
            role: Role::of(M::SIDE),
            frames: into,
            news: tell,
            flow: self.flow.clone(),
            open,
        };
        let monitor = self.flow.monitor.clone();
        let tap = self.config.tap.clone();
        let outlets = Outlets::new(self.batches.clone());
        let counters = Arc::clone(&self.flow.counters);
        let credit_timeout = self.config.budget.credit_timeout;
        let by = Drive {
            greeting,
            frames,
            outlets,
            news,
            share,
            counters,
            monitor,
            tap,
            link,
            credit_timeout,
            user_is_here,
        };
        let session = drive(machine, worker, by, watch);
        let result = run_with_aside(session, joining.let_streams_join(joined)).await;
        if result.is_ok() {
            // The sender's last notice ends a further stream. Closing a stream earlier would be an error.
            tokio::time::timeout(CLOSING_TIMEOUT, closed.recv()).await.ok();
        }
        result
    }

    /// Closes this end. Before, sends the error if this end failed.
    async fn close(self, result: Result<(), SyncError>) -> Result<(), SyncError> {
        let Self { batches, writing, reading: _reading, owed, .. } = self;
        let last_word = result.as_ref().err().and_then(abort_frame);
        let said = [owed, last_word.map_or_else(Vec::new, |abort| abort.encode())].concat();
        if !said.is_empty() {
            let said = batches.send(said);
            tokio::time::timeout(ABORT_TIMEOUT, said).await.ok();
        }
        drop(batches);
        let timeout = if result.is_ok() { CLOSING_TIMEOUT } else { ABORT_TIMEOUT };
        let written = tokio::time::timeout(timeout, writing).await;
        result?;
        match written {
            // The other end may close as soon as it knows that this end is done.
            Ok(Ok(Err(error))) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                Err(SyncError::Transport { action: "write to the other end", source: error })
            }
            _ => Ok(()),
        }
    }
}

/// True if sources are removed.
pub(super) const fn removes_sources(options: &Options) -> bool {
    options.remove.sources && !options.select.list_only
}
