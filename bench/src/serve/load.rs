//! Command line options of the load.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use rustix::process::Signal;

use crate::size::ByteSize;

/// Many clients of a server: processor time per sync, supported number of clients, times, memory
#[derive(clap::Args)]
pub(crate) struct ServeOptions {
    /// Work of the clients
    #[arg(long, value_enum, default_value = "regular")]
    pub(super) load: LoadKind,
    /// Clients, each with a file of its own
    #[arg(long, default_value_t = 100)]
    pub(super) clients: usize,
    /// Length of the large file (loads hog and large)
    #[arg(long, default_value = "1GiB")]
    pub(super) large: ByteSize,
    /// Further connected clients that are silent after a first sync
    #[arg(long, default_value_t = 0)]
    pub(super) idle: usize,
    /// Seconds between two syncs of a client (regular load)
    #[arg(long, default_value_t = 10.0)]
    pub(super) period: f64,
    /// Seconds of the measurement
    #[arg(long, default_value_t = 20.0)]
    pub(super) seconds: f64,
    /// Seconds between kills of the server (SIGKILL); the server is restarted and its files are checked each time
    #[arg(long, value_name = "SECONDS")]
    pub(super) kill_every: Option<f64>,
    /// Seconds between restarts of the server (SIGTERM); its files are checked each time
    #[arg(long, value_name = "SECONDS", conflicts_with = "kill_every")]
    pub(super) restart_every: Option<f64>,
    /// Length of a file
    #[arg(long, default_value = "1MB")]
    pub(super) size: ByteSize,
    /// Bytes of an edit
    #[arg(long, default_value = "1KB")]
    pub(super) edit: ByteSize,
    /// Ways to sync: strategies, updates in one message, or whole uploads
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "update,deltic,webr2sync+,webr2sync,rsync,whole"
    )]
    pub(super) ways: Vec<String>,
    /// No TLS
    #[arg(long)]
    pub(super) plain: bool,
    /// Directory of the volume
    #[arg(long, default_value = "/dev/shm")]
    pub(super) dir: PathBuf,
    /// Directory of the clients' files
    #[arg(long, default_value = "/dev/shm")]
    pub(super) client_dir: PathBuf,
    /// The deltic binary [default: the one beside this program, else in PATH]
    #[arg(long = "deltic", value_name = "PATH")]
    pub(super) deltic: Option<PathBuf>,
    /// Write the table as CSV to this file
    #[arg(long)]
    pub(super) csv: Option<PathBuf>,
    /// Draw figures 19 to 22 of the paper into this directory
    #[arg(long, value_name = "DIR")]
    pub(super) plot: Option<PathBuf>,
}

impl ServeOptions {
    /// Returns the signal that ends the server at intervals, with the interval.
    pub(super) fn ends(&self) -> Option<(Signal, Duration)> {
        let killed = self.kill_every.map(|every| (Signal::KILL, every));
        let ended = killed.or_else(|| self.restart_every.map(|every| (Signal::TERM, every)));
        ended.map(|(by, every)| (by, Duration::from_secs_f64(every)))
    }
}

/// Work of the clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum LoadKind {
    /// A single client with edits of several lengths, one after the other
    Simple,
    /// An edit of each client once per period
    Regular,
    /// Syncs without a pause
    Intensive,
    /// The regular load alone, and beside a client that uploads a large file again and again
    Hog,
    /// Push and pull of a large file, compared with a pipe
    Large,
    /// Idle clients: memory and wake-ups of the server
    Idle,
}
