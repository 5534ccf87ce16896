//! The options of `deltic agent`.

use std::ffi::OsStr;
use std::path::PathBuf;

use clap::Parser;

use crate::words::rate::Bandwidth;
use deltic_net::rates::RateLimits;

/// Arguments of `deltic agent`.
#[derive(Clone, Debug, clap::Args)]
#[command(args_override_self = true)]
pub(crate) struct AgentArgs {
    #[command(flatten)]
    pub(crate) session: AgentSessionArgs,
    /// Restrict access to DIR, for a key in authorized_keys
    ///
    /// DIR is the root for the client: `host:/a` and `host:a` are DIR/a. Paths outside DIR and all other commands of
    /// the key are refused. For `command="deltic agent --restrict DIR",restrict` in authorized_keys.
    #[arg(long, value_name = "DIR")]
    pub(crate) restrict: Option<PathBuf>,
    /// With --restrict: refuse all writes
    #[arg(long, requires = "restrict", conflicts_with = "wo")]
    pub(crate) ro: bool,
    /// With --restrict: refuse to send files
    #[arg(long, requires = "restrict")]
    pub(crate) wo: bool,
    /// With --restrict: refuse deletions; files may still be replaced by new versions
    #[arg(long, requires = "restrict")]
    pub(crate) no_delete: bool,
}

/// Options that the other end may ask for.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct AgentSessionArgs {
    /// Join a session on this machine as another stream
    ///
    /// Standard input begins with the id of the session and the key to join.
    #[arg(long)]
    pub(crate) join: bool,
    /// Limit bytes a second of this end in each direction, as `deltic sync` does
    #[arg(long, value_name = "RATE")]
    pub(crate) bwlimit: Option<Bandwidth>,
    /// Report on this program and on the directory named on standard input, for `deltic doctor`
    #[arg(long, conflicts_with = "join")]
    pub(crate) examine: bool,
}

/// Arguments behind `agent` in a command from an untrusted peer.
#[derive(Debug, Parser)]
struct AgentCommandLine {
    #[command(flatten)]
    session: AgentSessionArgs,
}

impl AgentSessionArgs {
    /// Returns the limits of the rate.
    pub(crate) fn limits(&self) -> RateLimits {
        Bandwidth::limits(self.bwlimit.as_ref())
    }
}

/// Parses the requested command, if the command is an agent; the program may have any name.
///
/// `None` for `--join`: a joining stream uses a socket outside the restricted directory.
pub(crate) fn parse_agent_command(command: &OsStr) -> Option<AgentSessionArgs> {
    let words = shlex::split(command.to_str()?)?;
    let [_, agent, options @ ..] = &words[..] else { return None };
    let line = AgentCommandLine::try_parse_from([agent].into_iter().chain(options)).ok()?;
    (agent == "agent" && !line.session.join).then_some(line.session)
}

pub(super) const EXAMPLES: &str = "\
EXAMPLES:
  deltic sync -a --deltic-path /opt/deltic/bin/deltic src/ host:dst/
      runs `ssh host /opt/deltic/bin/deltic agent`
  command=\"deltic agent --restrict /srv/backup --no-delete\",restrict ssh-ed25519 AAAA... laptop
      a line of ~/.ssh/authorized_keys: the key may write below /srv/backup, and delete nothing
  command=\"deltic agent --restrict /srv/photos --ro\",restrict ssh-ed25519 AAAA... tv
      the key may only read below /srv/photos";

#[cfg(test)]
mod tests {
    use deltic_net::rates::RateTable;

    use super::*;

    #[test]
    fn of_the_words_of_the_other_end_only_those_of_an_agent_count() {
        let parsed = |command: &str| parse_agent_command(OsStr::new(command));
        assert!(parsed("deltic agent").is_some());
        assert!(parsed("/opt/'my tools'/deltic agent --examine").unwrap().examine);
        assert_eq!(
            parsed("deltic agent --bwlimit=1K").unwrap().limits().table,
            Some(RateTable::constant(1024))
        );
        for refused in [
            "",
            "deltic",
            "sh",
            "sh -c 'deltic agent'",
            "deltic sync a b",
            "deltic agent --join",
            "deltic agent --restrict /",
            "deltic agent --restrict=/",
            "deltic agent; id",
            "deltic agent extra",
            "deltic agent --help",
            "deltic agent 'open quote",
            "deltic --version",
            "sudo deltic agent",
        ] {
            assert!(parsed(refused).is_none(), "{refused}");
        }
    }
}
