//! The connection to a directory of another machine, and the checks of its far end.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use deltic_net::plan::Remote;
use deltic_net::withhold_secrets;
use deltic_tree::path::printable;
use serde_json::Value;

use super::answer::AgentAnswer;
use super::findings::Findings;
use crate::commands::far::{RemoteProgram, wait_at_most};
use crate::commands::version::{BUILD, protocol};
use crate::report::exit::Exit;
use crate::report::hint::{self, NextRun};
use crate::report::summary::duration;

/// The connection to a directory of another machine.
pub(super) struct RemoteDir {
    pub(super) remote: Remote,
    pub(super) host: String,
    pub(super) path: OsString,
}

impl RemoteDir {
    /// Runs the checks, with a probe of the link if asked, and prints each finding.
    pub(super) fn examine(mut self, probes_link: bool, findings: &mut Findings) {
        let mut start = Instant::now();
        let mut asked = self.ask();
        // A sync makes this second attempt too.
        if asked.as_ref().is_err_and(|error| error.exit == Exit::NoRemoteProgram)
            && let Some(remote) = self.remote.installed().filter(|_| self.has_own_program())
        {
            self.remote = remote;
            start = Instant::now();
            asked = self.ask();
        }
        let answered = match asked {
            Ok(answered) => answered,
            Err(NoAnswer { exit, name, what, mend }) => {
                return findings.fail(exit, name, &what, Some(&mend));
            }
        };
        let TimedAnswer { answer, heard, round_trip, .. } = &answered;
        let shell = self.remote.shell.first().map(|word| word.to_string_lossy());
        let shell = shell.unwrap_or_default();
        let connected = duration(heard.saturating_duration_since(start));
        let trip = round_trip.as_secs_f64() * 1000.0;
        findings.ok(
            "remote shell",
            &format!("{shell} answers after {connected}, a round trip takes {trip:.1} ms"),
        );
        self.keys(findings);
        if !self.versions(findings, answer) {
            return;
        }
        clock(findings, &answered);
        if probes_link && !answer.probes {
            let mend = format!(
                "update deltic there: `{}` copies this program; a restricted agent with --bwlimit never measures",
                self.install()
            );
            let what = "the program there does not measure the link";
            findings.fail(Exit::Incompatible, "link", what, Some(&mend));
        } else if probes_link {
            self.probe_link(*round_trip, findings);
        }
        if let Some(restriction) = &answer.restriction {
            findings.ok("restriction", restriction);
        }
        let can_be_used = answer.abilities.iter().all(|found| findings.abilities(found));
        match &answer.restriction {
            Some(_) => findings.ok(
                "transfer",
                "not tried: the key is restricted, and the test would write, read and remove a file",
            ),
            None if can_be_used => self.transfer(findings),
            None => {}
        }
    }

    /// Starts the far end, and returns its answer.
    fn ask(&self) -> Result<TimedAnswer, NoAnswer> {
        let command = [self.remote.program.clone(), "agent".into(), "--examine".into()];
        let mut far =
            RemoteProgram::start(&self.remote, &self.host, &command).map_err(|error| {
                let mend = hint::of(
                    &error,
                    &hint::RemoteMachine::reached_by(&self.remote, &self.host),
                    NextRun::Same,
                );
                let mend = mend.unwrap_or_default();
                NoAnswer::new(Exit::from(&error), "remote shell", error.to_string(), mend)
            })?;
        let asked = SystemTime::now();
        // A program that does not read may still have printed an answer.
        far.say(&[self.path.as_bytes(), &[0]].concat()).ok();
        let line = far.line();
        let heard = Instant::now();
        let Some(line) = line else { return Err(self.unanswered(far.finish())) };
        let answer =
            serde_json::from_str(&line).and_then(|said| serde_json::from_value(escape_texts(said)));
        let Ok(answer) = answer else {
            far.finish().ok();
            let what = format!("the remote shell printed '{line}' before deltic's answer");
            let mend = "start-up files of the shell there must print nothing; a deltic without `doctor` there is too old";
            return Err(NoAnswer::new(Exit::Incompatible, "deltic there", what, mend.into()));
        };
        let mut trips = (0..TRIPS).filter_map(|_| {
            let start = Instant::now();
            far.say(b".").ok()?;
            far.line().map(|_| start.elapsed())
        });
        let round_trip = trips.by_ref().min().unwrap_or_default();
        far.finish().ok();
        Ok(TimedAnswer { answer, asked, heard, round_trip })
    }

