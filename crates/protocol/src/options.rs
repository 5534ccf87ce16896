//! What the two ends are asked to do: the meaning of the command line, sent once after the hello.

use deltic_core::meta::{IdRules, ModeRules, Scope};
use deltic_core::rule::Rule;
use deltic_core::{See, Strategy};

/// How a tree is brought over. Everything is off by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Descend into directories (`-r`).
    pub recursive: bool,
    /// Recreate symbolic links (`-l`).
    pub links: bool,
    /// Carry permission bits over (`-p`).
    pub modes: bool,
    /// Carry modification times over (`-t`).
    pub times: bool,
    /// Compare content where size and time agree (`-c`).
    pub checksum: bool,
    /// Send changed files whole instead of by recipe (`-W`).
    pub whole_file: bool,
    /// Whose entries are, and what else they get.
    pub metadata: Metadata,
    /// Say what would change, change nothing (`-n`).
    pub dry_run: bool,
    /// Whether names that the sender does not have are removed (`--delete`).
    pub delete: Delete,
    /// Compress literals with zstd (`-z`).
    pub compress: bool,
    /// Flush files and directories to the disk before the run counts as done; off with `--no-fsync`.
    pub durable: bool,
    /// Threads that each end computes with (`--threads`), as far as its machine bears them; 0 for as many as it has
    /// processors.
    pub threads: u32,
    /// Streams of the session (`--streams`), the first among them; 0 is one as well. More only where both ends
    /// [know how](crate::Terms::streams).
    pub streams: u32,
    /// Whose way files go, where they do not go whole (`--strategy`).
    pub strategy: Strategy,
    /// `--include` and `--exclude` in order; the first that matches wins.
    pub rules: Vec<Rule>,
}

/// What is carried over besides permission bits and modification times, and how. Nothing by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// Owners (`-o`), where the receiver may give files away.
    pub users: bool,
    /// Groups (`-g`), those that the receiver may give.
    pub groups: bool,
    /// Devices (`--devices`), where the receiver may make some.
    pub devices: bool,
    /// FIFOs and sockets (`--specials`).
    pub specials: bool,
    /// Whether files may be executed (`-E`), where permission bits stay out.
    pub executability: bool,
    /// Leave times of directories alone (`-O`).
    pub omit_dir_times: bool,
    /// Leave times of symbolic links alone (`-J`).
    pub omit_link_times: bool,
    /// When files were last read (`-U`).
    pub accessed: bool,
    /// Read files without a change of that (`--open-noatime`).
    pub untouched: bool,
    /// ACLs (`-A`).
    pub acls: bool,
    /// Extended attributes (`-X`).
    pub xattrs: bool,
    /// Those too in which rsync notes what it could not set (`-XX`).
    pub all_xattrs: bool,
    /// Give numbers of users and groups as they are, whatever they are called (`--numeric-ids`).
    pub numeric_ids: bool,
    /// What the receiver takes upon itself.
    pub powers: Powers,
    /// Changes of the sender's permission bits (`--chmod`).
    pub chmod: ModeRules,
    /// Who becomes the owner (`--usermap`).
    pub user_map: IdRules,
    /// What becomes the group (`--groupmap`).
    pub group_map: IdRules,
}

impl Metadata {
    /// Whether a sender tells what users are called.
    #[must_use]
    pub const fn names_users(&self) -> bool {
        !self.numeric_ids && (self.users || self.acls)
    }

    /// Whether a sender tells what groups are called.
    #[must_use]
    pub const fn names_groups(&self) -> bool {
        !self.numeric_ids && (self.groups || self.acls)
    }

    /// What a sender looks at.
    #[must_use]
    pub const fn seen_by_sender(&self) -> See {
        let xattrs = match (self.xattrs, self.all_xattrs) {
            (false, _) => Scope::Nothing,
            (true, false) => Scope::Foreign,
            (true, true) => Scope::All,
        };
        See { xattrs, ..self.seen() }
    }

    /// What a receiver looks at that is privileged, or is not: an ordinary user has no other attributes than his own.
    #[must_use]
    pub const fn seen_by_receiver(&self, is_privileged: bool) -> See {
        let xattrs = match (self.xattrs, is_privileged) {
            (false, _) => Scope::Nothing,
            (true, false) => Scope::User,
            (true, true) => Scope::All,
        };
        See { xattrs, ..self.seen() }
    }

    const fn seen(&self) -> See {
        See {
            users: self.users,
            groups: self.groups,
            accessed: self.accessed,
            linked: false,
            acls: self.acls,
            xattrs: Scope::Nothing,
            untouched: self.untouched,
        }
    }
}

/// Whether a receiver does what the superuser may: give files away, make devices, set any extended attribute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Powers {
    /// If it is the superuser.
    #[default]
    Own,
    /// It tries (`--super`).
    Tried,
    /// Not even then (`--no-super`).
    Waived,
}

/// Whether, and how far, the receiver removes names that the sender does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delete {
    /// Never.
    #[default]
    Never,
    /// Yes, but not from an empty source, and not more than 1,000 names that are also more than a quarter of the tree:
    /// that is an accident more often than a wish.
    Guarded,
    /// Yes, up to this many names (`--max-delete`), whatever they are.
    AtMost(u64),
}
