//! Builds the view of a run from the arguments and the terminals.

use anyhow::Result;

use crate::args::show::{OutputArgs, OutputBuffering, StderrMode};
use crate::args::sync::SyncArgs;
use crate::report::escape::Escape;
use crate::report::format::{self, LineFormat};
use crate::report::hint::{NextRun, RemoteMachine};
use crate::report::numbers::NumberStyle;
use crate::report::view::{ListLine, LogFile, OutputView, ProgressMode, SummaryForm};
use crate::report::waiting::DeletionOrder;
use crate::words::levels::InfoLevels;

/// Standard streams that are terminals, and whether output may be coloured.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Terminals {
    pub(crate) stdout: bool,
    pub(crate) stderr: bool,
    pub(crate) stdin: bool,
    /// `NO_COLOR` is set.
    pub(crate) plain: bool,
}

impl Terminals {
    /// True if the user can be asked a question: all three standard streams are terminals.
    pub(crate) const fn can_ask(self) -> bool {
        self.stdin && self.stdout && self.stderr
    }
}

/// Builds the settings of the output from `args` and the terminals.
pub(super) fn view(args: &SyncArgs, terminals: Terminals) -> Result<OutputView> {
    let show = &args.show;
    let info = show.levels()?;
    let info = match show.quiet {
        true => InfoLevels { backup: 0, remove: 0, skip: 0, ..info },
        false => info,
    };
    let names = names(show, info);
    let trust = args.follow.others.trust();
    let log = show.log_file.clone().map(|path| LogFile { path, trust, names: log_names(show) });
    let logged = log.as_ref().and_then(|log| log.names.as_ref());
    let by_line = matches!(show.outbuf, Some(OutputBuffering::None | OutputBuffering::Line));
    Ok(OutputView {
        json: show.json,
        applied: args.applied.clone(),
        far: RemoteMachine::default(),
        next_run: NextRun::Same,
        owners: names.iter().chain(logged).any(LineFormat::tells_owners),
        digests: names.iter().chain(logged).any(LineFormat::tells_digests),
        names,
        deletions: deletions(show, info),
        unchanged: unchanged(show, info),
        info,
        debug: show.debug()?,
        checksum: args.sums.rsyncs().map(Into::into),
        numbers: NumberStyle::of(show.human_readable, show.no_human_readable),
        escape: if show.eight_bit_output { Escape::Control } else { Escape::Unprintable },
        dry_run: args.dry_run,
        watches: false,
        list: list_line(args, info, terminals),
        summary: summary(show, info, terminals),
        explain: show.explain && !show.quiet,
        live: live(args, info, terminals),
        quiet: show.quiet,
        color: terminals.stdout && !terminals.plain,
        to_stderr: (show.msgs2stderr || show.stderr == StderrMode::All) && !show.json,
        by_line,
        in_order: !(by_line || terminals.stdout),
        when_deletions: when_deletions(args),
        log,
    })
}

fn when_deletions(args: &SyncArgs) -> DeletionOrder {
    match () {
        () if args.remove.delete_after || args.remove.delete_delay => DeletionOrder::Last,
        () if args.remove.delete_before => DeletionOrder::First,
        () => DeletionOrder::Along,
    }
}

/// Returns the format of names. As in rsync, `--out-format` names entries at any `--info` level.
fn names(show: &OutputArgs, info: InfoLevels) -> Option<LineFormat> {
    if show.quiet {
        return None;
    }
    match &show.out_format {
        Some(format) => Some(LineFormat::new(format.as_encoded_bytes())),
        None if show.itemize_changes > 0 => Some(LineFormat::new(format::ITEMIZED)),
        None => (info.name > 0).then(|| LineFormat::new(format::NAMES)),
    }
}

/// Returns the format of deletions. Deletions are shown wherever other names are shown.
fn deletions(show: &OutputArgs, info: InfoLevels) -> Option<LineFormat> {
    let plain = || (info.del > 0 && !show.quiet).then(|| LineFormat::new(format::NAMES));
    names(show, info).or_else(plain)
}

/// True if unchanged names are shown. As in rsync, a second `-i` shows them if names are itemized.
fn unchanged(show: &OutputArgs, info: InfoLevels) -> bool {
    let itemizes = show.json || names(show, info).is_some_and(|format| format.itemizes());
    !show.quiet && (info.name > 1 || itemizes && show.itemize_changes > 1)
}

fn log_names(show: &OutputArgs) -> Option<LineFormat> {
    match &show.log_file_format {
        Some(format) if format.is_empty() => None,
        Some(format) => Some(LineFormat::new(format.as_encoded_bytes())),
        None => Some(LineFormat::new(format::ITEMIZED)),
    }
}

fn list_line(args: &SyncArgs, info: InfoLevels, terminals: Terminals) -> ListLine {
    let recursive = args.is_recursive();
    let select = args.select.select(args.operands.len(), recursive);
    let (remove, accepted) = (&args.remove, &args.accepted);
    let needs_all = remove.delete_before
        || remove.delete_after
        || args.writing.delay_updates
        || select.prune_empty_dirs
        || accepted.no_inc_recursive
        || accepted.qsort;
    match (recursive, select.dirs) {
        _ if info.flist == 0 || args.show.quiet => ListLine::Nothing,
        (true, _) if !needs_all => ListLine::Streams,
        (false, false) => ListLine::Nothing,
        // On a terminal, the progress bar already counts.
        _ if info.flist > 1 && !terminals.stdout => ListLine::Counted,
        _ => ListLine::Whole,
    }
}

