//! `--out-format` and `--log-file-format`: rsync's escapes for one line per change.

use std::path::{Path, PathBuf};

use std::os::unix::ffi::OsStrExt;

use deltic_net::Plan;
use deltic_net::plan::{Destination, Sources};
use deltic_protocol::report::{Action, Change, EntryType, MadeRoot};
use deltic_tree::path::printable;

use crate::report::escape::Escape;
use crate::report::itemize::ItemizeStyle;
use crate::report::numbers::NumberStyle;
use crate::words::zone::Zone;

/// A line format: text, and escapes for the facts of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LineFormat(Vec<FormatPart>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum FormatPart {
    Text(Vec<u8>),
    Escape(FormatEscape),
}

/// An escape such as `%-10l`: letter and width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FormatEscape {
    what: u8,
    width: usize,
    left: bool,
    numbers: NumberStyle,
}

/// Facts of a run that lines show besides the change.
#[derive(Clone, Debug)]
pub(crate) struct FormatContext {
    style: ItemizeStyle,
    /// `send` or `recv`.
    operation: &'static str,
    sources: Vec<PathBuf>,
    destination: Vec<u8>,
    /// True if missing directories above the destination are created as well.
    mkpath: bool,
    zone: Zone,
}

impl FormatContext {
    /// Takes the facts from `plan`.
    pub(crate) fn of(plan: &Plan) -> Self {
        let (operation, sources) = match &plan.sources {
            Sources::Local(paths) => ("send", paths.clone()),
            Sources::Remote { .. } => ("recv", Vec::new()),
        };
        let destination = match &plan.destination {
            Destination::Local(path) => path.as_os_str(),
            Destination::Remote { path, .. } => path,
        };
        let destination = destination.as_bytes().to_vec();
        let (style, mkpath, zone) =
            (ItemizeStyle::of(plan), plan.options.select.mkpath, Zone::here());
        Self { style, operation, sources, destination, mkpath, zone }
    }

    /// Returns rsync's first lines, about a destination that is created.
    pub(crate) fn made_root(&self, made: MadeRoot, dry_run: bool) -> Vec<Vec<u8>> {
        let MadeRoot { dirs, holds_file } = made;
        let path = self.destination.strip_suffix(b"/").unwrap_or(&self.destination);
        let above = path.iter().rposition(|byte| *byte == b'/').map_or(&b"."[..], |at| &path[..at]);
        let path = if holds_file { above } else { path };
        let ending = if dirs == 1 { "y" } else { "ies" };
        let all = self.mkpath.then(|| format!("created {dirs} director{ending} for "));
        let own = !self.mkpath || dry_run && !holds_file;
        let own = own.then(|| "created directory ".to_owned());
        all.into_iter().chain(own).map(|words| [words.as_bytes(), path].concat()).collect()
    }

    /// True if the change gives an entry from an alternate the time of the run.
    pub(crate) fn retimes(&self, change: &Change) -> bool {
        self.style.retimes(change)
    }

    /// The time zone of this machine.
    pub(crate) const fn zone(&self) -> &Zone {
        &self.zone
    }

    /// Returns the local time for `secs` seconds since 1970.
    pub(crate) fn time(&self, secs: i64) -> String {
        self.zone.format_time(secs)
    }

    /// Returns the name after the path of the source, if the source is local and known. Of several sources that stand
    /// for their contents, the first is used.
    fn long_name(&self, change: &Change) -> Vec<u8> {
        let path = change.path.as_bytes();
        let first = path.split(|byte| *byte == b'/').next().unwrap_or_default();
        let whole = |source: &&PathBuf| source.as_os_str().as_bytes().ends_with(b"/");
        let named = self.sources.iter().filter(|source| !whole(source));
        let named = named.clone().find(|s| s.file_name().is_some_and(|n| n.as_bytes() == first));
        let above = match (named, self.sources.iter().find(whole)) {
            (Some(source), _) => source.parent(),
            (None, source) => source.map(PathBuf::as_path),
        };
        let above = above.map_or(&b""[..], |above| above.as_os_str().as_bytes());
        let parts = above.split(|byte| *byte == b'/').filter(|part| !matches!(*part, b"" | b"."));
        let above = parts.collect::<Vec<_>>().join(&b'/');
        let name = if path.is_empty() { b"." } else { path };
        if above.is_empty() { name.to_vec() } else { [&above[..], b"/", name].concat() }
    }
}

