//! Files of several names (`-H`): one name is brought over, and the others become other names of what it is here.
//!
//! ```text
//! the first name told ──► leads: is decided as any other entry
//! a later one         ──► the leader is on its way:  waits for it
//!                     ──► the leader is here:        linked to it, unless it is already
//!                     ──► no name is here or coming: leads itself
//! a leader that does not come ──► the first of those that wait leads
//! ```
//!
//! Of names that were looked at together the one leads of which most is here: nothing is sent if one of them is what it shall
//! be, whichever comes first in the list. Nor is it if an alternate has one of them.
//!
//! A name that cannot be linked comes by itself. All that waits keeps its entry unsettled, so that its file may still be
//! wanted, and so that no more wait than the window lets in.

mod resting;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use deltic_tree::meta::{ExtraMeta, Inode, Linked};
use deltic_tree::{Meta, RelPath};

use crate::error::PeerError;
use crate::limits::{MAX_LINKED, MAX_LINKED_BYTES, linked_bytes};
use crate::message::FileNo;
use crate::options::{AlternateUse, Options};
use crate::report::{Action, Change, Differs, EntryType, Facts, Trouble, TroubleKind};
use crate::work::{Setback, Then};

use super::clearing::Cleared;
use super::compare::{Quick, attributes, quick};
use super::deciding::Looked;
use super::sections::Section;
use super::{Place, Receiver, Work};
use resting::Resting;

/// Files of several names, by the number of the first that was told.
#[derive(Debug, Default)]
pub(super) struct Linking {
    files: HashMap<FileNo, Shared>,
    /// Those for which nothing is to be done until another name is told.
    resting: Resting,
    /// Of how many of them more names may be told, and the bytes of the first names of these and of their targets.
    open: usize,
    open_bytes: usize,
    /// The names that lead and are on their way, and which file each is of.
    leaders: HashMap<FileNo, FileNo>,
    /// Names that wait for their leader, or are being linked.
    names: BTreeMap<FileNo, LaterName>,
    /// Leaders that are here by now.
    came: VecDeque<FileNo>,
    /// Names that lead since their leader did not come.
    promoted: VecDeque<FileNo>,
}

/// A file of several names.
#[derive(Debug)]
struct Shared {
    /// What was said of it, but for what its first name brings to all of them.
    meta: Meta,
    /// That, if anything: a name that comes by itself brings it too.
    more: Option<Arc<ExtraMeta>>,
    /// The name that leads.
    path: RelPath,
    /// Of the first name, and of what it points at.
    path_bytes: usize,
    /// How many names are still to be told, and how many of those told are to be decided.
    untold: u32,
    undecided: u32,
    state: State,
    /// What its leader was a name of here before, if it stays that.
    inode: Option<Inode>,
    /// Whether its leader comes from an alternate.
    is_beside: bool,
    waiting: VecDeque<FileNo>,
}

/// What has become of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No name of it is here or on its way.
    Nowhere,
    /// Its leader is on its way.
    Coming,
    /// Its leader is here.
    Here,
}

/// A later name of a file, and what stands in its place.
#[derive(Debug)]
pub(super) struct LaterName {
    path: RelPath,
    meta: Meta,
    more: Option<Arc<ExtraMeta>>,
    pub(super) seen: Option<Meta>,
    /// Whether the alternates are known not to have it.
    is_not_beside: bool,
}

impl LaterName {
    /// What it is where it brings everything itself.
    fn alone(&self) -> Meta {
        let more = self.more.as_deref().cloned().map(Box::new);
        let mut meta = Meta { more, ..self.meta.clone() };
        meta.set_linked(self.meta.linked());
        meta
    }
}

/// The number of the first name that was told of the file that an entry is a later name of.
pub(super) fn first_of(file: FileNo, meta: &Meta) -> Option<FileNo> {
    match meta.linked() {
        Some(Linked::Back(back)) => file.0.checked_sub(back).map(FileNo),
        _ => None,
    }
}

/// What of a listed name is here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    /// Nothing that it could keep, or it is passed over.
    Nothing,
    /// Another version of it.
    Old,
    /// What may be it, as far as size tells.
    Unproven,
    /// What it shall be, but perhaps for attributes.
    Here,
}

