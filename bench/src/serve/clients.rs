//! The clients of the load. Each client has a connection and a file that it changes and syncs.

use std::fs::{self, File, FileTimes};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use deltic_core::{Fingerprint, Fingerprinter, Key};
use deltic_net::SyncError;
use deltic_net::embed::{Embedding, Outcome, sync};
use deltic_net::plan::{Destination, Plan, SessionTimeouts, Sources};
use deltic_protocol::options::Options as SyncOptions;
use deltic_protocol::report::Notice;
use deltic_serve::client::{Address, Credentials, Link, Local, Updates};
use deltic_tree::RelPath;
use rustix::process::Signal;
use tempfile::TempDir;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until, timeout};

use super::load::ServeOptions;
use super::server::TestServer;
use crate::random::Random;

/// Figures of a successful sync.
pub(super) struct ClientSample {
    pub(super) elapsed: Duration,
    /// Bytes to the server and from the server.
    pub(super) up: u64,
    pub(super) down: u64,
    /// Delay of the start after the planned time.
    pub(super) late: Duration,
}

/// Sync options of all clients.
pub(super) struct ClientOptions {
    pub(super) sync: SyncOptions,
    /// True if clients send updates in a single message where possible.
    pub(super) updates: bool,
}

/// All clients of a load.
pub(super) struct ClientFleet {
    /// Address of the server. A restarted server has another address.
    to: watch::Sender<Arc<(Address, Credentials)>>,
    files: TempDir,
    sync: SyncOptions,
    /// True if clients send updates in a single message where possible.
    updates: bool,
    clients: usize,
    size: u64,
    edit: u64,
    pub(super) working: Vec<LoadClient>,
    /// Connected clients that no longer sync.
    idle: Vec<LoadClient>,
    tally: Arc<FleetCounters>,
    ledgers: Vec<Arc<Mutex<VersionLedger>>>,
}

/// Versions of a client's file that the server may hold.
#[derive(Default)]
struct VersionLedger {
    /// Digest of the last acknowledged version.
    acknowledged: Option<Fingerprint>,
    /// Digests of the versions tried since the last acknowledgement.
    tried: Vec<Fingerprint>,
    /// Digests of versions acknowledged before.
    earlier: Vec<Fingerprint>,
}

/// Counters shared by all clients.
#[derive(Default)]
struct FleetCounters {
    failed: AtomicU64,
    /// True while the benchmark ends and restarts the server. Interrupted syncs are then retried and are no failures.
    is_ended: AtomicBool,
}

/// A client with a connection and a file.
pub(super) struct LoadClient {
    no: usize,
    link: Link,
    /// Update state for the client's file.
    updates: Option<Updates>,
    file: PathBuf,
    /// Digest of the file's current content.
    version: Fingerprint,
    random: Random,
    edits: u64,
    ledger: Arc<Mutex<VersionLedger>>,
}

/// Number of clients that connect and sync at the same time during setup. A server with more clients than open files
/// would refuse more.
const AT_ONCE: usize = 32;
/// Number of clients with files in the same directory of the volume. Creating a file makes the server list the whole
/// directory.
const BESIDE: usize = 100;
/// Pause between an edit and its sync, as in watch mode: a file changed less than 50 ms ago is checked twice.
pub(crate) const REST: Duration = Duration::from_millis(100);
/// Pause before a retry.
const RETRY: Duration = Duration::from_millis(50);
/// Longest duration of a sync.
const PATIENCE: Duration = Duration::from_secs(60);

impl ClientFleet {
    pub(super) fn new(
        server: &TestServer,
        options: &ServeOptions,
        ClientOptions { sync, updates }: ClientOptions,
    ) -> Result<Self> {
        let files = tempfile::tempdir_in(&options.client_dir).context("make a directory")?;
        for no in (0..options.clients + options.idle).step_by(BESIDE) {
            let there = server.volume().join(name_there(no));
            fs::create_dir_all(there.parent().context("it is in a directory")?)?;
        }
        Ok(Self {
            to: watch::Sender::new(Arc::clone(&server.to)),
            files,
            sync,
            updates,
            clients: options.clients,
            size: options.size.bytes(),
            edit: options.edit.bytes(),
            working: Vec::new(),
            idle: Vec::new(),
            tally: Arc::default(),
            ledgers: Vec::new(),
        })
    }