impl LineFormat {
    /// Parses `text`; unknown escapes stand for themselves.
    pub(crate) fn new(text: &[u8]) -> Self {
        let (mut pieces, mut rest) = (Vec::new(), text);
        while let Some(at) = rest.iter().position(|byte| *byte == b'%') {
            let (before, escape) = rest.split_at(at);
            push_text(&mut pieces, before);
            match FormatEscape::parse(&escape[1..]) {
                Some((place, len)) => {
                    pieces.push(FormatPart::Escape(place));
                    rest = &escape[1 + len..];
                }
                None => {
                    push_text(&mut pieces, b"%");
                    rest = &escape[1..];
                }
            }
        }
        push_text(&mut pieces, rest);
        Self(pieces)
    }

    /// True if the format itemizes: then names are shown whatever changed.
    pub(crate) fn itemizes(&self) -> bool {
        self.has(b"i")
    }

    /// True if the format can tell a deletion from other changes.
    fn tells_deletions(&self) -> bool {
        self.has(b"io")
    }

    /// True if the format shows owners.
    pub(crate) fn tells_owners(&self) -> bool {
        self.has(b"UG")
    }

    /// True if the format shows digests of files.
    pub(crate) fn tells_digests(&self) -> bool {
        self.has(b"C")
    }

    fn has(&self, escapes: &[u8]) -> bool {
        let is = |piece: &FormatPart| matches!(piece, FormatPart::Escape(place) if escapes.contains(&place.what));
        self.0.iter().any(is)
    }

    /// Returns the line for `change`, without its newline.
    pub(crate) fn line(&self, change: &Change, setting: &FormatContext, escape: Escape) -> Vec<u8> {
        if change.action == Action::Deleted && !self.tells_deletions() {
            return [b"deleting ", &*escape.escaped(&name(change))].concat();
        }
        let mut line = Vec::new();
        for piece in &self.0 {
            match piece {
                FormatPart::Text(text) => line.extend_from_slice(text),
                FormatPart::Escape(place) => {
                    line.extend(escape.escaped(&place.of(change, setting)))
                }
            }
        }
        line
    }
}

/// Returns the line for changed attributes without `--itemize-changes`: the name alone, as in rsync.
pub(crate) fn plain(change: &Change, escape: Escape) -> Vec<u8> {
    escape.escaped(&name(change))
}

/// Returns the line for a name that is up to date, if changes are not itemized.
pub(crate) fn up_to_date(change: &Change, escape: Escape) -> Vec<u8> {
    [&*escape.escaped(&name(change)), b" is uptodate"].concat()
}

fn push_text(pieces: &mut Vec<FormatPart>, text: &[u8]) {
    match pieces.last_mut() {
        _ if text.is_empty() => {}
        Some(FormatPart::Text(last)) => last.extend_from_slice(text),
        _ => pieces.push(FormatPart::Text(text.to_vec())),
    }
}

impl FormatEscape {
    /// Parses the text after a percent sign. Returns the escape and its length in bytes.
    fn parse(text: &[u8]) -> Option<(Self, usize)> {
        let run = |from: usize, is: fn(&u8) -> bool| {
            text[from..].iter().take_while(|byte| is(byte)).count()
        };
        let marks = run(0, |byte| *byte == b'\'');
        let left = text.get(marks) == Some(&b'-');
        let digits = marks + usize::from(left);
        let count = run(digits, u8::is_ascii_digit);
        if count + usize::from(left) > MAX_WIDTH_DIGITS {
            return None;
        }
        let more = run(digits + count, |byte| *byte == b'\'');
        let at = digits + count + more;
        let what = *text.get(at).filter(|what| KNOWN.contains(what))?;
        let width = std::str::from_utf8(&text[digits..digits + count]).ok()?;
        let width = if width.is_empty() { 0 } else { width.parse().ok()? };
        let numbers = match marks + more {
            0 => NumberStyle::Plain,
            1 => NumberStyle::Grouped,
            2 => NumberStyle::Thousands,
            _ => NumberStyle::Binary,
        };
        (width <= MAX_WIDTH).then_some((Self { what, width, left, numbers }, at + 1))
    }

