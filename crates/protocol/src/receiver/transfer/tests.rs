//! Transfers of one byte string into another: no tree, no list, no second file.

use deltic_core::chunk::FixedLen;
use deltic_core::recipe::digest_of;
use deltic_core::{PrefixLen, reference};
use deltic_tree::{Kind, RelPath, Timestamp};

use super::file_context::{FilePlace, ReportedBytes};
use super::old::OldVersions;
use super::proof::Proof;
use super::*;
use crate::limits::WHOLE_BLOCK_BYTES;
use crate::message::{FileNo, GroupLine};
use crate::receiver::ask::{
    NewVersionAnswer, NewVersionWork, OldVersionAnswer, OldVersionWork, ReceiverWork, SettleWork,
    SmallFile,
};
use crate::receiver::context::Context;
use crate::receiver::pending::ReceiverPending;
use crate::receiver::setting::Setting;
use crate::work::Handle;

const CHUNK: u32 = 4096;

/// Returns bytes in which all chunks differ.
fn bytes(len: u32, seed: u32) -> Vec<u8> {
    (0..len / 4).flat_map(|n| (n * 2 + seed).to_le_bytes()).collect()
}

/// A driver that holds both versions in memory, and counts the work done.
#[derive(Default)]
struct Driver {
    old: Vec<u8>,
    made: Vec<u8>,
    copied: u64,
    settled: Option<&'static str>,
}

impl Driver {
    fn perform(&mut self, work: ReceiverWork) -> ReceiverAnswer {
        match work {
            ReceiverWork::Old(OldVersionWork::Index { segment, spec, .. }) => {
                let read = &self.old[segment.own.start as usize..segment.read_end as usize];
                ReceiverAnswer::Old(OldVersionAnswer::Indexed(Ok(segment.cut(
                    &spec.build(),
                    read,
                    deltic_core::Chunk::of,
                ))))
            }
            ReceiverWork::New(NewVersionWork::Copy { runs, .. }) => {
                for run in runs {
                    let from = &self.old[run.old.start as usize..run.old.end() as usize];
                    let to = run.new_start as usize;
                    self.made[to..to + from.len()].copy_from_slice(from);
                    self.copied += from.len() as u64;
                }
                ReceiverAnswer::New(NewVersionAnswer::Copied(Ok(())))
            }
            ReceiverWork::New(NewVersionWork::Write {
                pieces,
                payload: Payload::Plain(mut bytes),
                ..
            }) => {
                let mut fingerprints = Vec::new();
                for piece in pieces {
                    let rest = bytes.split_off(piece.span.len as usize);
                    self.made[piece.span.start as usize..piece.span.end() as usize]
                        .copy_from_slice(&bytes);
                    fingerprints.push(Fingerprint::of(&bytes));
                    bytes = rest;
                }
                ReceiverAnswer::New(NewVersionAnswer::Written(Ok(fingerprints)))
            }
            ReceiverWork::Settle(SettleWork::Commit { proof, .. }) => {
                self.settle("committed", &proof)
            }
            ReceiverWork::Settle(SettleWork::Confirm { proof, .. }) => {
                self.settle("confirmed", &proof)
            }
            ReceiverWork::Settle(SettleWork::Replace(SmallFile {
                payload: Payload::Plain(bytes),
                ..
            })) => {
                (self.made, self.settled) = (bytes, Some("replaced"));
                ReceiverAnswer::Done(Ok(()))
            }
            other => panic!("{other:?}"),
        }
    }

    fn settle(&mut self, how: &'static str, proof: &Proof) -> ReceiverAnswer {
        assert_eq!(proof.is_equal_to(|| Err(())), Ok(true));
        self.settled = Some(how);
        ReceiverAnswer::Done(Ok(()))
    }

    /// Does all work that is asked for, and puts the result in place once it is complete.
    fn run(&mut self, transfer: &mut IncomingTransfer, fx: &mut FileContext<'_>) {
        loop {
            while let Some((id, work)) = fx.cx.jobs.poll() {
                let answer = self.perform(work);
                let pending = fx.cx.jobs.take_answer(id).unwrap();
                fx.cx.load.uncount_pending(&pending);
                let ReceiverPending::File(pending) = pending else { panic!("{pending:?}") };
                transfer.answer(fx, pending, answer);
            }
            if fx.is_over() || !transfer.is_complete(fx) {
                return;
            }
            transfer.commit_or_keep(fx);
        }
    }
}

