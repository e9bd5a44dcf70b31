//! A run from its creation to its end.

use serde_json::json;

use crate::bench::Bench;
use crate::device_fixture::by;

#[tokio::test]
async fn run_completes_on_suitable_device() {
    let bench = Bench::open();
    bench.put_device("plain", &json!({"capabilities": []})).await;
    bench.put_device("busy", &json!({"capabilities": ["render"], "load": 0.9})).await;
    bench.put_device("free", &json!({"capabilities": ["render"], "load": 0.1})).await;
    let created = bench.run("r-1", json!({"requires": ["render"]})).await;
    assert_eq!(created["status"], "assigned");
    assert_eq!((&created["seats"][0]["device"], &created["seats"][0]["token"]), (&json!("free"), &json!(1)));

    assert_eq!(bench.acted("r-1", "accept", by("free", 1)).await["status"], "claimed");
    assert_eq!(bench.acted("r-1", "start", by("free", 1)).await["status"], "processing");
    let progress = json!({"device": "free", "token": 1, "step": 2, "total": 3, "note": "two"});
    assert_eq!(bench.acted("r-1", "progress", progress).await["status"], "processing");
    assert_eq!(
        bench.found("r-1").await["seats"][0]["progress"],
        json!({"step": 2, "total": 3, "note": "two"})
    );
    let done = json!({"device": "free", "token": 1, "output": {"url": "x"}});
    assert_eq!(bench.acted("r-1", "complete", done).await["run_status"], "completed");
    let run = bench.found("r-1").await;
    assert_eq!((&run["status"], &run["seats"][0]["output"]), (&json!("completed"), &json!({"url": "x"})));
    assert!(run["ended_at"].is_string());

    let log = bench.get("/v1/runs/r-1/log").await.json();
    let words: Vec<_> = log["items"].as_array().unwrap().iter().map(|it| it["word"].clone()).collect();
    assert_eq!(words, ["create", "assign", "recorded", "accept", "start", "complete"]);
    let why = bench.get("/v1/runs/r-1/why").await.json();
    let cards = why["decisions"][0]["detail"]["cards"].as_array().unwrap();
    let order: Vec<_> = cards.iter().map(|card| card["device"].clone()).collect();
    assert_eq!(order, ["free", "busy", "plain"]);
    assert_eq!(cards[2]["unfit"]["why"], "incapable");
}

#[tokio::test]
async fn willing_creator_device_gets_run() {
    let bench = Bench::with_devices(&["one", "two"]).await;
    let own = bench.run("own", json!({"created_by": "two"})).await;
    assert_eq!((&own["status"], &own["seats"][0]["device"]), (&json!("claimed"), &json!("two")));
    let other = bench.run("other", json!({"created_by": "two", "willing": false})).await;
    assert_eq!((&other["status"], &other["seats"][0]["device"]), (&json!("assigned"), &json!("one")));
}

#[tokio::test]
async fn given_up_run_moves_with_progress() {
    let bench = Bench::with_devices(&["one", "two"]).await;
    bench.run("r-1", json!({})).await;
    let (first, token) = bench.holder("r-1").await;
    bench.acted("r-1", "decline", json!({"device": first, "token": token, "reason": "hot"})).await;
    let (second, token) = bench.holder("r-1").await;
    assert!(second != first && token == 2, "{second} {token}");
    bench.acted("r-1", "accept", by(&second, 2)).await;
    bench.acted("r-1", "start", by(&second, 2)).await;
    bench.acted("r-1", "progress", json!({"device": second, "token": 2, "step": 1, "total": 3})).await;
    let released = bench.acted("r-1", "release", by(&second, 2)).await;
    // Both devices have been tried: the run backs off.
    assert_eq!((&released["status"], released.get("token")), (&json!("reassigning"), None));
    let seat = bench.found("r-1").await["seats"][0].clone();
    assert_eq!(seat["progress"], json!({"step": 1, "total": 3}));
    let reasons: Vec<_> =
        seat["previous"].as_array().unwrap().iter().map(|it| it["reason"].clone()).collect();
    assert_eq!(reasons, ["declined", "released"]);
    assert_eq!(seat["due"]["what"], "backoff_over");
    // A device may claim it without waiting for the end of the backoff.
    let claimed = bench.acted("r-1", "claim", json!({"device": first})).await;
    assert_eq!((&claimed["status"], &claimed["token"]), (&json!("claimed"), &json!(3)));
}

