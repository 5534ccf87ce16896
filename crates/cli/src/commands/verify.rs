//! `deltic verify`: a dry run that compares all contents, with output of its own.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io::{IsTerminal, stderr};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, ensure};
use deltic_net::plan::{Destination, Remote, Sources};
use deltic_net::{Outcome, Plan, SyncError, User};
use deltic_protocol::options::{Compare, Delete, Links, Metadata, Options, Powers, Remove, Select};
use deltic_protocol::report::{Action, Change, EntryType, Notice, TroubleKind};
use deltic_remote::{ComparedTree, ProcessEnvironment, RemoteSystem, RemoteTree};
use deltic_serve::client::Address;
use deltic_tree::RelPath;
use indicatif::HumanBytes;

use super::evidence;
use super::run::run_with_reporter;
use crate::args::verify::VerifyArgs;
use crate::plan::store::{self, StoreConnection};
use crate::plan::{parse_operands, server, sources_of, trust_sums};
use crate::report::escape::Escape;
use crate::report::events::{JsonEvent, VerifyTotals, attributes, millis};
use crate::report::exit::Exit;
use crate::report::hint::{self, NextRun};
use crate::report::numbers::{NumberStyle, counted};
use crate::report::output::{self, Output};
use crate::report::progress::ProgressDisplay;
use crate::report::reporter::{Reporter, RunEnding};
use crate::report::view::ProgressMode;
use crate::words::place::{SyncOperands, is_store};
use crate::words::rate::Bandwidth;

/// Compares two trees, and prints the differences.
pub(crate) fn run(args: &VerifyArgs) -> Exit {
    let comparison = match plan(args) {
        Ok(comparison) => comparison,
        Err(refusal) => {
            let what = output::words(&refusal);
            output::complain(&what, args.applied.origin_of_error(&what).as_deref());
            return Exit::after_refusal(&refusal);
        }
    };
    let mut reporter = DifferenceReporter::new(args, &comparison);
    let tree = comparison.tree;
    let mut run = |plan: Plan, user: &User, watch: &mut (dyn FnMut(Notice) + Send)| match &tree {
        None => deltic_net::run(plan, user, watch),
        Some(tree) => {
            let tree = tree.clone();
            deltic_net::pull_into(plan, |_| ComparedTree::open(tree), user, watch)
        }
    };
    let (result, troubles) = run_with_reporter(comparison.plan, &mut run, &mut reporter);
    let exit = match Exit::of(&result, troubles) {
        Exit::Success if reporter.counts.differences > 0 => Exit::Different,
        exit => exit,
    };
    match reporter.finish(&RunEnding { result: &result, exit, hint: None }) {
        Ok(()) => exit,
        Err(error) => {
            output::complain_unwritten(&error);
            Exit::Files
        }
    }
}

/// A comparison of two trees, A and B.
struct TreeComparison {
    plan: Plan,
    /// The store with one of the trees, if any.
    store: Option<StoreConnection>,
    /// The destination, if that is in a store: then no tree is on this machine.
    tree: Option<RemoteTree>,
    /// True if B is the source, because B is in a store: a store is never a destination.
    exchanged: bool,
}

fn plan(args: &VerifyArgs) -> Result<TreeComparison> {
    ensure!(
        args.operands.len() == 2,
        "two trees, or two files, are compared; write `deltic verify A B`"
    );
    let mut options = options(args)?;
    let (a, b) = (sources_of(&args.operands[..1])?, sources_of(&args.operands[1..])?);
    if let (Sources::Remote { host: first, .. }, Sources::Remote { host: second, .. }) = (&a, &b)
        && is_url(first)
        && is_url(second)
    {
        return two_urls(args, a, b, options);
    }
    let (operands, exchanged) = store_as_source(parse_operands(&args.operands)?);
    let SyncOperands { sources, destination } = operands;
    if exchanged {
        options.rules = options.rules.with_roles_exchanged();
    }
    let mut plan = Plan {
        sources: with_trailing_slash(sources, &destination),
        destination,
        ..empty_plan(args, options)
    };
    let (sources, destination, cache) = (&plan.sources, &plan.destination, plan.cache.clone());
    let store = store::dial(sources, destination, cache, &mut plan.options)?;
    plan.dial = match &store {
        Some(store) => Some(store.dial.clone()),
        None => server::dial(&plan.sources, &plan.destination, &args.login)?,
    };
    if store.is_none() {
        trust_sums(&mut plan, args.trust_sums)?;
    }
    Ok(TreeComparison { plan, store, tree: None, exchanged })
}

