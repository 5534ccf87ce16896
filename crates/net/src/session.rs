//! One session from its first byte to its last, at either end.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use deltic_core::Packed;
use deltic_core::strategy::Link as Figures;
use deltic_protocol::Purpose;
use deltic_protocol::hello::{Abort, Alive, MAGIC, Names, NamesFrom, Reply, Request};
use deltic_protocol::limits::{MAX_NAMES, MAX_NAMES_BYTES, MAX_STREAMS, MAX_TEXT_BYTES};
use deltic_protocol::options::{Missing, Options};
use deltic_protocol::receiver::{Expect, Receiver, Setting};
use deltic_protocol::report::{Trouble, TroubleKind};
use deltic_protocol::sender::Sender;
use deltic_protocol::streams::Join;
use deltic_protocol::{Hello, PeerError, Terms};
use deltic_store::Tree;
use deltic_store_local::{
    LocalOptions, LocalStore, NamedDir, SourceArg, Sources, Trust, UnderWay, remove_root,
};
use deltic_tree::meta::Inode;
use deltic_tree::path::{BadPath, printable, shortened};
use deltic_tree::{Name, RelPath, UnsortedNames};

use crate::batch::{Batch, Tap};
use crate::bounds::files_at_once;
use crate::conduct::{Conduct, Further};
use crate::drive::{Drive, drive};
use crate::error::{SyncError, last_word};
use crate::executor::{Budget, Executor, Share};
use crate::greeting::{Agree, Greeting, Role, agree, check_len, hear_magic, hello, in_time};
use crate::host::destination::{lacking, local_options, make, open_alternates, root_of};
use crate::host::place::{
    Resolved, exists, expand, here, inode_of, places, resolve, unmade, unusable,
};
use crate::host::restrict::{Restriction, check, check_options, check_source};
use crate::host::sources::{
    ListForm, expand_globs, expected, first_name, names_in_file, names_to_tell, open,
};
use crate::host::user::{User, Watch};
use crate::outlets::Outlets;
use crate::patience::run_out;
use crate::plan::{self, Patience};
use crate::streams::{Door, Joined, Joining, beside};
use crate::task::Task;
use crate::transport::{
    Arrivals, Ends, Flow, Heard, RawFrame, Reader, Stream, start_reader, start_writer,
};
use crate::worker::Worker;
use crate::worker::destination::{Asked, DestinationWorker};
use crate::worker::kept::Kept;
use crate::worker::owners::is_privileged;
use crate::worker::source::SourceWorker;
use deltic_engine::machine::Machine;

/// Longest time for the last frames to leave, and for further streams to end.
const CLOSING_PATIENCE: Duration = Duration::from_secs(120);
/// How long a last word may take to leave.
const ABORT_PATIENCE: Duration = Duration::from_secs(2);
/// Most places that an end says it reads or writes in.
const MAX_PLACES: usize = 32;

/// One end of a connection on which a session is held.
pub(crate) struct Session {
    ours: Hello,
    /// What the end said that dialled.
    theirs: Option<Hello>,
    arrivals: Arrivals,
    batches: mpsc::Sender<Vec<u8>>,
    writing: Task<std::io::Result<()>>,
    /// Reads frames as long as the session lasts, and not only its machine: the other end may not have said all.
    reading: Option<Task<()>>,
    flow: Flow,
    further: Further,
    figures: Option<Figures>,
    cache: Option<PathBuf>,
    user: User,
    /// Lines of a list of names that are too long to be told.
    untold: Vec<Trouble>,
    under_way: UnderWay,
    /// The destination, where it lies in what is sent.
    inside: Option<PathBuf>,
    beside: Option<PathBuf>,
    tap: Option<Arc<Tap>>,
    batch: Option<Batch>,
    restriction: Option<Restriction>,
    executor: Executor,
    budget: Budget,
}

