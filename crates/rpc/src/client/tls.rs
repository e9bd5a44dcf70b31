//! TLS to executors whose address begins with `https://`, on top of the connector that checks addresses.
//!
//! The server's certificate is verified for the host of the address by the CAs of the system and by private
//! ones, as for HTTP actions. No client certificate is presented.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use rustls_platform_verifier::Verifier;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tonic::transport::Uri;
use tower::Service;

use super::connector::ExecutorConnector;

type TlsConnectError = Box<dyn std::error::Error + Send + Sync>;
type TlsConnectFuture =
    Pin<Box<dyn Future<Output = Result<MaybeHttpsStream<TokioIo<TcpStream>>, TlsConnectError>> + Send>>;

/// Trusted CAs. Those of the system are read on the first call with TLS.
#[derive(Debug)]
pub(super) struct ExecutorTrust {
    private_roots: Vec<CertificateDer<'static>>,
    config: OnceLock<Result<Arc<ClientConfig>, rustls::Error>>,
}

impl ExecutorTrust {
    pub(super) fn new(private_roots: Vec<CertificateDer<'static>>) -> Self {
        Self { private_roots, config: OnceLock::new() }
    }

    fn client_config_once(&self) -> Result<Arc<ClientConfig>, rustls::Error> {
        self.config.get_or_init(|| client_config(&self.private_roots).map(Arc::new)).clone()
    }
}

fn client_config(private_roots: &[CertificateDer<'static>]) -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = Verifier::new_with_extra_roots(private_roots.iter().cloned(), provider.clone())?;
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}

/// A connection with TLS where the address requires it.
#[derive(Debug, Clone)]
pub(super) struct SecuredConnector {
    plain: ExecutorConnector,
    trust: Arc<ExecutorTrust>,
    /// Timeout of resolving, TCP and TLS together.
    timeout: Duration,
}

impl SecuredConnector {
    pub(super) fn new(plain: ExecutorConnector, trust: Arc<ExecutorTrust>, timeout: Duration) -> Self {
        Self { plain, trust, timeout }
    }

    async fn connect(mut self, uri: Uri) -> Result<MaybeHttpsStream<TokioIo<TcpStream>>, TlsConnectError> {
        if uri.scheme_str() != Some("https") {
            return Ok(MaybeHttpsStream::Http(self.plain.call(uri).await?));
        }
        let mut tls = HttpsConnector::from((self.plain, self.trust.client_config_once()?));
        timeout(self.timeout, tls.call(uri)).await.map_err(|_| "no TLS connection in time")?
    }
}

impl Service<Uri> for SecuredConnector {
    type Response = MaybeHttpsStream<TokioIo<TcpStream>>;
    type Error = TlsConnectError;
    type Future = TlsConnectFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), TlsConnectError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> TlsConnectFuture {
        Box::pin(self.clone().connect(uri))
    }
}
