//! Accepting the same thing again: idempotency keys, repeated starts, appends in doubt.

use millstream_core::id::Seq;
use millstream_core::status::{EventStatus, Phase};

use super::Bench;
use super::fixture::{HOUR, event, execution, execution_of, keyed, new_execution, tenant};
use super::visit::Visit;
use crate::event_log::{Append, Appended, Idempotency};
use crate::housekeeping::Outlived;
use crate::views::EventFilter;

pub async fn a_repeated_key_returns_the_first_event_with_its_current_status(bench: Bench) {
    let key = execution("one");
    let state = bench.start(&key).await;
    let first = keyed(event(&bench, &key, "pay"), "k", 1);
    bench.append_event(&first).await;
    let again = keyed(event(&bench, &key, "pay"), "k", 1);
    let repeat = |status| Appended::Repeat { event_id: first.event_id, status };
    assert_eq!(bench.append_event(&again).await, repeat(EventStatus::Pending));
    bench.commit_done(Visit::to(&key, &state, bench.now().await).apply(first.event_id, "paid")).await;
    assert_eq!(bench.append_event(&again).await, repeat(EventStatus::Completed));
    assert!(bench.mailbox(&key).await.is_empty());
}

pub async fn what_a_key_stands_for_can_be_asked(bench: Bench) {
    let key = execution("one");
    let state = bench.start(&key).await;
    let first = keyed(event(&bench, &key, "pay"), "k", 1);
    bench.append_event(&first).await;
    let asked =
        [("acme", "k", 1), ("acme", "none", 1), ("acme", "k", 2), ("rival", "k", 1), ("acme", "k", 1)].map(
            |(owner, key, hash)| {
                (tenant(owner), Idempotency { key: key.to_owned(), request_hash: [hash; 32] })
            },
        );
    let seen = async || bench.stores.events.seen(&asked).await.unwrap();
    let repeat = |status| Some(Appended::Repeat { event_id: first.event_id, status });
    let pending = repeat(EventStatus::Pending);
    assert_eq!(seen().await, [pending.clone(), None, Some(Appended::Mismatch), None, pending]);
    bench.commit_done(Visit::to(&key, &state, bench.now().await).reject(first.event_id, "no")).await;
    assert_eq!(seen().await[0], repeat(EventStatus::Rejected));
    assert!(bench.stores.events.seen(&[]).await.unwrap().is_empty());
}

pub async fn a_key_of_a_start_outlives_its_execution(bench: Bench) {
    let key = execution("one");
    let keyed_start = async |hash| {
        let mut new = new_execution(&bench, &key, bench.now().await);
        new.start = keyed(new.start, "k", hash);
        new
    };
    let first = keyed_start(1).await;
    let state = bench.start_as(first.clone()).await;
    let again = async |hash| bench.append_one(Append::Start(Box::new(keyed_start(hash).await))).await;
    let repeat = Appended::Repeat { event_id: first.start.event_id, status: EventStatus::Completed };
    assert_eq!(again(1).await, repeat);
    assert_eq!(again(2).await, Appended::Mismatch, "the key is judged before the execution's id");
    let last = bench.post(&key, "close").await;
    bench.commit_done(Visit::to(&key, &state, bench.now().await).end(last, "closed", Phase::Completed)).await;
    let later = bench.now().await.plus(HOUR);
    assert_eq!(bench.stores.housekeeping.purge_executions(Outlived::before(later), 10).await.unwrap(), 1);
    assert_eq!(again(1).await, repeat, "it is not started a second time");
    let kept = (key.tenant.clone(), Idempotency { key: "k".to_owned(), request_hash: [1; 32] });
    assert_eq!(bench.stores.events.seen(&[kept]).await.unwrap(), [Some(repeat)]);
    assert!(bench.stores.execution_views.executions(&[key]).await.unwrap()[0].is_none());
}

pub async fn a_key_reused_with_other_content_is_a_mismatch(bench: Bench) {
    let key = execution("one");
    bench.start(&key).await;
    let first = keyed(event(&bench, &key, "pay"), "k", 1);
    bench.append_event(&first).await;
    let other = keyed(event(&bench, &key, "pay"), "k", 2);
    assert_eq!(bench.append_event(&other).await, Appended::Mismatch);
    assert_eq!(bench.mailbox(&key).await, [first.event_id]);
}

