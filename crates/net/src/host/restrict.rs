//! An agent that is confined to a directory (`deltic agent --restrict`), or a server that is confined to volumes. Not
//! all requests are allowed.
//!
//! Two walls confine a session. The store resolves all paths below an open directory ([`StoreContext`]). Behind that,
//! the kernel's Landlock lets this process open no other files. Requests are checked before any file is touched.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use deltic_protocol::hello::{NamesFrom, Request};
use deltic_protocol::options::{AlternateUse, Delete, Missing, Options, Powers};
use deltic_store_local::cache::Cache;
use deltic_store_local::{
    BackupPlace, Changes, LocalOptions, NamedDir, Replaceable, SpaceQuota, StoreContext, Trust,
    VolumeDir, part_path, volume_path,
};
use deltic_tree::path::printable;
use deltic_tree::{Follow, Name, RelPath};
use landlock::{
    ABI, Access as _, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus,
};
use nix::unistd::{User, geteuid};
use rustix::fs::{FileType, fstat};

use super::Host;
use super::place::{expand, printable_client_path, without_missing_dirs};
use super::walls::refuse_system_calls;
use crate::error::SyncError;

/// Limits of an end that is confined to one directory.
#[derive(Clone, Debug, Default)]
pub struct Restriction {
    /// Directions in which files may go.
    pub access: Access,
    /// True if no file may be deleted.
    pub no_delete: bool,
    /// The directory: a path from the root of the file system, or `/VOLUME`.
    dir: PathBuf,
    /// True for a volume. Paths then begin with the name of the volume, and no client has the rights of the superuser.
    is_volume: bool,
    /// Directory of the volume that the session is confined to. The root of the volume for the whole volume.
    part: RelPath,
    /// Quotas of the client, in addition to the quota of the volume.
    quotas: Vec<Arc<SpaceQuota>>,
    /// Receives the changes in the volume, by their paths in the volume.
    changes: Changes,
    /// Name of the client under which changes of files are noted; `None` if no changes are noted.
    author: Option<Arc<str>>,
    /// Versions of files that may be replaced.
    replaceable: Replaceable,
    /// State that the stores of the process share.
    context: StoreContext,
    wall: Wall,
}

/// Confines this process for good to these volumes, to its own directories `of_its_own`, and to `reads` for reading
/// only. Call before any other thread is started. Returns the context of stores in the volumes; a
/// [`Restriction::to_volume`] is for sessions in one of the volumes.
///
/// # Errors
/// The error of the system, if a volume is not a directory that this process may enter.
pub fn keep_to_volumes(
    volumes: &[VolumeDir],
    of_its_own: &[PathBuf],
    reads: &[PathBuf],
) -> io::Result<(StoreContext, Wall)> {
    // Name services load libraries and files, which are unreadable later.
    let _ = User::from_uid(geteuid());
    let all = AccessFs::from_all(LANDLOCK) & !AccessFs::Execute;
    let dirs = volumes.iter().map(|volume| &volume.path).chain(of_its_own);
    let dirs = dirs.map(|dir| (open_operator_dir(dir), all)).collect::<Vec<_>>();
    let context = StoreContext::of_volumes(volumes)?;
    let reads = reads.iter().map(|dir| (open_if_exists(dir), read_rights()));
    let wall = restrict_process(dirs.into_iter().chain(reads)).unwrap_or(Wall::None);
    Ok((context, wall))
}

/// Directions in which files may be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Files may be sent and received.
    #[default]
    Both,
    /// Files may only be sent; the directory is not changed (`--ro`).
    Read,
    /// Files may only be received (`--wo`).
    Write,
}

/// State of the second wall, Landlock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wall {
    /// The kernel enforces all rules.
    Full,
    /// The kernel is older, and enforces a part of the rules.
    Partial,
    /// The kernel has no Landlock.
    #[default]
    None,
}

