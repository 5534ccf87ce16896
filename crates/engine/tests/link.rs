//! A link that changes while a session runs: the next choice goes by the link as it is then.

use std::time::Duration;

use deltic_core::strategy::LinkModel;
use deltic_core::{ChunkerSpec, Strategy};
use deltic_engine::machine::Lane;
use deltic_engine::session::{Session, SessionDriver, SessionStep};
use deltic_protocol::hello::Abort;
use deltic_protocol::limits::Limits;
use deltic_protocol::message::TransferKind;
use deltic_protocol::options::Options;
use deltic_protocol::sender::{FileWork, Listed, Opened, Sender, SenderAnswer, SenderWork};
use deltic_protocol::{FileNo, PeerError, ToSender};
use deltic_tree::{Entry, Kind, Meta, Name, Timestamp};

/// Bytes of each file.
const LEN: u64 = 1 << 20;

struct Alone;

impl SessionDriver<Sender> for Alone {
    fn can_send(&self, _: Lane) -> bool {
        true
    }
    fn can_start(&self, _: &SenderWork) -> bool {
        true
    }
}

#[derive(Debug)]
struct Failed;

impl From<PeerError> for Failed {
    fn from(_: PeerError) -> Self {
        Self
    }
}

impl From<Abort> for Failed {
    fn from(_: Abort) -> Self {
        Self
    }
}

fn link(bits_per_second: u64) -> LinkModel {
    LinkModel { bits_per_second, round_trip: Duration::from_millis(20) }
}

fn meta(kind: Kind, len: u64) -> Meta {
    Meta::without_owner(kind, len, Timestamp::default(), 0o644)
}

/// Takes all steps that can be taken; returns the chunkers of the files that are begun.
fn begun(session: &mut Session<Sender, Failed>) -> Vec<ChunkerSpec> {
    let mut chunkers = Vec::new();
    while let Some(step) = session.poll(&Alone) {
        let SessionStep::Work(id, work) = step else { continue };
        match work {
            SenderWork::List { .. } => {
                let names = [b"a", b"b", b"c"].map(|name| Name::new(name).expect("it is a name"));
                let file = |name| Entry { name, meta: meta(Kind::File, LEN) };
                let (own, entries) = (Some(meta(Kind::Dir, 0)), Vec::from(names.map(file)));
                session.answered(
                    id,
                    SenderAnswer::Listed(Ok(Listed { own, entries, ..Listed::default() })),
                );
            }
            SenderWork::Open { .. } => {
                let known = deltic_protocol::known::Known::default();
                let opened = Opened { meta: meta(Kind::File, LEN), body: None, known };
                session.answered(id, SenderAnswer::Opened(Ok(opened)));
            }
            // The answer can wait.
            SenderWork::File(FileWork::Sum { summing, .. }) => chunkers.push(summing.chunker),
            other => panic!("{other:?}"),
        }
    }
    chunkers.dedup();
    chunkers
}

#[test]
fn a_file_is_cut_for_the_link_as_it_is_when_the_file_is_opened() {
    let strategy = Strategy::by_name("netsync").unwrap();
    let options = Options { recursive: true, strategy, ..Options::default() };
    let mut sender = Sender::new(options);
    sender.set_terms(false, Limits::default());
    let mut session = Session::<_, Failed>::new(sender, None);
    assert!(begun(&mut session).is_empty());
    let wanted = |session: &mut Session<_, _>, file| {
        let want = ToSender::Want { file: FileNo(file), how: TransferKind::Strategy }.encode();
        assert_eq!(session.feed_bytes(&want).unwrap(), want.len());
        begun(session)
    };
    let expected = |bits_per_second| [strategy.chunker(LEN, bits_per_second)];
    assert_eq!(wanted(&mut session, 0), expected(None), "nothing is known");
    session.set_link(link(5_000_000));
    assert_eq!(wanted(&mut session, 1), expected(Some(5_000_000)));
    session.set_link(link(500_000_000));
    assert_eq!(wanted(&mut session, 2), expected(Some(500_000_000)));
    assert_ne!(expected(Some(5_000_000)), expected(Some(500_000_000)));
}
