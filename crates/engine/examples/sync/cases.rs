//! Whole sessions between a sender and a receiver in one thread, over two byte strings.

use deltic_engine::machine::{Lane, Machine};
use deltic_engine::session::{Session, SessionDriver, SessionStep};
use deltic_protocol::PeerError;
use deltic_protocol::hello::Abort;
use deltic_protocol::limits::Limits;
use deltic_protocol::options::Options;
use deltic_protocol::receiver::{Receiver, Setting};
use deltic_protocol::report::Notice;
use deltic_protocol::sender::Sender;

use crate::memory::{MemoryDestination, MemorySource, SharedTerms};

/// Why a session failed.
#[derive(Debug)]
pub(crate) struct SessionFailed(pub(crate) String);

impl From<PeerError> for SessionFailed {
    fn from(error: PeerError) -> Self {
        Self(error.to_string())
    }
}

impl From<Abort> for SessionFailed {
    fn from(abort: Abort) -> Self {
        Self(abort.message)
    }
}

/// A driver that always has room.
struct NoLimits;

impl<M: Machine> SessionDriver<M> for NoLimits {
    fn can_send(&self, _: Lane) -> bool {
        true
    }
    fn can_start(&self, _: &M::Work) -> bool {
        true
    }
}

/// Runs all steps that are possible now. Returns true after the end of the session.
fn steps<M: Machine>(
    session: &mut Session<M, SessionFailed>,
    mut perform: impl FnMut(M::Work) -> M::Answer,
    out: &mut Vec<u8>,
) -> Result<bool, SessionFailed> {
    loop {
        match session.poll(&NoLimits) {
            Some(SessionStep::Send(_, batch)) => out.extend(batch),
            Some(SessionStep::Work(id, work)) => session.answered(id, perform(work)),
            Some(SessionStep::Event(Notice::Trouble(trouble))) => {
                return Err(SessionFailed(trouble.message));
            }
            Some(SessionStep::Event(_)) => {}
            Some(SessionStep::Done) => {
                out.extend(std::iter::from_fn(|| session.poll_rest(&NoLimits)).flatten());
                return Ok(true);
            }
            None => return Ok(false),
        }
    }
}

/// Feeds the complete frames in `bytes`, if the session takes frames.
fn hear<M: Machine>(
    session: &mut Session<M, SessionFailed>,
    bytes: &mut Vec<u8>,
) -> Result<(), SessionFailed> {
    if session.takes_frames() && !session.is_finished() {
        let fed = session.feed_bytes(bytes)?;
        bytes.drain(..fed);
    }
    Ok(())
}

/// Syncs `new` to a destination that holds `old`. Returns the resulting file and the number of literal bytes.
///
/// # Errors
/// [`SessionFailed`] if the session does not end or fails.
pub(crate) fn sync(
    old: Option<&[u8]>,
    new: &[u8],
) -> Result<(Option<Vec<u8>>, u64), SessionFailed> {
    let options = Options { recursive: true, times: true, ..Options::default() };
    let agreed = SharedTerms::new(&options);
    let mut source = MemorySource { agreed: agreed.clone(), bytes: new.to_vec() };
    let mut destination = MemoryDestination::new(agreed, old.map(<[u8]>::to_vec));
    let mut sender = Sender::new(options.clone());
    sender.greeted(true, Limits::default());
    let mut sender = Session::new(sender, None);
    let setting = Setting { options, ..Setting::default() };
    let mut receiver = Session::new(Receiver::new(setting), None);
    let (mut there, mut back) = (Vec::new(), Vec::new());
    loop {
        let has_sent = steps(&mut sender, |work| source.perform(work), &mut there)?;
        let waits = there.len();
        hear(&mut receiver, &mut there)?;
        let has_received = steps(&mut receiver, |work| destination.perform(work), &mut back)?;
        if has_sent && has_received {
            return Ok((destination.file, destination.literal));
        }
        if back.is_empty() && waits == there.len() {
            return Err(SessionFailed("both ends wait".into()));
        }
        hear(&mut sender, &mut back)?;
    }
}

/// Returns pseudo-random bytes.
fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    (0..len).map(next).collect()
}

/// Old file, new file, and largest number of literal bytes.
type Case<'a> = (Option<&'a [u8]>, &'a [u8], usize);

/// Runs all cases. Returns their number.
///
/// # Errors
/// A message for the first case that failed.
pub(crate) fn check() -> Result<u8, String> {
    let base = noise(3 << 20, 1);
    let mut edited = base.clone();
    [1000, 70_000, 1 << 20, 2_000_000].into_iter().for_each(|at| edited[at] ^= 1);
    let inserted = [&base[..700_000], b"some words", &base[700_000..]].concat();
    let moved = [&base[2 << 20..], &base[..2 << 20]].concat();
    let zeros = [&base[..1 << 20], &vec![0; 1 << 20], &base[1 << 20..]].concat();
    let small = noise(100, 2);
    let cases: [Case<'_>; 9] = [
        (None, &base, base.len()),
        (Some(&base), &edited, 64 << 10),
        (Some(&base), &inserted, 64 << 10),
        (Some(&base), &moved, 256 << 10),
        (Some(&base), &zeros, (1 << 20) + (128 << 10)),
        (Some(&base), &base[..1 << 20], 128 << 10),
        (Some(&small), &base, base.len()),
        (None, &small, small.len()),
        (Some(&base), &[], 0),
    ];
    for (no, (old, new, most)) in cases.iter().enumerate() {
        let (file, literal) =
            sync(*old, new).map_err(|SessionFailed(why)| format!("case {no}: {why}"))?;
        if file.as_deref() != Some(*new) {
            return Err(format!("case {no}: the destination has something else"));
        }
        if literal > *most as u64 {
            return Err(format!("case {no}: {literal} literal bytes came, not {most} at most"));
        }
    }
    Ok(cases.len() as u8)
}