#[tokio::test]
async fn run_completes_with_last_seat() {
    let bench = Bench::with_devices(&["one", "two"]).await;
    let run = bench.run("r-1", json!({"devices": 2})).await;
    assert_ne!(run["seats"][0]["device"], run["seats"][1]["device"]);
    for seat in [0, 1] {
        let device = run["seats"][seat]["device"].as_str().unwrap();
        let act = json!({"device": device, "seat": seat, "token": run["seats"][seat]["token"]});
        bench.acted("r-1", "accept", act.clone()).await;
        bench.acted("r-1", "start", act.clone()).await;
        let done = bench.acted("r-1", "complete", act).await;
        assert_eq!(done["run_status"] == "completed", seat == 1, "{done}");
    }
}

#[tokio::test]
async fn only_permanent_failure_ends_run() {
    let bench = Bench::with_devices(&["one", "two"]).await;
    for (id, retryable, status) in [("hard", false, "failed"), ("soft", true, "assigned")] {
        bench.run(id, json!({})).await;
        let (device, token) = bench.holder(id).await;
        bench.acted(id, "accept", by(&device, token)).await;
        bench.acted(id, "start", by(&device, token)).await;
        let failure = json!({"device": device, "token": token, "message": "no", "class": "gpu", "retryable": retryable});
        assert_eq!(bench.acted(id, "fail", failure).await["run_status"], status);
    }
    let error = bench.found("hard").await["seats"][0]["error"].clone();
    assert_eq!(error, json!({"kind": "error", "message": "no", "class": "gpu"}));
}

#[tokio::test]
async fn higher_priority_run_preempts_device() {
    let bench = Bench::with_devices(&["one"]).await;
    bench.run("low", json!({"priority": 1})).await;
    bench.acted("low", "accept", by("one", 1)).await;
    bench.acted("low", "start", by("one", 1)).await;
    bench.acted("low", "progress", json!({"device": "one", "token": 1, "step": 1, "total": 2})).await;
    // Only if the run asks for it.
    assert_eq!(bench.run("meek", json!({"priority": 9})).await["status"], "reassigning");
    let high = bench.run("high", json!({"priority": 5, "preempt": true})).await;
    assert_eq!((&high["status"], &high["seats"][0]["device"]), (&json!("assigned"), &json!("one")));
    let low = bench.found("low").await;
    assert_eq!(low["status"], "reassigning");
    let previous = &low["seats"][0]["previous"][0];
    assert_eq!((&previous["reason"], &previous["progress"]["step"]), (&json!("preempted"), &json!(1)));
    let problem = bench.act("low", "complete", by("one", 1)).await.problem(409, "not-owner");
    assert_eq!(problem.get("holder"), None);
}

#[tokio::test]
async fn manual_run_waits_for_assignment() {
    let bench = Bench::with_devices(&["one", "two"]).await;
    assert_eq!(bench.run("r-1", json!({"assign": "manual"})).await["status"], "created");
    let assigned = bench.acted("r-1", "assign", json!({"device": "two"})).await;
    assert_eq!((&assigned["status"], &assigned["seats"][0]["device"]), (&json!("assigned"), &json!("two")));
    assert_eq!(bench.run("r-2", json!({"assign": "manual"})).await["status"], "created");
    assert_eq!(bench.acted("r-2", "claim", json!({"device": "one"})).await["status"], "claimed");
}
