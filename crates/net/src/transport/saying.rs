//! Writes batches of frames, and signs of life during pauses.

use std::time::Duration;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use deltic_engine::stream::{CHECKED_RUN_BYTES, OutgoingChecks};
use deltic_protocol::Purpose;
use deltic_protocol::echo::Echoed;
use deltic_protocol::frame::{HEADER_BYTES, Header};
use deltic_protocol::hello::Alive;

use crate::monitor::Stage;
use crate::task::Task;

use super::{BATCHES, Flow, Stream, WRITTEN_BYTES, Writer, spare};

/// Longest time of writing a batch to a line that counts as fast. On a fast line, the bytes get one check at the end of
/// the batch, which saves a copy.
const FAST: Duration = Duration::from_millis(20);
/// Bytes after which a batch at the gentle rate is cut, at the next end of a frame. An echo fits between two batches.
const GENTLE_BATCH_BYTES: usize = 16 << 10;

/// Writes batches of frames from a bounded queue until the queue is closed; `opening` comes before the first.
pub(crate) fn start_writer(
    writer: Writer,
    flow: &Flow,
    stream: Stream,
    opening: &'static [u8],
) -> (mpsc::Sender<Vec<u8>>, Task<std::io::Result<()>>) {
    let (batches, taken) = mpsc::channel::<Vec<u8>>(BATCHES);
    let (flow, monitor) = (flow.clone(), flow.monitor.clone());
    let pause = (stream == Stream::First).then(|| flow.longest_pause_receiver());
    flow.monitor.count_sent(Purpose::Control, opening.len());
    let said = Said { opening, taken, pause, flow: flow.clone(), owed: 0, rest: Vec::new() };
    let task = Task::spawn(monitor.charge_future(Stage::Wire, async move {
        match writer {
            Writer::Stream(writer) => write_all(writer, said, &flow).await,
            Writer::Memory(to) => pass_batches(to, said, &flow).await,
        }
    }));
    (batches, task)
}

/// Opening and queue of batches to be written.
struct Said {
    /// Bytes before the first batch, until they are written.
    opening: &'static [u8],
    taken: mpsc::Receiver<Vec<u8>>,
    /// Longest pause before a sign of life. `None` for streams that send no signs of life.
    pause: Option<watch::Receiver<Option<Duration>>>,
    flow: Flow,
    /// Value of `Counters::progress_count` when this end last sent a batch.
    owed: u64,
    /// Frames that follow the last batch, which was cut.
    rest: Vec<u8>,
}

impl Said {
    /// Waits for the next batch. Returns an answer to an echo first. Returns a sign of life instead, if the longest
    /// pause has passed and the other end needs a sign.
    async fn next(&mut self) -> Option<Vec<u8>> {
        let mut next = self.batch_or_sign().await;
        self.owed = self.flow.counters.progress_count();
        if let Some(batch) = next.as_mut().filter(|_| self.rest.is_empty() && self.flow.is_gentle())
        {
            self.rest = split_off_frames(batch, GENTLE_BATCH_BYTES);
        }
        next
    }

    /// Adds batches that wait, up to the bytes of one write. An answer to an echo is written alone.
    fn gather(&mut self, batch: &mut Vec<u8>) {
        let is_answer = batch.first() == Some(&Echoed::KIND);
        if is_answer || self.flow.is_gentle() || !self.rest.is_empty() {
            return;
        }
        while batch.len() < WRITTEN_BYTES
            && let Ok(more) = self.taken.try_recv()
        {
            batch.extend_from_slice(&more);
            spare::keep(more);
        }
    }

    /// True if the next batch is ready.
    fn has_more(&self) -> bool {
        !self.rest.is_empty() || !self.taken.is_empty()
    }