fn summary(show: &OutputArgs, info: InfoLevels, terminals: Terminals) -> SummaryForm {
    match info.stats {
        _ if show.quiet => SummaryForm::Nothing,
        _ if show.stats_one_line => SummaryForm::Line,
        0 if terminals.stdout => SummaryForm::Short,
        0 => SummaryForm::Nothing,
        1 => SummaryForm::Totals,
        _ => SummaryForm::Full,
    }
}

fn live(args: &SyncArgs, info: InfoLevels, terminals: Terminals) -> ProgressMode {
    let (show, asked, again) = (&args.show, info.progress > 0, info.progress > 1);
    // A dry run transfers no files and shows no progress, as in rsync.
    let nothing_goes = (args.dry_run || args.select.lists(args.operands.len())) && !again;
    match () {
        () if show.no_progress || show.quiet || show.json && !asked => ProgressMode::Nothing,
        () if asked && !terminals.stdout && !show.json => match nothing_goes {
            true => ProgressMode::Nothing,
            false => ProgressMode::Piped { again },
        },
        () => ProgressMode::on(terminals.stderr, asked),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{self, Command};

    fn view_on(words: &str, terminals: Terminals) -> OutputView {
        let words = shlex::split(&format!("deltic sync {words}")).unwrap();
        match args::parse(words.into_iter().map(Into::into)).unwrap().command {
            Command::Sync(args) => super::view(&args, terminals).unwrap(),
            _ => unreachable!("the words say sync"),
        }
    }

    fn view(words: &str) -> OutputView {
        view_on(words, Terminals::default())
    }

    #[test]
    fn progress_is_for_terminals_unless_asked_for() {
        let terminals = Terminals { stdout: true, stderr: true, ..Terminals::default() };
        for (words, there, elsewhere) in [
            ("a b", ProgressMode::Bar, ProgressMode::Nothing),
            ("--progress a b", ProgressMode::Bar, ProgressMode::Piped { again: false }),
            ("-P a b", ProgressMode::Bar, ProgressMode::Piped { again: false }),
            ("-Pn a b", ProgressMode::Bar, ProgressMode::Nothing),
            ("--info=progress2 a b", ProgressMode::Bar, ProgressMode::Piped { again: true }),
            ("--json --progress a b", ProgressMode::Bar, ProgressMode::Lines),
            ("--no-progress a b", ProgressMode::Nothing, ProgressMode::Nothing),
            ("-q --progress a b", ProgressMode::Nothing, ProgressMode::Nothing),
            ("--json a b", ProgressMode::Nothing, ProgressMode::Nothing),
        ] {
            assert_eq!(view_on(words, terminals).live, there, "{words}");
            assert_eq!(view(words).live, elsewhere, "{words}");
        }
    }

    #[test]
    fn names_and_summaries_follow_the_words_and_the_terminal() {
        let terminals = Terminals { stdout: true, ..Terminals::default() };
        let format = |text: &[u8]| Some(LineFormat::new(text));
        for (words, names, summary) in [
            ("a b", None, SummaryForm::Nothing),
            ("-v a b", format(b"%n%L"), SummaryForm::Totals),
            ("-vi a b", format(b"%i %n%L"), SummaryForm::Totals),
            ("-i a b", format(b"%i %n%L"), SummaryForm::Nothing),
            ("-v --info=name0 a b", None, SummaryForm::Totals),
            ("-v --out-format=%o a b", format(b"%o"), SummaryForm::Totals),
            ("-i --out-format=%n a b", format(b"%n"), SummaryForm::Nothing),
            ("--progress a b", format(b"%n%L"), SummaryForm::Nothing),
            ("--info=progress2 a b", None, SummaryForm::Nothing),
            ("--stats a b", None, SummaryForm::Full),
            ("--info=stats2 a b", None, SummaryForm::Full),
            ("-qv a b", None, SummaryForm::Nothing),
        ] {
            let view = view(words);
            assert_eq!((view.names, view.summary), (names, summary), "{words}");
        }
        assert_eq!(view_on("a b", terminals).summary, SummaryForm::Short);
        assert_eq!(view_on("-q a b", terminals).summary, SummaryForm::Nothing);
        assert!(view_on("a b", terminals).color);
        assert!(!view_on("a b", Terminals { plain: true, ..terminals }).color);
    }

    #[test]
    fn a_log_itemizes_unless_it_has_a_format_of_its_own() {
        let log = |words| view(words).log.unwrap().names;
        assert_eq!(log("--log-file x a b"), Some(LineFormat::new(b"%i %n%L")));
        assert_eq!(log("--log-file x --log-file-format=%o a b"), Some(LineFormat::new(b"%o")));
        assert_eq!(log("--log-file x --log-file-format= a b"), None);
    }
}
