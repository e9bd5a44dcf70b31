//! Lists are paged; the history of a person is one of them.

use serde_json::json;

use crate::bench::Bench;

async fn pages(bench: &Bench, path: &str, field: &str) -> Vec<String> {
    let (mut all, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let joint = if path.contains('?') { '&' } else { '?' };
        let mut page = format!("{path}{joint}limit=2");
        if let Some(cursor) = &cursor {
            page = format!("{page}&cursor={cursor}");
        }
        let page = bench.get(&page).await.json();
        let items = page["items"].as_array().unwrap_or_else(|| panic!("{page}"));
        all.extend(items.iter().map(|one| one[field].as_str().unwrap().to_owned()));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = Some(next.to_owned()),
            None => return all,
        }
    }
}

#[tokio::test]
async fn people_lists_are_paged() {
    let bench = Bench::office(json!({}), 5).await;
    for name in ["a", "b", "c"] {
        bench.queue(name, json!({})).await;
        bench.put(&format!("/v1/people/{name}"), &json!({"skills": []})).await;
    }
    assert_eq!(pages(&bench, "/v1/queues", "queue").await, ["a", "b", "c", "q"]);
    assert_eq!(pages(&bench, "/v1/people", "person").await, ["a", "b", "c"]);
    assert_eq!(pages(&bench, "/v1/items", "item_id").await, ["i-4", "i-3", "i-2", "i-1", "i-0"]);
    assert_eq!(pages(&bench, "/v1/items?queue=a", "item_id").await, Vec::<String>::new());
    assert_eq!(pages(&bench, "/v1/items?status=open&queue=q", "item_id").await.len(), 5);
}

#[tokio::test]
async fn assignments_are_filtered() {
    let bench = Bench::office(json!({}), 5).await;
    for _ in 0..3 {
        bench.worked("ann", json!(1)).await;
    }
    let bob = bench.begun("bob").await;
    let of = |query: &'static str| {
        let bench = &bench;
        async move { pages(bench, &format!("/v1/assignments{query}"), "item_id").await }
    };
    assert_eq!(of("").await, ["i-3", "i-2", "i-1", "i-0"]);
    assert_eq!(of("?person=ann").await, ["i-2", "i-1", "i-0"]);
    assert_eq!(of("?status=in_progress").await, ["i-3"]);
    assert_eq!(of("?item=i-1").await, ["i-1"]);
    assert_eq!(of("?queue=none").await, Vec::<String>::new());
    assert_eq!(bench.get(&format!("/v1/assignments/{bob}")).await.json()["person"], "bob");
    let log = pages(&bench, "/v1/items/i-0/log", "what").await;
    assert_eq!(log, ["imported", "assigned", "started", "submitted", "done"]);
}