/// True for the URL of a store or a server, without a path.
fn is_url(host: &str) -> bool {
    is_store(host) || Address::looks_like(host.as_bytes())
}

/// Returns the comparison of two URLs, at least one of them that of a store. The tree of a store takes the part of the
/// destination: it is looked at and not changed.
fn two_urls(
    args: &VerifyArgs,
    a: Sources,
    b: Sources,
    mut options: Options,
) -> Result<TreeComparison> {
    let is_in_store =
        |sources: &Sources| matches!(sources, Sources::Remote { host, .. } if is_store(host));
    ensure!(
        is_in_store(&a) || is_in_store(&b),
        "both trees are on servers; one tree must be in a store or on this machine"
    );
    let exchanged = !is_in_store(&b);
    let (sources, destination) = if exchanged { (b, a) } else { (a, b) };
    let (Sources::Remote { host: from, paths: sources }, Sources::Remote { host, paths }) =
        (sources, destination)
    else {
        unreachable!("both are URLs");
    };
    if exchanged {
        options.rules = options.rules.with_roles_exchanged();
    }
    let remote = RemoteSystem::new(&host, &ProcessEnvironment)?;
    let (tree, is_file) = remote.compared(paths[0].as_bytes(), &options)?;
    // The destination of this plan is never opened: `tree` stands in for a local path.
    let local = Destination::Local(PathBuf::from("."));
    let sources = Sources::Remote { host: from, paths: sources };
    let sources = if is_file { sources } else { with_trailing_slash(sources, &local) };
    let mut plan = Plan { sources, destination: local, ..empty_plan(args, options) };
    let (cache, from) = (plan.cache.clone(), &plan.sources);
    let store = store::dial(from, &plan.destination, cache, &mut plan.options)?;
    let store = store.map(|store| StoreConnection { second: Some(remote), ..store });
    plan.dial = match &store {
        Some(store) => Some(store.dial.clone()),
        None => server::dial(&plan.sources, &plan.destination, &args.login)?,
    };
    plan.destination = Destination::Remote { host, path: paths[0].clone() };
    Ok(TreeComparison { plan, store, tree: Some(tree), exchanged })
}

/// Returns the plan of a comparison with these options, without trees.
fn empty_plan(args: &VerifyArgs, options: Options) -> Plan {
    Plan {
        remote: Remote {
            program: args.deltic_path.clone(),
            ..Remote::with_shell(args.rsh.0.clone())
        },
        limits: Bandwidth::limits(args.bwlimit.as_ref()),
        cache: crate::plan::cache::dir(),
        ..Plan::new(Sources::Local(Vec::new()), Destination::Local(PathBuf::new()), options)
    }
}

/// Makes a store the source. Returns true if source and destination were exchanged.
fn store_as_source(SyncOperands { sources, destination }: SyncOperands) -> (SyncOperands, bool) {
    match (sources, destination) {
        (Sources::Local(mut paths), Destination::Remote { host, path })
            if paths.len() == 1 && is_store(&host) =>
        {
            let destination = Destination::Local(paths.remove(0));
            (
                SyncOperands { sources: Sources::Remote { host, paths: vec![path] }, destination },
                true,
            )
        }
        (sources, destination) => (SyncOperands { sources, destination }, false),
    }
}

/// Returns the plan with source and destination in the order of the operands.
fn in_operand_order(TreeComparison { plan, exchanged, .. }: &TreeComparison) -> Cow<'_, Plan> {
    match (&plan.sources, &plan.destination) {
        (Sources::Remote { host, paths }, Destination::Remote { host: to, path: at })
            if *exchanged =>
        {
            let path = paths.first().cloned().unwrap_or_default();
            Cow::Owned(Plan {
                sources: Sources::Remote { host: to.clone(), paths: vec![at.clone()] },
                destination: Destination::Remote { host: host.clone(), path },
                ..plan.clone()
            })
        }
        (Sources::Remote { host, paths }, Destination::Local(to)) if *exchanged => {
            let path = paths.first().cloned().unwrap_or_default();
            let destination = Destination::Remote { host: host.clone(), path };
            Cow::Owned(Plan {
                sources: Sources::Local(vec![to.clone()]),
                destination,
                ..plan.clone()
            })
        }
        _ => Cow::Borrowed(plan),
    }
}

