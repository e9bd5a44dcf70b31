//! Lists: pages, cursors, filters, and unknown parameters.

use serde_json::{Value, json};

use crate::bench::Bench;

fn ids(page: &Value, field: &str) -> Vec<String> {
    let items = page["items"].as_array().unwrap_or_else(|| panic!("{page}"));
    items.iter().map(|item| item[field].as_str().unwrap_or_else(|| panic!("{page}")).to_owned()).collect()
}

#[tokio::test]
async fn executions_are_paged_newest_first() {
    let bench = Bench::with_order().await;
    for n in 0..7 {
        bench.start(&format!("o-{n}")).await;
    }
    let mut seen = Vec::new();
    let mut path = "/v1/executions?limit=3".to_owned();
    loop {
        let page = bench.get(&path).await.json();
        seen.extend(ids(&page, "execution_id"));
        // An execution that starts meanwhile does not shift the pages.
        bench.post("/v1/executions", &json!({"definition": "order"})).await;
        match page["next_cursor"].as_str() {
            Some(cursor) => path = format!("/v1/executions?limit=3&cursor={cursor}"),
            None => break,
        }
    }
    assert_eq!(seen, ["o-6", "o-5", "o-4", "o-3", "o-2", "o-1", "o-0"]);
}

#[tokio::test]
async fn executions_are_filtered() {
    let bench = Bench::with_order().await;
    bench.start("o-1").await;
    bench.start("o-2").await;
    bench.post("/v1/executions/o-2/events", &json!({"name": "pay", "payload": {"amount": 1}})).await;
    bench.decide("o-2").await;
    let found =
        async |query: &str| ids(&bench.get(&format!("/v1/executions?{query}")).await.json(), "execution_id");
    assert_eq!(found("definition=order").await.len(), 2);
    assert_eq!(found("definition=other").await.len(), 0);
    assert_eq!(found("state=paid").await, ["o-2"]);
    assert_eq!(found("status=active&state=received").await, ["o-1"]);
    assert_eq!(found("status=completed").await.len(), 0);
}