/// What the ends agreed on.
struct Agreed {
    terms: Terms,
    joining: Joining,
    /// Whether this end dialled.
    user_is_here: bool,
}

/// A root that was made, and those above it, the last first. Where nothing was to be in it, or the session did not begin, they
/// go again, unless something is in them after all.
#[derive(Default)]
struct Made {
    dirs: Vec<NamedDir>,
    store: Option<LocalStore>,
}

impl Drop for Made {
    fn drop(&mut self) {
        if self.store.as_ref().is_none_or(LocalStore::was_made_in_vain) {
            let _ = self.dirs.iter().try_for_each(remove_root);
        }
    }
}

/// How a machine is to be run.
struct Course {
    joining: Joining,
    /// What is still to be heard.
    greeting: Option<(Greeting, Agree)>,
    share: Share,
}

impl Session {
    /// Over a connection; says nothing yet.
    pub(crate) fn new(ends: Ends, conduct: Conduct) -> Self {
        let flow = Flow::new(&conduct);
        let figures = conduct.figures();
        let Ends { reader, writer, child } = ends;
        conduct.shell.keep(child);
        let (batches, writing) = start_writer(writer, &flow, Stream::First, &MAGIC);
        let Conduct {
            further,
            cache,
            user,
            under_way,
            inside,
            beside,
            tap,
            batch,
            restriction,
            executor,
            budget,
            ..
        } = conduct;
        let ours = hello();
        let arrivals = reader.into();
        Self {
            ours,
            theirs: None,
            arrivals,
            batches,
            writing,
            reading: None,
            flow,
            further,
            figures,
            cache,
            user,
            untold: Vec::new(),
            under_way,
            inside,
            beside,
            tap,
            batch,
            restriction,
            executor,
            budget,
        }
    }

    async fn say(&mut self, frames: Vec<u8>) {
        self.flow.monitor.count_sent(Purpose::Control, frames.len());
        // If nobody listens any more, the reader hears why.
        self.batches.send(frames).await.ok();
    }

    /// The bandwidth of the way to the other end in bits a second, as far as this one knows it.
    fn rate(&self) -> Option<u64> {
        self.figures.map(|figures| figures.bits_per_second)
    }

    /// Says hello, and what we want, at once.
    async fn ask(&mut self, request: &Request) -> Result<(), SyncError> {
        if !request.fits() {
            let message =
                "too many or too long paths and patterns for one run; sync a directory instead";
            return Err(SyncError::Usage(message.into()));
        }
        self.say([self.ours.encode(), request.encode()].concat()).await;
        Ok(())
    }

    async fn hear(&mut self) -> Result<RawFrame, SyncError> {
        loop {
            let frame = self.arrivals.one(&self.flow).await?;
            check_len(&frame.payload)?;
            if let Some(abort) = Abort::decode(frame.kind, &frame.payload)? {
                return Err(abort.into());
            }
            if Alive::decode(frame.kind, &frame.payload)?.is_none() {
                return Ok(frame);
            }
        }
    }

    /// Hears all of a greeting.
    async fn hear_out(&mut self, mut greeting: Greeting) -> Result<(Terms, Reply), SyncError> {
        in_time(async {
            hear_magic(&mut self.arrivals, &self.flow.counters).await?;
            loop {
                let RawFrame { kind, payload } = self.hear().await?;
                if let Some(agreed) = greeting.hear(kind, &payload)? {
                    return Ok(agreed);
                }
            }
        })
        .await
    }

    /// Hears who dialled, and what it asks for.
    async fn hear_request(&mut self) -> Result<(Hello, Request), SyncError> {
        hear_magic(&mut self.arrivals, &self.flow.counters).await?;
        let frame = self.hear().await?;
        let theirs = Hello::decode(frame.kind, &frame.payload)?;
        // Who has nothing in common with us may ask for what we cannot read.
        agree(Role::Sends, &self.ours, &theirs)?;
        let frame = self.hear().await?;
        Ok((theirs, Request::decode(frame.kind, &frame.payload)?))
    }

