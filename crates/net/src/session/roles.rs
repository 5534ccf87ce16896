//! The roles of a session: sender and receiver.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use deltic_engine::machine::Machine;
use deltic_protocol::Terms;
use deltic_protocol::options::{Missing, Options};
use deltic_protocol::receiver::Expect;
use deltic_protocol::sender::Sender;
use deltic_store::{Store, StoreError, Tree};
use deltic_store_local::{
    LocalOptions, LocalStore, NamedDir, SourceTree, SpaceQuota, StoreContext, remove_root,
};
use deltic_tree::{Name, RelPath};

use crate::bounds::files_at_once;
use crate::config::SessionConfig;
use crate::error::SyncError;
use crate::executor::DeferredDrop;
use crate::greeting::Role;
use crate::host::accounts::SYSTEM;
use crate::host::destination::{local_options, make_dirs, missing_dirs, open_alternates, root_dir};
use crate::host::place::{
    Resolved, creation_error, exists, printable_client_path, resolve, unusable_error,
};
use crate::host::user::Watch;
use crate::streams::Joining;
use deltic_worker::kept::KeptFacts;
use deltic_worker::receiving::{OpenDestination, ReceiverConfig, ReceiverEnd};
use deltic_worker::source::SourceWorker;

use super::{RunConfig, Session};

/// Terms that the ends agreed on, and the role of this end.
pub(super) struct Agreed {
    pub(super) terms: Terms,
    pub(super) joining: Joining,
    /// True if this is the connecting end.
    pub(super) user_is_here: bool,
}

/// Terms on which this end receives.
pub(super) struct ReceiveTerms {
    pub(super) options: Options,
    /// Names that may arrive at the root, unless any may.
    pub(super) expect: Option<Expect>,
    pub(super) agreed: Agreed,
}

/// Directories that were made for a session: the root and its missing parents, the deepest first. When this value is
/// dropped, empty ones are removed if the session did not begin, or if nothing was to be put there.
#[derive(Default)]
struct CreatedDirs {
    dirs: Vec<NamedDir>,
    /// Quotas to which the directories count.
    quotas: Vec<Arc<SpaceQuota>>,
    store: Option<LocalStore>,
}

impl Drop for CreatedDirs {
    fn drop(&mut self) {
        if self.store.as_ref().is_none_or(LocalStore::is_new_and_unused) {
            let _ = self.dirs.iter().try_for_each(|dir| remove_root(dir, &self.quotas));
        }
    }
}

impl Session {
    /// Resolves a destination. With `--list-only`, touches no file.
    pub(super) fn resolve(
        &self,
        destination: &[u8],
        single: Option<&Name>,
        options: &Options,
    ) -> Result<Resolved, SyncError> {
        if options.select.list_only {
            return Ok(Resolved { root: PathBuf::new(), rename: None, missing: true });
        }
        let (host, context) = (&self.config.host, self.config.host.context());
        let resolved = resolve(&host.path(destination), single, options.select.mkpath, context)?;
        let strange = |error| unusable_error(&resolved.root, error, context);
        root_dir(&resolved.root, options, context).check_symlinks().map_err(strange)?;
        // For a dry run of a single file, the file counts as the destination.
        let named = resolved.rename.as_ref().filter(|_| options.dry_run);
        let named = named.map(|name| resolved.root.join(OsStr::from_bytes(name.as_bytes())));
        let is_missing =
            resolved.missing || named.as_ref().is_some_and(|file| !exists(file, context));
        if is_missing && options.select.existing {
            let shown = printable_client_path(named.as_ref().unwrap_or(&resolved.root), context);
            return Err(SyncError::Selection(format!("destination {shown}: does not exist")));
        }
        Ok(resolved)
    }

    /// Makes the worker that reads these sources.
    pub(super) fn source_worker(
        &self,
        sources: SourceTree,
        options: &Options,
    ) -> SourceWorker<SourceTree> {
        let (own, missing) = (sources.root_meta(), missing_sources(&sources, options));
        SourceWorker::new(sources, own, options, &self.ours)
            .with_missing(missing)
            .with_accounts(SYSTEM)
            .with_adapting(self.compression_adapter(options))
            .with_kept(self.kept_facts(options))
            .with_user(self.config.user.clone())
            .with_moved(self.config.moved.clone())
    }

    /// Returns the facts that earlier sessions kept.
    pub(super) fn kept_facts(&self, options: &Options) -> KeptFacts {
        let SessionConfig { facts, old_sums, .. } = &self.config;
        KeptFacts::new(facts.shared_store(), options, old_sums.clone())
            .counting_sums(self.config.sums.clone())
            .with_random(random_bytes)
    }

    pub(super) async fn send_sources(
        &mut self,
        sources: SourceTree,
        options: Options,
        Agreed { terms, joining, user_is_here }: Agreed,
        watch: Watch<'_>,
    ) -> Result<(), SyncError> {
        let worker = self.source_worker(sources, &options);
        self.send_with_worker(worker, options, Agreed { terms, joining, user_is_here }, watch).await
    }

