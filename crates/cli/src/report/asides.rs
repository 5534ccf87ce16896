//! rsync's messages about a name, besides the line of its change: the reason for passing over the name, the place of
//! the backup, and the removal of the source.

use deltic_protocol::options::{Append, Backup, Options, Writing};
use deltic_protocol::report::{Action, Change, EntryType, PassedOver, Totals};

use crate::report::escape::Escape;

/// Returns rsync's message that the name is skipped.
pub(crate) fn passed_over(change: &Change, why: PassedOver, escape: Escape) -> Vec<u8> {
    let kind = if change.item == EntryType::Dir { "directory" } else { "file" };
    let name = escape.escaped(change.path.as_bytes());
    let behind: &[u8] = match why {
        PassedOver::New => {
            return [b"not creating new ", kind.as_bytes(), b" \"", &name, b"\""].concat();
        }
        PassedOver::Exists => b" exists",
        PassedOver::Newer => b" is newer",
        PassedOver::Large => b" is over max-size",
        PassedOver::Small => b" is under min-size",
    };
    [&name, behind].concat()
}

/// Returns the message that the source was removed.
pub(crate) fn removed(path: &[u8], escape: Escape) -> Vec<u8> {
    [b"sender removed ", &*escape.escaped(path)].concat()
}

/// Returns a line for the checksum and the compression of the session; Deltic has one algorithm for each. `chosen` is
/// the name of rsync's checksum that the user chose.
pub(crate) fn negotiated(
    options: &Options,
    chosen: Option<&str>,
) -> impl Iterator<Item = String> + use<> {
    let checksum = chosen.map_or_else(|| "blake3".into(), |name| format!("{name} (by blake3)"));
    let level = match options.compress_level {
        0 => "level by the link".into(),
        level => format!("level {level}"),
    };
    let compress = options.compress.then(|| format!("compress: zstd ({level})"));
    let all = [format!("checksum: {checksum}")].into_iter().chain(compress);
    all.map(|choice| format!("Client negotiated {choice}"))
}

/// Returns the message on how files are sent.
pub(crate) const fn transmission(options: &Options) -> &'static str {
    match options.whole_file {
        true => "delta-transmission disabled for local transfer or --whole-file",
        false => "delta-transmission enabled",
    }
}

/// Returns the message that names the matched file, if it has another name.
pub(crate) fn fuzzy(change: &Change, escape: Escape) -> Option<Vec<u8>> {
    let from = change.facts.from.as_ref()?;
    let [name, from] = [&change.path, from].map(|path| escape.escaped(path.as_bytes()));
    Some([b"fuzzy basis selected for ", &*name, b": ", &*from].concat())
}

/// Returns the totals line: `matches` is the number of matched files, where rsync counts blocks.
pub(crate) fn matches(files: u64, totals: &Totals) -> String {
    let data = totals.literal;
    format!("total: matches={files}  hash_hits={files}  false_alarms=0 data={data}")
}

/// Returns the message that names the backup, if the change keeps one. If another kind of entry takes the place of
/// the old version, there is no message: the old version may have been a directory, which has no backup.
pub(crate) fn backed_up(change: &Change, options: &Options, escape: Escape) -> Option<Vec<u8>> {
    let Backup { dir, suffix } = options.remove.backup.as_ref()?;
    let path = change.path.as_bytes();
    let is_dir = change.item == EntryType::Dir;
    let is_kept = match change.action {
        // A backup beside new versions has no backup of its own.
        Action::Deleted => !is_dir && (dir.is_some() || !path.ends_with(suffix)),
        // A dry run reports backups of links and devices only, as in rsync.
        Action::Updated => !(is_dir || options.dry_run && is_replaced(change)),
        Action::Created => is_dir && change.differs.kind,
        _ => false,
    };
    let above = dir.as_ref().map(|dir| [dir, &b"/"[..]].concat()).unwrap_or_default();
    let to = [&above, path, suffix].concat();
    let [from, to] = [path, &to].map(|name| escape.escaped(name));
    is_kept.then(|| [b"backed up ", &*from, b" to ", &*to].concat())
}

/// True if rsync reports the backup after the name. A file that is changed in place is copied first, so its backup
/// comes before the name.
pub(crate) fn follows_name(change: &Change, options: &Options) -> bool {
    let Writing { inplace, append, .. } = options.writing;
    is_replaced(change) && !inplace && append == Append::Never
}

/// True for a file with new content.
pub(crate) fn is_replaced(change: &Change) -> bool {
    change.action == Action::Updated
        && change.item == EntryType::File
        && change.facts.linked.is_none()
}
