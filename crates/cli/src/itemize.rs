//! One line for each change, in rsync's `--itemize-changes` format: `YXcstpoguax name`.
//!
//! `Y` is what happens, `X` the kind of entry, then one letter for each attribute that changes.

use deltic_core::RelPath;
use deltic_net::Plan;
use deltic_net::plan::Destination;
use deltic_protocol::report::{Action, Change, Differs, Item};

/// What the format depends on besides the change itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Style {
    arrow: char,
    /// How a new time shows on a file that is replaced: `T` where it becomes the time of the transfer.
    time: char,
}

impl Style {
    /// The style for the changes of `plan`: rsync points left only where content leaves this machine.
    pub(crate) fn of(plan: &Plan) -> Self {
        Self {
            arrow: if matches!(plan.destination, Destination::Remote { .. }) { '<' } else { '>' },
            time: if plan.options.times { 't' } else { 'T' },
        }
    }

    /// The line for `change`.
    pub(crate) fn line(self, change: &Change) -> String {
        match change.action {
            Action::Deleted => format!("*deleting   {}", name(change)),
            _ => format!("{} {}", self.code(change), name(change)),
        }
    }

    /// The eleven characters.
    fn code(self, change: &Change) -> String {
        let attributes = match change.action {
            Action::Created => "+++++++++".to_owned(),
            _ => self.attributes(change),
        };
        let local = attributes.chars().all(|c| c == '.') && self.update(change) != self.arrow;
        let attributes = if local { " ".repeat(attributes.len()) } else { attributes };
        format!("{}{}{attributes}", self.update(change), kind(change.item))
    }

    /// `Y`: content crosses over, something is made here, or only attributes are set.
    fn update(self, change: &Change) -> char {
        match (change.action, change.item) {
            (Action::Touched, _) => '.',
            (_, Item::File) => self.arrow,
            _ => 'c',
        }
    }

    /// `cstpoguax` of something that was there before.
    fn attributes(self, change: &Change) -> String {
        let Differs { content, size, time, mode, user, group, accessed, acl, xattrs } =
            change.differs;
        let replaced = change.action == Action::Updated;
        let content = content || (replaced && change.item != Item::File);
        let size = size && change.item == Item::File;
        let time = time || (replaced && self.time == 'T');
        let letters = [
            (content, 'c'),
            (size, 's'),
            (time, self.time),
            (mode, 'p'),
            (user, 'o'),
            (group, 'g'),
            (accessed, 'u'),
            (acl, 'a'),
            (xattrs, 'x'),
        ];
        letters.map(|(differs, letter)| if differs { letter } else { '.' }).iter().collect()
    }
}

/// The line for `change` without `-i`: its name.
pub(crate) fn plain(change: &Change) -> String {
    match change.action {
        Action::Deleted => format!("deleting {}", name(change)),
        _ => name(change),
    }
}

/// The name, safe to print; a directory's ends in a slash.
fn name(change: &Change) -> String {
    let path: &RelPath = &change.path;
    format!("{path}{}", if change.item == Item::Dir { "/" } else { "" })
}

/// `X`.
fn kind(item: Item) -> char {
    match item {
        Item::File => 'f',
        Item::Dir => 'd',
        Item::Symlink => 'L',
        Item::Device => 'D',
        Item::Special => 'S',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PULL: Style = Style { arrow: '>', time: 't' };
    const PUSH: Style = Style { arrow: '<', time: 't' };
    const TIMELESS: Style = Style { arrow: '>', time: 'T' };

    fn change(item: Item, action: Action, differs: &str) -> Change {
        let has = |letter| differs.contains(letter);
        let differs = Differs {
            content: has('c'),
            size: has('s'),
            time: has('t'),
            mode: has('p'),
            user: has('o'),
            group: has('g'),
            accessed: has('u'),
            acl: has('a'),
            xattrs: has('x'),
        };
        Change { path: RelPath::parse(b"d/n").unwrap(), item, action, differs }
    }

    #[test]
    fn lines_are_those_that_rsync_prints() {
        use Action::{Created, Deleted, Touched, Updated};
        use Item::{Device, Dir, File, Special, Symlink};
        for (style, item, action, differs, line) in [
            (PULL, File, Created, "", ">f+++++++++ d/n"),
            (PUSH, File, Created, "", "<f+++++++++ d/n"),
            (PUSH, File, Updated, "st", "<f.st...... d/n"),
            (PULL, File, Updated, "c", ">fc........ d/n"),
            (PULL, File, Updated, "stp", ">f.stp..... d/n"),
            (TIMELESS, File, Updated, "s", ">f.sT...... d/n"),
            (PULL, File, Touched, "t", ".f..t...... d/n"),
            (PUSH, File, Touched, "p", ".f...p..... d/n"),
            (PULL, File, Touched, "", ".f          d/n"),
            (PUSH, Dir, Created, "", "cd+++++++++ d/n/"),
            (PULL, Dir, Touched, "t", ".d..t...... d/n/"),
            (PULL, Symlink, Created, "", "cL+++++++++ d/n"),
            (PULL, Symlink, Updated, "", "cLc........ d/n"),
            (PULL, Symlink, Updated, "st", "cLc.t...... d/n"),
            (TIMELESS, Symlink, Updated, "", "cLc.T...... d/n"),
            (PULL, File, Touched, "og", ".f....og... d/n"),
            (PULL, Dir, Touched, "tpogax", ".d..tpog.ax d/n/"),
            (PUSH, File, Updated, "sux", "<f.s....u.x d/n"),
            (PULL, Device, Created, "", "cD+++++++++ d/n"),
            (PULL, Device, Updated, "t", "cDc.t...... d/n"),
            (PULL, Special, Touched, "p", ".S...p..... d/n"),
            (PULL, File, Deleted, "", "*deleting   d/n"),
            (PULL, Dir, Deleted, "", "*deleting   d/n/"),
        ] {
            assert_eq!(style.line(&change(item, action, differs)), line);
        }
    }

    #[test]
    fn without_itemizing_only_names_are_printed() {
        assert_eq!(plain(&change(Item::File, Action::Updated, "s")), "d/n");
        assert_eq!(plain(&change(Item::Dir, Action::Deleted, "")), "deleting d/n/");
        let root = Change { path: RelPath::root(), ..change(Item::Dir, Action::Touched, "t") };
        assert_eq!(plain(&root), "./");
    }

    #[test]
    fn a_name_cannot_forge_a_line() {
        let path = RelPath::parse(b"a\n>f+++++++++ b\x1b[2J").unwrap();
        let line = PULL.line(&Change { path, ..change(Item::File, Action::Created, "") });
        assert_eq!(line, ">f+++++++++ a\\n>f+++++++++ b\\u{1b}[2J");
    }
}
