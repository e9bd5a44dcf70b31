//! Shutdown: drains lose nothing and exit 0; an engine's directory belongs to one process.

use std::process::Stdio;
use std::time::Duration;

use millstream_testkit::sink::Answer;
use millstream_testkit::{Mode, Sink, eventually, port};
use nix::sys::signal::Signal;
use serde_json::json;

use crate::definitions::{CHARGE, COUNTER, at};
use crate::world::{EMBEDDED, FLEET, SOON, World, start};

both_modes!(
    a_drain_in_the_middle_of_work_exits_0_and_loses_nothing,
    a_drain_lets_a_running_action_finish,
    a_second_signal_ends_it_at_once,
);

/// The processes that do the work: the whole engine, or every worker there was at the start.
async fn stop_workers(world: &mut World, workers: usize) {
    match world.fleet.mode() {
        Mode::Embedded => {
            let status = world.fleet.stop_ingress().await;
            assert!(status.success(), "{status}: {}", world.fleet.ingress().output());
        }
        Mode::Fleet { .. } => {
            for index in 0..workers {
                let status = world.fleet.stop_worker(index).await;
                assert!(status.success(), "{status}: {}", world.fleet.worker(index).output());
            }
        }
    }
}

async fn start_again(world: &mut World) {
    match world.fleet.mode() {
        Mode::Embedded => world.fleet.start_ingress(&[]).await,
        Mode::Fleet { .. } => drop(world.fleet.start_worker(&[])),
    }
}

async fn a_drain_in_the_middle_of_work_exits_0_and_loses_nothing(mode: Mode) {
    const EVENTS: usize = 600;
    let mut world = start(mode).await;
    world.api.apply(COUNTER).await;
    for i in 0..6 {
        let body = json!({ "definition": "counter", "execution_id": format!("c-{i}") });
        world.api.client.post("/v1/executions", &body).await.expect(201);
    }
    let events: Vec<_> = (0..EVENTS)
        .map(|n| json!({ "execution_id": format!("c-{}", n % 6), "name": "add", "payload": { "i": n / 6 } }))
        .collect();
    world.api.client.post("/v1/events", &json!(events)).await.expect(202);
    stop_workers(&mut world, 2).await;
    start_again(&mut world).await;
    for i in 0..6 {
        let counted =
            world.api.execution_until(&format!("c-{i}"), |seen| seen["context"]["n"] == EVENTS / 6).await;
        assert_eq!(counted["context"]["seen"], json!((0..EVENTS / 6).collect::<Vec<_>>()));
    }
}

async fn a_drain_lets_a_running_action_finish(mode: Mode) {
    let sink = Sink::start().await;
    sink.script("/charge/1", [Answer::Hold(200)]);
    let mode = if mode == EMBEDDED { mode } else { Mode::Fleet { workers: 1 } };
    let mut world = start(mode).await;
    world.api.apply(&at(CHARGE, &sink)).await;
    let id = world.api.start("charge", json!({ "order_id": 1 })).await;
    let pay = world.api.send(&id, "pay", json!({ "amount": 1 })).await;
    called(&sink).await;
    // The first is polled first: the process gets the signal before the action may end.
    tokio::join!(stop_workers(&mut world, 1), async { sink.release() });
    start_again(&mut world).await;
    let settled = world.api.settled(&pay).await;
    assert_eq!(settled["status"], "completed", "{settled}");
    world.api.execution_in(&id, "completed").await;
    assert_eq!(sink.calls().len(), 1, "it was not repeated");
}

async fn a_second_signal_ends_it_at_once(mode: Mode) {
    let sink = Sink::start().await;
    sink.script("/charge/1", [Answer::Hold(200)]);
    let mode = if mode == EMBEDDED { mode } else { Mode::Fleet { workers: 1 } };
    let mut world = start(mode).await;
    world.api.apply(&at(CHARGE, &sink)).await;
    let id = world.api.start("charge", json!({ "order_id": 1 })).await;
    let pay = world.api.send(&id, "pay", json!({ "amount": 1 })).await;
    called(&sink).await;
    let daemon = if mode == EMBEDDED { world.fleet.ingress() } else { world.fleet.worker(0) };
    daemon.signal(Signal::SIGTERM);
    // A signal that comes while the first is being delivered would be merged with it, so it is
    // repeated until the process is gone; the drain alone would take 25 s.
    eventually(Duration::from_secs(10), || {
        daemon.signal(Signal::SIGTERM);
        std::future::ready(daemon.exited().ok_or("it still runs"))
    })
    .await;
    sink.script("/charge/1", [Answer::Status(200)]);
    start_again(&mut world).await;
    assert_eq!(world.api.settled(&pay).await["status"], "completed");
}

async fn called(sink: &Sink) {
    eventually(SOON, || {
        std::future::ready(if sink.calls().is_empty() { Err("the action has not begun") } else { Ok(()) })
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_engine_on_the_same_directory_is_refused() {
    let mut world = start(EMBEDDED).await;
    let dir = world.fleet.sqlite_file().parent().unwrap().to_owned();
    let second = |dir: &std::path::Path| {
        let mut command = world.fleet.command(&[]);
        command.arg("dev").arg("--dir").arg(dir).args(["--listen", &format!("127.0.0.1:{}", port::free())]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).output().expect("run the binary")
    };
    let refused = second(&dir);
    assert!(!refused.status.success(), "{refused:?}");
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        message.contains("in use") && message.contains("--dir"),
        "it says what is wrong and what to do: {message}"
    );
    assert_eq!(world.fleet.ingress().exited(), None, "the first one is not disturbed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ingress_refuses_to_be_open_to_everybody() {
    let world = start(Mode::Fleet { workers: 0 }).await;
    let listen = format!("0.0.0.0:{}", port::free());
    let refused = world.fleet.cli(["ingress", "--listen", &listen]);
    assert!(!refused.status.success(), "{refused:?}");
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(message.contains("keys create") && message.contains("--insecure-no-auth"), "{message}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_that_contradict_each_other_are_refused_at_the_start() {
    let mut world = start(FLEET).await;
    let env = [("MILLSTREAM_WORKER__LOCK_TTL", "10s"), ("MILLSTREAM_WORKER__RECLAIM_IDLE", "5s")];
    let worker = world.fleet.start_worker(&env);
    let status = world.fleet.worker(worker).wait(SOON).await;
    assert!(!status.success());
    assert!(
        world.fleet.worker(worker).output().contains("lock_ttl"),
        "{}",
        world.fleet.worker(worker).output()
    );
}
