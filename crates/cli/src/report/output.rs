//! The two output streams.
//!
//! Standard output is one buffered handle. If its reader leaves early (`| head`), writing ends, but the sync does
//! not: files matter more than their names. Standard error gets whole lines; failures to write there are ignored.

use std::io::{self, Write};
use std::mem;
use std::ops::Range;
use std::sync::OnceLock;

use deltic_net::{SyncError, reason};
use deltic_tree::rule::{MAX_MERGE_DEPTH, TOO_DEEP};
use rustix::io::Errno;

use crate::report::exit::Exit;
use crate::words::password::without_passwords;
use crate::words::ways::OptionBehaviour;

/// Standard output, in batches of lines.
pub(crate) struct Output {
    sink: Box<dyn Write + Send>,
    pending: Vec<u8>,
    state: ReaderState,
}

/// State of the reader.
enum ReaderState {
    Open,
    /// The reader left; not a fault.
    Closed,
    /// Writing failed in another way, such as a full disk.
    Failed(io::Error),
}

impl Output {
    /// Returns the process's standard output.
    pub(crate) fn stdout() -> Self {
        Self::new(Box::new(io::stdout()))
    }

    /// Returns the process's standard error, for messages that are no errors.
    pub(crate) fn stderr() -> Self {
        Self::new(Box::new(io::stderr()))
    }

    /// Returns an output that writes lines to `sink`.
    pub(crate) fn new(sink: Box<dyn Write + Send>) -> Self {
        Self { sink, pending: Vec::new(), state: ReaderState::Open }
    }

    /// Adds one line, which is written at the next [`Self::flush`].
    pub(crate) fn line(&mut self, line: impl AsRef<[u8]>) {
        self.text(line);
        self.text(b"\n");
    }

    /// Adds a piece of a line.
    pub(crate) fn text(&mut self, text: impl AsRef<[u8]>) {
        if matches!(self.state, ReaderState::Open) {
            self.pending.extend_from_slice(text.as_ref());
        }
    }

    /// Bytes of lines that wait to be written.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.pending.len()
    }

    /// True if enough bytes wait that a long series of lines should be flushed.
    pub(crate) fn is_full(&self) -> bool {
        self.pending.len() > MAX_WAITING_BYTES
    }

    /// Writes the lines that wait.
    pub(crate) fn flush(&mut self) {
        let lines = mem::take(&mut self.pending);
        if lines.is_empty() || !matches!(self.state, ReaderState::Open) {
            return;
        }
        if let Err(error) = self.sink.write_all(&lines).and_then(|()| self.sink.flush()) {
            let left = error.kind() == io::ErrorKind::BrokenPipe;
            self.state = if left { ReaderState::Closed } else { ReaderState::Failed(error) };
        }
    }

    /// Writes the waiting lines. Returns the error of a failed write, but not a closed pipe (EPIPE).
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.flush();
        match mem::replace(&mut self.state, ReaderState::Closed) {
            ReaderState::Failed(error) => Err(error),
            ReaderState::Open | ReaderState::Closed => Ok(()),
        }
    }
}

/// Writes an error to standard error, [with our name](complaint), and a hint.
pub(crate) fn complain(what: &str, hint: Option<&str>) {
    let hint = hint.map(|hint| format!("  hint: {hint}\n")).unwrap_or_default();
    note(&format!("{}\n{hint}", complaint(what)));
}

/// Most bytes of waiting lines in a long series of lines.
const MAX_WAITING_BYTES: usize = 256 << 10;

/// Returns `deltic: what`; or rsync's message, if the program is called as rsync.
pub(crate) fn complaint(what: &str) -> String {
    if behaves_like_rsync() { in_rsyncs_words(what) } else { format!("deltic: {what}") }
}

/// Returns the error in rsync's words, as far as scripts look for these.
fn in_rsyncs_words(what: &str) -> String {
    // Scripts filter lines that begin with these words.
    if what.starts_with("file has vanished: ") || what.starts_with("directory has vanished: ") {
        return what.to_owned();
    }
    let what = rule_words(what).or_else(|| open_words(what)).unwrap_or_else(|| {
        let action = what.strip_prefix("cannot ");
        let action = action.filter(|action| !action.starts_with("delete non-empty"));
        system_words(action.unwrap_or(what))
    });
    format!("rsync: {what}")
}