    pub(super) fn len(&self) -> usize {
        self.working.len() + self.idle.len()
    }

    pub(super) fn failed(&self) -> u64 {
        self.tally.failed.load(Ordering::Relaxed)
    }

    /// Connects all clients, then uploads the file of each client and a change. Then `idle` further clients stay
    /// silent.
    pub(super) async fn settle(&mut self, idle: usize) -> Result<()> {
        let (room, mut tasks) = (Arc::new(Semaphore::new(AT_ONCE)), JoinSet::new());
        for no in 0..self.clients + idle {
            let (room, to) = (Arc::clone(&room), Arc::clone(&self.to.borrow()));
            let sync = self.sync.clone();
            let updates = self.updates.then(Updates::default);
            let (dir, size, edit) = (self.files.path().to_owned(), self.size, self.edit);
            let is_idle = no >= self.clients;
            tasks.spawn(async move {
                let _permit = room.acquire_owned().await?;
                let link = to.0.connect(&to.1).await?;
                let mut client = LoadClient::new(no, link, updates, &dir, size)?;
                // A file changed just before its sync occupies a thread that other clients need.
                sleep(REST).await;
                client.sync(&sync).await?;
                client.edit(edit)?;
                sleep(REST).await;
                client.sync(&sync).await?;
                if is_idle {
                    fs::remove_file(&client.file)?;
                }
                anyhow::Ok((is_idle, client))
            });
        }
        while let Some(settled) = tasks.join_next().await {
            let (is_idle, client) = settled??;
            if is_idle { &mut self.idle } else { &mut self.working }.push(client);
        }
        self.working.sort_unstable_by_key(|client| client.no);
        self.ledgers = self.working.iter().map(|client| Arc::clone(&client.ledger)).collect();
        Ok(())
    }

    /// Makes each client download its file as a new client would.
    pub(super) async fn fetch_all(&self) -> Result<()> {
        for client in self.working.iter().chain(&self.idle) {
            client.fetch(&self.sync).await?;
        }
        Ok(())
    }

    /// Makes the first client edit and sync `rounds` times, with edits of `edit` bytes.
    pub(super) async fn one_by_one(
        &mut self,
        edit: u64,
        rounds: usize,
    ) -> Result<Vec<ClientSample>> {
        let client = self.working.first_mut().context("there is a client")?;
        let mut samples = Vec::new();
        for _ in 0..rounds {
            client.edit(edit)?;
            sleep(REST).await;
            samples.push(client.sync(&self.sync).await?);
        }
        Ok(samples)
    }

    /// Makes all clients edit and sync for some seconds: each client once per period, or without a pause.
    pub(super) async fn run(
        &self,
        working: &mut Vec<LoadClient>,
        period: Option<f64>,
        seconds: f64,
        edit: u64,
    ) -> Result<Vec<ClientSample>> {
        let (count, begin) = (working.len(), Instant::now());
        let end = begin + Duration::from_secs_f64(seconds);
        let mut tasks = JoinSet::new();
        for (nth, mut client) in working.drain(..).enumerate() {
            let (sync, tally) = (self.sync.clone(), Arc::clone(&self.tally));
            let to = self.to.subscribe();
            let period = period.map(Duration::from_secs_f64);
            let phase = period.unwrap_or_default().mul_f64(nth as f64 / count as f64);
            tasks.spawn(async move {
                let (mut at, mut samples) = (begin + phase, Vec::new());
                sleep_until(at.into()).await;
                while at < end {
                    client.edit(edit)?;
                    // A delay caused by a long sync is not the client's fault.
                    let due = (at + REST).max(Instant::now());
                    sleep_until(due.into()).await;
                    let late = period.map_or(Duration::ZERO, |_| due.elapsed());
                    match client.sync(&sync).await {
                        Ok(sample) => samples.push(ClientSample { late, ..sample }),
                        Err(error) => {
                            if !tally.is_ended.load(Ordering::Relaxed) {
                                tally.failed.fetch_add(1, Ordering::Relaxed);
                                eprintln!("client {}: {error}", client.no);
                            }
                            samples.push(client.sync_after_all(&sync, &to).await?);
                        }
                    }
                    at = period.map_or_else(Instant::now, |period| at + period);
                    sleep_until(at.into()).await;
                }
                anyhow::Ok((client, samples))
            });
        }
        let mut all = Vec::new();
        while let Some(done) = tasks.join_next().await {
            let (client, samples) = done??;
            working.push(client);
            all.extend(samples);
        }
        Ok(all)
    }
}

