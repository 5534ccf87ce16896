//! Bases: versions that both ends have, and identify by the same digest. A sender that noted the extents of a base on
//! its disk sees which ranges of the file changed since, without reading the file (docs/decisions/0037).

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use deltic_core::Digest;
use deltic_protocol::known::Changed;
use deltic_protocol::limits::LARGE_FILE_BYTES;
use deltic_protocol::options::Options;
use deltic_protocol::report::ReadReason;
use deltic_protocol::work::Handle;
use deltic_store::{BaseNote, Extents, FactStore, SettledVersion, Snapshot, Version};
use deltic_tree::RelPath;

use super::RandomBytes;
use super::base_sums::{self, Base, Deciding, SumsNote, bytes_of};
use crate::lock::lock;
use crate::old_sums::OldSums;

/// Only the changed ranges are sent if at most `len / LEAST_SHARE` bytes of a file changed. For a larger change, a
/// recipe may find that bytes only moved.
const LEAST_SHARE: u64 = 4;

/// The known bases, and the files that are being sent or confirmed.
#[derive(Debug)]
pub(super) struct Bases {
    facts: Arc<dyn FactStore>,
    /// Files that are being sent.
    sending: Mutex<HashMap<Handle, Sending>>,
    /// Files that were found equal to a base. Their metadata is set next.
    confirmed: Mutex<HashMap<RelPath, (Version, Digest)>>,
    /// Supplies a base for an old version that no earlier run noted as a base.
    old_sums: Option<Arc<dyn OldSums>>,
    /// Decides which sums of blocks prove equality.
    deciding: Deciding,
}

/// A base that the receiver holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeldBase {
    pub(super) base: Digest,
    /// True if the receiver copies blocks that the base holds at another offset. The sender then lists moved blocks.
    pub(super) can_copy: bool,
}

/// A file that is being sent.
#[derive(Debug)]
struct Sending {
    extents: Extents,
    /// The base that the file is compared with, and the base before that.
    since: Option<Since>,
}

/// The base that a file is compared with.
#[derive(Debug)]
struct Since {
    base: Digest,
    /// The base that preceded `base`.
    before: Option<Digest>,
    /// Notes that name tables of sums: of the base, and of the version that is sent.
    sums: [Option<SumsNote>; 2],
}

/// The note that a sender keeps about a base.
struct Noted {
    /// The extents of the base.
    extents: Extents,
    /// The base that this base was made from.
    before: Option<Digest>,
}

impl Noted {
    /// Encodes the note for [`Noted::decode`]: the earlier base, then the extents.
    fn encode(&self) -> Vec<u8> {
        [self.before.unwrap_or(NO_BASE).as_bytes(), &self.extents.encode()[..]].concat()
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (before, extents) = bytes.split_first_chunk()?;
        let before = Some(Digest::from_bytes(*before)).filter(|before| *before != NO_BASE);
        Some(Self { extents: Extents::decode(extents)?, before })
    }
}

/// Placeholder in a note for a missing earlier base.
const NO_BASE: Digest = Digest::from_bytes([0; 32]);

impl Bases {
    /// Returns the bases that are noted in `facts`; `old_sums` supplies further bases.
    pub(super) fn new(
        facts: Arc<dyn FactStore>,
        options: &Options,
        old_sums: Option<Arc<dyn OldSums>>,
    ) -> Self {
        Self {
            facts,
            sending: Mutex::default(),
            confirmed: Mutex::default(),
            old_sums,
            deciding: Deciding { trusts: options.compare.trusted.is_some(), random: || None },
        }
    }

    /// Takes random bytes from `random`. Without random bytes, no sums of blocks are kept.
    pub(super) fn with_random(self, random: RandomBytes) -> Self {
        Self { deciding: Deciding { random, ..self.deciding }, ..self }
    }

    /// True if sums can supply a base for an old version that no earlier run noted.
    pub(super) fn supplies_old_bases(&self) -> bool {
        self.old_sums.is_some()
    }

    /// True if the store may keep bases. Only files longer than [`LARGE_FILE_BYTES`] have bases.
    pub(super) fn may_be_kept(&self) -> bool {
        self.facts.keeps_bases()
    }