    async fn batch_or_sign(&mut self) -> Option<Vec<u8>> {
        if self.pause.is_some()
            && let Some(answer) = self.flow.owed_answer()
        {
            return Some(answer);
        }
        if !self.rest.is_empty() {
            let rest = split_off_frames(&mut self.rest, GENTLE_BATCH_BYTES);
            return Some(std::mem::replace(&mut self.rest, rest));
        }
        let Some(pause) = &mut self.pause else { return self.taken.recv().await };
        loop {
            let longest = *pause.borrow_and_update();
            let silence = async {
                match longest {
                    Some(longest) => tokio::time::sleep(longest).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = self.flow.wait_until_owed() => match self.flow.owed_answer() {
                    Some(answer) => return Some(answer),
                    None => continue,
                },
                batch = self.taken.recv() => return batch,
                () = silence => {}
                Ok(()) = pause.changed() => continue,
            }
            // Two ends that only wait for each other need no signs of life.
            let counters = &self.flow.counters;
            if counters.is_busy() || counters.progress_count() != self.owed {
                return Some(Alive.encode());
            }
        }
    }
}

async fn write_all(
    mut writer: Box<dyn AsyncWrite + Send + Unpin>,
    mut said: Said,
    flow: &Flow,
) -> std::io::Result<()> {
    let (mut checks, mut run) = (OutgoingChecks::default(), CHECKED_RUN_BYTES);
    // A further stream of a receiver sends only its opening. On the first stream, a batch follows at once.
    if said.pause.is_none() && said.taken.is_empty() && !said.opening.is_empty() {
        flow.wait_and_count_sent(said.opening.len()).await;
        writer.write_all(std::mem::take(&mut said.opening)).await?;
        writer.flush().await?;
    }
    while let Some(mut batch) = said.next().await {
        said.gather(&mut batch);
        if said.pause.is_some()
            && let Some(mut question) = flow.question()
        {
            checks.append(&mut question, usize::MAX, spare::buffer);
            flow.monitor.count_sent(Purpose::Control, question.len());
            flow.counters.count_sent(question.len());
            flow.measure_rate(question.len(), writer.write_all(&question)).await?;
        }
        let len = batch.len();
        let begun = Instant::now();
        if let Some(used) = checks.append(&mut batch, run, spare::buffer) {
            spare::keep(used);
        }
        flow.monitor.count_sent(Purpose::Control, batch.len() - len);
        batch = open_with(&mut said.opening, batch);
        let mut left = &batch[..];
        while !left.is_empty() {
            let (piece, behind) = left.split_at(flow.piece_bytes_of(left));
            flow.wait_and_count_sent(piece.len()).await;
            flow.measure_rate(piece.len(), writer.write_all(piece)).await?;
            left = behind;
        }
        spare::keep(batch);
        if !said.has_more() || flow.is_gentle() {
            flow.measure_rate(0, writer.flush()).await?;
        }
        run = if begun.elapsed() > FAST { CHECKED_RUN_BYTES } else { usize::MAX };
    }
    // An end that sent no batch still sends its opening.
    flow.wait_and_count_sent(said.opening.len()).await;
    writer.write_all(said.opening).await?;
    writer.flush().await?;
    writer.shutdown().await
}

async fn pass_batches(
    to: mpsc::Sender<Vec<u8>>,
    mut said: Said,
    flow: &Flow,
) -> std::io::Result<()> {
    let gone = |_| std::io::Error::from(std::io::ErrorKind::BrokenPipe);
    while let Some(batch) = said.next().await {
        let batch = open_with(&mut said.opening, batch);
        let piece = flow.piece_bytes_of(&batch);
        if piece == batch.len() {
            flow.wait_and_count_sent(piece).await;
            to.send(batch).await.map_err(gone)?;
            continue;
        }
        for piece in batch.chunks(piece) {
            flow.wait_and_count_sent(piece.len()).await;
            to.send(piece.to_vec()).await.map_err(gone)?;
        }
    }
    Ok(())
}

/// Cuts a batch at the first end of a frame from `bytes` on. Returns the frames behind the cut.
fn split_off_frames(batch: &mut Vec<u8>, bytes: usize) -> Vec<u8> {
    let mut end = 0;
    while end < bytes
        && let Some(header) = batch.get(end..).and_then(|rest| rest.first_chunk::<HEADER_BYTES>())
        && let Ok(Header { len, .. }) = Header::decode(*header)
    {
        end += HEADER_BYTES + len;
    }
    if end < batch.len() { batch.split_off(end) } else { Vec::new() }
}

/// Puts the opening of a stream before its first batch.
fn open_with(opening: &mut &[u8], mut batch: Vec<u8>) -> Vec<u8> {
    batch.splice(0..0, std::mem::take(opening).iter().copied());
    batch
}

#[cfg(test)]
mod tests {
    use deltic_protocol::echo::Echo;
    use tokio::io::AsyncReadExt;

