//! Resolution of one incident.

use std::sync::Arc;
use std::time::Duration;

use millstream_ingress::{AuthMode, IngressOptions};
use millstream_model::id::{EventId, IncidentId, TenantId};
use millstream_model::incident::NewIncident;
use millstream_model::status::{IncidentResolution, Role};
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::incidents::{
    IncidentDecision, IncidentFilter, IncidentGroupView, IncidentView, Incidents, ResolveVerdict,
};
use millstream_store::intervention::{DecisionRecord, EventBurial};
use millstream_stream::doorbell::Doorbell;
use millstream_testkit::eventually;
use serde_json::{Value, json};

use crate::bench::{Bench, get, header, key, open_options, post, with_type};
use crate::failed_actions::{PAYMENT, decision};
use crate::faulty_backends::FaultyBells;

async fn detail(bench: &Bench, incident: &Value) -> Value {
    bench.get(&format!("/v1/incidents/{}", incident["incident_id"].as_str().unwrap())).await.json()
}

async fn status(bench: &Bench, id: &str) -> Value {
    bench.get(&format!("/v1/executions/{id}")).await.json()["status"].clone()
}

/// An incident of an event that could not be decided.
async fn dead(bench: &Bench, id: &str) -> Value {
    let body = json!({"definition": "payment", "execution_id": id, "events": [{"name": "noted"}]});
    bench.post("/v1/executions", &body).await;
    let events = bench.get(&format!("/v1/events?execution_id={id}&status=pending")).await.json();
    let event_id = EventId(events["items"][0]["event_id"].as_str().unwrap().parse().unwrap());
    let incident = NewIncident {
        id: IncidentId(event_id.0),
        class: millstream_model::error_class::ErrorClass::Internal,
        reason: "undecidable".to_owned(),
    };
    let burial = EventBurial { execution: key(id), event_id, error: "undecidable".to_owned(), incident };
    bench.stores.interventions.bury_events(&[burial], bench.clock.now()).await.unwrap();
    json!({"incident_id": event_id.to_string(), "event_id": event_id.to_string()})
}

#[tokio::test]
async fn incident_retry_keeps_action_key() {
    let bells = Arc::new(FaultyBells::default());
    let bench = Bench::with(open_options(), |stores, mut streams| {
        streams.bells = bells.clone();
        (stores, streams)
    });
    bench.define(PAYMENT).await;
    let incident = bench.incident("p-1").await;
    assert_eq!(status(&bench, "p-1").await, "paused");
    bells.rung.lock().unwrap().clear();

    let answer = bench.post(&decision(&incident, "retry"), &json!({"reason": "the bank is back"})).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    assert_eq!(
        answer.json(),
        json!({"incident_id": incident["incident_id"], "execution_id": "p-1", "resolution": "retry",
               "key": "default/p-1/2/charge"})
    );
    assert_eq!(status(&bench, "p-1").await, "active");
    eventually(Duration::from_secs(10), || async {
        let rung = bells.rung.lock().unwrap().clone();
        let both = [Doorbell::Mailbox(key("p-1")), Doorbell::Actions(key("p-1"))];
        if both.iter().all(|bell| rung.contains(bell)) { Ok(()) } else { Err(rung) }
    })
    .await;
    let leased = bench.lease().await;
    assert_eq!((leased.len(), leased[0].attempt, leased[0].revision), (1, 1, 0));
    let shown = detail(&bench, &incident).await;
    assert_eq!(shown["resolved"]["resolution"], "retry");
    assert_eq!(shown["resolved"]["reason"], "the bank is back");
}

#[tokio::test]
async fn incident_retry_with_input_changes_key() {
    let bench = Bench::with_payment().await;
    let incident = bench.incident("p-1").await;
    let mut input = detail(&bench, &incident).await["input"].clone();
    input["http"]["url"] = json!("http://127.0.0.1:9/charge-again");
    let answer = bench.post(&decision(&incident, "retry"), &json!({"input": input})).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    assert_eq!(answer.json()["resolution"], "retry_with_input");
    assert_eq!(answer.json()["key"], "default/p-1/2/charge~1");
    let leased = bench.lease().await.pop().unwrap();
    assert_eq!(leased.revision, 1);
    assert!(leased.input.unwrap().as_str().contains("charge-again"));
    let actions = bench.get("/v1/executions/p-1/actions").await.json();
    assert_eq!(actions["items"][0]["key"], "default/p-1/2/charge~1");
    assert_eq!(actions["items"][0]["revision"], 1);
}

