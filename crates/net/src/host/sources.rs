//! Resolves source arguments, and lists of names in files, on this machine.

#![expect(clippy::disallowed_types, reason = "a list is a file that users name, open already")]

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use deltic_core::PackedStrings;
use deltic_core::packed::OutOfRoom;
use deltic_protocol::limits::{MAX_NAMES, MAX_NAMES_BYTES, MAX_TEXT_BYTES};
use deltic_protocol::options::{Missing, Options};
use deltic_protocol::receiver::Expect;
use deltic_store::Filter;
use deltic_store_local::reason;
use deltic_store_local::{
    NamedDir, NamedFile, SourceArg, SourceArgs, SourceOptions, SourceTree, StoreContext, Trust,
};
use deltic_tree::path::{BadPath, printable, shortened};
use deltic_tree::rule::FilterSide;
use deltic_tree::{Name, glob};

use crate::error::SyncError;
use crate::host::place::{exists, is_dir, printable_client_path};

/// Returns the sources that `paths` name. With `names`, returns the sources with these names below the only path.
///
/// # Errors
/// [`SyncError::Selection`] for a path that cannot be a source.
pub(crate) fn open(
    paths: &[OsString],
    names: Option<PackedStrings>,
    options: &Options,
    context: &StoreContext,
) -> Result<SourceTree, SyncError> {
    match (names, paths) {
        (None, _) => {
            of(paths.iter().map(|path| parse_argument(path, options, context)), options, context)
        }
        (Some(_), [dir]) if !is_dir(Path::new(dir), context) => {
            let dir = printable_client_path(Path::new(dir), context);
            Err(SyncError::Selection(format!("source {dir}: no such directory")))
        }
        (Some(names), [dir]) => {
            let mut all = SourceArgs::default();
            for name in names {
                match parse_list_line(dir, &name, options) {
                    Ok(arg) => all.push(arg).map_err(too_many_error)?,
                    Err(bad) => all.refuse(&name, bad),
                }
            }
            Ok(SourceTree::new(all, source_options(options, context)))
        }
        (Some(_), _) => {
            Err(SyncError::Options("--files-from takes one source and a destination".into()))
        }
    }
}

/// Opens these sources.
///
/// # Errors
/// [`SyncError::Selection`] for a path that cannot be a source, or for too many sources.
pub(crate) fn of(
    args: impl Iterator<Item = Result<SourceArg, SyncError>>,
    options: &Options,
    context: &StoreContext,
) -> Result<SourceTree, SyncError> {
    let mut all = SourceArgs::default();
    for arg in args {
        all.push(arg?).map_err(too_many_error)?;
    }
    Ok(SourceTree::new(all, source_options(options, context)))
}

/// Parses a source argument.
///
/// # Errors
/// [`SyncError::Selection`] if the path cannot be a source; [`SyncError::Usage`] for `..` in a relative
/// path.
pub(crate) fn parse_argument(
    path: &OsStr,
    options: &Options,
    context: &StoreContext,
) -> Result<SourceArg, SyncError> {
    let read = if options.select.relative { SourceArg::relative } else { SourceArg::new };
    read(path).map_err(|bad| unusable_error(path.as_bytes(), &bad, context))
}

fn too_many_error(crowded: OutOfRoom) -> SyncError {
    SyncError::Selection(crowded.to_string())
}

/// Parses a line of a list.
fn parse_list_line(dir: &OsStr, name: &[u8], options: &Options) -> Result<SourceArg, BadPath> {
    if options.select.relative {
        SourceArg::listed(dir, name)
    } else {
        // Without its leading slashes, the path stays below the directory.
        let below = &name[name.iter().take_while(|byte| **byte == b'/').count()..];
        let path = PathBuf::from(dir).join(OsStr::from_bytes(below));
        SourceArg::new(path.as_os_str())
    }
}

fn unusable_error(path: &[u8], bad: &BadPath, context: &StoreContext) -> SyncError {
    if *bad == BadPath::Dots {
        let path = printable_bytes(path, context);
        return SyncError::Usage(format!(
            "source {path}: '..' cannot be sent as part of a path with -R"
        ));
    }
    SyncError::Selection(format!("source {}: {bad}", shortened(&printable_bytes(path, context))))
}

fn printable_bytes(path: &[u8], context: &StoreContext) -> String {
    printable_client_path(Path::new(OsStr::from_bytes(path)), context)
}

