//! The clients: each has a connection and a file, which it changes and syncs.

use std::fs::{self, File, FileTimes};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use deltic_core::{Fingerprint, Fingerprinter, Key};
use deltic_net::SyncError;
use deltic_net::embed::{Embedding, Outcome, sync};
use deltic_net::plan::{Destination, Names, Patience, Plan, Remote, Sources};
use deltic_protocol::options::Options as SyncOptions;
use deltic_protocol::report::Notice;
use deltic_serve::client::{Address, Credentials, Link, Local, Updates};
use deltic_tree::RelPath;
use rustix::process::Signal;
use tempfile::TempDir;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until, timeout};

use super::load::Options;
use super::server::Server;
use crate::random::Random;

/// A sync that came to its end.
pub(super) struct Sample {
    pub(super) elapsed: Duration,
    /// Bytes to the server and back.
    pub(super) up: u64,
    pub(super) down: u64,
    /// Time by which it began later than it was meant to.
    pub(super) late: Duration,
}

/// A way to sync of all clients.
pub(super) struct Manner {
    pub(super) sync: SyncOptions,
    /// True if they send updates where they can.
    pub(super) updates: bool,
}

/// All clients.
pub(super) struct Fleet {
    /// Address of the server; another one each time that it was ended.
    to: watch::Sender<Arc<(Address, Credentials)>>,
    files: TempDir,
    sync: SyncOptions,
    /// True if clients send updates where they can.
    updates: bool,
    clients: usize,
    size: u64,
    edit: u64,
    pub(super) working: Vec<Client>,
    /// Connections that do nothing any more.
    idle: Vec<Client>,
    tally: Arc<Tally>,
    ledgers: Vec<Arc<Mutex<Ledger>>>,
}

/// Versions of a client's file that may stand at the server.
#[derive(Default)]
struct Ledger {
    /// Digest of the last one that the server acknowledged.
    acknowledged: Option<Fingerprint>,
    /// Digests of those that were tried since.
    tried: Vec<Fingerprint>,
    /// Digests of versions that were acknowledged before.
    earlier: Vec<Fingerprint>,
}

/// Counts of all clients.
#[derive(Default)]
struct Tally {
    failed: AtomicU64,
    /// Set where the server is ended on purpose: syncs that end with it are made again, and are no failures.
    is_ended: AtomicBool,
}

/// Client with a connection and a file.
pub(super) struct Client {
    no: usize,
    link: Link,
    /// Files that it may update.
    updates: Option<Updates>,
    file: PathBuf,
    /// Digest of what the file holds.
    version: Fingerprint,
    random: Random,
    edits: u64,
    ledger: Arc<Mutex<Ledger>>,
}

/// Clients that sync at once where none has a time of its own: a server of as many clients as it may have files open
/// takes no more.
const AT_ONCE: usize = 32;
/// Clients whose files are in one directory of the volume. A new file has all beside it looked at.
const BESIDE: usize = 100;
/// Pause between an edit and its sync, as a watch makes it: a file that changed less than 50 ms ago is looked at twice.
pub(crate) const REST: Duration = Duration::from_millis(100);
/// Pause before another attempt.
const RETRY: Duration = Duration::from_millis(50);
/// Longest time of one sync.
const PATIENCE: Duration = Duration::from_secs(60);

