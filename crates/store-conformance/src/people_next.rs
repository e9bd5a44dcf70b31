//! Assignment selection: which person gets which item, in which order, and exclusions.

use std::time::Duration;

use millstream_people::assignment::select::PersonIdleReason;
use millstream_people::assignment::{ItemInput, QueueState};
use millstream_store::assignments::{AssignmentCaller, NextAssignment};

use crate::ConformanceBench;
use crate::fixture::{name, tenant};
use crate::people::{acme, item, named, new_item, person, skip};

fn idle(given: NextAssignment) -> PersonIdleReason {
    match given {
        NextAssignment::Nothing(idle) => idle,
        NextAssignment::Assigned(given) => panic!("given {given:?}"),
    }
}

pub async fn repeated_next_returns_pending_assignment(bench: ConformanceBench) {
    bench.queue("").await;
    bench.import_many(2).await;
    let first = bench.take("ann").await;
    assert!(!first.already_assigned);
    assert_eq!((first.item.id.as_str(), first.payload.as_str()), ("i-0", r#"{"of": "i-0"}"#));
    let again = bench.take("ann").await;
    assert!(again.already_assigned);
    assert_eq!((&again.assignment, &again.payload), (&first.assignment, &first.payload));
    bench.start_work(&first.assignment).await;
    assert_eq!(idle(bench.ask(bench.caller("ann")).await), PersonIdleReason::OpenLimit);
    bench.hand_in(&first.assignment, "1").await;
    assert_eq!(bench.taken("ann").await, "i-1");
}

pub async fn openings_order_by_priority_reopened_import(bench: ConformanceBench) {
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
    assert_eq!(idle(bench.ask(bench.caller("p8")).await), PersonIdleReason::NothingOpen);
}

pub async fn item_overlap_goes_to_distinct_people(bench: ConformanceBench) {
    bench.queue("overlap: 2, per_person: {open: 9}").await;
    bench.import_many(2).await;
    let ann = bench.take("ann").await.assignment;
    bench.start_work(&ann).await;
    assert_eq!(bench.taken("ann").await, "i-1", "the first is theirs already");
    assert_eq!(bench.taken("bob").await, "i-0");
    let cem = bench.take("cem").await.assignment;
    assert_eq!(cem.item.as_str(), "i-1");
    assert_eq!(idle(bench.ask(bench.caller("dee")).await), PersonIdleReason::NothingOpen);
    bench.start_work(&cem).await;
    bench.item_act(&item("i-1"), &skip(&cem)).await;
    assert_eq!(
        idle(bench.ask(bench.caller("cem")).await),
        PersonIdleReason::NothingOpen,
        "a skipped item does not return"
    );
    assert_eq!(bench.taken("dee").await, "i-1");
}

pub async fn skills_exclude_unqualified_people(bench: ConformanceBench) {
    bench.queue("skills: [english]").await;
    let with = |id: &str, skills: &[&str]| {
        let mut new = new_item(id);
        new.own.skills = skills.iter().map(|skill| name(skill)).collect();
        new
    };
    bench
        .import(vec![with("both", &["latin", "greek"]), with("latin", &["latin"]), with("plain", &[])])
        .await;
    assert_eq!(
        idle(bench.ask(bench.caller("zoe")).await),
        PersonIdleReason::Skills,
        "a person without a profile"
    );
    bench.skilled("ann", &["english", "greek"]).await;
    bench.skilled("bob", &["english", "latin", "greek", "music"]).await;
    bench.skilled("cem", &["english", "latin"]).await;
    assert_eq!(bench.taken("ann").await, "plain");
    assert_eq!(bench.taken("cem").await, "latin");
    assert_eq!(bench.taken("bob").await, "both");
    bench.skilled("dee", &["english"]).await;
    bench.import(vec![with("more", &["latin", "greek"])]).await;
    assert_eq!(idle(bench.ask(bench.caller("dee")).await), PersonIdleReason::NothingOpen);
    bench.skilled("dee", &["english", "latin", "greek"]).await;
    assert_eq!(bench.taken("dee").await, "more");
}

pub async fn suitable_opening_is_found_behind_others(bench: ConformanceBench) {
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

pub async fn limits_per_person_hold(bench: ConformanceBench) {
    bench.queue("per_person: {open: 2, total: 3}").await;
    bench.import_many(9).await;
    let first = bench.take("ann").await.assignment;
    bench.start_work(&first).await;
    let second = bench.take("ann").await.assignment;
    bench.start_work(&second).await;
    assert_eq!(idle(bench.ask(bench.caller("ann")).await), PersonIdleReason::OpenLimit);
    bench.hand_in(&first, "1").await;
    bench.hand_in(&second, "1").await;
    bench.work("ann").await;
    assert_eq!(idle(bench.ask(bench.caller("ann")).await), PersonIdleReason::TotalLimit);
    bench.work("bob").await;
}

pub async fn paused_queue_or_person_gets_nothing_new(bench: ConformanceBench) {
    bench.queue("people: [ann, bob]").await;
    bench.import_many(2).await;
    let ann = bench.take("ann").await;
    let now = bench.now().await;
    bench.stores.queues.set_queue_state(&acme(), &name("q"), QueueState::Paused, now).await.unwrap();
    assert_eq!(idle(bench.ask(bench.caller("bob")).await), PersonIdleReason::QueuePaused);
    assert_eq!(bench.take("ann").await.assignment, ann.assignment, "a pending assignment is returned again");
    bench.start_work(&ann.assignment).await;
    bench.hand_in(&ann.assignment, "1").await;
    bench.stores.queues.set_queue_state(&acme(), &name("q"), QueueState::Active, now).await.unwrap();
    assert_eq!(idle(bench.ask(bench.caller("eve")).await), PersonIdleReason::NotEligible);
    let mut profile = millstream_people::assignment::select::PersonProfile::unknown(person("bob"));
    profile.state = QueueState::Paused;
    bench.stores.people.put_people(&acme(), &[profile], now).await.unwrap();
    assert_eq!(idle(bench.ask(bench.caller("bob")).await), PersonIdleReason::PersonPaused);
}

pub async fn batched_callers_are_served_in_order(bench: ConformanceBench) {
    bench.queue("overlap: 2").await;
    bench.import_many(3).await;
    let callers: Vec<AssignmentCaller> =
        ["a", "b", "c", "a", "d", "e", "f", "g"].iter().map(|who| bench.caller(who)).collect();
    let given = bench.stores.assignments.assign_next(&callers, bench.now().await).await.unwrap();
    let items: Vec<String> = given
        .iter()
        .map(|given| match given {
            NextAssignment::Assigned(given) if given.already_assigned => format!("{} again", given.item.id),
            NextAssignment::Assigned(given) => given.item.id.to_string(),
            NextAssignment::Nothing(idle) => format!("{idle:?}"),
        })
        .collect();
    assert_eq!(items, ["i-0", "i-0", "i-1", "i-0 again", "i-1", "i-2", "i-2", "NothingOpen"]);
}

pub async fn openings_come_from_every_requested_queue(bench: ConformanceBench) {
    let now = bench.now().await;
    for (queue, rest) in [("low", ""), ("high", "priority: 3"), ("closed", "people: [zoe], priority: 9")] {
        bench.stores.queues.put_queue(&acme(), &named(queue, rest), now).await.unwrap();
        let items = [new_item(&format!("{queue}-1")), new_item(&format!("{queue}-2"))];
        bench.stores.items.import_items(&acme(), &name(queue), &items, now).await.unwrap();
    }
    let of = |who: &str, queues: &[&str]| AssignmentCaller {
        queues: queues.iter().map(|queue| name(queue)).collect(),
        ..bench.caller(who)
    };
    let taken = async |caller: AssignmentCaller| match bench.ask(caller).await {
        NextAssignment::Assigned(given) => given.item.id.to_string(),
        NextAssignment::Nothing(idle) => format!("{idle:?}"),
    };
    assert_eq!(taken(of("ann", &[])).await, "high-1");
    assert_eq!(taken(of("ann", &["low"])).await, "low-1", "each queue has limits of its own");
    assert_eq!(taken(of("bob", &["low", "high"])).await, "high-2");
    assert_eq!(taken(of("bob", &["nowhere"])).await, "NoQueue");
    assert_eq!(taken(of("bob", &["closed"])).await, "NotEligible");
    let elsewhere = AssignmentCaller { tenant: tenant("other"), ..of("bob", &[]) };
    assert_eq!(taken(elsewhere).await, "NoQueue");
}

pub async fn expired_opening_is_reserved_then_free(bench: ConformanceBench) {
    bench.queue("max_attempts_per_person: 2").await;
    bench.import_many(1).await;
    let key = item("i-0");
    let mut now = bench.now().await;
    for _ in 0..2 {
        let one = bench.take("ann").await.assignment;
        assert_eq!(idle(bench.ask(bench.caller("bob")).await), PersonIdleReason::NothingOpen);
        now = one.deadline.unwrap().max(now).plus(Duration::from_secs(1));
        let expire = ItemInput::Expire { assignment: one.id, next: bench.assignment_id() };
        bench.item_act_at(&key, &expire, Some(now), None).await;
    }
    assert_eq!(idle(bench.ask(bench.caller("ann")).await), PersonIdleReason::NothingOpen);
    assert_eq!(bench.taken("bob").await, "i-0");
}