fn source_options(options: &Options, context: &StoreContext) -> SourceOptions {
    let select = options.select;
    SourceOptions {
        rules: Filter::new(&options.rules, FilterSide::Sender),
        recursive: options.recursive,
        dirs: select.dirs || !select.relative,
        prune_empty_dirs: select.prune_empty_dirs,
        protects: Filter::new(&options.rules, FilterSide::Receiver),
        mounts: select.mounts,
        plain_implied_dirs: select.plain_implied_dirs,
        ignore_missing: select.missing != Missing::Fail,
        follow: options.follow.follow,
        trust: Trust::new(options.follow.insecure),
        context: context.clone(),
        see: options.metadata.mask_of_sender(),
        destination: None,
        beside: None,
    }
}

/// Format of a list of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListForm {
    /// True if names end with a NUL byte instead of a line end.
    pub nul: bool,
    /// True if lines that begin with `#` or `;` are comments.
    pub commented: bool,
}

/// Reads the names of a list. Empty names are left out.
///
/// # Errors
/// The error of the system if the list cannot be read, or `FileTooLarge` if it is too long for a session.
pub fn read_names(from: impl Read, form: ListForm) -> io::Result<PackedStrings> {
    let ListForm { nul, commented } = form;
    let ends = |byte: &u8| if nul { *byte == 0 } else { matches!(byte, b'\n' | b'\r') };
    let is_comment = |line: &[u8]| commented && matches!(line, [b'#' | b';', ..]);
    let is_name = |line: &&[u8]| !line.is_empty() && !is_comment(line);
    let mut from = BufReader::new(from.take(MAX_NAMES_BYTES as u64 + 1));
    let (mut names, mut bytes, mut text) = (PackedStrings::default(), 0, Vec::new());
    while from.read_until(if nul { 0 } else { b'\n' }, &mut text)? > 0 {
        bytes += text.len();
        let whole =
            text.split(ends).filter(is_name).try_for_each(|name| names.push(name).map(drop));
        if whole.is_err() || names.len() > MAX_NAMES || bytes > MAX_NAMES_BYTES {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "too many names for one run"));
        }
        text.clear();
    }
    Ok(names)
}

/// Reads the names in the list file `path` of `--files-from`, on this machine.
pub(crate) fn names_in_file(
    path: &[u8],
    form: ListForm,
    trust: Trust,
    context: &StoreContext,
) -> Result<PackedStrings, SyncError> {
    let file = NamedFile::find_within(&crate::host::place::expand(path), trust, context)
        .and_then(|file| file.open_to_read());
    let read = file.and_then(|file| read_names(fs::File::from(file), form));
    read.map_err(|error| {
        SyncError::Selection(format!(
            "--files-from: cannot read {}: {}",
            printable_bytes(path, context),
            reason(&error)
        ))
    })
}

/// Reads a local list of names for sources on the other machine. The names are sent unchanged.
pub(crate) fn names_to_send(
    path: &[u8],
    nul: bool,
    trust: Trust,
    context: &StoreContext,
) -> Result<PackedStrings, SyncError> {
    let names = names_in_file(path, ListForm { nul, commented: false }, trust, context)?;
    if names.iter().any(|(_, name)| name.len() > MAX_TEXT_BYTES) {
        let (path, why) = (printable(path), BadPath::TooLong);
        return Err(SyncError::Selection(format!(
            "--files-from: cannot read {path}: a name in it: {why}"
        )));
    }
    Ok(names)
}

/// Expands the wildcards of `argument` to the matching paths, in order. Returns the argument itself if there are no
/// matches.
pub(crate) fn expand_globs(argument: PathBuf, context: &StoreContext) -> Vec<OsString> {
    let bytes = argument.as_os_str().as_bytes();
    if !glob::has_wildcards(bytes) {
        return vec![argument.into_os_string()];
    }
    let mut found: Vec<Vec<u8>> = vec![Vec::new()];
    let mut names = bytes.split(|byte| *byte == b'/').peekable();
    while let Some(name) = names.next() {
        let slash: &[u8] = if names.peek().is_some() { b"/" } else { b"" };
        let is_pattern = glob::has_wildcards(name);
        found = found
            .into_iter()
            .flat_map(|above| {
                let expanded = if is_pattern {
                    matching_names(&above, name, context)
                } else {
                    vec![name.to_vec()]
                };
                let join = move |name: Vec<u8>| [&above[..], &name, slash].concat();
                expanded.into_iter().map(join).collect::<Vec<_>>()
            })
            .filter(|path| {
                // A restriction forbids looking at the directories above.
                let must_be_dir = is_pattern && path.last() == Some(&b'/');
                !must_be_dir || is_dir(Path::new(OsStr::from_bytes(path)), context)
            })
            .take(MAX_MATCHES)
            .collect();
    }
    found.retain(|path| exists(Path::new(OsStr::from_bytes(path)), context));
    found.sort();
    if found.is_empty() {
        return vec![argument.into_os_string()];
    }
    found.into_iter().map(OsString::from_vec).collect()
}