#[tokio::test]
async fn invalid_retry_input_has_path() {
    let bench = Bench::with_payment().await;
    let incident = bench.incident("p-1").await;
    let path = decision(&incident, "retry");
    let http = |rest: Value| {
        let mut input = json!({"method": "GET", "url": "http://127.0.0.1:9/"});
        input.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        json!({ "http": input })
    };
    for (input, place) in [
        (json!({"log": "hi"}), "input"),
        (json!({"call": {"function": "f", "input": 1}}), "input"),
        (json!({"http": {}, "log": "hi"}), "input"),
        (json!({}), "input"),
        (json!("text"), "input"),
        (json!([1]), "input"),
        (json!({"http": {"method": "GET"}}), "input.http"),
        (json!({"http": 7}), "input.http"),
        (http(json!({"method": "BREW"})), "input.http.method"),
        (http(json!({"headers": {"x-a": 7}})), "input.http.headers.x-a"),
        (http(json!({"bdoy": {"amount": 7}})), "input.http.bdoy"),
    ] {
        let problem = bench.post(&path, &json!({ "input": input })).await.problem(422, "invalid");
        assert_eq!(problem["problems"][0]["path"], place, "{input}: {problem}");
    }
    assert_eq!(detail(&bench, &incident).await["status"], "open");
}

#[tokio::test]
async fn skipped_action_delivers_result() {
    let bench = Bench::with_payment().await;
    let incident = bench.incident("p-1").await;
    let body = json!({"result": {"receipt": "r-1"}, "reason": "paid by hand"});
    let answer = bench.post(&decision(&incident, "skip"), &body).await;
    assert_eq!((answer.status.as_u16(), &answer.json()["resolution"]), (202, &json!("skip")), "{answer:?}");
    let actions = bench.get("/v1/executions/p-1/actions").await.json();
    assert_eq!(actions["items"][0]["status"], "succeeded");
    assert_eq!(actions["items"][0]["result"], json!({"receipt": "r-1"}));
    assert_eq!(actions["items"][1]["status"], "ready", "the dependent action is ready: {actions}");
    let events = bench.get("/v1/events?execution_id=p-1&status=pending").await.json();
    let told = &events["items"][0];
    assert_eq!((&told["name"], &told["actor"]), (&json!("charged"), &json!("action:charge")));
    assert_eq!(
        told["payload"],
        json!({"action": "charge", "key": "default/p-1/2/charge", "attempts": 1, "result": {"receipt": "r-1"}})
    );
    bench.decide("p-1").await;
    assert_eq!(status(&bench, "p-1").await, "completed");
}

#[tokio::test]
async fn skip_result_may_be_null() {
    let bench = Bench::with_payment().await;
    let incident = bench.incident("p-1").await;
    let path = decision(&incident, "skip");
    let problem = bench.post(&path, &json!({"reason": "x"})).await.problem(422, "invalid");
    assert_eq!(problem["problems"][0]["path"], "result");
    let large = json!({"result": "x".repeat(270_000)});
    bench.post(&path, &large).await.problem(413, "too-large");
    assert_eq!(bench.post(&path, &json!({ "result": null })).await.status, 202);
}

#[tokio::test]
async fn incident_fail_or_cancel_posts_event() {
    let bench = Bench::with_payment().await;
    for (id, word, event, ended) in
        [("p-1", "fail", "millstream.fail", "failed"), ("p-2", "cancel", "millstream.cancel", "cancelled")]
    {
        let incident = bench.incident(id).await;
        let answer = bench.post(&decision(&incident, word), &json!({"reason": "hopeless"})).await;
        assert_eq!((answer.status.as_u16(), &answer.json()["resolution"]), (202, &json!(word)), "{answer:?}");
        assert!(answer.json().get("key").is_none());
        let events = bench.get(&format!("/v1/events?execution_id={id}&status=pending")).await.json();
        assert_eq!(events["items"][0]["name"], event);
        assert_eq!(events["items"][0]["payload"], json!({"reason": "hopeless"}));
        bench.decide(id).await;
        assert_eq!(status(&bench, id).await, ended);
    }
}

