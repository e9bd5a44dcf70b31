//! Children, correlations and signals.

use millstream_core::definition::ParentClose;
use millstream_core::id::{EventId, ExecutionKey, Seq};
use millstream_core::log::{Parent, State};
use millstream_core::status::{EventStatus, Phase};
use millstream_core::time::Timestamp;

use super::Bench;
use super::fixture::{HOUR, event, execution, execution_of, name, new_execution, raw, tenant};
use super::visit::Visit;
use crate::event_log::{Append, Appended, Idempotency, NewExecution, NewSignal};

pub(super) fn correlated(
    bench: &Bench,
    key: &ExecutionKey,
    correlation: &str,
    now: Timestamp,
) -> NewExecution {
    let mut new = new_execution(bench, key, now);
    new.applied.transition.decision.correlation = Some(correlation.to_owned());
    new.state.correlation = Some(correlation.to_owned());
    new
}

async fn start(bench: &Bench, id: &str, correlation: &str) -> State {
    let new = correlated(bench, &execution(id), correlation, bench.now().await);
    bench.start_as(new).await
}

pub(super) fn signal(bench: &Bench, correlation: &str, now: Timestamp) -> NewSignal {
    NewSignal {
        event_id: bench.event_id(),
        tenant: tenant("acme"),
        correlation: correlation.to_owned(),
        definition: None,
        name: name("paid"),
        payload: raw(r#"{"n":  1.50}"#),
        idempotency: None,
        actor: Some("tester".to_owned()),
        traceparent: Some("00-1-2-01".to_owned()),
        expires_at: now.plus(HOUR),
    }
}

pub(super) async fn send(bench: &Bench, signal: &NewSignal) -> Appended {
    bench.append_one(Append::Signal(Box::new(signal.clone()))).await
}

async fn buffered(bench: &Bench, id: EventId) -> bool {
    bench.stores.relations.signals(&[(tenant("acme"), id)]).await.unwrap().remove(0).is_some()
}

pub async fn a_signal_finds_the_execution_of_its_correlation(bench: Bench) {
    start(&bench, "one", "o-1").await;
    start(&bench, "two", "o-2").await;
    let sent = signal(&bench, "o-2", bench.now().await);
    let Appended::Delivered { execution: found, .. } = send(&bench, &sent).await else { panic!("not found") };
    assert_eq!(found, execution("two"));
    assert_eq!(bench.mailbox(&found).await, [sent.event_id]);
    let view = bench.event(&found, sent.event_id).await;
    assert_eq!((view.name, view.payload, view.status), (name("paid"), sent.payload, EventStatus::Pending));
    let relations = &bench.stores.relations;
    let found = relations.correlated(&tenant("acme"), "o-1", None, 5).await.unwrap();
    assert_eq!(found.into_iter().map(|(key, _)| key).collect::<Vec<_>>(), [execution("one")]);
    assert!(relations.correlated(&tenant("x"), "o-1", None, 5).await.unwrap().is_empty());
}

pub async fn a_signal_that_nobody_waits_for_is_kept_until_somebody_does(bench: Bench) {
    let now = bench.now().await;
    let (first, second, other) =
        (signal(&bench, "o-1", now), signal(&bench, "o-1", now), signal(&bench, "o-2", now));
    for sent in [&first, &second, &other] {
        assert_eq!(send(&bench, sent).await, Appended::Buffered);
        assert!(buffered(&bench, sent.event_id).await);
    }
    let key = execution("one");
    let mut new = correlated(&bench, &key, "o-1", now);
    let with = event(&bench, &key, "begin");
    new.events.push(with.clone());
    bench.start_as(new).await;
    assert_eq!(bench.mailbox(&key).await, [with.event_id, first.event_id, second.event_id]);
    assert!(!buffered(&bench, first.event_id).await && buffered(&bench, other.event_id).await);
    assert_eq!(bench.event(&key, first.event_id).await.payload, first.payload);
}

pub async fn a_signal_that_has_expired_is_not_delivered(bench: Bench) {
    let now = bench.now().await;
    let sent = NewSignal { expires_at: now, ..signal(&bench, "o-1", now) };
    send(&bench, &sent).await;
    bench.passed(now).await;
    start(&bench, "one", "o-1").await;
    assert!(bench.mailbox(&execution("one")).await.is_empty());
}

pub async fn a_signal_for_several_executions_is_refused(bench: Bench) {
    start(&bench, "one", "o-1").await;
    start(&bench, "two", "o-1").await;
    let now = bench.now().await;
    let sent = signal(&bench, "o-1", now);
    assert_eq!(send(&bench, &sent).await, Appended::Ambiguous { executions: 2 });
    let none = NewSignal { definition: Some(name("other")), ..signal(&bench, "o-1", now) };
    assert_eq!(send(&bench, &none).await, Appended::Buffered);
}

pub async fn an_execution_that_has_ended_gets_no_signals(bench: Bench) {
    let key = execution("one");
    let state = start(&bench, "one", "o-1").await;
    let end = bench.post(&key, "end").await;
    let now = bench.now().await;
    bench.commit_done(Visit::to(&key, &state, now).end(end, "done", Phase::Completed)).await;
    assert_eq!(send(&bench, &signal(&bench, "o-1", now)).await, Appended::Buffered);
}

pub async fn a_correlation_that_a_transition_sets_counts_from_then_on(bench: Bench) {
    let key = execution("one");
    let state = start(&bench, "one", "o-1").await;
    let waiting = signal(&bench, "o-2", bench.now().await);
    send(&bench, &waiting).await;
    let id = bench.post(&key, "rename").await;
    let now = bench.now().await;
    let visit = Visit::to(&key, &state, now).apply(id, "renamed").correlating("o-2");
    bench.commit_done(visit).await;
    assert_eq!(bench.mailbox(&key).await, [waiting.event_id]);
    assert_eq!(send(&bench, &signal(&bench, "o-1", now)).await, Appended::Buffered);
    let sent = send(&bench, &signal(&bench, "o-2", now)).await;
    assert!(matches!(sent, Appended::Delivered { .. }), "{sent:?}");
}

pub async fn a_repeated_signal_is_a_repeat(bench: Bench) {
    let now = bench.now().await;
    let key = Some(Idempotency { key: "k".to_owned(), request_hash: [1; 32] });
    let sent = NewSignal { idempotency: key.clone(), ..signal(&bench, "o-1", now) };
    assert_eq!(send(&bench, &sent).await, Appended::Buffered);
    let pending = Appended::Repeat { event_id: sent.event_id, status: EventStatus::Pending };
    assert_eq!(send(&bench, &sent).await, pending, "the same id");
    let again = NewSignal { idempotency: key, ..signal(&bench, "o-1", now) };
    assert_eq!(send(&bench, &again).await, pending, "the same key");
    let other = Some(Idempotency { key: "k".to_owned(), request_hash: [2; 32] });
    let other = NewSignal { idempotency: other, ..signal(&bench, "o-1", now) };
    assert_eq!(send(&bench, &other).await, Appended::Mismatch);
    start(&bench, "one", "o-1").await;
    assert_eq!(bench.mailbox(&execution("one")).await, [sent.event_id]);
    assert_eq!(send(&bench, &sent).await, pending);
}

pub async fn a_key_stays_as_long_as_its_signal_waits(bench: Bench) {
    let now = bench.now().await;
    let key = Some(Idempotency { key: "k".to_owned(), request_hash: [1; 32] });
    let sent = NewSignal { idempotency: key.clone(), ..signal(&bench, "o-1", now) };
    send(&bench, &sent).await;
    let later = bench.passed(now).await.plus(HOUR);
    assert_eq!(bench.stores.housekeeping.purge_keys(later, 10).await.unwrap(), 0);
    let again = NewSignal { idempotency: key, ..signal(&bench, "o-1", now) };
    let repeat = Appended::Repeat { event_id: sent.event_id, status: EventStatus::Pending };
    assert_eq!(send(&bench, &again).await, repeat);
    bench.stores.housekeeping.purge_workers(later.plus(HOUR)).await.unwrap();
    assert!(!buffered(&bench, sent.event_id).await, "expired, and forgotten");
    assert_eq!(bench.stores.housekeeping.purge_keys(later, 10).await.unwrap(), 1);
}

pub async fn a_signal_and_a_start_at_once_find_each_other(bench: Bench) {
    for round in 0..100 {
        let correlation = format!("o-{round}");
        let now = bench.now().await;
        let sent = signal(&bench, &correlation, now);
        let key = execution(&format!("e{round}"));
        let new = correlated(&bench, &key, &correlation, now);
        let (sending, starting) = (bench.clone(), bench.clone());
        let signal = sent.clone();
        let sending = tokio::spawn(async move { send(&sending, &signal).await });
        let starting = tokio::spawn(async move { starting.start_as(new).await });
        sending.await.unwrap();
        starting.await.unwrap();
        assert_eq!(bench.mailbox(&key).await, [sent.event_id], "round {round}");
    }
}

pub async fn children_are_found_by_their_parent(bench: Bench) {
    let parent = execution("parent");
    bench.start(&parent).await;
    let now = bench.now().await;
    let of = |close| Parent {
        execution: parent.execution.clone(),
        seq: Seq(2),
        action: name("sub"),
        close,
        depth: 1,
    };
    for (id, close) in
        [("c-2", ParentClose::Cancel), ("c-1", ParentClose::Cancel), ("c-3", ParentClose::Abandon)]
    {
        let mut new = new_execution(&bench, &execution(id), now);
        new.applied.transition.decision.parent = Some(of(close));
        new.state.parent = Some(of(close));
        bench.start_as(new).await;
    }
    let mut foreign = new_execution(&bench, &execution_of("other", "c-0"), now);
    foreign.applied.transition.decision.parent = Some(of(ParentClose::Cancel));
    foreign.state.parent = Some(of(ParentClose::Cancel));
    bench.start_as(foreign).await;
    let relations = &bench.stores.relations;
    let found = relations.children(&parent, ParentClose::Cancel, None, 10).await.unwrap();
    assert_eq!(found, [execution("c-1"), execution("c-2")]);
    let rest = relations.children(&parent, ParentClose::Cancel, Some(&execution("c-1")), 10).await.unwrap();
    assert_eq!(rest, [execution("c-2")]);
    let abandoned = relations.children(&parent, ParentClose::Abandon, None, 10).await.unwrap();
    assert_eq!(abandoned, [execution("c-3")]);
}

pub async fn children_that_have_ended_are_not_found(bench: Bench) {
    let (parent, child) = (execution("parent"), execution("child"));
    bench.start(&parent).await;
    let mut new = new_execution(&bench, &child, bench.now().await);
    let (close, action) = (ParentClose::Cancel, name("sub"));
    let of = Parent { execution: parent.execution.clone(), seq: Seq(2), action, close, depth: 2 };
    new.applied.transition.decision.parent = Some(of.clone());
    new.state.parent = Some(of);
    let state = bench.start_as(new).await;
    let relations = &bench.stores.relations;
    assert_eq!(relations.children(&parent, close, None, 10).await.unwrap(), [child.clone()]);
    assert!(relations.children(&parent, close, None, 0).await.unwrap().is_empty());
    let end = bench.post(&child, "end").await;
    let now = bench.now().await;
    bench.commit_done(Visit::to(&child, &state, now).end(end, "done", Phase::Completed)).await;
    assert!(relations.children(&parent, close, None, 10).await.unwrap().is_empty());
}

pub async fn a_signal_for_one_definition_waits_for_an_execution_of_it(bench: Bench) {
    let now = bench.now().await;
    let for_other = NewSignal { definition: Some(name("invoice")), ..signal(&bench, "o-1", now) };
    let for_order = NewSignal { definition: Some(name("order")), ..signal(&bench, "o-1", now) };
    send(&bench, &for_other).await;
    send(&bench, &for_order).await;
    start(&bench, "one", "o-1").await;
    assert_eq!(bench.mailbox(&execution("one")).await, [for_order.event_id]);
    assert!(buffered(&bench, for_other.event_id).await);
    let again = NewSignal { definition: Some(name("invoice")), ..signal(&bench, "o-1", now) };
    assert_eq!(send(&bench, &again).await, Appended::Buffered);
    let relations = &bench.stores.relations;
    let invoices = relations.correlated(&tenant("acme"), "o-1", Some(&name("invoice")), 5).await.unwrap();
    assert!(invoices.is_empty());
}

pub async fn items_of_one_batch_find_each_other_by_correlation(bench: Bench) {
    let now = bench.now().await;
    let keys = ["one", "two", "three"].map(execution);
    let begin =
        |key: &ExecutionKey, correlation| Append::Start(Box::new(correlated(&bench, key, correlation, now)));
    let sent = ["o-1", "o-2", "o-1", "o-3"].map(|correlation| signal(&bench, correlation, now));
    let signals = sent.clone().map(|sent| Append::Signal(Box::new(sent)));
    let [first, second, third, fourth] = signals;
    let batch = [
        first,
        begin(&keys[0], "o-1"),
        begin(&keys[1], "o-2"),
        second,
        third,
        fourth,
        begin(&keys[2], "o-1"),
    ];
    let verdicts = bench.append(&batch).await;
    assert_eq!(verdicts[0], Appended::Buffered);
    assert!(matches!(&verdicts[3], Appended::Delivered { execution, .. } if *execution == keys[1]));
    assert!(matches!(&verdicts[4], Appended::Delivered { execution, .. } if *execution == keys[0]));
    assert_eq!(verdicts[5], Appended::Buffered);
    assert_eq!(bench.mailbox(&keys[0]).await, [sent[0].event_id, sent[2].event_id]);
    assert_eq!(bench.mailbox(&keys[1]).await, [sent[1].event_id]);
    assert!(bench.mailbox(&keys[2]).await.is_empty());
    let both = signal(&bench, "o-1", now);
    assert_eq!(send(&bench, &both).await, Appended::Ambiguous { executions: 2 });
}

pub async fn a_refused_signal_burns_no_key(bench: Bench) {
    let (one, _) = (start(&bench, "one", "o-1").await, start(&bench, "two", "o-1").await);
    let now = bench.now().await;
    let idempotency = Some(Idempotency { key: "k".to_owned(), request_hash: [1; 32] });
    let sent = NewSignal { idempotency, ..signal(&bench, "o-1", now) };
    assert_eq!(send(&bench, &sent).await, Appended::Ambiguous { executions: 2 });
    let key = execution("one");
    let end = bench.post(&key, "end").await;
    bench.commit_done(Visit::to(&key, &one, now).end(end, "done", Phase::Completed)).await;
    let delivered = send(&bench, &sent).await;
    assert!(matches!(&delivered, Appended::Delivered { execution: to, .. } if *to == execution("two")));
}

pub async fn one_key_twice_in_one_batch_is_one_signal(bench: Bench) {
    let now = bench.now().await;
    let keyed = |hash| {
        let idempotency = Some(Idempotency { key: "k".to_owned(), request_hash: [hash; 32] });
        NewSignal { idempotency, ..signal(&bench, "o-1", now) }
    };
    let sent = [keyed(1), keyed(1), keyed(2)];
    let batch = sent.clone().map(|sent| Append::Signal(Box::new(sent)));
    let repeat = Appended::Repeat { event_id: sent[0].event_id, status: EventStatus::Pending };
    assert_eq!(bench.append(&batch).await, [Appended::Buffered, repeat, Appended::Mismatch]);
    start(&bench, "one", "o-1").await;
    assert_eq!(bench.mailbox(&execution("one")).await, [sent[0].event_id]);
}
