//! Lines of `--list-only`, as rsync writes them: mode, length, time, name.

use deltic_core::packed::OutOfRoom;
use deltic_core::{CodecError, Put, Reader};
use deltic_tree::meta::{Device, DeviceClass};
use deltic_tree::{EntryType, Kind, Meta, RelPath};

use crate::report::escape::Escape;
use crate::report::numbers::NumberStyle;
use crate::report::ordered::PathTexts;
use crate::words::zone::Zone;

/// Listed entries, kept until all entries are known: entries come in any order.
#[derive(Debug, Default)]
pub(crate) struct ListedEntries(PathTexts);

/// Facts of an entry that a line shows besides its path.
struct EntryFacts<'a> {
    kind: u8,
    mode: u32,
    len: u64,
    modified: i64,
    accessed: Option<i64>,
    target: &'a [u8],
}

impl ListedEntries {
    /// Adds an entry.
    ///
    /// # Errors
    /// [`OutOfRoom`] if there is no room for the entry.
    pub(crate) fn add(&mut self, path: &RelPath, meta: &Meta) -> Result<(), OutOfRoom> {
        self.0.push(path, EntryType::of(&meta.kind), &EntryFacts::of(meta).packed())
    }

    /// Calls `say` with the line of each entry, in rsync's order.
    pub(crate) fn say(&mut self, style: ListStyle<'_>, mut say: impl FnMut(&[u8])) {
        let Self(list) = std::mem::take(self);
        list.by_name(|path, shown| {
            let shown = EntryFacts::unpacked(shown).expect("it was put there whole");
            say(&line(path, &shown, style));
        });
    }
}

impl<'a> EntryFacts<'a> {
    fn of(meta: &'a Meta) -> Self {
        let target: &[u8] = match &meta.kind {
            Kind::Symlink(target) => target,
            _ => b"",
        };
        Self {
            kind: letter(&meta.kind),
            mode: if meta.is_symlink() { 0o777 } else { meta.mode },
            len: if meta.is_symlink() { target.len() as u64 } else { meta.len },
            modified: meta.modified.secs,
            // No access time for directories: listing a directory changes the time.
            accessed: meta.accessed().filter(|_| !meta.is_dir()).map(|time| time.secs),
            target,
        }
    }

    fn packed(&self) -> Vec<u8> {
        let mut bytes = vec![self.kind];
        bytes.put_varint(u64::from(self.mode) << 1 | u64::from(self.accessed.is_some()));
        bytes.put_varint(self.len);
        bytes.put_signed(self.modified);
        self.accessed.iter().for_each(|time| bytes.put_signed(*time));
        bytes.put_bytes(self.target);
        bytes
    }

    fn unpacked(bytes: &'a [u8]) -> Result<Self, CodecError> {
        let mut bytes = Reader::new(bytes);
        let (kind, mode) = (bytes.u8()?, bytes.varint_u32()?);
        Ok(Self {
            kind,
            mode: mode >> 1,
            len: bytes.varint()?,
            modified: bytes.signed()?,
            accessed: if mode & 1 == 1 { Some(bytes.signed()?) } else { None },
            target: bytes.rest(),
        })
    }
}

/// Style of the lines.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListStyle<'a> {
    /// True if links are transferred: then their targets are shown.
    pub(crate) links: bool,
    /// True if a second time, of the last access, is shown.
    pub(crate) accessed: bool,
    pub(crate) escape: Escape,
    pub(crate) numbers: NumberStyle,
    pub(crate) zone: &'a Zone,
}

fn line(path: &[u8], shown: &EntryFacts<'_>, style: ListStyle<'_>) -> Vec<u8> {
    let ListStyle { links, accessed, escape, numbers, zone } = style;
    let (len, time) = (numbers.show(shown.len), zone.format_time(shown.modified));
    // rsync's columns: wider if digits are grouped.
    let width = if numbers == NumberStyle::Plain { 11 } else { 14 };
    let mut line = format!("{} {len:>width$} {time} ", mode(shown)).into_bytes();
    if accessed {
        let read = shown.accessed.map_or_else(String::new, |time| zone.format_time(time));
        line.extend(format!("{read:>width$} ", width = time.len()).into_bytes());
    }
    line.extend(escape.escaped(if path.is_empty() { b"." } else { path }));
    if shown.kind == LINK && links {
        line.extend_from_slice(b" -> ");
        line.extend(escape.escaped(shown.target));
    }
    line
}

/// Returns ten letters, as `ls -l` shows them.
fn mode(shown: &EntryFacts<'_>) -> String {
    let mut text = String::from(char::from(shown.kind));
    for (shift, special, letter) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let has = |bit: u32| shown.mode >> shift & bit != 0;
        text.push(if has(4) { 'r' } else { '-' });
        text.push(if has(2) { 'w' } else { '-' });
        text.push(match (shown.mode & special != 0, has(1)) {
            (false, false) => '-',
            (false, true) => 'x',
            (true, false) => letter.to_ascii_uppercase(),
            (true, true) => letter,
        });
    }
    text
}

/// Returns the first letter of the mode.
const fn letter(kind: &Kind) -> u8 {
    match kind {
        Kind::File => b'-',
        Kind::Dir => b'd',
        Kind::Symlink(_) => LINK,
        Kind::Fifo => b'p',
        Kind::Socket => b's',
        Kind::Device(Device { class: DeviceClass::Char, .. }) => b'c',
        Kind::Device(Device { class: DeviceClass::Block, .. }) => b'b',
    }
}

const LINK: u8 = b'l';

#[cfg(test)]
mod tests {
    use deltic_tree::Timestamp;

    use super::*;

    fn line(path: &str, meta: Meta) -> String {
        let (mut list, mut lines) = (ListedEntries::default(), Vec::new());
        list.add(&RelPath::parse(path.as_bytes()).unwrap(), &meta).unwrap();
        let (escape, numbers) = (Escape::Unprintable, NumberStyle::default());
        let zone = &Zone::utc();
        let style = ListStyle { links: true, accessed: false, escape, numbers, zone };
        list.say(style, |line| lines.push(String::from_utf8(line.to_vec()).unwrap()));
        lines.remove(0)
    }

    fn meta(kind: Kind, len: u64, mode: u32) -> Meta {
        Meta::without_owner(kind, len, Timestamp { secs: 1_664_542_391, nanos: 9 }, mode)
    }

    #[test]
    fn lines_are_those_of_rsync() {
        assert_eq!(
            line("support/Makefile", meta(Kind::File, 8_012, 0o4644)),
            "-rwSr--r--          8,012 2022/09/30 12:53:11 support/Makefile"
        );
        let link = meta(Kind::Symlink(b"../x\n"[..].into()), 0, 0o777);
        assert!(line("a\nb", link).ends_with(r"5 2022/09/30 12:53:11 a\#012b -> ../x\#012"));
    }
}
