//! Reads inotify events on a separate thread, because the kernel drops events that are not read in time.
//!
//! The kernel has one watch for each directory, whatever path led to the directory. So paths below a root are resolved
//! without symlinks, as the store does. Otherwise a symlink in a directory's place could take over the watch of another
//! directory. The store looks at changed entries through its own handles.

#![expect(
    clippy::disallowed_methods,
    reason = "looks at roots that users name; below them only by names that were listed"
)]

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use deltic_protocol::options::Options;
use deltic_store::{Tree, is_staging_name};
use deltic_store_local::{SourceArg, StoreContext};
use deltic_tree::rule::Rule;
use deltic_tree::{Entry, Name, RelPath};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::fs::{self, CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::Shared;
use super::dirt::Change;
use super::mounts::Mounts;
use super::tree::{Event, Kind, Listed, Unwatched, WatchNo, WatchedDirs, Watches};
use crate::error::SyncError;
use crate::host::sources;

/// The sources to be watched.
pub(super) struct Site {
    /// Source arguments that are directories.
    pub(super) dirs: Vec<SourceArg>,
    /// Source arguments that are not directories.
    pub(super) files: Vec<SourceArg>,
    pub(super) options: Options,
}

/// Bytes of events that are read at once.
const BUFFER_BYTES: usize = 64 << 10;
/// Events that are read before the changes are reported.
const AT_ONCE: usize = 1024;
/// Most attempts to resolve a path while names on the path are being renamed.
const MAX_TRIES: usize = 8;
/// Pause between two checks that the roots exist and are the watched directories.
const LOOK_FOR_ROOTS: Duration = Duration::from_secs(1);
/// Pause between two tries to watch all directories.
const LOOK_FOR_ROOM: Duration = Duration::from_secs(300);

/// Watches `site` until the other end of `stop` is closed. Returns once the watch has begun.
pub(super) fn start(site: Site, shared: Shared, stop: OwnedFd) -> Result<(), SyncError> {
    let failed = |action| move |errno: Errno| SyncError::Watch { action, source: errno.into() };
    let flags = CreateFlags::NONBLOCK | CreateFlags::CLOEXEC;
    let queue = inotify::init(flags).map_err(failed("watch the source"))?;
    let files = watch_files(&queue, &site.files).map_err(failed("watch the source"))?;
    let ground = Kernel::new(queue, site);
    let (tell, begun) = mpsc::sync_channel(1);
    let run = move || Watcher::new(ground, files, shared).run_watch(&stop, &tell);
    let spawned = thread::Builder::new().name("watch".into()).spawn(run);
    spawned.map_err(|source| SyncError::Transport { action: "start threads", source })?;
    // The thread has ended early by a panic, which was reported.
    begun.recv().map_err(|_| SyncError::Internal)
}

/// Names of single files to watch, by the watch of their directory.
type Files = HashMap<i32, HashSet<Name>>;

fn watch_files(queue: &OwnedFd, files: &[SourceArg]) -> Result<Files, Errno> {
    let mut watched = Files::new();
    for file in files {
        let Some((above, name)) = file.path().split_last() else { continue };
        let dir = file.dir().join(OsStr::from_bytes(above.as_bytes()));
        let no = inotify::add_watch(queue, dir, watched_events() | WatchFlags::ONLYDIR)?;
        watched.entry(no).or_default().insert(name);
    }
    Ok(watched)
}

fn watched_events() -> WatchFlags {
    WatchFlags::CREATE
        | WatchFlags::DELETE
        | WatchFlags::MOVED_FROM
        | WatchFlags::MOVED_TO
        | WatchFlags::MODIFY
        | WatchFlags::CLOSE_WRITE
        | WatchFlags::ATTRIB
        | WatchFlags::DELETE_SELF
        | WatchFlags::MOVE_SELF
}

/// The directories of this machine, watched by inotify.
struct Kernel {
    queue: OwnedFd,
    site: Site,
    /// Lists the watched directories. It is open only during a look, because open directories cannot be unmounted.
    tree: Option<deltic_store_local::SourceTree>,
}

impl Kernel {
    fn new(queue: OwnedFd, site: Site) -> Self {
        Self { queue, site, tree: None }
    }

    fn add(&self, dir: &RelPath) -> Result<i32, Errno> {
        let place = self.site.local_path(dir).ok_or(Errno::NOENT)?;
        let flags = watched_events() | WatchFlags::ONLYDIR | WatchFlags::EXCL_UNLINK;
        match self.site.open_below(dir) {
            Some(Err(Errno::NOSYS | Errno::PERM)) | None => {
                // The path of a root may lead through symlinks, as that of a source.
                let follows = dir.is_root();
                let follow = if follows { WatchFlags::empty() } else { WatchFlags::DONT_FOLLOW };
                inotify::add_watch(&self.queue, &*place, flags | follow)
            }
            Some(opened) => {
                let held = opened?;
                let way = format!("/proc/self/fd/{}/.", held.as_raw_fd());
                inotify::add_watch(&self.queue, way, flags)
            }
        }
    }
}

impl Site {
    fn tree(&self) -> deltic_store_local::SourceTree {
        let dirs = self.dirs.iter().cloned().map(Ok);
        let mut options = self.options.clone();
        options.metadata.hard_links = true;
        sources::of(dirs, &options, &StoreContext::default())
            .expect("they are as many as arguments of a command")
    }

    /// Returns the local path for a path of the transfer.
    fn local_path(&self, path: &RelPath) -> Option<PathBuf> {
        let arg = self.dirs.iter().find(|arg| path.starts_with(arg.path()))?;
        Some(arg.dir().join(OsStr::from_bytes(path.as_bytes())))
    }

    /// Opens a directory below an argument without following symlinks. Returns `None` if `path` is an argument itself,
    /// or is not below an argument.
    fn open_below(&self, path: &RelPath) -> Option<Result<OwnedFd, Errno>> {
        let arg = self.dirs.iter().find(|arg| path.starts_with(arg.path()))?;
        let below = &path.as_bytes()[arg.path().as_bytes().len()..];
        let below = below.strip_prefix(b"/").unwrap_or(below);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let resolve =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let open = |root: PathBuf| {
            let root = fs::openat(CWD, root, flags, Mode::empty())?;
            let open = || fs::openat2(&root, below, flags, Mode::empty(), resolve);
            let mut tries = std::iter::repeat_with(open).take(MAX_TRIES);
            let opened = tries.find(|tried| !matches!(tried, Err(Errno::AGAIN | Errno::INTR)));
            opened.unwrap_or(Err(Errno::AGAIN))
        };
        (!below.is_empty()).then(|| open(self.local_path(arg.path()).ok_or(Errno::NOENT)?))
    }

    /// Returns the local paths of the arguments that are directories.
    fn roots(&self) -> Vec<PathBuf> {
        self.dirs.iter().filter_map(|arg| self.local_path(arg.path())).collect()
    }

    /// True if all these directories exist.
    fn is_there(&self) -> bool {
        self.roots().iter().all(|path| path.metadata().is_ok_and(|meta| meta.is_dir()))
    }

    /// Returns the names of rules files. A change of a rules file may change the set of transferred files.
    fn rule_files(&self) -> HashSet<Vec<u8>> {
        let named = |rule: &Rule| match rule {
            Rule::DirMerge(merge) => {
                // A rules file with slashes in its name lies above the roots, or is found by its last name.
                merge.file.rsplit(|byte| *byte == b'/').next().map(<[u8]>::to_vec)
            }
            Rule::Pattern(_) => None,
        };
        self.options.rules.list.iter().filter_map(named).collect()
    }
}

impl WatchedDirs for Kernel {
    fn renew(&mut self) {
        self.tree = None;
    }

    fn watch(&mut self, dir: &RelPath) -> Result<WatchNo, Unwatched> {
        match self.add(dir) {
            Ok(no) => Ok(WatchNo(no)),
            Err(Errno::NOSPC | Errno::NOMEM) => Err(Unwatched::TooMany),
            Err(_) => Err(Unwatched::Nothing),
        }
    }

    fn unwatch(&mut self, no: WatchNo) {
        // A removed directory has lost its watch already.
        inotify::remove_watch(&self.queue, no.0).ok();
    }

    fn list(&mut self, dir: &RelPath) -> Listed {
        // A directory that cannot be listed cannot be synced; the round reports that.
        let tree = self.tree.get_or_insert_with(|| self.site.tree());
        let entries = tree.list(dir).map(|listing| listing.entries).unwrap_or_default();
        let is_linked = |entry: &Entry| entry.meta.hard_link().is_some();
        let has_links = entries.iter().any(is_linked);
        let dirs = entries.into_iter().filter(|entry| entry.meta.is_dir());
        Listed { dirs: dirs.map(|entry| entry.name).collect(), has_links }
    }

    fn has_other_names(&mut self, path: &RelPath) -> bool {
        // Only the number of links is read, so a symlink on the way does no harm.
        let stat = self.site.local_path(path).map(fs::lstat);
        stat.is_some_and(|stat| stat.is_ok_and(|stat| stat.st_nlink > 1))
    }
}

/// Converts events into changes.
struct Watcher {
    ground: Kernel,
    watches: Watches,
    files: Files,
    rule_files: HashSet<Vec<u8>>,
    shared: Shared,
    mounts: Mounts,
    /// Times of the last check of the roots, and of the last full comparison.
    looked: (Instant, Instant),
}

/// Reasons for the thread to wake up.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Woken {
    /// Events may have arrived, or the roots are due for a check.
    Up,
    /// A file system was mounted or unmounted somewhere.
    ByMounts,
}

