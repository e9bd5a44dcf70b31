//! Queues and people are stored as put.

use millstream_people::assignment::QueueState;
use millstream_people::assignment::select::PersonProfile;
use millstream_store::queue_store::PutQueue;

use crate::ConformanceBench;
use crate::fixture::{name, tenant};
use crate::people::{acme, config, named, person};

pub async fn last_put_queue_configuration_counts(bench: ConformanceBench) {
    let store = &bench.stores.queues;
    let now = bench.now().await;
    let first = config("overlap: 2, schema: {type: object}, rules: [{if: answer.a > 1, message: no}]");
    assert_eq!(store.put_queue(&acme(), &first, now).await.unwrap(), PutQueue::Created);
    assert_eq!(store.put_queue(&acme(), &first, now).await.unwrap(), PutQueue::Same);
    let second = config("overlap: 3");
    assert_eq!(store.put_queue(&acme(), &second, now).await.unwrap(), PutQueue::Changed);
    let keys = [(acme(), name("none")), (acme(), name("q")), (tenant("other"), name("q"))];
    let found = store.find_queues(&keys).await.unwrap();
    assert_eq!(found.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true, false]);
    let view = found[1].as_ref().unwrap();
    assert_eq!((&view.config, view.state, view.created_at), (&second, QueueState::Active, now));
}

pub async fn paused_queue_stays_paused_when_reconfigured(bench: ConformanceBench) {
    let store = &bench.stores.queues;
    let now = bench.now().await;
    assert!(!store.set_queue_state(&acme(), &name("q"), QueueState::Paused, now).await.unwrap());
    bench.queue("").await;
    assert!(store.set_queue_state(&acme(), &name("q"), QueueState::Paused, now).await.unwrap());
    bench.queue("overlap: 2").await;
    let view = store.find_queues(&[(acme(), name("q"))]).await.unwrap().remove(0).unwrap();
    assert_eq!((view.state, view.config.overlap), (QueueState::Paused, 2));
}

pub async fn people_queues_are_paged_by_name(bench: ConformanceBench) {
    let store = &bench.stores.queues;
    let now = bench.now().await;
    for queue in ["b", "a", "d", "c"] {
        store.put_queue(&acme(), &named(queue, ""), now).await.unwrap();
    }
    store.put_queue(&tenant("other"), &named("x", ""), now).await.unwrap();
    let page = async |after: Option<&str>, limit| {
        let after = after.map(name);
        let found = store.list_queues(&acme(), after.as_ref(), limit).await.unwrap();
        found.iter().map(|view| view.config.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(page(None, 3).await, ["a", "b", "c"]);
    assert_eq!(page(Some("c"), 3).await, ["d"]);
}

pub async fn last_put_profile_counts(bench: ConformanceBench) {
    let store = &bench.stores.people;
    let profile = |who: &str, skills: &[&str], state| PersonProfile {
        person: person(who),
        skills: skills.iter().map(|skill| name(skill)).collect(),
        state,
    };
    let (active, paused) = (QueueState::Active, QueueState::Paused);
    let people = [profile("bob", &["latin", "greek"], active), profile("ann", &[], active)];
    let now = bench.now().await;
    store.put_people(&acme(), &people, now).await.unwrap();
    let changed = [profile("bob", &["latin"], paused), profile("Cem", &[], active)];
    store.put_people(&acme(), &changed, now).await.unwrap();
    store.put_people(&tenant("other"), &[profile("zoe", &[], active)], now).await.unwrap();
    let found = store.find_people(&[(acme(), person("zoe")), (acme(), person("bob"))]).await.unwrap();
    assert_eq!(found, [None, Some(changed[0].clone())]);
    let page = async |after: Option<&str>, limit| {
        let after = after.map(person);
        let found = store.list_people(&acme(), after.as_ref(), limit).await.unwrap();
        found.iter().map(|profile| profile.person.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(page(None, 2).await, ["Cem", "ann"]);
    assert_eq!(page(Some("ann"), 2).await, ["bob"]);
}
