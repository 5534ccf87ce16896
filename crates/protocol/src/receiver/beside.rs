//! Alternates: other trees of the receiver that may have a file already, or something like it (`--compare-dest`,
//! `--copy-dest`, `--link-dest`).
//!
//! ```text
//! decide ──► LookBeside ──► all agrees:      leave it out, copy or link it, as the alternates are used
//!                       ──► content agrees:  copy it, with the sender's attributes
//!                       ──► a file is there: match against it
//!                       ──► nothing:         as if there were no alternates
//! ```
//!
//! Where content is compared (`-c`) nothing agrees before it was: the file goes by recipe, and is dealt with once the
//! alternate's bytes have proved to be the sender's.

use deltic_tree::meta::Linked;
use deltic_tree::{Kind, Meta, RelPath};

use crate::message::{Done, FileNo};
use crate::options::AlternateUse;
use crate::report::{Action, Change, Differs, EntryType, Facts};
use crate::work::{Handle, Setback, Then};

use super::clearing::Cleared;
use super::compare::{Quick, attributes, quick};
use super::{Place, Receiver, Removed, Work};

/// An entry that waits for what the alternates have in its place.
#[derive(Debug)]
pub(super) struct Waiting {
    path: RelPath,
    pub(super) meta: Meta,
    /// What stands in its place here.
    pub(super) seen: Option<Meta>,
}

/// What an alternate has.
#[derive(Clone, Debug)]
pub(super) struct Beside {
    /// Which one.
    pub(super) alternate: usize,
    /// What is there.
    pub(super) is: Meta,
    /// How much of it is as it should be.
    likeness: Likeness,
}

/// How much of what an alternate has is as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Likeness {
    /// It is of the kind.
    Kind,
    /// So are its attributes, and perhaps its content.
    Unproven,
    /// Its content is.
    Content,
    /// So are its attributes.
    All,
}

impl Beside {
    /// Whether all of it is as it should be.
    pub(super) fn is_it(&self) -> bool {
        self.likeness == Likeness::All
    }

    /// Whether its bytes may be the new version, and are to be compared.
    pub(super) fn may_be_it(&self, checksum: bool, meta: &Meta) -> bool {
        checksum && self.is.len == meta.len && meta.len > 0
    }
}

/// Whether what stands in a place is known to be a name of the file that the alternate has.
fn is_same(seen: &Option<Meta>, is: &Meta) -> bool {
    let inode = |meta: &Meta| meta.linked().and_then(Linked::inode);
    seen.as_ref().and_then(inode).is_some_and(|seen| inode(is) == Some(seen))
}

impl Receiver {
    /// Whether the alternates matter to an entry in whose place `seen` stands.
    pub(super) fn asks_alternates(&self, meta: &Meta, seen: Option<&Meta>) -> bool {
        let alternates = &self.cx.setting.options.compare.alternates;
        let has_old = seen.is_some_and(Meta::is_file);
        let gives_way = |old: &Meta| !old.is_dir() && self.cx.setting.rename.is_none();
        !alternates.dirs.is_empty()
            && match meta.kind {
                Kind::File => !has_old || alternates.usage != AlternateUse::Copy,
                // It is made here all the same, and told like what differs from there.
                Kind::Dir => seen.is_none_or(gives_way),
                Kind::Device(_) if !self.cx.setting.is_privileged => false,
                ref kind => seen.is_none() && self.cx.setting.options.takes(kind),
            }
    }

    pub(super) fn look_beside(
        &mut self,
        file: FileNo,
        path: RelPath,
        (meta, seen): (Meta, Option<Meta>),
    ) {
        self.cx.jobs.ask(Work::LookBeside { path: path.clone() }, Place::LookBeside(file));
        self.beside.insert(file, Waiting { path, meta, seen });
    }

    pub(super) fn looked_beside(&mut self, file: FileNo, found: Vec<Option<Meta>>) {
        let Some(waiting) = self.beside.remove(&file) else { return };
        match self.best(&waiting.meta, found) {
            Some(best) => self.take_beside(file, waiting, best),
            None => self.decide_not_beside(file, waiting.path, (waiting.meta, waiting.seen)),
        }
    }

