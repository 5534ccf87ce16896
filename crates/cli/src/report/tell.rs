//! Tells the user what a run does while it does it: in words, or in events.
//!
//! The library's notices come over a bounded queue to one thread, which owns both streams. So a line never tears the
//! bar, and a terminal that is slow to read slows the run instead of filling memory.

use std::fs::File;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use deltic_net::plan::Sources;
use deltic_net::{NamedFile, Outcome, Plan, SyncError};
use deltic_protocol::options::Options;
use deltic_protocol::report::{
    Action, Change, Differs, EntryType, MadeRoot, Notice, Question, TroubleKind,
};
use deltic_tree::{Meta, RelPath};

use crate::report::asides;
use crate::report::complaints::Complaints;
use crate::report::escape::Escape;
use crate::report::events::Event;
use crate::report::exit::{Exit, Troubles};
use crate::report::explain::Explain;
use crate::report::format::{self, Format, Setting};
use crate::report::held::{Among, Held};
use crate::report::hint;
use crate::report::listing::{List, Style};
use crate::report::ordered::Ordered;
use crate::report::output::{self, Output};
use crate::report::progress::Progress;
use crate::report::question;
use crate::report::summary::{self, Tally};
use crate::report::view::{ListLine, Log, Summary, View};

/// Who tells: words for a person, or events for a program.
pub(crate) trait Teller: Send {
    /// Something happened.
    fn tell(&mut self, notice: &Notice);
    /// The user is to be asked; until there is an answer nothing may be written over the question. Some runs ask nothing.
    fn ask(&mut self, _question: &Question) {}
    /// There is one.
    fn answered(&mut self) {}
    /// So much time has passed since the start; called a few times a second, whatever happens.
    fn tick(&mut self, elapsed: Duration);
    /// The run is over. Gives back what could not be written.
    fn finish(&mut self, result: &Result<Outcome, SyncError>, exit: Exit) -> std::io::Result<()>;
}

/// What a run has to say.
pub(crate) enum Said {
    /// To whoever watches.
    Notice(Notice),
    /// To the user, who answers elsewhere.
    Question(Question),
    /// The user has answered.
    Answered,
    /// Nothing more.
    Over,
}

/// Tells `teller` what comes over `said` until the run is over; what went wrong decides the exit code. It looks now and
/// then: to be woken for each notice would cost more than to tell it. Who says that it is over wakes it.
pub(crate) fn listen(said: &Receiver<Said>, teller: &mut dyn Teller) -> Troubles {
    let start = Instant::now();
    let (mut troubles, mut ticked) = (Troubles::default(), start);
    loop {
        let mut told = 0;
        while told < BATCH {
            match said.try_recv() {
                Ok(Said::Notice(notice)) => {
                    if let Notice::Trouble(trouble) = &notice {
                        troubles.note(trouble.kind);
                    }
                    teller.tell(&notice);
                }
                Ok(Said::Question(question)) => teller.ask(&question),
                Ok(Said::Answered) => teller.answered(),
                Err(TryRecvError::Empty) => break,
                Ok(Said::Over) | Err(TryRecvError::Disconnected) => return troubles,
            }
            told += 1;
        }
        if told > 0 || ticked.elapsed() >= TICK {
            ticked = Instant::now();
            teller.tick(start.elapsed());
        }
        if told < BATCH {
            thread::park_timeout(PAUSE);
        }
    }
}

/// The one who tells of `plan` as `view` asks.
pub(crate) fn teller(plan: &Plan, view: &View, output: Output) -> Box<dyn Teller> {
    match view.json {
        true => Box::new(Events::new(plan, view.clone(), output)),
        false => Box::new(Words::new(plan, view.clone(), output)),
    }
}

/// Longest silence before a tick.
const TICK: Duration = Duration::from_millis(200);
/// Time between two looks, where nothing was found.
const PAUSE: Duration = Duration::from_millis(10);
/// Most bytes of lines that wait to be told in order: tens of thousands of lines.
const MAX_HELD_BYTES: usize = 4 << 20;
/// Most bytes of lines that are written at once where there are millions.
const MAX_WAITING_BYTES: usize = 256 << 10;
/// Longest that they wait in a run that changes something, but for a tick.
const MAX_WAIT: Duration = Duration::from_secs(1);
/// Most notices between two ticks.
const BATCH: usize = 1000;
/// Time between two progress events.
const EVENT_EVERY: Duration = Duration::from_millis(250);

