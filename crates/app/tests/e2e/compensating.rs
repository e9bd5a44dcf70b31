//! Compensation: successful actions are undone, the last first, and then the execution gets the failure
//! event.

use millstream_testkit::sink::SinkAnswer;
use millstream_testkit::{FleetMode, TestSink, eventually};
use serde_json::{Value, json};

use crate::api::{E2eApi, text_field};
use crate::definitions::definition_with_sink;
use crate::world::{SOON, start_world};

both_modes!(
    compensation_runs_in_reverse_order,
    failed_undo_waits_for_a_person,
    crashed_compensation_is_taken_over,
    unrenderable_input_is_compensated,
);

const TRIP: &str = r"
name: trip
initial: a
context: { hotel: h-1 }
states:
  a: { on: { go: { to: b, do: [flight, hotel, car, insure] } } }
  b:
    on:
      booked: { to: z }
      refused: { to: y, set: { why: event.payload.error } }
  y: { final: failed }
  z: { final: true }
actions:
  flight: { http: { url: SINK/flight, result: response.body }, undo: unflight }
  hotel: { http: { url: SINK/hotel, body: { hotel: context.hotel } }, needs: [flight], undo: unhotel }
  car: { http: { url: SINK/car, body: { n: CAR } }, needs: [hotel], compensate: refused, on_success: booked, retry: { attempts: 2, backoff: 10ms } }
  insure: { http: { url: SINK/insure }, needs: [car], undo: uninsure }
  unflight: { http: { url: SINK/unflight, body: { id: results.flight.id } }, retry: { attempts: 2, backoff: 10ms } }
  unhotel: { http: { url: SINK/unhotel, body: { hotel: context.hotel } } }
  uninsure: { http: { url: SINK/uninsure } }
";

fn trip_definition(sink: &TestSink, car: &str) -> String {
    sink.set_answers("/flight", [SinkAnswer::Json(200, json!({ "id": "f-1" }))]);
    sink.set_answers("/car", [SinkAnswer::Status(503), SinkAnswer::Status(409)]);
    definition_with_sink(&TRIP.replace("CAR", car), sink)
}

fn called_paths(sink: &TestSink) -> Vec<String> {
    sink.recorded_calls().into_iter().map(|call| call.path).collect()
}

async fn action_status(api: &E2eApi, id: &str, action: &str) -> Value {
    api.latest_action(id, action).await.expect("the action")["status"].clone()
}

async fn compensation_runs_in_reverse_order(mode: FleetMode) {
    let sink = TestSink::start().await;
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(&trip_definition(&sink, "1")).await;
    api.start_with_events("trip", "t-1", json!({}), &["go"]).await;
    let ended = api.execution_in("t-1", "failed").await;
    assert_eq!(ended["context"]["why"]["status"], 409, "{ended}");
    assert_eq!(called_paths(&sink), ["/flight", "/hotel", "/car", "/car", "/unhotel", "/unflight"]);
    assert_eq!(sink.calls_to("/unflight")[0].json(), json!({ "id": "f-1" }));
    assert_eq!(action_status(api, "t-1", "insure").await, "skipped");
    assert_eq!(action_status(api, "t-1", "uninsure").await, "standby");
    let told = api.list("t-1", "history").await.pop().unwrap();
    assert_eq!((&told["name"], &told["payload"]["attempts"]), (&json!("refused"), &json!(2)), "{told}");
    let car = api.latest_action("t-1", "car").await.expect("the action");
    assert_eq!((&car["attempts"], &car["needs"]), (&json!(2), &json!(["hotel"])), "{car}");
    let go = text_field(&api.list("t-1", "history").await[1], "event_id");
    assert_eq!(api.settled_event(&go).await["status"], "completed", "it is handled");
    assert!(api.all_pages("/v1/incidents").await.is_empty());

    // A successful trip undoes nothing.
    sink.set_answers("/car", [SinkAnswer::Status(200)]);
    api.start_with_events("trip", "t-2", json!({}), &["go"]).await;
    api.execution_in("t-2", "completed").await;
    api.action_in("t-2", "insure", "succeeded").await;
    assert_eq!(sink.calls_to("/unhotel").len(), 1);
}

