//! `deltic-bench far-end`: the far end of another program, behind the link of [`sync`](super).
//!
//! This command replaces ssh. It also waits for the far end and so measures its cost, which the near end cannot see.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use deltic_core::strategy::LinkModel;
use deltic_net::LinkDirection;
use deltic_net::rehearsal::{FarLink, Reserve, run_at_far_end};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

use super::line::SharedLine;
use super::words::LinkSpec;
use crate::exit::shown;
use crate::exit::{Exit, give_up};

/// Internal: runs the far end of a program that `bench sync` measures
#[derive(Debug, clap::Args)]
pub(crate) struct LinkCommandArgs {
    /// File of a line that this link shares with other processes
    #[arg(long)]
    line: Option<PathBuf>,
    /// Milliseconds that bytes wait in front of the line at most
    #[arg(long, default_value_t = 0)]
    queue_ms: u64,
    /// Link between the ends, as in `bench sync`
    between: LinkSpec,
    /// File for the cost of the far end and of the link
    costs: PathBuf,
    /// Host name, ignored
    host: OsString,
    /// Program of the far end
    program: OsString,
    /// Arguments of the program
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// Runs the far end. Returns an error code if the far end fails.
pub(crate) fn run(args: &LinkCommandArgs) -> Exit {
    match beyond(args) {
        // The far end printed its own error.
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

fn beyond(args: &LinkCommandArgs) -> Result<ExitStatus> {
    let LinkCommandArgs { host: _, program, words, .. } = args;
    let mut command = Command::new(program);
    command.args(words);
    let status = match args.between.link() {
        Some(figures) => run_at_far_end(far_link(args, figures)?, command)?,
        None => command.status().with_context(|| format!("start {}", shown(Path::new(program))))?,
    };
    let costs =
        LinkCosts { far: spent(UsageWho::RUSAGE_CHILDREN)?, own: spent(UsageWho::RUSAGE_SELF)? };
    costs.write(&args.costs)?;
    Ok(status)
}

/// Returns the link, over the shared line if there is one.
fn far_link(args: &LinkCommandArgs, figures: LinkModel) -> Result<FarLink> {
    let Some(line) = &args.line else { return Ok(figures.into()) };
    let reserve = |direction| -> Result<Reserve> {
        let line = SharedLine::open(line)?;
        let reserve = move |time| line.reserve(direction, time).expect("the line's file is ours");
        Ok(Box::new(reserve))
    };
    let lines = [reserve(LinkDirection::There)?, reserve(LinkDirection::Back)?];
    Ok(FarLink { figures, queue: Duration::from_millis(args.queue_ms), lines })
}

/// Processor time of the far end and of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinkCosts {
    /// Processor time of the far end.
    pub(crate) far: Duration,
    /// Processor time of the link simulation, which is not counted for a program.
    pub(crate) own: Duration,
}

impl LinkCosts {
    fn write(&self, path: &Path) -> Result<()> {
        let line = format!("{} {}\n", self.far.as_micros(), self.own.as_micros());
        fs::write(path, line).with_context(|| format!("write {}", shown(path)))
    }

    /// Reads the costs that `deltic-bench far-end` wrote to `path`.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let failed = || format!("read {}", shown(path));
        let line = fs::read_to_string(path).with_context(failed)?;
        let micros: Vec<_> = line.split_whitespace().flat_map(str::parse).collect();
        let [far, own] = micros[..] else {
            bail!("{}: expected two numbers of microseconds", failed())
        };
        Ok(Self { far: Duration::from_micros(far), own: Duration::from_micros(own) })
    }
}

/// Returns the processor time of this process, or of its exited descendants.
pub(crate) fn spent(who: UsageWho) -> Result<Duration> {
    let used = getrusage(who).context("ask for processor time")?;
    let time = |time: TimeVal| {
        let micros = time.tv_sec() * 1_000_000 + time.tv_usec();
        Duration::from_micros(u64::try_from(micros).unwrap_or(0))
    };
    Ok(time(used.user_time()) + time(used.system_time()))
}
