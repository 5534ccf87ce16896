//! The old versions of a file that are open, laid end to end.

/// Lengths of the old versions, and which of them stands in the file's place.
#[derive(Clone, Debug)]
pub(crate) struct OldVersions {
    /// Their lengths in bytes.
    pub(crate) lens: Vec<u64>,
    /// The place from which on they are what killed runs left.
    pub(crate) left_at: u64,
    /// True where the first is the one in place, or one of a reference directory that may do as well.
    pub(crate) in_place: bool,
    /// True where the one in place is replaced even if it has the content of the new version: it has other names, which
    /// would get the attributes of a file that is separate at the sender.
    pub(crate) leaves_names: bool,
    /// True where the first is one of a reference directory.
    pub(crate) is_beside: bool,
}

impl Default for OldVersions {
    /// No old version.
    fn default() -> Self {
        let lens = Vec::new();
        Self { lens, left_at: u64::MAX, in_place: false, leaves_names: false, is_beside: false }
    }
}

impl OldVersions {
    /// The first version that holds anything: one that begins where all do.
    pub(crate) fn first_part(&self) -> usize {
        self.lens.iter().position(|len| *len > 0).unwrap_or(0)
    }

    /// Length in bytes of one version.
    pub(crate) fn len_of(&self, part: usize) -> u64 {
        self.lens.get(part).copied().unwrap_or(0)
    }

    /// Length in bytes of the version in place.
    pub(crate) fn len_in_place(&self) -> Option<u64> {
        self.lens.first().copied().filter(|_| self.in_place)
    }

    /// Length in bytes of the version in place, if that may be the new one already.
    pub(crate) fn len_that_stays(&self) -> Option<u64> {
        self.len_in_place().filter(|_| !self.leaves_names)
    }

    /// End of the version that holds the byte before `at`.
    pub(super) fn end_behind(&self, at: u64) -> u64 {
        self.ends().find(|end| at <= *end).unwrap_or(at)
    }

    /// Start of the version that holds the byte at `at`.
    pub(super) fn start_before(&self, at: u64) -> u64 {
        self.ends().take_while(|end| *end <= at).last().unwrap_or(0)
    }

    fn ends(&self) -> impl Iterator<Item = u64> {
        self.lens.iter().scan(0, |end, len| {
            *end += len;
            Some(*end)
        })
    }
}
