//! The connecting end: sends the request of a plan.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::oneshot;

use deltic_core::PackedStrings;
use deltic_protocol::Terms;
use deltic_protocol::hello::{Names, NamesFrom, Reply, Request};
use deltic_protocol::limits::MAX_TEXT_BYTES;
use deltic_protocol::options::Options;
use deltic_protocol::receiver::Expect;
use deltic_protocol::report::{Trouble, TroubleKind};
use deltic_protocol::sender::Sender;
use deltic_protocol::streams::Join;
use deltic_store::{Store, Tree};
use deltic_store_local::SourceArg;
use deltic_tree::path::{BadPath, printable, shortened};
use deltic_tree::{Name, UnsortedNames};

use crate::batch::Batch;
use crate::config::Further;
use crate::error::SyncError;
use crate::greeting::{Agree, Greeting, Role};
use crate::host::accounts::SYSTEM;
use crate::host::place::inode_of;
use crate::host::sources::{expected_names, first_name, open};
use crate::host::user::Watch;
use crate::plan::{self, SessionTimeouts};
use crate::streams::Joining;
use deltic_worker::source::SourceWorker;

use super::roles::{Agreed, ReceiveTerms, single_entry};
use super::{DestinationRequest, OpenDestination};
use super::{RunConfig, Session, removes_sources};

/// Runs a plan at the connecting end.
pub(crate) async fn dial(
    session: Session,
    plan: plan::Plan,
    watch: Watch<'_>,
) -> Result<(), SyncError> {
    let (mut session, options) = adapt_to_plan(session, &plan);
    match (&plan.sources, &plan.destination) {
        (plan::Sources::Remote { paths, .. }, plan::Destination::Local(to)) => {
            let sources = SourcePaths { paths, names: plan.names };
            session.pull(sources, to.as_os_str(), options, watch).await
        }
        (plan::Sources::Local(_), plan::Destination::Local(to))
            if session.config.batch.is_some() =>
        {
            let batch = session.config.batch.take().expect("it was looked at");
            session.push_batch(batch, to.as_os_str(), options, watch).await
        }
        (plan::Sources::Local(paths), plan::Destination::Local(to)) => {
            let sources = SourcePaths { paths: &command_words(paths), names: plan.names };
            session.push(sources, to.as_os_str(), options, watch).await
        }
        (plan::Sources::Local(paths), plan::Destination::Remote { path, .. }) => {
            let sources = SourcePaths { paths: &command_words(paths), names: plan.names };
            session.push(sources, path, options, watch).await
        }
        (plan::Sources::Remote { .. }, plan::Destination::Remote { .. }) => {
            Err(SyncError::Usage("source and destination are both remote".into()))
        }
    }
}

/// Adapts a session to a plan. Returns the session, and the options to request.
pub(crate) fn adapt_to_plan(mut session: Session, plan: &plan::Plan) -> (Session, Options) {
    if plan.by_blake3 {
        session.ours = session.ours.without_fast_fingerprints();
    }
    if session.config.learned.is_some_and(|rate| rate >= FAST_LINK) {
        session.ours = session.ours.without_code_filter();
    }
    if session.is_far && matches!(plan.sources, plan::Sources::Remote { .. }) {
        session.ours = session.ours.with_link_rate(session.config.learned);
    }
    let mut options = plan.options.clone();
    session.flow.send_life_signs_within(SessionTimeouts::of_silence(options.silence).silence);
    if !matches!(session.config.further, Further::Dial { .. }) {
        options.streams = 1;
    }
    (session, options)
}

/// Returns paths as the words of a command line.
fn command_words(paths: &[PathBuf]) -> Vec<OsString> {
    paths.iter().map(|path| path.as_os_str().to_owned()).collect()
}

/// Rate in bits a second from which the search for address fields takes longer than the fields save
/// (docs/decisions/0080).
const FAST_LINK: u64 = 250_000_000;

/// The sources of a session, as arguments name them.
pub(crate) struct SourcePaths<'a, N = plan::Names> {
    pub(crate) paths: &'a [OsString],
    /// Place of the names below the only source (`--files-from`).
    pub(crate) names: N,
}

/// The destination of a push.
pub(super) struct PushTarget {
    /// Path at the other end.
    path: Box<[u8]>,
    /// The name of the only entry that is sent.
    single: Option<Name>,
    options: Options,
}

/// The agreement with an end that will send.
struct Sending {
    /// Name of the entry to be received, if there is only one.
    single: Option<Name>,
    /// Names that may arrive at the root.
    expect: Option<Expect>,
    agreed: Agreed,
}

