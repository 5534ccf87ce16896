//! The lines of `--list-only`, as rsync writes them: mode, length, time, name.

use std::cmp::Ordering;

use deltic_core::meta::{Device, DeviceClass};
use deltic_core::path::printable;
use deltic_core::{Kind, Meta, RelPath, Timestamp};
use indicatif::HumanCount;

/// What is listed, kept until all is known: it comes in no order.
#[derive(Debug, Default)]
pub(crate) struct List(Vec<(RelPath, Meta)>);

impl List {
    /// Notes an entry.
    pub(crate) fn add(&mut self, path: &RelPath, meta: &Meta) {
        self.0.push((path.clone(), meta.clone()));
    }

    /// A line for each, with the targets of links if these would be brought over, in rsync's order.
    pub(crate) fn lines(mut self, links: bool) -> impl Iterator<Item = String> {
        self.0.sort_by(|(one, a), (other, b)| order((one, a.is_dir()), (other, b.is_dir())));
        self.0.into_iter().map(move |(path, meta)| line(&path, &meta, links))
    }
}

/// In a directory come first what is none, then directories, each with what is in it.
fn order((one, one_is_dir): (&RelPath, bool), (other, other_is_dir): (&RelPath, bool)) -> Ordering {
    let (mut a, mut b) = (one.components().peekable(), other.components().peekable());
    loop {
        match (a.next(), b.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some(x), Some(y)) if x == y => {}
            (Some(x), Some(y)) => {
                let dirs = (a.peek().is_some() || one_is_dir, b.peek().is_some() || other_is_dir);
                return dirs.0.cmp(&dirs.1).then_with(|| x.cmp(y));
            }
        }
    }
}

fn line(path: &RelPath, meta: &Meta, links: bool) -> String {
    let target = match &meta.kind {
        Kind::Symlink(target) if links => format!(" -> {}", printable(target)),
        _ => String::new(),
    };
    let len = match &meta.kind {
        Kind::Symlink(target) => target.len() as u64,
        _ => meta.len,
    };
    let (mode, len, time) = (mode(meta), HumanCount(len).to_string(), time(meta.modified));
    format!("{mode} {len:>14} {time} {path}{target}")
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

/// The time in UTC.
fn time(at: Timestamp) -> String {
    let (days, secs) = (at.secs.div_euclid(86_400), at.secs.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (secs / 3600, secs / 60 % 60, secs % 60);
    format!("{year:04}/{month:02}/{day:02} {hour:02}:{minute:02}:{second:02}")
}

/// The date so many days after 1970-01-01 (Gregorian). Years begin in March here, so that the leap day is the last.
fn civil(days: i64) -> (i64, i64, i64) {
    const ERA_DAYS: i64 = 146_097;
    let since = days + 719_468;
    let (era, day) = (since.div_euclid(ERA_DAYS), since.rem_euclid(ERA_DAYS));
    let year = (day - day / 1460 + day / 36_524 - day / (ERA_DAYS - 1)) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(kind: Kind, len: u64, mode: u32) -> Meta {
        Meta::plain(kind, len, Timestamp { secs: 1_664_542_391, nanos: 9 }, mode)
    }

    #[test]
    fn lines_are_those_of_rsync() {
        let path = RelPath::parse(b"support/Makefile").unwrap();
        assert_eq!(
            line(&path, &meta(Kind::File, 8_012, 0o4644), true),
            "-rwSr--r--          8,012 2022/09/30 12:53:11 support/Makefile"
        );
        let link = meta(Kind::Symlink(b"../x"[..].into()), 0, 0o777);
        assert!(
            line(&path, &link, true).ends_with("4 2022/09/30 12:53:11 support/Makefile -> ../x")
        );
    }

    #[test]
    fn dates_are_right_around_leap_days_and_before_1970() {
        for (secs, text) in [
            (0, "1970/01/01 00:00:00"),
            (-1, "1969/12/31 23:59:59"),
            (951_782_400, "2000/02/29 00:00:00"),
            (4_107_542_400, "2100/03/01 00:00:00"),
        ] {
            assert_eq!(time(Timestamp { secs, nanos: 0 }), text);
        }
    }

    #[test]
    fn files_come_before_directories_and_those_before_what_is_in_them() {
        let mut list = List::default();
        for (path, kind) in
            [("b", Kind::Dir), ("b/x", Kind::File), ("c", Kind::File), ("a", Kind::Dir)]
        {
            list.add(&RelPath::parse(path.as_bytes()).unwrap(), &meta(kind, 0, 0));
        }
        let names: Vec<_> =
            list.lines(true).map(|line| line.rsplit(' ').next().unwrap().to_owned()).collect();
        assert_eq!(names, ["c", "a", "b", "b/x"]);
    }
}
