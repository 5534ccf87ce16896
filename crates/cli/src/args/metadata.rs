//! Options for owners, permissions and other metadata. `-r`, `-l`, `-p` and `-t` are declared beside `-a`.

use std::ffi::OsString;

use anyhow::{Result, bail};
use clap::ArgAction;
use deltic_protocol::options::{Metadata, Powers};
use deltic_tree::meta::{IdRules, ModeRules};

/// Metadata to carry over.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Ownership, permissions, ACLs and xattrs")]
pub(crate) struct MetadataArgs {
    /// Preserve owners
    ///
    /// Only if the receiver may change owners, as root may.
    #[arg(short, long, overrides_with = "no_owner")]
    owner: bool,
    /// Preserve groups
    ///
    /// Only groups that the receiver may set.
    #[arg(short, long, overrides_with = "no_group")]
    group: bool,
    /// Same as --devices --specials
    #[arg(short = 'D', overrides_with = "no_devices_and_specials")]
    devices_and_specials: bool,
    /// Preserve devices
    ///
    /// Only if the receiver may create devices, as root may.
    #[arg(long, overrides_with = "no_devices")]
    devices: bool,
    /// Preserve FIFOs and sockets
    #[arg(long, overrides_with = "no_specials")]
    specials: bool,
    /// Preserve executability (without -p)
    #[arg(short = 'E', long)]
    executability: bool,
    /// Change permissions of copies: D755,F644 or Dg+s,Fgo-w
    #[arg(long, value_name = "RULES", action = ArgAction::Append)]
    chmod: Vec<String>,
    /// Preserve hard links
    #[arg(short = 'H', long, overrides_with = "no_hard_links")]
    hard_links: bool,
    /// Store privileged attributes in xattrs, or restore them
    ///
    /// Owners and devices, for example, are stored in extended attributes. -M--fake-super applies to the other end.
    #[arg(long, overrides_with_all = ["no_fake_super", "tried", "no_super"])]
    fake_super: bool,
    /// Preserve ACLs (implies -p)
    #[arg(short = 'A', long, overrides_with = "no_acls")]
    acls: bool,
    /// Preserve extended attributes; -XX: rsync's own too
    ///
    /// rsync's own attributes, user.rsync.*, hold the metadata of --fake-super.
    #[arg(short = 'X', long, action = ArgAction::Count, overrides_with = "no_xattrs")]
    xattrs: u8,
    /// Preserve access times; -UU: implies --open-noatime
    #[arg(short = 'U', long, action = ArgAction::Count, overrides_with = "no_atimes")]
    atimes: u8,
    /// Do not change access times when reading
    ///
    /// Only for the user's own files, or as root.
    #[arg(long, overrides_with = "no_open_noatime")]
    open_noatime: bool,
    /// Do not preserve times of directories
    #[arg(short = 'O', long, overrides_with = "no_omit_dir_times")]
    omit_dir_times: bool,
    /// Do not preserve times of symbolic links
    #[arg(short = 'J', long, overrides_with = "no_omit_link_times")]
    omit_link_times: bool,
    /// Preserve numeric user and group IDs, not names
    #[arg(long, overrides_with = "no_numeric_ids")]
    numeric_ids: bool,
    /// Map owners by FROM:TO pairs of names or numbers
    ///
    /// FROM may be a range of numbers or a pattern; the first matching pair wins.
    #[arg(long, value_name = "PAIRS")]
    usermap: Option<IdPairs>,
    /// Map groups by FROM:TO pairs, as --usermap
    #[arg(long, value_name = "PAIRS")]
    groupmap: Option<IdPairs>,
    /// Set owner and group of all files; either may be omitted
    #[arg(long, value_name = "USER:GROUP")]
    chown: Option<ChownTarget>,
    /// Attempt super-user activities, even if not root
    #[arg(long = "super", overrides_with_all = ["no_super", "fake_super"])]
    tried: bool,
    /// Do not attempt super-user activities, even as root
    #[arg(long, overrides_with_all = ["tried", "fake_super"])]
    no_super: bool,
    /// Undo the -o of -a
    #[arg(long, alias = "no-o", overrides_with = "owner")]
    no_owner: bool,
    /// Undo the -g of -a
    #[arg(long, alias = "no-g", overrides_with = "group")]
    no_group: bool,
    /// Undo the -D of -a
    #[arg(long = "no-D", overrides_with = "devices_and_specials")]
    no_devices_and_specials: bool,
    /// Undo the --devices of -D
    #[arg(long, overrides_with = "devices")]
    no_devices: bool,
    /// Undo the --specials of -D
    #[arg(long, overrides_with = "specials")]
    no_specials: bool,
    /// Undo -H
    #[arg(long, alias = "no-H", overrides_with = "hard_links", hide = true)]
    no_hard_links: bool,
    /// Undo --fake-super
    #[arg(long, overrides_with = "fake_super", hide = true)]
    no_fake_super: bool,
    /// Undo -A
    #[arg(long, alias = "no-A", overrides_with = "acls", hide = true)]
    no_acls: bool,
    /// Undo -X
    #[arg(long, alias = "no-X", overrides_with = "xattrs", hide = true)]
    no_xattrs: bool,
    /// Undo -U
    #[arg(long, alias = "no-U", overrides_with = "atimes", hide = true)]
    no_atimes: bool,
    /// Undo --open-noatime
    #[arg(long, overrides_with = "open_noatime", hide = true)]
    no_open_noatime: bool,
    /// Undo -O
    #[arg(long, alias = "no-O", overrides_with = "omit_dir_times", hide = true)]
    no_omit_dir_times: bool,
    /// Undo -J
    #[arg(long, alias = "no-J", overrides_with = "omit_link_times", hide = true)]
    no_omit_link_times: bool,
    /// Undo --numeric-ids
    #[arg(long, overrides_with = "numeric_ids", hide = true)]
    no_numeric_ids: bool,
}