impl Standing {
    fn of(options: &Options, meta: &Meta, old: Option<&Meta>) -> Self {
        let (compare, is_file) = (&options.compare, meta.is_file());
        let Some(old) = old.filter(|old| EntryType::of(&old.kind) == EntryType::of(&meta.kind))
        else {
            return Self::Nothing;
        };
        match () {
            () if compare.passes_over(meta, Some(old)).is_some() => Self::Nothing,
            () if is_file && compare.passes_over_file(meta, Some(old)).is_some() => Self::Nothing,
            () if !is_file && meta.kind == old.kind => Self::Here,
            () if !is_file => Self::Old,
            () => match quick(options, meta, old) {
                Quick::Same => Self::Here,
                Quick::Unknown => Self::Unproven,
                Quick::Differs => Self::Old,
            },
        }
    }
}

impl Linking {
    /// The lowest number that waits.
    pub(super) fn first(&self) -> Option<FileNo> {
        self.names.keys().next().copied()
    }

    /// Whether this entry is the one name of a file that the others wait for.
    pub(super) fn leads(&self, file: FileNo) -> bool {
        self.leaders.contains_key(&file)
    }

    /// Notes the first name of a file.
    fn open(&mut self, file: FileNo, path: RelPath, (meta, names): (&Meta, u32)) {
        let path_bytes = linked_bytes(&path, meta);
        self.open += 1;
        self.open_bytes += path_bytes;
        let shared = Shared {
            meta: Meta { user: meta.user, group: meta.group, ..plain(meta) },
            more: more_of(meta),
            path,
            path_bytes,
            untold: names - 1,
            undecided: 0,
            state: State::Coming,
            inode: None,
            is_beside: false,
            waiting: VecDeque::new(),
        };
        self.files.insert(file, shared);
        self.leaders.insert(file, file);
    }

    /// Notes a later name of the file whose first is `first`; what was said of it.
    fn meet(&mut self, first: FileNo) -> Option<Meta> {
        if let Some(shared) = self.resting.take(first) {
            self.files.insert(first, shared);
        }
        let shared = self.files.get_mut(&first).filter(|shared| shared.untold > 0)?;
        shared.untold -= 1;
        shared.undecided += 1;
        if shared.untold == 0 {
            self.open -= 1;
            self.open_bytes -= shared.path_bytes;
        }
        Some(shared.meta.clone())
    }

    /// Leaves it to another name to lead. The first one, which was to, is decided as a later one.
    fn stand_back(&mut self, first: FileNo) {
        self.leaders.remove(&first);
        if let Some(shared) = self.files.get_mut(&first) {
            shared.state = State::Nowhere;
            shared.undecided += 1;
        }
    }

    /// Forgets a file that nothing more will be asked about, and lays one aside of which more names may be told.
    fn forget(&mut self, first: FileNo) {
        let is_over = |shared: &Shared| {
            shared.untold == 0 && shared.undecided == 0 && shared.state != State::Coming
        };
        let Some(shared) = self.files.get(&first) else { return };
        if is_over(shared) || self.resting.keep(first, shared) {
            self.files.remove(&first);
        }
    }
}

fn plain(meta: &Meta) -> Meta {
    Meta::plain(meta.kind.clone(), meta.len, meta.modified, meta.mode)
}

/// What a first name says besides, if it says anything but that it is one.
fn more_of(meta: &Meta) -> Option<Arc<ExtraMeta>> {
    let mut meta = meta.clone();
    meta.set_linked(None);
    meta.more.map(Arc::from)
}