    /// Returns the store of facts, if bases of files of `len` bytes are kept.
    fn kept(&self, len: u64) -> Option<&dyn FactStore> {
        (len > LARGE_FILE_BYTES && self.facts.keeps_bases()).then_some(&*self.facts)
    }

    /// Returns the differences between the base that the receiver holds and a file that is about to be sent, if the
    /// differences are known and few enough, and the reason why the file is read whole or in part. The extents of the
    /// file are remembered until [`note_sent`](Self::note_sent).
    pub(super) fn find_changes(
        &self,
        handle: Handle,
        snapshot: &impl Snapshot,
        held: Option<HeldBase>,
    ) -> (Option<Changed>, Option<ReadReason>) {
        let len = snapshot.meta().len;
        let kept = self.kept(len);
        if kept.is_none() && (self.old_sums.is_none() || held.is_none()) {
            return (None, None);
        }
        // A file without extents is sent like any other file. A file that changed meanwhile is tried again.
        let Ok(extents) = snapshot.extents() else { return (None, None) };
        let found = match (&extents, held) {
            (None, _) => Err(ReadReason::NoFacts(snapshot.missing_extents_reason())),
            (Some(_), None) => Err(ReadReason::NoBase),
            (Some(extents), Some(held)) => self.changes_since_base(kept, snapshot, extents, held),
        };
        let reason = match &found {
            Ok((changed, _)) => self.reason_of(changed, snapshot),
            Err(reason) => reason.clone(),
        };
        let (changed, since) = found.ok().unzip();
        if let Some(extents) = extents {
            lock(&self.sending).insert(handle, Sending { extents, since });
        }
        (changed, Some(reason))
    }

    /// Returns the reason why only changed ranges of a file are read. Tells the snapshot which ranges these are.
    fn reason_of(&self, changed: &Changed, snapshot: &impl Snapshot) -> ReadReason {
        let (shifted, len) = (snapshot.will_read(&changed.ranges), snapshot.meta().len);
        let bytes = bytes_of(&changed.ranges);
        match self.old_sums {
            Some(_) => ReadReason::Differs { differ: bytes, shifted, len },
            None if !changed.moved.is_empty() => ReadReason::Moved { read: bytes, len },
            None => ReadReason::Changed { changed: bytes, len },
        }
    }

    /// Returns the differences from the base that the receiver holds. Errors: the reason why the differences are unknown
    /// or too large.
    fn changes_since_base(
        &self,
        kept: Option<&dyn FactStore>,
        snapshot: &impl Snapshot,
        now: &Extents,
        HeldBase { base, can_copy }: HeldBase,
    ) -> Result<(Changed, Since), ReadReason> {
        let (old, before) = self.noted(kept, &base).ok_or(ReadReason::ForgottenBase)?;
        let changed = now.changed_since(&old);
        // On a file system that was mounted anew, only sums show which ranges changed.
        let ranges = changed.clone().unwrap_or_else(|| std::iter::once(0..now.len()).collect());
        let decides = self.old_sums.is_none() && self.deciding.kind(snapshot).is_some();
        let note = kept.filter(|_| decides).and_then(|kept| SumsNote::find(kept, &base));
        let moved = match kept.filter(|_| can_copy) {
            None => Err("the other end cannot copy moved blocks"),
            Some(kept) => {
                let base = Base { kept, note: note.as_ref(), len: old.len() };
                self.deciding.moved(snapshot, &base, &ranges)
            }
        };
        let is_little = |changed: &Changed| bytes_of(&changed.ranges) <= now.len() / LEAST_SHARE;
        let next = note.clone().and_then(|note| base_sums::carried(note, &ranges, now.len()));
        let since = Since { base, before, sums: [note, next] };
        let why = match moved {
            Ok(moved) if is_little(&moved) => return Ok((moved, since)),
            Ok(_) => "most of its blocks are new",
            Err(why) => why,
        };
        let changed = Changed { ranges: changed.ok_or(ReadReason::NewMount)?, moved: Vec::new() };
        // Reading from a far source costs more than a recipe could save.
        match self.old_sums.is_some() || is_little(&changed) {
            true => Ok((changed, since)),
            false => Err(ReadReason::MuchChanged(why.into())),
        }
    }

