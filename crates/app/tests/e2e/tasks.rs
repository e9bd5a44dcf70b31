//! `task`: leased over HTTP by the case itself, kept with heartbeats, finished, and given up in time.

use std::time::Duration;

use millstream_testkit::{FleetMode, TestReply, eventually};
use serde_json::{Value, json};

use crate::api::{E2eApi, text_field};
use crate::world::{SOON, start_world};

both_modes!(
    unleased_task_times_out_and_retries,
    task_attempt_has_a_timeout,
    task_lease_needs_heartbeats,
    invalid_task_result_keeps_lease,
    worker_classifies_task_failure,
    task_goes_to_matching_labels,
    tasks_complete_in_one_batch,
);

const JOB: &str = r"
name: job
initial: a
states:
  a: { on: { go: { to: b, do: [work] } } }
  b: { on: { done: { to: z, set: { got: event.payload.result } } } }
  z: { final: true }
actions:
  work: { task: { type: sort, input: { n: context.n } }, on_success: done, REST }
";

async fn start_job(api: &E2eApi, rest: &str, id: &str) {
    api.apply(&JOB.replace("REST", rest)).await;
    api.start_with_events("job", id, json!({ "n": 5 }), &["go"]).await;
}

/// Waits for one task.
async fn lease_task(api: &E2eApi, worker: &str) -> Value {
    let body = json!({ "types": ["sort"], "worker": worker, "wait": 20 });
    let leased = api.client.post("/v1/tasks/lease", &body).await.expect_status(200);
    leased["tasks"].get(0).unwrap_or_else(|| panic!("no task came: {leased}")).clone()
}

async fn report_task(api: &E2eApi, task: &Value, word: &str, mut body: Value) -> TestReply {
    if body.get("token").is_none() {
        body["token"] = task["token"].clone();
    }
    let key = text_field(task, "key").replace('/', "%2F");
    api.client.post(&format!("/v1/tasks/{key}/{word}"), &body).await
}

async fn unleased_task_times_out_and_retries(mode: FleetMode) {
    let world = start_world(mode).await;
    let api = &world.api;
    start_job(api, "timeouts: { schedule_to_start: 1s }", "j-1").await;
    let incident = api.open_incident("j-1").await;
    assert_eq!(incident["class"], "schedule", "{incident}");
    assert!(text_field(&incident, "reason").contains("not started within 1s"), "{incident}");
    let (task, _) = tokio::join!(lease_task(api, "w-1"), api.resolve(&incident, "retry", json!({})));
    assert_eq!((&task["input"], &task["attempt"]), (&json!({ "n": 5 }), &json!(1)), "{task}");
    report_task(api, &task, "complete", json!({ "result": "sorted" })).await.expect_status(200);
    assert_eq!(api.execution_in("j-1", "completed").await["context"]["got"], "sorted");
}

async fn task_attempt_has_a_timeout(mode: FleetMode) {
    let world = start_world(mode).await;
    let api = &world.api;
    start_job(api, "timeouts: { start_to_close: 500ms }, retry: { attempts: 2, backoff: 10ms }", "j-1").await;
    let first = lease_task(api, "w-1").await;
    let second = lease_task(api, "w-2").await;
    assert_eq!((&second["key"], &second["attempt"]), (&first["key"], &json!(2)), "{second}");
    let late = report_task(api, &first, "complete", json!({ "result": 1 })).await.expect_problem(409);
    assert!(text_field(&late, "detail").contains("w-2"), "{late}");
    let incident = {
        let wish = json!({ "types": ["sort"], "wait": 2 });
        let nothing = api.client.post("/v1/tasks/lease", &wish);
        let (none, incident) = tokio::join!(nothing, api.open_incident("j-1"));
        assert_eq!(none.expect_status(200)["tasks"], json!([]), "two attempts are all");
        incident
    };
    assert_eq!(incident["class"], "timeout", "{incident}");
}

