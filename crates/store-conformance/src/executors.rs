//! Executors that perform nodes.

use millstream_store::executor_store::RegisteredExecutor;

use crate::ConformanceBench;
use crate::fixture::{HOUR, name, tenant};

fn executor(owner: &str, id: &str) -> RegisteredExecutor {
    RegisteredExecutor {
        tenant: tenant(owner),
        name: name(id),
        address: format!("http://{id}:1"),
        roles: ["writer".to_owned(), "Schöpfer".to_owned()].into(),
        labels: [name("gpu")].into(),
        capacity: 8,
        load: 3,
    }
}

pub async fn last_executor_heartbeat_counts(bench: ConformanceBench) {
    let now = bench.now().await;
    let store = &bench.stores.executors;
    let first = executor("acme", "e1");
    store.record_executor_heartbeats(&[first.clone()], now.minus(HOUR)).await.unwrap();
    assert_eq!(store.list_executors(now.minus(HOUR)).await.unwrap(), [(first.clone(), now.minus(HOUR))]);
    let quiet = RegisteredExecutor {
        load: 0,
        roles: Default::default(),
        labels: Default::default(),
        ..first.clone()
    };
    let moved =
        RegisteredExecutor { address: "http://elsewhere:2".to_owned(), capacity: u32::MAX, ..quiet.clone() };
    store.record_executor_heartbeats(&[quiet, moved.clone()], now).await.unwrap();
    assert_eq!(
        store.list_executors(now).await.unwrap(),
        [(moved, now)],
        "the last report of a batch counts too"
    );
}

pub async fn live_executors_are_ordered_by_tenant_name(bench: ConformanceBench) {
    let now = bench.now().await;
    let store = &bench.stores.executors;
    let heard =
        [executor("b", "e1"), executor("acme", "e2"), executor("acme", "e1-x"), executor("acme", "e1")];
    store.record_executor_heartbeats(&heard, now).await.unwrap();
    store.record_executor_heartbeats(&[executor("acme", "e0")], now.minus(HOUR)).await.unwrap();
    let found = store.list_executors(now).await.unwrap();
    let order: Vec<_> = found.iter().map(|(one, _)| (one.tenant.as_str(), one.name.as_str())).collect();
    assert_eq!(order, [("acme", "e1"), ("acme", "e1-x"), ("acme", "e2"), ("b", "e1")]);
    assert_eq!(store.list_executors(now.minus(HOUR)).await.unwrap().len(), 5);
}

pub async fn executors_are_read_per_tenant(bench: ConformanceBench) {
    let now = bench.now().await;
    let store = &bench.stores.executors;
    let heard = [executor("b", "e1"), executor("acme", "e2"), executor("acme", "e1")];
    store.record_executor_heartbeats(&heard, now).await.unwrap();
    store.record_executor_heartbeats(&[executor("acme", "e0")], now.minus(HOUR)).await.unwrap();
    let found = async |since| -> Vec<String> {
        let found = store.list_executors_of(&tenant("acme"), since).await.unwrap();
        found.into_iter().map(|(one, _)| format!("{}/{}", one.tenant, one.name)).collect()
    };
    assert_eq!(found(now).await, ["acme/e1", "acme/e2"]);
    assert_eq!(found(now.minus(HOUR)).await, ["acme/e0", "acme/e1", "acme/e2"]);
    assert_eq!(store.list_executors_of(&tenant("missing"), now).await.unwrap(), []);
}

pub async fn retired_executor_is_gone(bench: ConformanceBench) {
    let now = bench.now().await;
    let store = &bench.stores.executors;
    store.record_executor_heartbeats(&[executor("acme", "e1"), executor("b", "e1")], now).await.unwrap();
    store.retire_executors(&[(tenant("acme"), name("e1")), (tenant("b"), name("missing"))]).await.unwrap();
    let left = store.list_executors(now).await.unwrap();
    assert_eq!(left, [(executor("b", "e1"), now)]);
}

pub async fn silent_executors_are_removed(bench: ConformanceBench) {
    let now = bench.now().await;
    let store = &bench.stores.executors;
    store
        .record_executor_heartbeats(&[executor("acme", "old"), executor("b", "old")], now.minus(HOUR))
        .await
        .unwrap();
    store.record_executor_heartbeats(&[executor("acme", "new")], now).await.unwrap();
    assert_eq!(store.forget_executors(now.minus(HOUR)).await.unwrap(), 0);
    assert_eq!(store.forget_executors(now).await.unwrap(), 2);
    assert_eq!(store.list_executors(now.minus(HOUR)).await.unwrap(), [(executor("acme", "new"), now)]);
}
