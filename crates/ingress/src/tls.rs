//! TLS of the ingress: a certificate chain, its private key and optionally a CA for client certificates,
//! read from files and reloaded when the files change.
//!
//! One `rustls` configuration is active at a time and replaced as a whole: an open connection keeps the
//! certificate of its handshake, the next handshake uses the new one, and sessions of the old configuration
//! are not resumed (so that the removal of a client CA takes effect). New contents are adopted when two
//! consecutive reads agree, because a half-written file may be a valid certificate without its
//! intermediates.
//!
//! Failure: contents that are unreadable or inconsistent are logged once, and the previous configuration
//! stays active. At the start they are an error.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

/// Interval at which the files are read.
const READ_EVERY: Duration = Duration::from_millis(500);
/// HTTP/2 first: gRPC needs it, and a client that speaks both gains from it.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// Paths of the PEM files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate of this server, followed by its intermediates.
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// Clients must present a certificate that one of these CAs has signed.
    pub client_ca: Option<PathBuf>,
}

/// Why the files are no valid TLS configuration.
#[derive(Debug, thiserror::Error)]
pub enum TlsFilesError {
    #[error("{path} cannot be read: {source}")]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("{path} holds no {wanted} in PEM form")]
    NoPem { path: PathBuf, wanted: &'static str },
    #[error("{path} cannot be used: {reason}")]
    Unusable { path: PathBuf, reason: String },
}

/// A TLS configuration that is reloaded from its files.
#[derive(Debug)]
pub struct ServerTls {
    files: TlsFiles,
    watch: ContentsWatch,
    current: CurrentTls,
}

impl ServerTls {
    /// Reads the files; fails when they are no valid TLS server configuration.
    pub fn load_files(files: TlsFiles) -> Result<Self, TlsFilesError> {
        let contents = PemContents::read_files(&files)?;
        let config = server_config(&files, &contents)?;
        let current = CurrentTls(Arc::new(RwLock::new(Arc::new(config))));
        Ok(Self { files, watch: ContentsWatch::new(contents), current })
    }

    pub(crate) fn current_config(&self) -> CurrentTls {
        self.current.clone()
    }

    /// Reloads the files when they change, until `end`.
    pub(crate) async fn follow_files(mut self, end: CancellationToken) {
        loop {
            tokio::select! {
                () = tokio::time::sleep(READ_EVERY) => {}
                () = end.cancelled() => return,
            }
            let files = self.files.clone();
            let Ok(read) = tokio::task::spawn_blocking(move || PemContents::read_files(&files)).await else {
                return;
            };
            self.adopt_contents(read);
        }
    }

    fn adopt_contents(&mut self, read: Result<PemContents, TlsFilesError>) {
        let contents = match read {
            Ok(contents) => contents,
            Err(error) => {
                if self.watch.is_first_failure() {
                    tracing::error!(%error, "a TLS file cannot be read; the previous certificate stays active");
                }
                return;
            }
        };
        if !self.watch.is_settled_change(&contents) {
            return;
        }
        match server_config(&self.files, &contents) {
            Ok(config) => {
                self.current.replace_config(config);
                tracing::info!(certificate = %self.files.certificate.display(), "new TLS files are active");
            }
            Err(error) => {
                tracing::error!(%error, "the new TLS files are unusable; the previous certificate stays active");
            }
        }
    }
}

/// The configuration of the next handshake. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct CurrentTls(Arc<RwLock<Arc<ServerConfig>>>);

impl CurrentTls {
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.0.read().unwrap_or_else(PoisonError::into_inner).clone())
    }

    fn replace_config(&self, config: ServerConfig) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
    }
}

/// Contents of the files.
#[derive(Clone, PartialEq, Eq)]
struct PemContents {
    certificate: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

/// Omits the private key.
impl std::fmt::Debug for PemContents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PemContents").finish_non_exhaustive()
    }
}

impl PemContents {
    fn read_files(files: &TlsFiles) -> Result<Self, TlsFilesError> {
        Ok(Self {
            certificate: read_file(&files.certificate)?,
            key: read_file(&files.key)?,
            client_ca: files.client_ca.as_deref().map(read_file).transpose()?,
        })
    }
}

fn read_file(path: &Path) -> Result<Vec<u8>, TlsFilesError> {
    std::fs::read(path).map_err(|source| TlsFilesError::Unreadable { path: path.to_owned(), source })
}

/// The contents that were applied or rejected last, and the reads since.
#[derive(Debug)]
struct ContentsWatch {
    tried: PemContents,
    /// Differs from `tried`, and was read once.
    settling: Option<PemContents>,
    /// The last read failed.
    is_failing: bool,
}

impl ContentsWatch {
    fn new(tried: PemContents) -> Self {
        Self { tried, settling: None, is_failing: false }
    }

    /// Whether these contents are new and were read twice in a row: true once for each change.
    fn is_settled_change(&mut self, read: &PemContents) -> bool {
        self.is_failing = false;
        if *read == self.tried {
            self.settling = None;
            return false;
        }
        if self.settling.as_ref() != Some(read) {
            self.settling = Some(read.clone());
            return false;
        }
        self.tried = read.clone();
        self.settling = None;
        true
    }

