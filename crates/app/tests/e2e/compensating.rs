//! Compensation: successful actions are undone, the last first, and then the execution gets the failure
//! event.

use millstream_testkit::sink::Answer;
use millstream_testkit::{Mode, Sink, eventually};
use serde_json::{Value, json};

use crate::api::{Api, text};
use crate::definitions::at;
use crate::world::{SOON, start};

both_modes!(
    what_was_done_last_is_undone_first_and_then_it_is_told,
    an_undoing_that_fails_waits_for_a_person_and_then_goes_on,
    a_worker_that_dies_while_undoing_leaves_the_rest_to_another,
    an_input_that_cannot_be_rendered_is_compensated_too,
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

fn trip(sink: &Sink, car: &str) -> String {
    sink.script("/flight", [Answer::Json(200, json!({ "id": "f-1" }))]);
    sink.script("/car", [Answer::Status(503), Answer::Status(409)]);
    at(&TRIP.replace("CAR", car), sink)
}

fn paths(sink: &Sink) -> Vec<String> {
    sink.calls().into_iter().map(|call| call.path).collect()
}

async fn status(api: &Api, id: &str, action: &str) -> Value {
    api.action(id, action).await.expect("the action")["status"].clone()
}

async fn what_was_done_last_is_undone_first_and_then_it_is_told(mode: Mode) {
    let sink = Sink::start().await;
    let world = start(mode).await;
    let api = &world.api;
    api.apply(&trip(&sink, "1")).await;
    api.begin("trip", "t-1", json!({}), &["go"]).await;
    let ended = api.execution_in("t-1", "failed").await;
    assert_eq!(ended["context"]["why"]["status"], 409, "{ended}");
    assert_eq!(paths(&sink), ["/flight", "/hotel", "/car", "/car", "/unhotel", "/unflight"]);
    assert_eq!(sink.calls_to("/unflight")[0].json(), json!({ "id": "f-1" }));
    assert_eq!(status(api, "t-1", "insure").await, "skipped");
    assert_eq!(status(api, "t-1", "uninsure").await, "standby");
    let told = api.list("t-1", "history").await.pop().unwrap();
    assert_eq!((&told["name"], &told["payload"]["attempts"]), (&json!("refused"), &json!(2)), "{told}");
    let car = api.action("t-1", "car").await.expect("the action");
    assert_eq!((&car["attempts"], &car["needs"]), (&json!(2), &json!(["hotel"])), "{car}");
    let go = text(&api.list("t-1", "history").await[1], "event_id");
    assert_eq!(api.settled(&go).await["status"], "completed", "it is handled");
    assert!(api.all("/v1/incidents").await.is_empty());

    // A successful trip undoes nothing.
    sink.script("/car", [Answer::Status(200)]);
    api.begin("trip", "t-2", json!({}), &["go"]).await;
    api.execution_in("t-2", "completed").await;
    api.action_in("t-2", "insure", "succeeded").await;
    assert_eq!(sink.calls_to("/unhotel").len(), 1);
}

async fn an_undoing_that_fails_waits_for_a_person_and_then_goes_on(mode: Mode) {
    let sink = Sink::start().await;
    sink.script("/unhotel", [Answer::Status(400)]);
    let world = start(mode).await;
    let api = &world.api;
    api.apply(&trip(&sink, "1")).await;
    api.begin("trip", "t-1", json!({}), &["go"]).await;
    let incident = api.incident("t-1").await;
    assert_eq!(
        (&incident["action"], &incident["class"]),
        (&json!("unhotel"), &json!("status")),
        "{incident}"
    );
    assert_eq!(api.execution("t-1").await["status"], "paused");
    assert!(sink.calls_to("/unflight").is_empty(), "one after the other");
    sink.script("/unhotel", [Answer::Status(200)]);
    api.resolve(&incident, "retry", json!({})).await;
    api.execution_in("t-1", "failed").await;
    assert_eq!(paths(&sink)[4..], ["/unhotel", "/unhotel", "/unflight"]);

    sink.script("/unhotel", [Answer::Status(400)]);
    sink.script("/car", [Answer::Status(409)]);
    api.begin("trip", "t-2", json!({}), &["go"]).await;
    let incident = api.incident("t-2").await;
    api.resolve(&incident, "skip", json!({ "result": "by telephone" })).await;
    let ended = api.execution_in("t-2", "failed").await;
    assert_eq!(ended["context"]["why"]["status"], 409, "the event carries the first failure: {ended}");
    assert_eq!(sink.calls_to("/unflight").len(), 2);
}

/// Killed while the first undo action is in progress at the target.
async fn a_worker_that_dies_while_undoing_leaves_the_rest_to_another(mode: Mode) {
    let sink = Sink::start().await;
    let mut world = start(mode).await;
    world.api.apply(&trip(&sink, "1")).await;
    sink.script("/car", [Answer::Status(409)]);
    sink.script("/unhotel", [Answer::Hold(200)]);
    world.api.begin("trip", "t-1", json!({}), &["go"]).await;
    eventually(SOON, || {
        let paths = paths(&sink);
        std::future::ready(if paths.contains(&"/unhotel".to_owned()) { Ok(()) } else { Err(paths) })
    })
    .await;
    match mode {
        Mode::Embedded => {
            world.fleet.kill_ingress();
            sink.release();
            world.fleet.start_ingress(&[]).await;
        }
        Mode::Fleet { workers } => {
            (0..workers).for_each(|index| world.fleet.kill_worker(index));
            sink.release();
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
    assert_eq!(paths(&sink), ["/flight", "/hotel", "/car", "/unhotel", "/unhotel", "/unflight"]);
    assert_eq!(world.api.names("t-1").await, ["millstream.start", "go", "refused"]);
}

async fn an_input_that_cannot_be_rendered_is_compensated_too(mode: Mode) {
    let sink = Sink::start().await;
    let world = start(mode).await;
    let api = &world.api;
    api.apply(&trip(&sink, "context.missing")).await;
    api.begin("trip", "t-1", json!({}), &["go"]).await;
    let ended = api.execution_in("t-1", "failed").await;
    assert_eq!(ended["context"]["why"]["class"], "input", "{ended}");
    assert_eq!(paths(&sink), ["/flight", "/hotel", "/unhotel", "/unflight"]);
}
