//! Making way: a full directory that stands where a file or link is to be goes first, if deletions are asked for and
//! their limit allows it.

use deltic_core::{Meta, RelPath};

use crate::limits::GUARDED_DELETES;
use crate::message::FileNo;
use crate::options::Delete;
use crate::report::{Change, Trouble, TroubleKind};

use super::file::Candidate;
use super::linking::LaterName;
use super::{Place, Receiver, Removed, Work};

/// What waits until the directory in its place is gone.
#[derive(Debug)]
pub(super) enum Cleared {
    File(Box<Candidate>),
    Other {
        meta: Meta,
        change: Change,
    },
    Name {
        name: LaterName,
        change: Change,
    },
    /// Nothing is to be there: an alternate has it.
    Nothing,
}

impl Receiver {
    /// Removes the directory that stands in an entry's place, once it is known how many names that takes.
    pub(super) fn clear(&mut self, file: FileNo, path: RelPath, entry: Cleared) {
        self.clearing.insert(file, entry);
        let all = Work::CountBelow { dir: path.clone() };
        self.jobs.ask(all, Place::CountBelow { file, path });
    }

    pub(super) fn counted(&mut self, file: FileNo, path: RelPath, below: Result<u64, Trouble>) {
        let names = match below {
            Ok(below) => below.saturating_add(1),
            Err(trouble) => return self.not_counted(file, trouble),
        };
        // How long the list will be is not known yet.
        let options = &self.setting.options;
        let never = options.delete == Delete::Never && !options.remove.force;
        let most = match options.delete {
            Delete::AtMost(most) => most,
            Delete::Guarded | Delete::GuardedOf(_) => GUARDED_DELETES,
            Delete::Never if options.remove.force => GUARDED_DELETES,
            // Only what is empty.
            Delete::Never => 1,
        };
        if never && names > most {
            let message = format!("replace {path}: directory not empty");
            let trouble = Trouble { kind: TroubleKind::Failed, message };
            return self.cleared(file, Removed::nothing(trouble));
        }
        // What is empty gives way whatever the limit: nothing is lost.
        let lost = if names > 1 { names } else { 0 };
        if !self.deleting.clear(lost, most) {
            let message = format!(
                "replace {path}: {names} names in that directory would go, with others more than {most}; \
                 --delete with --max-delete or --force-delete allows it"
            );
            let trouble = Trouble { kind: TroubleKind::DeleteLimit, message };
            return self.cleared(file, Removed::nothing(trouble));
        }
        // Where nothing is to be, what is protected stays.
        let is_deleted = matches!(self.clearing.get(&file), Some(Cleared::Nothing));
        let work = if is_deleted { Work::Remove { path } } else { Work::MakeWay { path } };
        self.jobs.ask(work, Place::Clear { file });
    }

    /// A directory that may not be listed is not removed name by name; if it is empty, it gives way to what is put there.
    fn not_counted(&mut self, file: FileNo, trouble: Trouble) {
        match self.clearing.remove(&file) {
            Some(Cleared::File(candidate)) => self.enqueue(*candidate),
            Some(Cleared::Other { meta, change }) => self.make_other(meta, change),
            Some(Cleared::Name { name, change }) => self.make_link(file, name, change),
            Some(Cleared::Nothing) => self.trouble(trouble),
            None => {}
        }
    }

    pub(super) fn cleared(&mut self, file: FileNo, removed: Removed) {
        let Some(entry) = self.clearing.remove(&file) else { return };
        if self.setting.options.clears() {
            self.totals.deleted += removed.names;
        }
        if removed.troubles.is_empty() {
            return match entry {
                Cleared::File(mut candidate) => {
                    candidate.seen = None;
                    self.enqueue(*candidate);
                }
                Cleared::Other { meta, change } => self.make_other(meta, change),
                Cleared::Name { mut name, change } => {
                    name.seen = None;
                    self.make_link(file, name, change);
                }
                Cleared::Nothing => {}
            };
        }
        match entry {
            Cleared::File(candidate) => {
                self.report_settled(candidate.meta.len);
                self.miss(file);
            }
            Cleared::Other { change, .. } => {
                self.arrivals.take(&change.path);
                self.miss(file);
            }
            Cleared::Name { change, .. } => self.report_settled(change.facts.len),
            Cleared::Nothing => {}
        }
        // Whatever kept the directory, the entry cannot come.
        for Trouble { message, .. } in removed.troubles {
            self.trouble(Trouble { kind: TroubleKind::Failed, message });
        }
    }
}