    use super::*;
    use crate::config::SessionConfig;

    fn frame(kind: u8, len: usize) -> Vec<u8> {
        let bytes = (len as u32).to_le_bytes();
        [&[kind], &bytes[..3], &vec![7; len]].concat()
    }

    /// Returns the types of the frames in a stream.
    fn kinds(mut bytes: &[u8]) -> Vec<u8> {
        let mut kinds = Vec::new();
        while let Some((header, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() {
            let header = Header::decode(*header).expect("it was written");
            kinds.push(header.kind);
            bytes = &rest[header.len..];
        }
        kinds
    }

    #[tokio::test(start_paused = true)]
    async fn an_echo_is_answered_before_the_batches_that_wait() {
        let flow = Flow::new(&SessionConfig::default());
        flow.answer_echoes();
        let (ours, mut theirs) = tokio::io::duplex(64);
        let writer = Writer::Stream(Box::new(ours));
        let (batches, writing) = start_writer(writer, &flow, Stream::First, b"");
        for kind in [40, 41, 42] {
            batches.send(frame(kind, 100_000)).await.expect("there is room");
            tokio::task::yield_now().await;
        }
        assert!(flow.take_echo(Echo::KIND, &[]).expect("it may be asked"));
        drop(batches);
        let mut written = Vec::new();
        theirs.read_to_end(&mut written).await.expect("the writer ends");
        writing.await.expect("it ends").expect("it writes");
        let (answer, check) = (Echoed::KIND, deltic_protocol::check::CHECK);
        let kinds = kinds(&written);
        assert_eq!(kinds[..5], [40, check, answer, check, 41], "{kinds:?}");
    }

    #[test]
    fn a_batch_is_cut_behind_a_whole_frame() {
        for (bytes, wanted) in [(1, 1), (10, 1), (11, 2), (20, 2), (21, 3), (1000, 3)] {
            let mut batch = [frame(1, 6), frame(2, 6), frame(3, 6)].concat();
            let rest = split_off_frames(&mut batch, bytes);
            assert_eq!(kinds(&batch), [1, 2, 3][..wanted], "{bytes}");
            assert_eq!(kinds(&rest), [1, 2, 3][wanted..], "{bytes}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_end_says_that_it_lives_while_it_works_and_for_what_it_hears() {
        let flow = Flow::new(&SessionConfig::default());
        flow.send_life_signs_within(Some(Duration::from_secs(3)));
        let (to, mut said) = mpsc::channel(1);
        let (_batches, _writing) = start_writer(Writer::Memory(to), &flow, Stream::First, b"");
        let mut signs = async || {
            let mut signs = 0;
            while let Ok(sign) = tokio::time::timeout(Duration::from_secs(5), said.recv()).await {
                assert_eq!(sign, Some(Alive.encode()));
                signs += 1;
                if signs == 100 {
                    break;
                }
            }
            signs
        };
        assert_eq!(signs().await, 0, "it waits for the other end");
        flow.counters.set_working(true);
        assert_eq!(signs().await, 100);
        flow.counters.set_working(false);
        assert!(signs().await <= 1, "one may have been on its way");
        // A frame arrived, so this end sends a sign of life.
        flow.counters.count_arrival(40);
        assert_eq!(signs().await, 1);
        flow.counters.count_arrival(Alive::KIND);
        assert_eq!(signs().await, 0, "no sign of life answers a sign of life");
    }
}
