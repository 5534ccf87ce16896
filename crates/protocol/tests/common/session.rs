//! Two machines, two pairs of hands, and a wire between them; a dice says who goes on.

use std::collections::{BTreeSet, VecDeque};

use deltic_protocol::frame::{HEADER_BYTES, Header};
use std::sync::Arc;

use deltic_core::{BlockSumSpec, SumKind};
use deltic_protocol::hello::ShortForms;
use deltic_protocol::limits::Limits;
use deltic_protocol::message::{Payload, Sparse};
use deltic_protocol::options::Options;
use deltic_protocol::receiver::{self, Expect, Receiver, Setting};
use deltic_protocol::report::{Change, Notice, Side, Totals, Trouble};
use deltic_protocol::sender::{self, Sender};
use deltic_protocol::streams::Aside;
use deltic_protocol::{PeerError, ToReceiver, ToSender, WorkId};
use deltic_tree::RelPath;

use super::Dice;
use super::case::Case;
use super::destination::Destination;
use super::source::{Source, bytes_digest};
use super::tree::{NOW, Node};

pub struct Session {
    pub sender: Sender,
    pub receiver: Receiver,
    pub source: Source,
    pub destination: Destination,
    pub told_by_sender: Told,
    pub told_by_receiver: Told,
    /// Bytes of all frames, of either end.
    pub bytes: u64,
    /// Bytes of the frames that the receiver sent.
    pub answered: u64,
    /// The longest payload of a frame.
    pub longest: usize,
    /// Numbers of the frames that the sender said.
    pub said: BTreeSet<u8>,
    /// Frames on the way, encoded.
    pub to_receiver: VecDeque<Vec<u8>>,
    /// The same on further streams, each of which is as slow as the dice will have it.
    asides: Vec<VecDeque<Vec<u8>>>,
    /// True if they carry next to nothing while anything else can be done.
    slow: bool,
    far_away: bool,
    takes_offers: bool,
    agree_on_sums: bool,
    asks_reasons: bool,
    short_forms: ShortForms,
    limits: Limits,
    /// The sender has heard the receiver.
    greeted: bool,
    /// Literal bytes that the sender sent and has no credit for.
    uncredited: u64,
    /// Frames that gave credit.
    pub credits: usize,
    /// The sums that signatures were made of, and how many these were.
    pub signed: Vec<Option<BlockSumSpec>>,
    pub old_sums: u64,
    pub to_sender: VecDeque<Vec<u8>>,
    sending: Vec<(WorkId, sender::SenderWork)>,
    receiving: Vec<(WorkId, receiver::ReceiverWork)>,
    pub dice: Dice,
    pub steps: usize,
}

/// What one machine told its user, and the laws of telling.
#[derive(Debug, Default)]
pub struct Told {
    pub listed: u64,
    pub settled: u64,
    pub changes: Vec<Change>,
    pub troubles: Vec<String>,
    /// Files that were opened, with the reason of each read.
    pub reasons: Vec<RelPath>,
    pub totals: Option<Totals>,
    closing: bool,
}

impl Told {
    fn take(&mut self, notice: Notice) {
        assert!(self.totals.is_none(), "nothing is told after the end: {notice:?}");
        match notice {
            Notice::Listed { bytes, .. } => self.listed = bytes,
            Notice::Settled { bytes } => {
                self.settled += bytes;
                assert!(self.settled <= self.listed, "{} of {}", self.settled, self.listed);
            }
            Notice::MadeRoot(_) | Notice::Agreed(_) | Notice::Removed(_) | Notice::Wire { .. } => {}
            Notice::ReadReason { path, .. } => self.reasons.push(path),
            Notice::Closing => {
                assert!(!std::mem::replace(&mut self.closing, true), "a run closes once");
            }
            Notice::Changed(change) => self.changes.push(change),
            Notice::Trouble(trouble) => self.troubles.push(format!("{trouble:?}")),
            Notice::Entry { .. } => unreachable!("no case only lists"),
            Notice::Finished(totals) => self.totals = Some(totals),
        }
    }
}