/// Tells a person.
struct Words {
    view: View,
    setting: Setting,
    tally: Tally,
    explain: Option<Explain>,
    progress: Progress,
    listed: List,
    /// What changes, until all is known: it comes in no order, and is compared with other runs.
    held: Held,
    /// The first tick since something is held.
    held_since: Option<Duration>,
    options: Options,
    /// Said before the first change.
    transmission: Option<&'static str>,
    /// Sources that were removed, to be told by name.
    removed: Ordered,
    output: Output,
    /// Lines that wait until the names of the list are counted, where that is said before them.
    counting: Option<Vec<u8>>,
    complaints: Complaints,
    log: Option<Journal>,
}

impl Words {
    fn new(plan: &Plan, view: View, output: Output) -> Self {
        let setting = Setting::of(plan);
        let [streams, built] = match plan.sources {
            Sources::Local(_) => ["sending incremental file list", "building file list"],
            Sources::Remote { .. } => ["receiving incremental file list", "receiving file list"],
        };
        let mut log = view.log.as_ref().and_then(Journal::open);
        if let Some(log) = &mut log {
            log.line(&setting, built);
        }
        let progress = Progress::new(plan, view.live, view.numbers);
        let (tally, explain) = (Tally::default(), view.explain.then(|| Explain::new(plan)));
        let (listed, held) = (List::default(), Held::default());
        let transmission = (view.debug.flist > 0).then(|| asides::transmission(&plan.options));
        let mut words = Self {
            view,
            setting,
            tally,
            explain,
            progress,
            listed,
            held,
            held_since: None,
            options: plan.options.clone(),
            transmission,
            removed: Ordered::default(),
            output,
            counting: None,
            complaints: Complaints::default(),
            log,
        };
        if words.view.debug.nstr > 0 {
            asides::negotiated(&plan.options).for_each(|line| words.say(line));
        }
        match words.view.list {
            ListLine::Nothing => {}
            ListLine::Streams => words.say(streams),
            ListLine::Whole => words.say(format!("{built} ... done")),
            ListLine::Counted => {
                words.output.text(format!("{built} ... \n 0 files...\r"));
                words.counting = Some(Vec::new());
            }
        }
        words
    }

    /// Adds a line to standard output.
    fn say(&mut self, line: impl AsRef<[u8]>) {
        if let Some(waiting) = &mut self.counting {
            waiting.extend_from_slice(line.as_ref());
            waiting.push(b'\n');
            if waiting.len() > MAX_HELD_BYTES {
                self.counted(None);
            }
            return;
        }
        self.output.line(line);
        if self.view.by_line {
            self.flush();
        }
    }

    /// Says how many names the list has, if that is known, and what waited for it.
    fn counted(&mut self, names: Option<u64>) {
        let Some(waiting) = self.counting.take() else { return };
        self.output.line(match names {
            None => String::new(),
            Some(1) => "1 file to consider".to_owned(),
            Some(names) => format!("{names} files to consider"),
        });
        self.output.text(waiting);
    }

    /// Says what `line` does of a change in its turn, or at once to whoever watches. What was changed and is too much to be
    /// held, or has been for a while, is told a part at a time.
    fn say_of(&mut self, change: &Change, among: Among, line: Vec<u8>) {
        if !(self.view.dry_run || self.view.in_order) {
            return self.say(line);
        }
        if self.held.push(change, (among, self.view.when_deletions), &line).is_err() {
            self.say_held();
            return self.say(line);
        }
        if self.held.bytes() > MAX_HELD_BYTES && !self.view.dry_run {
            self.say_held();
        }
    }

    /// Says what was held back, in rsync's order of names.
    fn say_held(&mut self) {
        self.held_since = None;
        self.counted(None);
        let Self { held, progress, output, view, .. } = self;
        held.say(view.when_deletions, |line| say_one(line, output, progress));
    }