    pub(super) fn take_beside(&mut self, file: FileNo, waiting: Waiting, best: Beside) {
        let usage = self.cx.setting.options.compare.alternates.usage;
        let has_old = waiting.seen.as_ref().is_some_and(Meta::is_file);
        match best.likeness {
            _ if waiting.meta.is_dir() => {
                let differs = self.differs_from(&waiting.meta, &best.is);
                self.new_dir(waiting.path, waiting.meta, (Action::Copied, differs));
            }
            Likeness::All if usage == AlternateUse::Compare => self.leave_out(file, waiting),
            Likeness::All | Likeness::Content
                if waiting.seen.as_ref().is_some_and(Meta::is_dir) =>
            {
                let path = waiting.path.clone();
                self.clear(file, path, Cleared::Beside(Box::new((waiting, best))));
            }
            Likeness::All if usage == AlternateUse::Link && !is_same(&waiting.seen, &best.is) => {
                self.link(file, waiting, best);
            }
            Likeness::All | Likeness::Content if !has_old && waiting.meta.is_file() => {
                self.copy_beside(file, waiting, best);
            }
            _ => {
                let best = Some(best).filter(|_| !has_old);
                self.decide_here(file, waiting.path, (waiting.meta, waiting.seen), best);
            }
        }
    }

    /// In what an entry of this kind differs from what `is` here, or in an alternate.
    pub(super) fn differs_from(&self, meta: &Meta, is: &Meta) -> Differs {
        let size = meta.is_file() && is.len != meta.len;
        Differs { size, ..attributes(&self.cx.setting.options, meta, is) }
    }

    /// The first of the alternates that come nearest.
    pub(super) fn best(&self, meta: &Meta, found: Vec<Option<Meta>>) -> Option<Beside> {
        let options = &self.cx.setting.options;
        let mut best: Option<Beside> = None;
        for (alternate, is) in found.into_iter().enumerate() {
            let Some(is) = is else { continue };
            let same_attributes = attributes(options, meta, &is) == Differs::default();
            let likeness = match (&meta.kind, &is.kind) {
                (Kind::File, Kind::File) => match quick(options, meta, &is) {
                    Quick::Same if same_attributes => Likeness::All,
                    Quick::Same => Likeness::Content,
                    Quick::Unknown if same_attributes => Likeness::Unproven,
                    Quick::Unknown | Quick::Differs => Likeness::Kind,
                },
                (new, old) if new == old && same_attributes => Likeness::All,
                (new, old) if new == old => Likeness::Content,
                // Another target, another number.
                (new, old) if EntryType::of(new) == EntryType::of(old) => Likeness::Kind,
                _ => continue,
            };
            if best.as_ref().is_none_or(|best| best.likeness < likeness) {
                best = Some(Beside { alternate, is, likeness });
            }
        }
        best
    }

    /// An alternate has it: it is not to be here as well.
    fn leave_out(&mut self, file: FileNo, waiting: Waiting) {
        self.arrive_elsewhere(file);
        self.miss(file);
        let Waiting { path, meta, seen } = waiting;
        self.cx.unchanged(&path, &meta, None);
        match seen {
            Some(seen) if seen.is_dir() => {
                self.cx.report_settled(meta.len);
                self.clear(file, path, Cleared::Nothing);
            }
            Some(_) if !self.cx.setting.options.dry_run => {
                self.cx.report_settled(meta.len);
                let work = Work::Remove { path, gives_way: false, dry_run: false, most: 1 };
                self.cx.jobs.ask(work, Place::LeaveOut);
            }
            _ => self.cx.report_settled(meta.len),
        }
    }

    pub(super) fn left_out(&mut self, removed: Removed) {
        removed.troubles.into_iter().for_each(|trouble| self.cx.trouble(trouble));
    }

    fn link(&mut self, file: FileNo, waiting: Waiting, beside: Beside) {
        if self.cx.setting.options.dry_run {
            self.comes_from_beside(file);
            self.came(file);
            self.cx.unchanged(&waiting.path, &waiting.meta, Some(waiting.path.clone()));
            return self.cx.report_settled(waiting.meta.len);
        }
        let Beside { alternate, is, .. } = beside.clone();
        let (path, seen) = (waiting.path.clone(), waiting.seen.clone());
        self.beside.insert(file, waiting);
        let work = Work::LinkBeside { path, alternate, is, seen };
        self.cx.jobs.ask(work, Place::LinkBeside { file, beside });
    }

