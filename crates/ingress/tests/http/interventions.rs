//! Retry and cancel.

use std::sync::Arc;
use std::time::Duration;

use axum::http::Request;
use millstream_ingress::{AuthMode, IngressOptions};
use millstream_model::id::{EventId, ExecutionKey};
use millstream_model::status::Role;
use millstream_store::intervention::EventBurial;
use millstream_stream::doorbell::Doorbell;
use millstream_testkit::eventually;
use serde_json::{Value, json};

use crate::bench::{Bench, ORDER, get, header, key, open_options, post, with_type, yaml};
use crate::faulty_backends::FaultyBells;

fn bare(path: &str) -> Request<axum::body::Body> {
    Request::post(path).body(axum::body::Body::empty()).unwrap()
}

async fn bury(bench: &Bench, execution: ExecutionKey, event: &Value) {
    let event_id = EventId(event["event_id"].as_str().unwrap().parse().unwrap());
    let burial = EventBurial {
        execution,
        event_id,
        error: "undecidable".to_owned(),
        incident: millstream_model::incident::NewIncident {
            id: millstream_model::id::IncidentId(event_id.0),
            class: millstream_model::error_class::ErrorClass::Internal,
            reason: "undecidable".to_owned(),
        },
    };
    bench.stores.interventions.bury_events(&[burial], bench.clock.now()).await.unwrap();
}

#[tokio::test]
async fn retried_dead_event_rings_doorbell() {
    let bells = Arc::new(FaultyBells::default());
    let bench = Bench::with(open_options(), |stores, mut streams| {
        streams.bells = bells.clone();
        (stores, streams)
    });
    bench.put_order().await;
    bench.start("o-1").await;
    let event = bench.post("/v1/executions/o-1/events", &json!({"name": "note"})).await;
    let path = format!("{}/retry", event.header("location"));
    bench.send(bare(&path)).await.problem(409, "conflict");
    bury(&bench, key("o-1"), &event.json()).await;
    assert_eq!(bench.get("/v1/executions/o-1").await.json()["status"], "paused");
    bells.rung.lock().unwrap().clear();

    let retried = bench.post(&path, &json!({"reason": "fixed"})).await;
    assert_eq!((retried.status.as_u16(), &retried.json()["status"]), (202, &json!("pending")), "{retried:?}");
    assert_eq!(bench.get("/v1/executions/o-1").await.json()["status"], "active");
    eventually(Duration::from_secs(10), || async {
        let rung = bells.rung.lock().unwrap().clone();
        if rung.contains(&Doorbell::Mailbox(key("o-1"))) && rung.contains(&Doorbell::Actions(key("o-1"))) {
            Ok(())
        } else {
            Err(rung)
        }
    })
    .await;
    bench.send(bare("/v1/events/00000000-0000-7000-8000-000000000000/retry")).await.problem(404, "not-found");
    bench.send(bare("/v1/events/nonsense/retry")).await.problem(404, "not-found");
}

#[tokio::test]
async fn cancel_event_has_reason_and_actor() {
    let options = IngressOptions { auth: AuthMode::Keys, ..open_options() };
    let bench = Bench::with(options, |stores, streams| (stores, streams));
    bench.key("ms_x", "default", Role::Admin).await;
    let keyed = |request| header(request, "authorization", "Bearer ms_x");
    bench.send(keyed(yaml("/v1/definitions", ORDER))).await;
    bench.send(keyed(post("/v1/executions", &json!({"definition": "order", "execution_id": "o-1"})))).await;
    let cancel = keyed(post("/v1/executions/o-1/cancel", &json!({"reason": "changed my mind"})));
    let accepted = bench.send(cancel).await;
    assert_eq!(accepted.status, 202, "{accepted:?}");
    let event = bench.send(keyed(get(accepted.header("location")))).await.json();
    assert_eq!(event["name"], "millstream.cancel");
    assert_eq!(
        (&event["payload"]["reason"], &event["actor"]),
        (&json!("changed my mind"), &json!("default-admin"))
    );
    bench.decide("o-1").await;
    assert_eq!(bench.send(keyed(get("/v1/executions/o-1"))).await.json()["status"], "cancelled");
    bench.send(keyed(bare("/v1/executions/o-1/cancel"))).await.problem(409, "conflict");
}

#[tokio::test]
async fn cancel_body_is_optional() {
    let bench = Bench::with_order().await;
    bench.start("o-1").await;
    let path = "/v1/executions/o-1/cancel";
    bench.post(path, &json!({"resaon": "x"})).await.problem(422, "invalid");
    bench.post(path, &json!({"reason": 7})).await.problem(422, "invalid");
    bench.send(with_type(path, "text/plain", "because")).await.problem(415, "unsupported-media-type");
    bench.send(bare("/v1/executions/none/cancel")).await.problem(404, "not-found");
    assert_eq!(bench.send(bare(path)).await.status, 202);
}
