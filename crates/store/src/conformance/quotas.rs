//! Quotas: rows by tenant, revisions, and counting.

use std::collections::BTreeSet;

use millstream_core::assignment::next::Profile;
use millstream_core::claim::{Input, RunSpec};
use millstream_core::placement::Queue;
use millstream_core::quota::{CountedQuota, QuotaName, QuotaSet, QuotaValue};
use millstream_core::status::Role;
use millstream_core::terms::Terms;

use super::Bench;
use super::device_fixture::{new_device, run_key, spec};
use super::fixture::{HOUR, LONG, event, execution_of, grant, name, raw, tenant, worker};
use super::graph::node;
use super::people::{acme, new_item, person};
use super::settle::{settle, succeed};
use super::visit::ready;
use crate::definition_store::NewDefinition;
use crate::execution_store::LeaseGrant;
use crate::executor_store::Executor;
use crate::graph_store::NodeWrite;
use crate::key_store::{KeyChoice, NewKey};
use crate::quota_store::{QuotaRevision, UsageQuestion};

fn devices(most: u64) -> QuotaSet {
    QuotaSet::default().with(QuotaName::Devices, QuotaValue::AtMost(most))
}

async fn used(bench: &Bench, owner: &str, counted: CountedQuota, at_most: u64) -> u64 {
    let question = UsageQuestion { tenant: tenant(owner), counted, at_most };
    bench.stores.quotas.count_usage(&[question]).await.unwrap().remove(0)
}

pub async fn a_quota_row_is_replaced_as_a_whole(bench: Bench) {
    let (store, now) = (&bench.stores.quotas, bench.now().await);
    assert_eq!(store.quota_of(&tenant("acme")).await.unwrap(), None);
    let wide = devices(5).with(QuotaName::ImportDuration, QuotaValue::AtMost(90_000));
    let wide = wide.with(QuotaName::Waits, QuotaValue::Share { parts: 1, of: 2 });
    store.put_quota(&tenant("acme"), &wide, now).await.unwrap();
    assert_eq!(store.quota_of(&tenant("acme")).await.unwrap(), Some(wide));
    store.put_quota(&tenant("acme"), &devices(7), now).await.unwrap();
    assert_eq!(store.quota_of(&tenant("acme")).await.unwrap(), Some(devices(7)));
    assert_eq!(store.quota_of(&tenant("rival")).await.unwrap(), None);
}

pub async fn quota_rows_are_read_when_their_revision_changes(bench: Bench) {
    let (store, now) = (&bench.stores.quotas, bench.now().await);
    let first = store.quotas_after(QuotaRevision::default()).await.unwrap().unwrap();
    assert_eq!(first.rows, []);
    assert_eq!(store.quotas_after(first.revision).await.unwrap(), None);
    store.put_quota(&tenant("b"), &devices(1), now).await.unwrap();
    store.put_quota(&tenant("acme"), &QuotaSet::default(), now).await.unwrap();
    let second = store.quotas_after(first.revision).await.unwrap().unwrap();
    assert!(second.revision > first.revision);
    assert_eq!(second.rows, [(tenant("acme"), QuotaSet::default()), (tenant("b"), devices(1))]);
    assert_eq!(store.quotas_after(second.revision).await.unwrap(), None);
}

pub async fn many_quota_changes_at_once_are_all_seen(bench: Bench) {
    let puts: Vec<_> = (0..8)
        .map(|n| {
            let bench = bench.clone();
            tokio::spawn(async move {
                let now = bench.now().await;
                bench.stores.quotas.put_quota(&tenant(&format!("t{n}")), &devices(n), now).await.unwrap();
            })
        })
        .collect();
    for put in puts {
        put.await.unwrap();
    }
    let read = bench.stores.quotas.quotas_after(QuotaRevision::default()).await.unwrap().unwrap();
    assert_eq!(read.rows.len(), 8);
}

pub async fn open_executions_are_counted_by_tenant_up_to_the_limit(bench: Bench) {
    for id in ["a", "b", "c"] {
        bench.start(&execution_of("acme", id)).await;
    }
    bench.start(&execution_of("rival", "a")).await;
    let open = CountedQuota::OpenExecutions;
    assert_eq!(used(&bench, "acme", open, 10).await, 3);
    assert_eq!(used(&bench, "acme", open, 1).await, 2, "no more than one beyond the limit");
    assert_eq!(used(&bench, "acme", open, u64::MAX).await, 3);
    assert_eq!(used(&bench, "rival", open, 10).await, 1);
    assert_eq!(used(&bench, "missing", open, 10).await, 0);
}