impl ClientFleet {
    /// Ends and restarts the server at intervals, without end.
    ///
    /// # Errors
    /// A file at the server is neither the last acknowledged version nor a version tried since.
    pub(super) async fn end(
        &self,
        server: &mut TestServer,
        by: Signal,
        every: Duration,
    ) -> Result<()> {
        self.tally.is_ended.store(true, Ordering::Relaxed);
        loop {
            sleep(every).await;
            server.end(by).await?;
            self.check(server)?;
            server.start_again()?;
            self.to.send_replace(Arc::clone(&server.to));
        }
    }

    /// Checks all files of the server.
    pub(super) fn check(&self, server: &TestServer) -> Result<()> {
        for (no, ledger) in self.ledgers.iter().enumerate() {
            let found = digest(&fs::read(server.volume().join(name_there(no)))?);
            let ledger = ledger.lock().unwrap_or_else(PoisonError::into_inner);
            let is_right = ledger.acknowledged == Some(found) || ledger.tried.contains(&found);
            let was = ledger.earlier.iter().rev().position(|version| *version == found);
            ensure!(
                is_right,
                "client {no}: the file is {}",
                match was {
                    Some(versions) => format!("{} versions too old", versions + 1),
                    None => "a version that was never sent".into(),
                }
            );
        }
        Ok(())
    }
}

/// Returns the directory and the name of a client's file.
fn place_of(file: &Path) -> Result<(&Path, RelPath)> {
    let (dir, name) = file.parent().zip(file.file_name()).context("a file has a directory")?;
    Ok((dir, RelPath::parse(name.as_encoded_bytes())?))
}

/// Returns the path of a client's file in the volume.
fn name_there(no: usize) -> String {
    format!("{}/{no}.bin", no / BESIDE)
}

/// Returns a digest that is cheap compared with a sync.
fn digest(bytes: &[u8]) -> Fingerprint {
    static DIGESTS: LazyLock<Fingerprinter> =
        LazyLock::new(|| Fingerprinter::keyed(&Key::from_bytes([1; 32])));
    DIGESTS.of(bytes)
}

impl LoadClient {
    fn new(no: usize, link: Link, updates: Option<Updates>, dir: &Path, size: u64) -> Result<Self> {
        let (file, mut random) = (dir.join(no.to_string()), Random::new(no as u64));
        let content = random.bytes(usize::try_from(size)?);
        let (version, ledger) = (digest(&content), Arc::default());
        let mut client = Self { no, link, updates, file, version, random, edits: 0, ledger };
        client.write(&content)?;
        Ok(client)
    }

    /// Appends, inserts or cuts `bytes` bytes in turn, so that the length stays about the same.
    fn edit(&mut self, bytes: u64) -> Result<()> {
        // The content is not kept in memory, because the files of many clients would not fit.
        let mut content = fs::read(&self.file)?;
        let bytes = usize::try_from(bytes)?.min(content.len() / 2);
        let at = self.random.place(content.len() - bytes);
        let new = self.random.bytes(bytes);
        self.edits += 1;
        match self.edits % 3 {
            0 => content.extend_from_slice(&new),
            1 => drop(content.splice(at..at, new)),
            _ => drop(content.drain(at..at + bytes)),
        }
        self.write(&content)
    }

    /// Writes the file with a modification time one second ago, as an editor's save would have.
    fn write(&mut self, content: &[u8]) -> Result<()> {
        self.version = digest(content);
        fs::write(&self.file, content)?;
        let time = SystemTime::now() - Duration::from_secs(1);
        let file = File::options().write(true).open(&self.file)?;
        Ok(file.set_times(FileTimes::new().set_modified(time))?)
    }