#[tokio::test]
async fn history_is_paged() {
    let bench = Bench::with_order().await;
    bench.start("o-1").await;
    for _ in 0..5 {
        bench.post("/v1/executions/o-1/events", &json!({"name": "note"})).await;
    }
    bench.decide("o-1").await;
    let first = bench.get("/v1/executions/o-1/history?limit=4").await.json();
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = bench.get(&format!("/v1/executions/o-1/history?limit=4&cursor={cursor}")).await.json();
    let seqs = |page: &Value| {
        page["items"].as_array().unwrap().iter().map(|item| item["seq"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!((seqs(&first), seqs(&second)), (vec![1, 2, 3, 4], vec![5, 6]));
    assert_eq!(second["next_cursor"], json!(null));
}

#[tokio::test]
async fn large_history_pages_are_shortened() {
    let bench = Bench::with_order().await;
    bench.start("o-1").await;
    let heavy = "x".repeat(255 * 1024);
    for _ in 0..20 {
        let sent = bench.post("/v1/executions/o-1/events", &json!({"name": "note", "payload": heavy})).await;
        assert_eq!(sent.status, 202, "{}", sent.text.len());
        bench.decide("o-1").await;
    }
    let pages = pages(&bench, "/v1/executions/o-1/history?limit=1000", |item| item["seq"].to_string()).await;
    assert_eq!(pages.len(), 2, "{pages:?}");
    assert_eq!(pages.concat(), (1..=21).map(|seq| seq.to_string()).collect::<Vec<_>>());
    let past = bench.get("/v1/executions/o-1?at_seq=20").await.json();
    assert_eq!(past["seq"], 20, "the past is folded over all pages");
}

#[tokio::test]
async fn actions_and_timers_are_paged() {
    let bench = Bench::open();
    let busy = r#"
name: busy
initial: idle
states:
  idle:
    on: { go: { do: [c, a, b] } }
    after: [ { in: 2h, send: go }, { in: 1h, send: go }, { in: 1h, send: go } ]
actions: { a: { noop: null }, b: { noop: null }, c: { noop: null } }
"#;
    let put = bench.send(crate::bench::yaml("/v1/definitions", busy)).await;
    assert_eq!(put.status, 201, "{put:?}");
    bench.post("/v1/executions", &json!({"definition": "busy", "execution_id": "o-1"})).await;
    for _ in 0..2 {
        bench.post("/v1/executions/o-1/events", &json!({"name": "go"})).await;
    }
    bench.decide("o-1").await;
    let shown = |item: &Value| format!("{}{}", item["seq"], item["action"].as_str().unwrap());
    let actions = pages(&bench, "/v1/executions/o-1/actions?limit=4", shown).await;
    assert_eq!(actions, [vec!["2c", "2a", "2b", "3c"], vec!["3a", "3b"]]);
    let shown = |item: &Value| item["ordinal"].to_string();
    let timers = pages(&bench, "/v1/executions/o-1/timers?limit=2", shown).await;
    assert_eq!(timers, [vec!["1", "2"], vec!["0"]]);
    for list in ["actions", "timers"] {
        let path = format!("/v1/executions/o-1/{list}");
        assert_eq!(bench.get(&path).await.json()["next_cursor"], json!(null));
        for (query, fault) in
            [("limit=0", "query.limit"), ("limit=501", "query.limit"), ("cursor=00", "query.cursor")]
        {
            let document = bench.get(&format!("{path}?{query}")).await.problem(422, "invalid");
            assert_eq!(document["problems"][0]["path"], fault, "{list} {query}");
        }
        bench.get(&format!("/v1/executions/none/{list}")).await.problem(404, "not-found");
    }
}

/// All pages of a list, with its items as shown.
async fn pages(bench: &Bench, path: &str, show: impl Fn(&Value) -> String) -> Vec<Vec<String>> {
    let mut pages = Vec::new();
    let mut next = path.to_owned();
    loop {
        let page = bench.get(&next).await.json();
        pages.push(page["items"].as_array().unwrap_or_else(|| panic!("{page}")).iter().map(&show).collect());
        match page["next_cursor"].as_str() {
            Some(cursor) => next = format!("{path}&cursor={cursor}"),
            None => return pages,
        }
    }
}

#[tokio::test]
async fn events_are_listed_in_accept_order() {
    let bench = Bench::with_order().await;
    bench.start("o-1").await;
    for n in 0..5 {
        bench.post("/v1/executions/o-1/events", &json!({"name": "note", "payload": n})).await;
    }
    let first = bench.get("/v1/events?status=pending&limit=3").await.json();
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = bench.get(&format!("/v1/events?status=pending&limit=3&cursor={cursor}")).await.json();
    let payloads = |page: &Value| {
        page["items"].as_array().unwrap().iter().map(|item| item["payload"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(
        (payloads(&first), payloads(&second)),
        (vec![json!(0), json!(1), json!(2)], vec![json!(3), json!(4)])
    );
}

#[tokio::test]
async fn invalid_query_parameter_is_named() {
    let bench = Bench::with_order().await;
    bench.start("o-1").await;
    let cursor = bench.get("/v1/executions?limit=1").await.json()["next_cursor"].clone();
    assert_eq!(cursor, json!(null));
    for (query, path) in [
        ("limit=0", "query.limit"),
        ("limit=501", "query.limit"),
        ("limit=many", "query.limit"),
        ("cursor=nonsense", "query.cursor"),
        ("status=open", "query.status"),
        ("state=Not+A+Name", "query.state"),
        ("definition=%00", "query.definition"),
        ("stauts=active", "query.stauts"),
        ("limit=1&limit=2", "query.limit"),
    ] {
        let document = bench.get(&format!("/v1/executions?{query}")).await.problem(422, "invalid");
        assert_eq!(document["problems"][0]["path"], path, "{query}: {document}");
    }
    bench.get("/v1/workers?limit=1").await.problem(422, "invalid");
}

#[tokio::test]
async fn live_workers_are_listed() {
    use millstream_model::id::WorkerId;
    use millstream_store::worker_store::WorkerHeartbeat;
    let bench = Bench::open();
    let now = bench.clock.now();
    for (name, seen) in [("here", now), ("gone", now.minus(std::time::Duration::from_secs(3600)))] {
        let beat = WorkerHeartbeat {
            worker: WorkerId::parse(name).unwrap(),
            started_at: now,
            lanes: vec![0, 1],
            in_flight: 3,
            version: "0.1.0".to_owned(),
            calls: Vec::new(),
        };
        bench.stores.workers.record_worker_heartbeat(&beat, seen).await.unwrap();
    }
    let workers = bench.get("/v1/workers").await.json();
    assert_eq!(ids(&workers, "worker_id"), ["here"]);
    assert_eq!(
        (&workers["items"][0]["lanes"], &workers["items"][0]["in_flight"]),
        (&json!([0, 1]), &json!(3))
    );
}