    /// Whether the read before this failed one succeeded.
    fn is_first_failure(&mut self) -> bool {
        self.settling = None;
        !std::mem::replace(&mut self.is_failing, true)
    }
}

fn server_config(files: &TlsFiles, contents: &PemContents) -> Result<ServerConfig, TlsFilesError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let chain = parse_certificates(&files.certificate, &contents.certificate)?;
    let key = PrivateKeyDer::from_pem_slice(&contents.key)
        .map_err(|_| TlsFilesError::NoPem { path: files.key.clone(), wanted: "private key" })?;
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable_file(&files.certificate, error))?;
    let builder = match (&files.client_ca, &contents.client_ca) {
        (Some(path), Some(pem)) => {
            let roots = root_store(path, pem)?;
            builder.with_client_cert_verifier(client_verifier(path, roots, provider)?)
        }
        (Some(_) | None, None) | (None, Some(_)) => builder.with_no_client_auth(),
    };
    let mut config =
        builder.with_single_cert(chain, key).map_err(|error| unusable_file(&files.certificate, error))?;
    config.alpn_protocols = PROTOCOLS.iter().map(|name| name.to_vec()).collect();
    Ok(config)
}

fn client_verifier(
    path: &Path,
    roots: RootCertStore,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn rustls::server::danger::ClientCertVerifier>, TlsFilesError> {
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|error| unusable_file(path, error))
}

fn root_store(path: &Path, pem: &[u8]) -> Result<RootCertStore, TlsFilesError> {
    let mut roots = RootCertStore::empty();
    for certificate in parse_certificates(path, pem)? {
        roots.add(certificate).map_err(|error| unusable_file(path, error))?;
    }
    Ok(roots)
}

/// All certificates of a file; at least one.
fn parse_certificates(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsFilesError> {
    let found: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|error| unusable_file(path, error))?;
    if found.is_empty() {
        return Err(TlsFilesError::NoPem { path: path.to_owned(), wanted: "certificate" });
    }
    Ok(found)
}

fn unusable_file(path: &Path, reason: impl std::fmt::Display) -> TlsFilesError {
    TlsFilesError::Unusable { path: path.to_owned(), reason: reason.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(certificate: &str) -> PemContents {
        PemContents { certificate: certificate.into(), key: b"key".to_vec(), client_ca: None }
    }

    #[test]
    fn tls_change_needs_two_equal_reads() {
        let mut watch = ContentsWatch::new(contents("old"));
        assert!(!watch.is_settled_change(&contents("old")));
        assert!(!watch.is_settled_change(&contents("ne")), "half written");
        assert!(!watch.is_settled_change(&contents("new")));
        assert!(watch.is_settled_change(&contents("new")));
        assert!(!watch.is_settled_change(&contents("new")), "adopted already");
        assert!(!watch.is_settled_change(&contents("old")));
        assert!(watch.is_settled_change(&contents("old")), "and back");
    }

    #[test]
    fn unreadable_tls_file_is_reported_once() {
        let mut watch = ContentsWatch::new(contents("old"));
        assert!(!watch.is_settled_change(&contents("new")));
        assert!(watch.is_first_failure());
        assert!(!watch.is_first_failure());
        assert!(!watch.is_settled_change(&contents("new")));
        assert!(watch.is_settled_change(&contents("new")));
        assert!(watch.is_first_failure());
    }

    #[test]
    fn broken_certificate_keeps_old_one() {
        let (ca, directory) = (millstream_testkit::TestCa::new("servers"), tempfile::tempdir().unwrap());
        let (certificate, key) = ca.issue_local().write_pem_files(directory.path(), "door");
        let mut tls = ServerTls::load_files(TlsFiles { certificate, key, client_ca: None }).unwrap();
        let served = |tls: &ServerTls| tls.current.0.read().unwrap().clone();
        let (first, fresh) = (served(&tls), ca.issue_local());
        // The certificate of one pair with the key of another, and a text that is none.
        for broken in [fresh.certificate.as_str(), "-----BEGIN CERTIFICATE-----\nnonsense"] {
            std::fs::write(&tls.files.certificate, broken).unwrap();
            for _ in 0..3 {
                tls.adopt_contents(PemContents::read_files(&tls.files));
            }
            assert!(Arc::ptr_eq(&served(&tls), &first), "{broken}");
        }
        fresh.write_pem_files(directory.path(), "door");
        for _ in 0..2 {
            tls.adopt_contents(PemContents::read_files(&tls.files));
        }
        assert!(!Arc::ptr_eq(&served(&tls), &first));
    }

    #[test]
    fn tls_error_names_the_file() {
        let missing = TlsFiles { certificate: "/nowhere/tls.crt".into(), key: "x".into(), client_ca: None };
        let error = ServerTls::load_files(missing.clone()).unwrap_err().to_string();
        assert!(error.contains("/nowhere/tls.crt cannot be read"), "{error}");
        let error = server_config(&missing, &contents("nothing")).unwrap_err().to_string();
        assert!(error.contains("/nowhere/tls.crt holds no certificate"), "{error}");
    }
}
