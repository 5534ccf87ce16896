//! `--explain`: gives the reason for the way of each file.
//!
//! Both ends decide by the options and the lengths of files alone, so this end can tell which rule applied. The bytes
//! sent show other events: a second attempt that sent the file whole, or an earlier run that had begun a whole file.

use std::collections::BTreeMap;

use deltic_core::chunk::ChunkerSpec;
use deltic_core::{BlockSumSpec, Strategy};
use deltic_net::Plan;
use deltic_net::plan::{Destination, Sources};
use deltic_protocol::limits::WHOLE_BELOW_BYTES;
use deltic_protocol::report::{Action, AgreedSums, Change, EntryType, PeerSums, ReadReason};
use deltic_tree::RelPath;
use indicatif::HumanBytes;

use crate::report::numbers::counted;
use crate::words::place::is_store;

/// The way a file was sent, with the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SendReason {
    New,
    /// Sent whole, except for the parts that an earlier run had written.
    Resumed,
    Short,
    /// `-W`, or both ends are on this machine.
    Whole,
    /// Sent from an object store, except for the ranges that the old version has, as checksums show.
    Ranges,
    /// Sent as changes to its old version, in chunks of this mean length in bytes.
    Chunks(u32),
    /// Sent as changes to a file of another name, in chunks of this mean length in bytes.
    Moved(u32),
    /// Sent as changes to its old version, by another strategy.
    Strategy,
    Attributes,
}

/// Totals of the files with one reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ReasonTotals {
    files: u64,
    bytes: u64,
    literal: u64,
}

/// Explanation of one run.
#[derive(Clone, Debug)]
pub(crate) struct SendExplanation {
    strategy: Strategy,
    whole: bool,
    /// True if a file without an old version lacks only the bytes that an earlier run had written. False in a dry
    /// run, which sends nothing, and with alternates, which have old versions too.
    shows_resumes: bool,
    local: bool,
    /// True if the sources are in an object store.
    store: bool,
    shares: BTreeMap<SendReason, ReasonTotals>,
    /// Reasons of the sender for reading large files, at most [`MAX_REASONS`].
    reasons: Vec<(RelPath, ReadReason)>,
    /// Number of files by the sums that both ends agreed on.
    agreed: BTreeMap<String, u64>,
}

impl SendExplanation {
    /// Creates the explanation of a run by `plan`.
    pub(crate) fn new(plan: &Plan) -> Self {
        let ends = (&plan.sources, &plan.destination);
        Self {
            strategy: plan.options.effective_strategy(),
            whole: plan.options.whole_file,
            shows_resumes: !plan.options.dry_run && plan.options.compare.alternates.dirs.is_empty(),
            local: matches!(ends, (Sources::Local(_), Destination::Local(_))),
            store: matches!(&plan.sources, Sources::Remote { host, .. } if is_store(host)),
            shares: BTreeMap::new(),
            reasons: Vec::new(),
            agreed: BTreeMap::new(),
        }
    }

    /// Counts a change. Returns a line with the explanation, if the change left a file in place.
    pub(crate) fn note(&mut self, change: &Change) -> Option<String> {
        let is_linked = change.facts.linked.is_some();
        let has_none = change.action == Action::Deleted || change.action.is_none();
        if change.item != EntryType::File || has_none || is_linked {
            return None;
        }
        let why = self.why(change);
        let share = self.shares.entry(why).or_default();
        share.files += 1;
        share.bytes = share.bytes.saturating_add(change.facts.len);
        share.literal = share.literal.saturating_add(change.facts.literal);
        let (sent, len) = (HumanBytes(change.facts.literal), HumanBytes(change.facts.len));
        let from = change.facts.from.as_ref().map(|from| format!(" ({from})"));
        let from = from.unwrap_or_default();
        Some(format!("  {}{from}; sent {sent} of {len}", self.words(why)))
    }