impl Receiver {
    /// Notes the names of a section that share a file with others, and says of the later ones what was said of the first.
    pub(super) fn take_linked(&mut self, section: &mut Section) -> Result<(), PeerError> {
        for (nth, entry) in section.entries.iter_mut().enumerate() {
            let file = FileNo(section.first + nth as u64);
            match entry.meta.linked() {
                Some(Linked::First(names)) => {
                    let path = section.dir.join(&entry.name);
                    let path =
                        path.map_err(|source| PeerError::BadName { frame: "Listing", source })?;
                    self.linking.open(file, path, (&entry.meta, names));
                }
                linked @ Some(Linked::Back(_)) => {
                    let first = first_of(file, &entry.meta);
                    let said = first.and_then(|first| self.linking.meet(first));
                    let unknown = PeerError::Unexpected("another name of a file that was not told");
                    entry.meta = said.ok_or(unknown)?;
                    entry.meta.set_linked(linked);
                }
                Some(Linked::Inode(..)) | None => {}
            }
        }
        if self.linking.open > MAX_LINKED || self.linking.open_bytes > MAX_LINKED_BYTES {
            return Err(PeerError::Limit("files of several names"));
        }
        Ok(())
    }

    /// Keeps what the first names of a section bring as this end understands it: whom their ACLs name.
    pub(super) fn know_linked(&mut self, section: &Section) {
        for (nth, entry) in section.entries.iter().enumerate() {
            if matches!(entry.meta.linked(), Some(Linked::First(_)))
                && let Some(shared) =
                    self.linking.files.get_mut(&FileNo(section.first + nth as u64))
            {
                shared.more = more_of(&entry.meta);
            }
        }
    }

    /// Lets that name of a file lead of which most is here, where the first is among those that were looked at. It takes the
    /// first one's place in `looked`, with what was said of that alone.
    pub(super) fn lead_by_what_is_here(&mut self, looked: &mut [Looked]) {
        // The first names, and which name has most.
        let mut firsts: HashMap<FileNo, (usize, (Standing, usize))> = HashMap::new();
        for (nth, Looked { file, entry, old }) in looked.iter().enumerate() {
            let old = || old.as_ref().ok().and_then(Option::as_ref);
            let standing = || Standing::of(&self.cx.setting.options, &entry.meta, old());
            match entry.meta.linked() {
                Some(Linked::First(_)) => drop(firsts.insert(*file, (nth, (standing(), nth)))),
                Some(Linked::Back(_)) => {
                    let first = first_of(*file, &entry.meta);
                    let first = first.and_then(|first| firsts.get_mut(&first));
                    let Some((_, best)) = first else { continue };
                    let standing = standing();
                    if standing > best.0 {
                        *best = (standing, nth);
                    }
                }
                _ => {}
            }
        }
        for (first, (at, (_, best))) in firsts {
            if at == best {
                continue;
            }
            self.linking.stand_back(first);
            let mut plain = looked[best].entry.meta.clone();
            let linked = plain.linked();
            plain.set_linked(Some(Linked::Back(0)));
            let mut said = std::mem::replace(&mut looked[at].entry.meta, plain);
            said.set_linked(linked);
            looked[best].entry.meta = said;
            looked.swap(at, best);
        }
    }

    /// A later name waits, is linked, or leads.
    pub(super) fn decide_linked(
        &mut self,
        (file, first): (FileNo, FileNo),
        path: RelPath,
        (meta, seen): (Meta, Option<Meta>),
    ) {
        let shared = self.linking.files.get_mut(&first).expect("a name is to be decided");
        shared.undecided -= 1;
        let more = shared.more.clone();
        let name = LaterName { path, meta, more, seen, is_not_beside: false };
        match shared.state {
            State::Coming => {
                shared.waiting.push_back(file);
                self.linking.names.insert(file, name);
            }
            State::Here => self.link_name((file, first), name),
            State::Nowhere => self.lead((file, first), name),
        }
        self.linking.forget(first);
    }

    fn lead(&mut self, (file, first): (FileNo, FileNo), mut name: LaterName) {
        let shared = self.linking.files.get_mut(&first).expect("one of its names is to lead");
        shared.state = State::Coming;
        name.more.clone_from(&shared.more);
        shared.path = name.path.clone();
        self.linking.leaders.insert(file, first);
        let known = (name.alone(), name.seen);
        match name.is_not_beside {
            true => self.decide_here(file, name.path, known, None),
            false => self.decide_alone(file, name.path, known),
        }
    }

