//! Turns parsed arguments into a [`Plan`] for the library and an [`OutputView`] for this crate. Later code sees nothing
//! else.

pub(crate) mod cache;
pub(crate) mod server;
pub(crate) mod store;
mod view;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::{Context, Result, bail};
use deltic_core::SumKind;
use deltic_core::stored::SumStrength;
use deltic_core::strategy::{Conversation, Strategy};
use deltic_net::plan::{Destination, Dial, Remote, Sources};
use deltic_net::{Kept, Plan};
use deltic_protocol::limits::MAX_BLOCK_BYTES;
use deltic_protocol::options::{Delete, Options, Select, TrustedSums};
use deltic_tree::path::printable;

use crate::args::metadata::{RemoteRole, remote_words};
use crate::args::server::LoginArgs;
use crate::args::sync::SyncArgs;
use crate::args::travel::{BatchUse, RetryLimits};
use crate::report::hint;
use crate::report::view::OutputView;
use crate::words::place::{ParsedOperand, SyncOperands};
use crate::words::rate::{self, Bandwidth};
use crate::words::size::Size;
use crate::words::ways::OptionBehaviour;

pub(crate) use self::view::Terminals;

/// A sync as the user asked for it.
#[derive(Clone, Debug)]
pub(crate) struct SyncRequest {
    /// Instructions for the library.
    pub(crate) plan: Plan,
    /// Settings of the output.
    pub(crate) view: OutputView,
    /// The batch file that this sync writes or reads, if any.
    pub(crate) batch: Option<BatchUse>,
    /// Next step if the other machine has no deltic: the run fails, asks the user, or installs deltic.
    pub(crate) if_missing: IfMissing,
    /// The program (Deltic or rsync) that options behave like, where the two differ.
    pub(crate) ways: OptionBehaviour,
    /// Limits of further attempts after a lost connection.
    pub(crate) retry: RetryLimits,
}

/// Reaction of a run to a machine without deltic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IfMissing {
    /// The run fails.
    Fail,
    /// The user at the terminal is asked whether to install deltic there.
    Ask,
    /// Deltic is installed there.
    Install,
}

impl IfMissing {
    fn of(args: &SyncArgs, terminals: Terminals) -> Self {
        let can_ask = terminals.stdin && terminals.stderr && !args.show.json && !args.show.quiet;
        match (args.install, can_ask && args.deltic_path == Remote::PROGRAM) {
            (true, _) => Self::Install,
            (false, true) => Self::Ask,
            (false, false) => Self::Fail,
        }
    }
}

impl SyncRequest {
    /// Builds the request from `args`.
    ///
    /// # Errors
    /// If arguments are invalid or contradict each other.
    pub(crate) fn new(args: &SyncArgs, terminals: Terminals) -> Result<Self> {
        args.show.levels()?;
        args.show.debug()?;
        args.accepted.check(args.ways)?;
        let batch = args.batch.batch(args.remove.remove_source_files, args.checksum)?;
        let reads = matches!(batch, Some(BatchUse::Read(_)));
        // A batch to read counts as the source operand.
        let count = args.operands.len() + usize::from(reads);
        let lists = args.select.lists(count);
        let operands = match &args.operands[..] {
            [to] if reads => {
                SyncOperands { sources: Sources::Local(Vec::new()), destination: destination(to)? }
            }
            _ if reads => bail!("--read-batch takes a destination and no source"),
            [_] => SyncOperands {
                sources: sources_of(&args.operands)?,
                destination: Destination::Local(".".into()),
            },
            words => parse_operands(words)?,
        };
        let SyncOperands { sources, destination } = args.select.split(operands)?;
        // A listing writes nothing, so a remote destination is not contacted.
        let destination = if lists { Destination::Local(".".into()) } else { destination };
        check_streams(args)?;
        let far = match (&sources, &destination) {
            (Sources::Local(_), Destination::Local(_)) => RemoteRole::Nothing,
            (Sources::Local(_), Destination::Remote { .. }) => RemoteRole::Destination,
            (Sources::Remote { .. }, _) => RemoteRole::Sources,
        };
        let names = args.select.names(&sources, &destination, args.follow.others.trust())?;
        let select = args.select.select(count, args.is_recursive());
        let options = options(args, select, far, terminals)?;
        let mut plan = Plan {
            names,
            remote: Remote {
                shell: args.travel.shell(&args.rsh.0),
                program: args.deltic_path.clone(),
                options: remote_options(args),
            },
            limits: Bandwidth::limits(args.travel.bwlimit.as_ref()),
            timeouts: args.travel.timeouts(matches!(far, RemoteRole::Nothing) || can_ask())?,
            by_blake3: args.sums.sums(args.checksum)?.by_blake3,
            cache: cache::dir(),
            asks_reasons: args.show.explain,
            ..Plan::new(sources, destination, options)
        };
        plan.dial = dial(&mut plan, &args.login)?;
        trust_sums(&mut plan, args.compare.trust_sums)?;
        check_home(&args.operands, &plan.options)?;
        let (mut view, is_dry) = (view::view(args, terminals)?, plan.options.dry_run);
        view.far = hint::RemoteMachine::of(&plan, &args.operands, args.accepted.port);
        view.next_run = hint::NextRun::of(&plan.options);
        plan.options.tells_unchanged = view.wants_unchanged(&plan.options);
        plan.options.tells_owners = view.owners;
        plan.options.tells_digests = view.digests;
        let batch = batch.filter(|_| reads || !is_dry);
        let (if_missing, ways) = (IfMissing::of(args, terminals), args.ways);
        Ok(Self { plan, view, batch, if_missing, ways, retry: args.travel.retry(terminals.stdin) })
    }
}

