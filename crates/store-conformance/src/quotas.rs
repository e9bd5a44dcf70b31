//! Quotas: rows by tenant, revisions, and counting.

use std::collections::BTreeSet;

use millstream_devices::claim::{RunInput, RunSpec};
use millstream_model::action_queue::ActionQueue;
use millstream_model::quota::{CountedQuota, QuotaName, QuotaSet, QuotaValue};
use millstream_model::status::Role;
use millstream_people::assignment::select::PersonProfile;
use millstream_store::definition_store::NewDefinition;
use millstream_store::execution_store::LeaseGrant;
use millstream_store::executor_store::RegisteredExecutor;
use millstream_store::graph_store::NodeWrite;
use millstream_store::key_store::{KeyChoice, NewKey};
use millstream_store::quota_store::{QuotaRevision, UsageQuestion};
use millstream_workflow::lease_policy::LeasePolicy;

use crate::ConformanceBench;
use crate::commit_builder::ready;
use crate::device_fixture::{new_device, run_key, spec};
use crate::fixture::{HOUR, LONG, event, execution_of, grant, name, raw, tenant, worker};
use crate::graph::node;
use crate::people::{acme, new_item, person};
use crate::settle::{settle, succeed};

fn devices(most: u64) -> QuotaSet {
    QuotaSet::default().with(QuotaName::Devices, QuotaValue::AtMost(most))
}

async fn used(bench: &ConformanceBench, owner: &str, counted: CountedQuota, at_most: u64) -> u64 {
    let question = UsageQuestion { tenant: tenant(owner), counted, at_most };
    bench.stores.quotas.count_usage(&[question]).await.unwrap().remove(0)
}

pub async fn quota_row_is_replaced_whole(bench: ConformanceBench) {
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

pub async fn quota_rows_reload_on_new_revision(bench: ConformanceBench) {
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

pub async fn concurrent_quota_changes_are_all_seen(bench: ConformanceBench) {
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

pub async fn open_executions_count_up_to_limit(bench: ConformanceBench) {
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

pub async fn every_counted_quota_kind_is_counted(bench: ConformanceBench) {
    let now = bench.now().await;
    for content in ["a", "b"] {
        let source = format!(r#"{{"name":"order","note":"{content}"}}"#);
        let new = NewDefinition { name: name("order"), dialect: 1, source, checksum: content.to_owned() };
        bench.stores.definitions.put_definition(&acme(), &new, now).await.unwrap();
    }
    let executor = |id: &str| RegisteredExecutor {
        tenant: acme(),
        name: name(id),
        address: "http://127.0.0.1:1".to_owned(),
        roles: Default::default(),
        labels: Default::default(),
        capacity: 1,
        load: 0,
    };
    bench.stores.executors.record_executor_heartbeats(&["x", "y", "z"].map(executor), now).await.unwrap();
    bench.stores.devices.record_device_heartbeats(&[(acme(), new_device("d1"))], now).await.unwrap();
    bench.queue("").await;
    bench.import(vec![new_item("i1"), new_item("i2")]).await;
    let people = ["ann", "bob"].map(|id| PersonProfile::unknown(person(id)));
    bench.stores.people.put_people(&acme(), &people, now).await.unwrap();
    for n in 1..=4 {
        let key = NewKey::for_tenant(acme(), n.to_string(), Role::Read, [n; 32]);
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

pub async fn open_runs_count_until_ended(bench: ConformanceBench) {
    for id in ["r1", "r2", "r3"] {
        bench.run_after(&run_key(id), spec(), &[]).await;
    }
    let open = CountedQuota::OpenRuns;
    assert_eq!((used(&bench, "acme", open, 10).await, used(&bench, "acme", open, 1).await), (3, 2));
    assert_eq!(used(&bench, "rival", open, 10).await, 0);
    bench.step_run(&run_key("r1"), &RunInput::Cancel { reason: None }).await;
    assert_eq!(used(&bench, "acme", open, 10).await, 2);
}

pub async fn external_leases_count_until_ended(bench: ConformanceBench) {
    let queue = ActionQueue::of_task(&tenant("acme"), &name("run"), &BTreeSet::new());
    let terms = LeasePolicy { queue: queue.clone(), attempt: Some(HOUR), ..LeasePolicy::engine_for_all() };
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

pub async fn stored_bytes_grow_with_rows(bench: ConformanceBench) {
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

pub async fn stored_bytes_cover_all_row_kinds(bench: ConformanceBench) {
    let now = bench.now().await;
    let bytes = || used(&bench, "acme", CountedQuota::StoredBytes, u64::MAX);
    let grown = async |before: u64, what: &str| {
        let after = bytes().await;
        assert!((10_000..40_000).contains(&(after - before)), "{what}: {before} {after}");
        after
    };
    let long = "x".repeat(10_000);
    let before = bytes().await;
    bench
        .run_after(&run_key("r1"), RunSpec::with_defaults(name("render"), raw(&format!("{long:?}"))), &[])
        .await;
    let before = grown(before, "runs").await;
    let source = format!(r#"{{"name":"order","note":{long:?}}}"#);
    let new = NewDefinition { name: name("order"), dialect: 1, source, checksum: "a".to_owned() };
    bench.stores.definitions.put_definition(&acme(), &new, now).await.unwrap();
    let before = grown(before, "definitions").await;
    bench.queue(&format!("schema: {{title: {long}}}")).await;
    let before = grown(before, "queues").await;
    let spec = raw(&format!(r#"{{"id":"a","task":{{"goal":{long:?}}}}}"#));
    let large = NodeWrite { spec: Some(spec), ..node("a", &[], &[]) };
    bench.start_graph(&execution_of("acme", "g"), vec![large]).await;
    grown(before, "graphs").await;
    assert_eq!(used(&bench, "rival", CountedQuota::StoredBytes, u64::MAX).await, 0);
}
