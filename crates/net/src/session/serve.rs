//! The serving end: answers the request of the other end, as far as the host allows.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use deltic_protocol::hello::{Names, NamesFrom, Reply, Request};
use deltic_protocol::options::Options;
use deltic_protocol::{Hello, PeerError, Purpose, Terms};
use deltic_store::{Store, Tree};
use deltic_store_local::Trust;
use deltic_tree::meta::Inode;
use deltic_tree::{Meta, Name};

use crate::config::Further;
use crate::error::SyncError;
use crate::greeting::{Role, agree, receive_magic, within_greeting_timeout};
use crate::host::accounts::SYSTEM;
use crate::host::place::{inode_fingerprints, inode_of};
use crate::host::sources::{ListForm, expand_globs, names_in_file, names_to_send, open};
use crate::host::user::Watch;
use crate::plan::SessionTimeouts;
use crate::streams::{JoinSocket, Joining};
use crate::timeouts::wait_for_timeout;
use deltic_worker::source::SourceWorker;

use super::roles::{Agreed, ReceiveTerms, single_entry};
use super::{DestinationRequest, OpenDestination};
use super::{Session, removes_sources};

/// Longest time that this end holds back its hello to wait for the other end's hello.
const HELLO_TIMEOUT: Duration = Duration::from_millis(10);

/// A tree that a server sends.
#[derive(Debug)]
pub struct Served<T> {
    /// The tree.
    pub tree: T,
    /// Metadata of the root, if the content of a directory was requested. The receiver may then delete other entries of
    /// the destination.
    pub own: Option<Meta>,
    /// Name of the requested file, if a single file was requested.
    pub single: Option<Name>,
}

impl Session {
    /// Answers the request of the connecting end.
    pub(crate) async fn serve(mut self, watch: Watch<'_>) -> Result<(), SyncError> {
        // Boxed, so that this large future is moved once, and not with each future around it.
        let result = Box::pin(self.answer_request(watch)).await;
        self.close(result).await
    }

    /// Answers a request for sources: opens the tree with `open`, and sends the tree.
    pub(crate) async fn serve_tree<T: Tree>(
        mut self,
        open: impl FnOnce(Vec<Vec<u8>>, &Options) -> Result<Served<T>, SyncError> + Send + 'static,
    ) -> Result<(), SyncError> {
        let result = Box::pin(self.answer_from(open)).await;
        self.close(result).await
    }

    async fn answer_from<T: Tree>(
        &mut self,
        open: impl FnOnce(Vec<Vec<u8>>, &Options) -> Result<Served<T>, SyncError> + Send + 'static,
    ) -> Result<(), SyncError> {
        let (request, terms) = self.greet_as(Role::Sends).await?;
        let Request::Send { sources, names, options } = request else {
            return Err(SyncError::Usage("this tree can only be a source".into()));
        };
        terms.check_support(&options.strategy, options.delete)?;
        if !matches!(names, NamesFrom::Nowhere) {
            let why = "--files-from: not with a source that is a URL of a store, which is listed as a whole; \
                       --filter chooses names";
            return Err(SyncError::Options(why.into()));
        }
        let asked = options.clone();
        let paths = sources.into_iter().map(Into::into).collect();
        // Opening blocks: the tree may be on another machine.
        let opened = tokio::task::spawn_blocking(move || open(paths, &asked)).await;
        let Served { tree, own, single } = opened.map_err(|_| SyncError::Internal)??;
        let joining = self.send_reply(terms, single, 1).await;
        let worker = SourceWorker::new(tree, own, &options, &self.ours)
            .with_accounts(SYSTEM)
            .with_adapting(self.compression_adapter(&options))
            .with_kept(self.kept_facts(&options));
        let agreed = Agreed { terms, joining, user_is_here: false };
        self.send_with_worker(worker, options, agreed, &mut |_| ()).await
    }

    /// Receives into the destination that `open` opens for the request of the connecting end.
    pub(crate) async fn serve_destination<S: Store>(
        mut self,
        open: impl FnOnce(DestinationRequest) -> Result<OpenDestination<S>, SyncError> + Send + 'static,
        watch: Watch<'_>,
    ) -> Result<(), SyncError> {
        let result = Box::pin(self.answer_into(open, watch)).await;
        self.close(result).await
    }