    /// Returns the totals as lines.
    pub(crate) fn lines(&self) -> Vec<String> {
        let line = |(why, share): (&SendReason, &ReasonTotals)| {
            let ReasonTotals { files, bytes, literal } = *share;
            let (sent, bytes) = (HumanBytes(literal), HumanBytes(bytes));
            format!("{} {}; sent {sent} of {bytes}", counted(files, "file"), self.words(*why))
        };
        self.shares.iter().map(line).collect()
    }

    /// Notes why the sender reads a large file, if there is room. Another attempt at the file replaces the reason.
    pub(crate) fn note_reason(&mut self, path: &RelPath, reason: &ReadReason) {
        match self.reasons.iter().position(|(of, _)| of == path) {
            Some(at) => self.reasons[at].1 = reason.clone(),
            None if self.reasons.len() < MAX_REASONS => {
                self.reasons.push((path.clone(), reason.clone()));
            }
            None => {}
        }
    }

    /// Returns lines on why the sender read large files.
    pub(crate) fn reasons(&self) -> Vec<String> {
        let words =
            |(path, reason): &(RelPath, ReadReason)| format!("{path}: {}", words_of(reason));
        self.reasons.iter().map(words).collect()
    }

    /// Counts a file by the sums that both ends agreed on.
    pub(crate) fn note_sums(&mut self, sums: &AgreedSums) {
        *self.agreed.entry(agreed_words(sums)).or_default() += 1;
    }

    /// Returns lines on the sums that storage keeps at each end, and on the sums that both ends agreed on.
    pub(crate) fn sums(&self) -> Vec<String> {
        let line = |(words, files): (&String, &u64)| {
            format!("sums of {}: {words}", counted(*files, "file"))
        };
        self.agreed.iter().map(line).collect()
    }

    fn why(&self, change: &Change) -> SendReason {
        let rule = self.rule(change);
        let is_sent_here = matches!(change.action, Action::Created | Action::Updated);
        let was_begun =
            is_sent_here && self.shows_resumes && change.facts.literal < change.facts.len;
        match rule {
            SendReason::Whole if self.store && change.facts.literal < change.facts.len => {
                SendReason::Ranges
            }
            SendReason::New | SendReason::Whole if was_begun => SendReason::Resumed,
            _ => rule,
        }
    }

    /// Returns the way of a file if no run was interrupted.
    fn rule(&self, change: &Change) -> SendReason {
        let len = change.facts.len;
        match (change.action, self.strategy.chunker(len, None)) {
            (Action::Touched, _) => SendReason::Attributes,
            (_, ChunkerSpec::ByContent(_, sizes))
                if change.facts.from.is_some() && self.strategy.name == Strategy::DELTIC.name =>
            {
                SendReason::Moved(sizes.avg())
            }
            (Action::Created | Action::Copied, _) => SendReason::New,
            _ if self.whole => SendReason::Whole,
            _ if len <= WHOLE_BELOW_BYTES => SendReason::Short,
            (_, ChunkerSpec::ByContent(_, sizes))
                if self.strategy.name == Strategy::DELTIC.name =>
            {
                SendReason::Chunks(sizes.avg())
            }
            _ => SendReason::Strategy,
        }
    }

    fn words(&self, why: SendReason) -> String {
        let name = self.strategy.name;
        match why {
            SendReason::New => "whole, as there was no old version".to_owned(),
            SendReason::Resumed => "without repeated or already received data".to_owned(),
            SendReason::Short => {
                format!("whole, as it has at most {}", HumanBytes(WHOLE_BELOW_BYTES))
            }
            SendReason::Whole if self.local => {
                "whole, as both ends are here: copying costs less than comparing".to_owned()
            }
            SendReason::Whole if self.store => {
                "whole, as no checksum of the store matches the old version".to_owned()
            }
            SendReason::Whole => "whole (--whole-file)".to_owned(),
            SendReason::Ranges => {
                "only the parts with other checksums than the old version".to_owned()
            }
            SendReason::Chunks(avg) => format!(
                "as changes to the old version, in chunks of about {}",
                HumanBytes(avg.into())
            ),
            SendReason::Moved(avg) => format!(
                "as changes to a file of another name, in chunks of about {}",
                HumanBytes(avg.into())
            ),
            SendReason::Strategy => format!("as changes to the old version, by strategy '{name}'"),
            SendReason::Attributes => "not sent, as only attributes differed".to_owned(),
        }
    }
}

