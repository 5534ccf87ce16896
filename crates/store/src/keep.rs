//! Which metadata is carried over.

use deltic_tree::meta::EXECUTE_BITS;
use deltic_tree::{Kind, Meta};

/// Which metadata is carried over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// Permission bits; without it a new file gets the sender's less the umask, an old one stays as it is.
    pub modes: bool,
    /// Without [`Self::modes`]: whether files may be executed.
    pub executability: bool,
    /// Modification times.
    pub times: bool,
    /// Those of directories, and when they were read, stay out.
    pub omit_dir_times: bool,
    /// Those of symlinks, and when they were read, stay out.
    pub omit_link_times: bool,
    /// ACLs: what the sender's entry does not have, ours loses.
    pub acls: bool,
    /// Extended attributes, as far as this store looks at them: what the sender's entry does not have, ours loses.
    pub xattrs: bool,
}

impl Keep {
    /// Whether times of such entries are set.
    #[must_use]
    pub fn times_of(self, kind: &Kind) -> bool {
        match kind {
            Kind::Dir => !self.omit_dir_times,
            Kind::Symlink(_) => !self.omit_link_times,
            _ => true,
        }
    }

    /// The mode of a new entry, or of one whose old version had `old_mode`.
    #[must_use]
    pub fn mode_of_new(self, meta: &Meta, old_mode: Option<u32>, umask: u32) -> u32 {
        match old_mode {
            _ if self.modes => meta.mode & 0o7777,
            // What its old content was trusted with its new one is not.
            Some(old) if meta.is_file() => self.executable(meta, old) & 0o777,
            Some(old) => old & 0o7777,
            None => meta.mode & !umask & 0o777,
        }
    }

    /// `old`, made executable or not as the sender's is.
    #[must_use]
    pub fn executable(self, meta: &Meta, old: u32) -> u32 {
        match (meta.mode & EXECUTE_BITS != 0, old & EXECUTE_BITS != 0) {
            _ if !self.executability || !meta.is_file() => old,
            (false, _) => old & !EXECUTE_BITS,
            (true, true) => old,
            // Whoever may read it.
            (true, false) => old | (old & 0o444) >> 2,
        }
    }
}
