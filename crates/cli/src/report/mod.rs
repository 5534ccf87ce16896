//! The output of a run, for users and programs: names, events, progress, summaries, errors and the exit code.

pub(crate) mod asides;
pub(crate) mod complaints;
pub(crate) mod escape;
pub(crate) mod events;
pub(crate) mod exit;
pub(crate) mod explain;
pub(crate) mod format;
pub(crate) mod hint;
pub(crate) mod itemize;
mod journal;
mod json;
mod lines;
pub(crate) mod link;
pub(crate) mod listing;
pub(crate) mod meter;
pub(crate) mod numbers;
pub(crate) mod ordered;
pub(crate) mod output;
mod person;
pub(crate) mod progress;
pub(crate) mod question;
pub(crate) mod reporter;
pub(crate) mod status;
pub(crate) mod summary;
pub(crate) mod view;
pub(crate) mod waiting;

use deltic_net::Plan;

use self::json::JsonReporter;
use self::output::Output;
use self::person::PersonReporter;
use self::reporter::Reporter;
use self::view::OutputView;

/// Returns the reporter for `plan` that `view` requires.
pub(crate) fn reporter(plan: &Plan, view: &OutputView, output: Output) -> Box<dyn Reporter> {
    match view.json {
        true => Box::new(JsonReporter::new(plan, view.clone(), output)),
        false => Box::new(PersonReporter::new(plan, view.clone(), output)),
    }
}

#[cfg(test)]
mod tests {
    use super::reporter::{RunEnding, UiEvent, listen};
    use super::*;
    use crate::args::{self, Command};
    use crate::plan::{SyncRequest, Terminals};
    use crate::report::exit::Exit;
    use deltic_net::{Outcome, SyncError};
    use deltic_protocol::report::{
        Action, Change, Differs, EntryType, Facts, Notice, Trouble, TroubleKind,
    };
    use deltic_tree::RelPath;
    use std::io::{self, Write};
    use std::sync::mpsc::sync_channel;
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

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

    /// Returns the standard output of a run with the arguments `words` and the notices `said`.
    fn shown_of(words: &[&str], said: &[Notice], result: Result<Outcome, SyncError>) -> String {
        let words = ["deltic", "sync"].iter().chain(words).map(|word| (*word).into());
        let Command::Sync(args) = args::parse(words).unwrap().command else {
            unreachable!("the words say sync")
        };
        let request = SyncRequest::new(&args, Terminals::default()).unwrap();
        let sink = Sink::default();
        let mut reporter =
            reporter(&request.plan, &request.view, Output::new(Box::new(sink.clone())));
        let (sender, notices) = sync_channel(said.len());
        said.iter().for_each(|notice| sender.send(UiEvent::Notice(notice.clone())).unwrap());
        drop(sender);
        let exit = Exit::of(&result, listen(&notices, &mut *reporter));
        reporter.finish(&RunEnding { result: &result, exit, hint: None }).unwrap();
        String::from_utf8(sink.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn names_come_in_order_and_only_when_asked_for() {
        let said = [created("a"), skipped(), created("b")];
        let done = || Ok(Outcome::default());
        assert_eq!(
            shown_of(&["-i", "x", "y"], &said, done()),
            "a device\n>f+++++++++ a\n>f+++++++++ b\n"
        );
        let lines = shown_of(&["-rv", "x", "y"], &said, done());
        assert!(lines.starts_with(
            "sending incremental file list\na device\na\nb\n\nsent 0 bytes  received"
        ));
        assert_eq!(shown_of(&["x", "y"], &said, done()), "a device\n");
        assert_eq!(shown_of(&["-q", "x", "y"], &said, done()), "");
    }

    #[test]
    fn names_wait_for_those_before_them_up_to_a_bound() {
        let said: Vec<_> = (0..1200)
            .rev()
            .map(|n| created(&format!("{}{n:04}", format!("{}/", "d".repeat(250)).repeat(14))))
            .collect();
        let text = shown_of(&["-i", "x", "y"], &said[700..], Ok(Outcome::default()));
        assert!(text.lines().is_sorted() && text.lines().count() == 500);
        let all = shown_of(&["-i", "x", "y"], &said, Err(SyncError::Interrupted));
        let lines: Vec<_> = all.lines().collect();
        let parts = lines.chunk_by(|one, next| one < next).count();
        assert_eq!((lines.len(), parts), (1200, 3));
        let live = shown_of(&["-i", "--outbuf=L", "x", "y"], &said[1100..], Ok(Outcome::default()));
        assert!(live.lines().rev().is_sorted(), "as they were done");
    }

    #[test]
    fn names_wait_for_others_no_longer_than_a_while() {
        let words = |more: &str| {
            let words = format!("deltic sync -i{more} x y");
            let words: Vec<_> = words.split(' ').map(Into::into).collect();
            match args::parse(words.into_iter()).unwrap().command {
                Command::Sync(args) => SyncRequest::new(&args, Terminals::default()).unwrap(),
                _ => unreachable!("the words say sync"),
            }
        };
        for (more, parts) in [("", ["", "", ">f+++++++++ a\n>f+++++++++ b\n"]), ("n", [""; 3])] {
            let sink = Sink::default();
            let mut reporter = {
                let request = words(more);
                super::reporter(&request.plan, &request.view, Output::new(Box::new(sink.clone())))
            };
            let shown = || String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
            let told = [("b", 0), ("a", 900), ("c", 1000)].map(|(name, millis)| {
                if name != "c" {
                    reporter.report(&created(name));
                }
                reporter.tick(Duration::from_millis(millis));
                shown()
            });
            assert_eq!(told, parts, "{more}");
            reporter.report(&created("0"));
            let result = Ok(Outcome::default());
            let ending = RunEnding { result: &result, exit: Exit::Success, hint: None };
            reporter.finish(&ending).unwrap();
            let names: String = shown().lines().filter_map(|line| line.chars().last()).collect();
            assert_eq!(names, if more.is_empty() { "ab0" } else { "0ab" });
        }
    }

    #[test]
    fn events_begin_with_start_and_end_with_a_summary_or_an_error() {
        let events = |result| {
            let lines = shown_of(
                &["--json", "--stats", "-v", "x", "y"],
                &[created("a"), skipped()],
                result,
            );
            let event = |line| serde_json::from_str::<serde_json::Value>(line).unwrap();
            let name = |line| event(line)["event"].as_str().unwrap().to_owned();
            lines.lines().map(name).filter(|name| name != "progress").collect::<Vec<_>>().join(" ")
        };
        assert_eq!(events(Ok(Outcome::default())), "start change trouble summary");
        assert_eq!(events(Err(SyncError::Interrupted)), "start change trouble error");
    }
}