impl Session {
    pub fn new(case: &Case, dice: &mut Dice) -> Self {
        let own = Node::other(deltic_tree::Kind::Dir, NOW, 0o755).meta;
        let own = Some(own).filter(|_| case.roots.is_none());
        let mut source = Source::new(case.new.clone(), own, Dice::new(dice.next()));
        source.roots.clone_from(&case.roots);
        source.faults = case.source_faults;
        source.limits = case.limits;
        let known = case.old.0.values().filter(|_| case.seed % 4 != 1);
        source.bases = known
            .map(|node| (*bytes_digest(&node.bytes).as_bytes(), Arc::clone(&node.bytes)))
            .collect();
        source.knows = case.seed.is_multiple_of(5);
        source.tells_holes = case.options.writing.sparse;
        source.keeps = kept_by_luck(case.seed);
        source.compared = case.options.tallied_attributes().unwrap_or_default();
        let streams = dice.below(4);
        let options = Options { streams: 1 + streams as u32, ..case.options.clone() };
        let mut destination =
            Destination::new(case.old.clone(), options.clone(), Dice::new(dice.next()));
        destination.leftovers.clone_from(&case.leftovers);
        destination.interrupted.clone_from(&case.interrupted);
        destination.faults = case.destination_faults;
        destination.keeps = kept_by_luck(case.seed / 7);
        let setting = Setting {
            options: options.clone(),
            expect: case
                .roots
                .clone()
                .map(|names| Expect { names: names.into_iter().collect(), ..Expect::default() }),
            takes_offers: case.takes_offers,
            tells_bases: true,
            takes_holes: case.options.writing.sparse,
            agrees_on_sums: agree_on_sums(case),
            asks_reasons: asks_reasons(case),
            proposes_candidates: case.seed.is_multiple_of(2),
            sums_old: false,
            limits: case.limits,
            tells_resumed: true,
            tells_passed_over: true,
            joins_answers: short_forms(case).answers,
            ..Setting::default()
        };
        let sender = Sender::new(options);
        Self {
            sender: if case.eager { sender.tally_all_dirs() } else { sender },
            receiver: Receiver::new(setting),
            source,
            destination,
            told_by_sender: Told::default(),
            told_by_receiver: Told::default(),
            bytes: 0,
            answered: 0,
            longest: 0,
            said: BTreeSet::new(),
            to_receiver: VecDeque::new(),
            asides: vec![VecDeque::new(); streams],
            slow: dice.percent(50),
            far_away: case.far_away,
            takes_offers: case.takes_offers,
            agree_on_sums: agree_on_sums(case),
            asks_reasons: asks_reasons(case),
            short_forms: short_forms(case),
            limits: case.limits,
            greeted: false,
            uncredited: 0,
            credits: 0,
            signed: Vec::new(),
            old_sums: 0,
            to_sender: VecDeque::new(),
            sending: Vec::new(),
            receiving: Vec::new(),
            dice: Dice::new(dice.next()),
            steps: 0,
        }
    }

    /// Runs to the end.
    pub fn finish(&mut self) -> Totals {
        while self.step() {}
        assert!(self.asides.iter().all(VecDeque::is_empty), "a stream was not emptied");
        assert!(self.receiver.is_finished(), "stuck: the receiver waits");
        assert!(self.sender.is_finished(), "stuck: the sender waits");
        assert!(self.source.is_idle(), "the sender left files open");
        assert!(self.destination.is_idle(), "the receiver left versions open");
        assert_eq!(self.receiver.backlog_bytes(), 0);
        // No credit leaks away: a leak would stop a long session in its midst.
        let (sender, receiver) = (format!("{:?}", self.sender), format!("{:?}", self.receiver));
        assert!(sender.contains("groups_out: 0, gaps_out: 0,"), "{sender}");
        assert!(receiver.contains("groups_out: 0, groups_held: 0, gaps_out: 0,"), "{receiver}");
        let totals = self.told_by_receiver.totals.expect("the receiver said so");
        assert_eq!(self.told_by_sender.totals, Some(totals));
        totals
    }

