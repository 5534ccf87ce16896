//! Hints on how to mend an error, in the words that the user typed.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;

use deltic_net::plan::{Destination, Remote, Sources};
use deltic_net::{Plan, SyncError};
use deltic_protocol::options::{Delete, Missing, Options};
use deltic_protocol::report::{Side, Trouble, TroubleKind};
use deltic_serve::trust::TlsFault;
use deltic_tree::path::printable;
use rustix::io::Errno;

use crate::report::output::behaves_like_rsync;
use crate::words::place::ParsedOperand;

/// The remote machine of a run, if any, as the user named it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RemoteMachine {
    side: Option<Side>,
    /// Host name without the user.
    host: String,
    /// Remote shell command line, with a placeholder for the command.
    shell: String,
    /// Program that is started there.
    program: String,
    /// Hint on another meaning that an operand or option probably had.
    meant: Option<String>,
}

impl RemoteMachine {
    /// Returns the remote machine of a run with these operands; `port` is the given daemon port.
    pub(crate) fn of(plan: &Plan, operands: &[OsString], port: Option<u16>) -> Self {
        let (side, host) = match (&plan.sources, &plan.destination) {
            (Sources::Remote { host, .. }, _) => (Side::Sender, host),
            (_, Destination::Remote { host, .. }) => (Side::Receiver, host),
            _ => return Self::default(),
        };
        let of_port = || Some(format!("--port is for daemons: {}", ssh_port(&port?.to_string())));
        let meant = operands.iter().find_map(|word| meant(word)).or_else(of_port);
        Self { side: Some(side), meant, ..Self::reached_by(&plan.remote, host) }
    }

    /// Returns a machine reached by `remote`.
    pub(crate) fn reached_by(remote: &Remote, host: &str) -> Self {
        let words = remote.command_line(host, &[COMMAND.into()]).unwrap_or_default();
        let words: Vec<_> = words.iter().map(|word| quoted(word)).collect();
        Self {
            side: None,
            host: host.rsplit_once('@').map_or(host, |(_, host)| host).into(),
            shell: words.join(" "),
            program: quoted(&remote.program),
            meant: None,
        }
    }

    /// Returns the message of a trouble. A trouble of the remote machine is prefixed with its name, unless rsync's
    /// wording is used.
    pub(crate) fn message<'a>(&self, trouble: &'a Trouble) -> Cow<'a, str> {
        let is_far = trouble.spot.as_ref().is_some_and(|spot| {
            spot.side.is_some() && spot.side == self.side && spot.full_path.is_some()
        });
        let is_named = matches!(trouble.kind, TroubleKind::Skipped | TroubleKind::UnsafeLink);
        match is_far && !is_named && !behaves_like_rsync() {
            true => format!("{}: {}", printable(self.host.as_bytes()), trouble.message).into(),
            false => (&trouble.message).into(),
        }
    }

    /// Returns `try` and the command line that runs `command` there.
    fn attempt(&self, command: &str) -> String {
        format!("try `{}`", self.command(command))
    }

    /// Returns the command line that runs `command` there.
    pub(crate) fn command(&self, command: &str) -> String {
        match self.shell.is_empty() {
            true => format!("ssh HOST {command}"),
            false => self.shell.replace(COMMAND, command),
        }
    }

    /// Returns [`Self::attempt`] for a machine that does not answer, after the hint that an operand may have been
    /// meant otherwise.
    fn attempt_or_meant(&self, question: &str, command: &str) -> String {
        let way = format!("{question} {}", self.attempt(command));
        match &self.meant {
            None => way,
            Some(meant) => format!("{meant}; else {way}"),
        }
    }
}

/// Way to continue after an incomplete run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextRun {
    /// Run the same command again.
    Same,
    /// The watch continues by itself.
    OfWatch,
    /// Run the same command without this option. The run removes sources that arrived; with the option, the next run
    /// would delete the arrived files.
    Without(&'static str),
}