    /// Says where this end reads or writes, if sources are to be removed: an end on the same machine refuses where that is also
    /// the other's place. Of many, only the first are said.
    fn tell_places(&mut self, inodes: impl IntoIterator<Item = Inode>) {
        let places = places(&self.ours, inodes.into_iter().take(MAX_PLACES));
        self.ours = self.ours.clone().at(&places);
    }

    /// Asks to be sent these paths; then receives them.
    pub(crate) async fn pull(
        mut self,
        (paths, names): (&[OsString], plan::Names),
        destination: &OsStr,
        options: Options,
        watch: Watch<'_>,
    ) -> Result<(), SyncError> {
        let sources = paths.iter().map(|path| path.as_bytes().into()).collect();
        let from = match &names {
            plan::Names::None => NamesFrom::Nowhere,
            plan::Names::Here(_) => NamesFrom::Frames,
            plan::Names::There { path, nul } => {
                NamesFrom::File { path: path.as_bytes().into(), nul: *nul }
            }
        };
        if removes_sources(&options) {
            self.tell_places(inode_of(&self.place(destination.as_bytes())));
        }
        self.ask(&Request::Send { sources, names: from.clone(), options: options.clone() }).await?;
        let expect = match names {
            plan::Names::None => expected(paths, &options),
            plan::Names::Here(names) => self.tell_names(names, &options).await?,
            plan::Names::There { .. } => None,
        };
        let greeting = Greeting::new(self.ours.clone(), Role::Receives, &options);
        let (terms, Reply { single, join }) = self.hear_out(greeting).await?;
        if let Some(tap) = &self.tap {
            tap.begin(single.clone(), &options);
        }
        let (tell, told) = oneshot::channel();
        tell.send((terms, join)).ok();
        let joining = self.dialling(told, options.streams);
        let agreed = Agreed { terms, joining, user_is_here: true };
        // The other end's word does not make one file of what was asked for as a directory. What a list there names it knows alone.
        let may_be_any = matches!(from, NamesFrom::File { .. });
        let is_it = |name: &Name| expect.as_ref().map_or(may_be_any, |expect| expect.admits(name));
        let single = single.filter(is_it);
        let result = match self.resolve(destination.as_bytes(), single.as_ref(), &options) {
            Ok(resolved) => self.receive(resolved, (options, expect), agreed, watch).await,
            Err(error) => Err(error),
        };
        self.end(result).await
    }

