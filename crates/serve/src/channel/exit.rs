//! The end of a connection where messages leave it.

use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use futures_util::SinkExt;
use futures_util::stream::SplitSink;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Mutex, MutexGuard};
use tokio_websockets::{Message, WebSocketStream};

/// The end of a WebSocket that sends. It is the connection's task's, and of others as long as that has nothing to send.
pub(super) struct Exit<T>(Mutex<Sink<T>>);

type Sink<T> = SplitSink<WebSocketStream<T>, Message>;

impl<T> Exit<T> {
    pub(super) fn new(sink: Sink<T>) -> Self {
        Self(Mutex::new(sink))
    }

    pub(super) async fn lock(&self) -> MutexGuard<'_, Sink<T>> {
        self.0.lock().await
    }
}

/// Sends messages without a task.
pub(super) trait SendsNow: Send + Sync {
    /// Sends messages as far as nothing has to wait; those that did not go stay. False where some that went are in
    /// memory still, and nobody will send them.
    fn send_now(&self, messages: &mut Vec<Bytes>) -> bool;
}

impl<T: AsyncRead + AsyncWrite + Unpin + Send + 'static> SendsNow for Exit<T> {
    fn send_now(&self, messages: &mut Vec<Bytes>) -> bool {
        // The task sends: it will find what comes next.
        let Ok(mut sink) = self.0.try_lock() else { return true };
        // Nobody is woken for it: what has to wait is for the task.
        let mut context = Context::from_waker(Waker::noop());
        let mut sent = 0;
        for message in &*messages {
            let is_ready = matches!(sink.poll_ready_unpin(&mut context), Poll::Ready(Ok(())));
            if !is_ready || sink.start_send_unpin(Message::binary(message.clone())).is_err() {
                break;
            }
            sent += 1;
        }
        messages.drain(..sent);
        // An error is the task's to find.
        sent == 0 || sink.poll_flush_unpin(&mut context).is_ready()
    }
}