impl NextRun {
    /// Returns the next run after a run with these options.
    pub(crate) fn of(options: &Options) -> Self {
        if !options.remove.sources {
            return Self::Same;
        }
        match (options.delete, options.select.missing) {
            (Delete::Never, Missing::Delete) => Self::Without("--delete-missing-args"),
            (Delete::Never, _) => Self::Same,
            _ => Self::Without("--delete"),
        }
    }

    /// Returns the words that tell the user how to continue.
    fn words(self) -> Cow<'static, str> {
        match self {
            Self::Same => "run the same command again".into(),
            Self::OfWatch => "the watch tries again".into(),
            Self::Without(option) => format!(
                "run the same command once without {option}, which would delete the files that arrived: \
                 their sources were removed"
            )
            .into(),
        }
    }
}

/// Returns a hint on another meaning that this operand probably had: a local file, a drive of Windows, or the port of
/// a remote shell.
fn meant(word: &OsStr) -> Option<String> {
    let (place, shown) = (ParsedOperand::parse(word).ok()?, printable(word.as_bytes()));
    let is_here = std::fs::symlink_metadata(word).is_ok();
    let ParsedOperand::Remote { host, path } = place else {
        let is_port = !is_here && shown.parse::<u16>().is_ok();
        return is_port.then(|| format!("-p keeps permissions: {}", ssh_port(&shown)));
    };
    if is_here {
        return Some(format!("'{shown}' is a file here; write './{shown}' for the file"));
    }
    let (host, path) = (host?, path.to_str()?);
    match path.split_once(':') {
        Some((port, path)) if port.parse::<u16>().is_ok() => {
            Some(format!("{} and '{host}:{path}' the place", ssh_port(port)))
        }
        _ if matches!(host.as_bytes(), [b'A'..=b'Z']) && path.starts_with('/') => {
            let drive = host.to_ascii_lowercase();
            Some(format!("'{host}' is taken for a host: in WSL that drive is /mnt/{drive}"))
        }
        _ => None,
    }
}

fn ssh_port(port: &str) -> String {
    format!("-e 'ssh -p {port}' names the port")
}

/// Placeholder for the command in a remote shell's command line.
const COMMAND: &str = "COMMAND";

pub(crate) fn quoted(word: &OsStr) -> String {
    let word = printable(word.as_bytes());
    shlex::try_quote(&word).map_or_else(|_| word.clone(), Cow::into_owned)
}

/// Returns the hint for `error`, if there is one.
pub(crate) fn of(error: &SyncError, far: &RemoteMachine, next: NextRun) -> Option<String> {
    let fixed = match error {
        SyncError::Start { .. } => {
            let question = "is the remote shell installed? -e names another remote shell";
            return Some(far.meant.clone().unwrap_or_else(|| question.into()));
        }
        SyncError::Dial { source, .. } => of_server(source),
        SyncError::Incompatible(_) => {
            "is the same deltic on both machines? --deltic-path names another program there"
        }
        SyncError::Versions(versions) => match versions.order() {
            Ordering::Less => "deltic here is older; update deltic here",
            Ordering::Greater => {
                "deltic there is older; update deltic there, or name another program by --deltic-path"
            }
            Ordering::Equal => {
                "the builds of this version differ; install the same build on both machines"
            }
        },
        SyncError::Unclean(error) if far.has_terminal() || error.to_string().contains("\\r\\n") => {
            "a terminal there changes the bytes: leave out -t, as in `ssh -tt`, and RequestTTY in ssh's settings"
        }
        SyncError::Unclean(_) => {
            let question = "is your shell clean? the start-up files there must print nothing; to see the output,";
            return Some(format!("{question} {}", far.attempt("true")));
        }
        // ssh's exit status for a failed connection.
        SyncError::NoAnswer(status) if status.code() == Some(255) => {
            return Some(far.attempt_or_meant("does the remote shell connect?", "true"));
        }
        // The program started, and failed by itself.
        SyncError::NoAnswer(status) if matches!(status.code(), Some(11 | 101)) => {
            "deltic failed there before an answer; see the output above"
        }
        SyncError::NoAnswer(_) => {
            let question = "is the program there deltic? --deltic-path names the program;";
            return Some(far.attempt_or_meant(question, &far.version()));
        }
        SyncError::NoRemoteProgram => {
            let question = match far.host.is_empty() {
                true => "`deltic install HOST` installs deltic".to_owned(),
                false => format!("`deltic install {}` or --install installs deltic", far.host),
            };
            let question = format!("{question}, --deltic-path names the program;");
            return Some(far.attempt_or_meant(&question, &far.version()));
        }
        SyncError::NoAnswerInTime => {
            return Some(far.attempt_or_meant("does the remote shell connect?", "true"));
        }
        SyncError::Disconnected(_)
        | SyncError::ShellEnded(_)
        | SyncError::StreamLost
        | SyncError::Transport { .. }
        | SyncError::Silence => {
            return Some(format!("the received data is kept; {}", next.words()));
        }
        SyncError::TimeUp | SyncError::Interrupted => {
            return Some(format!("to resume, {}", next.words()));
        }
        SyncError::Damaged => {
            return Some(format!("{}; ssh detects transmission errors", next.words()));
        }
        SyncError::Protocol(_) => {
            "update deltic on both machines; if the error remains, please report the error"
        }
        SyncError::Watch { source, .. } if is_full(source) => {
            "too many programs watch files; `sysctl fs.inotify.max_user_instances=N` allows more"
        }
        SyncError::Internal => "please report this bug, with the output above",
        SyncError::Usage(_)
        | SyncError::Options(_)
        | SyncError::Watch { .. }
        | SyncError::Thread(_)
        | SyncError::Selection(_)
        | SyncError::SelectionThere(_)
        | SyncError::NoSource(_)
        | SyncError::Batch { .. }
        | SyncError::Files(_)
        | SyncError::Refused(_)
        | SyncError::Busy { .. }
        | SyncError::Torn(_) => return None,
    };
    Some(fixed.into())
}