impl Fleet {
    pub(super) fn new(
        server: &Server,
        options: &Options,
        Manner { sync, updates }: Manner,
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

    /// Connects all clients and brings their files, and one change, to the server; so many further ones are silent
    /// from then on.
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
                let mut client = Client::new(no, (link, updates), &dir, size)?;
                // A file that does not rest holds a thread up, which others need.
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

    /// Has each client fetch its file, as one that is not here.
    pub(super) async fn fetch_all(&self) -> Result<()> {
        for client in self.working.iter().chain(&self.idle) {
            client.fetch(&self.sync).await?;
        }
        Ok(())
    }

    /// Has the first client make edits of so many bytes, one after the other.
    pub(super) async fn one_by_one(&mut self, edit: u64, rounds: usize) -> Result<Vec<Sample>> {
        let client = self.working.first_mut().context("there is a client")?;
        let mut samples = Vec::new();
        for _ in 0..rounds {
            client.edit(edit)?;
            sleep(REST).await;
            samples.push(client.sync(&self.sync).await?);
        }
        Ok(samples)
    }

    /// Has all clients make edits for so many seconds: each once in a period, or without a pause.
    pub(super) async fn run(
        &self,
        working: &mut Vec<Client>,
        (period, seconds, edit): (Option<f64>, f64, u64),
    ) -> Result<Vec<Sample>> {
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
                    // What a long sync held up is not late by the clients' fault.
                    let due = (at + REST).max(Instant::now());
                    sleep_until(due.into()).await;
                    let late = period.map_or(Duration::ZERO, |_| due.elapsed());
                    match client.sync(&sync).await {
                        Ok(sample) => samples.push(Sample { late, ..sample }),
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

impl Fleet {
    /// Ends the server once in a while and starts it again; never ends by itself.
    ///
    /// # Errors
    /// Where a file at the server is not the last version that it acknowledged, nor one that was tried since.
    pub(super) async fn end(&self, server: &mut Server, by: Signal, every: Duration) -> Result<()> {
        self.tally.is_ended.store(true, Ordering::Relaxed);
        loop {
            sleep(every).await;
            server.end(by).await?;
            self.check(server)?;
            server.start_again()?;
            self.to.send_replace(Arc::clone(&server.to));
        }
    }

    /// Looks at all files of the server.
    pub(super) fn check(&self, server: &Server) -> Result<()> {
        for (no, ledger) in self.ledgers.iter().enumerate() {
            let found = digest(&fs::read(server.volume().join(name_there(no)))?);
            let ledger = ledger.lock().unwrap_or_else(PoisonError::into_inner);
            let is_right = ledger.acknowledged == Some(found) || ledger.tried.contains(&found);
            let was = ledger.earlier.iter().rev().position(|version| *version == found);
            ensure!(
                is_right,
                "client {no}: its file is {}",
                match was {
                    Some(versions) => format!("{} versions too old", versions + 1),
                    None => "no version that it ever was".into(),
                }
            );
        }
        Ok(())
    }
}

/// The directory of a client's file, and its path there.
fn place_of(file: &Path) -> Result<(&Path, RelPath)> {
    let (dir, name) = file.parent().zip(file.file_name()).context("a file has a directory")?;
    Ok((dir, RelPath::parse(name.as_encoded_bytes())?))
}

/// The path of a client's file in the volume.
fn name_there(no: usize) -> String {
    format!("{}/{no}.bin", no / BESIDE)
}

/// A digest that costs little beside a sync.
fn digest(bytes: &[u8]) -> Fingerprint {
    static DIGESTS: LazyLock<Fingerprinter> =
        LazyLock::new(|| Fingerprinter::keyed(&Key::from_bytes([1; 32])));
    DIGESTS.of(bytes)
}

impl Client {
    fn new(
        no: usize,
        (link, updates): (Link, Option<Updates>),
        dir: &Path,
        size: u64,
    ) -> Result<Self> {
        let (file, mut random) = (dir.join(no.to_string()), Random::new(no as u64));
        let content = random.bytes(usize::try_from(size)?);
        let (version, ledger) = (digest(&content), Arc::default());
        let mut client = Self { no, link, updates, file, version, random, edits: 0, ledger };
        client.write(&content)?;
        Ok(client)
    }

    /// Appends, inserts or cuts so many bytes, in turn; the length stays about what it was.
    fn edit(&mut self, bytes: u64) -> Result<()> {
        // Nobody keeps it: the contents of many clients do not fit the memory.
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

    /// Writes the file, as an editor does that saved it a second ago.
    fn write(&mut self, content: &[u8]) -> Result<()> {
        self.version = digest(content);
        fs::write(&self.file, content)?;
        let time = SystemTime::now() - Duration::from_secs(1);
        let file = File::options().write(true).open(&self.file)?;
        Ok(file.set_times(FileTimes::new().set_modified(time))?)
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Syncs until it comes to its end, over new connections.
    async fn sync_after_all(
        &mut self,
        options: &SyncOptions,
        to: &watch::Receiver<Arc<(Address, Credentials)>>,
    ) -> Result<Sample> {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            let server = Arc::clone(&to.borrow());
            if let Ok(link) = server.0.connect(&server.1).await {
                self.link = link;
                if let Ok(sample) = self.sync(options).await {
                    return Ok(Sample { elapsed: begun.elapsed(), ..sample });
                }
            }
            sleep(RETRY).await;
        }
        bail!("client {}: no sync comes to its end", self.no)
    }

    async fn sync(&mut self, options: &SyncOptions) -> Result<Sample> {
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

    /// Sends an update, if it may and the server has the version that it knows.
    async fn update(&mut self, options: &SyncOptions) -> Result<Option<Sample>> {
        let (begun, there) = (Instant::now(), self.path_there()?);
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
            Sample { elapsed: begun.elapsed(), up, down, late: Duration::ZERO }
        }))
    }

    async fn sync_by_session(&mut self, options: &SyncOptions) -> Result<Sample> {
        let from = Sources::Local(vec![self.file.clone()]);
        let to = Destination::Remote { host: "server".into(), path: name_there(self.no).into() };
        let sample = self.run(from, to, options).await?;
        let there = self.path_there()?;
        if let Some(updates) = &mut self.updates {
            // What it remembers must have rested.
            sleep(REST).await;
            let (dir, name) = place_of(&self.file)?;
            updates.remember((dir, &name), &there);
        }
        Ok(sample)
    }

    /// Fetches its file, as one that is not here, and forgets it.
    async fn fetch(&self, options: &SyncOptions) -> Result<()> {
        let got = self.file.with_extension("got");
        let paths = vec![name_there(self.no).into()];
        let from = Sources::Remote { host: "server".into(), paths };
        self.run(from, Destination::Local(got.clone()), options).await?;
        Ok(fs::remove_file(got)?)
    }

    fn path_there(&self) -> Result<RelPath> {
        Ok(RelPath::parse(name_there(self.no).as_bytes())?)
    }

    async fn run(
        &self,
        sources: Sources,
        destination: Destination,
        options: &SyncOptions,
    ) -> Result<Sample> {
        let plan = Plan {
            sources,
            names: Names::None,
            destination,
            options: options.clone(),
            remote: Remote { shell: Vec::new(), program: "deltic".into(), options: Vec::new() },
            dial: Some(self.link.dial()),
            bwlimit: None,
            patience: Patience { whole: Some(PATIENCE), ..Patience::default() },
            by_blake3: false,
            cache: None,
            batch: None,
            reasons: None,
            moved: None,
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
        Ok(Sample { elapsed: begun.elapsed(), up, down, late: Duration::ZERO })
    }
}