async fn task_lease_needs_heartbeats(mode: FleetMode) {
    let world = start_world(mode).await;
    let api = &world.api;
    start_job(api, "timeouts: { heartbeat: 800ms }, retry: { attempts: 2, backoff: 10ms }", "j-1").await;
    let first = lease_task(api, "w-1").await;
    assert_eq!(first["heartbeat_ms"], 800, "{first}");
    let mut beats = tokio::time::interval(Duration::from_millis(250));
    for n in 0..6 {
        beats.tick().await;
        let held = report_task(api, &first, "heartbeat", json!({ "progress": { "at": n } }))
            .await
            .expect_status(200);
        assert_eq!(held["cancelled"], false, "{held}");
    }
    let shown = api.latest_action("j-1", "work").await.expect("the action");
    assert_eq!((&shown["attempts"], &shown["progress"]), (&json!(1), &json!({ "at": 5 })), "{shown}");

    let second = lease_task(api, "w-2").await;
    assert_eq!((&second["attempt"], &second["progress"]), (&json!(2), &json!({ "at": 5 })), "{second}");
    report_task(api, &first, "heartbeat", json!({})).await.expect_problem(409);
    api.client.post("/v1/executions/j-1/cancel", &json!({})).await.expect_status(202);
    api.execution_in("j-1", "cancelled").await;
    let held = report_task(api, &second, "heartbeat", json!({})).await.expect_status(200);
    assert_eq!(held["cancelled"], true, "the worker may stop: {held}");
}

async fn invalid_task_result_keeps_lease(mode: FleetMode) {
    let world = start_world(mode).await;
    let api = &world.api;
    start_job(api, "retry: { attempts: 1 }", "j-1").await;
    let task = lease_task(api, "w-1").await;
    for (word, body, path) in [
        ("complete", json!({ "token": "one", "result": 1 }), "token"),
        ("complete", json!({ "result": 1, "reslut": 2 }), "reslut"),
        ("complete", json!({ "result": "x".repeat(200 * 1024) }), "result"),
        ("fail", json!({ "message": 5 }), "message"),
        ("fail", json!({ "message": "no", "then": "explode" }), "then"),
        ("fail", json!({ "message": "no", "class": "No Such Thing" }), "class"),
    ] {
        let problem = report_task(api, &task, word, body).await.expect_problem(422);
        let paths: Vec<_> =
            problem["problems"].as_array().unwrap().iter().map(|each| text_field(each, "path")).collect();
        assert!(paths.iter().any(|seen| seen == path), "{path}: {problem}");
    }
    let shown = api.latest_action("j-1", "work").await.expect("the action");
    assert_eq!((&shown["status"], &shown["worker_id"]), (&json!("leased"), &json!("w-1")), "{shown}");
    report_task(api, &task, "complete", json!({ "result": 1 })).await.expect_status(200);
    assert_eq!(api.execution_in("j-1", "completed").await["context"]["got"], 1);
    report_task(api, &task, "complete", json!({ "result": 2 })).await.expect_problem(409);
}

async fn worker_classifies_task_failure(mode: FleetMode) {
    let world = start_world(mode).await;
    let api = &world.api;
    start_job(api, "retry: { attempts: 9, backoff: 10ms, except: [card_declined] }", "j-1").await;
    let task = lease_task(api, "w-1").await;
    let failed = report_task(api, &task, "fail", json!({ "message": "busy" })).await.expect_status(200);
    assert_eq!(failed["outcome"], "retried", "{failed}");
    let task = lease_task(api, "w-1").await;
    assert_eq!(task["attempt"], 2, "{task}");
    let declined = json!({ "message": "no money \u{0}", "class": "card_declined" });
    let failed = report_task(api, &task, "fail", declined).await.expect_status(200);
    assert_eq!(failed["outcome"], "incident", "{failed}");
    let incident = api.open_incident("j-1").await;
    assert_eq!(
        (&incident["class"], &incident["attempts"]),
        (&json!("card_declined"), &json!(2)),
        "{incident}"
    );
    let input = json!({ "task": { "type": "sort", "input": { "n": 6 } } });
    let (task, resolved) =
        tokio::join!(lease_task(api, "w-2"), api.resolve(&incident, "retry", json!({ "input": input })));
    assert_eq!((&task["input"], &task["key"]), (&json!({ "n": 6 }), &resolved["key"]), "{task}");
    assert!(text_field(&task, "key").ends_with("~1"), "{task}");
    report_task(api, &task, "complete", json!({})).await.expect_status(200);
    api.execution_in("j-1", "completed").await;
}