/// Adds a slash to source directories: the contents of a directory are compared, with or without a trailing slash.
fn with_trailing_slash(sources: Sources, destination: &Destination) -> Sources {
    let is_other = |path: &Path| path.exists() && !path.is_dir();
    let has_file = match destination {
        Destination::Local(path) => is_other(path),
        Destination::Remote { .. } => false,
    };
    let slashed = |path: &OsStr| match path.as_bytes() {
        [] | [.., b'/'] => path.to_owned(),
        path => OsString::from_vec([path, b"/"].concat()),
    };
    match sources {
        Sources::Local(paths) => {
            let content = |path: std::path::PathBuf| match path.is_dir() {
                true => slashed(path.as_os_str()).into(),
                false => path,
            };
            Sources::Local(paths.into_iter().map(content).collect())
        }
        Sources::Remote { host, paths } if !has_file => {
            Sources::Remote { host, paths: paths.iter().map(|path| slashed(path)).collect() }
        }
        remote => remote,
    }
}

/// Returns the options of a dry run that compares all contents and would delete all other names.
fn options(args: &VerifyArgs) -> Result<Options> {
    let metadata = args.metadata.metadata(args.archive, deltic_net::umask)?;
    Ok(Options {
        recursive: true,
        links: true,
        checksum: true,
        dry_run: true,
        delete: Delete::AtMost(u64::MAX),
        // Names that only B has are reported even after read errors in A.
        remove: Remove { ignore_errors: true, ..Remove::default() },
        modes: args.perms || args.archive || metadata.acls,
        times: args.times || args.archive,
        compare: Compare { cached: false, ..Compare::default() },
        threads: args.threads.unwrap_or(0),
        rules: args.filters.rules(false, args.links.trust(), None, None)?,
        follow: Links { insecure: args.links.insecure_links, ..Links::default() },
        tells_unchanged: args.verbose && !args.quiet,
        // This dry run creates nothing, so devices and owners are compared for every user.
        metadata: Metadata { devices: true, specials: true, powers: Powers::Tried, ..metadata },
        // A missing B is more often a wrong argument than an empty tree.
        select: Select { existing: true, ..Select::default() },
        ..Options::default()
    })
}

/// Reports differences as text or as events.
struct DifferenceReporter {
    counts: DifferenceCounts,
    /// Directories that B lacks, without directories below other missing directories.
    missing: HashSet<RelPath>,
    json: bool,
    quiet: bool,
    progress: ProgressDisplay,
    output: Output,
    far: hint::RemoteMachine,
    store: Option<StoreConnection>,
    /// True if source and destination are exchanged: entries that the run would create are missing in A.
    exchanged: bool,
}

impl DifferenceReporter {
    fn new(args: &VerifyArgs, comparison: &TreeComparison) -> Self {
        let TreeComparison { plan, store, exchanged, .. } = comparison;
        let live = match args.no_progress || args.quiet {
            true => ProgressMode::Nothing,
            false => ProgressMode::on(stderr().is_terminal(), args.progress),
        };
        let mut output = Output::stdout();
        if args.json {
            output.line(JsonEvent::start(&in_operand_order(comparison)).line());
        }
        let (json, quiet) = (args.json, args.quiet);
        Self {
            counts: DifferenceCounts::default(),
            far: hint::RemoteMachine::of(plan, &args.operands, None),
            missing: HashSet::new(),
            json,
            quiet,
            progress: ProgressDisplay::new(plan, live, NumberStyle::default()),
            output,
            store: store.clone(),
            exchanged: *exchanged,
        }
    }

