//! Calls without a key, or with keys that do not exist: over HTTP/1.1, and over HTTP/2 as gRPC.

use std::time::Duration;

use axum::http::Request;
use bytes::Bytes;
use h2::client::SendRequest;
use millstream_testkit::TestClient;
use reqwest::Method;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::AttackScene;

const CONNECTIONS: usize = 17;
const CALLS_PER_CONNECTION: usize = 240;
/// Pause between attempts of a refused attack.
const PAUSE: Duration = Duration::from_millis(100);

/// Paths of up to 60 KB, each different, as gRPC and as plain requests.
pub(super) async fn send_paths(scene: &AttackScene) {
    let mut number = 0_u64;
    let client = TestClient::new(&scene.fleet.url);
    while !scene.is_over() {
        let Some(mut calls) = connect_http2(scene).await else { continue };
        for _ in 0..50 {
            number += 1;
            let filler = "x".repeat(60_000);
            let path = format!("/grpc.health.v1.Health/{number}-{filler}");
            let Some((sender, response)) = call_anonymously(scene, calls, &path, true).await else { break };
            calls = sender;
            let answered = tokio::time::timeout(Duration::from_secs(5), response).await;
            scene.add_count(if matches!(answered, Ok(Ok(_))) { "gRPC answers" } else { "gRPC cut off" }, 1);
            let path = format!("/v1/unknown-{number}-{}", "y".repeat(500));
            scene.add_status(&client.request(Method::GET, &path).send().await);
            if scene.is_over() {
                return;
            }
        }
    }
}

/// Calls that never send their message.
pub(super) async fn open_empty_calls(scene: &AttackScene) {
    let mut connections = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let scene = scene.clone();
        connections.spawn(async move {
            while !scene.is_over() {
                hold_calls(&scene, "/millstream.v1.WorkflowService/GetWorkflow", false).await;
            }
        });
    }
    scene.sleep_until_over().await;
    connections.shutdown().await;
}

/// Health watches, which are streams that never end.
pub(super) async fn open_health_watches(scene: &AttackScene) {
    let mut connections = JoinSet::new();
    for _ in 0..3 {
        let scene = scene.clone();
        connections.spawn(async move {
            while !scene.is_over() {
                hold_calls(&scene, "/grpc.health.v1.Health/Watch", true).await;
            }
        });
    }
    scene.sleep_until_over().await;
    connections.shutdown().await;
}

/// One connection with the maximum number of open calls, until it breaks or time is over.
async fn hold_calls(scene: &AttackScene, path: &str, with_message: bool) {
    let Some(mut calls) = connect_http2(scene).await else { return };
    let mut held = Vec::new();
    for _ in 0..CALLS_PER_CONNECTION {
        let opened =
            tokio::time::timeout(PAUSE * 5, call_anonymously(scene, calls, path, with_message)).await;
        let Ok(Some((sender, response))) = opened else { break };
        calls = sender;
        held.push(tokio::spawn(response));
    }
    scene.add_count("calls held open", held.len() as u64);
    // Calls that were answered or cut off are opened again.
    while !scene.is_over() && held.iter().any(|call| !call.is_finished()) {
        tokio::time::sleep(PAUSE).await;
    }
    for call in held {
        call.abort();
    }
    tokio::time::sleep(PAUSE).await;
}

type AnonymousResponse = std::pin::Pin<Box<dyn Future<Output = Result<(), h2::Error>> + Send>>;

async fn connect_http2(scene: &AttackScene) -> Option<SendRequest<Bytes>> {
    let opened = async {
        let tcp = TcpStream::connect(scene.fleet.address()).await.ok()?;
        let (calls, connection) = h2::client::handshake(tcp).await.ok()?;
        tokio::spawn(connection);
        Some(calls)
    };
    let calls = tokio::time::timeout(Duration::from_secs(5), opened).await.ok().flatten();
    scene.add_count(if calls.is_some() { "connections" } else { "connections refused" }, 1);
    if calls.is_none() {
        tokio::time::sleep(PAUSE).await;
    }
    calls
}

/// Opens a call; its message is empty, or never comes.
async fn call_anonymously(
    scene: &AttackScene,
    calls: SendRequest<Bytes>,
    path: &str,
    with_message: bool,
) -> Option<(SendRequest<Bytes>, AnonymousResponse)> {
    let mut calls = calls.ready().await.ok()?;
    let uri = format!("{}{path}", scene.fleet.url);
    let request = Request::post(uri)
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())
        .ok()?;
    let (response, mut body) = calls.send_request(request, false).ok()?;
    scene.add_count("calls", 1);
    if with_message {
        body.send_data(Bytes::from_static(&[0; 5]), true).ok()?;
    }
    let response = async move {
        let answer = response.await?;
        let mut stream = answer.into_body();
        while let Some(piece) = stream.data().await {
            let piece = piece?;
            let _ = stream.flow_control().release_capacity(piece.len());
        }
        // A call without its message stays open on the client's side for as long as the server lets it.
        drop(body);
        Ok(())
    };
    Some((calls, Box::pin(response)))
}

/// Keys that do not exist, each tried once.
pub(super) async fn guess_keys(scene: &AttackScene) {
    let mut guesses = JoinSet::new();
    for number in 0..8 {
        let scene = scene.clone();
        let mut chance = scene.chance.for_the(&format!("guess {number}"));
        guesses.spawn(async move {
            let client = TestClient::new(&scene.fleet.url);
            while !scene.is_over() {
                let guess = client.with_key(&format!("ms_{:064x}", chance.draw()));
                scene.add_status(&guess.request(Method::GET, "/v1/definitions").send().await);
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
    }
    guesses.join_all().await;
}
