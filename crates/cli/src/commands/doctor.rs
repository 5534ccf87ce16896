//! `deltic doctor`: tries the way to another machine, and what is at its end, and says what to mend.

mod place;

use std::ffi::{OsStr, OsString};
use std::io::{Read, Write, stdin, stdout};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use deltic_net::plan::{Destination, Names, Patience, Remote, Sources};
use deltic_net::restrict::{Access, Wall};
use deltic_net::{Outcome, Plan, Restriction, SyncError, User, reason};
use deltic_protocol::options::{Missing, Options, Remove, Select};
use deltic_protocol::report::Notice;
use deltic_tree::path::printable;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use self::place::Abilities;
use super::far::{Far, PATIENCE, ended};
use super::install;
use super::version::{BUILD, Build, protocol};
use crate::args::settings::SettingArgs;
use crate::args::{TRAVEL, Words};
use crate::report::exit::Exit;
use crate::report::hint;
use crate::report::output::Output;
use crate::report::summary::duration;
use crate::words::place::Place;

/// Try the way to another machine, and the directory there, and say what to mend
///
/// It connects, finds deltic there, compares versions and clocks, tries what the file system of the directory can do,
/// and sends a small file there and back. Nothing of it stays.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub(crate) struct Args {
    /// `[user@]host`, or `[user@]host:path` of a directory there; or a directory here, with a slash in its path
    #[arg(value_name = "HOST")]
    place: OsString,
    /// Write events for programs, one JSON object a line
    #[arg(long)]
    json: bool,
    /// Use this remote shell, with its options
    #[arg(short = 'e', long, value_name = "COMMAND", default_value = "ssh", help_heading = TRAVEL)]
    rsh: Words,
    /// Run this program on the other machine
    #[arg(long, visible_alias = "rsync-path", value_name = "PROGRAM", default_value = "deltic")]
    #[arg(help_heading = TRAVEL)]
    deltic_path: OsString,
    /// Settings.
    #[command(flatten)]
    _settings: SettingArgs,
}

/// The result of one check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Ok,
    Warning,
    Failed,
}

/// Tells each finding at once.
struct Findings {
    json: bool,
    output: Output,
    /// The code of the first check that failed: the one that a sync would end with.
    exit: Exit,
}

impl Findings {
    fn ok(&mut self, name: &str, what: &str) {
        self.tell(State::Ok, (name, what), None);
    }

    fn warn(&mut self, name: &str, what: &str, mend: &str) {
        self.tell(State::Warning, (name, what), Some(mend));
    }

    fn fail(&mut self, exit: Exit, (name, what): (&str, &str), mend: Option<&str>) {
        self.tell(State::Failed, (name, what), mend);
        if self.exit == Exit::Success {
            self.exit = exit;
        }
    }

    fn tell(&mut self, state: State, (name, what): (&str, &str), mend: Option<&str>) {
        if self.json {
            let event = json!({
                "event": "check", "name": name, "state": state, "what": what, "mend": mend
            });
            self.output.line(event.to_string());
        } else {
            let state = match state {
                State::Ok => "ok",
                State::Warning => "warning",
                State::Failed => "failed",
            };
            self.output.line(format!("{state:8} {name}: {what}"));
            if let Some(mend) = mend {
                self.output.line(format!("{:8} mend: {mend}", ""));
            }
        }
        self.output.flush();
    }

    /// Tells programs what a directory can do.
    fn figures(&mut self, abilities: &Abilities) {
        if self.json {
            self.output.line(json!({ "event": "abilities", "abilities": abilities }).to_string());
        }
    }

    fn finish(mut self) -> Exit {
        if self.json {
            self.output
                .line(json!({ "event": "diagnosis", "exit_code": self.exit.code() }).to_string());
        }
        match self.output.finish() {
            Ok(()) => self.exit,
            Err(_) => Exit::Files,
        }
    }
}

/// Tries everything, as far as one thing does not need another that failed.
pub(crate) fn run(args: &Args) -> Exit {
    let mut findings = Findings { json: args.json, output: Output::stdout(), exit: Exit::Success };
    findings.ok("this machine", &BUILD.to_string());
    match target(&args.place) {
        Ok(Place::Local(path)) => {
            abilities(&mut findings, &Abilities::of(&path));
        }
        Ok(Place::Remote { host, path }) => {
            let remote = Remote {
                shell: args.rsh.0.clone(),
                program: args.deltic_path.clone(),
                options: Vec::new(),
            };
            Way { remote, host: host.unwrap_or_default(), path }.examine(&mut findings);
        }
        Err(why) => {
            findings.fail(Exit::Usage, ("operand", &why), Some("see `deltic doctor --help`"))
        }
    }
    findings.finish()
}