    /// Tells the names that a request is for; which names of the root they stand for, if not all.
    async fn tell_names(
        &mut self,
        names: Packed,
        options: &Options,
    ) -> Result<Option<Expect>, SyncError> {
        Names::check(&names)?;
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
            // What cannot be one brings nothing.
            if let Ok(first) = first_name(line, options) {
                firsts = firsts
                    .take()
                    .zip(first)
                    .and_then(|(mut firsts, first)| firsts.push(first).is_ok().then_some(firsts));
            }
            true
        });
        for frame in Names::frames(names) {
            self.say(frame).await;
        }
        self.untold = untold;
        Ok(firsts.map(|firsts| Expect { names: firsts.sorted(), own, ..Expect::default() }))
    }

    /// What a path argument is here. One of this machine has been through its shell.
    fn place(&self, argument: &[u8]) -> PathBuf {
        match self.further {
            Further::Answer { .. } => expand(argument),
            Further::Never | Further::Dial { .. } => here(OsStr::from_bytes(argument)),
        }
    }

    /// What a destination means; nothing is looked at where nothing is brought there.
    fn resolve(
        &self,
        destination: &[u8],
        single: Option<&Name>,
        options: &Options,
    ) -> Result<Resolved, SyncError> {
        if options.select.list_only {
            return Ok(Resolved { root: PathBuf::new(), rename: None, missing: true });
        }
        let resolved = resolve(&self.place(destination), single, options.select.mkpath)?;
        let strange = |error| unusable(&resolved.root, error);
        root_of(&resolved.root, options).check().map_err(strange)?;
        // Who only compares needs the file as well.
        let named = resolved.rename.as_ref().filter(|_| options.dry_run);
        let named = named.map(|name| resolved.root.join(OsStr::from_bytes(name.as_bytes())));
        let is_missing = resolved.missing || named.as_ref().is_some_and(|file| !exists(file));
        if is_missing && options.select.existing {
            let shown = named.as_ref().unwrap_or(&resolved.root).as_os_str().as_bytes();
            let shown = deltic_tree::path::printable(shown);
            return Err(SyncError::Selection(format!("destination {shown}: it is not there")));
        }
        Ok(resolved)
    }

    /// Asks to receive, and begins to send these paths before the other end has answered.
    pub(crate) async fn push(
        mut self,
        (paths, names): (&[PathBuf], plan::Names),
        destination: &OsStr,
        options: Options,
        watch: Watch<'_>,
    ) -> Result<(), SyncError> {
        let paths: Vec<_> = paths.iter().map(|path| path.as_os_str().to_owned()).collect();
        let names = match names {
            plan::Names::None => None,
            plan::Names::Here(names) => Some(names),
            plan::Names::There { path, nul } => {
                let from = NamesFrom::File { path: path.as_bytes().into(), nul };
                return self.push_listed((&paths, from), destination, options, watch).await;
            }
        };
        let sources = open(&paths, names, &options)?;
        let sources = sources.without(self.inside.take()).beside(self.beside.take());
        let single = single_entry(&sources, &options);
        let destination = destination.as_bytes().into();
        if removes_sources(&options) {
            self.tell_places(sources.places());
        }
        let worker = Arc::new(self.sending(sources, &options));
        if let Some(tap) = &self.tap {
            tap.begin(single.clone(), &options);
            tap.sources.set(Arc::clone(&worker)).ok();
        }
        self.push_by(worker, (destination, single), options, watch).await
    }

    /// The same with the names that a list of the other end has, which it tells first.
    async fn push_listed(
        mut self,
        (paths, names): (&[OsString], NamesFrom),
        destination: &OsStr,
        options: Options,
        watch: Watch<'_>,
    ) -> Result<(), SyncError> {
        if self.tap.is_some() {
            let why = "--write-batch: a list on the other machine does not go with it";
            return Err(SyncError::Usage(why.into()));
        }
        if removes_sources(&options) {
            let dirs: Vec<_> = paths.iter().filter_map(|path| inode_of(Path::new(path))).collect();
            self.tell_places(dirs);
        }
        let destination = destination.as_bytes().into();
        let (single, options_too) = (None, options.clone());
        self.ask(&Request::Receive { destination, single, names, options: options_too }).await?;
        let greeting = Greeting::new(self.ours.clone(), Role::Sends, &options);
        let (terms, Reply { join, .. }) = self.hear_out(greeting).await?;
        let names = self.hear_names().await?;
        let (tell, told) = oneshot::channel();
        tell.send((terms, join)).ok();
        let joining = self.dialling(told, options.streams);
        let agreed = Agreed { terms, joining, user_is_here: true };
        let result = match open(paths, Some(names), &options) {
            Ok(sources) => {
                let sources = sources.without(self.inside.take()).beside(self.beside.take());
                self.send(sources, options, agreed, watch).await
            }
            Err(error) => Err(error),
        };
        self.end(result).await
    }

    /// The same with what a batch holds.
    async fn push_batch(
        self,
        batch: Batch,
        destination: &OsStr,
        options: Options,
        watch: Watch<'_>,
    ) -> Result<(), SyncError> {
        let destination = (destination.as_bytes().into(), batch.single().cloned());
        let (own, [users, groups]) = (batch.own(), batch.owners());
        let worker = SourceWorker::new(batch.clone(), own, (&options, &self.ours))
            .calling(users, groups)
            .with_user(self.user.clone());
        self.push_by(Arc::new(worker), destination, options, watch).await
    }

    async fn push_by<T: Tree>(
        mut self,
        worker: Arc<SourceWorker<T>>,
        (destination, single): (Box<[u8]>, Option<Name>),
        options: Options,
        watch: Watch<'_>,
    ) -> Result<(), SyncError> {
        let (names, options_too) = (NamesFrom::Nowhere, options.clone());
        self.ask(&Request::Receive { destination, single, names, options: options_too }).await?;
        let (tell, told) = oneshot::channel();
        let names = Arc::clone(&worker);
        let agree: Agree = Box::new(move |terms, Reply { join, .. }| {
            names.agree(terms);
            // A session of one stream does not ask.
            tell.send((terms, join)).ok();
        });
        let course = Course {
            joining: self.dialling(told, options.streams),
            greeting: Some((Greeting::new(self.ours.clone(), Role::Sends, &options), agree)),
            share: self.share(&options),
        };
        let machine = Sender::new(options).over(self.rate());
        let result = self.run((machine, worker), course, watch).await;
        self.end(result).await
    }

    /// Does what the dialling end asks.
    pub(crate) async fn serve(mut self, watch: Watch<'_>) -> Result<(), SyncError> {
        // A future as large as a session's is moved once, and not once for each that holds it.
        let result = Box::pin(self.answer(watch)).await;
        self.end(result).await
    }

    /// Greets, hears the request, and serves it.
    async fn answer(&mut self, watch: Watch<'_>) -> Result<(), SyncError> {
        self.say(self.ours.encode()).await;
        let is_far = matches!(self.further, Further::Answer { .. });
        let heard = self.hear_request();
        // Sources may take long to open where the other end is in this process, and it does not end without us.
        let (theirs, request) = if is_far { in_time(heard).await? } else { heard.await? };
        let role = match &request {
            Request::Receive { .. } => Role::Receives,
            Request::Send { .. } => Role::Sends,
        };
        let terms = agree(role, &self.ours, &theirs)?;
        self.theirs = Some(theirs);
        let patience = Patience::of_silence(request.silence());
        self.flow.beats(patience.silence);
        let counters = Arc::clone(&self.flow.counters);
        tokio::select! {
            result = self.serve_request(request, terms, watch) => result,
            error = run_out(&patience, &counters) => Err(error),
        }
    }

    async fn serve_request(
        &mut self,
        request: Request,
        terms: Terms,
        watch: Watch<'_>,
    ) -> Result<(), SyncError> {
        let (Request::Send { options, .. } | Request::Receive { options, .. }) = &request;
        terms.admits(&options.strategy, options.delete)?;
        let request = match &self.restriction {
            Some(restriction) => restriction.admit(request)?,
            None => request,
        };
        match request {
            Request::Send { sources, names, options } => {
                let paths: Vec<_> =
                    sources.iter().flat_map(|path| expand_globs(self.place(path))).collect();
                if self.restriction.is_some() {
                    paths.iter().try_for_each(|path| check_source(path))?;
                }
                let names = match names {
                    NamesFrom::Nowhere => None,
                    NamesFrom::File { path, nul } => {
                        let form = ListForm { nul, commented: true };
                        Some(names_in_file(&path, form, Trust::new(options.follow.insecure))?)
                    }
                    NamesFrom::Frames => Some(self.hear_names().await?),
                };
                let sources = open(&paths, names, &options)?;
                self.check_elsewhere(&options, || sources.places())?;
                let single = single_entry(&sources, &options);
                let joining = self.agree(terms, single, options.streams).await;
                let agreed = Agreed { terms, joining, user_is_here: false };
                self.send(sources, options, agreed, watch).await
            }
            Request::Receive { destination, single, names, options } => {
                let listed = match names {
                    NamesFrom::Nowhere => None,
                    NamesFrom::File { path, nul } => {
                        Some(names_to_tell(&path, nul, Trust::new(options.follow.insecure))?)
                    }
                    NamesFrom::Frames => {
                        return Err(PeerError::Unexpected("names of our own sources").into());
                    }
                };
                self.check_elsewhere(&options, || inode_of(&self.place(&destination)))?;
                if self.restriction.is_some() {
                    check("destination", &self.place(&destination))?;
                }
                let resolved = self.resolve(&destination, single.as_ref(), &options)?;
                if self.restriction.is_some() {
                    check_options(&resolved.root, &options)?;
                }
                let expect = single.filter(|_| resolved.rename.is_some());
                let joining = self.agree(terms, None, options.streams).await;
                for frame in listed.into_iter().flat_map(|names| Names::frames(names.into_iter())) {
                    self.say(frame).await;
                }
                let expect = expect.map(|name| [name].into());
                let agreed = Agreed { terms, joining, user_is_here: false };
                self.receive(resolved, (options, expect), agreed, watch).await
            }
        }
    }

    /// Refuses to have sources removed that are what is written to: they would be all there is.
    fn check_elsewhere<I: IntoIterator<Item = Inode>>(
        &self,
        options: &Options,
        here: impl FnOnce() -> I,
    ) -> Result<(), SyncError> {
        let Some(theirs) = self.theirs.as_ref().filter(|_| removes_sources(options)) else {
            return Ok(());
        };
        if places(theirs, here()).iter().any(|place| theirs.is_at(place)) {
            let why = "--remove-source-files: the destination is where the source is";
            return Err(SyncError::Usage(why.into()));
        }
        Ok(())
    }

    /// Hears the names that a request is for, to the last.
    async fn hear_names(&mut self) -> Result<Packed, SyncError> {
        let (mut names, mut bytes) = (Packed::default(), 0);
        loop {
            let frame = self.hear().await?;
            let Names(more) = Names::decode(frame.kind, &frame.payload)?;
            if more.is_empty() {
                return Ok(names);
            }
            bytes += more.iter().map(|name| name.len()).sum::<usize>();
            let whole = more.iter().try_for_each(|name| names.push(name).map(drop));
            if whole.is_err() || names.len() > MAX_NAMES || bytes > MAX_NAMES_BYTES {
                return Err(PeerError::Limit("names").into());
            }
        }
    }

    /// Replies, and says where further streams may join if so many are asked for.
    async fn agree(&mut self, terms: Terms, single: Option<Name>, streams: u32) -> Joining {
        let door = match &self.further {
            Further::Answer { dirs } if terms.streams() && streams > 1 => {
                Door::open(dirs, streams - 1)
            }
            _ => None,
        };
        let join = door.as_ref().map(|door| door.join().clone());
        self.say(Reply { single, join }.encode()).await;
        door.map_or(Joining::Nobody, Joining::Answer)
    }

    /// How we get so many streams, where the other end lets us.
    fn dialling(&self, told: oneshot::Receiver<(Terms, Option<Join>)>, streams: u32) -> Joining {
        match self.further.clone() {
            Further::Dial { remote, host } if streams > 1 => {
                Joining::Dial { remote, host, told, more: streams - 1 }
            }
            _ => Joining::Nobody,
        }
    }

    /// This end's share of the process's threads.
    fn share(&self, options: &Options) -> Share {
        self.executor.admit(self.budget.with_threads(options.threads))
    }

    /// What does a sender's work on these sources.
    fn sending(&self, sources: Sources, options: &Options) -> SourceWorker<Sources> {
        let own = (sources.own(), missing(&sources, options));
        SourceWorker::new(sources, own, (options, &self.ours))
            .over(self.figures)
            .with_kept(Kept::new(self.cache.clone(), options))
            .with_user(self.user.clone())
    }

    async fn send(
        &mut self,
        sources: Sources,
        options: Options,
        Agreed { terms, joining, user_is_here }: Agreed,
        watch: Watch<'_>,
    ) -> Result<(), SyncError> {
        let worker = self.sending(sources, &options);
        worker.agree(terms);
        let course = Course { joining, greeting: None, share: self.share(&options) };
        let mut machine = Sender::new(options).over(self.rate());
        machine.greeted(terms.offers(), terms.limits());
        if terms.removed() && !user_is_here {
            machine.report_removed();
        }
        self.run((machine, Arc::new(worker)), course, watch).await
    }

    async fn receive(
        &mut self,
        resolved: Resolved,
        (options, expect): (Options, Option<Expect>),
        agreed: Agreed,
        watch: Watch<'_>,
    ) -> Result<(), SyncError> {
        let Resolved { root, rename, missing } = resolved;
        let is_privileged = is_privileged(&options.metadata);
        let user_is_here = agreed.user_is_here;
        let lists = options.select.list_only;
        let lacking = if missing && !lists { lacking(&root, &options) } else { Vec::new() };
        let setting = Setting {
            options: options.clone(),
            expect,
            rename,
            is_privileged,
            user_is_here,
            made_dirs: lacking.len() as u64,
            root_is_wanted: root.as_os_str().as_bytes().ends_with(b"/"),
            takes_offers: agreed.terms.offers(),
            tells_resumed: agreed.terms.resumed(),
            tells_passed_over: agreed.terms.passed_over(),
            limits: agreed.terms.limits(),
            most_files: [files_at_once(), agreed.terms.most_files()].into_iter().flatten().min(),
        };
        let see = options.metadata.seen_by_receiver(is_privileged);
        let unusable = |error| unusable(&root, error);
        let mut made = Made::default();
        let store = if missing && (options.dry_run || lists) {
            let local = LocalOptions { see, ..LocalOptions::default() };
            LocalStore::missing(&root, local).map_err(unusable)?
        } else {
            made.dirs = make(&lacking, &options).map_err(|error| unmade(&root, error))?;
            let local = local_options(&root, &options, (see, &self.under_way))?;
            let store = LocalStore::open_named(&root_of(&root, &options), local);
            let store = store.map_err(unusable)?;
            let is_new = made.dirs.first().is_some_and(|made| made.path == root);
            if is_new { store.with_new_root() } else { store }
        };
        made.store = Some(store.clone());
        let (alternates, warnings) = open_alternates(&root, (&options, see));
        let Agreed { terms, joining, .. } = agreed;
        let share = self.share(&options);
        let kept = Kept::new(self.cache.clone(), &options);
        let asked = Asked { terms, options: &options, theirs: terms.part() };
        let worker = DestinationWorker::new(store, alternates, asked, share.clone())?;
        let worker = worker.with_user(self.user.clone());
        let course = Course { joining, greeting: None, share };
        let mut machine = Receiver::new(setting);
        let warning = |message| Trouble::new(TroubleKind::Warned, message);
        let found = warnings.into_iter().map(warning).chain(std::mem::take(&mut self.untold));
        found.for_each(|trouble| machine.found(trouble));
        self.run((machine, Arc::new(worker.with_kept(kept))), course, watch).await
    }

    /// Runs a machine over this connection, and over the streams that join it.
    async fn run<M: Machine, H: Worker<M>>(
        &mut self,
        (machine, worker): (M, Arc<H>),
        Course { joining, greeting, share }: Course,
        watch: Watch<'_>,
    ) -> Result<(), SyncError> {
        let nothing = Reader::Stream(Box::new(tokio::io::empty()));
        let arrivals = std::mem::replace(&mut self.arrivals, nothing.into());
        let heard = if greeting.is_some() { Heard::Nothing } else { Heard::Hello };
        let (into, frames, reading) = start_reader(arrivals, &self.flow, heard);
        self.reading = Some(reading);
        let (tell, news) = mpsc::channel(MAX_STREAMS as usize);
        let (open, mut closed) = mpsc::channel(1);
        let joined = Joined {
            role: Role::of(M::SIDE),
            frames: into,
            news: tell,
            flow: self.flow.clone(),
            open,
        };
        let monitor = self.flow.monitor.clone();
        let tap = self.tap.clone();
        let outlets = Outlets::new(self.batches.clone());
        let counters = Arc::clone(&self.flow.counters);
        let by = Drive { greeting, frames, outlets, news, share, counters, monitor, tap };
        let session = drive(machine, worker, by, watch);
        let result = beside(session, joining.go_on(joined)).await;
        if result.is_ok() {
            // A stream is left only once who sends has said that it is over: an early end would be a fault.
            tokio::time::timeout(CLOSING_PATIENCE, closed.recv()).await.ok();
        }
        result
    }

    /// Closes our side; if we gave up, says why first.
    async fn end(self, result: Result<(), SyncError>) -> Result<(), SyncError> {
        let Self { batches, writing, reading: _reading, .. } = self;
        if let Some(abort) = result.as_ref().err().and_then(last_word) {
            let said = batches.send(abort.encode());
            tokio::time::timeout(ABORT_PATIENCE, said).await.ok();
        }
        drop(batches);
        let patience = if result.is_ok() { CLOSING_PATIENCE } else { ABORT_PATIENCE };
        let written = tokio::time::timeout(patience, writing).await;
        result?;
        match written {
            // The other end may close as soon as it has heard that we are done.
            Ok(Ok(Err(error))) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                Err(SyncError::Transport { action: "write to the other end", source: error })
            }
            _ => Ok(()),
        }
    }
}