async fn task_goes_to_matching_labels(mode: FleetMode) {
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(&JOB.replace("type: sort", "type: sort, labels: [big, fast]").replace("REST", "")).await;
    api.start_with_events("job", "j-1", json!({ "n": 5 }), &["go"]).await;
    let unfit = api.clone();
    let unfit = tokio::spawn(async move {
        let wish = json!({ "types": ["sort"], "labels": ["big"], "worker": "slow-1", "wait": 60 });
        unfit.client.post("/v1/tasks/lease", &wish).await
    });
    let key = "default/j-1/2/work";
    let why = eventually(SOON, || async {
        let reply = api.client.get(&format!("/v1/tasks/{}/why", key.replace('/', "%2F"))).await;
        if reply.status == 200 && reply.body.contains("slow-1") { Ok(reply.json()) } else { Err(reply.body) }
    })
    .await;
    assert_eq!(why["connected"][0]["missing"], "lacks the labels fast", "{why}");
    let shown = world.fleet.run_cli(["why", key]);
    let shown =
        format!("{}{}", String::from_utf8_lossy(&shown.stdout), String::from_utf8_lossy(&shown.stderr));
    assert!(shown.contains("slow-1") && shown.contains("lacks the labels fast"), "{shown}");

    let wish = json!({ "types": ["sort"], "labels": ["fast", "big", "red"], "worker": "fit-1", "wait": 20 });
    let task = api.client.post("/v1/tasks/lease", &wish).await.expect_status(200)["tasks"][0].clone();
    report_task(api, &task, "complete", json!({ "result": 1 })).await.expect_status(200);
    api.execution_in("j-1", "completed").await;
    assert!(!unfit.is_finished(), "the one that had waited longer got nothing");
    unfit.abort();
}

async fn tasks_complete_in_one_batch(mode: FleetMode) {
    const JOBS: usize = 20;
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(&JOB.replace("REST", "")).await;
    for i in 0..JOBS {
        api.start_with_events("job", &format!("j-{i}"), json!({ "n": i }), &["go"]).await;
    }
    let mut done = Vec::new();
    while done.len() < JOBS {
        let wish = json!({ "types": ["sort"], "max": JOBS, "wait": 20 });
        let leased = api.client.post("/v1/tasks/lease", &wish).await.expect_status(200);
        let tasks = leased["tasks"].as_array().unwrap().clone();
        assert!(!tasks.is_empty(), "no task came after {}", done.len());
        done.extend(
            tasks.iter().map(
                |task| json!({ "key": task["key"], "token": task["token"], "result": task["input"]["n"] }),
            ),
        );
    }
    let stale = json!({ "key": done[0]["key"], "token": 99, "result": "stale" });
    done.insert(0, stale);
    let verdicts = api.client.post("/v1/tasks/complete", &json!(done)).await.expect_status(200);
    let verdicts = verdicts["items"].as_array().unwrap().clone();
    assert_eq!(verdicts[0]["problem"]["status"], 409, "{verdicts:?}");
    assert!(verdicts[1..].iter().all(|verdict| verdict["outcome"] == "completed"), "{verdicts:?}");
    assert_eq!(verdicts.len(), JOBS + 1);
    for i in 0..JOBS {
        let ended = api.execution_in(&format!("j-{i}"), "completed").await;
        assert_eq!(ended["context"]["got"], i, "{ended}");
    }
}
