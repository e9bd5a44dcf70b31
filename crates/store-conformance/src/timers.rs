//! Timers: fired once, in order, not before their time.

use std::collections::BTreeMap;
use std::time::Duration;

use millstream_model::action_queue::ActionQueue;
use millstream_model::id::{EventId, ExecutionKey, Seq};
use millstream_model::status::EventStatus;
use millstream_model::time::Timestamp;
use millstream_workflow::log::EventOrigin;

use crate::ConformanceBench;
use crate::commit_builder::{ConformanceVisit, ready};
use crate::fixture::{HOUR, SHORT, armed_execution, execution, execution_of, grant, name, timer};
use crate::settle::{retry, settle};

async fn fire(bench: &ConformanceBench, ids: &[EventId]) -> Vec<ExecutionKey> {
    bench.stores.timers.fire_due(ids, bench.now().await).await.unwrap()
}

fn ids(bench: &ConformanceBench, count: usize) -> Vec<EventId> {
    (0..count).map(|_| bench.event_id()).collect()
}

async fn armed(bench: &ConformanceBench, key: &ExecutionKey, fire_at: Timestamp, send: &str) {
    let timers = vec![timer(Seq::FIRST, 0, fire_at, send)];
    bench.start_as(armed_execution(bench, key, timers, bench.now().await)).await;
}

pub async fn due_timer_becomes_undecided_event(bench: ConformanceBench) {
    let key = execution("one");
    armed(&bench, &key, bench.now().await.minus(HOUR), "expire").await;
    let spare = ids(&bench, 3);
    assert_eq!(fire(&bench, &spare).await, [key.clone()]);
    let waiting = bench.load(&key, None).await.mailbox.remove(0);
    assert_eq!((waiting.event_id, waiting.name.clone()), (spare[0], name("expire")));
    assert_eq!(waiting.origin, EventOrigin::Timer { armed_seq: Seq::FIRST });
    assert_eq!(waiting.payload.as_str(), "null");
    let record = bench.event(&key, spare[0]).await;
    assert_eq!((record.status, record.actor.as_deref()), (EventStatus::Pending, Some("timer")));
    assert!(bench.timers(&key).await.is_empty());
    assert!(fire(&bench, &spare[1..]).await.is_empty(), "it fires once");
    assert_eq!(bench.mailbox(&key).await, [spare[0]]);
}

pub async fn timer_does_not_fire_early(bench: ConformanceBench) {
    let (soon, later) = (execution("soon"), execution("later"));
    let now = bench.now().await;
    armed(&bench, &later, now.plus(HOUR), "expire").await;
    assert!(fire(&bench, &ids(&bench, 5)).await.is_empty());
    let due = bench.now().await.plus(SHORT);
    armed(&bench, &soon, due, "expire").await;
    bench.passed(due).await;
    assert_eq!(fire(&bench, &ids(&bench, 5)).await, [soon]);
    assert_eq!(bench.timers(&later).await, ["expire"]);
}

pub async fn timers_fire_in_order_up_to_ids(bench: ConformanceBench) {
    let now = bench.now().await;
    let ages = [("a", 3), ("b", 1), ("c", 5), ("d", 2), ("e", 4)];
    for (id, age) in ages {
        armed(&bench, &execution(id), now.minus(HOUR * age), "expire").await;
    }
    let spare = ids(&bench, 3);
    assert_eq!(fire(&bench, &spare).await, ["c", "e", "a"].map(execution));
    assert_eq!(bench.mailbox(&execution("e")).await, [spare[1]]);
    let first = bench.event(&execution("c"), spare[0]).await.accept_no;
    assert!(first < bench.event(&execution("a"), spare[2]).await.accept_no);
    assert_eq!(fire(&bench, &ids(&bench, 3)).await, ["d", "b"].map(execution));
    assert!(fire(&bench, &[]).await.is_empty());
}

pub async fn two_timers_of_execution_are_two_events(bench: ConformanceBench) {
    let key = execution("one");
    let now = bench.now().await;
    let timers = vec![
        timer(Seq::FIRST, 0, now.minus(HOUR), "second"),
        timer(Seq::FIRST, 1, now.minus(HOUR * 2), "first"),
    ];
    bench.start_as(armed_execution(&bench, &key, timers, now)).await;
    assert_eq!(fire(&bench, &ids(&bench, 5)).await, [key.clone(), key.clone()]);
    let names: Vec<_> =
        bench.load(&key, None).await.mailbox.iter().map(|waiting| waiting.name.to_string()).collect();
    assert_eq!(names, ["first", "second"]);
}

pub async fn cancelled_timer_does_not_fire(bench: ConformanceBench) {
    let key = execution("one");
    let now = bench.now().await;
    let timers = vec![timer(Seq::FIRST, 0, now.minus(HOUR), "expire")];
    let state = bench.start_as(armed_execution(&bench, &key, timers, now)).await;
    let paid = bench.post(&key, "pay").await;
    bench.commit_done(ConformanceVisit::to(&key, &state, now).apply(paid, "paid").disarm(Seq::FIRST)).await;
    assert!(fire(&bench, &ids(&bench, 5)).await.is_empty());
}

pub async fn timer_fires_once_under_concurrency(bench: ConformanceBench) {
    let now = bench.now().await;
    let mut armed_count = BTreeMap::new();
    for n in 0..40 {
        let key = execution_of(if n % 2 == 0 { "acme" } else { "rival" }, &format!("e{n}"));
        armed(&bench, &key, now.minus(Duration::from_secs(n)), "expire").await;
        armed_count.insert(key, 1);
    }
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let bench = bench.clone();
            tokio::spawn(async move {
                let mut fired = Vec::new();
                for _ in 0..4 {
                    let ids = ids(&bench, 3);
                    fired.extend(fire(&bench, &ids).await);
                }
                fired
            })
        })
        .collect();
    let mut fired = Vec::new();
    for task in tasks {
        fired.extend(task.await.unwrap());
    }
    // Callers may skip rows that another one is firing; the next call returns the rest.
    fired.extend(fire(&bench, &ids(&bench, 100)).await);
    let mut counted = BTreeMap::new();
    for key in fired {
        *counted.entry(key).or_insert(0) += 1;
    }
    assert_eq!(counted, armed_count);
    for key in armed_count.keys() {
        assert_eq!(bench.mailbox(key).await.len(), 1, "{key}");
    }
}

pub async fn next_due_covers_timers_and_ready_actions(bench: ConformanceBench) {
    let timers = &bench.stores.timers;
    assert_eq!(timers.next_due(&[ActionQueue::engine_for_all()]).await.unwrap(), None);
    let now = bench.now().await;
    armed(&bench, &execution("one"), now.plus(HOUR * 2), "expire").await;
    assert_eq!(timers.next_due(&[ActionQueue::engine_for_all()]).await.unwrap(), Some(now.plus(HOUR * 2)));
    let (_, _, done) = bench.acting(&execution("two"), &[ready("a")], grant(1)).await;
    assert_eq!(
        timers.next_due(&[ActionQueue::engine_for_all()]).await.unwrap(),
        Some(now.plus(HOUR * 2)),
        "a lease is not in it"
    );
    settle(&bench, vec![retry(&done.leased[0], now.plus(HOUR))], grant(0)).await;
    assert_eq!(timers.next_due(&[ActionQueue::engine_for_all()]).await.unwrap(), Some(now.plus(HOUR)));
}
