//! HTTP actions and the addresses that they may reach.

use millstream_model::status::{ActionStatus, EventStatus};
use millstream_testkit::certificates::TlsFront;
use millstream_testkit::sink::SinkAnswer;
use millstream_testkit::{TestCa, TestSink};
use millstream_worker::HttpOptions;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::bench::WorkerBench;

/// Performs one GET and returns the action's status and error.
async fn call(bench: &WorkerBench, url: &str, http: HttpOptions) -> (ActionStatus, String) {
    bench
        .define(&format!(
            r#"
name: job
initial: open
states:
  open: {{ on: {{ go: {{ do: [call] }}, close: {{ to: closed }} }} }}
  closed: {{ final: true }}
actions:
  call: {{ http: {{ method: GET, url: "{url}", headers: {{ authorization: "Bearer secret" }} }}, retry: {{ attempts: 1 }} }}
"#
        ))
        .await;
    let mut options = bench.options();
    options.http = http;
    let _worker = bench.worker_with(options);
    let id = format!("x{:x}", bench.now().as_millis());
    let key = bench.start("job", &id).await;
    let go = bench.send(&key, "go", "null").await;
    millstream_testkit::eventually(millstream_testkit::eventually::PATIENCE, || async {
        let status = bench.event(go).await.status;
        if status.is_final() { Ok(()) } else { Err(status) }
    })
    .await;
    let action = bench.stores.execution_views.list_actions(&key, None, 100).await.unwrap().remove(0);
    (action.status, action.error.map(|error| error.to_string()).unwrap_or_default())
}

fn loopback_only() -> HttpOptions {
    HttpOptions { allow: vec!["127.0.0.1/32".parse().unwrap()], ..HttpOptions::default() }
}

#[tokio::test]
async fn http_loopback_needs_permission() {
    let sink = TestSink::start().await;
    let (status, error) = call(&WorkerBench::new(), &sink.url("/x"), HttpOptions::default()).await;
    assert_eq!(status, ActionStatus::Failed);
    assert!(error.contains("forbidden") && error.contains("loopback"), "{error}");
    assert_eq!(sink.recorded_calls().len(), 0, "it was reached");
    let (status, error) = call(&WorkerBench::new(), &sink.url("/x"), loopback_only()).await;
    assert_eq!((status, error.as_str()), (ActionStatus::Succeeded, ""));
}

#[tokio::test]
async fn hostname_of_private_address_is_refused() {
    let sink = TestSink::start().await;
    let url = sink.url("/x").replace("127.0.0.1", "localhost");
    let (status, error) = call(&WorkerBench::new(), &url, HttpOptions::default()).await;
    assert_eq!(status, ActionStatus::Failed);
    assert!(error.contains("forbidden"), "{error}");
    assert_eq!(sink.recorded_calls().len(), 0);
}

#[tokio::test]
async fn redirect_to_private_address_is_refused() {
    let sink = TestSink::start().await;
    for target in [
        "http://169.254.169.254/latest/meta-data",
        "http://[::1]:9/x",
        "http://10.0.0.1/x",
        "file:///etc/passwd",
    ] {
        sink.set_answers("/away", [SinkAnswer::Header(302, "location", target.to_owned())]);
        let (status, error) = call(&WorkerBench::new(), &sink.url("/away"), loopback_only()).await;
        assert_eq!(status, ActionStatus::Failed, "{target}");
        assert!(error.contains("forbidden"), "{target}: {error}");
    }
}

#[tokio::test]
async fn http_redirects_are_limited() {
    let sink = TestSink::start().await;
    sink.set_answers("/a", [SinkAnswer::Header(307, "location", "/b".to_owned())]);
    sink.set_answers("/b", [SinkAnswer::Header(302, "location", sink.url("/c"))]);
    let (status, error) = call(&WorkerBench::new(), &sink.url("/a"), loopback_only()).await;
    assert_eq!((status, error.as_str()), (ActionStatus::Succeeded, ""));
    assert_eq!(sink.calls_to("/c")[0].header("authorization"), Some("Bearer secret"), "the same origin");

    sink.set_answers("/round", [SinkAnswer::Header(302, "location", "/round".to_owned())]);
    let (status, error) = call(&WorkerBench::new(), &sink.url("/round"), loopback_only()).await;
    assert_eq!(status, ActionStatus::Failed);
    assert!(error.contains("redirects"), "{error}");
    assert_eq!(sink.calls_to("/round").len(), 6);
}

