//! Processes killed and frozen under load. Only a fleet has other processes that can take over.

use millstream_testkit::client::try_send;
use millstream_testkit::sink::SinkAnswer;
use millstream_testkit::{FleetMode, TestSink, eventually};
use nix::sys::signal::Signal;
use reqwest::Method;
use serde_json::json;

use crate::api::{E2eApi, text_field};
use crate::definitions::{CHARGE, COUNTER, definition_with_sink};
use crate::world::{FLEET, SOON, start_world};

const EXECUTIONS: usize = 8;
const EVENTS: usize = 40;

/// Posts events to one counter, each under its key until it is accepted, whatever process dies meanwhile.
async fn keep_posting(api: E2eApi, execution: String) {
    for i in 0..EVENTS {
        eventually(SOON, || async {
            let request = api
                .client
                .request(Method::POST, &format!("/v1/executions/{execution}/events"))
                .header("idempotency-key", format!("{execution}-{i}"))
                .json(&json!({ "name": "add", "payload": { "i": i } }));
            match try_send(request).await {
                Ok(reply) if reply.status == 202 => Ok(()),
                Ok(reply) if reply.status == 503 => Err(reply.body),
                Ok(reply) => panic!("neither accepted nor unavailable: {reply:?}"),
                Err(error) => Err(error.to_string()),
            }
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeated_kills_lose_nothing() {
    let mut world = start_world(FLEET).await;
    world.api.apply(COUNTER).await;
    let mut clients = Vec::new();
    for c in 0..EXECUTIONS {
        let id = format!("c-{c}");
        let body = json!({ "definition": "counter", "execution_id": id });
        world.api.client.post("/v1/executions", &body).await.expect_status(201);
        clients.push(tokio::spawn(keep_posting(world.api.clone(), id)));
    }
    let (mut kills, mut oldest) = (0, 0);
    while clients.iter().any(|client| !client.is_finished()) && kills < 12 {
        world.fleet.kill_worker(oldest);
        oldest += 1;
        world.fleet.start_worker(&[]);
        if kills % 3 == 2 {
            world.fleet.kill_ingress();
            world.fleet.start_ingress(&[]).await;
        }
        kills += 1;
    }
    assert!(kills >= 2, "the work was over before a process died");
    for client in clients {
        client.await.unwrap();
    }
    for c in 0..EXECUTIONS {
        let counted =
            world.api.execution_until(&format!("c-{c}"), |seen| seen["context"]["n"] == EVENTS).await;
        assert_eq!(counted["context"]["seen"], json!((0..EVENTS).collect::<Vec<_>>()));
        assert_eq!(counted["seq"], EVENTS + 1);
    }
    let checked = world.fleet.run_cli(["replay", "--all", "--check", "--redecide"]);
    assert!(checked.status.success(), "{checked:?}");
}

/// A worker that was frozen for longer than its lease wakes up with the result of an action that another
/// worker has settled meanwhile. Its result must be refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thawed_worker_cannot_settle_old_lease() {
    let sink = TestSink::start().await;
    sink.set_answers("/charge/1", [SinkAnswer::Hold(200), SinkAnswer::Status(200)]);
    let mut world = start_world(FleetMode::Fleet { workers: 1 }).await;
    world.api.apply(&definition_with_sink(CHARGE, &sink)).await;
    let id = world.api.start("charge", json!({ "order_id": 1 })).await;
    let pay = world.api.send(&id, "pay", json!({ "amount": 1 })).await;
    eventually(SOON, || {
        std::future::ready(if sink.recorded_calls().is_empty() {
            Err("the action has not begun")
        } else {
            Ok(())
        })
    })
    .await;
    world.fleet.worker(0).signal(Signal::SIGSTOP);
    world.fleet.start_worker(&[]);
    let settled = world.api.settled_event(&pay).await;
    assert_eq!(settled["status"], "completed", "{settled}");
    world.api.execution_in(&id, "completed").await;
    let before = world.api.list(&id, "actions").await;

    sink.release_held();
    world.fleet.worker(0).signal(Signal::SIGCONT);
    // It is awake when it responds to a signal: it drains and ends well.
    let status = world.fleet.stop_worker(0).await;
    assert!(status.success(), "{status}: {}", world.fleet.worker(0).output_text());
    assert_eq!(world.api.list(&id, "actions").await, before, "the recorded outcome stands");
    assert_eq!(world.api.transition_names(&id).await, ["millstream.start", "pay", "charged"]);
    let tokens: Vec<u64> = sink
        .recorded_calls()
        .iter()
        .map(|call| call.header("millstream-fencing-token").expect("a token").parse().expect("a number"))
        .collect();
    assert!(tokens.len() == 2 && tokens[0] < tokens[1], "{tokens:?}");
    assert_eq!(text_field(&world.api.event(&pay).await, "status"), "completed");
}