/// The place that is meant; a word without a colon or a slash is a host.
fn target(word: &OsStr) -> Result<Place, String> {
    let text = word.as_bytes();
    if text.contains(&b':') || text.contains(&b'/') || text == b"." {
        let place = Place::parse(word).map_err(|error| error.to_string())?;
        return match place {
            Place::Remote { host: None, .. } => Err("a host is missing before the colon".into()),
            place => Ok(place),
        };
    }
    let host = install::host(&word.to_string_lossy()).map_err(str::to_owned)?;
    Ok(Place::Remote { host: Some(host), path: ".".into() })
}

/// The far end, by its own word, and a directory there.
#[derive(Debug, Deserialize, Serialize)]
struct Answer {
    #[serde(flatten)]
    build: Build,
    protocol: String,
    program: String,
    /// The time there, since 1970.
    time: Duration,
    /// Nothing where they may not be tried.
    abilities: Option<Abilities>,
    /// What the far end may do, if not everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    restriction: Option<String>,
}

/// The far end of a doctor: reads the path of a directory that a NUL ends, answers with a line, and gives each further
/// byte back.
pub(super) fn answer(restriction: Option<&Restriction>) -> Exit {
    let (mut input, mut path) = (stdin().lock(), Vec::new());
    let mut byte = [0];
    while input.read_exact(&mut byte).is_ok() && byte != [0] && path.len() < MAX_PATH_BYTES {
        path.extend(byte);
    }
    let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let program = std::env::current_exe().unwrap_or_default().display().to_string();
    let abilities = match restriction {
        Some(restriction) => abilities_within(restriction, &path),
        None => Some(Abilities::of(&home(&path))),
    };
    let restriction = restriction.map(restricted);
    let answer =
        Answer { build: BUILD, protocol: protocol(), program, time, abilities, restriction };
    let mut line = serde_json::to_vec(&answer).expect("it is text and numbers");
    line.push(b'\n');
    let mut output = stdout().lock();
    let mut said = output.write_all(&line).and_then(|()| output.flush());
    while said.is_ok() && input.read_exact(&mut byte).is_ok() {
        said = output.write_all(&[byte[0], b'\n']).and_then(|()| output.flush());
    }
    said.map_or(Exit::Transport, |()| Exit::Success)
}

/// What a directory can do that a restricted agent may use; nothing is tried where it may not write.
fn abilities_within(restriction: &Restriction, path: &[u8]) -> Option<Abilities> {
    let found = match restriction.enter(path) {
        Err(error) => Abilities::unusable(error.to_string()),
        Ok(()) if restriction.access == Access::Read => return None,
        Ok(()) => Abilities::of(Path::new(".")),
    };
    Some(found.called(printable(path)))
}

/// Says what an agent may do.
fn restricted(restriction: &Restriction) -> String {
    let access = match restriction.access {
        Access::Both => "one directory, to read and write",
        Access::Read => "one directory, to read (--ro)",
        Access::Write => "one directory, to write (--wo)",
    };
    let deletes = if restriction.no_delete { ", and delete nothing (--no-delete)" } else { "" };
    let wall = match restriction.wall() {
        Wall::Full => "Landlock keeps it there as well",
        Wall::Partial => "an older Landlock keeps it there as well",
        Wall::None => "its kernel has no Landlock: deltic alone keeps it there",
    };
    format!("it may use {access}{deletes}; {wall}")
}

/// A path as a sync takes it there.
fn home(path: &[u8]) -> PathBuf {
    let own = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    match path.strip_prefix(b"~/") {
        Some(rest) => own.join(OsStr::from_bytes(rest)),
        None if path == b"~" => own,
        None => OsString::from_vec(path.to_vec()).into(),
    }
}

const MAX_PATH_BYTES: usize = 4096;

/// The way to a directory of another machine.
struct Way {
    remote: Remote,
    host: String,
    path: OsString,
}