    async fn answer_into<S: Store>(
        &mut self,
        open: impl FnOnce(DestinationRequest) -> Result<OpenDestination<S>, SyncError> + Send + 'static,
        watch: Watch<'_>,
    ) -> Result<(), SyncError> {
        let (request, terms) = self.greet_as(Role::Receives).await?;
        let timeouts = SessionTimeouts::of_silence(request.max_silence_secs());
        self.flow.send_life_signs_within(timeouts.silence);
        let counters = Arc::clone(&self.flow.counters);
        let Request::Receive { destination: path, single, names, options } = request else {
            return Err(SyncError::Usage("this tree can only be a destination".into()));
        };
        terms.check_support(&options.strategy, options.delete)?;
        if !matches!(names, NamesFrom::Nowhere) {
            let why = "--files-from: this destination has no files with names of sources";
            return Err(SyncError::Options(why.into()));
        }
        let asked = DestinationRequest { path, single: single.clone(), options: options.clone() };
        let opened = tokio::task::spawn_blocking(move || open(asked)).await;
        let destination = opened.map_err(|_| SyncError::Internal)??;
        let expect = single.filter(|_| destination.rename.is_some()).map(|name| [name].into());
        let joining = self.send_reply(terms, None, 1).await;
        let agreed = Agreed { terms, joining, user_is_here: false };
        let terms = ReceiveTerms { options, expect, agreed };
        tokio::select! {
            result = self.receive_by(destination, terms, watch) => result,
            error = wait_for_timeout(&timeouts, &counters) => Err(error),
        }
    }

    /// Sends the hello and reads a request that gives this end the role `role`.
    async fn greet_as(&mut self, role: Role) -> Result<(Request, Terms), SyncError> {
        self.send_frames(self.ours.encode()).await;
        let (theirs, request) = within_greeting_timeout(self.receive_request()).await?;
        let terms = agree(role, &self.ours, &theirs)?;
        self.theirs = Some(theirs);
        Ok((request, terms))
    }

    /// Exchanges hellos, reads the request, and answers the request.
    pub(super) async fn answer_request(&mut self, watch: Watch<'_>) -> Result<(), SyncError> {
        let is_far = matches!(self.config.further, Further::Answer { .. });
        // Opening sources may take long. An other end in this process gets the hello before.
        let (theirs, mut request) = match is_far {
            true => self.greet_and_receive().await?,
            false => {
                self.send_frames(self.ours.encode()).await;
                self.receive_request().await?
            }
        };
        let (Request::Send { options, .. } | Request::Receive { options, .. }) = &mut request;
        options.strategy = self.config.strategy.unwrap_or(options.strategy);
        let role = match &request {
            Request::Receive { .. } => Role::Receives,
            Request::Send { .. } => Role::Sends,
        };
        let terms = agree(role, &self.ours, &theirs)?;
        self.theirs = Some(theirs);
        let timeouts = SessionTimeouts::of_silence(request.max_silence_secs());
        self.flow.send_life_signs_within(timeouts.silence);
        let counters = Arc::clone(&self.flow.counters);
        tokio::select! {
            result = self.serve_request(request, terms, watch) => result,
            error = wait_for_timeout(&timeouts, &counters) => Err(error),
        }
    }

    /// Sends the hello, and reads the hello and request of the other end. Mostly both have already arrived: then the
    /// hello names only capabilities of both ends, and is sent together with the answer.
    async fn greet_and_receive(&mut self) -> Result<(Hello, Request), SyncError> {
        let (hello, batches) = (self.ours.encode(), self.batches.clone());
        let monitor = self.flow.monitor.clone();
        let heard = {
            let mut heard = pin!(within_greeting_timeout(self.receive_request()));
            tokio::select! {
                biased;
                heard = &mut heard => heard,
                () = tokio::time::sleep(HELLO_TIMEOUT) => {
                    monitor.count_sent(Purpose::Control, hello.len());
                    // The reader finds the reason if the other end has closed the connection.
                    batches.send(hello.clone()).await.ok();
                    return heard.await;
                }
            }
        };
        if let Ok((theirs, _)) = &heard {
            self.ours = self.ours.clone().in_common_with(theirs);
        }
        self.owed = self.ours.encode();
        heard
    }