impl Restriction {
    /// Confines this process for good to the directory `dir` and to the digests in `cache`. Call before any other
    /// thread is started.
    ///
    /// # Errors
    /// The error of the system, if `dir` is not a directory that this process may enter.
    pub fn confine(
        dir: &Path,
        access: Access,
        no_delete: bool,
        cache: Option<&Path>,
    ) -> io::Result<Self> {
        // Name services load libraries and files, which are unreadable later.
        let _ = User::from_uid(geteuid());
        // Creates the cache if it is missing, because a Landlock rule needs an existing directory.
        let cache = cache.filter(|cache| Cache::open(cache).is_some());
        NamedDir::of_operator(dir).check_operators()?;
        let cache = cache.and_then(open_operator_dir);
        let (context, dir) = StoreContext::of_dir(dir)?;
        let all = AccessFs::from_all(LANDLOCK) & !AccessFs::Execute;
        let in_dir = if access == Access::Read { read_rights() } else { all };
        // By now, `dir` is the working directory.
        let wall =
            restrict_process([(open_if_exists(Path::new(".")), in_dir), (cache, all)].into_iter());
        let wall = wall.unwrap_or(Wall::None);
        // On a kernel without seccomp, the other walls remain.
        refuse_system_calls().ok();
        Ok(Self { access, no_delete, dir, wall, context, ..Self::default() })
    }

    /// Returns the limits for sessions in the volume `name`. `context` is the result of [`keep_to_volumes`].
    #[must_use]
    pub fn to_volume(context: &StoreContext, name: &Name, access: Access, no_delete: bool) -> Self {
        let (dir, context) = (volume_path(name), context.clone());
        Self { access, no_delete, dir, is_volume: true, context, ..Self::default() }
    }

    /// Returns the limits for sessions in the existing directory `part` of a volume. Operands name paths of the volume;
    /// options and rules take the directory as root.
    #[must_use]
    pub fn to_part(
        context: &StoreContext,
        name: &Name,
        part: RelPath,
        access: Access,
        no_delete: bool,
    ) -> Self {
        let dir = part_path(name, &part);
        Self { dir, part, ..Self::to_volume(context, name, access, no_delete) }
    }

    /// Adds quotas.
    #[must_use]
    pub fn with_quotas(self, quotas: Vec<Arc<SpaceQuota>>) -> Self {
        Self { quotas, ..self }
    }

    /// Sets the callback for changes, which are reported by their paths in the volume.
    #[must_use]
    pub fn with_changes(self, changes: Changes) -> Self {
        Self { changes, ..self }
    }

    /// Notes the changes of files under this name of the client.
    #[must_use]
    pub fn with_author(self, author: &str) -> Self {
        Self { author: Some(author.into()), ..self }
    }

    /// Limits the versions of files that may be replaced.
    #[must_use]
    pub fn with_replaceable(self, replaceable: Replaceable) -> Self {
        Self { replaceable, ..self }
    }

    /// Returns the state of the second wall.
    #[must_use]
    pub const fn wall_state(&self) -> Wall {
        self.wall
    }

    /// Makes the directory at `path` the working directory.
    ///
    /// # Errors
    /// [`SyncError::Selection`] if the directory cannot be used.
    pub fn enter_dir(&self, path: &[u8]) -> Result<(), SyncError> {
        let path = PathBuf::from(OsStr::from_bytes(&self.resolve_inside(path)?));
        self.check_within("directory", &path)?;
        let shown = printable_client_path(&path, &self.context);
        let entered = NamedDir { path, trust: Trust::Ours, context: self.context.clone() }.enter();
        entered.map_err(|error| {
            SyncError::Selection(format!(
                "directory {shown}: {}",
                deltic_store_local::reason(&error)
            ))
        })
    }

    fn keeps_versions(&self) -> bool {
        self.is_volume && self.context.keeps_versions(&self.dir)
    }