    /// Notes what is listed. What is too much to be kept is told a part at a time.
    fn list(&mut self, path: &RelPath, meta: &Meta) {
        if !self.view.quiet && self.listed.add(path, meta).is_err() {
            self.say_listed();
            // One alone has room.
            let _ = self.listed.add(path, meta);
        }
    }

    fn say_listed(&mut self) {
        let Self { listed, setting, progress, output, view, options, .. } = self;
        let (escape, numbers, zone) = (view.escape, view.numbers, setting.zone());
        let (links, accessed) = (options.links, options.metadata.accessed);
        let style = Style { links, accessed, escape, numbers, zone };
        listed.say(style, |line| say_one(line, output, progress));
    }

    /// Says what has been held for long enough: others follow the run as it goes on. A dry run is told whole.
    fn say_old(&mut self, now: Duration) {
        if self.view.dry_run || self.held.is_empty() || self.counting.is_some() {
            return;
        }
        if now >= *self.held_since.get_or_insert(now) + MAX_WAIT {
            self.say_held();
        }
    }

    fn say_transmission(&mut self) {
        if let Some(words) = self.transmission.take() {
            self.say(words);
            self.log_aside(|_| words.into());
        }
    }

    fn change(&mut self, change: &Change) {
        self.say_transmission();
        match change.action {
            Action::PassedOver(why) if self.view.info.skip > 0 => {
                return self.aside(change, |escape| asides::passed_over(change, why, escape));
            }
            Action::Unchanged if self.view.unchanged => return self.unchanged(change),
            Action::PassedOver(_) | Action::Unchanged => return,
            _ => {}
        }
        self.tally.note(change);
        if self.view.debug.fuzzy > 0
            && let Some(line) = asides::fuzzy(change, self.view.escape)
        {
            self.say_of(change, Among::Asides, line);
        }
        let follows_name = asides::is_replaced(change);
        if !follows_name {
            self.backed_up(change);
        }
        match is_up_to_date(change, &self.setting) {
            true if self.view.unchanged => self.unchanged(change),
            true => {}
            false => self.name(change),
        }
        if follows_name {
            self.backed_up(change);
        }
        if let Some(line) = self.explain.as_mut().and_then(|explain| explain.note(change))
            && self.view.info.name > 0
        {
            self.say_of(change, Among::Names, line.into_bytes());
        }
    }

    fn name(&mut self, change: &Change) {
        let format = match change.action {
            Action::Deleted => self.view.deletions.as_ref(),
            _ => self.view.names.as_ref().filter(|_| is_told(change, &self.view)),
        };
        if let Some(format) = format {
            let line = line(format, change, (&self.setting, &self.view), self.view.escape);
            self.say_of(change, Among::Names, line);
        }
        if let Some(log) = self.log.as_mut().filter(|_| !self.view.dry_run) {
            log.change(change, &self.setting, &self.view);
        }
    }

    fn made_root(&mut self, made: MadeRoot) {
        let itemizes = self.view.names.as_ref().is_some_and(Format::itemizes);
        if self.view.quiet || self.view.info.name == 0 && !itemizes {
            return;
        }
        for line in self.setting.made_root(made, self.view.dry_run) {
            self.say(self.view.escape.escaped(&line));
            if let Some(log) = &mut self.log {
                log.line(&self.setting, Escape::Log.escaped(&line));
            }
        }
    }

    /// What is up to date is itemized, or else said in words; of directories only that an alternate has them.
    fn unchanged(&mut self, change: &Change) {
        let is_itemized = self.view.names.as_ref().is_some_and(Format::itemizes);
        if !is_itemized && change.item == EntryType::Dir && change.action == Action::Unchanged {
            return;
        }
        let Some(format) = self.view.names.as_ref().filter(|_| is_itemized) else {
            return self.aside(change, |escape| format::up_to_date(change, escape));
        };
        let line = format.line(change, &self.setting, self.view.escape);
        self.say_of(change, Among::Names, line);
        let log = self.log.as_mut().filter(|_| !self.view.dry_run);
        if let Some(log) = log.filter(|log| log.names.as_ref().is_some_and(Format::itemizes)) {
            log.change(change, &self.setting, &self.view);
        }
    }

