//! What rsync says of a name besides what changes of it: why it is passed over, where its old version is kept, that the
//! source is gone.

use deltic_protocol::options::{Append, Backup, Options, Writing};
use deltic_protocol::report::{Action, Change, EntryType, PassedOver, Totals};

use crate::report::escape::Escape;

/// Says in rsync's words that the name is passed over.
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

/// Says that the source is gone.
pub(crate) fn removed(path: &[u8], escape: Escape) -> Vec<u8> {
    [b"sender removed ", &*escape.escaped(path)].concat()
}

/// The sums and the compression of the session: there is one of each.
pub(crate) fn negotiated(options: &Options) -> impl Iterator<Item = String> + use<> {
    let level = if options.compress_level == 0 { 3 } else { options.compress_level };
    let compress = options.compress.then(|| format!("compress: zstd (level {level})"));
    let all = ["checksum: blake3".to_owned()].into_iter().chain(compress);
    all.map(|choice| format!("Client negotiated {choice}"))
}

/// Says how files are sent.
pub(crate) const fn transmission(options: &Options) -> &'static str {
    match options.whole_file {
        true => "delta-transmission disabled for local transfer or --whole-file",
        false => "delta-transmission enabled",
    }
}

/// The file that this one was matched against, if it has another name.
pub(crate) fn fuzzy(change: &Change, escape: Escape) -> Option<Vec<u8>> {
    let from = change.facts.from.as_ref()?;
    let [name, from] = [&change.path, from].map(|path| escape.escaped(path.as_bytes()));
    Some([b"fuzzy basis selected for ", &*name, b": ", &*from].concat())
}

/// Counts of a run: `matches` are files where rsync counts blocks.
pub(crate) fn matches(files: u64, totals: &Totals) -> String {
    let data = totals.literal;
    format!("total: matches={files}  hash_hits={files}  false_alarms=0 data={data}")
}

/// Where the old version is kept, if the change keeps one. Nothing is said of one that another kind of entry follows:
/// it may have been a directory, of which nothing is kept.
pub(crate) fn backed_up(change: &Change, options: &Options, escape: Escape) -> Option<Vec<u8>> {
    let Backup { dir, suffix } = options.remove.backup.as_ref()?;
    let path = change.path.as_bytes();
    let is_dir = change.item == EntryType::Dir;
    let is_kept = match change.action {
        // What is beside its new version has no backup of its own.
        Action::Deleted => !is_dir && (dir.is_some() || !path.ends_with(suffix)),
        // As in rsync a dry run gets as far as links and devices.
        Action::Updated => !(is_dir || options.dry_run && is_replaced(change)),
        Action::Created => is_dir && change.differs.kind,
        _ => false,
    };
    let above = dir.as_ref().map(|dir| [dir, &b"/"[..]].concat()).unwrap_or_default();
    let to = [&above, path, suffix].concat();
    let [from, to] = [path, &to].map(|name| escape.escaped(name));
    is_kept.then(|| [b"backed up ", &*from, b" to ", &*to].concat())
}

/// True where rsync tells of the backup behind the name: not of a file that is changed where it is, whose old version
/// is copied first.
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
