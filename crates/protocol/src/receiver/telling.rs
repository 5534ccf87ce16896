//! What is told of names and of progress: to whoever watches here, and at the sender.

use deltic_core::{Meta, Name, RelPath};

use crate::message::ToSender;
use crate::report::{Action, Change, Differs, Facts, Item, MadeRoot, Notice, PassedOver, Trouble};

use super::{Receiver, Setting};

impl Receiver {
    /// Counts a name that failed and tells both ends' users.
    pub(super) fn trouble(&mut self, trouble: Trouble) {
        self.totals.failed += 1;
        self.tell_trouble(trouble);
    }

    /// Tells both ends' users what the driver found. Not all of it is a failure.
    pub fn found(&mut self, trouble: Trouble) {
        self.totals.failed += u64::from(!trouble.kind.is_harmless());
        self.tell_trouble(trouble);
    }

    pub(super) fn tell_trouble(&mut self, trouble: Trouble) {
        self.frames.push_back(ToSender::Trouble(trouble.clone()));
        self.notices.push_back(Notice::Trouble(trouble));
    }

    /// Tells both ends' users that the root was not there.
    pub(super) fn tell_root(&mut self) {
        let Setting { made_dirs: dirs, rename, .. } = &self.setting;
        let made = MadeRoot { dirs: *dirs, holds_file: rename.is_some() };
        self.frames.push_back(ToSender::MadeRoot(made));
        self.notices.push_back(Notice::MadeRoot(made));
    }

    /// Tells both ends' users of a change.
    pub(super) fn changed(&mut self, change: Change) {
        self.totals.created += u64::from(change.action == Action::Created);
        let change = self.as_listed(change);
        self.frames.push_back(ToSender::Changed(change.clone()));
        self.notices.push_back(Notice::Changed(change));
    }

    /// The change of what has another name here, as the sender calls it: so does rsync.
    pub(super) fn as_listed(&self, change: Change) -> Change {
        let is_it = |name: &Name| change.path.as_bytes() == name.as_bytes();
        match &self.listed_as {
            Some(listed) if self.setting.rename.as_ref().is_some_and(is_it) => {
                Change { path: listed.clone(), ..change }
            }
            _ => change,
        }
    }

    /// Tells of a name that is up to date, where that is asked for; `linked` if it is another name of something.
    pub(super) fn unchanged(&mut self, path: &RelPath, meta: &Meta, linked: Option<RelPath>) {
        if self.setting.options.tells_unchanged {
            let (path, item, action) = (path.clone(), Item::of(&meta.kind), Action::Unchanged);
            let facts = Facts { linked, ..Facts::of(meta) };
            self.changed(Change { path, item, action, differs: Differs::default(), facts });
        }
    }

    /// Tells of a name that is passed over, where that is asked for.
    pub(super) fn passed_over(&mut self, path: &RelPath, meta: &Meta, why: PassedOver) {
        let Setting { options, tells_passed_over, .. } = &self.setting;
        if !(options.tells_unchanged && *tells_passed_over) {
            return;
        }
        let (item, action, differs) =
            (Item::of(&meta.kind), Action::PassedOver(why), Differs::default());
        let change = Change { path: path.clone(), item, action, differs, facts: Facts::of(meta) };
        // As in rsync what stands in its place is told by its name here.
        let change = match why {
            PassedOver::Large | PassedOver::Small => self.as_listed(change),
            PassedOver::New | PassedOver::Exists | PassedOver::Newer => change,
        };
        self.frames.push_back(ToSender::Changed(change.clone()));
        self.notices.push_back(Notice::Changed(change));
    }

    pub(super) fn report_settled(&mut self, bytes: u64) {
        self.notices.extend(self.progress.settle(bytes));
    }

    pub(super) fn report_listed(&mut self) {
        let (names, files) = (self.totals.listed() + self.left_out, self.totals.files);
        let (bytes, complete) = (self.progress.listed(), self.list.is_complete());
        self.notices.push_back(Notice::Listed { names, files, bytes, complete });
    }
}