    /// Returns the noted extents of a base, and the base that it was made from.
    fn noted(
        &self,
        kept: Option<&dyn FactStore>,
        base: &Digest,
    ) -> Option<(Extents, Option<Digest>)> {
        if let Some(extents) = self.old_sums.as_ref().and_then(|sums| sums.noted(base)) {
            return Some((extents, None));
        }
        let Noted { extents, before } = Noted::decode(&kept?.base_note(BaseNote::Extents, base)?)?;
        Some((extents, before))
    }

    /// Notes that the sent file equals `base` from now on.
    pub(super) fn note_sent(&self, handle: Handle, snapshot: &impl Snapshot, base: &Digest) {
        let sending = lock(&self.sending).remove(&handle);
        let kept = self.kept(snapshot.meta().len);
        let (Some(Sending { extents, since }), Some(kept)) = (sending, kept) else { return };
        let before = since.as_ref().map(|since| since.base);
        let note = Noted { extents, before };
        kept.keep_base_note(BaseNote::Extents, base, note.encode());
        let extents = &note.extents;
        let (last, [of_base, next]) = match since {
            Some(Since { before, sums, .. }) => (before, sums),
            None => (None, [None, None]),
        };
        let noted = match self.old_sums {
            Some(_) => None,
            None => self.deciding.note(kept, snapshot, extents, next),
        };
        noted.iter().for_each(|noted| noted.keep(kept, base));
        // If this session breaks off, the receiver still has `since.base`. Only the base before that is forgotten.
        if let Some(last) = last {
            let gone = SumsNote::find(kept, &last).map(|note| note.table);
            kept.forget_base_note(BaseNote::Extents, &last);
            kept.forget_base_note(BaseNote::Sums, &last);
            let stays = [of_base, noted].map(|note| note.map(|note| note.table));
            let gone = gone.filter(|_| !stays.contains(&gone));
            gone.inspect(|table| kept.forget_base_note(BaseNote::Sums, table));
        }
    }

    /// Forgets the extents of a file that is no longer sent.
    pub(super) fn drop_sending(&self, handle: Handle) {
        lock(&self.sending).remove(&handle);
    }

    /// Returns the base that equals the old version at `path`.
    pub(super) fn base_of_old(&self, path: &RelPath, old: &impl Snapshot) -> Option<Digest> {
        let kept = self.kept(old.meta().len);
        let held = kept.and_then(|kept| kept.base(&old.identity()?));
        let Some(sums) = &self.old_sums else { return held };
        // Both ends keep their notes in the same place here, so the note of the sender can be checked.
        let is_noted = |base: &Digest| {
            kept.is_some_and(|kept| kept.base_note(BaseNote::Extents, base).is_some())
        };
        held.filter(is_noted).or_else(|| sums.base(path, old))
    }

    /// Lends the old version that `open` returns to the other end, if the other end is in this process and may take
    /// bytes from there.
    pub(super) fn lend<S: Snapshot>(&self, path: &RelPath, open: impl FnOnce() -> Option<S>) {
        if let Some(sums) = &self.old_sums
            && let Some(old) = open()
        {
            sums.lend(path, Box::new(old));
        }
    }

    /// Notes that the committed version equals `base`.
    pub(super) fn note_committed(&self, version: &SettledVersion, base: &Digest) {
        if let Some(kept) = self.kept(version.version().len) {
            kept.note_base(version, base);
        }
    }

    /// Notes that the file at `path` equals `base`, while the times of the file may still change.
    pub(super) fn confirm(&self, path: &RelPath, old: &impl Snapshot, base: &Digest) {
        if let (Some(kept), Some(version)) = (self.kept(old.meta().len), old.identity()) {
            let settled = SettledVersion::after_write(version, kept.now());
            settled.inspect(|settled| kept.note_base(settled, base));
            lock(&self.confirmed).insert(path.clone(), (version, *base));
        }
    }

    /// Takes the entry of a [confirmed](Self::confirm) file, before the times of the file are set.
    pub(super) fn take_confirmed(&self, path: &RelPath) -> Option<(Version, Digest)> {
        lock(&self.confirmed).remove(path)
    }
}