    fn admit_sending(&self, options: &Options) -> Result<(), SyncError> {
        let removes = options.remove.sources;
        match () {
            () if self.access == Access::Write => {
                self.refuse(&format!("only writing is permitted{}", self.named_by_option("--wo")))
            }
            () if removes && self.access == Access::Read => self.refuse(&format!(
                "--remove-source-files: only reading is permitted{}",
                self.named_by_option("--ro")
            )),
            () if removes && self.keeps_versions() => {
                self.refuse("--remove-source-files: the volume keeps old versions, and this option would keep none")
            }
            () if removes && self.no_delete => self.refuse_delete("--remove-source-files"),
            // The kernel follows such links, and they may lead anywhere.
            () if options.follow.follow != Follow::Never => {
                self.refuse("links are not followed there (-L, -k, --copy-unsafe-links)")
            }
            () => Ok(()),
        }
    }

    fn admit_receiving(&self, names: &NamesFrom, options: &Options) -> Result<(), SyncError> {
        let deletes = [
            (options.delete != Delete::Never, "--delete"),
            (options.remove.force, "--force"),
            // A file in the partial directory becomes a part of the new version, and is removed.
            (options.writing.partial_dir.is_some(), "--partial-dir"),
            (options.select.missing == Missing::Delete, "--delete-missing-args"),
        ];
        // A dry run deletes nothing. For a volume, its output tells no more than reading would.
        let only_looks = options.dry_run && self.is_volume;
        let deletes =
            deletes.into_iter().find(|(given, _)| *given && self.no_delete && !only_looks);
        match (deletes, self.access, names) {
            (_, Access::Read, _) if only_looks => Ok(()),
            (_, Access::Read, _) if options.dry_run => self.refuse(
                "this key only reads (--ro), and -n and verify with HOST: as the second path ask to write; \
                 name HOST:PATH first",
            ),
            (_, Access::Read, _) => {
                self.refuse(&format!("only reading is permitted{}", self.named_by_option("--ro")))
            }
            // The other end would read the content of the file.
            (_, Access::Write, NamesFrom::File { .. }) => {
                self.refuse(&format!("--files-from=:FILE: only writing is permitted{}", self.named_by_option("--wo")))
            }
            (Some((_, option)), ..) => self.refuse_delete(option),
            _ if options.writing.inplace && self.keeps_versions() => self.refuse(
                "--inplace and --append: the volume keeps old versions, so files are not changed in place",
            ),
            _ => Ok(()),
        }
    }
}

impl Host for Restriction {
    fn context(&self) -> &StoreContext {
        &self.context
    }

    fn path(&self, argument: &[u8]) -> PathBuf {
        match self.is_volume {
            true => PathBuf::from(OsStr::from_bytes(argument)),
            false => expand(argument),
        }
    }

    fn admit(&self, mut request: Request) -> Result<Request, SyncError> {
        let (Request::Send { options, .. } | Request::Receive { options, .. }) = &mut request;
        if self.is_volume {
            // A client does not get the rights of the server's user.
            options.metadata.powers = Powers::Confined;
            options.follow.insecure = false;
            // Files that a server reports as done must survive a crash, for later clients.
            options.durable = true;
        }
        match request {
            Request::Send { sources, names, options } => {
                self.admit_sending(&options)?;
                // The name of the directory itself is unknown at this end.
                let is_part = |path: &[u8]| below_root(path) == self.part.as_bytes();
                if !self.part.is_root() && sources.iter().any(|path| is_part(path)) {
                    return Err(SyncError::Selection(format!(
                        "source {}: the token covers only this directory: add a slash at the end",
                        printable_client_path(&self.dir, &self.context)
                    )));
                }
                let sources = sources
                    .iter()
                    .map(|path| self.resolve_inside(path))
                    .collect::<Result<_, _>>()?;
                Ok(Request::Send { sources, names: self.resolve_list(names)?, options })
            }
            Request::Receive { destination, single, names, mut options } => {
                self.admit_receiving(&names, &options)?;
                for (_, dir) in option_dirs(&mut options).filter(|(_, dir)| dir.starts_with(b"/")) {
                    *dir = [self.dir.as_os_str().as_bytes(), dir].concat().into();
                }
                let destination = self.resolve_inside(&destination)?;
                Ok(Request::Receive {
                    destination,
                    single,
                    names: self.resolve_list(names)?,
                    options,
                })
            }
        }
    }