#[tokio::test]
async fn resolution_records_actor_and_reason() {
    let bench = Bench::with_payment().await;
    let incident = bench.incident("p-1").await;
    let stores = bench.stores.clone();
    let options = IngressOptions { auth: AuthMode::Keys, ..open_options() };
    let bench = Bench::with(options, |_, streams| (stores, streams));
    bench.key("ms_x", "default", Role::Admin).await;
    let keyed = |request| header(request, "authorization", "Bearer ms_x");
    let answer = bench.send(keyed(post(&decision(&incident, "fail"), &json!({"reason": "hopeless"})))).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    let path = format!("/v1/incidents/{}", incident["incident_id"].as_str().unwrap());
    let resolved = bench.send(keyed(get(&path))).await.json()["resolved"].clone();
    assert_eq!((&resolved["actor"], &resolved["reason"]), (&json!("default-admin"), &json!("hopeless")));
    let recorded = bench.stores.interventions.list_decisions(&key("p-1")).await.unwrap().pop().unwrap();
    assert_eq!((recorded.kind.as_str(), recorded.actor.as_deref()), ("fail", Some("default-admin")));
    assert_eq!(recorded.reason.as_deref(), Some("hopeless"));
    let again = bench.send(keyed(post(&decision(&incident, "retry"), &json!({})))).await;
    let problem = again.problem(409, "conflict");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("fail by \"default-admin\"") && detail.contains("hopeless"), "{detail}");
}

#[tokio::test]
async fn incident_is_resolved_once() {
    let bench = Bench::with_payment().await;
    let incident = bench.incident("p-1").await;
    let (retry, skip) = (decision(&incident, "retry"), decision(&incident, "skip"));
    let (no_body, result) = (json!({}), json!({"result": 1}));
    let (one, two) = tokio::join!(bench.post(&retry, &no_body), bench.post(&skip, &result));
    let mut statuses = [one.status.as_u16(), two.status.as_u16()];
    statuses.sort_unstable();
    assert_eq!(statuses, [202, 409], "{one:?} {two:?}");
    for (word, body) in [("retry", &no_body), ("skip", &result), ("fail", &no_body), ("cancel", &no_body)] {
        bench.post(&decision(&incident, word), body).await.problem(409, "conflict");
    }
}

/// Another request resolves the incident between the read and the write of this one.
struct BeatenTo(Arc<dyn Incidents>);

#[async_trait::async_trait]
impl Incidents for BeatenTo {
    async fn list_incidents(
        &self,
        tenant: &TenantId,
        filter: &IncidentFilter,
        after: Option<i64>,
        limit: usize,
    ) -> StoreResult<Vec<IncidentView>> {
        self.0.list_incidents(tenant, filter, after, limit).await
    }

    async fn incident_groups(&self, tenant: &TenantId, limit: usize) -> StoreResult<Vec<IncidentGroupView>> {
        self.0.incident_groups(tenant, limit).await
    }

    async fn find_incidents(
        &self,
        keys: &[(TenantId, IncidentId)],
    ) -> StoreResult<Vec<Option<IncidentView>>> {
        self.0.find_incidents(keys).await
    }

    async fn resolve_incidents(
        &self,
        tenant: &TenantId,
        batch: &[(IncidentId, IncidentDecision)],
        by: &DecisionRecord,
        now: Timestamp,
    ) -> StoreResult<Vec<ResolveVerdict>> {
        let first: Vec<_> = batch.iter().map(|(id, _)| (*id, IncidentDecision::Retry)).collect();
        let faster = DecisionRecord { actor: Some("ada".to_owned()), reason: None };
        self.0.resolve_incidents(tenant, &first, &faster, now).await?;
        self.0.resolve_incidents(tenant, batch, by, now).await
    }
}

