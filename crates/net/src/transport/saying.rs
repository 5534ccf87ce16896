//! Writes batches of frames, and signs of life during pauses.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use deltic_engine::stream::{CHECKED_RUN_BYTES, OutgoingChecks};
use deltic_protocol::Purpose;
use deltic_protocol::hello::Alive;

use crate::monitor::Stage;
use crate::task::Task;

use super::{BATCHES, Counters, Flow, Stream, WRITTEN_BYTES, Writer, spare};

/// Longest time of writing a batch to a line that counts as fast. On a fast line, the bytes get one check at the end of
/// the batch, which saves a copy.
const FAST: Duration = Duration::from_millis(20);

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
    let counters = Arc::clone(&flow.counters);
    flow.monitor.count_sent(Purpose::Control, opening.len());
    let said = Said { opening, taken, pause, counters, owed: 0 };
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
    counters: Arc<Counters>,
    /// Value of `Counters::progress_count` when this end last sent a batch.
    owed: u64,
}

impl Said {
    /// Waits for the next batch. Returns a sign of life instead, if the longest pause has passed and the other end
    /// needs a sign.
    async fn next(&mut self) -> Option<Vec<u8>> {
        let next = self.batch_or_sign().await;
        self.owed = self.counters.progress_count();
        next
    }

    async fn batch_or_sign(&mut self) -> Option<Vec<u8>> {
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
                batch = self.taken.recv() => return batch,
                () = silence => {}
                Ok(()) = pause.changed() => continue,
            }
            // Two ends that only wait for each other need no signs of life.
            if self.counters.is_busy() || self.counters.progress_count() != self.owed {
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
        while batch.len() < WRITTEN_BYTES
            && let Ok(more) = said.taken.try_recv()
        {
            batch.extend_from_slice(&more);
            spare::keep(more);
        }
        let len = batch.len();
        let begun = Instant::now();
        if let Some(used) = checks.append(&mut batch, run, spare::buffer) {
            spare::keep(used);
        }
        flow.monitor.count_sent(Purpose::Control, batch.len() - len);
        batch = open_with(&mut said.opening, batch);
        for piece in batch.chunks(flow.piece_bytes_of(&batch)) {
            flow.wait_and_count_sent(piece.len()).await;
            flow.measure_rate(piece.len(), writer.write_all(piece)).await?;
        }
        spare::keep(batch);
        if said.taken.is_empty() {
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

/// Puts the opening of a stream before its first batch.
fn open_with(opening: &mut &[u8], mut batch: Vec<u8>) -> Vec<u8> {
    batch.splice(0..0, std::mem::take(opening).iter().copied());
    batch
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SessionConfig;

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
        flow.counters.count_arrival(9);
        assert_eq!(signs().await, 1);
        flow.counters.count_arrival(Alive::KIND);
        assert_eq!(signs().await, 0, "no sign of life answers a sign of life");
    }
}