impl Watcher {
    fn new(ground: Kernel, files: Files, shared: Shared) -> Self {
        let roots = ground.site.dirs.iter().map(|arg| arg.path().clone()).collect();
        let rule_files = ground.site.rule_files();
        let mounts = Mounts::new(&ground.site.roots());
        let looked = (Instant::now(), Instant::now());
        Self { ground, watches: Watches::new(roots), files, rule_files, shared, mounts, looked }
    }

    fn run_watch(mut self, stop: &OwnedFd, begun: &mpsc::SyncSender<()>) {
        let all = self.watches.rewatch_all(&mut self.ground);
        self.report_changes(vec![all]);
        begun.send(()).ok();
        self.ground.renew();
        while let Some(woken) = self.wait(stop) {
            let mut changes = self.read_events();
            changes.extend(self.check_and_rewatch(woken));
            self.report_changes(changes);
            self.ground.renew();
        }
    }

    /// Waits for events, or for the next check of the roots. Returns `None` once the watch has been stopped.
    fn wait(&self, stop: &OwnedFd) -> Option<Woken> {
        let pause = LOOK_FOR_ROOTS.saturating_sub(self.looked.0.elapsed());
        let pause = Timespec::try_from(pause).ok();
        let mut ready =
            vec![PollFd::new(stop, PollFlags::IN), PollFd::new(&self.ground.queue, PollFlags::IN)];
        ready.extend(self.mounts.table.iter().map(|table| PollFd::new(table, PollFlags::PRI)));
        match poll(&mut ready, pause.as_ref()) {
            Ok(_) | Err(Errno::INTR) if !ready[0].revents().is_empty() => None,
            Ok(_) if ready.get(2).is_some_and(|table| !table.revents().is_empty()) => {
                Some(Woken::ByMounts)
            }
            Ok(_) | Err(Errno::INTR) => Some(Woken::Up),
            Err(_) => None,
        }
    }