pub async fn rows_of_every_counted_kind_are_counted(bench: Bench) {
    let now = bench.now().await;
    for content in ["a", "b"] {
        let source = format!(r#"{{"name":"order","note":"{content}"}}"#);
        let new = NewDefinition { name: name("order"), dialect: 1, source, checksum: content.to_owned() };
        bench.stores.definitions.put(&acme(), &new, now).await.unwrap();
    }
    let executor = |id: &str| Executor {
        tenant: acme(),
        name: name(id),
        address: "http://127.0.0.1:1".to_owned(),
        roles: Default::default(),
        labels: Default::default(),
        capacity: 1,
        load: 0,
    };
    bench.stores.executors.beat_executors(&["x", "y", "z"].map(executor), now).await.unwrap();
    bench.stores.devices.beat_devices(&[(acme(), new_device("d1"))], now).await.unwrap();
    bench.queue("").await;
    bench.import(vec![new_item("i1"), new_item("i2")]).await;
    let people = ["ann", "bob"].map(|id| Profile::unknown(person(id)));
    bench.stores.people.put_people(&acme(), &people, now).await.unwrap();
    for n in 1..=4 {
        let key = NewKey::of(acme(), n.to_string(), Role::Read, [n; 32]);
        assert!(bench.stores.keys.create_key(&key, now).await.unwrap());
    }
    let revoked = KeyChoice::Name("1".to_owned());
    assert!(bench.stores.keys.revoke_key(Some(&acme()), &revoked, now).await.unwrap());
    for (counted, count) in [
        (CountedQuota::Definitions, 2),
        (CountedQuota::Executors, 3),
        (CountedQuota::Devices, 1),
        (CountedQuota::QueueItems, 2),
        (CountedQuota::Queues, 1),
        (CountedQuota::People, 2),
        (CountedQuota::Keys, 4),
    ] {
        assert_eq!(used(&bench, acme().as_str(), counted, 10).await, count, "{counted:?}");
        assert_eq!(used(&bench, "rival", counted, 10).await, 0, "{counted:?}");
    }
    let questions = [CountedQuota::Executors, CountedQuota::Devices].map(|counted| UsageQuestion {
        tenant: acme(),
        counted,
        at_most: 10,
    });
    assert_eq!(bench.stores.quotas.count_usage(&questions).await.unwrap(), [3, 1]);
}

pub async fn open_runs_are_counted_by_tenant_until_they_end(bench: Bench) {
    for id in ["r1", "r2", "r3"] {
        bench.run_after(&run_key(id), spec(), &[]).await;
    }
    let open = CountedQuota::OpenRuns;
    assert_eq!((used(&bench, "acme", open, 10).await, used(&bench, "acme", open, 1).await), (3, 2));
    assert_eq!(used(&bench, "rival", open, 10).await, 0);
    bench.step_run(&run_key("r1"), &Input::Cancel { reason: None }).await;
    assert_eq!(used(&bench, "acme", open, 10).await, 2);
}

pub async fn leases_of_external_workers_are_counted_until_they_end(bench: Bench) {
    let queue = Queue::task(&tenant("acme"), &name("run"), &BTreeSet::new());
    let terms = Terms { queue: queue.clone(), attempt: Some(HOUR), ..Terms::engine() };
    let actions = ["a", "b", "c"].map(|name| ready(name).on(terms.clone()));
    let key = execution_of("acme", "one");
    bench.acting(&key, &[&actions[..], &[ready("own")]].concat(), grant(1)).await;
    let leases = CountedQuota::TaskLeases;
    assert_eq!(used(&bench, "acme", leases, 10).await, 0, "an action of the engine is none");
    let two = LeaseGrant { slots: 2, ttl: LONG, queues: [queue].into() };
    let now = bench.now().await;
    let leased = bench.stores.actions.lease(&worker("w2"), &two, now).await.unwrap();
    assert_eq!((used(&bench, "acme", leases, 10).await, used(&bench, "acme", leases, 1).await), (2, 2));
    assert_eq!(used(&bench, "rival", leases, 10).await, 0);
    settle(&bench, vec![succeed(&leased[0], "1")], grant(0)).await;
    assert_eq!(used(&bench, "acme", leases, 10).await, 1);
}

pub async fn stored_bytes_grow_with_what_is_stored(bench: Bench) {
    let key = execution_of("acme", "a");
    bench.start(&key).await;
    let before = used(&bench, "acme", CountedQuota::StoredBytes, u64::MAX).await;
    for _ in 0..4 {
        let mut large = event(&bench, &key, "pay");
        large.payload = raw(&format!("{:?}", "x".repeat(10_000)));
        bench.append_event(&large).await;
    }
    let after = used(&bench, "acme", CountedQuota::StoredBytes, u64::MAX).await;
    assert!((40_000..60_000).contains(&(after - before)), "{before} {after}");
    assert_eq!(used(&bench, "rival", CountedQuota::StoredBytes, u64::MAX).await, 0);
}

pub async fn bytes_of_runs_definitions_queues_and_graphs_are_stored_bytes(bench: Bench) {
    let now = bench.now().await;
    let bytes = || used(&bench, "acme", CountedQuota::StoredBytes, u64::MAX);
    let grown = async |before: u64, what: &str| {
        let after = bytes().await;
        assert!((10_000..40_000).contains(&(after - before)), "{what}: {before} {after}");
        after
    };
    let long = "x".repeat(10_000);
    let before = bytes().await;
    bench.run_after(&run_key("r1"), RunSpec::of(name("render"), raw(&format!("{long:?}"))), &[]).await;
    let before = grown(before, "runs").await;
    let source = format!(r#"{{"name":"order","note":{long:?}}}"#);
    let new = NewDefinition { name: name("order"), dialect: 1, source, checksum: "a".to_owned() };
    bench.stores.definitions.put(&acme(), &new, now).await.unwrap();
    let before = grown(before, "definitions").await;
    bench.queue(&format!("schema: {{title: {long}}}")).await;
    let before = grown(before, "queues").await;
    let spec = raw(&format!(r#"{{"id":"a","task":{{"goal":{long:?}}}}}"#));
    let large = NodeWrite { spec: Some(spec), ..node("a", &[], &[]) };
    bench.start_graph(&execution_of("acme", "g"), vec![large]).await;
    grown(before, "graphs").await;
    assert_eq!(used(&bench, "rival", CountedQuota::StoredBytes, u64::MAX).await, 0);
}