    /// Reads the hello and the request of the connecting end.
    pub(super) async fn receive_request(&mut self) -> Result<(Hello, Request), SyncError> {
        receive_magic(&mut self.arrivals, &self.flow.counters).await?;
        let frame = self.receive_frame().await?;
        let theirs = Hello::decode(frame.kind, &frame.payload)?;
        // Without a common version, the request may not be decodable.
        agree(Role::Sends, &self.ours, &theirs)?;
        let frame = self.receive_frame().await?;
        Ok((theirs, Request::decode(frame.kind, &frame.payload)?))
    }

    pub(super) async fn serve_request(
        &mut self,
        request: Request,
        terms: Terms,
        watch: Watch<'_>,
    ) -> Result<(), SyncError> {
        let (Request::Send { options, .. } | Request::Receive { options, .. }) = &request;
        terms.check_support(&options.strategy, options.delete)?;
        let context = &self.config.host.context().clone();
        match self.config.host.admit(request)? {
            Request::Send { sources, names, options } => {
                let paths: Vec<_> = sources
                    .iter()
                    .flat_map(|path| expand_globs(self.config.host.path(path), context))
                    .collect();
                paths.iter().try_for_each(|path| self.config.host.check_source(path))?;
                let trust = Trust::new(options.follow.insecure);
                let names = match names {
                    NamesFrom::Nowhere => None,
                    NamesFrom::File { path, nul } => {
                        let form = ListForm { nul, commented: true };
                        Some(names_in_file(&path, form, trust, context)?)
                    }
                    NamesFrom::Frames => {
                        // The other end may wait for this hello before sending the names.
                        self.send_frames(Vec::new()).await;
                        Some(self.receive_names().await?)
                    }
                };
                let sources = open(&paths, names, &options, context)?;
                self.check_elsewhere(&options, || sources.dir_inodes())?;
                let single = single_entry(&sources, &options);
                let joining = self.send_reply(terms, single, options.streams).await;
                let agreed = Agreed { terms, joining, user_is_here: false };
                self.send_sources(sources, options, agreed, watch).await
            }
            Request::Receive { destination, single, names, options } => {
                let trust = Trust::new(options.follow.insecure);
                let listed = match names {
                    NamesFrom::Nowhere => None,
                    NamesFrom::File { path, nul } => {
                        Some(names_to_send(&path, nul, trust, context)?)
                    }
                    NamesFrom::Frames => {
                        return Err(PeerError::Unexpected("names from a receiver").into());
                    }
                };
                let path = self.config.host.path(&destination);
                self.check_elsewhere(&options, || inode_of(&path, context))?;
                self.config.host.check_destination(&path)?;
                let resolved = self.resolve(&destination, single.as_ref(), &options)?;
                self.config.host.check_options(&resolved.root, &options)?;
                let expect = single.filter(|_| resolved.rename.is_some());
                let joining = self.send_reply(terms, None, options.streams).await;
                for frame in
                    listed.into_iter().flat_map(|names| Names::name_frames(names.into_iter()))
                {
                    self.send_frames(frame).await;
                }
                let expect = expect.map(|name| [name].into());
                let agreed = Agreed { terms, joining, user_is_here: false };
                self.receive(resolved, ReceiveTerms { options, expect, agreed }, watch).await
            }
        }
    }

    /// Refuses to remove sources that are also the destination, since no copy would remain.
    pub(super) fn check_elsewhere<I: IntoIterator<Item = Inode>>(
        &self,
        options: &Options,
        here: impl FnOnce() -> I,
    ) -> Result<(), SyncError> {
        let Some(theirs) = self.theirs.as_ref().filter(|_| removes_sources(options)) else {
            return Ok(());
        };
        if inode_fingerprints(theirs, here()).iter().any(|place| theirs.is_at(place)) {
            let why = "--remove-source-files: source and destination are the same";
            return Err(SyncError::Options(why.into()));
        }
        Ok(())
    }

    /// Replies to the request. Announces where further streams may join, if more than one stream is requested.
    pub(super) async fn send_reply(
        &mut self,
        terms: Terms,
        single: Option<Name>,
        streams: u32,
    ) -> Joining {
        let door = match &self.config.further {
            Further::Answer { dirs } if terms.link.streams && streams > 1 => {
                JoinSocket::open(dirs, streams - 1)
            }
            _ => None,
        };
        let join = door.as_ref().map(|door| door.join().clone());
        self.send_frames(Reply { single, join }.encode()).await;
        door.map_or(Joining::Nobody, Joining::Answer)
    }
}