    fn unanswered(&self, ended: Result<(), Exit>) -> NoAnswer {
        let (install, program) = (self.install(), self.remote.program.to_string_lossy());
        match ended {
            Err(exit @ Exit::RemoteShell) => NoAnswer::new(
                exit,
                "remote shell",
                "cannot connect".into(),
                format!("see the output above; `{}` shows more", self.shell("-v", "true")),
            ),
            Err(exit @ Exit::NoRemoteProgram) if self.has_own_program() => NoAnswer::new(
                exit,
                "deltic there",
                format!("`{program}` is not in the PATH of the shell there, but in ~/.local/bin"),
                format!("say `--deltic-path {}`, or set `deltic-path`", Remote::INSTALLED),
            ),
            Err(exit @ Exit::NoRemoteProgram) => NoAnswer::new(
                exit,
                "deltic there",
                format!("`{program}` is not found"),
                format!(
                    "run `{install}` to copy this program there, or name the program by --deltic-path"
                ),
            ),
            Err(Exit::Timeout) => NoAnswer::new(
                Exit::Timeout,
                "remote shell",
                "no answer for five minutes".into(),
                format!("run `{}` to see where the connection stops", self.shell("-v", "true")),
            ),
            _ => NoAnswer::new(
                Exit::Incompatible,
                "deltic there",
                format!("`{program}` does not answer"),
                format!(
                    "the program may be too old, or for another machine: `{}`; `{install}` copies this program there",
                    self.shell("", &format!("{program} --version"))
                ),
            ),
        }
    }

    /// Returns the command line that runs `command` there, as a user types it, with an `option` for ssh.
    fn shell(&self, option: &str, command: &str) -> String {
        let mut remote = self.remote.clone();
        if self.is_ssh() && !option.is_empty() {
            remote.shell.insert(1, option.into());
        }
        hint::RemoteMachine::reached_by(&remote, &self.host).command(command)
    }

    fn is_ssh(&self) -> bool {
        self.remote.shell.first().is_some_and(|word| word.as_bytes().ends_with(b"ssh"))
    }

    /// Returns the command that installs this program there.
    fn install(&self) -> String {
        let shell = joined(&self.remote.shell);
        match shell == "ssh" {
            true => format!("deltic install {}", self.host),
            false => {
                format!("deltic install -e {} {}", hint::quoted(OsStr::new(&shell)), self.host)
            }
        }
    }

    /// True if `deltic install` has put a program there that is not in the PATH of the remote shell.
    fn has_own_program(&self) -> bool {
        let command = ["test", "-x", Remote::INSTALLED].map(OsString::from);
        let far = RemoteProgram::start(&self.remote, &self.host, &command);
        far.is_ok_and(|far| far.finish().is_ok())
    }