/// Role of the far end, for options that apply to one end only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RemoteRole {
    /// The sources are on the other machine.
    Sources,
    /// The destination is on the other machine.
    Destination,
    /// No role: both ends are on this machine.
    Nothing,
}

/// Options given with `-M`: options that change the plan, and the rest for the far end's command line.
#[derive(Clone, Debug, Default)]
pub(crate) struct PeerOptions {
    notes: Option<bool>,
    powers: Option<Powers>,
    pub(crate) munges: bool,
    rest: Vec<OsString>,
}

impl PeerOptions {
    pub(crate) fn of(words: &[OsString]) -> Self {
        let mut all = Self::default();
        for word in words {
            let (notes, powers) = match word.to_str() {
                Some("--fake-super") => (true, Powers::Own),
                Some("--super") => (false, Powers::Tried),
                Some("--no-super") => (false, Powers::Waived),
                Some("--munge-links") => {
                    all.munges = true;
                    continue;
                }
                _ => {
                    all.rest.push(word.clone());
                    continue;
                }
            };
            (all.notes, all.powers) = (Some(notes), Some(powers));
        }
        all
    }
}

/// Returns the options of `-M` for the far end's command line.
pub(crate) fn remote_words(words: &[OsString]) -> Vec<OsString> {
    PeerOptions::of(words).rest
}

/// A value of `--usermap` or `--groupmap`.
#[derive(Clone, Debug)]
struct IdPairs(IdRules);

impl std::str::FromStr for IdPairs {
    type Err = deltic_tree::meta::BadIdRules;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        IdRules::parse(text).map(Self)
    }
}

/// A value of `--chown`.
#[derive(Clone, Debug)]
struct ChownTarget {
    user: IdRules,
    group: IdRules,
}

impl std::str::FromStr for ChownTarget {
    type Err = deltic_tree::meta::BadIdRules;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (user, group) = text.split_once(':').unwrap_or((text, ""));
        let everybody = |to: &str| match to {
            "" => Ok(IdRules::default()),
            to => IdRules::parse(&format!("*:{to}")),
        };
        Ok(Self { user: everybody(user)?, group: everybody(group)? })
    }
}

impl MetadataArgs {
    /// Decides which ends keep in xattrs the metadata that only root can set (`--fake-super`): the source reads these
    /// xattrs, the destination writes them.
    ///
    /// `words` are the options of `-M`. On one machine, this end is the source, and the other end does the same by
    /// default.
    pub(crate) fn set_fake_super(
        &self,
        far: RemoteRole,
        words: &[OsString],
        metadata: &mut Metadata,
    ) -> Result<()> {
        let PeerOptions { notes, powers, .. } = PeerOptions::of(words);
        let (near, other) =
            (self.fake_super, notes.unwrap_or(self.fake_super && far == RemoteRole::Nothing));
        (metadata.reads_notes, metadata.writes_notes) =
            if far == RemoteRole::Sources { (other, near) } else { (near, other) };
        if far != RemoteRole::Sources {
            metadata.powers = powers.unwrap_or(metadata.powers);
        }
        if metadata.all_xattrs && (near || other) {
            bail!("--fake-super cannot be used with -XX");
        }
        Ok(())
    }

    /// Returns the options for metadata; `archive` is true with `-a`. `umask` is called only if needed.
    pub(crate) fn metadata(&self, archive: bool, umask: impl Fn() -> u32) -> Result<Metadata> {
        // Options taken out of `-a` or `-D` stay out.
        let taken = self.devices_and_specials || archive && !self.no_devices_and_specials;
        let chmod = self.chmod.join(",");
        let chmod = match ModeRules::parse(&chmod, umask()) {
            _ if self.chmod.is_empty() => ModeRules::default(),
            Ok(rules) => rules,
            Err(bad) => bail!("--chmod: {bad}"),
        };
        let owner = self.chown.clone();
        let (chown_user, chown_group) = owner.map(|owner| (owner.user, owner.group)).unzip();
        let pairs = |map: &Option<IdPairs>| map.clone().map(|IdPairs(rules)| rules);
        let one = |option, map: &Option<IdPairs>, chown: Option<IdRules>| {
            let chown = chown.filter(|rules| !rules.is_empty());
            if map.is_some() && chown.is_some() {
                bail!("the {option} option conflicts with the --chown option");
            }
            Ok(pairs(map).or(chown).unwrap_or_default())
        };
        let user_map = one("--usermap", &self.usermap, chown_user)?;
        let group_map = one("--groupmap", &self.groupmap, chown_group)?;
        let own = |asked: bool, undone: bool| asked || archive && !undone;
        Ok(Metadata {
            users: own(self.owner, self.no_owner) || !user_map.is_empty(),
            groups: own(self.group, self.no_group) || !group_map.is_empty(),
            devices: self.devices || taken && !self.no_devices,
            specials: self.specials || taken && !self.no_specials,
            executability: self.executability,
            omit_dir_times: self.omit_dir_times,
            omit_link_times: self.omit_link_times,
            accessed: self.atimes > 0,
            untouched: self.open_noatime || self.atimes > 1,
            acls: self.acls,
            xattrs: self.xattrs > 0,
            all_xattrs: self.xattrs > 1,
            hard_links: self.hard_links,
            reads_notes: false,
            writes_notes: false,
            numeric_ids: self.numeric_ids,
            powers: match (self.tried, self.no_super) {
                (true, _) => Powers::Tried,
                (false, true) => Powers::Waived,
                (false, false) => Powers::Own,
            },
            chmod,
            user_map,
            group_map,
        })
    }
}
