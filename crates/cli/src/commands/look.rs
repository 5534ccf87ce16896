//! `deltic ls`, `deltic size` and `deltic cat`: look at what a URL names.

use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use anyhow::{Context, Result, ensure};
use deltic_net::plan::{Destination, Sources};
use deltic_net::{Plan, SyncError, User};
use deltic_protocol::options::{Options, Select};
use deltic_protocol::report::{Notice, TroubleKind};
use deltic_remote::{ProcessEnvironment, RemoteSystem};
use deltic_serve::client::Address;
use deltic_tree::path::printable;
use deltic_tree::{Kind, Meta, RelPath};
use indicatif::HumanBytes;

use crate::args::look::{CatArgs, LsArgs, SizeArgs};
use crate::args::server::LoginArgs;
use crate::plan::server::{address_of, credentials};
use crate::plan::{dial, sources_of};
use crate::report::escape::Escape;
use crate::report::events::JsonEvent;
use crate::report::exit::Exit;
use crate::report::listing::{ListStyle, ListedEntries};
use crate::report::numbers::{NumberStyle, counted};
use crate::report::output::{self, Output};
use crate::words::place::is_store;
use crate::words::refused::Misused;
use crate::words::zone::Zone;

/// Prints the names at a URL.
pub(crate) fn list(args: &LsArgs) -> Result<Exit> {
    let LsArgs { url, recursive, json, login } = args;
    let (mut output, mut listed, zone) = (Output::stdout(), ListedEntries::default(), Zone::here());
    let style = ListStyle {
        links: true,
        accessed: false,
        escape: Escape::Unprintable,
        numbers: NumberStyle::default(),
        zone: &zone,
    };
    let exit = UrlListing { url, login }.run(*recursive, &mut |path, meta| {
        if *json {
            output.line(JsonEvent::entry(path, meta).line());
        } else if listed.add(path, meta).is_err() {
            // The list is full: it goes out in parts.
            listed.say(style, |line| output.line(line));
            let _ = listed.add(path, meta);
        }
        if output.is_full() {
            output.flush();
        }
    })?;
    listed.say(style, |line| output.line(line));
    output.finish()?;
    Ok(exit)
}

/// Prints the number of files at a URL and their bytes.
pub(crate) fn size(args: &SizeArgs) -> Result<Exit> {
    let SizeArgs { url, json, login } = args;
    let (mut files, mut dirs, mut bytes) = (0, 0, 0_u64);
    let exit = UrlListing { url, login }.run(true, &mut |_, meta| match meta.kind {
        Kind::File => {
            files += 1;
            bytes = bytes.saturating_add(meta.len);
        }
        Kind::Dir => dirs += 1,
        _ => {}
    })?;
    if exit == Exit::Selection {
        // Nothing is there: a count of nothing would look like an empty directory.
        return Ok(exit);
    }
    let mut output = Output::stdout();
    output.line(match json {
        true => JsonEvent::Size { files, dirs, bytes }.line(),
        false => format!(
            "{}, {}, {} ({})",
            counted(files, "file"),
            match dirs {
                1 => "1 directory".to_owned(),
                dirs => format!("{dirs} directories"),
            },
            HumanBytes(bytes),
            counted(bytes, "byte")
        ),
    });
    output.finish()?;
    Ok(exit)
}

/// Writes the content of a file at a URL to standard output.
pub(crate) fn cat(args: &CatArgs) -> Result<Exit> {
    let mut out = io::stdout().lock();
    let mut take = |bytes: &[u8]| out.write_all(bytes);
    let written = content(args, &mut take)?.and_then(|()| out.flush());
    match written {
        // The reader of the output needs no more bytes.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Exit::Success),
        Err(error) => {
            output::complain_unwritten(&error);
            Ok(Exit::Files)
        }
        Ok(()) => Ok(Exit::Success),
    }
}