/// Returns the message about an invalid rule in rsync's words: `<rule from FILE line N>`, without the text of the
/// line. `None` for other messages.
fn rule_words(what: &str) -> Option<String> {
    let what = what.strip_prefix("cannot read rules ").unwrap_or(what);
    if let Some(file) = what.strip_suffix(TOO_DEEP).and_then(|file| file.strip_suffix(": ")) {
        let limit = format!("merge-file include depth limit ({MAX_MERGE_DEPTH})");
        return Some(format!("{limit} exceeded at {file}"));
    }
    let unknown = |rule: &str| format!("Unknown filter rule: {rule}");
    if let Some(rule) = what.strip_prefix(UNKNOWN_RULE).and_then(|rule| rule.strip_prefix(": '")) {
        return Some(unknown(rule.strip_suffix('\'').unwrap_or(rule)));
    }
    let is_number = |line: &str| !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit());
    let (file, rest) = what.split_once(": line ")?;
    let (line, why) = rest.split_once(": ").filter(|(line, _)| is_number(line))?;
    let why = why.split(": '").next().unwrap_or(why);
    let rule = format!("<rule from {file} line {line}>");
    Some(match why {
        UNKNOWN_RULE => unknown(&rule),
        _ if why.ends_with("filter rule") => format!("{why}: {rule}"),
        _ => format!("{file} line {line}: {why}"),
    })
}

/// Message about a rule of no known kind.
const UNKNOWN_RULE: &str = "unknown filter rule";

/// Returns the message about a file that cannot be opened in rsync's words. `None` for other messages.
fn open_words(what: &str) -> Option<String> {
    let (what, why) = what.rsplit_once(": ")?;
    // A file with an input/output error may be open already.
    let is_of_open = |error: &io::Error| error.raw_os_error() != Some(Errno::IO.raw_os_error());
    let error = system_error(why).filter(is_of_open)?;
    let is_missing = error.kind() == io::ErrorKind::NotFound;
    let failed = if let Some(list) = what.strip_prefix("--files-from: cannot read ") {
        format!("failed to open files-from file {list}")
    } else if let Some(rules) = what.strip_prefix("cannot read rules ") {
        format!("failed to open exclude file {rules}")
    } else {
        let file = what.strip_prefix("cannot read ")?;
        match is_missing {
            _ if file.starts_with("attributes of ") => return None,
            true => format!("[sender] link_stat \"{file}\" failed"),
            false => format!("failed to open \"{file}\""),
        }
    };
    Some(format!("{failed}: {}", numbered(&error)))
}

/// Returns the message with reasons of the system in the system's own words, with their error numbers: scripts look
/// for "No space left on device", for example.
fn system_words(what: &str) -> String {
    let mut parts = what.split(": ");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        let (why, rest) = part.split_at(part.find([',', ';']).unwrap_or(part.len()));
        match system_error(why) {
            Some(error) => format!("{text} failed: {}{rest}", numbered(&error)),
            None => format!("{text}: {part}"),
        }
    })
}

/// Returns the system's error with the reason `why`.
fn system_error(why: &str) -> Option<io::Error> {
    ERRNOS.map(io::Error::from_raw_os_error).find(|error| reason(error) == why)
}

/// Returns the system's words for an error, with its number.
fn numbered(error: &io::Error) -> String {
    error.to_string().replace("(os error ", "(")
}

/// Error numbers of the system.
const ERRNOS: Range<i32> = 1..134;

/// Returns the last line of an unsuccessful run, as in rsync.
pub(crate) fn ending(exit: Exit) -> String {
    let name = if behaves_like_rsync() { "rsync" } else { "deltic" };
    let weight = if exit == Exit::Vanished { "warning" } else { "error" };
    let (words, version) = (exit.words(), env!("CARGO_PKG_VERSION"));
    format!("{name} {weight}: {words} (code {}) at deltic {version}", exit.code())
}

/// True if options [behave like rsync's](OptionBehaviour): messages then have rsync's wording.
pub(crate) fn behaves_like_rsync() -> bool {
    static STANDS_IN: OnceLock<bool> = OnceLock::new();
    *STANDS_IN.get_or_init(|| OptionBehaviour::here() == OptionBehaviour::Rsync)
}

