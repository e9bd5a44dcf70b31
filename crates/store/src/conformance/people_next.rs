//! Assignment selection: which person gets which item, in which order, and exclusions.

use std::time::Duration;

use millstream_core::assignment::next::Idle;
use millstream_core::assignment::{Input, QueueState};

use super::Bench;
use super::fixture::{name, tenant};
use super::people::{acme, item, named, new_item, person, skip};
use crate::assignments::{Caller, Given};

fn idle(given: Given) -> Idle {
    match given {
        Given::Nothing(idle) => idle,
        Given::Assigned(given) => panic!("given {given:?}"),
    }
}

pub async fn a_lost_answer_loses_nothing(bench: Bench) {
    bench.queue("").await;
    bench.import_many(2).await;
    let first = bench.take("ann").await;
    assert!(!first.again);
    assert_eq!((first.item.id.as_str(), first.payload.as_str()), ("i-0", r#"{"of": "i-0"}"#));
    let again = bench.take("ann").await;
    assert!(again.again);
    assert_eq!((&again.assignment, &again.payload), (&first.assignment, &first.payload));
    bench.start_work(&first.assignment).await;
    assert_eq!(idle(bench.ask(bench.caller("ann")).await), Idle::OpenLimit);
    bench.hand_in(&first.assignment, "1").await;
    assert_eq!(bench.taken("ann").await, "i-1");
}

pub async fn the_order_is_priority_then_reopened_then_import(bench: Bench) {
    bench.queue("per_person: {open: 9}").await;
    let with = |id: &str, priority: Option<i32>| {
        let mut new = new_item(id);
        new.own.priority = priority;
        new
    };
    bench
        .import(vec![with("late", Some(-1)), with("a", None), with("b", None), with("urgent", Some(5))])
        .await;
    bench.import(vec![with("c", None)]).await;
    assert_eq!(bench.taken("p1").await, "urgent");
    let a = bench.take("p2").await;
    assert_eq!(a.item.id.as_str(), "a");
    let b = bench.take("p3").await;
    bench.start_work(&b.assignment).await;
    bench.item_act(&item("b"), &skip(&b.assignment)).await;
    bench.start_work(&a.assignment).await;
    bench.item_act(&item("a"), &skip(&a.assignment)).await;
    let order =
        [bench.taken("p4").await, bench.taken("p5").await, bench.taken("p6").await, bench.taken("p7").await];
    assert_eq!(order, ["b", "a", "c", "late"]);
    assert_eq!(idle(bench.ask(bench.caller("p8")).await), Idle::NothingOpen);
}

pub async fn an_item_goes_to_as_many_different_people_as_it_needs(bench: Bench) {
    bench.queue("overlap: 2, per_person: {open: 9}").await;
    bench.import_many(2).await;
    let ann = bench.take("ann").await.assignment;
    bench.start_work(&ann).await;
    assert_eq!(bench.taken("ann").await, "i-1", "the first is theirs already");
    assert_eq!(bench.taken("bob").await, "i-0");
    let cem = bench.take("cem").await.assignment;
    assert_eq!(cem.item.as_str(), "i-1");
    assert_eq!(idle(bench.ask(bench.caller("dee")).await), Idle::NothingOpen);
    bench.start_work(&cem).await;
    bench.item_act(&item("i-1"), &skip(&cem)).await;
    assert_eq!(
        idle(bench.ask(bench.caller("cem")).await),
        Idle::NothingOpen,
        "a skipped item does not return"
    );
    assert_eq!(bench.taken("dee").await, "i-1");
}

pub async fn nobody_is_given_what_they_lack_the_skills_for(bench: Bench) {
    bench.queue("skills: [english]").await;
    let with = |id: &str, skills: &[&str]| {
        let mut new = new_item(id);
        new.own.skills = skills.iter().map(|skill| name(skill)).collect();
        new
    };
    bench
        .import(vec![with("both", &["latin", "greek"]), with("latin", &["latin"]), with("plain", &[])])
        .await;
    assert_eq!(idle(bench.ask(bench.caller("zoe")).await), Idle::Skills, "a person without a profile");
    bench.skilled("ann", &["english", "greek"]).await;
    bench.skilled("bob", &["english", "latin", "greek", "music"]).await;
    bench.skilled("cem", &["english", "latin"]).await;
    assert_eq!(bench.taken("ann").await, "plain");
    assert_eq!(bench.taken("cem").await, "latin");
    assert_eq!(bench.taken("bob").await, "both");
    bench.skilled("dee", &["english"]).await;
    bench.import(vec![with("more", &["latin", "greek"])]).await;
    assert_eq!(idle(bench.ask(bench.caller("dee")).await), Idle::NothingOpen);
    bench.skilled("dee", &["english", "latin", "greek"]).await;
    assert_eq!(bench.taken("dee").await, "more");
}

pub async fn what_suits_is_found_behind_everything_that_does_not(bench: Bench) {
    bench.queue("per_person: {open: 1000}, pre_assignment_timeout: null, overlap: 2").await;
    let with = |id: String, skill: &str| {
        let mut new = new_item(&id);
        new.own.skills = [name(skill)].into();
        new
    };
    // More than any store reads in one search.
    bench.import((0..700).map(|n| with(format!("latin-{n}"), "latin")).collect()).await;
    bench.import((0..700).map(|n| with(format!("greek-{n}"), "greek")).collect()).await;
    bench.import(vec![with("rare".to_owned(), "music")]).await;
    bench.skilled("sue", &["music"]).await;
    assert_eq!(bench.taken("sue").await, "rare");
    bench.skilled("ann", &["greek"]).await;
    assert_eq!(bench.taken("ann").await, "greek-0");
    // A person who has had all of the first ones.
    bench.skilled("bob", &["greek"]).await;
    for n in 0..320 {
        let given = bench.take("bob").await;
        assert_eq!(given.item.id.as_str(), format!("greek-{n}"));
        bench.start_work(&given.assignment).await;
        if n % 8 == 0 {
            bench.hand_in(&given.assignment, "1").await;
        }
    }
    assert_eq!(bench.taken("bob").await, "greek-320");
}

pub async fn limits_of_a_person_hold(bench: Bench) {
    bench.queue("per_person: {open: 2, total: 3}").await;
    bench.import_many(9).await;
    let first = bench.take("ann").await.assignment;
    bench.start_work(&first).await;
    let second = bench.take("ann").await.assignment;
    bench.start_work(&second).await;
    assert_eq!(idle(bench.ask(bench.caller("ann")).await), Idle::OpenLimit);
    bench.hand_in(&first, "1").await;
    bench.hand_in(&second, "1").await;
    bench.work("ann").await;
    assert_eq!(idle(bench.ask(bench.caller("ann")).await), Idle::TotalLimit);
    bench.work("bob").await;
}

pub async fn who_or_what_is_paused_gets_nothing_new(bench: Bench) {
    bench.queue("people: [ann, bob]").await;
    bench.import_many(2).await;
    let ann = bench.take("ann").await;
    let now = bench.now().await;
    bench.stores.queues.set_queue_state(&acme(), &name("q"), QueueState::Paused, now).await.unwrap();
    assert_eq!(idle(bench.ask(bench.caller("bob")).await), Idle::QueuePaused);
    assert_eq!(bench.take("ann").await.assignment, ann.assignment, "a pending assignment is returned again");
    bench.start_work(&ann.assignment).await;
    bench.hand_in(&ann.assignment, "1").await;
    bench.stores.queues.set_queue_state(&acme(), &name("q"), QueueState::Active, now).await.unwrap();
    assert_eq!(idle(bench.ask(bench.caller("eve")).await), Idle::NotEligible);
    let mut profile = millstream_core::assignment::next::Profile::unknown(person("bob"));
    profile.state = QueueState::Paused;
    bench.stores.people.put_people(&acme(), &[profile], now).await.unwrap();
    assert_eq!(idle(bench.ask(bench.caller("bob")).await), Idle::PersonPaused);
}

pub async fn callers_of_one_batch_are_served_in_their_order(bench: Bench) {
    bench.queue("overlap: 2").await;
    bench.import_many(3).await;
    let callers: Vec<Caller> =
        ["a", "b", "c", "a", "d", "e", "f", "g"].iter().map(|who| bench.caller(who)).collect();
    let given = bench.stores.assignments.next(&callers, bench.now().await).await.unwrap();
    let items: Vec<String> = given
        .iter()
        .map(|given| match given {
            Given::Assigned(given) if given.again => format!("{} again", given.item.id),
            Given::Assigned(given) => given.item.id.to_string(),
            Given::Nothing(idle) => format!("{idle:?}"),
        })
        .collect();
    assert_eq!(items, ["i-0", "i-0", "i-1", "i-0 again", "i-1", "i-2", "i-2", "NothingOpen"]);
}

pub async fn work_comes_from_every_queue_that_is_asked_for(bench: Bench) {
    let now = bench.now().await;
    for (queue, rest) in [("low", ""), ("high", "priority: 3"), ("closed", "people: [zoe], priority: 9")] {
        bench.stores.queues.put_queue(&acme(), &named(queue, rest), now).await.unwrap();
        let items = [new_item(&format!("{queue}-1")), new_item(&format!("{queue}-2"))];
        bench.stores.items.import(&acme(), &name(queue), &items, now).await.unwrap();
    }
    let of = |who: &str, queues: &[&str]| Caller {
        queues: queues.iter().map(|queue| name(queue)).collect(),
        ..bench.caller(who)
    };
    let taken = async |caller: Caller| match bench.ask(caller).await {
        Given::Assigned(given) => given.item.id.to_string(),
        Given::Nothing(idle) => format!("{idle:?}"),
    };
    assert_eq!(taken(of("ann", &[])).await, "high-1");
    assert_eq!(taken(of("ann", &["low"])).await, "low-1", "each queue has limits of its own");
    assert_eq!(taken(of("bob", &["low", "high"])).await, "high-2");
    assert_eq!(taken(of("bob", &["nowhere"])).await, "NoQueue");
    assert_eq!(taken(of("bob", &["closed"])).await, "NotEligible");
    let elsewhere = Caller { tenant: tenant("other"), ..of("bob", &[]) };
    assert_eq!(taken(elsewhere).await, "NoQueue");
}

pub async fn what_expired_is_reserved_for_its_person_and_then_open_to_others(bench: Bench) {
    bench.queue("max_attempts_per_labeler: 2").await;
    bench.import_many(1).await;
    let key = item("i-0");
    let mut now = bench.now().await;
    for _ in 0..2 {
        let one = bench.take("ann").await.assignment;
        assert_eq!(idle(bench.ask(bench.caller("bob")).await), Idle::NothingOpen);
        now = one.deadline.unwrap().max(now).plus(Duration::from_secs(1));
        let expire = Input::Expire { assignment: one.id, next: bench.assignment_id() };
        bench.item_act_at(&key, &expire, Some(now), None).await;
    }
    assert_eq!(idle(bench.ask(bench.caller("ann")).await), Idle::NothingOpen);
    assert_eq!(bench.taken("bob").await, "i-0");
}