    /// True for a name below a directory already reported as missing. Remembers `change`, if a missing directory.
    fn is_below_missing(&mut self, change: &Change) -> bool {
        if change.action != Action::Created {
            return false;
        }
        let above = std::iter::successors(change.path.split_last(), |(dir, _)| dir.split_last());
        if above.into_iter().any(|(dir, _)| self.missing.contains(&dir)) {
            return true;
        }
        if change.item == EntryType::Dir {
            self.missing.insert(change.path.clone());
        }
        false
    }

    fn line(&mut self, line: impl AsRef<[u8]>) {
        if !self.quiet || self.json {
            self.output.line(line);
        }
    }

    fn change(&mut self, change: &Change) {
        if change.action == Action::Created && change.item == EntryType::File {
            self.counts.alone_files += 1;
            self.counts.alone_bytes += change.facts.len;
        }
        if self.is_below_missing(change) {
            return;
        }
        let differences = differences(change, self.exchanged);
        self.counts.note(&differences);
        if self.json {
            return self.line(JsonEvent::difference(change, differences).line());
        }
        let path = change.path.as_bytes();
        let path = Escape::Unprintable.escaped(if path.is_empty() { b"." } else { path });
        let how = if differences.is_empty() { "equal".into() } else { differences.join(",") };
        self.line([how.as_bytes(), b" ", &path].concat());
    }

    /// Returns the totals.
    fn verified(&self, outcome: &Outcome, exit: Exit) -> VerifyTotals {
        let DifferenceCounts { differences, missing, extra, alone_files, alone_bytes } =
            self.counts;
        let meter = self.progress.meter();
        let received = self.store.as_ref().map(StoreConnection::received);
        VerifyTotals {
            exit_code: exit.code(),
            elapsed_ms: millis(outcome.elapsed),
            sent_bytes: outcome.traffic.sent,
            received_bytes: received.unwrap_or(outcome.traffic.received),
            files: meter.files.saturating_sub(alone_files),
            compared_bytes: meter.bytes.saturating_sub(alone_bytes),
            differences,
            missing,
            extra,
            failed: outcome.totals.failed,
            evidence: self.store.as_ref().map(evidence::event),
        }
    }
}

/// Counts of differences so far.
#[derive(Clone, Copy, Debug, Default)]
struct DifferenceCounts {
    /// Names reported as different.
    differences: u64,
    /// Names among the differences that B lacks.
    missing: u64,
    /// Names among the differences that A lacks.
    extra: u64,
    /// Files that only the source has, with the files of directories that only the source has.
    alone_files: u64,
    /// Bytes of the files that only the source has.
    alone_bytes: u64,
}

impl DifferenceCounts {
    fn note(&mut self, differences: &[&str]) {
        let is = |what| u64::from(differences == [what]);
        self.differences += u64::from(!differences.is_empty());
        self.missing += is("missing");
        self.extra += is("extra");
    }
}

/// Returns the verdict: `equal: 304 files, 1.4 GiB compared`, or the number of differences.
fn verdict(verified: &VerifyTotals) -> String {
    let VerifyTotals { files, compared_bytes, differences, failed, .. } = verified.clone();
    let compared = format!("{}, {} compared", counted(files, "file"), HumanBytes(compared_bytes));
    match (failed, differences) {
        (0, 0) => format!("equal: {compared}"),
        (0, differences) => format!("different: {}; {compared}", counted(differences, "name")),
        (failed, differences) => format!(
            "incomplete: {}; {} known to differ",
            counted(failed, "error"),
            counted(differences, "name")
        ),
    }
}

/// Returns the kinds of difference; empty if the name differs in no compared attribute. `exchanged` is true if A is
/// the destination.
fn differences(change: &Change, exchanged: bool) -> Vec<&'static str> {
    match change.action {
        Action::Created if change.differs.kind => vec!["kind"],
        Action::Created if exchanged => vec!["extra"],
        Action::Deleted if exchanged => vec!["missing"],
        Action::Created => vec!["missing"],
        Action::Deleted => vec!["extra"],
        Action::Unchanged | Action::PassedOver(_) => Vec::new(),
        Action::Updated | Action::Touched | Action::Copied => {
            let links = change.facts.linked.is_some().then_some("links");
            attributes(change).chain(links).collect()
        }
    }
}

