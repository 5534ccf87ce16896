//! The sending half of a WebSocket connection.

use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use futures_util::SinkExt;
use futures_util::stream::SplitSink;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Mutex, MutexGuard};
use tokio_websockets::{Message, WebSocketStream};

/// The sending half of a WebSocket. The connection's task sends first; other threads may send while that task is idle.
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

/// Sends messages on the current thread, without the connection's task.
pub(super) trait SendsNow: Send + Sync {
    /// Sends messages as far as possible without waiting, and removes sent messages from `messages`. False if sent
    /// messages are still buffered, and no task is going to flush them.
    fn send_now(&self, messages: &mut Vec<Bytes>) -> bool;
}

impl<T: AsyncRead + AsyncWrite + Unpin + Send + 'static> SendsNow for Exit<T> {
    fn send_now(&self, messages: &mut Vec<Bytes>) -> bool {
        // The connection's task is sending now, and sends later messages too.
        let Ok(mut sink) = self.0.try_lock() else { return true };
        // No task is woken: the connection's task sends the messages that have to wait.
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
        // The connection's task finds the error.
        sent == 0 || sink.poll_flush_unpin(&mut context).is_ready()
    }
}
