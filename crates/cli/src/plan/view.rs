//! Builds the view of a run from the arguments and the terminals.

use anyhow::Result;

use crate::args::show::{Outbuf, Show, Stderr};
use crate::args::sync::SyncArgs;
use crate::report::escape::Escape;
use crate::report::format::{self, Format};
use crate::report::hint::{Far, NextRun};
use crate::report::numbers::Numbers;
use crate::report::view::{ListLine, Live, Log, Summary, View};
use crate::report::waiting::Deletions;
use crate::words::levels::Info;

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

/// Builds the view for `args` on these terminals.
pub(super) fn view(args: &SyncArgs, terminals: Terminals) -> Result<View> {
    let show = &args.show;
    let info = show.levels()?;
    let info = match show.quiet {
        true => Info { backup: 0, remove: 0, skip: 0, ..info },
        false => info,
    };
    let names = names(show, info);
    let trust = args.follow.others.trust();
    let log = show.log_file.clone().map(|path| Log { path, trust, names: log_names(show) });
    let logged = log.as_ref().and_then(|log| log.names.as_ref());
    let by_line = matches!(show.outbuf, Some(Outbuf::None | Outbuf::Line));
    Ok(View {
        json: show.json,
        applied: args.applied.clone(),
        far: Far::default(),
        next_run: NextRun::Same,
        owners: names.iter().chain(logged).any(Format::tells_owners),
        digests: names.iter().chain(logged).any(Format::tells_digests),
        names,
        deletions: deletions(show, info),
        unchanged: unchanged(show, info),
        info,
        debug: show.debug()?,
        numbers: Numbers::of(show.human_readable, show.no_human_readable),
        escape: if show.eight_bit_output { Escape::Control } else { Escape::Unprintable },
        dry_run: args.dry_run,
        watches: false,
        list: list_line(args, info, terminals),
        summary: summary(show, info, terminals),
        explain: show.explain && !show.quiet,
        live: live(args, info, terminals),
        quiet: show.quiet,
        color: terminals.stdout && !terminals.plain,
        to_stderr: (show.msgs2stderr || show.stderr == Stderr::All) && !show.json,
        by_line,
        in_order: !(by_line || terminals.stdout),
        when_deletions: when_deletions(args),
        log,
    })
}

fn when_deletions(args: &SyncArgs) -> Deletions {
    match () {
        () if args.remove.delete_after || args.remove.delete_delay => Deletions::Last,
        () if args.remove.delete_before => Deletions::First,
        () => Deletions::Along,
    }
}

/// Returns the format of names. As in rsync, `--out-format` names entries at any `--info` level.
fn names(show: &Show, info: Info) -> Option<Format> {
    if show.quiet {
        return None;
    }
    match &show.out_format {
        Some(format) => Some(Format::new(format.as_encoded_bytes())),
        None if show.itemize_changes > 0 => Some(Format::new(format::ITEMIZED)),
        None => (info.name > 0).then(|| Format::new(format::NAMES)),
    }
}

/// Returns the format of deletions. Deletions are shown wherever other names are shown.
fn deletions(show: &Show, info: Info) -> Option<Format> {
    let plain = || (info.del > 0 && !show.quiet).then(|| Format::new(format::NAMES));
    names(show, info).or_else(plain)
}

/// True if unchanged names are shown. As in rsync, a second `-i` shows them if names are itemized.
fn unchanged(show: &Show, info: Info) -> bool {
    let itemizes = show.json || names(show, info).is_some_and(|format| format.itemizes());
    !show.quiet && (info.name > 1 || itemizes && show.itemize_changes > 1)
}

fn log_names(show: &Show) -> Option<Format> {
    match &show.log_file_format {
        Some(format) if format.is_empty() => None,
        Some(format) => Some(Format::new(format.as_encoded_bytes())),
        None => Some(Format::new(format::ITEMIZED)),
    }
}