impl Reporter for DifferenceReporter {
    fn report(&mut self, notice: &Notice) {
        self.progress.note(notice);
        match notice {
            Notice::Changed(change) => self.change(change),
            Notice::Trouble(trouble) => {
                if self.json {
                    self.line(JsonEvent::trouble(trouble).line());
                }
                let is_warned = trouble.kind == TroubleKind::Warned && !self.quiet;
                if is_warned || !trouble.kind.is_harmless() {
                    self.progress.aside(|| self.output.flush());
                    self.progress.aside(|| output::complain(&self.far.message(trouble), None));
                }
            }
            Notice::Entry { .. }
            | Notice::Listed { .. }
            | Notice::Settled { .. }
            | Notice::Wire { .. }
            | Notice::Closing
            | Notice::MadeRoot(_)
            | Notice::Agreed(_)
            | Notice::ReadReason { .. }
            | Notice::Removed(_)
            | Notice::Finished(_) => {}
        }
    }

    fn tick(&mut self, elapsed: Duration) {
        if self.output.waiting_bytes() > 0 {
            self.progress.aside(|| self.output.flush());
        }
        self.progress.show(elapsed);
    }

    fn finish(&mut self, ending: &RunEnding<'_>) -> std::io::Result<()> {
        let exit = ending.exit;
        self.progress.clear();
        match ending.result {
            // Without any comparison there is no verdict; the message says why.
            Ok(outcome) if exit == Exit::Partial && outcome.totals.listed() == 0 && !self.json => {}
            Ok(outcome) => {
                let verified = self.verified(outcome, exit);
                if let (Some(store), false) = (&self.store, self.json) {
                    let words = evidence::words(store);
                    self.line(words);
                }
                match self.json {
                    true => self.line(JsonEvent::Verified(Box::new(verified)).line()),
                    false => self.line(verdict(&verified)),
                }
            }
            Err(error) => {
                let said = in_words_of_verify(error);
                let error = said.as_ref().unwrap_or(error);
                let hint = hint::of(error, &self.far, NextRun::Same);
                output::complain(&error.to_string(), hint.as_deref());
                if self.json {
                    self.line(JsonEvent::error(error, hint).line());
                }
            }
        }
        self.output.finish()
    }
}

/// Returns the error in words of `verify`, if `error` is about the second tree, which a sync calls a destination.
fn in_words_of_verify(error: &SyncError) -> Option<SyncError> {
    let (SyncError::Selection(why) | SyncError::SelectionThere(why)) = error else { return None };
    let (host, of_tree) = why.split_once("destination ")?;
    let is_it = host.is_empty() || host.ends_with(": ");
    is_it.then(|| SyncError::Selection(format!("{host}{of_tree}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{self, Command};

    fn plan_of(words: &str) -> Result<Plan> {
        let words = shlex::split(&format!("deltic verify {words}")).unwrap();
        match args::parse(words.into_iter().map(Into::into))?.command {
            Command::Verify(args) => plan(&args).map(|comparison| comparison.plan),
            _ => unreachable!("the words say verify"),
        }
    }

    #[test]
    fn nothing_is_changed_and_everything_is_read() {
        let options = plan_of("a b").unwrap().options;
        assert!(options.dry_run && options.checksum && options.recursive && options.links);
        assert!(!options.times && !options.modes && !options.compare.cached);
        let options = plan_of("-a a b").unwrap().options;
        assert!(options.times && options.modes && options.metadata.users);
    }

    #[test]
    fn two_operands_of_which_one_may_be_elsewhere() {
        for words in ["a", "a b c", "h:a g:b", ""] {
            assert!(plan_of(words).is_err(), "{words}");
        }
        assert!(plan_of("a -e ssh h:b --json").is_ok(), "options stand anywhere");
        let remote = plan_of("h:a b").unwrap().sources;
        assert!(matches!(remote, Sources::Remote { paths, .. } if paths == ["a/"]));
        assert!(
            matches!(plan_of("/ h:b").unwrap().sources, Sources::Local(of) if of == [Path::new("/")])
        );
        let remote = plan_of("h:a/ b").unwrap().sources;
        assert!(matches!(remote, Sources::Remote { paths, .. } if paths == ["a/"]), "one slash");
    }
}
