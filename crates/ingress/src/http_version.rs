//! HTTP version detection by the first bytes of a connection: HTTP/2 begins with a preface, everything else
//! is HTTP/1.1. The bytes are put back for the HTTP server.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HttpVersion {
    Http1,
    Http2,
}

/// Reads as many bytes as the detection needs. The caller sets the timeout.
pub(crate) async fn detect_version<S: AsyncRead + Unpin>(
    mut stream: S,
) -> io::Result<(HttpVersion, RewoundStream<S>)> {
    let mut seen = Vec::with_capacity(PREFACE.len());
    let mut buffer = [0; PREFACE.len()];
    while seen.len() < PREFACE.len() {
        let read = stream.read(&mut buffer[..PREFACE.len() - seen.len()]).await?;
        seen.extend_from_slice(&buffer[..read]);
        if !PREFACE.starts_with(&seen) || read == 0 {
            if seen.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            return Ok((HttpVersion::Http1, RewoundStream { seen, told: 0, stream }));
        }
    }
    Ok((HttpVersion::Http2, RewoundStream { seen, told: 0, stream }))
}

/// A stream with its consumed prefix put back.
#[derive(Debug)]
pub(crate) struct RewoundStream<S> {
    seen: Vec<u8>,
    /// Bytes of `seen` that were read again.
    told: usize,
    stream: S,
}

impl<S: AsyncRead + Unpin> AsyncRead for RewoundStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let left = self.seen.get(self.told..).unwrap_or_default();
        if left.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let some = left.len().min(buffer.remaining());
        buffer.put_slice(&left[..some]);
        self.told += some;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for RewoundStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    async fn of(pieces: &[&[u8]]) -> (HttpVersion, Vec<u8>) {
        let (mut theirs, ours) = tokio::io::duplex(64);
        let telling = tokio::spawn(detect_version(ours));
        for piece in pieces {
            theirs.write_all(piece).await.unwrap();
            tokio::task::yield_now().await;
        }
        drop(theirs);
        let (version, mut stream) = telling.await.unwrap().unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).await.unwrap();
        (version, all)
    }

    #[tokio::test]
    async fn split_http2_preface_is_detected() {
        assert_eq!(of(&[PREFACE, b"x"]).await, (HttpVersion::Http2, [PREFACE, b"x"].concat()));
        let bytes: Vec<&[u8]> = PREFACE.chunks(1).collect();
        assert_eq!(of(&bytes).await, (HttpVersion::Http2, PREFACE.to_vec()));
    }

    #[tokio::test]
    async fn other_prefixes_are_http_1() {
        for other in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", b"P", b"PUT /"] {
            assert_eq!(of(&[other]).await, (HttpVersion::Http1, other.to_vec()));
        }
    }

    #[tokio::test]
    async fn empty_connection_has_no_http_version() {
        let (theirs, ours) = tokio::io::duplex(64);
        drop(theirs);
        assert!(detect_version(ours).await.is_err());
    }
}
