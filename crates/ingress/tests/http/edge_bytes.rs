//! Mutated byte streams of HTTP/1.1, HTTP/2 and gRPC, some with a valid key: no answer is a 5xx, and the
//! ingress stays alive. `scripts/fuzz edge` does the same against a process, for any length of time.

use std::future::poll_fn;
use std::pin::Pin;

use axum::body::Body;
use axum::http::{HeaderMap, Request};
use hyper::body::Body as _;
use metrics_exporter_prometheus::PrometheusBuilder;
use millstream_fuzz::edge::{EdgeInputs, is_server_error, send_input};
use millstream_ingress::{AuthMode, IngressOptions};
use millstream_model::status::Role;
use tower::ServiceExt;

use crate::bench::{Bench, deps, open_options};
use crate::wire::serve_on;

const INPUTS: usize = 300;
const THREADS: usize = 6;

#[tokio::test]
async fn mutated_bytes_never_cause_5xx() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let _here = metrics::set_default_local_recorder(&recorder);
    let deps = deps();
    let mut bench = Bench::open();
    bench.stores = deps.stores.clone();
    bench.key("ms_a", "default", Role::Admin).await;
    let door = serve_on(deps, IngressOptions { auth: AuthMode::Keys, ..open_options() }).await;
    let mut throwing = tokio::task::JoinSet::new();
    for thread in 0..THREADS {
        let address = door.address;
        throwing.spawn_blocking(move || {
            let mut inputs = EdgeInputs::seeded(thread as u64, "ms_a");
            for n in 0..INPUTS / THREADS {
                let input = inputs.next_input();
                let answer = send_input(address, &input).unwrap();
                let (sent, said) = (String::from_utf8_lossy(&input), String::from_utf8_lossy(&answer));
                assert!(
                    !is_server_error(&answer),
                    "seed {thread}, input {n}: {sent:?} was answered {said:?}"
                );
            }
        });
    }
    while let Some(ended) = throwing.join_next().await {
        ended.unwrap();
    }
    let answer = door.request("GET", "/readyz", "", "").await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let page = recorder.handle().render();
    assert!(page.contains("method=\"POST\"") && page.contains("code=\"Ok\""), "nothing got through:\n{page}");
    let failed =
        ["status=\"5", "code=\"Internal\"", "code=\"Unknown\"", "code=\"DataLoss\"", "code=\"Unavailable\""];
    let failed: Vec<&str> =
        page.lines().filter(|line| failed.iter().any(|code| line.contains(code))).collect();
    assert!(failed.is_empty(), "{failed:?}");
}

/// The body of a call that is answered in full.
async fn grpc_code(bench: &Bench, path: &str, message: &[u8]) -> Option<String> {
    let request = Request::post(path).header("content-type", "application/grpc");
    let request = request.body(Body::from(message.to_vec())).unwrap();
    let (parts, mut body) = bench.app.clone().oneshot(request).await.unwrap().into_parts();
    let mut trailers = HeaderMap::new();
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        trailers.extend(frame.unwrap().into_trailers().unwrap_or_default());
    }
    let code = parts.headers.get("grpc-status").or(trailers.get("grpc-status"));
    code.map(|code| code.to_str().unwrap().to_owned())
}

#[tokio::test]
async fn undecodable_grpc_message_is_invalid_argument() {
    let bench = Bench::open();
    let undecodable: [(&str, &[u8]); 5] = [
        ("no message", &[]),
        ("a wire type that does not exist", &[0, 0, 0, 0, 1, 0x0f]),
        ("an unknown flag", &[7, 0, 0, 0, 0]),
        ("a compressed message without an encoding", &[1, 0, 0, 0, 1, 0]),
        ("half a message", &[0, 0, 0, 0, 9, 0x0a]),
    ];
    for path in [
        "/millstream.v1.WorkflowService/CreateWorkflow",
        "/millstream.v1.WorkflowService/WatchWorkflow",
        "/millstream.v1.TaskService/LeaseTasks",
        "/millstream.v1.DeviceService/RegisterDevice",
        "/grpc.health.v1.Health/Check",
    ] {
        for (what, message) in &undecodable {
            let code = grpc_code(&bench, path, message).await;
            assert_eq!(code.as_deref(), Some("3"), "{path} with {what}");
        }
    }
    assert_eq!(grpc_code(&bench, "/grpc.health.v1.Health/Check", &[0; 5]).await.as_deref(), Some("0"));
}