async fn failed_undo_waits_for_a_person(mode: FleetMode) {
    let sink = TestSink::start().await;
    sink.set_answers("/unhotel", [SinkAnswer::Status(400)]);
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(&trip_definition(&sink, "1")).await;
    api.start_with_events("trip", "t-1", json!({}), &["go"]).await;
    let incident = api.open_incident("t-1").await;
    assert_eq!(
        (&incident["action"], &incident["class"]),
        (&json!("unhotel"), &json!("status")),
        "{incident}"
    );
    assert_eq!(api.execution("t-1").await["status"], "paused");
    assert!(sink.calls_to("/unflight").is_empty(), "one after the other");
    sink.set_answers("/unhotel", [SinkAnswer::Status(200)]);
    api.resolve(&incident, "retry", json!({})).await;
    api.execution_in("t-1", "failed").await;
    assert_eq!(called_paths(&sink)[4..], ["/unhotel", "/unhotel", "/unflight"]);

    sink.set_answers("/unhotel", [SinkAnswer::Status(400)]);
    sink.set_answers("/car", [SinkAnswer::Status(409)]);
    api.start_with_events("trip", "t-2", json!({}), &["go"]).await;
    let incident = api.open_incident("t-2").await;
    api.resolve(&incident, "skip", json!({ "result": "by telephone" })).await;
    let ended = api.execution_in("t-2", "failed").await;
    assert_eq!(ended["context"]["why"]["status"], 409, "the event carries the first failure: {ended}");
    assert_eq!(sink.calls_to("/unflight").len(), 2);
}

/// Killed while the first undo action is in progress at the target.
async fn crashed_compensation_is_taken_over(mode: FleetMode) {
    let sink = TestSink::start().await;
    let mut world = start_world(mode).await;
    world.api.apply(&trip_definition(&sink, "1")).await;
    sink.set_answers("/car", [SinkAnswer::Status(409)]);
    sink.set_answers("/unhotel", [SinkAnswer::Hold(200)]);
    world.api.start_with_events("trip", "t-1", json!({}), &["go"]).await;
    eventually(SOON, || {
        let paths = called_paths(&sink);
        std::future::ready(if paths.contains(&"/unhotel".to_owned()) { Ok(()) } else { Err(paths) })
    })
    .await;
    match mode {
        FleetMode::Embedded => {
            world.fleet.kill_ingress();
            sink.release_held();
            world.fleet.start_ingress(&[]).await;
        }
        FleetMode::Fleet { workers } => {
            (0..workers).for_each(|index| world.fleet.kill_worker(index));
            sink.release_held();
            world.fleet.start_worker(&[]);
        }
    }
    world.api.execution_in("t-1", "failed").await;
    let keys: Vec<_> = sink
        .calls_to("/unhotel")
        .iter()
        .map(|call| call.header("idempotency-key").expect("a key").to_owned())
        .collect();
    assert_eq!(keys, ["default/t-1/2/unhotel"; 2], "the same undo action again");
    assert_eq!(called_paths(&sink), ["/flight", "/hotel", "/car", "/unhotel", "/unhotel", "/unflight"]);
    assert_eq!(world.api.transition_names("t-1").await, ["millstream.start", "go", "refused"]);
}

async fn unrenderable_input_is_compensated(mode: FleetMode) {
    let sink = TestSink::start().await;
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(&trip_definition(&sink, "context.missing")).await;
    api.start_with_events("trip", "t-1", json!({}), &["go"]).await;
    let ended = api.execution_in("t-1", "failed").await;
    assert_eq!(ended["context"]["why"]["class"], "input", "{ended}");
    assert_eq!(called_paths(&sink), ["/flight", "/hotel", "/unhotel", "/unflight"]);
}
