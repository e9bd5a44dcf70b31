//! Executors that perform nodes.

use super::Bench;
use super::fixture::{HOUR, name, tenant};
use crate::executor_store::Executor;

fn executor(owner: &str, id: &str) -> Executor {
    Executor {
        tenant: tenant(owner),
        name: name(id),
        address: format!("http://{id}:1"),
        roles: ["writer".to_owned(), "Schöpfer".to_owned()].into(),
        labels: [name("gpu")].into(),
        capacity: 8,
        load: 3,
    }
}

pub async fn an_executor_is_known_by_its_last_word(bench: Bench) {
    let now = bench.now().await;
    let store = &bench.stores.executors;
    let first = executor("acme", "e1");
    store.beat_executors(&[first.clone()], now.minus(HOUR)).await.unwrap();
    assert_eq!(store.executors(now.minus(HOUR)).await.unwrap(), [(first.clone(), now.minus(HOUR))]);
    let quiet = Executor { load: 0, roles: Default::default(), labels: Default::default(), ..first.clone() };
    let moved = Executor { address: "http://elsewhere:2".to_owned(), capacity: u32::MAX, ..quiet.clone() };
    store.beat_executors(&[quiet, moved.clone()], now).await.unwrap();
    assert_eq!(store.executors(now).await.unwrap(), [(moved, now)], "the last report of a batch counts too");
}

pub async fn executors_come_by_tenant_and_name_if_they_were_heard_of(bench: Bench) {
    let now = bench.now().await;
    let store = &bench.stores.executors;
    let heard =
        [executor("b", "e1"), executor("acme", "e2"), executor("acme", "e1-x"), executor("acme", "e1")];
    store.beat_executors(&heard, now).await.unwrap();
    store.beat_executors(&[executor("acme", "e0")], now.minus(HOUR)).await.unwrap();
    let found = store.executors(now).await.unwrap();
    let order: Vec<_> = found.iter().map(|(one, _)| (one.tenant.as_str(), one.name.as_str())).collect();
    assert_eq!(order, [("acme", "e1"), ("acme", "e1-x"), ("acme", "e2"), ("b", "e1")]);
    assert_eq!(store.executors(now.minus(HOUR)).await.unwrap().len(), 5);
}

pub async fn executors_of_one_tenant_are_read_alone(bench: Bench) {
    let now = bench.now().await;
    let store = &bench.stores.executors;
    let heard = [executor("b", "e1"), executor("acme", "e2"), executor("acme", "e1")];
    store.beat_executors(&heard, now).await.unwrap();
    store.beat_executors(&[executor("acme", "e0")], now.minus(HOUR)).await.unwrap();
    let found = async |since| -> Vec<String> {
        let found = store.executors_of(&tenant("acme"), since).await.unwrap();
        found.into_iter().map(|(one, _)| format!("{}/{}", one.tenant, one.name)).collect()
    };
    assert_eq!(found(now).await, ["acme/e1", "acme/e2"]);
    assert_eq!(found(now.minus(HOUR)).await, ["acme/e0", "acme/e1", "acme/e2"]);
    assert_eq!(store.executors_of(&tenant("missing"), now).await.unwrap(), []);
}

pub async fn an_executor_that_retires_is_off_the_list(bench: Bench) {
    let now = bench.now().await;
    let store = &bench.stores.executors;
    store.beat_executors(&[executor("acme", "e1"), executor("b", "e1")], now).await.unwrap();
    store.retire_executors(&[(tenant("acme"), name("e1")), (tenant("b"), name("missing"))]).await.unwrap();
    let left = store.executors(now).await.unwrap();
    assert_eq!(left, [(executor("b", "e1"), now)]);
}

pub async fn silent_executors_are_forgotten(bench: Bench) {
    let now = bench.now().await;
    let store = &bench.stores.executors;
    store.beat_executors(&[executor("acme", "old"), executor("b", "old")], now.minus(HOUR)).await.unwrap();
    store.beat_executors(&[executor("acme", "new")], now).await.unwrap();
    assert_eq!(store.forget_executors(now.minus(HOUR)).await.unwrap(), 0);
    assert_eq!(store.forget_executors(now).await.unwrap(), 2);
    assert_eq!(store.executors(now.minus(HOUR)).await.unwrap(), [(executor("acme", "new"), now)]);
}