/// Returns the connection to a store or a server, if an operand names either. `None` for a remote shell.
pub(crate) fn dial(plan: &mut Plan, login: &LoginArgs) -> Result<Option<Dial>> {
    let cache = plan.cache.clone();
    match store::dial(&plan.sources, &plan.destination, cache, &mut plan.options)? {
        Some(store) => Ok(Some(store.dial)),
        None => server::dial(&plan.sources, &plan.destination, login),
    }
}

/// Enables `--trust-sums`, if `is_asked`.
///
/// With `--checksum`, contents are compared by the checksums that this end's file system keeps. Without `--checksum`,
/// these checksums only find moved blocks.
///
/// # Errors
/// If the file system keeps no checksums, or checksums of 32 bits.
pub(crate) fn trust_sums(plan: &mut Plan, is_asked: bool) -> Result<()> {
    if !is_asked {
        return Ok(());
    }
    if !plan.options.checksum {
        plan.options.compare.trusted = Some(WEAKEST);
        return Ok(());
    }
    let place = match (&plan.sources, &plan.destination) {
        (Sources::Local(paths), _) => paths.first(),
        (Sources::Remote { .. }, Destination::Local(path)) => Some(path),
        (Sources::Remote { .. }, Destination::Remote { .. }) => None,
    };
    let Some(place) = place else { return Ok(()) };
    let shown = printable(place.as_os_str().as_bytes());
    // A missing path will be created in the file system of its nearest existing ancestor.
    let dir = place.ancestors().find(|dir| dir.is_dir()).unwrap_or_else(|| Path::new("."));
    let dir = File::open(dir).with_context(|| format!("--trust-sums: cannot open {shown}"))?;
    match deltic_net::stored_sum_kind(dir.as_fd()) {
        Some(Kept::Verity) => plan.options.compare.trusted = Some(TrustedSums::Verity),
        Some(Kept::Blocks(kind, block_bytes)) if kind.strength() > SumStrength::Hint => {
            plan.options.compare.trusted = Some(TrustedSums::Blocks { kind, block_bytes });
        }
        Some(Kept::Blocks(..)) => bail!(
            "--trust-sums: the file system of {shown} keeps 32-bit checksums, which prove nothing; \
             use `mkfs.btrfs --csum xxhash`, sha256 or blake2"
        ),
        None => bail!(
            "--trust-sums: the file system of {shown} keeps no checksums; use Btrfs or fs-verity"
        ),
    }
    Ok(())
}

/// The weakest checksums that may be trusted.
const WEAKEST: TrustedSums = TrustedSums::Blocks { kind: SumKind::Xxh64, block_bytes: 4096 };

/// True if a remote shell can ask the user for a password: on a terminal, or by `SSH_ASKPASS`.
fn can_ask() -> bool {
    File::open("/dev/tty").is_ok() || std::env::var_os("SSH_ASKPASS").is_some()
}

/// Refuses an operand without a path, such as `host:`, if the run may delete names. An empty path means the home
/// directory, and is more often an empty variable in a script than a wish.
fn check_home(operands: &[OsString], options: &Options) -> Result<()> {
    let removes = options.delete != Delete::Never || options.remove.sources;
    match operands.iter().find(|word| removes && word.as_bytes().ends_with(b":")) {
        Some(word) if matches!(ParsedOperand::parse(word)?, ParsedOperand::Remote { .. }) => {
            let word = show(word);
            bail!(
                "'{word}': no path, and the sync may remove names; write '{word}.' for the home directory"
            )
        }
        _ => Ok(()),
    }
}