    /// Watches all directories again if mounts in the sources changed, a missing root is back, or more watches may be
    /// possible. Also checks the roots from time to time.
    fn check_and_rewatch(&mut self, woken: Woken) -> Option<Change> {
        let remounted =
            woken == Woken::ByMounts && self.mounts.have_changed(&self.ground.site.roots());
        if !remounted && self.looked.0.elapsed() < LOOK_FOR_ROOTS {
            return None;
        }
        self.looked.0 = Instant::now();
        self.watches.check_roots(&mut self.ground);
        let again = match self.watches.lost {
            true => self.ground.site.is_there(),
            false => remounted || self.watches.is_short && self.looked.1.elapsed() >= LOOK_FOR_ROOM,
        };
        again.then(|| {
            self.looked.1 = Instant::now();
            self.watches.rewatch_all(&mut self.ground)
        })
    }

    /// Reads some of the queued events. Returns the changes that the events mean.
    fn read_events(&mut self) -> Vec<Change> {
        let mut changes = Vec::new();
        let mut buffer = [MaybeUninit::uninit(); BUFFER_BYTES];
        let Ok(queue) = self.ground.queue.try_clone() else { return vec![Change::All] };
        let mut reader = Reader::new(queue, &mut buffer);
        let mut count = 0;
        // Events in the buffer are no longer in the kernel's queue, so all of them are handled.
        while count < AT_ONCE || !reader.is_buffer_empty() {
            count += 1;
            let Ok(event) = reader.next() else { return changes };
            let name = event.file_name().and_then(|name| Name::new(name.to_bytes()).ok());
            if name.as_ref().is_some_and(|name| is_staging_name(name.as_bytes())) {
                continue;
            }
            let flags = event.events();
            let file = self.files.get(&event.wd()).zip(name.as_ref());
            if file.is_some_and(|(names, name)| names.contains(name)) {
                changes.push(Change::All);
            }
            let rules = name.as_ref().is_some_and(|name| self.rule_files.contains(name.as_bytes()));
            let kind = if rules { Some(Kind::Lost) } else { event_kind(flags) };
            let Some(kind) = kind else { continue };
            let is_dir = flags.contains(ReadFlags::ISDIR);
            let event = Event { no: WatchNo(event.wd()), kind, name, is_dir };
            changes.extend(self.watches.handle(event, &mut self.ground));
        }
        changes
    }

