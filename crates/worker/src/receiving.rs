//! The receiving end of a session: a machine, and the worker that changes an opened destination.

use deltic_protocol::Terms;
use deltic_protocol::options::Options;
use deltic_protocol::receiver::{Expect, Receiver, Setting};
use deltic_protocol::report::{Trouble, TroubleKind};
use deltic_store::Store;
use deltic_tree::Name;

use crate::alternates::Alternates;
use crate::destination::{DestinationConfig, DestinationWorker};
use crate::kept::KeptFacts;
use crate::owners::{Accounts, UnknownAccount};

/// A destination that was opened for a session. Settings of the store itself are not part of this value: quotas,
/// backups, places for staged files.
pub struct OpenDestination<S> {
    /// The tree that changes.
    pub store: S,
    /// The new name of the only entry, if the destination's path names a file and not a directory.
    pub rename: Option<Name>,
    /// Number of directories that were made for this session: the root and its missing parents.
    pub made_dirs: u64,
    /// True if the request named the root with a trailing slash, so that even an empty root is wanted.
    pub root_is_wanted: bool,
    /// The trees of `--compare-dest`, `--copy-dest` or `--link-dest`, in the order of the options; `None` for a tree
    /// that could not be opened.
    pub alternates: Vec<Option<S>>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
    /// Functions that look up users and groups of the store's machine.
    pub accounts: Accounts,
    /// Dropped when the session has ended, successfully or not.
    pub at_end: Box<dyn Send>,
}

/// The terms of a receiver in a session.
pub struct ReceiverConfig {
    /// The agreed terms.
    pub terms: Terms,
    /// The options of the run.
    pub options: Options,
    /// The only names that may arrive at the root; `None` for any.
    pub expect: Option<Expect>,
    /// True if the user is at this end.
    pub user_is_here: bool,
    /// Most files under way at once, if this end can hold only few files open.
    pub most_files: Option<usize>,
}

/// A receiver that is ready for its session.
pub struct ReceiverEnd<S: Store> {
    /// The machine.
    pub machine: Receiver,
    /// The worker for the machine.
    pub worker: DestinationWorker<S>,
    /// Dropped when the session has ended, successfully or not.
    pub at_end: Box<dyn Send>,
}

impl<S: Store> OpenDestination<S> {
    /// Returns the root of `store`, without users, groups or alternate trees.
    #[must_use]
    pub fn new(store: S) -> Self {
        Self {
            store,
            rename: None,
            made_dirs: 0,
            root_is_wanted: false,
            alternates: Vec::new(),
            warnings: Vec::new(),
            accounts: Accounts::NONE,
            at_end: Box::new(()),
        }
    }

    /// Makes the receiver that changes this destination. `kept` supplies facts of earlier sessions for the options.
    ///
    /// # Errors
    /// [`UnknownAccount`] if the options name users or groups that do not exist on the store's machine.
    pub fn receiver(
        self,
        config: ReceiverConfig,
        kept: impl FnOnce(&Options) -> KeptFacts,
    ) -> Result<ReceiverEnd<S>, UnknownAccount> {
        let Self { store, rename, made_dirs, root_is_wanted, .. } = self;
        let Self { alternates, warnings, accounts, at_end, .. } = self;
        let ReceiverConfig { terms, mut options, expect, user_is_here, most_files } = config;
        // Changes are reported by the names at the source. At the destination, another file may have that name.
        options.tells_digests &= rename.is_none();
        let kept = kept(&options);
        let setting = Setting {
            options: options.clone(),
            expect,
            rename,
            is_privileged: accounts.are_privileged(&options.metadata),
            user_is_here,
            made_dirs,
            root_is_wanted,
            takes_offers: terms.offers,
            tells_bases: terms.bases,
            takes_holes: terms.may_send_holes(&options),
            agrees_on_sums: terms.kept_sums,
            summed_blocks: terms.summed_blocks(&options),
            proposes_candidates: terms.may_propose_candidates(),
            sums_old: kept.supplies_old_bases(),
            tells_resumed: terms.reports.resumed,
            tells_passed_over: terms.reports.passed_over,
            asks_reasons: terms.reports.reasons,
            joins_answers: terms.short_forms.answers,
            limits: terms.limits,
            most_files: [most_files, terms.most_files].into_iter().flatten().min(),
        };
        let asked = DestinationConfig { terms, options: &options, theirs: terms.part, accounts };
        let worker = DestinationWorker::new(store, Alternates::new(alternates), asked)?;
        let mut machine = Receiver::new(setting);
        let warning = |message| Trouble::new(TroubleKind::Warned, message);
        warnings.into_iter().map(warning).for_each(|trouble| machine.report_trouble(trouble));
        Ok(ReceiverEnd { machine, worker: worker.with_kept(kept), at_end })
    }
}