    /// Checks a source. A source that is a symlink may lead out of the directory: the symlink is sent as a link, and
    /// not followed.
    fn check_source(&self, path: &OsStr) -> Result<(), SyncError> {
        let is_dir = [&b"/"[..], b"/."].iter().any(|end| path.as_bytes().ends_with(end));
        match Path::new(path).parent().filter(|_| !is_dir && Path::new(path) != self.dir) {
            Some(above) if self.context.leads_out(above) => self.check_within("source", above),
            Some(_) => Ok(()),
            None => self.check_within("source", Path::new(path)),
        }
    }

    fn check_destination(&self, path: &Path) -> Result<(), SyncError> {
        self.check_within("destination", path)
    }

    fn check_options(&self, root: &Path, options: &Options) -> Result<(), SyncError> {
        // A directory relative to each file is below the root, or not a valid path.
        let mut options = options.clone();
        option_dirs(&mut options).try_for_each(|(option, dir)| {
            self.check_within(option, &root.join(OsStr::from_bytes(dir)))
        })
    }

    fn store_options(&self, root: &Path, local: LocalOptions) -> LocalOptions {
        let below = root.strip_prefix(&self.dir).unwrap_or_else(|_| Path::new(""));
        let mut names = below.components().map(|name| Name::new(name.as_os_str().as_bytes()));
        let above = names.try_fold(self.part.clone(), |above, name| above.join(&name?));
        let changes =
            above.map_or_else(|_| Changes::default(), |above| self.changes.for_subdirectory(above));
        // A backup tree that is not `mixed` would lose a whole directory to an older version of a file.
        let keeps_all = self.no_delete || self.keeps_versions();
        let backup =
            local.backup.map(|backup| BackupPlace { mixed: backup.mixed || keeps_all, ..backup });
        let (quotas, author) = (self.quotas.clone(), self.author.clone());
        let replaceable = self.replaceable.clone();
        LocalOptions { quotas, changes, author, backup, replaceable, ..local }
    }
}

/// Returns a path without its leading slashes.
fn below_root(path: &[u8]) -> &[u8] {
    &path[path.iter().take_while(|byte| **byte == b'/').count()..]
}

impl Restriction {
    /// Refuses a path that leads out of the permitted directory.
    ///
    /// # Errors
    /// [`SyncError::Selection`].
    fn check_within(&self, what: &str, path: &Path) -> Result<(), SyncError> {
        match self.context.leads_out(&without_missing_dirs(path, &self.context)) {
            true => {
                let path = printable_client_path(path, &self.context);
                self.refuse(&format!("{what} {path} leads out of the permitted directory"))
            }
            false => Ok(()),
        }
    }

    fn resolve_list(&self, names: NamesFrom) -> Result<NamesFrom, SyncError> {
        let NamesFrom::File { path, nul } = names else { return Ok(names) };
        let path = self.resolve_inside(&path)?;
        self.check_within("--files-from", Path::new(OsStr::from_bytes(&path)))?;
        Ok(NamesFrom::File { path, nul })
    }

    /// Resolves a path of the other end in the permitted directory, which is root and home for the other end.
    fn resolve_inside(&self, path: &[u8]) -> Result<Box<[u8]>, SyncError> {
        let shown = || printable(path);
        if path.starts_with(b"~") {
            let why = format!("{}: there are no home directories (write ./~)", shown());
            return self.refuse(&why);
        }
        if path.split(|byte| *byte == b'/').any(|name| name == b"..") {
            return self.refuse(&format!("{}: '..' is not allowed", shown()));
        }
        let below = below_root(path);
        if self.is_volume {
            let rest = below.strip_prefix(self.part.as_bytes());
            let is_in = |rest: &&[u8]| self.part.is_root() || matches!(rest, [] | [b'/', ..]);
            let Some(below) = rest.filter(is_in) else {
                return self.refuse(&format!("{}: the token does not cover this path", shown()));
            };
            return Ok([self.dir.as_os_str().as_bytes(), b"/", below].concat().into());
        }
        Ok(if below.is_empty() && !path.is_empty() {
            b"./".as_slice().into()
        } else {
            below.into()
        })
    }

