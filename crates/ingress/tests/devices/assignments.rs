//! Assignments of a device, and long polling for a change of the list.

use serde_json::json;

use crate::bench::{Bench, open_options};
use crate::device_fixture::by;

const ASSIGNMENTS: &str = "/v1/devices/one/assignments";

#[tokio::test]
async fn assignments_are_sorted_by_priority_then_age() {
    let bench = Bench::open();
    bench.put_device("one", &json!({})).await;
    for (id, priority) in [("a", 1), ("b", 5), ("c", 5), ("d", 9)] {
        bench.run(id, json!({"priority": priority})).await;
    }
    let all = bench.get(ASSIGNMENTS).await.json();
    let ids: Vec<_> = all["items"].as_array().unwrap().iter().map(|it| it["run_id"].clone()).collect();
    assert_eq!(ids, ["d", "b", "c", "a"]);
    let first = &all["items"][0];
    assert_eq!(
        (&first["status"], &first["token"], &first["input"]["frames"]),
        (&json!("assigned"), &json!(1), &json!(3))
    );
    assert_eq!(first["due"]["what"], "assignment_timeout");
}

#[tokio::test]
async fn new_assignment_wakes_waiting_device() {
    let bench = Bench::with_devices(&["one"]).await;
    let waits = bench.get("/v1/devices/one/assignments?wait=30");
    let creates = async {
        tokio::task::yield_now().await;
        bench.run("r-1", json!({})).await
    };
    let (found, _) = futures::join!(waits, creates);
    assert_eq!(found.json()["items"][0]["run_id"], "r-1");
}

#[tokio::test]
async fn device_with_current_list_waits_for_change() {
    let bench = Bench::with_devices(&["one"]).await;
    bench.run("r-1", json!({})).await;
    let seen = bench.get(ASSIGNMENTS).await.json();
    let version = seen["version"].as_str().unwrap().to_owned();
    let same = bench.get(&format!("{ASSIGNMENTS}?if_version={version}&wait=0")).await.json();
    assert_eq!(same, seen);
    let path = format!("{ASSIGNMENTS}?if_version={version}&wait=30");
    let waits = bench.get(&path);
    let takes = async {
        tokio::task::yield_now().await;
        bench.acted("r-1", "cancel", json!({"reason": "enough"})).await
    };
    let (found, _) = futures::join!(waits, takes);
    assert_eq!(found.json()["items"], json!([]));
    bench.act("r-1", "accept", by("one", 1)).await.problem(409, "not-owner");
}

#[tokio::test]
async fn old_name_of_if_version_is_refused_with_hint() {
    let bench = Bench::with_devices(&["one"]).await;
    for path in [ASSIGNMENTS.to_owned(), format!("{ASSIGNMENTS}/stream")] {
        let problem = bench.get(&format!("{path}?seen=v")).await.problem(422, "invalid");
        assert_eq!(
            problem["problems"],
            json!([{"path": "query.seen", "message": "unknown parameter; its name is if_version now"}])
        );
    }
    let elsewhere = bench.get("/v1/devices?seen=v").await.problem(422, "invalid");
    let message = elsewhere["problems"][0]["message"].as_str().unwrap();
    assert!(!message.contains("if_version"), "{message}");
}

#[tokio::test]
async fn assignment_wait_times_out_empty() {
    let bench = Bench::with_devices(&["one"]).await;
    let answer = bench.get("/v1/devices/one/assignments?wait=1").await;
    assert_eq!((answer.status.as_u16(), &answer.json()["items"]), (200, &json!([])));
    for query in ["wait=61", "wait=-1", "wait=x", "weight=1"] {
        bench.get(&format!("{ASSIGNMENTS}?{query}")).await.problem(422, "invalid");
    }
}

/// Far below the interval after which a waiting device re-reads the list without a wake-up.
const SOON: std::time::Duration = std::time::Duration::from_secs(3);

#[tokio::test]
async fn other_process_wakes_waiting_device() {
    let here = Bench::with_devices(&["one"]).await;
    let elsewhere = Bench::with(open_options(), |_, _| (here.stores.clone(), here.streams.clone()));
    let waits = here.get("/v1/devices/one/assignments?wait=30");
    let creates = async {
        // Until the first read has found nothing and the request waits.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        elsewhere.run("r-1", json!({})).await
    };
    let (found, _) = tokio::time::timeout(SOON, async { futures::join!(waits, creates) }).await.unwrap();
    assert_eq!(found.json()["items"][0]["run_id"], "r-1");
}
