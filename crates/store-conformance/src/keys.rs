//! API keys.

use millstream_model::status::Role;
use millstream_store::key_store::{KeyChoice, KeyFilter, KeyId, KeyRotation, KeySuccession, NewKey};

use crate::ConformanceBench;
use crate::fixture::tenant;

fn key(owner: &str, name: &str, hash: u8) -> NewKey {
    NewKey::for_tenant(tenant(owner), name, Role::Submit, [hash; 32])
}

fn named(name: &str) -> KeyChoice {
    KeyChoice::Name(name.to_owned())
}

async fn create(bench: &ConformanceBench, key: &NewKey) -> bool {
    bench.stores.keys.create_key(key, bench.now().await).await.unwrap()
}

pub async fn key_is_found_until_revoked(bench: ConformanceBench) {
    let keys = &bench.stores.keys;
    assert!(create(&bench, &key("acme", "ci", 1)).await);
    let found = keys.find_key(&[1; 32]).await.unwrap().unwrap();
    assert_eq!((found.tenant, found.name.as_str(), found.role), (Some(tenant("acme")), "ci", Role::Submit));
    assert_eq!(found.revoked_at, None);
    assert_eq!(keys.find_key(&[2; 32]).await.unwrap(), None);
    let now = bench.now().await;
    assert!(!keys.revoke_key(Some(&tenant("rival")), &named("ci"), now).await.unwrap());
    assert!(keys.revoke_key(Some(&tenant("acme")), &named("ci"), now).await.unwrap());
    assert!(!keys.revoke_key(Some(&tenant("acme")), &named("ci"), now).await.unwrap());
    assert_eq!(keys.find_key(&[1; 32]).await.unwrap(), None);
}

pub async fn key_name_is_taken_while_live(bench: ConformanceBench) {
    assert!(create(&bench, &key("acme", "ci", 1)).await);
    assert!(!create(&bench, &key("acme", "ci", 2)).await);
    assert!(create(&bench, &key("rival", "ci", 3)).await);
    assert_eq!(bench.stores.keys.find_key(&[2; 32]).await.unwrap(), None);
    bench.stores.keys.revoke_key(Some(&tenant("acme")), &named("ci"), bench.now().await).await.unwrap();
    assert!(create(&bench, &key("acme", "ci", 2)).await);
    assert!(bench.stores.keys.find_key(&[2; 32]).await.unwrap().is_some());
}

