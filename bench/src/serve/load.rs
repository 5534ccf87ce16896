//! The load that is asked for.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use rustix::process::Signal;

use crate::size::Size;

/// Many clients of one server: processor time of a sync, clients that it bears, times, memory
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Work of the clients
    #[arg(long, value_enum, default_value = "regular")]
    pub(super) load: Load,
    /// Clients, each with a file of its own
    #[arg(long, default_value_t = 100)]
    pub(super) clients: usize,
    /// Length of the one file (hog, large)
    #[arg(long, default_value = "1GiB")]
    pub(super) large: Size,
    /// Clients that are connected besides, and silent after they synced once
    #[arg(long, default_value_t = 0)]
    pub(super) idle: usize,
    /// Seconds between two syncs of a client (regular load)
    #[arg(long, default_value_t = 10.0)]
    pub(super) period: f64,
    /// Seconds of the measurement
    #[arg(long, default_value_t = 20.0)]
    pub(super) seconds: f64,
    /// Seconds after which the server is killed, and started again, over and over; its files are looked at each time
    #[arg(long, value_name = "SECONDS")]
    pub(super) kill_every: Option<f64>,
    /// The same, but the server is asked to end (SIGTERM)
    #[arg(long, value_name = "SECONDS", conflicts_with = "kill_every")]
    pub(super) restart_every: Option<f64>,
    /// Length of a file
    #[arg(long, default_value = "1MB")]
    pub(super) size: Size,
    /// Bytes of an edit
    #[arg(long, default_value = "1KB")]
    pub(super) edit: Size,
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
    /// Writes the table as CSV into this file
    #[arg(long)]
    pub(super) csv: Option<PathBuf>,
    /// Draws figures 19 to 22 of the paper anew, into this directory
    #[arg(long, value_name = "DIR")]
    pub(super) plot: Option<PathBuf>,
}

impl Options {
    /// Signal by which the server is ended over and over, if it is, and the time between two.
    pub(super) fn ends(&self) -> Option<(Signal, Duration)> {
        let killed = self.kill_every.map(|every| (Signal::KILL, every));
        let ended = killed.or_else(|| self.restart_every.map(|every| (Signal::TERM, every)));
        ended.map(|(by, every)| (by, Duration::from_secs_f64(every)))
    }
}

/// Work of the clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Load {
    /// Edits of one client, one after the other, of several lengths
    Simple,
    /// An edit of each client once in a period
    Regular,
    /// Syncs without a pause, as many as the server and the clients can do
    Intensive,
    /// The regular load by itself, and beside a client that brings one large file over and over
    Hog,
    /// Push and pull of one large file, beside the same through a pipe
    Large,
    /// Clients that do nothing any more: memory, and how often the server wakes
    Idle,
}
