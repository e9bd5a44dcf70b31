//! HTTP actions and the addresses that they may reach.

use millstream_core::status::{ActionStatus, EventStatus};
use millstream_testkit::certificates::TlsFront;
use millstream_testkit::sink::Answer;
use millstream_testkit::{Sink, TestCa};
use millstream_worker::HttpOptions;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::bench::Bench;

/// Performs one GET and returns the action's status and error.
async fn call(bench: &Bench, url: &str, http: HttpOptions) -> (ActionStatus, String) {
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
    let action = bench.stores.execution_views.actions(&key, None, 100).await.unwrap().remove(0);
    (action.status, action.error.map(|error| error.to_string()).unwrap_or_default())
}

fn loopback_only() -> HttpOptions {
    HttpOptions { allow: vec!["127.0.0.1/32".parse().unwrap()], ..HttpOptions::default() }
}

#[tokio::test]
async fn loopback_is_refused_unless_it_is_allowed() {
    let sink = Sink::start().await;
    let (status, error) = call(&Bench::new(), &sink.url("/x"), HttpOptions::default()).await;
    assert_eq!(status, ActionStatus::Failed);
    assert!(error.contains("forbidden") && error.contains("loopback"), "{error}");
    assert_eq!(sink.calls().len(), 0, "it was reached");
    let (status, error) = call(&Bench::new(), &sink.url("/x"), loopback_only()).await;
    assert_eq!((status, error.as_str()), (ActionStatus::Succeeded, ""));
}

#[tokio::test]
async fn a_name_that_resolves_to_a_private_address_is_refused() {
    let sink = Sink::start().await;
    let url = sink.url("/x").replace("127.0.0.1", "localhost");
    let (status, error) = call(&Bench::new(), &url, HttpOptions::default()).await;
    assert_eq!(status, ActionStatus::Failed);
    assert!(error.contains("forbidden"), "{error}");
    assert_eq!(sink.calls().len(), 0);
}

#[tokio::test]
async fn a_redirect_to_a_private_address_is_refused() {
    let sink = Sink::start().await;
    for target in [
        "http://169.254.169.254/latest/meta-data",
        "http://[::1]:9/x",
        "http://10.0.0.1/x",
        "file:///etc/passwd",
    ] {
        sink.script("/away", [Answer::Header(302, "location", target.to_owned())]);
        let (status, error) = call(&Bench::new(), &sink.url("/away"), loopback_only()).await;
        assert_eq!(status, ActionStatus::Failed, "{target}");
        assert!(error.contains("forbidden"), "{target}: {error}");
    }
}

#[tokio::test]
async fn redirects_are_followed_a_few_times_and_then_given_up() {
    let sink = Sink::start().await;
    sink.script("/a", [Answer::Header(307, "location", "/b".to_owned())]);
    sink.script("/b", [Answer::Header(302, "location", sink.url("/c"))]);
    let (status, error) = call(&Bench::new(), &sink.url("/a"), loopback_only()).await;
    assert_eq!((status, error.as_str()), (ActionStatus::Succeeded, ""));
    assert_eq!(sink.calls_to("/c")[0].header("authorization"), Some("Bearer secret"), "the same origin");

    sink.script("/round", [Answer::Header(302, "location", "/round".to_owned())]);
    let (status, error) = call(&Bench::new(), &sink.url("/round"), loopback_only()).await;
    assert_eq!(status, ActionStatus::Failed);
    assert!(error.contains("redirects"), "{error}");
    assert_eq!(sink.calls_to("/round").len(), 6);
}

#[tokio::test]
async fn credentials_stay_with_their_origin() {
    let (sink, other) = (Sink::start().await, Sink::start().await);
    sink.script("/away", [Answer::Header(302, "location", other.url("/here"))]);
    let (status, _) = call(&Bench::new(), &sink.url("/away"), loopback_only()).await;
    assert_eq!(status, ActionStatus::Succeeded);
    assert_eq!(other.calls_to("/here")[0].header("authorization"), None);
}

#[tokio::test]
async fn an_answer_that_is_too_long_is_refused() {
    let sink = Sink::start().await;
    sink.script("/long", [Answer::Json(200, serde_json::json!("x".repeat(5000)))]);
    let http = HttpOptions { max_response: 4000, ..loopback_only() };
    let (status, error) = call(&Bench::new(), &sink.url("/long"), http).await;
    assert_eq!(status, ActionStatus::Failed);
    assert!(error.contains("longer than 4000 bytes"), "{error}");
}

#[tokio::test]
async fn a_result_that_would_not_fit_into_an_event_is_refused() {
    let sink = Sink::start().await;
    // Within the limit as read, beyond it as JSON: every quote is escaped.
    let quotes = serde_json::json!("\"".repeat(60_000));
    sink.script("/quotes", [Answer::Json(200, serde_json::json!({ "text": quotes.to_string() }))]);
    let (status, error) = call(&Bench::new(), &sink.url("/quotes"), loopback_only()).await;
    assert_eq!(status, ActionStatus::Failed);
    let longest = HttpOptions::default().max_response;
    assert!(error.contains("\"response\"") && error.contains(&longest.to_string()), "{error}");
    assert!(error.contains("worker.http_max_response"), "{error}");

    sink.script("/fits", [Answer::Json(200, serde_json::json!("x".repeat(180 * 1024)))]);
    let (status, error) = call(&Bench::new(), &sink.url("/fits"), loopback_only()).await;
    assert_eq!((status, error.as_str()), (ActionStatus::Succeeded, ""));
}

#[tokio::test]
async fn a_long_text_does_not_hide_the_status_that_it_comes_with() {
    let sink = Sink::start().await;
    sink.script("/sorry", [Answer::Json(503, serde_json::json!("x".repeat(300 * 1024)))]);
    let (status, error) = call(&Bench::new(), &sink.url("/sorry"), loopback_only()).await;
    assert_eq!(status, ActionStatus::Failed);
    assert!(error.contains("503") && error.len() < 2000, "{error}");
}

#[tokio::test]
async fn a_target_that_does_not_answer_in_time_is_tried_again() {
    let (bench, sink) = (Bench::new(), Sink::start().await);
    sink.script("/slow", [Answer::Hold(200), Answer::Status(200)]);
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
async fn an_https_target_of_a_private_ca_is_reached_when_the_ca_is_trusted() {
    let (ca, sink) = (TestCa::new("private"), Sink::start().await);
    let target = sink.url("").trim_start_matches("http://").parse().unwrap();
    let front = TlsFront::to(target, &ca.issue_local()).await;
    let url = format!("{}/x", front.url());
    let (status, error) = call(&Bench::new(), &url, loopback_only()).await;
    assert_eq!(status, ActionStatus::Failed);
    assert!(error.contains("certificate"), "{error}");
    assert_eq!(sink.calls().len(), 0, "it was reached");
    let private_roots = vec![CertificateDer::from_pem_slice(ca.pem.as_bytes()).unwrap()];
    let (status, error) = call(&Bench::new(), &url, HttpOptions { private_roots, ..loopback_only() }).await;
    assert_eq!((status, error.as_str()), (ActionStatus::Succeeded, ""));
}