impl Way {
    fn examine(&self, findings: &mut Findings) {
        let start = Instant::now();
        let answered = match self.ask() {
            Ok(answered) => answered,
            Err(Unanswered { exit, name, what, mend }) => {
                return findings.fail(exit, (name, &what), Some(&mend));
            }
        };
        let Answered { answer, asked, heard, round_trip } = answered;
        let shell = self.remote.shell.first().map(|word| word.to_string_lossy());
        let shell = shell.unwrap_or_default();
        let connected = duration(heard.saturating_duration_since(start));
        let trip = round_trip.as_secs_f64() * 1000.0;
        findings.ok(
            "remote shell",
            &format!("{shell} answers after {connected}, a round trip takes {trip:.1} ms"),
        );
        self.keys(findings);
        if !self.versions(findings, &answer) {
            return;
        }
        clock(findings, &answer, (asked, heard));
        if let Some(restriction) = &answer.restriction {
            findings.ok("restriction", restriction);
        }
        let can_be_used = answer.abilities.iter().all(|found| abilities(findings, found));
        // It would be written, read and removed, of which a key may do less.
        if can_be_used && answer.restriction.is_none() {
            self.transfer(findings);
        }
    }

    /// Has the far end answer.
    fn ask(&self) -> Result<Answered, Unanswered> {
        let command = [self.remote.program.clone(), "agent".into(), "--examine".into()];
        let mut far = Far::start(&self.remote, &self.host, &command).map_err(|error| {
            let mend = hint::of(
                &error,
                &hint::Far::on(&self.remote, &self.host),
                "see `deltic doctor --help`",
            )
            .unwrap_or_default();
            Unanswered::new(Exit::from(&error), "remote shell", error.to_string(), mend)
        })?;
        let asked = SystemTime::now();
        // What does not listen may still have said what it is.
        far.say(&[self.path.as_bytes(), &[0]].concat()).ok();
        let line = far.line();
        let heard = Instant::now();
        let Some(line) = line else { return Err(self.unanswered(far.finish())) };
        let answer =
            serde_json::from_str(&line).and_then(|said| serde_json::from_value(shown(said)));
        let Ok(answer) = answer else {
            far.finish().ok();
            let what = format!("before deltic's word comes '{line}'");
            let mend = "the start-up files of the shell there may print nothing, and deltic there must know this: it may be too old";
            return Err(Unanswered::new(Exit::Incompatible, "deltic there", what, mend.into()));
        };
        let mut trips = (0..TRIPS).filter_map(|_| {
            let start = Instant::now();
            far.say(b".").ok()?;
            far.line().map(|_| start.elapsed())
        });
        let round_trip = trips.by_ref().min().unwrap_or_default();
        far.finish().ok();
        Ok(Answered { answer, asked, heard, round_trip })
    }

    fn unanswered(&self, ended: Result<(), Exit>) -> Unanswered {
        let (install, program) = (self.install(), self.remote.program.to_string_lossy());
        match ended {
            Err(exit @ Exit::RemoteShell) => Unanswered::new(
                exit,
                "remote shell",
                "it does not connect".into(),
                format!("what it said is above; `{}` says more", self.shell("-v", "true")),
            ),
            Err(exit @ Exit::NoRemoteProgram) if self.has_own_program() => Unanswered::new(
                exit,
                "deltic there",
                format!("`{program}` is not in the PATH of the shell there, but in ~/.local/bin"),
                format!("say `--deltic-path {OWN_PROGRAM}`, or set `deltic-path`"),
            ),
            Err(exit @ Exit::NoRemoteProgram) => Unanswered::new(
                exit,
                "deltic there",
                format!("`{program}` is not found"),
                format!("`{install}` copies this one there; --deltic-path says where one is"),
            ),
            Err(Exit::Timeout) => Unanswered::new(
                Exit::Timeout,
                "remote shell",
                "nothing came for five minutes".into(),
                format!("`{}` says how far it comes", self.shell("-v", "true")),
            ),
            _ => Unanswered::new(
                Exit::Incompatible,
                "deltic there",
                format!("`{program}` does not answer"),
                format!(
                    "it may be too old, or for another machine: `{}`; `{install}` copies this one there",
                    self.shell("", &format!("{program} --version"))
                ),
            ),
        }
    }

    /// The words that run `command` there, as they were typed, but for an `option` of ssh's.
    fn shell(&self, option: &str, command: &str) -> String {
        let mut remote = self.remote.clone();
        if self.is_ssh() && !option.is_empty() {
            remote.shell.insert(1, option.into());
        }
        hint::Far::on(&remote, &self.host).command(command)
    }

    fn is_ssh(&self) -> bool {
        self.remote.shell.first().is_some_and(|word| word.as_bytes().ends_with(b"ssh"))
    }

    /// The words that install this program there.
    fn install(&self) -> String {
        let shell = joined(&self.remote.shell);
        match shell == "ssh" {
            true => format!("deltic install {}", self.host),
            false => {
                format!("deltic install -e {} {}", hint::quoted(OsStr::new(&shell)), self.host)
            }
        }
    }