/// Returns the hint for a server that a command without a session did not reach or trust.
pub(crate) fn of_dial(error: &SyncError) -> Option<&'static str> {
    match error {
        SyncError::Dial { source, .. } => Some(of_server(source)),
        _ => None,
    }
}

/// Returns the hint for a server that is not reached or not trusted.
fn of_server(error: &io::Error) -> &'static str {
    match TlsFault::of(error) {
        Some(TlsFault::WrongPin { .. }) => {
            "another server may have answered; if the server has a new key, its operator knows the new pin"
        }
        Some(TlsFault::UnknownSigner) => {
            "a server with a key of its own is trusted by its pin: `deltic serve --show` there prints the pin, \
             and an invitation ends in `&pin=sha256//...`; use `deltic login 'INVITATION'`, or --pin"
        }
        Some(TlsFault::WithoutTls) => {
            "`deltic serve --show` there prints the address; http:// is for a server on this machine"
        }
        Some(TlsFault::NotHttp) => "if the server uses TLS, begin the address with https://",
        None if error.kind() == io::ErrorKind::InvalidData => {
            "a server with its own key has a pin; use `deltic login` or --pin"
        }
        None => {
            "is `deltic serve` running there, and reachable from here? `deltic serve --show` there tells address and pin"
        }
    }
}

impl RemoteMachine {
    /// True if the options of the remote shell ask for a terminal there: `-t`, `-tt`.
    fn has_terminal(&self) -> bool {
        let is_wish = |word: &str| {
            word.strip_prefix('-')
                .is_some_and(|letters| letters.trim_matches('t').is_empty() && !letters.is_empty())
        };
        self.shell.split_whitespace().any(|word| is_wish(word) || word.contains("RequestTTY"))
    }

    /// Returns the command that asks the program there for its version.
    fn version(&self) -> String {
        let program = if self.program.is_empty() { "deltic" } else { &self.program };
        format!("{program} --version")
    }
}