impl Session {
    /// Requests these paths, and receives them into a directory.
    pub(crate) async fn pull(
        mut self,
        sources: SourcePaths<'_>,
        destination: &OsStr,
        options: Options,
        watch: Watch<'_>,
    ) -> Result<(), SyncError> {
        if removes_sources(&options) {
            self.add_places(inode_of(
                &self.config.host.path(destination.as_bytes()),
                self.config.host.context(),
            ));
        }
        let Sending { single, expect, agreed } = self.ask_for(sources, &options).await?;
        let result = match self.resolve(destination.as_bytes(), single.as_ref(), &options) {
            Ok(resolved) => {
                self.receive(resolved, ReceiveTerms { options, expect, agreed }, watch).await
            }
            Err(error) => Err(error),
        };
        self.close(result).await
    }

    /// Requests these paths, and receives them into the destination that `open` opens. The name of the only entry is
    /// filled into `request` before.
    pub(crate) async fn pull_into<S: Store>(
        mut self,
        sources: SourcePaths<'_>,
        request: DestinationRequest,
        open: impl FnOnce(DestinationRequest) -> Result<OpenDestination<S>, SyncError> + Send,
        watch: Watch<'_>,
    ) -> Result<(), SyncError> {
        let options = request.options.clone();
        let Sending { single, expect, agreed } = self.ask_for(sources, &options).await?;
        let result = match open(DestinationRequest { single, ..request }) {
            Ok(destination) => {
                let terms = ReceiveTerms { options, expect, agreed };
                self.receive_by(destination, terms, watch).await
            }
            Err(error) => Err(error),
        };
        self.close(result).await
    }

    /// Requests these paths from the other end, and reads its greeting.
    async fn ask_for(
        &mut self,
        SourcePaths { paths, names }: SourcePaths<'_>,
        options: &Options,
    ) -> Result<Sending, SyncError> {
        let sources = paths.iter().map(|path| path.as_bytes().into()).collect();
        let from = match &names {
            plan::Names::None => NamesFrom::Nowhere,
            plan::Names::Here(_) => NamesFrom::Frames,
            plan::Names::There { path, nul } => {
                NamesFrom::File { path: path.as_bytes().into(), nul: *nul }
            }
        };
        self.send_request(&Request::Send {
            sources,
            names: from.clone(),
            options: options.clone(),
        })
        .await?;
        let expect = match names {
            plan::Names::None => expected_names(paths, options),
            plan::Names::Here(names) => self.send_names(names, options).await?,
            plan::Names::There { .. } => None,
        };
        let greeting = Greeting::new(self.ours.clone(), Role::Receives, options);
        let (terms, Reply { single, join }) = self.receive_greeting(greeting).await?;
        if let Some(tap) = &self.config.tap {
            tap.begin(single.clone(), options);
        }
        let (tell, told) = oneshot::channel();
        tell.send((terms, join)).ok();
        let joining = self.join_by_dialling(told, options.streams);
        let agreed = Agreed { terms, joining, user_is_here: true };
        // The other end cannot turn a requested directory into a single file. Only the other end knows the names in a
        // list on its machine.
        let may_be_any = matches!(from, NamesFrom::File { .. });
        let is_it =
            |name: &Name| expect.as_ref().map_or(may_be_any, |expect| expect.is_expected(name));
        Ok(Sending { single: single.filter(is_it), expect, agreed })
    }

    /// Sends the names of a list. Returns the names at the root that the list may bring, or `None` for any names.
    pub(super) async fn send_names(
        &mut self,
        names: PackedStrings,
        options: &Options,
    ) -> Result<Option<Expect>, SyncError> {
        Names::check_names(&names)?;
        let (mut firsts, mut own) = (Some(UnsortedNames::default()), false);
        let mut untold = Vec::new();
        let names = names.into_iter().filter(|line| {
            if line.len() > MAX_TEXT_BYTES {
                let shown = printable(line);
                let message = format!("cannot read {}: {}", shortened(&shown), BadPath::TooLong);
                untold.push(Trouble::new(TroubleKind::Failed, message));
                return false;
            }
            own |= options.select.relative && SourceArg::is_dotted(line);
            // A line that is not a valid path brings no file.
            if let Ok(first) = first_name(line, options) {
                firsts = firsts
                    .take()
                    .zip(first)
                    .and_then(|(mut firsts, first)| firsts.push(first).is_ok().then_some(firsts));
            }
            true
        });
        for frame in Names::name_frames(names) {
            self.send_frames(frame).await;
        }
        self.untold = untold;
        Ok(firsts.map(|firsts| Expect {
            names: firsts.into_sorted_names(),
            own,
            ..Expect::default()
        }))
    }