#[tokio::test]
async fn second_resolution_names_first() {
    let bench = Bench::with(open_options(), |mut stores, streams| {
        stores.incidents = Arc::new(BeatenTo(stores.incidents.clone()));
        (stores, streams)
    });
    bench.define(PAYMENT).await;
    let incident = bench.incident("p-1").await;
    let problem =
        bench.post(&decision(&incident, "skip"), &json!({"result": 1})).await.problem(409, "conflict");
    assert!(problem["detail"].as_str().unwrap().contains("retry by \"ada\""), "{problem}");
    let pending = bench.get("/v1/events?execution_id=p-1&status=pending").await.json();
    assert_eq!(pending["items"], json!([]), "the second one's event is not there");
    assert_eq!(detail(&bench, &incident).await["resolved"]["resolution"], IncidentResolution::Retry.as_str());
}

#[tokio::test]
async fn dead_event_incident_takes_no_input() {
    let bench = Bench::with_payment().await;
    let incident = dead(&bench, "p-1").await;
    let shown = detail(&bench, &incident).await;
    assert_eq!(
        (&shown["action"], &shown["input"], &shown["key"]),
        (&Value::Null, &Value::Null, &Value::Null)
    );
    let input = json!({"input": {"log": "x"}});
    let problem = bench.post(&decision(&incident, "retry"), &input).await.problem(422, "invalid");
    assert_eq!(problem["problems"][0]["path"], "input");
    let problem =
        bench.post(&decision(&incident, "skip"), &json!({"result": 1})).await.problem(422, "invalid");
    assert_eq!(problem["problems"][0]["path"], "result");
    let retried = bench.post(&decision(&incident, "retry"), &json!({})).await;
    assert_eq!((retried.status.as_u16(), retried.json().get("key")), (202, None), "{retried:?}");
    let event = |incident: &Value| format!("/v1/events/{}", incident["event_id"].as_str().unwrap());
    assert_eq!(bench.get(&event(&incident)).await.json()["status"], "pending");

    let incident = dead(&bench, "p-2").await;
    assert_eq!(bench.post(&decision(&incident, "skip"), &json!({})).await.status, 202);
    assert_eq!(bench.get(&event(&incident)).await.json()["status"], "rejected");
    assert_eq!(status(&bench, "p-2").await, "active");
}

#[tokio::test]
async fn invalid_resolution_is_rejected() {
    let bench = Bench::with_payment().await;
    let incident = bench.incident("p-1").await;
    for word in ["retry", "skip", "fail", "cancel"] {
        let path = decision(&incident, word);
        bench.post(&path, &json!({"resaon": "x", "result": 1})).await.problem(422, "invalid");
        bench.post(&path, &json!({"reason": 7})).await.problem(422, "invalid");
        bench.post(&path, &json!({"reason": "x".repeat(4_001)})).await.problem(422, "invalid");
        bench.post(&path, &json!({"reason": "x".repeat(400_000)})).await.problem(413, "too-large");
        bench.post(&path, &json!([])).await.problem(422, "invalid");
        bench.send(with_type(&path, "application/json", "{")).await.problem(400, "bad-request");
        bench.send(with_type(&path, "text/plain", "why not")).await.problem(415, "unsupported-media-type");
        bench.post(&format!("{path}?force=1"), &json!({})).await.problem(422, "invalid");
        let unknown = format!("/v1/incidents/00000000-0000-7000-8000-000000000000/{word}");
        bench.post(&unknown, &json!({})).await.problem(404, "not-found");
        bench.post(&format!("/v1/incidents/nonsense/{word}"), &json!({})).await.problem(404, "not-found");
    }
    let path = decision(&incident, "retry");
    let twice = r#"{"reason":"a","reason":"b"}"#;
    bench.send(with_type(&path, "application/json", twice)).await.problem(422, "invalid");
    let deep = format!(r#"{{"input":{}{}}}"#, "[".repeat(1000), "]".repeat(1000));
    bench.send(with_type(&path, "application/json", deep)).await.problem(422, "invalid");
    let large = json!({"input": {"http": {"method": "GET", "url": "x".repeat(270_000)}}});
    bench.post(&path, &large).await.problem(413, "too-large");
    assert_eq!(detail(&bench, &incident).await["status"], "open");
}