    /// Says and logs what is no change.
    fn aside(&mut self, change: &Change, line: impl Fn(Escape) -> Vec<u8>) {
        self.say_of(change, Among::Asides, line(self.view.escape));
        self.log_aside(line);
    }

    fn log_aside(&mut self, line: impl Fn(Escape) -> Vec<u8>) {
        if let Some(log) = self.log.as_mut().filter(|_| !self.view.dry_run) {
            log.line(&self.setting, line(Escape::Log));
        }
    }

    fn backed_up(&mut self, change: &Change) {
        if self.view.info.backup == 0 {
            return;
        }
        let line = |escape| asides::backed_up(change, &self.options, escape);
        let Some((said, logged)) = line(self.view.escape).zip(line(Escape::Log)) else { return };
        let among = if asides::is_replaced(change) { Among::Names } else { Among::Asides };
        self.say_of(change, among, said);
        self.log_aside(|_| logged.clone());
    }

    fn source_removed(&mut self, path: &RelPath) {
        if self.view.info.remove > 0 && self.removed.push(path, EntryType::File, b"").is_err() {
            self.say_removed();
            // One alone has room.
            let _ = self.removed.push(path, EntryType::File, b"");
        }
    }

    /// Says which sources went.
    fn say_removed(&mut self) {
        let Self { log, setting, progress, output, view, .. } = self;
        std::mem::take(&mut self.removed).by_name(|path, _| {
            say_one(&asides::removed(path, view.escape), output, progress);
            if let Some(log) = log {
                log.line(setting, asides::removed(path, Escape::Log));
            }
        });
    }

    /// Shows the names that wait, with the bar out of their way.
    fn flush(&mut self) {
        if self.output.waiting_bytes() > 0 {
            self.progress.aside(|| self.output.flush());
        }
    }
}

/// Says one of what may be millions of lines.
fn say_one(line: &[u8], output: &mut Output, progress: &mut Progress) {
    output.line(line);
    if output.waiting_bytes() > MAX_WAITING_BYTES {
        progress.aside(|| output.flush());
    }
}

/// Whether nothing of it was changed, or nothing of what an alternate has.
fn is_up_to_date(change: &Change, setting: &Setting) -> bool {
    let is_same = change.differs == Differs::default() && !setting.retimes(change);
    change.action == Action::Unchanged || change.action == Action::Copied && is_same
}

/// Whether rsync would name the change, in a log too. What changes in its attributes alone is named where standard output
/// itemizes, or at the second level; a directory always is.
fn is_told(change: &Change, view: &View) -> bool {
    let itemizes = || view.names.as_ref().is_some_and(Format::itemizes);
    change.action != Action::Touched
        || change.item == EntryType::Dir
        || itemizes()
        || view.info.name > 1
}

/// The line for a change that is told. What changed in its attributes alone has only its name, unless standard output
/// itemizes it.
fn line(
    format: &Format,
    change: &Change,
    (setting, view): (&Setting, &View),
    escape: Escape,
) -> Vec<u8> {
    let itemizes = view.names.as_ref().is_some_and(Format::itemizes);
    match (change.action, change.item) {
        (Action::Touched, item) if item != EntryType::Dir && !itemizes => {
            format::plain(change, escape)
        }
        _ => format.line(change, setting, escape),
    }
}

impl Teller for Words {
    fn tell(&mut self, notice: &Notice) {
        self.progress.note(notice);
        match notice {
            Notice::MadeRoot(made) => self.made_root(*made),
            Notice::Changed(change) => self.change(change),
            Notice::Removed(path) => self.source_removed(path),
            Notice::Trouble(trouble)
                if matches!(trouble.kind, TroubleKind::Skipped | TroubleKind::UnsafeLink) =>
            {
                if !is_heard(trouble.kind, &self.view) {
                    return;
                }
                self.say(&trouble.message);
                if let Some(log) = &mut self.log {
                    log.line(&self.setting, &trouble.message);
                }
            }
            Notice::Trouble(trouble) => {
                self.flush();
                if is_heard(trouble.kind, &self.view) {
                    self.progress.aside(|| self.complaints.tell(trouble, &self.view));
                }
                if let Some(log) = &mut self.log {
                    let message = self.view.far.message(trouble);
                    log.line(&self.setting, output::complaint(&message));
                }
            }
            Notice::Entry { path, meta } => self.list(path, meta),
            Notice::Listed { names, complete: true, .. } => self.counted(Some(*names)),
            Notice::Listed { .. }
            | Notice::Settled { .. }
            | Notice::Wire { .. }
            | Notice::Closing
            | Notice::Finished(_) => {}
        }
    }