/// Refuses several streams for a strategy that needs answers in order: streams may overtake each other.
fn check_streams(args: &SyncArgs) -> Result<()> {
    match (args.streams, args.strategy) {
        (2.., Some(Strategy { name, conversation, .. }))
            if conversation != Conversation::Recipe =>
        {
            bail!("--streams {}: '--strategy {name}' has one stream only", args.streams)
        }
        _ => Ok(()),
    }
}

/// Splits operands into sources and destination; the last operand is the destination.
pub(crate) fn parse_operands(words: &[OsString]) -> Result<SyncOperands> {
    let (last, sources) = match words {
        [] => bail!("no source and no destination; write `deltic sync SRC... DEST`"),
        [sources @ .., last] => (last, sources),
    };
    let (sources, destination) = (sources_of(sources)?, destination(last)?);
    if let (Sources::Remote { host: from, .. }, Destination::Remote { host: to, .. }) =
        (&sources, &destination)
    {
        bail!(
            "source '{}' and destination '{}' are both remote; run deltic on one of the two machines",
            printable(from.as_bytes()),
            printable(to.as_bytes())
        );
    }
    Ok(SyncOperands { sources, destination })
}

/// Parses the sources, which must all be local or all be on the same host.
pub(crate) fn sources_of(words: &[OsString]) -> Result<Sources> {
    let mut found: Option<Sources> = None;
    for word in words {
        found = Some(match (found, ParsedOperand::parse(word)?) {
            (None, ParsedOperand::Local(path)) => Sources::Local(vec![path]),
            (None, ParsedOperand::Remote { host: Some(host), path }) => {
                Sources::Remote { host, paths: vec![path] }
            }
            (Some(Sources::Local(paths)), ParsedOperand::Local(path)) => {
                Sources::Local(joined(paths, path))
            }
            (
                Some(Sources::Remote { host, paths }),
                ParsedOperand::Remote { host: other, path },
            ) if other.as_ref().is_none_or(|other| *other == host) => {
                Sources::Remote { host, paths: joined(paths, path) }
            }
            (None, ParsedOperand::Remote { host: None, .. }) => bail!("{}", no_host(word)),
            (Some(_), _) => bail!(
                "'{}': on another host than the source before; run deltic once for each host",
                show(word)
            ),
        });
    }
    found.ok_or_else(|| anyhow::anyhow!("no source"))
}

fn joined<T>(mut list: Vec<T>, item: T) -> Vec<T> {
    list.push(item);
    list
}

fn destination(word: &OsStr) -> Result<Destination> {
    match ParsedOperand::parse(word)? {
        ParsedOperand::Local(path) => Ok(Destination::Local(path)),
        ParsedOperand::Remote { host: Some(host), path } => Ok(Destination::Remote { host, path }),
        ParsedOperand::Remote { host: None, .. } => bail!("{}", no_host(word)),
    }
}

fn no_host(word: &OsStr) -> String {
    let word = show(word);
    format!("'{word}': no host before the colon; write './{word}' for a file of that name")
}

fn show(word: &OsStr) -> String {
    printable(word.as_bytes())
}

/// Returns the options for the command line of the other end. The other end limits what it sends: this end can only
/// read late what is on the way already. The greeting asks for the gentle rate, at servers too.
fn remote_options(args: &SyncArgs) -> Vec<OsString> {
    let mut words = remote_words(&args.travel.remote_option);
    let is_told = words.iter().any(|word| word.as_bytes().starts_with(b"--bwlimit"));
    let rate = Bandwidth::limits(args.travel.bwlimit.as_ref()).table.filter(|_| !is_told);
    words.extend(rate.map(|rate| format!("--bwlimit={}", rate::word_of(&rate)).into()));
    words
}