/// Returns the hint for a trouble: for an empty source under a watch, and once for sources that changed while they
/// were read; `is_given` is set after that.
pub(crate) fn for_trouble(
    trouble: &Trouble,
    watches: bool,
    is_given: &mut bool,
) -> Option<&'static str> {
    if watches
        && trouble.kind == TroubleKind::DeleteLimit
        && trouble.spot.as_ref().is_some_and(|spot| spot.side == Some(Side::Sender))
    {
        return Some(
            "the watch waits for a first name in the source; a watch with --force-delete does not wait",
        );
    }
    // A file that vanished has an error number; a file that changed while it was read has none.
    let went = trouble.spot.as_ref().is_some_and(|spot| spot.errno.is_some());
    let in_use = trouble.kind == TroubleKind::Vanished && !went;
    let is_first = in_use && !std::mem::replace(is_given, true);
    (is_first && !behaves_like_rsync()).then_some(
        "for a file that is always in use, such as a database, copy a dump or a snapshot",
    )
}

/// Returns the hint for a missing source with a telling name: a quoted home directory, or a port.
pub(crate) fn for_missing(trouble: &Trouble, far: &RemoteMachine) -> Option<&'static str> {
    // A name that vanished was there: nobody mistyped the name.
    let spot = trouble.spot.as_ref().filter(|_| trouble.kind == TroubleKind::Failed)?;
    let path = spot
        .full_path
        .as_deref()
        .filter(|_| spot.errno == Some(Errno::NOENT.raw_os_error() as u32))?;
    if path.split(|byte| *byte == b'/').any(|name| name == b"~") {
        return Some("the shell leaves a quoted ~ as it is; write ~ without quotes, or \"$HOME\"");
    }
    let last = path.rsplit(|byte| *byte == b'/').next()?;
    let is_port = far.side.is_some() && std::str::from_utf8(last).ok()?.parse::<u16>().is_ok();
    is_port.then_some("-p keeps permissions: -e 'ssh -p PORT' names the port")
}

/// Returns the hint for a non-empty directory in the place of a file.
pub(crate) fn for_blocked(trouble: &Trouble) -> Option<&'static str> {
    let errno = trouble.spot.as_ref()?.errno?;
    let is_blocked = errno == Errno::NOTEMPTY.raw_os_error() as u32;
    (is_blocked && !behaves_like_rsync())
        .then_some("a directory is in the way: --force removes the directory and its content")
}

/// Returns the hint for a refusal of the destination's file system.
pub(crate) fn for_errno(errno: Errno, far: &RemoteMachine, next: NextRun) -> Option<String> {
    let fixed = match errno {
        Errno::NOSPC => {
            return Some(format!("make room at the destination, and {}", next.words()));
        }
        Errno::DQUOT => {
            let full = "the quota at the destination is used up: make room, and";
            return Some(format!("{full} {}", next.words()));
        }
        Errno::ROFS => "the file system is mounted read-only; remount the file system read-write",
        Errno::ACCESS if far.side != Some(Side::Receiver) => {
            "you may not write to the destination; name another destination, or run as its owner"
        }
        Errno::ACCESS => {
            "the user there may not write to the destination; name another destination, or run as its owner"
        }
        _ => return None,
    };
    Some(fixed.into())
}

/// True if the system has run out of a resource.
fn is_full(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(errno, Some(Errno::MFILE | Errno::NFILE | Errno::NOSPC | Errno::NOMEM))
}

#[cfg(test)]
mod tests {
    use super::*;
    use deltic_protocol::PeerError;

    fn far(shell: &str, host: &str) -> RemoteMachine {
        let shell = shlex::split(shell).unwrap().into_iter().map(Into::into).collect();
        RemoteMachine::reached_by(&Remote::with_shell(shell), host)
    }

    #[test]
    fn a_hint_has_the_words_that_were_typed() {
        let hint = |shell, host, error| of(&error, &far(shell, host), NextRun::Same).unwrap();
        for (shell, host, told) in [
            ("ssh -p 1", "root@backup", "try `ssh -p 1 -l root backup true`"),
            ("ssh -i 'my key'", "backup", "try `ssh -i 'my key' backup true`"),
            ("docker exec -i {host} {command}", "db", "try `docker exec -i db true`"),
        ] {
            let hint = hint(shell, host, SyncError::NoAnswerInTime);
            assert!(hint.ends_with(told), "{hint}");
        }
        let dirty = |text: &str| SyncError::Unclean(PeerError::NotDeltic(text.into()));
        for (shell, bytes) in
            [("ssh -tt", "x"), ("ssh -o RequestTTY=force", "x"), ("ssh", "hi\\r\\n")]
        {
            let hint = hint(shell, "backup", dirty(bytes));
            assert!(hint.contains("leave out -t"), "{shell}: {hint}");
        }
        assert!(hint("ssh -p 1", "backup", dirty("hi\\n")).contains("is your shell clean?"));
        let hint = hint("ssh", "backup", SyncError::NoRemoteProgram);
        assert!(hint.ends_with("try `ssh backup deltic --version`"), "{hint}");
    }