    /// Returns the value of the escape.
    fn of(self, change: &Change, setting: &FormatContext) -> Vec<u8> {
        let mut text = self.value(change, setting);
        // An arrow has a width of its own, even if blank, as in rsync.
        let arrow =
            if self.what == b'L' && (self.width > 0 || self.left) { ARROW_BYTES } else { 0 };
        text.resize(text.len().max(arrow), b' ');
        let missing = (self.width + arrow).saturating_sub(text.len());
        let blanks = std::iter::repeat_n(b' ', missing);
        let at = if self.left { text.len() } else { arrow };
        text.splice(at..at, blanks);
        text
    }

    fn value(self, change: &Change, setting: &FormatContext) -> Vec<u8> {
        let facts = &change.facts;
        let deleted = change.action == Action::Deleted;
        let text = match self.what {
            b'n' => return name(change),
            b'f' if deleted => return change.path.as_bytes().to_vec(),
            b'f' => return setting.long_name(change),
            b'L' => {
                let made = facts.linked.as_ref().filter(|_| change.action != Action::Unchanged);
                let linked = made.map(|first| [b" => ", first.as_bytes()]);
                let target = facts.target.as_deref().map(|target| [b" -> ", target]);
                return linked.or(target).map_or_else(Vec::new, |words| words.concat());
            }
            b'i' if deleted => "*deleting  ".into(),
            b'i' => setting.style.code(change),
            b'o' if deleted => "del.".into(),
            b'o' => setting.operation.into(),
            b'l' => self.numbers.show(match &facts.target {
                Some(target) => target.len() as u64,
                None => facts.len,
            }),
            b'b' => self.numbers.show(facts.literal),
            b'c' => "0".into(),
            b'M' => setting.time(facts.modified.secs).replace(' ', "-"),
            b't' => setting.time(now()),
            b'p' => std::process::id().to_string(),
            b'B' => permissions(facts.mode),
            b'C' => {
                facts.digest.map_or_else(|| " ".repeat(DIGEST_LEN), |digest| digest.to_string())
            }
            b'U' => facts.owner.user.unwrap_or(0).to_string(),
            b'G' if deleted => "0".into(),
            b'G' => facts.owner.group.map_or_else(|| "DEFAULT".into(), |group| group.to_string()),
            b'%' => "%".into(),
            _ => String::new(),
        };
        text.into_bytes()
    }
}

/// Seconds since 1970.
pub(crate) fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs() as i64)
}

/// Returns the name; that of a directory ends in a slash.
fn name(change: &Change) -> Vec<u8> {
    let path = change.path.as_bytes();
    let path = if path.is_empty() { b"." } else { path };
    let slash: &[u8] = if change.item == EntryType::Dir { b"/" } else { b"" };
    [path, slash].concat()
}

/// Returns the permissions in the form `rwxr-x--T`.
fn permissions(mode: u32) -> String {
    let letter = |bit: u32| {
        let has = mode >> bit & 1 == 1;
        let special = [(6, 11, 's', 'S'), (3, 10, 's', 'S'), (0, 9, 't', 'T')];
        match special.iter().find(|(of, with, ..)| *of == bit && mode >> with & 1 == 1) {
            Some((.., small, large)) => {
                if has {
                    *small
                } else {
                    *large
                }
            }
            None if has => ['x', 'w', 'r'][bit as usize % 3],
            None => '-',
        }
    };
    (0..9).rev().map(letter).collect()
}

/// Letters of the supported escapes; `%a`, `%h`, `%P` and `%u` are for rsync's daemons and stand for themselves, as
/// in rsync.
const KNOWN: &[u8] = b"nfLiolbcMtpBCUGm%";
/// Length of ` -> ` and ` => ` in bytes.
const ARROW_BYTES: usize = 4;
/// Largest width of a column, in characters.
const MAX_WIDTH: usize = 4096;
/// Most digits of a width, counting the minus sign. As in rsync, an escape with more digits stands for itself.
const MAX_WIDTH_DIGITS: usize = 23;
/// Length of a digest in hexadecimal digits.
const DIGEST_LEN: usize = 64;

/// Format of rsync's `-v`.
pub(crate) const NAMES: &[u8] = b"%n%L";
/// Format of rsync's `-i`, and of its log.
pub(crate) const ITEMIZED: &[u8] = b"%i %n%L";

