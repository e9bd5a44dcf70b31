//! TLS: both versions of HTTP, gRPC, client certificates, and reloading of certificates.

use std::path::PathBuf;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, StatusCode, Version};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use millstream_ingress::{IngressListeners, IngressOptions, ServerTls, TlsFiles, TlsListener, run_ingress};
use millstream_testkit::certificates::connect_tls;
use millstream_testkit::eventually::PATIENCE;
use millstream_testkit::{TestCa, TestCertificate, eventually};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;
use tonic::transport::Endpoint;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::bench::{deps, open_options};
use crate::wire::Served;

/// A CA, the certificate files of an ingress, and the ingress.
struct TlsDoor {
    ca: TestCa,
    certificate: TestCertificate,
    door: Served,
    directory: TempDir,
}

async fn open(client_ca: Option<&TestCa>) -> TlsDoor {
    let (ca, directory) = (TestCa::new("servers"), tempfile::tempdir().unwrap());
    let certificate = ca.issue_local();
    let (file, key) = certificate.write_pem_files(directory.path(), "door");
    let client_ca: Option<PathBuf> = client_ca.map(|ca| {
        let file = directory.path().join("clients.crt");
        ca.write_pem(&file);
        file
    });
    let door = serve_tls(open_options(), TlsFiles { certificate: file, key, client_ca }).await;
    TlsDoor { ca, certificate, door, directory }
}

/// An ingress that listens with TLS only.
async fn serve_tls(options: IngressOptions, files: TlsFiles) -> Served {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let tls = Some(TlsListener { listener, tls: ServerTls::load_files(files).unwrap() });
    let (deps, shutdown) = (deps(), CancellationToken::new());
    let listeners = IngressListeners { plain: None, tls };
    let ended = tokio::spawn(run_ingress(deps.clone(), options, listeners, shutdown.clone()));
    Served { address, deps, shutdown, ended }
}

impl TlsDoor {
    /// The certificate that a new connection gets.
    async fn shown(&self) -> Vec<u8> {
        let stream = connect_tls(&self.ca.tls_connector(None, &[]), self.door.address).await.unwrap();
        stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
    }

    /// The answer of `/healthz` on a new connection; `None` when the connection is rejected.
    async fn status_for(&self, connector: &TlsConnector) -> Option<StatusCode> {
        let stream = connect_tls(connector, self.door.address).await.ok()?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.ok()?;
        tokio::spawn(connection);
        sender.send_request(healthz()).await.ok().map(|answer| answer.status())
    }

    async fn until_shown(&self, certificate: &TestCertificate) {
        let wanted = certificate.certificate_chain()[0].to_vec();
        eventually(PATIENCE, || async {
            if self.shown().await == wanted { Ok(()) } else { Err("another certificate is shown") }
        })
        .await;
    }
}

fn healthz() -> Request<Body> {
    Request::get("https://localhost/healthz").header("host", "localhost").body(Body::empty()).unwrap()
}

#[tokio::test]
async fn alpn_selects_http_version() {
    let TlsDoor { ca, door, directory: _directory, .. } = open(None).await;
    let stream = connect_tls(&ca.tls_connector(None, &["h2", "http/1.1"]), door.address).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (mut sender, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let answer = sender.send_request(healthz()).await.unwrap();
    assert_eq!((answer.status(), answer.version()), (StatusCode::OK, Version::HTTP_2));

    for offered in [&["http/1.1"][..], &[]] {
        let stream = connect_tls(&ca.tls_connector(None, offered), door.address).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let answer = sender.send_request(healthz()).await.unwrap();
        assert_eq!((answer.status(), answer.version()), (StatusCode::OK, Version::HTTP_11));
    }
}

#[tokio::test]
async fn grpc_is_served_over_tls() {
    let TlsDoor { ca, door, directory: _directory, .. } = open(None).await;
    let (connector, address) = (ca.tls_connector(None, &["h2"]), door.address);
    let dialling = tower::service_fn(move |_| {
        let connector = connector.clone();
        async move { connect_tls(&connector, address).await.map(TokioIo::new) }
    });
    let channel = Endpoint::from_static("http://localhost").connect_with_connector(dialling).await.unwrap();
    let asked = HealthCheckRequest { service: String::new() };
    let status = HealthClient::new(channel).check(asked).await.unwrap().into_inner().status();
    assert_eq!(status, ServingStatus::Serving);
}

#[tokio::test]
async fn client_ca_requires_client_certificate() {
    let (clients, others) = (TestCa::new("clients"), TestCa::new("others"));
    let tls = open(Some(&clients)).await;
    let (good, foreign) = (clients.issue_certificate(&["cli"]), others.issue_certificate(&["cli"]));
    for (identity, status) in [(None, None), (Some(&foreign), None), (Some(&good), Some(StatusCode::OK))] {
        let connector = tls.ca.tls_connector(identity, &["http/1.1"]);
        assert_eq!(tls.status_for(&connector).await, status, "{identity:?}");
    }
}

#[tokio::test]
async fn unfinished_tls_handshake_times_out() {
    let (ca, directory) = (TestCa::new("servers"), tempfile::tempdir().unwrap());
    let (certificate, key) = ca.issue_local().write_pem_files(directory.path(), "door");
    let mut options = open_options();
    options.limits.head_timeout = Duration::from_millis(100);
    let files = TlsFiles { certificate, key, client_ca: None };
    let door = serve_tls(options, files.clone()).await;
    let mut silent = door.connect().await;
    assert_eq!(silent.rest().await, "", "cut off without an answer");

    let door = serve_tls(open_options(), files).await;
    let mut silent = door.connect().await;
    door.shutdown.cancel();
    silent.rest().await;
    let ended = tokio::time::timeout(PATIENCE, door.ended).await;
    ended.expect("the drain did not end").unwrap().unwrap();
}

#[tokio::test]
async fn tls_port_rejects_plain_http() {
    let TlsDoor { door, directory: _directory, .. } = open(None).await;
    let answer = door.request("GET", "/healthz", "", "").await;
    assert!(!answer.contains("HTTP/1.1"), "{answer}");
}

#[tokio::test]
async fn changed_certificate_keeps_open_connections() {
    let tls = open(None).await;
    let stream = connect_tls(&tls.ca.tls_connector(None, &["h2"]), tls.door.address).await.unwrap();
    let (mut sender, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    tls.until_shown(&tls.certificate).await;

    let fresh = tls.ca.issue_local();
    fresh.write_pem_files(tls.directory.path(), "door");
    tls.until_shown(&fresh).await;
    assert_eq!(sender.send_request(healthz()).await.unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn replaced_client_ca_rejects_old_certificates() {
    let (clients, others) = (TestCa::new("clients"), TestCa::new("others"));
    let tls = open(Some(&clients)).await;
    let (old, new) = (clients.issue_certificate(&["cli"]), others.issue_certificate(&["cli"]));
    // A connector shared between connections would resume a session.
    let connector = tls.ca.tls_connector(Some(&old), &[]);
    assert_eq!(tls.status_for(&connector).await, Some(StatusCode::OK));
    others.write_pem(&tls.directory.path().join("clients.crt"));
    let newcomer = tls.ca.tls_connector(Some(&new), &[]);
    eventually(PATIENCE, || async { tls.status_for(&newcomer).await.ok_or("refused") }).await;
    assert_eq!(tls.status_for(&connector).await, None);
}