    #[test]
    fn an_operand_that_nothing_answers_to_was_meant_otherwise() {
        let meant = |word| meant(OsStr::new(word));
        for (word, told) in [
            ("2222", "-e 'ssh -p 2222' names the port"),
            ("h:2222:/x", "-e 'ssh -p 2222' names the port and 'h:/x' the place"),
            ("C:/x", "/mnt/c"),
        ] {
            assert!(meant(word).is_some_and(|meant| meant.contains(told)), "{word}");
        }
        for word in ["h:/x", "h:22", "h:a:/x", "src", "70000", "./2222", "C:x"] {
            assert_eq!(meant(word), None, "{word}");
        }
    }

    #[test]
    fn a_hint_is_not_for_words_in_a_name() {
        let named = "source ../--help is empty, : '..' leads nowhere in a relative path";
        let usage = SyncError::Usage(named.into());
        assert_eq!(of(&usage, &RemoteMachine::default(), NextRun::Same), None);
        let held = |side| {
            let why = format!("nothing deleted in {named}: 2 of 3 names would be removed");
            let mut trouble = Trouble::new(TroubleKind::DeleteLimit, why);
            trouble.spot.get_or_insert_default().side = Some(side);
            for_trouble(&trouble, true, &mut false)
        };
        assert_eq!(held(Side::Receiver), None);
        assert!(held(Side::Sender).is_some());
    }

    #[test]
    fn a_file_in_use_is_known_by_its_errno() {
        let path = deltic_tree::RelPath::parse(b"db").unwrap();
        let changed = Trouble::at(TroubleKind::Vanished, &path, |path| {
            format!("{path} has changed since it was sent: the source is not removed")
        });
        assert!(for_trouble(&changed, false, &mut false).is_some());
        let errno = Errno::NOENT.raw_os_error().try_into().ok();
        assert!(for_trouble(&changed.with_errno(errno), false, &mut false).is_none());
    }

    #[test]
    fn a_missing_source_with_the_name_of_a_port_may_be_one_and_a_vanished_file_is_none() {
        let far = RemoteMachine { side: Some(Side::Receiver), ..far("ssh", "backup") };
        let path = deltic_tree::RelPath::parse(b"2222").unwrap();
        for (kind, is_told) in [(TroubleKind::Failed, true), (TroubleKind::Vanished, false)] {
            let trouble = Trouble::at(kind, &path, |path| format!("cannot read {path}"));
            let mut trouble = trouble.with_errno(Errno::NOENT.raw_os_error().try_into().ok());
            trouble.locate(Side::Sender, |_| Some((*b"/srv/2222").into()));
            assert_eq!(for_missing(&trouble, &far).is_some(), is_told, "{kind:?}");
        }
    }

    #[test]
    fn a_trouble_of_the_other_machine_names_it() {
        let mut trouble = Trouble::at(
            TroubleKind::Failed,
            &deltic_tree::RelPath::parse(b"closed").unwrap(),
            |path| format!("cannot list {path}/: permission denied"),
        );
        trouble.locate(Side::Sender, |_| Some((*b"/srv/x/closed").into()));
        let told = "cannot list /srv/x/closed/: permission denied";
        let far = |side| RemoteMachine { side, ..far("ssh", "me@backup") };
        assert_eq!(far(Some(Side::Sender)).message(&trouble), format!("backup: {told}"));
        assert_eq!(far(Some(Side::Receiver)).message(&trouble), told);
        assert_eq!(RemoteMachine::default().message(&trouble), told);
    }
}
