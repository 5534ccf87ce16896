//! Masks that choose which optional attributes a store reads.

use super::fake_super;

/// Optional attributes to read. The default reads only kind, size, modification time and mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MetaMask {
    /// Read [`Meta::user`](super::Meta::user).
    pub users: bool,
    /// Read [`Meta::group`](super::Meta::group).
    pub groups: bool,
    /// Read [`ExtraMeta::accessed`](super::ExtraMeta::accessed).
    pub accessed: bool,
    /// Read [`ExtraMeta::linked`](super::ExtraMeta::linked).
    pub linked: bool,
    /// Read the access ACL and the default ACL.
    pub acls: bool,
    /// Scope of [`ExtraMeta::xattrs`](super::ExtraMeta::xattrs).
    pub xattrs: XattrScope,
    /// Read file content without changing the access time (`O_NOATIME`), where permitted.
    pub untouched: bool,
    /// Read [`fake_super`] attributes in place of the entry's own metadata.
    pub fake_super: bool,
}

impl MetaMask {
    /// Returns a mask that reads no optional attributes. `fake_super` is unchanged.
    #[must_use]
    pub fn without_optional(self) -> Self {
        Self { fake_super: self.fake_super, ..Self::default() }
    }
}

/// Extended attributes to read. Attributes of `system.*` and `user.deltic.*` are never read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XattrScope {
    /// No attributes.
    #[default]
    Nothing,
    /// Attributes of `user.*`, which an ordinary user may set.
    User,
    /// Attributes of `user.*` except `user.rsync.%*`. `user.rsync.security.*` and `user.rsync.trusted.*` stand in for
    /// `security.*` and `trusted.*` (`--fake-super`).
    Disguised,
    /// Every attribute except `user.rsync.%*`, for a `--fake-super` sender. Attributes that stand in for others are
    /// sent under the real names.
    Undisguised,
    /// Every attribute except `user.rsync.%*`.
    Foreign,
    /// Every attribute.
    All,
}

impl XattrScope {
    /// True if an attribute of this name is read.
    #[must_use]
    pub fn admits(self, name: &[u8]) -> bool {
        match self {
            Self::Nothing => false,
            _ if name.starts_with(OWN) => false,
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
    /// Returns the name sent to the peer for the local attribute `name`.
    #[must_use]
    pub fn sent_name(self, name: &[u8]) -> &[u8] {
        let is_disguised = matches!(self, Self::Disguised | Self::Undisguised);
        let own = name.strip_prefix(fake_super::DISGUISE).filter(|_| is_disguised);
        own.filter(|own| own.starts_with(b"security.") || own.starts_with(b"trusted."))
            .unwrap_or(name)
    }

    /// Returns the local name of the received attribute `name`.
    #[must_use]
    pub fn local_name(self, name: &[u8]) -> Vec<u8> {
        match self {
            Self::Disguised if !name.starts_with(b"user.") => [fake_super::DISGUISE, name].concat(),
            _ => name.to_vec(),
        }
    }
}

/// Prefix of the names of attributes in which a server keeps notes about a file. No sync reads, sends or changes them.
const OWN: &[u8] = b"user.deltic.";
/// Prefix of the attributes in which rsync stores real metadata.
const FAKE_SUPER: &[u8] = b"user.rsync.%";