pub async fn one_key_twice_in_one_batch_is_one_event(bench: Bench) {
    let key = execution("one");
    bench.start(&key).await;
    let first = keyed(event(&bench, &key, "pay"), "k", 1);
    let same = keyed(event(&bench, &key, "pay"), "k", 1);
    let other = keyed(event(&bench, &key, "pay"), "k", 2);
    let verdicts = bench.append(&[first.clone(), same, other].map(Append::Event)).await;
    assert!(matches!(verdicts[0], Appended::Accepted { .. }));
    let repeat = Appended::Repeat { event_id: first.event_id, status: EventStatus::Pending };
    assert_eq!(verdicts[1..], [repeat, Appended::Mismatch]);
    assert_eq!(bench.mailbox(&key).await, [first.event_id]);
}

pub async fn keys_of_different_tenants_do_not_meet(bench: Bench) {
    for owner in ["acme", "rival"] {
        let key = execution_of(owner, "one");
        bench.start(&key).await;
        let verdict = bench.append_event(&keyed(event(&bench, &key, "pay"), "k", 1)).await;
        assert!(matches!(verdict, Appended::Accepted { .. }), "{owner}: {verdict:?}");
    }
}

pub async fn fifty_appends_of_one_key_at_once_make_one_event(bench: Bench) {
    let key = execution("one");
    bench.start(&key).await;
    let tasks: Vec<_> = (0..50)
        .map(|_| {
            let (bench, sent) = (bench.clone(), keyed(event(&bench, &key, "pay"), "k", 1));
            tokio::spawn(async move { (sent.event_id, bench.append_event(&sent).await) })
        })
        .collect();
    let (mut accepted, mut repeated) = (Vec::new(), Vec::new());
    for task in tasks {
        match task.await.unwrap() {
            (id, Appended::Accepted { .. }) => accepted.push(id),
            (_, Appended::Repeat { event_id, .. }) => repeated.push(event_id),
            (
                _,
                other @ (Appended::Delivered { .. }
                | Appended::Buffered
                | Appended::Ambiguous { .. }
                | Appended::Mismatch
                | Appended::NoExecution),
            ) => panic!("{other:?}"),
        }
    }
    assert_eq!((accepted.len(), repeated.len()), (1, 49));
    assert!(repeated.iter().all(|id| *id == accepted[0]));
    assert_eq!(bench.mailbox(&key).await, accepted);
}

pub async fn batches_with_crossed_keys_do_not_surface_a_deadlock(bench: Bench) {
    let (one, two) = (execution("one"), execution("two"));
    bench.start(&one).await;
    bench.start(&two).await;
    for round in 0..40 {
        let (a, b) = (format!("a{round}"), format!("b{round}"));
        let forth = [keyed(event(&bench, &one, "pay"), &a, 1), keyed(event(&bench, &two, "pay"), &b, 1)];
        let back = [keyed(event(&bench, &two, "pay"), &b, 1), keyed(event(&bench, &one, "pay"), &a, 1)];
        let [forth, back] = [forth, back].map(|batch| {
            let bench = bench.clone();
            tokio::spawn(async move { bench.append(&batch.map(Append::Event)).await })
        });
        let verdicts = [forth.await.unwrap(), back.await.unwrap()].concat();
        let accepted = verdicts.iter().filter(|verdict| matches!(verdict, Appended::Accepted { .. })).count();
        assert_eq!(accepted, 2, "round {round}: {verdicts:?}");
    }
}

pub async fn an_append_in_doubt_can_be_repeated(bench: Bench) {
    let key = execution("one");
    let mut new = new_execution(&bench, &key, bench.now().await);
    new.events = vec![event(&bench, &key, "pay")];
    let posted = event(&bench, &key, "ship");
    let batch = [Append::Start(Box::new(new.clone())), Append::Event(posted.clone())];
    bench.append(&batch).await;
    let repeat = |event_id, status| Appended::Repeat { event_id, status };
    assert_eq!(
        bench.append(&batch).await,
        [repeat(new.start.event_id, EventStatus::Completed), repeat(posted.event_id, EventStatus::Pending)]
    );
    assert_eq!(bench.mailbox(&key).await, [new.events[0].event_id, posted.event_id]);
    let filter = EventFilter::default();
    let all = bench.stores.event_views.list_events(&key.tenant, &filter, None, 10).await.unwrap();
    assert_eq!(all.len(), 3);
}