    /// Checks whether ssh connects without asking for a password.
    fn keys(&self, findings: &mut Findings) {
        if !self.is_ssh() {
            return;
        }
        let mut shell = self.remote.shell.clone();
        shell.splice(1..1, ["-o", "BatchMode=yes"].map(OsString::from));
        let remote = Remote { shell, ..self.remote.clone() };
        let Ok(words) = remote.command_line(&self.host, &["true".into()]) else { return };
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let Ok(mut child) = withhold_secrets(&mut command).spawn() else { return };
        match wait_at_most(&mut child, KEYS_TIMEOUT) {
            // 255 is a failure of ssh. Other codes come from the command, which a restricted key may refuse.
            Some(status) if status.code() != Some(SSH_FAILED) => {
                return findings.ok("keys", "ssh connects without a question");
            }
            Some(_) => {}
            None => {
                let mend =
                    format!("run `{}` to see where the connection stops", self.shell("-v", "true"));
                return findings.warn("keys", "a test connection without a password hangs", &mend);
            }
        }
        // `ssh-copy-id` takes the options for a port, a key or a setting, but not `-l`.
        let mut copy = self.remote.shell.clone();
        copy[0] = "ssh-copy-id".into();
        let mend = format!("a run without a user needs a key: `{} {}`", joined(&copy), self.host);
        findings.warn("keys", "ssh asks for a password or a passphrase", &mend);
    }

    /// Checks that both ends speak the same protocol version. Another build is a warning.
    fn versions(&self, findings: &mut Findings, answer: &AgentAnswer) -> bool {
        let AgentAnswer { build, protocol: their_protocol, program, .. } = answer;
        let what = format!("{program}: {build}");
        let mend =
            format!("update the older program; `{}` copies this program there", self.install());
        if *their_protocol != protocol() {
            let what = format!("{what} speaks {their_protocol}, this program {}", protocol());
            findings.fail(Exit::Incompatible, "deltic there", &what, Some(&mend));
            return false;
        }
        match build.version == BUILD.version && build.commit == BUILD.commit {
            true => findings.ok("deltic there", &what),
            false => findings.warn("deltic there", &format!("{what} is another build"), &mend),
        }
        true
    }
}

/// Checks the difference of the clocks. The far end read its clock between question and answer.
fn clock(findings: &mut Findings, answered: &TimedAnswer) {
    let TimedAnswer { answer, asked, heard, .. } = answered;
    let since = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let earliest = since(*asked).as_secs_f64();
    let latest = since(SystemTime::now()).as_secs_f64() - heard.elapsed().as_secs_f64();
    let there = answer.time.as_secs_f64();
    let (apart, side) = match () {
        () if there < earliest => (earliest - there, "behind"),
        () if there > latest => (there - latest, "ahead"),
        () => (0.0, "off"),
    };
    if apart <= CLOCK_SECONDS {
        return findings.ok("clock", &format!("less than {CLOCK_SECONDS:.0} s apart"));
    }
    let what = format!("the clock there is {apart:.1} s {side}");
    findings.warn(
        "clock",
        &what,
        "--update and --stop-at go by clocks: run a time service (NTP) on both machines",
    );
}

/// An answer, and the times of question and answer.
struct TimedAnswer {
    answer: AgentAnswer,
    /// Time of the question, by the local clock.
    asked: SystemTime,
    heard: Instant,
    round_trip: Duration,
}

/// The reason why there is no answer.
struct NoAnswer {
    exit: Exit,
    name: &'static str,
    what: String,
    mend: String,
}

impl NoAnswer {
    fn new(exit: Exit, name: &'static str, what: String, mend: String) -> Self {
        Self { exit, name, what, mend }
    }
}

/// Returns a command line as a user types it.
fn joined(words: &[OsString]) -> String {
    words.iter().map(|word| hint::quoted(word)).collect::<Vec<_>>().join(" ")
}

/// Escapes all texts of an answer: otherwise the far end could send control characters to the terminal.
fn escape_texts(said: Value) -> Value {
    match said {
        Value::String(text) => printable(text.as_bytes()).into(),
        Value::Array(list) => list.into_iter().map(escape_texts).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(name, value)| (name, escape_texts(value))).collect()
        }
        other => other,
    }
}

/// Exit code of ssh after a failed connection.
const SSH_FAILED: i32 = 255;
/// Longest time for a connection that asks no question.
const KEYS_TIMEOUT: Duration = Duration::from_secs(60);
/// Round trips to measure; the shortest counts.
const TRIPS: usize = 5;
/// The largest difference of clocks, in seconds, that is no finding.
const CLOCK_SECONDS: f64 = 2.0;