fn list_line(args: &SyncArgs, info: Info, terminals: Terminals) -> ListLine {
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

fn summary(show: &Show, info: Info, terminals: Terminals) -> Summary {
    match info.stats {
        _ if show.quiet => Summary::Nothing,
        _ if show.stats_one_line => Summary::Line,
        0 if terminals.stdout => Summary::Short,
        0 => Summary::Nothing,
        1 => Summary::Totals,
        _ => Summary::Full,
    }
}

fn live(args: &SyncArgs, info: Info, terminals: Terminals) -> Live {
    let (show, asked, again) = (&args.show, info.progress > 0, info.progress > 1);
    // A dry run transfers no files and shows no progress, as in rsync.
    let nothing_goes = (args.dry_run || args.select.lists(args.operands.len())) && !again;
    match () {
        () if show.no_progress || show.quiet || show.json && !asked => Live::Nothing,
        () if asked && !terminals.stdout && !show.json => match nothing_goes {
            true => Live::Nothing,
            false => Live::Piped { again },
        },
        () => Live::on(terminals.stderr, asked),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{self, Command};

    fn view_on(words: &str, terminals: Terminals) -> View {
        let words = shlex::split(&format!("deltic sync {words}")).unwrap();
        match args::parse(words.into_iter().map(Into::into)).unwrap().command {
            Command::Sync(args) => super::view(&args, terminals).unwrap(),
            _ => unreachable!("the words say sync"),
        }
    }

    fn view(words: &str) -> View {
        view_on(words, Terminals::default())
    }

    #[test]
    fn progress_is_for_terminals_unless_asked_for() {
        let terminals = Terminals { stdout: true, stderr: true, ..Terminals::default() };
        for (words, there, elsewhere) in [
            ("a b", Live::Bar, Live::Nothing),
            ("--progress a b", Live::Bar, Live::Piped { again: false }),
            ("-P a b", Live::Bar, Live::Piped { again: false }),
            ("-Pn a b", Live::Bar, Live::Nothing),
            ("--info=progress2 a b", Live::Bar, Live::Piped { again: true }),
            ("--json --progress a b", Live::Bar, Live::Lines),
            ("--no-progress a b", Live::Nothing, Live::Nothing),
            ("-q --progress a b", Live::Nothing, Live::Nothing),
            ("--json a b", Live::Nothing, Live::Nothing),
        ] {
            assert_eq!(view_on(words, terminals).live, there, "{words}");
            assert_eq!(view(words).live, elsewhere, "{words}");
        }
    }

    #[test]
    fn names_and_summaries_follow_the_words_and_the_terminal() {
        let terminals = Terminals { stdout: true, ..Terminals::default() };
        let format = |text: &[u8]| Some(Format::new(text));
        for (words, names, summary) in [
            ("a b", None, Summary::Nothing),
            ("-v a b", format(b"%n%L"), Summary::Totals),
            ("-vi a b", format(b"%i %n%L"), Summary::Totals),
            ("-i a b", format(b"%i %n%L"), Summary::Nothing),
            ("-v --info=name0 a b", None, Summary::Totals),
            ("-v --out-format=%o a b", format(b"%o"), Summary::Totals),
            ("-i --out-format=%n a b", format(b"%n"), Summary::Nothing),
            ("--progress a b", format(b"%n%L"), Summary::Nothing),
            ("--info=progress2 a b", None, Summary::Nothing),
            ("--stats a b", None, Summary::Full),
            ("--info=stats2 a b", None, Summary::Full),
            ("-qv a b", None, Summary::Nothing),
        ] {
            let view = view(words);
            assert_eq!((view.names, view.summary), (names, summary), "{words}");
        }
        assert_eq!(view_on("a b", terminals).summary, Summary::Short);
        assert_eq!(view_on("-q a b", terminals).summary, Summary::Nothing);
        assert!(view_on("a b", terminals).color);
        assert!(!view_on("a b", Terminals { plain: true, ..terminals }).color);
    }

    #[test]
    fn a_log_itemizes_unless_it_has_a_format_of_its_own() {
        let log = |words| view(words).log.unwrap().names;
        assert_eq!(log("--log-file x a b"), Some(Format::new(b"%i %n%L")));
        assert_eq!(log("--log-file x --log-file-format=%o a b"), Some(Format::new(b"%o")));
        assert_eq!(log("--log-file x --log-file-format= a b"), None);
    }
}