    /// What is done with an entry that the alternates do not have: where other names of its file wait for it, they are looked for
    /// there before anything is sent.
    pub(super) fn decide_not_beside(
        &mut self,
        file: FileNo,
        path: RelPath,
        (mut meta, seen): (Meta, Option<Meta>),
    ) {
        let Linking { files, leaders, names, promoted, .. } = &mut self.linking;
        let has_old = seen.as_ref().is_some_and(Meta::is_file);
        let shared = leaders.get(&file).and_then(|first| files.get_mut(first));
        let Some(shared) = shared.filter(|shared| !has_old && !shared.waiting.is_empty()) else {
            return self.decide_here(file, path, (meta, seen), None);
        };
        leaders.remove(&file);
        if !matches!(meta.linked(), Some(Linked::Back(_))) {
            meta.set_linked(Some(Linked::Back(0)));
        }
        let more = shared.more.clone();
        names.insert(file, LaterName { path, meta, more, seen, is_not_beside: true });
        shared.waiting.push_back(file);
        // The first one, if none of them has it.
        let next = shared.waiting.iter().position(|name| !names[name].is_not_beside).unwrap_or(0);
        promoted.extend(shared.waiting.remove(next));
    }

    /// An entry is here, or would be in a dry run.
    pub(super) fn came(&mut self, file: FileNo) {
        if let Some(first) = self.linking.leaders.remove(&file) {
            self.linking.came.push_back(first);
        }
    }

    /// A leader comes from an alternate: its other names are not told as new.
    pub(super) fn comes_from_beside(&mut self, file: FileNo) {
        let first = self.linking.leaders.get(&file);
        if let Some(shared) = first.and_then(|first| self.linking.files.get_mut(first)) {
            shared.is_beside = true;
        }
    }

    /// A leader stays what it `is`: names of that need nothing more.
    pub(super) fn stays(&mut self, file: FileNo, is: &Meta) {
        let first = self.linking.leaders.get(&file);
        if let Some(shared) = first.and_then(|first| self.linking.files.get_mut(first)) {
            shared.inode = is.linked().and_then(Linked::inode);
        }
    }

    /// An entry does not come: if others wait for it, one of them leads.
    pub(super) fn miss(&mut self, file: FileNo) {
        self.stays_there(file);
        let Some(first) = self.linking.leaders.remove(&file) else { return };
        let Some(shared) = self.linking.files.get_mut(&first) else { return };
        match shared.waiting.pop_front() {
            Some(next) => self.linking.promoted.push_back(next),
            None => {
                shared.state = State::Nowhere;
                self.linking.forget(first);
            }
        }
    }

    /// An entry is given up that was not decided yet.
    pub(super) fn miss_undecided(&mut self, file: FileNo, meta: &Meta) {
        self.miss(file);
        let first = first_of(file, meta);
        if let Some((first, shared)) =
            first.and_then(|f| Some((f, self.linking.files.get_mut(&f)?)))
        {
            shared.undecided -= 1;
            self.linking.forget(first);
        }
    }

    /// Goes on with the names that waited for leaders that came, or did not.
    pub(super) fn link_more(&mut self) {
        loop {
            if let Some(first) = self.linking.came.pop_front() {
                let Some(shared) = self.linking.files.get_mut(&first) else { continue };
                shared.state = State::Here;
                for file in std::mem::take(&mut shared.waiting) {
                    if let Some(name) = self.linking.names.remove(&file) {
                        self.link_name((file, first), name);
                    }
                }
                self.linking.forget(first);
            } else if let Some(file) = self.linking.promoted.pop_front() {
                let Some(name) = self.linking.names.remove(&file) else { continue };
                if let Some(first) = first_of(file, &name.meta) {
                    self.lead((file, first), name);
                }
            } else {
                return;
            }
        }
    }

    /// Makes a name another one of its file, whose leader is here.
    fn link_name(&mut self, (file, first): (FileNo, FileNo), name: LaterName) {
        let shared = &self.linking.files[&first];
        let seen = name.seen.as_ref();
        let is = seen.and_then(Meta::linked).and_then(Linked::inode);
        if is.is_some() && is == shared.inode {
            let leader = shared.path.clone();
            self.cx.unchanged(&name.path, &name.meta, Some(leader));
            self.cx.report_settled(name.meta.len);
            return self.arrive(file);
        }
        let action = match (shared.is_beside, self.cx.setting.options.compare.alternates.usage) {
            _ if name.is_not_beside => Action::Created,
            // As in rsync it is told that it was linked here.
            (true, AlternateUse::Copy) => Action::Updated,
            (true, _) => Action::Copied,
            (false, _) => Action::Created,
        };
        let change = self.change_of(&name, shared.path.clone(), action);
        if self.clears(seen) {
            let path = name.path.clone();
            self.clear(file, path, Cleared::Name { name, change });
        } else {
            self.make_link(file, name, change);
        }
    }

