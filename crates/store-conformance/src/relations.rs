//! Children, correlations and signals.

use millstream_model::id::{EventId, ExecutionKey, Seq};
use millstream_model::status::{EventStatus, ExecutionPhase};
use millstream_model::time::Timestamp;
use millstream_store::event_log::{
    AppendRequest, Appended, ExecutionStart, IdempotencyKey, SignalSubmission,
};
use millstream_workflow::definition::ParentClose;
use millstream_workflow::log::{ExecutionParent, ExecutionState};

use crate::ConformanceBench;
use crate::commit_builder::ConformanceVisit;
use crate::fixture::{HOUR, event, execution, execution_of, name, new_execution, raw, tenant};

pub(crate) fn correlated(
    bench: &ConformanceBench,
    key: &ExecutionKey,
    correlation: &str,
    now: Timestamp,
) -> ExecutionStart {
    let mut new = new_execution(bench, key, now);
    new.applied.transition.decision.correlation = Some(correlation.to_owned());
    new.state.correlation = Some(correlation.to_owned());
    new
}

async fn start(bench: &ConformanceBench, id: &str, correlation: &str) -> ExecutionState {
    let new = correlated(bench, &execution(id), correlation, bench.now().await);
    bench.start_as(new).await
}

pub(crate) fn signal(bench: &ConformanceBench, correlation: &str, now: Timestamp) -> SignalSubmission {
    SignalSubmission {
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

pub(crate) async fn send(bench: &ConformanceBench, signal: &SignalSubmission) -> Appended {
    bench.append_one(AppendRequest::Signal(Box::new(signal.clone()))).await
}

async fn buffered(bench: &ConformanceBench, id: EventId) -> bool {
    bench.stores.relations.find_signals(&[(tenant("acme"), id)]).await.unwrap().remove(0).is_some()
}

pub async fn signal_finds_execution_by_correlation(bench: ConformanceBench) {
    start(&bench, "one", "o-1").await;
    start(&bench, "two", "o-2").await;
    let sent = signal(&bench, "o-2", bench.now().await);
    let Appended::Delivered { execution: found, .. } = send(&bench, &sent).await else { panic!("not found") };
    assert_eq!(found, execution("two"));
    assert_eq!(bench.mailbox(&found).await, [sent.event_id]);
    let view = bench.event(&found, sent.event_id).await;
    assert_eq!((view.name, view.payload, view.status), (name("paid"), sent.payload, EventStatus::Pending));
    let relations = &bench.stores.relations;
    let found = relations.find_correlated(&tenant("acme"), "o-1", None, 5).await.unwrap();
    assert_eq!(found.into_iter().map(|(key, _)| key).collect::<Vec<_>>(), [execution("one")]);
    assert!(relations.find_correlated(&tenant("x"), "o-1", None, 5).await.unwrap().is_empty());
}

pub async fn unmatched_signal_is_buffered_until_match(bench: ConformanceBench) {
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

pub async fn expired_signal_is_not_delivered(bench: ConformanceBench) {
    let now = bench.now().await;
    let sent = SignalSubmission { expires_at: now, ..signal(&bench, "o-1", now) };
    send(&bench, &sent).await;
    bench.passed(now).await;
    start(&bench, "one", "o-1").await;
    assert!(bench.mailbox(&execution("one")).await.is_empty());
}

pub async fn ambiguous_signal_is_refused(bench: ConformanceBench) {
    start(&bench, "one", "o-1").await;
    start(&bench, "two", "o-1").await;
    let now = bench.now().await;
    let sent = signal(&bench, "o-1", now);
    assert_eq!(send(&bench, &sent).await, Appended::Ambiguous { executions: 2 });
    let none = SignalSubmission { definition: Some(name("other")), ..signal(&bench, "o-1", now) };
    assert_eq!(send(&bench, &none).await, Appended::Buffered);
}

pub async fn ended_execution_gets_no_signal(bench: ConformanceBench) {
    let key = execution("one");
    let state = start(&bench, "one", "o-1").await;
    let end = bench.post(&key, "end").await;
    let now = bench.now().await;
    bench
        .commit_done(ConformanceVisit::to(&key, &state, now).end(end, "done", ExecutionPhase::Completed))
        .await;
    assert_eq!(send(&bench, &signal(&bench, "o-1", now)).await, Appended::Buffered);
}

pub async fn correlation_counts_from_its_transition(bench: ConformanceBench) {
    let key = execution("one");
    let state = start(&bench, "one", "o-1").await;
    let waiting = signal(&bench, "o-2", bench.now().await);
    send(&bench, &waiting).await;
    let id = bench.post(&key, "rename").await;
    let now = bench.now().await;
    let visit = ConformanceVisit::to(&key, &state, now).apply(id, "renamed").correlating("o-2");
    bench.commit_done(visit).await;
    assert_eq!(bench.mailbox(&key).await, [waiting.event_id]);
    assert_eq!(send(&bench, &signal(&bench, "o-1", now)).await, Appended::Buffered);
    let sent = send(&bench, &signal(&bench, "o-2", now)).await;
    assert!(matches!(sent, Appended::Delivered { .. }), "{sent:?}");
}

pub async fn repeated_signal_is_repeat(bench: ConformanceBench) {
    let now = bench.now().await;
    let key = Some(IdempotencyKey { key: "k".to_owned(), request_hash: [1; 32] });
    let sent = SignalSubmission { idempotency: key.clone(), ..signal(&bench, "o-1", now) };
    assert_eq!(send(&bench, &sent).await, Appended::Buffered);
    let pending = Appended::Repeat { event_id: sent.event_id, status: EventStatus::Pending };
    assert_eq!(send(&bench, &sent).await, pending, "the same id");
    let again = SignalSubmission { idempotency: key, ..signal(&bench, "o-1", now) };
    assert_eq!(send(&bench, &again).await, pending, "the same key");
    let other = Some(IdempotencyKey { key: "k".to_owned(), request_hash: [2; 32] });
    let other = SignalSubmission { idempotency: other, ..signal(&bench, "o-1", now) };
    assert_eq!(send(&bench, &other).await, Appended::Mismatch);
    start(&bench, "one", "o-1").await;
    assert_eq!(bench.mailbox(&execution("one")).await, [sent.event_id]);
    assert_eq!(send(&bench, &sent).await, pending);
}

pub async fn signal_key_stays_while_buffered(bench: ConformanceBench) {
    let now = bench.now().await;
    let key = Some(IdempotencyKey { key: "k".to_owned(), request_hash: [1; 32] });
    let sent = SignalSubmission { idempotency: key.clone(), ..signal(&bench, "o-1", now) };
    send(&bench, &sent).await;
    let later = bench.passed(now).await.plus(HOUR);
    assert_eq!(bench.stores.housekeeping.purge_keys(later, 10).await.unwrap(), 0);
    let again = SignalSubmission { idempotency: key, ..signal(&bench, "o-1", now) };
    let repeat = Appended::Repeat { event_id: sent.event_id, status: EventStatus::Pending };
    assert_eq!(send(&bench, &again).await, repeat);
    bench.stores.housekeeping.purge_workers(later.plus(HOUR)).await.unwrap();
    assert!(!buffered(&bench, sent.event_id).await, "expired, and forgotten");
    assert_eq!(bench.stores.housekeeping.purge_keys(later, 10).await.unwrap(), 1);
}

pub async fn concurrent_signal_and_start_meet(bench: ConformanceBench) {
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

pub async fn children_are_found_by_parent(bench: ConformanceBench) {
    let parent = execution("parent");
    bench.start(&parent).await;
    let now = bench.now().await;
    let of = |close| ExecutionParent {
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
    let found = relations.list_children(&parent, ParentClose::Cancel, None, 10).await.unwrap();
    assert_eq!(found, [execution("c-1"), execution("c-2")]);
    let rest =
        relations.list_children(&parent, ParentClose::Cancel, Some(&execution("c-1")), 10).await.unwrap();
    assert_eq!(rest, [execution("c-2")]);
    let abandoned = relations.list_children(&parent, ParentClose::Abandon, None, 10).await.unwrap();
    assert_eq!(abandoned, [execution("c-3")]);
}

pub async fn ended_children_are_not_found(bench: ConformanceBench) {
    let (parent, child) = (execution("parent"), execution("child"));
    bench.start(&parent).await;
    let mut new = new_execution(&bench, &child, bench.now().await);
    let (close, action) = (ParentClose::Cancel, name("sub"));
    let of = ExecutionParent { execution: parent.execution.clone(), seq: Seq(2), action, close, depth: 2 };
    new.applied.transition.decision.parent = Some(of.clone());
    new.state.parent = Some(of);
    let state = bench.start_as(new).await;
    let relations = &bench.stores.relations;
    assert_eq!(relations.list_children(&parent, close, None, 10).await.unwrap(), [child.clone()]);
    assert!(relations.list_children(&parent, close, None, 0).await.unwrap().is_empty());
    let end = bench.post(&child, "end").await;
    let now = bench.now().await;
    bench
        .commit_done(ConformanceVisit::to(&child, &state, now).end(end, "done", ExecutionPhase::Completed))
        .await;
    assert!(relations.list_children(&parent, close, None, 10).await.unwrap().is_empty());
}

pub async fn signal_waits_for_its_definition(bench: ConformanceBench) {
    let now = bench.now().await;
    let for_other = SignalSubmission { definition: Some(name("invoice")), ..signal(&bench, "o-1", now) };
    let for_order = SignalSubmission { definition: Some(name("order")), ..signal(&bench, "o-1", now) };
    send(&bench, &for_other).await;
    send(&bench, &for_order).await;
    start(&bench, "one", "o-1").await;
    assert_eq!(bench.mailbox(&execution("one")).await, [for_order.event_id]);
    assert!(buffered(&bench, for_other.event_id).await);
    let again = SignalSubmission { definition: Some(name("invoice")), ..signal(&bench, "o-1", now) };
    assert_eq!(send(&bench, &again).await, Appended::Buffered);
    let relations = &bench.stores.relations;
    let invoices =
        relations.find_correlated(&tenant("acme"), "o-1", Some(&name("invoice")), 5).await.unwrap();
    assert!(invoices.is_empty());
}

pub async fn batch_items_meet_by_correlation(bench: ConformanceBench) {
    let now = bench.now().await;
    let keys = ["one", "two", "three"].map(execution);
    let begin = |key: &ExecutionKey, correlation| {
        AppendRequest::Start(Box::new(correlated(&bench, key, correlation, now)))
    };
    let sent = ["o-1", "o-2", "o-1", "o-3"].map(|correlation| signal(&bench, correlation, now));
    let signals = sent.clone().map(|sent| AppendRequest::Signal(Box::new(sent)));
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

pub async fn refused_signal_consumes_no_key(bench: ConformanceBench) {
    let (one, _) = (start(&bench, "one", "o-1").await, start(&bench, "two", "o-1").await);
    let now = bench.now().await;
    let idempotency = Some(IdempotencyKey { key: "k".to_owned(), request_hash: [1; 32] });
    let sent = SignalSubmission { idempotency, ..signal(&bench, "o-1", now) };
    assert_eq!(send(&bench, &sent).await, Appended::Ambiguous { executions: 2 });
    let key = execution("one");
    let end = bench.post(&key, "end").await;
    bench
        .commit_done(ConformanceVisit::to(&key, &one, now).end(end, "done", ExecutionPhase::Completed))
        .await;
    let delivered = send(&bench, &sent).await;
    assert!(matches!(&delivered, Appended::Delivered { execution: to, .. } if *to == execution("two")));
}

pub async fn duplicate_signal_key_is_one_signal(bench: ConformanceBench) {
    let now = bench.now().await;
    let keyed = |hash| {
        let idempotency = Some(IdempotencyKey { key: "k".to_owned(), request_hash: [hash; 32] });
        SignalSubmission { idempotency, ..signal(&bench, "o-1", now) }
    };
    let sent = [keyed(1), keyed(1), keyed(2)];
    let batch = sent.clone().map(|sent| AppendRequest::Signal(Box::new(sent)));
    let repeat = Appended::Repeat { event_id: sent[0].event_id, status: EventStatus::Pending };
    assert_eq!(bench.append(&batch).await, [Appended::Buffered, repeat, Appended::Mismatch]);
    start(&bench, "one", "o-1").await;
    assert_eq!(bench.mailbox(&execution("one")).await, [sent[0].event_id]);
}
