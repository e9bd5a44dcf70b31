//! Definitions: versions without gaps, immutable, isolated by tenant.

use std::collections::BTreeSet;

use millstream_store::definition_store::{NewDefinition, PutDefinition, StoredDefinition};

use crate::ConformanceBench;
use crate::fixture::{name, tenant};

fn definition(called: &str, content: &str) -> NewDefinition {
    NewDefinition {
        name: name(called),
        dialect: 1,
        source: format!(r#"{{"name":"{called}","note":"{content} \u0000"}}"#),
        checksum: content.to_owned(),
    }
}

async fn put(bench: &ConformanceBench, owner: &str, new: &NewDefinition) -> PutDefinition {
    bench.stores.definitions.put_definition(&tenant(owner), new, bench.now().await).await.unwrap()
}

fn stored(put: PutDefinition) -> StoredDefinition {
    match put {
        PutDefinition::Created(stored) | PutDefinition::Unchanged(stored) => stored,
    }
}

pub async fn definition_versions_count_up(bench: ConformanceBench) {
    for (n, content) in ["a", "b", "c"].into_iter().enumerate() {
        let created = put(&bench, "acme", &definition("order", content)).await;
        assert!(matches!(&created, PutDefinition::Created(_)), "{created:?}");
        assert_eq!(stored(created).definition.version, i32::try_from(n).unwrap() + 1);
    }
    let (owner, order) = (tenant("acme"), name("order"));
    let get = |version| bench.stores.definitions.get_definition(&owner, &order, version);
    let latest = get(None).await.unwrap().unwrap();
    assert_eq!((latest.definition.version, latest.dialect, latest.checksum.as_str()), (3, 1, "c"));
    let first = get(Some(1)).await.unwrap().unwrap();
    assert_eq!((first.source, first.checksum.as_str()), (definition("order", "a").source, "a"));
    assert_eq!(get(Some(4)).await.unwrap(), None);
}

pub async fn only_latest_definition_counts_as_unchanged(bench: ConformanceBench) {
    let (a, b) = (definition("order", "a"), definition("order", "b"));
    let first = stored(put(&bench, "acme", &a).await);
    assert_eq!(put(&bench, "acme", &a).await, PutDefinition::Unchanged(first));
    put(&bench, "acme", &b).await;
    let back = put(&bench, "acme", &a).await;
    assert!(matches!(&back, PutDefinition::Created(_)), "{back:?}");
    assert_eq!(stored(back).definition.version, 3);
}

pub async fn concurrent_puts_get_distinct_versions(bench: ConformanceBench) {
    let tasks: Vec<_> = (0..12)
        .map(|n| {
            let bench = bench.clone();
            tokio::spawn(
                async move { stored(put(&bench, "acme", &definition("order", &n.to_string())).await) },
            )
        })
        .collect();
    let mut versions = BTreeSet::new();
    for task in tasks {
        versions.insert(task.await.unwrap().definition.version);
    }
    assert_eq!(versions, (1..=12).collect());
}

pub async fn equal_concurrent_puts_make_one_version(bench: ConformanceBench) {
    let tasks: Vec<_> = (0..12)
        .map(|_| {
            let bench = bench.clone();
            tokio::spawn(async move { put(&bench, "acme", &definition("order", "same")).await })
        })
        .collect();
    let mut created = 0;
    for task in tasks {
        match task.await.unwrap() {
            PutDefinition::Created(_) => created += 1,
            PutDefinition::Unchanged(stored) => assert_eq!(stored.definition.version, 1),
        }
    }
    assert_eq!(created, 1);
}

pub async fn definition_list_has_latest_versions(bench: ConformanceBench) {
    for (called, content) in [("order", "a"), ("bill", "a"), ("order", "b"), ("zoo", "a")] {
        put(&bench, "acme", &definition(called, content)).await;
    }
    put(&bench, "rival", &definition("secret", "a")).await;
    let list = async |after: Option<&str>, limit| {
        let after = after.map(name);
        let page =
            bench.stores.definitions.list_definitions(&tenant("acme"), after.as_ref(), limit).await.unwrap();
        page.iter().map(|stored| stored.definition.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(list(None, 10).await, ["bill@1", "order@2", "zoo@1"]);
    assert_eq!(list(None, 2).await, ["bill@1", "order@2"]);
    assert_eq!(list(Some("order"), 2).await, ["zoo@1"]);
}

pub async fn definition_of_other_tenant_is_missing(bench: ConformanceBench) {
    put(&bench, "acme", &definition("order", "a")).await;
    let store = &bench.stores.definitions;
    assert_eq!(store.get_definition(&tenant("rival"), &name("order"), None).await.unwrap(), None);
    assert_eq!(stored(put(&bench, "rival", &definition("order", "x")).await).definition.version, 1);
}