    fn ask(&mut self, question: &Question) {
        self.flush();
        self.progress.pause();
        output::note(&question::text(question));
    }

    fn answered(&mut self) {
        self.progress.go_on();
    }

    fn tick(&mut self, elapsed: Duration) {
        self.say_old(elapsed);
        self.flush();
        // It would stand in the line of the count.
        if self.counting.is_none() {
            self.progress.show(elapsed);
        }
        if let Some(log) = &mut self.log {
            log.output.flush();
        }
    }

    fn finish(&mut self, result: &Result<Outcome, SyncError>, exit: Exit) -> std::io::Result<()> {
        self.progress.clear();
        if result.is_ok() {
            self.say_transmission();
        }
        self.say_held();
        self.say_removed();
        self.flush();
        self.progress.end(result.as_ref().ok());
        self.complaints.finish();
        match result {
            Ok(outcome) => {
                self.say_listed();
                if self.view.debug.deltasum > 0 {
                    let matched = if self.view.dry_run { 0 } else { self.tally.matched() };
                    let line = asides::matches(matched, &outcome.totals);
                    self.output.line(&line);
                    self.log_aside(|_| line.clone().into());
                }
                if let Some(explain) = self.explain.as_ref().filter(|_| self.view.info.name == 0) {
                    explain.lines().iter().for_each(|line| self.output.line(line));
                }
                let lines = summary::lines(&self.view, outcome, &self.tally, exit);
                lines.iter().for_each(|line| self.output.line(line));
                if let Some(log) = &mut self.log {
                    log.end(lines, outcome, (&self.setting, &self.view));
                    log.ending(&self.setting, exit);
                }
                self.output.finish()
            }
            Err(error) => {
                if self.view.summary == Summary::Line {
                    self.output.line(format!("exit_code={}", exit.code()));
                }
                let written = self.output.finish();
                let hint = hint::of(error, &self.view.far, self.view.help);
                output::complain(&error.to_string(), hint.as_deref());
                if let Some(log) = &mut self.log {
                    log.line(&self.setting, output::complaint(&error.to_string()));
                    log.ending(&self.setting, exit);
                }
                written
            }
        }
    }
}

/// `--log-file`: what happens, each line with its time and our process.
struct Journal {
    names: Option<Format>,
    output: Output,
}

impl Journal {
    /// Opens the log; without one the run goes on, as rsync's does.
    fn open(log: &Log) -> Option<Self> {
        match NamedFile::find(&log.path, log.trust).and_then(|file| file.append()) {
            Ok(file) => {
                let output = Output::new(Box::new(File::from(file)));
                Some(Self { names: log.names.clone(), output })
            }
            Err(error) => {
                output::complain(&format::unopened(&log.path, &error), Some("nothing is logged"));
                None
            }
        }
    }

    fn line(&mut self, setting: &Setting, text: impl AsRef<[u8]>) {
        let head = format!("{} [{}] ", setting.time(format::now()), std::process::id());
        self.output.line([head.as_bytes(), text.as_ref()].concat());
    }

    fn change(&mut self, change: &Change, setting: &Setting, view: &View) {
        let Some(format) = &self.names else { return };
        if is_told(change, view) {
            let line = line(format, change, (setting, view), Escape::Log);
            self.line(setting, line);
        }
    }

    /// The summary as it was told, or else a line of its own.
    fn end(&mut self, lines: Vec<String>, outcome: &Outcome, (setting, view): (&Setting, &View)) {
        let lines = match view.summary {
            Summary::Totals | Summary::Full | Summary::Line => lines,
            Summary::Nothing | Summary::Short => vec![summary::logged(outcome)],
        };
        for line in lines.iter().filter(|line| !line.is_empty()) {
            self.line(setting, line);
        }
    }