/// Drives a transfer of `new` with `old` in place; returns the driver, and the frames sent to the sender.
fn transfer(old: &[u8], new: &[u8], how: (TransferKind, ChunkerSpec)) -> (Driver, Vec<ToSender>) {
    let len = new.len() as u64;
    let mut cx = Context::new(Setting::default());
    let lens = if old.is_empty() { Vec::new() } else { vec![old.len() as u64] };
    let versions = OldVersions { in_place: !old.is_empty(), lens, ..OldVersions::default() };
    let (path, mut reported) = (RelPath::root(), 0);
    let place = FilePlace { file: FileNo(0), handle: Handle(0), path: &path, seen: None };
    let reported = ReportedBytes { reported: &mut reported, most: len };
    let mut fx = FileContext::new(&mut cx, place, &versions, reported);
    let meta = Meta::without_owner(Kind::File, len, Timestamp::default(), 0o644);
    let mut driver = Driver { old: old.to_vec(), made: vec![0; new.len()], ..Driver::default() };
    let mut transfer = IncomingTransfer::new(meta, how.0, how.1, None, fx.cx);
    transfer.begin_matching(&mut fx, ExpectedTransfer::default());
    driver.run(&mut transfer, &mut fx);
    let chunks = reference::chunks(&how.1, new);
    if how.0 == TransferKind::Recipe {
        let line = |group: deltic_core::recipe::Group| GroupLine {
            len: group.len,
            chunks: group.chunks,
            short: group.fingerprint.group_prefix(),
        };
        let groups: Vec<_> = reference::groups(&chunks).into_iter().map(line).collect();
        transfer.receive_groups(&mut fx, &groups).unwrap();
        driver.run(&mut transfer, &mut fx);
        spell(&mut transfer, &mut fx, (&groups, &chunks));
        driver.run(&mut transfer, &mut fx);
        fill(&mut transfer, &mut fx, (new, &chunks));
    } else {
        transfer
            .receive_literals(&mut fx, std::slice::from_ref(&(0..1)), Payload::Plain(new.to_vec()))
            .unwrap();
    }
    driver.run(&mut transfer, &mut fx);
    transfer.receive_digest(digest_of(&chunks)).unwrap();
    driver.run(&mut transfer, &mut fx);
    assert!(fx.is_over() && !fx.cx.jobs.is_busy(Handle(0)));
    assert_eq!(fx.cx.load.backlog_bytes(), 0);
    (driver, cx.frames.into())
}

/// Answers `Lack` as a sender does.
fn spell(
    transfer: &mut IncomingTransfer,
    fx: &mut FileContext<'_>,
    (groups, chunks): (&[GroupLine], &[deltic_core::Chunk]),
) {
    let Some(ToSender::Lack { groups: lacked, .. }) = fx.cx.frames.back().cloned() else {
        panic!("groups are answered")
    };
    let first = |no: u32| groups[..no as usize].iter().map(|g| g.chunks).sum::<u32>() as usize;
    let all = lacked.iter().flat_map(|range| &chunks[first(range.start)..first(range.end)]);
    let line = |chunk: &deltic_core::Chunk| ChunkLine {
        len: chunk.len,
        brief: chunk.fingerprint.chunk_prefix(PrefixLen::MAX),
    };
    let lines: Vec<_> = all.map(line).collect();
    if !lines.is_empty() {
        transfer.receive_group_chunks(fx, &lacked, &lines).unwrap();
    }
}

/// Answers `Need` as a sender does.
fn fill(
    transfer: &mut IncomingTransfer,
    fx: &mut FileContext<'_>,
    (new, chunks): (&[u8], &[deltic_core::Chunk]),
) {
    let Some(ToSender::Need { chunks: needed, .. }) = fx.cx.frames.back().cloned() else { return };
    if needed.is_empty() {
        return;
    }
    let start = |no: u32| chunks[..no as usize].iter().map(|c| c.len as usize).sum::<usize>();
    let bytes = needed.iter().flat_map(|range| &new[start(range.start)..start(range.end)]);
    transfer.receive_literals(fx, &needed, Payload::Plain(bytes.copied().collect())).unwrap();
}

fn by_recipe() -> (TransferKind, ChunkerSpec) {
    (TransferKind::Recipe, ChunkerSpec::Fixed(FixedLen::new(CHUNK).unwrap()))
}

#[test]
fn what_old_has_is_copied_and_the_rest_is_asked_for() {
    let old = bytes(40 * CHUNK, 0);
    let new = [&old[..], &bytes(5 * CHUNK, 1)].concat();
    let (driver, frames) = transfer(&old, &new, by_recipe());
    assert_eq!((driver.settled, driver.made == new), (Some("committed"), true));
    assert_eq!(driver.copied, old.len() as u64);
    let [ToSender::Lack { .. }, ToSender::Need { chunks, .. }] = &frames[..] else {
        panic!("{frames:?}")
    };
    assert!(matches!(&chunks[..], [run] if *run == (40..45)), "{chunks:?}");
}

#[test]
fn equal_bytes_are_confirmed_and_not_written() {
    let old = bytes(40 * CHUNK, 0);
    let (driver, frames) = transfer(&old, &old, by_recipe());
    assert_eq!((driver.settled, driver.copied), (Some("confirmed"), 0));
    let no_groups = ToSender::Lack { file: FileNo(0), groups: Vec::new() };
    assert_eq!(frames, [no_groups]);
}

#[test]
fn a_prefix_of_old_is_copied_once_it_is_known_to_be_one() {
    let old = bytes(40 * CHUNK, 0);
    let new = &old[..30 * CHUNK as usize];
    let (driver, _) = transfer(&old, new, by_recipe());
    assert_eq!((driver.settled, driver.made == new), (Some("committed"), true));
}

#[test]
fn a_short_file_is_put_in_place_in_one_go_and_asks_for_nothing() {
    let blocks = ChunkerSpec::Fixed(FixedLen::new(WHOLE_BLOCK_BYTES).unwrap());
    let new = bytes(CHUNK, 3);
    let (driver, frames) = transfer(&[], &new, (TransferKind::Whole, blocks));
    assert_eq!((driver.settled, driver.made == new), (Some("replaced"), true));
    assert_eq!(frames, []);
}
