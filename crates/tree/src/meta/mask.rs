//! Attributes that a look at an entry reads.

use super::fake_super;

/// Attributes to look at besides those that every look shows: a plain run asks for none, and pays for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MetaMask {
    /// [`Meta::user`](super::Meta::user).
    pub users: bool,
    /// [`Meta::group`](super::Meta::group).
    pub groups: bool,
    /// [`ExtraMeta::accessed`](super::ExtraMeta::accessed).
    pub accessed: bool,
    /// [`ExtraMeta::linked`](super::ExtraMeta::linked).
    pub linked: bool,
    /// Both ACLs.
    pub acls: bool,
    /// [`ExtraMeta::xattrs`](super::ExtraMeta::xattrs).
    pub xattrs: XattrScope,
    /// Files are read without a change of when they were last read, where we may ask for that.
    pub untouched: bool,
    /// True if [noted](fake_super) attributes of an entry count, and not its own.
    pub fake_super: bool,
}

impl MetaMask {
    /// The same without what is asked for besides every look.
    #[must_use]
    pub fn plain(self) -> Self {
        Self { fake_super: self.fake_super, ..Self::default() }
    }
}

/// Extended attributes to look at. Those of `system.*` never are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XattrScope {
    /// None.
    #[default]
    Nothing,
    /// Attributes of `user.*`: an ordinary user's.
    User,
    /// An ordinary user's, some of which stand for others' (`--fake-super`).
    Disguised,
    /// Attributes as a sender sees them: those that others' stand for, and others' for which none stands.
    Undisguised,
    /// All but those in which rsync notes what it could not set.
    Foreign,
    /// All.
    All,
}

impl XattrScope {
    /// True if an attribute of this name is looked at.
    #[must_use]
    pub fn admits(self, name: &[u8]) -> bool {
        match self {
            Self::Nothing => false,
            Self::User => name.starts_with(b"user."),
            Self::Disguised => name.starts_with(b"user.") && !name.starts_with(FAKE_SUPER),
            Self::Undisguised | Self::Foreign => {
                !name.starts_with(b"system.") && !name.starts_with(FAKE_SUPER)
            }
            Self::All => !name.starts_with(b"system."),
        }
    }
}

impl XattrScope {
    /// The name that travels of an attribute that a tree has under `name`.
    #[must_use]
    pub fn sent_name(self, name: &[u8]) -> &[u8] {
        let is_disguised = matches!(self, Self::Disguised | Self::Undisguised);
        let own = name.strip_prefix(fake_super::DISGUISE).filter(|_| is_disguised);
        own.filter(|own| own.starts_with(b"security.") || own.starts_with(b"trusted."))
            .unwrap_or(name)
    }

    /// The name in a tree of the attribute `name`.
    #[must_use]
    pub fn local_name(self, name: &[u8]) -> Vec<u8> {
        match self {
            Self::Disguised if !name.starts_with(b"user.") => [fake_super::DISGUISE, name].concat(),
            _ => name.to_vec(),
        }
    }
}

/// Prefix of the attributes in which rsync notes what it could not set.
const FAKE_SUPER: &[u8] = b"user.rsync.%";
