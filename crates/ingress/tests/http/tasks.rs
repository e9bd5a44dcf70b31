//! Tasks: leased, renewed, finished, explained; and the rejection of stale tokens.

use std::time::{Duration, Instant};

use millstream_ingress::IngressOptions;
use millstream_model::status::Role;
use millstream_testkit::eventually;
use serde_json::{Value, json};

use crate::bench::{Bench, header, open_options, post, yaml};
use crate::schema::mismatches;

const IMAGES: &str = r#"
name: images
initial: new
states:
  new: { on: { go: { to: working, do: [resize, label] } } }
  working: { on: { resized: { to: done }, lost: { to: failed } } }
  done: { final: true }
  failed: { final: failed }
actions:
  resize:
    task: { type: resize, labels: [gpu], input: { width: event.payload.width } }
    retry: { attempts: 2, backoff: 1ms, max: 1ms }
    timeouts: { heartbeat: 100ms, start_to_close: 1m }
    on_success: resized
    on_failure: lost
  label: { task: { type: label, input: { of: results.resize.name } }, needs: [resize] }
"#;

async fn images(options: IngressOptions) -> Bench {
    let bench = Bench::with(options, |stores, streams| (stores, streams));
    let answer = bench.send(yaml("/v1/definitions", IMAGES)).await;
    assert!(answer.status.is_success(), "{answer:?}");
    bench
}

async fn go(bench: &Bench, id: &str) {
    let started = bench.post("/v1/executions", &json!({"definition": "images", "execution_id": id})).await;
    assert_eq!(started.status, 201, "{started:?}");
    let path = format!("/v1/executions/{id}/events");
    bench.post(&path, &json!({"name": "go", "payload": {"width": 640}})).await;
    bench.decide(id).await;
}

async fn lease(bench: &Bench, body: &Value) -> Vec<Value> {
    let answer = bench.post("/v1/tasks/lease", body).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()["tasks"].as_array().unwrap().clone()
}

fn wish() -> Value {
    json!({"types": ["resize", "label"], "labels": ["gpu", "big"], "max": 5, "wait": 10, "worker": "py-1"})
}

fn path(task: &Value, act: &str) -> String {
    format!("/v1/tasks/{}/{act}", task["key"].as_str().unwrap().replace('/', "%2F"))
}

#[tokio::test]
async fn leased_task_has_worker_fields() {
    let bench = images(open_options()).await;
    go(&bench, "i-1").await;
    let tasks = lease(&bench, &wish()).await;
    let [task] = &tasks[..] else { panic!("{tasks:?}") };
    assert_eq!(task["key"], "default/i-1/2/resize");
    assert_eq!(
        (&task["type"], &task["labels"], &task["attempt"]),
        (&json!("resize"), &json!(["gpu"]), &json!(1))
    );
    assert_eq!((&task["input"], &task["heartbeat_ms"]), (&json!({"width": 640}), &json!(100)));
    assert!(task["deadline"].as_str().unwrap() > task["lease_until"].as_str().unwrap(), "{task}");
    assert!(lease(&bench, &json!({"types": ["resize"], "labels": ["gpu"]})).await.is_empty(), "leased once");
}