/// Whether sources are to go.
const fn removes_sources(options: &Options) -> bool {
    options.remove.sources && !options.select.list_only
}

/// The name of the one entry that comes, if nothing does that is in it. What is to go at the destination goes under its own name, and
/// not under a new one.
fn single_entry(sources: &Sources, options: &Options) -> Option<Name> {
    sources.single().filter(|_| missing(sources, options).is_empty())
}

/// Sources that are not there, if the other end is to be told.
fn missing(sources: &Sources, options: &Options) -> Vec<RelPath> {
    match options.select.missing {
        Missing::Delete => sources.missing(),
        Missing::Fail | Missing::Ignore => Vec::new(),
    }
}

/// What a plan asks of one end.
pub(crate) async fn dial(
    mut session: Session,
    plan: plan::Plan,
    watch: Watch<'_>,
) -> Result<(), SyncError> {
    if plan.by_blake3 {
        session.ours = session.ours.by_blake3();
    }
    let mut options = plan.options.clone();
    session.flow.beats(Patience::of_silence(options.silence).silence);
    if !matches!(session.further, Further::Dial { .. }) {
        options.streams = 1;
    }
    match (&plan.sources, &plan.destination) {
        (plan::Sources::Remote { paths, .. }, plan::Destination::Local(to)) => {
            session.pull((paths, plan.names), to.as_os_str(), options, watch).await
        }
        (plan::Sources::Local(_), plan::Destination::Local(to)) if session.batch.is_some() => {
            let batch = session.batch.take().expect("it was looked at");
            session.push_batch(batch, to.as_os_str(), options, watch).await
        }
        (plan::Sources::Local(paths), plan::Destination::Local(to)) => {
            session.push((paths, plan.names), to.as_os_str(), options, watch).await
        }
        (plan::Sources::Local(paths), plan::Destination::Remote { path, .. }) => {
            session.push((paths, plan.names), path, options, watch).await
        }
        (plan::Sources::Remote { .. }, plan::Destination::Remote { .. }) => {
            Err(SyncError::Usage("source and destination are both remote".into()))
        }
    }
}