    /// What is told of a name that is linked, by `action` if it is new.
    fn change_of(&self, name: &LaterName, leader: RelPath, action: Action) -> Change {
        let LaterName { path, meta, seen, .. } = name;
        let old = seen.as_ref().filter(|old| EntryType::of(&old.kind) == EntryType::of(&meta.kind));
        // As by rsync, ACLs and extended attributes are told of the name that leads.
        let (acl, xattrs) = (false, false);
        let differs = old.map_or_else(Differs::default, |old| Differs {
            size: old.len != meta.len,
            ..Differs { acl, xattrs, ..attributes(&self.cx.setting.options, &name.alone(), old) }
        });
        Change {
            path: path.clone(),
            item: EntryType::of(&meta.kind),
            action: if old.is_some() { Action::Updated } else { action },
            differs,
            facts: Facts { linked: Some(leader), ..Facts::of(meta) },
        }
    }

    pub(super) fn make_link(&mut self, file: FileNo, name: LaterName, change: Change) {
        if self.cx.setting.options.dry_run {
            self.cx.report_settled(name.meta.len);
            self.arrive(file);
            return self.cx.changed(change);
        }
        let Some(leader) = change.facts.linked.clone() else { return };
        let LaterName { path, meta, seen, .. } = &name;
        let (path, kind, seen) = (path.clone(), meta.kind.clone(), seen.clone());
        self.cx.jobs.ask(Work::Link { path, leader, kind, seen }, Place::Link { file, change });
        self.linking.names.insert(file, name);
    }

    /// A name that could not be linked comes by itself.
    pub(super) fn linked_name(&mut self, file: FileNo, change: Change, done: Result<(), Setback>) {
        let Some(name) = self.linking.names.remove(&file) else { return };
        match done {
            Ok(()) => {
                self.cx.report_settled(name.meta.len);
                self.arrive(file);
                self.waits(file, &name.path);
                self.cx.changed(change);
            }
            Err(Setback { trouble, then }) => {
                if then != Then::Retry {
                    let message = format!("{}; it comes by itself", trouble.message);
                    let kind = TroubleKind::Warned;
                    self.cx.tell_trouble(Trouble { kind, message, ..trouble });
                }
                let meta = name.alone();
                self.decide_alone(file, name.path, (meta, name.seen));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Extent, ToReceiver};
    use crate::options::{Metadata, Select};
    use crate::receiver::Setting;
    use deltic_tree::{Entry, Kind, Name, Timestamp};

    #[test]
    fn a_list_that_is_only_shown_keeps_nothing_of_files_of_several_names() {
        let metadata = Metadata { hard_links: true, ..Metadata::default() };
        let select = Select { list_only: true, ..Select::default() };
        let options = Options { recursive: true, metadata, select, ..Options::default() };
        let mut machine = Receiver::new(Setting { options, ..Setting::default() });
        let entry = |name: &str, linked| {
            let mut meta = Meta::plain(Kind::File, 1, Timestamp::default(), 0o644);
            meta.set_linked(Some(linked));
            Entry { name: Name::new(name.as_bytes()).unwrap(), meta }
        };
        for names in [["a", "b"], ["c", "d"]] {
            let linked = [Linked::First(2), Linked::Back(1)];
            let entries = names.into_iter().zip(linked).map(|(name, linked)| entry(name, linked));
            let (dir, entries) = (RelPath::root(), entries.collect());
            let frame = ToReceiver::Listing { dir, own: None, entries, extent: Extent::More };
            machine.handle(frame).unwrap();
            assert!(machine.linking.files.is_empty(), "{:?}", machine.linking);
            assert!(machine.linking.leaders.is_empty(), "{:?}", machine.linking);
        }
    }
}
