//! Executors with TLS: verified by the host of their address, and trusted by a private CA.

use std::time::Duration;

use millstream_rpc::client::{CallFailure, Executors, Options};
use millstream_rpc::proto::ExecuteNodeResponse;
use millstream_testkit::TestCa;
use millstream_testkit::certificates::TlsFront;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::executor::{Running, call, in_time, raw, request, serve, trusted};

async fn executor() -> Running {
    serve(|_| async { Ok(ExecuteNodeResponse { status: 3, ..Default::default() }) }).await
}

fn trusting(ca: &TestCa) -> Executors {
    let private_roots = vec![CertificateDer::from_pem_slice(ca.pem.as_bytes()).unwrap()];
    Executors::new(Options { private_roots, ..Options::default() })
}

#[tokio::test]
async fn an_executor_with_tls_is_called_when_its_ca_is_trusted() {
    let (ca, executor) = (TestCa::new("private"), executor().await);
    let front = TlsFront::to(executor.address, &ca.issue_local()).await;
    let answer = trusting(&ca).execute(&trusted(&front.url()), request(), in_time()).await.unwrap();
    assert_eq!(answer.status, 3);

    let failure = call(&front.url()).await.unwrap_err();
    assert!(matches!(&failure, CallFailure::Unreachable(why) if why.contains("certificate")), "{failure}");
}

#[tokio::test]
async fn an_executor_with_the_certificate_of_another_host_is_not_called() {
    let (ca, executor) = (TestCa::new("private"), executor().await);
    let front = TlsFront::to(executor.address, &ca.issue(&["elsewhere.example"])).await;
    let called = trusting(&ca).execute(&trusted(&front.url()), request(), in_time()).await;
    let failure = called.unwrap_err();
    assert!(matches!(&failure, CallFailure::Unreachable(why) if why.contains("certificate")), "{failure}");
}

#[tokio::test]
async fn an_executor_that_never_ends_the_handshake_is_unreachable() {
    let silent = raw(|stream| async move {
        let _open = stream;
        std::future::pending::<()>().await;
    })
    .await;
    let url = silent.url().replace("http://", "https://");
    let executors =
        Executors::new(Options { connect_timeout: Duration::from_millis(50), ..Options::default() });
    let failure = executors.execute(&trusted(&url), request(), in_time()).await.unwrap_err();
    assert!(matches!(failure, CallFailure::Unreachable(_)), "{failure}");
}