    fn refuse_delete<T>(&self, option: &str) -> Result<T, SyncError> {
        self.refuse(&format!(
            "{option}: nothing may be deleted{}",
            self.named_by_option("--no-delete")
        ))
    }

    fn refuse<T>(&self, why: &str) -> Result<T, SyncError> {
        let whose = match self.is_volume {
            true => format!(
                "volume {}",
                printable_client_path(&self.dir, &self.context).trim_start_matches('/')
            ),
            false => "this agent is restricted to a directory".into(),
        };
        Err(SyncError::Selection(format!("{whose}: {why}")))
    }

    /// Returns the words that name the agent's option behind a refusal.
    fn named_by_option(&self, option: &str) -> String {
        if self.is_volume { String::new() } else { format!(" ({option})") }
    }
}

/// Returns each directory that an option names (`--backup-dir`, `--temp-dir`, …), with the name of the option.
fn option_dirs(options: &mut Options) -> impl Iterator<Item = (&'static str, &mut Box<[u8]>)> {
    let alternate = match options.compare.alternates.usage {
        AlternateUse::Compare => "--compare-dest",
        AlternateUse::Copy => "--copy-dest",
        AlternateUse::Link => "--link-dest",
    };
    let backup = options.remove.backup.as_mut().and_then(|backup| backup.dir.as_mut());
    let named = [
        ("--backup-dir", backup),
        ("--temp-dir", options.writing.temp_dir.as_mut()),
        ("--partial-dir", options.writing.partial_dir.as_mut()),
    ];
    let named = named.into_iter().filter_map(|(option, dir)| Some((option, dir?)));
    named.chain(options.compare.alternates.dirs.iter_mut().map(move |dir| (alternate, dir)))
}

/// Opens a directory that the operator names; `None` if it does not exist.
fn open_operator_dir(dir: &Path) -> Option<OwnedFd> {
    NamedDir::of_operator(dir).open_held().ok()
}

/// Opens a file or directory of the system; `None` if it does not exist.
fn open_if_exists(path: &Path) -> Option<OwnedFd> {
    PathFd::new(path).ok()?.as_fd().try_clone_to_owned().ok()
}

/// Restricts this process to the open directories by Landlock, as far as this kernel supports Landlock.
fn restrict_process(
    dirs: impl Iterator<Item = (Option<OwnedFd>, BitFlags<AccessFs>)>,
) -> Result<Wall, RulesetError> {
    let all = AccessFs::from_all(LANDLOCK);
    let null = (open_if_exists(Path::new("/dev/null")), read_rights() | AccessFs::WriteFile);
    let rules =
        dirs.chain(READ.iter().map(|path| (open_if_exists(Path::new(path)), read_rights())));
    let mut ruleset = Ruleset::default()
        // Without `Refer`, the kernel would forbid to move files between directories. Such a kernel gets no wall.
        .set_compatibility(CompatLevel::SoftRequirement)
        .handle_access(AccessFs::Refer)?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)?
        .create()?;
    // A path that does not exist needs no rule.
    for (held, rights) in rules.chain([null]).filter_map(|(held, rights)| Some((held?, rights))) {
        let is_dir = fstat(&held).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_dir());
        let rights = if is_dir { rights } else { rights & AccessFs::from_file(LANDLOCK) };
        ruleset = ruleset.add_rule(PathBeneath::new(held, rights))?;
    }
    Ok(match ruleset.restrict_self()?.ruleset {
        RulesetStatus::FullyEnforced => Wall::Full,
        RulesetStatus::PartiallyEnforced => Wall::Partial,
        RulesetStatus::NotEnforced => Wall::None,
    })
}

fn read_rights() -> BitFlags<AccessFs> {
    AccessFs::ReadFile | AccessFs::ReadDir
}

/// Version of Landlock that is requested; older kernels enforce a part of it.
const LANDLOCK: ABI = ABI::V5;