/// Returns the message about a file that could not be opened.
pub(crate) fn unopened(path: &Path, error: &std::io::Error) -> String {
    format!("cannot open {}: {}", printable(path.as_os_str().as_bytes()), deltic_net::reason(error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use deltic_protocol::report::{Differs, Facts};
    use deltic_tree::meta::Owner;
    use deltic_tree::{RelPath, Timestamp};

    fn setting(sources: &[&str]) -> FormatContext {
        FormatContext {
            style: ItemizeStyle::SENDING,
            operation: "send",
            sources: sources.iter().map(PathBuf::from).collect(),
            destination: b"to/".to_vec(),
            mkpath: false,
            zone: Zone::utc(),
        }
    }

    fn change(path: &str, item: EntryType, action: Action) -> Change {
        let facts = Facts {
            len: 1_234_567,
            modified: Timestamp { secs: 1_000_000_000, nanos: 5 },
            mode: 0o4751,
            owner: Owner { user: Some(7), group: None },
            target: (item == EntryType::Symlink).then(|| b"to\n".as_slice().into()),
            linked: None,
            literal: 77,
            from: None,
            digest: Some(deltic_core::Digest::from_bytes([0xab; 32])),
        };
        let path = RelPath::parse(path.as_bytes()).unwrap();
        Change { path, item, action, differs: Differs::default(), facts }
    }

    fn line(format: &str, change: &Change) -> String {
        let line = LineFormat::new(format.as_bytes()).line(
            change,
            &setting(&["/top/s/"]),
            Escape::default(),
        );
        String::from_utf8(line).unwrap()
    }

    #[test]
    fn escapes_are_those_of_rsync() {
        let file = change("d/f", EntryType::File, Action::Created);
        for (format, shown) in [
            ("%i %n%L", "<f+++++++++ d/f"),
            ("%o %l %b %c", "send 1234567 77 0"),
            (
                "[%'l] [%''l] [%'''l] [%12l] [%-12l] [%'12l]",
                "[1,234,567] [1.23M] [1.18M] [     1234567] [1234567     ] [   1,234,567]",
            ),
            ("%M|%B|%U|%G|%m|%P", "2001/09/09-01:46:40|rwsr-x--x|7|DEFAULT||%P"),
            ("%f", "top/s/d/f"),
            ("100% %q %% %h %a %u %", "100% %q % %h %a %u %"),
            ("%-5n|%5o|", "d/f  | send|"),
            (
                "%00000000000000000000005o|%000000000000000000000005%o",
                " send|%000000000000000000000005send",
            ),
        ] {
            assert_eq!(line(format, &file), shown, "{format}");
        }
        assert_eq!(
            line("%n%L", &change("l", EntryType::Symlink, Action::Created)),
            "l -> to\\#012"
        );
        let mut linked = change("b", EntryType::Symlink, Action::Created);
        linked.facts.linked = Some(RelPath::parse(b"d/a").unwrap());
        assert_eq!(line("%i %n%L", &linked), "hL+++++++++ b => d/a");
        assert_eq!(
            line("%n|%f", &change("", EntryType::Dir, Action::Created)),
            ".//|top/s/.".replace("//", "/")
        );
    }

    #[test]
    fn deletions_have_their_own_words_unless_the_format_tells_them() {
        let gone = change("d", EntryType::Dir, Action::Deleted);
        assert_eq!(line("%n", &gone), "deleting d/");
        assert_eq!(line("%i %n%L", &gone), "*deleting   d/");
        assert_eq!(line("%o %n", &gone), "del. d/");
    }

    #[test]
    fn a_long_name_begins_with_its_source() {
        let long = |sources: &[&str], path| {
            let change = change(path, EntryType::File, Action::Created);
            String::from_utf8(setting(sources).long_name(&change)).unwrap()
        };
        assert_eq!(long(&["a/b"], "b/f"), "a/b/f");
        assert_eq!(long(&["x/", "a/b"], "b/f"), "a/b/f");
        assert_eq!(long(&["x/", "a/b"], "c"), "x/c");
        assert_eq!(long(&["b"], "b"), "b");
        assert_eq!(long(&[], "b/f"), "b/f");
    }

    #[test]
    fn permissions_show_special_bits() {
        let shown = [0o755, 0o4644, 0o2755, 0o1777, 0o1666].map(permissions);
        assert_eq!(shown, ["rwxr-xr-x", "rwSr--r--", "rwxr-sr-x", "rwxrwxrwt", "rw-rw-rwT"]);
    }
}
