//! An execution whose first worker dies at a given crash point, and another worker that takes over.

use std::os::unix::process::ExitStatusExt;

use millstream_testkit::FleetMode;
use millstream_testkit::client::try_send;
use nix::sys::signal::Signal;
use reqwest::Method;
use serde_json::json;

use crate::world::{E2eWorld, SOON, start_with};

/// An engine in which nothing is performed before [`begin_and_die_at`]: a fleet has no workers yet.
pub(crate) async fn start_without_workers(mode: FleetMode) -> E2eWorld {
    let mode = match mode {
        FleetMode::Embedded => mode,
        FleetMode::Fleet { .. } => FleetMode::Fleet { workers: 0 },
    };
    start_with(mode, &[]).await
}

/// Starts an execution with the event `go`, lets its worker die at `point`, and starts another worker.
pub(crate) async fn begin_and_die_at(world: &mut E2eWorld, point: &str, definition: &str, execution: &str) {
    let crash = [("MILLSTREAM_CRASH_AT", point)];
    let body = json!({ "definition": definition, "execution_id": execution, "events": [{ "name": "go" }] });
    let begin = world.api.client.request(Method::POST, "/v1/executions").json(&body);
    let status = match world.fleet.mode() {
        FleetMode::Embedded => {
            assert!(world.fleet.stop_ingress().await.success());
            world.fleet.start_ingress(&crash).await;
            // The answer may be lost with the process.
            drop(try_send(begin).await);
            world.fleet.ingress().wait_for_exit(SOON).await
        }
        FleetMode::Fleet { .. } => {
            try_send(begin).await.expect("an answer").expect_status(201);
            let worker = world.fleet.start_worker(&crash);
            world.fleet.worker(worker).wait_for_exit(SOON).await
        }
    };
    assert_eq!(status.signal(), Some(Signal::SIGABRT as i32), "{point}: {status}");
    match world.fleet.mode() {
        FleetMode::Embedded => world.fleet.start_ingress(&[]).await,
        FleetMode::Fleet { .. } => drop(world.fleet.start_worker(&[])),
    }
}