    fn ledger(&self) -> MutexGuard<'_, VersionLedger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Syncs and reconnects until a sync succeeds.
    async fn sync_after_all(
        &mut self,
        options: &SyncOptions,
        to: &watch::Receiver<Arc<(Address, Credentials)>>,
    ) -> Result<ClientSample> {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            let server = Arc::clone(&to.borrow());
            if let Ok(link) = server.0.connect(&server.1).await {
                self.link = link;
                if let Ok(sample) = self.sync(options).await {
                    return Ok(ClientSample { elapsed: begun.elapsed(), ..sample });
                }
            }
            sleep(RETRY).await;
        }
        bail!("client {}: no sync succeeds", self.no)
    }

    async fn sync(&mut self, options: &SyncOptions) -> Result<ClientSample> {
        let version = self.version;
        self.ledger().tried.push(version);
        let sample = match self.update(options).await? {
            Some(sample) => sample,
            None => self.sync_by_session(options).await?,
        };
        let mut ledger = self.ledger();
        let before = ledger.acknowledged.replace(version);
        ledger.earlier.extend(before);
        ledger.tried.clear();
        drop(ledger);
        Ok(sample)
    }

    /// Sends an update if updates are on and the server has the version that the client knows.
    async fn update(&mut self, options: &SyncOptions) -> Result<Option<ClientSample>> {
        let (begun, there) = (Instant::now(), self.path_in_volume()?);
        let (dir, name) = place_of(&self.file)?;
        let Some(updates) = &mut self.updates else { return Ok(None) };
        let local = Local {
            root: dir,
            path: &name,
            there: &there,
            times: options.times,
            modes: options.modes,
            dir_times: false,
        };
        let updated = timeout(PATIENCE, updates.update(&self.link, local)).await;
        let updated = updated.unwrap_or(Err(SyncError::Interrupted))?;
        Ok(updated.map(|updated| {
            let (up, down) = updated.traffic;
            ClientSample { elapsed: begun.elapsed(), up, down, late: Duration::ZERO }
        }))
    }

    async fn sync_by_session(&mut self, options: &SyncOptions) -> Result<ClientSample> {
        let from = Sources::Local(vec![self.file.clone()]);
        let to = Destination::Remote { host: "server".into(), path: name_there(self.no).into() };
        let sample = self.run(from, to, options).await?;
        let there = self.path_in_volume()?;
        if let Some(updates) = &mut self.updates {
            // A version must be old enough before it is remembered.
            sleep(REST).await;
            let (dir, name) = place_of(&self.file)?;
            updates.remember(dir, &name, &there);
        }
        Ok(sample)
    }

    /// Downloads the client's file as a new client would, then deletes the copy.
    async fn fetch(&self, options: &SyncOptions) -> Result<()> {
        let got = self.file.with_extension("got");
        let paths = vec![name_there(self.no).into()];
        let from = Sources::Remote { host: "server".into(), paths };
        self.run(from, Destination::Local(got.clone()), options).await?;
        Ok(fs::remove_file(got)?)
    }

    fn path_in_volume(&self) -> Result<RelPath> {
        Ok(RelPath::parse(name_there(self.no).as_bytes())?)
    }

    async fn run(
        &self,
        sources: Sources,
        destination: Destination,
        options: &SyncOptions,
    ) -> Result<ClientSample> {
        let plan = Plan {
            dial: Some(self.link.dial()),
            timeouts: SessionTimeouts { whole: Some(PATIENCE), ..SessionTimeouts::default() },
            ..Plan::new(sources, destination, options.clone())
        };
        let begun = Instant::now();
        let embedding = Embedding::default();
        let mut troubles = String::new();
        let mut hear = |notice| {
            if let Notice::Trouble(trouble) = notice {
                troubles.push_str(&trouble.message);
            }
        };
        let synced = timeout(PATIENCE, sync(plan, &embedding, &mut hear)).await;
        let Outcome { traffic, totals, .. } = synced.unwrap_or(Err(SyncError::Interrupted))?;
        ensure!(totals.failed == 0, "{troubles}");
        let (up, down) = (traffic.sent, traffic.received);
        Ok(ClientSample { elapsed: begun.elapsed(), up, down, late: Duration::ZERO })
    }
}