    pub(super) async fn send_with_worker<T: Tree>(
        &mut self,
        worker: SourceWorker<T>,
        options: Options,
        Agreed { terms, joining, user_is_here }: Agreed,
        watch: Watch<'_>,
    ) -> Result<(), SyncError> {
        worker.agree(terms);
        self.flow.agree(&terms, Role::Sends);
        let told = terms.link.earlier_rate.filter(|rate| *rate > 0);
        self.config.learned = self.config.learned.or(told);
        let run = RunConfig {
            joining,
            greeting: None,
            share: self.share_of_threads(&options),
            user_is_here: false,
        };
        let mut machine = Sender::new(options);
        Machine::greeted(&mut machine, &terms);
        if terms.reports.removed && !user_is_here {
            machine.report_removed_sources();
        }
        self.run(machine, Arc::new(worker), run, watch).await
    }

    /// Opens the directory of a resolved destination, and creates missing directories.
    fn open_directory(
        &self,
        Resolved { root, rename, missing }: Resolved,
        options: &Options,
    ) -> Result<OpenDestination<LocalStore>, SyncError> {
        let (lists, context) = (options.select.list_only, self.config.host.context());
        let see = options.metadata.mask_of_receiver(SYSTEM.are_privileged(&options.metadata));
        let lacking =
            if missing && !lists { missing_dirs(&root, options, context) } else { Vec::new() };
        let unusable = |error| open_root_error(&root, error, context);
        let mut made = CreatedDirs::default();
        let store = if missing && (options.dry_run || lists) {
            let local = LocalOptions { see, ..LocalOptions::default() };
            LocalStore::with_missing_root(&root_dir(&root, options, context), local)
                .map_err(unusable)?
        } else {
            made.quotas = self.config.host.store_options(&root, LocalOptions::default()).quotas;
            make_dirs(&lacking, options, context, &made.quotas, &mut made.dirs)
                .map_err(|error| make_root_error(&root, error, context))?;
            let local = local_options(&root, options, context, see, &self.config.under_way)?;
            let local = self.config.host.store_options(&root, local);
            let store = LocalStore::open_named(&root_dir(&root, options, context), local);
            let store = store.map_err(unusable)?;
            let is_new = made.dirs.first().is_some_and(|made| made.path == root);
            if is_new { store.with_new_root() } else { store }
        };
        made.store = Some(store.clone());
        let (alternates, warnings) = open_alternates(&root, options, context, see);
        Ok(OpenDestination {
            rename,
            made_dirs: lacking.len() as u64,
            root_is_wanted: root.as_os_str().as_bytes().ends_with(b"/"),
            alternates,
            warnings,
            accounts: SYSTEM,
            at_end: Box::new(made),
            ..OpenDestination::new(store)
        })
    }

    /// Receives into a directory.
    pub(super) async fn receive(
        &mut self,
        resolved: Resolved,
        terms: ReceiveTerms,
        watch: Watch<'_>,
    ) -> Result<(), SyncError> {
        let destination = self.open_directory(resolved, &terms.options)?;
        self.receive_by(destination, terms, watch).await
    }

    /// Receives into any store.
    pub(super) async fn receive_by<S: Store>(
        &mut self,
        destination: OpenDestination<S>,
        ReceiveTerms { options, expect, agreed }: ReceiveTerms,
        watch: Watch<'_>,
    ) -> Result<(), SyncError> {
        let Agreed { terms, joining, user_is_here } = agreed;
        self.flow.agree(&terms, Role::Receives);
        let share = self.share_of_threads(&options);
        let most_files = files_at_once(&self.config.budget);
        let config = ReceiverConfig { terms, options, expect, user_is_here, most_files };
        let end = destination.receiver(config, |options| self.kept_facts(options))?;
        let ReceiverEnd { mut machine, worker, at_end: _at_end } = end;
        let worker = worker
            .with_drops(Arc::new(DeferredDrop::new(share.clone())))
            .with_buffered_bytes(self.config.budget.buffered_bytes)
            .with_user(self.config.user.clone());
        std::mem::take(&mut self.untold)
            .into_iter()
            .for_each(|trouble| machine.report_trouble(trouble));
        let run = RunConfig { joining, greeting: None, share, user_is_here };
        self.run(machine, Arc::new(worker), run, watch).await
    }
}

/// Returns random bytes of the system.
fn random_bytes() -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).ok().map(|()| bytes)
}

fn make_root_error(root: &Path, error: StoreError, context: &StoreContext) -> SyncError {
    creation_error(root, error.message_for(&printable_client_path(root, context)), context)
}

/// Converts the error of opening a root. Errors about another directory name the option of that directory.
fn open_root_error(root: &Path, error: StoreError, context: &StoreContext) -> SyncError {
    match error {
        StoreError::Argument { .. } => SyncError::Selection(error.to_string()),
        error => unusable_error(root, error, context),
    }
}

/// Returns the name of the only entry that is sent, if no missing source is to be deleted. An entry to be deleted
/// keeps its own name at the destination.
pub(super) fn single_entry(sources: &SourceTree, options: &Options) -> Option<Name> {
    sources.single_name().filter(|_| missing_sources(sources, options).is_empty())
}

/// Returns the missing sources, if the other end is to be told.
fn missing_sources(sources: &SourceTree, options: &Options) -> Vec<RelPath> {
    match options.select.missing {
        Missing::Delete => sources.missing(),
        Missing::Fail | Missing::Ignore => Vec::new(),
    }
}
