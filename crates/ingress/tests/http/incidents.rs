//! Incident views: lists, groups, and one incident with its editable input.

use millstream_ingress::{AuthMode, IngressOptions};
use millstream_model::error_class::ErrorClass;
use millstream_model::status::Role;
use serde_json::{Value, json};

use crate::bench::{Bench, get, header, open_options};
use crate::failed_actions::decision;

fn executions(page: &Value) -> Vec<&str> {
    page["items"].as_array().unwrap().iter().map(|item| item["execution_id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn incidents_are_paged_newest_first() {
    let bench = Bench::with_payment().await;
    for id in ["p-1", "p-2", "p-3"] {
        bench.incident(id).await;
    }
    let first = bench.get("/v1/incidents?limit=2").await.json();
    assert_eq!(executions(&first), ["p-3", "p-2"]);
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = bench.get(&format!("/v1/incidents?limit=2&cursor={cursor}")).await.json();
    assert_eq!((executions(&second), &second["next_cursor"]), (vec!["p-1"], &Value::Null));
}

#[tokio::test]
async fn incidents_are_filtered() {
    let bench = Bench::with_payment().await;
    let resolved = bench.incident("p-1").await;
    let open = bench.incident("p-2").await;
    bench.post(&decision(&resolved, "cancel"), &json!({})).await;
    let fingerprint = open["fingerprint"].as_str().unwrap();
    for (query, wanted) in [
        ("status=open", vec!["p-2"]),
        ("status=resolved", vec!["p-1"]),
        ("execution_id=p-1", vec!["p-1"]),
        ("definition=payment", vec!["p-2", "p-1"]),
        ("definition=order", vec![]),
        (&format!("fingerprint={fingerprint}"), vec!["p-2", "p-1"]),
        ("fingerprint=0000000000000000", vec![]),
    ] {
        assert_eq!(executions(&bench.get(&format!("/v1/incidents?{query}")).await.json()), wanted, "{query}");
    }
    for wrong in
        ["status=closed", "fingerprint=xyz", "fingerprint=ABCDEF0123456789", "limit=0", "cursor=00", "x=1"]
    {
        bench.get(&format!("/v1/incidents?{wrong}")).await.problem(422, "invalid");
    }
}

#[tokio::test]
async fn equal_incidents_form_one_group() {
    let bench = Bench::with_payment().await;
    bench.incident("p-1").await;
    let newest = bench.incident("p-2").await;
    bench.pay("p-3").await;
    bench.fail_all(ErrorClass::Network).await;
    let groups = bench.get("/v1/incidents/groups").await.json();
    let items = groups["items"].as_array().unwrap();
    assert_eq!(items.len(), 2, "{groups:#}");
    let largest = &items[0];
    assert_eq!((&largest["count"], &largest["class"]), (&json!(2), &json!("status")));
    assert_eq!((&largest["definition"], &largest["action"]), (&json!("payment"), &json!("charge")));
    assert_eq!((&largest["sample"], &largest["fingerprint"]), (&newest, &newest["fingerprint"]));
    assert_eq!(largest["last_seen"], newest["opened_at"]);
    let one = bench.get("/v1/incidents/groups?limit=1").await.json();
    assert_eq!(one["items"].as_array().unwrap().len(), 1);
    bench.get("/v1/incidents/groups?limit=501").await.problem(422, "invalid");
}

#[tokio::test]
async fn incident_shows_input_and_attempts() {
    let bench = Bench::with_payment().await;
    let incident = bench.incident("p-1").await;
    let id = incident["incident_id"].as_str().unwrap();
    let shown = bench.get(&format!("/v1/incidents/{id}")).await.json();
    assert_eq!(shown["input"]["http"]["body"], json!({"amount": 7}));
    assert_eq!((&shown["attempts"], &shown["revision"]), (&json!(1), &json!(0)));
    assert_eq!((&shown["error"]["message"], &shown["progress"]), (&json!("503"), &Value::Null));
    assert_eq!((&shown["key"], &shown["action_status"]), (&json!("default/p-1/2/charge"), &json!("failed")));
    assert_eq!((&shown["status"], &shown["resolved"]), (&json!("open"), &Value::Null));
    for (field, value) in incident.as_object().unwrap() {
        assert_eq!(&shown[field], value, "{field}");
    }
    bench.get("/v1/incidents/00000000-0000-7000-8000-000000000000").await.problem(404, "not-found");
    bench.get("/v1/incidents/nonsense").await.problem(404, "not-found");
}

#[tokio::test]
async fn incident_routes_require_roles() {
    let bench = Bench::with_payment().await;
    let incident = bench.incident("p-1").await;
    let stores = bench.stores.clone();
    let options = IngressOptions { auth: AuthMode::Keys, ..open_options() };
    let bench = Bench::with(options, |_, streams| (stores, streams));
    bench.key("ms_read", "default", Role::Read).await;
    bench.key("ms_submit", "default", Role::Submit).await;
    bench.key("ms_other", "other", Role::Admin).await;
    let ask = |secret: &str, request| header(request, "authorization", &format!("Bearer {secret}"));
    let path = format!("/v1/incidents/{}", incident["incident_id"].as_str().unwrap());
    let group = format!("/v1/incidents/groups/{}/retry", incident["fingerprint"].as_str().unwrap());
    let post = |path: &str| crate::bench::post(path, &json!({}));

    assert_eq!(bench.send(ask("ms_read", get(&path))).await.status, 200);
    assert_eq!(bench.send(ask("ms_submit", get(&path))).await.status, 200);
    for word in ["retry", "skip", "fail", "cancel"] {
        bench.send(ask("ms_read", post(&decision(&incident, word)))).await.problem(403, "forbidden");
    }
    bench.send(ask("ms_submit", post(&group))).await.problem(403, "forbidden");

    bench.send(ask("ms_other", get(&path))).await.problem(404, "not-found");
    for word in ["retry", "skip", "fail", "cancel"] {
        bench.send(ask("ms_other", post(&decision(&incident, word)))).await.problem(404, "not-found");
    }
    bench.send(ask("ms_other", post(&group))).await.problem(404, "not-found");
    let others = bench.send(ask("ms_other", get("/v1/incidents"))).await.json();
    assert_eq!(executions(&others), Vec::<&str>::new());
    let groups = bench.send(ask("ms_other", get("/v1/incidents/groups"))).await.json();
    assert_eq!(groups["items"], json!([]));
    assert_eq!(bench.send(ask("ms_read", get(&path))).await.json()["status"], "open");
}