/// Returns the causes of an error, outermost first; system errors without their numbers.
pub(crate) fn words(error: &anyhow::Error) -> String {
    let mut words = Vec::new();
    for cause in error.chain() {
        words.push(cause.downcast_ref().map_or_else(|| cause.to_string(), reason));
        // The message already includes its causes.
        if cause.is::<SyncError>() {
            break;
        }
    }
    words.join(": ")
}

/// Reports that standard output could not be written.
pub(crate) fn complain_unwritten(error: &io::Error) {
    complain(&format!("cannot write standard output: {}", reason(error)), None);
}

/// Writes `text` to standard error in one piece, without the passwords of URLs.
pub(crate) fn note(text: &str) {
    // A failure to write an error cannot be reported.
    let _ = io::stderr().lock().write_all(without_passwords(text).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Broken(io::ErrorKind);

    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn write_to(kind: io::ErrorKind) -> io::Result<()> {
        let mut output = Output::new(Box::new(Broken(kind)));
        output.line("a");
        output.flush();
        output.line("b");
        assert!(output.waiting_bytes() == 0);
        output.finish()
    }

    #[test]
    fn a_reader_that_leaves_is_no_fault() {
        assert!(write_to(io::ErrorKind::BrokenPipe).is_ok());
    }

    #[test]
    fn rsyncs_words_are_those_that_scripts_look_for() {
        for (ours, theirs) in [
            (
                "cannot read a b: no such file or directory",
                "rsync: [sender] link_stat \"a b\" failed: No such file or directory (2)",
            ),
            (
                "cannot read a: permission denied",
                "rsync: failed to open \"a\": Permission denied (13)",
            ),
            ("cannot read a: input/output error", "rsync: read a failed: Input/output error (5)"),
            (
                "cannot read attributes of a: permission denied",
                "rsync: read attributes of a failed: Permission denied (13)",
            ),
            (
                "--files-from: cannot read a: no such file or directory",
                "rsync: failed to open files-from file a: No such file or directory (2)",
            ),
            (
                "cannot write a: b: no space left on device",
                "rsync: write a: b failed: No space left on device (28)",
            ),
            (
                "cannot set a: owner: operation not permitted, mode: permission denied, and 2 more",
                "rsync: set a: owner failed: Operation not permitted (1), mode failed: Permission denied (13), and 2 more",
            ),
            (
                "cannot change a: input/output error; part old",
                "rsync: change a failed: Input/output error (5); part old",
            ),
            (
                "cannot read rules a: line 3: unknown filter rule",
                "rsync: Unknown filter rule: <rule from a line 3>",
            ),
            (
                "a: line 3: unknown filter rule: 'b'",
                "rsync: Unknown filter rule: <rule from a line 3>",
            ),
            ("unknown filter rule: 'a: line 3: b'", "rsync: Unknown filter rule: a: line 3: b"),
            (
                "a: line 3: invalid modifier 'b' in filter rule: '-b c'",
                "rsync: invalid modifier 'b' in filter rule: <rule from a line 3>",
            ),
            (
                "a: line 3: too long a pattern or file name",
                "rsync: a line 3: too long a pattern or file name",
            ),
            (
                "cannot read rules a: too many rule files within rule files",
                "rsync: merge-file include depth limit (8) exceeded at a",
            ),
            ("a: line b: c", "rsync: a: line b: c"),
            (
                "cannot read rules a: no such file or directory",
                "rsync: failed to open exclude file a: No such file or directory (2)",
            ),
            ("file has vanished: \"a\"", "file has vanished: \"a\""),
            ("directory has vanished: \"a\"", "directory has vanished: \"a\""),
            (
                "cannot read a: it changed while it was read",
                "rsync: read a: it changed while it was read",
            ),
        ] {
            assert_eq!(in_rsyncs_words(ours), theirs);
        }
    }

    #[test]
    fn a_full_disk_is_a_fault() {
        assert_eq!(
            write_to(io::ErrorKind::StorageFull).unwrap_err().kind(),
            io::ErrorKind::StorageFull
        );
    }
}