/// Returns a line about the sums that the storage of each end keeps, and the sums that the ends compare.
fn agreed_words(AgreedSums { here, there, agreed, .. }: &AgreedSums) -> String {
    let sums = |kept: &BlockSumSpec| {
        format!("{} of {}", kept.kind.name(), HumanBytes(kept.block_bytes.into()))
    };
    let kept = |kept: &Option<BlockSumSpec>| kept.as_ref().map_or_else(|| "no sums".into(), sums);
    let there = match there {
        PeerSums::Untold => "the other end does not tell".to_owned(),
        PeerSums::Told(there) => format!("the other end keeps {}", kept(there)),
    };
    let agreed = agreed.as_ref().map_or_else(|| "blocks of the strategy's own length".into(), sums);
    format!("this end keeps {}, {there}; compared by {agreed}", kept(here))
}

/// Most files whose reasons are shown.
const MAX_REASONS: usize = 1000;

fn words_of(reason: &ReadReason) -> String {
    let words = match reason {
        ReadReason::Changed { changed, len } => {
            let (changed, len) = (HumanBytes(*changed), HumanBytes(*len));
            return format!("of {len}, read the {changed} that changed since the last sync");
        }
        ReadReason::Moved { read, len } => {
            let (read, len) = (HumanBytes(*read), HumanBytes(*len));
            return format!("of {len}, read the {read} that are new since the last sync");
        }
        ReadReason::Differs { differ, shifted, len } => {
            let fetched = HumanBytes(differ.saturating_sub(*shifted));
            let len = HumanBytes(*len);
            return match shifted {
                0 => format!("of {len}, read {fetched} with other checksums"),
                _ => {
                    let shifted = HumanBytes(*shifted);
                    format!(
                        "of {len}, read {fetched} with other checksums; the old version has \
                         {shifted} at other offsets"
                    )
                }
            };
        }
        ReadReason::NoFacts(why) => {
            return format!("read, as storage does not tell what changed: {why}");
        }
        ReadReason::MuchChanged(why) => {
            return format!(
                "read, as much of the file changed and data may only have moved: {why}"
            );
        }
        ReadReason::NoBase => {
            "no earlier sync left a version to compare with; --inplace, --no-cache, --no-fsync and --strategy \
             leave none"
        }
        ReadReason::ForgottenBase => "no facts are stored about the version at the destination",
        ReadReason::NewMount => "its file system was mounted anew since the last sync",
    };
    format!("read, as {words}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{self, Command};
    use crate::plan::{SyncRequest, Terminals};
    use deltic_protocol::report::{Differs, Facts};

    fn explain(words: &str) -> SendExplanation {
        let words = shlex::split(&format!("deltic sync {words}")).unwrap();
        match args::parse(words.into_iter().map(Into::into)).unwrap().command {
            Command::Sync(args) => {
                SendExplanation::new(&SyncRequest::new(&args, Terminals::default()).unwrap().plan)
            }
            _ => unreachable!("the words say sync"),
        }
    }

    fn change(item: EntryType, action: Action, len: u64) -> Change {
        let facts = Facts { len, literal: 7, ..Facts::default() };
        let path = RelPath::parse(b"f").unwrap();
        Change { path, item, action, differs: Differs::default(), facts }
    }

    /// A change with all bytes sent.
    fn sent(item: EntryType, action: Action, len: u64) -> Change {
        let change = change(item, action, len);
        Change { facts: Facts { literal: len, ..change.facts }, ..change }
    }

    #[test]
    fn each_file_has_its_reason() {
        use Action::{Created, Deleted, Touched, Updated};
        for (words, action, len, reason) in [
            (
                "a h:b",
                Created,
                1 << 20,
                "without repeated or already received data; sent 7 B of 1.00 MiB",
            ),
            (
                "-n a h:b",
                Created,
                1 << 20,
                "whole, as there was no old version; sent 7 B of 1.00 MiB",
            ),
            ("a h:b", Updated, 2048, "whole, as it has at most 2.00 KiB"),
            ("a h:b", Updated, 1 << 20, "old version, in chunks of about 2.00 KiB"),
            ("a h:b", Updated, 4 << 30, "old version, in chunks of about 8.00 KiB"),
            ("h:a b --strategy rsync", Updated, 1 << 20, "old version, by strategy 'rsync'"),
            ("-W a h:b", Updated, 1 << 20, "without repeated or already received data"),
            ("a b", Touched, 5, "not sent"),
            ("gs://bucket/a b", Updated, 1 << 20, "only the parts with other checksums"),
        ] {
            let line = explain(words).note(&change(EntryType::File, action, len)).unwrap();
            assert!(line.contains(reason), "{words}: {line}");
        }
        for (words, action, reason) in [
            ("a h:b", Created, "whole, as there was no old version; sent 1.00 MiB of 1.00 MiB"),
            ("-W a h:b", Updated, "whole (--whole-file)"),
            ("a b", Updated, "whole, as both ends are here"),
            (
                "gs://bucket/a b",
                Updated,
                "whole, as no checksum of the store matches the old version",
            ),
            ("gs://bucket/a b", Created, "whole, as there was no old version"),
        ] {
            let line = explain(words).note(&sent(EntryType::File, action, 1 << 20)).unwrap();
            assert!(line.contains(reason), "{words}: {line}");
        }
        let mut moved = change(EntryType::File, Created, 1 << 20);
        moved.facts.from = Some(RelPath::parse(b"d/\x1bg").unwrap());
        assert_eq!(
            explain("a h:b").note(&moved).unwrap(),
            "  as changes to a file of another name, in chunks of about 2.00 KiB (d/\\u{1b}g); \
             sent 7 B of 1.00 MiB"
        );
        assert_eq!(explain("a b").note(&change(EntryType::Dir, Created, 0)), None);
        assert_eq!(explain("a b").note(&change(EntryType::File, Deleted, 0)), None);
    }

    #[test]
    fn the_last_reason_of_a_file_is_shown_and_the_number_of_files_has_a_bound() {
        let mut explain = explain("h:a b");
        let path = |n: usize| RelPath::parse(n.to_string().as_bytes()).unwrap();
        (0..MAX_REASONS + 1).for_each(|n| explain.note_reason(&path(n), &ReadReason::NoBase));
        explain.note_reason(&path(0), &ReadReason::Changed { changed: 1, len: 2 });
        let lines = explain.reasons();
        assert_eq!(lines.len(), MAX_REASONS);
        assert_eq!(lines[0], "0: of 2 B, read the 1 B that changed since the last sync");
        assert!(lines[1].starts_with("1: read, as no earlier sync"), "{}", lines[1]);
    }

    #[test]
    fn reasons_are_summed_up() {
        let mut explain = explain("a h:b");
        for len in [10, 20] {
            explain.note(&sent(EntryType::File, Action::Created, len));
        }
        explain.note(&change(EntryType::File, Action::Updated, 1 << 20));
        let lines = explain.lines();
        assert_eq!(lines[0], "2 files whole, as there was no old version; sent 30 B of 30 B");
        assert!(lines[1].starts_with("1 file as changes to") && lines.len() == 2);
    }
}