    /// Returns true where `deltic install` has put one, and the shell there looks elsewhere.
    fn has_own_program(&self) -> bool {
        let command = ["test", "-x", OWN_PROGRAM].map(OsString::from);
        let far = Far::start(&self.remote, &self.host, &command);
        far.is_ok_and(|far| far.finish().is_ok())
    }

    /// Checks whether a run without a user gets there.
    fn keys(&self, findings: &mut Findings) {
        if !self.is_ssh() {
            return;
        }
        let mut shell = self.remote.shell.clone();
        shell.splice(1..1, ["-o", "BatchMode=yes"].map(OsString::from));
        let remote = Remote { shell, ..self.remote.clone() };
        let Ok(words) = remote.words(&self.host, &["true".into()]) else { return };
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let Ok(mut child) = command.spawn() else { return };
        match ended(&mut child, KEYS_PATIENCE) {
            Some(status) if status.success() => {
                return findings.ok("keys", "it connects without a question");
            }
            Some(_) => {}
            None => {
                let mend = format!("`{}` says how far it comes", self.shell("-v", "true"));
                return findings.warn("keys", "a second connection does not end", &mend);
            }
        }
        // It knows the options that name a port, a key or a setting, and no `-l`.
        let mut copy = self.remote.shell.clone();
        copy[0] = "ssh-copy-id".into();
        let mend = format!("a run without a user needs a key: `{} {}`", joined(&copy), self.host);
        findings.warn("keys", "ssh asks for a password or a passphrase", &mend);
    }

    /// Checks whether the two ends understand each other.
    fn versions(&self, findings: &mut Findings, answer: &Answer) -> bool {
        let Answer { build, protocol: theirs, program, .. } = answer;
        let what = format!("{program}: {build}");
        let mend = format!("update the older: `{}` copies this one there", self.install());
        if *theirs != protocol() {
            let what = format!("{what} speaks {theirs}, this one {}", protocol());
            findings.fail(Exit::Incompatible, ("deltic there", &what), Some(&mend));
            return false;
        }
        match build.version == BUILD.version && build.commit == BUILD.commit {
            true => findings.ok("deltic there", &what),
            false => findings.warn("deltic there", &format!("{what} is another"), &mend),
        }
        true
    }

    /// Sends a file there and fetches it, and removes it there.
    fn transfer(&self, findings: &mut Findings) {
        let name = format!(".deltic-doctor-{}", std::process::id());
        let here = std::env::temp_dir().join(&name);
        let tried = self.there_and_back(&name, &here);
        std::fs::remove_dir_all(&here).ok();
        match tried {
            Ok((push, pull)) => {
                let what = format!(
                    "1 MiB is sent in {} and fetched in {}, connections included",
                    duration(push),
                    duration(pull)
                );
                findings.ok("transfer", &what);
            }
            Err((exit, why)) => findings.fail(exit, ("transfer", &why), None),
        }
    }

    fn there_and_back(
        &self,
        name: &str,
        here: &Path,
    ) -> Result<(Duration, Duration), (Exit, String)> {
        let bytes: Vec<u8> = (0..SAMPLE_WORDS).flat_map(|n| mixed(n).to_le_bytes()).collect();
        let (from, back) = (here.join("sent"), here.join("fetched"));
        let made = std::fs::create_dir(here).and_then(|()| std::fs::write(&from, &bytes));
        made.map_err(|error| (Exit::Files, format!("{}: {}", here.display(), reason(&error))))?;
        let slash: &[u8] = if self.path.as_bytes().ends_with(b"/") { b"" } else { b"/" };
        let there = [self.path.as_bytes(), slash, name.as_bytes()].concat();
        let (host, path) = (self.host.clone(), OsString::from_vec(there));
        let to = Destination::Remote { host: host.clone(), path: path.clone() };
        let push = self.sync(Sources::Local(vec![from]), to, Options::default())?;
        let options =
            Options { remove: Remove { sources: true, ..Remove::default() }, ..Options::default() };
        let from = Sources::Remote { host, paths: vec![path.clone()] };
        let pull = self.sync(from, Destination::Local(back.clone()), options);
        let pull = pull.map_err(|(exit, why)| match self.remove(here, name) {
            Ok(_) => (exit, why),
            Err(_) => {
                let path = printable(path.as_bytes());
                (exit, format!("{why}; {}:{path} may be left there", self.host))
            }
        })?;
        match std::fs::read(back).is_ok_and(|fetched| fetched == bytes) {
            true => Ok((push.elapsed, pull.elapsed)),
            false => Err((Exit::Stream, "what came back is not what was sent".into())),
        }
    }