#[tokio::test]
async fn redirected_credentials_stay_with_origin() {
    let (sink, other) = (TestSink::start().await, TestSink::start().await);
    sink.set_answers("/away", [SinkAnswer::Header(302, "location", other.url("/here"))]);
    let (status, _) = call(&WorkerBench::new(), &sink.url("/away"), loopback_only()).await;
    assert_eq!(status, ActionStatus::Succeeded);
    assert_eq!(other.calls_to("/here")[0].header("authorization"), None);
}

#[tokio::test]
async fn oversized_http_answer_is_refused() {
    let sink = TestSink::start().await;
    sink.set_answers("/long", [SinkAnswer::Json(200, serde_json::json!("x".repeat(5000)))]);
    let http = HttpOptions { max_response: 4000, ..loopback_only() };
    let (status, error) = call(&WorkerBench::new(), &sink.url("/long"), http).await;
    assert_eq!(status, ActionStatus::Failed);
    assert!(error.contains("longer than 4000 bytes"), "{error}");
}

#[tokio::test]
async fn http_result_must_fit_into_event() {
    let sink = TestSink::start().await;
    // Within the limit as read, beyond it as JSON: every quote is escaped.
    let quotes = serde_json::json!("\"".repeat(60_000));
    sink.set_answers("/quotes", [SinkAnswer::Json(200, serde_json::json!({ "text": quotes.to_string() }))]);
    let (status, error) = call(&WorkerBench::new(), &sink.url("/quotes"), loopback_only()).await;
    assert_eq!(status, ActionStatus::Failed);
    let longest = HttpOptions::default().max_response;
    assert!(error.contains("\"response\"") && error.contains(&longest.to_string()), "{error}");
    assert!(error.contains("worker.http_max_response"), "{error}");

    sink.set_answers("/fits", [SinkAnswer::Json(200, serde_json::json!("x".repeat(180 * 1024)))]);
    let (status, error) = call(&WorkerBench::new(), &sink.url("/fits"), loopback_only()).await;
    assert_eq!((status, error.as_str()), (ActionStatus::Succeeded, ""));
}

#[tokio::test]
async fn long_error_text_keeps_http_status() {
    let sink = TestSink::start().await;
    sink.set_answers("/sorry", [SinkAnswer::Json(503, serde_json::json!("x".repeat(300 * 1024)))]);
    let (status, error) = call(&WorkerBench::new(), &sink.url("/sorry"), loopback_only()).await;
    assert_eq!(status, ActionStatus::Failed);
    assert!(error.contains("503") && error.len() < 2000, "{error}");
}

#[tokio::test]
async fn slow_http_target_is_retried() {
    let (bench, sink) = (WorkerBench::new(), TestSink::start().await);
    sink.set_answers("/slow", [SinkAnswer::Hold(200), SinkAnswer::Status(200)]);
    bench
        .define(&format!(
            r#"
name: job
initial: open
states:
  open: {{ on: {{ go: {{ do: [call] }}, close: {{ to: closed }} }} }}
  closed: {{ final: true }}
actions:
  call: {{ http: {{ method: GET, url: "{}" }}, timeout: 50ms, retry: {{ attempts: 3, backoff: 5ms }} }}
"#,
            sink.url("/slow")
        ))
        .await;
    let _worker = bench.worker();
    let key = bench.start("job", "a").await;
    let go = bench.send(&key, "go", "null").await;
    bench.until_event(go, EventStatus::Completed).await;
    assert!(sink.calls_to("/slow").len() >= 2);
}

#[tokio::test]
async fn trusted_private_ca_is_accepted() {
    let (ca, sink) = (TestCa::new("private"), TestSink::start().await);
    let target = sink.url("").trim_start_matches("http://").parse().unwrap();
    let front = TlsFront::in_front_of(target, &ca.issue_local()).await;
    let url = format!("{}/x", front.url());
    let (status, error) = call(&WorkerBench::new(), &url, loopback_only()).await;
    assert_eq!(status, ActionStatus::Failed);
    assert!(error.contains("certificate"), "{error}");
    assert_eq!(sink.recorded_calls().len(), 0, "it was reached");
    let private_roots = vec![CertificateDer::from_pem_slice(ca.pem.as_bytes()).unwrap()];
    let (status, error) =
        call(&WorkerBench::new(), &url, HttpOptions { private_roots, ..loopback_only() }).await;
    assert_eq!((status, error.as_str()), (ActionStatus::Succeeded, ""));
}
