//! Codes of changes, in rsync's `--itemize-changes` format: `YXcstpoguax`.
//!
//! `Y` is the kind of update, `X` the kind of entry; then comes one letter for each attribute that changes.

use deltic_net::Plan;
use deltic_net::plan::Destination;
use deltic_protocol::report::{Action, Change, Differs, EntryType};

/// Facts that the format needs besides the change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ItemizeStyle {
    arrow: char,
    /// Letter for a new time on a replaced file: `T` if the time becomes that of the transfer.
    time: char,
    /// True if links nevertheless keep the time of the transfer.
    omits_link_times: bool,
}

impl ItemizeStyle {
    /// Returns the style for the changes of `plan`. As in rsync, the arrow points left only if content leaves this
    /// machine.
    pub(crate) fn of(plan: &Plan) -> Self {
        Self {
            arrow: if matches!(plan.destination, Destination::Remote { .. }) { '<' } else { '>' },
            time: if plan.options.times { 't' } else { 'T' },
            omits_link_times: plan.options.metadata.omit_link_times,
        }
    }

    /// Returns the eleven characters of a change other than a deletion.
    pub(crate) fn code(self, change: &Change) -> String {
        let attributes = match change.action {
            Action::Created => "+++++++++".to_owned(),
            _ => self.attributes(change),
        };
        let local = attributes.chars().all(|c| c == '.') && self.update(change) != self.arrow;
        let attributes = if local { " ".repeat(attributes.len()) } else { attributes };
        format!("{}{}{attributes}", self.update(change), kind(change.item))
    }

    /// True if the change gives the name the time of the run, as rsync reports when times are not preserved.
    pub(crate) fn retimes(self, change: &Change) -> bool {
        let copied = change.action == Action::Copied && change.item == EntryType::File;
        let omits = self.omits_link_times && change.item == EntryType::Symlink;
        (self.time == 'T' || omits) && (copied || change.action == Action::Updated)
    }

    /// Returns `Y`: content is transferred, an entry is created here, a name is linked, or only attributes are set.
    fn update(self, change: &Change) -> char {
        match (change.action, change.item) {
            _ if change.facts.linked.is_some() => 'h',
            (Action::Touched | Action::Unchanged | Action::PassedOver(_), _) => '.',
            (Action::Created | Action::Updated | Action::Deleted, EntryType::File) => self.arrow,
            _ => 'c',
        }
    }

    /// Returns `cstpoguax` for an existing entry.
    fn attributes(self, change: &Change) -> String {
        let Differs { content, size, time, mode, user, group, accessed, acl, xattrs, .. } =
            change.differs;
        let replaced = change.action == Action::Updated;
        let made = change.item != EntryType::File && change.facts.linked.is_none();
        let content = content || (replaced && made);
        let size = size && change.item == EntryType::File;
        let time = time || self.retimes(change);
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

/// Returns `X`, the letter for the kind of entry.
fn kind(item: EntryType) -> char {
    match item {
        EntryType::File => 'f',
        EntryType::Dir => 'd',
        EntryType::Symlink => 'L',
        EntryType::Device => 'D',
        EntryType::Special => 'S',
    }
}

#[cfg(test)]
impl ItemizeStyle {
    /// The style of a push that preserves times.
    pub(crate) const SENDING: Self = Self { arrow: '<', time: 't', omits_link_times: false };
}

#[cfg(test)]
mod tests {
    use super::*;
    use deltic_protocol::report::Facts;
    use deltic_tree::RelPath;

    const PULL: ItemizeStyle = ItemizeStyle { arrow: '>', time: 't', omits_link_times: false };
    const PUSH: ItemizeStyle = ItemizeStyle::SENDING;
    const TIMELESS: ItemizeStyle = ItemizeStyle { arrow: '>', time: 'T', omits_link_times: false };

    fn change(item: EntryType, action: Action, differs: &str) -> Change {
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
            kind: false,
        };
        let (path, facts) = (RelPath::parse(b"d/n").unwrap(), Facts::default());
        Change { path, item, action, differs, facts }
    }

    #[test]
    fn codes_are_those_that_rsync_prints() {
        use Action::{Copied, Created, Touched, Unchanged, Updated};
        use EntryType::{Device, Dir, File, Special, Symlink};
        for (style, item, action, differs, line) in [
            (PULL, File, Created, "", ">f+++++++++"),
            (PUSH, File, Created, "", "<f+++++++++"),
            (PUSH, File, Updated, "st", "<f.st......"),
            (PULL, File, Updated, "c", ">fc........"),
            (PULL, File, Updated, "stp", ">f.stp....."),
            (TIMELESS, File, Updated, "s", ">f.sT......"),
            (PULL, File, Touched, "t", ".f..t......"),
            (PUSH, File, Touched, "p", ".f...p....."),
            (PULL, File, Touched, "", ".f         "),
            (PUSH, File, Unchanged, "", ".f         "),
            (PULL, Dir, Unchanged, "", ".d         "),
            (PUSH, Dir, Created, "", "cd+++++++++"),
            (PULL, Dir, Touched, "t", ".d..t......"),
            (PULL, Symlink, Created, "", "cL+++++++++"),
            (PULL, Symlink, Updated, "", "cLc........"),
            (PULL, Symlink, Updated, "st", "cLc.t......"),
            (ItemizeStyle { omits_link_times: true, ..PULL }, Symlink, Updated, "", "cLc.t......"),
            (TIMELESS, Symlink, Updated, "", "cLc.T......"),
            (PULL, File, Touched, "og", ".f....og..."),
            (PULL, Dir, Touched, "tpogax", ".d..tpog.ax"),
            (PUSH, File, Updated, "sux", "<f.s....u.x"),
            (PULL, Device, Created, "", "cD+++++++++"),
            (PULL, Device, Updated, "t", "cDc.t......"),
            (PULL, Special, Touched, "p", ".S...p....."),
            (PUSH, File, Copied, "", "cf         "),
            (PULL, File, Copied, "tp", "cf..tp....."),
        ] {
            assert_eq!(style.code(&change(item, action, differs)), line);
        }
    }

    #[test]
    fn names_that_are_linked_have_their_own_letter() {
        use Action::{Created, Updated};
        for (style, item, action, differs, line) in [
            (PULL, EntryType::File, Created, "", "hf+++++++++"),
            (PUSH, EntryType::File, Updated, "st", "hf.st......"),
            (PULL, EntryType::File, Updated, "", "hf         "),
            (TIMELESS, EntryType::File, Updated, "", "hf..T......"),
            (PULL, EntryType::Symlink, Updated, "t", "hL..t......"),
        ] {
            let mut change = change(item, action, differs);
            change.facts.linked = Some(change.path.clone());
            assert_eq!(style.code(&change), line);
        }
    }
}