    /// Requests to send, and begins to send these paths before the other end has answered.
    pub(crate) async fn push(
        mut self,
        SourcePaths { paths, names }: SourcePaths<'_>,
        destination: &OsStr,
        options: Options,
        watch: Watch<'_>,
    ) -> Result<(), SyncError> {
        let names = match names {
            plan::Names::None => None,
            plan::Names::Here(names) => Some(names),
            plan::Names::There { path, nul } => {
                let names = NamesFrom::File { path: path.as_bytes().into(), nul };
                let sources = SourcePaths { paths, names };
                return self.push_listed(sources, destination, options, watch).await;
            }
        };
        let sources = open(paths, names, &options, self.config.host.context())?;
        let sources = sources
            .excluding_destination(self.config.inside.take())
            .for_destination(self.config.beside.take());
        let single = single_entry(&sources, &options);
        let path = destination.as_bytes().into();
        if removes_sources(&options) {
            self.add_places(sources.dir_inodes());
        }
        let worker = Arc::new(self.source_worker(sources, &options));
        if let Some(tap) = &self.config.tap {
            tap.begin(single.clone(), &options);
            tap.sources.set(Arc::clone(&worker)).ok();
        }
        self.push_by(worker, PushTarget { path, single, options }, watch).await
    }

    /// Pushes by a list on the other end, which first sends the names of the list.
    pub(super) async fn push_listed(
        mut self,
        SourcePaths { paths, names }: SourcePaths<'_, NamesFrom>,
        destination: &OsStr,
        options: Options,
        watch: Watch<'_>,
    ) -> Result<(), SyncError> {
        if self.config.tap.is_some() {
            let why = "--write-batch: cannot be combined with a list on the other machine";
            return Err(SyncError::Options(why.into()));
        }
        if removes_sources(&options) {
            let inode = |path: &OsString| inode_of(Path::new(path), self.config.host.context());
            let dirs: Vec<_> = paths.iter().filter_map(inode).collect();
            self.add_places(dirs);
        }
        let destination = destination.as_bytes().into();
        let (single, options_too) = (None, options.clone());
        self.send_request(&Request::Receive { destination, single, names, options: options_too })
            .await?;
        let greeting = Greeting::new(self.ours.clone(), Role::Sends, &options);
        let (terms, Reply { join, .. }) = self.receive_greeting(greeting).await?;
        let names = self.receive_names().await?;
        let (tell, told) = oneshot::channel();
        tell.send((terms, join)).ok();
        let joining = self.join_by_dialling(told, options.streams);
        let agreed = Agreed { terms, joining, user_is_here: true };
        let result = match open(paths, Some(names), &options, self.config.host.context()) {
            Ok(sources) => {
                let sources = sources
                    .excluding_destination(self.config.inside.take())
                    .for_destination(self.config.beside.take());
                self.send_sources(sources, options, agreed, watch).await
            }
            Err(error) => Err(error),
        };
        self.close(result).await
    }

    /// Pushes the content of a batch.
    pub(super) async fn push_batch(
        self,
        batch: Batch,
        destination: &OsStr,
        options: Options,
        watch: Watch<'_>,
    ) -> Result<(), SyncError> {
        let (path, single) = (destination.as_bytes().into(), batch.single().cloned());
        let [users, groups] = batch.owners();
        let worker = SourceWorker::new(batch.clone(), batch.root_meta(), &options, &self.ours)
            .with_missing(batch.missing())
            .with_accounts(SYSTEM)
            .with_adapting(self.compression_adapter(&options))
            .calling(users, groups)
            .with_user(self.config.user.clone());
        self.push_by(Arc::new(worker), PushTarget { path, single, options }, watch).await
    }

    pub(super) async fn push_by<T: Tree>(
        mut self,
        worker: Arc<SourceWorker<T>>,
        PushTarget { path: destination, single, options }: PushTarget,
        watch: Watch<'_>,
    ) -> Result<(), SyncError> {
        let (names, options_too) = (NamesFrom::Nowhere, options.clone());
        self.send_request(&Request::Receive { destination, single, names, options: options_too })
            .await?;
        let (tell, told) = oneshot::channel();
        let names = Arc::clone(&worker);
        let agree: Agree = Box::new(move |terms, Reply { join, .. }| {
            names.agree(terms);
            // A session with one stream has dropped the receiver of this value.
            tell.send((terms, join)).ok();
        });
        let run = RunConfig {
            joining: self.join_by_dialling(told, options.streams),
            user_is_here: false,
            greeting: Some((Greeting::new(self.ours.clone(), Role::Sends, &options), agree)),
            share: self.share_of_threads(&options),
        };
        let machine = Sender::new(options).with_max_offer_len(worker.most_offered());
        let result = self.run(machine, worker, run, watch).await;
        self.close(result).await
    }

    /// Returns how to open `streams` streams, if the other end allows further streams.
    pub(super) fn join_by_dialling(
        &self,
        told: oneshot::Receiver<(Terms, Option<Join>)>,
        streams: u32,
    ) -> Joining {
        match self.config.further.clone() {
            Further::Dial { remote, host } if streams > 1 => {
                Joining::Dial { remote, host, told, more: streams - 1 }
            }
            _ => Joining::Nobody,
        }
    }
}
