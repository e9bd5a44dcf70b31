//! Executors with TLS: verified by the host of their address, and trusted by a private CA.

use std::time::Duration;

use millstream_rpc::client::{CallFailure, ExecutorClientOptions, ExecutorClients};
use millstream_rpc::proto::ExecuteNodeResponse;
use millstream_testkit::TestCa;
use millstream_testkit::certificates::TlsFront;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::executor::{RunningServer, call, in_time, raw, request, serve, trusted};

async fn executor() -> RunningServer {
    serve(|_| async { Ok(ExecuteNodeResponse { status: 3, ..Default::default() }) }).await
}

fn trusting(ca: &TestCa) -> ExecutorClients {
    let private_roots = vec![CertificateDer::from_pem_slice(ca.pem.as_bytes()).unwrap()];
    ExecutorClients::new(ExecutorClientOptions { private_roots, ..ExecutorClientOptions::default() })
}

#[tokio::test]
async fn executor_with_trusted_ca_is_called() {
    let (ca, executor) = (TestCa::new("private"), executor().await);
    let front = TlsFront::in_front_of(executor.address, &ca.issue_local()).await;
    let answer = trusting(&ca).execute_node(&trusted(&front.url()), request(), in_time()).await.unwrap();
    assert_eq!(answer.status, 3);

    let failure = call(&front.url()).await.unwrap_err();
    assert!(matches!(&failure, CallFailure::Unreachable(why) if why.contains("certificate")), "{failure}");
}

#[tokio::test]
async fn executor_with_foreign_certificate_is_refused() {
    let (ca, executor) = (TestCa::new("private"), executor().await);
    let front = TlsFront::in_front_of(executor.address, &ca.issue_certificate(&["elsewhere.example"])).await;
    let called = trusting(&ca).execute_node(&trusted(&front.url()), request(), in_time()).await;
    let failure = called.unwrap_err();
    assert!(matches!(&failure, CallFailure::Unreachable(why) if why.contains("certificate")), "{failure}");
}

#[tokio::test]
async fn stalled_tls_handshake_is_unreachable() {
    let silent = raw(|stream| async move {
        let _open = stream;
        std::future::pending::<()>().await;
    })
    .await;
    let url = silent.url().replace("http://", "https://");
    let executors = ExecutorClients::new(ExecutorClientOptions {
        connect_timeout: Duration::from_millis(50),
        ..ExecutorClientOptions::default()
    });
    let failure = executors.execute_node(&trusted(&url), request(), in_time()).await.unwrap_err();
    assert!(matches!(failure, CallFailure::Unreachable(_)), "{failure}");
}