/// Builds the options of a sync.
///
/// Two local paths default to `--whole-file`: reading the old file to save a local write costs more. A strategy that
/// the user names disables this default.
fn options(
    args: &SyncArgs,
    select: Select,
    far: RemoteRole,
    terminals: Terminals,
) -> Result<Options> {
    let local = far == RemoteRole::Nothing;
    let (compress, compress_level) = args.travel.compression.requested();
    let mut metadata = args.metadata.metadata(args.archive, deltic_net::umask)?;
    args.metadata.set_fake_super(far, &args.travel.remote_option, &mut metadata)?;
    let keeps = args.show.partial_progress;
    let partial_dir = args.writing.partial_dir(keeps, args.ways);
    // `--append` needs the old file, so files are not sent whole.
    let may_be_whole = args.strategy.is_none() && !args.writing.appends();
    let mut remove = args.remove.remove(terminals.can_ask(), args.ways)?;
    remove.sources &= !args.batch.only_writes();
    let takes_dirs = args.is_recursive() || select.dirs;
    let delete =
        args.remove.deletion_option(args.filters.delete_excluded, takes_dirs, args.ways)?;
    // Backups with a suffix survive `--delete`, as in rsync. A backup directory needs no such rule.
    let protects = delete != Delete::Never && !args.filters.delete_excluded;
    let beside = remove.backup.as_ref().filter(|backup| protects && backup.dir.is_none());
    let suffix = beside.map(|backup| &*backup.suffix);
    let trust = args.follow.others.trust();
    let rules = args.filters.rules(args.select.from0, trust, suffix, partial_dir.as_deref())?;
    Ok(Options {
        recursive: args.is_recursive(),
        links: args.links || (args.archive && !args.no_links),
        modes: args.perms || (args.archive && !args.no_perms) || metadata.acls,
        times: args.times || (args.archive && !args.no_times),
        checksum: args.checksum,
        whole_file: args.whole_file
            || args.sums.sums(args.checksum)?.whole
            || (local && !args.no_whole_file && may_be_whole),
        dry_run: args.dry_run || select.list_only,
        // Set later, from the view.
        tells_unchanged: false,
        tells_owners: false,
        tells_digests: false,
        delete,
        follow: args.follow.links(far, &args.travel.remote_option),
        remove,
        compress,
        compress_level,
        durable: !args.no_fsync,
        threads: args.threads.unwrap_or(0),
        streams: args.streams,
        silence: args.travel.timeout,
        strategy: args.strategy.unwrap_or_default(),
        block_bytes: block_bytes(args.block_size)?,
        select,
        compare: args.compare.compare(args.ways)?,
        rules,
        writing: args.writing.writing(args.whole_file, keeps, args.ways)?,
        metadata,
    })
}

