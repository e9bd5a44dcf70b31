//! Accepting the same thing again: idempotency keys, repeated starts, appends in doubt.

use millstream_model::id::Seq;
use millstream_model::status::{EventStatus, ExecutionPhase};
use millstream_store::event_log::{AppendRequest, Appended, IdempotencyKey};
use millstream_store::housekeeping::RetentionCutoffs;
use millstream_store::views::EventFilter;

use crate::ConformanceBench;
use crate::commit_builder::ConformanceVisit;
use crate::fixture::{HOUR, event, execution, execution_of, keyed, new_execution, tenant};

pub async fn repeated_key_returns_first_event_and_status(bench: ConformanceBench) {
    let key = execution("one");
    let state = bench.start(&key).await;
    let first = keyed(event(&bench, &key, "pay"), "k", 1);
    bench.append_event(&first).await;
    let again = keyed(event(&bench, &key, "pay"), "k", 1);
    let repeat = |status| Appended::Repeat { event_id: first.event_id, status };
    assert_eq!(bench.append_event(&again).await, repeat(EventStatus::Pending));
    bench
        .commit_done(ConformanceVisit::to(&key, &state, bench.now().await).apply(first.event_id, "paid"))
        .await;
    assert_eq!(bench.append_event(&again).await, repeat(EventStatus::Completed));
    assert!(bench.mailbox(&key).await.is_empty());
}

pub async fn used_keys_can_be_looked_up(bench: ConformanceBench) {
    let key = execution("one");
    let state = bench.start(&key).await;
    let first = keyed(event(&bench, &key, "pay"), "k", 1);
    bench.append_event(&first).await;
    let asked =
        [("acme", "k", 1), ("acme", "none", 1), ("acme", "k", 2), ("rival", "k", 1), ("acme", "k", 1)].map(
            |(owner, key, hash)| {
                (tenant(owner), IdempotencyKey { key: key.to_owned(), request_hash: [hash; 32] })
            },
        );
    let seen = async || bench.stores.events.find_accepted(&asked).await.unwrap();
    let repeat = |status| Some(Appended::Repeat { event_id: first.event_id, status });
    let pending = repeat(EventStatus::Pending);
    assert_eq!(seen().await, [pending.clone(), None, Some(Appended::Mismatch), None, pending]);
    bench
        .commit_done(ConformanceVisit::to(&key, &state, bench.now().await).reject(first.event_id, "no"))
        .await;
    assert_eq!(seen().await[0], repeat(EventStatus::Rejected));
    assert!(bench.stores.events.find_accepted(&[]).await.unwrap().is_empty());
}

pub async fn start_key_outlives_its_execution(bench: ConformanceBench) {
    let key = execution("one");
    let keyed_start = async |hash| {
        let mut new = new_execution(&bench, &key, bench.now().await);
        new.start = keyed(new.start, "k", hash);
        new
    };
    let first = keyed_start(1).await;
    let state = bench.start_as(first.clone()).await;
    let again = async |hash| bench.append_one(AppendRequest::Start(Box::new(keyed_start(hash).await))).await;
    let repeat = Appended::Repeat { event_id: first.start.event_id, status: EventStatus::Completed };
    assert_eq!(again(1).await, repeat);
    assert_eq!(again(2).await, Appended::Mismatch, "the key is judged before the execution's id");
    let last = bench.post(&key, "close").await;
    bench
        .commit_done(ConformanceVisit::to(&key, &state, bench.now().await).end(
            last,
            "closed",
            ExecutionPhase::Completed,
        ))
        .await;
    let later = bench.now().await.plus(HOUR);
    assert_eq!(
        bench.stores.housekeeping.purge_executions(RetentionCutoffs::uniform(later), 10).await.unwrap(),
        1
    );
    assert_eq!(again(1).await, repeat, "it is not started a second time");
    let kept = (key.tenant.clone(), IdempotencyKey { key: "k".to_owned(), request_hash: [1; 32] });
    assert_eq!(bench.stores.events.find_accepted(&[kept]).await.unwrap(), [Some(repeat)]);
    assert!(bench.stores.execution_views.find_executions(&[key]).await.unwrap()[0].is_none());
}

pub async fn key_with_other_content_is_mismatch(bench: ConformanceBench) {
    let key = execution("one");
    bench.start(&key).await;
    let first = keyed(event(&bench, &key, "pay"), "k", 1);
    bench.append_event(&first).await;
    let other = keyed(event(&bench, &key, "pay"), "k", 2);
    assert_eq!(bench.append_event(&other).await, Appended::Mismatch);
    assert_eq!(bench.mailbox(&key).await, [first.event_id]);
}

pub async fn used_key_is_judged_before_event_id(bench: ConformanceBench) {
    let key = execution("one");
    bench.start(&key).await;
    let (first, second) = (keyed(event(&bench, &key, "pay"), "k", 1), event(&bench, &key, "ship"));
    bench.append(&[first.clone(), second.clone()].map(AppendRequest::Event)).await;
    let repeat = Appended::Repeat { event_id: first.event_id, status: EventStatus::Pending };
    assert_eq!(bench.append_event(&keyed(second.clone(), "k", 1)).await, repeat);
    assert_eq!(bench.append_event(&keyed(second.clone(), "k", 2)).await, Appended::Mismatch);
    assert_eq!(bench.mailbox(&key).await, [first.event_id, second.event_id]);
}