    /// Does one thing that can be done, if there is any.
    pub fn step(&mut self) -> bool {
        self.steps += 1;
        assert!(self.steps < 2_000_000, "the session goes on and on");
        self.source.change();
        if self.far_away && self.dice.percent(20) {
            self.sender.note_slow_answer();
        }
        self.pump();
        let can = [
            !self.to_receiver.is_empty(),
            !self.to_sender.is_empty(),
            !self.sending.is_empty(),
            !self.receiving.is_empty(),
            self.asides.iter().any(|stream| !stream.is_empty()),
        ];
        let aside: Vec<usize> =
            (0..self.asides.len()).filter(|n| !self.asides[*n].is_empty()).collect();
        let others = can[..4].contains(&true);
        let waits = self.slow && others && !self.dice.percent(15);
        let can: Vec<usize> = (0..5).filter(|n| can[*n] && !(*n == 4 && waits)).collect();
        if can.is_empty() {
            return false;
        }
        match self.dice.pick(&can) {
            0 => {
                let frame = read(&self.to_receiver.pop_front().unwrap(), ToReceiver::decode);
                let handled = self.receiver.handle(frame.clone());
                handled.unwrap_or_else(|error| refused("receiver", &error, &frame));
            }
            1 => {
                let frame = read(&self.to_sender.pop_front().unwrap(), ToSender::decode);
                // What the receiver says comes behind the greeting.
                if !std::mem::replace(&mut self.greeted, true) {
                    if self.agree_on_sums {
                        self.sender.negotiate_stored_sums();
                    }
                    if self.asks_reasons {
                        self.sender.tell_reasons();
                    }
                    self.sender.use_short_forms(self.short_forms);
                    self.sender.set_terms(self.takes_offers, self.limits);
                }
                if let ToSender::Credit { bytes, .. } = frame {
                    self.uncredited -= bytes;
                    self.credits += 1;
                }
                match &frame {
                    ToSender::Signs { by, .. } => self.signed.push(*by),
                    ToSender::Sums { sums, .. } => self.old_sums += sums.len() as u64,
                    _ => {}
                }
                let handled = self.sender.handle(frame.clone());
                handled.unwrap_or_else(|error| refused("sender", &error, &frame));
            }
            2 => {
                let (id, work) = self.sending.swap_remove(self.dice.below(self.sending.len()));
                let answer = self.source.perform(work);
                self.sender.answer(id, answer).unwrap();
            }
            4 => {
                let stream = *self.dice.pick(&aside);
                let bytes = self.asides[stream].pop_front().unwrap();
                let aside = read(&bytes, Aside::decode).expect("it is one");
                let handled = self.receiver.handle_aside(aside.clone());
                handled.unwrap_or_else(|error| refused("receiver", &error, &aside));
            }
            _ => {
                let (id, work) = self.receiving.swap_remove(self.dice.below(self.receiving.len()));
                let answer = self.destination.perform(work);
                self.receiver.answer(id, answer).unwrap();
            }
        }
        true
    }

    /// Checks the length of a frame.
    fn fits(&mut self, frame: &[u8], limits: Limits) {
        let payload = frame.len() - HEADER_BYTES;
        assert!(limits.check_frame(payload).is_ok(), "a frame {} of {payload} bytes", frame[0]);
        self.longest = self.longest.max(payload);
    }

    /// Takes what the machines have to give; work now and then later than it could be.
    fn pump(&mut self) {
        let lazy = self.dice.percent(50);
        if !lazy || self.sending.is_empty() {
            self.sending.extend(std::iter::from_fn(|| self.sender.poll_work()));
        }
        if !lazy || self.receiving.is_empty() {
            self.receiving.extend(self.receiver.poll_work());
        }
        while let Some((mut frame, attempt)) = self.sender.poll_for_streams() {
            frame
                .troubles_mut()
                .iter_mut()
                .for_each(|trouble| trouble.locate(Side::Sender, |_| None));
            let literal = literal_bytes(&frame);
            if let Some(window) = self.limits.credit.filter(|_| literal > 0) {
                let fits = self.uncredited == 0 || self.uncredited + literal <= window;
                assert!(fits, "{literal} bytes behind {} of {window}", self.uncredited);
                self.uncredited += literal;
            }
            let bytes = written(&frame, frame.encode(), ToReceiver::decode);
            let limits = if self.greeted { self.limits } else { Limits::UNHEARD };
            self.fits(&bytes, limits);
            self.said.insert(bytes[0]);
            self.bytes += bytes.len() as u64;
            let aside = attempt.map(|attempt| Aside { attempt, frame });
            match aside.filter(|_| !self.asides.is_empty() && self.dice.percent(80)) {
                Some(aside) => {
                    let bytes = aside.encode().expect("it is short enough");
                    self.fits(&bytes, self.limits);
                    assert_eq!(read(&bytes, Aside::decode), Some(aside));
                    let stream = self.dice.below(self.asides.len());
                    self.asides[stream].push_back(bytes);
                }
                None => self.to_receiver.push_back(bytes),
            }
        }
        let frames: Vec<_> = std::iter::from_fn(|| self.receiver.poll_frame()).collect();
        for mut frame in frames {
            let located = |trouble: &mut Trouble| trouble.locate(Side::Receiver, |_| None);
            frame.troubles_mut().iter_mut().for_each(located);
            let bytes = written(&frame, frame.encode(), ToSender::decode);
            self.fits(&bytes, self.limits);
            self.bytes += bytes.len() as u64;
            self.answered += bytes.len() as u64;
            self.to_sender.push_back(bytes);
        }
        std::iter::from_fn(|| self.sender.poll_notice())
            .for_each(|notice| self.told_by_sender.take(located(notice, Side::Sender)));
        std::iter::from_fn(|| self.receiver.poll_notice())
            .for_each(|notice| self.told_by_receiver.take(located(notice, Side::Receiver)));
    }
}