/// Reads the file of `args`, and passes its bytes to `take`. Returns the error of `take` within `Ok`.
fn content(
    args: &CatArgs,
    take: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> Result<io::Result<()>> {
    let shown = printable(args.url.as_bytes());
    match parsed_source(&args.url)? {
        Sources::Remote { host, paths } if is_store(&host) => {
            let remote = RemoteSystem::new(&host, &ProcessEnvironment)?;
            let path = paths[0].as_bytes();
            let read = remote.read(path, take);
            Ok(read.map_err(|why| SyncError::Selection(format!("{shown}: {why}")))?)
        }
        Sources::Remote { host, .. } if Address::looks_like(host.as_bytes()) => {
            let url = args.url.to_str().with_context(|| format!("'{shown}': not UTF-8"))?;
            let address = address_of(url)?;
            let is_dir = address.path.is_empty() || address.path.ends_with(b"/");
            ensure!(
                !is_dir,
                Misused(format!("'{shown}' is a directory; `deltic ls` lists the names in it"))
            );
            let credentials = credentials(&address, &args.login)?;
            Ok(address.download(&credentials, take)?)
        }
        Sources::Remote { host, paths } => {
            let path = printable(paths[0].as_bytes());
            Err(Misused(format!("'{shown}' is no URL; write `ssh {host} cat {path}`")).into())
        }
        Sources::Local(_) => {
            Err(Misused(format!("'{shown}' is no URL; write `cat {shown}`")).into())
        }
    }
}

/// Parses the operand of a command.
///
/// # Errors
/// [`Misused`].
fn parsed_source(url: &OsStr) -> Result<Sources> {
    sources_of(&[url.to_owned()]).map_err(|why| Misused(output::words(&why)).into())
}

/// A source to list.
struct UrlListing<'a> {
    url: &'a OsStr,
    login: &'a LoginArgs,
}

/// Takes the listed entries.
type TakeEntry<'a> = &'a mut (dyn FnMut(&RelPath, &Meta) + Send);

impl UrlListing<'_> {
    /// Passes the entries of a directory, or the entry of a file, to `each`.
    fn run(&self, recursive: bool, each: TakeEntry<'_>) -> Result<Exit> {
        let mut sources = parsed_source(self.url)?;
        if !names_content(&sources) {
            let mut named = Vec::new();
            let mut take = |path: &RelPath, meta: &Meta| named.push((path.clone(), meta.clone()));
            let exit = self.run_once(&sources, false, &mut take)?;
            match &named[..] {
                [(_, meta)] if meta.is_dir() => sources = content_of(sources),
                _ if recursive && named.iter().any(|(_, meta)| meta.is_dir()) => {}
                _ => {
                    named.iter().for_each(|(path, meta)| each(path, meta));
                    return Ok(exit);
                }
            }
        }
        self.run_once(&sources, recursive, each)
    }

    /// Runs one session that lists `sources`. The directory whose content is listed is left out.
    fn run_once(&self, sources: &Sources, recursive: bool, each: TakeEntry<'_>) -> Result<Exit> {
        let mut plan = plan(sources.clone(), recursive);
        plan.dial = dial(&mut plan, self.login)?;
        // A store names its URL in messages. Another machine names only its paths.
        let named = match sources {
            Sources::Remote { host, .. } if !is_store(host) => {
                format!("{}: ", printable(self.url.as_bytes()))
            }
            _ => String::new(),
        };
        let (mut listed, mut failed) = (false, false);
        deltic_net::run(plan, &User::default(), &mut |notice| match notice {
            Notice::Entry { path, meta } => {
                listed = true;
                if !path.is_root() {
                    each(&path, &meta);
                }
            }
            Notice::Trouble(trouble) => {
                failed |= matches!(trouble.kind, TroubleKind::Failed | TroubleKind::Vanished);
                output::complain(&format!("{named}{}", trouble.message), None);
            }
            _ => {}
        })?;
        Ok(match (failed, listed) {
            (false, _) => Exit::Success,
            (true, false) => Exit::Selection,
            (true, true) => Exit::Partial,
        })
    }
}

/// Returns the plan of a run that lists `sources`.
fn plan(sources: Sources, recursive: bool) -> Plan {
    let select = Select { dirs: !recursive, list_only: true, ..Select::default() };
    let options = Options { recursive, links: true, dry_run: true, select, ..Options::default() };
    Plan::new(sources, Destination::Local(".".into()), options)
}

/// True if the source stands for the content of a directory.
fn names_content(sources: &Sources) -> bool {
    let is_content = |path: &OsStr| path.as_bytes().ends_with(b"/");
    match sources {
        Sources::Local(paths) => paths.iter().any(|path| is_content(path.as_os_str())),
        Sources::Remote { paths, .. } => paths.iter().any(|path| is_content(path)),
    }
}

/// Adds a slash to each source: the content of a directory is then listed, not the directory itself.
fn content_of(sources: Sources) -> Sources {
    let slashed = |path: &OsStr| OsString::from_vec([path.as_bytes(), b"/"].concat());
    match sources {
        Sources::Local(paths) => {
            Sources::Local(paths.iter().map(|path| slashed(path.as_os_str()).into()).collect())
        }
        Sources::Remote { host, paths } => {
            Sources::Remote { host, paths: paths.iter().map(|path| slashed(path)).collect() }
        }
    }
}
