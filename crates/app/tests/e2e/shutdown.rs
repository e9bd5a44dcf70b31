//! Shutdown: drains lose nothing and exit 0; an engine's directory belongs to one process.

use std::process::Stdio;
use std::time::Duration;

use millstream_testkit::sink::SinkAnswer;
use millstream_testkit::{FleetMode, TestSink, eventually, port};
use nix::sys::signal::Signal;
use serde_json::json;

use crate::definitions::{CHARGE, COUNTER, definition_with_sink};
use crate::world::{E2eWorld, EMBEDDED, FLEET, SOON, start_world};

both_modes!(
    drain_exits_0_and_loses_nothing,
    drain_lets_running_action_finish,
    second_signal_ends_process_at_once,
);

/// The processes that do the work: the whole engine, or every worker there was at the start.
async fn stop_workers(world: &mut E2eWorld, workers: usize) {
    match world.fleet.mode() {
        FleetMode::Embedded => {
            let status = world.fleet.stop_ingress().await;
            assert!(status.success(), "{status}: {}", world.fleet.ingress().output_text());
        }
        FleetMode::Fleet { .. } => {
            for index in 0..workers {
                let status = world.fleet.stop_worker(index).await;
                assert!(status.success(), "{status}: {}", world.fleet.worker(index).output_text());
            }
        }
    }
}

async fn start_again(world: &mut E2eWorld) {
    match world.fleet.mode() {
        FleetMode::Embedded => world.fleet.start_ingress(&[]).await,
        FleetMode::Fleet { .. } => drop(world.fleet.start_worker(&[])),
    }
}

async fn drain_exits_0_and_loses_nothing(mode: FleetMode) {
    const EVENTS: usize = 600;
    let mut world = start_world(mode).await;
    world.api.apply(COUNTER).await;
    for i in 0..6 {
        let body = json!({ "definition": "counter", "execution_id": format!("c-{i}") });
        world.api.client.post("/v1/executions", &body).await.expect_status(201);
    }
    let events: Vec<_> = (0..EVENTS)
        .map(|n| json!({ "execution_id": format!("c-{}", n % 6), "name": "add", "payload": { "i": n / 6 } }))
        .collect();
    world.api.client.post("/v1/events", &json!(events)).await.expect_status(202);
    stop_workers(&mut world, 2).await;
    start_again(&mut world).await;
    for i in 0..6 {
        let counted =
            world.api.execution_until(&format!("c-{i}"), |seen| seen["context"]["n"] == EVENTS / 6).await;
        assert_eq!(counted["context"]["seen"], json!((0..EVENTS / 6).collect::<Vec<_>>()));
    }
}

async fn drain_lets_running_action_finish(mode: FleetMode) {
    let sink = TestSink::start().await;
    sink.set_answers("/charge/1", [SinkAnswer::Hold(200)]);
    let mode = if mode == EMBEDDED { mode } else { FleetMode::Fleet { workers: 1 } };
    let mut world = start_world(mode).await;
    world.api.apply(&definition_with_sink(CHARGE, &sink)).await;
    let id = world.api.start("charge", json!({ "order_id": 1 })).await;
    let pay = world.api.send(&id, "pay", json!({ "amount": 1 })).await;
    wait_for_call(&sink).await;
    // The first is polled first: the process gets the signal before the action may end.
    tokio::join!(stop_workers(&mut world, 1), async { sink.release_held() });
    start_again(&mut world).await;
    let settled = world.api.settled_event(&pay).await;
    assert_eq!(settled["status"], "completed", "{settled}");
    world.api.execution_in(&id, "completed").await;
    assert_eq!(sink.recorded_calls().len(), 1, "it was not repeated");
}

async fn second_signal_ends_process_at_once(mode: FleetMode) {
    let sink = TestSink::start().await;
    sink.set_answers("/charge/1", [SinkAnswer::Hold(200)]);
    let mode = if mode == EMBEDDED { mode } else { FleetMode::Fleet { workers: 1 } };
    let mut world = start_world(mode).await;
    world.api.apply(&definition_with_sink(CHARGE, &sink)).await;
    let id = world.api.start("charge", json!({ "order_id": 1 })).await;
    let pay = world.api.send(&id, "pay", json!({ "amount": 1 })).await;
    wait_for_call(&sink).await;
    let daemon = if mode == EMBEDDED { world.fleet.ingress() } else { world.fleet.worker(0) };
    daemon.signal(Signal::SIGTERM);
    // A signal that comes while the first is being delivered would be merged with it, so it is
    // repeated until the process is gone; the drain alone would take 25 s.
    eventually(Duration::from_secs(10), || {
        daemon.signal(Signal::SIGTERM);
        std::future::ready(daemon.exit_status().ok_or("it still runs"))
    })
    .await;
    sink.set_answers("/charge/1", [SinkAnswer::Status(200)]);
    start_again(&mut world).await;
    assert_eq!(world.api.settled_event(&pay).await["status"], "completed");
}

async fn wait_for_call(sink: &TestSink) {
    eventually(SOON, || {
        std::future::ready(if sink.recorded_calls().is_empty() {
            Err("the action has not begun")
        } else {
            Ok(())
        })
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn second_engine_on_directory_is_refused() {
    let mut world = start_world(EMBEDDED).await;
    let dir = world.fleet.sqlite_file().parent().unwrap().to_owned();
    let second = |dir: &std::path::Path| {
        let mut command = world.fleet.command(&[]);
        command
            .arg("dev")
            .arg("--dir")
            .arg(dir)
            .args(["--listen", &format!("127.0.0.1:{}", port::free_port())]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).output().expect("run the binary")
    };
    let refused = second(&dir);
    assert!(!refused.status.success(), "{refused:?}");
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        message.contains("in use") && message.contains("--dir"),
        "it says what is wrong and what to do: {message}"
    );
    assert_eq!(world.fleet.ingress().exit_status(), None, "the first one is not disturbed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ingress_refuses_keyless_public_address() {
    let world = start_world(FleetMode::Fleet { workers: 0 }).await;
    let listen = format!("0.0.0.0:{}", port::free_port());
    let refused = world.fleet.run_cli(["ingress", "--listen", &listen]);
    assert!(!refused.status.success(), "{refused:?}");
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(message.contains("keys create") && message.contains("--insecure-no-auth"), "{message}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn contradicting_settings_are_refused_at_start() {
    let mut world = start_world(FLEET).await;
    let env = [("MILLSTREAM_WORKER__LOCK_TTL", "10s"), ("MILLSTREAM_WORKER__RECLAIM_IDLE", "5s")];
    let worker = world.fleet.start_worker(&env);
    let status = world.fleet.worker(worker).wait_for_exit(SOON).await;
    assert!(!status.success());
    assert!(
        world.fleet.worker(worker).output_text().contains("lock_ttl"),
        "{}",
        world.fleet.worker(worker).output_text()
    );
}
