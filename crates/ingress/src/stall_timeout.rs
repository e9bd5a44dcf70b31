//! Write timeout of a socket: the peer has to read what it is sent.
//!
//! A client may send requests and never read: its buffer fills, then ours, and the connection would be held
//! as long as the client likes. A write without progress for the given time ends the connection. A slow
//! reader is not affected: every piece that it takes restarts the timer. Reads are not timed here; hyper
//! times the head, and `body` the body.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// A stream that fails when a write stalls for too long.
#[derive(Debug)]
pub(crate) struct StallTimeoutStream<S> {
    stream: S,
    patience: Duration,
    /// Timer of a pending write.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<S> StallTimeoutStream<S> {
    pub(crate) fn new(stream: S, patience: Duration) -> Self {
        Self { stream, patience, waiting: None }
    }

    /// The result of a write, or a timeout if it has been pending for too long.
    fn check_stall<T>(
        &mut self,
        written: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waiting = None;
            return written;
        }
        let patience = self.patience;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        waiting.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for StallTimeoutStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for StallTimeoutStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.check_stall(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.check_stall(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.check_stall(flushed, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn stalled_write_times_out() {
        let (ours, mut theirs) = tokio::io::duplex(8);
        let mut ours = StallTimeoutStream::new(ours, Duration::from_secs(30));
        let slow = tokio::spawn(async move {
            let mut pace = tokio::time::interval(Duration::from_secs(20));
            for _ in 0..10 {
                pace.tick().await;
                theirs.read_exact(&mut [0; 8]).await.unwrap();
            }
            theirs
        });
        ours.write_all(&[0; 80]).await.unwrap();
        let _kept = slow.await.unwrap();
        let stalled = ours.write_all(&[0; 80]).await.unwrap_err();
        assert_eq!(stalled.kind(), io::ErrorKind::TimedOut);
    }
}
