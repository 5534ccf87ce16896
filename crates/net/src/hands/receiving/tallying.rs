//! Whether a directory here has the tally that the sender told.

use deltic_core::{Meta, RelPath, Tally, Tallying};
use deltic_protocol::message::NameLine;
use deltic_protocol::receiver::Alike;
use deltic_store::Store;

use super::ReceivingHands;
use crate::hands::digests::list;

impl<S: Store> ReceivingHands<S> {
    /// What is in `dir`, if that is what the sender has there. What cannot be listed here is not: then the list of names tells
    /// why.
    pub(super) fn compare(
        &self,
        dir: &RelPath,
        tally: &Tally,
        [users, groups]: &[Vec<NameLine>; 2],
    ) -> Option<Alike> {
        let (key, compared) = self.tallied;
        let mut tallying = Tallying::new(&key, compared);
        let mut alike = Alike::default();
        let mut numbers = [Number::default(), Number::default()];
        let user = |ours| self.owners.user_of(ours, users);
        let group = |ours| self.owners.group_of(ours, groups);
        let listing = list(&self.store, dir, None, Some(compared)).ok()?;
        // So many that they cannot be listed at once have no tally.
        if !listing.errors.is_empty()
            || listing.rest.is_some()
            || listing.entries.len() as u64 != tally.entries
        {
            return None;
        }
        let contents = self.digests.compared(&listing, compared)?;
        let mut contents = contents.iter();
        for entry in listing.entries {
            let Meta { user: our_user, group: our_group, .. } = entry.meta;
            let mut theirs = entry.meta;
            if compared.users && self.owners.gives_users() {
                theirs.user = Some(numbers[0].of(our_user?, user)?);
            }
            if compared.groups {
                theirs.group = Some(numbers[1].of(our_group?, group)?);
            }
            tallying.add(entry.name.as_bytes(), &theirs, contents.next().and_then(Option::as_ref));
            alike.add(&entry.name, &Meta { user: our_user, group: our_group, ..theirs });
        }
        let ours = tallying.tally();
        let users_fit = !self.owners.gives_users() || ours.users == tally.users;
        (ours.sum == tally.sum && users_fit && ours.groups == tally.groups).then_some(alike)
    }
}

/// The last number that was asked for: most entries are of the same.
#[derive(Default)]
struct Number(Option<(u32, u32)>);

impl Number {
    fn of(&mut self, ours: u32, theirs: impl Fn(u32) -> Option<u32>) -> Option<u32> {
        if let Some((_, theirs)) = self.0.filter(|(known, _)| *known == ours) {
            return Some(theirs);
        }
        let theirs = theirs(ours)?;
        self.0 = Some((ours, theirs));
        Some(theirs)
    }
}
