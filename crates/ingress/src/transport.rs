//! The byte stream of a connection, with TLS or without it, and the sockets that connections come from.
//!
//! One type for both, so that the HTTP code is compiled once.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::server::TlsStream;

use crate::stall_timeout::StallTimeoutStream;
use crate::tls::{CurrentTls, ServerTls};

/// The listening sockets of an ingress; at least one of the two.
#[derive(Debug)]
pub struct IngressListeners {
    pub plain: Option<TcpListener>,
    pub tls: Option<TlsListener>,
}

/// A socket whose connections begin with a TLS handshake.
#[derive(Debug)]
pub struct TlsListener {
    pub listener: TcpListener,
    pub tls: ServerTls,
}

impl From<TcpListener> for IngressListeners {
    fn from(listener: TcpListener) -> Self {
        Self { plain: Some(listener), tls: None }
    }
}

impl IngressListeners {
    /// The address without TLS first.
    pub fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        let tls = self.tls.as_ref().map(|tls| &tls.listener);
        self.plain.iter().chain(tls).map(TcpListener::local_addr).collect()
    }

    /// The URL of the first address.
    pub fn url(&self) -> io::Result<String> {
        let scheme = if self.plain.is_some() { "http" } else { "https" };
        let first = self.addresses()?.into_iter().next();
        first
            .map(|address| format!("{scheme}://{address}"))
            .ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
    }
}

/// An accepted connection.
pub(crate) enum ConnectionStream {
    Plain(StallTimeoutStream<TcpStream>),
    Tls(Box<TlsStream<StallTimeoutStream<TcpStream>>>),
}

impl ConnectionStream {
    /// Performs the TLS handshake, if there is one. The caller bounds the time that it may take.
    pub(crate) async fn establish_stream(
        stream: StallTimeoutStream<TcpStream>,
        tls: Option<&CurrentTls>,
    ) -> io::Result<Self> {
        match tls {
            None => Ok(Self::Plain(stream)),
            Some(tls) => Ok(Self::Tls(Box::new(tls.acceptor().accept(stream).await?))),
        }
    }
}

impl AsyncRead for ConnectionStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for ConnectionStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(context, pieces),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(context, pieces),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
