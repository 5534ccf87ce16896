//! `deltic-bench link`: the far end of another program that is measured, behind the link of [`sync`](super).
//!
//! The shell stands where ssh would. It also waits for the program, and so knows what that cost: of two ends that one
//! program starts nobody else can tell.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use deltic_net::rehearsal::run_beyond;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

use super::words::Between;
use crate::exit::shown;
use crate::exit::{Exit, give_up};

/// Internal: runs the far end of a program that `bench sync` measures
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What is between the ends, as in `bench sync`
    between: Between,
    /// Where to write what the far end and the link cost
    costs: PathBuf,
    /// The host, which is not asked
    host: OsString,
    /// The far end
    program: OsString,
    /// Its words
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// Runs the command; whether it ended well.
pub(crate) fn run(args: &Args) -> Exit {
    match beyond(args) {
        // It said itself why.
        Ok(status) => {
            if status.success() {
                Exit::Success
            } else {
                Exit::Stream
            }
        }
        Err(error) => give_up(&error),
    }
}

fn beyond(args: &Args) -> Result<ExitStatus> {
    let Args { host: _, program, words, .. } = args;
    let mut command = Command::new(program);
    command.args(words);
    let status = match args.between.link() {
        Some(link) => run_beyond(link, command)?,
        None => command.status().with_context(|| format!("start {}", shown(Path::new(program))))?,
    };
    let costs =
        Costs { far: spent(UsageWho::RUSAGE_CHILDREN)?, own: spent(UsageWho::RUSAGE_SELF)? };
    costs.write(&args.costs)?;
    Ok(status)
}

/// Processor time behind and on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Costs {
    /// Processor time of the far end.
    pub(crate) far: Duration,
    /// Processor time of what made the link, which no program is to blame for.
    pub(crate) own: Duration,
}

impl Costs {
    fn write(&self, path: &Path) -> Result<()> {
        let line = format!("{} {}\n", self.far.as_micros(), self.own.as_micros());
        fs::write(path, line).with_context(|| format!("write {}", shown(path)))
    }

    /// Reads the line that `deltic-bench link` wrote to `path`.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let failed = || format!("read {}", shown(path));
        let line = fs::read_to_string(path).with_context(failed)?;
        let micros: Vec<_> = line.split_whitespace().flat_map(str::parse).collect();
        let [far, own] = micros[..] else { bail!("{}: not two times", failed()) };
        Ok(Self { far: Duration::from_micros(far), own: Duration::from_micros(own) })
    }
}

/// Processor time of this process, or of all children that have ended and of theirs.
pub(crate) fn spent(who: UsageWho) -> Result<Duration> {
    let used = getrusage(who).context("ask for processor time")?;
    let time = |time: TimeVal| {
        let micros = time.tv_sec() * 1_000_000 + time.tv_usec();
        Duration::from_micros(u64::try_from(micros).unwrap_or(0))
    };
    Ok(time(used.user_time()) + time(used.system_time()))
}
