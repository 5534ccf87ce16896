//! The lines of `--list-only`, as rsync writes them: mode, length, time, name.

use std::cmp::Ordering;

use deltic_core::meta::{Device, DeviceClass};
use deltic_core::{Kind, Meta, RelPath};

use crate::escape::Escape;
use crate::numbers::Numbers;
use crate::zone::Zone;

/// What is listed, kept until all is known: it comes in no order.
#[derive(Debug, Default)]
pub(crate) struct List(Vec<(RelPath, Meta)>);

impl List {
    /// Notes an entry.
    pub(crate) fn add(&mut self, path: &RelPath, meta: &Meta) {
        self.0.push((path.clone(), meta.clone()));
    }

    /// A line for each, with the targets of links if these would be brought over, in rsync's order.
    pub(crate) fn lines(mut self, style: Style<'_>) -> impl Iterator<Item = Vec<u8>> {
        self.0.sort_by(|(one, a), (other, b)| {
            order((one.as_bytes(), a.is_dir()), (other.as_bytes(), b.is_dir()))
        });
        self.0.into_iter().map(move |(path, meta)| line(&path, &meta, style))
    }
}

/// How lines are written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style<'a> {
    /// Whether links are brought over: then their targets are shown.
    pub(crate) links: bool,
    /// Whether a second time says when it was last read.
    pub(crate) accessed: bool,
    pub(crate) escape: Escape,
    pub(crate) numbers: Numbers,
    pub(crate) zone: &'a Zone,
}

/// In a directory come first what is none, then directories, each with what is in it. As in rsync the names of directories
/// are compared with the slashes behind them: `a-b/` comes before `a/`.
pub(crate) fn order(
    (one, one_is_dir): (&[u8], bool),
    (other, other_is_dir): (&[u8], bool),
) -> Ordering {
    let [mut a, mut b] = [one, other]
        .map(|path| path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).peekable());
    loop {
        match (a.next(), b.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some(x), Some(y)) if x == y => {}
            (Some(x), Some(y)) => {
                let dirs = (a.peek().is_some() || one_is_dir, b.peek().is_some() || other_is_dir);
                return match dirs {
                    (true, true) => x.iter().chain(b"/").cmp(y.iter().chain(b"/")),
                    _ => dirs.0.cmp(&dirs.1).then_with(|| x.cmp(y)),
                };
            }
        }
    }
}

fn line(path: &RelPath, meta: &Meta, style: Style<'_>) -> Vec<u8> {
    let Style { links, accessed, escape, numbers, zone } = style;
    let len = match &meta.kind {
        Kind::Symlink(target) => target.len() as u64,
        _ => meta.len,
    };
    let (len, time) = (numbers.show(len), zone.shown(meta.modified.secs));
    let path = if path.is_root() { b"." } else { path.as_bytes() };
    // rsync's columns: wider by what may stand between digits.
    let width = if numbers == Numbers::Plain { 11 } else { 14 };
    let mut line = format!("{} {len:>width$} {time} ", mode(meta)).into_bytes();
    if accessed {
        // A directory has none: it is read to be listed.
        let read = meta.accessed().filter(|_| !meta.is_dir());
        let read = read.map_or_else(String::new, |time| zone.shown(time.secs));
        line.extend(format!("{read:>width$} ", width = time.len()).into_bytes());
    }
    line.extend(escape.escaped(path));
    if let Kind::Symlink(target) = &meta.kind
        && links
    {
        line.extend_from_slice(b" -> ");
        line.extend(escape.escaped(target));
    }
    line
}

/// Ten letters, as `ls -l` has them.
fn mode(meta: &Meta) -> String {
    let kind = match meta.kind {
        Kind::File => '-',
        Kind::Dir => 'd',
        Kind::Symlink(_) => 'l',
        Kind::Fifo => 'p',
        Kind::Socket => 's',
        Kind::Device(Device { class: DeviceClass::Char, .. }) => 'c',
        Kind::Device(Device { class: DeviceClass::Block, .. }) => 'b',
    };
    let bits = if matches!(meta.kind, Kind::Symlink(_)) { 0o777 } else { meta.mode };
    let mut text = String::from(kind);
    for (shift, special, letter) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let has = |bit: u32| bits >> shift & bit != 0;
        text.push(if has(4) { 'r' } else { '-' });
        text.push(if has(2) { 'w' } else { '-' });
        text.push(match (bits & special != 0, has(1)) {
            (false, false) => '-',
            (false, true) => 'x',
            (true, false) => letter.to_ascii_uppercase(),
            (true, true) => letter,
        });
    }
    text
}

#[cfg(test)]
mod tests {
    use deltic_core::Timestamp;

    use super::*;

    fn lines(list: List) -> Vec<String> {
        let (escape, numbers) = (Escape::Unprintable, Numbers::default());
        let zone = &Zone::utc();
        let style = Style { links: true, accessed: false, escape, numbers, zone };
        list.lines(style).map(|line| String::from_utf8(line).unwrap()).collect()
    }

    fn line(path: &str, meta: Meta) -> String {
        let mut list = List::default();
        list.add(&RelPath::parse(path.as_bytes()).unwrap(), &meta);
        lines(list).remove(0)
    }

    fn meta(kind: Kind, len: u64, mode: u32) -> Meta {
        Meta::plain(kind, len, Timestamp { secs: 1_664_542_391, nanos: 9 }, mode)
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

    #[test]
    fn files_come_before_directories_and_those_before_what_is_in_them() {
        let mut list = List::default();
        for (path, kind) in
            [("b", Kind::Dir), ("b/x", Kind::File), ("c", Kind::File), ("b-", Kind::Dir)]
        {
            list.add(&RelPath::parse(path.as_bytes()).unwrap(), &meta(kind, 0, 0));
        }
        let names: Vec<_> =
            lines(list).iter().map(|line| line.rsplit(' ').next().unwrap().to_owned()).collect();
        assert_eq!(names, ["c", "b-", "b", "b/x"]);
    }
}