    fn report_changes(&self, changes: Vec<Change>) {
        self.shared.take_changes(changes, &self.watches);
    }
}

fn event_kind(flags: ReadFlags) -> Option<Kind> {
    let changed = ReadFlags::MODIFY | ReadFlags::CLOSE_WRITE | ReadFlags::ATTRIB;
    let kinds = [
        (ReadFlags::QUEUE_OVERFLOW, Kind::Lost),
        (ReadFlags::UNMOUNT, Kind::Lost),
        (ReadFlags::IGNORED, Kind::Over),
        (ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF, Kind::Left),
        (ReadFlags::DELETE | ReadFlags::MOVED_FROM, Kind::Went),
        (ReadFlags::CREATE | ReadFlags::MOVED_TO, Kind::Came),
        (changed, Kind::Changed),
    ];
    kinds.into_iter().find(|(of, _)| flags.intersects(*of)).map(|(_, kind)| kind)
}

/// True if an argument is a directory, or stands for the content of a directory.
pub(super) fn is_dir(arg: &SourceArg) -> std::io::Result<bool> {
    let path = arg.dir().join(OsStr::from_bytes(arg.path().as_bytes()));
    let meta = if arg.path().is_root() { path.metadata() } else { Path::symlink_metadata(&path) };
    meta.map(|meta| meta.is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> RelPath {
        RelPath::parse(text.as_bytes()).unwrap()
    }

    /// The kernel has one watch for each directory. Watched by another path, the directory would get the same number,
    /// and would no longer be watched under its own name.
    #[test]
    fn a_symlink_in_the_way_takes_no_watch_away() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        std::fs::create_dir_all(root.join("real/x")).unwrap();
        std::os::unix::fs::symlink("real", root.join("link")).unwrap();
        std::os::unix::fs::symlink("root", dir.path().join("named")).unwrap();
        let named = |end: &str| SourceArg::new(dir.path().join(end).as_os_str()).unwrap();
        for (arg, prefix) in [(named("root/"), ""), (named("named/"), ""), (named("root"), "root/")]
        {
            let options = Options { recursive: true, ..Options::default() };
            let site = Site { dirs: vec![arg], files: Vec::new(), options };
            let queue = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).unwrap();
            let mut ground = Kernel::new(queue, site);
            let mut watch = |text: &str| ground.watch(&path(&format!("{prefix}{text}")));
            assert!(watch("real").is_ok());
            assert!(watch("real/x").is_ok());
            assert_eq!(watch("link/x"), Err(Unwatched::Nothing));
            assert_eq!(watch("link"), Err(Unwatched::Nothing));
        }
    }
}
