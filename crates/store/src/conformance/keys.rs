//! API keys.

use millstream_core::status::Role;

use super::Bench;
use super::fixture::tenant;
use crate::key_store::NewKey;

fn key(owner: &str, name: &str, hash: u8) -> NewKey {
    NewKey { tenant: tenant(owner), name: name.to_owned(), role: Role::Submit, hash: [hash; 32] }
}

async fn create(bench: &Bench, key: &NewKey) -> bool {
    bench.stores.keys.create_key(key, bench.now().await).await.unwrap()
}

pub async fn a_key_is_found_by_its_hash_until_it_is_revoked(bench: Bench) {
    let keys = &bench.stores.keys;
    assert!(create(&bench, &key("acme", "ci", 1)).await);
    let found = keys.find_key(&[1; 32]).await.unwrap().unwrap();
    assert_eq!((found.tenant, found.name.as_str(), found.role), (tenant("acme"), "ci", Role::Submit));
    assert_eq!(found.revoked_at, None);
    assert_eq!(keys.find_key(&[2; 32]).await.unwrap(), None);
    let now = bench.now().await;
    assert!(!keys.revoke_key(&tenant("rival"), "ci", now).await.unwrap());
    assert!(keys.revoke_key(&tenant("acme"), "ci", now).await.unwrap());
    assert!(!keys.revoke_key(&tenant("acme"), "ci", now).await.unwrap());
    assert_eq!(keys.find_key(&[1; 32]).await.unwrap(), None);
}

pub async fn a_name_is_taken_while_its_key_lives(bench: Bench) {
    assert!(create(&bench, &key("acme", "ci", 1)).await);
    assert!(!create(&bench, &key("acme", "ci", 2)).await);
    assert!(create(&bench, &key("rival", "ci", 3)).await);
    assert_eq!(bench.stores.keys.find_key(&[2; 32]).await.unwrap(), None);
    bench.stores.keys.revoke_key(&tenant("acme"), "ci", bench.now().await).await.unwrap();
    assert!(create(&bench, &key("acme", "ci", 2)).await);
    assert!(bench.stores.keys.find_key(&[2; 32]).await.unwrap().is_some());
}

pub async fn a_name_is_given_once_however_many_ask(bench: Bench) {
    let tasks: Vec<_> = (0..10)
        .map(|n| {
            let bench = bench.clone();
            tokio::spawn(async move { create(&bench, &key("acme", "ci", n)).await })
        })
        .collect();
    let mut created = 0;
    for task in tasks {
        created += usize::from(task.await.unwrap());
    }
    assert_eq!(created, 1);
}

pub async fn keys_exist_from_the_first_one_on_revoked_or_not(bench: Bench) {
    let keys = &bench.stores.keys;
    assert!(!keys.keys_exist().await.unwrap());
    create(&bench, &key("acme", "ci", 1)).await;
    assert!(keys.keys_exist().await.unwrap());
    keys.revoke_key(&tenant("acme"), "ci", bench.now().await).await.unwrap();
    assert!(keys.keys_exist().await.unwrap(), "a revoked key is a key");
}

pub async fn keys_are_listed_newest_first_with_the_revoked_ones(bench: Bench) {
    for (n, name) in [(1, "a"), (2, "b"), (3, "c")] {
        bench.passed(bench.now().await).await;
        create(&bench, &key("acme", name, n)).await;
    }
    bench.stores.keys.revoke_key(&tenant("acme"), "b", bench.now().await).await.unwrap();
    let listed = bench.stores.keys.list_keys().await.unwrap();
    let shown: Vec<_> = listed.iter().map(|key| (key.name.as_str(), key.revoked_at.is_some())).collect();
    assert_eq!(shown, [("c", false), ("b", true), ("a", false)]);
}