/// Further paths that may be read: the user database with its libraries, and the system's information about this
/// process.
const READ: &[&str] = &[
    "/etc/passwd",
    "/etc/group",
    "/etc/nsswitch.conf",
    "/etc/ld.so.cache",
    "/etc/userdb",
    "/run/userdb",
    "/var/lib/sss",
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/nix/store",
    "/proc/self",
    "/proc/sys/kernel/random",
    "/sys/fs/cgroup",
    "/dev/urandom",
];

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "what may be opened is tried")]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    #[test]
    fn a_volume_is_flushed_whatever_a_client_asks_for_and_a_restricted_agent_does_as_it_is_told() {
        let options = || Options { durable: false, ..Options::default() };
        let destination = Box::from(*b"v/");
        let names = NamesFrom::Nowhere;
        let receive = Request::Receive { destination, single: None, names, options: options() };
        let sources = vec![Box::from(*b"v/")];
        let send = Request::Send { sources, names: NamesFrom::Nowhere, options: options() };
        let (context, name) = (StoreContext::default(), Name::new(b"v").unwrap());
        let volume = Restriction::to_volume(&context, &name, Access::Both, false);
        for (host, flushes) in [(volume, true), (Restriction::default(), false)] {
            for request in [&receive, &send] {
                let (Request::Send { options, .. } | Request::Receive { options, .. }) =
                    host.admit(request.clone()).unwrap();
                assert_eq!(options.durable, flushes, "{request:?}");
            }
        }
    }

    #[test]
    fn the_documents_name_all_that_is_read_besides() {
        let document = include_str!("../../../../docs/server.md");
        let list = document.split("## Kernel restrictions").nth(1).expect("it has a heading");
        let list = list.split("\n## ").next().expect("it has a text");
        for path in READ.iter().chain(&["/dev/null"]) {
            assert!(list.contains(&format!("`{path}`")), "{path}");
        }
    }

    const CHILD: &str = "DELTIC_TEST_RESTRICT";
    const NAME: &str = "host::restrict::tests::behind_the_first_wall_the_kernel_opens_nothing_else";

    /// The restriction of a process is permanent, so the test runs in another process.
    #[test]
    fn behind_the_first_wall_the_kernel_opens_nothing_else() {
        if let Some(world) = std::env::var_os(CHILD) {
            return keep_to(Path::new(&world));
        }
        let world = tempfile::tempdir().unwrap();
        for dir in ["jail", "out"] {
            fs::create_dir(world.path().join(dir)).unwrap();
            fs::write(world.path().join(dir).join("file"), "x").unwrap();
        }
        for access in ["ro", "rw"] {
            let mut child = Command::new(std::env::current_exe().unwrap());
            child.args(["--exact", NAME]).env(CHILD, world.path()).env("ACCESS", access);
            let run = child.output().unwrap();
            assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stdout));
            assert!(String::from_utf8_lossy(&run.stdout).contains("1 passed"));
        }
    }

    fn keep_to(world: &Path) {
        let may_write = std::env::var_os("ACCESS").unwrap() == "rw";
        let access = if may_write { Access::Both } else { Access::Read };
        let cache = world.join("cache");
        let restriction =
            Restriction::confine(&world.join("jail"), access, false, Some(&cache)).unwrap();
        assert!(cache.is_dir());
        if restriction.wall_state() == Wall::None {
            eprintln!("SKIPPED: this kernel has no Landlock");
            return;
        }
        let opens = |path: PathBuf| match fs::read(path) {
            Ok(_) => true,
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
                false
            }
        };
        assert!(opens(world.join("jail/file")) && opens("/etc/passwd".into()));
        assert!(!opens(world.join("out/file")) && !opens("/etc/hostname".into()));
        assert_eq!(fs::write(world.join("jail/new"), "x").is_ok(), may_write);
        assert!(fs::write(world.join("out/new"), "x").is_err());
        assert!(fs::remove_file(world.join("out/file")).is_err());
        assert!(fs::read_dir(world.join("out")).is_err());
        assert!(fs::write(cache.join("new"), "x").is_ok());
        assert!(Command::new("/bin/true").status().is_err());
        // A thread that starts later is restricted too.
        let out = world.join("out/file");
        assert!(std::thread::spawn(move || fs::read(out).is_err()).join().unwrap());
    }
}
