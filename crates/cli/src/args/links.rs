//! Options for symbolic links.

use std::ffi::OsString;

use deltic_net::Trust;
use deltic_protocol::options::Links;
use deltic_tree::Follow;

use super::metadata::{PeerOptions, RemoteRole};

/// Options for trust in the owners of symbolic links in paths.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct TrustArgs {
    /// Follow symbolic links of other users in paths
    ///
    /// Applies to the paths of operands and options.
    #[arg(long)]
    pub(crate) insecure_links: bool,
}

impl TrustArgs {
    /// Returns the trust in owners of symlinks.
    pub(crate) const fn trust(&self) -> Trust {
        Trust::new(self.insecure_links)
    }
}

/// Options for symbolic links.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Symbolic links")]
pub(crate) struct LinkArgs {
    /// Copy the targets of symbolic links
    #[arg(short = 'L', long)]
    copy_links: bool,
    /// Copy the targets of symbolic links to directories
    #[arg(short = 'k', long)]
    copy_dirlinks: bool,
    /// Copy the targets of links that may leave the sources
    #[arg(long)]
    copy_unsafe_links: bool,
    /// Keep symbolic links to directories at DEST
    ///
    /// A source directory updates the directory that the link points to.
    #[arg(short = 'K', long, overrides_with = "no_keep_dirlinks")]
    keep_dirlinks: bool,
    /// Take back -K
    #[arg(long, alias = "no-K", overrides_with = "keep_dirlinks", hide = true)]
    no_keep_dirlinks: bool,
    /// Skip symbolic links that may leave the tree
    #[arg(long)]
    safe_links: bool,
    /// Store symbolic links in a form that cannot be followed
    ///
    /// Links are munged at the destination, and restored at the source.
    #[arg(long, overrides_with = "no_munge_links")]
    munge_links: bool,
    /// Take back --munge-links
    #[arg(long, overrides_with = "munge_links", hide = true)]
    no_munge_links: bool,
    #[command(flatten)]
    pub(crate) others: TrustArgs,
}

impl LinkArgs {
    /// Returns the options for symlinks.
    pub(crate) fn links(&self, far: RemoteRole, far_words: &[OsString]) -> Links {
        let follow = match (self.copy_links, self.copy_unsafe_links, self.copy_dirlinks) {
            (true, _, _) => Follow::All,
            (false, true, true) => Follow::DirsAndUnsafe,
            (false, true, false) => Follow::Unsafe,
            (false, false, true) => Follow::Dirs,
            (false, false, false) => Follow::Never,
        };
        // On one machine, this end counts as the source.
        let ends = (PeerOptions::of(far_words).munges, self.munge_links);
        let (munge, unmunge) = if far == RemoteRole::Sources { (ends.1, ends.0) } else { ends };
        Links {
            follow,
            safe: self.safe_links,
            munge,
            keep_dirs: self.keep_dirlinks,
            unmunge,
            insecure: self.others.insecure_links,
        }
    }
}