/// Bytes of literals that count as credit.
fn literal_bytes(frame: &ToReceiver) -> u64 {
    let (ToReceiver::Fill { payload, .. }
    | ToReceiver::Single { payload, .. }
    | ToReceiver::ShortSingle { payload, .. }
    | ToReceiver::Mended { payload, .. }
    | ToReceiver::Patch { payload, .. }) = frame
    else {
        return 0;
    };
    let (Payload::Plain(bytes)
    | Payload::Zstd(bytes)
    | Payload::Sparse(Sparse { rest: bytes, .. })) = payload;
    bytes.len().max(1) as u64
}

/// What a driver makes of a notice.
fn located(mut notice: Notice, side: Side) -> Notice {
    if let Notice::Trouble(trouble) = &mut notice {
        trouble.locate(side, |_| None);
    }
    notice
}

fn refused(who: &str, error: &PeerError, frame: &dyn std::fmt::Debug) {
    let frame: String = format!("{frame:?}").chars().take(300).collect();
    panic!("the {who} refuses an honest frame: {error}: {frame}");
}

type Decode<F> = fn(u8, &[u8]) -> Result<F, PeerError>;

/// Reads one whole frame.
pub fn read<F>(bytes: &[u8], decode: Decode<F>) -> F {
    let (header, payload) = bytes.split_first_chunk::<HEADER_BYTES>().unwrap();
    let header = Header::decode(*header).unwrap();
    assert_eq!(header.len, payload.len());
    decode(header.kind, payload).unwrap()
}

/// Checks that a frame says what it was built from.
fn written<F: PartialEq + std::fmt::Debug>(
    frame: &F,
    bytes: Vec<u8>,
    decode: Decode<F>,
) -> Vec<u8> {
    assert_eq!(read(&bytes, decode), *frame);
    bytes
}

/// The forms that neither end is too old for.
fn short_forms(case: &Case) -> ShortForms {
    ShortForms {
        lists: case.seed % 4 < 3,
        files: case.seed % 5 < 4,
        wide_tallies: case.seed % 6 < 5,
        digests: case.seed % 7 < 4,
        cut_tallies: case.seed % 4 < 3 && case.seed % 11 < 7,
        proofs: case.seed % 9 < 6,
        answers: case.seed % 8 < 5,
        // The driver compresses frames, so the machines see no compressed frames.
        compressed: false,
        split_code: true,
    }
}

/// True for one case in four: the receiver asks for reasons.
fn asks_reasons(case: &Case) -> bool {
    case.seed.is_multiple_of(4)
}

/// True if both ends can agree on stored sums.
fn agree_on_sums(case: &Case) -> bool {
    case.seed % 3 != 2
}

/// The sums that storage is said to keep, often none.
fn kept_by_luck(seed: u64) -> Option<BlockSumSpec> {
    let kinds = [SumKind::Crc32c, SumKind::Xxh64, SumKind::Sha256, SumKind::Blake2b];
    let kind = kinds.get(seed as usize % 7)?;
    BlockSumSpec::new(*kind, 4096 << (seed / 49 % 5))
}