    /// Removes what was sent, by the name of a source that is not there.
    fn remove(&self, here: &Path, name: &str) -> Result<Outcome, (Exit, String)> {
        let select = Select { missing: Missing::Delete, ..Select::default() };
        let to = Destination::Remote { host: self.host.clone(), path: self.path.clone() };
        let options = Options { select, ..Options::default() };
        self.sync(Sources::Local(vec![here.join(name)]), to, options)
    }

    fn sync(
        &self,
        sources: Sources,
        destination: Destination,
        options: Options,
    ) -> Result<Outcome, (Exit, String)> {
        let plan = Plan {
            sources,
            names: Names::None,
            destination,
            options,
            remote: self.remote.clone(),
            bwlimit: None,
            patience: Patience { answer: Some(PATIENCE), whole: Some(PATIENCE), silence: None },
            by_blake3: false,
            cache: None,
            batch: None,
        };
        let mut trouble = None;
        let ended: Result<Outcome, SyncError> =
            deltic_net::run(plan, &User::default(), &mut |notice| {
                if let Notice::Trouble(found) = notice {
                    trouble.get_or_insert(found.message);
                }
            });
        match (ended, trouble) {
            (Err(error), _) => Err((Exit::from(&error), error.to_string())),
            (Ok(_), Some(trouble)) => Err((Exit::Partial, trouble)),
            (Ok(outcome), None) => Ok(outcome),
        }
    }
}

/// An answer, and when it came.
struct Answered {
    answer: Answer,
    /// When it was asked, by the clock here.
    asked: SystemTime,
    heard: Instant,
    round_trip: Duration,
}

/// Why there is no answer.
struct Unanswered {
    exit: Exit,
    name: &'static str,
    what: String,
    mend: String,
}

impl Unanswered {
    fn new(exit: Exit, name: &'static str, what: String, mend: String) -> Self {
        Self { exit, name, what, mend }
    }
}

/// Checks how far the clocks are apart: the far end looked at its own between question and answer.
fn clock(findings: &mut Findings, answer: &Answer, (asked, heard): (SystemTime, Instant)) {
    let since = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let earliest = since(asked).as_secs_f64();
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
    let what = format!("the one there is {apart:.1} s {side}");
    findings.warn(
        "clock",
        &what,
        "--update and --stop-at go by clocks: run a time service (NTP) on both machines",
    );
}

/// Tells what a directory can do; whether it can be used.
fn abilities(findings: &mut Findings, abilities: &Abilities) -> bool {
    let name = &*abilities.path;
    if let Some(error) = &abilities.error {
        let (exit, mend) = match abilities.is_full {
            true => (Exit::Files, "make room there"),
            false => (Exit::Selection, "name a directory that is there and that you may write to"),
        };
        findings.fail(exit, (name, error), Some(mend));
        return false;
    }
    findings.ok(name, &abilities.to_string());
    findings.figures(abilities);
    for (what, mend) in abilities.lacks() {
        findings.warn(name, what, mend);
    }
    true
}

/// A command as it is typed.
fn joined(words: &[OsString]) -> String {
    words.iter().map(|word| hint::quoted(word)).collect::<Vec<_>>().join(" ")
}

/// The same with texts that may be shown: the far end could write to the terminal otherwise.
fn shown(said: Value) -> Value {
    match said {
        Value::String(text) => printable(text.as_bytes()).into(),
        Value::Array(list) => list.into_iter().map(shown).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(name, value)| (name, shown(value))).collect()
        }
        other => other,
    }
}

/// Bytes that do not shrink.
fn mixed(n: u64) -> u64 {
    let word = (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (word ^ (word >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

const SAMPLE_WORDS: u64 = (1 << 20) / 8;
/// The program of `deltic install`: a remote shell begins in the home directory.
const OWN_PROGRAM: &str = ".local/bin/deltic";
/// The longest time for a connection that asks nobody.
const KEYS_PATIENCE: Duration = Duration::from_secs(60);
/// Bytes that go there and back, to take the shortest time.
const TRIPS: usize = 5;
/// A difference of clocks that nobody minds.
const CLOCK_SECONDS: f64 = 2.0;

const EXAMPLES: &str = "\
EXAMPLES:
  deltic doctor backup
      is deltic there, does it understand this one, is all well in the home directory?
  deltic doctor me@backup:/srv/photos
      the same, of another directory
  deltic doctor /mnt/usb
      what can the file system of a directory here do?

EXIT CODES:
  0 nothing failed; else what a sync would end with: 2 the ends do not understand each other, 3 the directory cannot be used,
  14 no remote shell, 127 no deltic there, 255 the remote shell does not connect";