pub async fn duplicate_key_in_batch_is_one_event(bench: ConformanceBench) {
    let key = execution("one");
    bench.start(&key).await;
    let first = keyed(event(&bench, &key, "pay"), "k", 1);
    let same = keyed(event(&bench, &key, "pay"), "k", 1);
    let other = keyed(event(&bench, &key, "pay"), "k", 2);
    let verdicts = bench.append(&[first.clone(), same, other].map(AppendRequest::Event)).await;
    assert!(matches!(verdicts[0], Appended::Accepted { .. }));
    let repeat = Appended::Repeat { event_id: first.event_id, status: EventStatus::Pending };
    assert_eq!(verdicts[1..], [repeat, Appended::Mismatch]);
    assert_eq!(bench.mailbox(&key).await, [first.event_id]);
}

pub async fn tenants_have_separate_keys(bench: ConformanceBench) {
    for owner in ["acme", "rival"] {
        let key = execution_of(owner, "one");
        bench.start(&key).await;
        let verdict = bench.append_event(&keyed(event(&bench, &key, "pay"), "k", 1)).await;
        assert!(matches!(verdict, Appended::Accepted { .. }), "{owner}: {verdict:?}");
    }
}

pub async fn concurrent_appends_of_key_make_one_event(bench: ConformanceBench) {
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

pub async fn crossed_append_keys_surface_no_deadlock(bench: ConformanceBench) {
    let (one, two) = (execution("one"), execution("two"));
    bench.start(&one).await;
    bench.start(&two).await;
    for round in 0..40 {
        let (a, b) = (format!("a{round}"), format!("b{round}"));
        let forth = [keyed(event(&bench, &one, "pay"), &a, 1), keyed(event(&bench, &two, "pay"), &b, 1)];
        let back = [keyed(event(&bench, &two, "pay"), &b, 1), keyed(event(&bench, &one, "pay"), &a, 1)];
        let [forth, back] = [forth, back].map(|batch| {
            let bench = bench.clone();
            tokio::spawn(async move { bench.append(&batch.map(AppendRequest::Event)).await })
        });
        let verdicts = [forth.await.unwrap(), back.await.unwrap()].concat();
        let accepted = verdicts.iter().filter(|verdict| matches!(verdict, Appended::Accepted { .. })).count();
        assert_eq!(accepted, 2, "round {round}: {verdicts:?}");
    }
}

pub async fn append_in_doubt_can_be_repeated(bench: ConformanceBench) {
    let key = execution("one");
    let mut new = new_execution(&bench, &key, bench.now().await);
    new.events = vec![event(&bench, &key, "pay")];
    let posted = event(&bench, &key, "ship");
    let batch = [AppendRequest::Start(Box::new(new.clone())), AppendRequest::Event(posted.clone())];
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

pub async fn batch_in_doubt_may_have_grown(bench: ConformanceBench) {
    let key = execution("one");
    bench.start(&key).await;
    let (old, new) = (event(&bench, &key, "pay"), event(&bench, &key, "ship"));
    bench.append_event(&old).await;
    let verdicts = bench.append(&[old.clone(), new.clone()].map(AppendRequest::Event)).await;
    assert_eq!(verdicts[0], Appended::Repeat { event_id: old.event_id, status: EventStatus::Pending });
    assert!(matches!(verdicts[1], Appended::Accepted { .. }));
    assert_eq!(bench.mailbox(&key).await, [old.event_id, new.event_id]);
}

pub async fn repeated_start_appends_nothing(bench: ConformanceBench) {
    let key = execution("one");
    let mut first = new_execution(&bench, &key, bench.now().await);
    first.events = vec![event(&bench, &key, "pay")];
    bench.start_as(first.clone()).await;
    let mut again = new_execution(&bench, &key, bench.now().await);
    again.events = vec![event(&bench, &key, "pay")];
    let verdict = bench.append_one(AppendRequest::Start(Box::new(again))).await;
    let status = EventStatus::Completed;
    assert_eq!(verdict, Appended::Repeat { event_id: first.start.event_id, status });
    assert_eq!(bench.mailbox(&key).await, [first.events[0].event_id]);
    assert_eq!(bench.execution(&key).await.state.seq, Seq::FIRST);
}

pub async fn start_with_other_input_is_mismatch(bench: ConformanceBench) {
    let key = execution("one");
    bench.start(&key).await;
    let mut other = new_execution(&bench, &key, bench.now().await);
    other.input_hash = [8; 32];
    other.events = vec![event(&bench, &key, "pay")];
    assert_eq!(bench.append_one(AppendRequest::Start(Box::new(other))).await, Appended::Mismatch);
    assert!(bench.mailbox(&key).await.is_empty());
}

pub async fn duplicate_start_in_batch_is_one_execution(bench: ConformanceBench) {
    let key = execution("one");
    let now = bench.now().await;
    let starts = [(); 3].map(|()| new_execution(&bench, &key, now));
    let [first, same, mut other] = starts;
    other.input_hash = [8; 32];
    let batch = [first.clone(), same, other].map(|new| AppendRequest::Start(Box::new(new)));
    let verdicts = bench.append(&batch).await;
    assert!(matches!(verdicts[0], Appended::Accepted { .. }));
    let repeat = Appended::Repeat { event_id: first.start.event_id, status: EventStatus::Completed };
    assert_eq!(verdicts[1..], [repeat, Appended::Mismatch]);
}

pub async fn tenants_have_separate_execution_ids(bench: ConformanceBench) {
    bench.start(&execution_of("acme", "one")).await;
    bench.start(&execution_of("rival", "one")).await;
}

pub async fn concurrent_starts_make_one_execution(bench: ConformanceBench) {
    let key = execution("one");
    let now = bench.now().await;
    let tasks: Vec<_> = (0..20)
        .map(|_| {
            let mut new = new_execution(&bench, &key, now);
            new.events = vec![event(&bench, &key, "pay")];
            let bench = bench.clone();
            tokio::spawn(async move { bench.append_one(AppendRequest::Start(Box::new(new))).await })
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
