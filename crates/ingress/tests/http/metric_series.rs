//! Metrics: no request creates a series.

use axum::body::Body;
use axum::http::{Method, Request};
use metrics_exporter_prometheus::PrometheusBuilder;

use crate::bench::{Bench, header, open_options};

/// Every series, without its value.
fn series(page: &str) -> Vec<String> {
    let lines = page.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let mut series: Vec<String> =
        lines.filter_map(|line| line.rsplit_once(' ').map(|(series, _)| series.to_owned())).collect();
    series.sort();
    series
}

fn call(path: &str) -> Request<Body> {
    let request = Request::builder().method(Method::POST).uri(path);
    request.header("content-type", "application/grpc").body(Body::empty()).unwrap()
}

#[tokio::test]
async fn rejected_paths_create_no_metric_series() {
    let mut options = open_options();
    options.limits.in_flight = 0;
    let bench = Bench::with(options, |stores, streams| (stores, streams));
    let recorder = PrometheusBuilder::new().build_recorder();
    let _here = metrics::set_default_local_recorder(&recorder);
    let long = "x".repeat(10_000);
    let all = async |n: usize| {
        for service in ["grpc.health.v1.Health", "millstream.v1.WorkflowService", "no.such.Service"] {
            let short = bench.send(call(&format!("/{service}/{n}"))).await;
            assert!(short.headers.contains_key("grpc-status"), "{short:?}");
            // Rejected by its length, its host, its headers, and because the ingress is busy.
            bench.send(call(&format!("/{service}/{n}-{long}"))).await;
            bench.send(header(call(&format!("/{service}/{n}")), "host", "evil.example")).await;
            bench.send(header(call(&format!("/{service}/{n}")), "x-long", &long.repeat(2))).await;
        }
        for path in [format!("/v1/executions/{n}"), format!("/nothing/{n}"), format!("/v1/{n}{long}")] {
            let method = Method::from_bytes(format!("M{n}").as_bytes()).unwrap();
            bench.send(Request::builder().uri(&path).body(Body::empty()).unwrap()).await;
            bench.send(Request::builder().method(method).uri(&path).body(Body::empty()).unwrap()).await;
        }
    };
    all(0).await;
    let before = series(&recorder.handle().render());
    assert!(before.iter().any(|series| series.contains("method=\"other\"")), "{before:?}");
    for n in 1..20 {
        all(n).await;
    }
    assert_eq!(series(&recorder.handle().render()), before);
}