pub async fn a_batch_in_doubt_may_have_grown(bench: Bench) {
    let key = execution("one");
    bench.start(&key).await;
    let (old, new) = (event(&bench, &key, "pay"), event(&bench, &key, "ship"));
    bench.append_event(&old).await;
    let verdicts = bench.append(&[old.clone(), new.clone()].map(Append::Event)).await;
    assert_eq!(verdicts[0], Appended::Repeat { event_id: old.event_id, status: EventStatus::Pending });
    assert!(matches!(verdicts[1], Appended::Accepted { .. }));
    assert_eq!(bench.mailbox(&key).await, [old.event_id, new.event_id]);
}

pub async fn the_same_start_again_is_a_repeat_and_appends_nothing(bench: Bench) {
    let key = execution("one");
    let mut first = new_execution(&bench, &key, bench.now().await);
    first.events = vec![event(&bench, &key, "pay")];
    bench.start_as(first.clone()).await;
    let mut again = new_execution(&bench, &key, bench.now().await);
    again.events = vec![event(&bench, &key, "pay")];
    let verdict = bench.append_one(Append::Start(Box::new(again))).await;
    let status = EventStatus::Completed;
    assert_eq!(verdict, Appended::Repeat { event_id: first.start.event_id, status });
    assert_eq!(bench.mailbox(&key).await, [first.events[0].event_id]);
    assert_eq!(bench.execution(&key).await.state.seq, Seq::FIRST);
}

pub async fn a_start_of_a_taken_id_with_other_input_is_a_mismatch(bench: Bench) {
    let key = execution("one");
    bench.start(&key).await;
    let mut other = new_execution(&bench, &key, bench.now().await);
    other.input_hash = [8; 32];
    other.events = vec![event(&bench, &key, "pay")];
    assert_eq!(bench.append_one(Append::Start(Box::new(other))).await, Appended::Mismatch);
    assert!(bench.mailbox(&key).await.is_empty());
}

pub async fn one_id_started_twice_in_one_batch_is_one_execution(bench: Bench) {
    let key = execution("one");
    let now = bench.now().await;
    let starts = [(); 3].map(|()| new_execution(&bench, &key, now));
    let [first, same, mut other] = starts;
    other.input_hash = [8; 32];
    let batch = [first.clone(), same, other].map(|new| Append::Start(Box::new(new)));
    let verdicts = bench.append(&batch).await;
    assert!(matches!(verdicts[0], Appended::Accepted { .. }));
    let repeat = Appended::Repeat { event_id: first.start.event_id, status: EventStatus::Completed };
    assert_eq!(verdicts[1..], [repeat, Appended::Mismatch]);
}

pub async fn two_tenants_may_use_the_same_execution_id(bench: Bench) {
    bench.start(&execution_of("acme", "one")).await;
    bench.start(&execution_of("rival", "one")).await;
}

pub async fn many_starts_of_one_id_at_once_make_one_execution(bench: Bench) {
    let key = execution("one");
    let now = bench.now().await;
    let tasks: Vec<_> = (0..20)
        .map(|_| {
            let mut new = new_execution(&bench, &key, now);
            new.events = vec![event(&bench, &key, "pay")];
            let bench = bench.clone();
            tokio::spawn(async move { bench.append_one(Append::Start(Box::new(new))).await })
        })
        .collect();
    let mut accepted = 0;
    for task in tasks {
        match task.await.unwrap() {
            Appended::Accepted { .. } => accepted += 1,
            Appended::Repeat { .. } => {}
            other @ (Appended::Delivered { .. }
            | Appended::Buffered
            | Appended::Ambiguous { .. }
            | Appended::Mismatch
            | Appended::NoExecution) => panic!("{other:?}"),
        }
    }
    assert_eq!(accepted, 1);
    assert_eq!(bench.mailbox(&key).await.len(), 1);
}