pub async fn concurrent_key_creation_gives_name_once(bench: ConformanceBench) {
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

pub async fn keys_exist_after_first_key_forever(bench: ConformanceBench) {
    let keys = &bench.stores.keys;
    assert!(!keys.keys_exist().await.unwrap());
    create(&bench, &key("acme", "ci", 1)).await;
    assert!(keys.keys_exist().await.unwrap());
    keys.revoke_key(Some(&tenant("acme")), &named("ci"), bench.now().await).await.unwrap();
    assert!(keys.keys_exist().await.unwrap(), "a revoked key is a key");
}

pub async fn keys_are_listed_newest_first_with_revoked(bench: ConformanceBench) {
    for (n, name) in [(1, "a"), (2, "b"), (3, "c")] {
        bench.passed(bench.now().await).await;
        create(&bench, &key("acme", name, n)).await;
    }
    bench.stores.keys.revoke_key(Some(&tenant("acme")), &named("b"), bench.now().await).await.unwrap();
    let listed = bench.stores.keys.list_keys(&KeyFilter::All, None, 10).await.unwrap();
    let shown: Vec<_> = listed.iter().map(|key| (key.name.as_str(), key.revoked_at.is_some())).collect();
    assert_eq!(shown, [("c", false), ("b", true), ("a", false)]);
}

pub async fn keys_of_one_moment_are_paged(bench: ConformanceBench) {
    let keys = &bench.stores.keys;
    let now = bench.now().await;
    for n in 1..=5 {
        assert!(keys.create_key(&key("acme", &n.to_string(), n), now).await.unwrap());
    }
    assert!(create(&bench, &key("rival", "other", 9)).await);
    let of = KeyFilter::Tenant(tenant("acme"));
    let (mut listed, mut after) = (Vec::new(), None);
    for most in [2, 2, 1, 0] {
        let page = keys.list_keys(&of, after, 2).await.unwrap();
        assert_eq!(page.len(), most);
        after = page.last().map(|key| key.place());
        listed.extend(page.into_iter().map(|key| key.hash[0]));
    }
    assert_eq!(listed, [1, 2, 3, 4, 5]);
    assert_eq!(keys.list_keys(&KeyFilter::All, None, 10).await.unwrap().len(), 6);
}

pub async fn revoked_key_is_found_by_id(bench: ConformanceBench) {
    let keys = &bench.stores.keys;
    assert!(create(&bench, &key("acme", "ci", 1)).await);
    assert!(create(&bench, &key("acme", "other", 2)).await);
    let id = KeyId::from_hash(&[1; 32]);
    let now = bench.now().await;
    assert!(keys.revoke_key(Some(&tenant("acme")), &KeyChoice::Id(id), now).await.unwrap());
    let found = keys.find_key_by_id(id).await.unwrap().unwrap();
    assert_eq!((found.hash, found.name.as_str(), found.revoked_at), ([1; 32], "ci", Some(now)));
    assert_eq!(keys.find_key_by_id(KeyId::from_hash(&[3; 32])).await.unwrap(), None);
}

pub async fn operator_key_has_no_tenant(bench: ConformanceBench) {
    let keys = &bench.stores.keys;
    let operator = NewKey { tenant: None, role: Role::Operator, ..key("acme", "ops", 1) };
    assert!(create(&bench, &operator).await);
    assert!(!create(&bench, &NewKey { hash: [2; 32], ..operator.clone() }).await, "its name is taken");
    let found = keys.find_key(&[1; 32]).await.unwrap().unwrap();
    assert_eq!((found.tenant, found.role), (None, Role::Operator));
    let of_tenant = keys.list_keys(&KeyFilter::Tenant(tenant("acme")), None, 10).await.unwrap();
    assert_eq!(of_tenant, []);
    let now = bench.now().await;
    assert!(!keys.revoke_key(Some(&tenant("acme")), &named("ops"), now).await.unwrap());
    assert!(keys.revoke_key(None, &KeyChoice::Id(KeyId::from_hash(&[1; 32])), now).await.unwrap());
    assert_eq!(keys.find_key(&[1; 32]).await.unwrap(), None);
}

pub async fn keys_of_every_role_are_preserved(bench: ConformanceBench) {
    let keys = &bench.stores.keys;
    let now = bench.now().await;
    let later = now.plus(std::time::Duration::from_secs(60));
    let mut hashes = Vec::new();
    for (n, role) in (1..).zip(Role::ALL) {
        let bound = NewKey {
            expires_at: Some(later),
            bound_to: Some("ann".to_owned()),
            created_by: Some("boss".to_owned()),
            ..NewKey::for_tenant(tenant("acme"), role.as_str(), *role, [n; 32])
        };
        assert!(create(&bench, &bound).await, "{role}");
        hashes.push([n; 32]);
    }
    hashes.push([200; 32]);
    let found = keys.find_keys(&hashes).await.unwrap();
    assert_eq!(found.len(), Role::ALL.len() + 1);
    assert_eq!(found.last(), Some(&None));
    for (role, view) in Role::ALL.iter().zip(&found) {
        let view = view.as_ref().unwrap();
        assert_eq!((view.role, view.expires_at, view.last_used_at), (*role, Some(later), None));
        assert_eq!((view.bound_to.as_deref(), view.created_by.as_deref()), (Some("ann"), Some("boss")));
        assert!(view.is_live(now) && !view.is_live(later));
    }
}

pub async fn rotated_key_keeps_name_until_overlap_ends(bench: ConformanceBench) {
    let keys = &bench.stores.keys;
    assert!(create(&bench, &key("acme", "ci", 1)).await);
    let now = bench.now().await;
    let later = now.plus(std::time::Duration::from_secs(60));
    let rotation = |n: u8, of: u8| KeyRotation {
        predecessor: [of; 32],
        expires_at: later,
        successor: key("acme", "ci", n),
    };
    assert!(keys.rotate_key(&rotation(2, 1), now).await.unwrap());
    assert!(!keys.rotate_key(&rotation(3, 1), now).await.unwrap(), "it has a successor");
    assert!(!keys.rotate_key(&rotation(3, 9), now).await.unwrap(), "there is no such key");
    assert!(!create(&bench, &key("acme", "ci", 4)).await, "the successor has the name");
    let old = keys.find_key(&[1; 32]).await.unwrap().unwrap();
    assert_eq!(
        (old.name.as_str(), old.expires_at, old.succession),
        ("ci", Some(later), KeySuccession::Rotated)
    );
    let new = keys.find_key(&[2; 32]).await.unwrap().unwrap();
    assert_eq!((new.name.as_str(), new.expires_at, new.succession), ("ci", None, KeySuccession::Current));
    assert!(keys.revoke_key(Some(&tenant("acme")), &named("ci"), now).await.unwrap());
    assert_eq!(
        keys.find_keys(&[[1; 32], [2; 32]]).await.unwrap(),
        [None, None],
        "both are revoked by the name"
    );
}

pub async fn expired_key_gives_up_its_name(bench: ConformanceBench) {
    let now = bench.now().await;
    let expired = NewKey { expires_at: Some(now), ..key("acme", "ci", 1) };
    assert!(create(&bench, &expired).await);
    bench.passed(now).await;
    assert!(create(&bench, &key("acme", "ci", 2)).await);
    assert!(bench.stores.keys.find_key(&[2; 32]).await.unwrap().is_some());
}

pub async fn key_last_use_never_goes_back(bench: ConformanceBench) {
    let keys = &bench.stores.keys;
    assert!(create(&bench, &key("acme", "ci", 1)).await);
    let now = bench.now().await;
    let earlier = now.minus(std::time::Duration::from_secs(60));
    keys.record_key_uses(&[([1; 32], now), ([9; 32], now)]).await.unwrap();
    keys.record_key_uses(&[([1; 32], earlier)]).await.unwrap();
    assert_eq!(keys.find_key(&[1; 32]).await.unwrap().unwrap().last_used_at, Some(now));
}

pub async fn old_dead_keys_are_purged_except_newest(bench: ConformanceBench) {
    let keys = &bench.stores.keys;
    let now = bench.now().await;
    let ago = |seconds| now.minus(std::time::Duration::from_secs(seconds));
    let live = key("acme", "live", 1);
    let expired = NewKey { expires_at: Some(ago(70)), ..key("acme", "expired", 2) };
    let names = ["revoked", "late", "newest"];
    assert!(keys.create_key(&live, ago(90)).await.unwrap());
    assert!(keys.create_key(&expired, ago(80)).await.unwrap());
    for (n, name) in (3..).zip(names) {
        assert!(keys.create_key(&key("acme", name, n), ago(80 - u64::from(n))).await.unwrap());
    }
    for (name, revoked_at) in names.into_iter().zip([ago(60), ago(10), ago(60)]) {
        assert!(keys.revoke_key(Some(&tenant("acme")), &named(name), revoked_at).await.unwrap());
    }
    assert_eq!(keys.purge_dead_keys(ago(50), 1).await.unwrap(), 1, "no more than the limit");
    assert_eq!(keys.purge_dead_keys(ago(50), 10).await.unwrap(), 1);
    let left = keys.list_keys(&KeyFilter::All, None, 10).await.unwrap();
    assert_eq!(left.iter().map(|key| key.name.as_str()).collect::<Vec<_>>(), ["newest", "late", "live"]);

    assert!(keys.revoke_key(Some(&tenant("acme")), &named("live"), ago(60)).await.unwrap());
    assert_eq!(keys.purge_dead_keys(now, 10).await.unwrap(), 2);
    assert_eq!(keys.purge_dead_keys(now, 10).await.unwrap(), 0, "the newest stays");
    assert!(keys.keys_exist().await.unwrap(), "every call needs a key, also after all have gone");
}
