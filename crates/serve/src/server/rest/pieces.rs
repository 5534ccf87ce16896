//! Streams long answers and does long work in pieces: work ends when the client leaves, and a slow client holds no
//! thread.

use std::error::Error;
use std::io;
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
use crate::server::shared::Server;
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
            snapshot.check_unchanged()?;
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

    /// Returns the volume, if the client still has the right to read at the path.
    pub(super) fn volume(&self) -> Result<Volume, Problem> {
        let known = self.server.known_begun(self.token)?;
        self.server.volume_for(Right::Read, &known, &self.volume, &self.path)
    }
}

/// Streams the pieces that `step` makes, until `step` returns `None` or fails. An error, and the loss of the right to
/// read, break off the body.
pub(super) fn body_of<E: Into<Box<dyn Error + Send + Sync>> + Send + 'static>(
    reader: Reader,
    mut step: impl FnMut() -> Result<Option<Vec<u8>>, E> + Send + 'static,
) -> Body {
    type Piece = Result<Bytes, Box<dyn Error + Send + Sync>>;
    let (send, pieces) = mpsc::channel::<Piece>(2);
    let reader = Arc::new(reader);
    tokio::spawn(async move {
        // Lets the server look for revoked tokens while a slow client takes no bytes.
        let _here = reader.server.count_client();
        let revoked = reader.server.access.revoked(&reader.token);
        tokio::pin!(revoked);
        while !send.is_closed() {
            let turn = Arc::clone(&reader.server.disk).acquire_owned().await;
            let again = Arc::clone(&reader);
            let made = tokio::task::spawn_blocking(move || {
                let _turn = turn;
                let piece = match again.volume() {
                    Ok(_) => step().map_err(Into::into),
                    Err(_) => Err(io::Error::other("the client may not read any more").into()),
                };
                (step, piece)
            });
            let piece = match made.await {
                Ok((again, piece)) => {
                    step = again;
                    piece
                }
                Err(panicked) => {
                    send.send(Err(panicked.into())).await.ok();
                    return;
                }
            };
            let piece: Piece = match piece {
                Ok(None) => return,
                Ok(Some(piece)) if piece.is_empty() => continue,
                Ok(Some(piece)) => Ok(piece.into()),
                Err(error) => Err(error),
            };
            let ends = piece.is_err();
            tokio::select! {
                sent = send.send(piece) => if sent.is_err() || ends {
                    return;
                },
                () = &mut revoked => return,
            }
        }
    });
    Body::from_stream(stream::unfold(pieces, |mut pieces| async {
        pieces.recv().await.map(|piece| (piece, pieces))
    }))
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