    /// Scripts look for it.
    fn ending(&mut self, setting: &Setting, exit: Exit) {
        if exit != Exit::Success {
            self.line(setting, output::ending(exit));
        }
        self.output.flush();
    }
}

/// Tells a program; troubles and errors go to standard error as well, where logs look for them.
struct Events {
    view: View,
    dry_run: bool,
    progress: Progress,
    last: Duration,
    complaints: Complaints,
    output: Output,
}

impl Events {
    fn new(plan: &Plan, view: View, mut output: Output) -> Self {
        output.line(Event::start(plan).line());
        Self {
            progress: Progress::new(plan, view.live, view.numbers),
            view,
            dry_run: plan.options.dry_run,
            last: Duration::ZERO,
            complaints: Complaints::default(),
            output,
        }
    }
}

impl Teller for Events {
    fn tell(&mut self, notice: &Notice) {
        self.progress.note(notice);
        match notice {
            Notice::Changed(change) => {
                let is_told = match change.action {
                    Action::Unchanged => self.view.unchanged,
                    Action::PassedOver(_) => self.view.info.skip > 0,
                    _ => true,
                };
                if is_told {
                    self.output.line(Event::change(change).line());
                }
            }
            Notice::Trouble(trouble) => {
                self.output.line(Event::trouble(trouble).line());
                if is_heard(trouble.kind, &self.view) {
                    self.progress.aside(|| self.complaints.tell(trouble, &self.view));
                }
            }
            Notice::Entry { path, meta } => self.output.line(Event::entry(path, meta).line()),
            Notice::Listed { .. }
            | Notice::Settled { .. }
            | Notice::Wire { .. }
            | Notice::Closing
            | Notice::MadeRoot(_)
            | Notice::Removed(_)
            | Notice::Finished(_) => {}
        }
    }

    fn ask(&mut self, question: &Question) {
        self.output.flush();
        self.progress.pause();
        output::note(&question::text(question));
    }

    fn answered(&mut self) {
        self.progress.go_on();
    }

    fn tick(&mut self, elapsed: Duration) {
        self.progress.show(elapsed);
        if elapsed >= self.last + EVENT_EVERY {
            self.last = elapsed;
            self.output.line(Event::progress(self.progress.meter(), elapsed).line());
        }
        self.progress.aside(|| self.output.flush());
    }

    fn finish(&mut self, result: &Result<Outcome, SyncError>, exit: Exit) -> std::io::Result<()> {
        self.progress.clear();
        self.complaints.finish();
        match result {
            Ok(outcome) => self.output.line(Event::summary(outcome, self.dry_run, exit).line()),
            Err(error) => {
                let hint = hint::of(error, &self.view.far, self.view.help);
                output::complain(&error.to_string(), hint.as_deref());
                self.output.line(Event::error(error, hint).line());
            }
        }
        self.output.finish()
    }
}

