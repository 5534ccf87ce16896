//! The far end of `deltic doctor`, and its answer.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write, stdin, stdout};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use deltic_net::Restriction;
use deltic_net::rates::RateLimits;
use deltic_net::restrict::{Access, Wall};
use deltic_tree::path::printable;
use serde::{Deserialize, Serialize};

use super::abilities::DirFeatures;
use super::probe::answer_probe;
use crate::commands::version::{BUILD, BuildInfo, protocol};
use crate::report::exit::Exit;

/// The far end's answer: its build, and a directory there.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct AgentAnswer {
    #[serde(flatten)]
    pub(super) build: BuildInfo,
    pub(super) protocol: String,
    pub(super) program: String,
    /// The far end's clock, since 1970.
    pub(super) time: Duration,
    /// Features of the directory; `None` if this agent may not write there.
    pub(super) abilities: Option<DirFeatures>,
    /// True if the far end answers probes of the link.
    #[serde(default)]
    pub(super) probes: bool,
    /// Rights of the agent, if restricted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) restriction: Option<String>,
}

/// Answers `deltic doctor` on standard input and output.
///
/// Reads the path of a directory, ended by a NUL. Writes the answer as a line, then answers probes of the link, and
/// echoes each other byte. Answers no probe if `limits` limit a rate, since a probe takes the whole link.
pub(in crate::commands) fn answer(restriction: Option<&Restriction>, limits: &RateLimits) -> Exit {
    let (mut input, mut path) = (stdin().lock(), Vec::new());
    let mut byte = [0];
    while input.read_exact(&mut byte).is_ok() && byte != [0] && path.len() < MAX_PATH_BYTES {
        path.extend(byte);
    }
    let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let program = std::env::current_exe().unwrap_or_default().display().to_string();
    let abilities = match restriction {
        Some(restriction) => abilities_within(restriction, &path),
        None => Some(DirFeatures::of(&home(&path))),
    };
    let restriction = restriction.map(restricted);
    let may_probe = limits.are_none();
    let answer = AgentAnswer {
        build: BUILD,
        protocol: protocol(),
        program,
        time,
        abilities,
        probes: may_probe,
        restriction,
    };
    let mut line = serde_json::to_vec(&answer).expect("it is text and numbers");
    line.push(b'\n');
    let mut output = stdout().lock();
    let mut said = output.write_all(&line).and_then(|()| output.flush());
    while said.is_ok() && input.read_exact(&mut byte).is_ok() {
        said = reply(byte[0], may_probe, &mut input, &mut output);
    }
    said.map_or(Exit::Transport, |()| Exit::Success)
}

/// Answers a probe of the link, or echoes the byte.
fn reply(
    byte: u8,
    may_probe: bool,
    input: &mut impl Read,
    output: &mut impl Write,
) -> io::Result<()> {
    if may_probe && answer_probe(byte, input, output)? {
        return Ok(());
    }
    output.write_all(&[byte, b'\n'])?;
    output.flush()
}

/// Tests a directory that a restricted agent may use; `None` if the agent may only read.
fn abilities_within(restriction: &Restriction, path: &[u8]) -> Option<DirFeatures> {
    let found = match restriction.enter_dir(path) {
        Err(error) => DirFeatures::unusable(error.to_string()),
        Ok(()) if restriction.access == Access::Read => return None,
        Ok(()) => DirFeatures::of(Path::new(".")),
    };
    Some(found.called(printable(path)))
}

/// Describes the rights of a restricted agent.
fn restricted(restriction: &Restriction) -> String {
    let access = match restriction.access {
        Access::Both => "one directory, to read and write",
        Access::Read => "one directory, to read (--ro)",
        Access::Write => "one directory, to write (--wo)",
    };
    let deletes = if restriction.no_delete { ", and delete nothing (--no-delete)" } else { "" };
    let wall = match restriction.wall_state() {
        Wall::Full => "Landlock enforces this as well",
        Wall::Partial => "an older Landlock enforces this as well",
        Wall::None => "the kernel there has no Landlock: only deltic enforces this",
    };
    format!("the agent may use {access}{deletes}; {wall}")
}

/// Expands `~` in a path as a sync does.
fn home(path: &[u8]) -> PathBuf {
    let own = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    match path.strip_prefix(b"~/") {
        Some(rest) => own.join(OsStr::from_bytes(rest)),
        None if path == b"~" => own,
        None => OsString::from_vec(path.to_vec()).into(),
    }
}

const MAX_PATH_BYTES: usize = 4096;