    /// What cannot be linked is copied; what has an old version, brought up to date.
    pub(super) fn linked(&mut self, file: FileNo, beside: Beside, done: Result<(), Setback>) {
        let Some(waiting) = self.beside.remove(&file) else { return };
        let has_old = waiting.seen.as_ref().is_some_and(Meta::is_file);
        match done {
            Ok(()) => {
                self.comes_from_beside(file);
                self.arrive(file);
                self.cx.unchanged(&waiting.path, &waiting.meta, Some(waiting.path.clone()));
                self.cx.report_settled(waiting.meta.len);
            }
            Err(_) if waiting.meta.is_file() && !has_old => self.copy_beside(file, waiting, beside),
            Err(_) => self.decide_here(file, waiting.path, (waiting.meta, waiting.seen), None),
        }
    }

    fn copy_beside(&mut self, file: FileNo, waiting: Waiting, beside: Beside) {
        let change = self.copy_of(&waiting, &beside.is);
        if self.cx.setting.options.dry_run {
            self.cx.report_settled(waiting.meta.len);
            self.comes_from_beside(file);
            self.came(file);
            return self.cx.changed(change);
        }
        let Waiting { path, meta, seen } = &waiting;
        let work = Work::CopyBeside {
            path: path.clone(),
            alternate: beside.alternate,
            is: beside.is,
            meta: meta.clone(),
            seen: seen.clone(),
        };
        self.beside.insert(file, waiting);
        self.cx.jobs.ask(work, Place::CopyBeside { file, change });
    }

    /// A file that comes from an alternate where it `is` so: told like what differs from there.
    fn copy_of(&self, Waiting { path, meta, .. }: &Waiting, is: &Meta) -> Change {
        let differs = self.differs_from(meta, is);
        let (action, facts) = (Action::Copied, Facts::of(meta));
        Change { path: path.clone(), item: EntryType::File, action, differs, facts }
    }

    /// What the alternate cannot give after all the sender does.
    pub(super) fn copied_beside(
        &mut self,
        file: FileNo,
        change: Change,
        done: Result<(), Setback>,
    ) {
        let Some(waiting) = self.beside.remove(&file) else { return };
        match done {
            Ok(()) => {
                self.comes_from_beside(file);
                self.arrive(file);
                self.waits(file, &waiting.path);
                self.cx.report_settled(waiting.meta.len);
                self.cx.changed(change);
            }
            Err(_) => self.decide_here(file, waiting.path, (waiting.meta, waiting.seen), None),
        }
    }

    /// The bytes of an alternate are the new version: what was not known when it was looked at.
    pub(super) fn proved_beside(&mut self, file: FileNo, handle: Handle) {
        let options = &self.cx.setting.options;
        let usage = options.compare.alternates.usage;
        let Some(incoming) = self.files.get(&file) else { return };
        let candidate = &incoming.candidate;
        let Some(beside) = candidate.beside.clone() else { return };
        let links = beside.likeness == Likeness::Unproven && usage != AlternateUse::Copy;
        if links && usage == AlternateUse::Compare || options.dry_run {
            return self.took_beside(handle, links, Ok(()));
        }
        let Beside { alternate, is, .. } = beside;
        let (path, seen) = (candidate.path.clone(), candidate.seen.clone());
        let meta = incoming.attempt.as_ref().map_or(&candidate.meta, |attempt| &attempt.meta);
        let work = if links {
            Work::LinkBeside { path, alternate, is, seen }
        } else {
            Work::CopyBeside { path, alternate, is, meta: meta.clone(), seen }
        };
        self.cx.jobs.ask(work, Place::TakeBeside { handle, links });
    }

    pub(super) fn took_beside(&mut self, handle: Handle, links: bool, done: Result<(), Setback>) {
        let Some((file, incoming)) = self.incoming(handle) else { return };
        let matched = incoming.candidate.meta.len;
        match done {
            Ok(()) if links => {
                self.done(file, Done::Same { touched: false, differs: Differs::default() });
            }
            Ok(()) => {
                let candidate = &incoming.candidate;
                let was = candidate.beside.as_ref().map(|beside| beside.is.clone());
                let meta = candidate.meta.clone();
                let differs = was.map(|is| self.differs_from(&meta, &is)).unwrap_or_default();
                let action = Action::Copied;
                self.done(
                    file,
                    Done::Replaced { action, differs, literal: 0, matched, from: None },
                );
            }
            Err(_) if links => {
                if let Some(beside) = &mut incoming.candidate.beside {
                    beside.likeness = Likeness::Content;
                }
                self.proved_beside(file, handle);
            }
            Err(setback) => {
                incoming.candidate.beside = None;
                self.fail(handle, Setback { then: Then::Retry, ..setback });
            }
        }
    }
}
