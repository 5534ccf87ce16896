//! Streams long answers and does long work in pieces: work ends when the client leaves, and a slow client holds no
//! thread.

use std::error::Error;
use std::ops::Range;
use std::sync::Arc;

use axum::body::Body;
use axum::http::StatusCode;
use bytes::Bytes;
use deltic_store::{Snapshot, StoreError};
use deltic_store_local::LocalSnapshot;
use deltic_tree::RelPath;
use futures_util::stream;
use tokio::sync::mpsc;

use super::request::At;
use crate::server::problem::Problem;
use crate::server::shared::{Known, Server};
use crate::server::volume::{Right, Volume};
use crate::token::TokenHash;

/// Bytes read or written at once.
pub(super) const PIECE: usize = 256 << 10;

/// The bytes of one version of a file, read in pieces.
pub(super) struct Pieces {
    snapshot: Arc<LocalSnapshot>,
    span: Range<u64>,
}

impl Pieces {
    pub(super) fn part(snapshot: impl Into<Arc<LocalSnapshot>>, span: Range<u64>) -> Self {
        Self { snapshot: snapshot.into(), span }
    }

    /// Reads all bytes of a version.
    pub(super) fn whole(snapshot: impl Into<Arc<LocalSnapshot>>) -> Self {
        let snapshot = snapshot.into();
        let len = snapshot.meta().len;
        Self { snapshot, span: 0..len }
    }

    /// Returns the next bytes, or `None` at the end. Errors: `Changed` if the file changed while it was read.
    pub(super) fn next(&mut self) -> Result<Option<Vec<u8>>, StoreError> {
        let Self { snapshot, span } = self;
        if span.is_empty() {
            return Ok(None);
        }
        let want = usize::try_from(span.end - span.start).map_or(PIECE, |left| left.min(PIECE));
        let mut piece = vec![0; want];
        let got = snapshot.read_at(span.start, &mut piece)?;
        span.start += got as u64;
        if got < want || span.start == snapshot.meta().len {
            snapshot.check_content()?;
        }
        if got == 0 {
            return Err(StoreError::Changed { path: RelPath::root() });
        }
        piece.truncate(got);
        Ok(Some(piece))
    }
}

/// A client that reads a file or a directory. Settings and tokens may change while the answer is sent.
pub(super) struct Reader {
    server: Arc<Server>,
    token: TokenHash,
    /// Name of the volume.
    volume: String,
    path: RelPath,
}

impl Reader {
    pub(super) fn of(server: &Arc<Server>, at: &At) -> Result<Self, Problem> {
        let (token, volume) = (at.known.token, at.volume.clone());
        Ok(Self { server: Arc::clone(server), token, volume, path: at.file()? })
    }

    /// Returns a reader of the part of the volume that the client's token may read.
    pub(super) fn for_grant(server: &Arc<Server>, known: &Known, volume: String) -> Self {
        let path = known.grant.part();
        Self { server: Arc::clone(server), token: known.token, volume, path }
    }

    /// Returns the volume, if the client still has the right to read at the path.
    pub(super) fn volume(&self) -> Result<Volume, Problem> {
        let known = self.server.known_begun(self.token)?;
        self.server.volume_for(Right::Read, &known, &self.volume, &self.path)
    }
}

/// Reason why an answer breaks off.
pub(super) type BrokenOff = Box<dyn Error + Send + Sync>;

/// The body of an answer that is made while the answer is sent.
pub(super) struct Outgoing {
    reader: Arc<Reader>,
    send: mpsc::Sender<Result<Bytes, BrokenOff>>,
}

impl Outgoing {
    /// Runs `work` on a thread that may block on the disk. Errors: those of `work`, and the client has left, or may not
    /// read any more.
    pub(super) async fn on_disk<T: Send + 'static, E: Into<BrokenOff>>(
        &self,
        work: impl FnOnce() -> Result<T, E> + Send + 'static,
    ) -> Result<T, BrokenOff> {
        if self.send.is_closed() {
            return Err(has_left());
        }
        let turn = Arc::clone(&self.reader.server.disk).acquire_owned().await;
        let reader = Arc::clone(&self.reader);
        let done = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            reader.volume().map_err(|_| may_not_read())?;
            work().map_err(Into::into)
        });
        done.await?
    }

    /// Sends bytes once the client has taken earlier ones. Errors: the client has left.
    pub(super) async fn send(&self, bytes: Vec<u8>) -> Result<(), BrokenOff> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.send.send(Ok(bytes.into())).await.map_err(|_| has_left())
    }
}

fn has_left() -> BrokenOff {
    "the client has left".into()
}

fn may_not_read() -> BrokenOff {
    "the client may not read any more".into()
}

/// Streams the body that `make` sends. An error, and the loss of the right to read, break off the body.
pub(super) fn made_body<F: Future<Output = Result<(), BrokenOff>> + Send + 'static>(
    reader: Reader,
    make: impl FnOnce(Outgoing) -> F,
) -> Body {
    let (send, pieces) = mpsc::channel(2);
    let (reader, end) = (Arc::new(reader), send.clone());
    let making = make(Outgoing { reader: Arc::clone(&reader), send });
    tokio::spawn(async move {
        // Lets the server look for revoked tokens while a slow client takes no bytes.
        let _here = reader.server.count_client();
        let made = tokio::select! {
            made = making => made,
            () = reader.server.access.revoked(&reader.token) => Err(may_not_read()),
        };
        if let Err(error) = made {
            end.send(Err(error)).await.ok();
        }
    });
    Body::from_stream(stream::unfold(pieces, |mut pieces| async {
        pieces.recv().await.map(|piece| (piece, pieces))
    }))
}

/// Streams the pieces that `step` makes, until `step` returns `None` or fails.
pub(super) fn body_of<E: Into<BrokenOff> + Send + 'static>(
    reader: Reader,
    mut step: impl FnMut() -> Result<Option<Vec<u8>>, E> + Send + 'static,
) -> Body {
    made_body(reader, |out| async move {
        loop {
            let (again, piece) = out.on_disk(move || step().map(|piece| (step, piece))).await?;
            let Some(piece) = piece else { return Ok(()) };
            out.send(piece).await?;
            step = again;
        }
    })
}

/// Repeats `step` until the step returns `Step::Done`.
pub(super) async fn steps<T: Send + 'static>(
    server: &Server,
    mut state: T,
    mut step: impl FnMut(&mut T) -> Result<Step, Problem> + Send + 'static,
) -> Result<T, Problem> {
    loop {
        let turn = Arc::clone(&server.disk).acquire_owned().await;
        let done = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            let going = step(&mut state);
            (state, step, going)
        });
        let failed = |_| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the request failed here");
        let going;
        (state, step, going) = done.await.map_err(failed)?;
        if going? == Step::Done {
            return Ok(state);
        }
    }
}

/// State of work after a step: `On` if more steps follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    On,
    Done,
}