/// Whether troubles of this kind are told on our streams.
fn is_heard(kind: TroubleKind, view: &View) -> bool {
    match kind {
        TroubleKind::Skipped => !view.quiet && view.info.nonreg > 0,
        TroubleKind::UnsafeLink => !view.quiet && view.info.name > 0,
        TroubleKind::Warned => !view.quiet,
        TroubleKind::Vanished | TroubleKind::Failed | TroubleKind::DeleteLimit => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{self, Command};
    use crate::plan::{Request, Terminals};
    use deltic_protocol::report::{Facts, Trouble};
    use std::io::{self, Write};
    use std::sync::mpsc::sync_channel;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn created(name: &str) -> Notice {
        let path = RelPath::parse(name.as_bytes()).unwrap();
        let (item, action) = (EntryType::File, Action::Created);
        let (differs, facts) = (Differs::default(), Facts::default());
        Notice::Changed(Change { path, item, action, differs, facts })
    }

    fn skipped() -> Notice {
        Notice::Trouble(Trouble::new(TroubleKind::Skipped, "a device"))
    }

    /// Standard output of a run that was asked for in `words` and said `said`.
    fn told(words: &[&str], said: &[Notice], result: Result<Outcome, SyncError>) -> String {
        let words = ["deltic", "sync"].iter().chain(words).map(|word| (*word).into());
        let Command::Sync(args) = args::parse(words).unwrap().command else {
            unreachable!("the words say sync")
        };
        let request = Request::new(&args, Terminals::default()).unwrap();
        let sink = Sink::default();
        let mut teller = teller(&request.plan, &request.view, Output::new(Box::new(sink.clone())));
        let (sender, notices) = sync_channel(said.len());
        said.iter().for_each(|notice| sender.send(Said::Notice(notice.clone())).unwrap());
        drop(sender);
        let exit = Exit::of(&result, listen(&notices, &mut *teller));
        teller.finish(&result, exit).unwrap();
        String::from_utf8(sink.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn names_come_in_order_and_only_when_asked_for() {
        let said = [created("a"), skipped(), created("b")];
        let done = || Ok(Outcome::default());
        assert_eq!(
            told(&["-i", "x", "y"], &said, done()),
            "a device\n>f+++++++++ a\n>f+++++++++ b\n"
        );
        let lines = told(&["-rv", "x", "y"], &said, done());
        assert!(lines.starts_with(
            "sending incremental file list\na device\na\nb\n\nsent 0 bytes  received"
        ));
        assert_eq!(told(&["x", "y"], &said, done()), "a device\n");
        assert_eq!(told(&["-q", "x", "y"], &said, done()), "");
    }

    #[test]
    fn names_wait_for_those_before_them_up_to_a_bound() {
        let said: Vec<_> = (0..1200)
            .rev()
            .map(|n| created(&format!("{}{n:04}", format!("{}/", "d".repeat(250)).repeat(14))))
            .collect();
        let text = told(&["-i", "x", "y"], &said[700..], Ok(Outcome::default()));
        assert!(text.lines().is_sorted() && text.lines().count() == 500);
        let all = told(&["-i", "x", "y"], &said, Err(SyncError::Interrupted));
        let lines: Vec<_> = all.lines().collect();
        let parts = lines.chunk_by(|one, next| one < next).count();
        assert_eq!((lines.len(), parts), (1200, 3));
        let live = told(&["-i", "--outbuf=L", "x", "y"], &said[1100..], Ok(Outcome::default()));
        assert!(live.lines().rev().is_sorted(), "as they were done");
    }

    #[test]
    fn names_wait_for_others_no_longer_than_a_while() {
        let words = |more: &str| {
            let words = format!("deltic sync -i{more} x y");
            let words: Vec<_> = words.split(' ').map(Into::into).collect();
            match args::parse(words.into_iter()).unwrap().command {
                Command::Sync(args) => Request::new(&args, Terminals::default()).unwrap(),
                _ => unreachable!("the words say sync"),
            }
        };
        for (more, parts) in [("", ["", "", ">f+++++++++ a\n>f+++++++++ b\n"]), ("n", [""; 3])] {
            let sink = Sink::default();
            let mut teller = {
                let request = words(more);
                super::teller(&request.plan, &request.view, Output::new(Box::new(sink.clone())))
            };
            let shown = || String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
            let told = [("b", 0), ("a", 900), ("c", 1000)].map(|(name, millis)| {
                if name != "c" {
                    teller.tell(&created(name));
                }
                teller.tick(Duration::from_millis(millis));
                shown()
            });
            assert_eq!(told, parts, "{more}");
            teller.tell(&created("0"));
            teller.finish(&Ok(Outcome::default()), Exit::Success).unwrap();
            let names: String = shown().lines().filter_map(|line| line.chars().last()).collect();
            assert_eq!(names, if more.is_empty() { "ab0" } else { "0ab" });
        }
    }

    #[test]
    fn events_begin_with_start_and_end_with_a_summary_or_an_error() {
        let events = |result| {
            let lines =
                told(&["--json", "--stats", "-v", "x", "y"], &[created("a"), skipped()], result);
            let event = |line| serde_json::from_str::<serde_json::Value>(line).unwrap();
            let name = |line| event(line)["event"].as_str().unwrap().to_owned();
            lines.lines().map(name).filter(|name| name != "progress").collect::<Vec<_>>().join(" ")
        };
        assert_eq!(events(Ok(Outcome::default())), "start change trouble summary");
        assert_eq!(events(Err(SyncError::Interrupted)), "start change trouble error");
    }
}
