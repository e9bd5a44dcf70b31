//! Certificates of a private CA, made in the test, and TLS on both sides with them.
//!
//! Nothing outside of the test trusts them. [`TlsFront`] puts TLS in front of a plain server, so that a test can have
//! any of its servers behind TLS without a second implementation of it.

use std::fs::Permissions;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::client::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// A certificate authority of one test.
pub struct TestCa {
    issuer: Issuer<'static, KeyPair>,
    /// Its certificate.
    pub pem: String,
}

/// A certificate with its key, good for servers and for clients.
#[derive(Debug, Clone)]
pub struct TestCertificate {
    pub certificate: String,
    pub key: String,
}

impl TestCa {
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().expect("make a key");
        let pem = params.self_signed(&key).expect("sign a CA").pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// A certificate for these DNS names and IP addresses.
    pub fn issue_certificate(&self, names: &[&str]) -> TestCertificate {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names).expect("names of servers");
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().expect("make a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("sign a certificate").pem();
        TestCertificate { certificate, key: key.serialize_pem() }
    }

    /// For servers on loopback.
    pub fn issue_local(&self) -> TestCertificate {
        self.issue_certificate(&["127.0.0.1", "localhost"])
    }

    /// Writes the certificate of the CA to a file.
    pub fn write_pem(&self, file: &Path) {
        std::fs::write(file, &self.pem).expect("write the CA");
    }

    /// A TLS client that trusts this CA alone.
    pub fn tls_connector(&self, identity: Option<&TestCertificate>, protocols: &[&str]) -> TlsConnector {
        crate::client::install_crypto();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.pem.as_bytes()).expect("a CA")).expect("a CA");
        let builder = ClientConfig::builder().with_root_certificates(roots);
        let mut config = match identity {
            None => builder.with_no_client_auth(),
            Some(identity) => builder
                .with_client_auth_cert(identity.certificate_chain(), identity.private_key())
                .expect("a client certificate"),
        };
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        TlsConnector::from(Arc::new(config))
    }
}

impl std::fmt::Debug for TestCa {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TestCa").finish_non_exhaustive()
    }
}

impl TestCertificate {
    /// Replaces `NAME.crt` and `NAME.key` in a directory, the key readable by its owner alone; their paths.
    pub fn write_pem_files(&self, directory: &Path, name: &str) -> (PathBuf, PathBuf) {
        let place = |extension: &str, text: &str| {
            let file = directory.join(format!("{name}.{extension}"));
            let fresh = directory.join(format!("{name}.{extension}.new"));
            std::fs::write(&fresh, text).expect("write a PEM file");
            std::fs::set_permissions(&fresh, Permissions::from_mode(0o600)).expect("close a PEM file");
            std::fs::rename(&fresh, &file).expect("put a PEM file in its place");
            file
        };
        (place("crt", &self.certificate), place("key", &self.key))
    }

    /// Certificate and key in one text.
    pub fn identity_pem(&self) -> String {
        format!("{}{}", self.certificate, self.key)
    }

    pub fn certificate_chain(&self) -> Vec<CertificateDer<'static>> {
        CertificateDer::pem_slice_iter(self.certificate.as_bytes()).map(|found| found.expect("PEM")).collect()
    }

    fn private_key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::from_pem_slice(self.key.as_bytes()).expect("a key")
    }
}

/// Connects to a server on loopback and shakes hands with it as `localhost`.
pub async fn connect_tls(
    connector: &TlsConnector,
    address: SocketAddr,
) -> std::io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(address).await?;
    connector.connect(ServerName::try_from("localhost").expect("a name"), stream).await
}

/// A server with TLS that passes the bytes inside on to a plain server.
#[derive(Debug)]
pub struct TlsFront {
    address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl TlsFront {
    pub async fn in_front_of(target: SocketAddr, certificate: &TestCertificate) -> Self {
        crate::client::install_crypto();
        let mut config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(certificate.certificate_chain(), certificate.private_key())
            .expect("a certificate");
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("bind the TLS front");
        let address = listener.local_addr().expect("the address of the TLS front");
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(forward_connection(acceptor.clone(), stream, target));
            }
        });
        Self { address, accepting }
    }

    /// `https://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for TlsFront {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Clients that do not trust the certificate end here, which is what tests look for on their side.
async fn forward_connection(acceptor: TlsAcceptor, stream: TcpStream, target: SocketAddr) {
    if let Ok(mut outside) = acceptor.accept(stream).await
        && let Ok(mut inside) = TcpStream::connect(target).await
    {
        let _ = tokio::io::copy_bidirectional(&mut outside, &mut inside).await;
    }
}