/// Returns the chunk length that `--block-size` sets, in bytes. As in rsync, 0 means the default.
fn block_bytes(size: Option<Size>) -> Result<Option<u32>> {
    let Some(bytes) = size.map(Size::bytes).filter(|bytes| *bytes > 0) else { return Ok(None) };
    match u32::try_from(bytes) {
        Ok(bytes @ ..=MAX_BLOCK_BYTES) => Ok(Some(bytes)),
        _ => bail!("--block-size={bytes} is too large (max: 128K)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{self, Command};
    use deltic_net::rates::RateTable;
    use deltic_protocol::options::Guard;

    fn request_on(words: &str, terminals: Terminals) -> Result<SyncRequest> {
        let words = shlex::split(&format!("deltic sync {words}")).unwrap();
        match args::parse(words.into_iter().map(Into::into))?.command {
            Command::Sync(args) => SyncRequest::new(&args, terminals),
            _ => unreachable!("the words say sync"),
        }
    }

    fn request(words: &str) -> Result<SyncRequest> {
        request_on(words, Terminals::default())
    }

    #[test]
    fn archive_stands_for_rlptgod() {
        let archive = request("-a a b").unwrap().plan.options;
        assert_eq!(archive, request("-rlptgoD a b").unwrap().plan.options);
        assert!(
            archive.recursive && archive.links && archive.modes && archive.times && archive.durable
        );
    }

    #[test]
    fn a_part_of_archive_can_be_taken_out() {
        let options = request("-a --no-p --no-times a b").unwrap().plan.options;
        assert!(options.recursive && options.links && !options.modes && !options.times);
        assert!(request("-a --no-t -t a b").unwrap().plan.options.times);
    }

    #[test]
    fn notes_are_for_the_end_that_is_named() {
        for (words, reads, writes) in [
            ("--fake-super a h:b", true, false),
            ("--fake-super h:a b", false, true),
            ("-M--fake-super a h:b", false, true),
            ("-M--fake-super h:a b", true, false),
            ("--fake-super a b", true, true),
            ("-M--fake-super a b", false, true),
            ("--fake-super -M--super a b", true, false),
            ("--fake-super --no-fake-super a b", false, false),
        ] {
            let plan = request(words).unwrap().plan;
            let metadata = plan.options.metadata;
            assert_eq!((metadata.reads_notes, metadata.writes_notes), (reads, writes), "{words}");
            assert!(plan.remote.options.is_empty(), "{words}");
        }
        assert!(request("--fake-super -XX a b").is_err());
        let options = |words: &str| request(words).unwrap().plan.remote.options;
        assert_eq!(options("-M--bwlimit=1 a h:b"), ["--bwlimit=1"]);
        assert_eq!(options("-M--bwlimit=1 --bwlimit=1M a h:b"), ["--bwlimit=1"]);
        assert_eq!(options("--bwlimit=1.5K a h:b"), ["--bwlimit=1536B"]);
    }

    #[test]
    fn local_runs_default_to_whole_files_and_remote_ones_to_recipes() {
        for (words, whole) in [
            ("a b", true),
            ("--no-whole-file a b", false),
            ("a h:b", false),
            ("h:a b", false),
            ("-W a h:b", true),
            ("--strategy rsync a b", false),
            ("--strategy deltic a b", false),
        ] {
            assert_eq!(request(words).unwrap().plan.options.whole_file, whole, "{words}");
        }
    }

    #[test]
    fn only_deltics_own_way_has_several_streams() {
        for (words, streams) in [
            ("a h:b", 1),
            ("--streams 2 a h:b", 2),
            ("--streams 2 --strategy deltic a h:b", 2),
            ("--streams 1 --strategy rsync a h:b", 1),
        ] {
            assert_eq!(request(words).unwrap().plan.options.streams, streams, "{words}");
        }
        for strategy in Strategy::ALL.into_iter().filter(|one| *one != Strategy::DELTIC) {
            let words = format!("--streams 2 --strategy {} a h:b", strategy.name);
            let refusal = request(&words).unwrap_err().to_string();
            assert!(
                refusal.contains("--streams 2") && refusal.contains(strategy.name),
                "{refusal}"
            );
        }
    }

    #[test]
    fn deletion_is_guarded_until_a_number_is_named() {
        let guarded = |percent| Delete::Guarded(Guard { percent, names: None });
        for (words, delete) in [
            ("a b", Delete::Never),
            ("-r --delete a b", guarded(None)),
            ("-a --delete --max-delete 7 a b", Delete::AtMost(7)),
            ("-a --delete --max-delete=-7 a b", Delete::AtMost(0)),
            ("-a --delete --max-delete 10% a b", guarded(Some(10))),
            ("-a --max-delete 7 a b", Delete::Never),
            // Either option may come from the settings file.
            ("-a --delete --max-delete 7 --force-delete a b", Delete::AtMost(u64::MAX)),
            ("-a --delete --force-delete --max-delete 7 a b", Delete::AtMost(7)),
        ] {
            assert_eq!(request(words).unwrap().plan.options.delete, delete, "{words}");
        }
    }

    #[test]
    fn sources_on_one_host_go_together() {
        let plan = request("h:a :b h:c d").unwrap().plan;
        let Sources::Remote { host, paths } = plan.sources else { panic!("remote") };
        assert_eq!((host.as_str(), paths), ("h", vec!["a".into(), "b".into(), "c".into()]));
        let Sources::Local(paths) = request("a b/ c").unwrap().plan.sources else {
            panic!("local")
        };
        assert_eq!(paths.iter().map(|p| p.as_os_str()).collect::<Vec<_>>(), ["a", "b/"]);
    }

    #[test]
    fn ends_that_make_no_sense_together_are_refused_by_name() {
        for (words, why) in [
            ("h:a g:b", "'h' and destination 'g' are both remote"),
            ("h:a g:b c", "'g:b': on another host"),
            ("a g:b c", "'g:b': on another host"),
            ("h:a b c", "'b': on another host"),
            (":a b", "':a': no host"),
            ("a :b", "':b': no host"),
            ("-- -x:a b", "'-x:a': a host cannot start with '-'"),
            ("a ''", "empty"),
        ] {
            let refusal = request(words).unwrap_err().to_string();
            assert!(refusal.contains(why), "{words}: {refusal}");
        }
    }

    #[test]
    fn a_rate_of_zero_is_no_limit() {
        assert_eq!(request("--bwlimit 0 a b").unwrap().plan.limits.table, None);
        assert_eq!(
            request("--bwlimit 1 a b").unwrap().plan.limits.table,
            Some(RateTable::constant(1024))
        );
    }
}