/// Returns the names in the directory `above` that match `pattern`.
fn matching_names(above: &[u8], pattern: &[u8], context: &StoreContext) -> Vec<Vec<u8>> {
    let dir: &[u8] = if above.is_empty() { b"." } else { above };
    let dir = NamedDir::new(OsStr::from_bytes(dir), Trust::Anyone).in_context(context);
    let names = dir.list_names().unwrap_or_default().into_iter();
    names.filter(|name| glob::matches(pattern, name)).collect()
}

/// Most paths that an argument may expand to.
const MAX_MATCHES: usize = 100_000;

/// Returns the names at the root that a sender may send for these paths. `None` if the content of a directory was
/// requested, which may have any names.
pub(crate) fn expected_names(paths: &[OsString], options: &Options) -> Option<Expect> {
    let (mut names, mut globs, mut own) = (Vec::new(), Vec::new(), false);
    for path in paths {
        let path = path.as_bytes();
        let named = |name: &[u8]| !matches!(name, b"" | b"." | b".." | b"~");
        // Only the other end knows where a home directory is.
        let is_in_home = path.first() == Some(&b'~');
        let name = if options.select.relative {
            own |= SourceArg::is_dotted(path);
            let start = path.windows(3).position(|three| three == b"/./");
            if is_in_home && start.is_none() {
                return None;
            }
            let rest = start.map_or(path, |dot| &path[dot + 3..]);
            rest.split(|byte| *byte == b'/').find(|name| named(name))?
        } else {
            path.rsplit(|byte| *byte == b'/').next().filter(|name| named(name))?
        };
        if is_in_home && name == path {
            globs.push(b"*".as_slice().into());
        }
        if glob::has_wildcards(name) {
            globs.push(name.into());
        }
        names.push(Name::new(name).ok()?);
    }
    Some(Expect { names: names.into_iter().collect(), globs, own })
}

/// Returns the name at the root for a line of a list, if the line stands for a single name.
pub(crate) fn first_name(line: &[u8], options: &Options) -> Result<Option<Name>, BadPath> {
    parse_list_line(OsStr::new("."), line, options).map(|arg| arg.first_name())
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests make trees from outside")]
mod tests {
    use super::*;

    #[test]
    fn lists_are_lines_or_end_in_nul_and_have_comments() {
        let form = |nul, commented| ListForm { nul, commented };
        let names = |text: &str, form| {
            let names = read_names(text.as_bytes(), form).unwrap();
            names.into_iter().map(|name| String::from_utf8(name).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(names("a\r\n\n# no\n;no\nb c", form(false, true)), ["a", "b c"]);
        assert_eq!(names("a\n#b\n\n;c", form(false, false)), ["a", "#b", ";c"]);
        assert_eq!(names("a\nb\0\0#c\0", form(true, false)), ["a\nb", "#c"]);
        assert_eq!(names("a\nb\0\0#c\0;d\0e", form(true, true)), ["a\nb", "e"]);
    }

    #[test]
    fn wildcards_stand_for_names_and_else_for_themselves() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a.c", "b.c", "c.d", ".x.c"] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        fs::create_dir(dir.path().join("sub")).unwrap();
        fs::write(dir.path().join("sub/d.c"), "").unwrap();
        let expand = |pattern: &str| {
            let all = expand_globs(dir.path().join(pattern), &StoreContext::default());
            let prefix = dir.path().as_os_str().len() + 1;
            let tail = |path: OsString| String::from_utf8(path.into_vec()[prefix..].to_vec());
            all.into_iter().map(|path| tail(path).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(expand("*.c"), ["a.c", "b.c"]);
        assert_eq!(expand("*/*.c"), ["sub/d.c"]);
        assert_eq!(expand("*/"), ["sub/"]);
        assert_eq!(expand("*.zip"), ["*.zip"]);
    }
}