#[tokio::test]
async fn new_task_wakes_waiting_worker() {
    let bench = images(open_options()).await;
    let waiting = tokio::spawn({
        let (app, wish) = (bench.app.clone(), wish());
        async move { tower::ServiceExt::oneshot(app, post("/v1/tasks/lease", &wish)).await.unwrap() }
    });
    tokio::task::yield_now().await;
    go(&bench, "i-1").await;
    let begun = Instant::now();
    let answer = crate::bench::Answer::of(waiting.await.unwrap()).await;
    assert_eq!(answer.json()["tasks"].as_array().unwrap().len(), 1, "{answer:?}");
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn task_lease_without_wait_returns_immediately() {
    let bench = images(open_options()).await;
    go(&bench, "i-1").await;
    assert_eq!(lease(&bench, &json!({"types": ["resize"], "labels": ["gpu"]})).await[0]["attempt"], 1);
    let begun = Instant::now();
    assert!(lease(&bench, &json!({"types": ["label"]})).await.is_empty());
    assert!(begun.elapsed() < Duration::from_secs(4), "the empty answer comes in time");
}

#[tokio::test]
async fn task_lease_wait_times_out_empty() {
    let bench = images(open_options()).await;
    let begun = Instant::now();
    assert!(lease(&bench, &json!({"types": ["resize"], "wait": "1s"})).await.is_empty());
    assert!(begun.elapsed() >= Duration::from_secs(1));
}

#[tokio::test]
async fn task_result_reaches_dependent_action() {
    let bench = images(open_options()).await;
    go(&bench, "i-1").await;
    let task = lease(&bench, &wish()).await.remove(0);
    let done = bench
        .post(&path(&task, "complete"), &json!({"token": task["token"], "result": {"name": "x.png"}}))
        .await;
    assert_eq!((done.status.as_u16(), &done.json()["outcome"]), (200, &json!("completed")), "{done:?}");
    let label = lease(&bench, &wish()).await.remove(0);
    assert_eq!((&label["type"], &label["input"]), (&json!("label"), &json!({"of": "x.png"})));
    bench.decide("i-1").await;
    assert_eq!(bench.get("/v1/executions/i-1").await.json()["state"], "done");
}

#[tokio::test]
async fn task_result_batch_has_verdicts() {
    let bench = images(open_options()).await;
    for id in ["i-1", "i-2", "i-3"] {
        go(&bench, id).await;
    }
    let tasks = lease(&bench, &wish()).await;
    let item = |task: &Value| json!({"key": task["key"], "token": task["token"], "result": {"name": "x"}});
    let mut late = item(&tasks[1]);
    late["token"] = json!(7);
    let batch = json!([item(&tasks[0]), late, {"key": "other/i/2/resize", "token": 1}, {"token": "x"}, item(&tasks[2])]);
    let answer = bench.post("/v1/tasks/complete", &batch).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let verdicts = answer.json();
    let seen: Vec<Value> = verdicts["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item.get("outcome").unwrap_or(&item["problem"]["status"]).clone())
        .collect();
    assert_eq!(
        seen,
        [json!("completed"), json!(409), json!(404), json!(422), json!("completed")],
        "{verdicts}"
    );
    let document = bench.get("/openapi.json").await.json();
    assert_eq!(mismatches(&document, "TaskSettledVerdicts", &verdicts), [""; 0]);
    let again = bench.post("/v1/tasks/complete", &json!([item(&tasks[0])])).await.json();
    assert_eq!(again["items"][0]["problem"]["status"], 409, "{again}");
}

#[tokio::test]
async fn task_outcome_ends_event_wait() {
    let options = IngressOptions { reread: Duration::from_secs(60), ..open_options() };
    let bench = images(options).await;
    go(&bench, "i-1").await;
    let mut heard = bench.streams.announcer.subscribe_all().await.unwrap();
    let task = lease(&bench, &wish()).await.remove(0);
    bench.post(&path(&task, "complete"), &json!({"token": task["token"], "result": {"name": "x"}})).await;
    let word = tokio::time::timeout(Duration::from_secs(10), heard.recv()).await.unwrap().unwrap();
    assert_eq!((word.execution.execution.as_str(), word.seq.0), ("i-1", 2), "{word:?}");
    assert!(word.event.is_some());
}

#[tokio::test]
async fn stale_task_token_names_holder() {
    let bench = images(open_options()).await;
    go(&bench, "i-1").await;
    let first = lease(&bench, &wish()).await.remove(0);
    let second = json!({"types": ["resize"], "labels": ["gpu"], "wait": 10, "worker": "py-2"});
    let again = lease(&bench, &second).await.remove(0);
    assert_eq!((&again["attempt"], &again["key"]), (&json!(2), &first["key"]), "its lease ran out");
    for act in ["heartbeat", "complete"] {
        let late = bench.post(&path(&first, act), &json!({"token": first["token"]})).await;
        let problem = late.problem(409, "conflict");
        assert!(problem["detail"].as_str().unwrap().contains("py-2"), "{problem}");
    }
    let kept = bench
        .post(&path(&again, "heartbeat"), &json!({"token": again["token"], "progress": {"at": 1}}))
        .await;
    assert_eq!((kept.status.as_u16(), &kept.json()["cancelled"]), (200, &json!(false)), "{kept:?}");
    let document = bench.get("/openapi.json").await.json();
    let done = bench.post(&path(&again, "complete"), &json!({"token": again["token"]})).await;
    assert_eq!(done.status, 200);
    let why = bench.get(&path(&again, "why")).await;
    for (schema, answer) in [
        ("Task", &again),
        ("TaskHeld", &kept.json()),
        ("TaskSettled", &done.json()),
        ("TaskWhy", &why.json()),
    ] {
        assert_eq!(mismatches(&document, schema, answer), Vec::<String>::new(), "{answer:#}");
    }
    let twice = bench.post(&path(&again, "complete"), &json!({"token": again["token"]})).await;
    assert!(twice.problem(409, "conflict")["detail"].as_str().unwrap().contains("succeeded"));
}

#[tokio::test]
async fn task_progress_reaches_next_attempt() {
    let bench = images(open_options()).await;
    go(&bench, "i-1").await;
    let first = lease(&bench, &wish()).await.remove(0);
    bench.post(&path(&first, "heartbeat"), &json!({"token": first["token"], "progress": {"at": 7}})).await;
    let again = lease(&bench, &wish()).await.remove(0);
    assert_eq!((&again["attempt"], &again["progress"]), (&json!(2), &json!({"at": 7})));
}

#[tokio::test]
async fn task_lease_losses_are_limited() {
    let bench = images(open_options()).await;
    go(&bench, "i-1").await;
    assert_eq!(lease(&bench, &wish()).await[0]["attempt"], 1);
    assert_eq!(lease(&bench, &wish()).await[0]["attempt"], 2);
    let nothing = json!({"types": ["resize"], "labels": ["gpu"], "wait": 1});
    assert!(lease(&bench, &nothing).await.is_empty());
    bench.decide("i-1").await;
    assert_eq!(bench.get("/v1/executions/i-1").await.json()["state"], "failed");
    let actions = bench.get("/v1/executions/i-1/actions").await.json();
    assert_eq!(actions["items"][0]["error"]["class"], "heartbeat", "{actions}");
}

#[tokio::test]
async fn failed_task_follows_then_field() {
    let bench = images(open_options()).await;
    for (id, then, outcome, state) in [
        ("a", "retry", "retried", "working"),
        ("b", "fail", "failed", "failed"),
        ("c", "pause", "incident", "working"),
    ] {
        go(&bench, id).await;
        let task = lease(&bench, &wish()).await.remove(0);
        let body = json!({"token": task["token"], "message": "no gpu left", "class": "gpu", "then": then});
        let failed = bench.post(&path(&task, "fail"), &body).await;
        assert_eq!((failed.status.as_u16(), &failed.json()["outcome"]), (200, &json!(outcome)), "{failed:?}");
        if then == "retry" {
            let again = lease(&bench, &wish()).await.remove(0);
            bench.post(&path(&again, "complete"), &json!({"token": again["token"]})).await;
            continue;
        }
        bench.decide(id).await;
        let execution = bench.get(&format!("/v1/executions/{id}")).await.json();
        assert_eq!(execution["state"], state, "{execution}");
        assert_eq!(execution["status"], if then == "pause" { "paused" } else { "failed" });
    }
}

#[tokio::test]
async fn failed_task_of_cancelled_execution_is_cancelled() {
    let bench = images(open_options()).await;
    go(&bench, "i-1").await;
    let task = lease(&bench, &wish()).await.remove(0);
    bench.post("/v1/executions/i-1/cancel", &json!({})).await;
    bench.decide("i-1").await;
    let failed = bench.post(&path(&task, "fail"), &json!({"token": task["token"], "message": "no"})).await;
    assert_eq!((failed.status.as_u16(), &failed.json()["outcome"]), (200, &json!("cancelled")), "{failed:?}");
}

#[tokio::test]
async fn task_why_lists_connected_workers() {
    let bench = images(open_options()).await;
    go(&bench, "i-1").await;
    let why = "/v1/tasks/default%2Fi-1%2F2%2Fresize/why";
    let reason = |answer: Value| answer["reason"].as_str().unwrap().to_owned();
    let alone = reason(bench.get(why).await.json());
    assert!(alone.contains("\"resize\"") && alone.contains("gpu") && alone.contains("no worker"), "{alone}");
    let other = tokio::spawn({
        let app = bench.app.clone();
        let body = json!({"types": ["resize"], "labels": ["big"], "wait": 60, "worker": "py-9"});
        async move { tower::ServiceExt::oneshot(app, post("/v1/tasks/lease", &body)).await.unwrap() }
    });
    let seen = eventually(Duration::from_secs(20), || async {
        let answer = bench.get(why).await.json();
        match answer["connected"].as_array().map(Vec::len) {
            Some(1) => Ok(answer),
            Some(_) | None => Err(answer),
        }
    })
    .await;
    assert_eq!((&seen["connected"][0]["worker"], &seen["status"]), (&json!("py-9"), &json!("ready")));
    assert_eq!(seen["connected"][0]["missing"], "lacks the labels gpu", "{seen}");
    assert!(reason(seen.clone()).contains("the one connected worker does not match"), "{seen}");
    other.abort();
    lease(&bench, &wish()).await;
    let held = reason(bench.get(why).await.json());
    assert!(held.contains("py-1 holds it"), "{held}");
    bench.get("/v1/tasks/default%2Fi-1%2F2%2Fnone/why").await.problem(404, "not-found");
}

#[tokio::test]
async fn invalid_task_result_keeps_lease() {
    let bench = images(open_options()).await;
    go(&bench, "i-1").await;
    let bad = bench.post("/v1/tasks/lease", &json!({"types": [], "max": 0, "wait": 61, "label": 1})).await;
    let problem = bad.problem(422, "invalid");
    for field in ["types", "max", "wait", "label"] {
        assert!(problem["problems"].to_string().contains(&format!("\"path\":\"{field}\"")), "{problem}");
    }
    let task = lease(&bench, &wish()).await.remove(0);
    for (act, body, field) in [
        ("complete", json!({"result": 1}), "token"),
        ("complete", json!({"token": "1"}), "token"),
        ("complete", json!({"token": task["token"], "result": "x".repeat(200 * 1024)}), "result"),
        ("fail", json!({"token": task["token"]}), "message"),
        ("fail", json!({"token": task["token"], "message": "m", "then": "panic"}), "then"),
        ("fail", json!({"token": task["token"], "message": "m", "class": "No Class"}), "class"),
        ("heartbeat", json!({"token": task["token"], "progress": 1, "x": 1}), "x"),
    ] {
        let problem = bench.post(&path(&task, act), &body).await.problem(422, "invalid");
        assert!(problem["problems"].to_string().contains(&format!("\"path\":\"{field}\"")), "{problem}");
    }
    let done = bench.post(&path(&task, "complete"), &json!({"token": task["token"], "result": [1]})).await;
    assert_eq!(done.status, 200, "{done:?}");
}

#[tokio::test]
async fn task_leases_isolate_tenants() {
    let bench = Bench::open();
    bench.key("ms_own", "default", Role::Admin).await;
    bench.key("ms_other", "other", Role::Submit).await;
    let own = |request| header(request, "authorization", "Bearer ms_own");
    let other = |request| header(request, "authorization", "Bearer ms_other");
    bench.send(own(yaml("/v1/definitions", IMAGES))).await;
    let start = json!({"definition": "images", "execution_id": "i-1", "events": [{"name": "go", "payload": {"width": 1}}]});
    assert_eq!(bench.send(own(post("/v1/executions", &start))).await.status, 201);
    bench.decide("i-1").await;
    let wish = json!({"types": ["resize"], "labels": ["gpu"]});
    assert_eq!(bench.send(other(post("/v1/tasks/lease", &wish))).await.json()["tasks"], json!([]));
    let wish = json!({"types": ["resize"], "labels": ["gpu"], "wait": 10});
    let task = bench.send(own(post("/v1/tasks/lease", &wish))).await.json()["tasks"][0].clone();
    let body = json!({"token": task["token"]});
    bench.send(other(post(&path(&task, "complete"), &body))).await.problem(404, "not-found");
    assert_eq!(bench.send(own(post(&path(&task, "complete"), &body))).await.status, 200);
}

#[tokio::test]
async fn undelivered_task_lease_is_returned() {
    let bench = images(open_options()).await;
    let gone = tokio::spawn({
        let (app, wish) = (bench.app.clone(), wish());
        async move { tower::ServiceExt::oneshot(app, post("/v1/tasks/lease", &wish)).await.unwrap() }
    });
    tokio::task::yield_now().await;
    gone.abort();
    let _ = gone.await;
    go(&bench, "i-1").await;
    let task = lease(&bench, &wish()).await.remove(0);
    assert_eq!(task["attempt"], 1);
}
